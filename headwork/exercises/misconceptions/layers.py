"""Mistakes in positions, normalisation, residuals and the feed-forward layer."""

from typing import Any

import numpy as np

from headwork.exercises.case import RunView


# --- positions --------------------------------------------------------------------------------------
def sine_and_cosine_swapped(run: RunView) -> Any:
    return run.current.reshape(len(run.current), -1, 2)[..., ::-1].reshape(run.current.shape)


def positions_from_one(run: RunView) -> Any:
    return {"places": run.places + 1}


def degrees_for_radians(run: RunView) -> Any:
    angles = np.deg2rad(run.angles)
    return np.stack([np.sin(angles), np.cos(angles)], -1).reshape(run.current.shape)


# --- normalisation ----------------------------------------------------------------------------------
def _rows(run: RunView) -> Any:
    return run.residual if run.has_step("residual") else run.tokens


def normalised_over_tokens(run: RunView) -> Any:
    rows = _rows(run)
    steps = {"mean": rows.mean(-2, keepdims=True), "deviation": rows.std(-2, keepdims=True)}
    steps["centred"] = rows - steps["mean"]
    steps["normalised"] = steps["output"] = steps["centred"] / steps["deviation"]
    if run.has("scale"):
        steps["output"] = steps["output"] * run.scale
    if run.has("shift"):
        steps["output"] = steps["output"] + run.shift
    return steps[run.path]


def scale_and_shift_swapped(run: RunView) -> Any:
    return {"scale": run.shift, "shift": run.scale} if run.has("scale") and run.has("shift") else None


def added_after_normalising(run: RunView) -> Any:
    rows = run.tokens
    return (rows - rows.mean(-1, keepdims=True)) / rows.std(-1, keepdims=True) + run.sublayer


# --- feed-forward -----------------------------------------------------------------------------------
def feed_forward_transposed(run: RunView) -> Any:
    return {"W_1": run.W_1.T, "W_2": run.W_2.T}


def first_bias_forgotten(run: RunView) -> Any:
    return {"b_1": None} if run.has("b_1") else None


def second_bias_forgotten(run: RunView) -> Any:
    return {"b_2": None} if run.has("b_2") else None
