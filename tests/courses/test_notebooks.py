"""The course notebooks: what they measure up to, their versions, their checks, and that they run."""

import ast
import contextlib
import csv
import io
import json
import re
import resource
import subprocess
import sys
import tomllib
import warnings
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import numpy as np
import pytest

import headwork
from headwork.courses.checks import CHECKS, check, require
from headwork.courses.notebooks import (
    CHECK_CALL,
    SOURCES,
    course_notebook_files,
    read_source,
    solution_function,
    with_blanks,
    write_notebook,
)
from headwork.errors import InputError

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "notebooks"
NAMES = list(SOURCES)
FILLINGS = tomllib.loads(Path(__file__).with_name("notebook_fillings.toml").read_text())


def codes(name):
    return [part for part in read_source(name) if part.kind == "python"]


def cells(content):
    return json.loads(content)["cells"]


def source(cell):
    return "".join(cell["source"])


def defined(code):
    """The first function that a cell defines."""
    found = re.search(r"^def (\w+)", code, re.M)
    return found[1] if found else ""


def run_cell(code, scope):
    """Run a cell as a kernel does; the value of its last expression. A warning is an error."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # of libraries among each other: never shown
        exec(compile(ast.Module(body, []), "cell", "exec"), scope)
        return eval(compile(ast.Expression(last.value), "cell", "eval"), scope) if last else None


@pytest.fixture(autouse=True)
def no_window():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


# --- the measure ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_cells_are_short_and_sections_have_pictures(name):
    text = SOURCES[name].read_text()
    for part in codes(name):
        lines = part.solution.source.splitlines()
        assert len(lines) <= 15, lines[0]
        assert max(map(len, lines)) <= 100, max(lines, key=len)
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        assert re.search(r"plt\.show\(\)|^show\(", section, re.M), section.splitlines()[0]
    assert "1.0, 2], [2, 0], [0, 1], [1, 1]" in text or "1 2; 2 0; 0 1; 1 1" in text  # the four tokens


@pytest.mark.parametrize("name", NAMES)
def test_what_a_student_must_understand_needs_no_headwork(name):
    for part in codes(name):
        if part.role == "blank" or "class " in part.text:
            assert "headwork" not in part.text


# --- versions ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_committed_notebooks_are_their_sources_and_were_executed(name):
    committed = nbformat.read(COMMITTED / f"{name}.ipynb", as_version=4)
    (text,) = course_notebook_files(name, "solution").values()
    made = nbformat.reads(text, as_version=4)
    nbformat.validate(committed)
    assert [(c.cell_type, c.source) for c in committed.cells] == [(c.cell_type, c.source) for c in made.cells]
    outputs = [output for cell in committed.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 3
    assert all(output.output_type != "error" and output.get("name") != "stderr" for output in outputs)
    shown = [cell for cell in committed.cells if CHECK_CALL.search(cell.source)]
    assert all("correct, on" in str(cell.outputs) for cell in shown)
    assert not re.search(r"/(root|home|tmp|work)/", json.dumps(outputs))
    counts = [cell.execution_count for cell in committed.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_students_get_blanks_and_no_answer(name):
    (text,) = course_notebook_files(name, "student").values()
    student = cells(text)
    nbformat.validate(nbformat.reads(text, as_version=4))
    everything = "\n".join(source(cell) for cell in student)
    for part in read_source(name):
        if part.role == "answer":
            assert part.text.splitlines()[0] not in everything
        for line in part.text.splitlines() if part.role == "blank" else ():
            if line.endswith("# blank"):
                assert re.sub(r"^\s*([\w, ]+ = |return )?|  # blank$", "", line) not in everything
    assert "# blank" not in everything
    assert everything.count("*Your answer:*") == sum(part.role == "answer" for part in read_source(name))
    for part, cell in zip(read_source(name), student, strict=True):
        if part.role == "blank":
            assert "..." in source(cell)
            run_cell(source(cell), {})  # what is blank does not stop the notebook, only the check does


def test_a_blank_keeps_what_is_assigned_or_returned():
    lines = ["def f(x):", "    a, b = x, x  # blank", "    a += 1  # blank", "    b += 1  # blank"]
    assert with_blanks("\n".join([*lines, "    return a + b  # blank"])) == (
        "def f(x):\n    a, b = ...\n    ...\n    return ..."
    )


def test_nothing_is_overwritten_without_force(tmp_path):
    (path,) = write_notebook("by-hand", "student", tmp_path)
    path.write_text("mine")
    with pytest.raises(InputError, match=r"by-hand\.ipynb exists\. Name another folder .* --force"):
        write_notebook("by-hand", "student", tmp_path)
    assert path.read_text() == "mine"
    write_notebook("by-hand", "student", tmp_path, force=True)
    assert cells(path.read_text())
    with pytest.raises(InputError, match=r"unknown notebook 'by-hands'\. Did you mean 'by-hand'"):
        write_notebook("by-hands", "student", tmp_path)
    with pytest.raises(InputError, match="unknown --as 'moodle'"):
        write_notebook("by-hand", "moodle", tmp_path)


def test_the_command(tmp_path):
    def course(*arguments):
        command = [sys.executable, "-m", "headwork", "course", "new", *arguments, "--out", str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True)

    done = course("transformer")
    assert (done.returncode, done.stdout) == (0, "")
    assert "open transformer.ipynb" in done.stderr
    again = course("transformer")
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert course("transformer", "--as", "nbgrader").returncode == 0
    assert (tmp_path / "source" / "transformer" / "transformer.ipynb").is_file()


# --- checks -----------------------------------------------------------------------------------------------
def filled(name, until, edit=None, otherwise=False):
    """A scope in which the blanks up to a check are filled, one of them edited; and the check's function."""
    scope, edited = {}, edit is None
    for part in codes(name):
        code = part.text
        if part.role == "check" and (call := CHECK_CALL.search(code))[1] == until:
            assert edited, edit
            return scope[call[2]]
        if part.role == "blank":
            if edit and edit[0] in code and needed(name, until, code):
                code, edited = code.replace(edit[0], edit[1]), True
            run_cell(FILLINGS[name]["otherwise"][defined(code)] if otherwise else code, scope)
        elif "import" in code and not scope.get("plt"):
            run_cell(code, scope)
    raise AssertionError(until)


