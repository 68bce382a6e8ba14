"""What holds of every registered mechanism: its card, its kinds of numbers, its account of each cell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headwork.note import MECHANISMS, Mechanism
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.numbers.arithmetic import Cell, Expression, Number
from headwork.numbers.exact import to_float
from headwork.numbers.parsing import read_number
from headwork.readings import explain, recorder

CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def recorded(working: Any, example: Any, kind: str, **more: Any) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    working(example, kind, recorder(kept), **more)
    return kept


def floats(tensor: Any) -> Any:
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().numpy()
    if isinstance(tensor, HandTensor) and tensor.exact:
        return np.array([to_float(x) for x in tensor.array.flat]).reshape(tensor.shape)
    return tensor.array


def test_each_has_an_example(examples: Any) -> None:
    assert set(MECHANISMS) == {example.slug for example in examples}


# --- the card -------------------------------------------------------------------------------------


def effective(what: Mechanism, example: Any, name: str) -> Any:
    """An input or option as it takes effect."""
    default = what.options[name].default if name in what.options else None
    return example.inputs.get(name, example.options.get(name, default))


def test_recorded_names_are_the_cards(working: Any, example: Any) -> None:
    what = MECHANISMS[example.slug]
    paths = list(recorded(working, example, "decimal"))
    for path in paths:
        assert sum(card.matches(path) for card in what.steps) == 1, f"{path}: one card each"
    for card in what.steps:
        met = any(card.matches(path) for path in paths)
        assert met == (not card.when or effective(what, example, card.when) is not None), card.name


def test_each_value_has_a_symbol_of_its_own(example: Any) -> None:
    trace = explain(example.slug, **example.inputs, **example.options)
    symbols = [value.symbol for value in trace.all_values()]
    assert len(set(symbols)) == len(symbols)


def test_recorded_shapes_are_the_cards(working: Any, example: Any, given: Any) -> None:
    what = MECHANISMS[example.slug]
    values = given(example, "decimal")
    # A batch before the axes of the inputs' cards stands before those of the steps, too.
    batch = max(len(values[c.name].shape) - len(c.axes.split()) for c in what.inputs if c.name in values)
    sizes: dict[tuple[str, str], int] = {}
    for path, tensor in recorded(working, example, "decimal").items():
        words = what.step(path).axes.split()
        assert len(tensor.shape) <= len(words) + max(batch, 0), path
        for word, size in last_axes(words, tensor.shape):
            scope = path.rpartition("/")[0]
            assert sizes.setdefault((scope, word), 1 if word == "one" else size) == size, (path, word)


def test_no_card_has_an_axis_that_never_occurs(working: Any, examples: Any) -> None:
    most: dict[tuple[str, str], int] = {}
    for example in examples:
        for path, tensor in recorded(working, example, "decimal").items():
            key = (example.slug, MECHANISMS[example.slug].step(path).name)
            most[key] = max(most.get(key, 0), len(tensor.shape))
    for (slug, name), axes in most.items():
        card = next(step for step in MECHANISMS[slug].steps if step.name == name)
        assert axes >= len(card.axes.split()), (slug, name)


def last_axes(words: list[str], shape: tuple[int, ...]) -> list[tuple[str, int]]:
    """The card's words beside the sizes; leading ones may be missing on either side."""
    return list(zip(words[::-1], shape[::-1], strict=False))


def test_inputs_have_the_axes_of_their_cards(example: Any, given: Any) -> None:
    what = MECHANISMS[example.slug]
    usual = what.options["convention"].default if "convention" in what.options else None
    turned = usual != example.options.get("convention", usual)
    sizes: dict[str, int] = {}
    for card in what.inputs:
        if card.name in example.inputs:
            words = card.axes.split()[
                :: -1 if turned and card.trainable and card.name.startswith("W_") else 1
            ]
            # With groups, a kernel has the channels of one group.
            words = ["group_channel" if card.trainable and word == "channel" else word for word in words]
            for word, size in last_axes(words, given(example, "decimal")[card.name].shape):
                assert sizes.setdefault(word, size) == size, (card.name, word)


# --- the kinds of numbers ---------------------------------------------------------------------------


def test_decimals_equal_torch(working: Any, example: Any) -> None:
    by_hand, by_torch = (recorded(working, example, kind) for kind in ("decimal", "torch"))
    assert list(by_hand) == list(by_torch)
    for path, value in by_hand.items():
        np.testing.assert_allclose(value.array, floats(by_torch[path]), err_msg=path, **CLOSE)


@pytest.mark.only("example", lambda example: example.exact)
def test_exact_equals_decimals(working: Any, example: Any) -> None:
    by_hand, exact = (recorded(working, example, kind) for kind in ("decimal", "exact"))
    assert list(by_hand) == list(exact)
    for path, value in exact.items():
        assert value.exact
        assert not any(x.is_Float for cell in value.array.flat for x in cell.atoms()), (
            f"{path}: a float crept in"
        )
        np.testing.assert_allclose(floats(value), by_hand[path].array, err_msg=path, **CLOSE)


