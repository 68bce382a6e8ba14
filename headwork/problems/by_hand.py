"""Patches, attention (A), the transformer (C), convolution (D), recurrence (E), and questions in words (G).

Convolution is cross-correlation, as everywhere: the kernel is not flipped.
"""

import math
from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import build, equal
from headwork.mechanisms import attention, convolution_1d, convolution_2d, layer_normalisation, patches
from headwork.problems.book import BOOK, Solution, hand_tensor, is_close
from headwork.problems.families import answer_table, attend, chain_table, family_table, reach, show_measured
from headwork.readings import explain

A2: dict[str, Any] = BOOK["A2"]["work"][0]["inputs"]


def a2(solution: Solution) -> None:
    rounded = [[round(float(x), 4) for x in row] for row in solution.worked["weights"].values.tolist()]
    early = solution.worked.what_if("weights", rounded)["output"].values[0][1:]
    solution.check("output 0 from weights rounded to four digits", early, "0.6621", rounded=4)


def a3(solution: Solution) -> None:
    families, chains = family_table(), chain_table()
    solution.show(answer_table())
    solution.show(families)
    solution.show(chains)
    convolution, depthwise, recurrence, self_attention = (row[1] for row in families.rows)
    solution.check("full convolution, multiply-adds", convolution, "d^2 k^2 s^2")
    solution.check("depthwise convolution", depthwise, "d k^2 s^2")
    solution.check("recurrence", recurrence, "2 n d^2")
    solution.check("self-attention with projections", self_attention, "2 n^2 d + 4 n d^2")
    solution.check("steps of one convolution that wait for one another", chains.rows[0][1], 1)
    show_measured(solution, "work_and_time")


def d2(solution: Solution) -> None:
    shared, matrix = solution.worked, solution.worked["matrix"].exact_values
    signal, kernel = (shared.inputs[name].exact_values for name in ("signal", "kernel"))
    convolved = explain("convolution-1d", signal=signal, kernel=kernel)["output"].exact_values
    solution.check("the same outputs as the convolution", shared["output"], convolved)
    taps = "; ".join(" ".join(f"k_{3 * i + j + 1}" for j in range(3)) for i in range(7))
    local = solution.show(explain("locally-connected", signal=signal, kernels=taps))
    unshared = local["matrix"].exact_values
    distinct = {str(x) for x in unshared.flat if x != 0}
    solution.check("weights without sharing", len(distinct), 21)
    counted = sizes.convolution(inputs=(9,), kernel=3)["locally connected weights"]
    solution.check("(9 - 3 + 1) * 3", counted, 21)
    solution.confirm("the same pattern of zeros", ((matrix != 0) == (unshared != 0)).all())
    for name in ("convolution-toeplitz", "locally-connected-banded"):
        solution.confirm(f"{name}: proved exactly, and equal on 100 random cases", equal(name).holds)


