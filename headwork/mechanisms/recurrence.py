r"""The plain recurrence h_t = activation(W_x x_t + W_h h_(t-1) + b), unrolled step by step.

Without an activation it is linear and has a closed form, h_T = sum_t W_h^(T-t) W_x x_t (+ W_h^T h_0): every
input reaches the end through a power of W_h, which fades below 1 and grows above it. A row of plain
numbers is a sequence of inputs of width 1.
"""

from __future__ import annotations

from typing import Literal

from headwork.errors import InputError, sizes_in_words
from headwork.mechanisms.attention import Tensor
from headwork.note import Given, Note, Step, inside, mechanism, silent
from headwork.numbers import stack

Activation = Literal["linear", "tanh"]
Output = Literal["linear", "step"]

INPUTS = (
    Given("inputs", "x", "time width", "one row a step, or a plain row of numbers"),
    Given("W_x", "W_x", "state width", "applied as W x; a single number for width 1", trained=True),
    Given("W_h", "W_h", "state state", "applied as W h; a single number for one state", trained=True),
)


def _as_matrix(values: Tensor) -> Tensor:
    """A single number is a 1 x 1 matrix."""
    return values.reshape(1, 1) if len(values.shape) == 0 else values


def _as_rows(inputs: Tensor) -> Tensor:
    """A plain row of numbers is one number a step."""
    return inputs.unsqueeze(-1) if len(inputs.shape) == 1 else inputs


def _check(inputs: Tensor, W_x: Tensor, W_h: Tensor) -> None:
    states = W_h.shape[-1]
    if W_x.shape[-1] != inputs.shape[-1] or tuple(W_h.shape) != (states, states) or W_x.shape[-2] != states:
        raise InputError(
            f"recurrence: inputs are {sizes_in_words(inputs.shape, 'time width')}, W_x is "
            f"{sizes_in_words(W_x.shape, 'state width')}, W_h is {sizes_in_words(W_h.shape, 'state state')}. "
            "W_x takes the inputs' width to the states, and W_h is square in the states."
        )


@mechanism(
    *INPUTS,
    Given("W_y", "W_y", "output state", "reads the last state; none is the identity", trained=True),
    Given("bias", "b", "state", "none is 0", trained=True),
    Given("h_0", "h_0", "state", "the state before the first step; none is 0"),
    Step("step */sum", "a_t", r"W_x x_t + W_h h_{t-1} + b", "state"),
    Step("step */state", "h_t", r"\operatorname{activation}(a_t)", "state"),
    Step("output", "y", r"\operatorname{output}(W_y h_T)", "output"),
)
def recurrence(
    inputs: Tensor,
    W_x: Tensor,
    W_h: Tensor,
    W_y: Tensor = None,
    bias: Tensor = None,
    h_0: Tensor = None,
    *,
    activation: Activation = "linear",
    output: Output = "linear",
    note: Note = silent,
) -> Tensor:
    """Carries a state from step to step and reads the last one; "step" gives 1 where it is positive, else 0.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> one = HandTensor(np.array(1.0))
    >>> recurrence(HandTensor(np.array([1.0, 2.0, 4.0])), one, -one).array.tolist()
    [3.0]
    """
    inputs, W_x, W_h = _as_rows(inputs), _as_matrix(W_x), _as_matrix(W_h)
    _check(inputs, W_x, W_h)
    state = h_0
    for t in range(inputs.shape[-2]):
        at = inside(note, f"step {t}")
        total = (inputs[..., t, :].unsqueeze(-2) @ W_x.mT).squeeze(-2)
        if state is not None:
            total = total + (state.unsqueeze(-2) @ W_h.mT).squeeze(-2)
        total = at("sum", total if bias is None else total + bias)
        state = at("state", total.tanh() if activation == "tanh" else total)
    read = state if W_y is None else (state.unsqueeze(-2) @ _as_matrix(W_y).mT).squeeze(-2)  # type: ignore[union-attr]
    return note("output", (read > 0).to(read) if output == "step" else read)  # type: ignore[operator,union-attr]


@mechanism(
    *INPUTS,
    Step("powers", "P", r"W_h^{T-t}", "time state state"),
    Step("terms", "c", r"W_h^{T-t} W_x x_t", "time state"),
    Step("output", "h_T", r"\textstyle\sum_t c_t", "state"),
)
def recurrence_closed_form(inputs: Tensor, W_x: Tensor, W_h: Tensor, *, note: Note = silent) -> Tensor:
    """The last state of the linear recurrence from zero, as one sum over all inputs.

    >>> import numpy as np; from headwork.numbers import HandTensor
    >>> one = HandTensor(np.array(1.0))
    >>> recurrence_closed_form(HandTensor(np.array([1.0, 2.0, 4.0])), one, -one).array.tolist()
    [3.0]
    """
    inputs, W_x, W_h = _as_rows(inputs), _as_matrix(W_x), _as_matrix(W_h)
    _check(inputs, W_x, W_h)
    states = W_h.shape[-1]
    powers = [W_h.new_tensor([[int(i == j) for j in range(states)] for i in range(states)])]
    for _ in range(inputs.shape[-2] - 1):
        powers.append(powers[-1] @ W_h)
    chain = note("powers", stack(powers[::-1], 0))
    terms = note("terms", (chain @ (inputs @ W_x.mT).unsqueeze(-1)).squeeze(-1))
    return note("output", terms.sum(-2))
