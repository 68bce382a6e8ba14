"""Classifiers of images as functions of their parameters: transformer, convolution, recurrence.

The vision transformer takes an image as patches, each a token (Dosovitskiy et al. 2020, arXiv 2010.11929);
its patch embedding is a convolution whose stride is its kernel size. A convolutional classifier is
convolution, ReLU and pooling, again and again (LeCun et al. 1998); a recurrent one reads an image row by row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from headwork.mechanisms import parameters as params
from headwork.mechanisms import transformer
from headwork.mechanisms.attention import Tensor
from headwork.mechanisms.configs import ConvolutionalConfig, RecurrentConfig, VisionTransformerConfig
from headwork.mechanisms.convolution import convolution_2d, max_pooling
from headwork.mechanisms.definitions import IMAGES, model
from headwork.mechanisms.kernels import PLAIN, CellKind, Kernels
from headwork.mechanisms.layers import encoder_steps
from headwork.mechanisms.parameters import Spec, parameter, spec_tree, subtree
from headwork.mechanisms.positions import sinusoidal_positions_2d
from headwork.mechanisms.recurrence import gru, lstm, recurrence
from headwork.note import Step, steps_of
from headwork.numbers import cat

SCORES = Step("scores", "z", r"W p + b_z", "class")
CELL_KINDS: dict[str, CellKind] = {"lstm": "lstm", "gru": "gru", "rnn": "plain"}
GATE_COUNTS = {"plain": 1, "lstm": 4, "gru": 3}


def classifier_head_specs(width: int, classes: int) -> params.ClassifierHeadParameters:
    return spec_tree(params.ClassifierHeadParameters, width=width, **{"class": classes})


# --- images: the vision transformer -----------------------------------------------------------------
@dataclass(frozen=True)
class VisionParameters:
    patch_embedding: params.ConvolutionParameters = subtree("patch embedding")
    class_token: Tensor = parameter("c", "width", "stands before the patches", scope="class token")
    positions: params.TableParameters = subtree("positions")
    transformer: params.StackParameters = subtree("")
    head: params.ClassifierHeadParameters = subtree("head")


def _vision_specs(config: VisionTransformerConfig) -> VisionParameters:
    width, class_tokens = config.width, int(config.pooling == "class token")
    side = config.image_size // config.patch_size

    def grid(like: Tensor) -> Tensor:
        axis = like.new_tensor(list(range(side)))
        # The class token has no position.
        return cat([like.new_zeros(class_tokens, width), sinusoidal_positions_2d(axis, axis, width=width)], 0)

    count = class_tokens + side**2
    positions = transformer.position_specs(config.positions, count, width)
    if config.positions == "sinusoidal":
        positions = params.TableParameters(Spec((count, width), trainable=False, constant=grid))
    shape = (width, config.channels, config.patch_size, config.patch_size)
    return VisionParameters(
        params.ConvolutionParameters(Spec(shape, "flat matrix"), Spec((width,))),
        Spec((width,), "small") if class_tokens else None,
        positions,
        transformer.encoder_specs(config),
        classifier_head_specs(width, config.classes),
    )


def _vision_steps(config: VisionTransformerConfig) -> tuple[Step, ...]:
    return (
        *steps_of(convolution_2d, scope="patch embedding/convolution", symbols={"Y": "F"}),
        Step("patch embedding/tokens", "E", r"\text{one row per patch}", "patch width"),
        *transformer.position_steps(rows="[c; E]" if config.pooling == "class token" else "E"),
        *transformer.stack_steps(encoder_steps, config),
        Step("pooled", "p", r"\text{the class token, or the mean of all}", "width"),
        SCORES,
    )


@model("vision", _vision_specs, _vision_steps, IMAGES, architectures={"transformer": {}})
def vision_transformer(
    parameters: VisionParameters, config: VisionTransformerConfig, images: Tensor, *, kernels: Kernels = PLAIN
) -> Tensor:
    """Images (batch, channel, height, width) in, a logit for each class out."""
    p, class_token = parameters, parameters.class_token
    tokens = kernels.inside("patch embedding").patch_embedding(images, p.patch_embedding)
    if class_token is not None:
        each = class_token.expand(*tokens.shape[:-2], 1, tokens.shape[-1])
        tokens = cat([each, tokens], -2)
    tokens = kernels.drop(transformer.add_positions(tokens, p.positions.table, kernels=kernels))
    output_tokens = 1 if class_token is not None and kernels.skips_unused_outputs else None
    tokens = transformer.encoder(p.transformer, config, tokens, output_tokens=output_tokens, kernels=kernels)
    pooled = kernels.note("pooled", tokens.mean(-2) if class_token is None else tokens[..., 0, :])
    return kernels.note("scores", kernels.linear(pooled, p.head.matrix, p.head.bias))


# --- images: convolution and recurrence -------------------------------------------------------------
@dataclass(frozen=True)
class ConvolutionalParameters:
    blocks: tuple[params.ConvolutionParameters, ...] = subtree("block")
    head: params.ClassifierHeadParameters = subtree("head")


def convolution_specs(channels: int, width: int, *size: int) -> params.ConvolutionParameters:
    return params.ConvolutionParameters(Spec((width, channels, *size), "matrix"), Spec((width,)))


def _convolutional_specs(config: ConvolutionalConfig) -> ConvolutionalParameters:
    widths = [config.channels] + [config.width << k for k in range(config.depth)]
    blocks = tuple(convolution_specs(a, b, 3, 3) for a, b in pairwise(widths))
    return ConvolutionalParameters(blocks, classifier_head_specs(widths[-1], config.classes))


def _convolutional_steps(config: ConvolutionalConfig) -> tuple[Step, ...]:
    return (
        *steps_of(convolution_2d, scope="block */convolution", symbols={"I": "{block </pooling/output|I}"}),
        Step("block */output", "F", r"\max(0, Y)", "channel output_height output_width"),
        *steps_of(max_pooling, scope="block */pooling", symbols={"Y": "D"}),
        Step("pooled", "p", r"\text{mean over all positions}", "channel"),
        SCORES,
    )


@model("convolutional", _convolutional_specs, _convolutional_steps, IMAGES, architectures={"cnn": {}})
def convolutional_classifier(
    parameters: ConvolutionalParameters,
    config: ConvolutionalConfig,
    images: Tensor,
    *,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Images in, a logit for each class out; each layer doubles the channels and halves the size."""
    maps = images
    for i, block in enumerate(parameters.blocks):
        scoped = kernels.inside(f"block {i}")
        maps = scoped.inside("pooling").max_pooling(scoped.convolution_relu(maps, block), size=2)
    flat = maps.reshape(*maps.shape[:-2], maps.shape[-2] * maps.shape[-1])
    pooled = kernels.note("pooled", flat.mean(-1))
    return kernels.note("scores", kernels.linear(pooled, parameters.head.matrix, parameters.head.bias))


