"""The lab in a real browser: how soon it is ready, how quickly it follows, how large one file is.

    python -m benchmarks lab      (needs chromium and playwright)

Empty Pyodide and the page start in turn, in the same browser, so that the ratios hold on a busy machine too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import Report, Row, markdown, write

STARTS = 3
UPDATES = 40
# Drags the slider as a hand does, and waits for each answer: from the event to the changed cell.
DRAG = """async (count) => {
  const slider = document.querySelector("input[type='range']");
  const cell = document.querySelector("td[data-path='weights'][data-index='0,1']");
  const times = [];
  for (let i = 0; i < count; i += 1) {
    const began = performance.now();
    await new Promise((resolve) => {
      const watching = new MutationObserver(() => { watching.disconnect(); resolve(); });
      watching.observe(cell, { childList: true, characterData: true, subtree: true });
      slider.value = 3 + (i % 8);
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    });
    times.push(performance.now() - began);
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  return times;
}"""


def started(browser: Any, file: Path, *, empty: bool) -> dict[str, float]:
    """Seconds from opening the file: to a ready Python, a live decimal, an exact answer."""
    page = browser.new_page(bypass_csp=True)
    page.set_default_timeout(180_000)
    began = time.monotonic()
    page.goto(file.as_uri())
    page.evaluate("async () => { await lab.backend.ready; }")
    seconds = {"ready": time.monotonic() - began}
    if not empty:
        cell = page.locator("td[data-path='weights'][data-index='0,1']")
        page.get_by_role("slider").press("ArrowRight")
        cell.filter(has_not_text="0.5344").wait_for()
        seconds["decimal"] = time.monotonic() - began
        page.get_by_role("slider").press("ArrowLeft")
        page.get_by_text("both", exact=True).click()
        cell.locator("math").wait_for()
        seconds["exact"] = time.monotonic() - began
        page.get_by_text("decimal", exact=True).click()
        page.wait_for_timeout(500)
        seconds["update"] = median(page.evaluate(DRAG, UPDATES))
    page.close()
    return seconds


def served(browser: Any) -> dict[str, float]:
    """Seconds from the command to a page that answers, and milliseconds of an update."""
    began = time.monotonic()
    command = [sys.executable, "-m", "headwork", "lab", "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        page = browser.new_page()
        page.goto(address)
        page.locator("body[data-open]").wait_for(state="attached")
        ready = time.monotonic() - began
        page.wait_for_timeout(3000)
        update = median(page.evaluate(DRAG, UPDATES))
        server.terminate()
    return {"ready": ready, "update": update}


def build_report() -> Report:
    from playwright.sync_api import sync_playwright

    from headwork.lab.page import one_file
    from setup.real_parts import PARTS

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        whole, empty = Path(folder) / "course.html", Path(folder) / "empty.html"
        text = one_file().decode()
        whole.write_text(text, "utf-8")
        empty.write_text(text.replace("{ start: { files } }", "{ start: { files, empty: true } }"), "utf-8")
        browser = tools.chromium.launch(executable_path=PARTS["chromium"].find(), args=["--no-sandbox"])
        runs = [
            (started(browser, empty, empty=True), started(browser, whole, empty=False)) for _ in range(STARTS)
        ]
        here = min((served(browser) for _ in range(STARTS)), key=lambda seen: seen["ready"])
        browser.close()
    empty_start = median(e["ready"] for e, _ in runs)
    served_detail = "4 tokens, from the event to the changed cell, median"
    rows = [
        Row("one file", len(text.encode()) / 1e6, 25, "MB"),
        Row("an empty Pyodide's start", empty_start, None, "s", "in turn with the page, the same browser"),
        Row("first live decimal / empty start", median(p["decimal"] / e["ready"] for e, p in runs), 2),
        Row("first exact answer / empty start", median(p["exact"] / e["ready"] for e, p in runs), 2.5),
        Row("update of beta inside the page", median(p["update"] for _, p in runs), 30, "ms", served_detail),
        Row("update of beta, served", here["update"], 30, "ms", served_detail),
        Row("served page, from the command to its numbers", here["ready"], 1.5, "s", f"best of {STARTS}"),
    ]
    method = f"{STARTS} starts of each, {UPDATES} updates by events on the slider, headless Chromium."
    return Report("lab", "The lab in a browser", method, rows)


if __name__ == "__main__":
    report = build_report()
    write(report)
    print(markdown(report))
    sys.exit(0 if report.held else 1)
