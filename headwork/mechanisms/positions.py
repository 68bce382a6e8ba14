r"""Positions: how attention learns the order of its tokens.

Natural numbers grow without bound; normalised ones depend on the length; sinusoids
(sin(w_k t) at 2k, cos(w_k t) at 2k+1, w_k = 10000^(-2k/d), Vaswani et al. 2017) have dot products that
depend only on the offset, and for an image they encode row and column side by side; a learned table; a bias
on the scores by offset, learned or falling with the distance (ALiBi, Press et al. 2021, arXiv 2108.12409);
and rotary positions (Su et al. 2021, arXiv 2104.09864), which rotate each pair of a query or key by its
position. Positions count from 0.
"""

from headwork.errors import InputError, TooLarge, format_shape
from headwork.mechanisms.attention import Tensor
from headwork.note import Input, Note, Step, mechanism, silent
from headwork.numbers import cat, stack

MAX_WIDTH = 1_000_000  # of a code for one position
PLACES = Input("places", "t", "token", "the position of each token, from 0: 0 1 2 ...")


@mechanism(PLACES, Step("output", "P", r"t", "token one"))
def natural_positions(places: Tensor, *, note: Note = silent) -> Tensor:
    """Each position as it is: simple, but it grows without bound.

    >>> natural_positions(HandTensor(np.arange(3.0))).array.tolist()
    [[0.0], [1.0], [2.0]]
    """
    return note("output", places.unsqueeze(-1))


@mechanism(PLACES, Step("output", "P", r"t / t_{\mathrm{last}}", "token one"))
def normalised_positions(places: Tensor, *, note: Note = silent) -> Tensor:
    """Each position over the last one: bounded, but one step means less in a longer text.

    Counted from 0 they go from 0 to 1, counted from 1 (1 2 3 ...) from 1/n to 1.

    >>> normalised_positions(HandTensor(np.arange(3.0))).array.tolist()
    [[0.0], [0.5], [1.0]]
    """
    shares = places / places[..., -1:] if places.shape[-1] > 1 else places
    return note("output", shares.unsqueeze(-1))


