"""Warnings beside a result, where a person is likely to be misled."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headwork.files import load_package_toml
from headwork.readings.trace import Trace

WORDS = load_package_toml(__file__, "warnings.toml")
SATURATED = 30.0  # a gap of scores at which the smaller weight is lost beside the larger


def trace_warnings(trace: Trace, *, tokens_as_columns: bool) -> list[str]:
    """Warnings for one trace, in the order in which its steps come."""
    checks = (_symmetric, _constant_tokens, _causal, _hidden_rows, _saturated, _sums)
    warnings = [*_columns(trace, tokens_as_columns), *(w for check in checks for w in check(trace))]
    return list(dict.fromkeys(warnings))


def _numbers(trace: Trace, name: str) -> Iterator[tuple[str, Any]]:
    """Each recorded step of that name with plain numbers, tokens as rows. Scores are those of keys."""
    for path, value in trace.steps.items():
        if path.rpartition("/")[2] == name and (name != "scores" or "key" in value.card.axes):
            values = value.values
            if values.dtype != object:
                inverse = np.argsort(value.order)
                yield path, np.transpose(values, inverse)


def _columns(trace: Trace, tokens_as_columns: bool) -> Iterator[str]:
    if tokens_as_columns and "scores" in trace.steps and "query" in {**trace.inputs, **trace.steps}:
        width, count = trace["query"].shape[-2:]
        yield WORDS["columns"].format(count=count, width=width)


def _symmetric(trace: Trace) -> Iterator[str]:
    """Only where it can mislead: matrices were given, or queries and keys differ and yet give such scores."""
    matrices = [n for n in trace.inputs if n in ("W_q", "W_k", "W_v", "W_o")]
    symmetric = all(_equals_transpose(trace.inputs[n].raw.array) for n in matrices)
    facts: dict[str, str] = {}
    if matrices and symmetric:
        facts[f"{', '.join(matrices)} {'is' if len(matrices) == 1 else 'are'} symmetric"] = "x W for W x"
    everything = {**trace.inputs, **trace.steps}
    for path, value in trace.steps.items():
        scope, _, suffix = path.rpartition("scores")
        query, key = (everything.get(scope + side) for side in ("query", "key"))
        if suffix or query is None or key is None or np.array_equal(query.raw.array, key.raw.array):
            continue
        if _equals_transpose(value.raw.array):
            facts[f"{path} are symmetric"] = "K Q^T for Q K^T"
    if facts:
        products = " or ".join(dict.fromkeys(facts.values()))
        yield WORDS["symmetric"].format(facts=" and ".join(facts), products=products)


def _equals_transpose(array: Any) -> bool:
    square = array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1
    return square and bool(np.all(array == np.swapaxes(array, -1, -2)))


def _constant_tokens(trace: Trace) -> Iterator[str]:
    for name, state in (("deviation", "constant"), ("size", "all 0")):
        for path, size in _numbers(trace, name):
            for row in np.flatnonzero(size == 0):
                yield WORDS["constant"].format(path=path, row=row, state=state)


def _causal(trace: Trace) -> Iterator[str]:
    for path, scores in _numbers(trace, "scores"):
        queries, keys = scores.shape[-2:]
        own = "cross-attention/" not in path  # a decoder's mask is for its own tokens
        if own and isinstance(trace.options.get("mask"), str) and keys > queries:
            yield WORDS["causal"].format(path=path, queries=queries, keys=keys, last=keys - queries)


def _hidden_rows(trace: Trace) -> Iterator[str]:
    for path, masked in _numbers(trace, "masked"):
        for row in sorted({int(i[-1]) for i in np.argwhere(np.all(np.isneginf(masked), axis=-1))}):
            yield WORDS["hidden"].format(path=path, row=row)


def _saturated(trace: Trace) -> Iterator[str]:
    for path, scores in _numbers(trace, "scores"):
        if path.replace("scores", "sums") in trace.steps or trace.options.get("beta") == float("inf"):
            continue
        rows = (row[np.isfinite(row)] for row in scores.reshape(-1, scores.shape[-1]))
        gap = max((float(np.ptp(row)) for row in rows if len(row)), default=0.0)
        if gap > SATURATED:
            yield WORDS["saturated"].format(path=path, gap=gap, digits=int(gap / np.log(10)))


def _sums(trace: Trace) -> Iterator[str]:
    if trace.options.get("features") != "none":
        return
    for path, sums in _numbers(trace, "sums"):
        for row in range(sums.shape[-2]):
            if np.any(np.abs(sums[..., row, :]) < 1e-9):
                yield WORDS["zero_sum"].format(path=path, row=row)
    for path, weights in _numbers(trace, "weights"):
        if np.any(weights < 0):
            yield WORDS["negative"].format(path=path)
