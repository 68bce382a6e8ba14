"""Groups D and E: convolution (cross-correlation, as everywhere: no flipped kernel) and recurrence."""

from typing import Any

from headwork import sizes
from headwork.construct import equal
from headwork.problems.book import Solution
from headwork.readings import explain

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
