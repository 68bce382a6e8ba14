r"""What a head, or several, can be asked to do: each target as a signed sum of row-stochastic matrices.

The target is Y = M X on the content, with M = sum_h c_h T_h - diag(excess): head h attends with the weights
T_h (rows positive or zero, each summing to 1) and W_o scales it by c_h. The rows of sum_h c_h T_h have one
sum; where those of M differ, as with zero padding, a head beyond the ends looks at the token itself, and what
it takes too much of that is ``self_excess``, which heads that read their query's content take away.

A tap at offset o makes y_i look at x_(i+o) (cross-correlation, as everywhere here). Positions beyond the ends
are wrapped around, clamped to the end token, zero, left out of a mean that shrinks, or not asked for at all
(none: fewer queries than keys). Positions count from 0, a permutation's order from 1.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import HeadworkError, InputError, TooLarge, check_known, format_shape
from headwork.files import load_words
from headwork.numbers.parsing import read_tensor

Array = NDArray[np.float64]
Indices = NDArray[np.intp]
MAX_TOKENS = 512
text_of = load_words(__file__)
END_MODES = ("clamp", "wrap", "zero", "none")


class Impossible(HeadworkError):
    """No weights can do this; the message is the proof."""


class NotFound(HeadworkError):
    """The search ended without weights, which proves nothing; the message says what was searched."""


@dataclass(frozen=True, eq=False)
class Head:
    """One head: the weights it should have, its factor in W_o, and its offset where it is a shift."""

    coefficient: float
    weights: Array  # query x key
    offset: int | None = None

    @property
    def target_keys(self) -> Indices | None:
        """The one key that each query takes; None where some query takes several."""
        single = bool(np.all((self.weights == 0) | (self.weights == 1)))
        return np.argmax(self.weights, axis=1) if single else None


@dataclass(frozen=True, eq=False)
class Target:
    """A target, in words and as heads."""

    title: str
    tokens: int
    heads: tuple[Head, ...] = ()
    self_excess: Array | None = None  # how much too much of its own content each token takes; positive or 0
    prefers_merged: bool = False  # one head for each sign is preferred, where the positions allow it
    queries: tuple[int, ...] = ()  # the tokens that have an output; empty for all
    grid: tuple[int, int] | None = None
    head_width: int | None = None
    requested: Array | None = None  # M as typed, where the heads only come near it

    @property
    def matrix(self) -> Array:
        """M, query x key."""
        if self.requested is not None:
            return self.requested
        total = np.sum([head.coefficient * head.weights for head in self.heads], axis=0)
        return np.asarray(total if self.self_excess is None else total - np.diag(self.self_excess))

    @property
    def query_positions(self) -> Indices:
        """The tokens that have an output."""
        return np.array(self.queries or range(self.tokens))


def gather_head(keys: Sequence[int], tokens: int, factor: float = 1.0, offset: int | None = None) -> Head:
    """A head in which query i takes key ``keys[i]``."""
    return Head(factor, np.eye(tokens)[np.asarray(keys, int)], offset)


# --- reading what is typed ----------------------------------------------------------------------
def check_integer(value: Any, name: str, least: int, maximum: int) -> int:
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= maximum:
        raise InputError(f"{name} is {value!r}. Expected a whole number from {least} to {maximum}.")
    return int(value)


def check_token_count(tokens: Any) -> int:
    if tokens is None:
        raise InputError("tokens missing: how many are there? Give tokens (--tokens 5).")
    if isinstance(tokens, int) and tokens > MAX_TOKENS:
        raise TooLarge(f"{tokens} tokens; heads are built for at most {MAX_TOKENS}.")
    return check_integer(tokens, "tokens", 1, MAX_TOKENS)


def read_array(value: Any, name: str, axes: str) -> Array:
    """Typed text or nested lists as an array with these axes."""
    if value is None:
        raise InputError(f"{name} missing. Expected {axes.replace(' ', ' x ')}.")
    array, count = read_tensor(value, where=name).array, len(axes.split())
    array = array[(None,) * (count - array.ndim)]
    if array.ndim != count or not np.all(np.isfinite(array)):
        shape = format_shape(array.shape, "")
        raise InputError(f"{name} is {shape}. Expected finite numbers, {axes.replace(' ', ' x ')}.")
    return np.asarray(array, float)


def read_order(order: Any, tokens: Any = None) -> list[int]:
    """A permutation from 1, as a row (y1 takes the first) or as cycles; returned from 0.

    >>> read_order("2 3 1"), read_order("(1 2 3)"), read_order("(1 3)", tokens=4)
    ([1, 2, 0], [1, 2, 0], [2, 1, 0, 3])
    """
    if order is None:
        raise InputError(
            'order missing. Expected a permutation from 1, such as "2 3 1" (y1 = x2), or cycles "(1 2 3)".'
        )
    text = order if isinstance(order, str) else " ".join(map(str, order))
    if not re.fullmatch(r"[\s0-9,()]+", text):
        raise InputError(
            f'order is {text!r}. Expected whole numbers from 1, such as "2 3 1", or cycles "(1 2)(3)".'
        )
    named = [int(n) for n in re.findall(r"[0-9]+", text)]
    if in_cycles := "(" in text or ")" in text:
        if re.sub(r"\([^()]*\)", "", text).strip(" ,"):
            raise InputError(
                f'order is {text!r}: numbers or brackets stand outside of the cycles. Expected "(1 2)(3)".'
            )
        least = max([*named, 0])
    else:
        least = len(named)
    count = check_token_count(least if tokens is None else check_token_count(tokens))
    row = list(range(1, count + 1)) if in_cycles else named
    if len(named) != len(set(named)) or not set(named) <= {*range(1, count + 1)} or len(row) != count:
        raise InputError(
            f"order is {text!r} for {count} tokens: not a permutation. "
            f"Each of 1 to {count} must appear once (a cycle may leave out what stays where it is)."
        )
    for inner in re.findall(r"\(([^()]*)\)", text):
        cycle = [int(n) for n in re.findall(r"[0-9]+", inner)]
        for here, there in zip(cycle, [*cycle[1:], *cycle[:1]], strict=True):
            row[here - 1] = there
    return [n - 1 for n in row]


# --- targets: one function each -------------------------------------------------------------------
def identity(*, tokens: Any = None, grid: Any = None) -> Target:
    """Every token keeps its own content: y_i = x_i."""
    count, shape = _token_grid(tokens, grid)
    head = gather_head(range(count), count, offset=0)
    return Target("identity: y_i = x_i", count, (head,), grid=shape)


def permutation(*, order: Any = None, tokens: Any = None, grid: Any = None) -> Target:
    """Any permutation of the tokens; fixed points are allowed."""
    keys = read_order(order, tokens)
    count, shape = _token_grid(len(keys), grid)
    terms = ", ".join(f"y{i + 1} = x{k + 1}" for i, k in enumerate(keys[:8])) + (", ..." if count > 8 else "")
    steps = {k - i for i, k in enumerate(keys)}
    offset = steps.pop() if len(steps) == 1 else None
    return Target(f"permutation: {terms}", count, (gather_head(keys, count, offset=offset),), grid=shape)


def shift(*, tokens: Any = None, by: Any = 1, ends: str = "clamp") -> Target:
    """y_i = x_(i+by): every token takes the content at that offset."""
    count = check_token_count(tokens)
    step = check_integer(by, "by", -MAX_TOKENS, MAX_TOKENS)
    return _slide_window(f"shift: y_i = x_(i{step:+d})", {step: 1.0}, count, ends)


def running_mean(
    *, tokens: Any = None, window: Any = 3, causal: bool = False, ends: str = "shrink"
) -> Target:
    """The mean of a window around each token, or, causal, of the tokens up to it."""
    count = check_token_count(tokens)
    size = check_integer(window, "window", 1, count)
    first_offset = 1 - size if causal else -(size // 2)
    if causal and ends == "wrap":
        raise InputError(
            "a causal window that wraps looks at the end from the beginning. Use ends shrink, clamp or none."
        )
    name = f"running mean of {size}" + (" up to each token" if causal else "")
    taps = {first_offset + k: 1.0 / size for k in range(size)}
    title = f"{name}: offsets {first_offset} to {first_offset + size - 1}"
    return replace(_slide_window(title, taps, count, ends, (*END_MODES, "shrink")), prefers_merged=True)


def convolution(*, tokens: Any = None, taps: Any = None, ends: str = "clamp") -> Target:
    """y_i = sum_j taps_j x_(i+j-middle), stride 1: one head for each nonzero tap."""
    count = check_token_count(tokens)
    row = read_array(taps, "taps", "tap")
    if len(row) > count:
        raise InputError(f"{len(row)} taps for {count} tokens. Give at most as many taps as tokens.")
    middle = len(row) // 2
    offsets = {j - middle: float(tap) for j, tap in enumerate(row)}
    terms = " ".join(f"{tap:+g} x_(i{offset:+d})" for offset, tap in offsets.items() if tap)
    return _slide_window(f"convolution: y_i = {terms}", offsets, count, ends)


def convolution_2d(*, grid: Any = None, kernel: Any = None, ends: str = "clamp") -> Target:
    """A kernel over a grid of patches (rows x columns), stride 1: one head for each nonzero tap."""
    rows, columns = _grid(grid)
    taps = read_array(kernel, "kernel", "row column")
    if taps.shape[0] > rows or taps.shape[1] > columns:
        raise InputError(
            f"a kernel of {taps.shape[0]} x {taps.shape[1]} on a grid of {rows} x {columns}. "
            "Take a smaller one."
        )
    check_known("ends", ends, ("clamp", "wrap", "zero"))
    middle = taps.shape[0] // 2, taps.shape[1] // 2
    tap_keys = []
    for a, b in np.argwhere(taps):
        over = [_key_index(r + a - middle[0], rows, ends) for r in range(rows)]
        along = [_key_index(c + b - middle[1], columns, ends) for c in range(columns)]
        keys = [None if r is None or c is None else r * columns + c for r in over for c in along]
        tap_keys.append((float(taps[a, b]), keys, None))
    title = f"convolution of {taps.shape[0]} x {taps.shape[1]} taps over a grid of {rows} x {columns}"
    return replace(_heads_of_taps(title, tap_keys, rows * columns), grid=(rows, columns))


def first(*, tokens: Any = None, grid: Any = None) -> Target:
    """Every token takes the first one's content."""
    count, shape = _token_grid(tokens, grid)
    head = gather_head([0] * count, count, offset=1 - count)
    return Target("first: y_i = x_0", count, (head,), grid=shape)


