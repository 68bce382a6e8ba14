"""Group C: the transformer."""

from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import equal
from headwork.mechanisms import patches
from headwork.problems.book import Solution, close, tensor
from headwork.readings import explain


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
