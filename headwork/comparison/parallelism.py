"""Parallelism: how many operations must run one after another, and what that does to the time.

The chain is the longest path through the operations of a layer's plain definition, in the graph that autograd
records; it is a straight line in n. A matrix product counts as one operation. Times are those of the fastest
implementation: for the same tokens in fewer, longer sequences, and on one thread against all cores.
"""

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from headwork.comparison.experiment import Settings
from headwork.comparison.families import FAMILIES, Layer, flops_at
from headwork.comparison.measurements import Measurement
from headwork.comparison.panels import size_figure
from headwork.comparison.section import Results, Section, clauses, format_ratio, on_scale, text_of
from headwork.comparison.timing import InterleavedTimer, cores, load_average, relative_times
from headwork.documents import FigureBlock, Table
from headwork.mechanisms.kernels import Kernels
from headwork.sizes.polynomial import Polynomial, interpolate
from headwork.training.runs import use_threads

WIDTH = 32
CHAIN_LENGTHS = (32, 48, 64)
TOKENS, LENGTHS = 8192, (64, 256, 1024, 4096)
THREADS_N, THREADS_D = 2048, 128  # of the layers on several threads
UNCHANGED_RATIO = 1.5  # ratios of times nearer to 1 than this count as unchanged


def plan(settings: Settings) -> list[Measurement]:
    families, count = settings.families, cores()
    chain_config = {"families": families, "lengths": CHAIN_LENGTHS}
    tokens_config = {"families": families, "width": WIDTH, "tokens": TOKENS, "lengths": LENGTHS}
    threads_config = {"families": families, "sizes": (THREADS_N, THREADS_D), "cores": count}
    same_tokens, on_threads = partial(time_same_tokens, families), partial(time_threads, families, count)
    return [
        Measurement("parallelism chain", chain_config, partial(chains, families), 1),
        Measurement("parallelism same tokens", tokens_config, same_tokens, 1.2 * len(families)),
        Measurement("parallelism threads", threads_config, on_threads, 0.5 * len(families)),
    ]


def chains(families: Sequence[str]) -> dict[str, Any]:
    """The longest chain of operations at each n."""
    by_family = {name: [longest_chain(name, n) for n in CHAIN_LENGTHS] for name in families}
    return {"lengths": list(CHAIN_LENGTHS), "chains": by_family}


def longest_chain(name: str, n: int) -> int:
    """The operations on the longest path from a layer's input to its output, by its plain definition.

    >>> longest_chain("transformer", 16) == longest_chain("transformer", 32)
    True
    >>> longest_chain("lstm", 32) > longest_chain("lstm", 16)
    True
    """
    layer = Layer(FAMILIES[name], 4, kernels=Kernels)
    with use_threads(1):
        return longest_path(layer(layer.inputs(n).requires_grad_()))


def longest_path(output: Tensor) -> int:
    """The number of operations on the longest path that led to a tensor.

    >>> import torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> longest_path((2 * x + 1).tanh() + x)
    4
    """
    lengths: dict[Any, int] = {}
    stack: list[Any] = [output.grad_fn]
    while stack:
        node = stack[-1]
        previous = [earlier for earlier, _ in node.next_functions if earlier is not None]
        unknown = [earlier for earlier in previous if earlier not in lengths]
        if unknown:
            stack += unknown
            continue
        stack.pop()
        # Where a gradient is accumulated nothing is computed.
        operations = 0 if type(node).__name__ == "AccumulateGrad" else 1
        lengths[node] = operations + max((lengths[earlier] for earlier in previous), default=0)
    return lengths[output.grad_fn]


