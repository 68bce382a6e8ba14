"""--help: commands in groups, one short line each, examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import typer

from headwork.cli.app import PANELS, app, register

register()
COMMANDS = typer.main.get_command(app)
SECTIONS = re.compile(r"^(\w[\w ]*):\n((?:  .+\n)+)", flags=re.M)


def commands(group, path=()):
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def headwork(*arguments):
    environment = {**os.environ, "COLUMNS": "80"}
    command = [sys.executable, "-m", "headwork", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout


def test_commands_stand_in_groups():
    sections = dict(SECTIONS.findall(headwork("--help")))
    assert [name for name in sections if name in PANELS] == list(PANELS)
    listed = [line.split()[0] for name in PANELS for line in sections[name].splitlines()]
    assert sorted(listed) == sorted(COMMANDS.commands)


def test_no_line_of_the_list_is_cut_at_80_columns():
    for arguments in ([], ["sizes"], ["practice"], ["data"]):
        shown = headwork(*arguments, "--help")
        assert "..." not in shown.partition("Options:")[2]
        assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(("path", "command"), list(commands(COMMANDS)), ids=str)
def test_a_command_has_a_short_line_and_an_example(path, command):
    first = command.help.partition("\n")[0]
    assert first.endswith(".")
    assert len(first) < 60
    assert f"headwork {' '.join(path)}" in command.epilog


def test_help_does_not_import_rich():
    code = (
        "import sys; sys.argv = ['headwork', '--help']; from headwork.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n"
        "    print([name for name in ('rich', 'numpy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
