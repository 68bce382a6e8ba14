"""A model on one input whose parts, patches or tokens, can be hidden: what relevance and views need to know.

A saved model runs on torch where that is installed, since it is faster there and knows gradients, else on
numpy. A hidden patch is the mean of the training images; a hidden token is masked, or replaced where a model
knows no mask.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import InputError, TooLarge, format_shape
from headwork.inspection.tracing import evaluation_mode, to_array
from headwork.loading import NumpyModel, SavedModel
from headwork.loading.model import count_step_values, probabilities_of
from headwork.numbers import HandTensor

if TYPE_CHECKING:
    from headwork.models import Model

Array = NDArray[Any]
CHUNK, MAX_VALUES, MAX_PASS = 64, 2**24, 2**26  # inputs at once; numbers in all steps on them, and on one
TOO_LARGE = "a pass has too many numbers to look into it. Train it on smaller images, or with larger patches."
WEIGHTS = "/attention/weights"


@dataclass(frozen=True)
class AttentionMap:
    """The weights of one attention on one input, and the gradient of the score where it is known."""

    path: str
    weights: Array  # head, query, key
    gradient: Array | None = None
    call_index: int = 0  # which call of that path

    @property
    def name(self) -> str:
        return f"{self.path or 'attention'}{f', call {self.call_index}' if self.call_index else ''}"


# From the output to the number of the class that is explained; None where the output is a vector.
ChooseClass = Callable[[Array], int | None]


@dataclass(frozen=True, kw_only=True)
class ModelOnInput:
    """A model on one input.

    ``outputs_with_hidden`` gives the outputs (case, number) with parts hidden (case, part): logits of
    ``classes``, or without those a vector that is compared with that of the whole input. ``attention_pass``
    gives the output (number) and the attention maps, where it can be had with the gradient of the class that
    is chosen. ``ablate_each_head`` gives the outputs (case, number) without each head of one layer in turn.
    """

    name: str
    labels: tuple[str, ...]  # of every token
    parts: tuple[int, ...]  # the tokens that can be hidden
    outputs_with_hidden: Callable[[Array], Array]
    attention_pass: Callable[[ChooseClass], tuple[Array, list[AttentionMap]]]
    hidden_note: str
    classes: tuple[str, ...] = ()
    output_token: int | str | None = 0  # the token that the output is made of; None: the mean; or "gradient"
    grid: tuple[int, int] | None = None
    pixels: Array | None = None  # bytes: channel, height, width
    ablate_each_head: Callable[[str, int], Array] | None = None
    remarks: tuple[str, ...] = ()
    target: int | None = None  # the class to explain; None for the most probable one
    position_similarity: Array | None = None  # how alike learned positions are (token, token)
    inputs: Mapping[str, Array] | None = None  # what the model takes, where it is one of ours
    attention_on_other_inputs: Mapping[str, Array] = field(default_factory=dict)  # by path
    other_input_count: int = 0  # how many those are
    true_class: str = ""  # where it is known
    inputs_at_once: int = CHUNK

    @cached_property
    def _whole_input(self) -> tuple[Array, list[AttentionMap]]:
        return self.attention_pass(self._choose_class)

    def _choose_class(self, output: Array) -> int | None:
        return int(output.argmax()) if self.classes and self.target is None else self.target

    @property
    def output(self) -> Array:
        return self._whole_input[0]

    @property
    def attention_maps(self) -> list[AttentionMap]:
        return self._whole_input[1]

    @property
    def explained_class(self) -> int | None:
        """The number of the class that is explained."""
        return self._choose_class(self.output)

    @property
    def explained_name(self) -> str:
        return "" if self.explained_class is None else self.classes[self.explained_class]

    @cached_property
    def probabilities(self) -> Array:
        """Of the classes, on the whole input."""
        return np.asarray(probabilities_of(self.output[None], [self.name])[0])

    def scores_with_hidden(self, hidden_mask: Array) -> Array:
        """The probability of the class that is explained, or how alike the vector stays (case)."""
        count = self.inputs_at_once
        chunks = (hidden_mask[i : i + count] for i in range(0, len(hidden_mask), count))
        return np.concatenate([self.explained_scores(self.outputs_with_hidden(chunk)) for chunk in chunks])

    def explained_scores(self, outputs: Array) -> Array:
        if self.explained_class is not None:
            return probabilities_of(outputs, [self.name] * len(outputs)).take([self.explained_class], 1)[:, 0]
        lengths = np.linalg.norm(outputs, axis=-1) * np.linalg.norm(self.output)
        return np.asarray((outputs @ self.output) / np.maximum(lengths, 1e-30)).clip(0)

    def output_row(self, matrix: Array) -> Array:
        """The row (key) of a matrix (query, key) for the tokens that the output is made of."""
        return np.asarray(matrix.mean(0) if (at := self.output_token_index) is None else matrix[at])

    @cached_property
    def output_token_index(self) -> int | None:
        """The token that the output is made of; None for the mean of all.

        Where it is not known, only that one has a gradient in the last layer.
        """
        if not isinstance(self.output_token, str):
            return None if self.output_token is None else self.output_token % len(self.labels)
        gradients = (layer.gradient for layer in self.attention_maps[::-1])
        gradient = next((x for x in gradients if x is not None), None)
        if gradient is None or gradient.shape[-2] != len(self.labels):
            return None
        rows = abs(gradient).sum((0, 2))
        return int(rows.argmax()) if rows.max() >= 0.99 * rows.sum() > 0 else None

    @cached_property
    def score_lost_per_head(self) -> list[Array]:
        """How far the score falls without each head, layer by layer; by gradients where heads stay on."""
        whole = self.explained_scores(self.output[None])[0]
        if (ablate := self.ablate_each_head) is not None:
            outputs = (ablate(layer.path, len(layer.weights)) for layer in self.attention_maps)
            return [whole - self.explained_scores(output) for output in outputs]
        return [
            (layer.weights * (0 if layer.gradient is None else layer.gradient)).sum((1, 2))
            for layer in self.attention_maps
        ]


# --- models of ours -------------------------------------------------------------------------------
class ArrayModel:
    """One of our models, on torch or on numpy: arrays in, arrays out.

    On numpy ``change_weights`` may replace the weights (batch, head, query, key) of each attention.
    """

    inner: Any
    change_weights: Callable[[str, Array], Array] | None = None

    def __init__(self, saved: "SavedModel | NumpyModel | Model", *, on_torch: bool | None = None) -> None:
        self.config, self.definition, self.tokenizer = saved.config, saved.definition, saved.tokenizer
        on_torch = find_spec("torch") is not None if on_torch is None else on_torch
        if isinstance(saved, SavedModel) and on_torch:
            from headwork.models.saving import torch_model

            saved = torch_model(saved.fast())
        self.inner = NumpyModel(saved) if isinstance(saved, SavedModel) else saved
        self.on_torch = not isinstance(self.inner, NumpyModel)

    @cached_property
    def inputs_at_once(self) -> int:
        """How many inputs may run together; 0 where not even one can."""
        values = count_step_values(self.definition, self.config, self.definition.name)
        return min(CHUNK, MAX_VALUES // max(1, values)) or int(values <= MAX_PASS)

    @cached_property
    def plain(self) -> Any:
        """The same module, whose steps can be noted."""
        return self.inner.with_backend("plain").eval()

    def __call__(self, inputs: Mapping[str, Array]) -> Array:
        if self.change_weights is not None:
            return _array(self.run_with_plain_kernels(inputs, lambda path, weights: weights))
        if not self.on_torch:
            return np.asarray(self.inner(**inputs))
        with evaluation_mode(self.inner):
            return _array(self.inner(**self.tensors(inputs)))

    def tensors(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        import torch

        like = next(self.inner.parameters())
        given = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in inputs.items()}
        return {n: t.to(like if t.is_floating_point() else like.device) for n, t in given.items()}

    def run_with_plain_kernels(self, inputs: Mapping[str, Array], replace: Callable[[str, Any], Any]) -> Any:
        """The output, a tensor of its kind; ``replace`` gets and gives the weights of each attention."""

        def note(name: str, value: Any, /) -> Any:
            value = value if self.on_torch else HandTensor(value.array)
            if not name.endswith(WEIGHTS):
                return value
            path = name.removesuffix(WEIGHTS)
            if self.change_weights is not None:
                value = HandTensor(self.change_weights(path, value.array))
            return replace(path, value)

        if self.on_torch:
            return self.plain(**self.tensors(inputs), note=note)
        return self.inner.run(self.inner.tensors(inputs), note)

    def attention_pass(
        self, inputs: Mapping[str, Array], select_output: Callable[[Any], Any], choose_class: ChooseClass
    ) -> tuple[Array, list[AttentionMap]]:
        """The output and the weights of every attention on one input, and with torch their gradients."""
        weights: dict[str, Any] = {}
        output = select_output(self.run_with_plain_kernels(inputs, weights.setdefault))
        output_vector = _array(output)[0]
        gradients: list[Any] = [None] * len(weights)
        if self.on_torch and weights and output.requires_grad:
            import torch

            target = choose_class(output_vector)
            score = output[0].norm() if target is None else output[0, target]
            gradients = list(torch.autograd.grad(score, list(weights.values()), materialize_grads=True))
        return output_vector, [
            AttentionMap(path, _array(value)[0], None if gradient is None else _array(gradient)[0])
            for (path, value), gradient in zip(weights.items(), gradients, strict=True)
        ]

    def attention_weights(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The weights (input, head, query, key) of every attention, by its path."""
        weights: dict[str, Any] = {}
        self.run_with_plain_kernels(inputs, weights.setdefault)
        return {path: _array(value) for path, value in weights.items()}

    def ablate_each_head(self, inputs: Mapping[str, Array], path: str, head_count: int) -> Array:
        """The outputs with each head of one attention switched off in turn."""
        kept = 1 - np.eye(head_count, dtype=np.float32)[:, :, None, None]
        count = self.inputs_at_once

        def ablate(kept: Array) -> Array:
            def switch_off(where: str, value: Any) -> Any:
                if where != path:
                    return value
                return value * (value.new_tensor(kept) if self.on_torch else HandTensor(kept))

            repeated = {name: np.repeat(value, len(kept), 0) for name, value in inputs.items()}
            return _array(self.run_with_plain_kernels(repeated, switch_off))

        return np.concatenate([ablate(kept[i : i + count]) for i in range(0, head_count, count)])

    @property
    def position_similarity(self) -> Array | None:
        """How alike the learned positions are: cosines (token, token)."""
        if getattr(self.config, "positions", "") != "learned":
            return None
        tree = self.inner.state_dict() if self.on_torch else self.inner.parameters
        table = next(tree[name] for name in tree if name.startswith("positions"))
        lengths = np.linalg.norm(table, axis=1, keepdims=True)
        rows = np.asarray(table) / np.where(lengths, lengths, 1)  # before training some are all zeros
        return np.asarray(rows @ rows.T)