def last(*, tokens: Any = None, grid: Any = None) -> Target:
    """Every token takes the last one's content."""
    count, shape = _token_grid(tokens, grid)
    head = gather_head([count - 1] * count, count, offset=count - 1)
    return Target("last: y_i = x_(n-1)", count, (head,), grid=shape)


def mean(*, tokens: Any = None, grid: Any = None) -> Target:
    """Every token takes the mean of all."""
    count, shape = _token_grid(tokens, grid)
    everywhere = Head(1.0, np.full((count, count), 1.0 / count))
    return Target("mean: y_i = (x_0 + ... + x_(n-1)) / n", count, (everywhere,), grid=shape)


def matrix(*, matrix: Any = None, head_width: Any = None) -> Target:
    """The weights of one head, given: rows that sum to 1, entries positive (zeros are limits)."""
    A = read_array(matrix, "matrix", "query key")
    queries, keys = A.shape
    check_token_count(keys)
    if queries > keys:
        raise InputError(
            f"matrix is {format_shape(A.shape, 'query key')}. "
            "Each query is a token: at most one row per column."
        )
    width = keys if head_width is None else check_integer(head_width, "head_width", 1, MAX_TOKENS)
    title = f"given weights of {queries} queries over {keys} keys"
    query_subset = () if queries == keys else tuple(range(queries))
    return Target(title, keys, (Head(1.0, A),), queries=query_subset, head_width=width)


