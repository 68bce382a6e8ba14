r"""Fast twins: the same numbers as the mechanisms of the same names, through torch's own kernels.

A twin has no ``note``: a fused kernel never shows its steps. Nothing else in ``mechanisms`` imports this
file, because it needs torch. All twins run under ``torch.compile(fullgraph=True)``.

Under the compiler two things are written out (measured in docs/experiments.md): a bias is added after its
product, so that it joins the next operation, and attention over few keys is two products and a softmax.

Linear attention goes block by block in ``fused_linear``.
"""

import math
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional

import headwork.mechanisms as plain
from headwork.errors import InputError
from headwork.mechanisms import fused_linear
from headwork.mechanisms.attention import Mask, Scalar, check_attention_shapes, split_heads
from headwork.mechanisms.convolution import patches
from headwork.mechanisms.feedforward import Activation
from headwork.mechanisms.kernels import CellKind, Kernels, Twins
from headwork.mechanisms.linear import Features, check_chunks
from headwork.mechanisms.parameters import AttentionParameters, ConvolutionParameters, RecurrentParameters


def attention(query: Tensor, key: Tensor, value: Tensor, *, beta: Scalar = None, mask: Mask = None) -> Tensor:
    """The twin of ``mechanisms.attention``; hard attention (beta infinite) has none.

    >>> one = torch.eye(2)[:1]
    >>> attention(one, one, one).tolist()
    [[1.0, 0.0]]
    """
    check_attention_shapes(query, key, value, mask)
    if isinstance(beta, float) and math.isinf(beta):
        raise InputError(
            "attention: beta is infinite, and hard attention has no fused kernel. Use the plain one."
        )
    if isinstance(beta, Tensor):
        query, beta = query * beta, 1.0
    queries, keys = query.shape[-2], key.shape[-2]
    few_keys = _compiling() and keys <= FEW_KEYS
    if isinstance(mask, str) and queries == keys and not few_keys:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=beta)
    allowed = mask
    if isinstance(mask, str):
        allowed = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)
    elif mask is not None:
        allowed = mask != 0
    if few_keys:
        scores = (query * (query.shape[-1] ** -0.5 if beta is None else beta)) @ key.mT
        weights: Tensor = _softmax(scores if allowed is None else scores.masked_fill(~allowed, -math.inf))
        return weights @ value
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=allowed, scale=beta)


FEW_KEYS = 64  # torch's fused kernel is for long rows; up to here, compiled, plain products are faster


def _compiling() -> bool:
    # An exported graph goes to other programs, which know nothing of an operation of ours.
    return torch.compiler.is_compiling() and not torch.compiler.is_exporting()


@torch.library.custom_op("headwork::softmax", mutates_args=())
def _softmax(scores: Tensor) -> Tensor:
    """torch's own kernel, not split up: the compiler's code for short rows is slower."""
    return scores.softmax(-1)


@_softmax.register_fake
def _(scores: Tensor) -> Tensor:
    return torch.empty_like(scores)


def _keep_weights(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _softmax_backward(ctx: Any, gradient: Tensor) -> Tensor:
    weights: Tensor = ctx.saved_tensors[0]
    product = weights * gradient
    return product - weights * product.sum(-1, keepdim=True)


_softmax.register_autograd(_softmax_backward, setup_context=_keep_weights)


def linear_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    features: Features = "none",
    mask: Mask = None,
    chunk: int = 128,
) -> Tensor:
    """The twin of ``mechanisms.linear_attention``: time and memory grow with T, not with its square.

    A mask is "causal", or hides whole keys (one row for all queries); another would need all T x T scores.

    >>> x = torch.tensor([[1.0], [3.0]])
    >>> linear_attention(x, x, x).tolist()
    [[2.5], [2.5]]
    """
    check_attention_shapes(query, key, value, mask)
    check_chunks(query, key, mask, chunk)
    shapes = [rows.shape[:-2] for rows in (query, key, value)]
    leading = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
    query, key, value = (rows.expand(*leading, *rows.shape[-2:]) for rows in (query, key, value))
    attend: Any = fused_linear.LinearAttentionFunction.apply
    causally: Any = fused_linear.CausalLinearAttentionFunction.apply
    if isinstance(mask, str):
        return causally(query, key, value, features, min(chunk, key.shape[-2]))  # type: ignore[no-any-return]
    if mask is not None and mask.shape[-2] != 1:
        raise InputError(
            f"linear attention: a mask of {mask.shape[-2]} rows. The fused form takes causal, "
            "or one row that hides keys from every query. Use the plain kernel for any other mask."
        )
    transposed_mask = None if mask is None else mask.mT
    return attend(query, key, value, transposed_mask, features)  # type: ignore[no-any-return]