def _array(tensor: Any) -> Array:
    return np.asarray(tensor.array if isinstance(tensor, HandTensor) else to_array(tensor))


def patch_labels(rows: int, columns: int) -> list[str]:
    """The labels of the patches on a grid."""
    return [f"{row}, {column}" for row, column in np.ndindex(rows, columns)]


def classifier_on_image(
    model: ArrayModel, name: str, pixels: Array, values: Array, classes: tuple[str, ...], *, fill: float = 0.0
) -> ModelOnInput:
    """A classifier of images on one: ``pixels`` are its bytes, ``values`` what the model takes.

    Hidden pixels are ``fill``; 0 is the mean of the training images.
    """
    config = model.config
    if not model.inputs_at_once:
        raise TooLarge(f"{name}: {TOO_LARGE}")
    patch = getattr(config, "patch_size", 0) or max(1, config.image_size // 7)
    side = -(-config.image_size // patch)
    class_tokens = int(getattr(config, "pooling", "mean") == "class token")
    squares = np.arange(side * side).reshape(side, side).repeat(patch, 0).repeat(patch, 1)
    squares = squares[: config.image_size, : config.image_size]

    def outputs_with_hidden(hidden_mask: Array) -> Array:
        return model({"images": np.where(hidden_mask[:, None, squares], np.float32(fill), values)})

    inputs, has_patches = {"images": values[None]}, hasattr(config, "patch_size")
    return ModelOnInput(
        name=name,
        labels=(*("class token",) * class_tokens, *patch_labels(side, side)),
        parts=tuple(range(class_tokens, class_tokens + side * side)),
        outputs_with_hidden=outputs_with_hidden,
        attention_pass=lambda choose: model.attention_pass(inputs, lambda logits: logits, choose),
        ablate_each_head=lambda path, count: model.ablate_each_head(inputs, path, count),
        hidden_note="Hidden patches are the mean of the training images.",
        classes=classes,
        output_token=0 if class_tokens else None,
        grid=(side, side),
        pixels=pixels,
        position_similarity=model.position_similarity if has_patches else None,
        inputs=inputs,
        inputs_at_once=model.inputs_at_once,
    )


SPECIAL_TOKENS = ("[CLS]", "[SEP]", "<s>", "</s>", "<|endoftext|>")


def model_on_text(model: ArrayModel, name: str, ids: list[int], classes: tuple[str, ...]) -> ModelOnInput:
    """A classifier or an encoder of texts, or a language model, on the tokens of one text."""
    words, special = [str(n) for n in ids], [False] * len(ids)
    replacement_token, tokenizer = 0, model.tokenizer
    if tokenizer is not None:
        words = [tokenizer.token_text(n).strip() or tokenizer.token_names[n] for n in ids]
        special = [tokenizer.token_names[n] in SPECIAL_TOKENS for n in ids]
        numbers = tokenizer.token_ids
        replacement_token = next((numbers[x] for x in ("[MASK]", *SPECIAL_TOKENS) if x in numbers), 0)
    parts = tuple(number for number, left_out in enumerate(special) if not left_out)
    kind, tokens = model.definition.slug, np.array([ids], np.int64)
    masked = "mask" in (card.name for card in model.definition.inputs)

    def inputs(hidden_mask: Array) -> dict[str, Array]:
        is_hidden = np.zeros((len(hidden_mask), len(ids)), bool)
        is_hidden[:, list(parts)] = hidden_mask
        repeated = np.repeat(tokens, len(hidden_mask), 0)
        if not masked:
            return {"tokens": np.where(is_hidden, replacement_token, repeated)}
        empty = is_hidden.all(1)  # a mask must leave a token
        repeated[empty, 0], is_hidden[empty, 0] = replacement_token, False
        return {"tokens": repeated, "mask": (~is_hidden).astype(np.int64)}

    def select_output(output: Any, mask: Array | None = None) -> Any:
        if kind == "language":  # what comes next
            return output[..., -1, :]
        if kind != "text-encoder":
            return output
        if mask is None:
            return output.mean(-2)
        return (output * mask[..., None]).sum(-2) / mask.sum(-1, keepdims=True)

    def outputs_with_hidden(hidden_mask: Array) -> Array:
        given = inputs(hidden_mask)
        return np.asarray(select_output(model(given), given.get("mask")))

    intact = inputs(np.zeros((1, len(parts)), bool))
    if kind == "language":
        text_of = tokenizer.token_text if tokenizer else str
        names_by_number = {n: text_of(n) for n in (tokenizer.token_names if tokenizer else ())}
        classes = tuple(names_by_number.get(n, f"token {n}") for n in range(model.config.vocabulary))
    replacement_name = tokenizer.token_names[replacement_token] if tokenizer else f"token {replacement_token}"
    how = "masked" if masked else f"replaced by {replacement_name}"
    pools_first = getattr(model.config, "pooling", "") == "first"
    return ModelOnInput(
        name=name,
        labels=tuple(words),
        parts=parts,
        outputs_with_hidden=outputs_with_hidden,
        attention_pass=lambda choose: model.attention_pass(intact, select_output, choose),
        ablate_each_head=lambda path, n: np.asarray(select_output(model.ablate_each_head(intact, path, n))),
        hidden_note=f"Hidden tokens are {how}.",
        classes=classes,
        output_token=-1 if kind == "language" else 0 if pools_first else None,
        inputs=intact,
    )


def model_on_array(model: "NumpyModel | Model", values: Any, classes: tuple[str, ...]) -> ModelOnInput:
    """A model of ours on one input as it takes it: an image, or the numbers of tokens."""
    array_model, array = ArrayModel(model), np.asarray(values)
    takes_images = "images" in (card.name for card in model.definition.inputs)
    array = array[0] if array.ndim == (4 if takes_images else 2) and len(array) == 1 else array
    if array.ndim != (3 if takes_images else 1) or (not takes_images and array.dtype.kind not in "iu"):
        expected = "one image (channel, height, width)" if takes_images else "tokens (token) as whole numbers"
        raise InputError(f"inspect: the input is {format_shape(array.shape, '')}. Expected {expected}.")
    names = classes or tuple(f"class {n}" for n in range(getattr(model.config, "classes", 0)))
    if not takes_images:
        return model_on_text(array_model, model.definition.name, array.tolist(), names)
    array_model.definition.check(array_model.definition.name, array_model.config, array[None])
    values = array.astype(np.float32)
    return classifier_on_image(array_model, model.definition.name, as_pixels(values), values, names)


def as_pixels(values: Array) -> Array:
    """An image as bytes, from its least number to its greatest; neither 1 nor 3 channels become one."""
    values = values if len(values) in (1, 3) else values.mean(0, keepdims=True)
    low, high = float(values.min()), float(values.max())
    return np.asarray((values - low) / max(high - low, 1e-9) * 255, np.uint8)