# --- group E: recurrence ----------------------------------------
def e1(solution: Solution) -> None:
    symbols: dict[str, Any] = {"inputs": "x1 x2 x3 x4", "W_x": "a", "W_h": "b"}
    unrolled, closed = explain("recurrence", **symbols), explain("recurrence-closed-form", **symbols)
    solution.show(unrolled)
    solution.show(closed)
    solution.check("h_4 with weights a and b", closed["output"], "[a*b^3*x1 + a*b^2*x2 + a*b*x3 + a*x4]")
    both = [trace["output"].exact_values[0].expand() for trace in (unrolled, closed)]
    solution.check("unrolled = closed form", *both)
    weights: dict[str, Any] = {"W_x": "1", "W_h": "-1", "W_y": "1", "output": "step"}
    cases = {"3 1 2 4": 0, "1 3 2 4": 1, "5 2 1 3": 0, "1 1 1 1": 0, "-3 -1 0 -1": 1}
    for inputs, expected in cases.items():
        numbers = [int(x) for x in inputs.split()]
        odds, evens = sum(numbers[0::2]), sum(numbers[1::2])
        output = int(explain("recurrence", inputs=inputs, **weights)["output"].values[0])
        solution.check(
            f"inputs {inputs}: positions 2, 4 sum to {evens}, positions 1, 3 to {odds}", output, expected
        )
        solution.check(
            f"inputs {inputs}: the output says whether the even positions sum to more",
            output,
            int(evens > odds),
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
    words = ["i", "went", "to", "the", "beach", "twice", "a", "week", "last", "year"]
    moved = words[5:] + words[:5]
    shifts = [moved.index(word) - position for position, word in enumerate(words)]
    solution.say(f"""From the first sentence to the second the words move by {shifts}: one part by 5
    positions, the other by -5.""")
    same = [(i, j) for i in range(10) for j in range(10) if shifts[i] == shifts[j]]
    solution.confirm("every absolute position changes", all(shift != 0 for shift in shifts))
    distances = all(moved.index(words[j]) - moved.index(words[i]) == j - i for i, j in same)
    solution.confirm("within each part every distance stays the same", distances)
    solution.check("pairs of words whose distance stays the same, of 100", len(same), 50)
    vectors = np.random.default_rng(1).normal(size=(10, 4))
    rotated, shifted = (
        explain("rotary-positions", vectors=vectors, places=list(range(start, start + 10)))["output"].values
        for start in (0, 5)
    )
    solution.confirm(
        "rotary scores do not change when all positions shift by 5",
        is_close(rotated @ rotated.T, shifted @ shifted.T),
    )


def c3(solution: Solution) -> None:
    weights: dict[str, Any] = {"W_q": "1 2; 0 1", "W_v": "1 1; 0 2"}
    rows = explain("self-attention", tokens="1 2; 2 0; 0 1", **weights)
    columns = solution.show(explain("self-attention", tokens="1 2 0; 2 0 1", tokens_as="columns", **weights))
    transposed = columns["output"].values.T
    solution.confirm("the same numbers, transposed", is_close(rows["output"].values, transposed))
    solution.confirm("softmax runs down the columns", is_close(columns["weights"].values.sum(0), np.ones(3)))


def c4(solution: Solution) -> None:
    trace = solution.worked
    alone = trace.rerun(tokens="[[2, 0]]")["output"].exact_values
    solution.check(
        "a token gives the same output alone as among others", alone[0], trace["output"].exact_values[1]
    )


def c5(solution: Solution) -> None:
    proof = equal("patch-embedding-convolution")
    solution.confirm("patch embedding = convolution with stride = kernel size", proof.holds)
    flat = patches(hand_tensor(np.zeros((3, 8, 8))), size=4).shape
    solution.check("patches of 3 x 4 x 4, each flattened to ONE vector, then projected", flat, (4, 48))


# --- group G: questions in words, with evidence that runs -----------------------------------------
def g1(solution: Solution) -> None:
    entropies, spreads = [], []
    for beta in (0.0, 0.5, 1.0, 2.0, 8.0):
        trace = explain("self-attention", **{**A2, "beta": beta})
        weights = trace["weights"].values[0]
        entropies.append(float(-(weights * np.log(weights)).sum()))
        spreads.append(float(np.ptp(trace["output"].values[:, 1])))
    solution.confirm("entropy of row 0 falls as beta grows", (np.diff(entropies) < 0).all())
    solution.check("entropy at beta = 0 is ln 4", np.array([entropies[0]]), "[ln(4)]")
    solution.confirm("at beta = 0 all outputs are alike", spreads[0] < 1e-15)


def g2(solution: Solution) -> None:
    codes = np.eye(5)
    content = np.array([1.0, 4, 2, 8, 5])[:, None]
    before, after = (codes[np.clip(np.arange(5) + k, 0, 4)] for k in (-1, 1))

    def head(query: Any, values: Any) -> Any:
        return attention(hand_tensor(query), hand_tensor(codes), hand_tensor(values), beta=math.inf).array

    single = head(before + after, content)[2]
    both = np.concatenate([head(query, content)[2] for query in (before, after)])
    solution.check("one head at token 2: the mean of its neighbours", single, "[6]")
    solution.check("two heads at token 2: both neighbours", both, "4 8")
    swapped = head(before + after, content[[0, 3, 2, 1, 4]])
    solution.confirm("one head cannot see that the neighbours were exchanged", is_close(swapped[2], single))


def g3(solution: Solution) -> None:
    solution.show(chain_table())
    for weight, effect in (("0.9", "vanishes"), ("1.1", "explodes")):
        trace = explain("recurrence-closed-form", inputs=[1.0] * 50, W_x="1", W_h=weight)
        gradient = float(trace["powers"].values[0].item())
        label = "gradient of the last state with respect to the first of 50 inputs"
        solution.confirm(
            f"{label}, w_h = {weight}, is w_h^49: it {effect}", is_close(gradient, float(weight) ** 49)
        )
        solution.say(f"For w_h = {weight} it is {gradient:.3g}.")
    tokens = np.random.default_rng(3).normal(size=(6, 4))
    layers = 1 if reach(attend, tokens) == 5 else 2  # until the last output depends on the first token
    solution.check("attention: a path of one step between any two tokens", layers, 1)
    show_measured(solution, "recall_over_a_gap")


def g4(solution: Solution) -> None:
    weights = solution.worked["weights"].values
    solution.check("A2, row 0 attends most to token", int(np.argmax(weights[0])), 1)
    solution.confirm("rows sum to 1", is_close(weights.sum(-1), np.ones(4)))


def g5(solution: Solution) -> None:
    design = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1.0]])
    best = design @ np.linalg.lstsq(design, np.array([0, 1, 1, 0.0]), rcond=None)[0]
    solution.check("the best linear map gives", best, "1/2 1/2 1/2 1/2")


def g6(solution: Solution) -> None:
    output = solution.worked["output"].exact_values
    solution.check("a token ten times as large gives the same output", output[1], output[0])
    random = np.random.default_rng(6).normal(size=(5, 16)) * 7 + 3
    normal = layer_normalisation(hand_tensor(random)).array
    solution.confirm(
        "mean 0 and standard deviation 1 for every token",
        np.abs(normal.mean(-1)).max() < 1e-12 and np.abs(normal.std(-1) - 1).max() < 1e-12,
    )


