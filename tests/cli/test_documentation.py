"""What README and docs show is true: commands run, Python gives the output shown, links lead somewhere."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
PROBLEM = (
    'mechanism = "self-attention"\n[inputs]\ntokens = "1 2; 2 0; 0 1; 1 1"\n'
    'W_k = "1 0; 0 0"\n[options]\nbeta = 1\n'
)


def shell_lines(page: Path) -> list[str]:
    """The commands in a page's shell blocks, and those in the README's table of questions."""
    text = page.read_text()
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.S)).replace("\\\n", " ")
    in_tables = (
        re.findall(r"^\|.*?`(headwork [^`]*)` \| \[", text, flags=re.M) if page.name == "README.md" else []
    )
    return [line.strip() for line in [*blocks.splitlines(), *in_tables] if line.strip()]


def runs(line: str) -> bool:
    """Whether the line is a command of ours that is not marked slow."""
    return line.startswith("headwork ") and "# slow" not in line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_runs(page, headwork_command, tmp_path, monkeypatch):
    from headwork.cli.app import register

    monkeypatch.chdir(tmp_path)
    (tmp_path / "problem.toml").write_text(PROBLEM)
    register()
    for line in filter(runs, shell_lines(page)):
        code, _, err = headwork_command(*shlex.split(line, comments=True)[1:])
        assert code == (1 if " grade " in line else 0), (line, err)  # a sheet without answers is incorrect


def test_the_readme_shows_commands():
    assert len([line for line in shell_lines(ROOT / "README.md") if runs(line)]) >= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_example_gives_what_is_shown(page):
    outcome = doctest.testfile(str(page), module_relative=False)
    assert outcome.failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file(page):
    text = page.read_text()
    targets = re.findall(r"\]\(([^)#\s]+)", text) + re.findall(r"^\[\d+\]: (\S+)", text, flags=re.M)
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing
