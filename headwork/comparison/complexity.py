"""Complexity: the work of one layer counted, its time and memory measured, against n and against d.

Times are the processor's for a forward pass on one thread, given as ratios; exponents are fitted where n is large.
Memory is what a training step keeps for the way back: the bytes of the distinct tensors that autograd saves, without
parameters and input.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headwork.comparison.drawing import draw, legend, panel, ticked
from headwork.comparison.families import FAMILIES
from headwork.comparison.fitting import Fit, crossing, fitted
from headwork.comparison.layers import LEADING, Layer, flops, flops_at
from headwork.comparison.rows import Measurement, Picture, Results, Row, Settings, grouped, listed
from headwork.comparison.timing import Race, threads
from headwork.mechanisms import fused
from headwork.pages.tables import Table

WIDTH, TOKENS = 64, 1024  # what stays fixed while the other grows
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
# The square has shown itself by 8192; and there an LSTM's gates still fit what the allocator keeps: beyond it, page
# faults and not work are timed.
SHORTER = ("transformer", "rnn", "lstm", "gru")
WIDTHS = (32, 64, 128, 256, 512)
FITTED = 4  # so many of the largest sizes: what does not grow has vanished there
KEPT = (256, 512, 1024, 2048)
CROSSED, ALONG = (64, 128, 256), (16, 32, 64, 128, 256, 512, 1024, 2048)
ROUNDS, MOST_ROUNDS, WANTED_ERROR = 4, 24, 0.02
PATIENCE = 20  # seconds after which no more rounds are added: on a machine this busy they help little
AGREES = 0.15  # exponents of time and work that differ by less are told as the same


def plan(settings: Settings) -> list[Measurement]:
    families = settings.families
    by_n = {"families": families, "width": WIDTH, "lengths": LENGTHS}
    by_d = {"families": families, "tokens": TOKENS, "widths": WIDTHS}
    made = [
        Measurement("complexity time by n", by_n, lambda: times_by_n(families), 2.0 * len(families)),
        Measurement("complexity time by d", by_d, lambda: times_by_d(families), 1.5 * len(families)),
        Measurement(
            "complexity memory", {"families": families, "lengths": KEPT}, lambda: memory(families), 1
        ),
    ]
    if "transformer" in families:
        crossed = {"widths": CROSSED, "lengths": ALONG}
        made.append(Measurement("complexity parts of attention", crossed, parts_of_attention, 2))
    return made


# --- measuring ----------------------------------------------------------------------------------


def times_by_n(
    families: Sequence[str], lengths: Sequence[int] = LENGTHS, rounds: int = ROUNDS, most: int = MOST_ROUNDS
) -> dict[str, Any]:
    """Times over n at a fixed width, in units of the shortest."""
    layers = {name: Layer(FAMILIES[name], WIDTH).eval() for name in families}
    sizes = {name: [n for n in lengths if name not in SHORTER or n <= 8192] for name in families}
    return _raced(
        {name: {n: forward_of(layers[name], n) for n in sizes[name]} for name in families}, rounds, most
    )


def times_by_d(
    families: Sequence[str], widths: Sequence[int] = WIDTHS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Times over d at a fixed number of tokens, in units of the shortest."""
    runs = {
        name: {d: forward_of(Layer(FAMILIES[name], d).eval(), TOKENS) for d in widths} for name in families
    }
    return _raced(runs, rounds, MOST_ROUNDS // 3)


def forward_of(layer: Layer, n: int, batch: int = 1) -> Any:
    inputs = layer.inputs(n, batch)

    @torch.no_grad()
    def forward() -> Tensor:
        result: Tensor = layer(inputs)
        return result

    return forward


def _raced(runs: dict[str, dict[int, Any]], rounds: int, most: int) -> dict[str, Any]:
    """Rounds for all, then more for those whose power is not sure enough, up to a limit."""
    race = Race({(name, size): run for name, sized in runs.items() for size, run in sized.items()})
    done, open_, begun = 0, set(runs), time.monotonic()

    def error(name: str) -> float:
        large = list(runs[name])[-FITTED:]
        return fitted(large, [race.best[name, size] for size in large]).error

    with threads(1):
        while open_ and done < most and time.monotonic() - begun < PATIENCE:
            race.run(rounds, [key for key in race.runs if key[0] in open_])
            done += rounds
            open_ = {name for name in open_ if error(name) > WANTED_ERROR}
    unit = min(race.best.values())
    return {
        "rounds": done,
        "sizes": {name: list(sized) for name, sized in runs.items()},
        "times": {name: [race.best[name, size] / unit for size in sized] for name, sized in runs.items()},
    }


def parts_of_attention(widths: Sequence[int] = CROSSED, lengths: Sequence[int] = ALONG) -> dict[str, Any]:
    """Times of attention's two parts: the four projections (n d^2) and the attention itself (n^2 d)."""
    runs: dict[tuple[str, int, int], Any] = {}
    for d in widths:
        matrix = torch.randn(d, d, generator=torch.Generator().manual_seed(d))
        for n in lengths:
            tokens = torch.randn(1, n, d, generator=torch.Generator().manual_seed(n))
            runs["projections", d, n] = _projections(tokens, matrix)
            runs["attention", d, n] = _attention(tokens)
    with threads(1), torch.no_grad():
        best = Race(runs).run(5)
    unit = min(best.values())
    return {
        "lengths": list(lengths),
        "widths": list(widths),
        "times": {
            part: {str(d): [best[part, d, n] / unit for n in lengths] for d in widths}
            for part in ("projections", "attention")
        },
    }


def _projections(tokens: Tensor, matrix: Tensor) -> Any:
    return lambda: [torch.nn.functional.linear(tokens, matrix) for _ in range(4)]


def _attention(tokens: Tensor) -> Any:
    return lambda: fused.attention(tokens, tokens, tokens)


def memory(families: Sequence[str], lengths: Sequence[int] = KEPT) -> dict[str, Any]:
    """Bytes kept for the way back over n at a fixed width; "plain attention" keeps its weights, n x n of them."""
    layers = {name: Layer(FAMILIES[name], WIDTH) for name in families}
    if "transformer" in families:
        layers["plain attention"] = Layer(FAMILIES["transformer"], WIDTH, kernel="plain")
    return {
        "lengths": list(lengths),
        "bytes": {name: [kept_bytes(x, n) for n in lengths] for name, x in layers.items()},
    }


def kept_bytes(layer: Layer, n: int) -> int:
    """What autograd saves in one forward pass: each storage once, without those of the parameters and the input."""
    inputs = layer.inputs(n).requires_grad_()
    known = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), inputs)}
    saved: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        saved.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with threads(1), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = layer(inputs)
    total = sum(t.untyped_storage().nbytes() for at, t in saved.items() if at not in known)
    del output
    return total


