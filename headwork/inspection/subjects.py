"""A model on one input whose parts, patches or tokens, can be hidden: what relevance and views need to know.

A saved model runs on torch where that is installed, since it is faster there and knows gradients, else on
numpy. A hidden patch is the mean of the training images; a hidden token is masked, or replaced where a model
knows no mask.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, sizes_in_words
from headwork.inspection.tracing import evaluating, recorded
from headwork.loading import LoadedModel, Saved
from headwork.loading.model import probabilities_of
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from headwork.models import Model

Array = NDArray[Any]
CHUNK = 64  # inputs at once
WEIGHTS = "/attention/weights"


@dataclass(frozen=True)
class Layer:
    """The weights of one attention on one input, and the gradient of the score where it is known."""

    path: str
    weights: Array  # head, query, key
    gradient: Array | None = None


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model on one input.

    ``run`` gives the outputs (case, number) with parts hidden (case, part): logits of ``classes``, or without
    those a vector that is compared with that of the whole input. ``attend`` gives the layers, with the
    gradient of an output where it is asked for and can be had. ``without_heads`` gives the outputs (case,
    number) without each head of one layer.
    """

    name: str
    labels: tuple[str, ...]  # of every token
    parts: tuple[int, ...]  # the tokens that can be hidden
    run: Callable[[Array], Array]
    attend: Callable[[int | None], list[Layer]]
    hidden_as: str
    classes: tuple[str, ...] = ()
    output_token: str = "first"  # read at: the first token, the last, their mean; or by gradient
    grid: tuple[int, int] | None = None
    pixels: Array | None = None  # bytes: channel, height, width
    without_heads: Callable[[str, int], Array] | None = None
    remarks: tuple[str, ...] = ()
    target: int | None = None  # the class to explain; None for the most probable one
    positions: Array | None = None  # how alike learned positions are (token, token)
    inputs: Mapping[str, Array] | None = None  # what the model takes, where it is one of ours
    others: tuple[list[Layer], ...] = ()  # the layers on further inputs, for the roles of heads
    truth: str = ""  # the true class, where it is known

    @cached_property
    def output(self) -> Array:
        return np.asarray(self.run(np.zeros((1, len(self.parts)), bool))[0])

    @cached_property
    def probabilities(self) -> Array:
        """Of the classes, on the whole input."""
        return np.asarray(probabilities_of(self.output[None], [self.name])[0])

    @cached_property
    def explained(self) -> int | None:
        """The number of the class that is explained."""
        if not self.classes or self.target is not None:
            return self.target
        return int(self.probabilities.argmax())

    @cached_property
    def layers(self) -> list[Layer]:
        return self.attend(self.explained)

    def scores(self, hidden: Array) -> Array:
        """The probability of the class that is explained, or how alike the vector stays (case)."""
        chunks = [self.run(hidden[i : i + CHUNK]) for i in range(0, len(hidden), CHUNK)]
        return self.score_of(np.concatenate(chunks))

    def score_of(self, outputs: Array) -> Array:
        if self.explained is not None:
            return probabilities_of(outputs, [self.name] * len(outputs))[:, self.explained]
        lengths = np.linalg.norm(outputs, axis=-1) * np.linalg.norm(self.output)
        cosines: Array = (outputs @ self.output) / np.maximum(lengths, 1e-30)
        return cosines.clip(0)

    def read_row(self, matrix: Array) -> Array:
        """The row (key) of a matrix (query, key) for the tokens that the output is made of."""
        rows: Array = matrix.mean(0) if self.query is None else matrix[self.query]
        return rows

    @cached_property
    def query(self) -> int | None:
        """The token that the output is made of; None for the mean of all.

        Where it is not known, only that one has a gradient in the last layer.
        """
        if self.output_token != "gradient":
            return {"first": 0, "last": len(self.labels) - 1}.get(self.output_token)
        slopes = next((layer.gradient for layer in self.layers[::-1] if layer.gradient is not None), None)
        if slopes is None or slopes.shape[-2] != len(self.labels):
            return None
        rows = abs(slopes).sum((0, 2))
        return int(rows.argmax()) if rows.max() >= 0.99 * rows.sum() > 0 else None

    @cached_property
    def head_effects(self) -> list[Array]:
        """How far the score falls without each head, layer by layer; by gradients where heads stay on."""
        whole = self.score_of(self.output[None])[0]
        if self.without_heads is not None:
            return [
                whole - self.score_of(self.without_heads(layer.path, len(layer.weights)))
                for layer in self.layers
            ]
        return [
            (layer.weights * (0 if layer.gradient is None else layer.gradient)).sum((1, 2))
            for layer in self.layers
        ]


