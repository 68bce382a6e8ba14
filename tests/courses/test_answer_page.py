"""The page to fill in, in a real browser: it saves the file that is graded, and fetches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.grading import texts
from headwork.courses.answer_page import answer_page
from headwork.courses.cohort import grade_file
from headwork.exercises import generate

pytestmark = pytest.mark.real("chromium", "playwright")
PASTE = """text => {
  const data = new DataTransfer();
  data.setData("text", text);
  const event = new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true});
  document.activeElement.dispatchEvent(event);
}"""


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens pages that share their storage; at the end none has complained or fetched."""
    complaints: list[str] = []
    context = browser.new_context()

    def opening(text: str, name: str = "page.html") -> Any:
        (tmp_path / name).write_text(text, encoding="utf-8")
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else complaints.append(r.url),
        )
        page.goto((tmp_path / name).as_uri())
        return page

    yield opening
    context.close()
    assert complaints == []


def save(page: Any, path: Path) -> Path:
    with page.expect_download() as saved:
        page.click("button.save")
    saved.value.save_as(path)
    return path


def paste(page: Any, step: str, text: str) -> None:
    page.locator(f'.blank:has([data-name="{step}"]) .cells input').first.focus()
    page.evaluate(PASTE, text)


def check(page: Any, step: str) -> str:
    return str(page.locator(f'.blank:has([data-name="{step}"]) .check').text_content())


def test_what_is_filled_in_is_saved_graded_and_opened_again(opened: Any, tmp_path: Path) -> None:
    exercise = generate("linear-attention-recurrent", 4)
    page = opened(answer_page({"one": exercise}, next_step="Next: headwork grade ex/answer.toml"))
    page.fill("#student", 'Ada "A" \\ L.')
    page.check("#as-text")
    answers = texts(exercise, exercise.solution, 4)
    for path, text in answers.items():
        page.locator(f'[data-name="{path}"]').fill(text.replace("], ", "],\n"))
    graded = grade_file(save(page, tmp_path / "answer.toml"))
    assert (graded.state, graded.student) == ("all correct", 'Ada "A" \\ L.')
    assert "Saved as answer.toml" in page.locator("#saved").text_content()
    assert "headwork grade ex/answer.toml" in page.locator("#saved").text_content()
    page.evaluate("localStorage.clear()")
    again = opened(answer_page({"one": exercise}), "again.html")
    assert again.input_value("#student") == ""
    again.set_input_files("#open", tmp_path / "answer.toml")
    again.wait_for_function("document.getElementById('saved').textContent")
    assert again.input_value("#student") == 'Ada "A" \\ L.'
    assert grade_file(save(again, tmp_path / "second.toml")).state == "all correct"


def test_cells_take_a_whole_matrix_and_say_what_shape_it_has(opened: Any, tmp_path: Path) -> None:
    exercise = generate("self-attention", 7)
    page = opened(answer_page({"one": exercise}))
    for path in exercise.asked:
        rows = exercise.solution[path].round(4).tolist()
        paste(page, path, "\n".join("\t".join(map(str, row)) for row in rows))
        assert (
            check(page, path) == f"{exercise.solution[path].size} of {exercise.solution[path].size} entries"
        )
    assert grade_file(save(page, tmp_path / "answer.toml")).state == "all correct"
    paste(page, "query", r"\begin{bmatrix} 1 & 2 & 3 \\ 4 & 5 & 6 \end{bmatrix}")
    assert check(page, "query") == "yours is 2 x 3; expected 3 x 2"
    page.locator('.blank:has([data-name="query"]) .cells input').first.fill("0,5")
    assert "Write a decimal point" in check(page, "query")


def test_tokens_as_columns_turn_the_cells_and_are_told_to_the_marker(opened: Any, tmp_path: Path) -> None:
    exercise = generate("self-attention", 7)
    page = opened(answer_page({"one": exercise}))
    page.check("#columns")
    for path in exercise.asked:
        paste(page, path, str(exercise.solution[path].T.round(4).tolist()))
    assert grade_file(save(page, tmp_path / "answer.toml")).state == "all correct"
    page.uncheck("#columns")  # what is filled in turns with the cells
    assert grade_file(save(page, tmp_path / "turned.toml")).state == "all correct"
    assert "columns" not in (tmp_path / "turned.toml").read_text()


def shows(page: Any, selector: str, value: str) -> bool:
    """Whether the page shows what another one stored, which Chromium hands on a moment later."""
    for _ in range(50):
        if page.locator(selector).first.input_value() == value:
            return True
        page.wait_for_timeout(100)
        page.reload()
    return False


def test_what_is_kept_belongs_to_one_exercise_and_the_name_to_all(opened: Any) -> None:
    pages = {seed: answer_page({"one": generate("self-attention", seed)}) for seed in (1, 2)}
    first = opened(pages[1], "one.html")
    first.fill("#student", "ada")
    first.locator(".cells input").first.fill("5")
    other = opened(pages[2], "two.html")
    assert shows(other, "#student", "ada")
    assert shows(opened(pages[1], "one.html"), ".cells input", "5")
    other.reload()
    assert other.locator(".cells input").first.input_value() == ""
    other.set_input_files(
        "#open",
        files=[
            {
                "name": "a.toml",
                "mimeType": "text/plain",
                "buffer": b'[exercise."one"]\nseed = 1\n[answers."one"]\nquery = "1"',
            }
        ],
    )
    other.wait_for_function("document.getElementById('saved').textContent")
    assert "another exercise" in other.locator("#saved").text_content()
