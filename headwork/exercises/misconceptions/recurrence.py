"""Mistakes in recurrences and their closed form."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView
from headwork.exercises.misconceptions.registry import SENTENCES, misconception, misconception_formulas

RECURRENCES = ("recurrence",)
CLOSED_FORMS = ("recurrence-closed-form",)


@misconception(on=(*RECURRENCES, *CLOSED_FORMS), counter_example="recurrence")
def recurrence_backwards(run: RunView) -> Any:
    """the inputs are read backwards, the last one first"""
    return {"inputs": run.inputs[::-1]}


@misconception(on=RECURRENCES, counter_example="recurrence")
def first_state_forgotten(run: RunView) -> Any:
    """the state before the first step, h_0, is left out"""
    return {"h_0": None} if run.has("h_0") else None


@misconception(on=(*RECURRENCES, *CLOSED_FORMS), counter_example="recurrence")
def recurrence_weights_swapped(run: RunView) -> Any:
    """W_x and W_h are swapped"""
    return {"W_x": run.W_h, "W_h": run.W_x}


@misconception(on=RECURRENCES, at="sum", counter_example="recurrence")
def state_forgotten(run: RunView) -> Any:
    """the last state is not carried forward: each step uses only its own input"""
    newest = np.atleast_1d(run.inputs[run.time_step])
    return (newest @ np.atleast_2d(run.W_x).T).reshape(run.current.shape)


@misconception(on=RECURRENCES, counter_example="recurrence")
def state_weight_forgotten(run: RunView) -> Any:
    """the last state is added without its weight W_h"""
    return {"W_h": np.eye(len(np.atleast_2d(run.W_h))).reshape(np.shape(run.W_h))}


@misconception(on=RECURRENCES, counter_example="output-weight-forgotten")
def output_weight_forgotten(run: RunView) -> Any:
    """the output's weight W_y is left out"""
    return {"W_y": None} if run.has("W_y") else None


misconception_formulas(SENTENCES, on=RECURRENCES, counter_example="step-function-forgotten")(
    step_function_forgotten=("inputs", lambda run: {"output": "linear"} if run.output == "step" else None),
    step_upside_down=("output", lambda run: 1 - run.current if run.output == "step" else None),
)

misconception_formulas(SENTENCES, on=CLOSED_FORMS, counter_example="closed-form")(
    powers_reversed=("powers", lambda run: run.current[::-1]),
    powers_by_time=("powers", lambda run: run.current[::-1] @ np.atleast_2d(run.W_h)),
    powers_one_too_high=("powers", lambda run: run.current @ np.atleast_2d(run.W_h)),
)


@misconception(on=CLOSED_FORMS, at="powers", counter_example="closed-form")
def product_for_power(run: RunView) -> Any:
    """the power is taken for a product: w^3 is w w w, not 3 w"""
    count = len(run.current)
    return np.stack([np.atleast_2d(run.W_h) * (count - 1 - t) for t in range(count)])


@misconception(on=CLOSED_FORMS, counter_example="closed-form")
def input_weight_forgotten(run: RunView) -> Any:
    """W_x is left out of the terms"""
    return {"W_x": np.ones_like(run.W_x)} if np.size(run.W_x) == 1 else None


misconception_formulas(SENTENCES, on=("alternation",), counter_example="alternation")(
    parity_from_zero=(
        "odd places, even places",
        lambda run: run.inputs[1 if run.path == "odd places" else 0 :: 2].sum(),
    ),
    difference_backwards=("state", lambda run: -run.current),
    signs_forgotten=("state", lambda run: run.odd_places + run.even_places),
    alternation_upside_down=("output", lambda run: 1 - run.current),
)
