"""What a misconception is, and how a case is run with one or two of them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.exercises.case import Case, Edit, NotApplicable, RunView, Steps
from headwork.exercises.misconceptions import attention_parts, formulas, functions
from headwork.files import load_package_toml

# By how many bits a mistake from formulas.toml is rarer than one that exercises are drawn to reveal.
RARER = 0.5


@dataclass(frozen=True)
class Misconception:
    """One known mistake: its sentence, the mechanisms that it is made on, and what it changes.

    ``evidence`` says what shows it, from the student's step and the run; ``bits`` how much rarer it is than a
    common one. Exercises are drawn so that it shows where it ``must_show``: adding one changes which
    exercises are drawn. Those of one ``shared_id`` are one mistake, charged once.
    """

    slug: str
    sentence: str
    on: tuple[str, ...]
    edit: Edit
    evidence: Callable[[Any, RunView], str] | None = None
    bits: float = 0.0
    must_show: bool = True
    shared_id: str = ""

    @property
    def mistake_id(self) -> str:
        """What makes two of them one mistake: a name of their own, or what both say was done."""
        return self.shared_id or re.split("[;:]", self.sentence)[0]


def _edit(slug: str, entry: Mapping[str, Any]) -> Edit:
    """The formulas of an entry of misconceptions.toml, or the function of its name."""
    if "at" not in entry:
        return Edit(formulas.change_inputs(entry.get("inputs", {}), entry.get("without", ())))
    if "formula" in entry:
        return Edit(change_steps=dict.fromkeys(entry["at"], formulas.change(entry["formula"])))
    return Edit(change_steps=dict.fromkeys(entry["at"], getattr(functions, slug.replace("-", "_"))))


def _read_misconceptions() -> dict[str, Misconception]:
    """Those of misconceptions.toml."""
    entries = load_package_toml(__file__, "misconceptions.toml")
    groups = entries.pop("groups")
    misconceptions = {}
    for slug, entry in entries.items():
        on = tuple(mechanism for name in entry["on"] for mechanism in groups.get(name, [name]))
        evidence = getattr(attention_parts, entry["evidence"]) if "evidence" in entry else None
        misconceptions[slug] = Misconception(
            slug,
            entry["sentence"],
            on,
            _edit(slug, entry),
            evidence,
            bits=entry.get("bits", 0.0),
            must_show=entry.get("must_show", True),
            shared_id=entry.get("shared_id", ""),
        )
    return misconceptions


def _read_formulas() -> dict[str, Misconception]:
    """Those of formulas.toml, each one formula at the steps of its group."""
    misconceptions = {}
    for group in load_package_toml(__file__, "formulas.toml").values():
        for slug, (text, sentence, *more) in group["formulas"].items():
            rarer = next((x for x in more if not isinstance(x, str)), RARER)
            shared_id = next((x for x in more if isinstance(x, str)), "")
            edit = Edit(change_steps=dict.fromkeys(group["at"].split(", "), formulas.change(text)))
            misconceptions[slug] = Misconception(
                slug, sentence, tuple(group["on"]), edit, None, rarer, False, shared_id
            )
    return misconceptions


MISCONCEPTIONS = {**_read_misconceptions(), **_read_formulas()}


def applicable(case: Case, steps: Iterable[str]) -> list[Misconception]:
    """The mistakes that are known for a case's mechanism and edit something that it has."""
    paths = list(steps)
    known = [m for m in MISCONCEPTIONS.values() if case.mechanism.slug in m.on]
    return [m for m in known if m.edit.change_inputs or any(m.edit.change_at(path) for path in paths)]


def run_with_mistakes(
    case: Case, *mistakes: Misconception, replacing: Mapping[str, Any] | None = None
) -> Steps | None:
    """The steps of a run with these mistakes, or None where they do not apply."""
    try:
        return case.run(replacing, [mistake.edit for mistake in mistakes])
    except (NotApplicable, TypeError, AttributeError):  # one may take away what the other reads
        return None


def same_values(left: Any, right: Any, within: float = 1e-9) -> bool:
    """Whether two steps have the same shape and numbers; an undefined number equals nothing."""
    if left.shape != right.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(((np.abs(left - right) <= within + 1e-12 * np.abs(right)) | (left == right)).all())
