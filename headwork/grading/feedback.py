"""What a student is told: right or wrong at every step; hints at three levels (where; what kind; the right step)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

import numpy as np

from headwork.errors import HeadworkError
from headwork.grading.marks import Mark, StepMark
from headwork.readings.json import plain
from headwork.readings.writing import number_text

SIGNS = {
    "right": "right",
    "wrong": "WRONG",
    "again": "as before",
    "missing": "missing",
    "unreadable": "unreadable",
}
MOST_CELLS = 12


def feedback(mark: Mark, hint: int = 2) -> str:
    """The mark in words, with hints: 0 none, 1 where, 2 what kind, 3 the right step; never above the exercise's own.

    >>> from headwork.exercises import Exercise
    >>> from headwork.grading import grade
    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 1})
    >>> print(feedback(grade(exercise, {"weights": "1 1"}), hint=1))
    softmax: 0 of 1 points
      weights  WRONG  0 of 1
        where: [0], [1]
    """
    return "\n".join(_lines(mark, min(hint, mark.exercise.hints)))


def _lines(mark: Mark, hint: int) -> Iterator[str]:
    name = mark.exercise.title or mark.exercise.mechanism
    yield f"{name}: {mark.points:g} of {mark.full:g} points"
    wide = max(len(step.path) for step in mark.steps)
    for step in mark.steps:
        remark = f"  ({step.remark})" if step.remark else ""
        yield f"  {step.path.ljust(wide)}  {SIGNS[step.state]}  {step.points:g} of {step.full:g}{remark}"
        if not step.right:
            yield from (f"    {line}" for line in hints(mark, step, hint))


def hints(mark: Mark, step: StepMark, hint: int) -> Iterator[str]:
    """What is said about a step that is not right, up to a level."""
    if hint >= 1 and step.cells and len(step.cells[0]):
        noted = mark.exercise.trace.steps[step.path]
        places = [
            "[" + ",".join(map(str, noted.whole(c) if len(c) == len(noted.order) else c)) + "]"
            for c in step.cells
        ]
        yield f"where: {', '.join(places[:MOST_CELLS])}{' and more' if len(places) > MOST_CELLS else ''}"
    if hint >= 2:
        for number, cause in enumerate(step.causes):
            shown = f" ({cause.evidence})" if cause.evidence else ""
            yield f"{'why' if number == 0 else 'or'}: {cause.name}: {cause.sentence}{shown}"
    if hint >= 3 and step.expected is not None:
        yield f"from your own earlier numbers it is {_shown(step.expected, mark.exercise.digits)}"
        if arithmetic := _arithmetic(mark, step):
            yield f"for example {arithmetic}"


def _shown(value: Any, digits: int) -> str:
    if value.ndim == 0:
        return number_text(value, digits)
    if value.ndim == 1:
        return " ".join(number_text(x, digits) for x in value)
    return "; ".join(_shown(part, digits) for part in value)


def _arithmetic(mark: Mark, step: StepMark) -> str:
    """The arithmetic of the first wrong entry, from the student's own earlier numbers."""
    if not step.cells or mark.exercise.tokens_as != "rows" or mark.exercise.challenge:
        return ""
    asked = list(mark.exercise.asked)
    before = {path: mark.own[path] for path in asked[: asked.index(step.path)] if path in mark.own}
    try:
        trace = mark.exercise.worked(exact=False, replacing=before or None)
        return (
            str(trace.cell(step.path, *step.cells[0]))
            if len(step.cells[0]) == len(trace[step.path].shape)
            else ""
        )
    except HeadworkError:
        return ""


def as_data(mark: Mark) -> dict[str, Any]:
    """The mark as plain data, for JSON."""
    return {
        "exercise": mark.exercise.kind or mark.exercise.mechanism,
        "points": mark.points,
        "full": mark.full,
        "first_wrong": mark.first_wrong.path if mark.first_wrong else None,
        "steps": [
            {
                "step": step.path,
                "state": step.state,
                "points": step.points,
                "full": step.full,
                "remark": step.remark,
                "entries": [list(cell) for cell in step.cells],
                "causes": [
                    {"cause": c.slug, "sentence": c.sentence, "evidence": c.evidence} for c in step.causes
                ],
                "expected": plain(np.asarray(step.expected).tolist()) if _told(mark, step) else None,
            }
            for step in mark.steps
        ],
    }


def _told(mark: Mark, step: StepMark) -> bool:
    return step.expected is not None and mark.exercise.hints >= 3


def feedback_page(marks: Mapping[str, Mark], *, title: str, hint: int = 2) -> str:
    """The marks of one student as a page."""
    from markupsafe import Markup

    from headwork.pages import heading, page

    blocks: list[Any] = []
    for name, mark in marks.items():
        blocks.append(heading(f"{name}: {mark.exercise.title or mark.exercise.mechanism}"))
        blocks.append(Markup(f"<pre>{escape(feedback(mark, hint))}</pre>"))
    return page(title, *blocks)
