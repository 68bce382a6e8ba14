"""Which parts of an input, patches or tokens, an output rests on; and how far to trust each answer.

Attention rollout multiplies the mean weights of each layer, half of them the residual's identity (Abnar and
Zuidema 2020, arXiv 2005.00928). Gradient x attention adds up the positive part of weights times gradient,
R <- R + mean_h((G * A)^+) R (Chefer et al. 2021, arXiv 2103.15679). Occlusion hides each part in turn and
measures what that costs: it is exhaustive, and so the reference.

An order of the parts is tested by deletion (the mean score while they are hidden, first the most relevant)
and insertion (while they appear). What counts is insertion less deletion. Random orders are the floor: an
order and its reverse are equally likely and differ in sign alone, so 0 is their middle, and a twentieth order
lies further from it than 19 others with probability 1/20, whatever the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.inspection.model_on_input import Array, AttentionMap, ModelOnInput

RANDOM_ORDERS = 19  # so that the one furthest from 0, with both signs, is a 95% interval
STEPS = 10  # of a curve, at most
OCCLUSION, ROLLOUT, GRADIENT = "occlusion", "attention rollout", "gradient x attention"
DESCRIPTIONS = {
    OCCLUSION: "how much the score falls when the part alone is hidden",
    ROLLOUT: "attention, multiplied through the layers",
    GRADIENT: "weights times the gradient of the logit, where positive",
}


# --- relevance ------------------------------------------------------------------------------------
def occlusion(on_input: ModelOnInput) -> Array:
    """How much the score falls when each part is hidden, all others being there."""
    count = len(on_input.parts)
    states = np.concatenate([np.zeros((1, count), bool), np.eye(count, dtype=bool)])
    scores = on_input.scores_with_hidden(states)
    return np.asarray(scores[0] - scores[1:])


def rollout(layers: Sequence[AttentionMap]) -> Array:
    """Attention multiplied through the layers (query, key); the residual counts as much as attention.

    >>> rollout([AttentionMap("", np.array([[[0.0, 1.0], [0.0, 1.0]]]))]).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    total = np.eye(layers[0].weights.shape[-1])
    for layer in layers:
        total = (layer.weights.mean(0) + np.eye(len(total))) / 2 @ total
    return total


def gradient_attention(layers: Sequence[AttentionMap]) -> Array:
    """Chefer's rule for self-attention (query, key), without the identity that it starts from."""
    start = np.eye(layers[0].weights.shape[-1])
    total = start.copy()
    for layer in layers:
        assert layer.gradient is not None
        total += (layer.gradient * layer.weights).clip(0).mean(0) @ total
    return total - start


def relevance(on_input: ModelOnInput) -> dict[str, Array]:
    """The relevance of each part by every method that can be had, the reference first."""
    square = (len(on_input.labels),) * 2
    layers = [layer for layer in on_input.attention_maps if layer.weights.shape[-2:] == square]
    relevances, parts = {OCCLUSION: occlusion(on_input)}, list(on_input.parts)
    if layers:
        relevances[ROLLOUT] = on_input.output_row(rollout(layers))[parts]
    if layers and all(layer.gradient is not None for layer in layers):
        relevances[GRADIENT] = on_input.output_row(gradient_attention(layers))[parts]
    return relevances


# --- trust ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Trust:
    """How far an order of the parts is to be trusted, on this input and this model."""

    method: str
    deletion: float
    insertion: float
    random_bound: float  # 95% of random orders have a value between this and its negative
    reference: float  # the value of occlusion

    @property
    def value(self) -> float:
        """Insertion less deletion."""
        return self.insertion - self.deletion

    @property
    def verdict(self) -> str:
        if abs(self.value) <= self.random_bound:
            return "not distinguishable from random"
        return "above random" if self.value > 0 else "below random"

    @property
    def good(self) -> bool | None:
        return {"above random": True, "below random": False}.get(self.verdict)

    @property
    def evidence(self) -> str:
        """The figures behind the verdict."""
        beside = f"; occlusion reaches {self.reference:+.2g}" if self.method != OCCLUSION else ""
        return (
            f"insertion less deletion is {self.value:+.2g}, random orders reach -{self.random_bound:.2g} to "
            f"+{self.random_bound:.2g} (95%){beside}"
        )

    @property
    def sentence(self) -> str:
        name = self.method[0].upper() + self.method[1:]
        return f"{name} is {self.verdict} on this input: {self.evidence}."

    def as_data(self) -> dict[str, Any]:
        fields = {"random" if name == "random_bound" else name: value for name, value in vars(self).items()}
        return {**fields, "value": self.value, "verdict": self.verdict, "sentence": self.sentence}


def curve_sizes(count: int) -> list[int]:
    """After how many parts a curve is measured: from none to all of them.

    >>> curve_sizes(4), curve_sizes(49)
    ([0, 1, 2, 3, 4], [0, 5, 10, 15, 20, 24, 29, 34, 39, 44, 49])
    """
    steps = min(STEPS, count)
    return [round(count * step / steps) for step in range(steps + 1)]


def insertion_and_deletion(on_input: ModelOnInput, orders: Array) -> tuple[Array, Array]:
    """The mean score of each order (order, part; the most relevant first) while parts appear, and vanish."""
    sizes = curve_sizes(count := orders.shape[1])
    # To delete by an order is to insert by its reverse, read from the end.
    ranks = np.argsort(np.concatenate([orders, orders[:, ::-1]]), -1)
    hidden = ranks[:, None, :] >= np.array(sizes)[:, None]
    states, where = np.unique(hidden.reshape(-1, count), axis=0, return_inverse=True)  # shared ones run once
    scores = on_input.scores_with_hidden(states)[where.reshape(-1)].reshape(hidden.shape[:2])
    areas = np.trapezoid(scores, np.array(sizes) / count, axis=1)
    return areas[: len(orders)], areas[len(orders) :]


def trust(on_input: ModelOnInput, relevances: Mapping[str, Array], *, seed: int = 0) -> dict[str, Trust]:
    """Each relevance tested on its input, against random orders and against occlusion."""
    generator = np.random.default_rng(seed)
    draws = [generator.permutation(len(on_input.parts)) for _ in range(RANDOM_ORDERS)]
    orders = np.stack([*(np.argsort(-values, kind="stable") for values in relevances.values()), *draws])
    inserted, deleted = insertion_and_deletion(on_input, orders)
    floor = float(abs(inserted - deleted)[len(relevances) :].max())
    reference = float((inserted - deleted)[list(relevances).index(OCCLUSION)])
    return {
        method: Trust(method, float(deleted[i]), float(inserted[i]), floor, reference)
        for i, method in enumerate(relevances)
    }
