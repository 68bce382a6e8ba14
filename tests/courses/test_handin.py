"""The hand-in: one document of answers, problems, traces and notebooks; what is wrong is told by place."""

import base64
import gzip
import io
import json
import re
import struct
import subprocess
import zlib
from pathlib import Path

import pytest
import typst
from PIL import Image
from pypdf import PdfReader

from headwork.cli.app import register
from headwork.courses.handin import read_handin
from headwork.documents import pandoc
from headwork.documents.formats.pdf import typeset, typst_source
from headwork.errors import InputError

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "hw2" / "hw2.toml"
THEORY = r"""\documentclass{article}
\usepackage{amsmath}
\newcommand{\R}{\mathbb{R}}
\begin{document}
\section{Copying}\label{sec:copy}
Let $x \in \R^{d}$, see \ref{eq:a} and \cite{paper}; $\tfrac{1}{2}$.
\begin{align}
  A &= \begin{bmatrix} \frac{e}{e+1} & 0 \\ 0 & 1 \end{bmatrix} \label{eq:a} \\
  y &= \begin{cases} 1 & h > 0 \\ 0 & \text{otherwise} \end{cases}
\end{align}
\[ \underbrace{a + b}_{c} = \sqrt{2}\, r \]
\includegraphics[width=0.3\textwidth]{dot.png}
\end{document}
"""


def png(size=(40, 30)):
    content = io.BytesIO()
    Image.new("RGB", size, "navy").save(content, "PNG")
    return content.getvalue()


def cell(kind, source, **more):
    return {"cell_type": kind, "metadata": {}, "source": source, **more}


def notebook(*cells):
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


RUN = cell(
    "code",
    "print(1 + 1)",
    execution_count=1,
    outputs=[
        {"output_type": "stream", "name": "stdout", "text": ["2\n"]},
        {"output_type": "display_data", "data": {"image/png": base64.b64encode(png()).decode()}},
    ],
)


@pytest.fixture
def write(tmp_path):
    """A hand-in of these files; what is not given is as it should be."""

    def make(sections, **files):
        (tmp_path / "theory.tex").write_text(THEORY)
        (tmp_path / "dot.png").write_bytes(png())
        (tmp_path / "work.ipynb").write_text(notebook(cell("markdown", "# Work\n\n$x^2$ words"), RUN))
        for name, content in files.items():
            path = tmp_path / name.replace("_", ".")
            path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
        head = 'title = "Homework"\nnames = ["Ada Example"]\n'
        (tmp_path / "hw.toml").write_text(head + "".join(f"[[section]]\n{text}\n" for text in sections))
        return tmp_path / "hw.toml"

    return make


WHOLE = (
    'title = "Theory"\nfile = "theory.tex"',
    'title = "Problems"\nproblems = ["A1", "D3"]\n'
    'text = "**Mine:** $\\\\beta$ and\\n\\n| a | b |\\n|---|---|\\n| 1 | 2 |"',
    'title = "Code"\nnotebook = "work.ipynb"\npicture = "dot.png"',
)


def pages(content):
    return [page.extract_text() for page in PdfReader(io.BytesIO(content)).pages]


def equations(document, folder):
    """How many formulas Typst sets."""
    source, files = typst_source(document)
    for name, content in {**files, "main.typ": source.encode()}.items():
        (folder / name).write_bytes(content)
    return len(json.loads(typst.query(folder / "main.typ", "math.equation")))


def ink_in_margins(document, folder):
    """Whether something stands within 14 mm of the left or right edge, on any page."""
    equations(document, folder)
    made = typst.compile(folder / "main.typ", format="png", ppi=50)
    for page in made if isinstance(made, list) else [made]:
        image = Image.open(io.BytesIO(page)).convert("L")
        strip = int(14 / 25.4 * 50)
        for left in (0, image.width - strip):
            if image.crop((left, 0, left + strip, image.height)).getextrema()[0] < 200:
                return True
    return False


