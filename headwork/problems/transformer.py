"""Group C: the transformer."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwork import sizes
from headwork.mechanisms import convolution_2d, patches
from headwork.problems.book import Worked, problem
from headwork.problems.making import _close, tensor
from headwork.readings import explain


@problem(
    "C1",
    "Positions",
    """Compare natural, normalised, sinusoidal, learned, relative and rotary positions. Which see the same relations in "I went to the
    beach twice a week last year" and "Twice a week last year I went to the beach"?""",
)
def c1(worked: Worked) -> None:
    natural = explain("natural-positions", places="0 1 2 3")
    short, long = (
        explain("normalised-positions", places="0 1 2", exact=True),
        explain("normalised-positions", places="0 1 2 3 4", exact=True),
    )
    sinusoidal = explain("sinusoidal-positions", places="0 1 2 3", width=4, exact=True)
    worked.show(sinusoidal)
    worked.check("natural numbers grow without bound", natural["output"], "0; 1; 2; 3")
    worked.check("normalised: place 1 of 3", short["output"].exact[1], "[1/2]")
    worked.check("normalised: place 1 of 5: the same place, another number", long["output"].exact[1], "[1/4]")
    worked.check(
        "sinusoidal, place 1, width 4", sinusoidal["output"].exact[1], "sin(1) cos(1) sin(1/100) cos(1/100)"
    )
    encoding = explain("sinusoidal-positions", places=list(range(64)), width=16)["output"].values
    dots = encoding @ encoding.T
    same = max(float(np.ptp(np.diagonal(dots, k))) for k in range(60))
    worked.check("the dot product of two places depends only on their distance", bool(same < 1e-12), True)
    falls = bool((np.diff(dots[0]) < 0).all())
    worked.check(
        "it falls steadily with the distance",
        falls,
        False,
        published="it falls with the distance",
        why="It swings: cosines of several frequencies are added.",
    )
    first = ["i", "went", "to", "the", "beach", "twice", "a", "week", "last", "year"]
    second = first[5:] + first[:5]
    moved = [second.index(word) - place for place, word in enumerate(first)]
    worked.say(
        f"From the first sentence to the second the words move by {moved}: one part by 5 places, the other by -5."
    )
    kept = [(i, j) for i in range(10) for j in range(10) if moved[i] == moved[j]]
    absolute_changes = all(m != 0 for m in moved)
    worked.check("every absolute place changes", absolute_changes, True)
    distances = all(second.index(first[j]) - second.index(first[i]) == j - i for i, j in kept)
    worked.check("within each part every distance stays", distances, True)
    worked.check("pairs of words whose distance stays, of 100", len(kept), 50)
    vectors = np.random.default_rng(1).normal(size=(10, 4))
    rotated = explain("rotary-positions", vectors=vectors)["output"].values
    shifted = explain("rotary-positions", vectors=vectors, places=list(range(5, 15)))["output"].values
    worked.check(
        "rotary scores do not change when all places shift by 5",
        _close(rotated @ rotated.T, shifted @ shifted.T),
        True,
    )
    worked.say("""Natural, normalised and learned positions give every word another code in the second sentence. Relative and rotary
    positions, and the dot products of sinusoids, depend on distances only: they see the same relations within each part.""")
    worked.answer = "relative, rotary and sinusoidal dot products see distances"


@problem(
    "C2",
    "Shapes through multi-head attention",
    "Batch 1, 5 tokens, width 768, 12 heads: what shape has each value?",
)
def c2(worked: Worked) -> None:
    ledger = sizes.attention_ledger(batch=1, tokens=5, width=768, heads=12)
    worked.show(ledger)
    for row, name, shape in (
        ("tokens", "tokens", (1, 5, 768)),
        ("query", "queries", (1, 5, 12, 64)),
        ("key", "keys", (1, 5, 12, 64)),
        ("value", "values", (1, 5, 12, 64)),
        ("weights", "attention matrices", (1, 12, 5, 5)),
        ("per head", "per-head outputs", (1, 5, 12, 64)),
        ("joined", "joined", (1, 5, 768)),
    ):
        worked.check(name, ledger[row], shape)
    worked.answer = "weights [1,12,5,5], per head [1,5,12,64], joined [1,5,768]"


