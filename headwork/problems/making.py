"""Group B: what attention can be made to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from headwork import sizes
from headwork.construct import build, equal
from headwork.mechanisms import attention, convolution_1d
from headwork.numbers import HandTensor
from headwork.problems.book import Worked, problem
from headwork.readings import explain
from headwork.readings.sensitivity import sensitivity

TOKENS = "1 2; 2 0; 0 1"


def tensor(rows: Any) -> HandTensor:
    return HandTensor(np.asarray(rows, float))


@problem(
    "B1", "The formula of attention", "Write attention with its hardness beta. Where does softmax stand?"
)
def b1(worked: Worked) -> None:
    trace = explain("attention", query=TOKENS, key="1 1; 0 2; 1 0", value="1 0; 0 1; 2 2", exact=True)
    worked.show(trace)
    worked.say("Attention(Q, K, V) = softmax(beta Q K^T) V with beta = 1/sqrt(d_k) unless said.")
    scores, value = trace["scores"].values, trace["value"].values
    misplaced = _softmax(scores @ value)
    outputs = trace["output"].values
    worked.check(
        "rows of the weights sum to 1",
        bool(np.allclose(trace["weights"].values.sum(-1), 1, atol=1e-15)),
        True,
    )
    worked.check(
        "softmax before V differs from softmax of everything",
        bool(np.abs(outputs - misplaced).max() > 0.1),
        True,
        published="softmax((Q K^T / sqrt(d_k)) V)",
        why="A misplaced bracket: then the outputs would sum to 1, not the weights.",
    )
    worked.check("outputs that stay between the values", bool((outputs.max(0) <= value.max(0)).all()), True)
    worked.answer = "softmax(beta Q K^T) V, beta = 1/sqrt(d_k)"


def _softmax(rows: Any) -> Any:
    powers = np.exp(rows - rows.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@problem(
    "B2", "Hardness", "What happens for beta to infinity and for beta to 0, in self- and in cross-attention?"
)
def b2(worked: Worked) -> None:
    memory = "1 1; 0 3; 1 1; 4 0"
    cases: dict[str, Any] = {
        "self-attention": {"tokens": TOKENS},
        "cross-attention": {"tokens": TOKENS, "memory": memory},
    }
    for name, given in cases.items():
        symbolic = explain(name, beta="beta", **given)
        hard, soft = explain(name, beta="oo", exact=True, **given), explain(name, beta=0, exact=True, **given)
        for kind, limit, direct in (("hard", "oo", hard), ("soft", "0", soft)):
            worked.check(
                f"{name}, {kind}: the limit of the weights is what beta = {limit} gives",
                _matrix(symbolic.limit("beta", limit)["weights"]),
                direct["weights"].exact,
            )
        values = soft["value"].exact
        mean = sum(values) / len(values)
        worked.check(
            f"{name}, soft: every output is the plain mean of the values",
            soft["output"].exact,
            np.array([mean] * 3, object),
            published="the mean of the keys" if name == "self-attention" else "",
            why="The weights average what they multiply: the values." if name == "self-attention" else "",
        )
    tie = explain("attention", query="[[1, 0]]", key="1 0; 1 5; 0 0", value="1; 2; 3", beta="oo", exact=True)
    worked.show(tie)
    worked.check("a tie at beta = oo is shared", tie["weights"], "[[1/2, 1/2, 0]]")
    worked.answer = "oo: one-hot, ties shared; 0: mean of the values"


def _matrix(noted: Any) -> Any:
    return noted.exact


@problem(
    "B3",
    "Sensitivity to one key",
    "One key is moved by a small or a large vector. What changes, and how does it depend on beta?",
)
def b3(worked: Worked) -> None:
    clear = sensitivity("1 0; 0 1; -1 0", "1 0; 0.2 0; 0 1", "1 0; 0 1; 0 0", change=1, delta="0.1 0.1")
    near = sensitivity(
        "[[1, 0]]",
        "1 0; 0.999 0",
        "1 0; 0 1",
        change=1,
        delta="0.002 0",
        betas=(1, 10, 100, 1000, 10000, 100000),
    )
    large = sensitivity("1 0; -1 0", "1 0; 0 1", "1 0; 0 1", change=1, delta="50 0", betas=(1.0,))
    worked.show(clear.table())
    worked.show(clear.figure())
    worked.check("one score of every query changes", bool((clear.alignment != 0).all()), True)
    worked.check(
        "no output moves further than the worst case", bool((clear.moved <= clear.bound + 1e-15).all()), True
    )
    rising = bool((np.diff(near.bound[:, 0]) > -1e-12).all() and near.bound[-1, 0] > 100 * near.bound[0, 0])
    worked.check(
        "the worst case grows with beta",
        rising,
        True,
        published="a small perturbation is harmless whatever beta is",
        why="The worst case is tanh(beta |q.delta|/4) times the spread of the values: with beta it grows to all of it.",
    )
    flipped = near.before[-1, 0, 0] > 0.999999 and near.after[-1, 0, 1] > 0.999999
    worked.check("at a near-tie and large beta, 0.002 flips the winner entirely", bool(flipped), True)
    worked.show(near.table())
    peak = int(np.argmax(clear.moved[:, 0]))
    worked.check(
        "with a clear winner the change first grows, then dies out",
        bool(0 < peak < len(clear.betas) - 1 and clear.moved[-1, 0] < clear.moved[peak, 0] / 100),
        True,
    )
    worked.check("a large delta dominates where q.delta > 0", bool(large.after[0, 0, 1] > 0.999), True)
    worked.check(
        "and vanishes where q.delta < 0",
        bool(large.after[0, 1, 1] < 1e-9),
        True,
        published="a large perturbation makes its key dominate",
        why="Only for queries with q.delta > 0; for the others it vanishes.",
    )
    worked.answer = f"worst case tanh(beta |q.delta|/4) spread; here at most {clear.moved.max():.3f}"


@problem(
    "B4",
    "Several heads, and grouped convolution",
    "Write multi-head attention. In what sense is it like a grouped convolution of kernel 1?",
)
def b4(worked: Worked) -> None:
    given: dict[str, Any] = {
        "tokens": "1 2 0 1; 2 0 1 1; 0 1 1 3",
        "W_q": "1 0 2 0; 0 1 0 0; 1 1 0 0; 0 0 1 2",
        "W_o": "1 0 1 0; 0 2 0 0; 0 0 1 0; 1 0 0 1",
    }
    trace = explain("multi-head-attention", heads=2, exact=True, **given)
    worked.show(trace)
    joined, output = trace["joined"].values, trace["output"].values
    worked.check(
        "W_o mixes the joined heads",
        bool(np.abs(output - joined).max() > 0.1),
        True,
        published="heads joined, without W_o",
        why="Joined heads never mix; W_o lets each output read every head.",
    )
    random = np.random.default_rng(4)
    tokens, weights = random.normal(size=(6, 8)), random.normal(size=(8, 8))
    per_head = np.concatenate([tokens @ weights[4 * h : 4 * h + 4].T for h in range(2)], axis=1)
    block = weights * np.kron(np.eye(2), np.ones((4, 4)))
    blocks = np.stack([block[4 * h : 4 * h + 4, 4 * h : 4 * h + 4] for h in range(2)]).reshape(8, 4)

    def convolved(x: Any, kernel: Any, groups: int) -> Any:
        return convolution_1d(tensor(x.T), tensor(kernel[..., None]), groups=groups).array.T

    worked.check(
        "joined per-head value projections = convolution of kernel 1 without groups",
        _close(per_head, convolved(tokens, weights, 1)),
        True,
    )
    worked.check(
        "with groups = heads only if block-diagonal",
        _close(tokens @ block.T, convolved(tokens, blocks, 2)),
        True,
    )
    worked.check(
        "groups = heads on the dense projection is something else",
        _close(per_head, convolved(tokens, blocks, 2)),
        False,
        published="multi-head attention is a grouped convolution",
        why="Each head reads ALL channels; groups would read only its own.",
    )
    worked.check(
        "or with groups = heads on the input repeated for each head",
        _close(per_head, convolved(np.tile(tokens, 2), weights, 2)),
        True,
    )
    same = equal("heads-convolution")
    worked.show(same.report())
    worked.check("proved exactly on a small case", same.holds, True)
    worked.answer = "join the heads, mix by W_o; kernel 1 without groups"


def _close(a: Any, b: Any) -> bool:
    return bool(np.abs(a - b).max() <= 1e-12)


@problem(
    "B5",
    "Identity, permutation, running mean, convolution",
    "Can self-attention act as the identity? As a permutation? As a running mean? As a convolution?",
)
def b5(worked: Worked) -> None:
    places, content = np.eye(5), tensor(np.arange(10.0).reshape(5, 2))
    identity = _weights(places, places, math.inf)
    worked.check("identity", identity, np.eye(5))
    order = [2, 1, 0, 4, 3]
    permutation = _weights(places[order], places, math.inf)
    worked.check(
        "permutation, with a fixed point",
        permutation,
        np.eye(5)[order],
        published="a permutation, not along the diagonal",
        why="One 1 in every row and column is all it needs: token 1 stays where it is.",
    )
    window = np.array([[float(i <= j < i + 3) for j in range(5)] for i in range(3)])
    mean = explain(
        "attention",
        query=window.tolist(),
        key=places.tolist(),
        value=content.array.tolist(),
        beta="oo",
        exact=True,
    )
    worked.show(mean)
    worked.check(
        "running mean of 3 (3 queries over 5 keys)",
        mean["weights"],
        "1/3 1/3 1/3 0 0; 0 1/3 1/3 1/3 0; 0 0 1/3 1/3 1/3",
    )
    taps = (1.0, 0.0, -1.0)
    shifts = [np.array([places[min(max(i + k, 0), 4)] for i in range(5)]) for k in (-1, 0, 1)]
    heads = sum(
        t * attention(tensor(s), tensor(places), content, beta=math.inf).array
        for t, s in zip(taps, shifts, strict=True)
    )
    clamped = content.array[[0, 0, 1, 2, 3, 4, 4]]
    kernel = np.stack([np.diag([t, t]) for t in taps], axis=-1)
    worked.check(
        "one head a tap = convolution (ends repeated)",
        _close(heads, convolution_1d(tensor(clamped.T), tensor(kernel)).array.T),
        True,
    )
    leaks = {beta: 1 - _weights(places, places, beta)[0, 0] for beta in (1.0, 5.0, 10.0)}
    worked.check(
        "softmax alone never gives an exact zero",
        all(leak > 0 for leak in leaks.values()),
        True,
        published="exact zeros",
        why=f"They need beta to infinity or a mask; the diagonal misses 1 by {leaks[10.0]:.1e} at beta = 10.",
    )
    worked.check("it misses by (n-1)/(e^beta + n-1)", _close(leaks[5.0], 4 / (math.exp(5) + 4)), True)
    made = build("permutation", order="3 2 1 5 4", tolerance=1e-3)
    worked.show(made.report())
    worked.check("a head built to order keeps its certificate (error at most 1/1000)", made.holds, True)
    filtered = build("convolution", taps="1 0 -1", tokens=5, ends="clamp", tolerance=1e-3)
    worked.check("so do the heads of a convolution", filtered.holds, True)
    padded = build("convolution", taps="1 0 -1", tokens=5, ends="zero")
    worked.check("zero padding is beyond softmax heads, and said so", padded.possible, False)
    worked.say(padded.reason)
    worked.answer = "all four, exactly at beta = oo; close below"


def _weights(query: Any, key: Any, beta: float) -> Any:
    """The matrix A of attention over places: its values are the identity."""
    return attention(tensor(query), tensor(key), tensor(np.eye(len(key))), beta=beta).array


@problem(
    "B6",
    "Copying with orthogonal vectors",
    """a, b, c, d are orthogonal with norm r; x1 = d+b, x2 = a, x3 = c+b; q = k = v = x, beta = 1. Show that y -> x as r grows, and
    find the r that keeps the relative error |y - x|/r below epsilon.""",
)
def b6(worked: Worked) -> None:
    import sympy

    tokens = "0 r 0 r; r 0 0 0; 0 r r 0"
    trace = explain("self-attention", tokens=tokens, beta=1)
    worked.show(trace)
    r = sympy.Symbol("r", real=True)
    x, y = trace["tokens"].exact, trace["output"].exact
    worked.check(
        "squares of the norms", np.array([sum(c**2 for c in row) for row in x], object), "2*r^2, r^2, 2*r^2"
    )
    worked.check("weights as r -> oo", trace.limit("r", "oo")["weights"], "1 0 0; 0 1 0; 0 0 1")
    squares = [
        sympy.together(sum((a - b) ** 2 for a, b in zip(y[i], x[i], strict=True)) / r**2) for i in range(3)
    ]
    worked.check("squared relative error of y2", squares[1] - 10 / (sympy.exp(r**2) + 2) ** 2, "0")
    at = [float(s.subs(r, 2)) for s in squares]
    worked.check("y2 is the worst (at r = 2)", at[1] == max(at), True)
    smallest = sympy.sqrt(sympy.log(sympy.sqrt(10) / sympy.Rational(1, 1000) - 2))
    worked.check("smallest r for epsilon = 1/1000", np.array([smallest], object), "2.839", rounded=3)
    worked.check(
        "at that r the error of y2 is epsilon",
        float(squares[1].subs(r, smallest)) ** 0.5 * np.ones(1),
        "[1/1000]",
    )
    worked.say(
        "The error of y2 is sqrt(10)/(e^(r^2) + 2), so r = sqrt(ln(sqrt(10)/epsilon - 2)). The hand-out calls this norm beta."
    )
    copied = build("copy", tolerance=1e-3)
    worked.check("built to order, the norm is", copied.norm_exact, "sqrt(ln(sqrt(10)*1000 - 2))")
    worked.answer = "r = sqrt(ln(sqrt(10)/epsilon - 2)); 2.839 for 1e-3"


@problem(
    "B7",
    "Linear attention",
    "Drop the exponential and normalise the dot products. What does it cost, and what can go wrong?",
)
def b7(worked: Worked) -> None:
    given: dict[str, Any] = {
        "query": "1 2; 2 0; 0 1; 1 1",
        "key": "1 0; 2 0; 0 0; 1 0",
        "value": "0 2; 0 0; 0 1; 0 1",
    }
    raw = explain("linear-attention", exact=True, **given)
    worked.show(raw)
    weights = raw["weights"].values
    worked.check(
        "A2's row 2 is 0/0: undefined, and said so", bool(np.isnan(weights[2]).all() and raw.warnings), True
    )
    worked.check("A2's row 0", raw["weights"].exact[0], "1/4 1/2 0 1/4")
    for features in ("none", "elu+1"):
        for mask in (None, "causal"):
            numbers: dict[str, Any] = {
                "query": "1 2; 2 1; 1 1",
                "key": "1 1; 2 1; 1 3",
                "value": "1 0; 0 1; 2 2",
                "features": features,
                "mask": mask,
            }
            parallel = explain("linear-attention", exact=True, **numbers)
            recurrent = explain("linear-attention-recurrent", exact=True, **numbers)
            worked.check(
                f"parallel = recurrent ({features}, {mask or 'no mask'})",
                parallel["output"],
                recurrent["output"].exact,
            )
    positive = explain("linear-attention", features="elu+1", **given)
    worked.check("elu+1 keeps every weight positive", bool((positive["weights"].values > 0).all()), True)
    state, weighed = (sizes.growth(f"linear-attention{form}")["order"] for form in ("-recurrent", ""))
    worked.check("state form, n queries and m keys: grows as", state, "O(n d^2 + m d^2)")
    worked.check("the form that shows its weights grows as", weighed, "O(n m d)")
    worked.answer = "O(n d^2); 0/0 possible, elu+1 mends it"


@problem(
    "B8", "What self-attention costs", "Count self-attention over n tokens of width d, projections included."
)
def b8(worked: Worked) -> None:
    from headwork.problems.families import show_measured, torch_flops

    counted = sizes.growth("multi-head-attention")
    worked.show(counted)
    work = counted.total.multiply_adds
    assert isinstance(work, sizes.Polynomial)
    worked.check("multiply-adds", str(work), "2 n^2 d + 4 n d^2")
    small, large = work(n=64, d=512), work(n=4096, d=512)
    worked.check("at n = 64, d = 512", small, 4 * 512**2 * 64 + 2 * 512 * 64**2)
    worked.check("at n = 4096, d = 512 the n^2 part is the larger", large > 2 * (4 * 512**2 * 4096), True)
    worked.say(
        "The two parts are equal at n = 2d: below, the projections cost more; above, the matrix of weights does."
    )
    by_torch = torch_flops("transformer", 96, 16)
    if by_torch is not None:
        worked.check(
            "FLOPs at n = 96, d = 16 by torch's own counter: two a multiply-add",
            by_torch,
            2 * work(n=96, d=16),
        )
    show_measured(worked, "attention_measured")
    worked.answer = "4 n d^2 + 2 n^2 d multiply-adds"
