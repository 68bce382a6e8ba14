r"""Scores by search, where no closed form gives them.

Over position codes p_i the scores of a head are S_ij = p_i^T B p_j; over rotary positions they are sum_f a_f
cos(f d) + b_f sin(f d) with d = j - i. Both are linear in what is chosen: features times a vector theta. So

    loss(theta) = sum_i KL(T_i || softmax(S_i))

is convex, and Newton's method brings it to its infimum: 0 if and only if one head that attends by position
can have the weights T, zeros as limits. Where it cannot, several heads can still add up to a matrix whose
rows have one sum: ``sum_of_random_heads`` draws heads at random, each of which takes one key per query, and
combines few of them by orthogonal matching pursuit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headwork.construct.position_codes import pair_frequencies
from headwork.construct.targets import Array, Indices
from headwork.numbers.operations import array_softmax

MAX_FEATURES = 4_000_000  # entries of queries x keys x features
MAX_MIXTURE_ENTRIES = 400  # entries of a matrix that is mixed from random heads
RANDOM_HEADS = 4000  # random heads to choose from
CUTOFFS = (1e-3, 1e-5, 1e-7, 1e-9)  # weaker directions of the codes are left out, as few as need be


@dataclass(frozen=True, eq=False)
class Basis:
    """What scores are made of, and the projections W_q and W_k that belong to a theta."""

    features: Array  # query x key x feature
    project: Callable[[Array], tuple[Array, Array]]


def code_score_basis(query_codes: Array, codes: Array, cutoff: float) -> Basis | None:
    """Scores over position codes, without directions that are weaker than the share ``cutoff``."""
    left, to_left = _orthogonal_basis(query_codes, cutoff)
    right, to_right = _orthogonal_basis(codes, cutoff)
    shape = left.shape[1], right.shape[1]
    if len(query_codes) * len(codes) * shape[0] * shape[1] > MAX_FEATURES:
        return None
    features = np.einsum("ia,jb->ijab", left, right).reshape(len(query_codes), len(codes), -1)
    return Basis(features, lambda theta: ((to_left @ theta.reshape(shape)).T, to_right.T))


def rotary_score_basis(queries: Indices, tokens: int, width: int, cutoff: float) -> Basis:
    """Scores over rotary positions: a fixed query and a fixed key, columns that multiply the constant 1."""
    distances = np.arange(tokens) - queries[:, None]
    offsets = np.arange(distances.min(), distances.max() + 1)
    angles = offsets[:, None] * pair_frequencies(width)
    waves = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(len(offsets), -1)
    left, to_left = _orthogonal_basis(waves, cutoff)
    key = np.tile([[1.0], [0.0]], (width // 2, 1))
    return Basis(left[distances - offsets[0]], lambda theta: (to_left @ theta[:, None], key))


def _orthogonal_basis(matrix: Array, cutoff: float) -> tuple[Array, Array]:
    """Columns of one length that span those of the matrix, and the map to them."""
    left, values, right = np.linalg.svd(matrix, full_matrices=False)
    keep = values > cutoff * values[0]
    root = np.sqrt(len(matrix))
    return root * left[:, keep], root * right[keep].T / values[keep]


def fit(features: Array, target: Array, tolerance: float) -> Array | None:
    """The theta whose weights miss the target by at most ``tolerance`` per row, where there is one.

    Damped Newton steps aim at a quarter of the tolerance, which leaves a margin in case rounding stops them
    early.
    """

    def loss(theta: Array) -> float:
        shifted = features @ theta
        shifted = shifted - shifted.max(axis=1, keepdims=True)
        return float((np.log(np.exp(shifted).sum(axis=1)) - (target * shifted).sum(axis=1)).sum())

    def miss(weights: Array) -> float:
        return float(np.abs(weights - target).sum(axis=1).max())

    theta, damping = np.zeros(features.shape[-1]), 1e-3
    current = loss(theta)
    for _ in range(200):
        weights = array_softmax(features @ theta)
        if miss(weights) <= tolerance / 4:
            break
        gradient = np.einsum("ij,ijm->m", weights - target, features)
        centred = features - np.einsum("ij,ijm->im", weights, features)[:, None]
        flat = (centred * np.sqrt(weights)[..., None]).reshape(-1, len(theta))
        curvature = flat.T @ flat
        unit = (np.trace(curvature) / len(theta) + 1e-200) * np.eye(len(theta))
        while True:
            step = np.linalg.solve(curvature + damping * unit, gradient)
            if (new := loss(theta - step)) < current or damping > 1e9:
                break
            damping *= 4
        if current - new <= 1e-13 * max(current, 1.0):
            break
        theta, current, damping = theta - step, new, max(damping / 8, 1e-12)
    return theta if miss(array_softmax(features @ theta)) <= tolerance else None


def sum_of_random_heads(features: Array, matrix: Array) -> list[tuple[float, Array, Indices]]:
    """Heads (factor, theta, target_keys) that add up to the matrix; empty where none are found."""
    if matrix.size > MAX_MIXTURE_ENTRIES:
        return []
    thetas = np.random.default_rng(0).normal(size=(RANDOM_HEADS, features.shape[-1]))
    scores = np.einsum("ijm,cm->cij", features, thetas)
    first, second = np.moveaxis(np.partition(scores, -2, axis=-1)[..., -2:], -1, 0)[::-1]
    margins = (first - second).min(axis=1) / scores.std(axis=(1, 2))
    head_by_keys: dict[tuple[int, ...], int] = {}
    for number in np.argsort(-margins):
        if margins[number] > 3e-3:
            head_by_keys.setdefault(tuple(scores[number].argmax(axis=1)), int(number))
    if not head_by_keys:
        return []
    target_keys = np.array(list(head_by_keys))
    atoms = np.eye(matrix.shape[1])[target_keys].reshape(len(target_keys), -1)
    chosen: list[int] = []
    factors = np.zeros(0)
    residual = flat_matrix = matrix.reshape(-1)
    while np.abs(residual).max() > 1e-11 * max(1.0, np.abs(flat_matrix).max()):
        overlaps = np.abs(atoms @ residual)
        overlaps[chosen] = -1
        if len(chosen) == min(len(atoms), matrix.size) or overlaps.max() <= 0:
            return []
        chosen.append(int(np.argmax(overlaps)))
        factors = np.linalg.lstsq(atoms[chosen].T, flat_matrix, rcond=None)[0]
        residual = flat_matrix - factors @ atoms[chosen]
    thetas = thetas[[head_by_keys[tuple(target_keys[k])] for k in chosen]]
    return [
        (float(c), t, target_keys[k])
        for c, t, k in zip(factors, thetas, chosen, strict=True)
        if abs(c) > 1e-12
    ]


def separated_keys(target_keys: Indices, keys: int, width: int) -> tuple[Array, Array] | None:
    """Queries and keys of a narrow head that takes these keys: they lie on the axes, or on a circle.

    >>> query, key = separated_keys(np.array([2, 0, 1]), 3, 2)
    >>> np.argmax(query @ key.T, axis=1).tolist()
    [2, 0, 1]
    """
    taken = np.unique(target_keys)
    points = np.zeros((keys, width))
    if len(taken) <= 2 * width:
        for number, key in enumerate(taken):
            points[key, number // 2] = 1 - 2 * (number % 2)
    elif width > 1:
        angles = 2 * np.pi * np.arange(len(taken)) / len(taken)
        points[taken, :2] = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    else:
        return None
    return points[target_keys], points
