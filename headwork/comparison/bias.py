"""Inductive bias: what a family takes for granted about images before it has seen any.

Whether its output moves along when the image does, how few images it needs, and what it loses when all pixels are
shuffled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwork.comparison.drawing import aside, draw, legend, level, panel, ticked
from headwork.comparison.families import FAMILIES
from headwork.comparison.fitting import Share, share
from headwork.comparison.images import COUNTS, DATA, SIZES, circular, measurement, name_of
from headwork.comparison.rows import Measurement, Picture, Results, Row, Settings, grouped, listed
from headwork.comparison.teaching import BATCH, RATE
from headwork.pages.tables import Table

CHANCE = 0.1


def plan(settings: Settings) -> list[Measurement]:
    made = [
        measurement(settings, family, count, seed)
        for count in COUNTS[settings.full]
        for seed in settings.seeds
        for family in settings.families
    ]
    made += [
        measurement(settings, family, COUNTS[settings.full][-1], seed, shuffle=True)
        for seed in settings.seeds
        for family in settings.families
    ]
    return [Measurement("bias circular convolution", {}, circular, 0.2), *made]


def told(settings: Settings, results: Results) -> Row:
    names, seeds, counts = settings.families, settings.seeds, COUNTS[settings.full]
    last = {name: [results[name_of(name, counts[-1], seed)] for seed in seeds] for name in names}
    tested, size = last[names[0]][0]["tested"], SIZES[settings.full]
    sizes = [runs[0]["parameters"] for runs in last.values()]
    budget = (
        f"{DATA[settings.full]} on {size.image} x {size.image} with a margin of {size.margin}: {settings.steps:,} "
        f"steps of {BATCH} images at rate {RATE:g}, seeds {listed(map(str, seeds))}; models of {min(sizes):,} to "
        f"{max(sizes):,} parameters; {tested:,} test images; chance is {CHANCE:.0%}."
    )
    row = Row("bias", "Inductive bias", budget)
    shares = {
        name: {count: _share(results, name, count, seeds, tested) for count in counts} for name in names
    }
    mixed = {name: _share(results, name, counts[-1], seeds, tested, shuffle=True) for name in names}
    moved = {name: share([run["shifted"] for run in runs], tested) for name, runs in last.items()}
    errors = {
        when: {name: sum(run[f"error {when}"] for run in runs) / len(runs) for name, runs in last.items()}
        for when in ("before", "after")
    }
    row.cells = [
        ("equivariance error, untrained", {name: f"{errors['before'][name]:.2f}" for name in names}),
        ("equivariance error, trained", {name: f"{errors['after'][name]:.2f}" for name in names}),
        *(
            (f"right, {count:,} training images", {name: str(shares[name][count]) for name in names})
            for count in counts
        ),
        (f"the last, tested {size.margin} rows lower", {name: str(moved[name]) for name in names}),
        ("the last, all pixels shuffled", {name: str(mixed[name]) for name in names}),
    ]
    zero = results["bias circular convolution"]["error"]
    row.say(_equivariance_sentence(errors, zero))
    if not any(found.above(CHANCE) for by in shares.values() for found in by.values()):
        row.verdict = (
            f"{settings.steps} training steps are too small a budget to say anything about accuracy: no family was "
            f"above chance ({CHANCE:.0%}). Give more with --steps."
        )
    else:
        most = {name: shares[name][counts[-1]] for name in names}
        row.verdict = _few_sentence(shares, counts)
        row.say(f"Tested on images {size.margin} rows lower, {changes(most, moved)}.")
        row.say(f"Taught and tested on images with all pixels in one fixed shuffle, {changes(most, mixed)}.")
        row.pictures.append(_picture(shares, mixed, counts, DATA[settings.full]))
    row.tables.append(_error_table(names, errors, moved, zero, size.margin))
    row.numbers = {
        "equivariance error": errors,
        "circular convolution": zero,
        "accuracy": {
            name: {str(count): found.value for count, found in by.items()} for name, by in shares.items()
        },
        "shuffled": {name: found.value for name, found in mixed.items()},
        "shifted": {name: found.value for name, found in moved.items()},
    }
    return row


def _share(
    results: Results, name: str, count: int, seeds: Sequence[int], tested: int, *, shuffle: bool = False
) -> Share:
    return share([results[name_of(name, count, seed, shuffle)]["accuracy"] for seed in seeds], tested)


def _equivariance_sentence(errors: dict[str, dict[str, float]], zero: float) -> str:
    said = {}
    for name, before in errors["before"].items():
        change = errors["after"][name] - before
        words = "all but" if before < 0.05 else "in part" if before < 0.7 else "hardly"
        said[name] = f"{words} moves along when the image is shifted, and training " + (
            "brings it nearer"
            if change < -0.05
            else "takes some of that away"
            if change > 0.05
            else "changes little of that"
        )
    parts = []
    for words, names in grouped(said):
        numbers = ", ".join(
            f"{name} {errors['before'][name]:.2f} then {errors['after'][name]:.2f}" for name in names
        )
        parts.append(f"the output of {listed(names)} {words} ({numbers})")
    sentence = "; ".join(parts)
    own = "0" if zero == 0 else f"{zero:.0e}"
    return f"{sentence[0].upper()}{sentence[1:]}. The measure's own test, a convolution padded in a circle, has {own}."


def _few_sentence(shares: dict[str, dict[int, Share]], counts: Sequence[int]) -> str:
    """Who is ahead with the fewest images and with the most, as far as the margins allow."""
    parts = [
        f"with {count:,} training images {leaders({name: by[count] for name, by in shares.items()})}"
        for count in (counts[0], counts[-1])
    ]
    first, last = parts
    return f"{first[0].upper()}{first[1:]}; {last}."


def leaders(found: dict[str, Share]) -> str:
    """Who is best, who cannot be told from it, and who is behind.

    >>> leaders({"cnn": share([0.9], 400), "lstm": share([0.89], 400), "gru": share([0.5], 400)})
    'cnn and lstm lead (90.0%, 89.0%: no difference seen), ahead of gru (50.0%)'
    """
    best = max(found, key=lambda name: found[name].value)
    near = [best, *(name for name in found if name != best and not found[best].above(found[name]))]
    behind = [name for name in found if name not in near]
    numbers = ", ".join(f"{found[name].value:.1%}" for name in near)
    if not behind:
        return (
            f"no difference is seen between {listed(near)} ({numbers})"
            if len(near) > 1
            else f"{best} has {numbers}"
        )
    rest = ", ".join(f"{found[name].value:.1%}" for name in behind)
    led = (
        f"{listed(near)} lead ({numbers}: no difference seen)"
        if len(near) > 1
        else f"{best} leads ({numbers})"
    )
    return f"{led}, ahead of {listed(behind)} ({rest})"


def changes(plain: dict[str, Share], changed: dict[str, Share]) -> str:
    """Who loses, who gains, and where no difference is seen.

    >>> few, many = share([0.5], 400), share([0.9], 400)
    >>> changes({"cnn": many, "lstm": few}, {"cnn": few, "lstm": few})
    'cnn (-40.0 points) loses; no difference is seen in lstm (+0.0 points)'
    """
    said, numbers = {}, {}
    for name, found in plain.items():
        gain = changed[name].value - found.value
        numbers[name] = f"{name} ({100 * gain:+.1f} points)"
        said[name] = "same" if not found.differs(changed[name]) else "gain" if gain > 0 else "lose"
    parts = []
    for word, names in grouped(said):
        who = listed(numbers[name] for name in names)
        one = "s" if len(names) == 1 else ""
        parts.append(f"no difference is seen in {who}" if word == "same" else f"{who} {word}{one}")
    return "; ".join(parts)


def _picture(
    shares: dict[str, dict[int, Share]], mixed: dict[str, Share], counts: Sequence[int], data: str
) -> Picture:
    figure, axes = panel(
        f"Right answers by training images ({data})", "training images", "right answers in %", log_x=True
    )
    level(axes, 10, "chance, 10%")
    draw(
        axes,
        {name: (counts, [100 * by[count].value for count in counts]) for name, by in shares.items()},
        apart=True,
    )
    for number, (name, found) in enumerate(mixed.items()):
        at, family = counts[-1] * 1.7 * aside(number, len(mixed)), FAMILIES[name]
        style = {"color": family.colour, "marker": family.mark, "markerfacecolor": "white", "markersize": 6}
        axes.plot([at], [100 * found.value], linestyle="", **style)
    ticked(axes, counts)
    axes.set_ylim(0, 104)
    legend(figure, 3)
    margin = max(found.margin for by in shares.values() for found in by.values())
    caption = (
        f"95% margins are {100 * margin:.1f} points or less. Hollow marks on the right: all pixels shuffled."
    )
    return Picture(figure, "right answers against the number of training images", caption)


def _error_table(
    names: Sequence[str],
    errors: dict[str, dict[str, float]],
    moved: dict[str, Share],
    zero: float,
    margin: int,
) -> Table:
    rows: list[tuple[Any, ...]] = [
        ("convolution, circular, untrained (0 but for rounding)", f"{zero:.1e}", "", "")
    ]
    rows += [
        (name, f"{errors['before'][name]:.3f}", f"{errors['after'][name]:.3f}", str(moved[name]))
        for name in names
    ]
    notes = [f"A shift by {margin} rows. 0: the output moves along; 1: the two outputs are unrelated."]
    columns = ("family", "untrained", "trained", f"right when {margin} rows lower")
    return Table("Equivariance error", columns, rows, notes)
