"""``headwork.trace``: a model of ours and its input in, the ``Trace`` of one whole forward pass out.

A model that ``headwork.load`` gives is worked by hand: each cell has its arithmetic, down to the inputs and
the parameters. A torch model gives the values of the steps alone.

Paths are those that the model notes: ``block 0/attention/weights``; ``block 0/attention/head 2/weights``
takes one head along its axis. A fused or compiled model keeps no steps and is refused rather than traced
empty; so is a filter that matches nothing, and a trace larger than its budget.
"""

import inspect
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.errors import HeadworkError, InputError, TooLarge
from headwork.loading import NumpyModel
from headwork.loading.model import bind_inputs
from headwork.note import Input, Mechanism, Note
from headwork.numbers import HandTensor
from headwork.readings import Trace, replacer
from headwork.readings.assembling import assemble
from headwork.sizes import Ledger
from headwork.sizes.architectures import model_ledger

if TYPE_CHECKING:
    from torch import Tensor, nn

    from headwork.models import Model

    AnyModel = Model | NumpyModel

BUDGET = 2**28  # bytes of recorded numbers


@dataclass(frozen=True)
class ModelTrace(Trace):
    """A trace of a model; ``result`` is the model's output, whatever was recorded."""

    result: Any = field(default=None, repr=False, compare=False)


def trace(
    model: "AnyModel",
    /,
    *inputs: Any,
    only: str | Sequence[str] = "*",
    budget: int = BUDGET,
    replacing: Mapping[str, Any] | None = None,
    **more: Any,
) -> ModelTrace:
    """Every step of one forward pass, with dropout off.

    ``only`` keeps the steps whose paths match one of these shell patterns (``*`` matches slashes too). The
    recorded numbers take at most ``budget`` bytes. ``replacing`` replaces the values of some steps.

    >>> import torch; from headwork.models import LanguageModel, LanguageModelConfig
    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
    >>> steps = trace(model, torch.tensor([[1, 2, 3]]), only="block 0/attention/*")
    >>> steps["block 0/attention/weights"].shape, steps["block 0/attention/head 1/weights"].shape
    ((1, 2, 3, 3), (1, 3, 3))
    """
    check_traceable(model)
    named = inputs_by_name(model, inputs, more)
    recording = Recording([only] if isinstance(only, str) else list(only), budget)
    result = _run(model, named, recording.note, replacing or {})
    recording.check(*(replacing or {}))
    definition = model.definition
    slug = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", definition.name).lower()
    cards = Mechanism(slug, definition.function, _inputs(model, named), definition.steps(model.config))
    return assemble(
        ModelTrace,
        cards,
        {c.name: to_array(named[c.name]) for c in cards.inputs},
        recording.values,
        {},
        exact=False,
        title=recording.title,
        rerun=partial(trace, model, only=only, budget=budget, **named),
        result=result,
        noted=recording.noted,
    )


def _run(model: Any, named: Mapping[str, Any], note: Note, replacing: Mapping[str, Any]) -> Any:
    """The output of the model, whose steps are noted, and some of them replaced."""
    arrays = {path: np.asarray(value) for path, value in replacing.items()}
    if isinstance(model, NumpyModel):
        by_hand = {path: HandTensor(array.astype(model.dtype)) for path, array in arrays.items()}
        return model.run(named, replacer(note, by_hand)).array
    import torch

    like = next(model.parameters())
    replacements = {path: torch.as_tensor(array).to(like) for path, array in arrays.items()}
    with evaluation_mode(model):
        return model(**named, note=replacer(note, replacements) if replacements else note)


@dataclass
class Recording:
    """What a trace keeps: the steps that match a pattern, as long as they fit into the budget."""

    patterns: Sequence[str]
    budget: int
    values: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    noted: list[str] = field(default_factory=list)
    total: int = 0

    def note(self, name: str, value: Any, /) -> Any:
        if name in self.noted:
            raise HeadworkError(f"the step '{name}' was noted twice: give the second a scope of its own.")
        self.noted.append(name)
        if not any(fnmatchcase(name, pattern) for pattern in self.patterns):
            return with_label(value, name)
        kind = value.array.dtype if isinstance(value, HandTensor) else value.dtype
        self.sizes[name] = math.prod(value.shape) * max(kind.itemsize, 4)
        self.total += self.sizes[name]
        if self.total <= self.budget:
            self.values[name] = to_array(value)
            return with_label(value, name)
        # Keep nothing from here on, but count: the error gives the whole size.
        self.values.clear()
        return HandTensor(value.array) if isinstance(value, HandTensor) else value

    @property
    def title(self) -> str:
        kept, all_ = len(self.sizes), len(self.noted)
        return f"{kept} of {all_} steps kept" if kept < all_ else ""

    def check(self, *replaced: str) -> None:
        """Nothing is left out silently: neither by a pattern that matches no step, nor by the budget."""
        paths = self.noted
        for pattern in (*self.patterns, *replaced):
            if pattern not in paths and not any(fnmatchcase(path, pattern) for path in paths):
                raise _no_match(pattern, paths)
        if self.total > self.budget:
            largest = sorted(self.sizes, key=lambda path: -self.sizes[path])[:3]
            sizes = ", ".join(f"'{path}' ({_megabytes(self.sizes[path])})" for path in largest)
            raise TooLarge(
                f"trace: {len(self.sizes)} steps take {_megabytes(self.total)}, the budget is "
                f"{_megabytes(self.budget)}. Largest: {sizes}. Keep fewer with only='block 0/attention/*', "
                "give a smaller batch, or a larger budget (in bytes)."
            )


