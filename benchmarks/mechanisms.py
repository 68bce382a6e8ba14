"""All mechanisms as a page of docs/: python -m benchmarks.mechanisms > docs/mechanisms.md."""

from __future__ import annotations

from textwrap import fill

from headwork.documents.formulas import formula_for, plain_formula
from headwork.note import MECHANISMS
from headwork.readings.assembling import effective_options
from headwork.readings.explaining import option_texts


def page() -> str:
    """Every mechanism's inputs, options and steps, in Markdown."""
    origin = "Made from the cards by `python -m benchmarks.mechanisms`; do not edit."
    lines, rule = ["# Mechanisms", "", origin, ""], "|---|---|---|---|"
    for mechanism in MECHANISMS.values():
        convention = effective_options(mechanism, {}).get("convention", "W x")
        about = fill(mechanism.about, 100)
        lines += [f"## {mechanism.slug}", "", about, "", "| input | symbol | axes | |", rule]
        for card in mechanism.inputs:
            need = "" if card.name in mechanism.required else "optional; "
            axes = card.axes.replace(" ", " x ")
            lines.append(f"| `{card.name}` | ${card.symbol}$ | {axes} | {need}{card.about} |")
        if options := ", ".join(f"`{option}`" for option in option_texts(mechanism)):
            lines += ["", fill(f"Options: {options}.", 100, break_long_words=False, break_on_hyphens=False)]
        lines += ["", "| step | symbol | formula | axes |", rule]
        taken: dict[str, str] = {}
        for step in mechanism.steps:
            formula = formula_for(
                step, tokens_as_columns=False, convention=convention, path=step.name, earlier_symbols=taken
            )
            taken |= {} if step.when else {step.name: step.symbol}
            only, axes = f" (with {step.when})" if step.when else "", step.axes.replace(" ", " x ")
            lines.append(f"| `{step.name}`{only} | ${step.symbol}$ | {plain_formula(formula)} | {axes} |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(page())
