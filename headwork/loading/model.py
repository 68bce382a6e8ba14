"""A saved model: what its files hold, whether that fits its config, and the model itself on numpy.

On numpy it is called like the torch one, and traced down to the arithmetic of each number.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, TooLarge, format_shape
from headwork.mechanisms.definitions import IMAGES, MASK, TOKENS, Definition
from headwork.mechanisms.kernels import PLAIN
from headwork.mechanisms.parameters import flatten_tree, map_tree, parameter_paths
from headwork.model_files import BFLOAT16, half_to_float32
from headwork.note import RUN_KEYWORDS, Note
from headwork.numbers import HandTensor, OperationCount, ShapeTensor
from headwork.tokenizer_files import PythonTokenizer

MAX_UNSAVED_VALUES = 2**24  # numbers in tables that a config asks for and no file holds, such as sinusoids
MAX_STEP_VALUES = 12_000_000  # numbers in one step on one image; plain kernels hold several such at once
MAX_PASS_VALUES = 250_000_000  # in all steps together
# Of a file of so many bytes, inspection works out so many numbers: 5 s. As long as one takes so many
# multiply-adds; the overhead of a head and of a block take as long as so many numbers.
SMALL_FILE, MAX_WORK, MULTIPLY_ADDS, HEAD_VALUES, BLOCK_VALUES = 10**7, 2_500_000_000, 160, 3_000_000, 300_000
PRECISIONS = ("float16", "bfloat16", "float32", "float64")
INTERNAL = ("parameters", "config", "ngrams", "kept_positions", "start", *RUN_KEYWORDS)  # never given


@dataclass(frozen=True)
class SavedModel:
    """A definition with its config and its parameters, by their names in saved files, in their precision."""

    definition: Definition
    config: Any
    parameters: Mapping[str, NDArray[Any]]
    tokenizer: PythonTokenizer | None = None

    def fast(self) -> "SavedModel":
        """With fused kernels for plain ones and single precision for half, which takes 20 times as long."""
        config = replace(self.config, backend="fused") if self.config.backend == "plain" else self.config
        arrays = {name: half_to_float32(values) for name, values in self.parameters.items()}
        return replace(self, config=config, parameters=arrays)


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
    count_step_values(definition, config, where)
    return shapes


def count_step_values(
    definition: Definition, config: Any, where: str | Path, work: OperationCount | None = None
) -> int:
    """The numbers in all steps on one image; a model that would fill the memory is refused.

    >>> from headwork.mechanisms.definitions import find_definition
    >>> vision = find_definition("vision")
    >>> config = vision.config_class(image_size=8, width=4, heads=1, depth=1, hidden=4)
    >>> count_step_values(vision, config, "a run")
    650
    """
    if IMAGES not in definition.inputs:
        return 0
    work, total = work or OperationCount(), 0

    def note(name: str, value: Any, /) -> Any:
        nonlocal total
        total += (count := math.prod(value.shape))
        if count > MAX_STEP_VALUES or total > MAX_PASS_VALUES:
            raise TooLarge(
                f"{where}: on an image of side {config.image_size:,} the step '{name}' is {count:,} numbers, "
                f"{total:,} with those before; at most {MAX_STEP_VALUES:,} and {MAX_PASS_VALUES:,} are "
                "taken. Take smaller images (image_size), or larger patches (model.patch_size)."
            )
        return value

    images = note("images", ShapeTensor((1, config.channels, *[config.image_size] * 2), work))
    tree = map_tree(lambda _, spec: ShapeTensor(spec.shape, work), definition.specs(config))
    definition.function(tree, config, images, kernels=PLAIN.with_note(note))
    return total


def check_work(saved: SavedModel, where: str | Path, parts: int) -> None:
    """Refuse a small file that takes long to look into: passes without each part and each head."""
    file_bytes = sum(values.nbytes for values in saved.parameters.values())
    heads, depth = (getattr(saved.config, name, 0) for name in ("heads", "depth"))
    layers, count = depth if heads else 0, OperationCount()
    values = count_step_values(saved.definition, saved.config, where, count)
    values += count.multiply_adds // MULTIPLY_ADDS
    passes = 450 + parts + 2 * layers * heads  # without a head by the plain kernels, which take twice as long
    work = passes * values + layers * heads * HEAD_VALUES + layers**2 * BLOCK_VALUES
    if work > MAX_WORK and file_bytes <= SMALL_FILE:
        raise TooLarge(
            f"{where}: to look into it takes {work:,} numbers; of so small a file at most {MAX_WORK:,} are "
            "worked out. Give it fewer blocks (depth) or heads, smaller images, or larger patches."
        )


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
        arrays = saved.fast().parameters
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
        token_inputs = {name for name, axes in cards.items() if axes == TOKENS.axes} - {MASK.name}

        def tensor(name: str, value: Any) -> Any:
            try:
                array = value.array if isinstance(value, HandTensor) else np.asarray(value)
                integer = name in token_inputs and array.dtype.kind in "iu"  # decimals are refused later
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
        body: Callable[..., HandTensor] = self.definition.function
        return body(self.tree, self.config, **named, **hashed, kernels=PLAIN.with_note(note))


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
    powers: NDArray[np.float64] = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    powers /= powers.sum(-1, keepdims=True)
    return powers
