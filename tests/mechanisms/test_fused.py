"""Every fast twin against its mechanism: values, gradients, masks, odd sizes, batch 1, compiled."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import headwork.mechanisms as plain
from headwork.errors import InputError
from headwork.mechanisms import fused, fused_linear
from headwork.mechanisms.parameters import AttentionParameters

VALUES, GRADIENTS = 1e-5, 1e-4


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def check(
    twin: Callable[..., Tensor], mechanism: Callable[..., Tensor], *given: Tensor | None, **options: Any
) -> None:
    """Equal values to 1e-5 and gradients to 1e-4 for every input, in float32; in float64 to 1e-10."""
    for dtype, values, gradients in ((torch.float32, VALUES, GRADIENTS), (torch.float64, 1e-10, 1e-10)):
        results = []
        for function in (twin, mechanism):
            inputs = [None if g is None else g.detach().to(dtype).requires_grad_() for g in given]
            y = function(*inputs, **options)
            direction = torch.linspace(-1, 1, y.numel(), dtype=dtype).reshape(y.shape)
            grads = torch.autograd.grad(
                (y * direction).sum(), [i for i in inputs if i is not None], materialize_grads=True
            )
            results.append((y.detach(), grads))
        (ours, our_grads), (expected, their_grads) = results
        torch.testing.assert_close(ours, expected, rtol=values, atol=values)
        for a, b in zip(our_grads, their_grads, strict=True):
            torch.testing.assert_close(a, b, rtol=gradients, atol=gradients)


def grouped(tokens: Tensor, *given: Tensor | None) -> tuple[Tensor, AttentionParameters, Tensor | None]:
    """Tokens, four matrices, the memory and four biases, as the mechanism takes them."""
    memory = given[4] if len(given) > 4 else None
    return tokens, AttentionParameters(*given[:4], *given[5:]), memory


def padding(batch: int, keys: int) -> Tensor:
    """Each sequence one token shorter than the one before, as a mask on the keys."""
    lengths = torch.tensor([max(1, keys - i) for i in range(batch)])
    return (torch.arange(keys) < lengths[:, None]).float()[:, None, None, :]


# --- attention ----------------------------------------------------------------------------------------

SIZES = [
    (1, 1, 1, 1, 1, 1),
    (1, 2, 7, 7, 3, 5),
    (3, 2, 5, 9, 4, 4),
    (2, 4, 50, 50, 16, 16),
    (1, 3, 33, 65, 5, 2),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mask", ["none", "causal", "padding", "given", "whole numbers"])
@pytest.mark.parametrize("beta", [None, 0.3])
def test_attention(size: tuple[int, ...], mask: str, beta: float | None) -> None:
    batch, heads, queries, keys, width, value_width = size
    q, k, v = (
        torch.randn(batch, heads, n, w) for n, w in ((queries, width), (keys, width), (keys, value_width))
    )
    allowed: Any = {"none": None, "causal": "causal", "padding": padding(batch, keys)}.get(mask)
    if mask in ("given", "whole numbers"):
        allowed = (torch.rand(queries, keys) > 0.4).float()
        allowed[:, 0] = 1
        allowed = allowed.long() if mask == "whole numbers" else allowed
    check(fused.attention, plain.attention, q, k, v, beta=beta, mask=allowed)


def test_attention_of_plain_matrices_and_of_a_trained_beta() -> None:
    q, k, v, beta = torch.randn(4, 3), torch.randn(5, 3), torch.randn(5, 2), torch.tensor(0.7)
    check(fused.attention, plain.attention, q, k, v)
    check(
        lambda q, k, v, beta: fused.attention(q, k, v, beta=beta),
        lambda q, k, v, beta: plain.attention(q, k, v, beta=beta),
        q,
        k,
        v,
        beta,
    )


def test_hard_attention_has_no_twin() -> None:
    x = torch.randn(3, 2)
    with pytest.raises(InputError, match="hard attention has no fused kernel"):
        fused.attention(x, x, x, beta=float("inf"))
    with pytest.raises(InputError, match="key width 3 differs"):
        fused.attention(x, torch.randn(3, 3), x)


@pytest.mark.parametrize("kind", ["softmax", "linear"])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
@pytest.mark.parametrize("size", [(1, 1, 1, 1), (1, 3, 7, 6), (2, 4, 50, 64)], ids=str)
def test_multi_head_attention(kind: Any, mask: str, size: tuple[int, ...]) -> None:
    batch, heads, count, width = size
    tokens = torch.randn(batch, count, width)
    matrices = [torch.randn(width, width) / width**0.5 for _ in range(4)]
    biases = [torch.randn(width) for _ in range(4)]
    mechanism = plain.multi_head_linear_attention if kind == "linear" else plain.multi_head_attention
    allowed: Any = {"none": None, "causal": "causal", "padding": padding(batch, count)}[mask]
    for given in (
        (tokens, *matrices, None, *biases),
        (tokens, *matrices),
        (tokens,),
        (tokens, matrices[0], None, matrices[2], None, None, None, biases[1]),
    ):
        check(
            lambda *g: fused.multi_head_attention(*grouped(*g), heads=heads, mask=allowed, kind=kind),
            lambda *g: mechanism(*grouped(*g), heads=heads, mask=allowed),
            *given,
        )


@pytest.mark.parametrize("kind", ["softmax", "linear"])
def test_multi_head_attention_to_a_memory(kind: Any) -> None:
    tokens, memory = torch.randn(2, 5, 6), torch.randn(2, 9, 6)
    matrices, biases = list(torch.randn(4, 6, 6) / 3), list(torch.randn(4, 6))
    mechanism = plain.multi_head_linear_attention if kind == "linear" else plain.multi_head_attention
    mask = padding(2, 9)
    check(
        lambda *g: fused.multi_head_attention(*grouped(*g), heads=2, mask=mask, kind=kind),
        lambda *g: mechanism(*grouped(*g), heads=2, mask=mask),
        tokens,
        *matrices,
        memory,
        *biases,
    )


# --- linear attention ---------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 9, 64, 131])
@pytest.mark.parametrize("chunk", [1, 4, 7, None])
@pytest.mark.parametrize("mask", [None, "causal"])
def test_linear_attention(length: int, chunk: int | None, mask: str | None) -> None:
    q, k, v = torch.randn(3, 1, 2, length, 5)
    check(
        lambda *g: fused.linear_attention(*g, features="elu+1", mask=mask, chunk=chunk or length),
        lambda *g: plain.linear_attention(*g, features="elu+1", mask=mask),
        q,
        k,
        v,
    )
    ours = fused.linear_attention(q, k, v, features="elu+1", mask=mask, chunk=chunk or length)
    for form in (plain.linear_attention_recurrent, plain.linear_attention_chunked):
        torch.testing.assert_close(ours, form(q, k, v, features="elu+1", mask=mask), rtol=1e-5, atol=1e-5)


def test_linear_attention_of_raw_products_and_padding() -> None:
    q, k, v = torch.rand(3, 2, 2, 9, 4)
    check(fused.linear_attention, plain.linear_attention, q, k, v, mask="causal")
    check(fused.linear_attention, plain.linear_attention, q, k, v, mask=padding(2, 9))
    with pytest.raises(InputError, match="a mask of 9 rows"):
        fused.linear_attention(q, k, v, mask=torch.ones(9, 9))


def test_causal_linear_attention_never_holds_all_scores() -> None:
    length, largest = 4096, 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal largest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor):
                largest = max(largest, result.numel())
            return result

    q, k, v = torch.rand(3, length, 16)
    with Watch():
        fused.linear_attention(q, k, v, mask="causal")
    assert largest <= 128 * length


@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
@pytest.mark.parametrize("chunk", [1, 4, 7])
def test_linear_attention_in_many_blocks(mask: str, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a block, forward and backward, also beside keys and values that all of a batch share."""
    monkeypatch.setattr(fused_linear, "BLOCK", 8)
    q, k, v = torch.randn(2, 3, 37, 4), torch.randn(2, 3, 37, 4), torch.randn(2, 3, 37, 5)
    allowed: Any = {"none": None, "causal": "causal", "padding": padding(2, 37)}[mask]
    options: dict[str, Any] = {"features": "elu+1", "mask": allowed}
    check(partial(fused.linear_attention, chunk=chunk), plain.linear_attention, q, k, v, **options)
    if mask != "padding":
        check(
            partial(fused.linear_attention, chunk=chunk),
            plain.linear_attention,
            q,
            k[0, :1],
            v[0, :1],
            **options,
        )
    exactly = [rows[:1, :1, :11].double().requires_grad_() for rows in (q, k, v)]
    kept = None if mask == "none" else "causal" if mask == "causal" else allowed[:1, ..., :11].double()
    torch.autograd.gradcheck(
        lambda *rows: fused.linear_attention(*rows, features="elu+1", mask=kept, chunk=chunk), exactly
    )