def test_one_pdf_of_everything(write, tmp_path):
    handin = read_handin(write(WHOLE))
    assert handin.complaints == []
    text = "\n".join(pages(handin.render("pdf")))
    for words in ("Homework", "Ada Example", "Copying", "A1. Patches of an image", "Mine:", "print(1 + 1)"):
        assert words in text
    assert len(handin.formulas) == 6  # of theory.tex 4, of the text 1, of the notebook 1
    whole, ours = tmp_path / "whole", tmp_path / "ours"
    whole.mkdir(), ours.mkdir()
    others = read_handin(write(['title = "Problems"\nproblems = ["A1", "D3"]']))
    assert equations(handin.document(), whole) == 6 + equations(others.document(), ours)
    assert not ink_in_margins(handin.document(), whole)
    assert len(PdfReader(io.BytesIO(handin.render("pdf"))).pages[-1].images) >= 1


def test_the_same_hand_in_gives_the_same_bytes(write):
    path = write(WHOLE)
    content = read_handin(path).render("pdf")
    assert content == read_handin(path).render("pdf")
    assert b"CreationDate" not in content


def test_what_is_wide_is_broken_or_set_smaller(write, tmp_path):
    wide = " & ".join(f"x_{{{i}}} + y_{{{i}}}" for i in range(40))
    code = notebook(cell("code", "x = '" + "long" * 60 + "'", execution_count=1, outputs=[]))
    words = 'title = "' + "word" * 40 + '"\ntext = "a"'
    formula = rf"\begin{{bmatrix}} {wide} \end{{bmatrix}}"
    sections = ('title = "Wide"\nfile = "wide.tex"', words, 'title = "n"\nnotebook = "long.ipynb"')
    handin = read_handin(write(sections, wide_tex=rf"\[ {formula} \]", long_ipynb=code))
    assert handin.complaints == []
    assert not ink_in_margins(handin.document(), tmp_path)


BAD = {
    "section 1 (Q): the answer is empty": ('title = "Q"\ntext = "  "', {}),
    "section 1 (Q): empty. Give it a text": ('title = "Q"', {}),
    "section 1 (Q), a.tex: line 2: \\foo{bar} is not known": (
        'title = "Q"\nfile = "a.tex"',
        {"a_tex": "One.\nTwo \\foo{bar} words.\n"},
    ),
    "section 1 (Q), a.tex: line 3: the formula y = \\undefined{x} cannot be read": (
        'title = "Q"\nfile = "a.tex"',
        {"a_tex": "One.\n\n\\[ y = \\undefined{x} \\]\n"},
    ),
    "section 1 (Q), a.tex: the picture no.png: cannot be read": (
        'title = "Q"\nfile = "a.tex"',
        {"a_tex": "\\includegraphics{no.png}"},
    ),
    "section 1 (Q), a.tex: cannot be read: Error at": (
        'title = "Q"\nfile = "a.tex"',
        {"a_tex": "a \\begin{foo} b"},
    ),
    "section 1 (Q), a.tex: Could not load include file": (
        'title = "Q"\nfile = "a.tex"',
        {"a_tex": "Words. \\input{/etc/passwd}"},
    ),
    "section 1 (Q), bad.png: the picture bad.png: not an image that can be read": (
        'title = "Q"\npicture = "bad.png"',
        {"bad_png": b"no picture"},
    ),
    "section 1 (Q), Z9: unknown problem 'Z9'": ('title = "Q"\nproblems = ["A1", "Z9"]', {}),
    "section 1 (Q), no.toml: cannot be read": ('title = "Q"\ntrace = "no.toml"', {}),
    "section 1 (Q), b.doc: unknown kind of file": ('title = "Q"\nfile = "b.doc"', {}),
    "section 1 (Q), n.ipynb: not executed: cells 1, 2": (
        'title = "Q"\nnotebook = "n.ipynb"',
        {"n_ipynb": notebook(*[cell("code", "1", execution_count=None, outputs=[])] * 2)},
    ),
    "section 1 (Q), n.ipynb, cell 1: a blank (...) is not filled in": (
        'title = "Q"\nnotebook = "n.ipynb"',
        {"n_ipynb": notebook(cell("code", "def f(x):\n    return ...", execution_count=1, outputs=[]))},
    ),
    "section 1 (Q), n.ipynb, cell 1: the answer is empty": (
        'title = "Q"\nnotebook = "n.ipynb"',
        {"n_ipynb": notebook(cell("markdown", "*Your answer:*"))},
    ),
    "section 1 (Q), n.ipynb, cell 1: stopped with ValueError: no": (
        'title = "Q"\nnotebook = "n.ipynb"',
        {
            "n_ipynb": notebook(
                cell(
                    "code",
                    "f()",
                    execution_count=1,
                    outputs=[{"output_type": "error", "ename": "ValueError", "evalue": "no"}],
                )
            )
        },
    ),
    "section 1 (Q), n.ipynb, cell 1: not a valid notebook": (
        'title = "Q"\nnotebook = "n.ipynb"',
        {"n_ipynb": notebook(cell("code", "1", execution_count=1, outputs=[1]))},
    ),
    "section 1 (Q), n.ipynb: 501 cells; at most 500": (
        'title = "Q"\nnotebook = "n.ipynb"',
        {"n_ipynb": notebook(*[cell("markdown", "a")] * 501)},
    ),
    "section 1 (Q), n.ipynb: not a notebook": ('title = "Q"\nnotebook = "n.ipynb"', {"n_ipynb": "[1]"}),
}


