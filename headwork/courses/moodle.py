"""Questions as Moodle XML: Cloze, one gap per cell, with feedback for the mistakes that are known.

A gap is ``{weight:NUMERICAL:=value:tolerance~%0%other:tolerance#feedback}``. A shape is one gap, because how
many sizes it has is part of the question; it may be typed in many ways. Moodle marks each gap by the key: it
does not follow a student's own numbers. With a sheet for every student there is one question per
student, all in one category, from which a quiz may draw.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from html import escape
from math import gcd, lcm
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import numpy as np

from headwork.courses.assignments import AssignmentPart
from headwork.documents import Value
from headwork.documents.blocks import select_matrix
from headwork.documents.formulas import plain_formula
from headwork.documents.number_format import number_text
from headwork.errors import InputError
from headwork.exercises.exercise import Exercise
from headwork.exercises.misconceptions import applicable, run_with_mistakes
from headwork.exercises.questions import COUNTS_SENTENCE, FORMS_SENTENCE, SEPARATORS_SENTENCE, build_question
from headwork.grading.wording import points_text
from headwork.readings.trace_document import document_value

MAX_CAUSES = 4  # of one gap
# What would end a gap or begin one, by its number, which Moodle reads as the sign itself.
ESCAPED_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "{}~\\"}
# How a shape may be typed: 2 x 3, (2, 3), ... A star would be a wildcard of Moodle's.
SHAPE_FORMS = (("{}", (" x ", "x", " × ", "×", ", ", ",", " ")), ("({})", (", ", ",")), ("[{}]", (", ", ",")))
# By step and cell; () is a whole shape.
CausesByCell = dict[tuple[str, tuple[int, ...]], list[tuple[Any, str]]]


def moodle_files(parts: Sequence[AssignmentPart], slug: str) -> dict[str, str | bytes]:
    """One file for Moodle's import of questions."""
    quiz = Element("quiz")
    for part in parts:
        category = SubElement(quiz, "question", type="category")
        _text(category, "category", f"$course$/top/{slug}/{part.name.replace('/', '//')}")
        for student, exercise in (part.variants or {"": part.exercise}).items():
            quiz.append(_question(part, exercise, student))
    indent(quiz)
    return {f"{slug}.xml": tostring(quiz, encoding="utf-8", xml_declaration=True)}


def _text(parent: Element, tag: str, text: str, **attributes: str) -> None:
    printable = "".join(sign if sign.isprintable() or sign in "\n\t" else " " for sign in text)
    SubElement(SubElement(parent, tag, attributes), "text").text = printable


def _question(part: AssignmentPart, exercise: Exercise, student: str) -> Element:
    if exercise.is_challenge:
        raise InputError(f"{part.name}: any answer that works is right, so it cannot be marked by gaps.")
    question = Element("question", type="cloze")
    name = f"{part.name}. {exercise.name}" if part.name.isdigit() else exercise.name
    _text(question, "name", f"{name} ({student})" if student else name)
    _text(question, "questiontext", "\n".join(_html(exercise, part.hint)), format="html")
    _text(question, "generalfeedback", "", format="html")
    return question


def _html(exercise: Exercise, hint: int) -> Iterator[str]:
    """The question: its words, the numbers that are given, and a table of gaps for every step."""
    question = build_question(exercise)
    gaps = f"One number per gap, in decimals to {exercise.digits} digits after the point."
    instead = {
        FORMS_SENTENCE.format(digits=exercise.digits): gaps,
        COUNTS_SENTENCE: "Counts are exact: write every digit.",
    }
    paragraphs = (instead.get(words, words) for words in question.paragraphs if words != SEPARATORS_SENTENCE)
    yield from (f"<p>{_escaped(paragraph)}</p>" for paragraph in paragraphs)
    for shown in map(document_value, question.inputs):
        yield from _tables(shown, lambda cell, value=shown: _escaped(number_text(value.values[cell], 12)))
    causes = _causes(exercise) if min(hint, exercise.hints) >= 2 else {}
    weights = _weights(exercise)
    for path, points in exercise.asked.items():
        step = exercise.trace.steps[path]
        value = document_value(step)
        yield f"<p>{_value_title(value)} ({points_text(points)})</p>"
        if step.card.axes == "axis":
            yield f"<p>{_shape_gap(exercise, path, weights[path], causes.get((path, ()), []))}</p>"
            continue

        def gap(cell: tuple[int, ...], value: Value = value, path: str = path) -> str:
            return _gap(exercise, float(value.values[cell]), weights[path], causes.get((path, cell), []))

        yield from _tables(value, gap, named=False)


