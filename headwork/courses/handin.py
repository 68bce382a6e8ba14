"""The hand-in: theory answers, worked problems, traces and notebooks of one TOML file as one document.

::

    title = "Homework 2"
    names = ["Ada Lovelace"]

    [[section]]
    title = "Copying"
    file = "copying.tex"       # your own words, in LaTeX or Markdown; or text = "..."
    problems = ["B6"]          # worked problems of the book
    trace = "four-tokens.toml" # a problem of your own, worked by headwork explain
    notebook = "vit.ipynb"     # with its outputs

What a section names stands in that order. What is missing or cannot be read is kept as a complaint, by place.
"""

import base64
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from headwork.courses.notebooks import ANSWER
from headwork.courses.pictures import PICTURES, count_pixels
from headwork.documents import Block, Document, Heading, PandocText, Renderable
from headwork.documents.formats.pdf import CHARACTERS, typeset
from headwork.documents.number_format import wrap_code
from headwork.documents.pandoc import Tree, latex_to_typst, map_elements, read_tree
from headwork.errors import HeadworkError, InputError, TooLarge, check_all_known, unknown_name
from headwork.files import parse_json, read_bytes, read_text, read_toml
from headwork.problems import find_problem
from headwork.readings import explain
from headwork.readings.explaining import read_problem

FIELDS = ("title", "names", "collaborators", "section")
SECTION_FIELDS = ("title", "text", "file", "problems", "trace", "notebook", "picture")
SYNTAXES = {".tex": "latex", ".md": "markdown", ".txt": "markdown"}
MAX_NOTEBOOK, MAX_CELLS = 50_000_000, 500  # bytes with its pictures; cells
MAX_LINES, MAX_FORMULAS, MAX_PIXELS = 60, 5_000, 100_000_000  # a cell prints; in a text; of all pictures
NO_ATTRIBUTES: list[Any] = ["", [], []]
MAX_PARTS, MAX_CELL_TEXTS = 100, 150  # named in a hand-in; of all its notebooks: pandoc takes 30 ms and 10 ms
MAX_ANSWER, MAX_DEPTH = 300_000, 100  # bytes of a text; brackets of a formula
# Beyond these pandoc and Typst take time by the square: where it is counted in a part, how many, of what.
MAX_SIZES = {
    "Str": (0, 2_000, "letters of a word"),
    "Math": (1, 30_000, "letters"),
    "Table": (2, 200, "columns"),
}
MAX_CODE, MAX_COLOURED = 10_000, 1_500  # lines, of all code; in colour, which takes Typst ten times as long
MAX_MARKED = 10_000  # parts of a text that are neither plain words nor formulas
UNMARKED = {"Str", "Space", "SoftBreak", "Math", "InlineMath", "DisplayMath"}
MAX_HALVES = 100  # groups of formulas that are set to find those that cannot be
# Skipped by pandoc, and nothing is lost: layout, and the frame of an environment whose contents stay.
LAYOUT = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}|\\(?:[vh]space\*?|set\w+|page\w*|this\w+|new\w+|clear\w+|maketitle|no\w+"
    r"|(?:big|med|small)skip|[vh]fill|centering|\w*size|use\w+|geometry|linewidth|\W)(?![a-z]).*",
    re.DOTALL,
)
# What a damaged notebook brings about.
DAMAGED_NOTEBOOK_ERRORS = (AttributeError, IndexError, TypeError, ValueError)
BLANK = re.compile(r"^[ \t]*+(?:[\w, ]+ = |return )?\.\.\.$", re.M)


