"""The question as a page, and a page to fill in that saves the answer file; both open offline."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from markupsafe import Markup

from headwork.exercises.exercise import Exercise
from headwork.exercises.questions import Blank, Question, _named, _points, question
from headwork.pages import Entry, Grid, heading, mathml, matrix_table, page
from headwork.readings.trace import TraceValue
from headwork.readings.writing import number_text

STYLE = """
<style>
.blank { margin: 1rem 0; max-width: 46rem; }
.blank label { display: block; font-weight: 600; }
.blank small { font-weight: 400; opacity: .8; }
.blank textarea, .blank input { width: 100%; font: 1rem/1.5 ui-monospace, Menlo, Consolas, monospace; padding: .4rem;
  border: 1px solid var(--line); border-radius: .3rem; background: var(--panel); color: inherit; }
.save { font: inherit; font-weight: 600; padding: .5rem 1.4rem; border: 0; border-radius: .4rem;
  background: var(--accent); color: var(--paper); cursor: pointer; }
</style>
"""
# JSON's strings are strings of TOML as well; only the delete sign is not allowed to stand in one.
SCRIPT = r"""
<script>
(() => {
  const quoted = text => JSON.stringify(text).replace(/\u007f/g, "");
  const form = document.getElementById("sheet");
  const kept = "headwork " + form.dataset.file + " " + document.title;
  const blanks = [...form.querySelectorAll("[data-name]")];
  try {
    const old = JSON.parse(localStorage.getItem(kept) || "{}");
    blanks.forEach(b => { if (old[b.id]) b.value = old[b.id]; });
  } catch (error) { /* a browser may forbid storage to a file */ }
  form.addEventListener("input", () => {
    try { localStorage.setItem(kept, JSON.stringify(Object.fromEntries(blanks.map(b => [b.id, b.value])))); }
    catch (error) { /* as above */ }
  });
  form.addEventListener("submit", event => {
    event.preventDefault();
    const lines = ["student = " + quoted(document.getElementById("student").value.trim())];
    if (form.dataset.sheet) lines.push("sheet = " + quoted(form.dataset.sheet));
    for (const part of form.querySelectorAll("section")) {
      const name = quoted(part.dataset.exercise);
      if (part.dataset.kind) lines.push("", "[exercise." + name + "]", "kind = " + quoted(part.dataset.kind),
        "seed = " + part.dataset.seed, "difficulty = " + part.dataset.difficulty);
      lines.push("", "[answers." + name + "]");
      for (const blank of part.querySelectorAll("[data-name]"))
        lines.push(quoted(blank.dataset.name) + " = " + quoted(blank.value));
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "application/toml"}));
    link.download = form.dataset.file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    document.getElementById("saved").textContent = "Saved as " + form.dataset.file + ".";
  });
})();
</script>
"""


def question_blocks(asked: Question) -> list[Markup | str]:
    """The question as blocks of a page."""
    blocks: list[Markup | str] = [heading(asked.title), *asked.words]
    if asked.told:
        blocks.append(asked.told_text)
    for noted in asked.inputs:
        blocks.append(Markup("<p>{} {}</p>").format(mathml(noted.symbol), _named(noted)))
        shown = Markup("").join(_matrix(caption, matrix) for caption, matrix in noted.matrices())
        blocks.append(Markup('<div class="headwork">{}</div>').format(shown))
    return blocks


def _matrix(caption: str, noted: TraceValue) -> Markup:
    """A matrix with its places round it; a single number stands alone."""
    array = np.atleast_2d(noted.tensor.array)
    cells = [[Entry(number_text(value, 4)) for value in row] for row in array]
    if not noted.shape:
        return Markup("<p><b>{}</b></p>").format(cells[0][0].decimal)
    rows, columns = range(array.shape[0]) if len(noted.shape) > 1 else (), range(array.shape[1])
    words = ("", *noted.axes)[-2:]
    return matrix_table(
        Grid(cells, rows, columns, row_axis=words[0], column_axis=words[1], label=noted.path, caption=caption)
    )


def question_page(exercise: Exercise) -> str:
    """The question as a page to read."""
    asked = question(exercise)
    rows = [f"{b.name}: {b.about}{_points(b)}" for b in asked.blanks]
    listed = Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(row) for row in rows))
    return page(asked.title, *question_blocks(asked)[1:], "Asked:", listed)


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
        asked = question(exercise)
        where = Markup("")
        if origin and exercise.kind and exercise.seed is not None:
            where = Markup(' data-kind="{}" data-seed="{}" data-difficulty="{}"').format(
                exercise.kind, exercise.seed, exercise.difficulty
            )
        inside = Markup("").join(
            b if isinstance(b, Markup) else Markup("<p>{}</p>").format(b) for b in question_blocks(asked)
        )
        blanks = Markup("").join(_field(name, blank) for blank in asked.blanks)
        sections.append(
            Markup('<section data-exercise="{}"{}>{}{}</section>').format(name, where, inside, blanks)
        )
    who = Markup('<div class="blank"><label>Student <input id="student" value="{}"></label></div>').format(
        student
    )
    form = Markup(
        '<form id="sheet" data-file="{}" data-sheet="{}">{}{}<p><button class="save">Save the answer file</button> '
        '<span id="saved" role="status"></span></p></form>'
    ).format(file, sheet, who, Markup("").join(sections))
    heading_text = title or (question(next(iter(exercises.values()))).title if exercises else "Answers")
    return page(heading_text, Markup(STYLE), form, Markup(SCRIPT))


def _field(exercise: str, blank: Blank) -> Markup:
    rows = max(1, len(blank.empty.splitlines()))
    symbol = mathml(blank.symbol) if blank.symbol != blank.name else ""
    return Markup(
        '<div class="blank"><label>{} {} <small>{}</small><textarea id="{}" data-name="{}" rows="{}" '
        'placeholder="{}" spellcheck="false"></textarea></label></div>'
    ).format(
        blank.name,
        symbol,
        blank.about + _points(blank),
        f"{exercise}/{blank.name}",
        blank.name,
        rows,
        blank.empty,
    )
