"""Group B: what attention can be made to do."""

import math
from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import build, equal
from headwork.mechanisms import attention, convolution_1d
from headwork.problems.book import Solution, hand_tensor, is_close
from headwork.problems.families import show_measured, torch_flops
from headwork.readings import explain
from headwork.readings.sensitivity import sensitivity

TOKENS = "1 2; 2 0; 0 1"


def b1(solution: Solution) -> None:
    trace = solution.worked
    weights, value, output = (trace[name].values for name in ("weights", "value", "output"))
    powers = np.exp(trace["scores"].values @ value)
    misplaced = powers / powers.sum(-1, keepdims=True)
    solution.confirm("rows of the weights sum to 1", np.allclose(weights.sum(-1), 1, atol=1e-15))
    solution.confirm(
        "softmax before V differs from softmax of everything", np.abs(output - misplaced).max() > 0.1
    )
    between = (value.min(0) <= output).all() and (output <= value.max(0)).all()
    solution.confirm("every output lies between the smallest and the largest value", between)


def b2(solution: Solution) -> None:
    cases: dict[str, Any] = {
        "self-attention": {"tokens": TOKENS},
        "cross-attention": {"tokens": TOKENS, "memory": "1 1; 0 3; 1 1; 4 0"},
    }
    for name, inputs in cases.items():
        symbolic = explain(name, beta="beta", **inputs)
        hard, soft = (explain(name, beta=beta, exact=True, **inputs) for beta in ("oo", 0))
        for kind, limit, direct in (("hard", "oo", hard), ("soft", "0", soft)):
            solution.check(
                f"{name}, {kind}: the limit of the weights is what beta = {limit.replace('oo', '∞')} gives",
                symbolic.limit("beta", limit)["weights"].exact_values,
                direct["weights"].exact_values,
            )
        values = soft["value"].exact_values
        mean = sum(values) / len(values)
        solution.check(
            f"{name}, soft: every output is the plain mean of the values",
            soft["output"].exact_values,
            np.array([mean] * 3, object),
        )


def fully_connected(solution: Solution) -> None:
    """How layers without attention keep one value or spread all, in numbers."""
    inputs = np.array([1.0, 2, 4, 5])
    keep, spread = np.array([0.0, 0, 1, 0]), np.full(4, 0.25)
    solution.check("fully connected: the row 0 0 1 0 keeps the third of 1 2 4 5", keep[None] @ inputs, "[4]")
    solution.check("fully connected: the row 1/4 1/4 1/4 1/4 spreads 1 2 4 5", spread[None] @ inputs, "[3]")
    # Stacked gates: input, forget, candidate, output. Here the biases alone set them.
    cells: dict[str, Any] = {
        "inputs": [7.0],
        "W_x": [[0.0]] * 4,
        "W_h": [[0.0]] * 4,
        "state": [0.0],
        "cell": [2.0],
    }
    for gate, bias, cell in (("1", 50.0, "[2]"), ("0", -50.0, "[0]")):
        step = explain("lstm-cell", bias=[-50.0, bias, 0.0, 50.0], **cells)
        becomes = step["new cell"].values.round(9)
        solution.check(f"LSTM, forget gate {gate}, input gate 0: the cell 2 becomes", becomes, cell)
    gru: dict[str, Any] = {"W_x": [[0.0]] * 3, "W_h": [[0.0]] * 3, "b_x": [0.0, 50.0, 0.0], "state": [2.0]}
    state = explain("gru-cell", inputs=[7.0], **gru)["new state"].values.round(9)
    solution.check("GRU, update gate 1: the state 2 becomes", state, "[2]")
    solution.check(
        "without a gate, w_h = 0.9: after 50 steps 2 becomes", np.array([2 * 0.9**50]), "0.0103", rounded=4
    )


def b3(solution: Solution) -> None:
    clear = sensitivity("1 0; 0 1; -1 0", "1 0; 0.2 0; 0 1", "1 0; 0 1; 0 0", moved_key=1, delta="0.1 0.1")
    betas = (1, 10, 100, 1000, 10000, 100000)
    near = sensitivity("[[1, 0]]", "1 0; 0.999 0", "1 0; 0 1", moved_key=1, delta="0.002 0", betas=betas)
    large = sensitivity("1 0; -1 0", "1 0; 0 1", "1 0; 0 1", moved_key=1, delta="50 0", betas=(1.0,))
    solution.show(clear.table())
    solution.show(clear.figure())
    solution.confirm("one score of every query changes", (clear.alignment != 0).all())
    within = (clear.output_moved <= clear.worst_case + 1e-15).all()
    solution.confirm("no output moves further than the worst case", within)
    worst = near.worst_case[:, 0]
    solution.confirm(
        "the worst case grows with beta", (np.diff(worst) > -1e-12).all() and worst[-1] > 100 * worst[0]
    )
    flipped = near.weights_before[-1, 0, 0] > 0.999999 and near.weights_after[-1, 0, 1] > 0.999999
    solution.confirm("at a near-tie and large beta, 0.002 flips the winner entirely", flipped)
    solution.show(near.table())
    peak = int(np.argmax(clear.output_moved[:, 0]))
    solution.confirm(
        "with a clear winner the change first grows, then dies out",
        0 < peak < len(clear.betas) - 1 and clear.output_moved[-1, 0] < clear.output_moved[peak, 0] / 100,
    )
    solution.confirm("a large delta dominates where q.delta > 0", large.weights_after[0, 0, 1] > 0.999)
    solution.confirm("and vanishes where q.delta < 0", large.weights_after[0, 1, 1] < 1e-9)


