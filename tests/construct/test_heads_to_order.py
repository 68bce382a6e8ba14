"""The returned matrices, put into an attention that shares no code with ours, keep their certificate."""

import json
import math

import numpy as np
import pytest

from headwork.construct import TARGETS, build

SAMPLE, FULL = 60, 300


def random_ask(random):
    """A target with its details; sizes 2 to 32, tolerances 1e-1 to 1e-6."""
    count = int(random.integers(2, 33))
    ask = {
        "tolerance": float(10 ** random.uniform(-6, -1)),
        "norm": float(10 ** random.uniform(-1, 1)),
        "width": int(random.integers(1, 5)),
    }
    target = str(random.choice(list(TARGETS)))
    kinds = ["one-hot"]
    if target in ("identity", "first", "last"):
        kinds += ["sinusoidal", "rotary"]
    if target in ("shift", "convolution"):
        ask["ends"] = str(random.choice(["wrap", "clamp"]))
        kinds += ["rotary"] if ask["ends"] == "wrap" and count < 17 else ["sinusoidal", "rotary"]
    if target == "permutation":
        ask["order"] = [int(k) + 1 for k in random.permutation(count)]
    elif target == "convolution-2d":
        rows, columns = (int(n) for n in random.integers(2, 6, size=2))
        ask |= {
            "grid": (rows, columns),
            "kernel": random.normal(size=(min(rows, 3), min(columns, 2))).round(2),
            "ends": str(random.choice(["wrap", "clamp"])),
        }
        kinds += ["grid"]
    elif target == "matrix":
        weights = random.exponential(size=(count, count))
        if random.integers(2):
            weights[random.uniform(size=weights.shape) < 0.3] = 0
            weights[np.arange(count), random.integers(count, size=count)] += 1
        ask["matrix"] = weights / weights.sum(1, keepdims=True)
    else:
        ask["tokens"] = count
    if target == "shift":
        ask["by"] = (
            int(random.integers(-count, count + 1)) if ask["ends"] == "wrap" else int(random.integers(-3, 4))
        )
    if target == "running-mean":
        ask |= {"window": int(random.integers(1, count + 1)), "causal": bool(random.integers(2))}
        ask["ends"] = str(
            random.choice(
                ["shrink", "clamp", "none"] if ask["causal"] else ["shrink", "clamp", "none", "wrap"]
            )
        )
    if target == "convolution":
        ask["taps"] = random.normal(size=int(random.integers(1, min(count, 5) + 1))).round(2) + 0.001
        if random.integers(2):
            ask["heads"], kinds = 2, ["one-hot"]
    if target == "mean":
        kinds += ["none", "sinusoidal", "rotary"]
    return target, {**ask, "positions": str(random.choice(kinds))}


def check(number, cases, other_error):
    random = np.random.default_rng([4, number])
    target, ask = random_ask(random)
    result = build(target, **ask)
    assert result.possible, (target, ask, result.reason)
    data = json.loads(result.to_json())
    assert data["holds"], (target, ask, data["bound"], data["measured"])
    worst = np.array(data["worst_input"])
    norm, width = ask["norm"], ask["width"]
    assert np.linalg.norm(worst, axis=-1).max() <= norm * (1 + 1e-15)
    at_worst = other_error(data, worst[None])
    contents = random.normal(size=(cases, *worst.shape))
    contents *= (
        norm
        / np.linalg.norm(contents, axis=-1, keepdims=True)
        * random.uniform(size=(cases, len(worst), 1)) ** (1 / width)
    )
    at_random = max(other_error(data, contents[i : i + 100]) for i in range(0, cases, 100))
    assert at_worst <= data["bound"] <= ask["tolerance"], (target, ask)
    assert at_random <= data["bound"], (target, ask)
    # The bound is attained, not only safe: nothing but rounding lies between.
    assert at_worst >= data["bound"] - 2 * data["rounding"], (target, ask)
    if target in ("identity", "permutation") and ask["positions"] == "one-hot" and len(worst) > 1:
        softer = {**data, "beta": 0.99 * data["beta"]}
        assert data["beta"] == 0 or other_error(softer, worst[None]) > ask["tolerance"], (target, ask)


@pytest.mark.parametrize("number", range(SAMPLE))
def test_an_independent_attention_keeps_the_certificate(number, other_error):
    check(number, 1000, other_error)


@pytest.mark.soak
@pytest.mark.parametrize("number", range(SAMPLE, FULL))
def test_an_independent_attention_keeps_the_certificate_in_full(number, other_error):
    check(number, 1000, other_error)


