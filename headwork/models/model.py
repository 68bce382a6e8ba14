"""Models as nn.Modules: parameters around a function, made from a config.

``Parameters`` holds a tree of parameters (``mechanisms.parameters``) under the names of its fields. A model
calls the body of its definition (``mechanisms.definitions``) with that tree; it computes nothing itself.
``forward`` takes ``note`` and passes it on, so its steps have paths such as ``block 0/attention/weights``;
``steps`` lists their cards. A fused model notes none: it raises.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwork.errors import InputError
from headwork.mechanisms.configs import Backend, Config
from headwork.mechanisms.definitions import DEFINITIONS, Definition, classifier_definition
from headwork.mechanisms.fused import FusedKernels
from headwork.mechanisms.kernels import Kernels, no_dropout
from headwork.mechanisms.native import NativeKernels
from headwork.mechanisms.parameters import Spec, is_node
from headwork.note import Note, Step, silent

MODELS: "dict[str, type[Model]]" = {}  # by the name of the class, as saved folders have it


def initialise_parameter(spec: Spec) -> Tensor:
    """A new tensor, as ``Spec`` describes it."""
    shape = spec.shape
    if spec.constant is not None:
        table = torch.empty(*shape)
        return table if table.is_meta else table.copy_(spec.constant(torch.zeros((), dtype=torch.float64)))
    if spec.init == "rows":
        return torch.randn(*shape) / math.sqrt(shape[-1])
    if spec.init == "small":
        return 0.02 * torch.randn(*shape)
    if spec.init in ("zeros", "ones"):
        return (torch.zeros if spec.init == "zeros" else torch.ones)(*shape)
    flat = shape if spec.init == "matrix" else (shape[0], math.prod(shape[1:]))
    return nn.init.xavier_uniform_(torch.empty(*flat)).reshape(shape)


class Parameters(nn.Module):
    """A tree of parameters, drawn from a tree of ``Spec``; modules in it are taken as they are."""

    def __init__(self, template: Any) -> None:
        super().__init__()
        self.node_type, self.names = type(template), [entry.name for entry in fields(template)]
        for name in self.names:
            value = getattr(template, name)
            if isinstance(value, Spec) and value.trainable:
                value = nn.Parameter(initialise_parameter(value))
            elif isinstance(value, Spec):
                self.register_buffer(name, initialise_parameter(value), persistent=value.constant is None)
                continue
            elif isinstance(value, tuple):
                value = nn.ModuleList(Parameters(child) for child in value)
            elif is_node(value):
                value = Parameters(value)
            setattr(self, name, value)

    def tree(self) -> Any:
        """The tree that a function takes, with the tensors that are now here."""
        return self.node_type(**{name: _subtree(getattr(self, name)) for name in self.names})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _subtree(value: Any) -> Any:
    if isinstance(value, Parameters):
        return value.tree()
    return tuple(_subtree(child) for child in value) if isinstance(value, nn.ModuleList) else value


class Model(Parameters):
    """A definition with parameters. A subclass that is called as a definition is registered with it."""

    definition: ClassVar[Definition]
    __call__: Callable[..., Tensor]  # nn.Module itself promises nothing
    tokenizer: Any = None  # splits a text into this model's tokens, where it has one

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__name__ in DEFINITIONS:
            MODELS[cls.__name__], cls.definition = cls, DEFINITIONS[cls.__name__]

    def __init__(self, config: Any, **parts: nn.Module) -> None:
        """A new model; ``parts`` are there already and take the place of new ones."""
        super().__init__(replace(self.definition.specs(config), **parts))
        self.config = config

    def run(
        self, *inputs: Any, note: Note = silent, kernels_class: Any = FusedKernels, **options: Any
    ) -> Tensor:
        """The body of the definition on these parameters and inputs; ``kernels_class`` its fast kernels."""
        native = self.config.backend == "native" and kernels_class is FusedKernels
        kind = Kernels if self.config.backend == "plain" else NativeKernels if native else kernels_class
        rate = getattr(self.config, "dropout", 0.0) if self.training else 0.0
        kernels = kind(drop=partial(functional.dropout, p=rate) if rate else no_dropout, note=note)
        body: Callable[..., Tensor] = self.definition.function
        return body(self.tree(), self.config, *inputs, kernels=kernels, **options)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The cards of what a forward pass notes; ``block *`` stands for each block."""
        return self.definition.steps(self.config)

    @property
    def parameter_count(self) -> int:
        """The number of trained numbers; shared ones count once."""
        return sum(p.numel() for p in self.parameters())

    def with_backend(self, backend: Backend) -> Self:
        """The same parameters (not copies) under another backend.

        >>> from headwork.models import VisionTransformer, VisionTransformerConfig
        >>> fast = VisionTransformer(VisionTransformerConfig(backend="fused"))
        >>> plain = fast.with_backend("plain")
        >>> plain.config.backend, plain.head.matrix is fast.head.matrix
        ('plain', True)
        """
        shared = {id(t): t for t in (*self.parameters(), *self.buffers())}
        twin = copy.deepcopy(self, shared)
        for part in twin.modules():
            if isinstance(part, Model):
                part.config = replace(part.config, backend=backend)
        return twin

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        return super().load_state_dict(self.definition.current_parameters(state_dict), strict, assign)

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write config, parameters, tokenizer and manifest into a folder (``models.saving``)."""
        from headwork.models.saving import save_pretrained

        return save_pretrained(self, folder)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """The model of a folder, if it is one of this class."""
        from headwork.models.saving import from_pretrained

        model = from_pretrained(folder)
        if not isinstance(model, cls):
            raise InputError(
                f"{folder} holds a {type(model).__name__}, not a {cls.__name__}. Ask that class for it."
            )
        return model

    def check(self, *inputs: Tensor | None, note: Note = silent) -> None:
        """Refuse inputs that do not fit, and a note where a fused kernel notes no steps."""
        # Looking at values would break a compiled graph, and numbers without storage have none.
        has_values = not torch.compiler.is_compiling() and not any(t.is_meta for t in inputs if t is not None)
        self.definition.check(type(self).__name__, self.config, *inputs, check_values=has_values)
        if note is not silent and self.config.backend != "plain":
            name, backend = type(self).__name__, self.config.backend
            raise InputError(
                f"{name}: a {backend} model keeps no steps, so there is nothing to trace. "
                "Take model.with_backend('plain'), which has the same parameters, or set backend='plain'."
            )


def build_classifier(config: Config) -> Model:
    """A new classifier, with random parameters."""
    return MODELS[classifier_definition(config).name](config)