_FUNCTIONS: tuple[Callable[..., Target], ...] = (
    *(identity, permutation, shift, running_mean, convolution),
    *(convolution_2d, first, last, mean, matrix),
)
TARGETS = {function.__name__.replace("_", "-"): function for function in _FUNCTIONS}


# --- building them --------------------------------------------------------------------------------
def _grid(grid: Any) -> tuple[int, int]:
    typed = (
        re.fullmatch(r"\s*([0-9]{1,4})\s*[x, ]\s*([0-9]{1,4})\s*", grid) if isinstance(grid, str) else None
    )
    sides = list(typed.groups() if typed else grid or ())
    if len(sides) != 2 or (isinstance(grid, str) and not typed):
        raise InputError(f"grid is {grid!r}. Expected rows x columns, such as 3x4.")
    rows, columns = (check_integer(int(side), "a side of the grid", 1, MAX_TOKENS) for side in sides)
    check_token_count(rows * columns)
    return rows, columns


def _token_grid(tokens: Any, grid: Any) -> tuple[int, tuple[int, int] | None]:
    """The number of tokens, and the grid where there is one."""
    if grid is None:
        return check_token_count(tokens), None
    rows, columns = _grid(grid)
    if tokens is not None and check_token_count(tokens) != rows * columns:
        raise InputError(
            f"{tokens} tokens do not fill a grid of {rows} x {columns}. Leave out one of the two."
        )
    return rows * columns, (rows, columns)


