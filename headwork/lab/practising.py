"""The calls of the screen Practise: exercises drawn, cells read, answers marked and written as a file.

Marks, causes and hints are those of ``headwork grade``, by the same functions. Exercises and grading are
imported when the screen is first used, so that the page starts as quickly without them. The entries of a step
are numbered in the order of the key, whether tokens are rows or columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.documents.blocks import select_matrix
from headwork.errors import InputError, check_known, format_shape
from headwork.files import parse_toml, safe_file_name, toml_text
from headwork.note import MECHANISMS
from headwork.numbers.parsing import (
    MIXED_NUMBER,
    entry_texts,
    join_mixed_numbers,
    read_number,
    split_entries,
    tensor_from_lists,
)
from headwork.numbers.pasted import MIXED_SIGN
from headwork.readings.trace_document import document_value

if TYPE_CHECKING:
    from headwork.exercises import Exercise
    from headwork.grading.marks import Mark, StepMark

FIRST_EXERCISE = {"kind": "self-attention", "seed": 1, "difficulty": 1}
MAX_EXERCISES, MAX_CHARACTERS = 100, 200_000  # of one file or request, as headwork grade reads them
MAX_NAME = 100
TOKENS_AS = ("rows", "columns")
FRACTION = re.compile(r"(-?)\(\(?(\d+)\)?/\(?(\d+)\)?\)")
Array = Any


@lru_cache(maxsize=64)
def _exercise_of(kind: str, seed: int, difficulty: int) -> Exercise:
    from headwork.exercises import exercise_from

    return exercise_from({"kind": kind, "seed": seed, "difficulty": difficulty}, "exercise")


# --- the cells of a step ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class AnswerGrid:
    """The entries of a step by number, as they are written, and the matrices in which it is shown."""

    entry_indices: Array  # the flat index of each entry, as the step is written
    width: int  # entries on one line of text
    matrices: tuple[tuple[str, Array, tuple[str, ...]], ...]  # caption, numbers, axes

    def data(self) -> list[dict[str, Any]]:
        return [{"caption": caption, "cells": cells.tolist()} for caption, cells, _ in self.matrices]

    @property
    def about(self) -> str:
        """Its shape in words; of several matrices that of each."""
        if not self.entry_indices.ndim:
            return "one number"
        caption, cells, axes = self.matrices[0]
        shape = cells.shape[-len(axes) :]
        each = f" for each {caption.rpartition(' ')[0]}" if len(self.matrices) > 1 else ""
        return format_shape(shape, " ".join(axes)).replace("_", " ") + each

    @property
    def lines(self) -> Array:
        """The entries of each line of text."""
        return self.entry_indices.reshape(-1, self.width)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """In which it can be written, axes of size 1 left out."""
        return [np.squeeze(indices).shape for indices in (self.entry_indices, self.lines)]

    def text(self, entries: list[str]) -> str:
        """The entries as headwork grade reads them: a line per row, ``?`` where there is nothing."""
        if self.entry_indices.size != len(entries):
            raise InputError(f"{len(entries)} entries came; {self.entry_indices.size} are asked for.")
        if not any(entry.strip() for entry in entries):
            return ""
        if len(entries) == 1:
            return entries[0].strip()
        words = list(map(_entry_text, entries))
        return "\n".join(" ".join(words[i] for i in line) for line in self.lines)


def _grid(exercise: Exercise, step: str, tokens_as: str) -> AnswerGrid | None:
    """The cells of a step; none where the shape of the answer is part of the question."""
    from headwork.grading.marking import written_order

    check_known("tokens_as", tokens_as, TOKENS_AS)
    if exercise.is_challenge:
        return None
    check_known(f"step of {exercise.name}", step, exercise.asked)
    shown = exercise.trace.steps[step]
    if shown.card.axes == "axis":
        return None
    if tokens_as != exercise.tokens_as:
        shown = replace(shown, order=written_order(shown, tokens_as))
    value = document_value(shown)
    numbers = np.arange(value.values.size).reshape(shown.raw.shape).transpose(shown.order)
    matrices = tuple(
        (caption, np.atleast_2d(select_matrix(numbers, index)), value.matrix_axes(index))
        for caption, index in value.matrices()
    )
    side_by_side = numbers.ndim == 3 and value.axes[1] == "head"
    width = numbers[0].size if side_by_side else numbers.shape[-1] if numbers.ndim else 1
    return AnswerGrid(numbers, width, matrices)


def _entry_text(entry: str) -> str:
    """One entry without spaces, so that spaces separate entries; as it is where it cannot be read."""
    text = entry.strip()
    if not text or _reading_error(text):
        return text or "?"
    if mixed := MIXED_NUMBER.fullmatch(text):
        whole = mixed[1].lstrip("+-")
        return f"{'-' if mixed[1][0] == '-' else ''}({whole}+{mixed[2]})"
    return "".join(text.split())


def _reading_error(entry: str, *, is_whole_answer: bool = False) -> str:
    """Why an entry cannot be read, or nothing; ``is_whole_answer``: it is the whole answer to its step."""
    from headwork.grading.answers import read_entries

    try:
        if is_whole_answer:
            read_entries(entry, shape=())
        else:
            nested, _ = split_entries(entry, single=True)
            read_number(nested if isinstance(nested, str) else entry)
    except (InputError, OverflowError, ZeroDivisionError, RecursionError) as error:
        comma = " Write a decimal point, not a comma." if "," in entry else ""
        return f"{error}{comma}"
    return ""


def _paste(grid: AnswerGrid, text: str, entries: list[str], cell: int) -> list[str]:
    """The entries with a pasted text: the whole step, one of its matrices, or a block from one cell on."""
    blocks = list(_text_arrays(entry_texts(text)))
    block = next((block for block in blocks if np.squeeze(block).shape in grid.shapes), blocks[0])
    result = np.array(entries, object)
    if np.squeeze(block).shape in grid.shapes:
        result[grid.entry_indices.reshape(-1)] = block.reshape(-1)
        return [str(entry) for entry in result]
    cells = next((cells for _, cells, _ in grid.matrices if cell in cells), grid.matrices[0][1])
    block = np.atleast_2d(block)
    row, column = (0, 0) if block.shape == cells.shape else map(int, np.argwhere(cells == cell)[0])
    target = cells[row : row + len(block), column : column + block.shape[1]]
    if target.shape != block.shape:
        hint = " Are rows and columns exchanged?" if block.T.shape in (grid.lines.shape, cells.shape) else ""
        sizes = [" x ".join(map(str, shape)) for shape in (block.shape, cells.shape)]
        raise InputError(f"yours is {sizes[0]}; expected {sizes[1]}.{hint}")
    result[target] = block
    return [str(entry) for entry in result]


def _text_arrays(nested: Any) -> Iterator[Array]:
    """Nested texts as an array; and with every ``2`` before a ``1/3`` as one number, where that can be."""
    errors = []
    for form in (nested, join_mixed_numbers(nested)):
        try:
            yield _text_array(form)
        except InputError as error:
            errors.append(error)
    if len(errors) == 2:
        raise errors[0]


def _text_array(nested: Any) -> Array:
    """Nested texts as an array, after every entry was read once; a ``?`` is an empty cell."""

    def mapped(part: Any, change: Callable[[str], str]) -> Any:
        return [mapped(p, change) for p in part] if isinstance(part, list) else change(str(part).strip())

    tensor_from_lists(mapped(nested, lambda entry: "0" if entry in ("", "?") else entry))
    return np.array(mapped(nested, _as_typed), object)


def _as_typed(entry: str) -> str:
    """An entry as a person would type it into a cell: 1/2 for what LaTeX has brought as ((1)/(2))."""
    plain = FRACTION.sub(r"\1\2/\3", entry) if FRACTION.fullmatch(entry) else entry
    return "" if plain == "?" else plain.replace(MIXED_SIGN, " ")


# --- one exercise -------------------------------------------------------------------------------------------
def exercise(**origin: Any) -> dict[str, Any]:
    """An exercise by kind, seed and difficulty: its question, what is given, and the cells to fill in."""
    from headwork.documents.formats.html import blocks_markup
    from headwork.documents.formulas import mathml
    from headwork.exercises.questions import SEPARATORS_SENTENCE, build_question

    current = _exercise_of(**origin)
    question = build_question(current)
    question_text, *notes = question.paragraphs
    conventions: list[str] = []  # the numbers: conventions and options
    if SEPARATORS_SENTENCE in notes:  # which cells do not need; the forms of a number stand before them
        at = notes.index(SEPARATORS_SENTENCE)
        conventions = [*notes[: at - 1], *notes[at + 1 :]]
        notes = [f"{notes[at - 1]} Rows and columns count from 0."]
    fields = []
    for blank in question.blanks:
        grids = {tokens_as: _grid(current, blank.name, tokens_as) for tokens_as in TOKENS_AS}
        rows, columns = grids["rows"], grids["columns"]
        fields.append(
            {
                "name": blank.name,
                "symbol": str(mathml(blank.symbol)) if blank.symbol != blank.name else "",
                "points": blank.points,
                "about": {k: grid.about if grid else blank.shape_text for k, grid in grids.items()},
                "matrices": {k: grid.data() for k, grid in grids.items() if grid},
                "size": rows.entry_indices.size if rows else 0,
                "turns": bool(rows and columns and rows.data() != columns.data()),
            }
        )
    return {
        **current.origin,
        "title": question.title,
        "asked": question_text,
        "given": str(blocks_markup(replace(question, paragraphs=tuple(conventions)).given_blocks())),
        "notes": notes,
        "fields": fields,
        "points": round(current.max_points, 2),
    }


def paste_entries(
    step: str, entries: Any = (), text: str = "", at: int = 0, tokens_as: str = "rows", **origin: Any
) -> dict[str, Any]:
    """The entries of a step after a paste of ``text`` at one of them; which cannot be read; how many."""
    from headwork.grading.answers import read_entries

    _check_length([text, entries] if isinstance(entries, str) else [text, *entries])
    current = _exercise_of(**origin)
    grid = _grid(current, step, tokens_as)
    if grid is None or isinstance(entries, str):  # a text, which may have any shape
        read = read_entries(str(entries or text), axes="" if current.is_challenge or grid else "axis")
        size = format_shape(read.shape, "") if read else ""
        other = read and grid and np.squeeze(read.values).shape not in grid.shapes
        words = f"yours is {size}; expected {grid.about}" if other and grid else size
        return {"entries": str(entries or text), "odd": [], "words": words}
    texts = list(map(str, entries)) or [""] * grid.entry_indices.size
    if text:
        texts = _paste(grid, text, texts, at)
    unreadable = {
        i: reason
        for i, entry in enumerate(texts)
        if entry.strip() and (reason := _reading_error(entry, is_whole_answer=len(texts) == 1))
    }
    count = sum(bool(entry.strip()) for entry in texts)
    words = next(iter(unreadable.values()), f"{count} of {len(texts)} entries" if count else "")
    return {"entries": texts, "odd": list(unreadable), "words": words, "text": grid.text(texts)}


def _check_length(texts: Iterable[Any]) -> None:
    length = sum(len(str(text)) for text in texts)
    if length > MAX_CHARACTERS:
        raise InputError(f"{length:,} characters; at most {MAX_CHARACTERS:,} are read.")


def _answer_texts(current: Exercise, answers: Any, tokens_as: str) -> dict[str, str]:
    """The text of each step as the answer file has it."""
    if not isinstance(answers, Mapping):
        raise InputError("answers: expected an object with an entry for each step.")
    _check_length(e for value in answers.values() for e in (value if isinstance(value, list) else [value]))
    texts = {}
    for step, value in answers.items():
        grid = _grid(current, step, tokens_as)
        texts[step] = grid.text(list(map(str, value))) if grid and isinstance(value, list) else str(value)
    return texts


def mark_answer(answers: Any, tokens_as: str = "rows", hint: int = 2, **origin: Any) -> dict[str, Any]:
    """The marks of an answer, whole or half filled, and hints up to a level: those of ``headwork grade``."""
    from headwork.grading import grade
    from headwork.grading.feedback import as_data, next_step

    current = _exercise_of(**origin)
    mark = grade(current, _answer_texts(current, answers, tokens_as), tokens_as=tokens_as)
    data = as_data(mark, hint)
    for step, entry in zip(mark.steps, data["steps"], strict=True):
        in_cells = isinstance(answers.get(step.path), list)
        entry |= _feedback(mark, step, min(hint, current.hints), where=not in_cells)
    solved: dict[str, Any] = {}
    if mark.all_right and current.mechanism in MECHANISMS:  # to be seen with every number in the first screen
        inputs, options = dict(current.inputs), dict(current.options)
        solved = {"mechanism": current.mechanism, "inputs": inputs, "options": options}
    return {**data, "next": next_step(mark, hint), "all_correct": mark.all_right, "state": solved or None}


def _feedback(mark: Mark, step: StepMark, hint: int, *, where: bool) -> dict[str, Any]:
    """A step in words: what it is, why, and the numbers of the entries to mark. What is open is not wrong."""
    from headwork.grading.feedback import GOOD, hints

    if step.state == "missing":
        open_ = f"{step.causes[0].evidence} entries still open" if step.causes else ""
        verdict = "correct so far" if open_ else "not filled in"
        return {"verdict": verdict, "good": None, "remark": open_, "lines": [], "cells": []}
    entries, cells = mark.entries.get(step.path), []
    shape = mark.exercise.solution[step.path].shape if step.wrong_cells else None
    fits = entries is not None and entries.shape == shape
    if entries is not None and fits and hint >= 1:
        written = [cell for cell in step.wrong_cells if not entries.blank[cell]]
        cells = [int(np.ravel_multi_index(cell, entries.shape)) if cell else 0 for cell in written]
    lines = [] if step.right else [list(line) for line in hints(mark, step, hint, where and bool(fits))]
    return {"verdict": step.verdict, "good": GOOD.get(step.verdict), "lines": lines, "cells": cells}


# --- files --------------------------------------------------------------------------------------------------
def _named_exercises(parts: Any) -> Iterator[tuple[str, Exercise, Any]]:
    """Several exercises with a name each, such as ``self-attention-2``, and what came with them."""
    if not isinstance(parts, list) or not 0 < len(parts) <= MAX_EXERCISES:
        raise InputError(f"exercises: expected a list of 1 to {MAX_EXERCISES}.")
    names: list[str] = []
    for part in parts:
        current = _exercise_of(**{name: part[name] for name in FIRST_EXERCISE})
        names.append(current.kind)
        count = names.count(current.kind)
        yield f"{current.kind}-{count}" if count > 1 else current.kind, current, part


def answer_file(
    exercises: Any, student: str = "", sheet: str = "", tokens_as: str = "rows"
) -> dict[str, Any]:
    """The answer file to hand in, which ``headwork grade`` reads: its name, its text, what to do with it."""
    from headwork.exercises.questions import answer_sheet

    parts = [
        (name, current, _answer_texts(current, part["answers"], tokens_as))
        for name, current, part in _named_exercises(exercises)
    ]
    text = answer_sheet(
        {name: current for name, current, _ in parts},
        student=student.strip()[:MAX_NAME],
        sheet=sheet[:MAX_NAME],
        tokens_as="" if tokens_as == "rows" else tokens_as,
        answers={name: texts for name, _, texts in parts},
    )
    file = f"{safe_file_name(student.strip())}.toml" if student.strip() else "answer.toml"
    words = f"Hand in {file} as your course says. It is marked with: headwork grade {file}"
    return {"name": file, "text": text.encode(errors="replace").decode(), "next": words}


def key_file(exercises: Any, title: str = "") -> dict[str, Any]:
    """The key of a sheet that everybody gets, for ``headwork grade answers/ --key key.toml``."""
    tables = [
        current.to_toml(f"exercise.{toml_text(name)}") for name, current, _ in _named_exercises(exercises)
    ]
    text = "\n".join([f"title = {toml_text(title[:MAX_NAME])}", "", *tables])
    words = "Put what comes back into a folder, then: headwork grade answers/ --key key.toml --out marks/"
    return {"name": "key.toml", "text": text, "next": words}


def read_answer_file(text: str) -> dict[str, Any]:
    """An answer file opened again: who, how tokens are written, and the entries of each exercise."""
    from headwork.grading.answers import answers_from

    _check_length([text])
    where = "the file"
    file = answers_from(parse_toml(text, where), where)
    tokens_as = file.conventions.get("tokens_as", "rows")
    exercises = []
    for name, steps in file.answers.items():
        origin = file.exercises.get(name)
        if not isinstance(origin, Mapping) or len(file.answers) > MAX_EXERCISES:
            raise InputError(f"{where}: it does not say which exercise {name[:60]} is, so it is not opened.")
        current = _exercise_of(**{name: origin.get(name, first) for name, first in FIRST_EXERCISE.items()})
        grids = {step: _grid(current, step, tokens_as) for step in steps}
        answers = {step: _entries_from(grids[step], written) for step, written in steps.items()}
        exercises.append({**current.origin, "answers": answers})
    return {"student": file.student, "tokens_as": tokens_as, "exercises": exercises}


def _entries_from(grid: AnswerGrid | None, text: str) -> Any:
    """The entries of a step from its text; the text itself where it has another shape."""
    if grid is None:
        return text
    empty = [""] * grid.entry_indices.size
    if not re.sub(r"[\s?;,\[\]]", "", text):
        return empty
    try:
        return [text.strip()] if len(empty) == 1 else _paste(grid, text, empty, 0)
    except InputError:
        return text


PRACTISE_CALLS: dict[str, Any] = {"exercise": exercise, "filled": paste_entries, "check": mark_answer}
PRACTISE_CALLS |= {"answer_file": answer_file, "key_file": key_file, "read_answer_file": read_answer_file}
