"""What a head does, wherever it stands: its weights over many inputs, scored against heads that Build makes.

The roles, in the order that decides where several fit: identity, previous, next, first, a local window with
its offset, a fixed permutation, uniform; content is what no position explains. The share of a role is that
part of the variance of its weights A round uniform ones U that c (T - U) explains, T being the weights that
``headwork.build`` is asked for, c a factor: the squared cosine between A - U and T - U. Which role it is, is
decided on the mean of A over the inputs, where noise has gone. Where tokens are patches on a grid, a window
has two offsets.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, format_shape

Array = NDArray[Any]
Pair = tuple[int, int]
ORDER = ("identity", "previous", "next", "first", "window", "permutation", "uniform", "content")
LEAST_FIT = 0.5  # for a role to be named
LEAST_FIXED = 0.1  # of the variance, that is the same for every input
TIE_MARGIN = 0.02  # roles whose fits are this near coincide
LEAST_INSIDE_WINDOW = 0.9  # of the weights, within a window whose shares noise hides
LEAST_SHARE = 0.25  # of the variance, for a role to be named
MAX_TOKENS = 512  # as many as heads are built for
MAX_WINDOWS = 12  # windows that are looked at closely
# From this evenness on (squared uniform weights over squared weights) a head counts as uniform.
LEAST_EVENNESS = 0.7


@dataclass(frozen=True)
class HeadRole:
    """What a head does. ``offset`` is a window's middle, (down, right) on a grid; ``size`` its extent."""

    name: str
    share: float  # of the variance round uniform weights that the role explains; of content: what varies
    fixed: float  # the share of the mean pattern over all inputs: the most that positions can explain
    distance: float  # mean distance between query and key, in tokens or patches
    offset: float | tuple[float, float] | None = None
    size: int | tuple[int, int] | None = None
    order: tuple[int, ...] = ()  # of a permutation: the key of each query

    @property
    def text(self) -> str:
        if self.name != "window":
            return self.name
        size = f"{self.size[0]} x {self.size[1]}" if isinstance(self.size, tuple) else str(self.size)
        at = self.offset if isinstance(self.offset, tuple) else (self.offset,)
        return f"window of {size} at offset {', '.join(f'{x:+g}' for x in at if x is not None)}"


def role(weights: Any, *, grid: tuple[int, int] | None = None) -> HeadRole:
    """The role of one head from its weights (query, key), or over many inputs (..., query, key).

    With ``grid`` (rows, columns) the last tokens are patches; those before them (a class token) are none.

    >>> role(np.roll(np.eye(5), -1, axis=1)).name, role(np.full((5, 5), 0.2)).name
    ('previous', 'uniform')
    """
    A = np.asarray(weights, float)
    if A.ndim < 2 or 0 in A.shape or not np.isfinite(A).all() or A.min() < 0:
        raise InputError(
            f"weights are {format_shape(A.shape, '')}. Give (query, key) or (input, query, key), each row "
            "of them positive and summing to 1."
        )
    A = A.reshape(-1, *A.shape[-2:])
    head = _HeadWeights(A, grid)
    fits = {name: (head.fit(T, rows), T, details) for name, T, rows, details in head.candidates()}
    # A window is the best of many, and one that runs into the ends can be like another role.
    margins = {name: TIE_MARGIN * (5 if name == "window" else 1) for name in fits}
    best = max((fit - margins[name] for name, (fit, *_) in fits.items()), default=0)
    named = next((name for name in ORDER if name in fits and fits[name][0] >= best), "")
    fixed = head.share(head.mean)
    details: dict[str, Any] = {}
    name, share = "content", 1 - fixed
    if head.evenness >= 1 - 1e-6:
        name, share = "uniform", 1.0
    elif (
        best + TIE_MARGIN >= LEAST_FIT
        and head.fixed_beyond_chance >= LEAST_FIXED
        and head.share(fits[named][1]) >= LEAST_SHARE
    ):
        name = named
    elif "window" in fits and head.share_inside_window >= LEAST_INSIDE_WINDOW:
        name = "window"
    elif head.evenness >= LEAST_EVENNESS:
        name, share = "uniform", head.evenness
    if name in fits:
        _, T, details = fits[name]
        share = head.share(T)
    return HeadRole(name, share, fixed, head.distance, **details)


