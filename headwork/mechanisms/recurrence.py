r"""The plain recurrence h_(t+1) = activation(W_x x_t + W_h h_t + b), unrolled step by step.

Without an activation it is linear, and h_T = sum_t W_h^(T-1-t) W_x x_t + W_h^T h_0 in closed form: every
input reaches the end through a power of W_h, which fades below 1 and grows above it. A row of plain
numbers is a sequence of inputs of width 1.

Gates let a cell decide what to keep. LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al.
2000): c_t = f c_(t-1) + i g, h_t = o tanh(c_t). GRU (Cho et al. 2014, arXiv 1406.1078, its reset gate applied
to the product as cuDNN and torch do): h_t = (1 - z) n + z h_(t-1). The gates' matrices are stacked in torch's
order.
"""

from typing import Any, Literal

from headwork.errors import InputError, format_shape
from headwork.mechanisms.attention import Tensor
from headwork.mechanisms.parameters import RecurrentParameters, input_cards
from headwork.note import Input, Note, Step, inside, mechanism, silent, steps_of
from headwork.numbers import stack

StateActivation = Literal["linear", "tanh"]
OutputActivation = Literal["linear", "step", "sigmoid"]

SEQUENCE = Input("inputs", "x", "time width", "one row per step, or a plain row of numbers")
INPUTS = (
    SEQUENCE,
    Input("W_x", "W_x", "state width", "applied as W x; a single number for width 1", trainable=True),
    Input("W_h", "W_h", "state state", "applied as W h; a single number for one state", trainable=True),
)


def _as_matrix(values: Tensor) -> Tensor:
    """A single number is a 1 x 1 matrix."""
    return values.reshape(1, 1) if len(values.shape) == 0 else values


def _as_rows(inputs: Tensor) -> Tensor:
    """A plain row of numbers is one number per step."""
    return inputs.unsqueeze(-1) if len(inputs.shape) == 1 else inputs


def _product(vector: Tensor, matrix: Tensor) -> Tensor:
    """W x for a vector, or for each of a batch."""
    return (vector.unsqueeze(-2) @ matrix.mT).squeeze(-2)


def _add_bias(sums: Tensor, bias: Tensor | None) -> Tensor:
    return sums if bias is None else sums + bias


def _check_sizes(inputs: Tensor, W_x: Tensor, W_h: Tensor, name: str = "recurrence", gates: int = 1) -> None:
    """Each matrix has a block of rows for each of the gates; the plain recurrence has one block."""
    width, states = inputs.shape[-1], W_h.shape[-1]
    sizes = (gates * states, width), (gates * states, states)
    if (tuple(W_x.shape[-2:]), tuple(W_h.shape[-2:])) == sizes:
        return
    rows = "state" if gates == 1 else "gate_states"
    axes = {"inputs": "time width", "W_x": f"{rows} width", "W_h": f"{rows} state"}
    tensors = zip(axes.items(), (inputs, W_x, W_h), strict=True)
    shapes = {tensor: format_shape(values.shape, own) for (tensor, own), values in tensors}
    advice = "W_x takes the inputs' width to the states, and W_h is square in the states."
    if gates > 1:
        advice = f"Both stack {gates} gates of {states} rows; W_x takes the inputs' width and W_h the states."
    matrices = f"W_x is {shapes['W_x']}, W_h is {shapes['W_h']}"
    raise InputError(f"{name}: inputs are {shapes['inputs']}, {matrices}. {advice}")


@mechanism(
    *INPUTS,
    Input("W_y", "W_y", "output state", "reads the last state; none is the identity", trainable=True),
    Input("bias", "b", "state", "none is 0", trainable=True),
    Input("h_0", "h_0", "state", "the state before the first step; none is 0"),
    Step("step */sum", "a_t", r"W_x x_t + W_h h_t + b", "state"),
    Step("step */state", "h_{t+1}", r"\operatorname{activation}(a_t)", "state"),
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
    activation: StateActivation = "linear",
    output: OutputActivation = "linear",
    note: Note = silent,
) -> Tensor:
    """Carries a state from step to step and reads the last one; "step" gives 1 where it is positive, else 0.

    >>> one = HandTensor(np.array(1.0))
    >>> recurrence(HandTensor(np.array([1.0, 2.0, 4.0])), one, -one).array.tolist()
    [3.0]
    """
    state = recurrent_states(inputs, W_x, W_h, bias, h_0, activation, note)[-1]
    readout = state if W_y is None else _product(state, _as_matrix(W_y))
    if output == "sigmoid":
        return note("output", readout.sigmoid())
    return note("output", (readout > 0).to(readout) if output == "step" else readout)