def b4(solution: Solution) -> None:
    trace = explain(
        "multi-head-attention",
        tokens="1 2 0 1; 2 0 1 1; 0 1 1 3",
        W_q="1 0 2 0; 0 1 0 0; 1 1 0 0; 0 0 1 2",
        W_o="1 0 1 0; 0 2 0 0; 0 0 1 0; 1 0 0 1",
        heads=2,
        exact=True,
    )
    solution.show(trace)
    solution.confirm(
        "W_o mixes the joined heads", np.abs(trace["output"].values - trace["joined"].values).max() > 0.1
    )
    random = np.random.default_rng(4)
    tokens, weights = random.normal(size=(6, 8)), random.normal(size=(8, 8))
    per_head = np.concatenate([tokens @ weights[4 * h : 4 * h + 4].T for h in range(2)], axis=1)
    block = weights * np.kron(np.eye(2), np.ones((4, 4)))
    blocks = np.stack([block[4 * h : 4 * h + 4, 4 * h : 4 * h + 4] for h in range(2)]).reshape(8, 4)

    def convolve(x: Any, kernel: Any, groups: int) -> Any:
        return convolution_1d(hand_tensor(x.T), hand_tensor(kernel[..., None]), groups=groups).array.T

    solution.confirm(
        "joined per-head value projections = convolution of kernel size 1 without groups",
        is_close(per_head, convolve(tokens, weights, 1)),
    )
    solution.confirm(
        "with groups = heads only if block-diagonal", is_close(tokens @ block.T, convolve(tokens, blocks, 2))
    )
    solution.confirm(
        "groups = heads on the dense projection gives something else",
        not is_close(per_head, convolve(tokens, blocks, 2)),
    )
    solution.confirm(
        "or with groups = heads on the input repeated for each head",
        is_close(per_head, convolve(np.tile(tokens, 2), weights, 2)),
    )
    proof = equal("heads-convolution")
    solution.show(proof.document())
    solution.confirm("proved exactly on a small case", proof.holds)


def b5(solution: Solution) -> None:
    codes, content = np.eye(5), hand_tensor(np.arange(10.0).reshape(5, 2))
    solution.check("identity", _weights(codes, codes, math.inf), np.eye(5))
    order = [2, 1, 0, 4, 3]
    solution.check(
        "permutation, with a fixed point", _weights(codes[order], codes, math.inf), np.eye(5)[order]
    )
    window = [[float(i <= j < i + 3) for j in range(5)] for i in range(3)]
    values = content.array.tolist()
    mean = solution.show(
        explain("attention", query=window, key=codes.tolist(), value=values, beta="oo", exact=True)
    )
    solution.check(
        "running mean of 3 (3 queries over 5 keys)",
        mean["weights"],
        "1/3 1/3 1/3 0 0; 0 1/3 1/3 1/3 0; 0 0 1/3 1/3 1/3",
    )
    taps = (1.0, 0.0, -1.0)
    shifts = [np.array([codes[min(max(i + k, 0), 4)] for i in range(5)]) for k in (-1, 0, 1)]
    heads = sum(
        tap * attention(hand_tensor(shift), hand_tensor(codes), content, beta=math.inf).array
        for tap, shift in zip(taps, shifts, strict=True)
    )
    clamped = content.array[[0, 0, 1, 2, 3, 4, 4]]
    kernel = np.stack([np.diag([tap, tap]) for tap in taps], axis=-1)
    convolved = convolution_1d(hand_tensor(clamped.T), hand_tensor(kernel)).array.T
    solution.confirm("one head per tap = convolution (ends repeated)", is_close(heads, convolved))
    leaks = {beta: 1 - _weights(codes, codes, beta)[0, 0] for beta in (1.0, 5.0, 10.0)}
    solution.confirm("softmax alone never gives an exact zero", all(leak > 0 for leak in leaks.values()))
    solution.confirm("it misses by (n-1)/(e^beta + n-1)", is_close(leaks[5.0], 4 / (math.exp(5) + 4)))
    permutation = build("permutation", order="3 2 1 5 4", tolerance=1e-3)
    solution.show(permutation.document())
    solution.confirm("a head built to order keeps its certificate (error at most 1/1000)", permutation.holds)
    filtered = build("convolution", taps="1 0 -1", tokens=5, ends="clamp", tolerance=1e-3)
    solution.confirm("so do the heads of a convolution", filtered.holds)
    padded = build("convolution", taps="1 0 -1", tokens=5, ends="zero")
    solution.confirm("so do those of a convolution with zeros beyond the ends", padded.holds)


