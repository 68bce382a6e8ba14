"""Feedback: every step as a card, and hints at three levels (where; what kind; the correct step).

A card holds the student's own numbers with the cells marked that differ, the cause in a sentence, and what
shows it. Whatever a level hides is hidden in every format, JSON included.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from headwork.documents import Badge, Block, Document, Heading, Item, Items, Prose, Table, Value, VerdictCard
from headwork.documents.blocks import select_matrix
from headwork.documents.formats.json import json_safe
from headwork.documents.formats.text import Text
from headwork.documents.number_format import MAX_SHOWN, number_text
from headwork.documents.style import PLAIN, Style
from headwork.errors import HeadworkError
from headwork.grading.marks import Mark, StepMark
from headwork.grading.wording import points_text
from headwork.grading.wrong_step import Cause
from headwork.readings.trace_document import document_value

MAX_CELLS = 12
GOOD = {"correct": True, "incorrect": False, "unreadable": False}
MORE = ("which entries differ", "what kind of mistake it is", "the correct step")  # what a level adds
INDEX = re.compile(r"\[(\d+(?:, ?\d+)+)\]")
HintLine = tuple[str, str]  # a label and a sentence


def feedback(mark: Mark, hint: int = 2, style: Style = PLAIN) -> str:
    """The mark in words, with hints up to a level: 0 none, 1 where, 2 what kind, 3 the correct step.

    An exercise may forbid the higher levels.

    >>> from headwork.exercises import Exercise
    >>> from headwork.grading import grade
    >>> exercise = Exercise("softmax", {"scores": "0 0"}, points={"weights": 1})
    >>> print(feedback(grade(exercise, {"weights": "1 1"}), hint=1))
    softmax: 0 of 1 points
      weights  incorrect  0 of 1
        0    1
        [1]  [1]
    Next: work out weights again.
    """
    pieces = Text(style).render_blocks(feedback_parts(mark, hint))
    return "\n".join([points_line(mark), *(piece.rstrip("\n") for piece in pieces)])


def points_line(mark: Mark) -> str:
    """The name of the exercise and its points."""
    return f"{mark.exercise.name}: {points_text(mark.points)} of {points_text(mark.max_points)} points"


def feedback_parts(mark: Mark, hint: int = 2, command: str = "") -> list[Block]:
    """A card for every step, and what to do next; ``command`` is what the student typed to mark it."""
    hint = min(hint, mark.exercise.hints)
    return [*(_card(mark, step, hint) for step in mark.steps), Prose(next_step(mark, hint, command))]


def _card(mark: Mark, step: StepMark, hint: int) -> VerdictCard:
    remark = f" ({step.remark})" if step.remark else ""
    words = f"{points_text(step.points)} of {points_text(step.max_points)}{remark}"
    tables = tuple(_tables(mark, step)) if hint >= 1 and not step.right else ()
    lines = () if step.right else hints(mark, step, hint, where=not tables)
    items = [Items((Item(sentence, f"{label}:"),)) for label, sentence in lines]
    return VerdictCard(step.path, step.verdict, GOOD.get(step.verdict), words, (*tables, *items))


def next_step(mark: Mark, hint: int, command: str = "") -> str:
    """What to do next."""
    step, exercise = mark.first_wrong, mark.exercise
    if step is None:
        another = f"headwork practice new {exercise.kind} --seed {(exercise.seed or 0) + 1} --out another/"
        return f"All correct. Other numbers: {another}" if command and exercise.origin else "All correct."
    if step.state in ("missing", "unreadable"):
        as_numbers = "" if step.state == "missing" else " as numbers: 1/2 0.25, a new line for a new row"
        return f"Next: fill in {step.path}{as_numbers}."
    after = any(x.remark.startswith("follows from your own") for x in mark.steps)
    follows = " What follows from it was marked from your own numbers." if after else ""
    asked = f" {command} --hint {hint + 1} says {MORE[hint]}." if command and hint < exercise.hints else ""
    return f"Next: work out {step.path} again.{follows}{asked}"


# --- the student's own numbers ------------------------------------------------------------------------
def _sheet_value(mark: Mark, step: StepMark) -> Value | None:
    """The step as the sheet shows it; a challenge has no steps of its own."""
    return None if mark.exercise.is_challenge else document_value(mark.exercise.trace.steps[step.path])


def _tables(mark: Mark, step: StepMark) -> Iterator[Table]:
    """What the student wrote, one table per matrix, with the wrong entries marked."""
    entries, value = mark.entries.get(step.path), _sheet_value(mark, step)
    if entries is None or value is None or not entries.texts.ndim:
        return
    texts, wrong = entries.texts, np.zeros(entries.shape, bool)
    if max(texts.shape) > MAX_SHOWN:
        return
    order = mark.exercise.trace.steps[step.path].order
    if entries.shape != mark.exercise.solution[step.path].shape:
        if texts.ndim < 3:
            yield _table("", texts, wrong)
        return
    for cell in step.wrong_cells:
        wrong[cell] = True
    texts, wrong = np.transpose(texts, order), np.transpose(wrong, order)
    for caption, index in value.matrices():
        yield _table(caption, select_matrix(texts, index), select_matrix(wrong, index))


def _table(caption: str, texts: Any, wrong: Any) -> Table:
    """A matrix under the numbers of its columns, its rows beside theirs; a vector is one row."""
    rows, off = np.atleast_2d(texts), np.atleast_2d(wrong)
    cells = [
        tuple(Badge(str(text)) if bad else str(text) for text, bad in zip(*pair, strict=True))
        for pair in zip(rows, off, strict=True)
    ]
    columns = tuple(map(str, range(rows.shape[1])))
    if texts.ndim < 2:
        return Table(caption, columns, cells)
    return Table(
        caption, ("", *columns), [(Badge(str(number), "index"), *row) for number, row in enumerate(cells)]
    )


def _cell_text(value: Value | None, cell: Sequence[int]) -> str:
    """An entry as the sheet shows it: two indices, and before them the number of its head."""
    for caption, index in () if value is None or value.values.ndim != len(cell) else value.matrices():
        if all(at in (None, i) for at, i in zip(index, cell, strict=True)):
            inner = [i for at, i in zip(index, cell, strict=True) if at is None]
            return f"{caption} [{','.join(map(str, inner))}]".strip()
    return f"[{','.join(map(str, cell))}]"


# --- hints --------------------------------------------------------------------------------------------
def hints(mark: Mark, step: StepMark, hint_level: int, where: bool = True) -> Iterator[HintLine]:
    """The hints about a step that is not right, up to a level, each under its label."""
    value = _sheet_value(mark, step)
    if hint_level >= 1 and where and step.wrong_cells and len(step.wrong_cells[0]):
        order = mark.exercise.trace.steps[step.path].order
        fits = len(order) == len(step.wrong_cells[0])
        cells = [_cell_text(value, [c[axis] for axis in order] if fits else c) for c in step.wrong_cells]
        yield "where", f"{', '.join(cells[:MAX_CELLS])}{' and more' if len(cells) > MAX_CELLS else ''}"
    if hint_level >= 2 and step.causes:
        causes = named_causes(step.causes)
        sentences = [_as_shown(cause.sentence, value) for cause in causes]
        either = ", or ".join(sentences)
        yield "why", f"either {either}" if len(sentences) > 1 else either
        shown = dict.fromkeys(_as_shown(cause.evidence, value) for cause in causes if cause.evidence)
        if shown:
            yield "what shows it", "; ".join(shown)
    if hint_level >= 3 and step.expected is not None:
        yield "from your own earlier numbers it is", _expected_text(mark, step, value)
        if arithmetic := _arithmetic_text(mark, step):
            yield "for example", _as_shown(arithmetic, value, " ")


def named_causes(causes: Sequence[Cause]) -> list[Cause]:
    """The causes that are named: a slip only where there is nothing better, or where it is as likely."""
    named = [cause for cause in causes if cause.mistake_id]
    certain = causes[0].mistake_id and not any(cause.doubt == "doubtful" for cause in named)
    return named if certain else list(causes)


def _as_shown(words: str, value: Value | None, before: str = "") -> str:
    """The words with the entries that they name as the sheet shows them."""
    if value is None or value.values.ndim < 3:
        return words
    return INDEX.sub(lambda match: before + _cell_text(value, [int(i) for i in match[1].split(",")]), words)


def _expected_text(mark: Mark, step: StepMark, value: Value | None) -> str:
    """The right numbers as the sheet asks for them: the heads of a token side by side."""
    right = np.asarray(step.expected)
    if value is not None and right.ndim == value.values.ndim:
        right = np.transpose(right, mark.exercise.trace.steps[step.path].order)
        if right.ndim == 3 and value.axes[1] == "head":
            right = right.reshape(len(right), -1)
    return _array_text(right, mark.exercise.digits)


def _array_text(value: Any, digits: int) -> str:
    if value.ndim == 0:
        return number_text(value, digits)
    return (" " if value.ndim == 1 else "; ").join(_array_text(part, digits) for part in value)


def _arithmetic_text(mark: Mark, step: StepMark) -> str:
    """The arithmetic of the first wrong entry, from the student's own earlier numbers."""
    if not step.wrong_cells or mark.exercise.tokens_as != "rows" or mark.exercise.is_challenge:
        return ""
    asked = list(mark.exercise.asked)
    before = {path: x for path, x in mark.own_values.items() if path in asked[: asked.index(step.path)]}
    try:
        trace = mark.exercise.solve(exact=False, replacing=before or None)
        fits = len(step.wrong_cells[0]) == len(trace[step.path].shape)
        return str(trace.cell(step.path, *step.wrong_cells[0])) if fits else ""
    except HeadworkError:
        return ""


