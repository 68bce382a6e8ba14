"""The calls of the room Practise: they mark as ``headwork grade`` does, and nothing breaks them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.wrong_answers import making
from headwork.courses.cohort import grade_cohort, grade_file
from headwork.exercises import Exercise, generate, kind_slugs
from headwork.exercises.challenges import CHALLENGES
from headwork.grading import grade
from headwork.grading.feedback import as_data
from headwork.lab import practising
from headwork.lab.calls import run_call

SEVEN = {"kind": "self-attention", "seed": 7, "difficulty": 1}
COMPARED = ("points", "full", "first_wrong")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[Any, ...], Exercise]:
    """Exercises that the calls find instead of drawing them, which takes its time."""
    known: dict[tuple[Any, ...], Exercise] = {}
    drawn = practising._exercise_of

    def find(**origin: Any) -> Exercise:
        place = (origin["kind"], origin["seed"], origin["difficulty"])
        return known[place] if place in known else drawn(**origin)

    monkeypatch.setattr(practising, "_exercise_of", find)
    return known


def marks(data: dict[str, Any]) -> list[Any]:
    """Points, the first wrong step, and of every step its state, points, marked entries and causes."""
    steps = [[s[name] for name in ("step", "state", "points", "causes")] for s in data["steps"]]
    return [*(data[name] for name in COMPARED), *steps]


def in_cells(origin: dict[str, Any], steps: dict[str, str]) -> dict[str, Any]:
    """A written answer, each step pasted into its cells."""
    shown = run_call("exercise", origin)
    sizes = {field["name"]: field["size"] for field in shown["fields"]}
    entries: dict[str, Any] = {}
    for step, text in steps.items():
        filled = run_call("filled", {**origin, "step": step, "text": text}) if sizes[step] else {}
        whole = "entries" in filled and ("?" in text or all(filled["entries"]))
        entries[step] = filled["entries"] if whole else text  # what does not fit, or does not fill all
    return entries


def wrong_and_right(count: int) -> Iterator[tuple[Exercise, dict[str, str], str]]:
    """So many answers over all kinds in turn: mostly wrong, every fifth right, every seventh in columns."""
    exercises, rows = making.read()
    by_origin = {tuple(row["exercise"]): row for row in exercises}
    kinds = [[row for row in rows if row["answer"][0] == kind] for kind in kind_slugs()]
    turns = [row for turn in zip_longest(*(k for k in kinds if k)) for row in turn if row]
    challenges = [generate(slug, seed) for seed in range(3) for slug in CHALLENGES]
    for number in range(count):
        if number % 9 == 8:
            exercise = challenges[number // 9 % len(challenges)]
            fields = CHALLENGES[exercise.mechanism].fields
            values = ("1 0; 0 1", "3 1 2; 0 1 1; 1 1 0", "", "1 2; x", "1/2 1; 1 0; 2 2")
            yield exercise, {name: "2" if name == "beta" else values[number % 5] for name in fields}, "rows"
            continue
        row = turns[number % len(turns)]
        exercise = making.exercise(by_origin[tuple(row["answer"])])
        right = number % 5 == 0
        steps = making.right_answer(exercise, making.STYLES[number % 4]) if right else dict(row["steps"])
        yield exercise, steps, "columns" if number % 7 == 6 else "rows"


def half(entries: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same answer with a third of its cells left open."""
    chance = np.random.default_rng(seed)
    return {
        step: [e if chance.random() > 0.3 else "" for e in value] if isinstance(value, list) else value
        for step, value in entries.items()
    }


def compare(count: int, folder: Path, known: dict[tuple[Any, ...], Exercise]) -> int:
    """Marks so many answers both ways; gives how many there were with something wrong."""
    wrong = 0
    for number, (exercise, steps, tokens_as) in enumerate(wrong_and_right(count)):
        known[tuple(exercise.origin.values())] = exercise
        entries = in_cells(exercise.origin, steps)
        if tokens_as == "rows":  # in cells it is the answer that was written
            whole = run_call("check", {**exercise.origin, "answers": entries})
            assert marks(whole) == marks(as_data(grade(exercise, steps), 2)), (exercise.origin, steps)
        if number % 4 == 3:
            entries = half(entries, number)
        shown = run_call("check", {**exercise.origin, "answers": entries, "tokens_as": tokens_as})
        part = {**exercise.origin, "answers": entries}
        file = run_call("answer_file", {"exercises": [part], "student": "ada", "tokens_as": tokens_as})
        place = folder / str(number)
        place.mkdir()
        (place / file["name"]).write_text(file["text"], encoding="utf-8")
        (place / "exercise.toml").write_text(exercise.to_toml(), encoding="utf-8")
        graded = grade_file(place / file["name"])
        assert not graded.problem, graded.problem
        assert marks(shown) == marks(as_data(graded.marks[exercise.kind], 2)), (exercise.origin, entries)
        wrong += not shown["all_correct"]
    return wrong


