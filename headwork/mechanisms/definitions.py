"""The registry of whole models: what each is a function of, without torch.

A definition is the body of a model beside its config, its parameters, its inputs and the cards of its steps.
Everything that lists models reads it: the nn.Modules of ``headwork.models``, ledgers, recipes, the tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headwork.errors import InputError, check_known, format_shape
from headwork.mechanisms.configs import Config
from headwork.note import Input, Step

Modality = Literal["vision", "text"]
Tensor = Any

IMAGES = Input("images", "I", "batch channel height width")
VECTORS = Input("tokens", "X", "batch token width")
TOKENS = Input("tokens", "x", "batch token")
MASK = Input("mask", "m", "batch token", "1 for each token, 0 for padding")
Check = Callable[..., None]  # (name of the model, config, *inputs, check_values=whether they may be read)


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A whole model. ``function(parameters, config, *inputs, kernels=)`` is its body."""

    name: str  # as saved folders have it
    slug: str  # its short name, as in `headwork sizes model vision`
    config_class: type[Any]
    function: Callable[..., Any]
    specs: Callable[[Any], Any]  # a config -> its tree of ``Spec``
    steps: Callable[[Any], tuple[Step, ...]]  # a config -> the cards of its steps; ``block *`` is each block
    inputs: tuple[Input, ...]
    # A classifier's: the name of an architecture -> the fields of its config.
    architectures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    old_parameters: Mapping[str, str] = field(default_factory=dict)  # prefixes of names: earlier -> current
    check: Check  # refuses inputs that do not fit
    # Further inputs computed from config and inputs, such as hashed n-grams.
    derived_inputs: Callable[..., Mapping[str, Any]] = lambda config, *inputs: {}

    @property
    def task(self) -> Modality | None:
        """What it classifies, if it is a classifier."""
        return None if not self.architectures else "vision" if IMAGES in self.inputs else "text"

    def current_parameters(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a file under their current names."""
        names, renamed = self.old_parameters, {}
        for name, value in state.items():
            old = next((old for old in names if name.startswith(old)), "")
            renamed[names.get(old, "") + name.removeprefix(old)] = value
        return renamed


DEFINITIONS: dict[str, Definition] = {}  # by name


def model(slug: str, specs: Any, steps: Any, *inputs: Input, **more: Any) -> Callable[[Any], Any]:
    """Register the body of a model, beside what it needs, and return it unchanged.

    The function says the rest: ``vision_transformer`` is a VisionTransformer, of the config that it takes.
    What refuses its inputs follows from the first of them, unless another ``check`` is given.
    """

    def register(function: Any) -> Any:
        name, config_class = function.__name__.title().replace("_", ""), function.__annotations__["config"]
        check = {IMAGES: check_images, VECTORS: check_vectors}.get(inputs[0], check_tokens)
        arguments: dict[str, Any] = {"config_class": config_class, "specs": specs, "steps": steps}
        arguments |= {"slug": slug, "inputs": inputs, "check": check, **more}
        DEFINITIONS[name] = Definition(name=name, function=function, **arguments)
        return function

    return register


def find_definition(slug: str) -> Definition:
    """The model of a short name, such as ``vision``.

    >>> find_definition("vision").name
    'VisionTransformer'
    """
    known = {entry.slug: entry for entry in DEFINITIONS.values() if entry.slug}
    check_known("model", slug, known)
    return known[slug]


def _classifiers(task: Modality | None = None) -> list[Definition]:
    return [entry for entry in DEFINITIONS.values() if entry.task and task in (None, entry.task)]


def classifier_definition(config: Config) -> Definition:
    """The classifier that such a config is for."""
    return next(entry for entry in _classifiers() if entry.config_class is type(config))


def classifier_configs() -> dict[str, type[Config]]:
    """The configs of all classifiers by their names, as saved runs have them."""
    return {entry.config_class.__name__: entry.config_class for entry in _classifiers()}


def classifier_config(task: Modality, architecture: str, **fields: Any) -> Config:
    """The config of a classifier of images (``vision``) or of texts by the name of its architecture.

    >>> classifier_config("vision", "gru", width=8).cell
    'gru'
    """
    known = {name: entry for entry in _classifiers(task) for name in entry.architectures}
    check_known({"vision": "image model", "text": "text model"}[task], architecture, known)
    entry = known[architecture]
    config: Config = entry.config_class(**{**entry.architectures[architecture], **fields})
    return config


# --- inputs that fit --------------------------------------------------------------------------------
def check_tokens(
    name: str, config: Any, tokens: Tensor, mask: Tensor = None, *others: Tensor, check_values: bool = True
) -> None:
    """Whole numbers, batch x token, inside the vocabulary; a mask of that shape leaves each row a token."""

    shape = format_shape(tokens.shape, TOKENS.axes)
    integers = not (tokens.is_floating_point() if hasattr(tokens, "is_meta") else tokens.dtype.kind == "f")
    if len(tokens.shape) != 2 or not integers:
        raise InputError(
            f"{name}: tokens are {shape} of {tokens.dtype}. Give whole numbers, one row per sequence."
        )
    if 0 in tokens.shape:
        raise InputError(f"{name}: tokens are {shape}: empty. Give at least one.")
    if mask is not None and mask.shape != tokens.shape:
        mask_shape = format_shape(mask.shape, TOKENS.axes)
        raise InputError(
            f"{name}: the mask is {mask_shape}, the tokens are {shape}. "
            "Give 1 for each token and 0 for padding."
        )
    if not check_values:
        return
    smallest, largest = int(tokens.min()), int(tokens.max())
    if smallest < 0 or largest >= config.vocabulary:
        wrong = largest if largest >= config.vocabulary else smallest
        raise InputError(
            f"{name}: token {wrong} is beyond the vocabulary of {config.vocabulary}, counted from 0."
        )
    if mask is not None and not bool((mask != 0).any(-1).all()):
        raise InputError(f"{name}: the mask hides every token of a sequence. Leave it at least one.")
    recurrent = getattr(config, "encoder", "") in ("plain", "lstm", "gru")
    if recurrent and mask is not None and bool(((mask[:, 1:] != 0) & (mask[:, :-1] == 0)).any()):
        raise InputError(
            "a recurrent model reads from left to right: put the padding after the tokens, not before."
        )


def check_images(name: str, config: Any, images: Tensor, *, check_values: bool = True) -> None:
    channels, size = config.channels, config.image_size
    if len(images.shape) != 4 or tuple(images.shape[1:]) != (channels, size, size):
        shape = format_shape(images.shape, IMAGES.axes)
        raise InputError(
            f"{name}: images are {shape}. Expected batch x {channels} x {size} x {size} "
            "(batch, channel, height, width): resize or crop them, or build the model for their size."
        )
    if images.shape[0] == 0:
        raise InputError(
            f"{name}: an empty batch. Expected batch x {channels} x {size} x {size} "
            "(batch, channel, height, width) with at least one image."
        )


def check_vectors(name: str, config: Any, *vectors: Tensor, check_values: bool = True) -> None:
    for tokens in vectors:
        if len(tokens.shape) != 3 or tokens.shape[-1] != config.width or 0 in tokens.shape:
            shape = format_shape(tokens.shape, VECTORS.axes)
            raise InputError(
                f"{type(config).__name__}: tokens are {shape}. "
                f"Expected batch x token x {config.width}, none of them empty."
            )
