"""``headwork.build``: a target in, heads with a certificate out."""

import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from headwork.construct import certificate, position_codes
from headwork.construct.certificate import ContentReadingHeads, ScoredHead
from headwork.construct.construction import Construction
from headwork.construct.copying import copy
from headwork.construct.head_search import TOLERANCE, HeadSearch, as_softmax_weights, check_possible
from headwork.construct.targets import TARGETS, Impossible, NotFound, check_integer, text_of
from headwork.documents import Document, Item, Items
from headwork.errors import InputError, TooLarge, check_all_known, check_known
from headwork.mechanisms import attention
from headwork.numbers import HandTensor

MAX_VALUES = 20_000_000  # entries of all W_v
TARGET_FUNCTIONS: dict[str, Any] = {**TARGETS, "copy": copy}  # copy is by content: it builds its own head
MAX_RANDOM_WEIGHTS = 100_000  # the most attention weights over all random inputs


def build(
    target: str,
    /,
    *,
    tolerance: float | None = None,
    positions: str = "one-hot",
    norm: float = 1.0,
    width: int = 2,
    heads: int | None = None,
    position_width: int | None = None,
    delta: float = 0.1,
    **details: Any,
) -> Construction:
    """Heads for a target, with the proof of how well they do; or a proof that none can; or what was searched.

    ``details`` are the target's own: tokens, order, by, ends, window, causal, taps, kernel, grid, matrix,
    head_width. ``norm`` bounds the content rows, ``width`` is their width, ``heads`` the most that may be
    used, ``delta`` how far the certificate moves one key.

    >>> swap = build("permutation", order="2 1", tolerance=0.1)
    >>> swap.beta_exact, round(swap.beta, 3), swap.holds
    ('ln(19)', 2.944, True)
    """
    name = target.replace("_", "-")
    tolerance = None if tolerance is None else _positive(tolerance, "tolerance")
    norm, delta = _positive(norm, "norm"), _positive(delta, "delta")
    check_known("target", name, TARGET_FUNCTIONS)
    check_all_known(f"input of {name}", details, _inputs(name))
    width = check_integer(width, "width", 1, 1024)
    heads = None if heads is None else check_integer(heads, "heads", 1, 512)
    code_width = position_codes.DEFAULT_WIDTH if position_width is None else position_width
    code_width = check_integer(code_width, "position_width", 2, 1024)
    if position_width is not None and positions not in ("sinusoidal", "rotary"):
        raise InputError(f"position_width is for sinusoidal and rotary positions; these are {positions}.")
    if name == "copy":
        if (positions, norm, width, delta) != ("one-hot", 1.0, 2, 0.1):
            raise InputError("copy takes tokens and tolerance only: it finds the norm, by content alone.")
        return copy(tolerance=tolerance or TOLERANCE, **details)
    if name != "matrix":
        tolerance = tolerance or TOLERANCE
    chosen = TARGETS[name](**details)
    try:
        if name == "matrix":
            chosen = as_softmax_weights(chosen, tolerance, norm)
        builder = HeadBuilder(chosen, positions, norm, width, code_width, tolerance, heads)
        check_possible(builder, heads)
        return builder.construct(delta)
    except Impossible as proof:
        return Construction(False, name, reason=str(proof), tolerance=tolerance, norm=norm)
    except NotFound as reason:
        return Construction(None, name, reason=str(reason), tolerance=tolerance, norm=norm)


def target_list() -> Document:
    """Every target with its inputs.

    >>> print(target_list().to_text().splitlines()[2])
      identity        Every token keeps its own content: y_i = x_i. [tokens, grid]
    """
    items = (
        Item(f"{(inspect.getdoc(function) or '').splitlines()[0]} [{', '.join(_inputs(name))}]", name)
        for name, function in TARGET_FUNCTIONS.items()
    )
    return Document("Targets", (Items(tuple(items)),))


