"""Makes docs/images/lab.png again: the first screen of the lab, with one weight explained."""

import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))
from setup.real_parts import PARTS

command = [sys.executable, "-m", "headwork", "lab", "--no-browser"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as tools:
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]
    browser = tools.chromium.launch(executable_path=PARTS["chromium"].find(), args=["--no-sandbox"])
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.goto(address)
    page.locator(".chart svg").wait_for()
    page.screenshot(path=Path(__file__).with_name("lab.png"))
    browser.close()
    server.terminate()