@pytest.mark.parametrize("words", BAD)
def test_what_is_wrong_is_told_by_place(words, write, tmp_path, headwork_command):
    register()
    section, files = BAD[words]
    path = write([section, 'title = "R"\ntext = "The rest."'], **files)
    code, _, err = headwork_command("handin", path, "--out", tmp_path / "hw.pdf")
    assert code == 2
    assert words in err
    assert not (tmp_path / "hw.pdf").exists()
    code, _, err = headwork_command("handin", path, "--out", tmp_path / "hw.pdf", "--force")
    assert code == 0
    assert f"Note: {words}" in err
    text = "".join(pages((tmp_path / "hw.pdf").read_bytes()))
    assert "The rest." in text
    assert "root:" not in text


def test_nothing_is_overwritten_without_force(write, tmp_path, headwork_command):
    register()
    path = write(['title = "Q"\ntext = "words"'])
    (tmp_path / "hw.pdf").write_text("mine")
    code, _, err = headwork_command("handin", path, "--out", tmp_path / "hw.pdf")
    assert (code, (tmp_path / "hw.pdf").read_text()) == (2, "mine")
    assert "exists" in err


def test_files_outside_of_the_folder_are_not_read(write, tmp_path):
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.md").symlink_to(tmp_path / "secret.md")
    path = tmp_path / "in" / "hw.toml"
    (tmp_path / "secret.toml").write_text('mechanism = "softmax"\n[inputs]\nscores = "0 1"\n')
    traces = f'trace = ["../secret.toml", "{tmp_path / "secret.toml"}"]'
    files = f'file = ["../secret.md", "link.md", "{tmp_path / "secret.md"}"]'
    path.write_text(f'names = ["A"]\n[[section]]\ntitle = "Q"\n{files}\n{traces}\n')
    handin = read_handin(path)
    assert len(handin.complaints) == 5
    assert not any("notebook" in complaint for complaint in handin.complaints)
    assert "secret" not in "".join(pages(handin.render("pdf"))).replace("secret.md", "")


def test_latex_reads_no_other_file(write, tmp_path):
    (tmp_path / "other.tex").write_text("hidden words")
    section = 'title = "Q"\nfile = "a.tex"'
    handin = read_handin(write([section], a_tex=rf"Mine. \input{{{tmp_path / 'other'}}}"))
    assert "Could not load include file" in handin.complaints[0]
    assert "hidden" not in "".join(pages(handin.render("pdf")))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no sections"),
        ('title = "x"\n[[sections]]\n', "unknown entry of .* 'sections'. Did you mean 'section'"),
        ('[[section]]\ntitle = "Q"\nfiles = "a.tex"\n', "unknown entry of section 1 'files'"),
        ('names = 3\n[[section]]\ntext = "a"\n', "names is a list of names"),
    ],
)
def test_a_file_that_is_no_hand_in(text, words, tmp_path):
    (tmp_path / "hw.toml").write_text(text)
    with pytest.raises(InputError, match=words):
        read_handin(tmp_path / "hw.toml")


