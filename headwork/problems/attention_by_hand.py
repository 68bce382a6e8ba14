"""Group A: patches and self-attention by hand."""

from typing import Any

from headwork import sizes
from headwork.problems.book import Solution
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
