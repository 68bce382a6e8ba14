"""The question as a page, and a page to fill in that saves the answer file; both open offline."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from markupsafe import Markup

from headwork.exercises.exercise import Exercise
from headwork.exercises.questions import Blank, Question, build_question, name_and_shape
from headwork.files import read_text
from headwork.pages import Entry, Grid, heading, mathml, matrix_table, page
from headwork.pages.page import as_markup
from headwork.readings.trace import TraceValue
from headwork.readings.writing import number_text


def question_blocks(question: Question) -> list[Markup | str]:
    """The question as blocks of a page."""
    blocks: list[Markup | str] = [heading(question.title), *question.paragraphs]
    for value in question.inputs:
        blocks.append(Markup("<p>{} {}</p>").format(mathml(value.symbol), name_and_shape(value)))
        matrices = Markup("").join(_matrix(caption, matrix) for caption, matrix in value.matrices())
        blocks.append(Markup('<div class="headwork">{}</div>').format(matrices))
    return blocks


def _matrix(caption: str, value: TraceValue) -> Markup:
    """A matrix with its row and column numbers; a single number stands alone."""
    array = np.atleast_2d(value.tensor.array)
    cells = [[Entry(number_text(number, 4)) for number in row] for row in array]
    if not value.shape:
        return Markup("<p><b>{}</b></p>").format(cells[0][0].decimal)
    rows, columns = range(array.shape[0]) if len(value.shape) > 1 else (), range(array.shape[1])
    row_axis, column_axis = ("", *value.axes)[-2:]
    return matrix_table(Grid(cells, rows, columns, row_axis, column_axis, label=value.path, caption=caption))


def question_page(exercise: Exercise) -> str:
    """The question as a page to read."""
    question = build_question(exercise)
    rows = [Markup("<li>{}: {}</li>").format(b.name, b.description) for b in question.blanks]
    asked = Markup("<ul>{}</ul>").format(Markup("").join(rows))
    return page(question.title, *question_blocks(question)[1:], "Asked:", asked)


def answer_page(
    exercises: Mapping[str, Exercise],
    *,
    title: str = "",
    student: str = "",
    sheet: str = "",
    file: str = "answer.toml",
    origin: bool = True,
) -> str:
    """A page to fill in; its button saves the same TOML file as the answer sheet."""
    sections = []
    for name, exercise in exercises.items():
        question = build_question(exercise)
        title = title or question.title
        data = {"exercise": name, **(exercise.origin if origin else {})}
        attributes = Markup("").join(Markup(' data-{}="{}"').format(*item) for item in data.items())
        blocks = Markup("").join(map(as_markup, question_blocks(question)))
        blanks = Markup("").join(_field(name, blank) for blank in question.blanks)
        sections.append(Markup("<section{}>{}{}</section>").format(attributes, blocks, blanks))
    form = Markup(
        '<form id="sheet" data-file="{}" data-sheet="{}">'
        '<div class="blank"><label>Student <input id="student" value="{}"></label></div>'
        '{}<p><button class="save">Save the answer file</button> '
        '<span id="saved" role="status"></span></p></form>'
    ).format(file, sheet, student, Markup("").join(sections))
    style, script = (read_text(Path(__file__).with_suffix(suffix)) for suffix in (".css", ".js"))
    return page(
        title or "Answers", Markup(f"<style>{style}</style>"), form, Markup(f"<script>{script}</script>")
    )


def _field(exercise: str, blank: Blank) -> Markup:
    rows = max(1, len(blank.placeholder.splitlines()))
    symbol = mathml(blank.symbol) if blank.symbol != blank.name else ""
    return Markup(
        '<div class="blank"><label>{blank.name} {symbol} <small>{blank.description}</small>'
        '<textarea id="{exercise}/{blank.name}" data-name="{blank.name}" rows="{rows}" '
        'placeholder="{blank.placeholder}" spellcheck="false"></textarea></label></div>'
    ).format(blank=blank, symbol=symbol, exercise=exercise, rows=rows)
