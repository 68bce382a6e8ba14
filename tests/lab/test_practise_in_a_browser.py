"""The room Practise in a real browser: a mistake and its cause, cells, files, links, hostile files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwork.courses.cohort import grade_file
from headwork.exercises import Exercise, generate

pytestmark = pytest.mark.real("chromium", "playwright")
FIRST = ("self-attention", 1, 1)
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const event = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
  document.activeElement.dispatchEvent(event);
}"""
BAD = "<img src=x onerror=document.title='bad'>"


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expecting

    return expecting(locator)


@pytest.fixture(scope="module")
def exercise() -> Exercise:
    return generate(*FIRST)


@pytest.fixture
def room(opened: Any, served: Any) -> Any:
    """Opens the room at an address of its own, with whatever options a browser takes."""

    def opening(place: str = "", **more: Any) -> Any:
        page = opened(f"{served.address}#/practise{place}", **more)
        page.locator(".step, [role=alert]").first.wait_for()
        return page

    return opening


def step(page: Any, name: str) -> Any:
    return page.locator(f".step[aria-label='{name}']")


def paste(page: Any, name: str, text: str) -> None:
    step(page, name).locator("input").first.focus()
    page.evaluate(PASTE, text)


def render_template(page: Any, exercise: Exercise, **wrong: Any) -> None:
    """All steps by paste, from the wrong ones on."""
    steps = exercise.case.run(wrong)
    for name in exercise.asked:
        paste(page, name, str(steps[name].round(4).tolist()))
        expect(step(page, name).locator(".check")).to_contain_text("of")


def check(page: Any) -> None:
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".summary")).to_contain_text("points")


def open_drawer(page: Any, words: str) -> None:
    page.locator("summary").filter(has_text=words).click()


def test_a_stranger_makes_a_mistake_and_reads_its_cause(opened: Any, served: Any, exercise: Exercise) -> None:
    """From the start page: the third projection is made with W_v not transposed, typed cell by cell."""
    page = opened(f"{served.address}#/start")
    page.get_by_role("link", name="Practise Work an exercise").click()
    tokens, W_v = (exercise.case.inputs[name].array for name in ("tokens", "W_v"))
    steps = {**{name: exercise.solution[name] for name in ("query", "key")}, "value": tokens @ W_v}
    for name, value in steps.items():
        step(page, name).locator("input").first.click()
        for row in value.tolist():
            for number in row:
                page.keyboard.type(f"{number:g}")
                page.keyboard.press("Tab")
    check(page)
    assert step(page, "query").locator(".verdict").inner_text() == "correct"
    expect(step(page, "value").locator(".verdict")).to_have_text("incorrect")
    expect(step(page, "value").locator("dl")).to_contain_text("a matrix is applied transposed: x W for W x")
    expect(step(page, "value").locator("dt").first).to_have_text("why")
    assert step(page, "value").locator("input.wrong").count() > 0
    assert step(page, "query").locator("input.wrong").count() == 0
    expect(step(page, "scores").locator(".verdict")).to_have_text("not filled in")
    expect(page.locator(".summary")).to_contain_text("2 of 6 points. Next: work out value again.")


def test_marks_of_the_page_are_those_of_the_file_it_saves(
    room: Any, exercise: Exercise, tmp_path: Path
) -> None:
    page = room("/self-attention/1/1")
    render_template(page, exercise, scores=exercise.solution["scores"].T)
    check(page)
    open_drawer(page, "Hand it in")
    page.get_by_label("Your name or ID").fill("Ada")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the answer file").click()
    assert download.value.suggested_filename == "Ada.toml"
    download.value.save_as(tmp_path / "Ada.toml")
    mark = grade_file(tmp_path / "Ada.toml").marks["self-attention"]
    first = mark.first_wrong
    assert first is not None
    shown = page.locator(".step.first")
    assert shown.get_attribute("aria-label") == first.path
    expect(shown.locator("dd").first).to_have_text(first.causes[0].sentence)
    expect(page.locator(".summary")).to_contain_text(f"{mark.points:g} of {mark.max_points:g} points")
    assert shown.locator("input.wrong").count() == len(first.wrong_cells)
    expect(step(page, "weights").locator(".feedback")).to_contain_text("follows from your own numbers")
    expect(page.locator(".drawers")).to_contain_text("headwork grade Ada.toml")


