"""Every command that shows something, in every format; and names that hold markup come out as text."""

from __future__ import annotations

import ast
import io
import json
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from html.parser import HTMLParser

import nbformat
import numpy as np
import pytest
import typer
from matplotlib.figure import Figure as Plot
from pypdf import PdfReader

from headwork import explain
from headwork.cli.app import app, register
from headwork.cli.output import Output
from headwork.courses.sheets import Sheet, key_text, make_sheet, read_key, read_sheet_template
from headwork.documents import (
    Arithmetic,
    AttentionView,
    Badge,
    BadgeRow,
    Bar,
    Caution,
    Code,
    Details,
    Document,
    FigureBlock,
    Formula,
    Heading,
    Heatmap,
    Item,
    Items,
    Link,
    Prose,
    Slider,
    Table,
    TokenHeatmaps,
    Tokens,
    Value,
    Values,
    VerdictCard,
)
from headwork.documents.formats import find_format, format_names
from headwork.errors import InputError
from headwork.exercises import generate
from headwork.exercises.questions import answer_sheet, build_question

register()
TOKENS = '--set tokens="1 2; 2 0; 0 1"'
SENSITIVITY = '--query "1 0" --key "1 0; 0 1" --value "1; 2" --change 1 --delta "0.2 0"'
# A small call of each command that shows something; RUN, ANSWER and OWN are files of the test.
CALLS = {
    "problems": "problems A1",
    "explain": f"explain self-attention {TOKENS} --exact",
    "practice list": "practice list",
    "practice new": "practice new self-attention --seed 7",
    "practice check": "practice check OWN",
    "grade": "grade ANSWER",
    "course show": "course task2/c",
    "handin": "handin HANDIN --force",
    "build": 'build permutation --order "2 1"',
    "equal": "equal convolution-toeplitz --cases 2",
    "data list": "data list",
    "data show": "data show digits",
    "train": "train vision --show",
    "curves": "curves RUN --out curves.png",
    "evaluate": "evaluate RUN",
    "predict": "predict RUN --image IMAGE",
    "report": "report RUN",
    "inspect": "inspect digits --index 0",
    "sizes patches": "sizes patches --image 32 --patch 8",
    "sizes convolution": "sizes convolution --input 9 --kernel 3",
    "sizes attention": "sizes attention --tokens 5 --width 8 --heads 2",
    "sizes transformer": "sizes transformer",
    "sizes vit": "sizes vit",
    "sizes growth": "sizes growth self-attention",
    "sizes model": "sizes model vision",
    "sensitivity": f"sensitivity {SENSITIVITY}",
    "compare": "compare --only complexity --families cnn,transformer --steps 1",
}
MORE = {  # further ways of some commands
    "explain list": "explain --list",
    "explain cell": f'explain self-attention {TOKENS} --cell "weights[0,1]"',
    "explain slide": f"explain self-attention {TOKENS} --slide beta=1,2",
    "problems check": "problems A1 --check",
    "build list": "build --list",
    "course find": "course --find permutation",
    "course hand-out": "course task2",
    "predict own images": "predict digits",
    "grade class": "grade CLASS --key KEY",
    "equal list": "equal --list",
}
ACTS = {
    "run",
    "practice sheet",
    "practice export",
    "course new",
    "data get",
    "lab",
    "resume",
    "export",
}  # and shows nothing
SLOW = {"compare", "curves", "evaluate", "predict", "report"}  # need a run or a measurement


def commands(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), {option for p in command.params for option in p.opts}


def test_every_command_that_shows_something_offers_every_format():
    options = dict(commands(typer.main.get_command(app)))
    assert {name for name, known in options.items() if "--as" in known} - ACTS == set(CALLS)
    assert set(options) - set(CALLS) == ACTS
    assert set(format_names()) == {"text", "markdown", "latex", "html", "json", "notebook", "pdf"}


