"""Complexity: the FLOPs of one layer counted, its time and memory measured, against n and against d.

Times are CPU times of a forward pass on one thread, as ratios; exponents are fitted over the largest sizes.
Memory is what a training step saves for the backward pass: the bytes of the distinct tensors that autograd
saves, without parameters and input.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headwork.comparison import timing
from headwork.comparison.experiment import Settings
from headwork.comparison.families import FAMILIES, Layer, flops, flops_at
from headwork.comparison.measurements import Measurement
from headwork.comparison.panels import PLAIN_ATTENTION, size_figure
from headwork.comparison.section import Results, Section, clauses, join_names, table, text_of
from headwork.documents import FigureBlock
from headwork.mechanisms import fused
from headwork.mechanisms.kernels import Kernels
from headwork.training.runs import use_threads

WIDTH, TOKENS = 64, 1024  # fixed while the other grows
LENGTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)
# The quadratic growth is visible by 8192. Beyond it an LSTM's gates no longer fit what the allocator reuses,
# and the time would be that of page faults.
CAPPED_FAMILIES, MAX_CAPPED_LENGTH = ("transformer", "rnn", "lstm", "gru"), 8192
WIDTHS = (32, 64, 128, 256, 512)
FIT_SIZES = 4  # the largest sizes, where constant costs no longer matter
MEMORY_LENGTHS = (256, 512, 1024, 2048)
CROSSING_WIDTHS, CROSSING_LENGTHS = (64, 128, 256), (16, 32, 64, 128, 256, 512, 1024, 2048)
ROUNDS, MAX_ROUNDS, TARGET_ERROR = 4, 24, 0.02
MAX_SECONDS = 20  # after which no more rounds are added: on a busy machine they hardly help
EXPONENT_TOLERANCE = 0.15  # exponents that differ by less count as equal


def plan(settings: Settings) -> list[Measurement]:
    families = settings.families
    by_n = {"families": families, "width": WIDTH, "lengths": LENGTHS}
    by_d = {"families": families, "tokens": TOKENS, "widths": WIDTHS}
    memory = {"families": families, "lengths": MEMORY_LENGTHS}
    measurements = [
        Measurement("complexity time by n", by_n, partial(times_by_n, families), 2.0 * len(families)),
        Measurement("complexity time by d", by_d, partial(times_by_d, families), 1.5 * len(families)),
        Measurement("complexity memory", memory, partial(memory_by_n, families), 1),
    ]
    if "transformer" in families:
        parts = {"widths": CROSSING_WIDTHS, "lengths": CROSSING_LENGTHS}
        measurements.append(Measurement("complexity parts of attention", parts, parts_of_attention, 2))
    return measurements


def times_by_n(
    families: Sequence[str], lengths: Sequence[int] = LENGTHS, max_rounds: int = MAX_ROUNDS
) -> dict[str, Any]:
    """Times against n at a fixed width, in units of the shortest."""
    functions: dict[str, dict[int, Callable[[], object]]] = {}
    for name in families:
        layer = Layer(FAMILIES[name], WIDTH).eval()
        longest = MAX_CAPPED_LENGTH if name in CAPPED_FAMILIES else max(lengths)
        functions[name] = {n: layer.make_forward(n) for n in lengths if n <= longest}
    return _time_all(functions, max_rounds)


def times_by_d(families: Sequence[str]) -> dict[str, Any]:
    """Times against d at a fixed number of tokens, in units of the shortest."""
    functions = {
        name: {d: Layer(FAMILIES[name], d).eval().make_forward(TOKENS) for d in WIDTHS} for name in families
    }
    return _time_all(functions, MAX_ROUNDS // 3)


def _time_all(functions: Mapping[str, Mapping[int, Callable[[], object]]], max_rounds: int) -> dict[str, Any]:
    """Rounds for all families, then more for those whose exponent is still uncertain, up to a limit."""
    timer = timing.InterleavedTimer(
        {(name, size): run for name, by_size in functions.items() for size, run in by_size.items()}
    )
    rounds, rounds_done, uncertain, start = min(ROUNDS, max_rounds // 2), 0, set(functions), time.monotonic()

    def error(name: str) -> float:
        sizes = list(functions[name])[-FIT_SIZES:]
        return timing.fit_power_law(sizes, [timer.best[name, size] for size in sizes]).error

    with use_threads(1):
        while uncertain and rounds_done < max_rounds and time.monotonic() - start < MAX_SECONDS:
            timer.run(rounds, [key for key in timer.functions if key[0] in uncertain])
            rounds_done += rounds
            uncertain = {name for name in uncertain if error(name) > TARGET_ERROR}
    best = timing.relative_times(timer.best)
    return {
        "rounds": rounds_done,
        "sizes": {name: list(by_size) for name, by_size in functions.items()},
        "times": {name: [best[name, size] for size in by_size] for name, by_size in functions.items()},
    }


def parts_of_attention() -> dict[str, Any]:
    """Times of attention's two parts: the four projections (n d^2) and the attention itself (n^2 d)."""
    widths, lengths = CROSSING_WIDTHS, CROSSING_LENGTHS
    functions: dict[tuple[str, int, int], Callable[[], object]] = {}
    for d in widths:
        matrix = torch.randn(d, d, generator=torch.Generator().manual_seed(d))
        for n in lengths:
            tokens = torch.randn(1, n, d, generator=torch.Generator().manual_seed(n))
            functions["projections", d, n] = partial(_project, tokens, matrix)
            functions["attention", d, n] = partial(fused.attention, tokens, tokens, tokens)
    with use_threads(1), torch.no_grad():
        best = timing.relative_times(timing.InterleavedTimer(functions).run(5))
    times = {
        part: {str(d): [best[part, d, n] for n in lengths] for d in widths}
        for part in ("projections", "attention")
    }
    return {"lengths": list(lengths), "widths": list(widths), "times": times}


