"""Recurrence: unrolled, in closed form, and told by places."""

from __future__ import annotations

from headwork.exercises.draws import Draws
from headwork.exercises.kinds.registry import Drawn, kind


@kind("recurrence", "step */state, output")
def recurrence(draws: Draws, difficulty: int) -> Drawn:
    """A recurrence h_t = W_x x_t + W_h h_(t-1) with the state h_0 before the first step reads the inputs one by one
    (step 0 is the first). Work out every state, and the output W_y h_T.
    """
    inputs = {"inputs": " ".join(map(str, draws.row(3 + (difficulty > 1), -2, 4)))}
    weights = {
        "W_x": str(draws.choice((2, 3, -1))),
        "W_h": str(draws.choice((-2, -1, 2, 3))),
        "W_y": str(draws.choice((2, -1, 3))),
    }
    options = {"output": "step"} if difficulty > 2 else {}
    return {**inputs, **weights, "h_0": f"[{draws.choice((1, 2, -1))}]"}, options


@kind("recurrence-closed-form", "powers, terms, output")
def recurrence_closed_form(draws: Draws, difficulty: int) -> Drawn:
    """The linear recurrence h_t = W_x x_t + W_h h_(t-1) starts from 0. Work out its last state in closed form: the
    power of W_h that each input passes through, each input's term, and their sum. Give one row an input.
    """
    inputs = {"inputs": " ".join(map(str, draws.row(3 + (difficulty > 1), -2, 4)))}
    return {**inputs, "W_x": str(draws.choice((2, 3, -1))), "W_h": str(draws.choice((-2, 2, 3)))}, {}


@kind("alternation", "odd places, even places, state, output")
def alternation(draws: Draws, difficulty: int) -> Drawn:
    """A recurrence h_t = x_t - h_(t-1) from 0 reads an even number of inputs. Give the sum of the inputs at odd places
    and at even places (counted from 1), the last state, and the output: 1 where it is positive, else 0.
    """
    return {"inputs": " ".join(map(str, draws.row(4 + 2 * (difficulty > 1), -3, 6)))}, {}