def g7(solution: Solution) -> None:
    random = np.random.default_rng(7)
    tokens, order = random.normal(size=(6, 4)), random.permutation(6)
    codes = explain("sinusoidal-positions", places=list(range(6)), width=4)["output"].values
    solution.confirm(
        "permuted tokens permute the outputs", is_close(attend(tokens[order]), attend(tokens)[order])
    )
    with_codes = attend(tokens[order] + codes), attend(tokens + codes)[order]
    solution.confirm("with positions they do something else", not is_close(*with_codes))
    masked = attend(tokens[order], mask="causal"), attend(tokens, mask="causal")[order]
    solution.confirm("with a causal mask, too", not is_close(*masked))
    holds = equal("attention-permutation").holds
    solution.confirm("proved exactly on a small case, and equal on 100 random ones", holds)
    construction = build("permutation", order="2 1", positions="none")
    solution.confirm("a head without positions cannot permute", not construction.possible)
    solution.say(construction.reason)


def g8(solution: Solution) -> None:
    random = np.random.default_rng(8)
    signal, kernel = random.normal(size=12), random.normal(size=3)

    def circular(x: Any) -> Any:
        return convolution_1d(hand_tensor(np.concatenate([x[-1:], x, x[:1]])), hand_tensor(kernel)).array

    solution.confirm(
        "circular convolution is shift-equivariant",
        is_close(circular(np.roll(signal, 2)), np.roll(circular(signal), 2)),
    )
    tokens, table = random.normal(size=(6, 4)), random.normal(size=(6, 4))
    shifted = attend(np.roll(tokens, 1, axis=0) + table), np.roll(attend(tokens + table), 1, axis=0)
    solution.confirm("attention with learned positions is not", not is_close(*shifted))
    for size in (9, 12):
        some_image, ones = np.zeros((1, size, size + 3)), np.ones((1, 1, 3, 3))
        outputs = convolution_2d(hand_tensor(some_image), hand_tensor(ones)).array.shape
        solution.check(f"the same 3 x 3 kernel on {size} x {size + 3}", outputs, (1, size - 2, size + 1))
    image = random.normal(size=(1, 9, 9))
    changed = image.copy()
    changed[0, 8, 8] += 1
    filters = hand_tensor(random.normal(size=(1, 1, 3, 3)))
    corners = [convolution_2d(hand_tensor(x), filters).array[0, 0, 0] for x in (image, changed)]
    solution.confirm("a far pixel does not reach a 3 x 3 convolution", corners[0] == corners[1])
    moved = tokens.copy()
    moved[-1] += 1
    difference = np.abs(attend(tokens)[0] - attend(moved)[0]).max()
    solution.confirm("a far token reaches attention at once", difference > 1e-6)
    show_measured(solution, "image_shifts")


def g9(solution: Solution) -> None:
    table = np.arange(12.0).reshape(6, 2)
    learned = (
        explain("learned-positions", tokens=np.zeros((3, 2)), table=t)["output"].values
        for t in (table, table[3:])
    )
    solution.confirm("a learned table gives each position a code of its own", not is_close(*learned))
    values = explain("gelu", values="-1 1")["output"].values
    solution.confirm("GELU lets a little of the negative through", -0.2 < values[0] < 0)


def g10(solution: Solution) -> None:
    keys, values = np.eye(8) * 12, np.arange(8.0)[:, None]
    looked_up = attention(hand_tensor(keys[[5]] / 12), hand_tensor(keys), hand_tensor(values), beta=1.0).array
    solution.check("as a soft dictionary: the query for entry 5 returns 5", np.round(looked_up[0], 3), "[5]")
    far = np.zeros((64, 3))
    far[3] = [5, 0, 1]
    far[63] = [5, 0, 0]
    match = attend(far, beta=1.0)[63, 2]
    solution.confirm("token 63 finds its match at position 3, 60 positions away", match > 0.45)


def g11(solution: Solution) -> None:
    ledger = solution.worked
    saved = ledger["locally connected weights"] // ledger["weights"]
    solution.check("sharing saves a factor of", saved, 126 * 126)
    proof = equal("convolution-toeplitz")
    solution.show(proof.document())
    solution.confirm("proved exactly on a small case, and equal on 100 random ones", proof.holds)


def g12(solution: Solution) -> None:
    random = np.random.default_rng(12)
    tokens, table = random.normal(size=(4, 4)), random.normal(size=(8, 4))
    here, there = (attend(tokens + codes, beta=1.0) for codes in (table[:4], table[4:]))
    solution.confirm(
        "absolute: the same words four positions later look different", np.abs(here - there).max() > 0.1
    )
    scores = []
    for start in (0, 4):
        rotary = explain("rotary-positions", vectors=tokens, places=list(range(start, start + 4)))
        scores.append(rotary["output"].values @ rotary["output"].values.T)
    solution.confirm("rotary: their scores are the same", is_close(*scores))