def needed(name, until, code):
    """Whether a blank cell stands between the check before and this one."""
    before = SOURCES[name].read_text().partition(f'headwork.check("{until}"')[0]
    return code in before.rpartition("headwork.check(")[2]


REAL = [
    pytest.param("vit", marks=pytest.mark.real("fashion-mnist")),
    pytest.param("sentiment", marks=pytest.mark.real("rotten-tomatoes", "minilm")),
]
CASES = [
    (name, CHECK_CALL.search(part.text)[1]) for name in NAMES for part in codes(name) if part.role == "check"
]


def test_every_check_is_used_and_every_mistake_is_one():
    assert {name for _, name in CASES} == set(CHECKS)
    for name, entry in CHECKS.items():
        for sentence, old, new in entry.get("mistakes", ()):
            texts = [path.read_text() for path in SOURCES.values() if f'check("{name}"' in path.read_text()]
            assert old in texts[0].partition(f'check("{name}"')[0], old
            assert sentence in check(name, solution_function(name, old, new))


@pytest.mark.parametrize(("notebook", "name"), CASES)
def test_right_code_is_right_however_it_is_written(notebook, name):
    for otherwise in (False, True):
        function = filled(notebook, name, otherwise=otherwise)
        for _ in range(10):
            verdict = check(name, function)
            assert verdict, verdict
            assert str(verdict).startswith(f"{name}: correct, on ")


@pytest.mark.parametrize(("notebook", "name"), CASES)
def test_wrong_code_is_caught_and_its_cause_named(notebook, name):
    assert len(FILLINGS[notebook]["wrong"][name]) >= 5
    for old, new, cause in FILLINGS[notebook]["wrong"][name]:
        function = filled(notebook, name, (old, new))
        for _ in range(3):
            verdict = check(name, function)
            assert not verdict, (old, new)
            assert cause in str(verdict), (old, new, verdict)


@pytest.mark.parametrize(("notebook", "name"), CASES)
def test_what_is_not_filled_in_is_said(notebook, name):
    scope = {}
    for part in codes(notebook):
        if part.role == "blank":
            run_cell(part.student.source, scope)
        elif "import" in part.text and not scope.get("plt"):
            run_cell(part.text, scope)
        elif part.role == "check" and CHECK_CALL.search(part.text)[1] == name:
            verdict = check(name, scope[CHECK_CALL.search(part.text)[2]])
            assert str(verdict) == f"{name}: not filled in yet. Replace each ... with code."


def test_a_check_draws_fresh_numbers_and_leaves_nothing_behind():
    seen = []

    def spy(signal, kernel, stride, padding):
        seen.append(signal.tolist())
        signal[:] = 0
        return [0]

    for _ in range(2):
        check("convolution", spy)
    assert seen[0] != seen[1]


