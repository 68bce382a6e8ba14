"""Parameters and work of whole models: the body of a model's definition, run on shapes alone.

A part is what owns parameters, called as its steps are (``block 0/attention``); the work between two notes
belongs to the part of the later one, or, where that is in none, to the part before. By name there are the
transformer (Vaswani et al. 2017), post-normalised with sinusoidal positions, where one matrix serves as both
embeddings and as the output projection (section 3.4 of the paper), and the vision transformer (Dosovitskiy et
al. 2020). Any other model is counted by its definition and config.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, get_type_hints

from headwork.errors import TooLarge
from headwork.mechanisms import parameters as params
from headwork.mechanisms.attention import check_heads
from headwork.mechanisms.configs import checked_settings
from headwork.mechanisms.definitions import DEFINITIONS, Definition, find_definition
from headwork.mechanisms.kernels import PLAIN
from headwork.numbers import OperationCount, ShapeTensor
from headwork.numbers.options import read_option
from headwork.sizes.counting import BIAS_NAME, axis_words, check_sizes, size_limit
from headwork.sizes.layers import Size, height_and_width, patch_grid
from headwork.sizes.ledger import Fact, Ledger, Row, sum_rows, text_of

Shape = tuple[int, ...]
MAX_LAYERS = 1000
BLOCK = re.compile(r"block \d+")


def model_config(name: str, settings: Mapping[str, Any] | None = None) -> tuple[Definition, Any]:
    """A model's definition by its short name, and its config with some fields as a person types them.

    >>> model_config("vision", {"width": "32"})[1].width
    32
    """
    definition = find_definition(name)
    kind = definition.config_class
    hints, chosen = get_type_hints(kind), {}
    for field, value in checked_settings(kind, settings or {}, f"field of {kind.__name__}").items():
        chosen[field] = read_option(hints[field], value, where=field) if isinstance(value, str) else value
    config: Any = kind(**chosen)
    if getattr(config, "depth", 1) > MAX_LAYERS:
        raise TooLarge(f"{name}: depth {config.depth:,}; at most {MAX_LAYERS:,} layers are counted.")
    return definition, config


def input_shapes(
    definition: Definition, config: Any, *, tokens: int = 128, batch: int = 1
) -> dict[str, Shape]:
    """The shapes of the inputs that a model requires."""
    check_sizes(definition.slug, tokens=tokens, batch=batch)
    signature_parameters = inspect.signature(definition.function).parameters
    side = getattr(config, "image_size", 0)
    sizes = {"batch": batch, "token": tokens, "key": tokens, "height": side, "width": side or config.width}
    sizes["channel"] = getattr(config, "channels", 0)
    return {
        card.name: tuple(sizes[word] for word in card.axes.split())
        for card in definition.inputs
        if signature_parameters[card.name].default is inspect.Parameter.empty
    }


def model_rows(
    definition: Definition, config: Any, shapes: Mapping[str, Any], template: Any = None
) -> list[Row]:
    """One row for each part of a model, as it runs; parameters that no step uses come first."""
    template = definition.specs(config) if template is None else template
    leaves, paths = params.flatten_tree(template), params.parameter_paths(template)
    shapes_of_part: dict[str, dict[str, Shape]] = {}
    for name, leaf in leaves.items():
        scope, _, parameter_name = paths[name].rpartition("/")
        if leaf.trainable:
            shapes_of_part.setdefault(scope or parameter_name, {})[parameter_name] = leaf.shape
    rows = {part: _part_row(part, own_shapes) for part, own_shapes in shapes_of_part.items()}
    work, current, steps = OperationCount(), "", definition.steps(config)
    counted_rows: dict[str, Row] = {}

    def note(path: str, value: Any, /) -> Any:
        nonlocal current
        names = path.split("/")
        prefixes_and_suffixes = ["/".join(part) for i in range(len(names)) for part in (names[:i], names[i:])]
        matching_parts = [part for part in prefixes_and_suffixes if part in rows]
        if path == "scores":
            matching_parts = ["head" if "head" in rows else path]
        part = current = max(matching_parts, key=len) if matching_parts else current or path
        row = counted_rows.get(part) or rows.get(part) or Row(name=part)
        counted = Row(name=part, **work.pop_counts())
        if matching_parts and "/" not in path.removeprefix(f"{part}/").removesuffix(f"/{part}"):
            axes = next(step.axes for step in steps if step.matches(path))
            row = replace(row, shape=value.shape, axes=axis_words(axes, value.shape))
        counted_rows[part] = sum_rows(part, [row, counted], shape=row.shape, axes=row.axes)
        return value

    values = {name: ShapeTensor(s, work) if isinstance(s, tuple) else s for name, s in shapes.items()}
    tree = params.map_tree(lambda name, leaf: ShapeTensor(leaf.shape, work), template)
    with size_limit(definition.slug):
        definition.function(tree, config, **values, kernels=PLAIN.with_note(note))
    return [*(row for part, row in rows.items() if part not in counted_rows), *counted_rows.values()]


def _part_row(part: str, own_shapes: Mapping[str, Shape]) -> Row:
    biases = sum(prod(shape) for name, shape in own_shapes.items() if BIAS_NAME.fullmatch(name))
    shape = next(iter(own_shapes.values())) if len(own_shapes) == 1 else None
    weights = sum(map(prod, own_shapes.values())) - biases
    return Row(name=part, shape=shape, weights=weights, biases=biases, multiply_adds=0)


def model_ledger(definition: Definition, config: Any, shapes: Mapping[str, Any]) -> Ledger:
    """What each part of a model holds and does, on inputs of these shapes.

    >>> definition, config = model_config("convolutional", {"width": 4, "depth": 1})
    >>> counted = model_ledger(definition, config, {"images": (1, 1, 28, 28)})
    >>> [(row.name, row.parameters, row.flops) for row in counted.rows]
    [('block 0', 40, 56448), ('head', 50, 80)]
    """
    rows = tuple(model_rows(definition, config, shapes))
    total = sum_rows("total", rows)
    given = {name: shape for name, shape in shapes.items() if isinstance(shape, tuple)}
    inputs = ", ".join(f"{name} {' x '.join(map(str, shape))}" for name, shape in given.items())
    slug = definition.function.__name__.replace("_", "-")
    facts: dict[str, Any] = {"parameters": total.parameters or 0, "FLOPs": total.flops or 0}
    notes = (text_of("model/flops"),)
    return Ledger(title=f"{slug}: {inputs}", rows=rows, facts=facts, notes=notes, summed=True)


# --- the transformer and the vision transformer -------------------------------------------------------
def transformer(
    *,
    width: int = 512,
    depth: int = 6,
    heads: int = 8,
    hidden: int = 2048,
    vocabulary: int = 37_000,
    tokens: int = 512,
    target_tokens: int | None = None,
) -> Ledger:
    """The transformer, by default the base one with the shared vocabulary of its paper.

    >>> base = transformer()
    >>> base.total.parameters, base.facts["parameters without the vocabulary"]
    (63082496, 44138496)
    """
    targets = tokens if target_tokens is None else target_tokens
    sizes = {"width": width, "heads": heads, "hidden": hidden}
    check_sizes("transformer", **sizes, depth=depth, tokens=tokens, target_tokens=targets)
    check_sizes("transformer", 0, vocabulary=vocabulary)
    check_heads("transformer", width, heads)
    definition, sizes["max_length"] = DEFINITIONS["EncoderDecoder"], max(tokens, targets)
    config = definition.config_class(**sizes, depth=1, vocabulary=max(vocabulary, 1))
    counted = model_rows(definition, config, {"source": (tokens,), "target": (targets,)})
    rows = _repeated([row for row in counted if vocabulary or "block" in row.name], depth)
    counts = {
        s: _parameters(r for r in rows if r.name.startswith(f"{s}/block")) for s in ("encoder", "decoder")
    }
    return _named_ledger(
        f"transformer, encoder-decoder: width {width}, {depth} layers each, {heads} heads, hidden {hidden}, "
        f"vocabulary {vocabulary:,}",
        rows,
        {
            **{f"parameters of the {s}": count for s, count in counts.items()},
            "parameters without the vocabulary": sum(counts.values()),
            "parameters of the vocabulary": _parameters(rows) - sum(counts.values()),
        },
        text_of("transformer/notes", source=tokens, target=targets),
    )


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
    sizes = {"width": width, "heads": heads, "hidden": hidden}
    check_sizes("vit", **sizes, depth=depth, classes=classes, channels=channels)
    check_heads("vit", width, heads)
    down, across = patch_grid(image, patch, "vit")
    tokens, height_width = down * across + class_token, height_and_width("vit", image)
    model: dict[str, Any] = {**sizes, "depth": 1}
    model |= {"pooling": "class token" if class_token else "mean", "image_size": patch, "patch_size": patch}
    definition = DEFINITIONS["VisionTransformer"]
    config = definition.config_class(**model, channels=channels, classes=classes)
    # The config knows square images only; any grid of patches needs as many positions as it has.
    positions = params.TableParameters(params.Spec((tokens, width)))
    template = replace(definition.specs(config), positions=positions)
    counted = model_rows(definition, config, {"images": (channels, *height_width)}, template)
    rows = _repeated(counted, depth)
    return _named_ledger(
        f"vision transformer: image {' x '.join(map(str, height_width))}, patch "
        f"{patch}, width {width}, {depth} layers, {heads} heads, hidden {hidden}, {classes:,} classes",
        rows,
        {"patches": down * across, "tokens": tokens},
        text_of("vit/notes", pooled=text_of(f"vit/pooled/{'class_token' if class_token else 'mean'}")),
    )


def _parameters(rows: Iterable[Row]) -> Any:
    return sum_rows("", rows).parameters or 0


def _repeated(rows: list[Row], depth: int) -> list[Row]:
    """The rows of a model of one layer, as one of ``depth`` layers."""
    return [
        replace(row, name=BLOCK.sub("block *", row.name), times=depth if "block" in row.name else 1)
        for row in rows
    ]


def _named_ledger(title: str, rows: list[Row], facts: dict[str, Fact], notes: list[str]) -> Ledger:
    """Nearly every shape here is token x width: stated once, in a note, instead of in every row."""
    total = sum_rows("total", rows)
    facts |= {"parameters": total.parameters or 0, "parameters without biases": total.weights or 0}
    plain = tuple(replace(row, axes="") for row in rows)
    return Ledger(title=title, rows=plain, facts=facts, notes=tuple(notes), summed=True)