def test_markup_in_an_answer_is_not_obeyed(write):
    text = '<script>alert(1)</script> #read(\\"/etc/passwd\\") #link \\\\input{x} ![](javascript:1)'
    handin = read_handin(write([f'title = "Q"\ntext = "{text}"']))
    page = handin.render("html")
    assert "<script>alert" not in page
    assert 'src="javascript' not in page
    shown = "".join(pages(handin.render("pdf")))
    assert "#read(" in shown
    assert "<script>alert(1)" in shown


def compile_latex(path, out):
    from headwork.cli.output import Output

    Output("latex", out).show(read_handin(path))
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", out.name]
    run = subprocess.run(command, cwd=out.parent, capture_output=True, text=True, errors="replace")
    assert run.returncode == 0, run.stdout[-1500:]
    return "".join(pages(out.with_suffix(".pdf").read_bytes()))


@pytest.mark.real("pdflatex")
def test_the_latex_compiles(write, tmp_path):
    text = 'title = "β → ∞"\ntext = "β 字 ~~gone~~ `β` and $β$ [a link](https://example.org)"'
    words = compile_latex(write([*WHOLE, text]), tmp_path / "hw.tex")
    assert "Mine:" in words
    assert (tmp_path / "hw-picture-1.png").exists()


@pytest.mark.soak
@pytest.mark.real("pdflatex")
def test_the_sample(tmp_path, within):
    """Two notebooks, ten problems, own LaTeX: under 20 s of processor time, no formula lost."""
    with within(20):
        handin = read_handin(SAMPLE)
        content = handin.render("pdf")
    assert handin.complaints == []
    text = pages(content)
    assert len(text) > 20
    assert all(f"{number} / {len(text)}" in page for number, page in enumerate(text, 1))
    assert "Contents" in text[0]
    own = [block for block in handin.blocks if type(block).__name__ == "PandocText"]
    formulas = sum(json.dumps(block.tree).count('"t": "Math"') for block in own)
    assert formulas == len(handin.formulas) > 60
    others = [block for block in handin.blocks if block not in own]
    from headwork.documents import Document

    (tmp_path / "all").mkdir(), (tmp_path / "rest").mkdir()
    rest = equations(Document("", tuple(others)), tmp_path / "rest")
    assert equations(handin.document(), tmp_path / "all") == formulas + rest
    assert not ink_in_margins(handin.document(), tmp_path / "all")
    compile_latex(SAMPLE, tmp_path / "hw2.tex")


def test_a_text_that_takes_pandoc_too_much_is_refused(monkeypatch):
    monkeypatch.setattr(pandoc, "USER_LIMITS", (4, "4M"))
    with pytest.raises(InputError, match="takes pandoc more than 4 s or 4M"):
        pandoc.read_tree("word " * 20_000, "markdown")