class Whole(HTMLParser):
    """Whether every element is closed, and which there are."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in ("meta", "link", "br", "input", "img"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def pdf_text(content):
    """The words of a PDF, page by page."""
    return [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]


def check_format(name, text):
    """That the text, or what was printed as bytes, is valid in its format."""
    assert text.strip()
    if name == "pdf":
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        assert content.startswith(b"%PDF")
        assert "".join(pdf_text(content)).strip()
        return
    if name == "html":
        page = Whole(text)
        assert not page.open
        assert text.startswith("<!doctype html>")
        assert "style" in page.tags
    elif name == "json":
        json.loads(text, parse_constant=pytest.fail)
    elif name == "notebook":
        book = nbformat.reads(text, as_version=4)
        nbformat.validate(book)
        assert "/tmp/" not in "".join(cell.source for cell in book.cells if cell.cell_type == "code")
    elif name == "latex":
        plain = re.sub(r"\\[\\{}$]", "", text)
        assert plain.count("{") == plain.count("}")
        assert plain.count("$") % 2 == 0
        begun, ended = (sorted(re.findall(rf"\\{word}{{(\w+\*?)}}", text)) for word in ("begin", "end"))
        assert begun == ended
        assert max(map(ord, text)) < 0x17F, "the usual fonts lack the others"


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files of the calls that need some."""
    monkeypatch.chdir(tmp_path)
    own = 'mechanism = "softmax"\n[inputs]\nscores = "0 1"\n[points]\nweights = 1\n'
    (tmp_path / "exercise.toml").write_text(own)
    (tmp_path / "answer.toml").write_text('[answers.mine]\nweights = "1/2 1/2"\n')
    handin = '[[section]]\ntitle = "One"\ntext = "The *sum* is $\\\\frac{1}{2}$."\nproblems = "A1"\n'
    (tmp_path / "handin.toml").write_text(handin)
    (tmp_path / "course.toml").write_text('secret = "a course secret"\n[[exercise]]\nkind = "output-size"\n')
    sheet = make_sheet(read_sheet_template("course.toml"), "ada", "Ada")
    for folder in ("class", "key"):
        (tmp_path / folder).mkdir()
    (tmp_path / "key" / "ada.toml").write_text(key_text(sheet))
    (tmp_path / "class" / "ada.toml").write_text(answer_sheet(sheet.exercises, student="ada", origin=False))
    files = {"OWN": "exercise.toml", "ANSWER": "answer.toml", "HANDIN": "handin.toml"}
    return files | {"CLASS": "class", "KEY": "key"}


@pytest.mark.parametrize("call", [c for n, c in (CALLS | MORE).items() if n not in SLOW])
def test_a_command_in_every_format(call, files, headwork_command):
    for name in format_names():
        arguments = [files.get(word, word) for word in shlex.split(call)]
        code, out, err = headwork_command(*arguments, "--as", name)
        assert code == (1 if call.startswith("grade") else 0), err
        check_format(name, out)


@pytest.mark.soak
def test_the_book_in_every_format(headwork_command):
    for name in set(format_names()) - {"text"}:  # without a format, it is only listed
        code, out, err = headwork_command("problems", "--as", name)
        assert code == 0, err
        check_format(name, out)


@pytest.mark.soak
def test_commands_on_a_run_in_every_format(tmp_path, monkeypatch, headwork_command):
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    Image.new("L", (8, 8)).save("black.png")
    settings = ("--data", "digits", "--epochs", "1", "--set", "model.depth=1", "--out", "run")
    assert headwork_command("train", "vision", *settings)[0] == 0
    files = {"RUN": "run", "IMAGE": "black.png"}
    for call in [*(CALLS[name] for name in sorted(SLOW)), f"{CALLS['predict']} --why"]:
        for name in format_names():
            arguments = [files.get(word, word) for word in shlex.split(call)]
            code, out, err = headwork_command(*arguments, "--as", name)
            assert code == 0, err
            check_format(name, out)


# --- nothing in a name is obeyed ----------------------------------------------------------------------
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    r"\end{document}\input{/etc/passwd}",
    "100% of $x^2$ & a_b # {c} ~ ^",
    "[x](javascript:alert(1)) ![y](data:z)",
    "**bold** `code` | cell\n# heading",
    "字 é β ∞ 😀",
    '#eval("1+1") *b* @ref <lab> // c ] [ ${ {{7*7}} {% raw %}',
    "'\"\"\"+__import__('os').system('true')+\"",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_title_goes_into_files_and_code_as_it_is(name, tmp_path):
    """An exercise as TOML and in a notebook's code; emoji are no pairs of surrogates there."""
    made = replace(generate("output-size", 1), title=name, question=name + "\x07")
    sheet = Sheet(name, {"1": made}, "ada", name)
    (tmp_path / "key.toml").write_text(key_text(sheet))
    assert read_key(tmp_path / "key.toml") == sheet
    assert tomllib.loads(answer_sheet({"1": made}, student=name, sheet=name))["sheet"] == name
    cells = json.loads(build_question(made).to_notebook())["cells"]
    code = next(cell["source"] for cell in cells if "exercise_from" in "".join(cell["source"]))
    tree = ast.parse("".join(code))
    assert name in [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]


