"""What every model shares: a checked config, one set of parameters for both kernels, steps that can be noted.

A model's ``forward`` takes ``note`` like a mechanism does and passes it on with a scope, so its steps have
paths such as ``block 0/attention/weights``; ``steps`` lists their cards. A fused model notes none: it raises.
"""

import copy
from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from headwork.errors import InputError, sizes_in_words, unknown
from headwork.models.registry import MODELS, Task
from headwork.note import Input, Note, Step, silent

MAX_COUNT = 2**31  # what no count of a config reaches
Backend = Literal["plain", "fused"]
AttentionKind = Literal["softmax", "linear"]

IMAGES = Input("images", "I", "batch channel height width")
VECTORS = Input("tokens", "x", "batch token width")
TOKENS = Input("tokens", "x", "batch token")
MASK = Input("mask", "m", "batch token", "1 for each token, 0 for padding")


def current_names(config_class: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config under their current names; ``OLD_NAMES`` of its class lists the earlier ones.

    >>> from headwork.models import LanguageModelConfig
    >>> current_names(LanguageModelConfig, {"longest": 9, "width": 8})
    {'max_length': 9, 'width': 8}
    """
    names = dict(ChainMap(*(getattr(base, "OLD_NAMES", {}) for base in config_class.__mro__)))
    for old, new in names.items():
        if old in fields and new in fields:
            raise InputError(
                f"{config_class.__name__}: both {old} and {new} are set; {old} is the old name of {new}. "
                "Leave it out."
            )
    return {names.get(name, name): value for name, value in fields.items()}


class ConfigMeta(type):
    """Lets a config be made with the old names of its fields."""

    def __call__(cls, **fields: Any) -> Any:
        return super().__call__(**current_names(cls, fields))


@dataclass(frozen=True, kw_only=True)
class Config(metaclass=ConfigMeta):
    """Plain fields, checked when it is made: choices by their names, counts at least 1, shares below 1."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"kernel": "backend"}
    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ()  # counts that may be 0

    backend: Backend = "plain"

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for entry in fields(self):
            value, kind = getattr(self, entry.name), hints[entry.name]
            least = 0 if entry.name in self.MAY_BE_ZERO else 1
            field = f"{type(self).__name__}: {entry.name}"
            if get_origin(kind) is Literal and value not in get_args(kind):
                raise unknown(field, value, get_args(kind))
            whole = isinstance(value, int) and not isinstance(value, bool)
            if kind is int and not (whole and least <= value < MAX_COUNT):
                most = f" and below {MAX_COUNT:,}" if whole and value >= MAX_COUNT else ""
                raise InputError(f"{field} is {value!r}. Give a whole number, at least {least}{most}.")
            if kind is bool and not isinstance(value, bool):
                raise InputError(f"{field} is {value!r}. Give true or false.")
            if kind is float and not (isinstance(value, (int, float)) and 0 <= value < 1):
                raise InputError(f"{field} is {value!r}. Give a number from 0 up to, not with, 1.")


class Model(nn.Module):
    """Parameters around mechanisms, made from a config. A subclass with a ``config_class`` is registered."""

    slug: ClassVar[str] = ""  # its short name, as in `headwork sizes model vision`
    config_class: ClassVar[type[Config]]
    inputs: ClassVar[tuple[Input, ...]] = ()  # the cards of what ``forward`` takes
    task: ClassVar[Task | None] = None  # what it classifies, if it is a classifier
    # A classifier's: the name of an architecture -> the fields of its config.
    architectures: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    OLD_PARAMETERS: ClassVar[dict[str, str]] = {}  # prefixes of parameters' names: earlier -> current

    __call__: Callable[..., Tensor]  # nn.Module itself promises nothing
    tokenizer: Any = None  # splits a text into this model's tokens, where it has one

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "config_class" in vars(cls):
            MODELS[cls.__name__] = cls

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @property
    def steps(self) -> tuple[Step, ...]:
        """The cards of what a forward pass notes; ``block *`` stands for each block."""
        raise NotImplementedError

    @property
    def parameter_count(self) -> int:
        """The number of trained numbers; shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    def with_backend(self, backend: Backend) -> Self:
        """The same parameters (not copies) under the other backend.

        >>> from headwork.models import VisionTransformer, VisionTransformerConfig
        >>> fast = VisionTransformer(VisionTransformerConfig(backend="fused"))
        >>> plain = fast.with_backend("plain")
        >>> plain.config.backend, plain.head.matrix is fast.head.matrix
        ('plain', True)
        """
        shared = {id(t): t for t in (*self.parameters(), *self.buffers())}
        twin = copy.deepcopy(self, shared)
        for part in twin.modules():
            if isinstance(part, Model):
                part.config = replace(part.config, backend=backend)
            elif hasattr(part, "backend"):
                part.backend = backend  # type: ignore[assignment]
        return twin

    @classmethod
    def current_parameters(cls, state: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters under their current names."""
        renamed = {}
        for name, value in state.items():
            old = next((old for old in cls.OLD_PARAMETERS if name.startswith(old)), "")
            renamed[cls.OLD_PARAMETERS.get(old, "") + name.removeprefix(old)] = value
        return renamed

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        return super().load_state_dict(self.current_parameters(state_dict), strict, assign)

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write config, parameters, tokenizer and manifest into a folder (``models.checkpoints``)."""
        from headwork.models.checkpoints import save_pretrained

        return save_pretrained(self, folder)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """The model of a folder, if it is one of this class."""
        from headwork.models.checkpoints import from_pretrained

        model = from_pretrained(folder)
        if not isinstance(model, cls):
            raise InputError(
                f"{folder} holds a {type(model).__name__}, not a {cls.__name__}. Ask that class for it."
            )
        return model

    def check_note(self, note: Note) -> None:
        """A fused kernel notes no steps: raise rather than record nothing."""
        if note is not silent and self.config.backend == "fused":
            raise InputError(
                f"{type(self).__name__}: a fused model keeps no steps, so there is nothing to trace. Take "
                "model.with_backend('plain'), which has the same parameters, or set backend='plain'."
            )


def check_tokens(name: str, tokens: Tensor, vocabulary: int, mask: Tensor | None = None) -> None:
    """Whole numbers, batch x token, inside the vocabulary; a mask of that shape leaves each row a token."""

    def shape(tensor: Tensor) -> str:
        return sizes_in_words(tensor.shape, TOKENS.axes)

    if tokens.dim() != 2 or tokens.is_floating_point():
        raise InputError(
            f"{name}: tokens are {shape(tokens)} of {tokens.dtype}. Give whole numbers, one row per sequence."
        )
    if 0 in tokens.shape:
        raise InputError(f"{name}: tokens are {shape(tokens)}: empty. Give at least one.")
    if mask is not None and mask.shape != tokens.shape:
        raise InputError(
            f"{name}: the mask is {shape(mask)}, the tokens are {shape(tokens)}. "
            "Give 1 for each token and 0 for padding."
        )
    # Looking at values would break a compiled graph, and numbers without storage have none.
    if torch.compiler.is_compiling() or tokens.is_meta:
        return
    if int(tokens.max()) >= vocabulary or int(tokens.min()) < 0:
        wrong = int(tokens.max()) if int(tokens.max()) >= vocabulary else int(tokens.min())
        raise InputError(f"{name}: token {wrong} is beyond the vocabulary of {vocabulary}, counted from 0.")
    if mask is not None and not bool((mask != 0).any(-1).all()):
        raise InputError(f"{name}: the mask hides every token of a sequence. Leave it at least one.")


def check_images(name: str, images: Tensor, channels: int, size: int) -> None:
    expected = f"batch x {channels} x {size} x {size} (batch, channel, height, width)"
    if images.dim() != 4 or tuple(images.shape[1:]) != (channels, size, size):
        raise InputError(
            f"{name}: images are {sizes_in_words(images.shape, IMAGES.axes)}. Expected {expected}: "
            "resize or crop them, or build the model for their size."
        )
    if images.shape[0] == 0:
        raise InputError(f"{name}: an empty batch. Expected {expected} with at least one image.")