@pytest.mark.parametrize(
    ("count", "tolerance", "norm"), [(2, 0.1, 1), (3, 1e-3, 1), (32, 1e-6, 5), (128, 1e-3, 0.5)]
)
def test_the_smallest_beta_of_a_permutation_is_the_closed_form(count, tolerance, norm):
    for target in (
        {"target": "identity", "tokens": count},
        {"target": "permutation", "order": list(range(count, 0, -1))},
    ):
        details = dict(target)
        result = build(details.pop("target"), tolerance=tolerance, norm=norm, **details)
        assert result.beta == pytest.approx(math.log((count - 1) * (2 * norm / tolerance - 1)), rel=1e-6)


def test_the_closed_form_is_given():
    assert build("permutation", order="2 3 1", tolerance=1e-3).beta_exact == "ln(3998)"
    assert build("running-mean", tokens=5, ends="none").beta_exact == "ln(3998/3)"


def test_running_mean_of_the_hand_out():
    result = build("running-mean", tokens=5, window=3, ends="none", tolerance=1e-6)
    third = 1 / 3
    expected = [[third, third, third, 0, 0], [0, third, third, third, 0], [0, 0, third, third, third]]
    assert np.allclose(result.matrix, expected)
    assert result.queries == (1, 2, 3)
    assert result.heads == 1
    assert np.allclose(result.trace()["weights"].values[0], expected, atol=1e-6)


