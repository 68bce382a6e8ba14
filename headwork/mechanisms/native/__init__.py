"""The native twin of ``encoder_layer``: one image at a time through a whole block (``encoder_block.cpp``).

It takes what a vision transformer trains with: pre-normalisation, softmax attention without a mask, all
biases, no dropout, float32 on a processor with AVX2 or AVX512. Whatever else comes goes to the fused twins;
where a machine or a size has no native kernel, that is said once. Like every twin it has no ``note``.
"""

import ctypes
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from headwork.mechanisms import layers
from headwork.mechanisms.configs import VisionTransformerConfig
from headwork.mechanisms.fused import FUSED, FusedKernels
from headwork.mechanisms.kernels import Twins, no_dropout
from headwork.mechanisms.native.compiling import Sizes, UnavailableError, library
from headwork.mechanisms.parameters import EncoderLayerParameters, map_tree, spec_tree

TRIAL_IMAGES, TRIAL_ROUNDS = 32, 12
MAX_TIME_RATIO = 0.7  # the compiler gains about a quarter on the fused kernels
W_1_INDEX = -4  # the place of W_1 among the weights
REALS: dict[torch.dtype, Literal["float", "double"]] = {torch.float32: "float", torch.float64: "double"}


def encoder_layer(tokens: Tensor, parameters: EncoderLayerParameters, **options: Any) -> Tensor:
    """The twin of ``mechanisms.encoder_layer``, or the fused kernels where it does not fit."""
    sizes = _sizes_if_supported(tokens, parameters, **options)
    if sizes is None or not is_available(*sizes):
        fused: Tensor = layers.encoder_layer(tokens, parameters, **options)
        return fused
    weights, epsilon = _weights(parameters), float(options["epsilon"])
    needs_gradient = torch.is_grad_enabled() and any(each.requires_grad for each in (tokens, *weights))
    block = _block(tokens, weights, sizes.outputs, sizes.heads, sizes.activation, epsilon, needs_gradient)
    output: Tensor = block[0]
    return output


class NativeKernels(FusedKernels):
    """The fused kernels, with blocks of an encoder in C++ where they fit."""

    twins: ClassVar[Twins] = {**FusedKernels.twins, layers.encoder_layer: encoder_layer}


def _weights(p: EncoderLayerParameters) -> list[Tensor]:
    """In the order of ``Weights`` in the source."""
    nodes = (p.attention, p.normalisation_1, p.normalisation_2, p.feed_forward)
    return [getattr(node, entry.name) for node in nodes for entry in fields(node)]


def _sizes_if_supported(tokens: Tensor, parameters: EncoderLayerParameters, **options: Any) -> Sizes | None:
    """The sizes for which to compile, or None where only the fused kernels will do."""
    weights, kernels = _weights(parameters), options["kernels"]
    dtype_and_device = (tokens.dtype, tokens.device)
    fits = all(each is not None and (each.dtype, each.device) == dtype_and_device for each in weights)
    fits = fits and tokens.dim() == 3 and tokens.device.type == "cpu" and tokens.dtype in REALS
    options_fit = options.get("mask") is None and options["normalisation"] == "pre"
    options_fit = options_fit and kernels.attention_kind == "softmax" and kernels.drop is no_dropout
    # An exported graph goes to other programs.
    if not (options_fit and fits) or torch.compiler.is_exporting():
        return None
    count = tokens.shape[1]
    outputs = options.get("output_tokens") or count
    return _sizes_of(weights, count, outputs, options["heads"], options["activation"])


def _sizes_of(weights: Sequence[Tensor], tokens: int, outputs: int, heads: int, activation: Any) -> Sizes:
    width, hidden = weights[W_1_INDEX].shape
    return Sizes(tokens, outputs, width, heads, hidden, activation, REALS[weights[0].dtype])


def is_available(*sizes: Any) -> bool:
    """Whether there is a native kernel for these sizes here; compiled now, if it was not before."""
    return _compiles(Sizes(*sizes))


# What torch.compiler.assume_constant_result sets, without importing the compiler: that takes seconds.
is_available._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _compiles(sizes: Sizes) -> bool:
    try:
        library(sizes)
    except UnavailableError as error:
        _warn_once(str(error))
        return False
    return True


@cache
def _warn_once(reason: str) -> None:
    print(f"! {reason}: the fused kernel is used instead.", file=sys.stderr, flush=True)