# --- documents and data -------------------------------------------------------------------------------
def as_data(mark: Mark, hint: int = 3) -> dict[str, Any]:
    """The mark as plain data, for JSON, with as much as the level of hints allows."""
    hint = min(hint, mark.exercise.hints)
    return {
        "exercise": mark.exercise.kind or mark.exercise.mechanism,
        "points": round(mark.points, 2),
        "full": round(mark.max_points, 2),
        "first_wrong": mark.first_wrong.path if mark.first_wrong else None,
        "steps": [_step_data(step, hint) for step in mark.steps],
    }


def _step_data(step: StepMark, hint: int) -> dict[str, Any]:
    causes = [
        {
            "step": step.path,
            "edit": cause.edit_slug,
            "operands": list(cause.operands),
            "cause": cause.slug,
            "sentence": cause.sentence,
            "evidence": cause.evidence,
        }
        for cause in step.causes
    ]
    shown = hint >= 3 and step.expected is not None
    return {
        "step": step.path,
        "state": step.state,
        "points": round(step.points, 2),
        "full": round(step.max_points, 2),
        "remark": step.remark,
        "entries": [list(cell) for cell in step.wrong_cells] if hint >= 1 else [],
        "causes": causes if hint >= 2 else [],
        "expected": json_safe(np.asarray(step.expected).tolist()) if shown else None,
    }


def feedback_document(
    marks: Mapping[str, Mark], *, title: str, hint: int = 2, about: str = "", command: str = ""
) -> Document:
    """The marks of one student."""
    parts: list[Any] = []
    alone = len(marks) == 1 and not title
    for name, mark in marks.items():
        number = f"{name}. " if name.isdigit() else ""
        parts += [] if alone else [Heading(f"{number}{points_line(mark)}")]
        parts += feedback_parts(mark, hint, command)
    title = "".join(map(points_line, marks.values())) if alone else title
    data = {name: as_data(mark, hint) for name, mark in marks.items()}
    return Document(title, tuple(parts), about, data=lambda: data)