def hostile_document(name):
    plot = Plot(figsize=(1, 1))
    value = Value(name, "A", np.array([[1.0, 2.0]]), axes=("query", "key"))
    groups = ((name, (replace(value, name=name + "W", shown_with_step=True), value)),)
    shown = Values(groups, {name: name}, name, (name,), lambda *_: Arithmetic(name, name, ()))
    return Document(
        name,
        (
            Heading(name),
            Prose((name, Formula("x"), name, Link(name, "#part"))),
            Caution(name),
            Items((Item(name, name, name, True, (name,)),)),
            Code(name),
            FigureBlock(plot, name, name),
            Details(name, (Prose(name),)),
            VerdictCard(name, name, False, name, (Table(name, ("a",), [(Badge(name, "bad", name),)]),)),
            Table("", ("a", "b", "c"), [(BadgeRow((Badge(name),)), Bar(0.5, name), Link(name, "#a"))]),
            Table(name, (name, "b"), [(name, 1)], [name]),
            shown,
            Slider(name, (name, "2"), (shown, shown)),
            TokenHeatmaps(Tokens((name, "b")), (Heatmap(name, np.array([1.0, -1.0]), name),)),
            AttentionView(
                Tokens((name, "b")), ((name, np.full((1, 2, 2), 0.5)),), (0, 0, None), {(0, 0): name}
            ),
        ),
        about=name,
    )


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("form", format_names())
def test_names_come_out_as_text(form, name):
    text = hostile_document(name).render(form)
    check_format(form, text)
    if form == "html":
        page = Whole(text)
        assert page.tags.count("script") == 4  # of the page, the data of its two traces, the weights
        assert "img" not in page.tags
        assert " ".join(name.split()) in " ".join(page.words.split())
    elif form == "pdf":
        words = "".join(pdf_text(text)).replace("\u200b", "")
        for part in name.split():
            assert part in words or not part.isascii()
    elif form == "latex":
        assert text.count(r"\end{document}") == 1
        assert r"\input" not in text
    elif form in ("markdown", "notebook"):
        cells = (
            json.loads(text)["cells"] if form == "notebook" else [{"cell_type": "markdown", "source": text}]
        )
        words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        words = re.sub(r"```.*?```|\\.", "", words, flags=re.DOTALL)
        assert not re.search(
            r"<(?:script|img|/)|\]\((?!attachment)|^# heading|\*\*bold\*\*", words, flags=re.M
        )


@pytest.mark.parametrize("form", ["text", "html", "markdown", "latex", "notebook", "json"])
def test_text_in_a_file_commands_no_terminal(form):
    content = hostile_document("a\x1b[2J\u202eb\x9b31m\x07").render(form)
    if form == "notebook":  # what stands in JSON as an escape is a sign again in a cell
        content += "".join("".join(cell["source"]) for cell in json.loads(content)["cells"])
    assert {"\x1b", "\u202e", "\x9b", "\x07"} & set(content) == set()


@pytest.mark.real("pdflatex")
@pytest.mark.parametrize("name", HOSTILE)
def test_latex_of_hostile_names_compiles(name, tmp_path):
    compiled(hostile_document(name).to_latex(), tmp_path)


# --- LaTeX fits its page ------------------------------------------------------------------------------
def compiled(source, folder):
    """The log of a compiled document, and by how much its boxes are too wide or too high."""
    (folder / "text.tex").write_text(source)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "text.tex"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    assert run.returncode == 0, run.stdout[-2000:]
    return [float(points) for points in re.findall(r"Overfull \\[hv]box \(([\d.]+)pt", run.stdout)]


