"""One table of examples for every mechanism, with numbers that no symmetry can hide a mistake in.

A test that takes ``example`` runs once for each. ``run`` works one on decimals or exact numbers by hand, on
torch, or on shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

import headwork.mechanisms  # noqa: F401  (registers every mechanism)
from headwork.note import MECHANISMS, silent
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.numbers.parsing import tensor_from_lists


@dataclass(frozen=True)
class Example:
    slug: str
    inputs: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    smooth: bool = True  # whether its gradient can be checked
    exact: bool = True  # whether working it exactly is quick

    def __str__(self) -> str:
        told = ",".join(
            f"{k}={v if isinstance(v, (str, int, float)) else 'given'}" for k, v in self.options.items()
        )
        return f"{self.slug}({told})"


def some(*shape: int, start: int = 1) -> Any:
    """Halves between -3 and 3 without pattern or zeros, as nested lists of text."""
    sizes = math.prod(shape)
    numbers = [((k * k * 5 + k * start * 3 + start * 7) % 12) - 6 for k in range(1, sizes + 1)]
    texts = np.array([f"{n if n < 0 else n + 1}/2" for n in numbers], dtype=object)
    return texts.reshape(shape).tolist()


TOKENS, MEMORY = some(3, 2), some(4, 2, start=4)
QUERY, KEY, VALUE = some(2, 3), some(4, 3, start=2), some(4, 2, start=5)
MASK = [[1, 0, 1, 1], [0, 1, 1, 0]]
POSITIVE = [["1", "1/2"], ["2", "3/2"], ["1/3", "3"]]
PROJECTED = {"W_q": some(3, 2, start=3), "W_k": some(3, 2, start=5), "W_v": some(2, 2, start=7)}
WIDE = {f"W_{k}": some(4, 4, start=3 + i) for i, k in enumerate("qkvo")}
BIASES = {f"b_{k}": some(4, start=8 + i) for i, k in enumerate("qkvo")}
SMALL = {f"W_{k}": some(2, 2, start=3 + i) for i, k in enumerate("qkvo")}
FEED = {
    "W_1": some(2, 3, start=4),
    "W_2": some(3, 2, start=5),
    "b_1": some(3, start=6),
    "b_2": some(2, start=9),
}
NORMS = {f"{n}_{k}": some(2, start=3 * k + i) for k in (1, 2) for i, n in enumerate(("scale", "shift"))}
THIRD = {"scale_3": some(2, start=5), "shift_3": some(2, start=8)}
CROSS = {f"cross_{name}": value for name, value in SMALL.items()}
GATED = {
    "inputs": some(3, 2),
    "W_x": some(8, 2, start=2),
    "W_h": some(8, 2, start=3),
    "bias": some(8, start=4),
}
RESET = {
    "inputs": some(3, 2),
    "W_x": some(6, 2, start=2),
    "W_h": some(6, 2, start=3),
    "b_x": some(6),
    "b_h": some(6, start=4),
}

EXAMPLES = [
    Example("softmax", {"scores": some(4)}),
    Example("softmax", {"scores": some(2, 3)}),
    Example("attention", {"query": QUERY, "key": KEY, "value": VALUE}),
    Example("attention", {"query": QUERY, "key": KEY, "value": VALUE}, {"beta": "1/3"}),
    Example("attention", {"query": QUERY, "key": KEY, "value": VALUE}, {"beta": "1", "mask": "causal"}),
    Example("attention", {"query": QUERY, "key": KEY, "value": VALUE}, {"mask": MASK}),
    Example("attention", {"query": QUERY, "key": KEY, "value": VALUE}, {"beta": "0"}),
    Example(
        "attention",
        {"query": QUERY, "key": KEY, "value": VALUE},
        {"beta": math.inf, "mask": MASK},
        smooth=False,
    ),
    Example("cross-attention", {"tokens": TOKENS, "memory": MEMORY, **PROJECTED}, {"beta": "1"}),
    Example("cross-attention", {"tokens": TOKENS, "memory": MEMORY}, {"mask": "causal"}),
    Example("self-attention", {"tokens": TOKENS, **PROJECTED}),
    Example(
        "self-attention",
        {"tokens": TOKENS, "W_q": some(2, 3), "W_k": some(2, 3, start=2)},
        {"convention": "x W"},
    ),
    Example("self-attention", {"tokens": TOKENS, **PROJECTED}, {"beta": "1/2", "mask": "causal"}),
    Example("multi-head-attention", {"tokens": some(3, 4)}, {"heads": 2}),
    Example("multi-head-attention", {"tokens": some(2, 4), **WIDE, **BIASES}, {"heads": 2, "mask": "causal"}),
    Example(
        "multi-head-attention",
        {"tokens": some(2, 4), "memory": some(3, 4, start=6), **WIDE},
        {"heads": 4, "beta": "1"},
    ),
    Example("linear-attention", {"query": POSITIVE, "key": POSITIVE, "value": some(3, 2)}),
    Example("linear-attention", {"query": QUERY, "key": KEY, "value": VALUE}, {"features": "elu+1"}),
    Example(
        "linear-attention", {"query": POSITIVE, "key": POSITIVE, "value": some(3, 2)}, {"mask": "causal"}
    ),
    Example(
        "linear-attention-recurrent",
        {"query": POSITIVE, "key": POSITIVE, "value": some(3, 2)},
        {"mask": "causal"},
    ),
    Example(
        "linear-attention-recurrent", {"query": QUERY, "key": KEY, "value": VALUE}, {"features": "elu+1"}
    ),
    Example(
        "linear-attention-chunked", {"query": POSITIVE, "key": POSITIVE, "value": some(3, 2)}, {"chunk": 2}
    ),
    Example(
        "linear-attention-chunked",
        {"query": POSITIVE, "key": POSITIVE, "value": some(3, 2)},
        {"chunk": 2, "mask": "causal"},
    ),
    Example("multi-head-linear-attention", {"tokens": some(2, 4), **WIDE, **BIASES}, {"heads": 2}),
    Example("natural-positions", {"places": ["0", "1", "2"]}),
    Example("normalised-positions", {"places": ["0", "1", "2", "3"]}),
    Example("sinusoidal-positions", {"places": ["0", "1", "5"]}, {"width": 4}),
    Example(
        "sinusoidal-positions-2d", {"rows": ["0", "1", "2"], "columns": ["0", "3"]}, {"width": 4, "base": 16}
    ),
    Example("learned-positions", {"tokens": TOKENS, "table": some(5, 2, start=3)}),
    Example("relative-positions", {"scores": some(3, 3), "bias": some(5, start=2)}),
    Example("alibi-positions", {"scores": some(2, 3, 3)}),
    Example("alibi-positions", {"scores": some(3, 3), "slopes": "1/4"}),
    Example("rotary-positions", {"vectors": some(3, 4)}),
    Example("rotary-positions", {"vectors": some(2, 4), "places": ["3", "7"]}, {"base": 16}),
    Example("layer-normalisation", {"tokens": some(2, 3)}),
    Example(
        "layer-normalisation",
        {"tokens": some(2, 3), "scale": some(3, start=2), "shift": some(3, start=3)},
        {"epsilon": "1/100"},
    ),
    Example("rms-normalisation", {"tokens": some(2, 3), "scale": some(3, start=2)}, {"epsilon": "1/100"}),
    Example("relu", {"values": some(2, 3)}),
    Example("gelu", {"values": some(5)}),
    Example("feed-forward", {"tokens": TOKENS, **FEED}),
    Example("feed-forward", {"tokens": TOKENS, **FEED}, {"activation": "gelu"}),
    Example("feed-forward", {"tokens": TOKENS, "W_1": some(3, 2), "W_2": some(2, 3)}, {"convention": "W x"}),
    Example(
        "encoder-layer", {"tokens": some(2, 2), **SMALL, **FEED, **NORMS}, {"heads": 1, "epsilon": "1/10"}
    ),
    Example(
        "encoder-layer",
        {"tokens": some(3, 2), **SMALL, **FEED, **NORMS},
        {"heads": 2, "mask": "causal", "normalisation": "pre", "activation": "gelu", "epsilon": "1/10"},
        exact=False,
    ),
    Example(
        "decoder-layer",
        {"tokens": some(2, 2), "memory": some(3, 2, start=6), **SMALL, **CROSS, **FEED, **NORMS, **THIRD},
        {"heads": 1, "epsilon": "1/10"},
        exact=False,
    ),
    Example(
        "decoder-layer",
        {"tokens": some(2, 2), "memory": some(3, 2, start=6), **SMALL, **CROSS, **FEED, **NORMS, **THIRD},
        {"heads": 2, "epsilon": "1/10", "normalisation": "pre", "memory_mask": [[1, 0, 1], [1, 1, 0]]},
        exact=False,
    ),
    Example("patches", {"image": some(2, 4, 6)}, {"size": 2}),
    Example("patches", {"image": some(4, 6)}, {"size": 2}),
    Example("patches-inverse", {"rows": some(6, 8)}, {"size": 2, "columns": 3}),
    Example("convolution-1d", {"signal": some(6), "kernel": some(3, start=2)}, {"stride": 2, "padding": 1}),
    Example(
        "convolution-1d",
        {"signal": some(4, 5), "kernel": some(6, 2, 3, start=2), "bias": some(6)},
        {"groups": 2},
    ),
    Example("convolution-2d", {"image": some(4, 5), "kernel": some(2, 3, start=2)}),
    Example(
        "convolution-2d",
        {"image": some(2, 4, 5), "kernel": some(4, 1, 3, 2, start=2), "bias": some(4)},
        {"stride": 2, "padding": 1, "groups": 2},
    ),
    Example("toeplitz", {"signal": some(5), "kernel": some(3, start=2)}, {"padding": 1}),
    Example("toeplitz", {"signal": some(6), "kernel": some(2, start=2)}, {"stride": 2}),
    Example("locally-connected", {"signal": some(5), "kernels": some(3, 3, start=2)}),
    Example(
        "locally-connected", {"signal": some(5), "kernels": some(3, 3, start=2)}, {"stride": 2, "padding": 1}
    ),
    Example("average-pooling", {"image": some(4, 6)}, {"size": 2}),
    Example("average-pooling", {"image": some(2, 4, 5)}, {"size": 3, "stride": 1}),
    Example("max-pooling", {"image": some(2, 2, 4)}, {"size": 1, "stride": 2}),
    Example(
        "max-pooling",
        {"image": [["1", "4", "2"], ["-3", "0", "5"], ["7", "6", "-1"]]},
        {"size": 2, "stride": 1},
    ),
    Example("recurrence", {"inputs": some(3, 2), "W_x": some(3, 2, start=2), "W_h": some(3, 3, start=3)}),
    Example(
        "recurrence",
        {
            "inputs": some(2, 2),
            "W_x": some(2, 2, start=2),
            "W_h": some(2, 2, start=3),
            "W_y": some(3, 2),
            "bias": some(2, start=4),
            "h_0": some(2, start=5),
        },
        {"activation": "tanh"},
    ),
    Example("recurrence", {"inputs": some(4), "W_x": "1/2", "W_h": "-2"}, {"output": "step"}, smooth=False),
    Example(
        "recurrence-closed-form",
        {"inputs": some(3, 2), "W_x": some(3, 2, start=2), "W_h": some(3, 3, start=3)},
    ),
    Example("lstm-cell", {**GATED, "inputs": some(2), "state": some(2, start=5), "cell": some(2, start=6)}),
    Example("lstm", GATED, exact=False),
    Example("gru-cell", {**RESET, "inputs": some(2), "state": some(2, start=5)}),
    Example("gru", RESET, exact=False),
]


def as_kind(value: Any, kind: str, work: OperationCount | None = None) -> Any:
    """Nested texts as decimals or exact numbers by hand, as torch, or as a shape."""
    if kind == "exact":
        return tensor_from_lists(value, exact=True)
    array = tensor_from_lists(value).array
    if kind == "torch":
        return torch.tensor(array, dtype=torch.float64)
    return HandTensor(array) if kind == "decimal" else ShapeTensor(array.shape, work or OperationCount())


def arguments(example: Example, kind: str, work: OperationCount | None = None) -> dict[str, Any]:
    """Inputs and options of an example, all of one kind of number."""
    known = MECHANISMS[example.slug].option_types
    found = {name: as_kind(value, kind, work) for name, value in example.inputs.items()}
    for name, value in example.options.items():
        number = "number" in getattr(known[name], "__metadata__", ())
        given = isinstance(value, list) or (number and isinstance(value, str))
        found[name] = as_kind(value, kind, work) if given else value
    return found


def run(example: Example, kind: str, note: Any = silent, work: OperationCount | None = None) -> Any:
    return MECHANISMS[example.slug].run(arguments(example, kind, work), note)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "example" in metafunc.fixturenames:
        metafunc.parametrize("example", EXAMPLES, ids=str)


@pytest.fixture(scope="session")
def examples() -> list[Example]:
    return EXAMPLES


@pytest.fixture(scope="session")
def working() -> Callable[..., Any]:
    """``run(example, kind, note)``, for the tests that import nothing from here."""
    return run


@pytest.fixture(scope="session")
def given() -> Callable[..., Any]:
    return arguments
