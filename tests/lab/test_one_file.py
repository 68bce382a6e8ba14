"""The lab as one file: it asks the network for nothing and computes as the server does."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwork.training.run_folders
from headwork.lab.calls import run_call

pytestmark = pytest.mark.real("chromium", "playwright", "pyodide", "node")
START = 120_000  # milliseconds that a busy machine may take to start Python


@pytest.fixture(scope="module")
def inside(browser: Any, one_file: Path) -> Any:
    """The page with Python started, and whatever it asked for or complained of."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    page.set_default_timeout(START)
    page.asked, page.complaints = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(one_file.as_uri())
    page.locator("body[data-open]").wait_for(state="attached")
    page.before_ready = {
        "starting": page.locator("#ready").inner_text(),
        "weights": page.locator("td[data-path='weights']").all_inner_texts(),
        "lines": page.locator(".lines").inner_text(),
    }
    page.locator("#ready").wait_for(state="hidden")
    yield page
    context.close()


def test_it_can_be_read_before_python_is_ready(inside: Any) -> None:
    before = inside.before_ready
    assert before["starting"].startswith("Python is starting inside this page")
    assert before["weights"][1] == "0.5344"
    assert "A[0,1] = e^2/(e + e^2 + 1 + e) = 0.5344" in before["lines"]


def test_it_asks_for_nothing_and_complains_of_nothing(inside: Any, one_file: Path) -> None:
    assert inside.asked[0] == one_file.as_uri()
    assert all(address.startswith("blob:null/") for address in inside.asked[1:])
    assert inside.complaints == []


def test_it_is_small_and_its_policy_names_no_network(one_file: Path) -> None:
    text = one_file.read_text("utf-8")
    assert len(text.encode()) <= 24_400_000, "the answers of the other problems take half a megabyte more"
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    directives = dict(part.strip().split(" ", 1) for part in policy[1].replace("&#39;", "'").split(";"))
    assert directives["default-src"] == directives["connect-src"] == "'none'"
    assert re.fullmatch(r"'sha256-[\w+/=]+' blob: 'wasm-unsafe-eval'", directives["script-src"])
    assert "http" not in policy[1]


ANEW = """async (name) => {
  const { precomputed } = lab.backend;
  const known = precomputed[name];
  delete precomputed[name];
  try { return await lab.backend.call(name, {}); } finally { precomputed[name] = known; }
}"""


def test_it_promises_nothing_that_only_this_machine_has(inside: Any) -> None:
    written = call(inside, "capabilities")
    assert written == inside.evaluate(ANEW, "capabilities")
    assert written["torch"] is False
    models = call(inside, "models")
    assert (models["runs"], models["foreign"]) == ([], [])


def test_a_change_is_worked_out_inside_the_page(inside: Any) -> None:
    from playwright.sync_api import expect

    slider = inside.get_by_role("slider")
    slider.focus()
    slider.press("End")
    weight = inside.locator("td[data-path='weights'][data-index='0,1']")
    expect(weight).to_have_text("1")
    slider.press("Home")
    expect(weight).to_have_text("0.2500")
    inside.get_by_role("button", name="Undo (Ctrl+Z)").click()
    inside.get_by_text("both", exact=True).click()
    inside.locator("td[data-path='weights'] math").first.wait_for()