@pytest.mark.real("pdflatex")
@pytest.mark.parametrize("exact", [True, False])
def test_a_wide_matrix_fits_the_page(exact, tmp_path):
    rows = np.random.default_rng(0).integers(-9, 9, size=(5, 12))
    traces = [explain("self-attention", tokens=rows, beta="1/3", exact=exact)]
    traces += [explain("convolution-1d", signal="x1 x2 x3 x4 x5 x6", kernel="k1 k2 k3")]
    for trace in traces:
        assert max(compiled(trace.to_latex(), tmp_path), default=0) <= 5


@pytest.mark.soak
@pytest.mark.real("pdflatex")
def test_the_whole_book_fits_the_page(tmp_path):
    from headwork.problems import all_problems, book

    source = book({slug: problem.solve() for slug, problem in all_problems().items()}).to_latex()
    assert max(compiled(source, tmp_path), default=0) <= 5


def check_notebook(text):
    """That a notebook runs, and gives what it shows."""
    from nbclient import NotebookClient

    before = nbformat.reads(text, as_version=4)
    if all(cell.cell_type == "markdown" for cell in before.cells):
        return
    # On a busy machine the kernel may send one line in two pieces: joined, they are what was printed.
    client = NotebookClient(nbformat.reads(text, as_version=4), timeout=300, coalesce_streams=True)
    after = client.execute()
    blanks = any("?" in cell.source for cell in before.cells if cell.cell_type == "code")
    assert blanks or any(cell.get("outputs") for cell in before.cells)
    for one, two in zip(before.cells, after.cells, strict=True):
        for mine, theirs in zip(one.get("outputs", []), two.get("outputs", []), strict=not blanks):
            assert mine.get("text") == theirs.get("text")
            assert mine.get("data", {}).get("text/html") == theirs.get("data", {}).get("text/html")


@pytest.mark.parametrize(
    "call", ["explain softmax --set scores='0 1' --exact", "sizes patches --image 8 --patch 4"]
)
def test_a_notebook_executes(call, headwork_command):
    check_notebook(headwork_command(*shlex.split(call), "--as", "notebook")[1])


@pytest.mark.soak
@pytest.mark.parametrize("call", [call for name, call in (CALLS | MORE).items() if name not in SLOW])
def test_every_notebook_executes(call, files, headwork_command):
    arguments = [files.get(word, word) for word in shlex.split(call)]
    check_notebook(headwork_command(*arguments, "--as", "notebook")[1])


@pytest.mark.soak
def test_the_notebook_of_every_problem_executes(headwork_command):
    from headwork.problems import all_problems

    for slug in all_problems():
        check_notebook(headwork_command("problems", slug, "--as", "notebook")[1])


@pytest.mark.parametrize(("module", "package"), [("typst", "typst"), ("pypandoc", "pypandoc_binary")])
def test_a_pdf_without_its_packages_is_one_clear_line(module, package, headwork_command, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = headwork_command("problems", "A1", "--as", "pdf")
    assert (code, out) == (2, "")
    assert err == f'headwork: this needs {package}: pip install ".[pdf]"\n'


def test_a_pdf_is_not_written_to_a_screen(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with pytest.raises(InputError, match="write it to a file with --out"):
        Output("pdf").show(Document("Title", ("Words.",)))


def test_the_name_of_a_file_names_its_format(tmp_path, headwork_command):
    for name, start in (("a.pdf", b"%PDF"), ("a.html", b"<!doctype"), ("a.md", b"# A1"), ("a.dat", b"A1.")):
        assert headwork_command("problems", "A1", "--out", tmp_path / name)[0] == 0
        assert (tmp_path / name).read_bytes().startswith(start)
    assert headwork_command("problems", "A1", "--as", "text", "--out", tmp_path / "b.pdf")[0] == 0
    assert (tmp_path / "b.pdf").read_bytes().startswith(b"A1.")


def test_latex_has_its_pictures_beside_it(tmp_path, headwork_command):
    assert headwork_command("problems", "F1", "--out", tmp_path / "f1.tex")[0] == 0
    assert (tmp_path / "f1-figure-1.png").read_bytes().startswith(b"\x89PNG")
    assert r"\picturefile{figure-1.png}" in (tmp_path / "f1.tex").read_text()


def test_a_format_is_one_file():
    assert find_format("markdown").SUFFIX == ".md"
    assert len(format_names()) == len({find_format(name).SUFFIX for name in format_names()})
