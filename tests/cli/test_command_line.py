"""The command line as a person meets it: results, exit codes, errors without a traceback."""

import json
import os
import re
import subprocess
import sys

import pytest

A2 = [
    "--set",
    "tokens=1 2; 2 0; 0 1; 1 1",
    "--set",
    "W_k=1 0; 0 0",
    "--set",
    "W_v=0 0; 0 1",
    "--set",
    "beta=1",
]


def headwork(*arguments, **options):
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "120"}
    return subprocess.run(
        [sys.executable, "-m", "headwork", *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        **options,
    )


def test_a2_exact_as_json():
    result = headwork("explain", "self-attention", *A2, "--exact", "--json")
    assert result.returncode == 0, result.stderr
    trace = json.loads(result.stdout)
    steps = {step["path"]: step for step in trace["steps"]}
    assert list(steps) == ["query", "key", "value", "scores", "weights", "output"]
    assert trace["output"] == "output"
    assert steps["scores"]["values"] == [[1, 2, 0, 1], [2, 4, 0, 2], [0, 0, 0, 0], [1, 2, 0, 1]]
    assert steps["weights"]["exact"][0][1] == "e^2/(e + 1)^2"
    assert steps["output"]["values"][0][1] == pytest.approx(0.6622, abs=5e-5)
    assert any("symmetric" in warning for warning in trace["warnings"])


def test_a_problem_file_works_like_the_options(tmp_path):
    file = tmp_path / "problem.toml"
    file.write_text(
        'mechanism = "self-attention"\n[inputs]\ntokens = "1 2; 2 0"\nW_q = [[0.5, 0], [0, 1]]\n'
        "[options]\nbeta = 0.5\n"
    )
    result = headwork(
        "explain", "self-attention", file, "--exact", "--json", "--out", tmp_path / "trace.json"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["inputs"]["W_q"]["exact"][0][0] == "1/2"
    assert trace["options"]["beta"] == "1/2"


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "html", "json", "notebook"])
def test_every_form_goes_to_a_file_whole(form, tmp_path):
    target = tmp_path / "out"
    result = headwork("explain", "softmax", "--set", "scores=0 1 2", "--as", form, "--out", target)
    assert result.returncode == 0, result.stderr
    assert target.stat().st_size > 100
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain"], "which mechanism"),
        (["explain", "atention"], "Did you mean 'attention'"),
        (["explain", "self-attention"], "tokens missing"),
        (["explain", "self-attention", "--set", "tokens="], "empty"),
        (
            ["explain", "self-attention", "--set", "tokens=1 2; 3"],
            "ragged rows: row 0 has 2 entries and row 1 has 1",
        ),
        (["explain", "self-attention", "--set", "tokens=1 2; 0,5 1"], "ecimal comma"),
        (["explain", "self-attention", "--set", "token=1"], "Did you mean 'tokens'"),
        (["explain", "self-attention", "--set", "tokens"], "expected name=value"),
        (["explain", "self-attention", "--set", "tokens=[[nan]]"], "nan"),
        (["explain", "self-attention", "--set", "exact=1"], "--exact"),
        (
            ["explain", "self-attention", "--set", "tokens=1 2; 3 4", "--set", "W_q=1 2 3; 4 5 6"],
            "W_q is 2 x 3 and, applied as W x, takes width 3",
        ),
        (["explain", "self-attention", "--set", "tokens=1 2; 3 4", "--set", "mask=2 0; 1 1"], "0 and 1"),
        (
            ["explain", "multi-head-attention", "--set", "tokens=1 2 3; 3 4 5", "--set", "heads=2"],
            "cannot be cut into 2 heads",
        ),
        (["explain", "missing.toml"], "cannot be read"),
        (["explain", "softmax", "--as", "docx", "--set", "scores=1 2"], "unknown --as 'docx'"),
        (["explain", "softmax", "--set", "scores=1 2", "--cell", "weights[7]"], "there is no cell"),
        (["explain", "softmax", "--set", "scores=1 2", "--slide", "beta"], "neither an option"),
        (["explain", "--bogus"], "No such option"),
        (["problems", "Z1"], "unknown problem"),
        (["nonsense"], "No such command"),
    ],
)
def test_bad_input_is_answered_clearly(arguments, said):
    result = headwork(*arguments)
    assert result.returncode == 2, (result.stdout, result.stderr)
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_not_text_is_refused(tmp_path):
    file = tmp_path / "binary.toml"
    file.write_bytes(b"mechanism = \xff\xfe")
    assert "not UTF-8" in headwork("explain", file).stderr
    file.write_text("mechanism = [")
    result = headwork("explain", file)
    assert result.returncode == 2
    assert "not valid TOML" in result.stderr


def test_a_closed_pipe_is_no_error():
    command = f"{sys.executable} -m headwork explain --list | head -n 1"
    result = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert result.stdout.strip() == "Mechanisms"
    assert "Traceback" not in result.stderr
    assert "Error" not in result.stderr


def test_problems_check_passes_and_says_so():
    result = headwork("problems", "A2", "--check")
    assert result.returncode == 0, result.stdout
    assert "no mismatch" in result.stdout


def test_run_writes_one_report_and_says_where(tmp_path):
    result = headwork("run", "--book-only", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    reports = list(tmp_path.glob("report-*/report.html"))
    assert "no mismatch" in result.stdout
    assert len(reports) == 1
    assert str(reports[0]) in result.stdout
    assert result.stdout.count("\n  headwork ") == 4
    page = reports[0].read_text()
    assert "A2" in page
    assert not re.search(r'(?:src|href)="https?:', page)


def test_sensitivity_draws_and_tabulates(tmp_path):
    arguments = [
        "--query",
        "1 0",
        "--key",
        "1 0; 0.9 0",
        "--value",
        "1; 0",
        "--change",
        1,
        "--delta",
        "0.2 0",
    ]
    result = headwork("sensitivity", *arguments, "--plot", tmp_path / "moved.png", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["flips_at"] == [pytest.approx(0.5)]
    assert (tmp_path / "moved.png").read_bytes().startswith(b"\x89PNG")
    wrong = headwork("sensitivity", *arguments[:-1], "1")
    assert wrong.returncode == 2
    assert "one number per column" in wrong.stderr


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(name, marks=pytest.mark.soak) for name in ("cp1252", "utf-8"))]
)
def test_what_is_shown_commands_no_terminal_and_fits_any_encoding(encoding, tmp_path):
    name = "a\\u001b]0;x\\u0007\\u009b2J\\u202e β"
    (tmp_path / "answer.toml").write_text(f'student = "{name}"\n[answers."{name}"]\nweights = "1"')
    environment = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    for arguments in (["grade", str(tmp_path / "answer.toml")], ["explain", "attention", "--help"]):
        command = [sys.executable, "-m", "headwork", *arguments]
        done = subprocess.run(command, capture_output=True, env=environment, check=False)
        shown = (done.stdout + done.stderr).decode(encoding)
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
        assert "Traceback" not in shown
        assert "unexpected" not in shown
    command = [sys.executable, "-m", "headwork", "explain", "softmax", "--set", "scores=β 1"]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such shell")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_stream_that_is_closed_is_no_error(closed):
    command = f'"$0" -m headwork explain softmax --set "scores=0 1" {closed}'
    run = subprocess.run(["sh", "-c", command, sys.executable], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")