def claimed_png(width, height, *chunks):
    """A PNG that promises pixels it does not have."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    ends = (struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts)
    coded = (struct.pack(">I", len(data)) + kind + data for kind, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(bytes.__add__, coded, ends))


def svg(body, head=""):
    return f'{head}<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9">{body}</svg>'.encode()


EMBEDDED = '<image href="data:image/{};base64,{}" width="9" height="9"/>'
ENTITY = '<!DOCTYPE svg [<!ENTITY a "<g/>">]>'
PROFILE = (b"iCCP", b"a\0\0" + zlib.compress(bytes(80_000_000), 9))
BOMBS = {
    "claim.png": (claimed_png(60_000, 60_000), "at most 30,000,000 pixels are decoded|too large"),
    "profile.png": (claimed_png(4, 4, PROFILE), "not an image that can be read"),
    "inside.svg": (
        svg(EMBEDDED.format("png", base64.b64encode(claimed_png(20_000, 20_000)).decode())),
        "inside.png: ",
    ),
    "drawing.svg": (
        svg(EMBEDDED.format("svg+xml", base64.b64encode(svg("<g/>")).decode())),
        "only a PNG or JPEG",
    ),
    "filter.svg": (svg('<filter id="f"><feTurbulence numOctaves="1000"/></filter>'), "it has a filter"),
    "entity.svg": (svg("&a;", ENTITY), "it declares entities"),
    "hidden.svg": (svg(EMBEDDED.format("svg+xml", "x").replace("data", "d&#97;ta")), "only a PNG or JPEG"),
    "tags.svg": (svg("<g/>" * 60_000), "more than 50,000 tags"),
    "style.svg": (svg("<style>" + "a{fill:red}" * 2_000 + "</style>"), "more than 20,000 letters"),
    "words.svg": (svg("<text>" + "a" * 20_001 + "</text>"), "more than 20,000 letters"),
    "spans.svg": (svg("<text>" + "<tspan>a</tspan>" * 1_100 + "</text>"), "more than 50,000 tags"),
    "entries.svg": (svg("<g " + " ".join(f'a{n}="x"' for n in range(3_000)) + "/>"), "more than 50,000 tags"),
    "marker.svg": (svg('<marker id="m"/><path d="' + "L1 1" * 30_000 + '"/>'), "it has a marker"),
    "packed.svg": (gzip.compress(svg("<g/>")), "not an SVG that can be read"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_picture_that_would_take_all_memory_or_time_is_refused(name, write, tmp_path, within):
    content, told = BOMBS[name]
    (tmp_path / name).write_bytes(content)
    with within(5):
        (complaint,) = read_handin(write([f'title = "Q"\npicture = "{name}"'])).complaints
    assert re.search(f"the picture {name}: .*({told})", complaint)


def test_a_formula_too_deep_to_be_set_is_told_and_does_not_end_the_process(write):
    deep = "\\frac{1}{" * 2_000 + "1" + "}" * 2_000
    (complaint,) = read_handin(write([f"title = 'Q'\ntext = 'We have ${deep}$.'"])).complaints
    assert "cannot be read" in complaint


@pytest.mark.parametrize("text", [">" * 150 + " a", "".join(" " * (2 * n) + "- a\n" for n in range(150))])
def test_lists_and_quotes_too_deep_to_be_set_are_told(text, write, tmp_path):
    (tmp_path / "deep.md").write_text(text)
    handin = read_handin(write(["title = 'Q'\nfile = 'deep.md'"]))
    assert "its lists or quotes are nested too deeply" in handin.complaints[0]
    assert handin.document().render("pdf").startswith(b"%PDF")


@pytest.mark.parametrize("part", ['text = ["$x$",', 'picture = ["dot.png",', 'file = ["t.md",'])
def test_as_many_parts_as_may_stand_in_a_hand_in_are_set_in_seconds(part, write, tmp_path, within):
    (tmp_path / "dot.png").write_bytes(png())
    kind, _, value = part.partition("[")
    texts = notebook(*[cell("markdown", "x")] * 150)
    section = f"title = 'Q'\n{kind}[" + value * 99 + "]\nnotebook = 'n.ipynb'"
    path = write([section], t_md="x", n_ipynb=texts)
    with within(5):
        assert read_handin(path).render("pdf").startswith(b"%PDF")


def test_more_parts_and_longer_texts_than_anybody_hands_in_are_refused(write, tmp_path):
    with pytest.raises(InputError, match=r"section 1 \(Q\).*: more than 100 parts in all"):
        read_handin(write(["title = 'Q'\npicture = [" + "'no.png'," * 101 + "]"]))
    (tmp_path / "long.md").write_text("*a " * 110_000)
    (complaint,) = read_handin(write(["title = 'Q'\nfile = 'long.md'"])).complaints
    assert "330,000 bytes; at most 300,000 are read" in complaint


def test_pictures_of_a_plot_are_set_and_counted_together(write, tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    figure = Figure()
    figure.subplots().imshow([[0, 1], [1, 0]])
    figure.savefig(tmp_path / "plot.svg")
    (tmp_path / "dot.png").write_bytes(png())
    section = ['title = "Q"\npicture = ["plot.svg", "dot.png"]']
    handin = read_handin(write(section))
    assert handin.complaints == []
    assert handin.pixel_count > 1_200
    monkeypatch.setattr("headwork.courses.handin.MAX_PIXELS", handin.pixel_count - 1)
    (complaint,) = read_handin(write(section)).complaints
    assert "dot.png: all pictures together have more than" in complaint


def test_deep_pictures_many_formulas_and_scripts_in_links_are_told(write, tmp_path):
    (tmp_path / "deep.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg">' + "<g>" * 50_000)
    (tmp_path / "many.tex").write_text("$x$ " * 5_001)
    section = 'title = "Q"\npicture = "deep.svg"\nfile = "many.tex"\ntext = "[x](javascript:alert(1))"\n'
    (tmp_path / "hw.toml").write_text(f'names = ["A"]\n[[section]]\n{section}')
    handin = read_handin(tmp_path / "hw.toml")
    assert "200 deep" in handin.complaints[0]
    assert "5,001 formulas" in handin.complaints[1]
    assert 'href="javascript' not in handin.render("html")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"\begin{tabular}{" + "c" * 300 + "}" + "&" * 299 + r"\\\end{tabular}", "300 columns; at most 200"),
        ("&" * 3_000, "3,000 letters of a word; at most 2,000"),
        ("$" + "x+" * 16_000 + "x$", "letters; at most 30,000 are set"),
        (r"\url{http://x} " * 10_001, "10,002 lists, links and other parts; at most 10,000 are set"),
        (r"\includegraphics{dot.png}" * 102, "dot.png: more than 100 pictures in all"),
    ],
)
def test_what_takes_time_by_its_square_is_told(text, words, write):
    complaints = read_handin(write(['file = "long.tex"'], long_tex=text)).complaints
    assert words in complaints[-1]


def test_code_of_hundreds_of_pages_is_told(write):
    path = write(['text = "```\\n' + "x\\n" * 10_002 + '```"'])
    assert read_handin(path).complaints == ["section 1 (Section 1): more than 10,000 lines of code in all."]


@pytest.mark.parametrize("sign", [" ", "\n"])
def test_code_that_begins_with_much_space_is_read_at_once(sign, write, within):
    code = notebook(cell("code", sign * 30_000 + "x", execution_count=1, outputs=[]))
    path = write(['notebook = "space.ipynb"'], space_ipynb=code)
    with within(2):
        read_handin(path)


def test_hundreds_of_texts_of_a_notebook_are_refused(write):
    path = write(['notebook = "texts.ipynb"'], texts_ipynb=notebook(*[cell("markdown", "x")] * 151))
    (complaint,) = read_handin(path).complaints
    assert "more than 150 texts in all notebooks" in complaint


def test_only_the_first_lines_of_code_are_coloured(write):
    code = notebook(*[cell("code", "x = 1\n" * 900 + "y", execution_count=1, outputs=[])] * 2)
    source, _ = typst_source(read_handin(write(['notebook = "long.ipynb"'], long_ipynb=code)).document())
    assert source.count("```python") == 1


def test_formulas_that_cannot_be_set_are_found_by_halves(write, monkeypatch):
    runs = []
    monkeypatch.setattr(
        "headwork.courses.handin.typeset", lambda *given, **fonts: runs.append(1) or typeset(*given, **fonts)
    )
    many = "".join(f"$x_{{{i}}}$ " for i in range(500))
    path = write(['file = "many.tex"'], many_tex=rf"{many} $\frac{{}}{{}}$ $y$")
    (complaint,) = read_handin(path).complaints
    assert r"the formula \frac{}{} cannot be read" in complaint
    assert len(runs) < 30


def test_ten_thousand_complaints_are_cut(write, tmp_path, headwork_command):
    path = write(['file = "many.tex"'], many_tex=r"\notknown{x} " * 10_000)
    code, _, errors = headwork_command("handin", path, "--force", "--out", tmp_path / "out.md")
    assert code == 0
    assert len(errors) < 5_000
