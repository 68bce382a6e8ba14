"""Inductive bias: what a family assumes about images before training.

Whether its output shifts with the image, how few training images it needs, and how much accuracy it loses
when all pixels are shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwork.comparison import accuracy
from headwork.comparison.accuracy import Accuracy, changes, leaders
from headwork.comparison.families import FAMILIES
from headwork.comparison.image_task import CHANCE, TASKS, image_measurement, measurement_name
from headwork.comparison.image_task import circular_convolution_error as circular_error
from headwork.comparison.measurements import Measurement
from headwork.comparison.row import Plot, Results, Row, classify, clauses, dodge_factor
from headwork.comparison.settings import Settings


def plan(settings: Settings) -> list[Measurement]:
    counts = TASKS[settings.full].counts
    trainings = [
        image_measurement(settings, family, count, seed, shuffle)
        for count, shuffle in [*((count, False) for count in counts), (counts[-1], True)]
        for seed in settings.seeds
        for family in settings.families
    ]
    return [Measurement("bias circular convolution", {}, circular_error, 0.2), *trainings]


def report(settings: Settings, results: Results) -> Row:
    names, task = settings.families, TASKS[settings.full]

    def runs(name: str, count: int = task.counts[-1], shuffle: bool = False) -> list[Mapping[str, Any]]:
        return [results[measurement_name(name, count, seed, shuffle)] for seed in settings.seeds]

    tested = runs(names[0])[0]["tested"]
    sizes = [runs(name)[0]["parameters"] for name in names]
    row = Row(
        "bias",
        "Inductive bias",
        f"{task.data} on {task.image} x {task.image} with a margin of {task.margin}: "
        f"{settings.describe_training('images', sizes)}; {tested:,} test images; chance is {CHANCE:.0%}.",
    )

    def mean(some_runs: list[Mapping[str, Any]], field: str = "accuracy") -> Accuracy:
        return accuracy.mean_accuracy([run[field] for run in some_runs], tested)

    accuracies = {name: {count: mean(runs(name, count)) for count in task.counts} for name in names}
    by_count = {
        f"{count:,} training images": {name: accuracies[name][count] for name in names}
        for count in task.counts
    }
    shifted = {name: mean(runs(name), "shifted") for name in names}
    shuffled = {name: mean(runs(name, shuffle=True)) for name in names}
    errors = {
        when: {name: sum(run[f"error {when}"] for run in runs(name)) / len(runs(name)) for name in names}
        for when in ("before", "after")
    }
    for when, state in (("before", "untrained"), ("after", "trained")):
        row.add_cells(f"equivariance error, {state}", errors[when], "{:.2f}".format)
    for label, values in by_count.items():
        row.add_cells(f"accuracy, {label}", values, json_name=f"right, {label}")
    lower = f"tested {task.margin} rows lower"
    row.add_cells(f"accuracy, {label}, {lower}", shifted, json_name=f"the last, {lower}")
    shuffle = "all pixels shuffled"
    row.add_cells(f"accuracy, {label}, {shuffle}", shuffled, json_name=f"the last, {shuffle}")
    circular = results["bias circular convolution"]["error"]
    row.add_sentence(_equivariance_sentence(errors, circular))
    every = accuracy.all_accuracies(accuracies)
    row.verdict = accuracy.too_small_budget(every, CHANCE, settings.steps)
    if not row.verdict:
        fewest, *_, most = (f"{label} {leaders(values)}" for label, values in by_count.items())
        row.verdict = f"With {fewest}; with {most}."
        row.add_sentence(f"Tested on images {task.margin} rows lower, {changes(values, shifted)}.")
        row.add_sentence(
            f"Trained and tested with all pixels in one fixed random order, {changes(values, shuffled)}."
        )
        row.plots.append(_plot(accuracies, shuffled, task.data))
    row.numbers = {
        "equivariance error": errors,
        "circular convolution": circular,
        "accuracy": accuracy.values_by_size(accuracies),
        "shuffled": {name: one.value for name, one in shuffled.items()},
        "shifted": {name: one.value for name, one in shifted.items()},
    }
    return row


def _equivariance_sentence(errors: Mapping[str, Mapping[str, float]], circular: float) -> str:
    texts, numbers = {}, {}
    for name, before in errors["before"].items():
        after = errors["after"][name]
        numbers[name] = f"error {before:.2f}, trained {after:.2f}"
        degree = classify(before, ((0.05, "almost fully"), (0.7, "partly"), (float("inf"), "hardly")))
        scale = ((-0.05, "more"), (0.05, "neither more nor less"), (float("inf"), "less"))
        change = classify(after - before, scale)
        texts[name] = f"the output {degree} shifts with it, and {change} so after training,"
    return (
        f"When the image is shifted, {clauses(texts, numbers)}. Error 0: the output shifts with the image; "
        f"1: the outputs are unrelated. As a check, a convolution with circular padding has {circular:.1g}."
    )


def _plot(accuracies: accuracy.BySize, shuffled: Mapping[str, Accuracy], data: str) -> Plot:
    title = f"Accuracy by training images ({data})"
    figure, axes, margins = accuracy.plot_by_size(accuracies, CHANCE, title, "training images")
    for index, (name, one) in enumerate(shuffled.items()):
        x = max(accuracies[name]) * 1.7 * dodge_factor(index, len(shuffled))
        style = {**FAMILIES[name].style, "linestyle": "", "markerfacecolor": "white", "markersize": 6}
        axes.plot([x], [100 * one.value], **style)
    caption = f"{margins} Hollow markers on the right: all pixels shuffled."
    return Plot(figure, "accuracy against the number of training images", caption)