def _key_index(position: int, count: int, ends: str) -> int | None:
    """The key at a position; None where there is none."""
    if ends == "wrap":
        return position % count
    clamped = min(max(position, 0), count - 1)
    return None if ends == "zero" and clamped != position else clamped


def _slide_window(
    name: str, taps: dict[int, float], count: int, ends: str, allowed_ends: Sequence[str] = END_MODES
) -> Target:
    """One row of taps along the tokens."""
    check_known("ends", ends, allowed_ends)
    title = f"{name}; ends: {text_of(f'ends/{ends}')}"
    if ends == "shrink":  # one head only, because the window's size differs at the ends
        window = np.sum([np.eye(count, k=offset) for offset in taps], axis=0)
        return Target(title, count, (Head(1.0, window / window.sum(axis=1, keepdims=True)),))
    inside = [i for i in range(count) if all(0 <= i + offset < count for offset in taps)]
    queries = inside if ends == "none" else list(range(count))
    if not queries:
        raise InputError(
            f"no token has its whole window inside {count} tokens. Take more tokens or other ends."
        )
    tap_keys = []
    for offset, tap in taps.items():
        keys = [_key_index(i + offset, count, ends) for i in queries]
        if tap:
            tap_keys.append((tap, keys, None if ends in ("wrap", "zero") and offset else offset))
    query_subset = tuple(queries) if len(queries) < count else ()
    return replace(_heads_of_taps(title, tap_keys, count), queries=query_subset)


def _heads_of_taps(
    title: str, tap_keys: Sequence[tuple[float, list[int | None], int | None]], count: int
) -> Target:
    """A head for each tap; where it has nothing to look at, it takes itself (``self_excess``)."""
    if not tap_keys:
        raise InputError("every tap is 0, so there is nothing to look at. Give at least one nonzero tap.")
    heads, excess = [], np.zeros(count)
    for tap, keys, offset in tap_keys:
        missing = [i for i, key in enumerate(keys) if key is None]
        excess[missing] += tap
        taken = [i if key is None else key for i, key in enumerate(keys)]
        heads.append(gather_head(taken, count, tap, offset))
    if (least := float(excess.min())) < 0:
        heads, excess = [*heads, gather_head(range(count), count, -least, 0)], excess - least
    if excess.all() and len(heads) == 1:  # a shift beyond the ends leaves nothing
        heads, excess = [Head(0.0, np.full((count, count), 1.0 / count))], np.zeros(count)
    return Target(title, count, tuple(heads), excess if excess.any() else None)


def merge_by_sign(heads: Sequence[Head]) -> tuple[Head, ...]:
    """The taps of one sign in one head: their sum scales it, their shares are its weights."""
    merged = []
    for sign in (1, -1):
        side = [head for head in heads if head.coefficient * sign > 0]
        if side:
            total = sum(head.coefficient for head in side)
            shares = np.sum([head.coefficient / total * head.weights for head in side], axis=0)
            merged.append(Head(total, shares))
    return tuple(merged)
