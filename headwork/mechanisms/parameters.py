"""Trees of parameters: what a layer, a block or a whole model is a function of, besides its inputs.

A node is a frozen dataclass whose fields are tensors, nodes, or tuples of nodes; None is absent. A parameter
has two names: where it stands in the tree, as saved files have it (``transformer.blocks.0.attention.W_q``),
and its path among the steps of a trace (``block 0/attention/W_q``). A tree of ``Spec`` tells the shape of
each parameter and how a new one is drawn; filled with tensors of any kind it is what a mechanism takes.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from headwork.errors import InputError, format_shape, unknown_name
from headwork.note import Input

Tensor = Any  # torch.Tensor, HandTensor or ShapeTensor
Node = TypeVar("Node")
Initialisation = Literal["matrix", "flat matrix", "rows", "small", "zeros", "ones"]


def parameter(symbol: str, axes: str, about: str, **more: str) -> Any:
    """A field that holds a tensor, with its card.

    ``scope`` is its name in paths where that differs; ``init`` how a new one is drawn, where that is neither
    "matrix" for several axes nor "zeros" for one.
    """
    return field(default=None, metadata={"card": (symbol, axes, about), **more})


def subtree(scope: str, prefix: str = "", suffix: str = "") -> Any:
    """A field that holds a node, with its scope in paths; by hand its parameters are named by affixes."""
    return field(default=None, metadata={"scope": scope, "prefix": prefix, "suffix": suffix})


@dataclass(frozen=True)
class Spec:
    """A parameter before it has numbers: its shape and how a new one is drawn.

    "matrix": uniform within sqrt(6 / (rows + columns)) (Glorot & Bengio 2010), with "flat matrix" as if it
    had two axes; "rows": normal, of length about 1; "small": normal, of deviation 0.02. ``constant`` makes a
    table that is neither trained nor saved, of the kind of a given tensor.
    """

    shape: tuple[int, ...]
    init: Initialisation = "zeros"
    trainable: bool = True
    constant: Callable[[Tensor], Tensor] | None = None


@dataclass(frozen=True)
class AttentionParameters:
    """Of attention with several heads; the matrices are applied as W x unless a convention says otherwise."""

    W_q: Tensor = parameter("W_q", "key_width width", "query projection; none is the identity")
    W_k: Tensor = parameter("W_k", "key_width width", "key projection; none is the identity")
    W_v: Tensor = parameter("W_v", "value_width width", "value projection; none is the identity")
    W_o: Tensor = parameter("W_o", "width joined_width", "mixes the joined heads; none is the identity")
    b_q: Tensor = parameter("b_q", "key_width", "query bias; none is 0")
    b_k: Tensor = parameter("b_k", "key_width", "key bias; none is 0")
    b_v: Tensor = parameter("b_v", "value_width", "value bias; none is 0")
    b_o: Tensor = parameter("b_o", "width", "bias of the output; none is 0")


@dataclass(frozen=True)
class FeedForwardParameters:
    """Applied as x W."""

    W_1: Tensor = parameter("W_1", "width hidden", "feed-forward, applied as x W; none is the identity")
    b_1: Tensor = parameter("b_1", "hidden", "none is 0")
    W_2: Tensor = parameter("W_2", "hidden width", "feed-forward, applied as x W; none is the identity")
    b_2: Tensor = parameter("b_2", "width", "none is 0")


@dataclass(frozen=True)
class NormalisationParameters:
    scale: Tensor = parameter(r"\gamma", "width", "none is 1", init="ones")
    shift: Tensor = parameter(r"\beta", "width", "none is 0")


@dataclass(frozen=True)
class EncoderLayerParameters:
    attention: AttentionParameters = subtree("attention")
    normalisation_1: NormalisationParameters = subtree("normalisation 1", suffix="_1")
    normalisation_2: NormalisationParameters = subtree("normalisation 2", suffix="_2")
    feed_forward: FeedForwardParameters = subtree("feed-forward")


@dataclass(frozen=True)
class DecoderLayerParameters:
    attention: AttentionParameters = subtree("attention")
    normalisation_1: NormalisationParameters = subtree("normalisation 1", suffix="_1")
    normalisation_2: NormalisationParameters = subtree("normalisation 2", suffix="_2")
    normalisation_3: NormalisationParameters = subtree("normalisation 3", suffix="_3")
    feed_forward: FeedForwardParameters = subtree("feed-forward")
    cross_attention: AttentionParameters = subtree("cross-attention", prefix="cross_")


@dataclass(frozen=True)
class StackParameters:
    """Blocks one after another, and the normalisation at their end where there is one."""

    blocks: tuple[Any, ...] = subtree("block")
    normalisation: NormalisationParameters | None = subtree("normalisation")


@dataclass(frozen=True)
class TableParameters:
    """One row per token of a vocabulary, or per position."""

    table: Tensor = parameter("T", "row width", "one row each", init="rows")


@dataclass(frozen=True)
class ConvolutionParameters:
    filters: Tensor = parameter("K", "output_channel channel kernel_height kernel_width", "one per channel")
    bias: Tensor = parameter("b", "output_channel", "none is 0")


@dataclass(frozen=True)
class ClassifierHeadParameters:
    """From a vector to one logit per class, applied as W x."""

    matrix: Tensor = parameter("W", "class width", "one row per class")
    bias: Tensor = parameter("b", "class", "one per class")


@dataclass(frozen=True)
class RecurrentParameters:
    """Each gate's rows below the other; a GRU has two biases, the others one."""

    W_x: Tensor = parameter("W_x", "gate_states width", "the gates' matrices, one below the other")
    W_h: Tensor = parameter("W_h", "gate_states state", "the gates' matrices, one below the other")
    bias: Tensor = parameter("b", "gate_states", "none is 0")
    b_x: Tensor = parameter("b_x", "gate_states", "added to W_x x; none is 0")
    b_h: Tensor = parameter("b_h", "gate_states", "added to W_h h; none is 0")


