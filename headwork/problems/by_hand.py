"""Worked by hand: patches and attention (A), the transformer (C), convolution (D) and recurrence (E).

Convolution is cross-correlation, as everywhere: the kernel is not flipped.
"""

from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import equal
from headwork.mechanisms import patches
from headwork.problems.book import Solution, close, tensor
from headwork.problems.families import answer_table, chain_table, family_table, show_measured
from headwork.readings import explain

A2: dict[str, Any] = {
    "tokens": "1 2; 2 0; 0 1; 1 1",
    "W_q": "1 0; 0 1",
    "W_k": "1 0; 0 0",
    "W_v": "0 0; 0 1",
    "beta": "1",
}


def a1(solution: Solution) -> None:
    ledger = solution.show(sizes.patches(image=224, patch=16))
    solution.check_values(ledger)


def a2(solution: Solution) -> None:
    trace = solution.show(explain("self-attention", exact=True, **A2))
    solution.check_values(trace, "weights")
    for beta in ("0", "1/10", "10", "oo"):
        tied = explain("self-attention", exact=True, **{**A2, "beta": beta})["weights"].exact
        solution.check(f"weights, row 2, at beta = {beta.replace('oo', '∞')}", tied[2], "1/4 1/4 1/4 1/4")
    solution.say("Ties never sharpen: row 2 has four equal scores, so its weights are 1/4 at every beta.")
    solution.check_values(trace, "outputs")
    rounded = [[round(float(x), 4) for x in row] for row in trace["weights"].values.tolist()]
    early = trace.what_if("weights", rounded)["output"].values[0][1:]
    solution.check("output 0 from weights rounded to four digits", early, "0.6621", rounded=4)
    solution.say("The last two checks below have matrices that tell W x from x W.")
    other: dict[str, Any] = {"tokens": "1 2; 2 0; 0 1", "W_q": "1 2; 0 1", "W_k": "0 1; 2 1", "beta": "1"}
    scores = [
        explain("self-attention", exact=True, convention=convention, **other)["scores"].values
        for convention in ("W x", "x W")
    ]
    label = f"tokens {other['tokens']}, W_q {other['W_q']}, W_k {other['W_k']}: scores"
    solution.check(f"{label} with W x", scores[0], "18 8 7; 4 0 2; 8 4 3")
    solution.check(f"{label} with x W", scores[1], "16 8 6; 20 8 8; 3 2 1")


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


SIGNAL, KERNEL = "x1 x2 x3 x4 x5 x6 x7 x8 x9", "k1 k2 k3"


def d1(solution: Solution) -> None:
    plain = explain("convolution-1d", signal=SIGNAL, kernel=KERNEL)
    strided = explain("convolution-1d", signal=SIGNAL, kernel=KERNEL, padding=1, stride=2)
    solution.show(plain)
    solution.show(strided)
    solution.check_values(plain, "plain")
    solution.check_values(strided, "strided")
    solution.say(
        "This is cross-correlation, which every framework calls convolution: the kernel is not flipped."
    )


def d2(solution: Solution) -> None:
    shared = solution.show(explain("toeplitz", signal=SIGNAL, kernel=KERNEL))
    matrix = shared["matrix"].exact
    solution.check_values(shared)
    convolved = explain("convolution-1d", signal=SIGNAL, kernel=KERNEL)["output"].exact
    solution.check("the same outputs as the convolution", shared["output"], convolved)
    taps = "; ".join(" ".join(f"k_{3 * i + j + 1}" for j in range(3)) for i in range(7))
    local = solution.show(explain("locally-connected", signal=SIGNAL, kernels=taps))
    distinct = {str(x) for x in local["matrix"].exact.flat if x != 0}
    solution.check("weights without sharing", len(distinct), 21)
    counted = sizes.convolution(inputs=(9,), kernel=3)["locally connected weights"]
    solution.check("(9 - 3 + 1) * 3", counted, 21)
    solution.confirm("the same pattern of zeros", ((matrix != 0) == (local["matrix"].exact != 0)).all())
    for name in ("convolution-toeplitz", "locally-connected-banded"):
        solution.confirm(f"{name}: proved exactly, and equal on 100 random cases", equal(name).holds)


def d3(solution: Solution) -> None:
    image = "1 2 3; 4 5 6; 7 8 9"
    trace = solution.show(explain("convolution-2d", image=image, kernel="1/4 1/4; 1/4 1/4", exact=True))
    solution.check("output", trace["output"], "3 4; 6 7")
    pooled = explain("average-pooling", image=image, size=2, stride=1, exact=True)
    solution.check("average pooling with stride 1", pooled["output"], "3 4; 6 7")


