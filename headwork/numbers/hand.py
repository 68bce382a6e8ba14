"""HandTensor: an array of exact (SymPy) or decimal numbers with the tensor methods that the mechanisms use,
so that one body runs here and on ``torch.Tensor``.

Each result remembers its operation, operands and options: a node of the operation graph. From it comes the
arithmetic of each cell, back to labelled tensors (inputs and noted steps).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.numbers.arithmetic import Cell, Number, Tree
from headwork.numbers.methods import TensorMethods
from headwork.numbers.operations import OPERATIONS, Index, Node, compute, numbers_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class HandTensor(TensorMethods):
    """Numbers worked by hand: ``array`` holds SymPy objects (exact) or floats (decimal, float64 as typed).

    >>> x = HandTensor(np.array([[1.0, 2.0]]))
    >>> (x @ x.mT).array.tolist()
    [[5.0]]
    """

    __slots__ = ("array", "label", "node")

    def __init__(self, array: NDArray[Any], node: Node | None = None, label: str = "") -> None:
        self.array = array
        self.node = node or Node("given", (), {})
        self.label = label

    @property
    def exact(self) -> bool:
        return self.array.dtype == object

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.array.shape

    def __repr__(self) -> str:
        return f"HandTensor({'exact' if self.exact else 'decimal'}, {self.array.tolist()})"

    def labelled(self, label: str) -> HandTensor:
        """The same numbers under a label, at which the arithmetic of a later cell stops."""
        return HandTensor(self.array, self.node, label)

    def cell(self, index: Index) -> Tree:
        """One cell in the arithmetic of others: by its label, by its own arithmetic, or as a number."""
        if self.label:
            return Cell(self.label, index, self.array[index])
        return self.derivation(index)

    def derivation(self, index: Index) -> Tree:
        """The arithmetic of one cell."""
        if not self.node.operands:
            return Number(self.array[index])
        return OPERATIONS[self.node.operation].cell(self, index)

    def new_tensor(self, values: Any) -> HandTensor:
        whole = self.array.dtype.kind in "iu"  # beside token numbers a constant stays what it is
        return HandTensor(np.asarray(values) if whole else numbers_of(values, self.array.dtype))

    def to(self, other: HandTensor) -> HandTensor:
        """The same numbers as exact or decimal ones, as ``other`` has them."""
        dtype = other.array.dtype
        return self if self.array.dtype == dtype else self._apply("to", (self,), {"dtype": dtype})

    def _apply(self, name: str, operands: tuple[HandTensor, ...], options: Mapping[str, Any]) -> HandTensor:
        array = compute(name, [operand.array for operand in operands], options)
        return HandTensor(array, Node(name, operands, options))
