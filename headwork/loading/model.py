"""A saved model: what its files hold, whether that fits its config, and the model itself on numpy.

On numpy it is called like the torch one, and traced down to the arithmetic of each number.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.checkpoint_files import BFLOAT16, half_to_float32
from headwork.errors import InputError, TooLarge, format_shape
from headwork.mechanisms.definitions import MASK, TOKENS, Definition
from headwork.mechanisms.kernels import PLAIN
from headwork.mechanisms.parameters import flatten_tree, map_tree, parameter_paths
from headwork.note import RUN_KEYWORDS, Note
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.tokenizer_files import PythonTokenizer

MAX_UNSAVED_VALUES = 2**24  # numbers in tables that a config asks for and no file holds, such as sinusoids
PRECISIONS = ("float16", "bfloat16", "float32", "float64")
INTERNAL = ("parameters", "config", "ngrams", "kept_positions", "start", *RUN_KEYWORDS)  # never given


@dataclass(frozen=True)
class SavedModel:
    """A definition with its config and its parameters, by their names in saved files, in their precision."""

    definition: Definition
    config: Any
    parameters: Mapping[str, NDArray[Any]]
    tokenizer: PythonTokenizer | None = None


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
    remaining = sum(math.prod(value.shape) for value in state.values()) + MAX_UNSAVED_VALUES
    shapes, work = {}, OperationCount()
    for name, spec in flatten_tree(definition.specs(config)).items():
        count = math.prod(spec.shape)
        remaining -= count
        if remaining < 0:
            raise TooLarge(
                f"{where}: the config asks for {count:,} numbers at once, more than its file holds."
            )
        if spec.constant is None:
            shapes[name] = ShapeTensor(spec.shape, work)
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
                f"{where}: the tensor '{name}' is {format_shape(shape, '')}, expected "
                f"{format_shape(like.shape, '')}. {advice}".rstrip()
            )


# --- on numpy -------------------------------------------------------------------------------------
def discard_history(name: str, value: Any, /) -> Any:
    """The note of a plain call: nobody asks how a value came about, so its operands can go."""
    return HandTensor(value.array)


def bind_inputs(
    where: str, kind: str, names: Sequence[str], inputs: Sequence[Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Inputs by the names of what a model takes; those that are None are left out."""
    listed = ", ".join(names)
    if len(inputs) > len(names):
        raise InputError(f"{where}: {len(inputs)} inputs, but {kind} takes {listed}.")
    named = {**dict(zip(names, inputs, strict=False)), **more}
    for name in named:
        if name not in names:
            raise InputError(f"{where}: {kind} takes no '{name}'. It takes {listed}.")
    return {name: value for name, value in named.items() if value is not None}


class NumpyModel:
    """A definition with numbers: arrays in, an array out; ``headwork.trace`` shows what is between.

    It runs in single precision (a model saved in double, in that), without dropout, by the plain kernels.
    """

    def __init__(self, saved: SavedModel) -> None:
        self.definition, self.config, self.tokenizer = saved.definition, saved.config, saved.tokenizer
        arrays = {name: half_to_float32(values) for name, values in saved.parameters.items()}
        self.dtype = np.result_type(*arrays.values())
        template = self.definition.specs(self.config)
        labels = parameter_paths(template)

        def filled(name: str, spec: Any) -> HandTensor:
            values = arrays.get(name)
            if values is None:  # a table that no file holds
                values = spec.constant(HandTensor(np.zeros(()))).array
            return HandTensor(values.astype(self.dtype, copy=False), label=labels[name])

        self.tree = map_tree(filled, template)

    @property
    def parameters(self) -> dict[str, NDArray[Any]]:
        """Every parameter by its path, as the arithmetic of a cell names it."""
        return {leaf.label: leaf.array for leaf in flatten_tree(self.tree).values()}

    @property
    def input_names(self) -> list[str]:
        return [name for name in signature(self.definition.function).parameters if name not in INTERNAL]

    def __call__(self, *inputs: Any, **more: Any) -> NDArray[Any]:
        name = self.definition.name
        named = bind_inputs(name, name, self.input_names, inputs, more)
        return self.run(self.tensors(named), discard_history).array

    def tensors(self, named: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs as the body takes them: the numbers of tokens are whole, all others decimals."""
        for parameter in signature(self.definition.function).parameters.values():
            if parameter.default is parameter.empty and parameter.name not in (*INTERNAL, *named):
                raise InputError(f"{self.definition.name}: no {parameter.name}. Give an array.")
        cards = {card.name: card.axes for card in self.definition.inputs}
        numbers = {name for name, axes in cards.items() if axes == TOKENS.axes} - {MASK.name}

        def tensor(name: str, value: Any) -> Any:
            try:
                array = value.array if isinstance(value, HandTensor) else np.asarray(value)
                integer = name in numbers and array.dtype.kind in "iu"  # decimals are refused later, in words
                return HandTensor(array.astype(np.int64 if integer else self.dtype), label=name)
            except (TypeError, ValueError):
                raise InputError(f"{self.definition.name}: {name} is not an array of numbers.") from None

        # A mask of attention may be a word.
        return {n: v if isinstance(v, str) and n not in cards else tensor(n, v) for n, v in named.items()}

    def run(self, named: Mapping[str, Any], note: Note) -> HandTensor:
        """The body of the definition on these tensors."""
        arrays = [named[c.name].array if c.name in named else None for c in self.definition.inputs]
        self.definition.check(self.definition.name, self.config, *arrays)
        hashed = {
            name: tuple(map(HandTensor, pair))
            for name, pair in self.definition.derived_inputs(self.config, *arrays).items()
        }
        kernels = PLAIN.with_note(note)
        result: HandTensor = self.definition.function(
            self.tree, self.config, **named, **hashed, kernels=kernels
        )
        return result


def probabilities_of(logits: NDArray[Any], names: Sequence[object]) -> NDArray[np.float64]:
    """The probabilities of the classes; logits that are not finite are refused by the name of the example.

    >>> probabilities_of(np.array([[0.0, 0.0]]), ["a"]).tolist()
    [[0.5, 0.5]]
    """
    bad = ~np.isfinite(logits).all(-1)
    if bad.any():
        raise InputError(
            f"{names[int(bad.argmax())]}: the model's logits are not finite. Its weights are too large for "
            "numbers of this precision: train it again, with a lower learning rate."
        )
    powers = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    rows: NDArray[np.float64] = powers / powers.sum(-1, keepdims=True)
    return rows
