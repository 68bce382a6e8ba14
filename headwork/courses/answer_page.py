"""A page to fill in that saves the answer file and opens offline.

Each step has a table of cells, into which a whole matrix can be pasted; a paste of the wrong shape is
reported at once. What is filled in stays in the browser, by exercise, seed and difficulty, and a saved file
can be opened again.
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from markupsafe import Markup

from headwork.documents import Heading
from headwork.documents.formats.html import blocks_markup, page
from headwork.documents.formulas import mathml
from headwork.documents.page_templates import read_asset, render_template
from headwork.exercises.exercise import Exercise
from headwork.exercises.questions import Blank, build_question
from headwork.files import read_text

TOKEN_AXES = {"token", "query", "key"}


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
    questions = {name: build_question(exercise) for name, exercise in exercises.items()}
    title = title or next((question.title for question in questions.values()), "Answers")
    sections = [
        {
            "name": name,
            "origin": exercises[name].origin if origin else {},
            "question": blocks_markup([Heading(question.title), *question.given_blocks()]),
            "blanks": [(blank, *_table(exercises[name], blank)) for blank in question.blanks],
        }
        for name, question in questions.items()
    ]
    by_rows = all(e.tokens_as == "rows" and not e.is_challenge for e in exercises.values())
    key = sha256("".join([student, sheet, *(e.to_toml() for e in exercises.values())]).encode()).hexdigest()
    style, script = (
        read_asset(f"grid{suffix}") + Markup(read_text(Path(__file__).with_suffix(suffix)))
        for suffix in (".css", ".js")
    )
    form = render_template(
        "answer_page.html",
        Path(__file__).parent,
        sections=sections,
        file=file,
        student=student,
        sheet=sheet,
        key=key[:16],
        next_step=next_step or f"Next, in that folder: headwork grade {file}",
        offer_columns=by_rows and any(map(_has_tokens, exercises.values())),
        mathml=mathml,
        style=style,
        script=script,
    )
    return page(title, form)


def _has_tokens(exercise: Exercise) -> bool:
    """Whether a step has a row per token, which a student may write as a column."""
    return any(TOKEN_AXES & set(exercise.trace.steps[path].axes) for path in exercise.asked)


def _table(exercise: Exercise, blank: Blank) -> tuple[str, bool]:
    """The sizes of the table to fill in, none where they are part of the question; whether it is a matrix."""
    if exercise.is_challenge:
        return "", False
    step = exercise.trace.steps[blank.name]
    shape = blank.shape or (() if step.card.axes == "axis" else (1, 1))
    return " ".join(map(str, shape)), len(step.shape) == 2
