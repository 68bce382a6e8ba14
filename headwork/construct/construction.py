"""What ``headwork.build`` returns: the weights, the certificate, and the ways to use and to show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.construct.certificate import Perturbation
from headwork.construct.codes import BASE, turned
from headwork.errors import InputError
from headwork.mechanisms import attention, multi_head_attention
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headwork.readings import Trace
    from headwork.readings.report import Report

    Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Construction:
    """Heads to order. Row i of the input is ``[content | positions]``; ``W_q[h]`` and the others apply as W x.

    Where ``possible`` is false, ``reason`` says why, and there are no matrices.
    """

    possible: bool
    target: str
    tokens: int = 0
    W_q: list[Array] = field(default_factory=list)
    W_k: list[Array] = field(default_factory=list)
    W_v: list[Array] = field(default_factory=list)
    W_o: list[Array] = field(default_factory=list)
    positions: Array = field(default_factory=lambda: np.zeros((0, 0)))
    beta: float = 0.0
    beta_exact: str = ""
    beta_why: str = ""
    norm: float = 1.0
    norm_exact: str = ""  # of copy: the smallest norm, exactly
    tolerance: float | None = None
    bound: float = 0.0
    rounding: float = 0.0  # the part of the bound that float64 takes
    measured: float = 0.0
    measured_random: float = 0.0
    random_inputs: int = 0
    worst_input: Array = field(default_factory=lambda: np.zeros((0, 0)))  # content rows
    matrix: Array = field(
        default_factory=lambda: np.zeros((0, 0))
    )  # what is asked: output = matrix @ content
    places: tuple[int, ...] = ()  # the tokens that ask; empty for all
    rotary: bool = False
    relative: bool = False  # whether errors are shares of the norm
    perturbation: Perturbation | None = None
    remarks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def heads(self) -> int:
        return len(self.W_q)

    @property
    def holds(self) -> bool:
        """measured <= bound <= tolerance."""
        worst = max(self.measured, self.measured_random)
        return (
            self.possible and worst <= self.bound and (self.tolerance is None or self.bound <= self.tolerance)
        )

    # --- using it -------------------------------------------------------------------------------

    def input(self, content: Any) -> Array:
        """Content rows with the positions behind them; leading axes are a batch."""
        rows = np.asarray(content, float)
        wanted = (self.tokens, self.W_v[0].shape[1] - self.positions.shape[1])
        if rows.shape[-2:] != wanted:
            raise InputError(
                f"content is {' x '.join(map(str, rows.shape))}. Expected {wanted[0]} rows of width {wanted[1]}."
            )
        return np.concatenate(
            [rows, np.broadcast_to(self.positions, (*rows.shape[:-1], self.positions.shape[1]))], axis=-1
        )

    def stacked(self, width: int | None = None, beta: float | None = None) -> dict[str, Array]:
        """One matrix for all heads, as multi-head attention takes it.

        With ``width`` each matrix is filled up with zeros to width x width, heads of one size, for a layer of a
        model. With ``beta`` W_q takes over what that beta lacks: the layer's own 1/sqrt(head width), say.
        """
        factor = 1.0 if beta is None else self.beta / beta
        parts = {"W_q": [factor * W for W in self.W_q], "W_k": self.W_k, "W_v": self.W_v, "W_o": self.W_o}
        if width is not None:
            room = width // self.heads
            needed = max(max(W.shape[0] for W in self.W_q), self.W_v[0].shape[0])
            if width % self.heads or room < needed or width < self.W_q[0].shape[1]:
                raise InputError(
                    f"stacked: {self.heads} heads of width {needed} over tokens of width {self.W_q[0].shape[1]} do not "
                    f"fit into width {width}. Take a multiple of {self.heads} from "
                    f"{self.heads * max(needed, -(-self.W_q[0].shape[1] // self.heads))} on."
                )
            parts = {
                name: [_filled(W, *((width, room) if name == "W_o" else (room, width))) for W in matrices]
                for name, matrices in parts.items()
            }
        return {name: np.concatenate(part, axis=1 if name == "W_o" else 0) for name, part in parts.items()}

    def apply(self, content: Any) -> Array:
        """Our own attention with these weights, on content rows."""
        tokens = self.input(content)
        if self.rotary:
            outputs = [self._rotary_head(tokens, head) for head in range(self.heads)]
            return np.asarray(np.sum(outputs, axis=0))
        asking = HandTensor(tokens[..., list(self.places), :]) if self.places else HandTensor(tokens)
        matrices: dict[str, Any] = {name: HandTensor(W) for name, W in self.stacked().items()}
        return np.asarray(
            multi_head_attention(
                asking, **matrices, memory=HandTensor(tokens), heads=self.heads, beta=self.beta
            ).array
        )

    def _rotary_head(self, tokens: Array, head: int) -> Array:
        query, key, value = self.projected(tokens, head)
        return np.asarray(attention(query, key, value, beta=self.beta).array @ self.W_o[head].T)

    def projected(self, tokens: Array, head: int) -> tuple[HandTensor, HandTensor, HandTensor]:
        """Query, key and value of one head, turned by their places where positions are rotary."""
        asking = tokens[..., list(self.places), :] if self.places else tokens
        query, key = asking @ self.W_q[head].T, tokens @ self.W_k[head].T
        if self.rotary:
            query, key = turned(query, self.places), turned(key, ())
        return HandTensor(query), HandTensor(key), HandTensor(tokens @ self.W_v[head].T)

    def error(self, content: Any) -> float:
        """The largest l2 error of an output row, over the whole batch."""
        rows = np.asarray(content, float)
        off = np.linalg.norm(self.apply(rows) - self.matrix @ rows, axis=-1)
        return float(off.max()) / (self.norm if self.relative else 1.0)

    # --- showing it -----------------------------------------------------------------------------

    def example(self) -> Array:
        """Content that is easy to follow: ramps within the norm."""
        if self.relative:
            return self.worst_input
        width = self.worst_input.shape[1]
        ramp = (np.add.outer(np.arange(self.tokens), np.arange(width)) % self.tokens + 1) / self.tokens
        return np.asarray(self.norm * ramp / np.sqrt(width))

    def trace(self, content: Any = None, *, head: int = 0) -> Trace:
        """Every step on an example; with rotary positions the steps of one head."""
        from headwork.readings import explain

        tokens = self.input(self.example() if content is None else content)
        if self.rotary:
            query, key, value = self.projected(tokens, head)
            return explain("attention", query=query, key=key, value=value, beta=self.beta)
        given: dict[str, Any] = {"tokens": tokens, **self.stacked()}
        if self.places:
            given |= {"tokens": tokens[list(self.places)], "memory": tokens}
        return explain("multi-head-attention", **given, heads=self.heads, beta=self.beta)

    def as_data(self) -> dict[str, Any]:
        """Plain lists and numbers, for any program to check."""
        if not self.possible:
            return {"possible": False, "target": self.target, "reason": self.reason}
        lists = {name: [W.tolist() for W in getattr(self, name)] for name in ("W_q", "W_k", "W_v", "W_o")}
        moved = self.perturbation
        return {
            "possible": True,
            "target": self.target,
            "tokens": self.tokens,
            **lists,
            "positions": self.positions.tolist(),
            "rotary": {"base": BASE} if self.rotary else None,
            "beta": self.beta,
            "beta_exact": self.beta_exact,
            "beta_why": self.beta_why,
            "heads": self.heads,
            "norm": self.norm,
            "norm_exact": self.norm_exact,
            "tolerance": self.tolerance,
            "relative": self.relative,
            "bound": self.bound,
            "rounding": self.rounding,
            "measured": self.measured,
            "measured_random": self.measured_random,
            "random_inputs": self.random_inputs,
            "holds": self.holds,
            "worst_input": self.worst_input.tolist(),
            "matrix": self.matrix.tolist(),
            "queries": list(self.places or range(self.tokens)),
            "perturbation": None if moved is None else dict(vars(moved)),
            "remarks": list(self.remarks),
        }

    def report(self) -> Report:
        from headwork.construct.showing import construction_report

        return construction_report(self)

    def to_text(self) -> str:
        return self.report().to_text()

    def to_markdown(self) -> str:
        return self.report().to_markdown()

    def to_latex(self, fragment: bool = False) -> str:
        return self.report().to_latex(fragment)

    def to_html(self) -> str:
        return self.report().to_html()

    def to_json(self) -> str:
        import json

        return json.dumps(self.as_data(), ensure_ascii=False, allow_nan=False) + "\n"

    def __str__(self) -> str:
        return self.to_text()


def _filled(matrix: Array, rows: int, columns: int) -> Array:
    whole = np.zeros((rows, columns))
    whole[: matrix.shape[0], : matrix.shape[1]] = matrix
    return whole
