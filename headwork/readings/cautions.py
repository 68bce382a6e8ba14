"""Warnings beside a result, where a person is likely to be misled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from headwork.readings.trace import Trace

SATURATED = 30.0  # a gap of scores at which the smaller weight is lost beside the larger


def cautions(trace: Trace, *, columns: bool) -> list[str]:
    """Warnings for one trace, in the order in which its steps come."""
    checks = (
        _columns(trace, columns),
        _symmetric(trace),
        _hidden_rows(trace),
        _saturated(trace),
        _sums(trace),
    )
    return list(dict.fromkeys(warning for check in checks for warning in check))


def _numbers(trace: Trace, name: str) -> Iterator[tuple[str, Any]]:
    """Each recorded step of that name with plain numbers, tokens as rows."""
    for path, value in trace.steps.items():
        if path.rpartition("/")[2] == name:
            values = value.values
            if values.dtype != object:
                back = np.argsort(value.order)
                yield path, np.transpose(values, back)


def _columns(trace: Trace, columns: bool) -> Iterator[str]:
    if columns and "scores" in trace.steps and "query" in {**trace.inputs, **trace.steps}:
        width, count = trace["query"].shape[-2:]
        yield (
            f"tokens are columns, so the scores are K^T Q ({count} x {count} for {count} tokens) and softmax "
            f"runs down the columns. Q K^T would be {width} x {width}: it compares features, not tokens."
        )


def _symmetric(trace: Trace) -> Iterator[str]:
    matrices = [n for n in trace.inputs if n in ("W_q", "W_k", "W_v", "W_o")]
    if matrices and all(_equals_transpose(trace.inputs[n].raw.array) for n in matrices):
        yield (
            f"{', '.join(matrices)} {'is' if len(matrices) == 1 else 'are'} symmetric, "
            "so a transposed product (x W for W x) would go unnoticed."
        )
    for path, value in trace.steps.items():
        if (
            path.rpartition("/")[2] == "scores"
            and value.raw.shape[-1] > 1
            and _equals_transpose(value.raw.array)
        ):
            yield f"{path} are symmetric, so a transposed product (K Q^T for Q K^T) would go unnoticed."


def _equals_transpose(array: Any) -> bool:
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        return False
    return bool(np.all(array == np.swapaxes(array, -1, -2)))


def _hidden_rows(trace: Trace) -> Iterator[str]:
    for path, masked in _numbers(trace, "masked"):
        for row in sorted({int(i[-1]) for i in np.argwhere(np.all(np.isneginf(masked), axis=-1))}):
            yield (
                f"{path}: the mask hides every key from query {row}, so its softmax is 0/0, undefined. "
                "Let it attend to one key."
            )


def _saturated(trace: Trace) -> Iterator[str]:
    for path, scores in _numbers(trace, "scores"):
        if path.replace("scores", "sums") in trace.steps or trace.options.get("beta") == float("inf"):
            continue
        gap = float(np.max(np.max(scores, -1) - np.min(scores, -1)))
        if gap > SATURATED:
            yield (
                f"{path}: scores differ by {gap:.3g} within a row, so softmax saturates: the smallest weight "
                f"is below 1e-{int(gap / np.log(10))} and its gradient is lost. "
                "Use a smaller beta (1/sqrt(d_k) is usual)."
            )


def _sums(trace: Trace) -> Iterator[str]:
    if trace.options.get("features") != "none":
        return
    advice = "Raw dot products may do that; features=elu+1 keeps them positive."
    for path, sums in _numbers(trace, "sums"):
        for row in range(sums.shape[-2]):
            if np.any(np.abs(sums[..., row, :]) < 1e-9):
                yield f"{path}: the scores of query {row} sum to zero: its weights are undefined. {advice}"
    for path, weights in _numbers(trace, "weights"):
        if np.any(weights < 0):
            yield f"{path}: some weights are negative, so the output is not a mean of the values. {advice}"