def recurrent_specs(inputs: int, width: int, cell: CellKind) -> params.RecurrentParameters:
    rows = GATE_COUNTS[cell] * width
    matrices = Spec((rows, inputs), "matrix"), Spec((rows, width), "matrix")
    biases = dict.fromkeys(("b_x", "b_h") if cell == "gru" else ("bias",), Spec((rows,)))
    return params.RecurrentParameters(*matrices, **biases)


def recurrent_layer_specs(
    inputs: int, width: int, cell: CellKind, bidirectional: bool
) -> params.RecurrentLayerParameters:
    single = recurrent_specs(inputs, width, cell)
    return params.RecurrentLayerParameters(single, single if bidirectional else None)


def recurrent_layer_steps(cell: CellKind, bidirectional: bool) -> tuple[Step, ...]:
    mechanisms: dict[str, Callable[..., Tensor]] = {"plain": recurrence, "lstm": lstm, "gru": gru}
    sides = ("forwards", "backwards") if bidirectional else ("forwards",)
    return tuple(step for side in sides for step in steps_of(mechanisms[cell], scope=side))


def recurrent_layer(
    parameters: params.RecurrentLayerParameters,
    inputs: Tensor,
    mask: Tensor = None,
    *,
    cell: CellKind,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """One direction or bidirectional, side by side: (batch, time, width) in, (batch, time, states) out.

    ``mask`` has 1 for each step and 0 for the padding after the last.
    """
    forward_states = kernels.inside("forwards").recurrent(inputs, parameters.forwards, cell=cell)
    if parameters.backwards is None:
        return forward_states
    backwards = kernels.inside("backwards")
    backward_states = backwards.recurrent(_reversed(inputs, mask), parameters.backwards, cell=cell)
    return cat([forward_states, _reversed(backward_states, mask)], -1)


def _reversed(rows: Tensor, mask: Tensor | None) -> Tensor:
    """Each sequence from its last row to its first; padding stays where it is. It is its own inverse."""
    if mask is None:
        return rows.flip(-2)
    padding = (mask == 0) * 1  # whole numbers
    real, positions = 1 - padding, (padding * 0 + 1).cumsum(-1) - 1
    last = real.sum(-1, keepdim=True) - 1
    return gather_rows(rows, real * (last - positions) + padding * positions)


def gather_rows(rows: Tensor, positions: Tensor) -> Tensor:
    """The rows (batch, token, ...) of each sequence at its positions (batch, position)."""
    inner = rows.shape[2:]
    index = positions.reshape(*positions.shape, *[1] * len(inner)).expand(*positions.shape, *inner)
    return rows.gather(1, index)


@dataclass(frozen=True)
class RecurrentClassifierParameters:
    recurrent: params.RecurrentLayerParameters = subtree("")
    head: params.ClassifierHeadParameters = subtree("head")


def _recurrent_classifier_specs(config: RecurrentConfig) -> RecurrentClassifierParameters:
    width, inputs = config.width, config.channels * config.image_size
    return RecurrentClassifierParameters(
        recurrent_layer_specs(inputs, width, config.cell, config.bidirectional),
        classifier_head_specs(2 * width if config.bidirectional else width, config.classes),
    )


def _recurrent_classifier_steps(config: RecurrentConfig) -> tuple[Step, ...]:
    pooled = Step("pooled", "p", r"\text{the state after the last row read}", "state")
    return (*recurrent_layer_steps(config.cell, config.bidirectional), pooled, SCORES)


@model(
    "recurrent",
    _recurrent_classifier_specs,
    _recurrent_classifier_steps,
    IMAGES,
    architectures={name: {"cell": cell} for name, cell in CELL_KINDS.items()},
)
def recurrent_classifier(
    parameters: RecurrentClassifierParameters,
    config: RecurrentConfig,
    images: Tensor,
    *,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Images, read row by row, in; a logit for each class out."""
    rows = images.transpose(-3, -2)
    rows = rows.reshape(*rows.shape[:-2], rows.shape[-2] * rows.shape[-1])
    states = recurrent_layer(parameters.recurrent, rows, cell=config.cell, kernels=kernels)
    pooled = states[..., -1, : config.width]
    if config.bidirectional:
        # Backwards, the row read last is the first.
        pooled = cat([pooled, states[..., 0, config.width :]], -1)
    pooled = kernels.note("pooled", pooled)
    return kernels.note("scores", kernels.linear(pooled, parameters.head.matrix, parameters.head.bias))