# --- models of ours -------------------------------------------------------------------------------
class OwnModel:
    """One of our models, on torch or on numpy: arrays in, arrays out."""

    model: Any

    def __init__(self, saved: "Saved | LoadedModel | Model", *, torch: bool | None = None) -> None:
        self.config, self.definition, self.tokenizer = saved.config, saved.definition, saved.tokenizer
        self.torch = find_spec("torch") is not None if torch is None else torch
        if isinstance(saved, LoadedModel):
            self.torch, self.model = False, saved
        elif not self.torch and isinstance(saved, Saved):
            self.model = LoadedModel(saved)
        else:
            from headwork.models.checkpoints import torch_model

            self.torch, self.model = True, torch_model(saved) if isinstance(saved, Saved) else saved

    @cached_property
    def plain(self) -> Any:
        """The same module, whose steps can be noted."""
        return self.model.with_backend("plain").eval()

    def __call__(self, inputs: Mapping[str, Array]) -> Array:
        if not self.torch:
            return np.asarray(self.model(**inputs))
        with evaluating(self.model):
            return _array(self.model(**self.tensors(inputs)))

    def tensors(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        import torch

        like = next(self.model.parameters())
        given = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in inputs.items()}
        return {n: t.to(like if t.is_floating_point() else like.device) for n, t in given.items()}

    def noted(self, inputs: Mapping[str, Array], change: Callable[[str, Any], Any]) -> Any:
        """The output, a tensor of its kind; ``change`` may replace the weights of each attention."""

        def note(name: str, value: Any, /) -> Any:
            value = value if self.torch else HandTensor(value.array)
            return change(name.removesuffix(WEIGHTS), value) if name.endswith(WEIGHTS) else value

        if self.torch:
            return self.plain(**self.tensors(inputs), note=note)
        return self.model.run(self.model.tensors(inputs), note)

    def layers(
        self, inputs: Mapping[str, Array], read: Callable[[Any], Any], target: int | None
    ) -> list[Layer]:
        """The weights of every attention on one input, and with torch their gradients."""
        kept: dict[str, Any] = {}
        output = read(self.noted(inputs, lambda path, value: kept.setdefault(path, value)))
        gradients: list[Any] = [None] * len(kept)
        if self.torch and kept and output.requires_grad:
            import torch

            score = output[0].norm() if target is None else output[0, target]
            gradients = list(torch.autograd.grad(score, list(kept.values()), materialize_grads=True))
        return [
            Layer(path, _array(value)[0], None if gradient is None else _array(gradient)[0])
            for (path, value), gradient in zip(kept.items(), gradients, strict=True)
        ]

    def layers_of(self, inputs: Mapping[str, Array]) -> tuple[list[Layer], ...]:
        """The weights of every attention on each of several inputs."""
        kept: dict[str, Any] = {}
        self.noted(inputs, lambda path, value: kept.setdefault(path, value))
        arrays = {path: _array(value) for path, value in kept.items()}
        count = len(next(iter(inputs.values())))
        return tuple([Layer(path, array[i]) for path, array in arrays.items()] for i in range(count))

    def without_heads(self, inputs: Mapping[str, Array], path: str, heads: int) -> Array:
        """The outputs with each head of one attention switched off in turn."""
        kept = 1 - np.eye(heads, dtype=np.float32)[:, :, None, None]

        def switch_off(where: str, value: Any) -> Any:
            if where != path:
                return value
            return value * (value.new_tensor(kept) if self.torch else HandTensor(kept))

        repeated = {name: np.repeat(value, heads, 0) for name, value in inputs.items()}
        return _array(self.noted(repeated, switch_off))

    @property
    def positions(self) -> Array | None:
        """How alike the learned positions are: cosines (token, token)."""
        if getattr(self.config, "positions", "") != "learned":
            return None
        tree = self.model.state_dict() if self.torch else self.model.parameters
        table = next(tree[name] for name in tree if name.startswith("positions"))
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        rows = np.asarray(table) / np.where(lengths, lengths, 1)  # before training some are all zeros
        return np.asarray(rows @ rows.T)


def _array(tensor: Any) -> Array:
    return np.asarray(tensor.array if isinstance(tensor, HandTensor) else recorded(tensor))


def cells(rows: int, columns: int) -> list[str]:
    """The labels of the patches on a grid."""
    return [f"{row}, {column}" for row, column in np.ndindex(rows, columns)]


