"""Long range: a task that needs the first token after a gap, and how much of the first token the gradient still sees.

A sequence is a symbol to remember, a gap of other symbols of the same alphabet, and a question mark at the end, where
the first must be told. So neither a count nor a rare symbol helps: it is the place that matters. Gradients are those of
all scores at the last token by the embedding of each earlier one. For a plain recurrence with W_h = w Q, Q orthogonal,
the gradient of the last state by the first input is w^(n-1) where nothing squashes the states.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from headwork.comparison.drawing import draw, legend, level, panel, ticked
from headwork.comparison.families import FAMILIES, LastToken, parameters, sequence_model
from headwork.comparison.fitting import Share, share
from headwork.comparison.rows import Measurement, Picture, Results, Row, Settings, grouped, listed
from headwork.comparison.teaching import BATCH, RATE, Batch, accuracy, draws, started, teach
from headwork.comparison.timing import threads
from headwork.mechanisms import recurrence
from headwork.pages.tables import Table

SYMBOLS, QUESTION = 4, 4  # symbols 0 to 3; the question mark
TESTED = 1000
SOLVED = 0.9
QUICK, FULL = (2, 8, 24, 64), (2, 8, 32, 128, 256, 512)
WIDTH = 24  # of the transformers
WANTED = {
    False: 10_000,
    True: 24_000,
}  # parameters, quick and full: the table of positions for 514 tokens is part of them
PROBED = 16  # sequences over which gradients are averaged
WEIGHTS = (0.8, 0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15, 1.2)
STEPS_BACK, STATES = 64, 8


def gaps(settings: Settings) -> tuple[int, ...]:
    return FULL if settings.full else QUICK


def plan(settings: Settings) -> list[Measurement]:
    made = [
        Measurement(
            name_of(family, gap, seed),
            _decided_by(settings, family, gap, seed),
            _work(settings, family, gap, seed),
            settings.steps * (0.004 + 0.00012 * gap),
        )
        for gap in gaps(settings)
        for seed in settings.seeds
        for family in settings.families
    ]
    weights = {"weights": WEIGHTS, "steps": STEPS_BACK, "states": STATES}
    return [*made, Measurement("long-range recurrent weight", weights, through_one, 1)]


def name_of(family: str, gap: int, seed: int) -> str:
    return f"long-range {family} gap {gap} seed {seed}"


def _decided_by(settings: Settings, family: str, gap: int, seed: int) -> dict[str, Any]:
    return {
        "family": family,
        "gap": gap,
        "seed": seed,
        "steps": settings.steps,
        "batch": BATCH,
        "rate": RATE,
        "wanted": WANTED[settings.full],
        "tested": TESTED,
    }


def _work(settings: Settings, family: str, gap: int, seed: int) -> Any:
    return lambda: remembered(family, gap, seed, steps=settings.steps, wanted=WANTED[settings.full])


# --- measuring ----------------------------------------------------------------------------------


def sequences(gap: int, count: int, drawn: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sequences (sequence, token) with the symbol that each begins with."""
    symbols = torch.randint(0, SYMBOLS, (count, gap + 1), generator=drawn)
    question = torch.full((count, 1), QUESTION)
    return torch.cat([symbols, question], 1), symbols[:, 0]


def remembered(family: str, gap: int, seed: int, *, steps: int, wanted: int) -> dict[str, Any]:
    """A model taught to tell the first symbol: how often it is right, and its gradients before and after."""
    words = (seed, family, f"gap {gap}")
    model = started(
        lambda: sequence_model(
            FAMILIES[family],
            longest=gap + 2,
            vocabulary=SYMBOLS + 1,
            classes=SYMBOLS,
            width=WIDTH,
            wanted=wanted,
        ),
        *words,
    )
    assert isinstance(model, LastToken)
    # The same sequences for every family.
    shown, asked = draws(seed, "shown", gap), draws(seed, "asked", gap)
    before = gradients(model, gap, seed)

    def batch(step: int) -> Batch:
        tokens, first = sequences(gap, BATCH, shown)
        return (tokens,), first

    teach(model, batch, *words, steps=steps)
    tokens, first = sequences(gap, TESTED, asked)
    return {
        "accuracy": accuracy(model, tokens, first),
        "parameters": parameters(model),
        "before": before,
        "after": gradients(model, gap, seed),
    }


