r"""The feed-forward layer, max(0, x W1 + b1) W2 + b2, and its activations.

Written ``x W``, as published (Vaswani et al. 2017). The same parameters serve every token, and no token
sees another. GELU is x Phi(x), with the normal distribution itself (Hendrycks & Gimpel 2016).
"""

from typing import Literal

from headwork.mechanisms.attention import Convention, Tensor, add_bias, project
from headwork.note import Input, Note, Step, mechanism, silent

Activation = Literal["relu", "gelu"]


@mechanism(Input("values", "x", "width", "any numbers"), Step("output", "y", r"\max(0, x)", "width"))
def relu(values: Tensor, *, note: Note = silent) -> Tensor:
    """The positive part of each number.

    >>> relu(HandTensor(np.array([-1.0, 2.0]))).array.tolist()
    [0.0, 2.0]
    """
    return note("output", values.relu())


@mechanism(
    Input("values", "x", "width", "any numbers"),
    Step("probability", r"\Phi", r"\tfrac{1}{2} (1 + \operatorname{erf}(x / \sqrt{2}))", "width"),
    Step("output", "y", r"x\, \Phi(x)", "width"),
)
def gelu(values: Tensor, *, note: Note = silent) -> Tensor:
    """Each number times the share of a normal distribution below it.

    >>> gelu(HandTensor(np.array([0.0]))).array.tolist()
    [0.0]
    """
    probability = note("probability", (1 + (values / values.new_tensor(2).sqrt()).erf()) / 2)
    return note("output", values * probability)


ACTIVATIONS = {"relu": relu, "gelu": gelu}


@mechanism(
    Input("tokens", "X", "token width", "one row per token"),
    Input("W_1", "W_1", "width hidden", "to the hidden width, applied as x W", trainable=True),
    Input("W_2", "W_2", "hidden width", "back to the width, applied as x W", trainable=True),
    Input("b_1", "b_1", "hidden", "none is 0", trainable=True),
    Input("b_2", "b_2", "width", "none is 0", trainable=True),
    Step("hidden", "H", r"X {W_1} + b_1", "token hidden", column_formula=r"{W_1} X + b_1"),
    Step("activated", "F", r"\operatorname{activation}(H)", "token hidden"),
    Step("output", "Y", r"F {W_2} + b_2", "token width", column_formula=r"{W_2} F + b_2"),
)
def feed_forward(
    tokens: Tensor,
    W_1: Tensor,
    W_2: Tensor,
    b_1: Tensor = None,
    b_2: Tensor = None,
    *,
    activation: Activation = "relu",
    convention: Convention = "x W",
    note: Note = silent,
) -> Tensor:
    """Two linear layers with an activation between, the same for every token.

    >>> two = HandTensor(np.array([[2.0]]))
    >>> feed_forward(two, two, two).array.tolist()
    [[8.0]]
    """
    hidden = note("hidden", add_bias(project(tokens, W_1, "W_1", convention), b_1, "b_1"))
    activated = note("activated", ACTIVATIONS[activation](hidden))
    return note("output", add_bias(project(activated, W_2, "W_2", convention), b_2, "b_2"))