def frequencies(like: Tensor, width: int, base: int) -> Tensor:
    """w_k = base^(-2k/width) for each pair k, as numbers of the same kind as ``like``."""
    if width < 2 or width % 2:
        raise InputError(
            f"positions: width {width} cannot be split into pairs. Give an even width of at least 2."
        )
    if width > MAX_WIDTH:
        raise TooLarge(f"positions: width {width:,}; at most {MAX_WIDTH:,}.")
    pairs = like.new_tensor(list(range(width // 2)))
    return like.new_tensor(base) ** (-2 * pairs / width)


def interleave(even_columns: Tensor, odd_columns: Tensor) -> Tensor:
    """Columns 0, 2, 4 ... from one and 1, 3, 5 ... from the other."""
    both = stack([even_columns, odd_columns], -1)
    return both.reshape(*even_columns.shape[:-1], 2 * even_columns.shape[-1])


@mechanism(
    PLACES,
    Step("frequencies", r"\omega", r"\mathrm{base}^{-2k/d}", "pair"),
    Step("angles", r"\theta", r"t\, \omega_k", "token pair"),
    Step("output", "P", r"P_{2k} = \sin\theta_k,\; P_{2k+1} = \cos\theta_k", "token width"),
)
def sinusoidal_positions(places: Tensor, *, width: int, base: int = 10000, note: Note = silent) -> Tensor:
    """Sines and cosines of each position at falling frequencies, in pairs.

    >>> sinusoidal_positions(HandTensor(np.array([0.0])), width=4).array.tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    omega = note("frequencies", frequencies(places, width, base))
    angles = note("angles", places.unsqueeze(-1) * omega)
    return note("output", interleave(angles.sin(), angles.cos()))


@mechanism(
    Input("rows", "r", "row", "the position of each row of the image, from 0: 0 1 2 ..."),
    Input("columns", "c", "column", "the position of each column of the image, from 0: 0 1 2 ..."),
    Step("row positions", "R", r"\operatorname{sinusoids}(r)", "row half_width"),
    Step("column positions", "C", r"\operatorname{sinusoids}(c)", "column half_width"),
    Step("output", "P", r"P_{(i,j)} = [R_i, C_j]", "patch width"),
)
def sinusoidal_positions_2d(
    rows: Tensor, columns: Tensor, *, width: int, base: int = 10000, note: Note = silent
) -> Tensor:
    """Sinusoids of the row in the first half of the width and of the column in the second, patch by patch.

    >>> zero = HandTensor(np.array([0.0]))
    >>> sinusoidal_positions_2d(zero, zero, width=4).array.tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    if width % 4:
        raise InputError(
            f"positions: width {width} cannot be split into two halves of pairs. Give a multiple of 4."
        )
    row_count, column_count = rows.shape[-1], columns.shape[-1]
    row_codes = note("row positions", sinusoidal_positions(rows, width=width // 2, base=base))
    column_codes = note("column positions", sinusoidal_positions(columns, width=width // 2, base=base))
    grid = cat([stack([row_codes] * column_count, 1), stack([column_codes] * row_count, 0)], -1)
    return note("output", grid.reshape(row_count * column_count, width))


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("table", "T", "position width", "one learned row per position", trainable=True),
    Step("positions", "P", r"T_{0 \ldots n-1}", "token width"),
    Step("output", "Y", r"X + P", "token width"),
)
def learned_positions(tokens: Tensor, table: Tensor, *, note: Note = silent) -> Tensor:
    """Adds to each token the table's row for its position.

    >>> x = HandTensor(np.array([[1.0], [1.0]]))
    >>> learned_positions(x, HandTensor(np.array([[1.0], [2.0], [3.0]]))).array.tolist()
    [[2.0], [3.0]]
    """
    count = tokens.shape[-2]
    if table.shape[-2] < count or table.shape[-1] != tokens.shape[-1]:
        shapes = format_shape(table.shape, "position width"), format_shape(tokens.shape, "token width")
        raise InputError(
            f"learned positions: the table is {shapes[0]}, the tokens are {shapes[1]}. "
            "The table needs one row per token and the tokens' width."
        )
    positions = note("positions", table[:count])
    return note("output", tokens + positions)


@mechanism(
    Input("scores", "S", "query key", "square: as many queries as keys"),
    Input("bias", "b", "distance", "2n-1 numbers: for key minus query = -(n-1) ... n-1", trainable=True),
    Step("biases", "B", r"b_{j-i}", "query key"),
    Step("output", "Y", r"S + B", "query key"),
)
def relative_positions(scores: Tensor, bias: Tensor, *, note: Note = silent) -> Tensor:
    """Adds to each score a bias that depends only on the offset from query to key.

    >>> scores = HandTensor(np.zeros((2, 2)))
    >>> relative_positions(scores, HandTensor(np.array([-1.0, 0.0, 1.0]))).array.tolist()
    [[0.0, 1.0], [-1.0, 0.0]]
    """
    queries, keys = scores.shape[-2:]
    if queries != keys or bias.shape[-1] != 2 * keys - 1:
        shape = format_shape(scores.shape, "query key")
        raise InputError(
            f"relative positions: the scores are {shape} and there are {bias.shape[-1]} biases. "
            "Square scores of n tokens need 2n-1 biases."
        )
    rows = [bias[..., keys - 1 - i : 2 * keys - 1 - i] for i in range(queries)]
    biases = note("biases", stack(rows, -2))
    return note("output", scores + biases)


@mechanism(
    Input("scores", "S", "head query key", "one head may be given as a plain matrix"),
    Input("slopes", "m", "head", "2^(-8h/n) for head h = 1 ... n unless given"),
    Step("distances", "D", r"|i - j|", "query key"),
    Step("biases", "B", r"-m\, |i - j|", "head query key"),
    Step("output", "Y", r"S + B", "head query key"),
)
def alibi_positions(scores: Tensor, slopes: Tensor = None, *, note: Note = silent) -> Tensor:
    """Takes from each score the distance from query to key times the slope of its head: nothing is learned.

    >>> alibi_positions(HandTensor(np.zeros((2, 2))), HandTensor(np.array(0.5))).array.tolist()
    [[0.0, -0.5], [-0.5, 0.0]]
    """
    queries, keys = scores.shape[-2:]
    heads = scores.shape[-3] if len(scores.shape) > 2 else 1
    if slopes is None:
        slopes = alibi_slopes(scores, heads) if len(scores.shape) > 2 else alibi_slopes(scores, 1)[0]
    if len(slopes.shape) != min(len(scores.shape) - 2, 1) or (slopes.shape and slopes.shape[0] != heads):
        shapes = format_shape(scores.shape, "head query key"), format_shape(slopes.shape, "head")
        raise InputError(
            f"alibi positions: the scores are {shapes[0]} and slopes is {shapes[1]}. Give one slope per head."
        )
    # With fewer queries than keys, the queries are the last ones, as under a causal mask.
    offsets = [[abs(i + keys - queries - j) for j in range(keys)] for i in range(queries)]
    distances = note("distances", scores.new_tensor(offsets))
    slopes = slopes.unsqueeze(-1).unsqueeze(-1) if slopes.shape else slopes
    biases = note("biases", -(slopes * distances))
    return note("output", scores + biases)


def alibi_slopes(like: Tensor, heads: int) -> Tensor:
    """2^(-8h/n) for h = 1 ... n. Where n is not a power of two: all slopes of the power p below n, then every
    other slope of 2p.
    """
    power = 1 << (heads.bit_length() - 1)
    exponents = [-8 * (h + 1) for h in range(power)] + [-4 * (2 * h + 1) for h in range(heads - power)]
    return like.new_tensor(2) ** (like.new_tensor(exponents) / power)


@mechanism(
    Input("vectors", "X", "token width", "queries or keys, one row per token"),
    Input("places", "t", "token", "the position of each; 0 1 2 ... unless given"),
    Step("angles", r"\theta", r"t\, \omega_k", "token pair"),
    Step(
        "output",
        "Y",
        r"(x_{2k}\cos\theta_k - x_{2k+1}\sin\theta_k,\; x_{2k}\sin\theta_k + x_{2k+1}\cos\theta_k)",
        "token width",
    ),
)
def rotary_positions(
    vectors: Tensor, places: Tensor = None, *, base: int = 10000, note: Note = silent
) -> Tensor:
    """Turns each pair (2k, 2k+1) of a query or key by its place times the pair's frequency.

    >>> rotary_positions(HandTensor(np.array([[1.0, 0.0]]))).array.tolist()
    [[1.0, 0.0]]
    """
    count, width = vectors.shape[-2:]
    places = vectors.new_tensor(list(range(count))) if places is None else places
    angles = note("angles", places.unsqueeze(-1) * frequencies(vectors, width, base))
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    cosines, sines = angles.cos(), angles.sin()
    return note("output", interleave(even * cosines - odd * sines, even * sines + odd * cosines))
