"""``headwork sizes``: each sub-command, its forms, its exit codes and its errors."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import headwork.cli.look_inside  # noqa: F401
from headwork.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["headwork", "sizes", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return ended.value.code, shown.out, shown.err

    return command


def facts(run, *arguments: str) -> dict:
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_patches(run):
    told = facts(run, "patches", "--image", "224", "--patch", "16")["facts"]
    assert (told["side"], told["patches"], told["tokens"]) == (14, 196, 197)
    told = facts(run, "patches", "--image", "32x48", "--patch", "8", "--no-class-token")["facts"]
    assert (told["down"], told["across"], told["tokens"]) == (4, 6, 24)


def test_convolution(run):
    data = facts(
        run, "convolution", "--input", "3x256x256", "--filters", "32", "--kernel", "5", "--stride", "2"
    )
    assert data["facts"]["weights"] == 2400
    assert data["facts"]["dense weights"] == 99_883_155_456
    assert [row["shape"] for row in data["rows"] if row["name"] == "output"] == [[32, 126, 126]]


def test_attention(run):
    data = facts(run, "attention", "--batch", "1", "--tokens", "5", "--width", "768", "--heads", "12")
    shapes = {row["about"] if "about" in row else row["name"]: row["shape"] for row in data["rows"]}
    assert shapes["queries"] == [1, 5, 12, 64]
    assert shapes["attention matrices"] == [1, 12, 5, 5]
    code, out, _ = run("attention", "--tokens", "6", "--width", "768", "--tokens-as", "columns")
    assert code == 0
    assert "Note: with tokens as columns Q K^T would be [768, 768]" in out


def test_transformer_and_vit(run):
    assert facts(run, "transformer")["facts"]["parameters"] == 63_082_496
    assert facts(run, "vit")["facts"]["parameters"] == 86_567_656


def test_growth(run):
    assert facts(run, "growth", "self-attention")["facts"]["multiply-adds"] == "2 n^2 d + 3 n d^2"


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html", "json", "notebook"])
def test_every_form_to_the_screen_and_to_a_file(run, form, tmp_path):
    code, out, _ = run("patches", "--image", "224", "--patch", "16", "--as", form)
    assert code == 0
    assert "196" in out
    target = tmp_path / "patches.out"
    code, nothing, told = run(
        "patches", "--image", "224", "--patch", "16", "--as", form, "--out", str(target)
    )
    assert (code, nothing, told) == (0, "", f"wrote {target}\n")
    assert target.read_text().rstrip() == out.rstrip()


def test_a_fragment_of_latex(run):
    _, out, _ = run("patches", "--image", "224", "--patch", "16", "--as", "latex", "--fragment")
    assert out.startswith(r"\section*{")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("patches", "--image", "225", "--patch", "16"), "cannot be cut into squares of 16"),
        (("patches", "--image", "a big one", "--patch", "16"), "--image 'a big one': expected whole numbers"),
        (("patches", "--image", "", "--patch", "16"), "--image '': expected whole numbers"),
        (("patches", "--image", "9" * 500, "--patch", "16"), "expected whole numbers"),
        (("patches", "--image", "224"), "--patch"),
        (("patches", "--image", "224", "--patch", "x"), "int"),
        (("convolution", "--input", "3x", "--kernel", "1"), "--input '3x': expected whole numbers"),
        (("convolution", "--input", "3", "--kernel", "5"), "a kernel of 5 does not fit into 3 positions"),
        (("attention", "--tokens", "5", "--width", "768", "--heads", "7"), "cannot be cut into 7 heads"),
        (("attention", "--tokens", "-5", "--width", "768"), "attention: tokens is -5."),
        (("attention", "--token", "5", "--width", "768"), "No such option: --token"),
        (("vit", "--as", "word"), "unknown --as 'word'"),
        (("growth", "atention"), "Did you mean 'attention'?"),
        (("patch",), "No such command 'patch'"),
    ],
)
def test_wrong_input_ends_with_2_and_says_why(run, arguments, message):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["patches", "convolution", "attention", "transformer", "vit", "growth"])
def test_help_has_an_example_that_runs(run, name):
    code, out, _ = run(name, "--help")
    assert code == 0
    examples = " ".join(out.split("Example")[1].split()).lstrip("s: ").split("headwork sizes ")[1:]
    assert examples
    for example in examples:
        assert run(*example.split())[0] == 0


def test_sizes_are_counted_without_torch():
    program = (
        "import sys, headwork.cli.look_inside; from headwork import sizes; sizes.vit().to_text(); "
        "print('torch' in sys.modules, 'sympy' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.split()[0] == "False"
