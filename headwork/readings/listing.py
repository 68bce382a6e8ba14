"""All mechanisms with their inputs, options and steps, from the cards."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import headwork.mechanisms  # noqa: F401  (registers every mechanism)
from headwork.documents import Document, Item, Items
from headwork.mechanisms.definitions import DEFINITIONS
from headwork.note import MECHANISMS, Mechanism
from headwork.readings.assembling import TOKEN_AXES
from headwork.readings.models_by_hand import CONVENTION, by_hand


def mechanism_list() -> Document:
    """Each mechanism in a few lines."""
    models = (by_hand(definition, {})[0] for definition in DEFINITIONS.values())
    return Document("Mechanisms", (Items(tuple(map(_item, (*MECHANISMS.values(), *models)))),))


def _item(mechanism: Mechanism) -> Item:
    inputs = (c.name if c.name in mechanism.required else f"[{c.name}]" for c in mechanism.inputs)
    lines = [f"inputs   {', '.join(inputs)}"]
    if options := list(option_texts(mechanism)):
        lines.append(f"options  {', '.join(options)}")
    if mechanism.slug not in MECHANISMS:
        lines.append(f"convention  {CONVENTION}")
    lines.append(f"steps    {', '.join(step.name for step in mechanism.steps)}")
    return Item(mechanism.about, mechanism.slug, more=tuple(lines))


def option_texts(mechanism: Mechanism) -> Iterator[str]:
    """Each option with its type and its default."""
    hints = mechanism.option_types()
    for name, parameter in mechanism.options.items():
        usual = parameter.default
        default = "" if usual in (parameter.empty, None) else f", {usual} unless given"
        yield f"{name} ({_type_text(hints[name])}{default})"
    if any(axis in TOKEN_AXES for card in mechanism.inputs for axis in card.axes.split()):
        yield "tokens_as (rows | columns, rows unless given)"


def _type_text(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return " | ".join(str(choice) for choice in get_args(hint))
    if marks := getattr(hint, "__metadata__", ()):
        return "causal | matrix" if "mask" in marks else "number"
    inner = [part for part in get_args(hint) if part is not type(None)]
    kinds = {int: "whole number", bool: "true | false"}
    return _type_text(inner[0]) if inner else kinds.get(hint, "number")