def end_keys(keys: Array, count: int, ends: str) -> Array:
    """Keys that may lie beyond the ends, as Build has them: wrapped around, or clamped to the end token."""
    return np.asarray(keys % count if ends == "wrap" else keys.clip(0, count - 1))


class _HeadWeights:
    """The weights of a head (input, query, key) beside uniform ones, over the keys that a query may see."""

    def __init__(self, A: Array, grid: tuple[int, int] | None) -> None:
        self.A, self.mean, self.share_inside_window = A, A.mean(0), 0.0
        queries, keys = self.mean.shape
        self.square = queries == keys
        self.grid = grid or (1, keys)
        self.tokens_before_patches = keys - self.grid[0] * self.grid[1]  # tokens that are not patches
        allowed = np.ones((queries, keys), bool)
        if self.square and not np.triu(self.mean, 1).any():
            allowed = np.tril(allowed)  # causal
        self.uniform = allowed / allowed.sum(1, keepdims=True)
        self.has_choice = chooses = allowed.sum(1) > 1
        squares = (A**2).mean(0)[chooses].sum()
        self.evenness = float((self.uniform[chooses] ** 2).sum() / squares) if chooses.any() else 1.0
        places = np.stack(np.unravel_index(np.arange(self.grid[0] * self.grid[1]), self.grid), -1)
        self.offsets = places - places[:, None]  # query, key, axis

    def share(self, T: Array) -> float:
        """Of the variance round uniform weights that T, less uniform and scaled, explains over all inputs."""
        shape = T - self.uniform
        overlap = float(((self.mean - self.uniform) * shape)[self.has_choice].sum())
        variance = ((self.A - self.uniform) ** 2).mean(0)[self.has_choice].sum()
        total = float(variance * (shape[self.has_choice] ** 2).sum())
        return max(0.0, overlap) ** 2 / total if total else 0.0

    def fit(self, T: Array, rows: Array) -> float:
        """The squared cosine between the mean and T, both less uniform, where T says something."""
        rows = self.has_choice & rows
        mean, role = (self.mean - self.uniform)[rows], (T - self.uniform)[rows]
        lengths = float((mean**2).sum() * (role**2).sum())
        return max(0.0, float((mean * role).sum())) ** 2 / lengths if lengths else 0.0

    @property
    def fixed_beyond_chance(self) -> float:
        """The share of the variance that every input has, less what a mean of few has by chance."""
        count = len(self.A)
        return 1.0 if count == 1 else (count * self.share(self.mean) - 1) / (count - 1)

    @property
    def patch_weights(self) -> Array:
        """The mean weights between tokens that have a place."""
        return np.asarray(self.mean[self.tokens_before_patches :, self.tokens_before_patches :])

    @property
    def distance(self) -> float:
        if not self.square:
            return float("nan")
        distances = np.linalg.norm(self.offsets, axis=-1)
        return float((self.patch_weights * distances).sum() / max(self.patch_weights.sum(), 1e-30))

    def candidates(self) -> Iterator[tuple[str, Array, Array, dict[str, Any]]]:
        """Each role: its weights, the queries that they say something about, and what else there is to tell.

        Of ends that differ the best is taken.
        """
        queries, n = self.mean.shape
        every = np.ones(queries, bool)
        yield "first", np.eye(n)[np.zeros(queries, int)], every, {}
        if not self.square or n < 2 or n > MAX_TOKENS:
            return
        yield "identity", np.eye(n), every, {}
        for name, step in (("previous", -1), ("next", 1)):
            inner = np.zeros(n, bool)
            inner[self.tokens_before_patches :] = (self.offsets == (0, step)).all(-1).any(1)
            clamped, wrapped = (np.eye(n)[end_keys(np.arange(n) + step, n, e)] for e in ("clamp", "wrap"))
            choices = [(clamped, every), (wrapped, every), (clamped, inner)]
            yield name, *max(choices, key=lambda choice: self.fit(*choice)), {}
        best_keys = self.mean.argmax(1)
        if len(set(best_keys.tolist())) == n:
            yield "permutation", np.eye(n)[best_keys], every, {"order": tuple(best_keys.tolist())}
        windows = [choice for start, size in self._rectangles() for choice in self._window(start, size)]
        if windows:
            T, rows, details = max(windows, key=lambda choice: self.fit(*choice[:2]))
            # On a single input, content may look local.
            clear = self.share(T) >= (LEAST_SHARE if len(self.A) == 1 else LEAST_SHARE / 2)
            self.share_inside_window = float(self.mean[T > 0].sum() / self.mean.sum()) if clear else 0.0
            yield "window", T, rows, details

    def _rectangles(self) -> list[tuple[Pair, Pair]]:
        """First offsets and sizes of windows: the best by the mean weight at each offset, and single ones."""
        rows, columns = self.grid
        profile = np.zeros((2 * rows, 2 * columns))  # an empty line before the sums
        down, right = self.offsets[..., 0] + rows, self.offsets[..., 1] + columns
        np.add.at(profile, (down, right), self.patch_weights / len(self.patch_weights))
        sums = profile.cumsum(0).cumsum(1)
        fits: list[tuple[float, Pair, Pair]] = []
        for height, width in np.ndindex(rows, columns):
            h, w = height + 1, width + 1
            inside = sums[h:, w:] - sums[:-h, w:] - sums[h:, :-w] + sums[:-h, :-w]
            best = inside.argsort(axis=None)[-1 if h * w > 1 else -MAX_WINDOWS :]
            for at in zip(*np.unravel_index(best, inside.shape), strict=True):
                value = (2 * inside[at] - 1) / (h * w)  # sum of 2 A T - T^2 for each query
                fits.append((float(value), (int(at[0]) + 1 - rows, int(at[1]) + 1 - columns), (h, w)))
        named = [((0, step), (1, 1)) for step in (-1, 0, 1)]
        single = [entry[1:] for entry in fits if entry[2] == (1, 1)]
        several = [entry[1:] for entry in sorted(fits)[-MAX_WINDOWS:] if entry[2] != self.grid]
        # The nearest first: wrapped around, others are the same.
        by_size = sorted({*single, *several}, key=lambda entry: (entry[1], max(map(abs, entry[0])), entry))
        return [entry for entry in by_size if entry not in named]

    def _window(self, start: Pair, size: Pair) -> list[tuple[Array, Array, dict[str, Any]]]:
        """One window with each kind of ends, and on the queries alone whose window lies inside."""
        shrunk, *others = (self._layout(start, size, ends) for ends in ("shrink", "clamp", "wrap"))
        every, whole = np.ones(len(shrunk), bool), (shrunk > 0).sum(1) == size[0] * size[1]
        middle = tuple(a + (extent - 1) / 2 for a, extent in zip(start, size, strict=True))
        flat = self.grid[0] == 1
        details = {"offset": middle[1] if flat else middle, "size": size[1] if flat else size}
        inner = [(shrunk, whole, details)] if whole.sum() * 2 >= len(whole) else []
        return [*((T, every, details) for T in (shrunk, *others)), *inner]

    def _layout(self, start: Pair, size: Pair, ends: str) -> Array:
        """The weights of a window: the mean over its offsets, which end as Build's do."""
        axes = []
        for n, a, extent in zip(self.grid, start, size, strict=True):
            keys = np.arange(n)[:, None] + np.arange(a, a + extent)
            real = (keys >= 0) & (keys < n) | (ends != "shrink")
            axes.append((np.eye(n)[end_keys(keys, n, ends)] * real[..., None]).sum(1))
        T = np.zeros_like(self.mean)
        T[self.tokens_before_patches :, self.tokens_before_patches :] = np.kron(*axes)
        return np.asarray(T / np.maximum(T.sum(1, keepdims=True), 1))
