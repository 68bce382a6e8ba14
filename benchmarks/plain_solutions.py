"""Every numeric kind of exercise solved from its question in plain numpy, without the package's mechanisms.

``solve(exercise)`` reads the given numbers itself and returns the asked steps as arrays, heads side by side
or one below the other as the question says.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from headwork.exercises import Exercise

Given = dict[str, Any]
Steps = dict[str, Any]


def number(text: Any) -> Any:
    """A number, a row or a matrix as a question shows it."""
    if not isinstance(text, str):
        return text
    if text.startswith("["):
        return np.array(json.loads(text), float)
    rows = [[float(Fraction(x)) for x in row.split()] for row in text.split(";")]
    if ";" in text:
        return np.array(rows)
    return np.array(rows[0]) if len(rows[0]) > 1 else rows[0][0]


def softmax(scores: Any) -> Any:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def beta_of(g: Given, width: int) -> float:
    return float(number(g["beta"])) if "beta" in g else 1 / math.sqrt(width)


def mask_of(g: Given, queries: int, keys: int) -> Any:
    if "mask" not in g:
        return np.ones((queries, keys))
    return np.tri(queries, keys) if g["mask"] == "causal" else np.ones((queries, 1)) * number(g["mask"])


def attend(g: Given, query: Any, key: Any, value: Any) -> Steps:
    scores = beta_of(g, query.shape[-1]) * query @ np.swapaxes(key, -1, -2)
    allowed = mask_of(g, query.shape[-2], key.shape[-2])
    weights = softmax(np.where(allowed == 1, scores, -np.inf))
    return {"scores": scores, "weights": weights, "output": weights @ value}


def self_attention(g: Given) -> Steps:
    tokens = g["tokens"]
    memory = g.get("memory", tokens)
    query, key, value = tokens @ g["W_q"].T, memory @ g["W_k"].T, memory @ g["W_v"].T
    return {"query": query, "key": key, "value": value, **attend(g, query, key, value)}


def multi_head(g: Given) -> Steps:
    heads = int(g["heads"])
    whole = [g["tokens"] @ g[name].T for name in ("W_q", "W_k", "W_v")]
    per_head = [np.stack(np.split(rows, heads, 1)) for rows in whole]
    inner = attend(g, *per_head)
    joined = np.concatenate(list(inner["output"]), 1)
    below = {name: np.concatenate(list(inner[name])) for name in ("scores", "weights")}
    steps = dict(zip(("query", "key", "value"), whole, strict=True))
    return {**steps, **below, "per head": joined, "joined": joined, "output": joined @ g["W_o"].T}


def limits(g: Given) -> Steps:
    scores = g["query"] @ g["key"].T
    mean = np.full(scores.shape, 1 / scores.shape[1])
    best = scores > scores.max(1, keepdims=True) - 1e-9
    hard = best / best.sum(1, keepdims=True)
    steps = {"beta 0/weights": mean, "beta oo/weights": hard}
    return {**steps, "beta 0/output": mean @ g["value"], "beta oo/output": hard @ g["value"]}


def sensitivity(g: Given) -> Steps:
    before = attend(g, g["query"], g["key"], g["value"])
    after = attend(g, g["query"], g["key"] + g["delta"], g["value"])
    steps = {
        f"{when}/{k}": v for when, part in (("before", before), ("after", after)) for k, v in part.items()
    }
    return {**steps, "change": after["output"] - before["output"]}


def copying(g: Given) -> Steps:
    tokens = g["tokens"]
    scores = tokens @ tokens.T
    weights = softmax(scores)
    output = weights @ tokens
    errors = np.linalg.norm(output - tokens, axis=1, keepdims=True) / float(number(g["norm"]))
    norms = np.linalg.norm(tokens, axis=1, keepdims=True)
    return {"norms": norms, "scores": scores, "weights": weights, "output": output, "errors": errors}


def linear(g: Given) -> Steps:
    products = g["query"] @ g["key"].T
    scores = products * mask_of(g, *products.shape)
    sums = scores.sum(1, keepdims=True)
    return {"scores": scores, "sums": sums, "weights": scores / sums, "output": scores / sums @ g["value"]}


def linear_recurrent(g: Given) -> Steps:
    steps: Steps = {}
    state, total, rows = 0.0, 0.0, []
    for t, (q, k, v) in enumerate(zip(g["query"], g["key"], g["value"], strict=True)):
        state, total = state + np.outer(k, v), total + k
        steps[f"step {t}/state"], steps[f"step {t}/key sum"] = state, total[None]
        rows.append(q @ state / (q @ total))
    return {**steps, "output": np.array(rows)}


def positions(g: Given) -> Steps:
    half = int(g["width"]) // 2
    frequencies = np.array([float(g["base"]) ** (-2 * i / int(g["width"])) for i in range(half)])
    angles = np.outer(np.atleast_1d(g["places"]), frequencies)
    output = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(len(angles), -1)
    return {"frequencies": frequencies, "angles": angles, "output": output}


def normalise(g: Given) -> Steps:
    tokens = g["tokens"] + g.get("sublayer", 0)
    mean = tokens.mean(1, keepdims=True)
    deviation = tokens.std(1, keepdims=True)
    normalised = (tokens - mean) / deviation
    steps = {"residual": tokens, "mean": mean, "centred": tokens - mean, "deviation": deviation}
    return {**steps, "normalised": normalised, "output": normalised * g.get("scale", 1) + g.get("shift", 0)}


def feed_forward(g: Given) -> Steps:
    hidden = g["tokens"] @ g["W_1"] + g["b_1"]
    active = np.maximum(hidden, 0)
    return {"hidden": hidden, "activated": active, "output": active @ g["W_2"] + g["b_2"]}


def head_shapes(g: Given) -> Steps:
    batch, n, width, heads = (g[name] for name in ("batch", "tokens", "width", "heads"))
    split = [batch, n, heads, width // heads]
    shapes = {"query": split, "per head": split, "weights": [batch, heads, n, n], "joined": [batch, n, width]}
    return {"head width": width // heads, **{name: np.array(shape) for name, shape in shapes.items()}}


def attention_parameters(g: Given) -> Steps:
    d, heads = g["width"], g["heads"]
    p = d * d + d * g["biases"]
    return {"head width": d // heads, "one head": d * (d // heads), "projection": p, "total": 4 * p}


def feed_forward_parameters(g: Given) -> Steps:
    d, m, b = g["width"], g["hidden"], g["biases"]
    return {"first": d * m + m * b, "second": m * d + d * b, "total": 2 * d * m + (m + d) * b}


def complexity(g: Given) -> Steps:
    n, d, k = g["tokens"], g["width"], g["kernel"]
    parts = {"projections": 3 * n * d * d, "scores": n * n * d, "mixing": n * n * d}
    return {
        **parts,
        "attention": sum(parts.values()),
        "convolution": k * n * d * d,
        "recurrence": 2 * n * d * d,
    }


def patches(g: Given) -> Steps:
    p = g["patch"]
    down, across = g["height"] // p, g["width"] // p
    steps = {"down": down, "across": across, "patches": down * across}
    return {**steps, "tokens": down * across + g["class_token"], "numbers": g["channels"] * p * p}


def outputs(g: Given, size: Any) -> int:
    return int((size + 2 * g.get("padding", 0) - g["kernel"]) // g.get("stride", 1) + 1)


def convolution_counts(g: Given) -> Steps:
    high, wide = outputs(g, g["height"]), outputs(g, g["width"])
    one = g["channels"] * g["kernel"] ** 2
    dense = g["channels"] * g["height"] * g["width"] * g["filters"] * high * wide
    steps = {"output height": high, "output width": wide, "filter": one, "dense": dense}
    return {**steps, "weights": g["filters"] * (one + g["biases"])}


def sharing(g: Given) -> Steps:
    o, k = outputs(g, g["size"]), g["kernel"]
    return {"outputs": o, "shared": k, "unshared": o * k, "dense": o * g["size"]}


def slide(signal: Any, kernel: Any, stride: int, padding: int) -> Any:
    """One or several channels under one kernel, along the last axis."""
    signal, kernel = np.atleast_2d(signal), np.atleast_2d(kernel)
    signal = np.pad(signal, ((0, 0), (padding, padding)))
    taps = kernel.shape[1]
    starts = range(0, signal.shape[1] - taps + 1, stride)
    return np.array([(signal[:, i : i + taps] * kernel).sum() for i in starts])


def convolution_1d(g: Given) -> Steps:
    stride, padding = int(g.get("stride", 1)), int(g.get("padding", 0))
    if np.ndim(g["kernel"]) == 3:
        return {"output": np.array([slide(g["signal"], k, stride, padding) for k in g["kernel"]])}
    return {"output": slide(g["signal"], g["kernel"], stride, padding)}


def convolution_2d(g: Given) -> Steps:
    stride, padding = int(g.get("stride", 1)), int(g.get("padding", 0))
    image, kernels = g["image"], g["kernel"]
    if kernels.ndim == 2:
        image, kernels = image[None], kernels[None, None]
    image = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    high, wide = kernels.shape[-2:]
    rows, columns = (range(0, image.shape[i] - kernels.shape[i + 1] + 1, stride) for i in (1, 2))
    maps = [
        [[(image[:, i : i + high, j : j + wide] * k).sum() for j in columns] for i in rows] for k in kernels
    ]
    return {"output": np.array(maps if g["kernel"].ndim > 2 else maps[0])}


def toeplitz(g: Given) -> Steps:
    stride, padding, n, kernel = (
        int(g.get("stride", 1)),
        int(g.get("padding", 0)),
        len(g["signal"]),
        g["kernel"],
    )
    count = (n + 2 * padding - len(kernel)) // stride + 1
    matrix = np.zeros((count, n + 2 * padding))
    for i in range(count):
        matrix[i, i * stride : i * stride + len(kernel)] = kernel
    matrix = matrix[:, padding : padding + n]
    return {"matrix": matrix, "output": matrix @ g["signal"]}


def locally(g: Given) -> Steps:
    kernels, signal = g["kernels"], g["signal"]
    matrix = np.zeros((len(kernels), len(signal)))
    for i, kernel in enumerate(kernels):
        matrix[i, i : i + len(kernel)] = kernel
    return {"matrix": matrix, "output": matrix @ signal}


def recurrence(g: Given) -> Steps:
    steps: Steps = {}
    state = float(np.ravel(g["h_0"])[0])
    for t, x in enumerate(g["inputs"]):
        state = g["W_x"] * x + g["W_h"] * state
        steps[f"step {t}/state"] = np.array([state])
    read = g["W_y"] * state
    return {**steps, "output": np.array([float(read > 0) if "1 if W_y h_T > 0" in g["question"] else read])}


def closed_form(g: Given) -> Steps:
    inputs = g["inputs"]
    powers = np.array([g["W_h"] ** (len(inputs) - 1 - t) for t in range(len(inputs))])
    terms = powers * g["W_x"] * inputs
    return {"powers": powers[:, None], "terms": terms[:, None], "output": np.array([terms.sum()])}


def alternation(g: Given) -> Steps:
    odd, even = g["inputs"][0::2].sum(), g["inputs"][1::2].sum()
    return {"odd places": odd, "even places": even, "state": even - odd, "output": float(even > odd)}


SOLUTIONS: dict[str, Callable[[Given], Steps]] = {
    **dict.fromkeys(("self-attention", "cross-attention", "masked-attention"), self_attention),
    "multi-head-attention": multi_head,
    "beta-limits": limits,
    "sensitivity": sensitivity,
    "copying": copying,
    "linear-attention": linear,
    "linear-attention-recurrent": linear_recurrent,
    "sinusoidal-positions": positions,
    **dict.fromkeys(("layer-normalisation", "add-and-normalise"), normalise),
    "feed-forward": feed_forward,
    "head-shapes": head_shapes,
    "attention-parameters": attention_parameters,
    "feed-forward-parameters": feed_forward_parameters,
    "complexity": complexity,
    "patch-counts": patches,
    "convolution-1d": convolution_1d,
    "convolution-2d": convolution_2d,
    "toeplitz": toeplitz,
    "locally-connected": locally,
    "output-size": lambda g: {
        "span": g["size"] + 2 * g["padding"] - g["kernel"],
        "output": outputs(g, g["size"]),
    },
    "convolution-counts": convolution_counts,
    "sharing-counts": sharing,
    "recurrence": recurrence,
    "recurrence-closed-form": closed_form,
    "alternation": alternation,
}
COUNTED = ("attention-parameters", "feed-forward-parameters", "complexity", "patch-counts", "output-size")
COUNTED += ("convolution-counts", "sharing-counts", "head-shapes")


def solve(exercise: Exercise) -> Steps:
    given = {
        name: value if name in ("mask", "beta", "norm", "output") else number(value)
        for name, value in both(exercise)
    }
    return SOLUTIONS[exercise.kind]({**given, "question": exercise.question})


def both(exercise: Exercise) -> Iterator[tuple[str, Any]]:
    yield from exercise.inputs.items()
    yield from exercise.options.items()