def _project(tokens: Tensor, matrix: Tensor) -> list[Tensor]:
    return [torch.nn.functional.linear(tokens, matrix) for _ in range(4)]


def memory_by_n(families: Sequence[str]) -> dict[str, Any]:
    """Bytes saved for the backward pass against n; plain attention saves its n x n weights."""
    layers = {name: Layer(FAMILIES[name], WIDTH) for name in families}
    if "transformer" in families:
        layers[PLAIN_ATTENTION] = Layer(FAMILIES["transformer"], WIDTH, kernels=Kernels)
    saved = {name: [saved_bytes(layer, n) for n in MEMORY_LENGTHS] for name, layer in layers.items()}
    return {"lengths": list(MEMORY_LENGTHS), "bytes": saved}


def saved_bytes(layer: Layer, n: int) -> int:
    """What autograd saves in one forward pass: each storage once, without those of parameters and input."""
    inputs = layer.inputs(n).requires_grad_()
    excluded = {t.untyped_storage().data_ptr() for t in (*layer.parameters(), inputs)}
    saved: dict[int, Tensor] = {}

    def save(tensor: Tensor) -> Tensor:
        saved.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with use_threads(1), torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        layer(inputs)
    return sum(t.untyped_storage().nbytes() for address, t in saved.items() if address not in excluded)


def report(settings: Settings, results: Results) -> Section:
    names = settings.families
    rounds = results["complexity time by n"]["rounds"]
    sizes = {"width": WIDTH, "tokens": TOKENS, "count": FIT_SIZES}
    section = Section(**text_of("complexity/section", rounds=rounds, **sizes))
    section.add_cells("FLOPs, counted", {name: str(flops(name)) for name in names})
    exponents: dict[str, list[str]] = {name: [] for name in names}
    for variable in ("n", "d"):
        result = results[f"complexity time by {variable}"]
        measured = fit_times(result)
        counted = {name: _flops_exponent(name, measured[name], variable) for name in names}
        texts = {name: law.describe(variable) for name, law in measured.items()}
        section.add_cells(f"time against {variable}", texts)
        section.add_sentence(_compare_growth(measured, counted, variable))
        figure = time_figure(result, measured, variable)
        about = text_of("complexity/time/figure", variable=variable, **sizes)
        section.figures.append(FigureBlock(figure, **about))
        section.numbers[variable] = {name: vars(law) for name, law in measured.items()}
        for name in names:
            exponents[name] += [str(measured[name]), f"{counted[name]:.2f}"]
    section.verdict = growth_sentence(fit_times(results["complexity time by n"]))
    kinds = ((FAMILIES[name].description, str(flops(name)), flops(name).order()) for name in names)
    rows = [(*kind, *exponents[name]) for kind, name in zip(kinds, names, strict=True)]
    section.tables.append(table("complexity/work", rows))
    if "transformer" in names:
        _add_crossings(section, results["complexity parts of attention"])
    _add_memory(section, names, results["complexity memory"])
    return section


def fit_times(result: Any) -> dict[str, timing.PowerLaw]:
    """The power law of each family over the largest sizes."""
    return {
        name: timing.fit_power_law(result["sizes"][name][-FIT_SIZES:], values[-FIT_SIZES:])
        for name, values in result["times"].items()
    }


def _flops_exponent(name: str, law: timing.PowerLaw, variable: str) -> float:
    """The exponent of the counted FLOPs over the sizes of a fit."""
    sizes = [int(law.start * 2**i) for i in range(FIT_SIZES)]
    counts = [flops_at(name, s, WIDTH) if variable == "n" else flops_at(name, TOKENS, s) for s in sizes]
    return timing.fit_power_law(sizes, counts).exponent


