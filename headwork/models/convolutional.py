"""Convolutional classifiers: convolution, ReLU and pooling, again and again (LeCun et al. 1998).

For images each layer doubles the channels and halves the size; for sequences (Kim 2014, arXiv 1408.5882) the
kernel slides along the tokens, and padding stays zero, so it never counts.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from torch import Tensor, nn

from headwork.errors import InputError
from headwork.mechanisms import convolution_1d, convolution_2d, fused, max_pooling, relu
from headwork.models.layers import ClassifierHead, Layer, matrix, zeros
from headwork.models.model import IMAGES, Backend, Config, Model, check_images
from headwork.note import Note, Step, inside, silent, steps_of


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(Config):
    """``depth`` layers of 3 x 3 kernels; the first has ``width`` channels, each further one twice as many."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"image": "image_size"}

    image_size: int = 28
    channels: int = 1
    classes: int = 10
    width: int = 48
    depth: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size >> self.depth < 1:
            raise InputError(
                f"{type(self).__name__}: {self.depth} layers halve an image of side {self.image_size} "
                "to nothing. Use fewer."
            )


class Convolution(nn.Module):
    """``filters`` and ``bias``, along one axis or two, the size kept by padding; then ReLU."""

    def __init__(self, channels: int, width: int, *size: int, backend: Backend = "plain") -> None:
        super().__init__()
        self.padding, self.backend = size[0] // 2, backend
        self.filters, self.bias = matrix(width, channels, *size), zeros(width)

    def forward(self, signal: Tensor, *, note: Note = silent) -> Tensor:
        flat = self.filters.dim() == 3
        if self.backend == "fused":
            twin = fused.convolution_1d if flat else fused.convolution_2d
            return twin(signal, self.filters, self.bias, padding=self.padding).relu()
        plain = convolution_1d if flat else convolution_2d
        scoped = inside(note, "convolution")
        result: Tensor = relu(
            plain(signal, self.filters, self.bias, padding=self.padding, note=scoped), note=note
        )
        return result


class ConvolutionalClassifier(Model):
    """Images (batch, channel, height, width) in, a logit for each class out.

    >>> import torch
    >>> model = ConvolutionalClassifier(ConvolutionalConfig(width=4))
    >>> tuple(model(torch.zeros(2, 1, 28, 28)).shape)
    (2, 10)
    """

    slug, config_class, inputs = "convolutional", ConvolutionalConfig, (IMAGES,)
    task, architectures = "vision", {"cnn": {}}

    def __init__(self, config: ConvolutionalConfig) -> None:
        super().__init__(config)
        widths = [config.channels] + [config.width << k for k in range(config.depth)]
        self.blocks = nn.ModuleList(
            Convolution(a, b, 3, 3, backend=config.backend) for a, b in pairwise(widths)
        )
        self.head = ClassifierHead(widths[-1], config.classes)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (
            *steps_of(convolution_2d, scope="block */convolution"),
            Step("block */output", "F", r"\max(0, Y)", "channel output_height output_width"),
            *steps_of(max_pooling, scope="block */pooling"),
            Step("pooled", "p", r"\text{mean over all positions}", "channel"),
            Step("scores", "z", r"W p + b", "class"),
        )

    def forward(self, images: Tensor, *, note: Note = silent) -> Tensor:
        self.check_note(note)
        check_images(type(self).__name__, images, self.config.channels, self.config.image_size)
        maps = images
        for i, block in enumerate(self.blocks):
            scoped = inside(note, f"block {i}")
            maps = block(maps, note=scoped)
            if self.config.backend == "fused":
                maps = fused.max_pooling(maps, size=2)
            else:
                maps = max_pooling(maps, size=2, note=inside(scoped, "pooling"))
        pooled = note("pooled", maps.mean((-2, -1)))
        return note("scores", self.head(pooled))


class SequenceConvolution(Layer):
    """Convolutions along the tokens: vectors (batch, token, width) in, as many out. Padding stays zero."""

    def __init__(self, width: int, depth: int, *, taps: int = 5, backend: Backend = "plain") -> None:
        super().__init__()
        self.output_width = width
        self.blocks = nn.ModuleList(Convolution(width, width, taps, backend=backend) for _ in range(depth))

    @property
    def steps(self) -> tuple[Step, ...]:
        output = Step("block */output", "F", r"\max(0, Y)", "output_channel output")
        return (*steps_of(convolution_1d, scope="block */convolution"), output)

    def forward(self, vectors: Tensor, mask: Tensor | None = None, *, note: Note = silent) -> Tensor:
        real = None if mask is None else mask[:, None, :].to(vectors)
        maps = vectors.mT if real is None else vectors.mT * real
        for i, block in enumerate(self.blocks):
            maps = block(maps, note=inside(note, f"block {i}"))
            maps = maps if real is None else maps * real
        return maps.mT