# --- telling ------------------------------------------------------------------------------------


def told(settings: Settings, results: Results) -> Row:
    rounds = results["complexity time by n"]["rounds"]
    budget = (
        f"One layer, forward, the processor's time on one thread, best of up to {rounds} rounds taken in turns; "
        f"against n at d = {WIDTH}, against d at n = {TOKENS:,}. Powers are fitted over the {FITTED} largest sizes."
    )
    row = Row("complexity", "Complexity", budget)
    by_n = fits(results["complexity time by n"])
    by_d = fits(results["complexity time by d"])
    names = settings.families
    row.cells = [
        ("FLOPs, counted", {name: f"{flops(name)}" for name in names}),
        ("time against n", {name: _cell("n", by_n[name]) for name in names}),
        ("time against d", {name: _cell("d", by_d[name]) for name in names}),
    ]
    row.verdict = verdict(by_n)
    row.say(_against(by_n, {name: _counted_n(name, by_n[name]) for name in names}, "n"))
    row.say(_against(by_d, {name: _counted_d(name, by_d[name]) for name in names}, "d"))
    row.tables.append(_work_table(names, by_n, by_d))
    row.pictures += [
        _time_picture(results["complexity time by n"], by_n, "n"),
        _time_picture(results["complexity time by d"], by_d, "d"),
    ]
    row.numbers = {"n": {k: vars(f) for k, f in by_n.items()}, "d": {k: vars(f) for k, f in by_d.items()}}
    if "transformer" in names:
        _tell_crossing(row, settings, results)
    _tell_memory(row, names, results["complexity memory"])
    return row


def fits(result: Any) -> dict[str, Fit]:
    """The power law of each family over the largest sizes."""
    return {
        name: fitted(result["sizes"][name][-FITTED:], values[-FITTED:])
        for name, values in result["times"].items()
    }


def _cell(size: str, fit: Fit) -> str:
    return f"{size}^({fit})" if fit.sure else f"no single power ({fit})"


def _counted_n(name: str, fit: Fit) -> float:
    sizes = [int(fit.start * 2**i) for i in range(FITTED)]
    return fitted(sizes, [flops_at(name, n, WIDTH) for n in sizes]).exponent


def _counted_d(name: str, fit: Fit) -> float:
    sizes = [int(fit.start * 2**i) for i in range(FITTED)]
    return fitted(sizes, [flops_at(name, TOKENS, d) for d in sizes]).exponent