def gradients(model: LastToken, gap: int, seed: int) -> list[float]:
    """Norm of the gradient of the last output by the vector at each place, root mean square over sequences."""
    tokens, _ = sequences(gap, PROBED, draws(seed, "probed", gap))
    # In float32 what vanishes would soon be exactly zero, as if there were no path at all.
    model = copy.deepcopy(model).double()
    with threads(1):
        vectors = model.embedding(tokens).detach().requires_grad_()
        scores = model.read(vectors)
        squares = torch.zeros(gap + 2, dtype=torch.float64)
        for k in range(scores.shape[-1]):
            (found,) = torch.autograd.grad(scores[:, k].sum(), vectors, retain_graph=True)
            squares += found.square().sum(-1).mean(0)
    return [float(x) for x in squares.sqrt()]


def through_one(weights: Sequence[float] = WEIGHTS, steps: int = STEPS_BACK) -> dict[str, Any]:
    """The gradient of the last state by the first input for W_h = w Q: as it is, and with tanh."""
    drawn = draws("recurrent weight")
    turn = torch.linalg.qr(torch.randn(STATES, STATES, generator=drawn, dtype=torch.float64))[0]
    inputs = 0.1 * torch.randn(steps, STATES, generator=drawn, dtype=torch.float64)
    kinds: tuple[Literal["linear", "tanh"], ...] = ("linear", "tanh")
    found: dict[str, list[float]] = {activation: [] for activation in kinds}
    for activation in kinds:
        for weight in weights:
            found[activation].append(_first_to_last(inputs, weight * turn, activation))
    return {"weights": list(weights), "steps": steps, "norms": found}


def _first_to_last(inputs: Tensor, W_h: Tensor, activation: Literal["linear", "tanh"]) -> float:
    def last(first: Tensor) -> Tensor:
        joined = torch.cat([first[None], inputs[1:]])
        result: Tensor = recurrence(
            joined, torch.eye(STATES, dtype=torch.float64), W_h, activation=activation
        )
        return result

    with threads(1):
        jacobian = torch.autograd.functional.jacobian(last, inputs[0])  # type: ignore[no-untyped-call]
    # The root of the mean square over the states: 1 for a rotation.
    return float(jacobian.norm() / math.sqrt(STATES))


# --- telling ------------------------------------------------------------------------------------


def told(settings: Settings, results: Results) -> Row:
    chance, names, asked = 1 / SYMBOLS, settings.families, gaps(settings)
    counts = [results[name_of(name, asked[0], settings.seeds[0])]["parameters"] for name in names]
    budget = (
        f"{settings.steps:,} steps of {BATCH} sequences at rate {RATE:g}, seeds {listed(map(str, settings.seeds))}; "
        f"models of {min(counts):,} to {max(counts):,} parameters; {TESTED:,} test sequences a seed; chance is "
        f"{chance:.0%}."
    )
    row = Row("long-range", "Long range", budget)
    shares = {name: {gap: _share(settings, results, name, gap) for gap in asked} for name in names}
    row.cells = [(f"gap {gap}: right", {name: str(shares[name][gap]) for name in names}) for gap in asked]
    row.numbers = {
        "accuracy": {
            name: {str(gap): found.value for gap, found in by.items()} for name, by in shares.items()
        },
        "chance": chance,
    }
    if not any(found.above(chance) for by in shares.values() for found in by.values()):
        row.verdict = (
            f"{settings.steps} training steps are too small a budget to say anything: no family was above chance "
            f"({chance:.0%}) at any gap. Give more with --steps."
        )
    else:
        row.verdict = _reached(shares, chance, asked)
        row.say(_claim(shares, asked[-1]))
        row.pictures.append(_accuracy_picture(shares, chance, asked))
    _tell_gradients(row, settings, results, asked[-1])
    _tell_weight(row, results["long-range recurrent weight"])
    return row


def _share(settings: Settings, results: Results, name: str, gap: int) -> Share:
    found = [results[name_of(name, gap, seed)]["accuracy"] for seed in settings.seeds]
    return share(found, TESTED * len(settings.seeds))


