"""A model as its files have it, and whether parameters fit what a config describes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from headwork.checkpoint_files import BFLOAT16
from headwork.errors import InputError, TooLarge, sizes_in_words
from headwork.mechanisms.definitions import Definition
from headwork.mechanisms.parameters import flatten
from headwork.numbers import OperationCount, ShapeTensor
from headwork.tokenizer_files import PlainTokenizer

MAX_UNSAVED_VALUES = 2**24  # numbers in tables that a config asks for and no file holds, such as sinusoids
PRECISIONS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Saved:
    """A definition with its config and its parameters, by their names in saved files, in their precision."""

    definition: Definition
    config: Any
    parameters: Mapping[str, NDArray[Any]]
    tokenizer: PlainTokenizer | None = None


def check_parameters(
    definition: Definition, config: Any, state: Mapping[str, Any], where: str | Path, advice: str = ""
) -> dict[str, Any]:
    """The parameters under their current names, if they are what the config describes."""
    current = definition.current_parameters(state)
    check_tensors(where, expected_shapes(definition, config, current, where), current, advice)
    return current


def expected_shapes(
    definition: Definition, config: Any, state: Mapping[str, Any], where: str | Path
) -> dict[str, ShapeTensor]:
    """The parameters that a file of this model holds; a config that asks for much more is refused."""
    left = sum(math.prod(value.shape) for value in state.values()) + MAX_UNSAVED_VALUES
    shapes, work = {}, OperationCount()
    for name, initial in flatten(definition.parameters(config)).items():
        count = math.prod(initial.shape)
        left -= count
        if left < 0:
            raise TooLarge(
                f"{where}: the config asks for {count:,} numbers at once, more than its file holds."
            )
        if initial.values is None:
            shapes[name] = ShapeTensor(initial.shape, work)
    return shapes


def check_tensors(
    where: str | Path, expected: Mapping[str, Any], state: Mapping[str, Any], advice: str = ""
) -> None:
    """Refuse a missing tensor, an unexpected one, or one of the wrong shape, by its name."""
    missing, unexpected = expected.keys() - state.keys(), state.keys() - expected.keys()
    for fault, names in (("is missing", missing), ("is not expected", unexpected)):
        if names:
            others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
            raise InputError(f"{where}: the tensor '{min(names)}' {fault}{others}. {advice}".rstrip())
    for name, like in expected.items():
        kind, shape = str(state[name].dtype).removeprefix("torch."), tuple(state[name].shape)
        if kind not in PRECISIONS and state[name].dtype != BFLOAT16:
            raise InputError(f"{where}: the tensor '{name}' holds {kind}, expected decimal numbers.")
        if shape != tuple(like.shape):
            raise InputError(
                f"{where}: the tensor '{name}' is {sizes_in_words(shape, '')}, expected "
                f"{sizes_in_words(like.shape, '')}. {advice}".rstrip()
            )