def test_marks_and_causes_are_those_of_headwork_grade(tmp_path: Path, kept: Any) -> None:
    assert 20 < compare(40, tmp_path, kept) < 40


@pytest.mark.soak
def test_a_thousand_answers_are_marked_as_headwork_grade_marks_them(tmp_path: Path, kept: Any) -> None:
    assert 600 < compare(1000, tmp_path, kept) < 1000


def test_the_command_says_the_same_of_the_file(tmp_path: Path, headwork_command: Any) -> None:
    entries = in_cells(SEVEN, {"query": "1 2; 3 4; 5 6", "key": "0 0; 0 0; 0 0"})
    file = run_call("answer_file", {"exercises": [{**SEVEN, "answers": entries}]})
    (tmp_path / "answer.toml").write_text(file["text"], encoding="utf-8")
    import headwork.cli.practise  # noqa: F401  the command

    code, out, _ = headwork_command("grade", tmp_path / "answer.toml", "--json")
    shown = run_call("check", {**SEVEN, "answers": entries})
    assert code == 1
    assert marks(shown) == marks(json.loads(out)["self-attention"])


def test_the_page_starts_without_exercises_and_grading() -> None:
    loaded = "[m for m in sys.modules if 'grading' in m or 'exercises' in m]"
    script = f"import sys, headwork.lab.calls; print({loaded})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- one exercise -----------------------------------------------------------------------------------------
def test_every_kind_has_a_group_and_can_be_drawn_shown_and_checked_empty() -> None:
    listed = run_call("kinds", {})
    assert [one["kind"] for one in listed["kinds"]] == kind_slugs()
    assert all(one["group"] and one["asks"] for one in listed["kinds"])
    for slug in (
        "self-attention",
        "multi-head-attention",
        "output-size",
        "head-shapes",
        "construct-identity",
    ):
        shown = run_call("exercise", {"kind": slug, "seed": 2, "difficulty": 1})
        assert shown["asked"]
        checked = run_call("check", {"kind": slug, "seed": 2, "difficulty": 1, "answers": {}})
        assert checked["points"] == 0
        assert {step["verdict"] for step in checked["steps"]} == {"not filled in"}


def test_heads_have_a_grid_each_and_columns_turn_it() -> None:
    fields = run_call("exercise", {"kind": "multi-head-attention", "seed": 3, "difficulty": 1})["fields"]
    query = next(field for field in fields if field["name"] == "query")
    assert [m["caption"] for m in query["matrices"]["rows"]] == ["head 0", "head 1"]
    assert query["matrices"]["rows"][1]["cells"] == [[2, 3], [6, 7]]
    assert query["matrices"]["columns"][1]["cells"] == [[2, 6], [3, 7]]
    assert query["about"]["rows"] == "2 x 2 (token, head width) for each head"


def test_a_planted_mistake_is_named_with_its_cells_and_what_follows_is_marked_from_it() -> None:
    exercise = generate(**SEVEN)
    own = dict(exercise.case.run({"scores": exercise.solution["scores"].T}))
    texts = {step: str(own[step].round(4).tolist()) for step in exercise.asked}
    shown = run_call("check", {**SEVEN, "answers": in_cells(SEVEN, texts)})
    assert (shown["first_wrong"], shown["points"]) == ("scores", 5)
    scores, weights = (next(s for s in shown["steps"] if s["step"] == name) for name in ("scores", "weights"))
    assert scores["lines"][0][0] == "why"
    assert "transposed" in scores["causes"][0]["cause"]
    assert [label for label, _ in scores["lines"]] == ["why", "what shows it"]
    off = np.argwhere(exercise.solution["scores"] != exercise.solution["scores"].T)
    assert scores["cells"] == [3 * int(i) + int(j) for i, j in off]
    assert weights["remark"] == "follows from your own numbers"
    assert shown["next"].startswith(
        "Next: work out scores again. What follows from it was marked from your own"
    )


def test_hints_by_level() -> None:
    wrong = {"query": ["1", "2", "3", "4", "5", "6"]}
    first = [run_call("check", {**SEVEN, "answers": wrong, "hint": level})["steps"][0] for level in range(4)]
    assert [bool(step["cells"]) for step in first] == [False, True, True, True]
    assert [len(step["lines"]) for step in first] == [0, 0, 2, 4]
    assert first[3]["lines"][2][0] == "from your own earlier numbers it is"


