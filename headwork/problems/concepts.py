"""Group G: questions in words. A short answer of ours, and evidence that runs."""

import math
from typing import Any

import numpy as np

from headwork.construct import build, equal
from headwork.mechanisms import attention, convolution_1d, convolution_2d, layer_normalisation
from headwork.problems.book import Solution, close, tensor
from headwork.problems.by_hand import A2
from headwork.problems.families import attend, chain_table, reach, show_measured
from headwork.readings import explain


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
        return attention(tensor(query), tensor(codes), tensor(values), beta=math.inf).array

    single = head(before + after, content)
    both = np.concatenate([head(query, content)[2] for query in (before, after)])
    solution.check("one head at token 2: the mean of its neighbours", single[2], "[6]")
    solution.check("two heads at token 2: both neighbours", both, "4 8")
    swapped = head(before + after, content[[0, 3, 2, 1, 4]])
    solution.confirm("one head cannot see that the neighbours were exchanged", close(swapped[2], single[2]))


def g3(solution: Solution) -> None:
    solution.show(chain_table())
    for weight, effect in (("0.9", "vanishes"), ("1.1", "explodes")):
        trace = explain("recurrence-closed-form", inputs=[1.0] * 50, W_x="1", W_h=weight)
        first = float(trace["powers"].values[0].item())
        label = "gradient of the last state with respect to the first of 50 inputs"
        solution.confirm(
            f"{label}, w_h = {weight}, is w_h^49: it {effect}", close(first, float(weight) ** 49)
        )
        solution.say(f"For w_h = {weight} it is {first:.3g}.")
    tokens = np.random.default_rng(3).normal(size=(6, 4))
    layers = 1 if reach(attend, tokens) == 5 else 2  # until the last output depends on the first token
    solution.check("attention: a path of one step between any two tokens", layers, 1)
    show_measured(solution, "recall_over_a_gap")


def g4(solution: Solution) -> None:
    weights = solution.worked["weights"].values
    solution.check("A2, row 0 attends most to token", int(np.argmax(weights[0])), 1)
    solution.confirm("rows sum to 1", close(weights.sum(-1), np.ones(4)))


def g5(solution: Solution) -> None:
    design = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1.0]])
    best = design @ np.linalg.lstsq(design, np.array([0, 1, 1, 0.0]), rcond=None)[0]
    solution.check("the best linear map gives", best, "1/2 1/2 1/2 1/2")


def g6(solution: Solution) -> None:
    output = solution.worked["output"].exact
    solution.check("a token ten times as large gives the same output", output[1], output[0])
    random = np.random.default_rng(6).normal(size=(5, 16)) * 7 + 3
    normal = layer_normalisation(tensor(random)).array
    solution.confirm(
        "mean 0 and standard deviation 1 for every token",
        np.abs(normal.mean(-1)).max() < 1e-12 and np.abs(normal.std(-1) - 1).max() < 1e-12,
    )


def g7(solution: Solution) -> None:
    random = np.random.default_rng(7)
    tokens, order = random.normal(size=(6, 4)), random.permutation(6)
    codes = explain("sinusoidal-positions", places=list(range(6)), width=4)["output"].values
    solution.confirm(
        "permuted tokens permute the outputs", close(attend(tokens[order]), attend(tokens)[order])
    )
    with_codes = attend(tokens[order] + codes), attend(tokens + codes)[order]
    solution.confirm("with positions they do something else", not close(*with_codes))
    masked = attend(tokens[order], mask="causal"), attend(tokens, mask="causal")[order]
    solution.confirm("with a causal mask, too", not close(*masked))
    holds = equal("attention-permutation").holds
    solution.confirm("proved exactly on a small case, and equal on 100 random ones", holds)
    construction = build("permutation", order="2 1", positions="none")
    solution.confirm("a head without positions cannot permute", not construction.possible)
    solution.say(construction.reason)


def g8(solution: Solution) -> None:
    random = np.random.default_rng(8)
    signal, kernel = random.normal(size=12), random.normal(size=3)

    def circular(x: Any) -> Any:
        return convolution_1d(tensor(np.concatenate([x[-1:], x, x[:1]])), tensor(kernel)).array

    solution.confirm(
        "circular convolution is shift-equivariant",
        close(circular(np.roll(signal, 2)), np.roll(circular(signal), 2)),
    )
    tokens, table = random.normal(size=(6, 4)), random.normal(size=(6, 4))
    shifted = attend(np.roll(tokens, 1, axis=0) + table), np.roll(attend(tokens + table), 1, axis=0)
    solution.confirm("attention with learned positions is not", not close(*shifted))
    for size in (9, 12):
        some_image, ones = np.zeros((1, size, size + 3)), np.ones((1, 1, 3, 3))
        outputs = convolution_2d(tensor(some_image), tensor(ones)).array.shape
        solution.check(f"the same 3 x 3 kernel on {size} x {size + 3}", outputs, (1, size - 2, size + 1))
    image = random.normal(size=(1, 9, 9))
    changed = image.copy()
    changed[0, 8, 8] += 1
    filters = tensor(random.normal(size=(1, 1, 3, 3)))
    corners = [convolution_2d(tensor(x), filters).array[0, 0, 0] for x in (image, changed)]
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
    solution.confirm("a learned table gives each position a code of its own", not close(*learned))
    values = explain("gelu", values="-1 1")["output"].values
    solution.confirm("GELU lets a little of the negative through", -0.2 < values[0] < 0)


def g10(solution: Solution) -> None:
    keys, values = np.eye(8) * 12, np.arange(8.0)[:, None]
    looked_up = attention(tensor(keys[[5]] / 12), tensor(keys), tensor(values), beta=1.0).array
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
    solution.confirm("rotary: their scores are the same", close(*scores))
