"""Which tests run: the quick ones, the long ones when asked for, and those whose real parts are there.

``@pytest.mark.soak`` tests are left out unless ``--soak``. ``@pytest.mark.real("chromium")`` tests are
skipped with the part's name where it is missing; with ``--real`` or ``CI=true`` they fail and
say how to get it.
``@pytest.mark.only("example", condition)`` leaves out the cases of a parametrised test that say nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from setup.real_parts import PARTS


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", action="store_true", help="run the tests marked soak, in full")
    parser.addoption("--real", action="store_true", help="a missing real part is a failure, not a skip")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = [
        item for item in items if (config.getoption("--soak") or "soak" not in item.keywords) and says(item)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def says(item: pytest.Item) -> bool:
    """Whether the case meets the conditions of its ``only`` marks."""
    conditions = [mark.args for mark in item.iter_markers("only")]
    return all(condition(item.callspec.params[name]) for name, condition in conditions)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("real"):
        for name in mark.args:
            if PARTS[name].find() is None:
                required = item.config.getoption("--real") or os.environ.get("CI") == "true"
                stop = pytest.fail if required else pytest.skip
                stop(f"needs {name}, which is not installed. make test-real gets it. {PARTS[name].remedy}")


@pytest.fixture
def within(request: pytest.FixtureRequest) -> Callable[[float], AbstractContextManager[None]]:
    """That something takes at most so many seconds of processor time: looked at in soak alone.

    A busy machine must not fail a quick run.
    """

    @contextmanager
    def limited(seconds: float) -> Iterator[None]:
        begun = os.times()
        yield
        taken = sum(os.times()[:4]) - sum(begun[:4])
        assert taken < seconds or not request.config.getoption("--soak"), f"{taken:.1f} s of {seconds}"

    return limited


@pytest.fixture(scope="session")
def part():
    """Where a real part is, by its name: a program, a Python, or a folder."""
    return lambda name: PARTS[name].find()


@pytest.fixture(scope="session")
def browser(part):
    """A real browser, for all tests that need one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        opened = tools.chromium.launch(executable_path=part("chromium"), args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def headwork_command(monkeypatch, capsysbinary):
    """The command line in this process, with the commands that a test has imported: code, stdout, stderr.

    Bytes that are no text (a PDF) come as surrogates.
    """
    from headwork.cli import app

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["headwork", *map(str, arguments)])
        monkeypatch.setattr(app, "register", lambda: None)
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = (part.decode("utf-8", "surrogateescape") for part in capsysbinary.readouterr())
        return ended.value.code, out, err

    return call


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier of texts, as it is saved."""
    import torch

    from headwork.data import train_tokenizer
    from headwork.models import TextClassifier, TextClassifierConfig

    torch.manual_seed(0)
    tokenizer = train_tokenizer(["a fine film", "a bad film", "not bad at all"] * 3, vocabulary=280)
    config = TextClassifierConfig(
        vocabulary=tokenizer.vocabulary_size, width=16, hidden=16, heads=2, depth=2, max_length=12
    )
    model = TextClassifier(config).eval()
    model.tokenizer = tokenizer.inner
    return model.save_pretrained(tmp_path_factory.mktemp("text") / "model")
