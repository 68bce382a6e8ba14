"""Edits of attention weights: of equal largest scores the first alone, and keys that are hidden."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from headwork.grading.step_graph import StepEdit, StepGraph, constant, same_node
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node

MOST_KEYS = 8  # that are left out one by one


def weight_edits(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """All edits of this file."""
    yield from _first_largest_edits(number, tensor)
    yield from _hidden_key_edits(graph, number, tensor)


def _first_largest_edits(number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """Of equal largest scores or weights the first alone."""
    scores = tensor.node.operands[0].array
    if tensor.node.operation not in ("softmax", "matmul") or scores.ndim < 2:
        return
    ties = scores >= scores.max(-1, keepdims=True) - 1e-9
    if ties.sum() == ties[..., 0].size:
        return  # an edit of the table
    first_largest = constant(0, (np.arange(scores.shape[-1]) == ties.argmax(-1)[..., None]).astype(float))
    if tensor.node.operation == "softmax":
        says = "the largest score takes all the weight, of equal ones the first"
        yield StepEdit("largest-takes-all", says, {number: first_largest}, {}, 1.2)
    else:
        says = "only the row of {b} with the largest weight in {a} is taken, of equal ones the first"
        names = {"a": tensor.node.operands[0], "b": tensor.node.operands[1]}
        yield StepEdit("largest-alone", says, {number: Node("matmul", (first_largest, 1), {})}, names, 2)


def _hidden_key_edits(graph: StepGraph, number: int, tensor: HandTensor) -> Iterator[StepEdit]:
    """Keys that are hidden from a softmax, or from the choice of the largest, although all may be seen."""
    softmax = tensor.node.operation == "softmax"
    scores = tensor.node.operands[0] if softmax else tensor
    chosen = any(x.node.operation == "amax" and x.node.operands[0] is tensor for x in graph.operations)
    if not (softmax or chosen) or len(scores.shape) < 2:
        return
    rows, keys = scores.shape[-2:]
    masks = [
        ("causal-mask-applied", "a causal mask is applied that is not asked for", 1 - np.tri(rows, keys), 2)
    ]
    if rows == keys:
        masks.append(("own-token-left-out", "the token itself is left out of the softmax", np.eye(rows), 2))
    for key in range(keys if keys <= MOST_KEYS else 0):
        says, rarity = f"key {key} is left out: it gets no weight", 2 if key in (0, keys - 1) else 3
        masks.append(("key-left-out", says, np.arange(keys) == np.full((rows, 1), key), rarity))
    for slug, says, mask, rarity in masks:
        it: Any = 0 if softmax else same_node(tensor)
        part = Node(
            "masked_fill", (it, constant(it, np.broadcast_to(mask, scores.shape))), {"value": -np.inf}
        )
        node = Node("softmax", (part,), tensor.node.options) if softmax else part
        yield StepEdit(slug, says, {number: node}, {}, rarity)
