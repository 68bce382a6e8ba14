"""The ledger of a model: each part that owns parameters or does work, in the order in which it runs.

Parameters are the model's own, shared ones counted once. FLOPs are those of matrix products, two per
multiply-add, as torch's own counter counts them in a forward pass on shapes alone: nothing is computed, no
memory is taken.
"""

import inspect
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, get_type_hints

import torch
from torch import Tensor, nn

from headwork.errors import InputError, TooLarge, unknown
from headwork.inspection.tracing import evaluating, inputs_by_name, slug
from headwork.models import Model, TextClassifier, TextEncoder
from headwork.models.model import current_names
from headwork.models.registry import find_model
from headwork.numbers.options import read_option
from headwork.sizes import Ledger, Row
from headwork.sizes.counting import BIASES, axes_of

AXES = {
    **dict.fromkeys(("Attention", "FeedForward", "Normalisation", "TokenEmbedding"), "token width"),
    **dict.fromkeys(("Positions", "ImagePositions"), "token width"),
    **dict.fromkeys(("LanguageModel", "EncoderDecoder"), "token word"),
    "ClassifierHead": "class",
    "PatchEmbedding": "patch width",
    "DirectedRecurrence": "time state",
}
MODULE_LABELS = {"feed_forward": "feed-forward", "cross_attention": "cross-attention"}
MAX_LAYERS = 1000
UNSCOPED = ("transformer", "recurrent", "body")  # modules that note their steps in their owner's scope


def ledger(model: Model, /, *inputs: Tensor, **more: Tensor) -> Ledger:
    """What each part of a model holds and does, on an input of this shape.

    >>> from headwork.models import ConvolutionalClassifier, ConvolutionalConfig
    >>> model = ConvolutionalClassifier(ConvolutionalConfig(width=4, depth=1))
    >>> counted = ledger(model, torch.zeros(1, 1, 28, 28))
    >>> [(row.name, row.parameters, row.flops) for row in counted.rows]
    [('block 0', 40, 56448), ('head', 50, 80)]
    """
    if not isinstance(model, Model):
        raise InputError(f"ledger: {type(model).__name__} is not a model of Headwork.")
    named = inputs_by_name(model, inputs, more)
    measured = _measure(model, named)
    owned = _owned(model)
    # Some parameters belong to no part that runs: a class token, a table that other parts read.
    alone = [name for name in owned if not name or name not in measured]
    rows = [
        _row(_path(model, f"{n}.{own}".strip(".")), "", {own: p}, p.shape, 0)
        for n in alone
        for own, p in owned.pop(n).items()
    ]
    for name, (shape, flops) in measured.items():
        if name in owned or flops:
            kind = type(model.get_submodule(name)).__name__
            rows.append(_row(_path(model, name) or "scores", kind, owned.get(name, {}), shape, flops))
    total = sum(count for _, count in measured.values())
    tensors = {name: value for name, value in named.items() if isinstance(value, Tensor)}
    shapes = ", ".join(f"{name} {' x '.join(map(str, value.shape))}" for name, value in tensors.items())
    return Ledger(
        title=f"{slug(model)}: {shapes}",
        rows=tuple(rows),
        facts={"parameters": model.parameter_count, "FLOPs": total},
        notes=("FLOPs: two per multiply-add of a matrix product, in one forward pass of the whole batch.",),
        summed=True,
    )


def named_model(name: str, settings: dict[str, Any] | None = None) -> Model:
    """A model by its short name and some fields of its config, without storage: enough to count.

    >>> named_model("vision").parameter_count
    205962
    """
    kind = find_model(name)
    hints, known = get_type_hints(kind.config_class), [entry.name for entry in fields(kind.config_class)]
    chosen: dict[str, Any] = {}
    for field, value in current_names(kind.config_class, settings or {}).items():
        if field not in known:
            raise unknown(f"field of {kind.config_class.__name__}", field, known)
        chosen[field] = read_option(hints[field], value, where=field) if isinstance(value, str) else value
    config: Any = kind.config_class(**chosen)
    if getattr(config, "depth", 1) > MAX_LAYERS:
        raise TooLarge(f"{name}: depth {config.depth:,}; at most {MAX_LAYERS:,} layers are counted.")
    try:
        with torch.device("meta"):
            return kind(config)
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise TooLarge(f"{name}: sizes too large to count ({reason}). Take smaller ones.") from None