def time_same_tokens(families: Sequence[str]) -> dict[str, Any]:
    """Times for the same number of tokens in longer and fewer sequences, in units of the shortest."""
    layers = {name: Layer(FAMILIES[name], WIDTH).eval() for name in families}
    functions = {(name, n): layers[name].make_forward(n, TOKENS // n) for n in LENGTHS for name in families}
    with use_threads(cores()):
        best = relative_times(InterleavedTimer(functions).run(12))
    times = {name: [best[name, n] for n in LENGTHS] for name in families}
    return {"lengths": list(LENGTHS), "times": times}


def time_threads(families: Sequence[str], count: int) -> dict[str, Any]:
    """Times on one thread and on all cores, in units of the shortest."""
    layers = {name: Layer(FAMILIES[name], THREADS_D).eval() for name in families}
    functions = {name: layer.make_forward(THREADS_N) for name, layer in layers.items()}
    timers = {number: InterleavedTimer(functions, time.perf_counter) for number in (1, count)}
    for _ in range(10):
        for number, timer in timers.items():
            with use_threads(number):
                timer.run(1)
    best = relative_times({(name, k): timer.best[name] for k, timer in timers.items() for name in families})
    times = {name: [best[name, number] for number in sorted(timers)] for name in families}
    return {"threads": sorted(timers), "times": times, "load": load_average()}


def report(settings: Settings, results: Results) -> Section:
    names, count = settings.families, cores()
    same_tokens, threaded = results["parallelism same tokens"], results["parallelism threads"]
    shortest, longest = same_tokens["lengths"][0], same_tokens["lengths"][-1]
    sizes = {"tokens": TOKENS, "width": WIDTH, "n": THREADS_N, "d": THREADS_D}
    sizes |= {"first": shortest, "last": longest}
    section = Section(**text_of("parallelism/section", count=count, **sizes))
    chains = chain_formulas(results["parallelism chain"])
    ratios = {name: [value / values[0] for value in values] for name, values in same_tokens["times"].items()}
    per_token = {name: values[-1] for name, values in ratios.items()}
    flops_per_token = {name: [flops_at(name, n, WIDTH) / n for n in (shortest, longest)] for name in names}
    per_flop = {name: per_token[name] / (counts[1] / counts[0]) for name, counts in flops_per_token.items()}
    speedups = {name: values[0] / values[-1] for name, values in threaded["times"].items()}
    section.add_cells("longest chain of operations", chains)
    label = f"n = {LENGTHS[-1]:,} over {LENGTHS[0]}"
    section.add_cells(f"time per token, {label}", per_token, format_ratio, f"time a token, {label}")
    section.add_cells(f"time per FLOP, {label}", per_flop, format_ratio, "time a FLOP, the same")
    by_growth = sorted(names, key=lambda name: not _slope(chains[name]))  # chains that grow come first
    growth = {
        name: ("grows with n" if _slope(chains[name]) else "does not depend on n", str(chains[name]))
        for name in by_growth
    }
    section.verdict = f"The longest chain of dependent operations {clauses(growth)}."
    section.add_sentence(_token_sentence(per_token, per_flop, longest // shortest))
    if count > 1:
        section.add_cells(f"speed-up on {count} threads", speedups, format_ratio)
        section.add_sentence(thread_sentence(speedups, count, threaded.get("load", 0.0)))
    else:
        section.add_sentence("Only one core is available here, so there is no speed-up to measure.")
    columns = ("family", "longest chain", *(f"time per token, n = {n:,}" for n in same_tokens["lengths"]))
    rows = [(name, str(chains[name]), *map(format_ratio, ratios[name])) for name in names]
    section.tables.append(Table(**text_of("parallelism/lengths", first=shortest), columns=columns, rows=rows))
    lines = {name: (same_tokens["lengths"], values) for name, values in ratios.items()}
    figure = size_figure(lines, **text_of("parallelism/plot", **sizes))
    section.figures.append(FigureBlock(figure, **text_of("parallelism/figure")))
    terms = {name: {"fixed": float(c.coefficient()), "each token": _slope(c)} for name, c in chains.items()}
    section.numbers = {"chain": terms, "time a token": per_token, "time a FLOP": per_flop}
    section.numbers["speed-up"] = speedups if count > 1 else {}
    return section


def chain_formulas(result: Any) -> dict[str, Polynomial]:
    """The longest chain of each family as a straight line in n.

    >>> print(chain_formulas({"lengths": [32, 64], "chains": {"lstm": [383, 767]}})["lstm"])
    12 n - 1
    """
    lengths = result["lengths"]

    def formula(chains: Sequence[int]) -> Polynomial:
        by_length = dict(zip(lengths, chains, strict=True))
        return interpolate(lambda sizes: by_length[sizes["n"]], {"n": (lengths[0], lengths[-1])})

    return {name: formula(values) for name, values in result["chains"].items()}


def _slope(chain: Polynomial) -> float:
    return float(chain.coefficient(n=1))


def _token_sentence(per_token: Mapping[str, float], per_flop: Mapping[str, float], factor: int) -> str:
    findings = {}
    for name, ratio in per_flop.items():
        longer = "more_flops" if per_token[name] > UNCHANGED_RATIO else "no_longer"
        text = text_of(f"parallelism/token/{'waiting' if ratio > UNCHANGED_RATIO else longer}")
        ratios = f"{format_ratio(per_token[name])} per token, {format_ratio(ratio)} per FLOP"
        findings[name] = (text, ratios)
    return f"With the same tokens in sequences {factor} times as long, {clauses(findings)}."


def thread_sentence(speedups: Mapping[str, float], count: int, machine_load: float = 0.0) -> str:
    """How much each family gains from several threads, and whether other programs had the cores meanwhile."""
    limits = (0.9, 1.1, 1 + (count - 1) / 2, math.inf)
    scale = list(zip(limits, text_of("parallelism/speed-up/scale"), strict=True))
    parts = clauses({name: (on_scale(x, scale), format_ratio(x)) for name, x in speedups.items()})
    # This process alone is a load of at most one thread per core.
    busy = text_of("parallelism/speed-up/busy", load=machine_load, count=count)
    return f"On {count} threads {parts}.{f' {busy}' if machine_load > count + 0.5 else ''}"