def _reached(shares: dict[str, dict[int, Share]], chance: float, asked: Sequence[int]) -> str:
    """Up to which gap each family is right."""
    said = {}
    for name, by in shares.items():
        solved = [gap for gap in asked if by[gap].value >= SOLVED]
        above = [gap for gap in asked if by[gap].above(chance)]
        if solved == list(asked):
            said[name] = f"right ({SOLVED:.0%} or more) at every gap up to {asked[-1]}"
        elif not above:
            said[name] = "at no gap above chance"
        else:
            best = (
                f"right up to a gap of {max(solved)}" if solved else f"nowhere right {SOLVED:.0%} of the time"
            )
            lost = [gap for gap in asked if gap not in above]
            rest = f"no better than chance from {min(lost)} on" if lost and min(lost) > max(above) else ""
            said[name] = f"{best}, {rest}" if rest else f"{best}, above chance up to {max(above)}"
    parts = "; ".join(
        f"{listed(names)} {'are' if len(names) > 1 else 'is'} {words}" for words, names in grouped(said)
    )
    return f"Asked for the first symbol, {parts}."


def _claim(shares: dict[str, dict[int, Share]], gap: int) -> str:
    """The usual claim, that attention reaches farther than recurrence, against the numbers at the longest gap."""
    recurrent = [name for name in shares if FAMILIES[name].kind == "recurrence"]
    if "transformer" not in shares or not recurrent:
        return ""
    attention = shares["transformer"][gap]
    behind = [name for name in recurrent if attention.above(shares[name][gap])]
    ahead = [name for name in recurrent if shares[name][gap].above(attention)]
    level = [name for name in recurrent if name not in behind and name not in ahead]
    parts = []
    if behind:
        parts.append(f"attention is ahead of {listed(behind)}")
    if ahead:
        parts.append(f"{listed(ahead)} ahead of attention, against the usual claim")
    if level:
        parts.append(f"no difference was seen between attention and {listed(level)}")
    within = ", with this budget: it says how soon a family learns, not what it could learn"
    return f"At a gap of {gap} {'; '.join(parts)}{within}."


def _accuracy_picture(shares: dict[str, dict[int, Share]], chance: float, asked: Sequence[int]) -> Picture:
    figure, axes = panel(
        "Telling the first symbol after a gap", "gap (symbols between)", "right answers in %", log_x=True
    )
    level(axes, 100 * chance, f"chance, {chance:.0%}")
    draw(
        axes,
        {name: (asked, [100 * by[gap].value for gap in asked]) for name, by in shares.items()},
        apart=True,
    )
    axes.set_ylim(0, 104)
    ticked(axes, asked)
    legend(figure, 3)
    margin = max(found.margin for by in shares.values() for found in by.values())
    return Picture(
        figure,
        "right answers against the gap",
        f"95% margins are {100 * margin:.1f} points or less. Marks of one gap stand side by side.",
    )