def _tables(value: Value, cell: Any, named: bool = True) -> Iterator[str]:
    """The matrices of a value as tables, each cell by its index in the whole value."""
    if named:
        yield f"<p>{_value_title(value)}, {_escaped(value.shape_text)}</p>"
    shape = value.values.shape
    numbers = np.arange(value.values.size).reshape(shape)
    for caption, index in value.matrices():
        matrix = np.atleast_2d(select_matrix(numbers, index))
        rows = [[tuple(int(i) for i in np.unravel_index(n, shape)) for n in row] for row in matrix]
        title = f"<caption>{_escaped(caption)}</caption>" if caption else ""
        lines = "".join("<tr>" + "".join(f"<td>{cell(at)}</td>" for at in row) + "</tr>" for row in rows)
        yield f"<table>{title}<tbody>{lines}</tbody></table>"


def _value_title(value: Value) -> str:
    symbol = plain_formula(value.symbol)
    return f"<b>{_escaped(value.name)}</b>" + (f" {_escaped(symbol)}" if symbol != value.name else "")


def _escaped(text: str) -> str:
    return escape(text, quote=False).translate(ESCAPED_SIGNS)


def _gap(exercise: Exercise, right: float, weight: int, causes: Sequence[tuple[float, str]]) -> str:
    """One gap; a number that is not finite is typed as a word."""
    if not np.isfinite(right):
        words = ("-oo", "-inf", "-∞") if right < 0 else ("oo", "inf", "∞")
        return f"{{{weight}:SHORTANSWER:{'~'.join(f'={word}' for word in words)}}}"
    off = f"{10.0 ** -(digits := exercise.digits):.{digits}f}"
    if exercise.is_counting and exercise.asks_approximately and abs(right) >= 100:  # two digits are enough
        off = f"5{'0' * (len(f'{abs(right):.0f}') - 3)}"
    others = [f"~%0%{_number(value, digits)}:{off}{_feedback(sentence)}" for value, sentence in causes]
    return f"{{{weight}:NUMERICAL:={_number(right, digits)}:{off}{''.join(others)}}}"


def _shape_gap(exercise: Exercise, path: str, weight: int, causes: Sequence[tuple[Any, str]]) -> str:
    """A shape in all ways in which it may be typed; heads may stand before tokens, as in marking."""
    right = [sizes := exercise.solution[path]]
    if exercise.mechanism == "head-shapes" and path in ("query", "per head"):
        right.append(sizes[[0, 2, 1, 3]])
    alternatives = [("=", sizes, "") for sizes in right]
    alternatives += [("%0%", sizes, _feedback(sentence)) for sizes, sentence in causes]
    typed = [
        f"{fraction}{form.format(mark.join(number_text(size, 0) for size in sizes))}{feedback}"
        for fraction, sizes, feedback in alternatives
        for form, marks in SHAPE_FORMS
        for mark in marks
    ]
    return f"{{{weight}:SHORTANSWER:{'~'.join(typed)}}}"


def _feedback(sentence: str) -> str:
    """Feedback; Moodle decodes it once before it takes it for HTML, so that it is escaped twice."""
    return f"#{_escaped(escape(sentence, quote=False))}"


def _number(value: float, digits: int) -> str:
    return f"{round(value, digits + 4) + 0.0:.{digits + 4}f}".rstrip("0").rstrip(".")


def _weights(exercise: Exercise) -> dict[str, int]:
    """Whole numbers in the proportion of what one gap of each step is worth."""
    shares = {}
    for path, points in exercise.asked.items():
        count = 1 if exercise.trace.steps[path].card.axes == "axis" else exercise.solution[path].size
        shares[path] = Fraction(points).limit_denominator(100) / count
    scale = lcm(*(share.denominator for share in shares.values()))
    whole = {path: int(share * scale) for path, share in shares.items()}
    common = gcd(*whole.values()) or 1
    return {path: weight // common for path, weight in whole.items()}


def _causes(exercise: Exercise) -> CausesByCell:
    """What known mistakes give, cell by cell, at the first step that each changes."""
    causes: CausesByCell = {}
    unit = 2 * 10.0**-exercise.digits
    for mistake in applicable(exercise.case, exercise.solution):
        steps = run_with_mistakes(exercise.case, mistake) or {}
        for path in exercise.asked:
            wrong, right, step = steps.get(path), exercise.solution[path], exercise.trace.steps[path]
            if wrong is not None and step.card.axes == "axis" and not np.array_equal(wrong, right):
                causes.setdefault((path, ()), []).append((wrong, mistake.sentence))  # a shape, as a whole
            if wrong is None or wrong.shape != right.shape:
                break
            with np.errstate(invalid="ignore"):
                off = np.isfinite(wrong) & np.isfinite(right) & (np.abs(wrong - right) > unit)
            for cell in map(tuple, np.argwhere(off)):
                known = causes.setdefault((path, step.shown_index(cell)), [])
                new = all(abs(wrong[cell] - value) > unit for value, _ in known)
                if new and len(known) < MAX_CAUSES:
                    known.append((float(wrong[cell]), mistake.sentence))
            if off.any():
                break
    return causes
