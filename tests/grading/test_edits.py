"""Causes from the definition: each family of edits is found in numbers that were worked out without it."""

import numpy as np
import pytest

from benchmarks.grading import texts
from benchmarks.wrong_answers import __main__ as wrong_answers
from benchmarks.wrong_answers import making
from headwork.exercises import Exercise
from headwork.grading import Mark, grade
from headwork.grading.edits import TABLE, edits_of
from headwork.grading.step_graph import step_graph
from headwork.readings.notebook_cells import array_text

X, W_Q, W_K, W_V = (
    np.array([[1.0, 2], [3, -1], [0, 4]]),
    *(np.array(rows, float) for rows in ([[1, 2], [-1, 3]], [[2, -1], [1, 1]], [[1, 0], [2, 5]])),
)
ATTENTION = Exercise(
    "self-attention",
    {"tokens": "1 2; 3 -1; 0 4", "W_q": "1 2; -1 3", "W_k": "2 -1; 1 1", "W_v": "1 0; 2 5"},
    {"beta": "1/8"},
    points=dict.fromkeys(("query", "key", "value", "scores", "weights", "output"), 1),
)
LAYER = Exercise(
    "layer-normalisation",
    {"tokens": "1 5 2 9; 2 4 7 1", "scale": "2 1 3 1", "shift": "1 3 2 2"},
    points=dict.fromkeys(("mean", "centred", "deviation", "normalised", "output"), 1),
)
COST = Exercise("complexity", {"tokens": 10, "width": 6, "kernel": 5}, points={"scores": 1, "convolution": 1})


def marked(exercise: Exercise, **steps: object) -> Mark:
    """The mark of an answer with these steps, and what follows from them."""
    own = {name.replace("_", " "): np.asarray(value, float) for name, value in steps.items()}
    return grade(exercise, texts(exercise, exercise.case.run(own), 5))


