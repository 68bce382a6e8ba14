"""headwork build: results on stdout; exit 0, 1 if a certificate fails, 2 if the request is impossible."""

import json
import subprocess
import sys
from functools import partial

import pytest

import headwork.cli.build  # noqa: F401  (adds the command)


@pytest.fixture
def run(headwork_command):
    return partial(headwork_command, "build")


def test_permutation(run):
    code, out, err = run("permutation", "--order", "2 3 1", "--tolerance", "1e-3")
    assert code == 0
    assert err == ""
    for words in ("y1 = x2, y2 = x3, y3 = x1", "ln(3998)", "certificate  holds", "W_q", "A = softmax"):
        assert words in out


def test_page_of_an_edge_filter(run, tmp_path):
    page = tmp_path / "edge.html"
    ask = ["convolution", "--taps", "1 0 -1", "--tokens", "7", "--positions", "sinusoidal", "--as", "html"]
    code, out, _ = run(*ask, "--out", str(page))
    assert code == 0
    assert out == ""
    assert page.read_text().startswith("<!doctype html>")
    assert run(*ask)[1].startswith("<!doctype html>")


def test_json(run):
    code, out, _ = run("running-mean", "--tokens", "5", "--window", "3", "--ends", "none", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["possible"] is True
    assert data["queries"] == [1, 2, 3]


def test_an_impossible_ask_still_prints_json(run):
    code, out, err = run("shift", "--tokens", "4", "--ends", "zero", "--positions", "rotary", "--json")
    data = json.loads(out)
    assert code == 2
    assert err == ""
    assert data["possible"] is False
    assert data["proved"] is True
    assert "rotary positions turn queries and keys" in data["reason"]
    code, out, _ = run("convolution", "--tokens", "4", "--taps", "1 -1", "--heads", "1", "--json")
    data = json.loads(out)
    assert code == 2
    assert data["possible"] is None
    assert data["proved"] is False
    assert "Searched: 2 heads, where at most 1 may be used" in data["reason"]
    code, out, _ = run("identity", "--tokens", "4", "--positions", "none")
    assert code == 2
    assert "impossible" in out


def test_zero_is_a_number(run):
    code, out, _ = run("shift", "--tokens", "4", "--by", "0", "--json")
    assert code == 0
    assert json.loads(out)["matrix"] == [[float(i == j) for j in range(4)] for i in range(4)]


def test_no_warning_against_the_beta_that_was_chosen(run):
    """32 tokens need large scores: that softmax saturates is the point."""
    code, out, _ = run("convolution", "--tokens", "16", "--taps", "1 0 -1", "--positions", "sinusoidal")
    assert code == 0
    assert "smaller beta" not in out
    assert "symmetric" not in out


def test_a_failed_certificate_is_exit_1(run, monkeypatch):
    from headwork.construct.construction import Construction

    monkeypatch.setattr(Construction, "holds", property(lambda self: False))
    code, out, _ = run("identity", "--tokens", "3")
    assert code == 1
    assert "FAILS" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "what should the heads do?"),
        (("idenity",), "Did you mean 'identity'?"),
        (("identity",), "Give tokens (--tokens 5)"),
        (("identity", "--tokens", "0"), "tokens is 0"),
        (("running-mean", "--tokens", "5", "--window", "0"), "window is 0"),
        (("matrix", "--matrix", "1 0; 0 1", "--head-width", "0"), "head_width is 0"),
        (("identity", "--tokens", "3", "--heads", "0"), "heads is 0"),
        (("identity", "--tokens", "3", "--position-width", "0"), "position_width is 0"),
        (("convolution", "--taps", "1 x", "--tokens", "4"), "taps: 'x' is a symbol"),
        (("identity", "--tokens", "many"), "Invalid value for '--tokens'"),
        (("identity", "--tokens", "3", "--tolerance", "small"), "--tolerance: cannot read 'small'"),
        (("identity", "--tokens", "3", "--tolerance", "beta"), "--tolerance is 'beta'. Expected a number"),
        (("identity", "--tokens", "3", "--tolerance", "0"), "Expected a positive number"),
        (("identity", "--tokens", "3", "--tolerance", ""), "--tolerance"),
        (("shift", "--tokens", "3", "--ends", ""), "unknown ends ''"),
        (("identity", "--tokens", "3", "--position-width", "8"), "position_width is for sinusoidal"),
        (("copy", "--norm", "5"), "copy takes tokens and tolerance only"),
        (("copy", "--heads", "0"), "heads is 0"),
        (("identity", "--tokens", "3", "--order", "1 2 3"), "unknown input of identity 'order'"),
        (("permutation", "--order", "2 2"), "not a permutation"),
        (("matrix", "--matrix", "1 0; 1"), "ragged rows"),
        (("identity", "--tokens", "3", "--as", "word"), "unknown --as 'word'"),
    ],
)
def test_what_is_malformed_is_told_on_stderr(run, arguments, words):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_list(run):
    code, out, _ = run("--list")
    assert code == 0
    assert len(out.splitlines()) == 2 + 11


def test_no_torch_is_loaded():
    script = (
        "import sys, headwork.construct as c; "
        "c.build('convolution', tokens=7, taps='1 0 -1', positions='sinusoidal').to_text(); "
        "c.equal('convolution-toeplitz', cases=2).to_html(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
