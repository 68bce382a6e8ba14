"""Later steps that need no work: after zeros, one repeated number or a huge one they follow by themselves."""

import numpy as np

from headwork.exercises.case import Array, Case, NotApplicable, Steps

ALIKE = 5e-5  # what is closer is the same number


def needs_no_work(
    path: str, wrong: str, case: Case, solution: Steps, own_steps: Steps, earlier: Steps
) -> bool:
    """Whether a step needs no work after an unexplained wrong one from which it follows.

    If the wrong step is all zeros or one repeated number, this step needs none when it is constant too, or
    has identical rows; if it is huge, when doubling it changes nothing. Never if the key behaves so, too.
    ``earlier`` are the steps before the wrong one.
    """

    def gives_same(steps_a: Steps, steps_b: Steps) -> bool:
        one, other = (case.run(steps)[path] for steps in (steps_a, steps_b))
        return bool(np.allclose(one, other, rtol=1e-9, atol=ALIKE, equal_nan=True))

    written, correct = own_steps[wrong], solution[wrong]
    if written.shape != correct.shape:
        return False
    moved = correct * (1 + 0.37 * np.arange(correct.size).reshape(correct.shape)) + 0.1
    try:
        slips = (~np.isclose(written, correct)).sum()
        if gives_same({}, {wrong: moved}) or slips == 1 < written.size:
            return False  # it never depended on it, or that has a single slip
        if is_constant(written) and (not is_constant(correct) or (correct.any() and not written.any())):
            return is_constant(case.run(own_steps)[path], rows=True) and not is_constant(
                solution[path], rows=True
            )
        unmoved = gives_same({**earlier, wrong: written}, {**earlier, wrong: 2 * written})
        return unmoved and not gives_same({}, {wrong: 2 * correct})
    except NotApplicable:
        return False


def is_constant(array: Array, *, rows: bool = False) -> bool:
    """All zeros, or many times the same number, or many times the same row."""
    same = array == (array[:1] if rows and array.ndim > 1 and len(array) > 1 else array.flat[0])
    return bool((array == 0).all() or (array.size > 1 and same.all()))
