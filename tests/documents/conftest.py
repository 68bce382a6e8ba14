"""Pages opened in a real browser, which may complain of nothing and ask for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a page and, at the end, says what it complained of or asked for."""
    complaints: list[str] = []
    contexts = []

    def opening(text: str, width: int = 1280, touch: bool = False) -> Any:
        file = tmp_path / "page.html"
        file.write_text(text, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 844}, has_touch=touch, is_mobile=touch
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request", lambda r: None if r.url.startswith(("file:", "data:")) else complaints.append(r.url)
        )
        page.goto(file.as_uri())
        return page

    yield opening
    for context in contexts:
        context.close()
    assert complaints == []
