"""Group E: recurrence."""

from typing import Any

from headwork.problems.book import Solution, problem
from headwork.readings import explain


@problem("A scalar recurrence")
def e1(solution: Solution) -> None:
    """h_t = w_x x_t + w_h h_(t-1) from h_0 = 0, without biases, and a step function at the output. Unroll it,
    give the closed form, and say what w_x = 1, w_h = -1 decides for an even number of inputs (assumed: the
    figure of the hand-out is lost)."""
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