def softmax(scores: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(scores)
    return powers / powers.sum(axis, keepdims=True)


MISREAD = np.array([[0.0, 0], [2, 0], [0, 0]])
Q, K, V = X @ W_Q.T, X @ W_K.T, X @ W_V.T
S = Q @ K.T / 8
A = softmax(S)
TOKENS = np.array([[1.0, 5, 2, 9], [2, 4, 7, 1]])
CENTRED = TOKENS - TOKENS.mean(-1, keepdims=True)
DEVIATION = CENTRED.std(-1, keepdims=True)
DELTA = np.array([[0.0, 0], [2, -1], [0, 0]])
MOVED = Exercise(
    "sensitivity",
    {name: array_text(rows) for name, rows in (("query", Q), ("key", K), ("value", V), ("delta", DELTA))},
    {"beta": "1/8"},
    points={"after/scores": 1},
)
WHOLE_MOVED = Exercise(
    "sensitivity",
    MOVED.inputs,
    {"beta": "1/8"},
    points=dict.fromkeys(("before/scores", "before/output", "after/scores", "after/weights"), 1),
)
LIMITS = Exercise(
    "beta-limits",
    {name: MOVED.inputs[name] for name in ("query", "key", "value")},
    points={"beta 0/weights": 1},
)
TWO = np.array([[3.0, 1], [2, 5]])
LAYERS = Exercise(
    "feed-forward",
    {"tokens": "3 1; 2 5", "W_1": "2 0; 1 3", "W_2": "1 4; 2 1", "b_1": "1 7", "b_2": "5 2"},
    points={"hidden": 1},
)
POWERS = Exercise(
    "recurrence-closed-form", {"inputs": "1 2 4 3", "W_x": "3", "W_h": "5"}, points={"powers": 1}
)
TURNS = Exercise(
    "linear-attention-recurrent",
    {"query": "1 2; 3 1", "key": "2 1; 1 4", "value": "1 3; 5 2"},
    {"mask": "causal"},
    points={"step 0/state": 1, "step 1/state": 1, "output": 1},
)
STATES = [TURNS.solution[f"step {t}/state"] for t in (0, 1)]
TURNED = np.array([STATES[0] @ [1, 2] / (2 + 2), STATES[1] @ [3, 1] / (9 + 5)])
SLIDING = Exercise(
    "convolution-1d", {"signal": "2 5 1 7 4", "kernel": "2 -1 3"}, {"padding": 1}, points={"output": 1}
)
BANDED = Exercise(
    "toeplitz", {"signal": "2 5 1 7 4", "kernel": "2 -1 3"}, {"padding": 1}, points={"matrix": 1}
)
FAMILIES = {
    "an operand left out": (ATTENTION, "query", X, "W_q-left-out"),
    "applied twice": (ATTENTION, "query", X @ W_Q.T @ W_Q.T, "W_q-applied-twice"),
    "minus signs overlooked": (ATTENTION, "query", X @ np.abs(W_Q.T), "W_q-without-signs"),
    "another operand": (ATTENTION, "output", A @ X, "tokens-for-value"),
    "transposed": (ATTENTION, "output", A.T @ V, "weights-transposed"),
    "with itself": (ATTENTION, "scores", Q @ Q.T / 8, "query-with-itself"),
    "another base": (ATTENTION, "weights", softmax(S * np.log(2)), "powers-of-two"),
    "twice": (ATTENTION, "weights", softmax(A), "softmax-taken-twice"),
    "a term left out": (ATTENTION, "output", A[:, :2] @ V[:2], "part-of-weights-left-out"),
    "a row copied": (ATTENTION, "output", (A @ V)[[0, 0, 2]], "part-copied"),
    "something added": (ATTENTION, "output", A @ V + X, "tokens-added"),
    "an entry misread": (ATTENTION, "key", (X + MISREAD) @ W_K.T, "entry-of-tokens-misread"),
    "another axis": (LAYER, "mean", np.full((2, 1), TOKENS.mean()), "mean-of-everything"),
    "inverted": (LAYER, "normalised", CENTRED * DEVIATION, "multiplied-by-deviation"),
    "the other way round": (LAYER, "centred", -CENTRED, "difference-backwards"),
    "another order": (
        LAYER,
        "output",
        (CENTRED / DEVIATION + [1, 3, 2, 2]) * [2, 1, 3, 1],
        "order-exchanged",
    ),
    "one row for all": (LAYER, "centred", TOKENS - TOKENS.mean(-1)[0], "part-of-mean-for-all"),
    "a factor too many": (COST, "convolution", 5 * 10 * 10 * 6 * 6, "tokens-counted-twice"),
    "a factor inside of the softmax": (ATTENTION, "weights", softmax(S / 8), "multiplied-by-beta"),
    "one of several added": (COST, "convolution", 5 * 6 * 6 + 10, "added-for-multiplied"),
    "a later step": (LAYER, "mean", DEVIATION, "deviation-given"),
    "added at another operand": (MOVED, "after/scores", (Q + DELTA) @ K.T / 8, "delta-added-to-query"),
    "one term without a factor": (MOVED, "after/scores", Q @ K.T / 8 + Q @ DELTA.T, "0.125-not-on-delta"),
    "the sum of another step": (
        WHOLE_MOVED,
        "after/weights",
        np.exp(Q @ (K + DELTA).T / 8) / np.exp(S).sum(-1, keepdims=True),
        "sum-of-scores-below",
    ),
    "an input that has no part in it": (
        WHOLE_MOVED,
        "before/output",
        A @ (V + DELTA),
        "delta-added-to-value",
    ),
    "its own row alone": (ATTENTION, "output", np.diag(A)[:, None] * V, "own-row-alone"),
    "a running sum": (ATTENTION, "output", V.cumsum(0), "value-summed-up"),
    "another size below": (LIMITS, "beta 0/weights", np.full((3, 3), 1 / 2), "divided-by-another-size"),
    "the other layer": (LAYERS, "hidden", TWO @ [[1, 4], [2, 1]] + [5, 2], "layers-exchanged"),
    "a mean for all": (LAYER, "centred", TOKENS - TOKENS.mean(), "mean-of-mean-for-all"),
    "exponents for powers": (POWERS, "powers", [3, 2, 1, 0], "exponents-for-powers"),
    "another function": (ATTENTION, "weights", 1 / (1 + np.exp(-S)), "other-formula"),
    "a function of a part": (
        ATTENTION,
        "scores",
        Q @ (K / np.linalg.norm(K, axis=-1)[:, None]).T / 8,
        "other-formula",
    ),
    "a formula of other steps": (LAYER, "output", TOKENS + CENTRED / DEVIATION * 2, "other-formula"),
    "in one row only": (ATTENTION, "weights", np.stack([A[0], S[1], A[2]]), "softmax-left-out"),
    "another border": (
        SLIDING,
        "output",
        np.convolve([2, 2, 5, 1, 7, 4, 4], [3, -1, 2], "valid"),
        "border-edge",
    ),
    "the same at two places": (
        ATTENTION,
        "scores",
        abs(Q) @ abs(K).T / 8,
        "signs-of-the-products-overlooked",
    ),
    "one function of two operands": (
        ATTENTION,
        "scores",
        (Q - Q.mean(-1)[:, None]) @ (K - K.mean(-1)[:, None]).T / 8,
        "other-formula",
    ),
    "a mask that is not asked for": (
        ATTENTION,
        "weights",
        softmax(np.where(np.tri(3) > 0, S, -np.inf)),
        "causal-mask-applied",
    ),
    "the diagonal of a matrix": (ATTENTION, "query", X @ np.diag(np.diag(W_Q)), "diagonal-of-W_q-alone"),
    "a mistake and a slip": (ATTENTION, "query", X @ W_Q + [[0, 0], [0, 5], [0, 0]], "W_q-transposed"),
    "the identity too many": (TURNS, "step 0/state", STATES[0] + np.eye(2), "identity-added"),
    "a kernel that goes round": (
        BANDED,
        "matrix",
        [[-1, 3, 0, 0, 2], [2, -1, 3, 0, 0], [0, 2, -1, 3, 0], [0, 0, 2, -1, 3], [3, 0, 0, 2, -1]],
        "kernel-goes-round",
    ),
    "the same at every turn": (TURNS, "output", TURNED, "state-transposed"),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_named(family: str) -> None:
    exercise, path, value, cause = FAMILIES[family]
    step = marked(exercise, **{path: value}).step(path)
    assert [named.slug for named in step.causes] == [cause]
    (named,) = step.causes
    assert (named.step, bool(named.edit_slug), bool(named.evidence)) == (path, True, True)


def test_a_sentence_shows_both_formulas() -> None:
    (cause,) = marked(ATTENTION, query=X).step("query").causes
    assert cause.sentence == "W_q^T is left out: X where X W_q^T belongs"
    assert "W_q" in cause.operands


def test_two_edits_at_once() -> None:
    (cause,) = marked(MOVED, **{"after/scores": Q @ (K - DELTA).T}).step("after/scores").causes
    assert set(cause.slug.split(" + ")) == {"delta-subtracted", "no-scaling"}


def test_numbers_that_cannot_tell_name_both() -> None:
    even = Exercise("complexity", {"tokens": 10, "width": 12, "kernel": 12}, points={"convolution": 1})
    step = grade(even, {"convolution": str(12 * 12 * 12 * 12)}).step("convolution")
    assert len(step.causes) >= 2
    assert all("cannot tell" in cause.evidence for cause in step.causes if cause.edit_slug)


def test_a_number_that_is_nearly_right_is_a_slip() -> None:
    narrow = Exercise("complexity", {"tokens": 10, "width": 3, "kernel": 5}, points={"scores": 1})
    step = marked(narrow, scores=10 * 10 * 3 + 3).step("scores")
    assert [cause.slug for cause in step.causes] == ["slip"]  # nobody adds the width


def test_later_steps_follow_from_a_step_of_another_shape() -> None:
    inputs = {"tokens": "2 1; 0 1", "memory": "2 0; 2 1; 0 2", "W_q": "1 2; 1 0", "W_k": "0 1; 1 1"}
    points = dict.fromkeys(("query", "scores"), 1)
    exercise = Exercise("cross-attention", {**inputs, "W_v": "1 1; 2 0"}, {"beta": "1"}, points=points)
    memory = np.array([[2.0, 0], [2, 1], [0, 2]])
    query, key = memory @ [[1, 1], [2, 0]], memory @ [[0, 1], [1, 1]]
    mark = grade(exercise, {"query": array_text(query), "scores": array_text(query @ key.T)})
    assert [step.state for step in mark.steps] == ["wrong", "right"]


def test_one_number_may_show_a_function() -> None:
    lone = {"inputs": "1 2", "W_x": "1/2", "W_h": "3", "W_y": "2", "h_0": "[0]"}
    exercise = Exercise("recurrence", lone, points={"step 0/state": 1})
    (cause, *_) = grade(exercise, {"step 0/state": "0.4621"}).step("step 0/state").causes
    assert "tanh" in cause.sentence


def test_what_no_step_shows_alone_several_show_together() -> None:
    points = dict.fromkeys(("down", "across"), 1)
    image = Exercise("patch-counts", {"height": 64, "width": 112, "patch": 16, "channels": 3}, points=points)
    alone, both = grade(image, {"down": "5", "across": "7"}), grade(image, {"down": "5", "across": "8"})
    slugs = [cause.slug for cause in alone.step("down").causes]
    assert slugs == ["one-too-many", "slip", "fences-for-patches"]
    assert both.step("across").state == "again"
    assert both.points == 1


def test_a_slip_after_a_mistake_is_one_wrong_cell() -> None:
    inputs = {"tokens": "2 1; 0 1", "memory": "2 0; 2 1; 0 2"}
    matrices = {"W_q": "-1 0; 1 0", "W_k": "0 0; 0 1", "W_v": "-1 1; 2 0"}
    points = dict.fromkeys(("value", "scores", "weights", "output"), 1)
    exercise = Exercise("cross-attention", {**inputs, **matrices}, {"beta": "1"}, points=points)
    right = {"value": "-2 4; -1 4; 2 0", "scores": "0 2 4; 0 0 0"}
    answers = {**right, "weights": "0.018 0.135 1; 1 1 1", "output": "1.928 0.615; -1 8"}
    step = grade(exercise, answers).step("output")  # 0.615 follows from weights that are not rounded
    assert step.wrong_cells == ((0, 0),)


def test_one_edit_in_several_steps_is_charged_once() -> None:
    mark = marked(ATTENTION, query=X, key=X, value=X)
    assert [mark.step(path).state for path in ("query", "key", "value")] == ["wrong", "again", "again"]
    assert mark.max_points - mark.points == 1


def test_one_edit_with_another_operand_is_charged_once() -> None:
    mark = marked(ATTENTION, key=Q @ W_K.T, value=Q @ W_K.T @ W_V.T)  # each made from the result before
    assert [mark.step(path).state for path in ("key", "value")] == ["wrong", "again"]


def test_no_sentence_is_said_twice() -> None:
    _, answers = making.read()
    for row in answers[::40]:
        exercise = next(x for x in making.read()[0] if x["exercise"] == row["answer"])
        for step in grade(making.exercise(exercise), row["steps"]).steps:
            assert len({cause.sentence for cause in step.causes}) == len(step.causes)


def test_a_name_that_a_correct_step_contradicts_gives_way() -> None:
    (cause,) = marked(ATTENTION, value=X @ W_K.T).step("value").causes  # the keys are correct
    assert cause.slug == "W_k-for-W_v"


@pytest.mark.parametrize("number", [0.0, 1e9])
def test_an_empty_answer_makes_nothing_free(number: float) -> None:
    mark = marked(ATTENTION, scores=np.full((3, 3), number))
    assert not mark.step("scores").right
    assert not mark.step("weights").right  # all weights 1/3: nothing was worked out


def test_an_honest_mistake_is_carried_forward() -> None:
    mark = marked(ATTENTION, scores=-S)
    assert mark.step("weights").right
    assert mark.step("output").right


def test_numbers_from_nowhere_have_no_name() -> None:
    step = marked(ATTENTION, output=[[7.13, -2.9], [0.41, 3.3], [5.5, 1.17]]).step("output")
    assert [cause.slug for cause in step.causes] == ["unknown"]


@pytest.mark.parametrize("text", ["1", "1e300 1e300; 1 2; 3 4", "oo oo; 1 2; 3 4", "1 2 3 4 5 6 7"])
def test_odd_entries_are_marked_without_a_crash(text: str) -> None:
    answers = {**texts(ATTENTION, ATTENTION.solution, 4), "output": text}
    assert not grade(ATTENTION, answers).step("output").right


def test_every_edit_gives_the_numbers_of_its_formula() -> None:
    graph = step_graph(ATTENTION.case, "weights", {})
    assert graph is not None
    with np.errstate(all="ignore"):
        edits = [edit for edit in edits_of(graph) if not edit.options]
        operations = [edit for edit in edits if all(isinstance(key, int) for key in edit.changes)]
        values = [(graph.apply(edit), graph.edited(edit)) for edit in operations]
    assert sum(value is not None for value, _ in values) > 100
    for value, formula in values:
        assert (value is None) == (formula is None)
        assert value is None or np.array_equal(value, formula.array, equal_nan=True)
    assert {"matmul", "add", "softmax", "result", "part", "operand"} <= set(TABLE)


def test_a_sample_of_the_wrong_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    exercises, answers = making.read()
    monkeypatch.setattr(making, "read", lambda _: (exercises, answers[::25]))
    graded = wrong_answers.grade_all()
    single = [all(x.named) for x in graded if x.row["group"] == "single"]
    assert all(x.first_step_found for x in graded)
    assert sum(single) >= 0.75 * len(single)


@pytest.mark.soak
def test_all_wrong_answers() -> None:
    graded = wrong_answers.grade_all()
    single = [x for x in graded if x.row["group"] == "single"]
    assert all(x.first_step_found for x in graded)
    assert sum(all(x.named) for x in single) >= 0.8 * len(single)
    assert sum("wrong name" in x.verdicts for x in single) <= 0.06 * len(single)
