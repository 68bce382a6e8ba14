"""A question as it is handed out, in every form, and the sheet to fill in.

One account of the question (title, words, what is given, what is asked) is written as text, Markdown, LaTeX, HTML and
as a notebook. The answer sheet is TOML: a string a step, a ``?`` an entry.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.errors import sizes_in_words
from headwork.exercises.exercise import Exercise
from headwork.note import Input
from headwork.numbers import HandTensor
from headwork.pages.formulas import plain_formula
from headwork.pages.tables import escaped_latex as escaped
from headwork.readings.latex import PREAMBLE, matrix_latex
from headwork.readings.terminal import option_texts
from headwork.readings.trace import Trace, TraceValue
from headwork.readings.writing import number_text

CONVENTIONS = {
    "W x": "Matrices are applied as W x: a row x of the tokens gives the row W x.",
    "x W": "Matrices are applied as x W: a row x of the tokens gives the row x W.",
}
FORMS = "Decimals to {digits} digits after the point; fractions and exact forms (1/3, sqrt(2), e^2/(1+e^2)) are as good."
SEPARATORS = "Separate entries by spaces and rows by new lines. Places count from 0."


@dataclass(frozen=True)
class Blank:
    """Something to fill in: the name of the step or field, its symbol, its shape in words, and the shape itself."""

    name: str
    symbol: str
    about: str
    shape: tuple[int, ...] = ()
    points: float | None = None

    @property
    def empty(self) -> str:
        """Question marks in the shape of the answer."""
        if not self.shape:
            return ""
        rows = [self.shape[-1]] * int(np.prod(self.shape[:-1])) if len(self.shape) > 1 else [self.shape[0]]
        return "\n".join(" ".join("?" * count) for count in rows)


@dataclass(frozen=True)
class Question:
    """What is handed out, before it is written in any form."""

    exercise: Exercise
    trace: Trace | None
    words: tuple[str, ...]
    inputs: tuple[TraceValue, ...]
    told: Mapping[str, str]
    blanks: tuple[Blank, ...]

    @property
    def title(self) -> str:
        return self.exercise.title or self.exercise.mechanism.replace("-", " ").capitalize()

    @property
    def told_text(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} = {value}" for name, value in self.told.items())


def question(exercise: Exercise) -> Question:
    """The question of an exercise."""
    if exercise.challenge:
        return _challenge(exercise)
    trace = exercise.trace
    told = {name: str(exercise.options.get(name, value)) for name, value in option_texts(trace).items()}
    convention = told.pop("convention", "")
    words = [exercise.question or trace.mechanism.about]
    if convention and any(name.startswith("W_") for name in trace.inputs):
        words.append(CONVENTIONS[convention])
    if exercise.tokens_as == "columns":
        words.append("Every token is a column, and so is everything that has one entry a token.")
    words.append(FORMS.format(digits=exercise.digits))
    words.append(SEPARATORS)
    masks = [
        TraceValue(name, Input(name, "M", "query key"), value, (0, 1), "M")
        for name, value in trace.options.items()
        if isinstance(value, HandTensor) and len(value.shape) == 2
    ]
    for noted in masks:
        told.pop(noted.path, None)
    blanks = tuple(_blank(exercise, path, points) for path, points in exercise.asked.items())
    return Question(exercise, trace, tuple(words), (*trace.inputs.values(), *masks), told, blanks)


def _blank(exercise: Exercise, path: str, points: float) -> Blank:
    noted = exercise.trace.steps[path]
    shape, words = noted.shape, noted.axes
    if noted.card.axes == "axis":  # how many numbers a shape has is part of the question
        return Blank(path, noted.symbol, "a shape", (), points)
    about = sizes_in_words(shape, " ".join(words)) if shape else "one number"
    if len(shape) == 3 and words[1] == "head":
        shape = (shape[0], shape[1] * shape[2])
        about = f"{shape[0]} x {shape[1]} ({words[0]}; the heads side by side)"
    elif len(shape) == 3:
        about = f"{shape[0] * shape[1]} x {shape[2]} ({words[0]} 0 first, then the next below: {words[1]}, {words[2]})"
    return Blank(path, noted.symbol, about, shape, points)


def _challenge(exercise: Exercise) -> Question:
    from headwork.exercises.challenges import CHALLENGES
    from headwork.readings import explain

    what = CHALLENGES[exercise.mechanism]
    trace, inputs = None, []
    if "target" in exercise.inputs:
        # The target is a matrix like any other: borrow a card for it.
        trace = explain("softmax", scores=exercise.inputs["target"])
        noted = trace.inputs["scores"]
        inputs = [TraceValue("target", Input("target", "A", "query key"), noted.raw, noted.order, "A")]
    blanks = tuple(Blank(name, name, about) for name, about in what.fields.items())
    words = (exercise.question, "Whatever works when it is run is right. " + SEPARATORS)
    return Question(exercise, trace, words, tuple(inputs), {}, blanks)


# --- the forms ----------------------------------------------------------------------------------------


def text(asked: Question) -> str:
    lines = [asked.title, "", *asked.words, ""]
    if asked.told:
        lines += [asked.told_text, ""]
    for noted in asked.inputs:
        lines += [_labelled(noted, plain_formula(noted.symbol)), *(f"  {row}" for row in _rows(noted)), ""]
    lines += ["Asked:", *(f"  {line}" for line in _asked(asked))]
    return "\n".join(lines) + "\n"


def _labelled(noted: TraceValue, symbol: str) -> str:
    return _named(noted) if plain_formula(noted.symbol) == noted.path else f"{symbol}, {_named(noted)}"


def _named(noted: TraceValue) -> str:
    return noted.path + (f": {sizes_in_words(noted.shape, ' '.join(noted.axes))}" if noted.shape else "")


def _rows(noted: TraceValue) -> Iterator[str]:
    for caption, matrix in noted.matrices():
        if caption:
            yield caption
        cells = [[number_text(x, 4) for x in row] for row in np.atleast_2d(matrix.tensor.array)]
        wide = max(len(cell) for row in cells for cell in row)
        yield from ("  ".join(cell.rjust(wide) for cell in row) for row in cells)


def _asked(asked: Question) -> Iterator[str]:
    for blank in asked.blanks:
        symbol = f" {plain_formula(blank.symbol)}" if blank.symbol != blank.name else ""
        yield f"{blank.name}{symbol}: {blank.about}{_points(blank)}"


def _points(blank: Blank) -> str:
    return "" if blank.points is None else f" ({blank.points:g} point{'' if blank.points == 1 else 's'})"


def markdown(asked: Question, level: int = 1) -> str:
    parts = [f"{'#' * level} {asked.title}", *asked.words]
    if asked.told:
        parts.append(asked.told_text)
    for noted in asked.inputs:
        parts.append(f"{_labelled(noted, f'${noted.symbol}$')}:\n\n$$\n{_latex(asked, noted)}\n$$")
    rows = "\n".join(
        f"- **{b.name}** {'$' + b.symbol + '$' if b.symbol != b.name else ''}: {b.about}{_points(b)}"
        for b in asked.blanks
    )
    return "\n\n".join([*parts, "Asked:", rows]) + "\n"


def _latex(asked: Question, noted: TraceValue) -> str:
    assert asked.trace is not None
    return r" \qquad ".join(
        (rf"\text{{{escaped(caption)}: }}" if caption else "") + matrix_latex(matrix, asked.trace)
        for caption, matrix in noted.matrices()
    )


def latex(asked: Question, *, fragment: bool = False) -> str:
    lines = [rf"\section*{{{escaped(asked.title)}}}", *(escaped(word) + r"\par" for word in asked.words)]
    if asked.told:
        lines.append(escaped(asked.told_text) + r"\par")
    for noted in asked.inputs:
        lines += [rf"${noted.symbol}$, {escaped(_named(noted))}:", "\\[\n" + _latex(asked, noted) + "\n\\]"]
    lines.append(r"\begin{itemize}")
    for blank in asked.blanks:
        symbol = f" ${blank.symbol}$" if blank.symbol != blank.name else ""
        lines.append(rf"\item {escaped(blank.name)}{symbol}: {escaped(blank.about + _points(blank))}")
    lines.append(r"\end{itemize}")
    body = "\n".join(lines) + "\n"
    return body if fragment else f"{PREAMBLE}{body}\\end{{document}}\n"


def notebook(asked: Question) -> str:
    """The question, a cell to fill in, and a cell that marks it."""
    blanks = "".join(f'    {json.dumps(b.name)}: """\n{b.empty}\n""",\n' for b in asked.blanks)
    check = (
        "from headwork.exercises import exercise_from; from headwork.grading import feedback, grade\n\n"
        f"exercise = exercise_from({json.dumps(_data(asked.exercise))}, 'this notebook')\n"
        "print(feedback(grade(exercise, answers), hint=2))"
    )
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "id": "question", "metadata": {}, "source": markdown(asked)}
    ]
    for name, code in (("answers", f"answers = {{\n{blanks}}}"), ("check", check)):
        cells.append(
            {
                "cell_type": "code",
                "id": name,
                "metadata": {},
                "source": code,
                "execution_count": None,
                "outputs": [],
            }
        )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def _data(exercise: Exercise) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(exercise.to_toml())


# --- the sheet to fill in -------------------------------------------------------------------------------


def answer_sheet(
    exercises: Mapping[str, Exercise], *, student: str = "", sheet: str = "", origin: bool = True
) -> str:
    """The TOML file to fill in. ``origin`` says which exercise it answers; a course's sheet leaves that to its key.

    >>> from headwork.exercises import generate
    >>> '"output" = ' in answer_sheet({"size": generate("output-size", 1)})
    True
    """
    lines = [f"student = {json.dumps(student)}"]
    if sheet:
        lines.append(f"sheet = {json.dumps(sheet)}")
    for name, exercise in exercises.items():
        asked = question(exercise)
        if origin and exercise.kind and exercise.seed is not None:
            table = {"kind": exercise.kind, "seed": exercise.seed, "difficulty": exercise.difficulty}
            lines += [
                "",
                f"[exercise.{json.dumps(name)}]",
                *(f"{k} = {json.dumps(v)}" for k, v in table.items()),
            ]
        lines += ["", *(f"# {line}".rstrip() for line in text(asked).splitlines())]
        lines += ["", f"[answers.{json.dumps(name)}]"]
        for blank in asked.blanks:
            lines += [
                f"# {blank.about}{_points(blank)}",
                f'{json.dumps(blank.name)} = """',
                *(blank.empty.splitlines() or [""]),
                '"""',
            ]
    return "\n".join(lines) + "\n"
