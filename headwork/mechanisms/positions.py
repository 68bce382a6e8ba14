r"""Positions: how a token says where it stands.

Natural numbers grow without bound; normalised ones depend on the length; sinusoids
(sin(w_k t) at 2k, cos(w_k t) at 2k+1, w_k = 10000^(-2k/d), Vaswani et al. 2017) have dot products that
depend only on the distance; a learned table, a relative bias on the scores, and rotary positions
(Su et al. 2021, arXiv 2104.09864), which turn each pair of a query or key by its place.
Places count from 0.
"""

from __future__ import annotations

from headwork.errors import InputError, sizes_in_words
from headwork.mechanisms.attention import Tensor
from headwork.note import Given, Note, Step, mechanism, silent
from headwork.numbers import stack

PLACES = Given("places", "t", "token", "where each token stands, from 0: 0 1 2 ...")


@mechanism(PLACES, Step("output", "P", r"t", "token one"))
def natural_positions(places: Tensor, *, note: Note = silent) -> Tensor:
    """Each place as it is: simple, but it grows without bound.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> natural_positions(HandTensor(np.arange(3.0))).array.tolist()
    [[0.0], [1.0], [2.0]]
    """
    return note("output", places.unsqueeze(-1))


@mechanism(PLACES, Step("output", "P", r"t / (n - 1)", "token one"))
def normalised_positions(places: Tensor, *, note: Note = silent) -> Tensor:
    """Each place as a share of the length: bounded, but the same step means less in a longer text.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> normalised_positions(HandTensor(np.arange(3.0))).array.tolist()
    [[0.0], [0.5], [1.0]]
    """
    last = max(places.shape[-1] - 1, 1)
    return note("output", (places / last).unsqueeze(-1))


def frequencies(like: Tensor, width: int, base: int) -> Tensor:
    """w_k = base^(-2k/width) for each pair k, as numbers of the same kind as ``like``."""
    if width < 2 or width % 2:
        raise InputError(f"positions: width {width} is not made of pairs. Give an even width of at least 2.")
    pairs = like.new_tensor(list(range(width // 2)))
    return like.new_tensor(base) ** (-2 * pairs / width)


def interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """Columns 0, 2, 4 ... from one and 1, 3, 5 ... from the other."""
    both = stack([even, odd], -1)
    return both.reshape(*even.shape[:-1], 2 * even.shape[-1])


@mechanism(
    PLACES,
    Step("frequencies", r"\omega", r"\mathrm{base}^{-2k/d}", "pair"),
    Step("angles", r"\theta", r"t\, \omega_k", "token pair"),
    Step("output", "P", r"P_{2k} = \sin\theta_k,\; P_{2k+1} = \cos\theta_k", "token width"),
)
def sinusoidal_positions(places: Tensor, *, width: int, base: int = 10000, note: Note = silent) -> Tensor:
    """Sines and cosines of each place at falling frequencies, in pairs.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> sinusoidal_positions(HandTensor(np.array([0.0])), width=4).array.tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    speeds = note("frequencies", frequencies(places, width, base))
    angles = note("angles", places.unsqueeze(-1) * speeds)
    return note("output", interleaved(angles.sin(), angles.cos()))


@mechanism(
    Given("tokens", "X", "token width", "one row a token"),
    Given("table", "T", "place width", "one learned row a place", trained=True),
    Step("positions", "P", r"T_{0 \ldots n-1}", "token width"),
    Step("output", "Y", r"X + P", "token width"),
)
def learned_positions(tokens: Tensor, table: Tensor, *, note: Note = silent) -> Tensor:
    """Adds to each token the table's row for its place.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> x = HandTensor(np.array([[1.0], [1.0]]))
    >>> learned_positions(x, HandTensor(np.array([[1.0], [2.0], [3.0]]))).array.tolist()
    [[2.0], [3.0]]
    """
    count = tokens.shape[-2]
    if table.shape[-2] < count or table.shape[-1] != tokens.shape[-1]:
        raise InputError(
            f"learned positions: the table is {sizes_in_words(table.shape, 'place width')}, the tokens are "
            f"{sizes_in_words(tokens.shape, 'token width')}. The table needs a row a token and the tokens' width."
        )
    positions = note("positions", table[:count])
    return note("output", tokens + positions)


@mechanism(
    Given("scores", "S", "query key", "square: as many queries as keys"),
    Given("bias", "b", "distance", "2n-1 numbers: for key minus query = -(n-1) ... n-1", trained=True),
    Step("biases", "B", r"b_{j-i}", "query key"),
    Step("output", "Y", r"S + B", "query key"),
)
def relative_positions(scores: Tensor, bias: Tensor, *, note: Note = silent) -> Tensor:
    """Adds to each score a bias that depends only on the distance from query to key.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> scores = HandTensor(np.zeros((2, 2)))
    >>> relative_positions(scores, HandTensor(np.array([-1.0, 0.0, 1.0]))).array.tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    queries, keys = scores.shape[-2:]
    if queries != keys or bias.shape[-1] != 2 * keys - 1:
        raise InputError(
            f"relative positions: the scores are {sizes_in_words(scores.shape, 'query key')} and there are "
            f"{bias.shape[-1]} biases. Square scores of n tokens need 2n-1 biases."
        )
    rows = [bias[..., keys - 1 - i : 2 * keys - 1 - i] for i in range(queries)]
    biases = note("biases", stack(rows, -2))
    return note("output", scores + biases)


@mechanism(
    Given("vectors", "X", "token width", "queries or keys, one row a token"),
    Given("places", "t", "token", "where each stands; 0 1 2 ... unless given"),
    Step("angles", r"\theta", r"t\, \omega_k", "token pair"),
    Step(
        "output",
        "Y",
        r"(x_{2k}\cos\theta_k - x_{2k+1}\sin\theta_k,\; x_{2k}\sin\theta_k + x_{2k+1}\cos\theta_k)",
        "token width",
    ),
)
def rotary_positions(vectors: Tensor, places: Tensor = None, *, base: int = 10000, note: Note = silent) -> Tensor:
    """Turns each pair (2k, 2k+1) of a query or key by its place times the pair's frequency.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> rotary_positions(HandTensor(np.array([[1.0, 0.0]]))).array.tolist()
    [[1.0, 0.0]]
    """
    count, width = vectors.shape[-2:]
    places = vectors.new_tensor(list(range(count))) if places is None else places
    angles = note("angles", places.unsqueeze(-1) * frequencies(vectors, width, base))
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    cosines, sines = angles.cos(), angles.sin()
    return note("output", interleaved(even * cosines - odd * sines, even * sines + odd * cosines))
