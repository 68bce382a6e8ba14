"""Parameters and work of whole models: the transformer (Vaswani et al. 2017) and the vision transformer.

The transformer is post-normalised, with biases in every projection and sinusoidal positions, which
have no parameters; one matrix serves as both embeddings and as the output projection (section 3.4 of the
paper), which has no bias. The vision transformer (Dosovitskiy et al. 2020) is pre-normalised, with a patch
embedding, learned positions, a last normalisation and a linear head on the class token.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from headwork.errors import unknown
from headwork.mechanisms.attention import project
from headwork.numbers import OperationCount, ShapeTensor, cat
from headwork.sizes.counting import check_heads_divide_width, check_sizes, mechanism_row
from headwork.sizes.layers import Size, grid, sides
from headwork.sizes.ledger import Fact, Ledger, Row, sum_rows

Architecture = Literal["encoder-decoder", "encoder", "decoder"]

FLOPS_NOTE = (
    "FLOPs: two for each multiply-add of a matrix product; other operations are counted apart. "
    "One sequence, forward pass."
)


def transformer(
    *,
    width: int = 512,
    depth: int = 6,
    heads: int = 8,
    hidden: int = 2048,
    vocabulary: int = 37_000,
    tokens: int = 512,
    target_tokens: int | None = None,
    architecture: Architecture = "encoder-decoder",
    shared: bool = True,
) -> Ledger:
    """The transformer, by default the base one with the shared vocabulary of its paper.

    >>> base = transformer()
    >>> base.total.parameters, base.facts["parameters without the vocabulary"]
    (63082496, 44138496)
    """
    targets = tokens if target_tokens is None else target_tokens
    check_sizes("transformer", depth=depth, hidden=hidden, tokens=tokens, target_tokens=targets)
    check_sizes("transformer", 0, vocabulary=vocabulary)
    check_heads_divide_width("transformer", width, heads)
    if architecture not in ("encoder-decoder", "encoder", "decoder"):
        raise unknown("architecture", architecture, ("encoder-decoder", "encoder", "decoder"))
    pair = architecture == "encoder-decoder"
    model: dict[str, Any] = {"width": width, "heads": heads, "hidden": hidden, "activation": "relu"}
    encoder = _stack("encoder", depth, tokens, None, **model) if architecture != "decoder" else []
    queries = targets if pair else tokens
    decoder = (
        _stack("decoder", depth, queries, tokens if pair else 0, **model) if architecture != "encoder" else []
    )
    embeddings, output = [], []
    if vocabulary:
        read = ([("source", tokens)] if encoder else []) + ([("target", queries)] if decoder else [])
        embeddings = [
            _embedding(name if pair else "", vocabulary, width, count, owns=not (shared and i))
            for i, (name, count) in enumerate(read)
        ]
        output = [_output(vocabulary, width, queries, owns=not shared)] if decoder else []
    words = sum_rows("vocabulary", (*embeddings, *output)).weights or 0
    stacks = {"encoder": encoder, "decoder": decoder}
    by_stack = {name: sum_rows(name, rows).parameters or 0 for name, rows in stacks.items() if rows}
    return _model_ledger(
        title=f"transformer, {architecture}: width {width}, {depth} layers{' each' if pair else ''}, "
        f"{heads} heads, hidden {hidden}, vocabulary {vocabulary:,}",
        rows=(*embeddings, *encoder, *decoder, *output),
        facts={
            **{f"parameters of the {name}": count for name, count in by_stack.items()},
            "parameters without the vocabulary": sum_rows("stacks", (*encoder, *decoder)).parameters or 0,
            "parameters of the vocabulary": words,
        },
        notes=_transformer_notes(architecture, shared, tokens, queries),
    )


def _transformer_notes(architecture: str, shared: bool, tokens: int, queries: int) -> tuple[str, ...]:
    counted = (
        "Counted: projections and feed-forward with biases, normalisations with scale and shift; sinusoidal "
        "positions have no parameters; no normalisation after the last layer (torch's nn.Transformer adds "
        "one to each stack)."
    )
    pair = architecture == "encoder-decoder"
    embeddings = "both embeddings" if pair else "the embedding"
    matrices = f"one matrix for {embeddings} and" if shared else "a matrix for each embedding and for"
    vocabulary = f"Vocabulary: {matrices} the output."
    length = f"{tokens} source and {queries} target tokens" if pair else f"{tokens} tokens"
    middle = {
        "encoder-decoder": (vocabulary,),
        "decoder": (vocabulary, "A decoder alone has no encoder to attend to: no cross-attention."),
        "encoder": ("An encoder alone ends with its last layer: no output projection.",),
    }[architecture]
    shapes = f"Shapes are token x width. {FLOPS_NOTE} {length}; masked scores are counted in full."
    return (counted, *middle, shapes)


def vit(
    *,
    image: Size = 224,
    patch: int = 16,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int | None = None,
    classes: int = 1000,
    channels: int = 3,
    class_token: bool = True,
) -> Ledger:
    """A vision transformer, by default ViT-B/16; the hidden width is 4 times the width unless given.

    >>> vit().total.parameters, vit().facts["tokens"]
    (86567656, 197)
    """
    hidden = 4 * width if hidden is None else hidden
    check_sizes("vit", depth=depth, hidden=hidden, classes=classes, channels=channels)
    check_heads_divide_width("vit", width, heads)
    down, across = grid(image, patch, "vit")
    tokens = down * across + class_token
    layer: dict[str, Any] = {"width": width, "heads": heads, "hidden": hidden}
    layer |= {"activation": "gelu", "first": True}
    rows = (
        *_patch_embedding(sides("vit", "image", image), patch, channels, width, class_token),
        *_stack("encoder", depth, tokens, None, **layer),
        mechanism_row("last normalisation", "layer-normalisation", {"token": tokens, "width": width}),
        _head(tokens, width, classes, class_token),
    )
    return _model_ledger(
        title=f"vision transformer: image {' x '.join(map(str, sides('vit', 'image', image)))}, patch "
        f"{patch}, width {width}, {depth} layers, {heads} heads, hidden {hidden}, {classes:,} classes",
        rows=rows,
        facts={"patches": down * across, "tokens": tokens},
        notes=(
            "Counted: biases everywhere, learned positions, normalisation before sublayers and at the end.",
            "The head reads the class token." if class_token else "The head reads the mean of all tokens.",
            f"Shapes are token x width. {FLOPS_NOTE}",
        ),
    )


def _model_ledger(
    title: str, rows: tuple[Row, ...], facts: dict[str, Fact], notes: tuple[str, ...]
) -> Ledger:
    """Nearly every shape here is token x width: stated once, in a note, instead of in every row."""
    total = sum_rows("total", rows)
    facts |= {"parameters": total.parameters or 0, "parameters without biases": total.weights or 0}
    rows = tuple(replace(row, axes="") for row in rows)
    return Ledger(title=title, rows=rows, facts=facts, notes=notes, summed=True)


def _stack(
    name: str,
    depth: int,
    tokens: int,
    memory: int | None,
    *,
    width: int,
    heads: int,
    hidden: int,
    activation: str,
    first: bool = False,
) -> list[Row]:
    """The sublayers of one layer, each as often as there are layers.

    ``memory``: None for an encoder; a decoder attends to so many tokens, or has no cross-attention for 0.
    """
    sizes = dict.fromkeys(("width", "key_width", "value_width", "joined_width"), width)
    sizes |= {"token": tokens, "hidden": hidden}
    mask = None if memory is None else "causal"
    parts = [mechanism_row(f"{name}/self-attention", "multi-head-attention", sizes, heads=heads, mask=mask)]
    if memory:
        crossing = sizes | {"key": memory, "memory": 1}
        parts.append(mechanism_row(f"{name}/cross-attention", "multi-head-attention", crossing, heads=heads))
    parts.append(mechanism_row(f"{name}/feed-forward", "feed-forward", sizes, activation=activation))
    rows = []
    for i, row in enumerate(parts, 1):
        words = "normalise and add" if first else "add and normalise"
        around = _add_and_normalise(f"{name}/{words} {i}", sizes)
        rows += [around, row] if first else [row, around]
    return [replace(row, times=depth) for row in rows]


def _add_and_normalise(name: str, sizes: dict[str, int]) -> Row:
    shape = (sizes["token"], sizes["width"])
    residual = _count("residual", lambda x: x + x, shape)
    return replace(sum_rows(name, [mechanism_row(name, "layer-normalisation", sizes), residual]), shape=shape)


def _count(name: str, work_on: Callable[..., Any], *shapes: tuple[int, ...], **fields: Any) -> Row:
    """A row for what is no mechanism of its own, its work counted in the same way."""
    work = OperationCount()
    result = work_on(*(ShapeTensor(shape, work) for shape in shapes))
    return Row(name=name, shape=result.shape, **vars(work), **fields)


def _embedding(name: str, vocabulary: int, width: int, tokens: int, *, owns: bool) -> Row:
    # Looking a row up costs nothing; it is scaled by sqrt(width), and its position is added.
    row = _count(f"{name} embedding".strip(), lambda rows: rows * width + rows, (tokens, width))
    return _with_matrix(row, vocabulary * width, owns)


def _output(vocabulary: int, width: int, tokens: int, *, owns: bool) -> Row:
    shapes = (tokens, width), (vocabulary, width)
    row = _count("output", lambda rows, matrix: project(rows, matrix, "W").softmax(-1), *shapes)
    return _with_matrix(row, vocabulary * width, owns)


def _with_matrix(row: Row, weights: int, owns: bool) -> Row:
    return replace(row, weights=weights) if owns else replace(row, weights=0, about="shares its matrix")


def _patch_embedding(
    image: tuple[int, int], patch: int, channels: int, width: int, class_token: bool
) -> list[Row]:
    sizes = {"channel": channels, "height": image[0], "width": image[1], "output_channel": width}
    sizes |= {"kernel_height": patch, "kernel_width": patch}
    embedded = mechanism_row("patch embedding", "convolution-2d", sizes, stride=patch)
    count = image[0] // patch * (image[1] // patch)
    rows = [embedded]
    if class_token:
        joined = (1, width), (count, width)
        rows.append(_count("class token", lambda one, many: cat([one, many], -2), *joined, weights=width))
    tokens = (count + class_token, width)
    rows.append(_count("positions", lambda x, table: x + table, tokens, tokens, weights=tokens[0] * width))
    return rows


def _head(tokens: int, width: int, classes: int, class_token: bool) -> Row:
    def head(rows: Any, matrix: Any, bias: Any) -> Any:
        read = rows[0:1] if class_token else rows.mean(-2, keepdim=True)
        return project(read, matrix, "W").squeeze(-2) + bias

    shapes = (tokens, width), (classes, width), (classes,)
    return _count("head", head, *shapes, weights=classes * width, biases=classes)
