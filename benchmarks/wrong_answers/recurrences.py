"""Recurrences: right formulas and ordinary mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.wrong_answers.solving import Formulas, Kind, Work, m


# --- recurrences ------------------------------------------------------------------------------------
def last(s: Work) -> Any:
    return s[f"step {len(s.inputs) - 1}/state"]


def old(s: Work, t: int) -> Any:
    return s[f"step {t - 1}/state"] if t else s.h_0


def read_out(s: Work, value: Any) -> Any:
    return (value > 0) * 1.0 if s.get("output") == "step" else value


def right_recurrence(given: Work) -> Formulas:
    steps: Formulas = {
        f"step {t}/state": lambda s, t=t: s.W_x * s.inputs[t] + s.W_h * old(s, t)
        for t in range(len(given.inputs))
    }
    return {**steps, "output": lambda s: read_out(given, s.W_y * last(s))}


RECURRENCE = [
    m("w-x-forgotten", "W_x is left out.", "step */state", lambda s, t: s.inputs[t] + s.W_h * old(s, t)),
    m("w-h-forgotten", "W_h is left out.", "step */state", lambda s, t: s.W_x * s.inputs[t] + old(s, t)),
    m(
        "state-not-carried",
        "The state before is left out.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] + 0 * s.h_0,
    ),
    m(
        "matrices-exchanged",
        "W_x and W_h are exchanged.",
        "step */state",
        lambda s, t: s.W_h * s.inputs[t] + s.W_x * old(s, t),
    ),
    m(
        "state-subtracted",
        "The state before is subtracted.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] - s.W_h * old(s, t),
    ),
    m(
        "input-before",
        "The input of the step before is read.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t - 1] + s.W_h * old(s, t),
    ),
    m("input-left-out", "The input is left out.", "step */state", lambda s, t: s.W_h * old(s, t)),
    m(
        "w-x-on-both",
        "W_x is applied to the state too.",
        "step */state",
        lambda s, t: s.W_x * (s.inputs[t] + old(s, t)),
    ),
    m(
        "w-h-on-both",
        "W_h is applied to the input too.",
        "step */state",
        lambda s, t: s.W_h * (s.inputs[t] + old(s, t)),
    ),
    m(
        "minus-signs-lost",
        "The minus signs of the matrices are overlooked.",
        "step */state",
        lambda s, t: abs(s.W_x) * s.inputs[t] + abs(s.W_h) * old(s, t),
    ),
    m(
        "state-two-before",
        "The start h_0 is used again instead of the state before.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] + s.W_h * s.h_0,
    ),
    m(
        "multiplied",
        "The two terms are multiplied.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] * s.W_h * old(s, t),
    ),
    m(
        "state-squared-w-h",
        "W_h is applied twice.",
        "step */state",
        lambda s, t: s.W_x * s.inputs[t] + s.W_h**2 * old(s, t),
    ),
    m("starts-from-zero", "h_0 is taken as 0.", "step 0/state", lambda s: s.W_x * s.inputs[0] + 0 * s.h_0),
    m(
        "start-not-multiplied",
        "h_0 is added without W_h.",
        "step 0/state",
        lambda s: s.W_x * s.inputs[0] + s.h_0,
    ),
    m("start-is-first-state", "h_0 is written as the first state.", "step 0/state", lambda s: s.h_0),
    m("output-w-y-forgotten", "W_y is left out.", "output", lambda s: read_out(s, last(s))),
    m("output-by-w-h", "W_h is used instead of W_y.", "output", lambda s: read_out(s, s.W_h * last(s))),
    m(
        "output-state-before-last",
        "The state before the last is read.",
        "output",
        lambda s: read_out(s, s.W_y * old(s, len(s.inputs) - 1)),
    ),
    m(
        "output-sum-of-states",
        "The sum of all states is read.",
        "output",
        lambda s: read_out(s, s.W_y * sum(s[f"step {t}/state"] for t in range(len(s.inputs)))),
    ),
    m(
        "output-added",
        "W_y is added instead of multiplied.",
        "output",
        lambda s: read_out(s, s.W_y + last(s)),
    ),
    m(
        "output-step-forgotten",
        "W_y h_T is given although 1 or 0 is the output.",
        "output",
        lambda s: s.W_y * last(s),
    ),
    m(
        "output-last-input",
        "W_y is applied to the last input.",
        "output",
        lambda s: read_out(s, s.W_y * s.inputs[-1:]),
    ),
    m(
        "output-negated",
        "The sign of the output is wrong.",
        "output",
        lambda s: read_out(s, -s.W_y * last(s)),
    ),
]


def exponents(s: Work) -> Any:
    return np.arange(len(s.inputs))[::-1, None]


def right_closed(given: Work) -> Formulas:
    return {
        "powers": lambda s: float(s.W_h) ** exponents(s),
        "terms": lambda s: s.powers * s.W_x * s.inputs[:, None],
        "output": lambda s: s.terms.sum(0),
    }


CLOSED = [
    m(
        "powers-from-the-start",
        "The powers are counted from the other end.",
        "powers",
        lambda s: float(s.W_h) ** exponents(s)[::-1],
    ),
    m(
        "powers-one-too-many",
        "Each exponent is one too large.",
        "powers",
        lambda s: float(s.W_h) ** (exponents(s) + 1),
    ),
    m(
        "powers-one-too-few",
        "Each exponent is one too small; the last input gets W_h^0 too.",
        "powers",
        lambda s: float(s.W_h) ** np.maximum(exponents(s) - 1, 0),
    ),
    m("powers-as-multiples", "Multiples of W_h instead of powers.", "powers", lambda s: s.W_h * exponents(s)),
    m("powers-of-w-x", "Powers of W_x.", "powers", lambda s: float(s.W_x) ** exponents(s)),
    m(
        "powers-last-zero",
        "W_h^0 is taken as 0.",
        "powers",
        lambda s: float(s.W_h) ** exponents(s) * (exponents(s) > 0),
    ),
    m("powers-all-one", "The same power W_h for every input.", "powers", lambda s: s.W_h + 0 * exponents(s)),
    m("powers-negative", "Negative exponents.", "powers", lambda s: float(s.W_h) ** -exponents(s)),
    m(
        "powers-signs-lost",
        "The minus sign of W_h is overlooked.",
        "powers",
        lambda s: abs(float(s.W_h)) ** exponents(s),
    ),
    m(
        "powers-exponent-as-base",
        "The exponent is raised to the power W_h.",
        "powers",
        lambda s: exponents(s) ** float(s.W_h),
    ),
    m("terms-w-x-forgotten", "W_x is left out.", "terms", lambda s: s.powers * s.inputs[:, None]),
    m(
        "terms-inputs-reversed",
        "The inputs are read from the end.",
        "terms",
        lambda s: s.powers * s.W_x * s.inputs[::-1, None],
    ),
    m("terms-input-forgotten", "The inputs are left out.", "terms", lambda s: s.powers * s.W_x),
    m("terms-without-powers", "The powers are left out.", "terms", lambda s: s.W_x * s.inputs[:, None]),
    m(
        "terms-added",
        "The power is added instead of multiplied.",
        "terms",
        lambda s: s.powers + s.W_x * s.inputs[:, None],
    ),
    m(
        "terms-w-h-for-w-x",
        "W_h is used instead of W_x.",
        "terms",
        lambda s: s.powers * s.W_h * s.inputs[:, None],
    ),
    m(
        "terms-w-x-powered",
        "W_x is raised to the power too.",
        "terms",
        lambda s: s.powers * float(s.W_x) ** exponents(s) * s.inputs[:, None],
    ),
    m(
        "terms-summed-up",
        "The terms are added up from row to row.",
        "terms",
        lambda s: (s.powers * s.W_x * s.inputs[:, None]).cumsum(0),
    ),
    m("output-last-dropped", "The last term is left out.", "output", lambda s: s.terms[:-1].sum(0)),
    m("output-first-dropped", "The first term is left out.", "output", lambda s: s.terms[1:].sum(0)),
    m("output-averaged", "The mean instead of the sum.", "output", lambda s: s.terms.mean(0)),
    m("output-product", "The terms are multiplied.", "output", lambda s: s.terms.prod(0)),
    m(
        "output-absolute",
        "The terms are added without their signs.",
        "output",
        lambda s: np.abs(s.terms).sum(0),
    ),
    m(
        "output-w-x-again",
        "The sum is multiplied by W_x once more.",
        "output",
        lambda s: s.terms.sum(0) * s.W_x,
    ),
    m(
        "output-alternating",
        "The terms are added with alternating signs.",
        "output",
        lambda s: (s.terms * (-1.0) ** exponents(s)).sum(0),
    ),
]


def right_alternation(given: Work) -> Formulas:
    return {
        "odd places": lambda s: s.inputs[0::2].sum(),
        "even places": lambda s: s.inputs[1::2].sum(),
        "state": lambda s: s["even places"] - s["odd places"],
        "output": lambda s: float(s.state > 0),
    }


ODD, EVEN = "odd places", "even places"
ALTERNATION = [
    m(
        "counted-from-zero",
        "The positions are counted from 0: odd and even exchanged.",
        ODD,
        lambda s: s.inputs[1::2].sum(),
        EVEN,
        lambda s: s.inputs[0::2].sum(),
    ),
    m(
        "odd-of-even",
        "The inputs at even positions are added for the odd ones.",
        ODD,
        lambda s: s.inputs[1::2].sum(),
    ),
    m(
        "even-of-odd",
        "The inputs at odd positions are added for the even ones.",
        EVEN,
        lambda s: s.inputs[0::2].sum(),
    ),
    m(
        "odd-numbers",
        "The odd numbers are added, not those at odd positions.",
        ODD,
        lambda s: s.inputs[s.inputs % 2 == 1].sum(),
    ),
    m(
        "odd-and-even-numbers",
        "Odd and even numbers are added, whatever their position.",
        ODD,
        lambda s: s.inputs[s.inputs % 2 == 1].sum(),
        EVEN,
        lambda s: s.inputs[s.inputs % 2 == 0].sum(),
    ),
    m("odd-last-dropped", "The last odd position is left out.", ODD, lambda s: s.inputs[0:-2:2].sum()),
    m("even-last-dropped", "The last even position is left out.", EVEN, lambda s: s.inputs[1:-1:2].sum()),
    m("odd-signs-lost", "The minus signs are overlooked.", ODD, lambda s: np.abs(s.inputs[0::2]).sum()),
    m(
        "signs-lost",
        "The minus signs are overlooked in both sums.",
        ODD,
        lambda s: np.abs(s.inputs[0::2]).sum(),
        EVEN,
        lambda s: np.abs(s.inputs[1::2]).sum(),
    ),
    m("odd-mean", "The mean instead of the sum.", ODD, lambda s: s.inputs[0::2].mean()),
    m(
        "even-is-rest-of-all",
        "The sum of all inputs is given for the even positions.",
        EVEN,
        lambda s: s.inputs.sum(),
    ),
    m("odd-first-half", "The first half is added.", ODD, lambda s: s.inputs[: len(s.inputs) // 2].sum()),
    m(
        "halves",
        "The first and the second half are added.",
        ODD,
        lambda s: s.inputs[: len(s.inputs) // 2].sum(),
        EVEN,
        lambda s: s.inputs[len(s.inputs) // 2 :].sum(),
    ),
    m("odd-counted", "The odd positions are counted.", ODD, lambda s: len(s.inputs) / 2),
    m("state-reversed", "Odd minus even.", "state", lambda s: s[ODD] - s[EVEN]),
    m("state-added", "Odd plus even.", "state", lambda s: s[ODD] + s[EVEN]),
    m("state-is-last-input", "The last input is given as the state.", "state", lambda s: s.inputs[-1]),
    m("state-absolute", "The sign of the state is dropped.", "state", lambda s: abs(s[EVEN] - s[ODD])),
    m("state-even-only", "The odd positions are not subtracted.", "state", lambda s: s[EVEN]),
    m(
        "state-last-difference",
        "Only the last two inputs are used.",
        "state",
        lambda s: s.inputs[-1] - s.inputs[-2],
    ),
    m("state-halved", "The difference is halved.", "state", lambda s: (s[EVEN] - s[ODD]) / 2),
    m("output-reversed", "0 where positive, else 1.", "output", lambda s: float(s.state <= 0)),
    m("output-is-state", "The state itself is given as the output.", "output", lambda s: s.state),
    m("output-sign", "-1 instead of 0.", "output", lambda s: 1.0 if s.state > 0 else -1.0),
    m("output-zero-is-positive", "0 is taken as positive.", "output", lambda s: float(s.state >= 0)),
]

KINDS = [
    Kind(
        "recurrence",
        right_recurrence,
        RECURRENCE,
        slips="step 0/state, step 2/state",
        misread="step 1/state < inputs",
        defaults={"W_y": 1.0},
    ),
    Kind(
        "recurrence-closed-form",
        right_closed,
        CLOSED,
        slips="powers, terms, output",
        misread="terms < inputs",
    ),
    Kind(
        "alternation",
        right_alternation,
        ALTERNATION,
        slips="odd places, state",
        misread="odd places < inputs",
    ),
]