def _weights(query: Any, key: Any, beta: float) -> Any:
    """The matrix A of attention over position codes: its values are the identity."""
    return attention(hand_tensor(query), hand_tensor(key), hand_tensor(np.eye(len(key))), beta=beta).array


def b6(solution: Solution) -> None:
    import sympy

    trace, r = solution.worked, sympy.Symbol("r", real=True)
    x, y = trace["tokens"].exact_values, trace["output"].exact_values
    norms = np.array([sum(c**2 for c in row) for row in x], object)
    solution.check("squares of the norms", norms, "2*r^2, r^2, 2*r^2")
    solution.check("weights as r -> ∞", trace.limit("r", "oo")["weights"], "1 0 0; 0 1 0; 0 0 1")
    squares = [
        sympy.together(sum((a - b) ** 2 for a, b in zip(y[i], x[i], strict=True)) / r**2) for i in range(3)
    ]
    solution.check("squared relative error of y2", squares[1] - 10 / (sympy.exp(r**2) + 2) ** 2, "0")
    at_2 = [float(square.subs(r, 2)) for square in squares]
    solution.confirm("y2 is the worst (at r = 2)", at_2[1] == max(at_2))
    smallest = sympy.sqrt(sympy.log(sympy.sqrt(10) / sympy.Rational(1, 1000) - 2))
    solution.check("smallest r for epsilon = 1/1000", np.array([smallest], object), "2.839", rounded=3)
    error = float(squares[1].subs(r, smallest)) ** 0.5
    solution.check("at that r the error of y2 is epsilon", error * np.ones(1), "[1/1000]")
    copied = build("copy", tolerance=1e-3)
    solution.check("built to order, the norm is", copied.norm_exact, "sqrt(ln(sqrt(10)*1000 - 2))")


def b7(solution: Solution) -> None:
    raw = solution.worked
    undefined = np.isnan(raw["weights"].values[2]).all() and raw.warnings
    solution.confirm("A2's row 2 is 0/0: undefined, with a warning", undefined)
    others = {"query": "1 2; 2 1; 1 1", "key": "1 1; 2 1; 1 3", "value": "1 0; 0 1; 2 2"}
    for features in ("none", "elu+1"):
        for mask in (None, "causal"):
            options: dict[str, Any] = {**others, "features": features, "mask": mask}
            parallel, recurrent = (
                explain(f"linear-attention{form}", exact=True, **options)["output"]
                for form in ("", "-recurrent")
            )
            label = f"parallel = recurrent ({features}, {mask or 'no mask'})"
            solution.check(label, parallel, recurrent.exact_values)
    positive = raw.rerun(features="elu+1", exact=False)
    solution.confirm("elu+1 keeps every weight positive", (positive["weights"].values > 0).all())
    state, weighed = (sizes.growth(f"linear-attention{form}")["order"] for form in ("-recurrent", ""))
    solution.check("state form, n queries and m keys: grows as", state, "O(n d^2 + m d^2)")
    solution.check("the form that shows its weights grows as", weighed, "O(n m d)")


def b8(solution: Solution) -> None:
    ledger = solution.show(sizes.growth("multi-head-attention"))
    work = ledger.total.multiply_adds
    assert isinstance(work, sizes.Polynomial)
    solution.check("multiply-adds", str(work), "2 n^2 d + 4 n d^2")
    small, large = work(n=64, d=512), work(n=4096, d=512)
    solution.check("at n = 64, d = 512", small, 4 * 512**2 * 64 + 2 * 512 * 64**2)
    solution.confirm("at n = 4096, d = 512 the n^2 part is the larger", large > 2 * (4 * 512**2 * 4096))
    solution.say("""The two parts are equal at n = 2d: below, the projections cost more; above, the attention
    matrix does.""")
    flops = torch_flops("transformer", 96, 16)
    if flops is not None:
        label = "FLOPs at n = 96, d = 16 by torch's own counter: two per multiply-add"
        solution.check(label, flops, 2 * work(n=96, d=16))
    show_measured(solution, "attention_time")
