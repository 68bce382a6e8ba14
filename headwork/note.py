"""The vocabulary of the whole package: a mechanism is a pure function that notes its steps.

``note(name, value)`` returns the value. ``silent`` is the identity; a recorder keeps each value; a
replacer swaps one for another. Scopes nest: ``inside(note, "block 0")`` notes ``block 0/weights``.
Beside each function stand its cards, one ``Input`` per input and one ``Step`` per noted value, with what
a name cannot say (symbol, formula, axes). Every reading (text, LaTeX, page, exercise, shape ledger)
reads cards and nothing else.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from headwork.errors import unknown_name

Value = TypeVar("Value")


class Note(Protocol):
    """Takes the name and the value of a step and returns the value with which the mechanism continues."""

    def __call__(self, name: str, value: Value, /) -> Value: ...


def silent(name: str, value: Value, /) -> Value:
    """The note that records nothing.

    >>> silent("scores", 3)
    3
    """
    return value


def inside(note: Note, scope: str) -> Note:
    """The same note inside a scope.

    >>> inside(lambda name, value: print(name) or value, "block 0")("weights", 1)
    block 0/weights
    1
    """
    if note is silent:
        return silent

    def scoped(name: str, value: Value, /) -> Value:
        return note(f"{scope}/{name}", value)

    return scoped


@dataclass(frozen=True)
class Input:
    """The card of one input: its name, symbol, axes and meaning. ``trainable`` marks parameters."""

    name: str
    symbol: str
    axes: str
    about: str = ""
    trainable: bool = False


@dataclass(frozen=True)
class Step:
    r"""The card of one step: name, symbol, formula (LaTeX) and axes.

    ``{W_q}`` in a formula stands for the matrix as the convention applies it: ``W_q^\top`` where rows are
    multiplied by ``W x``; ``{memory}`` for the memory where there is one, else the tokens; ``{masked|S}`` for
    the symbol of the step ``masked`` where it is taken, else ``S``; ``block <`` in it for the block before.
    ``column_formula`` is the one with tokens as columns. ``when`` names the option or input without which
    the step is not taken, or says when it is. ``step *`` in a name stands for any number.
    """

    name: str
    symbol: str
    formula: str
    axes: str
    column_formula: str = ""
    when: str = ""

    def matches(self, path: str) -> bool:
        return re.fullmatch(re.escape(self.name).replace(r"\*", r"\d+"), path) is not None


@dataclass(frozen=True)
class Mechanism:
    """A registered function with its cards."""

    slug: str
    function: Callable[..., Any]
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    options: Mapping[str, inspect.Parameter] = field(default_factory=dict)
    option_types: Mapping[str, Any] = field(default_factory=dict)
    required: tuple[str, ...] = ()  # inputs and options that have no default
    # Makes one tree of its trained inputs, where it takes one.
    build_parameters: Callable[[Mapping[str, Any]], Any] | None = None

    @classmethod
    def from_function(cls, function: Callable[..., Any], *cards: Input | Step, **more: Any) -> "Mechanism":
        """The function with its cards; its keyword-only parameters are its options."""
        named = {n: p for n, p in inspect.signature(function).parameters.items() if n != "parameters"}
        options = {n: p for n, p in named.items() if p.kind is p.KEYWORD_ONLY and n not in RUN_KEYWORDS}
        hints = inspect.get_annotations(function, eval_str=True)
        return cls(
            slug=function.__name__.replace("_", "-"),
            function=function,
            inputs=tuple(c for c in cards if isinstance(c, Input)),
            steps=tuple(c for c in cards if isinstance(c, Step)),
            options=options,
            option_types={name: hints.get(name, Any) for name in options},
            required=tuple(name for name, p in named.items() if p.default is p.empty),
            **more,
        )

    def run(self, values: Mapping[str, Any], note: Note = silent) -> Any:
        """The function of these inputs and options; parameters are gathered into the tree that it takes."""
        if self.build_parameters is None:
            return self.function(**values, note=note)
        trained = {c.name: values[c.name] for c in self.inputs if c.trainable and c.name in values}
        others = {name: value for name, value in values.items() if name not in trained}
        return self.function(**others, parameters=self.build_parameters(trained), note=note)

    @property
    def has_sublayers(self) -> bool:
        return self.build_parameters is not None and any("/" in step.name for step in self.steps)

    @property
    def about(self) -> str:
        return (inspect.getdoc(self.function) or "").split("\n\n")[0].replace("\n", " ")

    def step(self, path: str) -> Step:
        for card in self.steps:
            if card.matches(path):
                return card
        raise unknown_name(f"step of {self.slug}", path, [card.name for card in self.steps])


MECHANISMS: dict[str, Mechanism] = {}
RUN_KEYWORDS = ("note", "drop", "kernels", "output_tokens")  # how a mechanism is run, none of its own options
# A matrix in a formula, to be written as the convention applies it.
MATRIX = re.compile(r"\{(W_\w'?)\}")
# Steps of which the last one taken so far is meant, and what stands there where none is.
LAST_TAKEN = re.compile(r"\{([\w ,/<-]+)\|([^{}|]+)\}")

Function = TypeVar("Function", bound=Callable[..., Any])


def mechanism(
    *cards: Input | Step, registry: dict[str, Mechanism] = MECHANISMS, build_parameters: Any = None
) -> Callable[[Function], Function]:
    """Register a function under its slug and return it unchanged.

    ``build_parameters`` makes a tree of the parameters that a person gives one by one, where the function
    takes a tree.
    """

    def register(function: Function) -> Function:
        registered = Mechanism.from_function(function, *cards, build_parameters=build_parameters)
        registry[registered.slug] = registered
        return function

    return register


def get_mechanism(name: str) -> Mechanism:
    """The registered mechanism of that slug (underscores are as good as hyphens)."""
    slug = name.replace("_", "-")
    if slug not in MECHANISMS:
        raise unknown_name("mechanism", name, MECHANISMS)
    return MECHANISMS[slug]


def steps_of(
    function: Callable[..., Any],
    *,
    scope: str = "",
    always_x_W: bool = False,
    memory: str = "{memory}",
    symbols: Mapping[str, str] | None = None,
) -> tuple[Step, ...]:
    """The steps of a mechanism used inside another, under its scope.

    ``always_x_W`` fixes its matrices to ``x W``, whatever the convention of the mechanism around it;
    ``memory`` is the symbol of what it attends to; ``symbols`` stand there for its own.
    """
    known = "|".join(map(re.escape, symbols or ()))
    pattern = re.compile(rf"(?<![A-Za-z\\])(?:{known})(?![A-Za-z'])" if known else r"(?!)")

    def renamed(text: str) -> str:
        return pattern.sub(lambda match: (symbols or {})[match[0]], text).replace("{memory}", memory)

    def adapt(step: Step) -> Step:
        symbol, formula, columns = map(renamed, (step.symbol, step.formula, step.column_formula))
        if always_x_W:
            formula, columns = MATRIX.sub(r"\1", formula), MATRIX.sub(r"\1^\\top", columns)
        path = f"{scope}/{step.name}" if scope else step.name
        return replace(step, name=path, symbol=symbol, formula=formula, column_formula=columns)

    return tuple(adapt(step) for step in get_mechanism(function.__name__).steps)