def _tell_gradients(row: Row, settings: Settings, results: Results, gap: int) -> None:
    """How the gradient fades with the distance, before and after training, at the longest gap and the first seed."""
    seed = settings.seeds[0]
    found = {name: results[name_of(name, gap, seed)] for name in settings.families}
    factors = {
        when: {name: fading(result[when]) for name, result in found.items()} for when in ("before", "after")
    }
    row.cells.append(
        ("gradient kept a place, untrained", {k: _factor_words(x) for k, x in factors["before"].items()})
    )
    row.cells.append(
        ("gradient kept a place, trained", {k: _factor_words(x) for k, x in factors["after"].items()})
    )
    for when, told in (("before", "Untrained"), ("after", "Trained")):
        figure, axes = panel(
            f"{told}: gradient by distance, gap {gap}",
            "places before the last token",
            "norm of the gradient (1 place before = 1)",
            log_y=True,
        )
        lines = {}
        for name, result in found.items():
            norms = np.array(result[when][-2::-1]) / result[when][-2]
            seen = norms > 1e-20
            lines[name] = (list(1 + np.arange(len(norms))[seen]), list(norms[seen]))
        for number, (name, line) in enumerate(lines.items()):
            # Every line has its marks at places of its own.
            draw(axes, {name: line}, markevery=(number * gap // 40, max(1, gap // 8)))
        axes.set_ylim(1e-14, 1e2)
        legend(figure, 3)
        row.pictures.append(
            Picture(
                figure,
                f"gradient norm by distance, {told.lower()}",
                "Where a line ends the gradient is zero, or below what is drawn.",
            )
        )
    row.say(
        _fading_sentence({name: result["before"] for name, result in found.items()}, gap, "Before training")
    )
    row.say(_fading_sentence({name: result["after"] for name, result in found.items()}, gap, "After it"))
    for name, result in found.items():
        if result["after"][0] == 0:
            seen = gap + 1 - next(i for i, norm in enumerate(result["after"]) if norm > 0)
            row.say(
                f"The last vector of {name} depends on no token more than {seen} places back: no training helps there."
            )
    row.numbers["gradient kept a place"] = factors


def fading(norms: Sequence[float]) -> float | None:
    """The factor by which the gradient changes a place; None where it does not reach the first.

    >>> round(fading([0.125, 0.25, 0.5, 7.0]), 6)
    0.5
    """
    values = np.array(norms[-2::-1])
    if values[-1] <= 0:
        return None
    slope = float(np.polyfit(np.arange(len(values)), np.log(values), 1)[0])
    return math.exp(slope)


def _factor_words(factor: float | None) -> str:
    return "none beyond its reach" if factor is None else f"x {factor:.3f}"


def _fading_sentence(norms: dict[str, list[float]], gap: int, when: str) -> str:
    """The first token's gradient beside that of the token just before the last."""
    said, ratios = {}, {}
    for name, values in norms.items():
        ratio = values[0] / values[-2]
        ratios[name] = f"{ratio:.2g}"
        if ratio == 0:
            said[name] = "nothing of the first token reaches the end"
        elif ratio < 1e-3:
            said[name] = "the gradient all but vanishes on the way"
        elif ratio < 0.3:
            said[name] = "the gradient fades"
        elif ratio < 3:
            said[name] = "the gradient is kept"
        else:
            said[name] = "the first token counts for more than a near one"
    parts = [
        f"in {listed(names)} {words} ({listed(ratios[n] for n in names)} of a near token's)"
        for words, names in grouped(said)
    ]
    return f"{when}, over a gap of {gap}: {'; '.join(parts)}."


def weight_plot(result: Any, *, wide: bool = False) -> Any:
    """The gradient against the recurrent weight: measured, and the power that it is without tanh."""
    weights, steps, norms = result["weights"], result["steps"], result["norms"]
    figure, axes = panel(
        f"Recurrent weight through 1, {steps} steps",
        "recurrent weight w (W_h = w Q)",
        "gradient, last state by first input",
        log_y=True,
        wide=wide,
    )
    power = [w ** (steps - 1) for w in weights]
    axes.plot(weights, power, color="#777777", linewidth=3, alpha=0.5, label=f"w^{steps - 1}")
    draw(axes, {"lstm": (weights, norms["linear"])}, {"lstm": "linear states, measured"}, linestyle="")
    draw(axes, {"cnn": (weights, norms["tanh"])}, {"cnn": "tanh, measured"})
    legend(figure, 3, wide=wide)
    return figure


def _tell_weight(row: Row, result: Any) -> None:
    weights, steps, norms = result["weights"], result["steps"], result["norms"]
    caption = f"A plain recurrence of {STATES} states, its recurrent matrix w times a rotation."
    row.pictures.append(Picture(weight_plot(result), "gradient against the recurrent weight", caption))
    rows = [
        (f"{w:g}", f"{w ** (steps - 1):.3g}", f"{a:.3g}", f"{b:.3g}")
        for w, a, b in zip(weights, norms["linear"], norms["tanh"], strict=True)
    ]
    columns = ("w", f"w^{steps - 1}", "linear, measured", "tanh, measured")
    row.tables.append(Table(f"Gradient of the last state by the first of {steps} inputs", columns, rows))
    low, one, high = (norms["linear"][weights.index(w)] for w in (weights[0], 1.0, weights[-1]))
    squashed = norms["tanh"][-1]
    row.say(
        f"In a plain recurrence the gradient after {steps} steps goes from {low:.1e} at w = {weights[0]:g} through "
        f"{one:.2g} at w = 1 to {high:.1e} at w = {weights[-1]:g}; with tanh it is {squashed:.2g} there"
        + (", so it no longer explodes." if squashed < high / 10 else ".")
    )
    row.numbers["recurrent weight"] = {"weights": weights, **norms}
