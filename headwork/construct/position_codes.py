r"""Position codes, and the projections that turn them into the scores which a head needs.

A query attends to key t alone when its score exceeds all others; beta then makes the difference as large as
needed. Which scores are possible depends on the codes p_i:

- one-hot: p_i . p_j = [i = j], so q_i = sum_j S_ij p_j gives ANY score matrix S = Q K^T. For target weights T
  it is S = 1 + ln(T / largest of its row) / beta where T > 0, and 0 elsewhere: as beta grows the keys outside
  vanish, while the shares inside stay the same.
- grid: orthonormal codes of the row and of the column side by side. q_i = [row code of r', column code of c']
  scores 2 on the patch (r', c'), 1 on its row and column, 0 elsewhere: for targets whose row depends on the
  row only, and whose column on the column only; or, where all rows of the grid but one take patch (0, 0) and
  are drawn to it twice as strongly, for anything in that one. Others are searched (``fitting``).
- sinusoidal: all codes have one length, so p_t . p_j is largest at j = t and only there (the first pair
  rotates by 1 radian per position, which never repeats). W_q must map p_i to p_t(i): for a shift that is the
  rotation of each pair by its frequency times the offset, R p_i = p_(i+o). Near the ends p_(i+o) lies
  outside; the nearest end has the highest score where scores fall with the distance, as they do over all
  distances d < n + |o| if only pairs with frequency * (n + |o|) <= pi are used. Other targets need a linear
  map through all codes: by least squares, or searched.
- rotary: queries and keys are the same for every token (made from a constant 1) and rotated by their
  position, so a score depends on j - i alone: the shifts above, with the same scores, or searched.
- none: weights that ignore positions: the plain mean.
"""

import math
from collections.abc import Iterator

import numpy as np

from headwork.construct.targets import Array, Head, Indices, Target
from headwork.errors import InputError, check_known
from headwork.mechanisms import rotary_positions, sinusoidal_positions
from headwork.mechanisms.positions import frequencies
from headwork.numbers import HandTensor

POSITIONS = ("one-hot", "grid", "sinusoidal", "rotary", "none")
DEFAULT_WIDTH = 32  # of sinusoidal codes and rotary queries
BASE = 10000
CUTOFFS = (1e-3, 1e-6, 1e-9, 1e-12)  # directions of the codes that are weaker than this share are left out


def position_codes(position_kind: str, target: Target, width: int) -> Array:
    """One row per token."""
    check_known("positions", position_kind, POSITIONS)
    if position_kind == "one-hot":
        return np.eye(target.tokens)
    if position_kind == "grid":
        if target.grid is None:
            raise InputError("positions grid: how many rows and columns? Give grid (--grid 3x4).")
        rows, columns = target.grid
        return np.hstack([np.repeat(np.eye(rows), columns, axis=0), np.tile(np.eye(columns), (rows, 1))])
    if position_kind == "sinusoidal":
        indices = HandTensor(np.arange(float(target.tokens)))
        return np.asarray(sinusoidal_positions(indices, width=width, base=BASE).array)
    return np.ones((target.tokens, 1 if position_kind == "rotary" else 0))


def target_scores(head: Head) -> tuple[Array, Array]:
    """(S, F): beta S + F gives the head's weights as beta grows. F holds the shares inside the window."""
    weights = head.weights
    inside = weights > 0
    shares = np.log(np.where(inside, weights / weights.max(axis=1, keepdims=True), 1.0))
    if inside.all():
        return np.zeros_like(weights), shares
    return inside.astype(float), shares


def one_hot_projections(target: Target, S: Array, F: Array, beta: float) -> tuple[Array, Array]:
    """W_q and W_k over one-hot codes with beta Q K^T = beta S + F."""
    scores = S + F / beta if F.any() else S
    count, queries = target.tokens, target.query_positions
    if target.head_width is None:
        if not scores.any():
            return np.zeros((1, count)), np.zeros((1, count))
        W_q = np.zeros((count, count))
        W_q[:, queries] = scores.T
        return W_q, np.eye(count)
    left, values, right = centred_factors(scores)
    rank = max(1, min(target.head_width, numerical_rank(values)))
    root = np.sqrt(values[:rank])
    W_q = np.zeros((rank, count))
    W_q[:, queries] = (left[:, :rank] * root).T
    return W_q, right[:rank] * root[:, None]


