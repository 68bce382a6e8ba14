"""The operation graph: every operation's cells, evaluation with other numbers, and edits."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
import sympy

from headwork.errors import InputError
from headwork.mechanisms import attention, feed_forward, self_attention
from headwork.numbers import HandTensor, OperationCount, ShapeTensor, cat, stack
from headwork.numbers.arithmetic import Cell, Expression, Number
from headwork.numbers.exact import to_float
from headwork.numbers.graph import OperationEdit, evaluate, recompute, results_since_labels
from headwork.numbers.operations import OPERATIONS, Node
from headwork.numbers.parsing import tensor_from_lists
from headwork.readings.recording import recorder

A = np.array([[[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]], [[2.0, -0.5, 1.0], [0.75, -3.0, 2.5]]])
B = np.array([[[0.5, 1.0, -1.5], [2.0, -0.25, 3.0]], [[-2.0, 1.25, 0.5], [1.0, 2.0, -0.75]]])
ROW = np.array([2.0, -1.0, 0.5])
ROWS = np.array([[1, 0, 1], [0, 0, 1]])
PLACES = np.array([[[2, 0], [1, 1]], [[0, 0], [2, 1]]])

# Every operation of the table at least once, with operands that no symmetry can hide a mistake in.
EXAMPLES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    *((name, (A, B), {}) for name in ("add", "subtract", "multiply", "divide")),
    ("add", (A, ROW), {}),
    ("subtract", (ROW, A), {}),
    ("multiply", (A[:, :1], B[0, :, :1]), {}),
    ("power", (A * A + 1, B), {}),
    *(
        (name, (A,), {})
        for name in ("negative", "exp", "tanh", "sin", "cos", "erf", "abs", "floor", "sigmoid", "relu")
    ),
    *((name, (A * A + 1,), {}) for name in ("log", "sqrt")),
    *((name, (A, np.round(B)), {}) for name in ("equal", "not_equal", "greater", "greater_equal")),
    ("masked_fill", (A, ROWS[:, :1]), {"value": -7}),
    ("tril", (A,), {"diagonal": 1}),
    ("matmul", (A, np.swapaxes(B, -1, -2)), {}),
    ("matmul", (A, B[0].T), {}),
    ("matmul", (A[0], ROW), {}),
    ("matmul", (ROW, B[0].T), {}),
    ("matmul", (ROW, np.swapaxes(B, -1, -2)), {}),
    ("matmul", (ROW, A[0, 0]), {}),
    ("matmul", (A[:, None], np.swapaxes(B, -1, -2)), {}),
    *(
        (name, (A,), {"axis": axis, "keepdims": keepdims})
        for name in ("sum", "amax")
        for axis in (0, -1)
        for keepdims in (True, False)
    ),
    ("sum", (A,), {"axis": (-1, 0), "keepdims": False}),
    ("sum", (A,), {"axis": (1, 2), "keepdims": True}),
    ("cumsum", (A,), {"axis": 1}),
    ("softmax", (A,), {"axis": 1}),
    ("transpose", (A,), {"axis1": 0, "axis2": -1}),
    ("reshape", (A,), {"shape": (3, 1, -1)}),
    ("unsqueeze", (A,), {"axis": -2}),
    ("squeeze", (A[:1],), {"axis": 0}),
    ("flip", (A,), {"axis": -1}),
    ("getitem", (A,), {"key": (slice(None, None, -1), 0, None)}),
    ("getitem", (A,), {"key": (1, 0, 2)}),
    ("getitem", (A,), {"key": ROWS}),
    ("unfold", (A,), {"axis": -1, "size": 2, "step": 1}),
    ("expand", (A[:, None],), {"shape": (3, -1, 2, -1, -1)}),
    ("lookup", (A, ROWS), {}),
    ("gather", (A, PLACES), {"axis": -1}),
    ("cat", (A, B[:, :1], A), {"axis": -2}),
    ("constant", (A,), {"value": 2}),
]


def exact(array: Any) -> HandTensor:
    return tensor_from_lists(np.asarray(array).tolist(), exact=True)


def example_id(example: Any) -> str:
    return f"{example[0]}-{'x'.join(map(str, np.shape(example[1][0])))}"


def result_of(example: Any, kind: Any) -> HandTensor:
    name, arrays, options = example
    operands = tuple(kind(array).labelled(f"x{k}") for k, array in enumerate(arrays))
    return operands[0]._apply(name, operands, options)


WORK = {
    "sum": lambda *parts: sum(parts),
    "product": lambda a, b: a * b,
    "difference": lambda a, b: a - b,
    "quotient": lambda a, b: a / b,
    "power": lambda a, b: a**b,
    "negative": lambda a: -a,
    "max": lambda *parts: max(parts),
    "ln": sympy.log,
    "abs": abs,
}


def worked_out(tree: Expression) -> Any:
    if isinstance(tree, (Cell, Number)):
        return sympy.sympify(tree.value)
    return WORK.get(tree.kind, getattr(sympy, tree.kind, None))(*(worked_out(part) for part in tree.parts))


def test_the_examples_cover_the_table() -> None:
    assert {name for name, _, _ in EXAMPLES} | {"to"} == set(OPERATIONS)


@pytest.mark.parametrize("kind", [HandTensor, exact])
@pytest.mark.parametrize("example", EXAMPLES, ids=example_id)
def test_the_arithmetic_of_a_cell_gives_the_cell(example: Any, kind: Any) -> None:
    result = result_of(example, kind)
    assert result.exact == (kind is exact)
    for index in np.ndindex(result.shape):
        value = to_float(sympy.sympify(result.array[index]))
        assert to_float(worked_out(result.derivation(index))) == pytest.approx(value, rel=1e-14, abs=1e-14)


@pytest.mark.parametrize("example", EXAMPLES, ids=example_id)
def test_exact_numbers_and_shapes_agree_with_decimals(example: Any) -> None:
    name, arrays, options = example
    ours, theirs = result_of(example, HandTensor), result_of(example, exact)
    found = np.array([to_float(x) for x in theirs.array.flat]).reshape(theirs.shape)
    np.testing.assert_allclose(found, ours.array, rtol=1e-14, atol=1e-14)
    shapes = tuple(ShapeTensor(np.shape(array), OperationCount()) for array in arrays)
    if name != "constant":
        assert shapes[0]._apply(name, shapes, options).shape == ours.shape


@pytest.mark.parametrize("example", EXAMPLES, ids=example_id)
def test_single_precision_stays_single(example: Any) -> None:
    def single(array: Any) -> HandTensor:
        return HandTensor(np.asarray(array, np.float32))

    ours = result_of(example, single).array
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, result_of(example, HandTensor).array, rtol=1e-5, atol=1e-5)


def test_constants_take_the_dtype_of_the_input() -> None:
    x = HandTensor(np.ones((2, 2), np.float32))
    for value in (x / 3, 2**x, x.mean(-1), x.new_ones(2, 2).tril(), x * np.float64(0.1)):
        assert value.array.dtype == np.float32
    output = feed_forward(x, x, x, activation="gelu")
    assert output.array.dtype == attention(x, x, x, mask="causal").array.dtype == np.float32


def noted(body: Any, **inputs: Any) -> dict[str, HandTensor]:
    kept: dict[str, HandTensor] = {}
    body(**{name: value.labelled(name) for name, value in inputs.items()}, note=recorder(kept))
    return kept


NAMES = ("tokens", "W_q", "W_k", "W_v")


def drawn(seed: int, kind: Any = HandTensor) -> dict[str, HandTensor]:
    generator = np.random.default_rng(seed)
    return {name: kind(generator.integers(-3, 4, (3, 3)).astype(float)) for name in NAMES}


@pytest.mark.parametrize("kind", [HandTensor, exact])
@pytest.mark.parametrize("name", NAMES)
def test_evaluating_with_another_input_is_running_the_body_again(name: str, kind: Any) -> None:
    inputs, other = drawn(1, kind), drawn(2, kind)[name]
    steps = noted(self_attention, **inputs)
    again = noted(self_attention, **{**inputs, name: other})
    for path, step in steps.items():
        assert evaluate(step, {name: other}).array.tolist() == again[path].array.tolist()
    assert (
        evaluate(steps["output"], {inputs[name].node: other}).array.tolist() == again["output"].array.tolist()
    )


def test_evaluating_with_another_step_moves_what_depends_on_it_and_nothing_else() -> None:
    tokens = {
        "tokens": drawn(1)["tokens"]
    }  # without projections query, key and value are the tokens themselves
    steps = noted(self_attention, **tokens)
    other = drawn(3)["tokens"]
    assert evaluate(steps["value"], {"query": other}).array is steps["value"].array
    scores = evaluate(steps["scores"], {"query": other})
    expected = other.array @ tokens["tokens"].array.T / np.sqrt(3)
    np.testing.assert_allclose(scores.array, expected, rtol=1e-15)
    leaf = next(cell for cell in leaves(scores.derivation((0, 1))) if isinstance(cell, Cell))
    assert leaf == Cell("query", (0, 0), other.array[0, 0])


def leaves(tree: Expression) -> list[Any]:
    return [tree] if isinstance(tree, (Cell, Number)) else [x for part in tree.parts for x in leaves(part)]


def test_a_graph_deeper_than_pythons_stack() -> None:
    start = HandTensor(np.zeros(2)).labelled("start")
    value = start
    for _ in range(20 * sys.getrecursionlimit()):
        value = value + 1
    count = 20.0 * sys.getrecursionlimit()
    assert evaluate(value, {"start": HandTensor(np.ones(2))}).array.tolist() == [count + 1] * 2
    del value  # nor does forgetting it take the stack


STEPS = noted(self_attention, **drawn(1))
X, W_Q, W_V = (drawn(1)[name].array for name in ("tokens", "W_q", "W_v"))
Q, K, V = (STEPS[name].array for name in ("query", "key", "value"))
S, WEIGHTS = STEPS["scores"].array, STEPS["weights"].array
ROOT = np.sqrt(3.0)


def softmax(scores: Any, axis: int) -> Any:
    return np.exp(scores) / np.exp(scores).sum(axis, keepdims=True)


def test_the_operations_of_a_step() -> None:
    names = [result.node.operation for result in results_since_labels(STEPS["scores"])]
    assert names == ["transpose", "matmul", "sqrt", "divide"]
    results = results_since_labels(STEPS["scores"])
    for number, result in enumerate(results):
        below = {operand.node for operand in result.node.operands}
        assert all(later.node not in below for later in results[number:])


@pytest.mark.parametrize(
    ("step", "edit", "expected"),
    [
        ("scores", OperationEdit(3, 0), Q @ K.T),  # no scaling
        ("scores", OperationEdit(3, Node("multiply", (0, 1), {})), Q @ K.T * ROOT),  # inverted
        ("scores", OperationEdit(2, 0), Q @ K.T / 3),  # no root
        ("scores", OperationEdit(1, Node("matmul", (0, "query"), {})), Q @ Q / ROOT),  # another operand
        ("scores", OperationEdit(0, 0), Q @ K / ROOT),  # no transpose
        ("scores", OperationEdit(0, Node("transpose", ("value",), {"axis1": 0, "axis2": 1})), Q @ V.T / ROOT),
        (
            "scores",
            OperationEdit(3, Node("divide", (Node("divide", (0, 1), {}), 1), {})),
            Q @ K.T / 3,
        ),  # twice
        ("value", OperationEdit(1, 0), X),  # not projected
        ("value", OperationEdit(0, 0), X @ W_V),  # W for its transpose
        ("weights", OperationEdit(0, Node("softmax", (0,), {"axis": 0})), softmax(S, 0)),  # another axis
        ("weights", OperationEdit(0, Node("exp", (0,), {})), np.exp(S)),  # another operation
        ("output", OperationEdit(0, Node("matmul", (0, "key"), {})), WEIGHTS @ K),
        (
            "output",
            OperationEdit(0, Node("multiply", (0, Node("constant", (0,), {"value": 2})), {})),
            2 * WEIGHTS,
        ),
    ],
)
def test_edits_of_one_operation(step: str, edit: OperationEdit, expected: Any) -> None:
    result = recompute(results_since_labels(STEPS[step]), [edit], STEPS)
    np.testing.assert_allclose(result.array, expected, rtol=1e-13, atol=1e-13)
    for index in np.ndindex(result.shape):
        assert to_float(worked_out(result.derivation(index))) == pytest.approx(expected[index], rel=1e-13)


def test_an_edit_starts_from_the_given_numbers() -> None:
    own = {"query": HandTensor(Q + 1)}
    result = recompute(results_since_labels(STEPS["scores"]), [OperationEdit(3, 0)], own)
    np.testing.assert_allclose(result.array, (Q + 1) @ K.T, rtol=1e-14)
    plain = recompute(results_since_labels(STEPS["scores"]), (), own)
    np.testing.assert_allclose(plain.array, (Q + 1) @ K.T / ROOT, rtol=1e-14)


def test_the_arithmetic_of_an_edited_step_names_what_it_reads() -> None:
    edit = OperationEdit(0, Node("matmul", (0, "key"), {}))
    result = recompute(results_since_labels(STEPS["output"]), [edit], STEPS)
    assert {leaf.label for leaf in leaves(result.derivation((0, 0)))} == {"weights", "key"}


def test_a_value_that_is_used_twice_is_one_operation() -> None:
    value = HandTensor(np.ones(1)).labelled("x")
    for _ in range(60):
        value = value + value
    assert len(results_since_labels(value)) == 60


def test_two_edits_at_once() -> None:
    edits = [OperationEdit(0, 0), OperationEdit(3, 0)]
    assert recompute(results_since_labels(STEPS["scores"]), edits).array.tolist() == (Q @ K).tolist()


def test_an_edit_that_does_not_fit_says_so() -> None:
    wide = noted(self_attention, tokens=HandTensor(np.ones((2, 3))))
    with pytest.raises(ValueError, match="matmul"):
        recompute(results_since_labels(wide["scores"]), [OperationEdit(0, 0)])
    with pytest.raises(KeyError):
        recompute(results_since_labels(wide["scores"]), [OperationEdit(0, "nothing")])


def test_tokens_take_their_rows_of_a_table() -> None:
    table = np.arange(30522 * 4, dtype=np.float32).reshape(30522, 4)
    words = np.array([[7592, 2088, 0]])
    for tokens in (HandTensor(words), HandTensor(words.astype(float)), exact(words), words):
        rows = HandTensor(table).labelled("table")[tokens]
        assert rows.array.tolist() == table[words].tolist()
        assert rows.derivation((0, 1, 2)) == Cell("table", (2088, 2), table[2088, 2])
    other = evaluate(
        HandTensor(table)[HandTensor(words).labelled("tokens")], {"tokens": HandTensor(words[:, ::-1])}
    )
    assert other.array.tolist() == table[words[:, ::-1]].tolist()
    with pytest.raises(InputError, match="whole number"):
        HandTensor(table)[HandTensor(np.array([0.5]))]


@pytest.mark.parametrize(
    "result",
    [
        HandTensor(np.zeros((1, 50, 64), np.float32))
        .labelled("x")
        .reshape(1, 50, 4, 16)
        .transpose(-3, -2)
        .mT,
        HandTensor(np.zeros((1, 4, 50, 50), np.float32)).labelled("x").softmax(-1),
        HandTensor(np.zeros((30522, 384), np.float32)).labelled("x")[HandTensor(np.arange(128)[None])],
        HandTensor(np.zeros((1, 128, 1536), np.float32)).labelled("x")
        @ HandTensor(np.zeros((384, 1536), np.float32)).labelled("W").mT,
        cat([HandTensor(np.zeros((1, 1, 384), np.float32)).labelled(name) for name in "xy"] * 64, 1),
        stack([HandTensor(np.zeros((1, 384), np.float32)).labelled("x")] * 128, -2),
    ],
    ids=["heads", "weights", "embedding", "product", "cat", "stack"],
)
def test_a_cell_of_a_large_tensor_needs_no_array_of_its_size(result: HandTensor) -> None:
    last = tuple(size - 1 for size in result.shape)
    tracemalloc.start()
    try:
        result.derivation(last)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**21


def test_a_node_is_small_and_holds_no_arrays() -> None:
    x = HandTensor(np.zeros((30, 40), np.float32)).labelled("x")
    for value in (x.mT, x[3:], x.reshape(40, 30), x.unfold(0, 3, 1), x.tril(), x + x):
        node = value.node
        parts = (value, node, node.operands, node.options, *node.options.values())
        assert sum(sys.getsizeof(part) for part in parts) < 700
        assert not hasattr(node, "__dict__")
        assert not hasattr(value, "__dict__")
        assert not any(isinstance(option, np.ndarray) for option in node.options.values())
    with pytest.raises(AttributeError):
        node.operation = "exp"  # type: ignore[misc]