@dataclass
class HandIn(Renderable):
    """What a hand-in holds, and what was not as it should be."""

    title: str
    byline: str
    folder: Path
    blocks: list[Block] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    formulas: list[str] = field(default_factory=list)  # the student's own
    location: str = ""
    pixel_count: int = 0
    part_count: int = 0
    cell_texts: int = 0
    code_line_count: int = 0  # of code

    def document(self) -> Document:
        return Document(self.title, tuple(self.blocks), about=self.byline)

    def complain(self, words: str) -> None:
        self.complaints.append(f"{self.location}: {words}")

    # --- sections ---------------------------------------------------------------------------------
    def add_section(self, number: int, section: dict[str, Any]) -> None:
        """A heading, and below it what the section names, in order."""
        self.location = f"section {number}"
        check_all_known(f"entry of section {number}", section, SECTION_FIELDS)
        title = str(section.pop("title", f"Section {number}"))
        self.location += f" ({title})"
        self.blocks.append(Heading(title, anchor=f"section-{number}"))
        if not section:
            self.complain("empty. Give it a text, a file, problems, a trace, a notebook or a picture.")
        for name, value in section.items():
            for part in value if isinstance(value, list) else [value]:
                before = self.location
                self.part_count += 1
                if self.part_count > MAX_PARTS:
                    raise TooLarge(f"{self.location}: more than {MAX_PARTS} parts in all. Join some.")
                try:
                    self.location += "" if name == "text" else f", {part}"
                    self.blocks += getattr(self, f"_add_{name}")(str(part))
                except HeadworkError as error:
                    self.complain(str(error).removeprefix(f"{self.folder / str(part)}: "))
                except DAMAGED_NOTEBOOK_ERRORS as error:
                    self.complain(f"not a valid notebook ({type(error).__name__}: {error}).")
                self.location = before

    def _add_text(self, text: str, syntax: str = "markdown") -> Iterator[Block]:
        if not text.strip():
            self.complain("the answer is empty.")
            return
        try:
            tree, messages = read_tree(text, syntax)
        except InputError as error:
            self.complain(f"cannot be read: {error}")
            tree, messages = [_code(text)], []
        for message in messages:
            skipped = re.match(r"Skipped '(.*)' at (?:chunk )?line (\d+)", message)
            if skipped and not LAYOUT.fullmatch(skipped[1]):
                self.complain(f"line {skipped[2]}: {skipped[1]} is not known, and would be left out.")
            elif re.match(r"Could not load include file (?!\S+\.sty )", message):
                self.complain(f"{message}. Other files are not read: name each in the TOML file.")
        yield self._passage(tree, text)

    def _add_file(self, name: str) -> Iterator[Block]:
        syntax = SYNTAXES.get(Path(name).suffix.lower())
        if syntax is None:
            raise unknown_name("kind of file", name, SYNTAXES)
        text = read_text(self.folder / name, max_bytes=MAX_ANSWER, root=self.folder)
        yield from self._add_text(text, syntax)

    def _add_problems(self, slug: str) -> Iterator[Block]:
        problem = find_problem(slug)
        document = problem.document(problem.solve())
        yield Heading(document.title, 3)
        for block in document.blocks[:-1]:  # without the list of what was checked
            yield replace(block, level=4) if isinstance(block, Heading) else block

    def _add_trace(self, name: str) -> Iterator[Block]:
        mechanism, inputs = read_problem(self.folder / name, root=self.folder)
        document = explain(mechanism, exact=True, **inputs).document()
        yield Heading(f"{document.title}: {Path(name).stem}", 3)
        yield from document.blocks

    def _add_picture(self, name: str) -> Iterator[Block]:
        image = {"t": "Image", "c": [NO_ATTRIBUTES, [], [name, ""]]}
        yield self._passage([{"t": "Para", "c": [image]}])

    # --- what the student wrote -------------------------------------------------------------------
    def _passage(self, tree: Tree, text: str = "", attached: dict[str, bytes] | None = None) -> PandocText:
        """The tree as it may stand in a larger document: no raw parts, no marks that might meet others."""
        pictures: dict[str, bytes] = {}
        formulas: list[str] = []

        def clean(part: dict[str, Any]) -> dict[str, Any] | None:
            kind, content = part["t"], part.get("c", [])
            if kind in ("RawBlock", "RawInline"):
                self.complain(f"{content[1][:60]} is not known, and would be left out.")
                return None
            if kind == "Cite":
                return {"t": "Str", "c": f"[{', '.join(entry['citationId'] for entry in content[0])}]"}
            if kind == "Link" and not re.match(r"https?://|mailto:", content[2][0]):
                return {"t": "Span", "c": [NO_ATTRIBUTES, content[1]]}
            if kind == "Header":
                return {"t": kind, "c": [content[0] + 2, ["", ["unnumbered"], []], content[2]]}
            if kind in MAX_SIZES:
                at, most, unit = MAX_SIZES[kind]
                if (size := len(content[at] if at else content)) > most:
                    raise TooLarge(f"{size:,} {unit}; at most {most:,} are set.")
            if kind in ("Div", "Span", "Table", "Figure", "Code"):
                return {"t": kind, "c": [NO_ATTRIBUTES, *content[1:]]}
            if kind == "CodeBlock":
                block = _code(content[1], *content[0][1][:1])
                self.code_line_count += block["c"][1].count("\n")
                if self.code_line_count > MAX_CODE:
                    raise TooLarge(f"more than {MAX_CODE:,} lines of code in all.")
                if self.code_line_count > MAX_COLOURED:
                    block["c"][0][1] = []
                return block
            if kind == "Math":
                latex = re.sub(r"\\label\{[^{}]*\}", "", content[1])
                formulas.append(latex)
                return {"t": kind, "c": [content[0], latex]}
            return self._image(part, pictures, attached or {}) if kind == "Image" else part

        def unreadable_as_code(part: dict[str, Any]) -> dict[str, Any]:
            wrong = part["t"] == "Math" and part["c"][1] in unreadable
            return {"t": "Code", "c": [NO_ATTRIBUTES, part["c"][1]]} if wrong else part

        kinds = Counter(re.findall(r'"t": "(\w+)"', json.dumps(tree)))
        if (parts := sum(kinds[kind] for kind in kinds if kind not in UNMARKED)) > MAX_MARKED:
            raise TooLarge(f"{parts:,} lists, links and other parts; at most {MAX_MARKED:,} are set.")
        cleaned = map_elements(tree, clean)
        if len(formulas) > MAX_FORMULAS:
            raise InputError(f"{len(formulas):,} formulas; at most {MAX_FORMULAS:,} are set.")
        written, unreadable = latex_to_typst(formulas) if formulas else ([], [])
        pairs = list(zip(formulas, written, strict=True))
        # What is too deep would end the process.
        unreadable += [pair[0] for pair in pairs if max(map(_depth, pair)) > MAX_DEPTH]
        pairs = [(latex, one) for latex, one in pairs if latex not in unreadable]
        unreadable += _refused_by_typst(pairs)
        for latex in unreadable:
            start = text.find(latex.split("\n")[-1 if "\n" not in latex else 1].strip()[:40])
            line = f"line {text.count(chr(10), 0, start) + 1}: " if start >= 0 else ""
            self.complain(f"{line}the formula {' '.join(latex.split())} cannot be read.")
        self.formulas += formulas
        return PandocText(map_elements(cleaned, unreadable_as_code), pictures)

    def _image(
        self, part: dict[str, Any], pictures: dict[str, bytes], attached: dict[str, bytes]
    ) -> dict[str, Any] | None:
        """An image by a name of ours, its bytes read from the folder."""
        attributes, words, (target, title) = part["c"]
        ending = Path(target).suffix.lower()
        try:
            if "://" in target or ending not in PICTURES:
                raise InputError(f"a picture must be a file beside the hand-in: {', '.join(PICTURES)}.")
            count = sum(len(block.pictures) for block in self.blocks if isinstance(block, PandocText))
            if count + len(pictures) >= MAX_PARTS:
                raise TooLarge(f"more than {MAX_PARTS} pictures in all.")
            content = attached.get(target) or read_bytes(self.folder / target, root=self.folder)
            self.pixel_count += count_pixels(content, self.folder / target)
            if self.pixel_count > MAX_PIXELS:
                raise TooLarge(f"all pictures together have more than {MAX_PIXELS:,} pixels.")
            typeset(f'#image("picture{ending}")', {f"picture{ending}": content}, own_fonts=True)
        except InputError as error:
            self.complain(f"the picture {target}: {str(error).removeprefix(f'{self.folder / target}: ')}")
            return {"t": "Strong", "c": [{"t": "Str", "c": f"[the picture {target} is missing]"}]}
        name = f"picture-{count + len(pictures) + 1}{ending}"
        pictures[name] = content
        size = [pair for pair in attributes[2] if pair[0] in ("width", "height")]
        return {"t": "Image", "c": [["", [], size], words, [name, title]]}

    # --- notebooks --------------------------------------------------------------------------------
    def _add_notebook(self, name: str) -> Iterator[Block]:
        """Every cell with its outputs; one that was not run, stopped or left blank is a complaint."""
        text = read_text(self.folder / name, max_bytes=MAX_NOTEBOOK, root=self.folder)
        data = parse_json(text, name, max_bytes=MAX_NOTEBOOK)
        cells = data.get("cells") if isinstance(data, dict) else None
        if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
            raise InputError("not a notebook of nbformat 4.")
        if len(cells) > MAX_CELLS:
            raise InputError(f"{len(cells):,} cells; at most {MAX_CELLS:,} are read.")
        location, tree, attached, not_run = self.location, [], {}, []
        for number, cell in enumerate(cells, 1):
            self.location = f"{location}, cell {number}"
            source = _as_text(cell.get("source"))
            if cell.get("cell_type") == "markdown":
                if source.strip() == ANSWER:
                    self.complain("the answer is empty.")
                for file, data in (cell.get("attachments") or {}).items():
                    attached[f"attachment:{file}"] = base64.b64decode(next(iter(data.values()), ""))
                self.cell_texts += 1
                if self.cell_texts > MAX_CELL_TEXTS:
                    raise TooLarge(f"more than {MAX_CELL_TEXTS} texts in all notebooks. Join cells of text.")
                tree += read_tree(source, "markdown")[0]
            elif cell.get("cell_type") == "code" and source.strip():
                if BLANK.search(source):
                    self.complain("a blank (...) is not filled in.")
                not_run += [str(number)] if cell.get("execution_count") is None else []
                tree.append(_code(source, "python"))
                for count, output in enumerate(cell.get("outputs") or []):
                    tree += self._output(output, f"cell-{number}-{count}", attached)
        self.location = location
        if not_run:
            self.complain(f"not executed: cells {', '.join(not_run)}. Run the whole notebook and save it.")
        yield self._passage(tree, attached=attached)

    def _output(self, output: dict[str, Any], name: str, attached: dict[str, bytes]) -> Tree:
        """What a cell printed, as text, or its picture."""
        if output.get("output_type") == "error":
            self.complain(f"stopped with {output.get('ename')}: {output.get('evalue')}")
            return [_code(f"{output.get('ename')}: {output.get('evalue')}")]
        data = output.get("data") or {"text/plain": output.get("text", "")}
        for ending, kind in PICTURES.items():
            if kind in data:
                content = _as_text(data[kind])
                attached[name + ending] = content.encode() if ending == ".svg" else base64.b64decode(content)
                image = {"t": "Image", "c": [NO_ATTRIBUTES, [], [name + ending, ""]]}
                return [{"t": "Para", "c": [image]}]
        lines = re.sub(r"\x1b\[[0-9;]*m", "", _as_text(data.get("text/plain", ""))).splitlines()
        if len(lines) > MAX_LINES:
            lines[MAX_LINES:] = [f"... and {len(lines) - MAX_LINES} more lines"]
        return [_code("\n".join(lines))] if lines else []