def recurrent_states(
    inputs: Tensor,
    W_x: Tensor,
    W_h: Tensor,
    bias: Tensor,
    state: Tensor,
    activation: StateActivation,
    note: Note,
) -> list[Tensor]:
    """The state after each step of the plain recurrence."""
    inputs, W_x, W_h = _as_rows(inputs), _as_matrix(W_x), _as_matrix(W_h)
    _check_sizes(inputs, W_x, W_h)
    states = []
    for t in range(inputs.shape[-2]):
        scoped = inside(note, f"step {t}")
        total = _add_bias(_product(inputs[..., t, :], W_x), None if state is None else _product(state, W_h))
        total = scoped("sum", _add_bias(total, bias))
        state = scoped("state", total.tanh() if activation == "tanh" else total)
        states.append(state)
    return states


@mechanism(
    *INPUTS,
    Step("powers", "P", r"W_h^{T-t}", "time state state"),
    Step("terms", "c", r"W_h^{T-t} W_x x_t", "time state"),
    Step("output", "h_T", r"\textstyle\sum_t c_t", "state"),
)
def recurrence_closed_form(inputs: Tensor, W_x: Tensor, W_h: Tensor, *, note: Note = silent) -> Tensor:
    """The last state of the linear recurrence from zero, as one sum over all inputs.

    >>> one = HandTensor(np.array(1.0))
    >>> recurrence_closed_form(HandTensor(np.array([1.0, 2.0, 4.0])), one, -one).array.tolist()
    [3.0]
    """
    inputs, W_x, W_h = _as_rows(inputs), _as_matrix(W_x), _as_matrix(W_h)
    _check_sizes(inputs, W_x, W_h)
    states = W_h.shape[-1]
    powers = [W_h.new_tensor([[int(i == j) for j in range(states)] for i in range(states)])]
    for _ in range(inputs.shape[-2] - 1):
        powers.append(powers[-1] @ W_h)
    chain = note("powers", stack(powers[::-1], 0))
    terms = note("terms", (chain @ (inputs @ W_x.mT).unsqueeze(-1)).squeeze(-1))
    return note("output", terms.sum(-2))


def _gates(sums: Tensor, count: int) -> list[Tensor]:
    """Stacked gates, one by one."""
    states = sums.shape[-1] // count
    return [sums[..., k * states : (k + 1) * states] for k in range(count)]


GATE_CARDS = input_cards(RecurrentParameters)
GATE_MATRICES, GATE_BIAS, GRU_BIASES = GATE_CARDS[:2], GATE_CARDS[2], GATE_CARDS[3:]
STATE = Input("state", "h_{t-1}", "state", "the state before; none is 0")