def test_shapes_alone_give_the_same_shapes(working: Any, example: Any) -> None:
    by_hand = recorded(working, example, "decimal")
    shapes = recorded(working, example, "shape", work=OperationCount())
    assert {p: v.shape for p, v in shapes.items()} == {p: v.shape for p, v in by_hand.items()}
    assert all(isinstance(v, ShapeTensor) for v in shapes.values())


def test_products_are_counted_as_torch_counts_them(working: Any, example: Any) -> None:
    work = OperationCount()
    working(example, "shape", work=work)
    with FlopCounterMode(display=False) as counter:
        working(example, "torch")
    if example.slug in ("toeplitz", "locally-connected"):
        # torch's counter leaves out matrix times vector.
        assert counter.get_total_flops() == 0
        places, outputs = len(example.inputs["signal"]), len(floats(working(example, "torch")))
        assert work.multiply_adds == places * outputs
    else:
        assert work.flops == counter.get_total_flops()
        assert work.multiply_adds * 2 == work.flops


def test_inputs_are_never_changed(given: Any, example: Any) -> None:
    for kind in ("decimal", "torch", *(["exact"] if example.exact else [])):
        values = given(example, kind)
        before = {n: floats(v).copy() for n, v in values.items() if hasattr(v, "shape")}
        MECHANISMS[example.slug].run(values)
        for name, value in before.items():
            assert np.array_equal(floats(values[name]), value), (kind, name)


@pytest.mark.only("example", lambda example: example.smooth)
def test_gradients(given: Any, example: Any) -> None:
    values = given(example, "torch")
    inputs = {n: v.requires_grad_() for n, v in values.items() if n in example.inputs}
    names = list(inputs)
    rest = {n: v for n, v in values.items() if n not in inputs}

    def body(*tensors: torch.Tensor) -> Any:
        return MECHANISMS[example.slug].run({**dict(zip(names, tensors, strict=True)), **rest})

    many = len(inputs) > 6  # then along a random direction instead of entry by entry
    assert torch.autograd.gradcheck(body, tuple(inputs.values()), atol=1e-5, rtol=1e-4, fast_mode=many)


# --- how each cell came about -------------------------------------------------------------------------

OPERATIONS = {
    "sum": math.fsum,
    "product": math.prod,
    "max": max,
    "difference": lambda p: p[0] - p[1],
    "quotient": lambda p: p[0] / p[1],
    "power": lambda p: p[0] ** p[1],
    "negative": lambda p: -p[0],
    "exp": lambda p: math.exp(p[0]),
    "sqrt": lambda p: math.sqrt(p[0]),
    "sin": lambda p: math.sin(p[0]),
    "cos": lambda p: math.cos(p[0]),
    "tanh": lambda p: math.tanh(p[0]),
    "erf": lambda p: math.erf(p[0]),
    "abs": lambda p: abs(p[0]),
    "sigmoid": lambda p: 1 / (1 + math.exp(-p[0])),
}


def worked_out(tree: Expression) -> float:
    if isinstance(tree, (Cell, Number)):
        return float(tree.value)
    return float(OPERATIONS[tree.kind]([worked_out(part) for part in tree.parts]))


def leaves(tree: Expression) -> list[Cell]:
    if isinstance(tree, Cell):
        return [tree]
    return [] if isinstance(tree, Number) else [leaf for part in tree.parts for leaf in leaves(part)]


def test_every_cell_can_be_worked_out_again(given: Any, example: Any) -> None:
    kept: dict[str, HandTensor] = {}
    values = {
        n: v.labelled(n) if isinstance(v, HandTensor) else v for n, v in given(example, "decimal").items()
    }
    MECHANISMS[example.slug].run(values, recorder(kept))
    order = [*values, *kept]
    for path, tensor in kept.items():
        for index in np.ndindex(tensor.shape):
            tree = tensor.derivation(index)
            if example.options.get("beta") == math.inf and path == "weights":
                continue  # ties are shared by comparing, which is no arithmetic
            assert worked_out(tree) == pytest.approx(tensor.array[index], rel=1e-12, abs=1e-12), (path, index)
            for leaf in leaves(tree):
                assert order.index(leaf.label) < order.index(path)
                source = values[leaf.label] if leaf.label in values else kept[leaf.label]
                assert source.array[leaf.index] == leaf.value


@pytest.mark.only("example", lambda example: example.exact and example.slug != "encoder-layer")
def test_the_arithmetic_of_an_exact_cell_can_be_typed_in(example: Any) -> None:
    trace = explain(example.slug, exact=True, **example.inputs, **example.options)
    tried = 0
    for path, noted in trace.steps.items():
        for index in np.ndindex(noted.shape):
            cell = trace.cell(path, *index)
            if any(sign in cell.in_numbers for sign in ("...", "∞", "sigmoid")) or len(cell.in_numbers) > 500:
                continue
            value = to_float(noted.raw.array[noted.raw_index(index)])
            assert to_float(read_number(cell.in_numbers, exact=True)) == pytest.approx(value, abs=1e-12), cell
            assert to_float(read_number(cell.exact, exact=True)) == pytest.approx(value, abs=1e-12), cell
            tried += 1
    assert tried
