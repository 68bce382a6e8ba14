"""--help: commands in groups, one short line each, examples; colour only on a terminal."""

from __future__ import annotations

import os
import pty
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


def shown_on_a_terminal(*arguments, **environment):
    """What the command writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    variables = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | environment
    command = [sys.executable, "-m", "headwork", *map(str, arguments)]
    child = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=variables)
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux reports the end of a terminal as an error
            break
        if not part:
            break
        text += part
    os.close(ours)
    child.wait()
    return text.decode()


SOFTMAX = ("explain", "softmax", "--set", "scores=0 1 2")


def test_colour_is_for_a_terminal_only(tmp_path):
    assert "\033[" in shown_on_a_terminal(*SOFTMAX)
    assert "\033[" in shown_on_a_terminal(*SOFTMAX, NO_COLOR="")
    assert "\033[" not in shown_on_a_terminal(*SOFTMAX, NO_COLOR="1")
    assert "\033[" not in headwork(*SOFTMAX)
    shown_on_a_terminal(*SOFTMAX, "--out", tmp_path / "steps.txt")
    assert "\033[" not in (tmp_path / "steps.txt").read_text()


def test_problems_are_coloured_on_a_terminal():
    assert "\033[32mok\033[0m" in shown_on_a_terminal("problems", "A1")
    assert "\033[" not in headwork("problems", "A1")