def test_a_function_that_stops_is_told_with_its_arguments():
    verdict = headwork.check("self-attention", lambda *arguments: 1 / 0)
    assert str(verdict).startswith(
        "self-attention: stopped with ZeroDivisionError: division by zero. The arg"
    )
    assert "tokens 4 x 2, W_q 2 x 2" in str(verdict)
    assert "the result is 3, not 7" in str(check("convolution", lambda *arguments: [1, 2, 3]))
    with pytest.raises(InputError, match=r"unknown check 'convolutions'\. Did you mean 'convolution'"):
        check("convolutions", print)
    with pytest.raises(AssertionError, match="&lt;b&gt;"):
        require("recurrence", lambda *arguments: {}["<b>"])


@pytest.fixture(autouse=True)
def numbers_print_as_before():
    """Notebooks run in this process, and set how numbers are printed."""
    with np.printoptions():
        yield


# --- whole notebooks --------------------------------------------------------------------------------------
def run_notebook(name, until="", otherwise=False):
    """Run a student's notebook with its blanks filled, up to a heading; what the checks said."""
    scope, verdicts = {}, []
    (text,) = course_notebook_files(name, "student").values()
    for part, cell in zip(read_source(name), cells(text), strict=True):
        code = source(cell)
        if until and code.startswith(until):
            break
        if part.role == "blank":
            code = FILLINGS[name]["otherwise"][defined(code)] if otherwise else part.solution.source
        if part.kind == "python":
            value = run_cell(code, scope)
            verdicts += [value] if part.role == "check" else []
    assert all(verdicts), verdicts
    return scope, len(verdicts)


@pytest.mark.parametrize("otherwise", [False, True])
@pytest.mark.parametrize(("name", "until", "checks"), [("by-hand", "", 4), ("transformer", "## 2.", 1)])
def test_a_filled_notebook_runs(name, until, checks, otherwise):
    assert run_notebook(name, until, otherwise)[1] == checks


@pytest.mark.soak
@pytest.mark.parametrize("otherwise", [False, True])
@pytest.mark.parametrize("name", [pytest.param("transformer"), *REAL])
def test_every_filled_notebook_runs_whole(name, otherwise):
    scope, checks = run_notebook(name, otherwise=otherwise)
    assert checks == sum(part.role == "check" for part in read_source(name))
    if name == "transformer":
        assert scope["anti_diagonal"] > 0.7
    if name == "vit":
        assert scope["accuracy"] > 0.8
    if name == "sentiment":
        assert scope["results"]["MiniLM"] > scope["results"]["from scratch"] > 0.7


# Processor time on one thread, as the notebooks say: seconds, under a minute, two minutes, a few minutes.
SECONDS = {"by-hand": 20, "transformer": 60, "vit": 120, "sentiment": 240}


@pytest.mark.soak
@pytest.mark.parametrize("name", [pytest.param("by-hand"), pytest.param("transformer"), *REAL])
def test_a_solution_executes_without_a_warning_in_the_time_it_says(name, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.syspath_prepend(str(COMMITTED))
    from execute import execute

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    notebook = nbformat.read(execute(name, tmp_path), as_version=4)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS[name]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert [output for output in outputs if output.get("name") == "stderr"] == []
    assert "Warning" not in json.dumps(outputs)


@pytest.fixture(scope="module")
def parts():
    """What the notebook transformer defines, up to its toy task."""
    torch = pytest.importorskip("torch")
    plt.switch_backend("Agg")
    scope, _ = run_notebook("transformer", "## 10.")
    torch.manual_seed(1)
    return scope, torch


def close(left, right):
    return (left - right).abs().max().item() < 1e-6


def test_attention_and_normalisation_equal_those_of_torch(parts):
    scope, torch = parts
    query, key, value = torch.randn(2, 3, 8), torch.randn(2, 5, 8), torch.randn(2, 5, 4)
    mask = torch.tensor([[1.0, 1, 0, 1, 0]])
    theirs = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask.bool())
    assert close(scope["attention"](query, key, value, mask=mask), theirs)
    layer = torch.nn.LayerNorm(8)
    torch.nn.init.normal_(layer.weight), torch.nn.init.normal_(layer.bias)
    assert close(scope["layer_normalisation"](query, layer.weight, layer.bias), layer(query))


def test_several_heads_equal_those_of_torch_with_the_shapes_of_the_hand_out(parts):
    scope, torch = parts
    theirs = torch.nn.MultiheadAttention(768, 12, bias=False, batch_first=True)
    matrices = theirs.in_proj_weight.chunk(3)
    tokens = torch.randn(1, 5, 768)
    expected, weights = theirs(tokens, tokens, tokens, average_attn_weights=False)
    assert close(scope["multi_head_attention"](tokens, *matrices, theirs.out_proj.weight, 12), expected)
    steps = scope["attend_per_head"](tokens, *matrices, 12)
    assert [list(step.shape) for step in steps] == [[1, 5, 12, 64]] * 3 + [[1, 12, 5, 5], [1, 5, 12, 64]]
    assert list(scope["join_heads"](steps[-1]).shape) == [1, 5, 768]
    assert close(steps[3], weights)


