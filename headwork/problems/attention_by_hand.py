"""Group A: patches and self-attention by hand."""

from __future__ import annotations

from typing import Any

from headwork import sizes
from headwork.problems.book import Solution, problem
from headwork.problems.families import chain_table, family_table, growth_formulas, show_measured
from headwork.readings import explain

A2: dict[str, Any] = {
    "tokens": "1 2; 2 0; 0 1; 1 1",
    "W_q": "1 0; 0 1",
    "W_k": "1 0; 0 0",
    "W_v": "0 0; 0 1",
    "beta": "1",
}


@problem("Patches of an image")
def a1(solution: Solution) -> None:
    """A 224 x 224 image is cut into patches of 16 x 16. How many patches, how many tokens?"""
    ledger = solution.show(sizes.patches(image=224, patch=16))
    solution.check("patches along each side", ledger["side"], 14)
    solution.check("patches", ledger["patches"], 196)
    solution.check("tokens with a class token", ledger["tokens"], 197)
    solution.answer = "14 x 14 = 196 patches, 197 tokens"


@problem("Self-attention of four tokens")
def a2(solution: Solution) -> None:
    """Tokens (1,2), (2,0), (0,1), (1,1); W_q is the identity, W_k keeps the first coordinate, W_v the second,
    applied as W x; no scaling (beta = 1). Find queries, keys, values, scores, weights and outputs."""
    trace = solution.show(explain("self-attention", exact=True, **A2))
    weights, output = trace["weights"].exact, trace["output"].exact
    solution.check("queries", trace["query"], "1 2; 2 0; 0 1; 1 1")
    solution.check("keys", trace["key"], "1 0; 2 0; 0 0; 1 0")
    solution.check("values", trace["value"], "0 2; 0 0; 0 1; 0 1")
    solution.check("scores", trace["scores"], "1 2 0 1; 2 4 0 2; 0 0 0 0; 1 2 0 1")
    solution.refute(
        "called a confusion matrix",
        "A confusion matrix counts predicted labels against true ones; these are scores.",
    )
    first = "e/(e+1)^2, e^2/(e+1)^2, 1/(e+1)^2, e/(e+1)^2"
    solution.check("weights, row 0", weights[0], first)
    solution.check("weights, row 0, four digits", weights[0], "0.1966 0.5344 0.0723 0.1966", rounded=4)
    solution.refute("0.1967 0.5343 0.0723 0.1967", "0.196612 and 0.534447 were rounded the wrong way.")
    solution.check("weights, row 3", weights[3], first)
    solution.check("weights, row 1, four digits", weights[1], "0.1050 0.7758 0.0142 0.1050", rounded=4)
    solution.refute("0.7757", "0.775803 rounds to 0.7758.")
    solution.check("weights, row 2", weights[2], "1/4 1/4 1/4 1/4")
    for beta in ("0", "1/10", "10", "oo"):
        tied = explain("self-attention", exact=True, **{**A2, "beta": beta})["weights"].exact
        solution.check(f"weights, row 2, at beta = {beta.replace('oo', '∞')}", tied[2], "1/4 1/4 1/4 1/4")
    solution.say("Ties never sharpen: row 2 has four equal scores, so its weights are 1/4 at every beta.")
    solution.check("outputs", output, "0, (3*e+1)/(e+1)^2; 0, (3*e^2+1)/(e^2+1)^2; 0, 1; 0, (3*e+1)/(e+1)^2")
    solution.check(
        "outputs, second coordinate, four digits", output[:, 1], "0.6622 0.3292 1.0000 0.6622", rounded=4
    )
    solution.refute(
        "0.6624",
        """It follows from the misrounded 0.1967. Weights that are rounded correctly and then summed give
        0.6621: rounded too early, but not wrong.""",
    )
    rounded = [[round(float(x), 4) for x in row] for row in trace["weights"].values.tolist()]
    early = trace.what_if("weights", rounded)["output"].values[0][1:]
    solution.check("output 0 from weights rounded to four digits", early, "0.6621", rounded=4)
    solution.say("""Note: these matrices are symmetric, so a transposed product (x W for W x, K Q^T for Q K^T)
    would go unnoticed. With other matrices the results differ:""")
    other: dict[str, Any] = {"tokens": "1 2; 2 0; 0 1", "W_q": "1 2; 0 1", "W_k": "1 0; 1 1", "beta": "1"}
    scores = [
        explain("self-attention", exact=True, convention=convention, **other)["scores"].values
        for convention in ("W x", "x W")
    ]
    solution.confirm(
        "W x and x W give different scores where the matrices are not symmetric",
        (scores[0] != scores[1]).any(),
    )
    solution.answer = "outputs (0, 0.6622) (0, 0.3292) (0, 1) (0, 0.6622)"


@problem("CNN, RNN and transformer side by side")
def a3(solution: Solution) -> None:
    """Compare convolution, recurrence and self-attention: parallelism, long-range dependencies, complexity,
    inductive bias, best uses."""
    formulas = growth_formulas()
    solution.show(family_table(formulas))
    solution.show(chain_table())
    solution.check("full convolution, multiply-adds", formulas["convolution"], "d^2 k^2 s^2")
    solution.refute(
        "O(k^2 d n)", "k^2 d n is a depthwise convolution (groups = d); a full one sums over all d channels."
    )
    solution.check("depthwise convolution", formulas["depthwise"], "d k^2 s^2")
    solution.check("recurrence", formulas["recurrence"], "2 n d^2")
    solution.check("self-attention with projections", formulas["attention"], "2 n^2 d + 4 n d^2")
    solution.refute("O(n^2 d)", "The projections add n d^2, and they are the larger part while n < 2d.")
    show_measured(solution, "work_and_time")
    solution.say("""Best uses, in one line each: convolution where neighbours matter and there is little data;
    recurrence where a stream must be read with fixed memory; attention where anything may matter to anything
    and there is plenty of data.""")
    solution.answer = "k^2 d^2 n, n d^2, n^2 d + n d^2 (counted)"