@dataclass(frozen=True)
class RecurrentLayerParameters:
    """One direction or both."""

    forwards: RecurrentParameters = subtree("forwards")
    backwards: RecurrentParameters | None = subtree("backwards")


@dataclass(frozen=True)
class NGramParameters:
    """``ratios`` are fixed: how much likelier an n-gram is in a class than elsewhere, as a logarithm."""

    table: Tensor = parameter("u", "ngram class", "one row per n-gram")
    ratios: Tensor = parameter("r", "ngram class", "fixed factors, counted before training")


def spec_tree(kind: type[Node], **sizes: int) -> Node:
    """A tree of ``Spec`` of that kind, with a size for each axis word.

    >>> spec_tree(ClassifierHeadParameters, width=3, **{"class": 2}).bias.shape
    (2,)
    """
    axis_sizes = dict.fromkeys(("key_width", "value_width", "joined_width"), sizes.get("width", 0)) | sizes
    hints = get_type_hints(kind)

    def child(entry: Field[Any]) -> Any:
        if "card" not in entry.metadata:
            return spec_tree(hints[entry.name], **sizes)
        axes = entry.metadata["card"][1].split()
        init = entry.metadata.get("init", "matrix" if len(axes) > 1 else "zeros")
        return Spec(tuple(axis_sizes[word] for word in axes), init)

    return kind(**{entry.name: child(entry) for entry in fields(kind)})  # type: ignore[arg-type]


# --- what holds of every tree -----------------------------------------------------------------------
def is_node(tree: Any) -> bool:
    return is_dataclass(tree) and not isinstance(tree, Spec)


def map_tree(function: Callable[[str, Any], Any], tree: Any, name: str = "") -> Any:
    """The tree with ``function(name, leaf)`` in place of each leaf; what is absent stays absent.

    >>> map_tree(lambda name, leaf: name, StackParameters((NormalisationParameters(1),)))
    StackParameters(blocks=(NormalisationParameters(scale='blocks.0.scale', shift=None),), normalisation=None)
    """
    start = f"{name}." if name else ""
    if tree is None:
        return None
    if is_node(tree):
        names = [entry.name for entry in fields(tree)]
        return type(tree)(**{n: map_tree(function, getattr(tree, n), start + n) for n in names})
    if isinstance(tree, tuple):
        return tuple(map_tree(function, child, f"{start}{i}") for i, child in enumerate(tree))
    return function(name, tree)


def flatten_tree(tree: Any) -> dict[str, Any]:
    """Every leaf by its name in saved files."""
    leaves: dict[str, Any] = {}
    map_tree(leaves.__setitem__, tree)
    return leaves


