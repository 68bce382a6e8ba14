"""The words and the layout that the project agreed on: the field's terms, short lines, small files."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "headwork").rglob("*.py"))
SHOWN = sorted(
    path for path in (ROOT / "headwork").rglob("*") if path.suffix in (".html", ".js", ".css", ".toml")
)
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Private words of ours for which the field has a term; beside each, what to write instead.
AVOIDED = {
    "right when said": "precision",
    "what is taken for what": "confusion matrix",
    "touched once": "used once, at the end",
    "looked at once": "used once, at the end",
    "scores for all of them": "logits",
    "one row a token": "one row per token",
    "time a token": "time per token",
    "a code a place": "one code per position",
    "a code a distance": "one code per offset",
    "published slip": "error in the hand-out's answer",
    "way there": "forward pass",
    "way back": "backward pass",
    "by build": "by design",
    "go on with a run": "resume a run",
    "finished run told": "report on a finished run",
    "what a run says": "predict labels",
    "not seen to be behind": "not measurably worse",
    "leaves a rest": "does not divide the size",
    "careful:": "Note:",
    "try others too": "so a transposed product would go unnoticed",
    "own token need not win": "a token need not attend most to itself",
    "table of phrases": "table of n-grams",
    "phrases of up to": "n-grams of up to",
    "the phrases do": "the n-grams do",
}
LARGEST_PACKAGE = 30_720  # lines of code; why not 30,000, ARCHITECTURE.md says under 2026-11-20
FORMER_FIELDS = {"right when said", "time a token", "time a token,", "time a token, {}"}  # of --json, kept
AVOIDED_WORDS = {r"\bWRONG\b": "incorrect", r"\b[Mm]end(s|ed|ing)?\b": "fix"}


def texts(path: Path) -> Iterator[str]:
    """What a module says: its strings, also those that are written in several parts, and its comments."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
    comments = [
        token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    yield " ".join(comments)


def avoided(text: str) -> list[str]:
    """The avoided words in a text, each with what to write instead."""
    flat = " ".join(text.split())
    if flat in FORMER_FIELDS:
        return []
    phrases = [f"{old!r}: write {new!r}" for old, new in AVOIDED.items() if old in flat.lower()]
    return phrases + [f"{old!r}: write {new!r}" for old, new in AVOIDED_WORDS.items() if re.search(old, flat)]


def test_avoided_words_are_noticed():
    assert avoided("the test set is touched\n    once") == ["'touched once': write 'used once, at the end'"]
    assert avoided("weights  WRONG  0 of 1")
    assert not avoided("We recommend the wrong amendment.")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_uses_the_terms_of_the_field(path):
    assert [(text[:60], words) for text in texts(path) if (words := avoided(text))] == []


@pytest.mark.parametrize("path", [*DOCS, *SHOWN], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_uses_the_terms_of_the_field(path):
    assert avoided(path.read_text()) == []


def test_no_identifier_is_called_told_or_telling():
    name = re.compile(r"(^|_)(told|telling)(_|$)")
    former = "headwork/training/run_folders.py"  # Result.told, for older notebooks
    used = [
        f"{path.relative_to(ROOT)}:{token.start[0]}: {token.string}"
        for path in MODULES
        if str(path.relative_to(ROOT)) != former
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        if token.type == tokenize.NAME and name.search(token.string)
    ]
    assert used == []


def test_the_readme_fits_a_screen():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("path", [*DOCS, ROOT / "ARCHITECTURE.md"], ids=lambda path: path.name)
def test_prose_ends_by_column_100(path):
    prose = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.S | re.M)
    assert [line for line in prose.splitlines() if len(line) > 100 and not line.startswith("|")] == []


def test_the_formatter_is_seldom_switched_off():
    switched = [path for path in MODULES for _ in re.findall(r"# fmt: skip", path.read_text())]
    assert len(switched) < 20


def lines_of_code(source: str) -> int:
    """Without blank lines, comments and docstrings."""
    aside = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))[:-1]
    lines = {
        line for each in tokens if each.type not in aside for line in range(each.start[0], each.end[0] + 1)
    }
    texts = [node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr)]
    alone = [text for text in texts if isinstance(text, ast.Constant) and isinstance(text.value, str)]
    return len(lines - {line for text in alone for line in range(text.lineno, (text.end_lineno or 0) + 1)})


def test_files_are_small_and_the_package_does_not_grow():
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > 400} == {}
    assert sum(lines_of_code(path.read_text()) for path in MODULES) < LARGEST_PACKAGE


# Words without a noun: a parameter or an attribute says what it holds (``own_shapes``, ``key_mask``).
NO_NOUN = re.compile(
    "_?(anew|at|beside|few|fine|first|given|hidden|known|little|nothing|odd|of|other|own|rest|same|whole|wide)"
)
# The paper's word for a width, and the fields of the lab's requests (docs/lab.md).
WIDTHS = re.compile(r"hidden: (int|Size)\b")
REQUESTS = {"lab/calls.py: of", "lab/look_inside.py: given", "lab/practising.py: at"}


def names_without_noun(source: str) -> Iterator[str]:
    """Parameters and attributes that are called by such a word; ``other`` may be the second operand."""
    for node in ast.walk(ast.parse(source)):
        named: list[tuple[str, str]] = []  # each name, and as it is declared
        if isinstance(node, ast.arguments):
            every = [*node.posonlyargs, *node.args, *node.kwonlyargs, node.vararg, node.kwarg]
            named = [(each.arg, ast.unparse(each)) for each in every if each]
            named = [] if [name for name, _ in named] == ["self", "other"] else named
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            named = [(node.target.id, ast.unparse(node))]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            named = [(node.attr, node.attr)]
        yield from (name for name, text in named if NO_NOUN.fullmatch(name) and not WIDTHS.match(text))


def test_a_name_without_noun_is_noticed():
    assert [*names_without_noun("class A:\n    whole: bool\n    hidden: int = 4")] == ["whole"]
    assert [*names_without_noun("def f(self, other): self.own = lambda at: at")] == ["own", "at"]
    assert [*names_without_noun("def f(hidden: float, *, known=0, n=1): ...")] == ["hidden", "known"]


def test_parameters_and_attributes_are_called_by_a_noun():
    used = {
        f"{path.relative_to(ROOT / 'headwork')}: {name}"
        for path in MODULES
        for name in names_without_noun(path.read_text())
    }
    assert used - REQUESTS == set()
