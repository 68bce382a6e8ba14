"""The problem book: every course problem, solved by our mechanisms, with the published values beside ours.

What an entry works stands in ``book.toml``, or in a function that fills a ``Solution``: it shows traces and
tables, explains in a few words, and checks each value against the correct one. The checks are the golden
tests at the same time.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from headwork import sizes
from headwork.documents import Details, Document, Heading, Item, Items, Table
from headwork.documents.number_format import cell_text, decimal_value, number_text
from headwork.errors import unknown_name
from headwork.files import load_package_toml
from headwork.numbers import HandTensor
from headwork.numbers.parsing import read_tensor
from headwork.readings import Trace, TraceValue, explain
from headwork.readings.trace_document import trace_data

GROUPS = {
    "A": "Patches and self-attention by hand",
    "B": "What attention can be made to do",
    "C": "The transformer",
    "D": "Convolution and weight sharing",
    "E": "Recurrence",
    "F": "Training on real data",
    "G": "Questions in words",
}
# The answer of each problem, its work, and the errors in the hand-outs' answers.
BOOK = load_package_toml(__file__, "book.toml")
MODULES = ["by_hand", "attention_properties", "training"]
Part = TypeVar("Part")
TOLERANCE = 1e-12  # how close a decimal must come to the correct value


@dataclass(frozen=True)
class CheckedValue:
    """One checked value: ours, whether it is correct, and what was published where that differs."""

    label: str
    ours: str
    right: bool
    published: str = ""
    why: str = ""

    def item(self) -> Item:
        """The value with its verdict; a published error stands below, with the reason."""
        more = (f"published: {self.published}. {self.why}",) if self.published else ()
        verdict = "ok" if self.right else "MISMATCH"
        return Item(f"{self.label}: {self.ours}", verdict=verdict, good=self.right, more=more)

    def as_data(self) -> dict[str, Any]:
        data = dict(vars(self))
        return {"what": data.pop("label"), **data}


@dataclass
class Solution:
    """What an entry shows, explains and checks, in order, and its answer."""

    parts: list[Any] = field(default_factory=list)  # str, Trace, Table or a matplotlib figure
    findings: list[CheckedValue] = field(default_factory=list)
    answer: str = ""
    why: str = ""
    worked: Any = None  # the trace or the ledger that was worked last
    last_part: Mapping[str, Any] = field(default_factory=dict)  # the part of the book that asked for it

    @property
    def short_answer(self) -> str:
        """The first sentence of the answer."""
        return self.answer.replace("...", "…").partition(". ")[0]

    @property
    def right(self) -> bool:
        return all(finding.right for finding in self.findings)

    @property
    def verdict(self) -> str:
        mismatches = [f.label for f in self.findings if not f.right]
        if mismatches:
            return f"MISMATCH: {', '.join(mismatches)}"
        errors = sum(1 for f in self.findings if f.published)
        return f"checked; {_plural(errors, 'error')} in the hand-out's answer" if errors else "checked"

    def say(self, words: str) -> None:
        self.parts.append(_one_line(words))

    def show(self, part: Part) -> Part:
        """Add a trace, table, ledger or figure, a document by its parts; and return it."""
        self.parts += [part.title, *part.parts] if isinstance(part, Document) else [part]
        return part

    def work(self, part: Mapping[str, Any]) -> None:
        """A part of the work as ``book.toml`` has it: words, or something worked, shown and checked."""
        if "say" in part:
            self.say(part["say"])
            return
        if "change" in part:
            inputs = {**self.last_part.get("inputs", {}), **part["change"]}
            part = {**self.last_part, "show": False, "values": {}, **part, "inputs": inputs}
        self.last_part, inputs = part, {n: _as_tuple(value) for n, value in part.get("inputs", {}).items()}
        if "sizes" in part:
            self.worked = getattr(sizes, part["sizes"])(**inputs)
        else:
            self.worked = explain(part["explain"], exact=part.get("exact", False), **inputs)
        if part.get("show"):
            self.show(self.worked)
        for label, (place, correct, *digits) in part.get("values", {}).items():
            rounded = digits[0] if digits else -1
            self.check(label, _value_at(self.worked, place), _as_tuple(correct), rounded=rounded)

    def check(self, label: str, ours: Any, expected: Any, *, rounded: int = -1) -> None:
        """Compare with the correct value: exactly, to ``TOLERANCE`` in decimals, or to so many digits."""
        ours = _numbers(ours)
        several = isinstance(ours, (tuple, list))
        if several or ours is None or isinstance(ours, (str, bool, int)):
            right, text = ours == expected, f"[{', '.join(map(str, ours))}]" if several else cell_text(ours)
        elif rounded >= 0:
            digits = [f"{decimal_value(x):.{rounded}f}" for x in np.asarray(ours, object).flat]
            right, text = digits == expected.split(), " ".join(digits)
        else:
            right, text = _equal_cells(ours, expected), _array_text(ours)
        self.findings.append(CheckedValue(label, text, bool(right)))

    def confirm(self, label: str, fact: Any) -> None:
        """Check a fact that the label states."""
        self.check(label, bool(fact), True)


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _numbers(value: Any) -> Any:
    """Of a step its numbers, exact where there are such."""
    if not isinstance(value, TraceValue):
        return value
    return value.values if value.exact_values is None else value.exact_values


def _value_at(part: Any, place: str) -> Any:
    """A step or a fact by its place in a trace or ledger: ``weights``, ``output[:,1]``, ``matrix.shape``."""
    name, shape, index = re.findall(r"([^.[]+)(\.shape)?(?:\[(.+)\])?", place)[0]
    value = part[name].shape if shape else _numbers(part[name])
    keys = [slice(None) if key == ":" else int(key) for key in index.split(",") if key]
    return value[tuple(keys) if len(keys) > 1 else keys[0]] if keys else value


def hand_tensor(rows: Any) -> HandTensor:
    return HandTensor(np.asarray(rows, float))


def _one_line(words: str) -> str:
    return " ".join(words.split())


def is_close(a: Any, b: Any) -> bool:
    return bool(np.abs(a - b).max() <= TOLERANCE)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _array_text(value: Any) -> str:
    rows = np.atleast_2d(np.asarray(value, object))
    return "; ".join(" ".join(_cell_text(x) for x in row) for row in rows.reshape(-1, rows.shape[-1]))


def _cell_text(value: Any) -> str:
    if not hasattr(value, "free_symbols"):
        return number_text(value, 4)
    # When it is needed: SymPy takes a second to import.
    from headwork.numbers.exact import as_single_fraction, exact_text

    return exact_text(as_single_fraction(value))


def _equal_cells(ours: Any, expected: Any) -> bool:
    typed = isinstance(expected, str)
    correct = read_tensor(expected, exact=True).array if typed else np.asarray(expected, object)
    cells = np.asarray(ours, object)
    pairs = zip(cells.flat, correct.flat, strict=True)
    return cells.shape == correct.shape and all(_equal(a, b) for a, b in pairs)


def _equal(ours: Any, correct: Any) -> bool:
    if hasattr(ours, "free_symbols") and hasattr(correct, "free_symbols"):
        from headwork.numbers.exact import sign

        difference = (ours - correct).expand()
        return bool(difference == 0 or (not difference.free_symbols and sign(difference) == 0))
    number = decimal_value(correct)
    return number is not None and bool(abs(float(ours) - number) <= TOLERANCE * (1 + abs(number)))


@dataclass(frozen=True)
class Problem:
    """An entry: its slug, title, question in our words, and the function that fills a solution."""

    slug: str
    title: str
    question: str
    fill: Callable[[Solution], None]

    def solve(self) -> Solution:
        words = BOOK.get(self.slug, {})
        solution = Solution()
        self.fill(solution)
        solution.answer, solution.why = (_one_line(words.get(name, "")) for name in ("answer", "why"))
        for i, finding in enumerate(solution.findings):
            published, why = words.get("errors", {}).get(finding.label, ("", ""))
            solution.findings[i] = replace(finding, published=published, why=_one_line(why))
        return solution

    def document(self, solution: Solution) -> Document:
        """The question, the answer and why, the work, the checked values."""
        why = [f"Why: {solution.why}"] if solution.why else []
        checks = Items(tuple(finding.item() for finding in solution.findings))
        folded = Details(f"{_plural(len(checks.items), 'value')} {solution.verdict}", (checks,))
        parts = (self.question, f"Answer: {solution.answer}", *why, *solution.parts, folded)
        return Document(f"{self.slug}. {self.title}", parts, data=lambda: self.as_data(solution))

    def as_data(self, solution: Solution) -> dict[str, Any]:
        return {
            "problem": self.slug,
            "title": self.title,
            "question": self.question,
            "answer": solution.answer,
            **({"why": solution.why} if solution.why else {}),
            "verdict": solution.verdict,
            "right": solution.right,
            "findings": [finding.as_data() for finding in solution.findings],
            "words": [part for part in solution.parts if isinstance(part, str)],
            "traces": [trace_data(part) for part in solution.parts if isinstance(part, Trace)],
        }


def _fill(functions: Mapping[str, Any], work: Iterable[Mapping[str, Any]], solution: Solution) -> None:
    """All the work of an entry, one part after another."""
    for part in work:
        if "call" in part:
            functions[part["call"]](solution)
        else:
            solution.work(part)


@cache
def all_problems() -> dict[str, Problem]:
    """Every problem by its slug, in order: what book.toml says, and the functions that it calls."""
    modules = [import_module(f"headwork.problems.{name}") for name in MODULES]
    functions = {name: function for module in modules for name, function in vars(module).items()}
    problems = {}
    for slug, entry in BOOK.items():
        fill = partial(_fill, functions, entry.get("work", [{"call": slug.lower()}]))
        problems[slug] = Problem(slug, entry["title"], _one_line(entry["question"]), fill)
    return problems


def find_problem(slug: str) -> Problem:
    """A problem by its slug, in either case."""
    problems = all_problems()
    if slug.upper() not in problems:
        raise unknown_name("problem", slug, problems)
    return problems[slug.upper()]


def problem_list() -> Document:
    """All problems, by group."""
    parts: list[Any] = []
    for group, name in GROUPS.items():
        listed = {slug: problem for slug, problem in all_problems().items() if slug[0] == group}
        parts += [Heading(f"{group}. {name}")]
        parts += [Items(tuple(Item(problem.title, slug) for slug, problem in listed.items()))]
    parts.append("headwork problems A2 solves one; headwork problems --check checks all.")
    return Document("The problem book", tuple(parts))


def book(solutions: dict[str, Solution]) -> Document:
    """The whole book, solved: the short table, then every problem."""
    parts: list[Any] = [summary(solutions)]
    for slug, solution in solutions.items():
        section = all_problems()[slug].document(solution)
        parts += [Heading(section.title, anchor=slug), *section.parts]
    return Document(
        "The problem book",
        tuple(parts),
        data=lambda: [all_problems()[slug].as_data(solution) for slug, solution in solutions.items()],
    )


def summary(solutions: dict[str, Solution]) -> Table:
    """Problem, answer, verdict: the short table of the whole book."""
    rows = [(slug, solution.short_answer, solution.verdict) for slug, solution in solutions.items()]
    checks = sum(len(solution.findings) for solution in solutions.values())
    wrong = sum(not solution.right for solution in solutions.values())
    outcome = f"{_plural(wrong, 'problem')} with a mismatch" if wrong else "no mismatch"
    note = f"{checks} values checked in {len(rows)} problems; {outcome}."
    return Table("", ("problem", "answer", "verdict"), rows, [note])
