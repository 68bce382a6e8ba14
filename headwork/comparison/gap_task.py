"""Remembering the first symbol over a gap, and how much gradient still reaches it.

A sequence is a symbol to remember, a gap of random symbols of the same alphabet, and a question mark at the
end, where the first symbol must be predicted. Counting symbols does not help: only the position tells which
one is asked for. Gradients are those of all logits at the last token with respect to the embedding of each
token. For a plain recurrence with W_h = w Q, Q orthogonal and no nonlinearity, the gradient of the last state
with respect to the first input is w^(n-1).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwork.comparison import training
from headwork.comparison.families import FAMILIES, HEADS, Family, build_with_parameters, parameter_count
from headwork.mechanisms import recurrence
from headwork.models import Encoder, TransformerConfig
from headwork.models.convolutional import SequenceConvolution
from headwork.models.layers import Head, Positions, TokenEmbedding
from headwork.models.recurrent import RecurrentLayer
from headwork.training.runs import threads

SYMBOLS, QUESTION = 4, 4  # symbols 0 to 3; the question mark
CHANCE = 1 / SYMBOLS
TEST_SEQUENCES = 1000
PROBE_SEQUENCES = 16  # over which gradients are averaged
WIDTH, TAPS = 24, 5  # of the transformers; of the convolution
RECURRENT_WEIGHTS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
SWEEP_STEPS, STATES = 64, 8


class LastTokenClassifier(nn.Module):
    """Tokens (batch, token) in, logits from the vector of the last token out; ``size`` is the free size."""

    def __init__(self, family: Family, size: int, max_length: int) -> None:
        super().__init__()
        is_attention = family.kind == "attention"
        width = WIDTH if is_attention else size
        self.embedding = TokenEmbedding(SYMBOLS + 1, width)
        # The other families know the order of the tokens anyway.
        self.positions = Positions("learned", max_length, width) if is_attention else None
        self.body: nn.Module
        if is_attention:
            config = TransformerConfig(
                width=width,
                hidden=size,
                heads=HEADS,
                depth=2,
                normalisation="pre",
                activation="gelu",
                dropout=0.0,
                attention=family.attention,
                backend="fused",
            )
            self.body = Encoder(config)
        elif family.kind == "convolution":
            self.body = SequenceConvolution(width, 2, taps=TAPS, backend="fused")
        else:
            self.body = RecurrentLayer(width, width, cell=family.cell, backend="fused")
        self.head = Head(width, SYMBOLS)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits(self.embedding(tokens))

    def logits(self, vectors: Tensor) -> Tensor:
        """Logits from embedded tokens, with respect to which gradients are taken."""
        vectors = vectors if self.positions is None else self.positions(vectors)
        logits: Tensor = self.head(self.body(vectors)[:, -1])
        return logits


def sequence_model(family: Family, *, max_length: int, parameters: int) -> LastTokenClassifier:
    """A classifier of sequences with about so many parameters.

    >>> model = sequence_model(FAMILIES["gru"], max_length=66, parameters=10_000)
    >>> abs(parameter_count(model) - 10_000) < 500
    True
    """
    return build_with_parameters(lambda size: LastTokenClassifier(family, size, max_length), parameters)


def sequences(gap: int, count: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences (sequence, token), and the symbol with which each begins."""
    symbols = torch.randint(0, SYMBOLS, (count, gap + 1), generator=draw)
    question = torch.full((count, 1), QUESTION)
    return torch.cat([symbols, question], 1), symbols[:, 0]


def train_on_gap(family: str, gap: int, seed: int, *, steps: int, parameters: int) -> dict[str, Any]:
    """Train to predict the first symbol; the test accuracy, and the gradient norms before and after."""
    keys = (seed, family, f"gap {gap}")
    model = training.build_seeded(
        lambda: sequence_model(FAMILIES[family], max_length=gap + 2, parameters=parameters), *keys
    )
    # The same sequences for every family. The names are part of the seed: the numbers depend on them.
    train_draw, test_draw = (training.generator(seed, name, gap) for name in ("shown", "asked"))

    batches = (sequences(gap, training.BATCH_SIZE, train_draw) for _ in range(steps))
    norms_before = gradient_norms(model, gap, seed)
    training.train(model, (((tokens,), first) for tokens, first in batches), *keys, steps=steps)
    return {
        "accuracy": training.evaluate(model, training.in_batches(*sequences(gap, TEST_SEQUENCES, test_draw))),
        "parameters": parameter_count(model),
        "before": norms_before,
        "after": gradient_norms(model, gap, seed),
    }


def gradient_norms(model: LastTokenClassifier, gap: int, seed: int) -> list[float]:
    """The norm of the gradient of the logits at each position, root mean square over sequences."""
    tokens, _ = sequences(gap, PROBE_SEQUENCES, training.generator(seed, "probed", gap))
    # In float32 a vanishing gradient would soon be exactly zero, as if there were no path at all.
    model = copy.deepcopy(model).double()
    with threads(1):
        vectors = model.embedding(tokens).detach().requires_grad_()
        logits = model.logits(vectors)
        squares = torch.zeros(gap + 2, dtype=torch.float64)
        for k in range(SYMBOLS):
            (gradient,) = torch.autograd.grad(logits[:, k].sum(), vectors, retain_graph=True)
            squares += gradient.square().sum(-1).mean(0)
    return [float(x) for x in squares.sqrt()]


def sweep_recurrent_weight(
    weights: Sequence[float] = RECURRENT_WEIGHTS, steps: int = SWEEP_STEPS
) -> dict[str, Any]:
    """The gradient of the last state with respect to the first input for W_h = w Q, linear and with tanh."""
    draw = training.generator("recurrent weight")
    rotation = torch.linalg.qr(torch.randn(STATES, STATES, generator=draw, dtype=torch.float64))[0]
    inputs = 0.1 * torch.randn(steps, STATES, generator=draw, dtype=torch.float64)
    activations: tuple[Literal["linear", "tanh"], ...] = ("linear", "tanh")
    norms = {
        activation: [_first_to_last(inputs, weight * rotation, activation) for weight in weights]
        for activation in activations
    }
    return {"weights": list(weights), "steps": steps, "norms": norms}


def _first_to_last(inputs: Tensor, W_h: Tensor, activation: Literal["linear", "tanh"]) -> float:
    def last_state(first: Tensor) -> Tensor:
        tokens = torch.cat([first[None], inputs[1:]])
        state: Tensor = recurrence(tokens, torch.eye(STATES, dtype=inputs.dtype), W_h, activation=activation)
        return state

    with threads(1):
        jacobian = torch.autograd.functional.jacobian(last_state, inputs[0])  # type: ignore[no-untyped-call]
    # Root mean square over the states: 1 for a rotation.
    return float(jacobian.norm() / math.sqrt(STATES))