@problem(
    "C3",
    "Tokens as columns",
    "X is [768, 6], one column a token; W_q, W_k, W_v are [768, 768]. Which shapes have Q, K, V, the scores and the output?",
)
def c3(worked: Worked) -> None:
    ledger = sizes.attention_ledger(tokens=6, width=768, tokens_as="columns")
    worked.show(ledger)
    for name in ("query", "key", "value", "output"):
        worked.check(name, ledger[name], (768, 6))
    worked.check(
        "scores K^T Q",
        ledger["scores"],
        (6, 6),
        published="Q K^T = [768, 768]",
        why="With tokens as columns Q K^T mixes features instead of tokens; K^T Q compares tokens.",
    )
    rows = explain("self-attention", tokens="1 2; 2 0; 0 1", W_q="1 2; 0 1", W_v="1 1; 0 2")
    columns = explain(
        "self-attention", tokens="1 2 0; 2 0 1", W_q="1 2; 0 1", W_v="1 1; 0 2", tokens_as="columns"
    )
    worked.show(columns)
    worked.check("the same numbers, turned", _close(rows["output"].values.T, columns["output"].values), True)
    worked.check("softmax runs down the columns", _close(columns["weights"].values.sum(0), np.ones(3)), True)
    worked.answer = "Q, K, V, output [768,6]; scores K^T Q [6,6]"


@problem(
    "C4",
    "Feed-forward, normalisation, the whole",
    "What are the parts of a transformer layer, and how many parameters has the base transformer?",
)
def c4(worked: Worked) -> None:
    tokens = "1 -1; 2 0; -1 1"
    weights: dict[str, Any] = {"W_1": "1 0 1; -1 1 2", "W_2": "1 0; 2 1; 0 1", "b_1": "0 1 -1", "b_2": "1 0"}
    trace = explain("feed-forward", tokens=tokens, exact=True, **weights)
    worked.show(trace)
    worked.check("feed-forward of (1, -1)", trace["output"].exact[0], "3 0")
    alone = explain("feed-forward", tokens="[[2, 0]]", exact=True, **weights)["output"].exact
    worked.check(
        "a token gives the same alone as among others",
        alone[0],
        trace["output"].exact[1],
        published="each position has its own weights, initialised the same; tokens relate to each other",
        why="The SAME weights serve every position, and no token sees another here.",
    )
    normal = explain("layer-normalisation", tokens="[[1, 2, 3, 6]]", exact=True)
    worked.show(normal)
    worked.check("mean", normal["mean"], "[[3]]")
    worked.check("deviation (population)", normal["deviation"], "[[sqrt(14)/2]]")
    worked.check("normalised", normal["output"], "[[-4/sqrt(14), -2/sqrt(14), 0, 6/sqrt(14)]]")
    masked = explain("self-attention", tokens="1 2; 2 0; 0 1", mask="causal", exact=True)
    worked.check("masked decoding: no weight on later tokens", masked["weights"].exact[0], "1 0 0")
    whole = sizes.transformer(vocabulary=37_000)
    worked.show(whole)
    without = whole["parameters without the vocabulary"]
    worked.check("parameters of 6 + 6 layers with biases, without the vocabulary", without, 44_138_496)
    worked.check(
        "with one shared vocabulary of 37,000",
        whole["parameters"],
        63_082_496,
        published="65M",
        why="The paper rounds, and does not say what it counts; with biases and one shared table it is 63.1M.",
    )
    worked.answer = "44,138,496 + 512 V; 63,082,496 for V = 37,000"


@problem(
    "C5",
    "Vision transformer",
    "How does an image become tokens? Show that patches times a matrix are a convolution.",
)
def c5(worked: Worked) -> None:
    random = np.random.default_rng(5)
    image, kernel = random.normal(size=(3, 8, 8)), random.normal(size=(6, 3, 4, 4))
    rows = patches(tensor(image), size=4)
    embedded = rows.array @ kernel.reshape(6, -1).T
    convolved = convolution_2d(tensor(image), tensor(kernel), stride=4).array.reshape(6, -1).T
    worked.check("patch embedding = convolution with stride = kernel", _close(embedded, convolved), True)
    worked.show(explain("patches", image="1 2 3 4; 5 6 7 8; 9 10 11 12; 13 14 15 16", size=2))
    worked.check(
        "values of GELU at -1, 0, 1",
        explain("gelu", values="-1 0 1", exact=True)["output"],
        "-(1+erf(-1/sqrt(2)))/2, 0, (1+erf(1/sqrt(2)))/2",
    )
    counted = sizes.vit(image=28, patch=4, channels=1, width=64, depth=6, heads=4, hidden=128, classes=10)
    worked.show(counted)
    worked.check("tokens of a 28 x 28 image in 4 x 4 patches, with class token", counted["tokens"], 50)
    worked.answer = "patches = convolution with stride 4; 49 + 1 tokens"
