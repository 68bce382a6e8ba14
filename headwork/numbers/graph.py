"""Readings of the operation graph: evaluate a value again, and change how a step is worked out.

The graph knows which operations were done, not why: where a body chooses by its numbers (a shift against
overflow), an evaluation with other numbers keeps the choice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from headwork.numbers.hand import HandTensor
from headwork.numbers.operations import Node, compute_unguarded

TensorKey = str | Node  # a tensor by its label, or by how it came about


class OperationEdit(NamedTuple):
    """One operation of a step, by its position, and what stands there ``instead``.

    That is a ``Node`` whose operands are again nodes, or numbers (0 is the first operand of the operation),
    tensors of the graph or labels of known tensors; or one of these by itself. In place of a ``matmul``, 0
    leaves the product out, ``Node("matmul", (1, 0), {})`` exchanges its operands, and
    ``Node("matmul", (0, "key"), {})`` takes another.
    """

    position: int
    instead: Any


def results_since_labels(step: HandTensor) -> list[HandTensor]:
    """The results of all operations from the labelled tensors up to a step, operands first, the step last.

    >>> import numpy as np
    >>> x = HandTensor(np.ones((2, 2))).labelled("x")
    >>> [result.node.operation for result in results_since_labels((x @ x.mT) / 2)]
    ['transpose', 'matmul', 'divide']
    """
    return results_up_to(step, lambda tensor: bool(tensor.label))


def results_up_to(result: HandTensor, is_known: Callable[[HandTensor], bool]) -> list[HandTensor]:
    """Each operation below the result once, operands first, without what is known or was given."""
    order, seen, stack = [], {result.node}, [(result, iter(result.node.operands))]
    while stack:  # a stack of its own: a model is deeper than Python's
        tensor, operands = stack[-1]
        for operand in operands:
            if operand.node.operands and operand.node not in seen and not is_known(operand):
                seen.add(operand.node)
                stack.append((operand, iter(operand.node.operands)))
                break
        else:
            order.append(tensor)
            stack.pop()
    return order


def evaluate(result: HandTensor, replacing: Mapping[TensorKey, HandTensor]) -> HandTensor:
    """The result with some tensors below it replaced, by label or by node; what depends on them follows.

    >>> import numpy as np
    >>> x = HandTensor(np.array([1.0, 2.0])).labelled("x")
    >>> evaluate(2 * x + 1, {"x": HandTensor(np.array([5.0, 0.0]))}).array.tolist()
    [11.0, 1.0]
    """
    operations = results_up_to(result, lambda t: t.label in replacing or t.node in replacing)
    return recompute(operations, (), replacing)


def recompute(
    operations: Sequence[HandTensor],
    edits: Sequence[OperationEdit] = (),
    replacing: Mapping[TensorKey, HandTensor] | None = None,
) -> HandTensor:
    """The last of the operations with some of them edited, worked out from other tensors where given.

    ``replacing`` also holds the tensors that an edit names. The result has a graph of its own, so that its
    arithmetic can be shown. Sizes that do not fit raise ValueError, IndexError or InputError.

    >>> import numpy as np
    >>> x = HandTensor(np.array([[1.0, 3.0]])).labelled("x")
    >>> operations = results_since_labels(x.softmax(-1))
    >>> recompute(operations, [OperationEdit(0, Node("softmax", (0,), {"axis": 0}))]).array.tolist()
    [[1.0, 1.0]]
    """
    replacing, instead, new = replacing or {}, dict(edits), dict[Node, HandTensor]()

    def apply(name: str, operands: tuple[HandTensor, ...], options: Mapping[str, Any]) -> HandTensor:
        array = compute_unguarded(name, [operand.array for operand in operands], options)
        return HandTensor(array, Node(name, operands, options))

    def current(tensor: HandTensor) -> HandTensor:
        key: TensorKey = tensor.label if tensor.label in replacing else tensor.node
        value = replacing[key] if key in replacing else new.get(tensor.node, tensor)
        return value if tensor.label in ("", value.label) else value.labelled(tensor.label)

    def compute(part: Any, operands: Sequence[HandTensor]) -> HandTensor:
        if isinstance(part, Node):
            parts = tuple(compute(inner, operands) for inner in part.operands)
            return apply(part.operation, parts, part.options)
        if isinstance(part, int):
            return operands[part]
        if isinstance(part, HandTensor):
            return current(part)
        return replacing[part].labelled(part)

    with np.errstate(all="ignore"):
        for index, tensor in enumerate(operations):
            result, operands = current(tensor), [current(operand) for operand in tensor.node.operands]
            if index in instead:
                result = compute(instead[index], operands)
            elif any(a is not b for a, b in zip(operands, tensor.node.operands, strict=True)):
                result = apply(tensor.node.operation, tuple(operands), tensor.node.options)
            if result is not tensor:
                new[tensor.node] = result
    return result