def _compare_growth(
    measured: Mapping[str, timing.PowerLaw], counted: Mapping[str, float], variable: str
) -> str:
    """How the time of each family grows compared with its FLOPs."""
    growths = {}
    for name, law in measured.items():
        growth = f"{'slower' if law.exponent < counted[name] else 'faster'} than the FLOPs"
        if not law.is_reliable:
            growth = "with no single exponent (the machine was busy, or other costs matter)"
        elif abs(law.exponent - counted[name]) <= max(EXPONENT_TOLERANCE, 2 * law.error):
            growth = "like the FLOPs"
        growths[name] = (growth, f"{law.exponent:.2f}; FLOPs {counted[name]:.2f}")
    return f"With {variable} the time grows {clauses(growths)}. The numbers are exponents of {variable}."


def growth_sentence(laws: Mapping[str, timing.PowerLaw], quantity: str = "the time") -> str:
    """How a quantity grows with n, in one sentence."""
    phrases, growths = {0: "with no clear exponent", 1: "linearly", 2: "quadratically"}, {}
    for name in sorted(laws, key=lambda name: _degree(laws[name]) == 0):  # uncertain exponents come last
        degree = _degree(laws[name])
        exponent = f"n^{laws[name].exponent:.2f}" if degree else f"n^{laws[name]}"
        growths[name] = (phrases.get(degree, f"as n^{degree}"), exponent)
    return f"With n {quantity} grows {clauses(growths)}."


def _degree(law: timing.PowerLaw) -> int:
    """The whole number that the exponent is close to; 0 if there is none."""
    degree = round(law.exponent)
    return degree if law.is_reliable and abs(law.exponent - degree) <= 2 * EXPONENT_TOLERANCE else 0


def time_figure(result: Any, laws: Mapping[str, timing.PowerLaw], variable: str) -> Any:
    """Time against n or d on logarithmic scales, with the fitted exponents in the legend."""
    labels = {name: f"{name}: {variable}^{law}" for name, law in laws.items()}
    lines = {name: (result["sizes"][name], values) for name, values in result["times"].items()}
    axes = text_of(f"complexity/time/plot/{variable}", width=WIDTH, tokens=TOKENS)
    return size_figure(lines, **axes, labels=labels)


def _add_crossings(section: Section, parts: Any) -> None:
    """Where the n^2 part of attention overtakes the n part."""
    attention, projections = parts["times"]["attention"], parts["times"]["projections"]
    crossings = {
        d: timing.crossing_size(parts["lengths"], attention[str(d)], projections[str(d)])
        for d in parts["widths"]
    }
    rows = [(f"d = {d}", 2 * d, format_crossing(n)) for d, n in crossings.items()]
    section.tables.append(table("complexity/crossings", rows))
    measured = {d: n for d, n in crossings.items() if 0 < n < math.inf}
    places = join_names(f"n = {n:.0f} at d = {d}" for d, n in measured.items())
    section.add_sentence(text_of(f"complexity/crossed/{'sentence' if measured else 'none'}", places=places))
    section.numbers["crossing"] = {str(d): measured.get(d) for d in crossings}


def format_crossing(n: float) -> str:
    return {0.0: "every n", math.inf: "no n"}.get(n, f"{n:.0f}")


def _add_memory(section: Section, names: Sequence[str], result: Any) -> None:
    lengths = result["lengths"]
    laws = {name: timing.fit_power_law(lengths[1:], values[1:]) for name, values in result["bytes"].items()}
    section.add_cells("memory against n", {name: f"n^{laws[name].exponent:.2f}" for name in names})
    lines = {
        name: (lengths, [count / n for count, n in zip(values, lengths, strict=True)])
        for name, values in result["bytes"].items()
    }
    labels = {name: f"{name}: n^{law.exponent:.2f}" for name, law in laws.items()}
    figure = size_figure(lines, **text_of("complexity/memory/plot"), labels=labels)
    section.figures.append(FigureBlock(figure, **text_of("complexity/memory/figure")))
    section.add_sentence(memory_sentence(laws))
    section.numbers["memory"] = {name: law.exponent for name, law in laws.items()}


def memory_sentence(laws: Mapping[str, timing.PowerLaw]) -> str:
    """How the memory of a training step grows, and whether the n x n weights of attention are part of it."""
    sentence = growth_sentence(laws, "the memory for the backward pass")
    plain = laws.get(PLAIN_ATTENTION)
    if plain and plain.exponent > laws["transformer"].exponent + 2 * EXPONENT_TOLERANCE:
        sentence += f" {text_of('complexity/memory/fused')}"
    return sentence
