"""Every noted step is used: replacing it moves a later one, in every mechanism and formula of an exercise.

A what-if edit and a student's own number, carried forward, rest on this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from headwork.errors import InputError
from headwork.exercises import Exercise
from headwork.exercises.exercise_mechanisms import EXERCISE_MECHANISMS
from headwork.exercises.generation import EXERCISE_KINDS, generate
from headwork.grading import grade
from headwork.mechanisms import softmax
from headwork.numbers import HandTensor
from headwork.readings import explain, recorder, replacer

# What nothing follows: results beside the last one, and states that the sequence ends with.
FINAL = {
    "linear-attention-chunked": {"chunk 1/state", "chunk 1/key sum"},  # the state after the last chunk
    "lstm": {"step 0/forget gate"},  # there is no cell before the first step that it could keep
    "patch-counts": {"tokens"},  # each of these formulas asks for several counts
    "convolution-counts": {"weights"},
    "sharing-counts": {"shared", "unshared"},
    "head-shapes": {"query", "weights", "per head"},
    "complexity": {"attention", "convolution"},
    "beta-limits": {"beta 0/output"},  # two limits side by side
    "copying": {"norms"},  # asked for beside the output
}


def steps_that_move_nothing(run: Callable[[Any], Any]) -> set[str]:
    """The steps, the last one aside, whose replacement leaves every later step as it is."""
    recorded: dict[str, Any] = {}
    run(recorder(recorded))
    paths = list(recorded)
    idle = set()
    for i, path in enumerate(paths[:-1]):
        later = paths[i + 1 :]
        for new in other_values(recorded[path]):
            changed: dict[str, Any] = {}
            run(replacer(recorder(changed), {path: new}))
            if any(not np.array_equal(array(changed[p]), array(recorded[p]), equal_nan=True) for p in later):
                break
        else:
            idle.add(path)
    return idle


def array(value: Any) -> Any:
    return value.array if isinstance(value, HandTensor) else np.asarray(value, float)


def other_values(value: Any) -> list[Any]:
    """Other numbers of the same shape, changed by different amounts and signs; infinities stay."""
    old = array(value)
    pattern = 0.25 + np.arange(old.size).reshape(old.shape) * 0.125
    new = [old + pattern, np.where(np.isfinite(old), -3 * old - pattern, old)]
    return [HandTensor(x) if isinstance(value, HandTensor) else x for x in new]


def test_each_step_of_a_mechanism_moves_a_later_one(working: Any, example: Any) -> None:
    idle = steps_that_move_nothing(lambda note: working(example, "decimal", note))
    assert idle <= FINAL.get(example.slug, set())


@pytest.mark.only("kind", lambda kind: generate(kind, 3, 2).mechanism in EXERCISE_MECHANISMS)
@pytest.mark.parametrize("kind", EXERCISE_KINDS)
def test_each_step_of_a_formula_moves_a_later_one(kind: str) -> None:
    case = generate(kind, 3, 2)
    values = {**case.case.inputs, **case.case.options}
    idle = steps_that_move_nothing(lambda note: case.case.mechanism.run(values, note))
    assert idle <= FINAL.get(case.mechanism, set())


# --- softmax --------------------------------------------------------------------------------------


def test_each_step_of_softmax_follows_after_a_shift() -> None:
    scores = HandTensor(np.array([1000.0, 998.0, -0.5]))
    assert not steps_that_move_nothing(lambda note: softmax(scores, note=note))


def test_an_edited_total_moves_the_weights() -> None:
    trace = explain("softmax", scores="0 1 2", exact=True)
    assert str(trace.what_if("total", "10")["weights"].exact_values[0]) == "1/10"


def test_a_students_own_total_is_carried_forward() -> None:
    exercise = Exercise("softmax", {"scores": "0 0 1"}, points={"exponentials": 1, "total": 1, "weights": 1})
    mark = grade(exercise, {"exponentials": "1 1 2.7183", "total": "5", "weights": "0.2 0.2 0.5437"})
    assert [step.right for step in mark.steps] == [True, False, True]


@pytest.mark.parametrize("scores", [[1000.0, 998.0, -1e4], [-1000.0, -1001.0, -np.inf], [-np.inf, 3.0, 1.0]])
@pytest.mark.parametrize("dtype", ["float32", "float64", "by hand"])
def test_large_and_hidden_scores_stay_finite(scores: list[float], dtype: str) -> None:
    import torch

    row = (
        HandTensor(np.array(scores))
        if dtype == "by hand"
        else torch.tensor(scores, dtype=getattr(torch, dtype))
    )
    recorded: dict[str, Any] = {}
    softmax(row, note=recorder(recorded))
    expected = torch.tensor(scores, dtype=torch.float64).softmax(-1).numpy()
    for name in ("exponentials", "total", "weights"):
        assert np.all(np.isfinite(array(recorded[name]))), name
    np.testing.assert_allclose(array(recorded["weights"]), expected, rtol=1e-5)


def test_the_shift_is_only_taken_where_it_is_needed() -> None:
    assert "shifted" not in explain("softmax", scores="0 300").steps
    assert "shifted" not in explain("softmax", scores="0 1000", exact=True).steps
    shifted = explain("softmax", scores="0 1000")
    assert shifted["shifted"].values.tolist() == [-1000.0, 0.0]
    assert shifted["exponentials"].formula == "e^{S'}"
    with pytest.raises(InputError, match="unknown step"):
        explain("softmax", scores="0 1").what_if("shifted", "0 0")
