"""How a step is worked out, in the words and symbols of its cards: ``X W_q^T``, ``(n + 2 p - k) / s``."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headwork.documents.formulas import plain_formula
from headwork.documents.number_format import number_text
from headwork.files import load_package_toml
from headwork.note import Mechanism
from headwork.numbers import HandTensor
from headwork.numbers.arithmetic import Expression, Number, expression, to_text
from headwork.numbers.operations import OPERATIONS, Node

LONGEST = 44  # a longer formula is not written out
WORD_TABLES: dict[str, dict[str, Any]] = load_package_toml(__file__, "words.toml")
KINDS: dict[str, str] = WORD_TABLES["kinds"]
FUNCTIONS: dict[str, str] = WORD_TABLES["functions"]
WORDS: dict[str, str] = WORD_TABLES["words"]


def points_text(points: float) -> str:
    """Points with at most two decimals.

    >>> points_text(5 / 3), points_text(2.0)
    ('1.67', '2')
    """
    return f"{points:.2f}".rstrip("0").rstrip(".")


class Wording:
    """The names and symbols of one mechanism's inputs and steps."""

    def __init__(self, mechanism: Mechanism, options: Mapping[str, Any]) -> None:
        self.mechanism, self.options = mechanism, options

    def symbol(self, label: str) -> str:
        """The symbol of an input or a step; an option is called by its name."""
        card = next((card for card in self.mechanism.inputs if card.name == label), None)
        if card is None and label in self.options:
            return label.replace("_", " ")
        if card is not None:
            return plain_formula(card.symbol)
        scope = label.rpartition("/")[0].replace("step ", "")
        symbol = plain_formula(self.mechanism.step(label).symbol)
        if scope.isdigit() and "(t+1)" in symbol:
            return symbol.replace("(t+1)", str(int(scope) + 1))
        symbol = f"{symbol.replace('_t', '')} of step" if scope.isdigit() else symbol
        return f"{symbol} {scope}".strip()

    def axes(self, label: str) -> list[str]:
        """The names of the axes of an input or a step."""
        cards = [card.axes for card in self.mechanism.inputs if card.name == label]
        if not cards and label not in self.options:
            cards = [self.mechanism.step(label).axes]
        return cards[0].split() if cards else []

    def formula(self, tensor: HandTensor, inner: bool = False) -> str:
        """How a tensor was worked out, or what kind of result it is where that is too long to write."""
        text = to_text(self._tree(tensor), lambda leaf: str(leaf.value)).replace("*", " ")
        if len(text) <= LONGEST:
            return f"({text})" if inner and " " in text and not tensor.label else text
        return f"the {WORDS.get(tensor.node.operation, 'result')}"

    def name(self, tensor: HandTensor) -> str:
        """A short name for the cause: that of the labelled tensor it shows, its number, or its operation."""
        while not tensor.label and tensor.node.operands and OPERATIONS[tensor.node.operation].rearranges:
            tensor = tensor.node.operands[0]
        if tensor.label:
            return tensor.label.rpartition("/")[2].replace(" ", "-")
        if not tensor.node.operands:
            return _number(tensor.array)
        return WORDS.get(tensor.node.operation, "result").replace(" ", "-")

    def _is_unsaid(self, node: Node, tensor: HandTensor) -> bool:
        """Whether a formula is read without it: a factor "with biases: 1", zeros added or put around."""
        value, origin = tensor.array, tensor.label or tensor.node.operands
        if node.operation == "multiply":
            return tensor.label in self.options and tensor.shape == () and float(value) == 1
        if node.operation == "cat" and not origin:
            return not value.any()
        below = tensor.node.operands
        switched_off = tensor.node.operation == "multiply" and any(
            x.label in self.options and x.shape == () and float(x.array) == 0 for x in below
        )
        nothing = tensor.node.operation == "subtract" and self._tree(below[0]) == self._tree(below[1])
        return bool(origin) and not tensor.label and (switched_off or nothing)

    def _tree(self, tensor: HandTensor) -> Expression:
        """The tensor as a tree of whole tensors, each leaf a number that holds its symbol."""
        node = tensor.node
        if tensor.label:
            return Number(self.symbol(tensor.label))
        if not node.operands:
            return Number(_number(tensor.array))
        said = [x for x in node.operands if not self._is_unsaid(node, x)]
        if len(said) == 1 < len(node.operands) and node.operation in ("add", "multiply", "cat"):
            return self._tree(said[0])
        if node.operation == "constant":
            return Number(_number(np.asarray(node.options["value"])))
        if "_" in node.operation and node.operation != "masked_fill":
            return Number("constant")  # nothing that is written in a formula
        if node.operation == "masked_fill":
            return self._tree(node.operands[0])
        if node.operation == "transpose" and set(node.options.values()) == {-1, -2}:
            below = node.operands[0]
            if not below.label and below.node.operation == "transpose" and below.node.options == node.options:
                return self._tree(below.node.operands[0])
            return expression("power", self._tree(below), Number("T"))
        if node.operation == "relu":
            return expression("max", Number("0"), self._tree(node.operands[0]))
        if OPERATIONS[node.operation].rearranges or node.operation == "to":
            return self._tree(node.operands[0])
        parts = [self._tree(operand) for operand in node.operands]
        return expression(KINDS.get(node.operation, FUNCTIONS.get(node.operation, node.operation)), *parts)


def _number(array: Any) -> str:
    """A constant of a formula; of a whole array of them only that it is one."""
    value = float(array.flat[0])
    return (
        "constant" if array.size > 1 else f"{value:g}" if value == round(value, 4) else number_text(value, 4)
    )