def test_ends_are_what_is_said():
    rows = {
        ends: build("running-mean", tokens=4, window=3, ends=ends).matrix[0]
        for ends in ("shrink", "wrap", "clamp")
    }
    assert np.allclose(rows["shrink"], [1 / 2, 1 / 2, 0, 0])
    assert np.allclose(rows["wrap"], [1 / 3, 1 / 3, 0, 1 / 3])
    assert np.allclose(rows["clamp"], [2 / 3, 1 / 3, 0, 0])
    causal = build("running-mean", tokens=3, window=3, causal=True)
    assert np.allclose(causal.matrix, [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])
    assert np.allclose(build("shift", tokens=3, by=1, ends="wrap").matrix, [[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    assert np.allclose(
        build("shift", tokens=3, by=-1, ends="clamp").matrix, [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    )


def test_convolution_has_one_head_per_tap_and_its_target_is_the_convolution():
    result = build("convolution", tokens=6, taps="1 0 -2", ends="wrap")
    assert result.heads == 2
    x = np.arange(6.0)
    assert np.allclose(result.matrix @ x, np.roll(x, 1) - 2 * np.roll(x, -1))
    assert build("convolution", tokens=6, taps="1 2 -1 -3", ends="wrap", heads=2).heads == 2
    assert build("convolution", tokens=6, taps="1 2 3", heads=1).heads == 1


def test_convolution_over_a_grid():
    result = build(
        "convolution-2d",
        grid="3x4",
        kernel="0 1 0; 1 -4 1; 0 1 0",
        positions="grid",
        ends="wrap",
        tolerance=1e-4,
    )
    image = np.random.default_rng(0).uniform(-0.5, 0.5, size=(3, 4))
    expected = -4 * image + sum(np.roll(image, s, axis) for s in (1, -1) for axis in (0, 1))
    assert result.heads == 5
    assert np.allclose(result.matrix @ image.reshape(-1), expected.reshape(-1))
    got = result.apply(np.stack([image.reshape(-1), np.zeros(12)], -1))
    assert np.abs(got[:, 0] - expected.reshape(-1)).max() <= 1e-4
    assert set(np.unique(result.codes)) == {0, 1}
    assert result.codes.shape == (12, 7)


def test_mean_needs_no_positions_and_no_beta():
    result = build("mean", tokens=7, positions="none", tolerance=1e-12)
    assert result.beta == 0
    assert result.measured < 1e-15
    assert result.codes.shape == (7, 0)


def test_a_given_matrix_is_exact_where_the_rank_allows_it():
    left, right = np.random.default_rng(1).normal(size=(2, 6, 2))
    powers = np.exp(left @ right.T)
    A = powers / powers.sum(1, keepdims=True)
    result = build("matrix", matrix=A, head_width=2)
    assert result.W_q[0].shape == (2, 8)
    assert result.bound < 1e-12
    assert result.beta == 1
    assert "rank 2" in " ".join(result.remarks)
    narrow = build("matrix", matrix=A, head_width=1)
    assert narrow.possible
    assert narrow.measured > 1e-3
    assert narrow.holds
    assert "the head's width allows 1: " in " ".join(narrow.remarks)
    assert narrow.measured == pytest.approx(narrow.bound, rel=1e-9)


def test_zeros_of_a_given_matrix_are_limits():
    result = build("matrix", matrix="1/2 1/2 0; 0 1 0; 1/4 1/4 1/2", tolerance=1e-4)
    weights = result.trace()["weights"].values[0]
    assert np.all(weights > 0)
    assert np.abs(weights - result.matrix).sum(1).max() <= 1e-4
    assert any("zeros" in remark for remark in result.remarks)


@pytest.mark.parametrize(
    ("tolerance", "count"), [(1e-3, None), (1e-6, None), (0.1, None), (1e-4, 2), (1e-2, 9)]
)
def test_copying_by_content(tolerance, count):
    details = {} if count is None else {"tokens": count}
    result = build("copy", tolerance=tolerance, **details)
    squared, others = (10, 2) if count is None else (count * (count - 1), count - 1)
    assert result.norm == pytest.approx(
        math.sqrt(math.log(math.sqrt(squared) / tolerance - others)), rel=1e-8
    )
    assert result.holds

    def relative(norm):
        x = result.worst_content * norm / result.norm
        powers = np.exp(x @ x.T)
        return np.linalg.norm(powers @ x / powers.sum(1, keepdims=True) - x, axis=1).max() / norm

    assert relative(result.norm) <= tolerance < relative(0.99 * result.norm)


def test_copying_as_the_hand_out_asks():
    result = build("copy")
    assert result.norm_exact == "sqrt(ln(sqrt(10)*1000 - 2))"
    assert f"{result.norm:.3f}" == "2.839"
    assert np.allclose(
        np.linalg.norm(result.worst_content, axis=1) / result.norm, [math.sqrt(2), 1, math.sqrt(2)]
    )


@pytest.mark.parametrize(
    "ask",
    [
        {"target": "permutation", "order": "2 3 1"},
        {"target": "convolution", "tokens": 7, "taps": "1 0 -1", "positions": "sinusoidal"},
        {"target": "convolution", "tokens": 7, "taps": "1 0 -1", "positions": "rotary"},
        {"target": "running-mean", "tokens": 6},
    ],
)
def test_a_moved_key_changes_what_is_said(ask):
    details = dict(ask)
    for delta in (1e-3, 0.1, 3.0):
        move = build(
            details["target"], delta=delta, **{k: v for k, v in details.items() if k != "target"}
        ).perturbation
        assert move.measured == pytest.approx(move.change, rel=1e-6)
        assert 0 < move.change <= move.bound * (1 + 1e-12)


def test_stacked_matrices_start_a_layer_of_a_model():
    result = build("convolution", tokens=5, taps="1 -2 1", tolerance=1e-4)
    width, heads = 24, result.heads
    beta = 1 / math.sqrt(width // heads)
    matrices = result.stacked(width=width, beta=beta)
    assert all(W.shape == (width, width) for W in matrices.values())
    content = result.example()
    tokens = np.zeros((5, width))
    tokens[:, : 2 + 5] = result.input(content)
    split = [
        W.reshape(heads, width // heads, width) for W in (matrices["W_q"], matrices["W_k"], matrices["W_v"])
    ]
    joined = []
    for W_q, W_k, W_v in zip(*split, strict=True):
        powers = np.exp(beta * (tokens @ W_q.T) @ (tokens @ W_k.T).T)
        joined.append(powers / powers.sum(1, keepdims=True) @ tokens @ W_v.T)
    output = np.concatenate(joined, axis=1) @ matrices["W_o"].T
    assert np.allclose(output[:, :2], result.apply(content), atol=1e-12)
    assert not output[:, 2:].any()
    with pytest.raises(ValueError, match="do not fit into width 20"):
        result.stacked(width=20)


def test_renderers_say_the_certificate():
    result = build("convolution", tokens=7, taps="1 0 -1", positions="sinusoidal")
    for text in (result.to_text(), result.to_markdown(), result.to_latex(), result.to_html()):
        assert "certificate" in text
        assert "holds" in text
        assert "bound" in text
    assert result.to_latex().startswith(r"\documentclass")
    assert result.to_latex().rstrip().endswith(r"\end{document}")
    assert not result.to_latex(fragment=True).startswith(r"\documentclass")
    assert result.to_html().startswith("<!doctype html>")
    assert "http" not in result.to_html().replace("http://www.w3.org", "")


def test_json_has_the_keys_that_a_program_needs():
    data = json.loads(build("identity", tokens=3).to_json())
    keys = {
        "possible",
        "W_q",
        "W_k",
        "W_v",
        "W_o",
        "positions",
        "beta",
        "heads",
        "bound",
        "measured",
        "worst_input",
    }
    assert keys <= data.keys()
    assert data["possible"] is True
    assert len(data["W_q"]) == data["heads"]