# --- the others ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1, 2), (3, 7), (2, 5, 64)], ids=str)
def test_normalisation_gelu_and_feed_forward(shape: tuple[int, ...]) -> None:
    x, width = torch.randn(*shape), shape[-1]
    check(
        fused.layer_normalisation,
        plain.layer_normalisation,
        x,
        torch.randn(width),
        torch.randn(width),
        epsilon=1e-5,
    )
    check(fused.layer_normalisation, plain.layer_normalisation, x, epsilon=1e-5)
    check(fused.gelu, plain.gelu, x)
    given = (torch.randn(width, 3) / width**0.5, torch.randn(3, width), torch.randn(3), torch.randn(width))
    for activation in ("relu", "gelu"):
        check(fused.feed_forward, plain.feed_forward, x, *given, activation=activation)
        check(fused.feed_forward, plain.feed_forward, x, *given[:2], activation=activation)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_and_pooling(groups: int) -> None:
    signal, image = torch.randn(2, 4, 9), torch.randn(2, 4, 7, 5)
    along, over, bias = torch.randn(6, 4 // groups, 3), torch.randn(6, 4 // groups, 3, 2), torch.randn(6)
    options = {"stride": 2, "padding": 1, "groups": groups}
    check(fused.convolution_1d, plain.convolution_1d, signal, along, bias, **options)
    check(fused.convolution_2d, plain.convolution_2d, image, over, bias, **options)
    check(fused.max_pooling, plain.max_pooling, image, size=2)


def test_patch_embedding() -> None:
    images, filters, bias = torch.randn(2, 3, 8, 12), torch.randn(5, 3, 4, 4), torch.randn(5)
    check(
        fused.patch_embedding,
        lambda i, f, b: plain.convolution_2d(i, f, b, stride=4).reshape(2, 5, -1).mT,
        images,
        filters,
        bias,
    )


@pytest.mark.parametrize("length", [1, 6])
def test_recurrences(length: int) -> None:
    x, state = torch.randn(2, length, 3), 4

    def matrices(gates: int) -> tuple[Tensor, ...]:
        rows = gates * state
        return torch.randn(rows, 3), torch.randn(rows, state), torch.randn(rows), torch.randn(rows)

    *given, _ = matrices(4)
    check(lambda *g: fused.recurrent(*g, cell="lstm"), plain.lstm, x, *given)
    check(lambda *g: fused.recurrent(*g, cell="gru"), plain.gru, x, *matrices(3))
    W_x, W_h, bias, _ = matrices(1)
    check(
        lambda *g: fused.recurrent(*g, cell="plain")[:, -1],
        lambda x, W_x, W_h, b: plain.recurrence(x, W_x, W_h, bias=b, activation="tanh"),
        x,
        W_x,
        W_h,
        bias,
    )


# --- the compiler -------------------------------------------------------------------------------------


def everything(x: Tensor, m: Tensor, b: Tensor) -> Tensor:
    """One function through every twin, so that it is compiled once."""
    matrices = AttentionParameters(m, m, m, m)
    y = fused.multi_head_attention(x, AttentionParameters(m, m, m, m, b, b, b, b), heads=2)
    y = y + fused.multi_head_attention(x, matrices, heads=2, mask="causal", kind="linear")
    y = y + fused.multi_head_attention(x, matrices, x[:, :3], heads=2, mask=torch.ones(2, 1, 1, 3))
    y = fused.layer_normalisation(y, b, b, epsilon=1e-5) + fused.feed_forward(
        y, m, m, b, b, activation="gelu"
    )
    y = y + fused.convolution_1d(y.mT, m[:, :, None], b).mT
    images = y.reshape(2, 5, 2, 2)
    y = y + fused.patch_embedding(images, m.repeat(1, 5).reshape(4, 5, 2, 2), b)
    maps = fused.convolution_2d(images, m[:, :, None, None].repeat(1, 2, 1, 1)[:, :5], b, padding=1)
    return y + fused.max_pooling(maps, size=2).flatten(2).mean(-1)[:, None]


# The graph is captured whole either way; making machine code of it takes the longer run.
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.soak)])
def test_twins_compile_into_one_graph(backend: str) -> None:
    x, m, b = torch.randn(2, 5, 4), torch.randn(4, 4) / 2, torch.randn(4)
    given = [t.clone().requires_grad_() for t in (x, m, b)]
    again = [t.clone().requires_grad_() for t in (x, m, b)]
    expected = everything(*again)
    ours = torch.compile(everything, fullgraph=True, backend=backend)(*given)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    for a, e in zip(
        torch.autograd.grad(ours.sum(), given), torch.autograd.grad(expected.sum(), again), strict=True
    ):
        torch.testing.assert_close(a, e, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", ["none", "causal", "padding", "given"])
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 9), (65, 65)])
def test_attention_is_the_same_compiled(mask: str, queries: int, keys: int) -> None:
    """Few keys take another way there than many."""
    torch.compiler.reset()
    q, k, v = torch.randn(2, 3, queries, 4), torch.randn(2, 3, keys, 4), torch.randn(2, 3, keys, 5)
    allowed: Any = {"none": None, "causal": "causal", "padding": padding(2, keys)}.get(mask)
    if mask == "given":
        allowed = torch.rand(queries, keys) > 0.4
        allowed[:, 0] = True
    compiled = torch.compile(fused.attention, fullgraph=True, backend="aot_eager")
    check(compiled, plain.attention, q, k, v, mask=allowed)
    check(compiled, plain.attention, q, k, v, mask=allowed, beta=0.3)


def test_an_exported_model_holds_no_operation_of_ours() -> None:
    class Attention(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return fused.attention(x, x, x)

    graph = torch.export.export(Attention(), (torch.randn(1, 2, 5, 4),)).graph
    assert not [node for node in graph.nodes if "headwork" in str(node.target)]


def test_the_softmax_of_ours_is_a_proper_operation() -> None:
    torch.library.opcheck(fused._softmax, (torch.randn(2, 3, 5, requires_grad=True),))


def test_the_mechanisms_never_load_the_twins() -> None:
    told = subprocess.run(
        [sys.executable, "-c", "import sys, headwork.mechanisms; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == "False"