def fill_tree(template: Any, values: Mapping[str, Any], where: str = "parameters") -> Any:
    """The tree of ``template`` with these values, by either name; errors say what is missing or misshapen.

    >>> fill_tree(ClassifierHeadParameters(Spec((2, 3)), Spec((2,))), {"matrix": "?"})
    Traceback (most recent call last):
    headwork.errors.InputError: parameters: 'bias' is missing. Expected 2.
    """
    shapes, paths = flatten_tree(template), parameter_paths(template)
    current = {path: name for name, path in paths.items()}
    named = {current.get(name, name): value for name, value in values.items()}
    for name in named:
        if name not in shapes:
            raise unknown_name(f"parameter in {where}", name, paths.values())
    for name, like in shapes.items():
        expected = format_shape(like.shape, "")
        if name not in named:
            raise InputError(f"{where}: '{paths[name]}' is missing. Expected {expected}.")
        shape = getattr(named[name], "shape", like.shape)
        if tuple(shape) != tuple(like.shape):
            raise InputError(f"{where}: '{paths[name]}' is {format_shape(shape, '')}, expected {expected}.")
    return map_tree(lambda name, leaf: named[name], template)


def parameter_paths(tree: Any) -> dict[str, str]:
    """The path of each leaf among the steps of a trace, by its name in saved files."""
    return {name: path for name, path, _ in _walk(tree)}


def parameter_cards(tree: Any) -> tuple[Input, ...]:
    """The card of each leaf, named by its path."""
    return tuple(_card(entry, path) for _, path, entry in _walk(tree))


def _walk(tree: Any, name: str = "", path: str = "") -> Iterator[tuple[str, str, Field[Any]]]:
    """The name, path and field of each leaf of a tree."""
    for entry in fields(tree):
        child = getattr(tree, entry.name)
        scope = entry.metadata.get("scope", entry.name)
        here, inner = f"{name}{entry.name}", path + (f"{scope}/" if scope else "")
        if isinstance(child, tuple):
            for i, block in enumerate(child):
                yield from _walk(block, f"{here}.{i}.", f"{path}{scope} {i}/")
        elif is_node(child):
            yield from _walk(child, f"{here}.", inner)
        elif child is not None:
            yield here, inner.removesuffix("/"), entry


# What is added to the symbols of parameters in these parts of a model, where others have the same.
SYMBOL_SUFFIXES = {"/embedding normalisation/": "_0", "/normalisation/": "_f", "cross-attention/": "'"}
SYMBOL_SUFFIXES |= {"positions/table": "'", "types/table": "''", "head/bias": "_z"}


def _card(entry: Field[Any], name: str, prefix: str = "", suffix: str = "") -> Input:
    symbol, axes, about = entry.metadata["card"]
    about = f"of normalisation {suffix[1:]}; {about}" if suffix else about
    numbered = re.search(r"normalisation (\d+)/", name)
    marks = [mark for scope, mark in SYMBOL_SUFFIXES.items() if scope in f"/{name}"]
    mark = f"_{numbered[1]}" if numbered else "".join(marks[:1])
    return Input(name, symbol + ("'" if prefix else suffix or mark), axes, about, trainable=True)


# --- parameters by hand: a layer's, by short names ----------------------------------------------------
def input_cards(kind: type) -> tuple[Input, ...]:
    """The cards of a layer's parameters, by their names by hand: W_q, cross_W_q, scale_1.

    >>> [card.name for card in input_cards(EncoderLayerParameters)][7:10]
    ['b_o', 'scale_1', 'shift_1']
    """
    return tuple(
        _card(entry, f"{prefix}{entry.name}{suffix}", prefix, suffix)
        for _, prefix, suffix, node in _parts(kind)
        for entry in fields(node)
    )


def group_parameters(kind: type, values: Mapping[str, Any]) -> Any:
    """A layer's tree from its parameters by hand; one that is not given is the identity, or 0."""
    parts = {
        name: node(**{e.name: values.get(f"{prefix}{e.name}{suffix}") for e in fields(node)})
        for name, prefix, suffix, node in _parts(kind)
    }
    return parts.get("") or kind(**parts)


def _parts(kind: type) -> list[tuple[str, str, str, type]]:
    """The nodes of a layer, with what goes around the names of their parameters; a node alone is its own."""
    hints = get_type_hints(kind)
    if all("card" in entry.metadata for entry in fields(kind)):
        return [("", "", "", kind)]
    return [(e.name, e.metadata["prefix"], e.metadata["suffix"], hints[e.name]) for e in fields(kind)]
