"""What A3, B8, G3 and G8 count and measure: work, longest chain and reach of each family of layers."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from headwork import sizes
from headwork.documents import Table
from headwork.mechanisms import convolution_1d, recurrence, self_attention
from headwork.numbers import OperationCount, ShapeTensor
from headwork.problems.book import BOOK, Solution, hand_tensor
from headwork.readings import recorder

REQUIRED_PACKAGES = ("torch", "sklearn")  # the latter brings the digits


def family_table() -> Table:
    """Each family's multiply-adds, counted by running its definition on shapes, and what was published."""
    families = (
        ("convolution, k x k kernel", sizes.growth("convolution-2d"), "k^2 d^2 n", "O(k^2 d n)"),
        ("depthwise convolution", sizes.growth("convolution-2d", depthwise=True), "k^2 d n", ""),
        ("recurrence", sizes.growth("recurrence"), "n d^2", "O(n d^2)"),
        (
            "self-attention, with projections",
            sizes.growth("multi-head-attention"),
            "n^2 d + n d^2",
            "O(n^2 d)",
        ),
    )
    rows = [(name, str(ledger.total.multiply_adds), *orders) for name, ledger, *orders in families]
    notes = [
        "Counted on shapes; s^2 = n is the number of pixels, d the channels or width, k the kernel size."
    ]
    columns = ("family", "multiply-adds counted", "grows as", "published")
    return Table("Work of each family", columns, rows, notes)


def answer_table() -> Table:
    """CNNs, RNNs and transformers by what the hand-out asks, each cell with the figure that was measured."""
    rows = [tuple(row) for row in BOOK["A3"]["table"]]
    note = (
        "Measured by headwork compare --families cnn,lstm,transformer: seed 0, 250 steps, about 10,000 "
        "parameters each; kept in results/comparison.json. The RNN is an LSTM."
    )
    return Table("CNNs, RNNs and transformers", ("", "CNN", "RNN", "transformer"), rows, [note])


def sequential_steps(function: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> int:
    """Sequential steps of a mechanism: its number of time steps, or 1 where it has none."""
    recorded: dict[str, Any] = {}
    tensors = (ShapeTensor(shape, OperationCount()) for shape in shapes)
    function(*tensors, **options, note=recorder(recorded))
    return len({path.split("/")[0] for path in recorded if path.startswith("step ")}) or 1


def reach(layer: Callable[[Any], Any], tokens: Any) -> int:
    """The largest distance at which changing the first token changes an output."""
    moved = tokens.copy()
    moved[0] += 1
    changed = np.abs(layer(tokens) - layer(moved)).max(axis=-1) > 1e-9
    return int(np.max(np.nonzero(changed)[0]))


def attend(tokens: Any, **options: Any) -> Any:
    return self_attention(hand_tensor(tokens), **options).array


def chain_table() -> Table:
    """The longest chain and the reach of one layer over n tokens of width 4, run and counted."""
    n, random = 16, np.random.default_rng(0)
    tokens, square = random.normal(size=(n, 4)), random.normal(size=(4, 4)) / 2
    kernel = random.normal(size=(4, 4, 3))

    def convolve(x: Any) -> Any:
        return convolution_1d(hand_tensor(x.T), hand_tensor(kernel), padding=1).array.T

    def recur(x: Any) -> Any:
        matrix = hand_tensor(square)
        return np.stack([recurrence(hand_tensor(x[: t + 1]), matrix, matrix).array for t in range(n)])

    convolution_chain = sequential_steps(convolution_1d, (4, n), (4, 4, 3), padding=1)
    rows = [
        ("convolution, kernel 3", convolution_chain, reach(convolve, tokens)),
        ("recurrence", sequential_steps(recurrence, (n, 4), (4, 4), (4, 4)), reach(recur, tokens)),
        ("self-attention", sequential_steps(self_attention, (n, 4)), reach(attend, tokens)),
    ]
    notes = [
        "Longest chain: how many steps must wait for one another. Reach: how far away an input can be and "
        "still change an output of one layer."
    ]
    return Table(f"One layer over {n} tokens", ("family", "longest chain", "reach"), rows, notes)


def show_measured(solution: Solution, part: str) -> None:
    """A part of the comparison, measured now; without torch, a line that says what is missing."""
    missing = [name for name in REQUIRED_PACKAGES if find_spec(name) is None]
    if missing:
        solution.say(f"""The measured part is left out: {" and ".join(missing)} is not installed. Try
        pip install ".[train]", then headwork compare.""")
        return
    from headwork.comparison import report

    for item in getattr(report, part)():
        solution.show(item)


def torch_flops(name: str, n: int, d: int) -> int | None:
    """The FLOPs of a family's layer by torch's own counter; None without torch."""
    if find_spec("torch") is None:
        return None
    from headwork.comparison import report

    return report.torch_flops(name, n, d)