def image_subject(
    model: OwnModel, name: str, pixels: Array, values: Array, classes: tuple[str, ...], *, fill: float = 0.0
) -> Subject:
    """A classifier of images on one: ``pixels`` are its bytes, ``values`` what the model takes.

    Hidden pixels are ``fill``; 0 is the mean of the training images.
    """
    config = model.config
    patch = getattr(config, "patch_size", 0) or max(1, config.image_size // 7)
    side = -(-config.image_size // patch)
    first = int(getattr(config, "pooling", "mean") == "class token")
    squares = np.kron(np.arange(side * side).reshape(side, side), np.ones((patch, patch), int))
    squares = squares[: config.image_size, : config.image_size]

    def run(hidden: Array) -> Array:
        return model({"images": np.where(hidden[:, None, squares], np.float32(fill), values)})

    inputs, layered = {"images": values[None]}, hasattr(config, "patch_size")
    return Subject(
        name=name,
        labels=(*("class token",) * first, *cells(side, side)),
        parts=tuple(range(first, first + side * side)),
        run=run,
        attend=lambda target: model.layers(inputs, lambda logits: logits, target),
        without_heads=lambda path, heads: model.without_heads(inputs, path, heads),
        hidden_as="Hidden patches are the mean of the training images.",
        classes=classes,
        output_token="first" if first else "mean",
        grid=(side, side),
        pixels=pixels,
        positions=model.positions if layered else None,
        inputs=inputs,
    )


SPECIAL = ("[CLS]", "[SEP]", "<s>", "</s>", "<|endoftext|>")


def text_subject(model: OwnModel, name: str, ids: list[int], classes: tuple[str, ...]) -> Subject:
    """A classifier or an encoder of texts, or a language model, on the tokens of one text."""
    words, special, padding, read_as = [str(n) for n in ids], [False] * len(ids), 0, model.tokenizer
    if read_as is not None:
        words = [read_as.word(n).strip() or read_as.names[n] for n in ids]
        special = [read_as.names[n] in SPECIAL for n in ids]
        padding = next((read_as.numbers[x] for x in ("[MASK]", *SPECIAL) if x in read_as.numbers), 0)
    parts = tuple(number for number, left_out in enumerate(special) if not left_out)
    kind, tokens = model.definition.slug, np.array([ids], np.int64)
    masked = "mask" in (card.name for card in model.definition.inputs)

    def inputs(hidden: Array) -> dict[str, Array]:
        gone = np.zeros((len(hidden), len(ids)), bool)
        gone[:, list(parts)] = hidden
        repeated = np.repeat(tokens, len(hidden), 0)
        if not masked:
            return {"tokens": np.where(gone, padding, repeated)}
        empty = gone.all(1)  # a mask must leave a token
        repeated[empty, 0], gone[empty, 0] = padding, False
        return {"tokens": repeated, "mask": (~gone).astype(np.int64)}

    def read(output: Any, mask: Array | None = None) -> Any:
        if kind == "language":  # what comes next
            return output[..., -1, :]
        if kind != "text-encoder":
            return output
        if mask is None:
            return output.mean(-2)
        return (output * mask[..., None]).sum(-2) / mask.sum(-1, keepdims=True)

    def run(hidden: Array) -> Array:
        given = inputs(hidden)
        return np.asarray(read(model(given), given.get("mask")))

    whole = inputs(np.zeros((1, len(parts)), bool))
    if kind == "language":
        known = {} if read_as is None else {n: read_as.word(n) for n in read_as.names}
        classes = tuple(known.get(n, f"token {n}") for n in range(model.config.vocabulary))
    name_of = read_as.names[padding] if read_as else f"token {padding}"
    how = "masked" if masked else f"replaced by {name_of}"
    first = getattr(model.config, "pooling", "") == "first"
    output_token = "last" if kind == "language" else "first" if first else "mean"
    return Subject(
        name=name,
        labels=tuple(words),
        parts=parts,
        run=run,
        attend=lambda target: model.layers(whole, read, target),
        without_heads=lambda path, heads: np.asarray(read(model.without_heads(whole, path, heads))),
        hidden_as=f"Hidden tokens are {how}.",
        classes=classes,
        output_token=output_token,
        inputs=whole,
    )


def array_subject(model: "LoadedModel | Model", values: Any, classes: tuple[str, ...]) -> Subject:
    """A model of ours on one input as it takes it: an image, or the numbers of tokens."""
    own, array = OwnModel(model), np.asarray(values)
    images = "images" in (card.name for card in model.definition.inputs)
    array = array[0] if array.ndim == (4 if images else 2) and len(array) == 1 else array
    if array.ndim != (3 if images else 1) or (not images and array.dtype.kind not in "iu"):
        expected = "one image (channel, height, width)" if images else "tokens (token) as whole numbers"
        raise InputError(f"inspect: the input is {sizes_in_words(array.shape, '')}. Expected {expected}.")
    names = classes or tuple(f"class {n}" for n in range(getattr(model.config, "classes", 0)))
    if not images:
        return text_subject(own, model.definition.name, array.tolist(), names)
    own.definition.check(own.definition.name, own.config, array[None])
    values = array.astype(np.float32)
    return image_subject(own, model.definition.name, as_pixels(values), values, names)


def as_pixels(values: Array) -> Array:
    """An image as bytes, from its least number to its greatest; neither 1 nor 3 channels become one."""
    values = values if len(values) in (1, 3) else values.mean(0, keepdims=True)
    low, high = float(values.min()), float(values.max())
    return np.asarray((values - low) / max(high - low, 1e-9) * 255, np.uint8)
