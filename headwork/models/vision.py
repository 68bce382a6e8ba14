"""The vision transformer: an image as patches, each a token (Dosovitskiy et al. 2020, arXiv 2010.11929).

The patch embedding is a convolution whose stride is its kernel size. The defaults are a small model for
28 x 28 images: patches of 4 x 4, 6 layers, 4 heads.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from headwork.errors import InputError
from headwork.mechanisms import convolution_2d, fused, learned_positions, sinusoidal_positions_2d
from headwork.mechanisms.feedforward import Activation
from headwork.mechanisms.layers import Placement
from headwork.models.layers import ClassifierHead, PositionKind, Positions, matrix, zeros
from headwork.models.model import IMAGES, Model, check_images
from headwork.models.transformer import Encoder, TransformerConfig
from headwork.note import Note, Step, inside, silent, steps_of

Pooling = Literal["class token", "mean"]


@dataclass(frozen=True, kw_only=True)
class VisionTransformerConfig(TransformerConfig):
    """Square images of side ``image_size``, cut into patches of side ``patch_size``."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"image": "image_size", "patch": "patch_size"}

    image_size: int = 28
    channels: int = 1
    patch_size: int = 4
    classes: int = 10
    pooling: Pooling = "class token"
    positions: PositionKind = "learned"
    width: int = 64
    hidden: int = 128
    heads: int = 4
    normalisation: Placement = "pre"
    activation: Activation = "gelu"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size % self.patch_size:
            raise InputError(
                f"{type(self).__name__}: an image of side {self.image_size} cannot be cut into patches of "
                f"side {self.patch_size}. Choose a patch_size that divides {self.image_size}."
            )

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


class PatchEmbedding(nn.Module):
    """One token per patch: a convolution (``filters``, ``bias``) whose stride is its size."""

    def __init__(self, config: VisionTransformerConfig) -> None:
        super().__init__()
        self.size, self.backend = config.patch_size, config.backend
        flat = matrix(config.width, config.channels * self.size**2)
        self.filters = nn.Parameter(flat.detach().reshape(-1, config.channels, self.size, self.size))
        self.bias = zeros(config.width)

    def forward(self, images: Tensor, *, note: Note = silent) -> Tensor:
        if self.backend == "fused":
            return fused.patch_embedding(images, self.filters, self.bias)
        scoped = inside(note, "convolution")
        maps = convolution_2d(images, self.filters, self.bias, stride=self.size, note=scoped)
        tokens: Tensor = note("tokens", maps.reshape(*maps.shape[:-2], -1).mT)
        return tokens


class VisionTransformer(Model):
    """Images (batch, channel, height, width) in, a logit for each class out.

    >>> model = VisionTransformer(VisionTransformerConfig())
    >>> tuple(model(torch.zeros(2, 1, 28, 28)).shape), model.parameter_count
    ((2, 10), 205962)
    """

    slug, config_class, inputs = "vision", VisionTransformerConfig, (IMAGES,)
    task, architectures = "vision", {"transformer": {}}

    def __init__(self, config: VisionTransformerConfig) -> None:
        super().__init__(config)
        self.patch_embedding = PatchEmbedding(config)
        first = config.pooling == "class token"
        self.class_token = nn.Parameter(0.02 * torch.randn(config.width)) if first else None
        self.positions = ImagePositions(config)
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = Encoder(config)
        self.head = ClassifierHead(config.width, config.classes)

    @property
    def steps(self) -> tuple[Step, ...]:
        return (
            *steps_of(convolution_2d, scope="patch embedding/convolution"),
            Step("patch embedding/tokens", "X", r"\text{one row per patch}", "patch width"),
            *steps_of(learned_positions, scope="positions"),
            *self.transformer.steps,
            Step("pooled", "p", r"\text{the class token, or the mean of all}", "width"),
            Step("scores", "z", r"W p + b", "class"),
        )

    def forward(self, images: Tensor, *, note: Note = silent) -> Tensor:
        self.check_note(note)
        check_images(type(self).__name__, images, self.config.channels, self.config.image_size)
        tokens = self.patch_embedding(images, note=inside(note, "patch embedding"))
        if self.class_token is not None:
            tokens = torch.cat([self.class_token.expand(tokens.shape[0], 1, -1), tokens], 1)
        tokens = self.dropout(self.positions(tokens, note=inside(note, "positions")))
        only_class = self.class_token is not None and self.config.backend == "fused"
        tokens = self.transformer(tokens, num_outputs=1 if only_class else None, note=note)
        pooled = note("pooled", tokens.mean(1) if self.class_token is None else tokens[:, 0])
        return note("scores", self.head(pooled))


class ImagePositions(Positions):
    """Adds to each patch the row of its position: a learned ``table``, or sinusoids of its row and column."""

    def __init__(self, config: VisionTransformerConfig) -> None:
        class_token = int(config.pooling == "class token")
        super().__init__(config.positions, class_token + config.patches, config.width)
        if config.positions == "sinusoidal":
            side = torch.arange(config.image_size // config.patch_size, dtype=torch.float64)
            grid = sinusoidal_positions_2d(side, side, width=config.width).to(torch.get_default_dtype())
            # The class token has no position.
            self.table = torch.cat([grid.new_zeros(class_token, config.width), grid])
