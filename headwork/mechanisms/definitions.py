"""The registry of whole models: what each is a function of, without torch.

A definition is the body of a model beside its config, its parameters, its inputs and the cards of its steps.
Everything that lists models reads it: the nn.Modules of ``headwork.models``, ledgers, recipes, the tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headwork.errors import unknown
from headwork.mechanisms.configs import Config
from headwork.note import Input, Step

Task = Literal["vision", "text"]

IMAGES = Input("images", "I", "batch channel height width")
VECTORS = Input("tokens", "x", "batch token width")
TOKENS = Input("tokens", "x", "batch token")
MASK = Input("mask", "m", "batch token", "1 for each token, 0 for padding")


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A whole model. ``function(parameters, config, *inputs, note=, drop=, kernels=)`` is its body."""

    name: str  # as saved folders have it
    slug: str  # its short name, as in `headwork sizes model vision`
    config_class: type[Any]
    function: Callable[..., Any]
    parameters: Callable[[Any], Any]  # a config -> its tree of ``Initial``
    steps: Callable[[Any], tuple[Step, ...]]  # a config -> the cards of its steps; ``block *`` is each block
    inputs: tuple[Input, ...]
    task: Task | None = None  # what it classifies, if it is a classifier
    # A classifier's: the name of an architecture -> the fields of its config.
    architectures: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    old_parameters: Mapping[str, str] = field(default_factory=dict)  # prefixes of names: earlier -> current


DEFINITIONS: dict[str, Definition] = {}  # by name


def model(
    name: str, slug: str, config_class: type[Config], parameters: Any, steps: Any, *inputs: Input, **more: Any
) -> Callable[[Any], Any]:
    """Register the body of a model, beside what it needs, and return it unchanged."""

    def register(function: Any) -> Any:
        entries: dict[str, Any] = {"parameters": parameters, "steps": steps, "inputs": inputs, **more}
        DEFINITIONS[name] = Definition(
            name=name, slug=slug, config_class=config_class, function=function, **entries
        )
        return function

    return register


def find_definition(slug: str) -> Definition:
    """The model of a short name, such as ``vision``.

    >>> find_definition("vision").name
    'VisionTransformer'
    """
    known = {entry.slug: entry for entry in DEFINITIONS.values() if entry.slug}
    if slug not in known:
        raise unknown("model", slug, known)
    return known[slug]


def _classifiers(task: Task | None = None) -> list[Definition]:
    return [entry for entry in DEFINITIONS.values() if entry.task and task in (None, entry.task)]


def classifier_configs() -> dict[str, type[Config]]:
    """The configs of all classifiers by their names, as saved runs have them."""
    return {entry.config_class.__name__: entry.config_class for entry in _classifiers()}


def classifier_config(task: Task, architecture: str, **fields: Any) -> Config:
    """The config of a classifier of images (``vision``) or of texts by the name of its architecture.

    >>> classifier_config("vision", "gru", width=8).cell
    'gru'
    """
    settings = {
        name: (entry, own) for entry in _classifiers(task) for name, own in entry.architectures.items()
    }
    if architecture not in settings:
        raise unknown({"vision": "image model", "text": "text model"}[task], architecture, settings)
    entry, own = settings[architecture]
    config: Config = entry.config_class(**{**own, **fields})
    return config
