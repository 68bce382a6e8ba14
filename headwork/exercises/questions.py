"""A question in every format, and the sheet to fill in.

A ``Question`` (title, paragraphs, inputs, blanks) is written as text, Markdown, LaTeX, HTML or a notebook.
The answer sheet is TOML: one string per step, one ``?`` per entry.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.errors import sizes_in_words
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.exercise import Exercise, toml_lines
from headwork.note import Input
from headwork.numbers import HandTensor
from headwork.pages.formulas import plain_formula
from headwork.pages.notebooks import NotebookCell, notebook_text, safe_markdown
from headwork.pages.tables import escape_latex as escaped
from headwork.readings import explain
from headwork.readings.latex import PREAMBLE, matrix_latex
from headwork.readings.terminal import option_texts
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_text

CONVENTION = "Matrices are applied as {0}: a row x of the tokens gives the row {0}."
FORMS = (
    "Decimals to {digits} digits after the point; "
    "fractions and exact forms (1/3, sqrt(2), e^2/(1+e^2)) are accepted too."
)
SEPARATORS = "Separate entries by spaces and rows by new lines. Positions count from 0."


@dataclass(frozen=True)
class Blank:
    """Something to fill in: the step or field, its symbol, its shape in words, and the shape itself."""

    name: str
    symbol: str
    about: str
    shape: tuple[int, ...] = ()
    points: float | None = None

    @property
    def placeholder(self) -> str:
        """Question marks in the shape of the answer."""
        if not self.shape:
            return ""
        rows = int(np.prod(self.shape[:-1]))
        return "\n".join([" ".join("?" * self.shape[-1])] * rows)

    @property
    def description(self) -> str:
        """The shape in words, and the points."""
        if self.points is None:
            return self.about
        return f"{self.about} ({self.points:g} point{'' if self.points == 1 else 's'})"


@dataclass(frozen=True)
class Question:
    """The question of an exercise, before it is written in any format."""

    exercise: Exercise
    trace: Trace | None
    paragraphs: tuple[str, ...]
    inputs: tuple[TraceValue, ...]
    blanks: tuple[Blank, ...]

    @property
    def title(self) -> str:
        return self.exercise.title or self.exercise.mechanism.replace("-", " ").capitalize()


def build_question(exercise: Exercise) -> Question:
    """The question of an exercise."""
    if exercise.challenge:
        return _challenge_question(exercise)
    trace = exercise.trace
    options = {name: str(exercise.options.get(name, value)) for name, value in option_texts(trace).items()}
    convention = options.pop("convention", "")
    paragraphs = [exercise.question or trace.mechanism.about]
    if convention and any(name.startswith("W_") for name in trace.inputs):
        paragraphs.append(CONVENTION.format(convention))
    if exercise.tokens_as == "columns":
        paragraphs.append("Every token is a column, and so is everything that has one entry per token.")
    paragraphs += [FORMS.format(digits=exercise.digits), SEPARATORS]
    masks = [
        TraceValue(name, Input(name, "M", "query key"), value, (0, 1), "M")
        for name, value in trace.options.items()
        if isinstance(value, HandTensor) and len(value.shape) == 2
    ]
    for mask in masks:
        options.pop(mask.path, None)
    if options:
        paragraphs.append(", ".join(f"{k.replace('_', ' ')} = {value}" for k, value in options.items()))
    blanks = tuple(_blank(exercise, path, points) for path, points in exercise.asked.items())
    return Question(exercise, trace, tuple(paragraphs), (*trace.inputs.values(), *masks), blanks)


def _blank(exercise: Exercise, path: str, points: float) -> Blank:
    step = exercise.trace.steps[path]
    shape, axes = step.shape, step.axes
    if step.card.axes == "axis":  # how many numbers a shape has is part of the question
        return Blank(path, step.symbol, "a shape", (), points)
    about = sizes_in_words(shape, " ".join(axes)) if shape else "one number"
    if len(shape) == 3 and axes[1] == "head":
        shape = (shape[0], shape[1] * shape[2])
        about = f"{shape[0]} x {shape[1]} ({axes[0]}; the heads side by side)"
    elif len(shape) == 3:
        order = f"{axes[0]} 0 first, then the next below: {axes[1]}, {axes[2]}"
        about = f"{shape[0] * shape[1]} x {shape[2]} ({order})"
    return Blank(path, step.symbol, about, shape, points)


def _challenge_question(exercise: Exercise) -> Question:
    trace, inputs = None, []
    if "target" in exercise.inputs:
        # The target is a matrix like any other: borrow a card for it.
        trace = explain("softmax", scores=exercise.inputs["target"])
        scores = trace.inputs["scores"]
        inputs = [TraceValue("target", Input("target", "A", "query key"), scores.raw, scores.order, "A")]
    fields = CHALLENGES[exercise.mechanism].fields
    blanks = tuple(Blank(name, name, about) for name, about in fields.items())
    paragraphs = (exercise.question, "Any answer that works when it is run is right. " + SEPARATORS)
    return Question(exercise, trace, paragraphs, tuple(inputs), blanks)


# --- the formats --------------------------------------------------------------------------------------
def text(question: Question) -> str:
    lines = [question.title, "", *question.paragraphs, ""]
    for value in question.inputs:
        lines += [_label(value, plain_formula(value.symbol)), *(f"  {row}" for row in _rows(value)), ""]
    lines.append("Asked:")
    for blank in question.blanks:
        symbol = f" {plain_formula(blank.symbol)}" if blank.symbol != blank.name else ""
        lines.append(f"  {blank.name}{symbol}: {blank.description}")
    return "\n".join(lines) + "\n"


def _label(value: TraceValue, symbol: str) -> str:
    name = name_and_shape(value)
    return name if plain_formula(value.symbol) == value.path else f"{symbol}, {name}"


def name_and_shape(value: TraceValue) -> str:
    """The name of an input with its shape in words."""
    return value.path + (f": {sizes_in_words(value.shape, ' '.join(value.axes))}" if value.shape else "")


def _rows(value: TraceValue) -> Iterator[str]:
    for caption, matrix in value.matrices():
        if caption:
            yield caption
        cells = [[number_text(x, 4) for x in row] for row in np.atleast_2d(matrix.tensor.array)]
        width = max(len(cell) for row in cells for cell in row)
        yield from ("  ".join(cell.rjust(width) for cell in row) for row in cells)


def markdown(question: Question, level: int = 1) -> str:
    parts = [f"{'#' * level} {question.title}", *question.paragraphs]
    for value in question.inputs:
        parts.append(f"{_label(value, f'${value.symbol}$')}:\n\n$$\n{_latex(question, value)}\n$$")
    rows = "\n".join(
        f"- **{b.name}** {'$' + b.symbol + '$' if b.symbol != b.name else ''}: {b.description}"
        for b in question.blanks
    )
    return safe_markdown("\n\n".join([*parts, "Asked:", rows]) + "\n")


def _latex(question: Question, value: TraceValue) -> str:
    assert question.trace is not None
    return r" \qquad ".join(
        (rf"\text{{{escaped(caption)}: }}" if caption else "") + matrix_latex(matrix, question.trace)
        for caption, matrix in value.matrices()
    )


def latex(question: Question, *, fragment: bool = False) -> str:
    lines = [rf"\section*{{{escaped(question.title)}}}"]
    lines += [escaped(paragraph) + r"\par" for paragraph in question.paragraphs]
    for value in question.inputs:
        name = escaped(name_and_shape(value))
        lines += [rf"${value.symbol}$, {name}:", "\\[\n" + _latex(question, value) + "\n\\]"]
    lines.append(r"\begin{itemize}")
    for blank in question.blanks:
        symbol = f" ${blank.symbol}$" if blank.symbol != blank.name else ""
        lines.append(rf"\item {escaped(blank.name)}{symbol}: {escaped(blank.description)}")
    lines.append(r"\end{itemize}")
    body = "\n".join(lines) + "\n"
    return body if fragment else f"{PREAMBLE}{body}\\end{{document}}\n"


def notebook(question: Question) -> str:
    """The question, a cell to fill in, and a cell that marks it."""
    blanks = "".join(f'    {json.dumps(b.name)}: """\n{b.placeholder}\n""",\n' for b in question.blanks)
    data: dict[str, Any] = tomllib.loads(question.exercise.to_toml())
    check = (
        "from headwork.exercises import exercise_from\nfrom headwork.grading import feedback, grade\n\n"
        f"exercise = exercise_from({json.dumps(data)}, 'this notebook')\n"
        "print(feedback(grade(exercise, answers), hint=2))"
    )
    sources = (("markdown", markdown(question)), ("code", f"answers = {{\n{blanks}}}"), ("code", check))
    return notebook_text(NotebookCell(*source) for source in sources)


# --- the sheet to fill in -------------------------------------------------------------------------------
def answer_sheet(
    exercises: Mapping[str, Exercise], *, student: str = "", sheet: str = "", origin: bool = True
) -> str:
    """The TOML file to fill in. ``origin`` adds which exercise it answers; in a course the key knows that.

    >>> from headwork.exercises import generate
    >>> '"output" = ' in answer_sheet({"size": generate("output-size", 1)})
    True
    """
    lines = [f"student = {json.dumps(student)}"]
    if sheet:
        lines.append(f"sheet = {json.dumps(sheet)}")
    for name, exercise in exercises.items():
        question = build_question(exercise)
        if origin and exercise.origin:
            lines += ["", f"[exercise.{json.dumps(name)}]", *toml_lines(exercise.origin)]
        lines += ["", *(f"# {line}".rstrip() for line in text(question).splitlines())]
        lines += ["", f"[answers.{json.dumps(name)}]"]
        for blank in question.blanks:
            lines += [f"# {blank.description}", f'{json.dumps(blank.name)} = """']
            lines += [*(blank.placeholder.splitlines() or [""]), '"""']
    return "\n".join(lines) + "\n"
