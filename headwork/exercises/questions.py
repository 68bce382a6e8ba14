"""A question in every format, and the sheet to fill in.

A ``ExerciseQuestion`` (title, paragraphs, inputs, blanks) is shown in every format.
The answer sheet is TOML: one string per step, one ``?`` per entry.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.documents import Block, Code, Document, Formula, Item, Items, Prose, Renderable, Table, Values
from headwork.errors import format_shape
from headwork.exercises.challenges import CHALLENGES
from headwork.exercises.exercise import Exercise, toml_lines
from headwork.exercises.generation import EXERCISE_KINDS
from headwork.files import toml_text
from headwork.note import Input
from headwork.readings import explain
from headwork.readings.trace import TraceValue
from headwork.readings.trace_document import document_value

CONVENTION_SENTENCE = "Matrices are applied as {0}: a row x of the tokens gives the row {0}."
FORMS_SENTENCE = (
    "Decimals to {digits} digits after the point; "
    "fractions and exact forms (1/3, sqrt(2), e^2/(1+e^2)) are accepted too."
)
COUNTS_SENTENCE = "Counts are exact: write every digit (37056, not 3.7e4), or a product such as 12*3088."
ABOUT_SENTENCE = 'If the question says "about how many", two significant digits suffice: 37000 or 3.7e4.'
SEPARATORS_SENTENCE = "Separate entries by spaces and rows by new lines. Rows and columns count from 0."


@dataclass(frozen=True)
class Blank:
    """Something to fill in: the step or field, its symbol, its shape in words, and the shape itself."""

    name: str
    symbol: str
    shape_text: str
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
            return self.shape_text
        return f"{self.shape_text} ({round(self.points, 2):g} point{'' if self.points == 1 else 's'})"

    def item(self) -> Item:
        symbol = (Formula(self.symbol), ": ") if self.symbol != self.name else ()
        return Item((*symbol, self.description), self.name)


@dataclass(frozen=True)
class ExerciseQuestion(Renderable):
    """The question of an exercise."""

    exercise: Exercise
    paragraphs: tuple[str, ...]
    inputs: tuple[TraceValue, ...]
    blanks: tuple[Blank, ...]

    @property
    def title(self) -> str:
        return self.exercise.title or self.exercise.mechanism.replace("-", " ").capitalize()

    def given_blocks(self) -> tuple[Block, ...]:
        """What is asked in words, and the numbers that are given, all of them."""
        values = tuple(map(document_value, self.inputs))
        return (*map(Prose, self.paragraphs), *([Values((("", values),), all_cells=True)] if values else []))

    def document(self) -> Document:
        """The question; in a notebook with a cell to fill in and one that marks it."""
        asked = Items(tuple(blank.item() for blank in self.blanks))
        parts = (*self.given_blocks(), Prose("Asked:"), asked)
        return Document(
            self.title, parts, data=self.as_data, notebook_blocks=lambda: (*parts, *self._cells())
        )

    def as_data(self) -> dict[str, Any]:
        blanks = [{"name": b.name, "about": b.shape_text, "points": b.points} for b in self.blanks]
        return {"title": self.title, "exercise": self._exercise_data(), "asked": blanks}

    def _exercise_data(self) -> dict[str, Any]:
        return tomllib.loads(self.exercise.to_toml())

    def _cells(self) -> tuple[Code, Code]:
        blanks = "".join(f'    {toml_text(b.name)}: """\n{b.placeholder}\n""",\n' for b in self.blanks)
        check = (
            "from headwork.exercises import exercise_from\nfrom headwork.grading import feedback, grade\n\n"
            f"exercise = exercise_from({self._exercise_data()!r}, 'this notebook')\n"
            "print(feedback(grade(exercise, answers), hint=2))"
        )
        return Code(f"answers = {{\n{blanks}}}"), Code(check)


def build_question(exercise: Exercise) -> ExerciseQuestion:
    """The question of an exercise."""
    if exercise.is_challenge:
        return _challenge_question(exercise)
    trace = exercise.trace
    options = {name: str(exercise.options.get(name, value)) for name, value in trace.option_texts().items()}
    convention = options.pop("convention", "")
    paragraphs = [exercise.question or trace.mechanism.about]
    if convention and any(name.startswith("W_") for name in trace.inputs):
        paragraphs.append(CONVENTION_SENTENCE.format(convention))
    if exercise.tokens_as == "columns":
        paragraphs.append("Every token is a column, and so is everything that has one entry per token.")
    forms = (
        (ABOUT_SENTENCE if exercise.asks_approximately else COUNTS_SENTENCE)
        if exercise.is_counting
        else FORMS_SENTENCE.format(digits=exercise.digits)
    )
    paragraphs += [forms, SEPARATORS_SENTENCE]
    if options:
        paragraphs.append(", ".join(f"{k.replace('_', ' ')} = {value}" for k, value in options.items()))
    blanks = tuple(_blank(exercise, path, points) for path, points in exercise.asked.items())
    return ExerciseQuestion(exercise, tuple(paragraphs), tuple(trace.inputs.values()), blanks)


def _blank(exercise: Exercise, path: str, points: float) -> Blank:
    step = exercise.trace.steps[path]
    shape, axes = step.shape, step.axes
    if step.card.axes == "axis":  # how many numbers a shape has is part of the question
        return Blank(path, step.symbol, "a shape", (), points)
    about = format_shape(shape, " ".join(axes)) if shape else "one number"
    if len(shape) == 3 and axes[1] == "head":
        shape = (shape[0], shape[1] * shape[2])
        about = f"{shape[0]} x {shape[1]} ({axes[0]}; the heads side by side)"
    elif len(shape) == 3:
        order = f"{axes[0]} 0 first, then the next below: {axes[1]}, {axes[2]}"
        about = f"{shape[0] * shape[1]} x {shape[2]} ({order})"
    return Blank(path, step.symbol, about, shape, points)


def _challenge_question(exercise: Exercise) -> ExerciseQuestion:
    inputs = []
    if "target" in exercise.inputs:
        # The target is a matrix like any other: borrow a card for it.
        trace = explain("softmax", scores=exercise.inputs["target"])
        scores = trace.inputs["scores"]
        inputs = [TraceValue("target", Input("target", "A", "query key"), scores.raw, scores.order, "A")]
    fields = CHALLENGES[exercise.mechanism].fields
    blanks = tuple(Blank(name, name, about) for name, about in fields.items())
    paragraphs = (exercise.question, "Any answer that works when it is run is right. " + SEPARATORS_SENTENCE)
    return ExerciseQuestion(exercise, paragraphs, tuple(inputs), blanks)


def kind_table() -> Table:
    """The kinds of exercise and what each asks for."""
    rows = [(slug, ", ".join(kind.asked)) for slug, kind in EXERCISE_KINDS.items()]
    rows += [(slug, ", ".join(challenge.fields)) for slug, challenge in CHALLENGES.items()]
    return Table("", ("kind", "asks for"), list(rows))


# --- the sheet to fill in -------------------------------------------------------------------------------
def answer_sheet(
    exercises: Mapping[str, Exercise],
    *,
    student: str = "",
    sheet: str = "",
    origin: bool = True,
    tokens_as: str = "",
    answers: Mapping[str, Mapping[str, str]] | None = None,
) -> str:
    """The TOML file to fill in. ``origin`` adds which exercise it answers; in a course the key knows that.

    With ``answers`` (by exercise and step) it is filled in.

    >>> from headwork.exercises import generate
    >>> '"output" = ' in answer_sheet({"size": generate("output-size", 1)})
    True
    """
    lines = [f"student = {toml_text(student)}"]
    if sheet:
        lines.append(f"sheet = {toml_text(sheet)}")
    if tokens_as:
        lines += ["", "[conventions]", f"tokens_as = {toml_text(tokens_as)}"]
    for name, exercise in exercises.items():
        question = build_question(exercise)
        if origin and exercise.origin:
            lines += ["", f"[exercise.{toml_text(name)}]", *toml_lines(exercise.origin)]
        plain = ("".join(filter(str.isprintable, line)) for line in question.to_text().splitlines())
        lines += ["", *(f"# {line}".rstrip() for line in plain)]
        lines += ["", f"[answers.{toml_text(name)}]"]
        for blank in question.blanks:
            lines.append(f"# {blank.description}")
            if answers is not None:
                lines += toml_lines({blank.name: answers.get(name, {}).get(blank.name, "")})
                continue
            lines += [f'{toml_text(blank.name)} = """', *(blank.placeholder.splitlines() or [""]), '"""']
    return "\n".join(lines) + "\n"