def test_hints_come_one_by_one_and_a_changed_cell_is_no_longer_marked(room: Any, exercise: Exercise) -> None:
    page = room("/self-attention/1/1?~hints=2")
    paste(page, "query", "9 9; 9 9; 9 9")
    page.locator(".tells").get_by_text("correct or not").click()
    check(page)
    query = step(page, "query")
    assert query.locator("input.wrong, dl").count() == 0
    query.get_by_role("button", name="Where?").click()
    expect(query.locator("input.wrong").first).to_be_visible()
    query.get_by_role("button", name="Why?").click()
    expect(query.locator("dl")).to_contain_text("no known mistake")
    assert query.locator(".feedback button").count() == 0, "the teacher's link allows no more"
    wrong = query.locator("input.wrong").first
    number = query.locator("input.wrong").count()
    wrong.fill("1")
    expect(query.locator("input.wrong")).to_have_count(number - 1)
    page = room("/self-attention/1/1")
    paste(page, "query", "9 9; 9 9; 9 9")
    check(page)
    step(page, "query").get_by_role("button", name="Show the correct step").click()
    expect(step(page, "query").locator("dl")).to_contain_text("from your own earlier numbers it is")


def test_all_correct_leads_to_the_live_numbers_and_to_others(room: Any, exercise: Exercise) -> None:
    page = room("/self-attention/1/1")
    render_template(page, exercise)
    check(page)
    expect(page.locator(".summary")).to_have_text("All correct: 6 of 6 points.")
    expect(page.locator(".controls select option[value='self-attention']")).to_have_text("self attention ✓")
    page.get_by_role("link", name="See every number of it live").click()
    weight = page.locator("td[data-path='weights'][data-index='0,1']")
    expect(weight).to_have_text(f"{exercise.solution['weights'][0, 1]:.4f}")
    page.go_back()
    expect(step(page, "query").locator("input").first).not_to_have_value("")
    page.get_by_role("button", name="Try again").click()
    expect(step(page, "query").locator("input").first).to_have_value("")
    page.get_by_role("button", name="Bring back").click()
    expect(step(page, "query").locator("input").first).not_to_have_value("")
    page.locator(".check-bar").get_by_role("button", name="Next variant").click()
    page.wait_for_url("**/self-attention/2/1")
    expect(step(page, "query").locator("input").first).to_have_value("")


def test_cells_say_what_they_cannot_take(room: Any) -> None:
    page = room("/self-attention/1/1")
    query = step(page, "query")
    paste(page, "query", r"\begin{bmatrix} 1 & 2 \\ 3 & \frac12 \\ 5 & 6 \end{bmatrix}")
    expect(query.locator(".check")).to_have_text("6 of 6 entries")
    paste(page, "query", "1 2 3; 4 5 6")
    words = "yours is 2 x 3; expected 3 x 2. Are rows and columns exchanged?"
    expect(query.locator(".check.bad")).to_contain_text(words)
    expect(query.locator("input").nth(5)).to_have_value("6")
    query.get_by_role("button", name="Keep it all the same, as text").click()
    expect(query.locator(".check")).to_have_text("yours is 2 x 3; expected 3 x 2 (token, key width)")
    check(page)
    expect(query.locator("dl")).to_contain_text("yours is 2 x 3, it should be 3 x 2")
    query.locator("textarea").fill("1 2; 3 4; 5 6")
    query.get_by_role("button", name="as cells").click()
    expect(query.locator("input").nth(5)).to_have_value("6")
    query.locator("input").nth(1).fill("0,5")
    expect(query.locator(".check.bad")).to_contain_text("Write a decimal point, not a comma.")
    expect(query.locator("input.odd")).to_have_count(1)
    paste(page, "query", "1\t2\n" * 200_000)
    expect(query.locator(".check.bad")).to_contain_text("bytes; at most 256,000 are read at once")


def test_tokens_as_columns_turn_the_cells_and_keep_what_is_in_them(room: Any, exercise: Exercise) -> None:
    page = room("/self-attention/1/1")
    render_template(page, exercise)
    page.get_by_text("as columns", exact=True).click()
    rows = step(page, "query").locator("tbody tr")
    expect(rows).to_have_count(2)
    assert rows.first.locator("input").nth(1).input_value() == str(exercise.solution["query"][1, 0])
    check(page)
    expect(page.locator(".summary")).to_have_text("All correct: 6 of 6 points.")
    paste(page, "query", str(exercise.solution["query"].T.tolist()))
    check(page)
    expect(page.locator(".summary")).to_have_text("All correct: 6 of 6 points.")