def _against(measured: dict[str, Fit], counted: dict[str, float], size: str) -> str:
    """How the time grows beside the work, family by family, in words that fit the numbers."""
    said = {}
    for name, fit in measured.items():
        if not fit.sure:
            said[name] = "by no single power (the machine was busy, or other costs weigh in)"
        elif abs(fit.exponent - counted[name]) <= max(AGREES, 2 * fit.error):
            said[name] = "as the FLOPs do"
        else:
            said[name] = f"more {'slowly' if fit.exponent < counted[name] else 'steeply'} than the FLOPs"
    parts = []
    for words, families in grouped(said):
        numbers = (f"{name} ({measured[name].exponent:.2f}; FLOPs {counted[name]:.2f})" for name in families)
        parts.append(f"{words} in {listed(numbers)}")
    return f"With {size} the time grows {'; '.join(parts)}. The numbers are powers of {size}."


def verdict(by_n: dict[str, Fit]) -> str:
    """How the time grows with n, in one sentence: families of about the same power together."""
    said = {}
    for name, fit in by_n.items():
        near = round(fit.exponent)
        fits_well = fit.sure and abs(fit.exponent - near) <= 2 * AGREES
        said[name] = (
            ""
            if not fits_well
            else "linearly"
            if near == 1
            else "with the square"
            if near == 2
            else f"as n^{near}"
        )
    known = [(words, names) for words, names in grouped(said) if words]
    parts = [
        f"{words} in {listed(f'{name} (n^{by_n[name].exponent:.2f})' for name in names)}"
        for words, names in known
    ]
    rest = [name for name, words in said.items() if not words]
    if rest:
        parts.append(f"by no clear power in {listed(f'{name} (n^{by_n[name]})' for name in rest)}")
    return f"With n the time grows {'; '.join(parts)}."


def _work_table(names: Sequence[str], by_n: dict[str, Fit], by_d: dict[str, Fit]) -> Table:
    rows = [
        (
            FAMILIES[name].words,
            f"{flops(name)}",
            LEADING[name],
            f"{by_n[name]}",
            f"{_counted_n(name, by_n[name]):.2f}",
            f"{by_d[name]}",
            f"{_counted_d(name, by_d[name]):.2f}",
        )
        for name in names
    ]
    columns = (
        "layer",
        "FLOPs, counted",
        "grows as",
        "time: power of n",
        "FLOPs: power of n",
        "time: power of d",
        "FLOPs: power of d",
    )
    notes = [
        "FLOPs: two a multiply-add of matrix products, counted by running the definition on shapes. Powers of the "
        "FLOPs are fitted over the same sizes as those of the time. Beside a power stands its standard error."
    ]
    return Table("Work and time of one layer", columns, rows, notes)


def _time_picture(result: Any, measured: dict[str, Fit], size: str) -> Picture:
    fixed = f"d = {WIDTH}" if size == "n" else f"n = {TOKENS:,}"
    across = "tokens n" if size == "n" else "width d"
    figure, axes = panel(
        f"Time against {size}, {fixed}", across, "time (shortest = 1)", log_x=True, log_y=True
    )
    labels = {name: f"{name}: {size}^{fit.exponent:.2f} ± {fit.error:.2f}" for name, fit in measured.items()}
    draw(axes, {name: (result["sizes"][name], values) for name, values in result["times"].items()}, labels)
    ticked(axes, sorted({n for sizes in result["sizes"].values() for n in sizes}))
    legend(figure)
    return Picture(
        figure,
        f"time of a layer against {size} on logarithmic scales",
        f"The powers are fitted over the {FITTED} largest sizes of each line; beside them their standard errors.",
    )


def _tell_crossing(row: Row, settings: Settings, results: Results) -> None:
    """Where the n^2 part of attention overtakes the n part, and where attention overtakes the others."""
    parts = results["complexity parts of attention"]
    times, lengths = parts["times"], parts["lengths"]
    pairs = {d: (times["attention"][str(d)], times["projections"][str(d)]) for d in parts["widths"]}
    found = {d: crossing(lengths, *pair) for d, pair in pairs.items()}
    rows: list[tuple[Any, ...]] = [
        (f"n^2 d part over n d^2 part, d = {d}", f"{2 * d}", _place(found[d], *pairs[d])) for d in pairs
    ]
    row.say(_crossing_words(found, _flop_ratio(parts)))
    by_n, sizes = (
        results["complexity time by n"]["times"],
        results["complexity time by n"]["sizes"]["transformer"],
    )
    slow = by_n["transformer"]
    for name in (name for name in settings.families if name != "transformer"):
        other = by_n[name][: len(sizes)]  # the same sizes: all begin alike
        place = _place(crossing(sizes, slow, other), slow, other)
        rows.append((f"attention slower than {name}, d = {WIDTH}", _formula_crossing(name), place))
    row.tables.append(
        Table("Where the lines cross", ("what", "from n by the FLOPs", "from n measured"), rows)
    )
    row.numbers["crossing"] = {str(d): n for d, n in found.items()}


