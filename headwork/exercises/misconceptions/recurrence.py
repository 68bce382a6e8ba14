"""Mistakes in recurrences and their closed form."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView


def recurrence_backwards(run: RunView) -> Any:
    return {"inputs": run.inputs[::-1]}


def first_state_forgotten(run: RunView) -> Any:
    return {"h_0": None} if run.has("h_0") else None


def recurrence_weights_swapped(run: RunView) -> Any:
    return {"W_x": run.W_h, "W_h": run.W_x}


def state_forgotten(run: RunView) -> Any:
    newest = np.atleast_1d(run.inputs[run.time_step])
    return (newest @ np.atleast_2d(run.W_x).T).reshape(run.current.shape)


def state_weight_forgotten(run: RunView) -> Any:
    return {"W_h": np.eye(len(np.atleast_2d(run.W_h))).reshape(np.shape(run.W_h))}


def output_weight_forgotten(run: RunView) -> Any:
    return {"W_y": None} if run.has("W_y") else None


def step_function_forgotten(run: RunView) -> Any:
    return {"output": "linear"} if run.output == "step" else None


def step_upside_down(run: RunView) -> Any:
    return 1 - run.current if run.output == "step" else None


def powers_reversed(run: RunView) -> Any:
    return run.current[::-1]


def powers_by_time(run: RunView) -> Any:
    return run.current[::-1] @ np.atleast_2d(run.W_h)


def powers_one_too_high(run: RunView) -> Any:
    return run.current @ np.atleast_2d(run.W_h)


def product_for_power(run: RunView) -> Any:
    count = len(run.current)
    return np.stack([np.atleast_2d(run.W_h) * (count - 1 - t) for t in range(count)])


def input_weight_forgotten(run: RunView) -> Any:
    return {"W_x": np.ones_like(run.W_x)} if np.size(run.W_x) == 1 else None


def parity_from_zero(run: RunView) -> Any:
    return run.inputs[1 if run.path == "odd places" else 0 :: 2].sum()


def difference_backwards(run: RunView) -> Any:
    return -run.current


def signs_forgotten(run: RunView) -> Any:
    return run.odd_places + run.even_places


def alternation_upside_down(run: RunView) -> Any:
    return 1 - run.current
