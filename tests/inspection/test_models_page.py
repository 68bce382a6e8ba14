"""The examples on the page about models work."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def test_the_page_about_models() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