def _affine(rows: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    if bias is None or not _compiling():
        return functional.linear(rows, matrix, bias)
    return functional.linear(rows, matrix) + bias


def _projected(
    rows: Tensor, matrices: tuple[Tensor | None, ...], biases: tuple[Tensor | None, ...]
) -> list[Tensor]:
    """Rows through several matrices in one product, where all are present, with all biases or none."""
    present, added = [m for m in matrices if m is not None], [b for b in biases if b is not None]
    if len(present) < len(matrices) or len(added) not in (0, len(biases)):
        separate = [rows if m is None else functional.linear(rows, m) for m in matrices]
        return [r if b is None else r + b for r, b in zip(separate, biases, strict=True)]
    if len(present) == 1:
        return [_affine(rows, present[0], biases[0])]
    product = _affine(rows, torch.cat(present), torch.cat(added) if added else None)
    return list(torch.split(product, [m.shape[0] for m in present], -1))


def multi_head_attention(
    tokens: Tensor,
    parameters: AttentionParameters,
    memory: Tensor | None = None,
    *,
    heads: int,
    beta: Scalar = None,
    mask: Mask = None,
    kind: Literal["softmax", "linear"] = "softmax",
) -> Tensor:
    """The twin of ``mechanisms.multi_head_attention``, and with kind="linear" of its linear form (elu+1).

    >>> x = torch.eye(2)[:1]
    >>> multi_head_attention(x, AttentionParameters(), heads=2).tolist()
    [[1.0, 0.0]]
    """
    p = parameters
    if memory is None:
        parts = _projected(tokens, (p.W_q, p.W_k, p.W_v), (p.b_q, p.b_k, p.b_v))
    else:
        parts = _projected(tokens, (p.W_q,), (p.b_q,)) + _projected(memory, (p.W_k, p.W_v), (p.b_k, p.b_v))
    query, key, value = (split_heads(part, heads).transpose(-3, -2) for part in parts)
    if kind == "linear":
        outputs = linear_attention(query, key, value, features="elu+1", mask=mask)
    else:
        outputs = attention(query, key, value, beta=beta, mask=mask)
    return _projected(outputs.transpose(-3, -2).flatten(-2), (p.W_o,), (p.b_o,))[0]


def layer_normalisation(
    tokens: Tensor, scale: Tensor | None = None, shift: Tensor | None = None, *, epsilon: float = 0
) -> Tensor:
    """The twin of ``mechanisms.layer_normalisation``.

    >>> layer_normalisation(torch.tensor([[1.0, 3.0]])).tolist()
    [[-1.0, 1.0]]
    """
    return functional.layer_norm(tokens, tokens.shape[-1:], scale, shift, epsilon)


# These take the mechanisms' arguments as they are; the convolutions need a channel axis.
gelu, convolution_1d, convolution_2d = functional.gelu, functional.conv1d, functional.conv2d


def feed_forward(
    tokens: Tensor,
    W_1: Tensor,
    W_2: Tensor,
    b_1: Tensor | None = None,
    b_2: Tensor | None = None,
    *,
    activation: Activation = "relu",
) -> Tensor:
    """The twin of ``mechanisms.feed_forward``, its matrices applied as x W.

    >>> two = torch.tensor([[2.0]])
    >>> feed_forward(two, two, two).tolist()
    [[8.0]]
    """
    hidden = _affine(tokens, W_1.mT, b_1)
    return _affine(gelu(hidden) if activation == "gelu" else functional.relu(hidden), W_2.mT, b_2)


def max_pooling(image: Tensor, *, size: int, stride: int | None = None) -> Tensor:
    """The twin of ``mechanisms.max_pooling``.

    >>> max_pooling(torch.tensor([[[1.0, 2.0], [4.0, 3.0]]]), size=2).tolist()
    [[[4.0]]]
    """
    return functional.max_pool2d(image, size, stride)


def patch_embedding(images: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    """The twin of ``mechanisms.convolution_2d`` with stride = kernel, one row per patch.

    >>> patch_embedding(torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 2), torch.zeros(1)).tolist()
    [[[4.0], [4.0]]]
    """
    return _affine(patches(images, size=filters.shape[-1]), filters.flatten(1), bias)


def recurrent(inputs: Tensor, W_x: Tensor, W_h: Tensor, *biases: Tensor, cell: CellKind) -> Tensor:
    """The twin of ``lstm``, ``gru`` and ``recurrence`` (tanh, all states); inputs are batch, time, width.

    Not under ``torch.compile``: take the mechanism there, whose unrolled steps the compiler fuses by itself.

    >>> zeros = torch.zeros(4, 1)
    >>> recurrent(torch.ones(1, 2, 1), zeros, zeros, zeros[:, 0], cell="lstm").tolist()
    [[[0.0], [0.0]]]
    """
    start = inputs.new_zeros(1, inputs.shape[0], W_h.shape[-1])
    second = biases[1] if len(biases) > 1 else torch.zeros_like(biases[0])
    parameters = [W_x, W_h, biases[0], second]
    if cell == "lstm":
        return torch.lstm(inputs, [start, start], parameters, True, 1, 0.0, False, False, True)[0]
    kernel = torch.gru if cell == "gru" else torch.rnn_tanh
    return kernel(inputs, start, parameters, True, 1, 0.0, False, False, True)[0]


# --- the twins as the kernels of a model ------------------------------------------------------------
class FusedKernels(Kernels):
    """They note no steps: a model refuses a note beforehand."""

    skips_unused_outputs = True
    twins: ClassVar[Twins] = {
        plain.multi_head_attention: multi_head_attention,
        plain.multi_head_linear_attention: partial(multi_head_attention, kind="linear"),
        plain.feed_forward: feed_forward,
        plain.layer_normalisation: layer_normalisation,
        plain.convolution_1d: convolution_1d,
        plain.convolution_2d: convolution_2d,
        plain.relu: functional.relu,
        plain.max_pooling: max_pooling,
    }

    def patch_embedding(self, images: Tensor, p: ConvolutionParameters) -> Tensor:
        return patch_embedding(images, p.filters, p.bias)

    def recurrent(self, inputs: Tensor, p: RecurrentParameters, *, cell: CellKind) -> Tensor:
        # The compiler takes the unrolled steps, but not torch's own recurrent kernels; an exported graph has
        # one operation for a whole recurrence, but not for the plain one.
        exported = torch.compiler.is_exporting() and cell != "plain"
        if torch.compiler.is_compiling() and not exported:
            unrolled: Tensor = super().recurrent(inputs, p, cell=cell)
            return unrolled
        biases = (p.b_x, p.b_h) if cell == "gru" else (p.bias,)
        return recurrent(inputs, p.W_x, p.W_h, *biases, cell=cell)

    def linear(self, rows: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.linear(rows, matrix, bias)

    def embed(self, table: Tensor, indices: Tensor) -> Tensor:
        return functional.embedding(indices, table)


FUSED = FusedKernels()
