"""Two edits of a step as one."""

from typing import Any

from headwork.grading.step_graph import Changes, StepEdit, StepGraph
from headwork.numbers import HandTensor
from headwork.numbers.operations import Node


def two_edits(edit: StepEdit, added: StepEdit) -> StepEdit:
    """Two edits as one; the words of the second have names of their own."""

    def renamed(text: str) -> str:
        for key in added.placeholders:
            text = text.replace(f"{{{key}}}", f"{{second_{key}}}")
        return text

    names = {**edit.placeholders, **{f"second_{key}": value for key, value in added.placeholders.items()}}
    slug, says = f"{edit.slug} + {renamed(added.slug)}", f"{edit.says}; and {renamed(added.says)}"
    return StepEdit(slug, says, {**edit.changes, **added.changes}, names, 4)


def both_changes(graph: StepGraph, edit: StepEdit, added: StepEdit) -> Changes:
    """The changes of both edits; where both change the result, the second is done to what the first gives."""
    last, shared = len(graph.operations) - 1, edit.changes.keys() & added.changes.keys()
    if not shared:
        return {**edit.changes, **added.changes}
    outer = _done_to(added.changes[last], graph.result, edit.changes[last]) if shared == {last} else None
    return {} if outer is None else {**edit.changes, **added.changes, last: outer}


def _done_to(part: Any, result: HandTensor, instead: Any) -> Any:
    """What is done to a result, done to something else instead; None where nothing is done to it."""
    if not isinstance(part, Node):
        return None
    if part.options is result.node.options and part.operation == result.node.operation:
        return instead if [*map(type, part.operands)] == [int] * len(part.operands) else None
    operands = [_done_to(x, result, instead) for x in part.operands]
    if all(x is None for x in operands):
        return None
    kept = (old if new is None else new for old, new in zip(part.operands, operands, strict=True))
    return Node(part.operation, tuple(kept), part.options)
