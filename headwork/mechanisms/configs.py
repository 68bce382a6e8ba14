"""Configs of models: frozen, keyword-only, checked when they are made; nothing here needs torch."""

import math
import operator
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, get_type_hints

from headwork.errors import InputError, check_all_known, check_known
from headwork.mechanisms.attention import check_heads
from headwork.mechanisms.feedforward import Activation
from headwork.mechanisms.kernels import AttentionKind, CellKind
from headwork.mechanisms.layers import NormalisationPlacement
from headwork.numbers.options import literal_choices

MAX_COUNT = 2**31  # what no count of a config reaches
Backend = Literal["plain", "fused", "native"]  # native: fused, with blocks in C++ where they fit
PositionKind = Literal["learned", "sinusoidal"]


# Bounds of numbers. A field without bounds of its own is a count if it is an int, a fraction if a float.
COMPARISONS = {"at least": operator.ge, "above": operator.gt, "below": operator.lt, "at most": operator.le}
COUNT, FRACTION = {"at least": 1, "below": MAX_COUNT}, {"at least": 0, "below": 1}


def with_current_names(config_class: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config under their current names; ``OLD_NAMES`` of its class lists the earlier ones.

    >>> from headwork.mechanisms.configs import LanguageModelConfig
    >>> with_current_names(LanguageModelConfig, {"longest": 9, "width": 8})
    {'max_length': 9, 'width': 8}
    """
    names = dict(ChainMap(*(getattr(base, "OLD_NAMES", {}) for base in config_class.__mro__)))
    for old, new in names.items():
        if old in fields and new in fields:
            raise InputError(
                f"{config_class.__name__}: both {old} and {new} are set; "
                f"{old} is the old name of {new}. Leave it out."
            )
    return {names.get(name, name): value for name, value in fields.items()}


def checked_settings(config_class: type, data: Mapping[str, Any], what: str = "field") -> dict[str, Any]:
    """The fields of a config under their current names; one that is unknown is refused by its name."""
    settings = with_current_names(config_class, data)
    check_all_known(what, settings, [entry.name for entry in fields(config_class)])
    return settings


class ConfigMeta(type):
    """Lets a config be made with the old names of its fields."""

    def __call__(cls, **fields: Any) -> Any:
        return super().__call__(**with_current_names(cls, fields))


def bounded(default: float, **bounds: float) -> Any:
    """A field with its bounds, such as ``at_least=1, below=9``; a whole number where its type is int."""
    return field(default=default, metadata={word.replace("_", " "): bound for word, bound in bounds.items()})


def check_fields(config: Any, where: str) -> None:
    """Refuse a field that is not of its type, not one of its choices, or not within its bounds.

    A whole number without bounds of its own is a count, another number a fraction.
    """
    hints = get_type_hints(type(config))
    for entry in fields(config):
        value, hint, name = getattr(config, entry.name), hints[entry.name], f"{where}: {entry.name}"
        if hint in (int, float):
            bounds = entry.metadata or (COUNT if hint is int else FRACTION)
            is_number = isinstance(value, (int, hint)) and not isinstance(value, bool) and value < math.inf
            if not is_number or not all(COMPARISONS[word](value, bound) for word, bound in bounds.items()):
                kind = "a whole number" if hint is int else "a number"
                limits = " and ".join(f"{word} {bound:,}" for word, bound in bounds.items())
                raise InputError(f"{name} is {value!r}. Give {kind}, {limits}.")
        elif isinstance(hint, type) and not isinstance(value, hint):
            type_names = {str: "text", bool: "true or false"}
            raise InputError(f"{name} is {value!r}. Expected {type_names.get(hint, hint.__name__)}.")
        elif choices := literal_choices(hint):
            check_known(name, value, choices)


@dataclass(frozen=True, kw_only=True)
class Config(metaclass=ConfigMeta):
    """Plain fields, checked when it is made."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"kernel": "backend"}

    backend: Backend = "plain"

    def __post_init__(self) -> None:
        check_fields(self, type(self).__name__)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """A stack of blocks. ``final_normalisation`` None: one with "pre" normalisation, none with "post"."""

    width: int = 512
    hidden: int = 2048
    heads: int = 8
    depth: int = 6
    normalisation: NormalisationPlacement = "post"
    final_normalisation: bool | None = None
    activation: Activation = "relu"
    attention: AttentionKind = "softmax"
    dropout: float = 0.1
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_heads(type(self).__name__, self.width, self.heads)

    @property
    def ends_normalised(self) -> bool:
        return self.normalisation == "pre" if self.final_normalisation is None else self.final_normalisation


@dataclass(frozen=True, kw_only=True)
class EncoderDecoderConfig(TransformerConfig):
    """``depth`` blocks on either side; source, target and output share the vocabulary."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}

    vocabulary: int = 37000
    max_length: int = 1024


@dataclass(frozen=True, kw_only=True)
class TokensConfig(TransformerConfig):
    """A stack over the tokens of a vocabulary."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}

    vocabulary: int = 256
    max_length: int = 256
    positions: PositionKind = "learned"
    width: int = 128
    heads: int = 4
    normalisation: NormalisationPlacement = "pre"
    activation: Activation = "gelu"


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(TokensConfig):
    """A causal stack, its output sharing the embedding."""

    hidden: int = 512
    depth: int = 4


@dataclass(frozen=True, kw_only=True)
class VisionTransformerConfig(TransformerConfig):
    """Square images of side ``image_size``, cut into patches of side ``patch_size``."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"image": "image_size", "patch": "patch_size"}

    image_size: int = 28
    channels: int = 1
    patch_size: int = 4
    classes: int = 10
    pooling: Literal["class token", "mean"] = "class token"
    positions: PositionKind = "learned"
    width: int = 64
    hidden: int = 128
    heads: int = 4
    normalisation: NormalisationPlacement = "pre"
    activation: Activation = "gelu"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size % self.patch_size:
            raise InputError(
                f"{type(self).__name__}: an image of side {self.image_size} cannot be cut "
                f"into patches of side {self.patch_size}. Choose a patch_size that divides {self.image_size}."
            )

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2


@dataclass(frozen=True, kw_only=True)
class TextEncoderConfig(TokensConfig):
    """``token_types`` 0 is none."""

    max_length: int = 512
    embedding_normalisation: bool = False
    token_types: int = bounded(0, at_least=0, below=MAX_COUNT)
    hidden: int = 256
    depth: int = 2


@dataclass(frozen=True, kw_only=True)
class TextClassifierConfig(TextEncoderConfig):
    """``hidden``, ``heads`` and what else shapes a transformer count only where the encoder is one.

    ``word_dropout`` is the share of tokens left out in training, drawn anew for each batch; ``ngrams`` is the
    number of rows in the table of n-grams, 0 is none.
    """

    OLD_NAMES: ClassVar[dict[str, str]] = {"phrases": "ngrams"}

    # "plain" is the vanilla (Elman) RNN.
    encoder: Literal["transformer", "plain", "lstm", "gru", "convolution"] = "transformer"
    bidirectional: bool = False
    classes: int = 2
    pooling: Literal["mean", "first"] = "mean"
    word_dropout: float = 0.0
    ngrams: int = bounded(0, at_least=0, below=MAX_COUNT)


@dataclass(frozen=True, kw_only=True)
class ImageConfig(Config):
    """Square images of side ``image_size``."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"image": "image_size"}

    image_size: int = 28
    channels: int = 1
    classes: int = 10


@dataclass(frozen=True, kw_only=True)
class ConvolutionalConfig(ImageConfig):
    """``depth`` layers of 3 x 3 kernels; the first has ``width`` channels, each further one twice as many."""

    width: int = 48
    depth: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size >> self.depth < 1:
            raise InputError(
                f"{type(self).__name__}: {self.depth} layers halve an image of side {self.image_size} "
                "to nothing. Use fewer."
            )


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ImageConfig):
    """``width`` states in each direction."""

    cell: CellKind = "lstm"
    bidirectional: bool = False
    width: int = 200
