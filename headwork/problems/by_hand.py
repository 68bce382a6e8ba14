"""Worked by hand: patches and attention (A), the transformer (C), convolution (D) and recurrence (E).

Convolution is cross-correlation, as everywhere: the kernel is not flipped.
"""

from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import equal
from headwork.mechanisms import patches
from headwork.problems.book import Solution, book_texts, close, tensor
from headwork.problems.families import answer_table, chain_table, family_table, show_measured
from headwork.readings import explain

A2: dict[str, Any] = book_texts()["A2"]["work"][0]["inputs"]


def a2(solution: Solution) -> None:
    rounded = [[round(float(x), 4) for x in row] for row in solution.worked["weights"].values.tolist()]
    early = solution.worked.what_if("weights", rounded)["output"].values[0][1:]
    solution.check("output 0 from weights rounded to four digits", early, "0.6621", rounded=4)


def a3(solution: Solution) -> None:
    families, chains = family_table(), chain_table()
    solution.show(answer_table())
    solution.show(families)
    solution.show(chains)
    convolution, depthwise, recurrence, attention = (row[1] for row in families.rows)
    solution.check("full convolution, multiply-adds", convolution, "d^2 k^2 s^2")
    solution.check("depthwise convolution", depthwise, "d k^2 s^2")
    solution.check("recurrence", recurrence, "2 n d^2")
    solution.check("self-attention with projections", attention, "2 n^2 d + 4 n d^2")
    solution.check("steps of one convolution that wait for one another", chains.rows[0][1], 1)
    show_measured(solution, "work_and_time")


def d2(solution: Solution) -> None:
    shared, matrix = solution.worked, solution.worked["matrix"].exact
    signal, kernel = (shared.inputs[name].exact for name in ("signal", "kernel"))
    convolved = explain("convolution-1d", signal=signal, kernel=kernel)["output"].exact
    solution.check("the same outputs as the convolution", shared["output"], convolved)
    taps = "; ".join(" ".join(f"k_{3 * i + j + 1}" for j in range(3)) for i in range(7))
    local = solution.show(explain("locally-connected", signal=signal, kernels=taps))
    distinct = {str(x) for x in local["matrix"].exact.flat if x != 0}
    solution.check("weights without sharing", len(distinct), 21)
    counted = sizes.convolution(inputs=(9,), kernel=3)["locally connected weights"]
    solution.check("(9 - 3 + 1) * 3", counted, 21)
    solution.confirm("the same pattern of zeros", ((matrix != 0) == (local["matrix"].exact != 0)).all())
    for name in ("convolution-toeplitz", "locally-connected-banded"):
        solution.confirm(f"{name}: proved exactly, and equal on 100 random cases", equal(name).holds)


# --- group E: recurrence ----------------------------------------
def e1(solution: Solution) -> None:
    symbols: dict[str, Any] = {"inputs": "x1 x2 x3 x4", "W_x": "a", "W_h": "b"}
    unrolled, closed = explain("recurrence", **symbols), explain("recurrence-closed-form", **symbols)
    solution.show(unrolled)
    solution.show(closed)
    solution.check("h_4 with weights a and b", closed["output"], "[a*b^3*x1 + a*b^2*x2 + a*b*x3 + a*x4]")
    both = [trace["output"].exact[0].expand() for trace in (unrolled, closed)]
    solution.check("unrolled = closed form", *both)
    weights: dict[str, Any] = {"W_x": "1", "W_h": "-1", "W_y": "1", "output": "step"}
    cases = {"3 1 2 4": 0, "1 3 2 4": 1, "5 2 1 3": 0, "1 1 1 1": 0, "-3 -1 0 -1": 1}
    for inputs, expected in cases.items():
        numbers = [int(x) for x in inputs.split()]
        odd, even = sum(numbers[0::2]), sum(numbers[1::2])
        output = int(explain("recurrence", inputs=inputs, **weights)["output"].values[0])
        solution.check(
            f"inputs {inputs}: positions 2, 4 sum to {even}, positions 1, 3 to {odd}", output, expected
        )
        solution.check(
            f"inputs {inputs}: the output says whether the even positions sum to more",
            output,
            int(even > odd),
        )


def c1(solution: Solution) -> None:
    encoding = explain("sinusoidal-positions", places=list(range(64)), width=16)["output"].values
    dots = encoding @ encoding.T
    spread = max(float(np.ptp(np.diagonal(dots, k))) for k in range(60))
    solution.confirm("the dot product of two positions depends only on their distance", spread < 1e-12)
    solution.confirm("but does not fall steadily with it (a sum of cosines)", (np.diff(dots[0]) > 0).any())
    frequencies = np.arccos(encoding[1, 1::2])  # cos(w_k t) at t = 1
    solution.confirm(
        "what falls steadily is the frequency, with the index i", (np.diff(frequencies) < 0).all()
    )
    first = ["i", "went", "to", "the", "beach", "twice", "a", "week", "last", "year"]
    second = first[5:] + first[:5]
    shifts = [second.index(word) - position for position, word in enumerate(first)]
    solution.say(f"""From the first sentence to the second the words move by {shifts}: one part by 5
    positions, the other by -5.""")
    same = [(i, j) for i in range(10) for j in range(10) if shifts[i] == shifts[j]]
    solution.confirm("every absolute position changes", all(shift != 0 for shift in shifts))
    distances = all(second.index(first[j]) - second.index(first[i]) == j - i for i, j in same)
    solution.confirm("within each part every distance stays the same", distances)
    solution.check("pairs of words whose distance stays the same, of 100", len(same), 50)
    vectors = np.random.default_rng(1).normal(size=(10, 4))
    rotated, shifted = (
        explain("rotary-positions", vectors=vectors, places=list(range(start, start + 10)))["output"].values
        for start in (0, 5)
    )
    solution.confirm(
        "rotary scores do not change when all positions shift by 5",
        close(rotated @ rotated.T, shifted @ shifted.T),
    )


def c3(solution: Solution) -> None:
    weights: dict[str, Any] = {"W_q": "1 2; 0 1", "W_v": "1 1; 0 2"}
    rows = explain("self-attention", tokens="1 2; 2 0; 0 1", **weights)
    columns = solution.show(explain("self-attention", tokens="1 2 0; 2 0 1", tokens_as="columns", **weights))
    solution.confirm("the same numbers, transposed", close(rows["output"].values.T, columns["output"].values))
    solution.confirm("softmax runs down the columns", close(columns["weights"].values.sum(0), np.ones(3)))


def c4(solution: Solution) -> None:
    trace = solution.worked
    alone = trace.rerun(tokens="[[2, 0]]")["output"].exact
    solution.check("a token gives the same output alone as among others", alone[0], trace["output"].exact[1])


def c5(solution: Solution) -> None:
    proof = equal("patch-embedding-convolution")
    solution.confirm("patch embedding = convolution with stride = kernel size", proof.holds)
    flat = patches(tensor(np.zeros((3, 8, 8))), size=4).shape
    solution.check("patches of 3 x 4 x 4, each flattened to ONE vector, then projected", flat, (4, 48))