def test_by_keyboard_alone(room: Any) -> None:
    page = room("/self-attention/1/1")
    for _ in range(40):
        page.keyboard.press("Tab")
        if "query row 0, column 0" in (page.evaluate("document.activeElement.ariaLabel") or ""):
            break
    for text, key in (("7", "Enter"), ("8", "ArrowRight"), ("9", "ArrowUp")):
        page.keyboard.type(text)
        page.keyboard.press(key)
    page.keyboard.type("x")
    page.keyboard.press("Escape")
    values = step(page, "query").locator("input").evaluate_all("all => all.map((one) => one.value)")
    assert values == ["7", "", "8", "9", "", ""]
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid", (
        "the focus is seen"
    )
    page.keyboard.press("Control+Enter")
    expect(page.locator("#announcer")).to_contain_text("points. Next: work out query again")
    assert page.evaluate("document.activeElement.classList.contains('wrong')")


def test_by_touch_on_a_phone(room: Any) -> None:
    page = room("/self-attention/1/1", width=390, height=844, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    step(page, "query").locator("input").first.tap()
    page.keyboard.type("5")
    page.get_by_role("button", name="Check", exact=True).tap()
    expect(step(page, "query").locator(".verdict")).to_have_text("incorrect")
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_progress_is_kept_exported_and_imported(room: Any, tmp_path: Path) -> None:
    page = room("/self-attention/1/1")
    step(page, "query").locator("input").first.fill("5")
    check(page)
    page.reload()
    expect(step(page, "query").locator("input").first).to_have_value("5")
    open_drawer(page, "Your progress")
    expect(page.locator(".done li")).to_contain_text("self attention, easy, variant 1 0 of 6 points, 1 check")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    download.value.save_as(tmp_path / "progress.json")
    other = room("/self-attention/1/1")
    expect(step(other, "query").locator("input").first).to_have_value("")
    open_drawer(other, "Your progress")
    other.set_input_files("#practice-file", tmp_path / "progress.json")
    expect(other.locator(".drawers [role=status].hint").nth(1)).to_have_text(
        "progress.json: 1 exercise read."
    )
    expect(step(other, "query").locator("input").first).to_have_value("5")


def hostile() -> Iterator[tuple[str, bytes]]:
    deep = {"headwork": "progress", "exercises": {f"{BAD}/1/1": {}, "__proto__": {"answers": {"a": [BAD]}}}}
    yield "html.json", b"<html><script>document.title='bad'</script>"
    yield "list.json", b"[1, 2]"
    yield "names.json", json.dumps({**deep, "student": BAD, "last": BAD}).encode()
    yield f"{BAD.replace('/', '')}.json", b'{"headwork": "progress", "exercises": 7}'
    yield "large.json", b" " * 10_000_000
    yield "large.toml", b"a" * 10_000_000
    yield "bad.toml", f'student = "x"\n[answers."{BAD}"]\nquery = "1"'.encode()


def test_a_hostile_file_changes_nothing_and_never_runs(room: Any, tmp_path: Path) -> None:
    page = room("/self-attention/1/1")
    open_drawer(page, "Your progress")
    said = page.locator(".drawers [role=status].hint").nth(1)
    for name, data in hostile():
        (tmp_path / name).write_bytes(data)
        page.set_input_files("#practice-file", tmp_path / name)
        words = (
            "0 exercises read"
            if name == "names.json"
            else "at most 2,000,000"
            if "large" in name
            else "nothing was changed"
        )
        expect(said).to_contain_text(words)
        assert page.locator("img").count() == 0
    values = {"self-attention/1/1": {"answers": {"query": [BAD] * 6, "__proto__": [BAD]}, "points": 1e9}}
    data = json.dumps({"headwork": "progress", "student": BAD, "exercises": values}).encode()
    page.set_input_files("#practice-file", [{"name": "x.json", "mimeType": "text/plain", "buffer": data}])
    expect(step(page, "query").locator("input").first).to_have_value(BAD)
    check(page)
    expect(step(page, "query").locator(".verdict")).to_have_text("unreadable")
    for place in (f"/{BAD}", f"/self-attention/1/1?~title={BAD}", f"/self-attention/{BAD}/1+{BAD}"):
        other = room(place)
        other.wait_for_timeout(200)
        assert (other.title(), other.locator("img").count()) == ("Headwork lab", 0)
    assert page.title() == "Headwork lab"


def test_a_browser_that_keeps_nothing_says_so(opened: Any, served: Any) -> None:
    get = "get() { throw new DOMException('denied', 'SecurityError'); }"
    refuses = f"Object.defineProperty(window, 'localStorage', {{ {get} }});"
    page = opened(served.address)
    page.add_init_script(refuses)
    page.goto(f"{served.address}#/practise")
    page.reload()
    page.locator(".step").first.wait_for()
    step(page, "query").locator("input").first.fill("5")
    check(page)
    open_drawer(page, "Your progress")
    expect(page.locator(".drawers")).to_contain_text("This browser keeps nothing for this page")


def test_a_teacher_makes_a_link_to_a_sheet_and_a_student_opens_it(
    room: Any, served: Any, tmp_path: Path
) -> None:
    page = room("/self-attention/1/1")
    open_drawer(page, "For teachers")
    page.get_by_role("button", name="Add this exercise to a sheet").click()
    page.get_by_label("Kind of exercise").select_option("output-size")
    page.wait_for_url("**/output-size/1/1")
    expect(page.locator("h1")).to_have_text("Output size")
    page.get_by_role("button", name="Add this exercise to a sheet").click()
    page.get_by_label("Title").fill("Sheet 3 <b>")
    page.get_by_label("Hints go up to").select_option("why it is wrong")
    link = page.get_by_label("Link for students").input_value()
    assert (
        link == "course.html#/practise/self-attention/1/1+output-size/1/1?%7Etitle=Sheet+3+%3Cb%3E&%7Ehints=2"
    )
    assert "token" not in link
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the key").click()
    assert download.value.suggested_filename == "key.toml"
    student = room(link.removeprefix("course.html#/practise"))
    expect(student.locator(".sheet b")).to_have_text("Sheet 3 <b>")
    assert student.locator(".sheet button").all_inner_texts() == ["1. self attention", "2. output size"]
    step(student, "query").locator("input").first.fill("5")
    check(student)
    expect(student.locator(".sheet button").first).to_have_text("1. self attention 0/6")
    student.get_by_role("button", name="Next exercise").click()
    expect(student.locator("h1")).to_have_text("Output size")
    student.locator(".step input").first.fill("37")
    open_drawer(student, "Hand it in")
    with student.expect_download() as download:
        student.get_by_role("button", name="Save the answer file").click()
    download.value.save_as(tmp_path / "answer.toml")
    assert list(grade_file(tmp_path / "answer.toml").marks) == ["self-attention", "output-size"]
    again = room("/self-attention/1/1")
    open_drawer(again, "Your progress")
    again.set_input_files("#practice-file", tmp_path / "answer.toml")
    again.locator(".sheet button").nth(1).click()
    expect(again.locator(".step input").first).to_have_value("37")


def test_a_challenge_takes_any_matrix_and_says_whether_it_works(room: Any) -> None:
    page = room("/construct-identity/1/1")
    size = page.locator(".given td").count() ** 0.5
    identity = "; ".join(" ".join("1" if i == j else "0" for j in range(int(size))) for i in range(int(size)))
    for name, text in (("query", identity), ("key", identity), ("beta", "1")):
        step(page, name).locator("textarea").fill(text)
    check(page)
    expect(step(page, "beta").locator(".verdict")).to_have_text("incorrect")
    expect(step(page, "beta").locator("dl")).to_contain_text("not by enough")
    step(page, "beta").locator("textarea").fill("oo")
    check(page)
    expect(page.locator(".summary")).to_contain_text("All correct")


@pytest.mark.real("chromium", "playwright", "axe")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_serious(room: Any, part: Any, dark: bool, width: int) -> None:
    scheme = "dark" if dark else "light"
    page = room("/self-attention/1/1", color_scheme=scheme, width=width, bypass_csp=True)
    paste(page, "query", "9 9; 9 9; 9 9")
    check(page)
    for words in ("Hand it in", "Your progress", "For teachers"):
        open_drawer(page, words)
    page.evaluate(Path(part("axe")).read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    serious = [
        (f["id"], f["nodes"][0]["html"][:200]) for f in found if f["impact"] in ("serious", "critical")
    ]
    assert serious == []
