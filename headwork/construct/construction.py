"""What ``headwork.build`` returns: the weights, the certificate, and the ways to use and to show them."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from headwork.construct.certificate import Perturbation
from headwork.construct.position_codes import BASE, rotate
from headwork.construct.targets import Array, text_of
from headwork.documents import Document, Renderable, Table
from headwork.errors import InputError
from headwork.mechanisms import attention
from headwork.numbers import HandTensor
from headwork.readings import Trace, explain

MATRICES = ("W_q", "W_k", "W_v", "W_o")
CERTIFICATE = (
    *("beta", "beta_exact", "beta_why", "heads", "norm", "norm_exact", "tolerance", "relative"),
    *("bound", "rounding", "measured", "measured_random", "random_inputs", "holds"),
)


@dataclass(frozen=True, eq=False)
class Construction(Renderable):
    """Heads to order. Row i of the input is ``[content | codes]``; matrices apply as W x, one per head.

    Where ``possible`` is false, ``reason`` proves it; where it is None, none were found, and ``reason`` says
    what was searched. There are no matrices then.
    """

    possible: bool | None
    target: str
    tokens: int = 0
    W_q: list[Array] = field(default_factory=list)
    W_k: list[Array] = field(default_factory=list)
    W_v: list[Array] = field(default_factory=list)
    W_o: list[Array] = field(default_factory=list)
    codes: Array = field(default_factory=partial(np.zeros, (0, 0)))
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
    worst_content: Array = field(default_factory=partial(np.zeros, (0, 0)))  # content rows
    matrix: Array = field(default_factory=partial(np.zeros, (0, 0)))  # the target: output = matrix @ content
    queries: tuple[int, ...] = ()  # the tokens that have an output; empty for all
    rotary: bool = False
    relative: bool = False  # whether errors are divided by the norm
    perturbation: Perturbation | None = None
    remarks: tuple[str, ...] = ()
    reason: str = ""
    positions = property(lambda self: self.codes)  # the former name

    @property
    def heads(self) -> int:
        return len(self.W_q)

    @property
    def holds(self) -> bool:
        """measured <= bound <= tolerance."""
        within = max(self.measured, self.measured_random) <= self.bound
        return bool(self.possible) and within and (self.tolerance is None or self.bound <= self.tolerance)

    # --- using it -------------------------------------------------------------------------------

    def input(self, content: Any) -> Array:
        """Content rows followed by the codes of their positions; leading axes are a batch."""
        rows = np.asarray(content, float)
        expected = (self.tokens, self.W_v[0].shape[1] - self.codes.shape[1])
        if rows.shape[-2:] != expected:
            shape = " x ".join(map(str, rows.shape))
            raise InputError(f"content is {shape}. Expected {expected[0]} rows of width {expected[1]}.")
        codes = np.broadcast_to(self.codes, (*rows.shape[:-1], self.codes.shape[1]))
        return np.concatenate([rows, codes], axis=-1)

    def stacked(self, width: int | None = None, beta: float | None = None) -> dict[str, Array]:
        """One matrix for all heads, as multi-head attention takes it.

        With ``width`` each matrix is padded with zeros to width x width, heads of one size, for a layer of a
        model. With ``beta`` W_q absorbs the ratio to that beta: the layer's own 1/sqrt(head width), say.
        """
        factor = 1.0 if beta is None else self.beta / beta
        parts = {"W_q": [factor * W for W in self.W_q], "W_k": self.W_k, "W_v": self.W_v, "W_o": self.W_o}
        if width is not None:
            head_width, token_width = width // self.heads, self.W_q[0].shape[1]
            needed = max(max(W.shape[0] for W in self.W_q), self.W_v[0].shape[0])
            if width % self.heads or head_width < needed or width < token_width:
                smallest = self.heads * max(needed, -(-token_width // self.heads))
                raise InputError(
                    f"stacked: {self.heads} heads of width {needed} "
                    f"over tokens of width {token_width} do not fit into width {width}. "
                    f"Take a multiple of {self.heads} that is at least {smallest}."
                )
            for name, matrices in parts.items():
                rows, columns = (width, head_width) if name == "W_o" else (head_width, width)
                parts[name] = [
                    np.pad(W, ((0, rows - W.shape[0]), (0, columns - W.shape[1]))) for W in matrices
                ]
        return {name: np.concatenate(part, axis=1 if name == "W_o" else 0) for name, part in parts.items()}

    def apply(self, content: Any) -> Array:
        """Our own attention with these weights, on content rows."""
        tokens = self.input(content)
        outputs = [
            attention(*self.project(tokens, head), beta=self.beta).array @ W_o.T
            for head, W_o in enumerate(self.W_o)
        ]
        return np.asarray(np.sum(outputs, axis=0))

    def project(self, tokens: Array, head: int) -> tuple[HandTensor, HandTensor, HandTensor]:
        """Query, key and value of one head, rotated by their positions where these are rotary."""
        query, key = self._query_rows(tokens) @ self.W_q[head].T, tokens @ self.W_k[head].T
        if self.rotary:
            query, key = rotate(query, self.queries), rotate(key, ())
        return HandTensor(query), HandTensor(key), HandTensor(tokens @ self.W_v[head].T)

    def _query_rows(self, tokens: Array) -> Array:
        return tokens[..., list(self.queries), :] if self.queries else tokens

    def error(self, content: Any) -> float:
        """The largest l2 error of an output row, over the whole batch."""
        rows = np.asarray(content, float)
        errors = np.linalg.norm(self.apply(rows) - self.matrix @ rows, axis=-1)
        return float(errors.max()) / (self.norm if self.relative else 1.0)

    # --- showing it -----------------------------------------------------------------------------

    def example(self) -> Array:
        """Content that is easy to follow: ramps within the norm."""
        if self.relative:
            return self.worst_content
        width = self.worst_content.shape[1]
        ramp = (np.add.outer(np.arange(self.tokens), np.arange(width)) % self.tokens + 1) / self.tokens
        return np.asarray(self.norm * ramp / np.sqrt(width))

    def trace(self, content: Any = None, *, head: int = 0) -> Trace:
        """Every step on an example; with rotary positions the steps of one head."""
        tokens = self.input(self.example() if content is None else content)
        if self.rotary:
            query, key, value = self.project(tokens, head)
            steps = explain("attention", query=query, key=key, value=value, beta=self.beta)
            return replace(steps, warnings=[])  # that scores saturate, say, is what was asked for
        inputs: dict[str, Any] = {"tokens": self._query_rows(tokens), **self.stacked()}
        if self.queries:
            inputs["memory"] = tokens
        steps = explain("multi-head-attention", **inputs, heads=self.heads, beta=self.beta)
        return replace(steps, warnings=[])

    def as_data(self) -> dict[str, Any]:
        """Plain lists and numbers, for any program to check."""
        if not self.possible:
            verdict = {"possible": self.possible, "proved": self.possible is False}
            return {**verdict, "target": self.target, "reason": self.reason}
        return {
            "possible": True,
            "target": self.target,
            "tokens": self.tokens,
            **{name: [W.tolist() for W in getattr(self, name)] for name in MATRICES},
            "positions": self.codes.tolist(),
            "rotary": {"base": BASE} if self.rotary else None,
            **{name: getattr(self, name) for name in CERTIFICATE},
            "worst_input": self.worst_content.tolist(),
            "matrix": self.matrix.tolist(),
            "queries": list(self.queries or range(self.tokens)),
            "perturbation": None if self.perturbation is None else dict(vars(self.perturbation)),
            "remarks": list(self.remarks),
        }

    def document(self) -> Document:
        """The setting, the certificate, and the trace of an example; or why there is none."""
        if not self.possible:
            verdict = "none found" if self.possible is None else "impossible"
            return Document(f"{self.target}: {verdict}", (self.reason,), data=self.as_data)
        parts: list[Any] = [self._setting(), self._certificate()]
        if (move := self.perturbation) is not None:
            reads = " (1 for r where values read positions)" if self._reads_content else ""
            parts.append(text_of("setting/perturbation", reads=reads, **vars(move)))
        if not self.relative:
            worst = self.worst_content[:, 0]
            numbers = " ".join(f"{x:.4g}" for x in worst[:16]) + (" ..." if len(worst) > 16 else "")
            parts.append(text_of("setting/worst", numbers=numbers))
        several = " W_q, W_k and W_v hold the heads one below another, W_o side by side."
        example = f"An example{', head 0' if self.rotary else ''}.{several if self.heads > 1 else ''}"
        return Document(self.target, (*parts, example, self.trace()), data=self.as_data)

    @property
    def _reads_content(self) -> bool:
        """Whether scores do, of heads that attend by position otherwise."""
        return not self.relative and any(W[:, : self.worst_content.shape[1]].any() for W in self.W_q)

    def _setting(self) -> str:
        if self.relative:
            return str(text_of("setting/relative"))
        width = self.codes.shape[1]
        codes = f"position codes of width {width}" if width else "no positions"
        codes = "a constant 1, with rotary positions" if self.rotary else codes
        sizes = {"tokens": self.tokens, "width": self.worst_content.shape[1], "norm": self.norm}
        return str(text_of("setting/rows", codes=codes, **sizes))

    def _certificate(self) -> Table:
        """What is proved and what was measured, in numbers; sentences go below."""
        tolerance = "none given" if self.tolerance is None else f"{self.tolerance:g}"
        random_note = f"the most over {self.random_inputs} random inputs"
        rows = [
            ("heads", str(self.heads), ""),
            ("beta", f"{self.beta:.10g}", self.beta_exact and f"= {self.beta_exact}"),
            *([("norm", f"{self.norm:.10g}", f"= {self.norm_exact}")] if self.norm_exact else []),
            ("tolerance", tolerance, "requested"),
            ("bound", f"{self.bound:.10g}", f"proved; {self.rounding:.1e} of it for rounding"),
            ("measured", f"{self.measured:.10g}", "on the worst input"),
            *([("measured", f"{self.measured_random:.10g}", random_note)] if self.random_inputs else []),
            ("certificate", "holds" if self.holds else "FAILS", "measured <= bound <= tolerance"),
        ]
        proof = "the relative error" if self.relative else "r times the largest row sum of |A - target|"
        if self._reads_content:
            proof += ", what is not linear in the content that scores read"
        notes = [f"beta: {self.beta_why}.", f"bound: {proof}, and rounding."]
        notes += [f"{remark}." for remark in self.remarks]
        return Table("", ("quantity", "value", ""), list(rows), notes)
