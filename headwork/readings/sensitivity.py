r"""What a change of one key does to attention, for several values of beta (problem B3).

Key j moves by delta. Then one score of EVERY query changes, by beta q_i . delta, and with
a = beta q_i . delta the weight on key j goes from A to A e^a / (1 + A (e^a - 1)). Over all inputs its change
is at most tanh(|a| / 4), reached where the two weights lie evenly about 1/2. The output moves along
v_j minus the mean of the others, so |dy_i| <= tanh(beta |q_i . delta| / 4) max_k |v_j - v_k|.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.documents import Document, FigureBlock, Table, subplots
from headwork.documents.number_format import number_text
from headwork.errors import InputError, format_shape
from headwork.mechanisms import attention
from headwork.numbers import HandTensor
from headwork.numbers.parsing import read_tensor
from headwork.readings.recording import recorder

BETAS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 50.0)
ROUNDING = 1e-12  # a smaller movement, relative to the spread of the values, is rounding


@dataclass(frozen=True)
class Sensitivity:
    """Weights and outputs before and after, one entry per beta; arrays are beta x query (x ...)."""

    moved_key: int
    delta: NDArray[Any]
    betas: NDArray[Any]
    weights_before: NDArray[Any]  # beta x query x key
    weights_after: NDArray[Any]
    output_moved: NDArray[Any]  # how far each output moved: beta x query
    worst_case: NDArray[Any]  # the most it can move, over all inputs: beta x query
    flips_at: NDArray[Any]  # the multiple of delta at which this key and the best other tie; nan if never
    alignment: NDArray[Any]  # q . delta, by query
    spread: float  # the largest distance from the value of this key to another

    def table(self, digits: int = 4) -> Table:
        """One row per query and beta."""
        numbers = ("weight before", "weight after", "output moved", "worst case")
        columns = ("query", "q.delta", "beta", *numbers, "winner before", "winner after")
        rows = []
        for i in range(self.weights_before.shape[1]):
            for b, beta in enumerate(self.betas):
                before, after = self.weights_before[b, i], self.weights_after[b, i]
                weights = (before[self.moved_key], after[self.moved_key])
                values = (*weights, self.output_moved[b, i], self.worst_case[b, i])
                texts = [number_text(x, digits) for x in (self.alignment[i], *values)]
                rows.append((str(i), texts[0], _beta_text(beta), *texts[1:], winner(before), winner(after)))
        title = f"key {self.moved_key} moved by ({', '.join(number_text(x, digits) for x in self.delta)})"
        return Table(title, columns, rows, self.sentences(digits), extra_data=self._numbers())

    def document(self, digits: int = 4) -> Document:
        """The table and the curves."""
        table = self.table(digits)
        curves = FigureBlock(self.figure(), "how far the output moves, by beta")
        return Document(table.title, (replace(table, title=""), curves), data=table.as_data)

    def sentences(self, digits: int = 4) -> list[str]:
        """What the numbers mean, query by query."""
        sentences = [
            "q.delta is the dot product of a query and delta: the score of this key changes by beta q.delta, "
            "for every query where that is not 0."
        ]
        for i, multiple in enumerate(self.flips_at):
            moved = self.output_moved[:, i]
            largest = int(np.argmax(moved))
            if not np.any(moved > ROUNDING * self.spread):
                why = "q.delta is 0" if self.alignment[i] == 0 else "this key has no weight, or all of it"
                why = why if self.spread else "all values are equal"
                sentences.append(f"query {i}: nothing moves ({why}).")
                continue
            most = number_text(moved[largest], digits)
            text = f"query {i}: the output moves most at beta = {_beta_text(self.betas[largest])}, by {most}"
            if largest < len(moved) - 1 and moved[-1] < moved[largest] / 2:
                last = number_text(moved[-1], digits)
                text += f", and only {last} at {_beta_text(self.betas[-1])}: a clear winner damps it"
            if 0 < multiple <= 1:
                text += f"; the winner flips, at {number_text(multiple, digits)} of this delta"
            elif multiple > 1 and math.isfinite(multiple):
                text += f"; it would take {number_text(multiple, digits)} times this delta to flip the winner"
            if self.alignment[i] < 0:
                text += "; q.delta < 0, so this key loses weight however large delta is"
            sentences.append(text + ".")
        return sentences

    def _numbers(self) -> dict[str, Any]:
        names = [entry.name for entry in fields(self) if entry.name not in ("alignment", "spread")]
        numbers = {name: np.asarray(getattr(self, name)).tolist() for name in names}
        return numbers | {"flips_at": [x if math.isfinite(x) else None for x in numbers["flips_at"]]}

    def figure(self) -> Any:
        """Output change against beta, each query with its worst case."""
        figure, axes = subplots(7, 4)
        colours = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
        finite = np.isfinite(self.betas)
        betas = self.betas[finite]
        for curves, line, name in (
            (self.output_moved, "o-", "this input"),
            (self.worst_case, "--", "worst case"),
        ):
            # Queries whose curves coincide share one line, and its label names them all.
            same_curve: dict[tuple[float, ...], list[str]] = {}
            for i, curve in enumerate(curves[finite].T.round(12)):
                same_curve.setdefault(tuple(curve), []).append(str(i))
            for curve, queries in same_curve.items():
                colour = colours[int(queries[0]) % len(colours)] if len(queries) == 1 else "#555555"
                label = f"quer{'y' if len(queries) == 1 else 'ies'} {', '.join(queries)}: {name}"
                axes.plot(betas, curve, line, color=colour, alpha=0.8, label=label)
        axes.set(xscale="symlog" if 0 in betas else "log", xlabel="beta", ylabel="how far the output moves")
        axes.set_title(f"key {self.moved_key} moved")
        axes.legend(fontsize="small", ncols=2)
        axes.grid(alpha=0.25)
        return figure


def winner(weights: Any) -> str:
    """The keys with the largest weight."""
    largest = np.max(weights)
    return " and ".join(f"{k}" for k, w in enumerate(weights) if w >= largest - 1e-12)


def sensitivity(
    query: Any, key: Any, value: Any, *, moved_key: int, delta: Any, betas: Any = BETAS
) -> Sensitivity:
    """The effect of moving one key.

    >>> s = sensitivity("1", "1; 0", "1; 0", moved_key=0, delta="[1]", betas=[1.0])
    >>> bool(s.output_moved[0, 0] <= s.worst_case[0, 0])
    True
    """
    queries, keys, values = _matrix(query, "query"), _matrix(key, "key"), _matrix(value, "value")
    move = np.atleast_1d(_finite(delta, "delta"))
    if not 0 <= moved_key < len(keys):
        raise InputError(f"sensitivity: there is no key {moved_key}; there are {len(keys)}, counted from 0.")
    if move.shape != keys[0].shape:
        raise InputError(
            f"sensitivity: delta is {format_shape(move.shape, 'width')}, a key has width {keys.shape[1]}. "
            "Give one number per column."
        )
    beta_values = np.ravel(read_tensor(betas, where="betas").array)
    if min(beta_values) < 0:
        raise InputError(f"sensitivity: beta {min(beta_values):g} is negative. Give 0 or more, or oo.")
    shifted = keys.copy()
    shifted[moved_key] += move
    before, after = (_attend(queries, k, values, beta_values) for k in (keys, shifted))
    alignment = queries @ move
    spread = max(float(np.linalg.norm(values[moved_key] - other)) for other in values)
    bound = np.array(
        [[(math.tanh(b * abs(a) / 4) if a else 0.0) * spread for a in alignment] for b in beta_values]
    )
    moved = np.linalg.norm(after[1] - before[1], axis=-1)
    flips_at = _flips(queries, keys, moved_key, alignment)
    return Sensitivity(
        moved_key, move, beta_values, before[0], after[0], moved, bound, flips_at, alignment, spread
    )


def _attend(query: Any, key: Any, value: Any, betas: NDArray[Any]) -> tuple[Any, Any]:
    weights, outputs = [], []
    for beta in betas.tolist():
        recorded: dict[str, Any] = {}
        tensors = (HandTensor(x) for x in (query, key, value))
        attention(*tensors, beta=beta, note=recorder(recorded))
        weights.append(recorded["weights"].array)
        outputs.append(recorded["output"].array)
    return np.array(weights), np.array(outputs)


def _flips(query: Any, key: Any, moved_key: int, alignment: Any) -> Any:
    """The multiple of delta at which key ``moved_key`` draws level with the best other key."""
    scores = query @ key.T
    gap = np.delete(scores, moved_key, axis=1).max(axis=1, initial=-np.inf) - scores[:, moved_key]
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = gap / alignment
    return np.where((multiple > 0) & np.isfinite(multiple), multiple, np.nan)


def _finite(value: Any, where: str) -> Any:
    array = read_tensor(value, where=where).array
    if not np.isfinite(array).all():
        raise InputError(f"{where} holds an infinite number. Give finite ones; only beta may be oo.")
    return array


def _matrix(value: Any, where: str) -> Any:
    array = np.atleast_2d(_finite(value, where))
    if array.ndim != 2:
        raise InputError(f"{where} is {format_shape(array.shape, '')}. Expected rows and columns.")
    return array


def _beta_text(beta: float) -> str:
    return "∞" if math.isinf(beta) else f"{beta:g}"
