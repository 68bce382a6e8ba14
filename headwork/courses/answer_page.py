"""A page to fill in that saves the answer file and opens offline."""

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from headwork.documents import Heading
from headwork.documents.formats.html import blocks_markup, page
from headwork.documents.formulas import mathml
from headwork.exercises.exercise import Exercise
from headwork.exercises.questions import Blank, build_question
from headwork.files import read_text


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
        blocks = blocks_markup([Heading(question.title), *question.given()])
        blanks = Markup("").join(_field(name, blank) for blank in question.blanks)
        sections.append(Markup("<section{}>{}{}</section>").format(attributes, blocks, blanks))
    form = Markup(
        '<form id="sheet" data-file="{}" data-sheet="{}">'
        '<div class="blank"><label>Student <input id="student" value="{}"></label></div>'
        '{}<p><button class="save">Save the answer file</button> '
        '<span id="saved" role="status"></span></p></form>'
    ).format(file, sheet, student, Markup("").join(sections))
    style, script = (read_text(Path(__file__).with_suffix(suffix)) for suffix in (".css", ".js"))
    return page(title or "Answers", Markup(f"<style>{style}</style>{form}<script>{script}</script>"))


def _field(exercise: str, blank: Blank) -> Markup:
    rows = max(1, len(blank.placeholder.splitlines()))
    symbol = mathml(blank.symbol) if blank.symbol != blank.name else ""
    return Markup(
        '<div class="blank"><label>{blank.name} {symbol} <small>{blank.description}</small>'
        '<textarea id="{exercise}/{blank.name}" data-name="{blank.name}" rows="{rows}" '
        'placeholder="{blank.placeholder}" spellcheck="false"></textarea></label></div>'
    ).format(blank=blank, symbol=symbol, exercise=exercise, rows=rows)