def centred_factors(scores: Array) -> tuple[Array, Array, Array]:
    """SVD of the scores less the mean of each row.

    Softmax ignores a constant added to a row, and centring gives the lowest rank over all such constants:
    rank(S + u 1^T) >= rank((S + u 1^T)(I - 11^T/n)) = rank of the centred S.
    """
    left, values, right = np.linalg.svd(scores - scores.mean(axis=1, keepdims=True), full_matrices=False)
    return left, values, right


def numerical_rank(values: Array) -> int:
    """The number of singular values above rounding."""
    return int(np.sum(values > values[0] * len(values) * 1e-15)) if len(values) and values[0] > 0 else 0


def closed_form_projections(
    position_kind: str, codes: Array, target: Target, head: Head, width: int
) -> Iterator[tuple[Array, Array]]:
    """W_q and W_k over codes that are not one-hot in closed form, the simplest first.

    Rotary ones are a fixed query and a fixed key, columns that multiply the constant 1.
    """
    target_keys, rotary = head.target_keys, position_kind == "rotary"
    if not any(part.any() for part in target_scores(head)):
        zero = np.zeros((1 + rotary, codes.shape[1]))
        yield zero, zero
    elif position_kind == "grid" and target_keys is not None:
        yield from _grid_projections(target, target_keys)
    elif head.offset is not None:
        for mask in _pair_masks(width, target.tokens, head.offset):
            rotated = rotation(width, head.offset) * np.repeat(mask, 2)[:, None]
            if rotary:
                key = np.stack([mask, np.zeros_like(mask)], axis=-1).reshape(-1, 1)
                yield rotated.T @ np.tile([[1.0], [0.0]], (width // 2, 1)), key
            else:
                yield rotated, np.eye(width)
    if position_kind == "sinusoidal" and target_keys is not None:
        for cutoff in CUTOFFS:
            yield (
                (np.linalg.pinv(codes[target.query_positions], rcond=cutoff) @ codes[target_keys]).T,
                np.eye(width),
            )


def rotate(vectors: Array, positions: tuple[int, ...]) -> Array:
    """Rotary positions: each vector rotated by its position."""
    angles = HandTensor(np.array(positions, float)) if positions else None
    return np.asarray(rotary_positions(HandTensor(vectors), angles, base=BASE).array)


def pair_frequencies(width: int) -> Array:
    return np.asarray(frequencies(HandTensor(np.zeros(1)), width, BASE).array)


def rotation(width: int, offset: int) -> Array:
    """R with R p_i = p_(i + offset) for sinusoidal codes: each pair (sin, cos) rotated by its angle.

    >>> codes = position_codes("sinusoidal", Target("", 3), 4)
    >>> bool(np.allclose(codes[:2] @ rotation(4, 1).T, codes[1:]))
    True
    """
    R = np.zeros((width, width))
    for pair, angle in enumerate(offset * pair_frequencies(width)):
        block = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        R[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = block
    return R


def _pair_masks(width: int, tokens: int, offset: int) -> Iterator[Array]:
    """All pairs; then only those slow enough that scores fall over every distance."""
    yield np.ones(width // 2)
    slow = pair_frequencies(width) * (tokens + abs(offset)) <= math.pi
    if slow.any():
        yield slow.astype(float)


def _grid_projections(target: Target, target_keys: Indices) -> Iterator[tuple[Array, Array]]:
    assert target.grid is not None
    rows, columns = target.grid
    key_rows, key_columns = np.divmod(target_keys.reshape(rows, columns), columns)
    W_q, column_codes = np.zeros((rows + columns, rows + columns)), rows + np.arange(columns)
    if np.all(key_rows == key_rows[:, :1]) and np.all(key_columns == key_columns[:1]):
        W_q[key_rows[:, 0], np.arange(rows)] = 1
        W_q[rows + key_columns[0], column_codes] = 1
    else:
        active = target_keys.reshape(rows, columns).any(axis=1)
        if active.sum() > 1:
            return
        W_q[key_rows[active][0], column_codes] = W_q[rows + key_columns[active][0], column_codes] = 1
        W_q[0, :rows] = W_q[rows, :rows] = 2 * ~active
    yield W_q, np.eye(rows + columns)
