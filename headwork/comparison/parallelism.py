"""Parallelism: how many operations must wait for one another, and what that does to the time.

The chain is the longest path through the operations of a layer's plain definition, walked in the graph that autograd
keeps; it is found for several n, and is a straight line in n. A product of matrices counts as one operation. Times are
those of the fastest form: for the same tokens in fewer, longer sequences, and on one thread against all cores.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from headwork.comparison.complexity import forward_of
from headwork.comparison.drawing import draw, legend, panel, ticked
from headwork.comparison.families import FAMILIES
from headwork.comparison.layers import Layer, flops_at
from headwork.comparison.rows import Measurement, Picture, Results, Row, Settings, grouped, listed, times
from headwork.comparison.timing import Race, cores, threads
from headwork.pages.tables import Table

WIDTH = 32
CHAINED = (32, 48, 64)
TOKENS, LENGTHS = 8192, (64, 256, 1024, 4096)
SHARED = (2048, 128)  # n and d of the layers on several threads
SAME = 1.5  # ratios of times nearer to 1 than this are told as no change


def plan(settings: Settings) -> list[Measurement]:
    families, count = settings.families, cores()
    same = {"families": families, "width": WIDTH, "tokens": TOKENS, "lengths": LENGTHS}
    return [
        Measurement(
            "parallelism chain", {"families": families, "lengths": CHAINED}, lambda: chains(families), 1
        ),
        Measurement("parallelism same tokens", same, lambda: same_tokens(families), 1.2 * len(families)),
        Measurement(
            "parallelism threads",
            {"families": families, "sizes": SHARED, "cores": count},
            lambda: on_threads(families, count),
            0.5 * len(families),
        ),
    ]


# --- measuring ----------------------------------------------------------------------------------


def chains(families: Sequence[str], lengths: Sequence[int] = CHAINED) -> dict[str, Any]:
    """The longest chain of operations at each n."""
    return {
        "lengths": list(lengths),
        "chains": {name: [chain(name, n) for n in lengths] for name in families},
    }


def chain(name: str, n: int) -> int:
    """Operations on the longest path from a layer's input to its output, by its plain definition.

    >>> chain("transformer", 16) == chain("transformer", 32), chain("lstm", 32) > chain("lstm", 16)
    (True, True)
    """
    layer = Layer(FAMILIES[name], 4, kernel="plain")
    with threads(1):
        return longest_path(layer(layer.inputs(n).requires_grad_()))


def longest_path(output: Tensor) -> int:
    """Operations on the longest path that led to a tensor.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> longest_path((2 * x + 1).tanh() + x)
    4
    """
    lengths: dict[Any, int] = {}
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [other for other, _ in node.next_functions if other is not None]
        unknown = [other for other in before if other not in lengths]
        if unknown:
            waiting += unknown
            continue
        waiting.pop()
        # Where a gradient is gathered nothing is computed.
        own = 0 if type(node).__name__ == "AccumulateGrad" else 1
        lengths[node] = own + max((lengths[other] for other in before), default=0)
    return lengths[output.grad_fn]


def same_tokens(
    families: Sequence[str], lengths: Sequence[int] = LENGTHS, rounds: int = 12
) -> dict[str, Any]:
    """Times of the same number of tokens in ever longer, ever fewer sequences, in units of the shortest."""
    layers = {name: Layer(FAMILIES[name], WIDTH).eval() for name in families}
    runs = {(name, n): forward_of(layers[name], n, TOKENS // n) for n in lengths for name in families}
    with threads(cores()):
        best = Race(runs).run(rounds)
    return {"lengths": list(lengths), "times": _in_units(best, families, lengths)}


def on_threads(families: Sequence[str], count: int, rounds: int = 10) -> dict[str, Any]:
    """Times on one thread and on all cores, in units of the shortest."""
    n, d = SHARED
    runs = {name: forward_of(Layer(FAMILIES[name], d).eval(), n) for name in families}
    best: dict[tuple[str, int], float] = {}
    races = {number: Race(runs, time.perf_counter) for number in (1, count)}
    for _ in range(rounds):
        for number, race in races.items():
            with threads(number):
                best |= {(name, number): seconds for name, seconds in race.run(1).items()}
    return {"threads": sorted(races), "times": _in_units(best, families, sorted(races))}


def _in_units(best: Any, families: Sequence[str], sizes: Sequence[int]) -> dict[str, list[float]]:
    unit = min(best.values())
    return {name: [best[name, size] / unit for size in sizes] for name in families}


# --- telling ------------------------------------------------------------------------------------


def told(settings: Settings, results: Results) -> Row:
    names, count = settings.families, cores()
    same, shared = results["parallelism same tokens"], results["parallelism threads"]
    budget = (
        f"The longest chain of the plain definition; {TOKENS:,} tokens of width {WIDTH} in sequences of {LENGTHS[0]} "
        f"up to {LENGTHS[-1]:,} on {count} threads; n = {SHARED[0]:,}, d = {SHARED[1]} on 1 and on {count} threads. "
        "Forward, best of several rounds taken in turns."
    )
    row = Row("parallelism", "Parallelism", budget)
    lines = {
        name: line(results["parallelism chain"]["lengths"], found)
        for name, found in results["parallelism chain"]["chains"].items()
    }
    per_token = {name: values[-1] / values[0] for name, values in same["times"].items()}
    per_flop = {name: ratio / _work_ratio(name, same["lengths"]) for name, ratio in per_token.items()}
    gains = {name: values[0] / values[-1] for name, values in shared["times"].items()}
    row.cells = [
        ("longest chain of operations", {name: chain_words(*lines[name]) for name in names}),
        (
            f"time a token, n = {LENGTHS[-1]:,} over {LENGTHS[0]}",
            {name: times(per_token[name]) for name in names},
        ),
        ("time a FLOP, the same", {name: times(per_flop[name]) for name in names}),
    ]
    row.verdict = _chain_sentence(lines, names)
    row.say(_token_sentence(per_token, per_flop, same["lengths"]))
    if count > 1:
        row.cells.append((f"speed-up on {count} threads", {name: times(gains[name]) for name in names}))
        row.say(_thread_sentence(gains, count))
    else:
        row.say("Only one core may be used here, so there is no speed-up to measure.")
    row.tables.append(_table(names, lines, same))
    row.pictures.append(_picture(same))
    row.numbers = {
        "chain": {name: {"fixed": fixed, "each token": each} for name, (fixed, each) in lines.items()},
        "time a token": per_token,
        "time a FLOP": per_flop,
        "speed-up": gains if count > 1 else {},
    }
    return row


def line(sizes: Sequence[int], values: Sequence[int]) -> tuple[float, float]:
    """Fixed part and part a token of a chain.

    >>> line([16, 32], [35, 67])
    (3.0, 2.0)
    """
    each = (values[-1] - values[0]) / (sizes[-1] - sizes[0])
    return values[0] - each * sizes[0], each


def chain_words(fixed: float, each: float) -> str:
    """A straight line in n.

    >>> chain_words(-1.0, 12.0), chain_words(23.0, 0.0), chain_words(0.0, 14.0)
    ('12 n - 1', '23', '14 n')
    """
    if not each:
        return f"{fixed:g}"
    return f"{each:g} n" + (f" {'+' if fixed > 0 else '-'} {abs(fixed):g}" if fixed else "")


def _work_ratio(name: str, lengths: Sequence[int]) -> float:
    first, last = (flops_at(name, n, WIDTH) / n for n in (lengths[0], lengths[-1]))
    return last / first


def _chain_sentence(lines: dict[str, tuple[float, float]], names: Sequence[str]) -> str:
    waiting = {name: lines[name] for name in names if lines[name][1] > 0}
    free = {name: lines[name] for name in names if lines[name][1] == 0}
    parts = []
    if waiting:
        told = listed(f"{name} ({chain_words(*found)})" for name, found in waiting.items())
        parts.append(f"the longest chain of operations that wait for one another grows with n in {told}")
    if free:
        told = listed(f"{name} ({chain_words(*found)})" for name, found in free.items())
        parts.append(
            f"{'it is' if waiting else 'the longest chain of operations is'} the same for every n in {told}"
        )
    sentence = "; ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _token_sentence(per_token: dict[str, float], per_flop: dict[str, float], lengths: Sequence[int]) -> str:
    said = {}
    for name, ratio in per_flop.items():
        if ratio > SAME:
            said[name] = "each FLOP takes longer, so the cores wait"
        elif per_token[name] > SAME:
            said[name] = "a token takes longer only because there is more work to it"
        else:
            said[name] = "a token takes no longer"
    parts = []
    for words, names in grouped(said):
        numbers = (
            f"{name} ({times(per_token[name])} a token, {times(per_flop[name])} a FLOP)" for name in names
        )
        parts.append(f"{words} in {listed(numbers)}")
    return f"With the same tokens in sequences {lengths[-1] // lengths[0]} times as long, {'; '.join(parts)}."


def _thread_sentence(gains: dict[str, float], count: int) -> str:
    said = {}
    for name, gain in gains.items():
        if gain > 1 + (count - 1) / 2:
            said[name] = "the threads are used well"
        elif gain > 1.1:
            said[name] = "little is gained"
        elif gain > 0.9:
            said[name] = "nothing is gained"
        else:
            said[name] = "it is slower than on one"
    parts = [
        f"{words} in {listed(f'{name} ({times(gains[name])})' for name in names)}"
        for words, names in grouped(said)
    ]
    return f"On {count} threads {'; '.join(parts)}."


def _table(names: Sequence[str], lines: dict[str, tuple[float, float]], same: Any) -> Table:
    columns = ("family", "longest chain", *(f"time a token, n = {n:,}" for n in same["lengths"]))
    rows = [
        (
            name,
            chain_words(*lines[name]),
            *(times(value / same["times"][name][0]) for value in same["times"][name]),
        )
        for name in names
    ]
    return Table(
        "The same tokens in longer sequences",
        columns,
        rows,
        [f"Times are ratios to n = {same['lengths'][0]}."],
    )


def _picture(same: Any) -> Picture:
    lengths = same["lengths"]
    figure, axes = panel(
        f"{TOKENS:,} tokens in longer sequences",
        "tokens n in a sequence",
        f"time a token (n = {lengths[0]} is 1)",
        log_x=True,
        log_y=True,
    )
    draw(axes, {name: (lengths, [v / values[0] for v in values]) for name, values in same["times"].items()})
    ticked(axes, lengths)
    legend(figure, 3)
    caption = "The number of tokens stays the same: only how many of them stand in one sequence grows."
    return Picture(figure, "time a token against the length of the sequences", caption)