def _no_match(pattern: str, paths: Sequence[str]) -> InputError:
    close = get_close_matches(pattern, paths, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    if "head " in pattern:
        hint += " Heads are an axis: keep the whole step, then take the head from the trace."
    return InputError(
        f"trace: no step matches '{pattern}'.{hint} There are {len(paths)}, such as "
        f"{', '.join(repr(path) for path in paths[:3])}."
    )


def check_traceable(model: Any) -> None:
    """Refuse a model that would record nothing, and say what to do."""
    if isinstance(model, NumpyModel):
        return
    torch = sys.modules.get("torch")  # where nobody imported it, nobody has a model of it
    if torch is None or not isinstance(model, torch.nn.Module):
        raise InputError(
            f"trace: {type(model).__name__} is not a model. Give one of headwork.models, or what "
            "headwork.load gives."
        )
    from headwork.models import Model

    parts = list(model.modules())
    if any(hasattr(part, "_orig_mod") or part._compiled_call_impl is not None for part in parts):
        raise InputError(
            "trace: a compiled model keeps no steps. Trace the model that was given to torch.compile: it has "
            "the same parameters (model._orig_mod of the compiled one; after model.compile() load it again)."
        )
    if not isinstance(model, Model):
        raise InputError(
            f"trace: {type(model).__name__} is not a model of Headwork, so it notes no steps. Unwrap it "
            "(model.module), or read its checkpoint with headwork.models.pretrained."
        )
    if torch.compiler.is_compiling():
        raise InputError("trace: nothing is traced inside torch.compile. Call it outside.")
    if model.config.backend != "plain":
        raise InputError(
            "trace: the model is fused, and a fused kernel keeps no steps. Trace "
            "model.with_backend('plain'), which has the same parameters."
        )


@contextmanager
def evaluation_mode(model: "nn.Module") -> Iterator[None]:
    """Without gradients and dropout; each part is afterwards as it was."""
    import torch

    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def ledger(model: Any, /, *inputs: Any, **more: Any) -> Ledger:
    """What each part of a model holds and does, on an input of this shape; nothing is computed.

    >>> import torch; from headwork.models import ConvolutionalClassifier, ConvolutionalConfig
    >>> model = ConvolutionalClassifier(ConvolutionalConfig(width=4, depth=1))
    >>> counted = ledger(model, torch.zeros(1, 1, 28, 28))
    >>> [(row.name, row.parameters, row.flops) for row in counted.rows]
    [('block 0', 40, 56448), ('head', 50, 80)]
    """
    if not hasattr(model, "definition"):
        raise InputError(f"ledger: {type(model).__name__} is not a model of Headwork.")
    named = inputs_by_name(model, inputs, more)
    shapes = {name: value if isinstance(value, str) else tuple(value.shape) for name, value in named.items()}
    return model_ledger(model.definition, model.config, shapes)


def inputs_by_name(model: Any, inputs: Sequence[Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs by the names that the model gives them."""
    if isinstance(model, NumpyModel):
        named = bind_inputs("trace", model.definition.name, model.input_names, inputs, more)
        return model.tensors(named)
    names = [name for name in inspect.signature(model.forward).parameters if name != "note"]
    named = bind_inputs("trace", type(model).__name__, names, inputs, more)
    for name, value in named.items():
        if not hasattr(value, "is_meta") and not isinstance(value, str):
            raise InputError(f"trace: {name} is a {type(value).__name__}. Give a tensor.")
    return named


def _megabytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


def with_label(value: Any, name: str) -> Any:
    """A step as the model goes on with it: the arithmetic of a later cell stops here."""
    return value.labelled(name) if isinstance(value, HandTensor) else value


def to_array(value: Any) -> Any:
    """A torch tensor as a copy, in its own precision (at least single): no later step can change it."""
    if isinstance(value, HandTensor):
        return value
    detached: Tensor = value.detach()
    half = detached.is_floating_point() and detached.element_size() < 4
    return (detached.float() if half else detached).cpu().numpy().copy()


def _inputs(model: "AnyModel", named: Mapping[str, Any]) -> tuple[Input, ...]:
    """Cards of the inputs: the model's own, and for others (masks of attention) their axes from the right."""
    cards = {card.name: card for card in model.definition.inputs}
    axes = ["batch", "head", "query", "key"]
    return tuple(
        cards.get(name) or Input(name, name[0], " ".join(axes[-len(value.shape) :]))
        for name, value in named.items()
        if not isinstance(value, str)
    )