def is_faster(config: VisionTransformerConfig) -> bool:
    """Whether a block of this model trains clearly faster than with the fused kernels, here and now."""
    tokens = (config.image_size // config.patch_size) ** 2 + (config.pooling == "class token")
    rng = torch.Generator().manual_seed(0)
    template = spec_tree(EncoderLayerParameters, width=config.width, hidden=config.hidden)
    block = map_tree(lambda _, leaf: torch.randn(leaf.shape, generator=rng).requires_grad_(), template)
    rows = torch.randn(TRIAL_IMAGES, tokens, config.width, generator=rng)
    names = ("heads", "normalisation", "activation", "epsilon")
    options = {name: getattr(config, name) for name in names}
    options["kernels"] = FUSED.with_attention(config.attention)
    sizes = _sizes_if_supported(rows, block, **options)
    if sizes is None or config.dropout or not is_available(*sizes):
        return False
    candidates = [partial(each, rows, block, **options) for each in (encoder_layer, layers.encoder_layer)]
    rounds = [[_seconds(work, _weights(block)) for work in candidates] for _ in range(TRIAL_ROUNDS)]
    native, fused = map(min, zip(*rounds, strict=True))
    if native < MAX_TIME_RATIO * fused:
        return True
    times = f"{1e3 * native:.1f} ms against {1e3 * fused:.1f} ms"
    _warn_once(f"the native kernel is not clearly faster here, {times}")
    return False


def _seconds(work: Callable[[], Tensor], weights: list[Tensor]) -> float:
    """By the processor time of this thread, which other programs do not lengthen."""
    start = time.thread_time()
    torch.autograd.grad(work().sum(), weights)
    return time.thread_time() - start


# --- the operation, as torch and its compiler see it --------------------------------------------------
@torch.library.custom_op("headwork::encoder_block", mutates_args=())
def _block(
    tokens: Tensor,
    weights: Sequence[Tensor],
    outputs: int,
    heads: int,
    activation: str,
    epsilon: float,
    needs_gradient: bool,
) -> tuple[Tensor, Tensor]:
    """The block's output, and what its backward pass needs of each image (nothing, unless it needs a
    gradient).
    """
    images, count, width = tokens.shape
    sizes = _sizes_of(weights, count, outputs, heads, activation)
    tokens, matrices = tokens.contiguous(), _Pointers(weights)
    output = tokens.new_empty(images, outputs, width)
    saved = tokens.new_empty(images, sizes.kept if needs_gradient else 0)
    kept = saved.data_ptr() if needs_gradient else None
    code = library(sizes).forward_pass(
        tokens.data_ptr(), matrices.table, epsilon, images, _threads(images), output.data_ptr(), kept
    )
    _check_memory(code)
    return output, saved


@_block.register_fake
def _(tokens: Tensor, weights: Sequence[Tensor], outputs: int, *options: Any) -> tuple[Tensor, Tensor]:
    images, count, width = tokens.shape
    saved = _sizes_of(weights, count, outputs, *options[:2]).kept if options[-1] else 0
    return tokens.new_empty(images, outputs, width), tokens.new_empty(images, saved)


@torch.library.custom_op("headwork::encoder_block_backward", mutates_args=())
def _block_backward(
    gradient: Tensor, weights: Sequence[Tensor], saved: Tensor, tokens: int, heads: int, activation: str
) -> list[Tensor]:
    """The gradients of the tokens and of each weight."""
    images, outputs, width = gradient.shape
    sizes = _sizes_of(weights, tokens, outputs, heads, activation)
    gradient, matrices = gradient.contiguous(), _Pointers(weights)
    results = [gradient.new_empty(images, tokens, width), *map(torch.empty_like, matrices.tensors)]
    first, *others = results
    addresses = saved.data_ptr(), first.data_ptr(), _Pointers(others).table
    code = library(sizes).backward_pass(
        gradient.data_ptr(), matrices.table, images, _threads(images), *addresses
    )
    _check_memory(code)
    return results


@_block_backward.register_fake
def _(gradient: Tensor, weights: Sequence[Tensor], saved: Tensor, tokens: int, *options: Any) -> list[Tensor]:
    first = gradient.new_empty(gradient.shape[0], tokens, gradient.shape[2])
    return [first, *(gradient.new_empty(each.shape) for each in weights)]


def _save_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    tokens, weights, _, heads, activation, *_ = inputs
    ctx.options = (tokens.shape[1], heads, activation)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1], *weights)


def _backward(ctx: Any, gradient: Tensor, _: Any) -> tuple[Any, ...]:
    saved, *weights = ctx.saved_tensors
    first, *others = _block_backward(gradient, weights, saved, *ctx.options)
    return (first, others, *[None] * 5)


_block.register_autograd(_backward, setup_context=_save_for_backward)


class _Pointers:
    """Addresses of tensors, in a row; it holds the tensors, so that they stay where they are."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.tensors = [each.contiguous() for each in tensors]
        self.table = (ctypes.c_void_p * len(tensors))(*(each.data_ptr() for each in self.tensors))


def _threads(images: int) -> int:
    return max(1, min(torch.get_num_threads(), images))


def _check_memory(code: int) -> None:
    if code:
        raise MemoryError("the native kernel ran out of memory")
