"""Parts of the comparison that take seconds, for the problem book: what A3, B8, G3 and G8 show of it.

Each returns what is to be shown, in order: words, tables, a picture. The whole is ``headwork compare``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from headwork.comparison import complexity, long_range, parallelism
from headwork.comparison.bias import changes
from headwork.comparison.drawing import draw, legend, panel, ticked
from headwork.comparison.families import FAMILIES
from headwork.comparison.fitting import Fit, crossing, share
from headwork.comparison.images import circular, classified
from headwork.comparison.layers import definition, flops
from headwork.comparison.rows import Settings, listed
from headwork.pages.tables import Table

TIMED, LENGTHS = ("cnn", "lstm", "transformer", "linear"), (1024, 2048, 4096, 8192, 16384)
GAP, STEPS, IMAGES = 24, 100, 250
CROSSED = 128
THE_WHOLE = "The whole comparison, with more sizes and pictures: headwork compare."


def torch_flops(name: str, n: int, d: int) -> int:
    """The FLOPs of a family's definition by torch's own counter.

    >>> torch_flops("transformer", 16, 4) == flops("transformer")(n=16, d=4)
    True
    """
    plain, shapes = definition(FAMILIES[name])
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        plain(*(torch.zeros(shape) for shape in shapes(n, d)))
    return int(counter.get_total_flops())


@cache
def timed() -> dict[str, Any]:
    """Times against n in a few rounds, measured once a process."""
    return complexity.times_by_n(TIMED, LENGTHS, rounds=3, most=6)


def work_and_time() -> list[Any]:
    """A3: FLOPs, the power of n in the time, and the longest chain of each family."""
    fits = complexity.fits(timed())
    rows = [
        (name, f"{flops(name)}", f"{fits[name]}" if name in fits else "", _chain(name))
        for name in Settings().families
    ]
    notes = [
        f"One layer, forward, one thread, d = {complexity.WIDTH}, the four largest n up to {LENGTHS[-1]:,}. The chain "
        "counts operations that must wait for one another."
    ]
    table = Table("Measured", ("family", "FLOPs, counted", "time: power of n", "longest chain"), rows, notes)
    return [table, complexity.verdict(fits), _time_plot(fits), THE_WHOLE]


def _chain(name: str) -> str:
    lengths = parallelism.CHAINED
    return parallelism.chain_words(*parallelism.line(lengths, [parallelism.chain(name, n) for n in lengths]))


def _time_plot(fits: dict[str, Fit]) -> Any:
    title = f"Time of a layer against n, d = {complexity.WIDTH}"
    figure, axes = panel(title, "tokens n", "time (shortest = 1)", log_x=True, log_y=True, wide=True)
    labels = {name: f"{name}: n^{fit.exponent:.2f} ± {fit.error:.2f}" for name, fit in fits.items()}
    draw(axes, {name: (timed()["sizes"][name], values) for name, values in timed()["times"].items()}, labels)
    ticked(axes, LENGTHS)
    legend(figure, wide=True)
    return figure


def attention_time() -> list[Any]:
    """B8: the power of n in attention's time, and where its two parts cross."""
    fit = complexity.fits(timed())["transformer"]
    parts = complexity.parts_of_attention((CROSSED,), (16, 32, 64, 128, 256, 512))
    n = crossing(
        parts["lengths"], *(parts["times"][part][str(CROSSED)] for part in ("attention", "projections"))
    )
    grows = f"grows as n^({fit})" if fit.sure else f"follows no single power of n (n^({fit}))"
    where = f"from n = {n:.0f} on" if n else "at all of the lengths tried, or at none"
    told = (
        f"Measured: the time of attention {grows} from n = {fit.start:,.0f} to {fit.end:,.0f} at d = "
        f"{complexity.WIDTH}. At d = {CROSSED} its n^2 d part takes longer than the projections {where}; by the FLOPs "
        f"from n = {2 * CROSSED} on."
    )
    return [told, THE_WHOLE]


def memory_over_a_gap() -> list[Any]:
    """G3: gradients over a gap before training, and who learns to tell the first symbol after it."""
    names = ("lstm", "transformer")
    found = {
        name: long_range.remembered(name, GAP, 0, steps=STEPS, wanted=long_range.WANTED[False])
        for name in names
    }
    shares = {name: share([result["accuracy"]], long_range.TESTED) for name, result in found.items()}
    rows = [
        (name, f"{one['before'][0] / one['before'][-2]:.2g}", str(shares[name]))
        for name, one in found.items()
    ]
    notes = [
        f"Equal parameters within 5%, {STEPS} training steps, seed 0; chance is {1 / long_range.SYMBOLS:.0%}. The "
        "gradient is that of the last output by the first token, divided by that of the token just before the last."
    ]
    columns = ("family", "gradient of the first token, untrained", f"right after a gap of {GAP}")
    learned = [name for name, one in shares.items() if one.above(1 / long_range.SYMBOLS)]
    rest = [name for name in names if name not in learned]
    told = f"Within this budget {listed(learned) if learned else 'nobody'} learned to tell the first of {GAP + 1} symbols"
    told += f"; {listed(rest)} did no better than chance." if learned and rest else "."
    weights = long_range.weight_plot(long_range.through_one((0.8, 0.9, 1.0, 1.1, 1.2), 50), wide=True)
    return [Table(f"A gap of {GAP}, measured", columns, rows, notes), told, weights, THE_WHOLE]


def image_shifts() -> list[Any]:
    """G8: what a shift does to a convolutional network and to a vision transformer, untrained and trained."""
    found = {name: classified(name, IMAGES, 0, steps=STEPS, full=False) for name in ("cnn", "transformer")}
    right, lower = (
        {name: share([one[what]], one["tested"]) for name, one in found.items()}
        for what in ("accuracy", "shifted")
    )
    rows: list[tuple[Any, ...]] = [("circular convolution", f"{circular()['error']:.1e}", "", "", "")]
    rows += [
        (name, f"{one['error before']:.2f}", f"{one['error after']:.2f}", str(right[name]), str(lower[name]))
        for name, one in found.items()
    ]
    notes = [
        f"{IMAGES} of the embedded digits, {STEPS} steps, seed 0, equal parameters within 5%. Error 0: the output "
        "moves along with the image; 1: the two outputs are unrelated. Lower: by 2 rows than the images taught."
    ]
    columns = ("family", "equivariance error, untrained", "trained", "right", "right when lower")
    table = Table("A shift by 2 rows, measured", columns, rows, notes)
    return [table, f"Two rows lower, {changes(right, lower)}.", THE_WHOLE]