@mechanism(
    Input("inputs", "x_t", "width", "one input"),
    *GATE_MATRICES,
    GATE_BIAS,
    STATE,
    Input("cell", "c_{t-1}", "state", "the cell before; none is 0"),
    Step("input gate", "i_t", r"\operatorname{sigmoid}(W_x^i x_t + W_h^i h_{t-1} + b^i)", "state"),
    Step("forget gate", "f_t", r"\operatorname{sigmoid}(W_x^f x_t + W_h^f h_{t-1} + b^f)", "state"),
    Step("candidate", "g_t", r"\tanh(W_x^g x_t + W_h^g h_{t-1} + b^g)", "state"),
    Step("output gate", "o_t", r"\operatorname{sigmoid}(W_x^o x_t + W_h^o h_{t-1} + b^o)", "state"),
    Step("new cell", "c_t", r"f_t c_{t-1} + i_t g_t", "state"),
    Step("new state", "h_t", r"o_t \tanh(c_t)", "state"),
)
def lstm_cell(
    inputs: Tensor,
    W_x: Tensor,
    W_h: Tensor,
    bias: Tensor = None,
    state: Tensor = None,
    cell: Tensor = None,
    *,
    note: Note = silent,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: forget, take in, give out. Returns the new state and the new cell.

    >>> zeros = HandTensor(np.zeros((4, 1)))
    >>> [part.array.tolist() for part in lstm_cell(zeros[0], zeros, zeros)]
    [[0.0], [0.0]]
    """
    _check_sizes(inputs.unsqueeze(-2), W_x, W_h, "lstm", 4)
    return _lstm_step(_add_bias(_product(inputs, W_x), bias), (state, cell), W_h, note)


def _lstm_step(
    sums: Tensor, previous: tuple[Tensor | None, Tensor | None], W_h: Tensor, note: Note
) -> tuple[Tensor, Tensor]:
    state, cell = previous
    total = _add_bias(sums, None if state is None else _product(state, W_h))
    input_sum, forget_sum, candidate_sum, output_sum = _gates(total, 4)
    input_gate = note("input gate", input_sum.sigmoid())
    forget_gate = note("forget gate", forget_sum.sigmoid())
    candidate = note("candidate", candidate_sum.tanh())
    output_gate = note("output gate", output_sum.sigmoid())
    new = input_gate * candidate
    cell = note("new cell", new if cell is None else forget_gate * cell + new)
    return note("new state", output_gate * cell.tanh()), cell


STATES = Step("output", "H", r"[h_0; h_1; \ldots]", "time state")


@mechanism(
    SEQUENCE,
    *GATE_MATRICES,
    GATE_BIAS,
    Step("sums", "U", r"X W_x^\top + b", "time gate_states"),
    *steps_of(lstm_cell, scope="step *"),
    STATES,
)
def lstm(inputs: Tensor, W_x: Tensor, W_h: Tensor, bias: Tensor = None, *, note: Note = silent) -> Tensor:
    """An LSTM over a whole sequence, from zero; one row of the output is the state after each step.

    >>> zeros = HandTensor(np.zeros((4, 1)))
    >>> lstm(HandTensor(np.array([1.0, 2.0])), zeros, zeros).array.tolist()
    [[0.0], [0.0]]
    """
    inputs = _as_rows(inputs)
    _check_sizes(inputs, W_x, W_h, "lstm", 4)
    # The part that comes from the inputs, for all steps in one product.
    sums = note("sums", _add_bias(inputs @ W_x.mT, bias))
    states: list[Any] = [(None, None)]
    for t in range(inputs.shape[-2]):
        states.append(_lstm_step(sums[..., t, :], states[-1], W_h, inside(note, f"step {t}")))
    return note("output", stack([state for state, _ in states[1:]], -2))


@mechanism(
    Input("inputs", "x_t", "width", "one input"),
    *GATE_MATRICES,
    *GRU_BIASES,
    STATE,
    Step("reset gate", "r_t", r"\operatorname{sigmoid}(W_x^r x_t + b_x^r + W_h^r h_{t-1} + b_h^r)", "state"),
    Step("update gate", "z_t", r"\operatorname{sigmoid}(W_x^z x_t + b_x^z + W_h^z h_{t-1} + b_h^z)", "state"),
    Step("candidate", "n_t", r"\tanh(W_x^n x_t + b_x^n + r_t (W_h^n h_{t-1} + b_h^n))", "state"),
    Step("new state", "h_t", r"(1 - z_t) n_t + z_t h_{t-1}", "state"),
)
def gru_cell(
    inputs: Tensor,
    W_x: Tensor,
    W_h: Tensor,
    b_x: Tensor = None,
    b_h: Tensor = None,
    state: Tensor = None,
    *,
    note: Note = silent,
) -> Tensor:
    """One step of a GRU: a gate mixes the old state with a candidate.

    >>> zeros, ones = HandTensor(np.zeros((3, 1))), HandTensor(np.ones(1))
    >>> gru_cell(ones, zeros, zeros, state=ones).array.tolist()
    [0.5]
    """
    _check_sizes(inputs.unsqueeze(-2), W_x, W_h, "gru", 3)
    sums = _add_bias(_product(inputs, W_x), b_x)
    return _gru_step(sums, sums.new_zeros(W_h.shape[-1]) if state is None else state, W_h, b_h, note)


def _gru_step(sums: Tensor, state: Tensor, W_h: Tensor, b_h: Tensor | None, note: Note) -> Tensor:
    hidden_sums = _add_bias(_product(state, W_h), b_h)
    (reset_x, update_x, new_x), (reset_h, update_h, new_h) = _gates(sums, 3), _gates(hidden_sums, 3)
    reset = note("reset gate", (reset_x + reset_h).sigmoid())
    update = note("update gate", (update_x + update_h).sigmoid())
    candidate = note("candidate", (new_x + reset * new_h).tanh())
    return note("new state", (1 - update) * candidate + update * state)


@mechanism(
    SEQUENCE,
    *GATE_MATRICES,
    *GRU_BIASES,
    Step("sums", "U", r"X W_x^\top + b_x", "time gate_states"),
    *steps_of(gru_cell, scope="step *"),
    STATES,
)
def gru(
    inputs: Tensor, W_x: Tensor, W_h: Tensor, b_x: Tensor = None, b_h: Tensor = None, *, note: Note = silent
) -> Tensor:
    """A GRU over a whole sequence, from zero; one row of the output is the state after each step.

    >>> zeros = HandTensor(np.zeros((3, 1)))
    >>> gru(HandTensor(np.array([1.0, 2.0])), zeros, zeros).array.tolist()
    [[0.0], [0.0]]
    """
    inputs = _as_rows(inputs)
    _check_sizes(inputs, W_x, W_h, "gru", 3)
    sums = note("sums", _add_bias(inputs @ W_x.mT, b_x))
    states = [sums.new_zeros(*sums.shape[:-2], W_h.shape[-1])]
    for t in range(inputs.shape[-2]):
        states.append(_gru_step(sums[..., t, :], states[-1], W_h, b_h, inside(note, f"step {t}")))
    return note("output", stack(states[1:], -2))
