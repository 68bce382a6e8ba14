"""The long tests run only when asked for: ``pytest -m soak --soak``."""

from __future__ import annotations

import sys

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the tests marked soak, in full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--soak"):
        return
    for item in items:
        if "soak" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="long: run with -m soak --soak"))


@pytest.fixture
def headwork_command(monkeypatch, capsys):
    """The command line in this process, with the commands that a test has imported: exit code, stdout, stderr."""
    from headwork.cli import app

    def called(*arguments):
        monkeypatch.setattr(sys, "argv", ["headwork", *map(str, arguments)])
        monkeypatch.setattr(app, "register", lambda: None)
        with pytest.raises(SystemExit) as ended:
            app.main()
        told = capsys.readouterr()
        return ended.value.code, told.out, told.err

    return called