def _positive(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < math.inf:
        raise InputError(f"{name} is {value!r}. Expected a positive number.")
    return float(value)


def _inputs(target: str) -> list[str]:
    return [name for name in inspect.signature(TARGET_FUNCTIONS[target]).parameters if name != "tolerance"]


@dataclass(eq=False)
class HeadBuilder(HeadSearch):
    """One search after the other, until heads keep the tolerance."""

    max_heads: int | None = None

    def construct(self, delta: float) -> Construction:
        """The first heads that keep the tolerance; where none was given, also the nearest."""
        nearest: Construction | None = None
        refusals: list[NotFound] = []
        for find_heads in self.strategies():
            try:
                result = self._certify(find_heads())
            except NotFound as refusal:
                refusals.append(refusal)
                continue
            if result.bound <= self.max_error:
                return self._measure(result, delta)
            nearest = result if nearest is None or result.bound < nearest.bound else nearest
        if nearest is not None and self.tolerance is None:
            return self._measure(nearest, delta)
        if nearest is not None:
            refusals.append(NotFound(f"heads of that width, which miss by {nearest.bound:.3g} at best"))
        if too_small := [each for each in refusals if isinstance(each, certificate.ToleranceTooSmall)]:
            raise too_small[0]
        advice = "" if self.position_kind == "one-hot" else ", or use one-hot positions"
        searched = "; ".join(dict.fromkeys(map(str, refusals)))
        raise NotFound(
            f"no proof that none exist. Searched: {searched}. "
            f"Allow more heads, a larger tolerance or a larger width{advice}."
        )

    def _certify(self, heads: list[ScoredHead]) -> Construction:
        readers = self.content_heads()
        count = len(heads) + sum(self.width + reader.subtracts_mean for reader in readers)
        if self.max_heads is not None and count > self.max_heads:
            raise NotFound(f"{count} heads, where at most {self.max_heads} may be used")
        if count * self.width * (self.width + self.codes.shape[1]) > MAX_VALUES:
            raise TooLarge(f"{count} heads for content of width {self.width}. Take a smaller width.")
        all_heads = [*heads, *(reader.base for reader in readers)]
        has_fixed_scores = any(scored.fixed_scores.any() for scored in all_heads)
        beta = 1.0
        if any(scored.beta_scores.any() for scored in all_heads) or not has_fixed_scores:
            bound_at = partial(certificate.bound, heads, self.matrix, self.norm, readers=readers)
            beta = certificate.smallest_beta(bound_at, self.max_error)
            beta = max(beta, 1.0) if has_fixed_scores else beta
        result = self._construct_at(beta, heads, readers)
        for step in range(36):  # the matrices are rounded where the search was not: give beta what that costs
            if self.tolerance is None or result.bound <= self.tolerance or self.too_narrow():
                break
            beta *= 1 + 2.0 ** (step - 50)
            result = self._construct_at(beta, heads, readers)
        if result.bound > self.max_error and not self.too_narrow():
            raise certificate.missed_tolerance(self.max_error, result.bound, result.rounding)
        return result

    def _measure(self, result: Construction, delta: float) -> Construction:
        cases = max(4, min(200, MAX_RANDOM_WEIGHTS // (self.matrix.size * result.heads)))
        contents = certificate.random_contents(cases, self.target.tokens, self.width, self.norm, seed=0)
        return replace(
            result,
            measured=result.error(result.worst_content),
            measured_random=result.error(contents),
            random_inputs=cases,
            perturbation=self._perturb(result, delta),
        )

    def _construct_at(
        self, beta: float, heads: list[ScoredHead], readers: list[ContentReadingHeads]
    ) -> Construction:
        """The matrices for this beta, and the bound on what they really do."""
        scored_heads = [self.score(scored.head, *scored.projections_at(beta)) for scored in heads]
        scored_bases = [self.score(reader.base.head, *reader.base.projections_at(beta)) for reader in readers]
        width, token_width = self.width, self.width + self.codes.shape[1]
        matrices = []
        for scored in scored_heads:
            pair = [np.pad(W, ((0, 0), (width, 0))) for W in scored.projections_at(beta)]
            matrices.append((pair, np.eye(width, token_width), scored.head.coefficient))
        for reader in readers:
            for dimension in range(width + reader.subtracts_mean):  # the last one takes away their mean
                query, key = (np.pad(W, ((1, 0), (width, 0))) for W in reader.base.projections_at(beta))
                value = np.zeros((width, token_width))
                value[dimension if dimension < width else slice(None), width:] = reader.value_projection
                if dimension < width:
                    query[0, dimension], key[0, width:] = (reader.slope / beta, reader.value_projection)
                coefficient = reader.base.head.coefficient
                matrices.append(([query, key], value, coefficient if dimension < width else -coefficient))
        rows = max(len(query) for (query, _), _, _ in matrices)
        scored_readers = [replace(r, base=base) for r, base in zip(readers, scored_bases, strict=True)]
        proved = certificate.bound(scored_heads, self.matrix, self.norm, beta, scored_readers)
        exact, why = self._explain_beta(beta, heads, readers)
        return Construction(
            True,
            self.target.title,
            self.target.tokens,
            W_q=[np.pad(query, ((0, rows - len(query)), (0, 0))) for (query, _), _, _ in matrices],
            W_k=[np.pad(key, ((0, rows - len(key)), (0, 0))) for (_, key), _, _ in matrices],
            W_v=[value for _, value, _ in matrices],
            W_o=[factor * np.eye(width) for _, _, factor in matrices],
            codes=self.codes,
            beta=beta,
            beta_exact=exact,
            beta_why=why,
            norm=self.norm,
            tolerance=self.tolerance,
            bound=proved.value,
            rounding=proved.rounding,
            worst_content=certificate.worst_content(proved, self.norm, self.width),
            matrix=self.matrix,
            queries=self.target.queries,
            rotary=self.position_kind == "rotary",
            remarks=tuple(self._remarks(heads, readers)),
        )

    def _explain_beta(
        self, beta: float, heads: list[ScoredHead], readers: list[ContentReadingHeads]
    ) -> tuple[str, str]:
        """beta in closed form where there is one, and why it is the smallest."""
        if len(heads) > 1 or readers:
            return "", text_of("beta/several")
        beta_scores, fixed_scores, head = heads[0].beta_scores, heads[0].fixed_scores, heads[0].head
        if not beta_scores.any():
            return "", text_of("beta/flat")
        if self.position_kind != "one-hot" or self.tolerance is None or fixed_scores.any() or heads[0].remark:
            return "", text_of("beta/falls")
        numbers = (self.norm, abs(head.coefficient), self.tolerance)
        norm, coefficient, tolerance = (Fraction(str(number)) for number in numbers)
        fewest = int(beta_scores.sum(axis=1).min())
        exact = Fraction(self.target.tokens - fewest, fewest) * (2 * norm * coefficient / tolerance - 1)
        closed_form = "0" if beta == 0 else ""
        if exact > 1 and len(str(exact)) < 40 and beta > 1:
            closed_form = f"ln({exact})"
        return closed_form, text_of("beta/exact")

    def _remarks(self, heads: list[ScoredHead], readers: list[ContentReadingHeads]) -> Iterator[str]:
        width = self.target.head_width
        if heads[0].remark:
            yield heads[0].remark
        elif width is not None and self.position_kind == "one-hot":
            zeros = " and the zeros" if np.any(self.matrix == 0) else ""
            yield text_of("remarks/rank", rank=self.rank(), width=width, zeros=zeros)
        if np.any(self.matrix == 0) and position_codes.target_scores(heads[0].head)[0].any():
            default = f", here to {TOLERANCE:g}, the default" if self.tolerance is None else ""
            yield text_of("remarks/zeros", default=default)
        if self.position_kind == "rotary":
            yield text_of("remarks/rotary")
        if readers:
            yield text_of("remarks/readers", last=len(heads) - 1)

    def _perturb(self, result: Construction, delta: float) -> certificate.Perturbation:
        """The worst move of one key, and its measured effect through our attention."""
        tokens = result.input(result.worst_content)
        projected = [result.project(tokens, head) for head in range(result.heads)]
        logits, lengths, spreads = [], [], []
        for (query, key, _), W_q, W_v in zip(projected, result.W_q, result.W_v, strict=True):
            logits.append(result.beta * (query.array @ key.array.T))
            content_length = self.norm * np.linalg.norm(W_q[:, : self.width])  # content as long as it can be
            lengths.append(np.linalg.norm(query.array, axis=1) + content_length)
            values = np.linalg.norm(self.codes @ W_v[:, self.width :].T, axis=1).max(initial=0)
            spreads.append(self.norm if W_v[:, : self.width].any() else float(values))
        factors = [abs(float(W_o[0, 0])) for W_o in result.W_o]
        scales = [2 * spread * factor for spread, factor in zip(spreads, factors, strict=True)]
        move = certificate.worst_key_shift(logits, lengths, scales, result.beta, delta)
        query, key, _ = projected[move.head]
        query = query[move.query : move.query + 1]
        length = np.linalg.norm(query.array)
        if length == 0:
            return move
        values = np.full((self.target.tokens, 1), -spreads[move.head])
        values[move.key] = spreads[move.head]
        before = attention(query, key, HandTensor(values), beta=result.beta).array
        changes = []
        for sign in (1, -1):
            moved = key.array.copy()
            moved[move.key] += sign * delta * query.array[0] / length
            after = attention(query, HandTensor(moved), HandTensor(values), beta=result.beta).array
            changes.append(float(np.abs(after - before).max()) * factors[move.head])
        return replace(move, measured=max(changes))
