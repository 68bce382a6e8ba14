"""Group D: convolution and weight sharing (cross-correlation, as in every framework: no flipped kernel)."""

from headwork import sizes
from headwork.construct import equal
from headwork.problems.book import Solution, problem
from headwork.readings import explain

SIGNAL, KERNEL = "x1 x2 x3 x4 x5 x6 x7 x8 x9", "k1 k2 k3"


@problem("1-D convolution")
def d1(solution: Solution) -> None:
    """An input of length 9 and a kernel k1 k2 k3: the outputs without padding and with stride 1; then with
    padding 1 and stride 2."""
    plain = explain("convolution-1d", signal=SIGNAL, kernel=KERNEL)
    strided = explain("convolution-1d", signal=SIGNAL, kernel=KERNEL, padding=1, stride=2)
    solution.show(plain)
    solution.show(strided)
    one, two = plain["output"].exact, strided["output"].exact
    solution.check("outputs without padding", len(one), 7)
    solution.check("the first", one[:1], "[k1*x1 + k2*x2 + k3*x3]")
    solution.check("the last", one[-1:], "[k1*x7 + k2*x8 + k3*x9]")
    solution.check("outputs with padding 1, stride 2", len(two), 5)
    solution.check("the first of these", two[:1], "[k2*x1 + k3*x2]")
    solution.check("the second of these", two[1:2], "[k1*x2 + k2*x3 + k3*x4]")
    solution.say(
        "This is cross-correlation, which every framework calls convolution: the kernel is not flipped."
    )


@problem("Convolution as a matrix")
def d2(solution: Solution) -> None:
    """Write the convolution of D1 as a matrix. What if the weights are not shared?"""
    shared = solution.show(explain("toeplitz", signal=SIGNAL, kernel=KERNEL))
    matrix = shared["matrix"].exact
    solution.check("shape of the matrix", matrix.shape, (7, 9))
    solution.check("its first row", matrix[0], "k1 k2 k3 0 0 0 0 0 0")
    solution.check("its last row", matrix[6], "0 0 0 0 0 0 k1 k2 k3")
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


@problem("A mean filter")
def d3(solution: Solution) -> None:
    """The filter 1/4 [[1,1],[1,1]] on [[1,2,3],[4,5,6],[7,8,9]]."""
    image = "1 2 3; 4 5 6; 7 8 9"
    trace = solution.show(explain("convolution-2d", image=image, kernel="1/4 1/4; 1/4 1/4", exact=True))
    solution.check("output", trace["output"], "3 4; 6 7")
    pooled = explain("average-pooling", image=image, size=2, stride=1, exact=True)
    solution.check("average pooling with stride 1", pooled["output"], "3 4; 6 7")


@problem("Sizes of a convolution")
def d4(solution: Solution) -> None:
    """RGB 3 x 256 x 256, 32 filters of 5 x 5, stride 2, no padding: sizes and weights, and the same map as a
    dense layer."""
    ledger = solution.show(sizes.convolution(inputs=(3, 256, 256), filters=32, kernel=5, stride=2))
    solution.check("input", ledger["input"], (3, 256, 256))
    solution.check("one filter", ledger["filter"], (3, 5, 5))
    solution.check("output", ledger["output"], (32, 126, 126))
    solution.check("weights", ledger["weights"], 2400)
    solution.check("outputs of the dense layer", ledger["numbers out"], 508_032)
    solution.check("weights of the dense layer", ledger["dense weights"], 99_883_155_456)
