"""The page to fill in, in a real browser: it saves the file that is graded, and fetches nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.grading import texts
from headwork.courses.answer_page import answer_page
from headwork.courses.cohort import grade_file
from headwork.exercises import generate


@pytest.mark.real("chromium", "playwright")
def test_what_is_filled_in_is_saved_and_graded(tmp_path: Path, part: Any) -> None:
    from playwright.sync_api import sync_playwright

    exercise = generate("linear-attention-recurrent", 4)
    (tmp_path / "page.html").write_text(answer_page({"one": exercise}), encoding="utf-8")
    complaints: list[str] = []
    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=part("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda r: None if r.url.startswith(("file:", "data:", "blob:")) else complaints.append(r.url),
        )
        page.goto((tmp_path / "page.html").as_uri())
        page.fill("#student", 'Ada "A" \\ L.')
        for path, text in texts(exercise, exercise.key, 4).items():
            page.locator(f'[data-name="{path}"]').fill(text.replace("], ", "],\n"))
        with page.expect_download() as saved:
            page.click("button.save")
        saved.value.save_as(tmp_path / "answer.toml")
        browser.close()
    graded = grade_file(tmp_path / "answer.toml")
    assert (graded.state, graded.student) == ("all correct", 'Ada "A" \\ L.')
    assert complaints == []