def example(model: Model, *, tokens: int = 128, batch: int = 1) -> dict[str, Tensor]:
    """The inputs that a model requires, in the right shape and without storage."""
    config, parameters = model.config, inspect.signature(model.forward).parameters
    image = getattr(config, "image_size", None)
    sizes = {"batch": batch, "token": tokens, "key": tokens, "height": image, "width": image or config.width}
    sizes["channel"] = getattr(config, "channels", None)
    return {
        card.name: torch.empty(
            [sizes[axis] for axis in card.axes.split()],
            device="meta",
            dtype=None if "width" in card.axes else torch.long,
        )
        for card in model.inputs
        if parameters[card.name].default is inspect.Parameter.empty
    }


def _measure(model: Model, named: dict[str, Any]) -> dict[str, tuple[tuple[int, ...], int]]:
    """Each part in the order in which it ended: its output's shape, and its FLOPs without its parts'."""
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    measured: dict[str, tuple[tuple[int, ...], int]] = {}
    starts: list[int] = []
    inside: list[int] = []

    def enter(*_: Any) -> None:
        inside.append(0)
        starts.append(counter.get_total_flops())

    def leave(part: nn.Module, _: Any, result: Any) -> None:
        whole, within = counter.get_total_flops() - starts.pop(), inside.pop()
        if inside:
            inside[-1] += whole
        _, before = measured.get(names[part], ((), 0))
        measured[names[part]] = tuple(result.shape), before + whole - within

    names = {part: name for name, part in model.named_modules()}
    state = {name: value.to("meta") for name, value in (*model.named_parameters(), *model.named_buffers())}
    shapes = {name: value.to("meta") if isinstance(value, Tensor) else value for name, value in named.items()}
    hooks = [part.register_forward_pre_hook(enter) for part in model.modules()]
    hooks += [part.register_forward_hook(leave) for part in model.modules()]
    try:
        with evaluating(model), counter:
            torch.func.functional_call(model, state, (), shapes)
    finally:
        for hook in hooks:
            hook.remove()
    return measured


def _owned(model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """The parameters of each part by its name, without those of the parts inside it; shared ones once."""
    owned: dict[str, dict[str, Tensor]] = {}
    for name, parameter in model.named_parameters():
        part, _, own = name.rpartition(".")
        owned.setdefault(part, {})[own] = parameter
    return owned


def _row(name: str, kind: str, owned: dict[str, Tensor], shape: Sequence[int], flops: int) -> Row:
    biases = sum(p.numel() for own, p in owned.items() if BIASES.fullmatch(own))
    weights = sum(p.numel() for p in owned.values()) - biases
    axes = AXES.get(kind, "")
    if kind == "Convolution":
        axes = "channel height width" if len(shape) == 4 else "channel position"
    return Row(
        name=name,
        shape=tuple(shape),
        axes=axes_of(axes, shape) if axes else "",
        weights=weights if owned else None,
        biases=biases if owned else None,
        multiply_adds=flops // 2,
    )


def _path(model: Model, name: str) -> str:
    """A part's name as a path of steps: transformer.blocks.0.feed_forward is block 0/feed-forward."""
    words: list[str] = []
    part: Any = model
    for piece in name.split(".") if name else []:
        owner, part = part, getattr(part, piece)
        if piece.isdigit():
            words[-1] = f"block {piece}"
        elif isinstance(owner, TextEncoder) and piece == "normalisation":
            words.append("embedding normalisation")
        elif piece not in UNSCOPED and not (isinstance(owner, TextClassifier) and piece == "encoder"):
            words.append(MODULE_LABELS.get(piece, piece.replace("_", " ")))
    return "/".join(words)
