"""What a misconception is, and how a case is run with one or two of them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headwork.exercises.case import Case, Edit, NotApplicable, RunView, Steps
from headwork.exercises.exercise import Exercise
from headwork.files import load_package_toml

Evidence = Callable[[Any, RunView], str]  # the student's step and the run -> a sentence, or nothing
Change = Callable[[RunView], Any]
SENTENCES: dict[str, str] = load_package_toml(__file__, "sentences.toml")
EXAMPLES: dict[str, dict[str, Any]] = load_package_toml(__file__, "examples.toml")


@dataclass(frozen=True)
class Misconception:
    """One known mistake. ``counter_example`` is a small problem, mechanism first, that shows it.

    ``bits`` says how much rarer it is than a common one, ``chosen_for`` whether exercises are drawn so that
    it shows: to add such a one changes what is drawn.
    """

    slug: str
    sentence: str
    on: tuple[str, ...]
    edit: Edit
    counter_example: Mapping[str, Any]
    evidence: Evidence | None = None
    bits: float = 0.0
    chosen_for: bool = True


MISCONCEPTIONS: dict[str, Misconception] = {}


def misconception(
    *,
    on: tuple[str, ...],
    at: str = "inputs",
    counter_example: str,
    evidence: Evidence | None = None,
    chosen_for: bool = True,
) -> Callable[[Change], Change]:
    """Register a mistake under its function's name; the docstring says what was done.

    ``at`` names the steps that it edits, or the inputs; ``counter_example`` an entry of examples.toml.
    """

    def decorate(change: Change) -> Change:
        slug, sentence = change.__name__.replace("_", "-"), " ".join((change.__doc__ or "").split())
        edit = Edit(change) if at == "inputs" else Edit(steps=dict.fromkeys(at.split(", "), change))
        example = EXAMPLES[counter_example]
        MISCONCEPTIONS[slug] = Misconception(
            slug, sentence, on, edit, example, evidence, chosen_for=chosen_for
        )
        return change

    return decorate


def formulas(sentences: Mapping[str, str], **settings: Any) -> Callable[..., None]:
    """Register mistakes that are one formula each: ``name=(steps, change)``, and a sentence by that name."""

    def register(**changes: tuple[str, Change]) -> None:
        for name, (at, change) in changes.items():
            change.__name__, change.__doc__ = name, sentences[name.replace("_", "-")]
            misconception(at=at, **settings)(change)

    return register


def applicable(case: Case, steps: Iterable[str]) -> list[Misconception]:
    """The mistakes that are known for a case's mechanism and edit something that it has."""
    paths = list(steps)
    known = [m for m in MISCONCEPTIONS.values() if case.mechanism.slug in m.on]
    return [m for m in known if m.edit.inputs or any(m.edit.change_at(path) for path in paths)]


def run_with_mistakes(
    case: Case, *mistakes: Misconception, replacing: Mapping[str, Any] | None = None
) -> Steps | None:
    """The steps of a run with these mistakes, or None where they do not apply."""
    try:
        return case.run(replacing, [mistake.edit for mistake in mistakes])
    except NotApplicable:
        return None


def same(left: Any, right: Any, within: float = 1e-9) -> bool:
    """Whether two steps have the same shape and numbers; an undefined number equals nothing."""
    if left.shape != right.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(((np.abs(left - right) <= within + 1e-12 * np.abs(right)) | (left == right)).all())


def counter_example(mistake: Misconception) -> tuple[str, Any, Any]:
    """The first step of the counter-example that the mistake changes: its path, right and wrong value."""
    inputs = dict(mistake.counter_example)
    case = Exercise(inputs.pop("mechanism"), inputs).case
    right, wrong = case.run(), run_with_mistakes(case, mistake)
    if wrong is None:
        raise ValueError(f"{mistake.slug} cannot be made in its counter-example")
    return next((p, right[p], wrong[p]) for p in right if p in wrong and not same(right[p], wrong[p]))