def cells(shown: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Path, decimal and exact form of every cell, in order."""
    return [
        (value["path"], *cell[:2])
        for value in shown["values"]
        for matrix in value["matrices"]
        for row in matrix["cells"]
        for cell in row
        if cell
    ]


def close(a: str, b: str) -> bool:
    """Whether two decimals are the same number: the last bits of e^x differ between processors."""
    try:
        return abs(float(a) - float(b)) <= 1e-9 * (1 + abs(float(a)))
    except ValueError:
        return a == b


ASK = "(all) => { window.asked = Promise.all(all.map((state) => lab.backend.call('explain', { state }))); }"


def compare(page: Any, some: Any, at_once: int = 25) -> None:
    """The page works out what is worked out here at the same time; those that differ are named."""
    states = [{**state, "digits": 12} for state in some]
    wrong = []
    for first in range(0, len(states), at_once):
        batch = states[first : first + at_once]
        page.evaluate(ASK, batch)
        here = [json.loads(json.dumps(run_call("explain", {"state": state}))) for state in batch]
        there = page.evaluate("() => asked")
        wrong += [
            (first + i, batch[i], found)
            for i, pair in enumerate(zip(here, there, strict=True))
            if (found := differs(*pair))
        ]
        print(f"{first + len(batch)} of {len(states)}, {len(wrong)} differ", flush=True)
    assert wrong == []


def differs(here: dict[str, Any], there: dict[str, Any]) -> Any:
    """What the two answers do not share."""
    if "error" in here or "error" in there:
        return None if here == there else (here.get("error"), there.get("error"))
    if [c[0] for c in cells(here)] != [c[0] for c in cells(there)]:
        return "other cells"
    pairs = list(zip(cells(here), cells(there), strict=True))
    return [(a, b) for a, b in pairs if a[2] != b[2] or not close(a[1], b[1])]


def test_values_and_exact_forms_are_those_of_the_command_line(inside: Any, states: Any) -> None:
    compare(inside, states(50, seed=1))


@pytest.mark.soak
def test_a_thousand_random_cases(inside: Any, states: Any) -> None:
    compare(inside, states(1000, seed=2))


def marks(checked: dict[str, Any]) -> list[Any]:
    """Points, the first wrong step, and of every step its state, the cells marked and what is said of it."""
    names = ("step", "state", "points", "cells", "lines")
    return [checked["points"], checked["first_wrong"], *([s[n] for n in names] for s in checked["steps"])]


def compare_marks(page: Any, count: int, kinds: list[str]) -> None:
    """Answers of the benchmark marked inside the page and here; each exercise is drawn in both."""
    from benchmarks.wrong_answers import making

    rows = [row for row in making.read()[1] if row["answer"][0] in kinds]
    step = len(rows) // count
    for row in rows[: step * count : step]:
        origin = dict(zip(("kind", "seed", "difficulty"), row["answer"], strict=True))
        request = {**origin, "answers": row["steps"]}
        here = json.loads(json.dumps(run_call("check", request)))
        there = page.evaluate("(request) => lab.backend.call('check', request)", request)
        assert marks(here) == marks(there), request


def test_marks_inside_the_page_are_those_of_the_command_line(inside: Any) -> None:
    compare_marks(inside, 5, ["feed-forward", "output-size", "layer-normalisation", "recurrence"])


@pytest.mark.soak
def test_marks_of_many_answers_inside_the_page(inside: Any) -> None:
    from benchmarks.wrong_answers import KINDS

    compare_marks(inside, 200, list(KINDS))


def test_an_exercise_is_practised_without_a_server(inside: Any) -> None:
    from playwright.sync_api import expect

    inside.goto(inside.url.split("#")[0] + "#/practise")
    query = inside.locator(".step[aria-label='query']")
    query.locator("input").first.fill("99")
    inside.get_by_role("button", name="Check", exact=True).click()
    expect(query.locator(".verdict")).to_have_text("incorrect")
    expect(query.locator("input.wrong")).to_have_count(1)
    inside.get_by_label("Kind of exercise").select_option("output-size")
    expect(inside.locator("h1")).to_have_text("Output size")
    long = "1 2;" * 2_500_000
    request = {"kind": "output-size", "seed": 1, "difficulty": 1, "answers": {"output": long}}
    refused = inside.evaluate("(request) => lab.backend.call('check', request)", request)
    assert "characters; at most 200,000 are read" in refused["error"]["message"]
    assert inside.complaints == []
    assert all(address.startswith(("blob:null/", "file:")) for address in inside.asked)


# --- Look inside ----------------------------------------------------------------------------------------
def call(page: Any, name: str, **request: Any) -> Any:
    return page.evaluate("([name, request]) => lab.backend.call(name, request)", [name, request])


def picture(model: str, number: int) -> str:
    return base64.b64encode(headwork.example_images(model).images[number].tobytes()).decode()


@pytest.mark.parametrize("model", ["digits", "fashion-mnist"])
def test_a_model_inside_the_page_is_the_model(inside: Any, model: str) -> None:
    import torch

    examples = headwork.example_images(model)
    with torch.no_grad():
        logits = headwork.load(model, torch=True)(torch.from_numpy(examples.inputs)).numpy()
    for number in (0, 11, 19):
        same = {"model": model, "given": picture(model, number), "changes": ""}
        there, here = call(inside, "look", **same), run_call("look", same)
        assert there["sentence"] == here["sentence"]
        assert [one["words"] for one in there["heads"]] == [one["words"] for one in here["heads"]]
        for label in range(10):
            line = call(inside, "descend", **same, path=there["logits"], index=f"0,{label}")
            assert abs(line["left"] - logits[number, label]) < 1e-4
            assert abs(line["left"] - line["right"]) < 1e-5
    there = call(inside, "look", **{**same, "changes": "3.2 off; 1.0 previous"})
    assert there["effect"] == run_call("look", {**same, "changes": "3.2 off; 1.0 previous"})["effect"]


def test_the_room_is_there_before_python_and_asks_for_nothing(browser: Any, one_file: Path) -> None:
    page = browser.new_page()
    page.goto(f"{one_file.as_uri()}#/inside")
    page.locator(".head-words").filter(has_text="gives").wait_for()
    assert page.locator("#ready").is_visible(), "Python is still starting"
    page.set_default_timeout(START)
    page.locator("#ready").wait_for(state="hidden")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.locator(".test-images button").nth(4).click()
    page.locator(".sentence").filter(has_text="rediction: 4").wait_for()
    page.locator("input[multiple]").set_input_files(headwork.training.run_folders.PACKAGED / "digits")
    own = page.get_by_label("Model", exact=True).locator("option:checked").filter(has_text="Your model")
    own.wait_for(state="attached")
    assert asked == []
    page.close()


def memory_of_tab() -> int:
    """Bytes of the largest renderer below this process: that of the page in which Python runs."""
    parents, sizes = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
            number = int(lines["Pid"])
            parents[number] = int(lines["PPid"])
            if b"--type=renderer" in (status.parent / "cmdline").read_bytes():
                sizes[number] = 1024 * int(lines["RssAnon"].split()[0])

    def below(number: int) -> bool:
        return number == os.getpid() or (parents.get(number, 0) > 1 and below(parents[number]))

    return max(size for number, size in sizes.items() if below(number))


OBJECTS = "python.runPython('import gc; gc.collect(); len(gc.get_objects())')"
PICTURE = """async (seed) => {
  const { screen } = lab;
  let state = seed;
  const next = () => { state = (state * 16807) % 2147483647; return (state / 2147483647) * 280; };
  screen.pad.clear(false);
  screen.pad.drawn = true;
  for (let stroke = 0; stroke < 5; stroke += 1) screen.pad.stroke([next(), next()], [next(), next()]);
  const busy = () => screen.lookCalls.busy || screen.lookCalls.next || screen.headCalls.busy;
  while (busy()) await new Promise((done) => setTimeout(done, 5));
  await screen.descent.start(screen.view.start);
}"""


@pytest.mark.soak
def test_memory_stays_steady_over_two_hundred_pictures(inside: Any) -> None:
    """Drawn in the room, each with its heads and a line of the descent; sampled after collecting garbage."""
    inside.goto(inside.url.split("#")[0] + "#/inside/fashion-mnist")
    inside.locator(".head-words").filter(has_text="gives").wait_for()
    session, worker = inside.context.new_cdp_session(inside), inside.workers[0]
    session.send("Performance.enable")
    counted, sizes = [], []
    for number in range(400):
        inside.evaluate(PICTURE, number + 1)
        if number % 50 == 49:
            session.send("HeapProfiler.collectGarbage")
            told = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            sizes.append((told["JSHeapUsedSize"], told["Nodes"], memory_of_tab()))
            memory = worker.evaluate("python._module.HEAP8.length")
            counted.append((told["JSEventListeners"], memory, worker.evaluate(OBJECTS)))
            print(*counted[-1], *sizes[-1], flush=True)
    assert counted[1:] == counted[1:2] * 7, "listeners, bytes of Python's memory, its objects"
    # The process takes and gives back 80 MB as it likes: what it comes down to must not rise.
    growth = np.array(sizes[4:]).min(0) / np.array(sizes[:4]).min(0)
    assert (growth < (1.1, 1.03, 1.03)).all(), "heap of JavaScript, nodes, the process of the tab"


def test_as_a_site_for_any_web_host(opened: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import functools
    import http.server
    import threading

    from playwright.sync_api import expect

    from headwork.lab import page as pages

    monkeypatch.setattr(pages, "precomputed_answers", functools.partial(_first_only, pages))
    for name, data in pages.site().items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    handler = functools.partial(Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        page = opened(f"http://127.0.0.1:{server.server_port}/")
        page.set_default_timeout(START)
        page.locator("#ready").wait_for(state="hidden")
        page.get_by_role("slider").press("End")
        expect(page.locator("td[data-path='weights'][data-index='0,1']")).to_have_text("1")
    finally:
        server.shutdown()


def _first_only(pages: Any) -> dict[str, Any]:
    state = pages.example_state(pages.FIRST_MECHANISM).as_data()
    names = ("mechanisms", "capabilities", "models")
    return {
        "explain first": run_call("explain", {"state": state}),
        **{name: run_call(name, {}) for name in names},
    }
