"""The hand-outs, question by question: found by number or words, each with the answer that earns full marks.

What a question asks, its answer and where to go on stand in ``handouts.toml``; the errors in the hand-outs'
answers stand in ``book.toml``, with the problems that they belong to.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import groupby
from typing import Any

from headwork.documents import Block, Code, Document, Formula, Heading, Item, Items, Prose, as_blocks
from headwork.errors import InputError, truncate, unknown_name
from headwork.files import load_package_toml
from headwork.problems.book import BOOK, all_problems, find_problem
from headwork.problems.families import answer_table

HANDOUTS = load_package_toml(__file__, "handouts.toml")
TITLE = "The hand-outs, question by question"
HINT = "headwork course hw3/1.3c answers a question; headwork course --find permutation looks for words."


@dataclass(frozen=True)
class HandoutQuestion:
    """A question of a hand-out; its answer shows ``table`` and the work of ``worked_problems``, by slug."""

    handout: str
    number: str
    asks: str
    answer: str
    problems: list[str]
    command: str
    notebook: str
    exercise: str
    table: str = ""
    worked_problems: tuple[str, ...] | list[str] = ()

    @property
    def name(self) -> str:
        return f"{self.handout}/{self.number}"

    def blocks(self, work: bool = True) -> Iterator[Block]:
        """The answer and the work that belongs to it, errors in the hand-outs' answers, where to go on."""
        yield Prose(("Answer: ", *with_formulas(self.answer)))
        if self.table:
            yield answer_table()
        for slug in self.worked_problems if work else ():
            for part in find_problem(slug).solve().parts:
                yield from as_blocks(part)
        errors = [error for slug in self.problems for error in BOOK[slug].get("errors", {}).values()]
        if errors:
            yield Prose("Errors in the hand-outs' answers:")
            yield Items(
                tuple(Item(f"published: {published}. {' '.join(why.split())}") for published, why in errors)
            )
        solved = f"Worked in full: headwork problems {' and '.join(self.problems)}. " if self.problems else ""
        yield Prose(f"{solved}In code: the notebook {self.notebook}. To change it, try it, practise it:")
        practise = f"headwork practice new {self.exercise} --out exercise/"
        yield Code(f"headwork lab {self.name}\n{self.command}\n{practise}")

    def as_data(self) -> dict[str, Any]:
        return {
            "question": self.name,
            **{n: v for n, v in vars(self).items() if v and n not in ("handout", "number")},
        }


def with_formulas(text: str) -> tuple[str | Formula, ...]:
    """Words with the formulas between their dollar signs, and with symbols such as W_q and n^2.

    >>> with_formulas("is $x + y$ in O(n^2).")
    ('is ', Formula(latex='x + y'), ' in O(', Formula(latex='n^2'), ').')
    """
    parts = re.split(r"\$([^$]+)\$|\b([A-Za-z](?:_[a-z0-9]|\^\d))\b", " ".join(text.split()))
    parts = [part for part in parts if part is not None]
    return tuple(Formula(part) if number % 2 else part for number, part in enumerate(parts) if part)


@cache
def questions() -> dict[str, HandoutQuestion]:
    """Every question by its name, in order."""
    every = (
        HandoutQuestion(handout, number, **entry)
        for handout, content in HANDOUTS.items()
        for number, entry in content["questions"].items()
    )
    return {question.name: question for question in every}


def look_up(name: str) -> list[HandoutQuestion]:
    """The questions of this name: one (hw3/1.3c), a range (hw3/1.1a-b), or all that begin so (hw3/1.3, hw3).

    >>> [question.name for question in look_up("HW3/1.1e-f")]
    ['hw3/1.1e', 'hw3/1.1f']
    """
    wanted = "/".join(name.strip().lower().replace("_", "-").split())
    handout, _, number = wanted.partition("/")
    names = [question.number for question in questions().values() if question.handout == handout]
    first, dash, last = number.partition("-")
    last = last if last in names or not last.isalpha() else re.sub(r"[a-z]*$", "", first) + last
    if dash and {first, last} <= set(names):
        numbers = names[names.index(first) : names.index(last) + 1]
    else:
        numbers = [number] if number in names else [n for n in names if _begins(n, number)]
    if not numbers:
        raise unknown_name("question", name, questions() if not names else [f"{handout}/{n}" for n in names])
    return [questions()[f"{handout}/{n}"] for n in numbers]


def _begins(name: str, start: str) -> bool:
    """Whether a number begins with another: 1.3c with 1.3, but 1.10 not with 1.1."""
    return not start or (name.startswith(start) and not name[len(start) :][:1].isdecimal())


def search(words: str) -> list[HandoutQuestion]:
    """The questions in which all of these words occur, those that ask for the first of them before others."""
    wanted = words.lower().split()
    best = [q for q in questions().values() if wanted and all(word in _text(q) for word in wanted)]
    if not best:
        known = set(re.findall(r"[a-z-]{3,}", " ".join(map(_text, questions().values()))))
        missing = next((word for word in wanted if not any(word in text for text in known)), words)
        close = get_close_matches(missing, known, n=1)
        hint = f" Did you mean '{close[0]}'?" if close else " Try fewer or other words."
        raise InputError(f"no question of the hand-outs has '{truncate(missing, 60)}'.{hint}")
    return sorted(best, key=lambda question: wanted[0] not in question.asks.lower())


def _text(question: HandoutQuestion) -> str:
    titles = " ".join(all_problems()[slug].title for slug in question.problems)
    return f"{question.name} {question.asks} {question.answer} {titles}".lower()


def question_list(chosen: Iterable[HandoutQuestion] = ()) -> Document:
    """The questions with what they ask, by hand-out."""
    parts: list[Any] = []
    chosen = list(chosen) or list(questions().values())
    for handout, content in HANDOUTS.items():
        rows = [Item(question.asks, question.name) for question in chosen if question.handout == handout]
        if rows:
            parts += [Heading(f"{handout}: {content['about']}", anchor=handout), Items(tuple(rows))]
    return Document(TITLE, (*parts, HINT), data=lambda: [question.as_data() for question in chosen])


def answers_document(chosen: Iterable[HandoutQuestion] = ()) -> Document:
    """Questions with their answers; without any chosen, all of them."""
    every = list(chosen) or list(questions().values())
    if len(every) == 1:
        one = every[0]
        return Document(one.name, (one.asks, *one.blocks()), data=one.as_data)
    parts: list[Any] = []
    for handout, questions_of in groupby(every, key=lambda question: question.handout):
        parts.append(Heading(f"{handout}: {HANDOUTS[handout]['about']}", anchor=handout))
        for question in questions_of:
            parts += [Heading(question.name, 3, question.name), question.asks, *question.blocks()]
    return Document(TITLE, tuple(parts), data=lambda: [question.as_data() for question in every])