def _flop_ratio(parts: Any) -> float:
    """How many times longer a FLOP of the attention itself takes than one of the projections, at the largest sizes."""
    d, n = parts["widths"][-1], parts["lengths"][-1]
    attention, projections = (parts["times"][part][str(d)][-1] for part in ("attention", "projections"))
    return float(attention / (4 * n * n * d) / (projections / (8 * n * d * d)))


def _crossing_words(found: dict[int, float | None], ratio: float) -> str:
    start = "By the FLOPs the n^2 d part of attention outgrows its four projections from n = 2 d on"
    seen = {d: n for d, n in found.items() if n}
    if not seen:
        return f"{start}; measured, no crossing lay within the lengths tried."
    told = listed(f"n = {n:.0f} at d = {d}" for d, n in seen.items())
    early = sum(2 * d / n for d, n in seen.items()) / len(seen)
    if early > 1.25:
        told += f", earlier: a FLOP of it takes {ratio:.1f} times as long as one of theirs"
    elif early < 0.8:
        told += f", later: a FLOP of it takes {ratio:.1f} times as long as one of theirs"
    return f"{start}; measured, it takes longer than they do from {told}."


def _place(n: float | None, rising: Sequence[float], other: Sequence[float]) -> str:
    if n is not None:
        return f"{n:.0f}"
    return "every n measured" if rising[0] > other[0] else "no n measured"


def _formula_crossing(name: str) -> str:
    """The least n, a power of two apart, from which attention does more FLOPs than a family."""
    lengths = [2**i for i in range(1, 20)]
    found = crossing(lengths, *([flops_at(x, n, WIDTH) for n in lengths] for x in ("transformer", name)))
    return "every n" if found is None else f"{found:.0f}"


def _tell_memory(row: Row, names: Sequence[str], result: Any) -> None:
    lengths = result["lengths"]
    measured = {name: fitted(lengths[1:], values[1:]) for name, values in result["bytes"].items()}
    row.cells.append(("memory against n", {name: f"n^{measured[name].exponent:.2f}" for name in names}))
    figure, axes = panel("Kept for the way back", "tokens n", "bytes a token", log_x=True, log_y=True)
    per_token = {k: [b / n for b, n in zip(v, lengths, strict=True)] for k, v in result["bytes"].items()}
    draw(
        axes,
        {k: (lengths, per_token[k]) for k in names},
        {k: f"{k}: n^{measured[k].exponent:.2f}" for k in names},
    )
    if "plain attention" in measured:
        label = f"attention, plain: n^{measured['plain attention'].exponent:.2f}"
        draw(
            axes,
            {"transformer": (lengths, per_token["plain attention"])},
            {"transformer": label},
            linestyle=":",
            markerfacecolor="white",
        )
    ticked(axes, lengths)
    legend(figure)
    caption = (
        "All that autograd saves in a forward pass, divided by n: level lines grow with n, rising ones faster. The "
        "powers are those of the whole, not of a token's share."
    )
    row.pictures.append(Picture(figure, "memory of a layer against n", caption))
    row.say(_memory_words(measured, names))
    row.numbers["memory"] = {name: fit.exponent for name, fit in measured.items()}


def _memory_words(measured: dict[str, Fit], names: Sequence[str]) -> str:
    level = [name for name in names if abs(measured[name].exponent - 1) <= AGREES]
    others = [name for name in names if name not in level]
    words = f"What a training step keeps grows with n to the first power for {listed(level)}" if level else ""
    if others:
        told = ", ".join(f"n^{measured[name].exponent:.2f} for {name}" for name in others)
        words += (", and as " if words else "What a training step keeps grows as ") + told
    plain = measured.get("plain attention")
    if plain is not None and "transformer" in level and plain.exponent > 1 + AGREES:
        words += (
            f"; attention as it is defined, which keeps its n x n weights, grows as n^{plain.exponent:.2f}. The square "
            "in the memory is not the mechanism's: the fused kernel never holds the weights"
        )
    elif plain is not None:
        words += f"; attention as it is defined grows as n^{plain.exponent:.2f}"
    return f"{words}."
