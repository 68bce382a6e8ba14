"""Whole models by hand: a definition and what a person gave in, a mechanism like any other out.

Its config is its options, with small defaults; its parameters are inputs, by their paths.
"""

import inspect
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from math import prod
from typing import Any, get_type_hints

import numpy as np

from headwork.errors import TooLarge
from headwork.mechanisms.attention import Mask
from headwork.mechanisms.definitions import Definition
from headwork.mechanisms.kernels import PLAIN
from headwork.mechanisms.parameters import Spec, fill_tree, flatten_tree, parameter_cards, parameter_paths
from headwork.note import Mechanism, Note, silent
from headwork.numbers import HandTensor
from headwork.numbers.operations import as_numbers
from headwork.numbers.options import read_option
from headwork.numbers.parsing import read_tensor

MAX_DEPTH, MAX_PARAMETERS = 1000, 1_000_000
CONVENTION = "W x; feed-forward x W, as published"
DEFAULT_SIZES = {"width": 2, "heads": 1, "depth": 1, "classes": 2, "epsilon": 0}
OMITTED_FIELDS = ("backend", "dropout", "word_dropout", "ngrams")  # fields that say nothing by hand
DRAWN_RANGES = {"ones": (1, 3), "zeros": (-1, 2)}  # drawn from the first up to but not including the second


def model_as_mechanism(
    definition: Definition, arguments: Mapping[str, Any], *, exact: bool = False, seed: int | None = None
) -> tuple[Mechanism, dict[str, Any]]:
    """The model as a mechanism of the sizes that were given, and the values of its fixed or drawn parameters.

    Parameters that are not given are the identity, 0 or 1, where their cards say so, or drawn from a seed.
    """
    hints = {name: hint for name, hint in _fields(definition).items() if name not in OMITTED_FIELDS}
    defaults = _sizes(definition, arguments, exact)
    settings = {
        name: read_option(hint, arguments[name], where=f"{definition.slug}: {name}")
        for name, hint in hints.items()
        if arguments.get(name) is not None
    }
    defaults["hidden"] = settings.get("width", defaults["width"])
    fixed = {name: 0 for name in OMITTED_FIELDS if name in _fields(definition) and name != "backend"}
    config = definition.config_class(**{n: v for n, v in defaults.items() if n in hints} | fixed | settings)
    if "epsilon" in settings:  # as typed: a float would end all exactness
        with suppress(ValueError):  # of sqrt(2)/100, say
            object.__setattr__(config, "epsilon", Fraction(str(arguments["epsilon"])))
    if settings.get("depth", 1) > MAX_DEPTH:
        raise TooLarge(f"{definition.slug}: depth {settings['depth']:,}; by hand at most {MAX_DEPTH:,}.")
    template = definition.specs(config)
    if (count := sum(prod(leaf.shape) for leaf in flatten_tree(template).values())) > MAX_PARAMETERS:
        raise TooLarge(f"{definition.slug}: {count:,} parameters; by hand at most {MAX_PARAMETERS:,}.")
    leaves, parameters = flatten_tree(template), {card.name: card for card in parameter_cards(template)}
    specs = {path: leaves[name] for name, path in parameter_paths(template).items()}
    optional = {
        path
        for path, card in parameters.items()
        if "none is" in card.about and not ("identity" in card.about and len(set(specs[path].shape)) > 1)
    }
    values = {path: _fixed(leaf, exact) for path, leaf in specs.items() if leaf.constant is not None}
    if seed is not None:
        values = _drawn(specs, seed) | values
    all_none = dict.fromkeys(optional)
    types = get_type_hints(definition.function, include_extras=True)
    masks = [name for name, hint in types.items() if hint == Mask]

    def function(*, parameters: Any, note: Note = silent, **values: Any) -> Any:
        inputs = [values.get(card.name) for card in definition.inputs]
        options = {name: values[name] for name in masks if name in values}
        return definition.function(parameters, config, *inputs, kernels=PLAIN.with_note(note), **options)

    function.__doc__ = definition.function.__doc__
    Parameter, signature = inspect.Parameter, inspect.signature(definition.function).parameters
    required = [card.name for card in definition.inputs if signature[card.name].default is Parameter.empty]
    mechanism = Mechanism(
        slug=definition.slug,
        function=function,
        inputs=(*definition.inputs, *parameters.values()),
        steps=definition.steps(config),
        options={
            n: Parameter(n, Parameter.KEYWORD_ONLY, default=getattr(config, n, None))
            for n in (*hints, *masks)
        },
        option_types=hints | dict.fromkeys(masks, Mask),
        required=(*required, *(path for path in parameters if path not in optional and path not in values)),
        build_parameters=lambda trained: fill_tree(template, {**all_none, **trained}, definition.slug),
    )
    return mechanism, values


def _fields(definition: Definition) -> dict[str, Any]:
    return {n: h for n, h in get_type_hints(definition.config_class).items() if n.islower()}


def _sizes(definition: Definition, arguments: Mapping[str, Any], exact: bool) -> dict[str, Any]:
    """Small defaults, and the sizes that follow from what was given."""
    sizes: dict[str, Any] = dict(DEFAULT_SIZES)

    def read(name: str) -> Any:
        return read_tensor(arguments[name], exact=exact, where=name).array

    for path, field in (("embedding/table", "vocabulary"), ("positions/table", "max_length")):
        if arguments.get(path) is not None and read(path).ndim == 2:
            sizes[field], sizes["width"] = read(path).shape
    for card in definition.inputs:
        array: Any = read(card.name) if arguments.get(card.name) is not None else np.zeros(())
        if not array.ndim:
            continue
        if card.name == "images":
            side = array.shape[-1]
            sizes |= {"image_size": side, "channels": array.shape[-3] if array.ndim > 2 else 1}
            sizes["patch_size"] = side // 2 if side % 2 == 0 else side
        elif card.axes.endswith("width"):
            sizes["width"] = array.shape[-1]
        elif card.axes.endswith("token") and card.name != "mask":
            sizes["vocabulary"] = max(sizes.get("vocabulary", 1), int(array.max()) + 1)
            sizes["max_length"] = max(sizes.get("max_length", 1), array.shape[-1])
    return sizes


def _fixed(leaf: Spec, exact: bool) -> Any:
    assert leaf.constant is not None
    return leaf.constant(HandTensor(as_numbers(0, np.dtype(object if exact else float)))).array


def _drawn(specs: Mapping[str, Spec], seed: int) -> dict[str, Any]:
    """Small whole numbers for every parameter, so that giving one does not change the others."""
    generator = np.random.default_rng(seed)
    ranges = {path: DRAWN_RANGES.get(leaf.init, (-2, 3)) for path, leaf in specs.items()}
    return {path: generator.integers(*ranges[path], leaf.shape) for path, leaf in specs.items()}