def _depth(formula: str) -> int:
    """How deep brackets stand inside each other, at most."""
    return max(itertools.accumulate((sign in "([{") - (sign in ")]}") for sign in formula), default=0)


def _refused_by_typst(formulas: list[tuple[str, str]]) -> list[str]:
    """The LaTeX of those that cannot be set, found by halves; all that are in doubt after so many halves."""
    refused, groups = list[str](), [formulas]
    for group in groups:
        if group and not _can_typeset("\n\n".join(typst for _, typst in group)):
            if len(group) == 1 or len(groups) > MAX_HALVES:
                refused += [latex for latex, _ in group]
            else:
                groups += [group[: len(group) // 2], group[len(group) // 2 :]]
    return refused


def _can_typeset(source: str) -> bool:
    try:
        return bool(typeset(source, {}, own_fonts=True))
    except InputError:
        return False


def _as_text(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text or "")


def _code(text: str, *language: str) -> dict[str, Any]:
    return {"t": "CodeBlock", "c": [["", list(language), []], wrap_code(text, CHARACTERS)]}


def read_handin(path: str | Path) -> HandIn:
    """The hand-in that a TOML file describes; the files that it names stand in its folder."""
    data = read_toml(path)
    check_all_known(f"entry of {path}", data, FIELDS)
    sections = data.get("section", [])
    if not isinstance(sections, list) or not sections or not all(isinstance(s, dict) for s in sections):
        raise InputError(f'{path}: no sections. Begin each with [[section]] and title = "...".')
    names, others = (_names(path, data, name) for name in ("names", "collaborators"))
    byline = f"{names}. Worked with {others}." if others else f"{names}."
    handin = HandIn(str(data.get("title", Path(path).stem)), byline if names else "", Path(path).parent)
    if not names:
        handin.complaints.append(f'{path}: no names. Add names = ["Your Name"].')
    for number, section in enumerate(sections, 1):
        handin.add_section(number, dict(section))
    return handin


def _names(path: str | Path, data: dict[str, Any], field: str) -> str:
    names = data.get(field, [])
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list):
        raise InputError(f'{path}: {field} is a list of names: {field} = ["Ada Lovelace"].')
    return ", ".join(map(str, names))