def test_half_filled_is_open_and_not_wrong() -> None:
    key = generate(**SEVEN).solution["query"]
    entries = [str(x) for x in key.ravel()]
    shown = run_call("check", {**SEVEN, "answers": {"query": [*entries[:4], "", ""]}})["steps"][0]
    assert (shown["verdict"], shown["good"], shown["remark"]) == (
        "correct so far",
        None,
        "2 of 6 entries still open",
    )
    shown = run_call("check", {**SEVEN, "answers": {"query": ["99", *entries[1:4], "", ""]}})["steps"][0]
    assert (shown["verdict"], shown["cells"]) == ("incorrect", [0])


def test_what_is_all_correct_can_be_seen_live() -> None:
    exercise = generate(**SEVEN)
    texts = {step: str(exercise.solution[step].round(4).tolist()) for step in exercise.asked}
    shown = run_call("check", {**SEVEN, "answers": in_cells(SEVEN, texts)})
    assert (shown["all_correct"], shown["next"]) == (True, "All correct.")
    assert "error" not in run_call("explain", {"state": shown["state"]})


# --- cells ------------------------------------------------------------------------------------------------
def test_any_form_can_be_pasted() -> None:
    forms = [
        "1\t2\n1/2\t-1\n0\t3",
        r"Q = \begin{bmatrix} 1 & 2 \\ \tfrac12 & -\frac{2}{2} \\ 0 & 3 \end{bmatrix}",
        "array([[1, 2], [1/2, -1], [0, 3]])",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| ½ | −1 |\n| 0 | 3 |",
        "1 2; 0 1/2 -1; 0 3",
    ]
    for text in forms:
        filled = run_call("filled", {**SEVEN, "step": "query", "text": text})
        numbers = [practising.read_number(practising._entry_text(entry)) for entry in filled["entries"]]
        assert numbers == [1, 2, 0.5, -1, 0, 3], text
        assert filled["words"] == "6 of 6 entries"
    scaled = run_call("filled", {**SEVEN, "step": "query", "text": "1/4 * [1 2; 3 4; 5 6]"})["entries"]
    assert [practising.read_number(entry) for entry in scaled] == [0.25, 0.5, 0.75, 1, 1.25, 1.5]


def test_a_row_goes_where_the_cursor_is_and_what_does_not_fit_changes_nothing() -> None:
    empty = {**SEVEN, "step": "query", "entries": [""] * 6}
    assert run_call("filled", {**empty, "text": "7 8", "at": 2})["entries"] == ["", "", "7", "8", "", ""]
    wide = run_call("filled", {**empty, "text": "1 2 3; 4 5 6"})["error"]["message"]
    assert wide == "yours is 2 x 3; expected 3 x 2. Are rows and columns exchanged?"
    assert "ragged rows" in run_call("filled", {**empty, "text": "1 2; 3"})["error"]["message"]
    assert "cannot read" in run_call("filled", {**empty, "text": "1 2; 3 <b>; 1 1"})["error"]["message"]
    heads = {"kind": "multi-head-attention", "seed": 3, "difficulty": 1, "step": "query", "entries": [""] * 8}
    one = run_call("filled", {**heads, "text": "1 2; 3 4", "at": 2})["entries"]
    assert one == ["", "", "1", "2", "", "", "3", "4"]


def test_a_wrong_shape_is_kept_as_text_and_its_cause_is_named() -> None:
    exercise = generate("convolution-1d", 12, 2)
    plain = generate("convolution-1d", 12, 2).case
    wide = replace(plain, options={**plain.options, "stride": 1}).run()["output"]
    text = " ".join(f"{x:g}" for x in wide.ravel())
    assert (
        "expected"
        in run_call("filled", {**exercise.origin, "step": "output", "text": text})["error"]["message"]
    )
    kept = run_call("filled", {**exercise.origin, "step": "output", "entries": text})
    assert kept["words"].startswith(f"yours is {wide.size}; expected")
    shown = run_call("check", {**exercise.origin, "answers": {"output": text}})
    assert shown["steps"][0]["causes"][0]["cause"] == "stride-forgotten"


def test_an_entry_that_cannot_be_read_is_named() -> None:
    filled = run_call(
        "filled", {**SEVEN, "step": "query", "entries": ["1", "0,5", "2 1/3", "1 / 3", "", "1 2"]}
    )
    assert filled["odd"] == [1, 5]
    assert "Write a decimal point, not a comma." in filled["words"]
    assert practising._entry_text("-2 1/3") == "-(2+1/3)"
    size = {"kind": "output-size", "seed": 1, "difficulty": 1, "step": "output"}
    assert run_call("filled", {**size, "entries": ["37 056"]})["odd"] == []


