"""Group A: patches and self-attention by hand."""

from __future__ import annotations

from typing import Any

from headwork import sizes
from headwork.problems.book import Worked, problem
from headwork.readings import explain

A2: dict[str, Any] = {
    "tokens": "1 2; 2 0; 0 1; 1 1",
    "W_q": "1 0; 0 1",
    "W_k": "1 0; 0 0",
    "W_v": "0 0; 0 1",
    "beta": "1",
}


@problem(
    "A1",
    "Patches of an image",
    "A 224 x 224 image is cut into patches of 16 x 16. How many patches, how many tokens?",
)
def a1(worked: Worked) -> None:
    counted = sizes.patches(image=224, patch=16)
    worked.show(counted)
    worked.check("patches along each side", counted["side"], 14)
    worked.check("patches", counted["patches"], 196)
    worked.check("tokens with a class token", counted["tokens"], 197)
    worked.answer = "14 x 14 = 196 patches, 197 tokens"


@problem(
    "A2",
    "Self-attention of four tokens",
    """Tokens (1,2), (2,0), (0,1), (1,1); W_q the identity, W_k keeps the first coordinate, W_v the second, applied as W x;
    no scaling (beta = 1). Find queries, keys, values, scores, weights and outputs.""",
)
def a2(worked: Worked) -> None:
    trace = explain("self-attention", exact=True, **A2)
    worked.show(trace)
    weights, output = trace["weights"].exact, trace["output"].exact
    worked.check("queries", trace["query"], "1 2; 2 0; 0 1; 1 1")
    worked.check("keys", trace["key"], "1 0; 2 0; 0 0; 1 0")
    worked.check("values", trace["value"], "0 2; 0 0; 0 1; 0 1")
    worked.check(
        "scores",
        trace["scores"],
        "1 2 0 1; 2 4 0 2; 0 0 0 0; 1 2 0 1",
        published="called a confusion matrix",
        why="A confusion matrix counts right and wrong labels; these are scores.",
    )
    first = "e/(e+1)^2, e^2/(e+1)^2, 1/(e+1)^2, e/(e+1)^2"
    worked.check("weights, row 0", weights[0], first)
    worked.check(
        "weights, row 0, four digits",
        weights[0],
        "0.1966 0.5344 0.0723 0.1966",
        rounded=4,
        published="0.1967 0.5343 0.0723 0.1967",
        why="0.196612 and 0.534447 were rounded the wrong way.",
    )
    worked.check("weights, row 3", weights[3], first)
    worked.check(
        "weights, row 1, four digits",
        weights[1],
        "0.1050 0.7758 0.0142 0.1050",
        rounded=4,
        published="0.7757",
        why="0.775803 rounds to 0.7758.",
    )
    worked.check("weights, row 2", weights[2], "1/4 1/4 1/4 1/4")
    for beta in ("0", "1/10", "10", "oo"):
        tied = explain("self-attention", exact=True, **{**A2, "beta": beta})["weights"].exact
        worked.check(f"weights, row 2, at beta = {beta}", tied[2], "1/4 1/4 1/4 1/4")
    worked.say("Ties never sharpen: row 2 has four equal scores, so its weights are 1/4 at every beta.")
    worked.check("outputs", output, "0, (3*e+1)/(e+1)^2; 0, (3*e^2+1)/(e^2+1)^2; 0, 1; 0, (3*e+1)/(e+1)^2")
    worked.check(
        "outputs, second coordinate, four digits",
        output[:, 1],
        "0.6622 0.3292 1.0000 0.6622",
        rounded=4,
        published="0.6624",
        why="It follows from the misrounded 0.1967. Weights rounded rightly first and summed then give "
        "0.6621: rounded too early, not wrong.",
    )
    early = trace.what_if(
        "weights", [[round(float(x), 4) for x in row] for row in trace["weights"].values.tolist()]
    )
    worked.check(
        "output 0 from weights rounded to four digits", early["output"].values[0][1:], "0.6621", rounded=4
    )
    worked.say(
        "The matrices are symmetric, so these numbers cannot tell W x from x W, nor Q K^T from K Q^T. With others they differ:"
    )
    other: dict[str, Any] = {"tokens": "1 2; 2 0; 0 1", "W_q": "1 2; 0 1", "W_k": "1 0; 1 1", "beta": "1"}
    one = explain("self-attention", exact=True, **other)
    turned = explain("self-attention", exact=True, convention="x W", **other)
    worked.check(
        "W x and x W give other scores with unsymmetric matrices",
        bool((one["scores"].values != turned["scores"].values).any()),
        True,
    )
    worked.answer = "outputs (0, 0.6622) (0, 0.3292) (0, 1) (0, 0.6622)"


@problem(
    "A3",
    "CNN, RNN and transformer side by side",
    "Compare convolution, recurrence and self-attention: parallelism, long range, complexity, inductive bias, best use.",
)
def a3(worked: Worked) -> None:
    from headwork.problems.families import chain_table, family_table, growth_formulas, show_measured

    formulas = growth_formulas()
    worked.show(family_table())
    worked.show(chain_table())
    worked.check(
        "full convolution, multiply-adds",
        formulas["convolution"],
        "d^2 k^2 s^2",
        published="O(k^2 d n)",
        why="k^2 d n is a depthwise convolution (groups = d); a full one sums over all d channels.",
    )
    worked.check("depthwise convolution", formulas["depthwise"], "d k^2 s^2")
    worked.check("recurrence", formulas["recurrence"], "2 n d^2")
    worked.check(
        "self-attention with projections",
        formulas["attention"],
        "2 n^2 d + 4 n d^2",
        published="O(n^2 d)",
        why="The projections cost n d^2 more, and they are the larger part while n < 2d.",
    )
    show_measured(worked, "work_and_time")
    worked.say("""Best uses, in one line each: convolution where neighbours matter and data are few; recurrence where a stream must be
    read with fixed memory; attention where anything may matter to anything and data are many.""")
    worked.answer = "k^2 d^2 n, n d^2, n^2 d + n d^2 (counted)"