def d4(solution: Solution) -> None:
    solution.check_values(
        solution.show(sizes.convolution(inputs=(3, 256, 256), filters=32, kernel=5, stride=2))
    )


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
    likely = solution.show(
        explain("recurrence", inputs="1 3 2 4", **{**weights, "output": "sigmoid"}, exact=True)
    )
    solution.check("with a sigmoid instead of the step, inputs 1 3 2 4", likely["output"], "[e^4/(e^4 + 1)]")
    solution.say("""A sigmoid output is above 1/2 exactly where the step gives 1: both decide by the sign of
    w_y h_T.""")
    solution.say("""Positions are counted from 1 here, as in the hand-out. For an odd number of inputs the
    signs swap.""")


def c1(solution: Solution) -> None:
    natural = explain("natural-positions", places="0 1 2 3")
    short, long = (
        explain("normalised-positions", places=places, exact=True) for places in ("0 1 2", "0 1 2 3 4")
    )
    sinusoidal = solution.show(explain("sinusoidal-positions", places="0 1 2 3", width=4, exact=True))
    solution.check("natural numbers grow without bound", natural["output"], "0; 1; 2; 3")
    solution.check("normalised: position 1 of 3", short["output"].exact[1], "[1/2]")
    solution.check(
        "normalised: position 1 of 5: the same position, another number", long["output"].exact[1], "[1/4]"
    )
    from_1 = solution.show(explain("normalised-positions", places="1 2 3 4", exact=True))
    solution.check("normalised, counted from 1: 1/n to 1", from_1["output"], "1/4; 1/2; 3/4; 1")
    codes = "sin(1) cos(1) sin(1/100) cos(1/100)"
    solution.check("sinusoidal, position 1, width 4", sinusoidal["output"].exact[1], codes)
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
    solution.say("""Natural, normalised and learned positions give every word another code in the second
    sentence. Relative and rotary positions, and the dot products of sinusoids, depend on distances only: they
    see the same relations within each part.""")


def c2(solution: Solution) -> None:
    ledger = solution.show(sizes.attention_ledger(batch=1, tokens=5, width=768, heads=12))
    solution.check_values(ledger)


def c3(solution: Solution) -> None:
    ledger = solution.show(sizes.attention_ledger(tokens=6, width=768, tokens_as="columns"))
    solution.check_values(ledger)
    weights: dict[str, Any] = {"W_q": "1 2; 0 1", "W_v": "1 1; 0 2"}
    rows = explain("self-attention", tokens="1 2; 2 0; 0 1", **weights)
    columns = solution.show(explain("self-attention", tokens="1 2 0; 2 0 1", tokens_as="columns", **weights))
    solution.confirm("the same numbers, transposed", close(rows["output"].values.T, columns["output"].values))
    solution.confirm("softmax runs down the columns", close(columns["weights"].values.sum(0), np.ones(3)))


def c4(solution: Solution) -> None:
    weights: dict[str, Any] = {"W_1": "1 0 1; -1 1 2", "W_2": "1 0; 2 1; 0 1", "b_1": "0 1 -1", "b_2": "1 0"}
    trace = solution.show(explain("feed-forward", tokens="1 -1; 2 0; -1 1", exact=True, **weights))
    solution.check("feed-forward of (1, -1)", trace["output"].exact[0], "3 0")
    alone = explain("feed-forward", tokens="[[2, 0]]", exact=True, **weights)["output"].exact
    solution.check("a token gives the same output alone as among others", alone[0], trace["output"].exact[1])
    normal = solution.show(explain("layer-normalisation", tokens="[[1, 2, 3, 6]]", exact=True))
    solution.check_values(normal, "normalised")
    masked = explain("self-attention", tokens="1 2; 2 0; 0 1", mask="causal", exact=True)
    solution.check("masked decoding: no weight on later tokens", masked["weights"].exact[0], "1 0 0")
    whole = solution.show(sizes.transformer(vocabulary=37_000))
    solution.check_values(whole, "counted")


def c5(solution: Solution) -> None:
    proof = equal("patch-embedding-convolution")
    solution.confirm("patch embedding = convolution with stride = kernel size", proof.holds)
    flat = patches(tensor(np.zeros((3, 8, 8))), size=4).shape
    solution.check("patches of 3 x 4 x 4, each flattened to ONE vector, then projected", flat, (4, 48))
    solution.show(explain("patches", image="1 2 3 4; 5 6 7 8; 9 10 11 12; 13 14 15 16", size=2))
    gelu = explain("gelu", values="-1 0 1", exact=True)["output"]
    solution.check("values of GELU at -1, 0, 1", gelu, "-(1+erf(-1/sqrt(2)))/2, 0, (1+erf(1/sqrt(2)))/2")
    ledger = solution.show(
        sizes.vit(image=28, patch=4, channels=1, width=64, depth=6, heads=4, hidden=128, classes=10)
    )
    solution.check("tokens of a 28 x 28 image in 4 x 4 patches, with class token", ledger["tokens"], 50)
