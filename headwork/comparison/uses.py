"""Best use: accuracy, time and parameters on images and, in full, on reviews, with the same budget for all.

Times are those of one training step and of one answer, every family in turn, as ratios to the quickest.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import nn

from headwork.comparison.bias import leaders
from headwork.comparison.families import FAMILIES, image_model, text_model
from headwork.comparison.fitting import Share, share
from headwork.comparison.images import COUNTS, DATA, SIZES, measurement, name_of
from headwork.comparison.rows import Measurement, Results, Row, Settings, listed, times
from headwork.comparison.teaching import BATCH, Batch, draws, started, teach, teach_step
from headwork.comparison.timing import Race, threads
from headwork.data import EncodedTexts, load_texts, train_tokenizer
from headwork.data.splits import batches, batches_in_order
from headwork.pages.tables import Table

REVIEWS, VOCABULARY, LONGEST = "imdb", 2000, 200
TEXT_WIDTH, TEXT_WANTED = 64, 200_000
TEXT_RATE = 1e-3
TESTED = 5000  # reviews: enough for a margin of a point, and a quarter of the time


def plan(settings: Settings) -> list[Measurement]:
    full, families = settings.full, settings.families
    made = [
        measurement(settings, family, COUNTS[full][-1], seed)
        for seed in settings.seeds
        for family in families
    ]
    decided_by = {"families": families, "size": vars(SIZES[full]), "batch": BATCH}
    made.append(
        Measurement("uses time on images", decided_by, lambda: image_times(families, full), len(families))
    )
    if full:
        made += [_reviews(settings, family, seed) for seed in settings.seeds for family in families]
        decided_by = {"families": families, "width": TEXT_WIDTH, "wanted": TEXT_WANTED, "longest": LONGEST}
        made.append(
            Measurement("uses time on reviews", decided_by, lambda: text_times(families), 3.0 * len(families))
        )
    return made


def _reviews(settings: Settings, family: str, seed: int) -> Measurement:
    decided_by = {
        "family": family,
        "data": REVIEWS,
        "seed": seed,
        "steps": settings.steps,
        "batch": BATCH,
        "rate": TEXT_RATE,
        "wanted": TEXT_WANTED,
        "vocabulary": VOCABULARY,
        "longest": LONGEST,
        "tested": TESTED,
    }
    return Measurement(
        review_name(family, seed),
        decided_by,
        lambda: judged(family, seed, steps=settings.steps),
        settings.steps * 0.1,
    )


def review_name(family: str, seed: int) -> str:
    return f"reviews {family} seed {seed}"


# --- measuring ----------------------------------------------------------------------------------


def image_times(families: Sequence[str], full: bool, rounds: int = 20) -> dict[str, Any]:
    """Times of a training step and of an answer on images, in units of the shortest of each."""
    side = SIZES[full].image
    images = torch.randn(BATCH, 1, side, side, generator=draws("timed images"))
    labels = torch.randint(0, SIZES[full].classes, (BATCH,), generator=draws("timed labels"))
    models = {name: image_model(FAMILIES[name], SIZES[full]) for name in families}
    return _race(models, ((images,), labels), rounds)


def text_times(families: Sequence[str], rounds: int = 5) -> dict[str, Any]:
    """The same on texts as long as they may be."""
    tokens = torch.randint(2, VOCABULARY, (BATCH, LONGEST), generator=draws("timed tokens"))
    labels = torch.randint(0, 2, (BATCH,), generator=draws("timed labels"))
    models = {name: text_model_of(name) for name in families}
    return _race(models, ((tokens, torch.ones_like(tokens)), labels), rounds)


def _race(models: dict[str, Any], batch: Batch, rounds: int) -> dict[str, Any]:
    runs: dict[tuple[str, str], Any] = {}
    for name, model in models.items():
        runs["step", name] = _step(model, batch)
        runs["answer", name] = _answer(model, batch)
    with threads(1):
        best = Race(runs).run(rounds)
    found: dict[str, dict[str, float]] = {}
    for what in ("step", "answer"):
        unit = min(best[what, name] for name in models)
        found[what] = {name: best[what, name] / unit for name in models}
    return found


def _step(model: nn.Module, batch: Batch) -> Any:
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
    return lambda: teach_step(model, batch, optimiser, 0.0)


def _answer(model: nn.Module, batch: Batch) -> Any:
    @torch.no_grad()
    def answer() -> object:
        return model(*batch[0])

    return answer


def text_model_of(family: str) -> Any:
    return text_model(
        FAMILIES[family], vocabulary=VOCABULARY, longest=LONGEST, width=TEXT_WIDTH, wanted=TEXT_WANTED
    )


@cache
def reviews() -> tuple[EncodedTexts, EncodedTexts]:
    """Film reviews to train on and to be tested on, as tokens."""
    data = load_texts(REVIEWS, validation=0)
    tokenizer = train_tokenizer(data.train.texts, vocabulary=VOCABULARY, max_length=LONGEST)
    tested = data.test.at(batches(len(data.test), TESTED, seed=0, epoch=0)[0])
    return tokenizer.encode(data.train), tokenizer.encode(tested)


def judged(family: str, seed: int, *, steps: int) -> dict[str, Any]:
    """A model taught to tell good reviews from bad ones: its right answers."""
    shown, asked = reviews()
    words = (seed, family, REVIEWS)
    model = started(lambda: text_model_of(family), *words)
    order = [
        chosen
        for epoch in range(1 + steps * BATCH // len(shown))
        for chosen in batches(len(shown), BATCH, seed=seed, epoch=epoch, lengths=shown.lengths)
    ]

    def batch(step: int) -> Batch:
        tokens, mask, labels = shown.tensors(order[step])
        return (tokens, mask), labels

    teach(model, batch, *words, steps=steps, rate=TEXT_RATE)
    right = 0
    with threads(1), torch.no_grad():
        for chosen in batches_in_order(len(asked), 200, asked.lengths):
            tokens, mask, labels = asked.tensors(chosen)
            right += int((model(tokens, mask).argmax(-1) == labels).sum())
    return {
        "accuracy": right / len(asked),
        "tested": len(asked),
        "parameters": sum(p.numel() for p in model.parameters()),
    }


# --- telling ------------------------------------------------------------------------------------


def told(settings: Settings, results: Results) -> Row:
    full, names, count = settings.full, settings.families, COUNTS[settings.full][-1]
    row = Row(
        "uses",
        "Best use",
        f"{settings.steps:,} steps of {BATCH} examples, seeds {listed(map(str, settings.seeds))}.",
    )
    runs = {name: [results[name_of(name, count, seed)] for seed in settings.seeds] for name in names}
    _tell(
        row,
        f"{DATA[full]}, {count:,} images",
        runs,
        results["uses time on images"],
        chance=0.1,
        steps=settings.steps,
    )
    if full:
        runs = {name: [results[review_name(name, seed)] for seed in settings.seeds] for name in names}
        _tell(
            row, f"{REVIEWS} reviews", runs, results["uses time on reviews"], chance=0.5, steps=settings.steps
        )
    else:
        row.say("Reviews are compared with --full only: they must be fetched.")
    return row


def _tell(row: Row, what: str, runs: dict[str, list[Any]], timed: Any, *, chance: float, steps: int) -> None:
    found = {name: share([run["accuracy"] for run in many], many[0]["tested"]) for name, many in runs.items()}
    counts = {name: many[0]["parameters"] for name, many in runs.items()}
    row.cells += [
        (f"{what}: right", {name: str(one) for name, one in found.items()}),
        (f"{what}: parameters", {name: f"{one:,}" for name, one in counts.items()}),
        (f"{what}: time a training step", {name: times(one) for name, one in timed["step"].items()}),
        (f"{what}: time an answer", {name: times(one) for name, one in timed["answer"].items()}),
    ]
    columns = ("family", "right", "parameters", "time a training step", "time an answer")
    rows = [
        (name, str(found[name]), counts[name], times(timed["step"][name]), times(timed["answer"][name]))
        for name in runs
    ]
    row.tables.append(Table(what, columns, rows, ["Times are ratios to the quickest family's."]))
    if any(one.above(chance) for one in found.values()):
        sentence = f"On {what}, {_words(found, timed)}."
    else:
        sentence = (
            f"On {what}, {steps} training steps are too small a budget to say anything: no family was above chance "
            f"({chance:.0%}). Give more with --steps."
        )
    row.verdict = f"{row.verdict} {sentence}".strip()
    row.numbers[what] = {
        "accuracy": {name: one.value for name, one in found.items()},
        "parameters": counts,
        **timed,
    }


def _words(found: dict[str, Share], timed: Any) -> str:
    """Who is ahead, and whether the quickest to train is among them."""
    best = max(found, key=lambda name: found[name].value)
    quick = min(timed["step"], key=lambda name: timed["step"][name])
    words = leaders(found)
    if len(found) == 1:
        return words
    if quick == best:
        return f"{words}; {quick} is the quickest to train, too"
    cost = f"{quick} is the quickest to train, {timed['step'][best]:.1f} times as quick as {best}"
    return f"{words}; {cost}" + (
        ", and behind it" if found[best].above(found[quick]) else ", and not seen to be behind it"
    )
