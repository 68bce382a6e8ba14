"""A page to fill in that saves the answer file and opens offline.

Each step has a table of cells, into which a whole matrix can be pasted; what it has not the shape for is said
at once. What is filled in stays in the browser, by exercise, seed and difficulty, and a saved file can be
opened again.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from markupsafe import Markup

from headwork.documents import Heading
from headwork.documents.formats.html import blocks_markup, page
from headwork.documents.formulas import mathml
from headwork.documents.page_templates import read_asset
from headwork.exercises.exercise import Exercise
from headwork.exercises.questions import Blank, build_question
from headwork.files import read_text

FORM = """<form id="sheet" data-file="{file}" data-sheet="{sheet}" data-key="{key}" data-next="{next_step}">
<div class="blank"><label>Student <input id="student" value="{student}" autocomplete="username"></label></div>
<div class="tools"><label>Open a saved file <input type="file" id="open" accept=".toml"></label>
<label><input type="checkbox" id="as-text" autocomplete="off"> as text</label>{columns}</div>
{sections}<p><button class="save">Save the answer file</button> <span id="saved" role="status"></span></p>
</form>"""
COLUMNS = '<label><input type="checkbox" id="columns" autocomplete="off"> my tokens are columns</label>'
TOKENS = {"token", "query", "key"}
FIELD = """<div class="blank"><label>{blank.name} {symbol} <small>{blank.description}</small>
<textarea id="{exercise}/{blank.name}" data-name="{blank.name}" data-shape="{shape}"{turns} rows="{rows}"
placeholder="{blank.placeholder}" spellcheck="false"></textarea></label>
<p class="check" role="status"></p></div>"""


def answer_page(
    exercises: Mapping[str, Exercise],
    *,
    title: str = "",
    student: str = "",
    sheet: str = "",
    file: str = "answer.toml",
    origin: bool = True,
    next_step: str = "",
) -> str:
    """A page to fill in; its button saves the same TOML file as the answer sheet, and tells the next step."""
    sections = []
    for name, exercise in exercises.items():
        question = build_question(exercise)
        title = title or question.title
        data = {"exercise": name, **(exercise.origin if origin else {})}
        attributes = Markup("").join(Markup(' data-{}="{}"').format(*item) for item in data.items())
        blocks = blocks_markup([Heading(question.title), *question.given()])
        blanks = Markup("").join(_field(name, exercise, blank) for blank in question.blanks)
        sections.append(Markup("<section{}>{}{}</section>").format(attributes, blocks, blanks))
    rows = all(exercise.tokens_as == "rows" and not exercise.is_challenge for exercise in exercises.values())
    rows = rows and any(_has_tokens(exercise) for exercise in exercises.values())
    key = sha256("".join([student, sheet, *(e.to_toml() for e in exercises.values())]).encode()).hexdigest()
    form = Markup(FORM).format(
        file=file,
        sheet=sheet,
        key=key[:16],
        next_step=next_step or f"Next, in that folder: headwork grade {file}",
        student=student,
        columns=Markup(COLUMNS) if rows else "",
        sections=Markup("").join(sections),
    )
    style, script = (
        str(read_asset(f"grid{suffix}")) + read_text(Path(__file__).with_suffix(suffix))
        for suffix in (".css", ".js")
    )
    return page(title or "Answers", Markup(f"<style>{style}</style>{form}<script>{script}</script>"))


def _has_tokens(exercise: Exercise) -> bool:
    """Whether a step has a row per token, which a student may write as a column."""
    return any(TOKENS & set(exercise.trace.steps[path].axes) for path in exercise.asked)


def _field(name: str, exercise: Exercise, blank: Blank) -> Markup:
    rows = max(1, len(blank.placeholder.splitlines()))
    symbol = mathml(blank.symbol) if blank.symbol != blank.name else ""
    turns = not exercise.is_challenge and len(exercise.trace.steps[blank.name].shape) == 2
    scalar = not exercise.is_challenge and exercise.trace.steps[blank.name].card.axes != "axis"
    return Markup(FIELD).format(
        blank=blank,
        symbol=symbol,
        exercise=name,
        rows=rows,
        shape=" ".join(map(str, blank.shape or ((1, 1) if scalar else ()))),
        turns=Markup(' data-turns="yes"') if turns else "",
    )
