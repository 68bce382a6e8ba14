"""What A3, B8, G3 and G8 count and measure: work, longest chain and reach of each family; parts of the comparison."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np

from headwork import sizes
from headwork.mechanisms import convolution_1d, recurrence, self_attention
from headwork.numbers import HandTensor, ShapeTensor, Work
from headwork.pages.tables import Table
from headwork.problems.book import Worked

NEEDED = ("torch", "sklearn")  # the latter brings the digits


def growth_formulas() -> dict[str, str]:
    """Multiply-adds of each family, counted by running its definition on shapes."""
    counted = {
        "convolution": sizes.growth("convolution-2d"),
        "depthwise": sizes.growth("convolution-2d", depthwise=True),
        "recurrence": sizes.growth("recurrence"),
        "attention": sizes.growth("multi-head-attention"),
    }
    return {name: str(ledger.total.multiply_adds) for name, ledger in counted.items()}


def family_table() -> Table:
    """Each family's work, and what was published."""
    found = growth_formulas()
    rows = [
        ("convolution, k x k kernel", found["convolution"], "k^2 d^2 n", "O(k^2 d n)"),
        ("depthwise convolution", found["depthwise"], "k^2 d n", ""),
        ("recurrence", found["recurrence"], "n d^2", "O(n d^2)"),
        ("self-attention, with projections", found["attention"], "n^2 d + n d^2", "O(n^2 d)"),
    ]
    notes = [
        "Counted on shapes; s^2 = n is the number of pixels, d the channels or width, k the kernel's side."
    ]
    return Table(
        "Work of each family", ("family", "multiply-adds counted", "grows as", "published"), rows, notes
    )


def chain(function: Any, *shapes: tuple[int, ...], **options: Any) -> int:
    """Steps that must wait for one another: one, or as many as the mechanism has time steps."""
    scopes = set()

    def note(name: str, value: Any, /) -> Any:
        scopes.add(name.split("/")[0] if name.startswith("step ") else "all at once")
        return value

    work = Work()
    function(*(ShapeTensor(shape, work) for shape in shapes), **options, note=note)
    return len({scope for scope in scopes if scope.startswith("step ")}) or 1


def reach(outputs: Any, tokens: Any) -> int:
    """How far an input reaches: the largest distance at which changing one token changes an output."""
    moved = tokens.copy()
    moved[0] += 1
    changed = np.abs(outputs(tokens) - outputs(moved)).max(axis=-1) > 1e-9
    return int(np.max(np.nonzero(changed)[0]))


def chain_table(n: int = 16) -> Table:
    """The longest chain and the reach of one layer over n tokens of width 4, run and counted."""
    random = np.random.default_rng(0)
    tokens, square = random.normal(size=(n, 4)), random.normal(size=(4, 4)) / 2
    kernel = random.normal(size=(4, 4, 3))

    def convolved(x: Any) -> Any:
        return convolution_1d(HandTensor(x.T), HandTensor(kernel), padding=1).array.T

    def attended(x: Any) -> Any:
        return self_attention(HandTensor(x)).array

    def recurrent(x: Any) -> Any:
        last = [
            recurrence(HandTensor(x[: t + 1]), HandTensor(square), HandTensor(square)).array for t in range(n)
        ]
        return np.stack(last)

    rows = [
        (
            "convolution, kernel 3",
            chain(convolution_1d, (4, n), (4, 4, 3), padding=1),
            reach(convolved, tokens),
        ),
        ("recurrence", chain(recurrence, (n, 4), (4, 4), (4, 4)), reach(recurrent, tokens)),
        ("self-attention", chain(self_attention, (n, 4)), reach(attended, tokens)),
    ]
    notes = [
        "Parallelism: how many steps wait for one another. Reach: how far away an input changes an output of one layer."
    ]
    return Table(f"One layer over {n} tokens", ("family", "longest chain", "reach"), rows, notes)


def show_measured(worked: Worked, part: str) -> None:
    """A part of the comparison, measured here and now where torch is installed; otherwise a line that says so."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        worked.say(f"""What is measured is left out here: {" and ".join(missing)} is not installed. Try pip install ".[train]",
        then headwork compare.""")
        return
    from headwork.comparison import book

    for shown in getattr(book, part)():
        if isinstance(shown, str):
            worked.say(shown)
        else:
            worked.show(shown)


def torch_flops(name: str, n: int, d: int) -> int | None:
    """The FLOPs of a family's layer by torch's own counter; None without torch."""
    if find_spec("torch") is None:
        return None
    from headwork.comparison import book

    return book.torch_flops(name, n, d)
