"""All mechanisms with their inputs, options and steps, made from the cards: a list and a table for the docs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import headwork.mechanisms  # noqa: F401  (registers every mechanism)
from headwork.note import MECHANISMS, Mechanism
from headwork.pages.formulas import formula_for, plain_formula


def mechanism_list() -> str:
    """Each mechanism in a few lines of text."""
    return "\n".join(line for what in MECHANISMS.values() for line in _lines(what))


def _lines(what: Mechanism) -> Iterator[str]:
    yield f"{what.slug}"
    yield f"    {what.about}"
    yield f"    inputs   {', '.join(_inputs(what))}"
    if what.options:
        yield f"    options  {', '.join(_options(what))}"
    yield f"    steps    {', '.join(step.name for step in what.steps)}"


def _inputs(what: Mechanism) -> Iterator[str]:
    for given in what.inputs:
        yield given.name if given.name in what.required else f"[{given.name}]"


def _options(what: Mechanism) -> Iterator[str]:
    kinds = what.option_types()
    for name, parameter in what.options.items():
        told = _kind(kinds[name])
        default = (
            "" if parameter.default in (parameter.empty, None) else f", {parameter.default} unless given"
        )
        yield f"{name} ({told}{default})"


def _kind(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(str(choice) for choice in get_args(kind))
    if marks := getattr(kind, "__metadata__", ()):
        return "causal | matrix" if "mask" in marks else "number"
    inner = [k for k in get_args(kind) if k is not type(None)]
    return _kind(inner[0]) if inner else {"int": "whole number"}.get(getattr(kind, "__name__", ""), "number")


def mechanism_table() -> str:
    """docs/mechanisms.md: every mechanism's inputs, options and steps."""
    lines = [
        "# Mechanisms",
        "",
        "Made from the cards by `python -m headwork.readings.listing`; do not edit.",
        "",
    ]
    for what in MECHANISMS.values():
        lines += [f"## {what.slug}", "", what.about, "", "| input | symbol | axes | |", "|---|---|---|---|"]
        for given in what.inputs:
            need = "" if given.name in what.required else "optional; "
            lines.append(
                f"| `{given.name}` | ${given.symbol}$ | {given.axes.replace(' ', ' x ')} | {need}{given.about} |"
            )
        if what.options:
            lines += ["", "Options: " + ", ".join(f"`{o}`" for o in _options(what)) + "."]
        lines += ["", "| step | symbol | formula | axes |", "|---|---|---|---|"]
        for step in what.steps:
            formula = formula_for(step, columns=False, convention="W x")
            only, axes = f" (with {step.when})" if step.when else "", step.axes.replace(" ", " x ")
            lines.append(f"| `{step.name}`{only} | ${step.symbol}$ | {plain_formula(formula)} | {axes} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(mechanism_table())