def test_too_much_and_nonsense_are_refused_in_words() -> None:
    long = "1 " * 5_000_000
    for request in (
        {**SEVEN, "answers": {"query": [long, "", "", "", "", ""]}},
        {**SEVEN, "answers": {"query": long}},
    ):
        assert "characters; at most 200,000 are read" in run_call("check", request)["error"]["message"]
    message = run_call("filled", {**SEVEN, "step": "query", "text": long})["error"]["message"]
    assert "at most 200,000" in message
    assert "at most 200,000" in run_call("read_answer_file", {"text": long})["error"]["message"]
    for bad in (
        {"answers": []},
        {"answers": {"scores": ["1"]}},
        {"answers": {"<b>": "1"}},
        {"answers": {"query": ["1"] * 6}, "tokens_as": "row"},
        {"answers": {}, "seed": -1},
        {"answers": {}, "kind": "<img src=x>"},
        {"answers": {}, "difficulty": 9},
        {"answers": {}, "hint": "2"},
        {"answers": {}, "kind": ["self-attention"]},
    ):
        assert run_call("check", {**SEVEN, **bad})["error"]["message"], bad


# --- files ------------------------------------------------------------------------------------------------
def test_a_sheet_is_one_file_that_is_graded_by_the_key_and_opened_again(tmp_path: Path) -> None:
    parts = [SEVEN, {**SEVEN, "seed": 8}, {"kind": "output-size", "seed": 3, "difficulty": 1}]
    filled = [
        {
            **part,
            "answers": in_cells(part, {step: str(value.tolist()) for step, value in asked(part).items()}),
        }
        for part in parts
    ]
    name = 'Zoë "Z" 𝟙 \x7f <b>'
    file = run_call("answer_file", {"exercises": filled, "student": name, "sheet": "Sheet 3"})
    assert file["name"] == "Zo-Z-b.toml"
    lone = run_call("answer_file", {"exercises": filled[:1], "student": "a\ud800"})
    assert 'student = "a?"' in lone["text"]
    assert "headwork grade Zo-Z-b.toml" in file["next"]
    data = tomllib.loads(file["text"])
    assert (data["student"], data["sheet"]) == (name, "Sheet 3")
    assert list(data["answers"]) == ["self-attention", "self-attention-2", "output-size"]
    (tmp_path / "answers").mkdir()
    (tmp_path / "answers" / file["name"]).write_text(file["text"], encoding="utf-8")
    key = run_call("key_file", {"exercises": parts, "title": "Sheet 3"})
    (tmp_path / "key.toml").write_text(key["text"], encoding="utf-8")
    (graded,) = grade_cohort(tmp_path / "answers", tmp_path / "key.toml")
    assert (graded.problem, graded.state, graded.flags) == ("", "all correct", ())
    again = run_call("read_answer_file", {"text": file["text"]})
    assert again["student"] == name
    for one, part in zip(again["exercises"], filled, strict=True):
        assert one == part


def asked(part: dict[str, Any]) -> dict[str, Any]:
    exercise = generate(**part)
    return {step: exercise.solution[step].round(6) for step in exercise.asked}


def test_a_file_with_tokens_as_columns_opens_the_same(tmp_path: Path) -> None:
    entries = in_cells(SEVEN, {"query": "1 2; 3 4; 5 6", "weights": "1 0 0; ? 1 0; 0 0 1"})
    file = run_call("answer_file", {"exercises": [{**SEVEN, "answers": entries}], "tokens_as": "columns"})
    assert '"query" = "1 3 5\\n2 4 6"' in file["text"]
    again = run_call("read_answer_file", {"text": file["text"]})
    assert again["tokens_as"] == "columns"
    opened = again["exercises"][0]["answers"]
    assert (opened["query"], opened["weights"]) == (entries["query"], entries["weights"])


def test_a_file_that_is_no_answer_is_refused_in_words() -> None:
    for text, words in (
        ("<html>", "not valid TOML"),
        ("a = 1", "no table [answers.NAME]"),
        ('[answers."x"]\nquery = "1"', "does not say which exercise x is"),
        ('[exercise.x]\nkind = "nothing"\n[answers.x]\nquery = "1"', "unknown kind of exercise"),
        ("[exercise.x]\nkind = 7\nseed = [1]\n[answers.x]\nquery = '1'", "does not fit"),
    ):
        assert words in run_call("read_answer_file", {"text": text})["error"]["message"]
