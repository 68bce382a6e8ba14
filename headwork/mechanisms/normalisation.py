r"""Normalisation of each token over its width.

Layer normalisation (Ba et al. 2016, arXiv 1607.06450): y = scale (x - mean) / deviation + shift, with the
population deviation (divided by the width, not by the width less one). RMS normalisation (Zhang & Sennrich
2019, arXiv 1910.07467) has neither mean nor shift: y = scale x / sqrt(mean of x^2). By hand epsilon is 0;
models use 1e-5.
"""

from headwork.mechanisms.attention import Scalar, Tensor
from headwork.note import Input, Note, Step, mechanism, silent, steps_of


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("scale", r"\gamma", "width", "none is 1", trainable=True),
    Input("shift", r"b", "width", "none is 0", trainable=True),
    Step("mean", r"\mu", r"\tfrac{1}{d} \textstyle\sum_j x_j", "token one"),
    Step("centred", "C", r"X - \mu", "token width"),
    Step("deviation", r"\sigma", r"\sqrt{\tfrac{1}{d} \textstyle\sum_j c_j^2 + \epsilon}", "token one"),
    Step("normalised", "N", r"C / \sigma", "token width"),
    Step("output", "Y", r"\gamma N + b", "token width"),
)
def layer_normalisation(
    tokens: Tensor, scale: Tensor = None, shift: Tensor = None, *, epsilon: Scalar = 0, note: Note = silent
) -> Tensor:
    """Mean 0 and deviation 1 for each token over its width, then scale and shift.

    >>> layer_normalisation(HandTensor(np.array([[1.0, 3.0]]))).array.tolist()
    [[-1.0, 1.0]]
    """
    mean = note("mean", tokens.mean(-1, keepdim=True))
    centred = note("centred", tokens - mean)
    deviation = note("deviation", ((centred * centred).mean(-1, keepdim=True) + epsilon).sqrt())
    normalised = note("normalised", centred / deviation)
    scaled = normalised if scale is None else normalised * scale
    return note("output", scaled if shift is None else scaled + shift)


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("scale", r"\gamma", "width", "none is 1", trainable=True),
    Step("size", r"\rho", r"\sqrt{\tfrac{1}{d} \textstyle\sum_j x_j^2 + \epsilon}", "token one"),
    Step("normalised", "N", r"X / \rho", "token width"),
    Step("output", "Y", r"\gamma N", "token width"),
)
def rms_normalisation(
    tokens: Tensor, scale: Tensor = None, *, epsilon: Scalar = 0, note: Note = silent
) -> Tensor:
    """Each token over the root of its mean square, then a scale; no mean is subtracted.

    >>> rms_normalisation(HandTensor(np.array([[1.0, 7.0]]))).array.tolist()
    [[0.2, 1.4]]
    """
    size = note("size", ((tokens * tokens).mean(-1, keepdim=True) + epsilon).sqrt())
    normalised = note("normalised", tokens / size)
    return note("output", normalised if scale is None else normalised * scale)


def normalisation_steps(scope: str, k: str, rows: str) -> tuple[Step, ...]:
    """The cards of a normalisation of these rows, its symbols told from others by ``k``."""
    own = {"X": rows, "x": f"({rows})", "c": f"(C_{k})", "b": rf"\beta_{k}", "Y": f"L_{k}"}
    own |= {symbol: f"{symbol}_{k}" for symbol in ("C", "N", r"\mu", r"\sigma", r"\gamma")}
    return steps_of(layer_normalisation, scope=scope, symbols=own)
