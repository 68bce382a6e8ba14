"""Group G: questions in words. A short answer of ours, and evidence that runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import build, equal
from headwork.mechanisms import attention, convolution_1d, convolution_2d, layer_normalisation, self_attention
from headwork.problems.attention import A2
from headwork.problems.book import Worked, problem
from headwork.problems.making import _close, tensor
from headwork.readings import explain


def attended(tokens: Any, **options: Any) -> Any:
    return self_attention(tensor(tokens), **options).array


@problem("G1", "What beta does", "What does beta do, and when is information kept or spread?")
def g1(worked: Worked) -> None:
    worked.say("""Beta scales the scores, so it sets how much of the weight the best key takes. At 0 every output is the same mean: what
    told the tokens apart is gone. As it grows, each output nears the value of one key: that one is kept, the others are lost. Ties
    are shared at every beta.""")
    entropies, spreads = [], []
    for beta in (0.0, 0.5, 1.0, 2.0, 8.0):
        trace = explain("self-attention", **{**A2, "beta": beta})
        weights = trace["weights"].values[0]
        entropies.append(float(-(weights * np.log(weights)).sum()))
        spreads.append(float(np.ptp(trace["output"].values[:, 1])))
    worked.check("entropy of row 0 falls as beta grows", bool((np.diff(entropies) < 0).all()), True)
    worked.check("entropy at beta = 0 is ln 4", np.array([entropies[0]]), "[ln(4)]")
    worked.check("at beta = 0 all outputs are alike", spreads[0] < 1e-15, True)
    worked.answer = "beta sharpens: 0 spreads evenly, oo keeps one"


@problem("G2", "Why several heads", "What can two heads do that one cannot?")
def g2(worked: Worked) -> None:
    worked.say("""One head has one weight for each pair of tokens, so two relations must share it. Let a token need the one before AND the
    one after: a single softmax must split its weight, and gives their mean; two heads give both, side by side.""")
    places = np.eye(5)
    content = np.array([1.0, 4, 2, 8, 5])[:, None]
    before, after = (places[np.clip(np.arange(5) + k, 0, 4)] for k in (-1, 1))
    single = attention(tensor(before + after), tensor(places), tensor(content), beta=math.inf).array
    pair = [
        attention(tensor(q), tensor(places), tensor(content), beta=math.inf).array for q in (before, after)
    ]
    worked.check("one head at token 2: the mean of its neighbours", single[2], "[6]")
    worked.check("two heads at token 2: both neighbours", np.concatenate([p[2] for p in pair]), "4 8")
    other = content.copy()
    other[[1, 3]] = other[[3, 1]]
    swapped = attention(tensor(before + after), tensor(places), tensor(other), beta=math.inf).array
    worked.check(
        "one head cannot see that the neighbours were exchanged", _close(swapped[2], single[2]), True
    )
    worked.answer = "two relations side by side; one head must average them"


@problem("G3", "Transformer against RNN and LSTM", "Compare paths, gradients, parallelism and positions.")
def g3(worked: Worked) -> None:
    from headwork.problems.families import chain_table, show_measured

    worked.show(chain_table())
    worked.say("""A recurrence passes the first input through every later step: n steps on the path, and a gradient that is a power of the
    recurrent weight. Attention joins any two tokens in one step. A recurrence must go step by step; attention does all tokens at
    once, but must be told positions, which a recurrence has for free.""")
    for weight, word in (("0.9", "fades"), ("1.1", "grows")):
        trace = explain("recurrence-closed-form", inputs=[1.0] * 50, W_x="1", W_h=weight)
        first = float(trace["powers"].values[0].item())
        worked.check(
            f"gradient of the last state by the first of 50 inputs, w_h = {weight}, is w_h^49: it {word}",
            _close(first, float(weight) ** 49),
            True,
        )
        worked.say(f"For w_h = {weight} it is {first:.3g}.")
    worked.check("attention: a path of one step between any two tokens", _path_of_attention(), 1)
    show_measured(worked, "remembering")
    worked.answer = "paths 1 against n; gradients a power of w_h"


def _path_of_attention() -> int:
    """Layers needed until the last output depends on the first token."""
    tokens = np.random.default_rng(3).normal(size=(6, 4))
    moved = tokens.copy()
    moved[0] += 1
    return 1 if np.abs(attended(tokens)[-1] - attended(moved)[-1]).max() > 1e-6 else 2


@problem(
    "G4",
    "How self-attention works",
    "Go through self-attention step by step. Does a token always attend most to itself?",
)
def g4(worked: Worked) -> None:
    trace = explain("self-attention", exact=True, **A2)
    worked.show(trace)
    worked.say("""Each token asks (query), offers (key) and holds (value). Scores compare every query with every key; softmax makes each row
    positive with sum 1; the output is the mean of the values with these weights.""")
    weights = trace["weights"].values
    worked.check(
        "A2, row 0 attends most to token",
        int(np.argmax(weights[0])),
        1,
        published="a token invariably attends most to itself",
        why="Row 0 prefers token 1: its key fits the query better than its own.",
    )
    worked.check("rows sum to 1", _close(weights.sum(-1), np.ones(4)), True)
    worked.answer = "query, key, value, scores, softmax, mean; the own token need not win"


@problem(
    "G5",
    "What the feed-forward layer adds",
    "Attention already mixes tokens. What does the feed-forward layer add?",
)
def g5(worked: Worked) -> None:
    worked.say("""For given weights attention is linear in the values: means of what is there. The feed-forward layer works on each token
    alone and bends it: it can make features that no mean of the inputs has.""")
    values = "0 0; 0 1; 1 0; 1 1"
    trace = explain("feed-forward", tokens=values, W_1="1 1; 1 1", b_1="0 -1", W_2="1; -2", exact=True)
    worked.show(trace)
    worked.check("exclusive or of two bits, by one hidden layer", trace["output"], "0; 1; 1; 0")
    design = np.array([[0, 0, 1], [0, 1, 1], [1, 0, 1], [1, 1, 1.0]])
    best = design @ np.linalg.lstsq(design, np.array([0, 1, 1, 0.0]), rcond=None)[0]
    worked.check("the best linear map gives", best, "1/2 1/2 1/2 1/2")
    worked.answer = "a bend for each token alone: e.g. exclusive or"


@problem("G6", "Layer normalisation", "Which steps, where, and why?")
def g6(worked: Worked) -> None:
    trace = explain("layer-normalisation", tokens="1 2 3 6; 10 20 30 60", exact=True)
    worked.show(trace)
    worked.say("""For each token: subtract its mean, divide by its population deviation, scale and shift. It stands after the residual
    (post) or before each part (pre), and keeps the size of what the next part reads the same whatever came before.""")
    output = trace["output"].exact
    worked.check("a token ten times as large gives the same", output[1], output[0])
    worked.check("population deviation of 1 2 3 6", trace["deviation"].exact[0], "[sqrt(14)/2]")
    random = np.random.default_rng(6).normal(size=(5, 16)) * 7 + 3
    normal = layer_normalisation(tensor(random)).array
    worked.check(
        "mean 0 and deviation 1 for every token",
        bool(np.abs(normal.mean(-1)).max() < 1e-12 and np.abs(normal.std(-1) - 1).max() < 1e-12),
        True,
    )
    worked.answer = "centre, divide by deviation, scale, shift; per token"


@problem("G7", "When positions are needed", "When does attention need positions, and when not?")
def g7(worked: Worked) -> None:
    worked.say("""Without positions attention commutes with every permutation of the tokens: it sees a set. That is right for sets (points,
    objects, a bag of features) and wrong where order carries meaning. A causal mask alone already breaks the symmetry.""")
    random = np.random.default_rng(7)
    tokens, order = random.normal(size=(6, 4)), random.permutation(6)
    worked.check(
        "permuted tokens give permuted outputs",
        _close(attended(tokens[order]), attended(tokens)[order]),
        True,
    )
    places = explain("sinusoidal-positions", places=list(range(6)), width=4)["output"].values
    worked.check(
        "with positions they do not",
        _close(attended(tokens[order] + places), attended(tokens + places)[order]),
        False,
    )
    worked.check(
        "nor with a causal mask",
        _close(attended(tokens[order], mask="causal"), attended(tokens, mask="causal")[order]),
        False,
    )
    same = equal("attention-permutation")
    worked.check("proved exactly on a small case, and equal on 100 random ones", same.holds, True)
    asked = build("permutation", order="2 1", positions="none")
    worked.check("without positions no head can be built that permutes", asked.possible, False)
    worked.say(asked.reason)
    worked.answer = "needed for order; not for sets (it commutes with permutations)"


@problem("G8", "ViT against CNN", "Locality, translation, and what each must learn.")
def g8(worked: Worked) -> None:
    from headwork.problems.families import show_measured

    worked.say("""A convolution looks at neighbours only and does the same everywhere: shift the input and the output shifts. A vision
    transformer looks everywhere from the first layer and has learned positions: it must learn both from data, and can also learn
    what a convolution cannot say.""")
    random = np.random.default_rng(8)
    signal, kernel = random.normal(size=12), random.normal(size=3)

    def circular(x: Any) -> Any:
        return convolution_1d(tensor(np.concatenate([x[-1:], x, x[:1]])), tensor(kernel)).array

    worked.check(
        "circular convolution: shift in, shift out",
        _close(circular(np.roll(signal, 2)), np.roll(circular(signal), 2)),
        True,
    )
    tokens, table = random.normal(size=(6, 4)), random.normal(size=(6, 4))
    shifted = attended(np.roll(tokens, 1, axis=0) + table)
    worked.check(
        "attention with learned positions: not so",
        _close(shifted, np.roll(attended(tokens + table), 1, axis=0)),
        False,
    )
    image = random.normal(size=(1, 9, 9))
    touched = image.copy()
    touched[0, 8, 8] += 1
    filters = random.normal(size=(1, 1, 3, 3))
    far = [convolution_2d(tensor(x), tensor(filters)).array[0, 0, 0] for x in (image, touched)]
    worked.check("a far pixel does not reach a 3 x 3 convolution", bool(far[0] == far[1]), True)
    moved = tokens.copy()
    moved[-1] += 1
    worked.check(
        "a far token reaches attention at once",
        bool(np.abs(attended(tokens)[0] - attended(moved)[0]).max() > 1e-6),
        True,
    )
    show_measured(worked, "shifting")
    worked.answer = "CNN: local and shift-equivariant by build; ViT learns both"


@problem("G9", "ViT against the original transformer", "How do input, positions and activation differ?")
def g9(worked: Worked) -> None:
    worked.say("""The vision transformer reads patches through one linear map instead of a table of word vectors; its positions are a learned
    table instead of sinusoids; it uses GELU instead of ReLU and normalises before each part; it has only an encoder, and a class
    token that is read at the end.""")
    base, vit = (
        sizes.transformer(),
        sizes.vit(image=224, patch=16, width=768, depth=12, heads=12, hidden=3072, classes=1000),
    )
    worked.check("tokens of a 224 x 224 image", vit["tokens"], 197)
    worked.check("parameters of the base transformer (V = 37,000)", base["parameters"], 63_082_496)
    worked.check("parameters of ViT-B/16 with 1,000 classes", vit["parameters"], 86_567_656)
    values = explain("gelu", values="-1 1")["output"].values
    worked.check("GELU lets a little of the negative through", bool(-0.2 < values[0] < 0), True)
    worked.check("ReLU nothing", explain("relu", values="-1 1")["output"], "0 1")
    worked.answer = "patches, learned positions, GELU, pre-norm, encoder only"


@problem("G10", "Uses of self-attention", "Where is self-attention used?")
def g10(worked: Worked) -> None:
    worked.say("""Translation and language models (causal), reading and classifying text (encoder), images in patches, speech and music as
    frames, proteins as residues, sets and graphs as they are, and as a layer that finds which past step matters in time series.
    What they share: parts that must find each other, at any distance.""")
    keys, values = np.eye(8) * 12, np.arange(8.0)[:, None]
    looked_up = attention(tensor(keys[[5]] / 12), tensor(keys), tensor(values), beta=1.0).array
    worked.check("as a soft dictionary: the query for entry 5 returns 5", np.round(looked_up[0], 3), "[5]")
    far = np.zeros((64, 3))
    far[3] = [5, 0, 1]
    far[63] = [5, 0, 0]
    found = attended(far, beta=1.0)[63, 2]
    worked.check("token 63 finds its like at place 3, 60 places away", bool(found > 0.45), True)
    worked.answer = "text, images, sound, proteins, sets: anything that must find its like"


@problem("G11", "Convolution and matrices", "When is a convolution a matrix, and what does sharing save?")
def g11(worked: Worked) -> None:
    worked.say("""Always: it is linear. Its matrix is banded with the same taps in each row (Toeplitz). Without sharing the band stays but each
    row has taps of its own; without the band it is a dense layer.""")
    worked.show(explain("toeplitz", signal="x1 x2 x3 x4 x5", kernel="k1 k2"))
    counted = sizes.convolution(inputs=(3, 256, 256), filters=32, kernel=5, stride=2)
    worked.show(counted)
    shared, local = counted["weights"], counted["locally connected weights"]
    worked.check("weights of D4's convolution", shared, 2400)
    worked.check("locally connected", local, 2400 * 126 * 126)
    worked.check("dense", counted["dense weights"], 99_883_155_456)
    worked.check("sharing saves a factor of", local // shared, 126 * 126)
    same = equal("convolution-toeplitz")
    worked.show(same.report())
    worked.check("proved exactly on a small case, and equal on 100 random ones", same.holds, True)
    worked.answer = "always; 2,400 against 38,102,400 and 99,883,155,456"


@problem("G12", "Absolute against relative positions", "What does each know, and what does it cost?")
def g12(worked: Worked) -> None:
    worked.say("""Absolute positions mark each token: a table costs n d numbers and ends with its last row. Relative positions mark pairs: what was
    learned at one place holds at every other, 2n-1 numbers a head as a bias, none as a rotation.""")
    bias = explain("relative-positions", scores="0 0 0; 0 0 0; 0 0 0", bias="-2 -1 0 1 2")
    worked.show(bias)
    worked.check("a bias for each distance", bias["biases"], "0 1 2; -1 0 1; -2 -1 0")
    random = np.random.default_rng(12)
    tokens, table = random.normal(size=(4, 4)), random.normal(size=(8, 4))
    here = attended(tokens + table[:4], beta=1.0) - attended(tokens + table[4:], beta=1.0)
    worked.check(
        "absolute: the same words four places on look different", bool(np.abs(here).max() > 0.1), True
    )
    scores = []
    for start in (0, 4):
        rotated = explain("rotary-positions", vectors=tokens, places=list(range(start, start + 4)))[
            "output"
        ].values
        scores.append(rotated @ rotated.T)
    worked.check("rotary: their scores are the same", _close(scores[0], scores[1]), True)
    worked.answer = "a code a place against a code a distance"
