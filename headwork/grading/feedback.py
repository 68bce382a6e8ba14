"""Feedback: a verdict on every step, and hints at three levels (where; what kind; the right step)."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from headwork.documents import Document, Heading, Item, Items
from headwork.documents.formats.json import plain
from headwork.documents.formats.text import Text
from headwork.documents.style import PLAIN, Style
from headwork.documents.writing import number_text
from headwork.errors import HeadworkError
from headwork.grading.diagnosis import cell_text
from headwork.grading.marks import Mark, StepMark

MAX_CELLS = 12


def feedback(mark: Mark, hint: int = 2, style: Style = PLAIN) -> str:
    """The mark in words, with hints up to a level: 0 none, 1 where, 2 what kind, 3 the right step.

    An exercise may forbid the higher levels.

    >>> from headwork.exercises import Exercise
    >>> from headwork.grading import grade
    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 1})
    >>> print(feedback(grade(exercise, {"weights": "1 1"}), hint=1))
    softmax: 0 of 1 points
      weights  incorrect  0 of 1
        where: [0], [1]
    """
    points, steps = feedback_parts(mark, hint)
    return "\n".join([points, *Text(style).pieces([steps])])


def feedback_parts(mark: Mark, hint: int = 2) -> tuple[str, Items]:
    """The points in words, and every step with its verdict and hints."""
    hint = min(hint, mark.exercise.hints)
    good = {"correct": True, "incorrect": False, "unreadable": False}
    items = []
    for step in mark.steps:
        remark = f"  ({step.remark})" if step.remark else ""
        words = f"{step.points:g} of {step.max_points:g}{remark}"
        more = () if step.right else tuple(hints(mark, step, hint))
        items.append(Item(words, step.path, step.verdict, good.get(step.verdict), more))
    points = f"{mark.exercise.name}: {mark.points:g} of {mark.max_points:g} points"
    return points, Items(tuple(items))


def hints(mark: Mark, step: StepMark, hint: int) -> Iterator[str]:
    """The hints about a step that is not right, up to a level."""
    if hint >= 1 and step.cells and len(step.cells[0]):
        value = mark.exercise.trace.steps[step.path]
        cells = [cell_text(value.full_index(c) if len(c) == len(value.order) else c) for c in step.cells]
        yield f"where: {', '.join(cells[:MAX_CELLS])}{' and more' if len(cells) > MAX_CELLS else ''}"
    if hint >= 2:
        for number, cause in enumerate(step.causes):
            evidence = f" ({cause.evidence})" if cause.evidence else ""
            yield f"{'why' if number == 0 else 'or'}: {cause.name}: {cause.sentence}{evidence}"
    if hint >= 3 and step.expected is not None:
        yield f"from your own earlier numbers it is {_array_text(step.expected, mark.exercise.digits)}"
        if arithmetic := _arithmetic(mark, step):
            yield f"for example {arithmetic}"


def _array_text(value: Any, digits: int) -> str:
    if value.ndim == 0:
        return number_text(value, digits)
    return (" " if value.ndim == 1 else "; ").join(_array_text(part, digits) for part in value)


def _arithmetic(mark: Mark, step: StepMark) -> str:
    """The arithmetic of the first wrong entry, from the student's own earlier numbers."""
    if not step.cells or mark.exercise.tokens_as != "rows" or mark.exercise.challenge:
        return ""
    asked = list(mark.exercise.asked)
    before = {path: mark.own[path] for path in asked[: asked.index(step.path)] if path in mark.own}
    try:
        trace = mark.exercise.solve(exact=False, replacing=before or None)
        fits = len(step.cells[0]) == len(trace[step.path].shape)
        return str(trace.cell(step.path, *step.cells[0])) if fits else ""
    except HeadworkError:
        return ""


def as_data(mark: Mark) -> dict[str, Any]:
    """The mark as plain data, for JSON."""

    def expected(step: StepMark) -> Any:
        hidden = step.expected is None or mark.exercise.hints < 3
        return None if hidden else plain(np.asarray(step.expected).tolist())

    return {
        "exercise": mark.exercise.kind or mark.exercise.mechanism,
        "points": mark.points,
        "full": mark.max_points,
        "first_wrong": mark.first_wrong.path if mark.first_wrong else None,
        "steps": [
            {
                "step": step.path,
                "state": step.state,
                "points": step.points,
                "full": step.max_points,
                "remark": step.remark,
                "entries": [list(cell) for cell in step.cells],
                "causes": [
                    {
                        "step": step.path,
                        "edit": c.edit,
                        "operands": list(c.operands),
                        "cause": c.slug,
                        "sentence": c.sentence,
                        "evidence": c.evidence,
                    }
                    for c in step.causes
                ],
                "expected": expected(step),
            }
            for step in mark.steps
        ],
    }


def feedback_document(marks: Mapping[str, Mark], *, title: str, hint: int = 2) -> Document:
    """The marks of one student."""
    parts: list[Any] = []
    for name, mark in marks.items():
        points, steps = feedback_parts(mark, hint)
        parts += [Heading(f"{name}. {points}" if name != mark.exercise.name else points), steps]
    data = {name: as_data(mark) for name, mark in marks.items()}
    return Document(title, tuple(parts), data=lambda: data)