def copy(ours, theirs, sublayers):
    """Our parameters into one of torch's layers."""
    for attention, name in sublayers:
        other = getattr(theirs, name)
        for block, W in zip(other.in_proj_weight.data.chunk(3), ("W_q", "W_k", "W_v"), strict=True):
            block.copy_(getattr(attention, W).data)
        other.out_proj.weight.data = attention.W_o.data
    for linear, W, b in ((theirs.linear1, "W_1", "b_1"), (theirs.linear2, "W_2", "b_2")):
        linear.weight.data = getattr(ours.feed_forward, W).data.T
        linear.bias.data = getattr(ours.feed_forward, b).data


def test_encoder_and_decoder_layers_equal_those_of_torch(parts):
    scope, torch = parts
    tokens, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    settings = {"dim_feedforward": 32, "dropout": 0.0, "batch_first": True}
    encoder = scope["EncoderLayer"](16, 32, 4)
    theirs = torch.nn.TransformerEncoderLayer(16, 4, **settings)
    copy(encoder, theirs, [(encoder.attention, "self_attn")])
    assert close(encoder(tokens), theirs(tokens))
    decoder = scope["DecoderLayer"](16, 32, 4)
    theirs = torch.nn.TransformerDecoderLayer(16, 4, **settings)
    copy(decoder, theirs, [(decoder.attention, "self_attn"), (decoder.cross_attention, "multihead_attn")])
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    assert close(decoder(tokens, memory), theirs(tokens, memory, tgt_mask=causal))


# --- course systems ---------------------------------------------------------------------------------------
def handed_in(text, name, right):
    """A notebook as a student hands it in: the blanks of the first checks filled rightly, the others not."""
    notebook, seen = json.loads(text), 0
    solutions = {defined(part.text): part.solution.source for part in codes(name) if part.role == "blank"}
    for cell in notebook["cells"]:
        function = defined(source(cell))
        if cell["cell_type"] == "code" and "..." in source(cell) and function in solutions and seen < right:
            cell["source"], seen = solutions[function], seen + 1
    assert seen == right
    return json.dumps(notebook)


@pytest.mark.real("otter")
def test_otter_itself_gives_a_point_for_each_right_blank(tmp_path, part, course_system):
    write_notebook("by-hand", "otter", tmp_path / "hw")
    otter = partial(course_system, part("otter"), tmp_path / "hw" / "autograder", "otter")
    otter("generate", "-t", "tests", "-o", "autograder.zip", "headwork")
    text = (tmp_path / "hw" / "student" / "by-hand.ipynb").read_text()
    for right in (4, 2, 0):
        submitted = tmp_path / "by-hand.ipynb"
        submitted.write_text(handed_in(text, "by-hand", right))
        otter("run", submitted, "-a", "autograder.zip", "-o", tmp_path, package="")  # the zip file has it
        tests = json.loads((tmp_path / "results.json").read_text())["tests"]
        assert sum(test.get("score", 0) for test in tests) == right
        assert sum(test.get("max_score", 0) for test in tests) == 4


@pytest.mark.real("nbgrader")
def test_nbgrader_itself_gives_a_point_for_each_right_blank(tmp_path, part, course_system):
    write_notebook("by-hand", "nbgrader", tmp_path)
    nbgrader = partial(course_system, part("nbgrader"), tmp_path, "nbgrader")
    nbgrader("generate_assignment", "by-hand")
    release = (tmp_path / "release" / "by-hand" / "by-hand.ipynb").read_text()
    assert "SOLUTION" not in release
    assert "np.exp(" not in release
    for right in (4, 2, 0):
        student = tmp_path / "submitted" / f"right{right}" / "by-hand"
        student.mkdir(parents=True)
        (student / "by-hand.ipynb").write_text(handed_in(release, "by-hand", right))
    nbgrader("autograde", "by-hand")
    nbgrader("export", "--to", "grades.csv")
    grades = list(csv.DictReader((tmp_path / "grades.csv").read_text().splitlines()))
    assert {(g["student_id"], float(g["score"])) for g in grades} == {
        ("right4", 4),
        ("right2", 2),
        ("right0", 0),
    }
    assert {float(grade["max_score"]) for grade in grades} == {4.0}
