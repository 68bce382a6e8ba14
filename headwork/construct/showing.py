"""Constructions and equivalences in words, tables and traces, through the renderers of the other rooms."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headwork.construct.proving import EQUIVALENCES, Equality, cost
from headwork.construct.targets import TARGETS
from headwork.pages.tables import Table
from headwork.readings.report import Report

if TYPE_CHECKING:
    from headwork.construct.construction import Construction


def construction_report(result: Construction) -> Report:
    """What was asked, the certificate, and the trace of an example; or why it cannot be done."""
    if not result.possible:
        return Report(f"{result.target}: impossible", (result.reason,))
    parts: list[Any] = [_setting(result), _certificate(result)]
    if (move := result.perturbation) is not None:
        parts.append(
            f"A key moved by {move.delta:g}: over all inputs an output moves by at most 2 r c tanh(beta |q| delta / "
            f"4), c the head's factor in W_o: {move.bound:.4g}. Here it does most for key {move.key} of head "
            f"{move.head}, where output {move.query} moves by {move.change:.4g} (measured {move.measured:.4g})."
        )
    worst = result.worst_input[:, 0]
    shown = " ".join(f"{x:.4g}" for x in worst[:16]) + (" ..." if len(worst) > 16 else "")
    if not result.relative:
        parts.append(f"The worst input (first column of the content, the others are 0): {shown}")
    several = (
        " W_q, W_k and W_v hold the heads one below another, W_o side by side." if result.heads > 1 else ""
    )
    parts.append(f"On an example{', head 0' if result.rotary else ''}.{several}")
    return Report(result.target, (*parts, result.trace()))


def _setting(result: Construction) -> str:
    if result.relative:
        return (
            "q = k = v = x, without positions; the tokens are sums of orthogonal vectors of norm r. The error is the "
            "largest l2 error of an output row, as a share of r."
        )
    codes = (
        f"position codes of width {result.positions.shape[1]}"
        if result.positions.shape[1]
        else "no positions"
    )
    behind = "a constant 1, with rotary positions" if result.rotary else codes
    return (
        f"{result.tokens} tokens; a row is [content, positions]: content of width {result.worst_input.shape[1]} and "
        f"l2 norm at most r = {result.norm:.6g}, then {behind}. The error is the largest l2 error of an output row. "
        "Weights apply as W x; beta is not folded into them."
    )


def _certificate(result: Construction) -> Table:
    """The numbers that are promised and those that were measured; sentences go below."""
    tolerance = "none given" if result.tolerance is None else f"{result.tolerance:g}"
    rows = [
        ("heads", str(result.heads), ""),
        ("beta", f"{result.beta:.10g}", result.beta_exact and f"= {result.beta_exact}"),
        *([("norm", f"{result.norm:.10g}", f"= {result.norm_exact}")] if result.norm_exact else []),
        ("tolerance", tolerance, "asked for"),
        ("bound", f"{result.bound:.10g}", f"proved; {result.rounding:.1e} of it for rounding"),
        ("measured", f"{result.measured:.10g}", "on the worst input"),
        ("measured", f"{result.measured_random:.10g}", f"the most of {result.random_inputs} random inputs"),
        ("certificate", "holds" if result.holds else "FAILS", "measured <= bound <= tolerance"),
    ]
    kept = [row for row in rows if result.random_inputs or "random" not in row[2]]
    proof = (
        "the relative error in closed form"
        if result.relative
        else "r times the largest row sum of |A - target|"
    )
    notes = [
        f"beta: {result.beta_why}.",
        f"bound: {proof}, and rounding.",
        *(f"{said}." for said in result.remarks),
    ]
    return Table("", ("what", "value", ""), list(kept), notes)


def equality_report(found: Equality) -> Report:
    """Both sides, what each costs, how far they differ, and the exact proof of a small case."""
    cases = [("small, below", found.what.small), (found.what.large_words, found.what.large)]
    costs = [(one.slug, words, cost(one, case)) for words, case in cases if case for one in found.sides]
    rows = [(slug, words, c.weights, c.flops, c.others) for slug, words, c in costs]
    notes = [
        "FLOPs: two for each multiply-add of a matrix product; every other operation on single numbers apart."
    ]
    table = Table("", ("side", "case", "weights", "FLOPs", "other operations"), list(rows), notes)
    said = (
        "Exactly, on the small case below: "
        f"{'both sides are the same' if found.proved else 'THE SIDES DIFFER'}{found.what.exactly}. In float64, over "
        f"{found.cases} random cases of random sizes: the largest difference is "
        f"{found.difference:.2g}{'' if found.difference <= found.allowed else ', MORE THAN ALLOWED'} (at most "
        f"{found.allowed:g} is allowed)."
    )
    return Report(found.what.title, (found.what.why, table, said, *found.traces()))


def target_list() -> str:
    """Every target with what it takes.

    >>> print(target_list().splitlines()[0])
    identity        Every token keeps its own content: y_i = x_i. [tokens, grid]
    """
    from headwork.construct.copying import copy

    told = []
    every: dict[str, Callable[..., Any]] = {**TARGETS, "copy": copy}
    for name, function in every.items():
        takes = [n for n in inspect.signature(function).parameters if n != "tolerance"]
        first = (inspect.getdoc(function) or "").split("\n")[0]
        told.append(f"{name:<15} {first} [{', '.join(takes)}]")
    return "\n".join(told)


def equivalence_list() -> str:
    """Every equivalence with its title.

    >>> print(equivalence_list().splitlines()[0])
    convolution-toeplitz            convolution = Toeplitz matrix
    """
    return "\n".join(f"{name:<31} {one.title}" for name, one in EQUIVALENCES.items())
