"""``headwork.trace``: a model of ours and its input in, the ``Trace`` of one whole forward pass out.

Paths are those that the model notes: ``block 0/attention/weights``; ``block 0/attention/head 2/weights``
takes one head along its axis. A fused or compiled model keeps no steps and is refused rather than traced
empty; so is a filter that matches nothing, and a trace larger than its budget.
"""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headwork.errors import HeadworkError, InputError, TooLarge
from headwork.models import Model
from headwork.note import Input, Mechanism, Note
from headwork.readings import Trace, replacer
from headwork.readings.assembling import assemble

BUDGET = 2**28  # bytes of recorded numbers


@dataclass(frozen=True)
class ModelTrace(Trace):
    """A trace of a model; ``result`` is the model's output, whatever was recorded."""

    result: Any = field(default=None, repr=False, compare=False)


def trace(
    model: Model,
    /,
    *inputs: Tensor,
    only: str | Sequence[str] = "*",
    budget: int = BUDGET,
    replacing: Mapping[str, Any] | None = None,
    **more: Tensor,
) -> ModelTrace:
    """Every step of one forward pass, with dropout off.

    ``only`` keeps the steps whose paths match one of these shell patterns (``*`` matches slashes too). The
    recorded numbers take at most ``budget`` bytes. ``replacing`` replaces the values of some steps.

    >>> from headwork.models import LanguageModel, LanguageModelConfig
    >>> model = LanguageModel(LanguageModelConfig(vocabulary=11, width=8, hidden=16, heads=2, depth=1))
    >>> steps = trace(model, torch.tensor([[1, 2, 3]]), only="block 0/attention/*")
    >>> steps["block 0/attention/weights"].shape, steps["block 0/attention/head 1/weights"].shape
    ((1, 2, 3, 3), (1, 3, 3))
    """
    check_traceable(model)
    named = inputs_by_name(model, inputs, more)
    like = next(model.parameters())
    swaps = {path: torch.as_tensor(np.asarray(value)).to(like) for path, value in (replacing or {}).items()}
    recording = Recording([only] if isinstance(only, str) else list(only), budget)
    note: Note = recording.note  # type: ignore[assignment]
    with evaluating(model):
        result = model(**named, note=replacer(note, swaps) if swaps else note)
    recording.check(*swaps)
    cards = Mechanism(slug(model), type(model), _inputs(model, named), model.steps)
    return assemble(
        ModelTrace,
        cards,
        {c.name: to_numpy(named[c.name]) for c in cards.inputs},
        recording.values,
        {},
        exact=False,
        title=recording.title,
        again=partial(trace, model, only=only, budget=budget, **named),
        result=result,
    )


@dataclass
class Recording:
    """What a trace keeps: the steps that match a pattern, as long as they fit into the budget."""

    patterns: Sequence[str]
    budget: int
    values: dict[str, Any] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    total: int = 0

    def note(self, name: str, value: Tensor, /) -> Tensor:
        if name in self.taken or name in self.others:
            raise HeadworkError(f"the step '{name}' was noted twice: give the second a scope of its own.")
        if not any(fnmatchcase(name, pattern) for pattern in self.patterns):
            self.others.add(name)
            return value
        self.taken[name] = value.numel() * max(value.element_size(), 4)
        self.total += self.taken[name]
        if self.total <= self.budget:
            self.values[name] = to_numpy(value)
        else:
            # Keep nothing from here on, but count: the error gives the whole size.
            self.values.clear()
        return value

    @property
    def title(self) -> str:
        count = len(self.taken)
        return f"{count} of {count + len(self.others)} steps kept" if self.others else ""

    def check(self, *replaced: str) -> None:
        """Nothing is left out silently: neither by a pattern that matches no step, nor by the budget."""
        paths = [*self.taken, *self.others]
        for pattern in (*self.patterns, *replaced):
            if pattern not in paths and not any(fnmatchcase(path, pattern) for path in paths):
                raise _no_match(pattern, paths)
        if self.total > self.budget:
            largest = sorted(self.taken, key=lambda path: -self.taken[path])[:3]
            sizes = ", ".join(f"'{path}' ({_megabytes(self.taken[path])})" for path in largest)
            raise TooLarge(
                f"trace: {len(self.taken)} steps take {_megabytes(self.total)}, the budget is "
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
    if not isinstance(model, nn.Module):
        raise InputError(f"trace: {type(model).__name__} is not a model. Give a model of headwork.models.")
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
    if model.config.backend == "fused":
        raise InputError(
            "trace: the model is fused, and a fused kernel keeps no steps. Trace "
            "model.with_backend('plain'), which has the same parameters."
        )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without gradients and dropout; each part is afterwards as it was."""
    training = [part for part in model.modules() if part.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True


def inputs_by_name(model: Model, inputs: Sequence[Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs by the names that ``forward`` gives them."""
    parameters = [name for name in inspect.signature(model.forward).parameters if name != "note"]
    kind, listed = type(model).__name__, ", ".join(parameters)
    if len(inputs) > len(parameters):
        raise InputError(f"trace: {len(inputs)} inputs, but {kind} takes {listed}.")
    named = {**dict(zip(parameters, inputs, strict=False)), **more}
    for name, value in named.items():
        if name not in parameters:
            raise InputError(f"trace: {kind} takes no '{name}'. It takes {listed}.")
        if value is not None and not isinstance(value, (Tensor, str)):
            raise InputError(f"trace: {name} is a {type(value).__name__}. Give a tensor.")
    return {name: value for name, value in named.items() if value is not None}


def _megabytes(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"


def to_numpy(value: Tensor) -> Any:
    """A copy as an array, in its own precision (at least single): no later step can change it."""
    single = value.detach().float() if value.dtype in (torch.float16, torch.bfloat16) else value.detach()
    return single.cpu().numpy().copy()


def slug(model: Model) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(model).__name__).lower()


def _inputs(model: Model, named: Mapping[str, Any]) -> tuple[Input, ...]:
    """Cards of the inputs: the model's own, and for others (masks of attention) their axes from the right."""
    cards = {card.name: card for card in model.inputs}
    axes = ["batch", "head", "query", "key"]
    return tuple(
        cards.get(name) or Input(name, name[0], " ".join(axes[-value.dim() :]))
        for name, value in named.items()
        if isinstance(value, Tensor)
    )
