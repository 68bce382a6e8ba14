"""Recurrence: unrolled, in closed form, and by odd and even positions."""

from __future__ import annotations

from headwork.exercises.draws import Draws
from headwork.exercises.kinds.registry import Problem, kind


@kind("recurrence", "step */state, output")
def recurrence(draws: Draws, difficulty: int) -> Problem:
    """A recurrence h_t = W_x x_t + W_h h_(t-1) with the state h_0 before the first step reads the inputs one
    by one (step 0 is the first). Work out every state, and the output W_y h_T.
    """
    inputs = {"inputs": draws.vector(3 + (difficulty > 1), -2, 4)}
    choices = {"W_x": (2, 3, -1), "W_h": (-2, -1, 2, 3), "W_y": (2, -1, 3)}
    matrices = {name: str(draws.choice(numbers)) for name, numbers in choices.items()}
    options = {"output": "step"} if difficulty > 2 else {}
    return {**inputs, **matrices, "h_0": f"[{draws.choice((1, 2, -1))}]"}, options


@kind("recurrence-closed-form", "powers, terms, output")
def recurrence_closed_form(draws: Draws, difficulty: int) -> Problem:
    """The linear recurrence h_t = W_x x_t + W_h h_(t-1) starts from 0. Work out its last state in closed
    form: the power of W_h that each input passes through, each input's term, and their sum. Give one row per
    input.
    """
    inputs = {"inputs": draws.vector(3 + (difficulty > 1), -2, 4)}
    return {**inputs, "W_x": str(draws.choice((2, 3, -1))), "W_h": str(draws.choice((-2, 2, 3)))}, {}


@kind("alternation", "odd places, even places, state, output")
def alternation(draws: Draws, difficulty: int) -> Problem:
    """A recurrence h_t = x_t - h_(t-1) from 0 reads an even number of inputs. Give the sum of the inputs at
    odd positions and at even positions (counted from 1), the last state, and the output: 1 where it is
    positive, else 0.
    """
    return {"inputs": draws.vector(4 + 2 * (difficulty > 1), -3, 6)}, {}
