"""Inductive bias: what a family assumes about images before training.

Whether its output shifts with the image, how few training images it needs, and how much accuracy it loses
when all pixels are shuffled.

Equivariance error: the root mean square distance between f(shifted x) and shifted f(x), scaled so that two
unrelated outputs have 1. f(x) are the vectors at all positions before pooling. An image has a blank margin on
every side and is shifted down by that margin, circularly, a whole number of positions for every family. A
convolution with circular padding has error 0, which checks the measure.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from headwork.comparison import experiment
from headwork.comparison.accuracy import budget_sentence, changes_sentence, leaders_sentence, mean_accuracies
from headwork.comparison.by_size import ByFamily, BySize, all_accuracies, plot_by_size, values_by_size
from headwork.comparison.experiment import Settings
from headwork.comparison.families import FAMILIES, HEADS, Family, sized_classifier
from headwork.comparison.measurements import Measurement
from headwork.comparison.panels import dodge_factor
from headwork.comparison.section import Results, Section, clauses, on_scale, text_of
from headwork.data import Images, load_images
from headwork.data.splits import permutation
from headwork.documents import FigureBlock
from headwork.models import ConvolutionalClassifier, Model, VisionTransformer
from headwork.readings import recorder
from headwork.training.runs import use_threads

CLASSES, CHANCE = 10, 0.1
PROBE_IMAGES = 200  # test images on which the equivariance error is measured
SHUFFLE_SEED = 7  # of the one fixed order of the pixels


@dataclass(frozen=True)
class ImageTask:
    """The data, the numbers of training images, and the sizes of images and models.

    ``image`` is the side including the blank ``margin``, within which an image can be shifted; ``patch``,
    ``width`` and ``depth`` are the transformers'.
    """

    data: str
    counts: tuple[int, ...]
    image: int
    margin: int
    patch: int
    parameters: int
    width: int
    depth: int

    def size_config(self) -> dict[str, int]:
        """The sizes that a result depends on, by the names in saved files."""
        names = ("image", "margin", "patch", "width", "depth")
        return {name: getattr(self, name) for name in names} | {"wanted": self.parameters, "classes": CLASSES}


COUNTS = (100, 300, 1000, 3000, 10_000)
TASKS = {  # quick and full
    False: ImageTask("digits", (40, 250, 1438), 12, margin=2, patch=2, parameters=10_000, width=24, depth=2),
    True: ImageTask("fashion-mnist", COUNTS, 36, margin=4, patch=4, parameters=50_000, width=48, depth=3),
}


def plan(settings: Settings) -> list[Measurement]:
    counts = TASKS[settings.full].counts
    trainings = [
        image_measurement(settings, family, count, seed, shuffle)
        for count, shuffle in [*((count, False) for count in counts), (counts[-1], True)]
        for seed in settings.seeds
        for family in settings.families
    ]
    return [Measurement("bias circular convolution", {}, circular_convolution_error, 0.2), *trainings]


def image_model(family: Family, task: ImageTask) -> Model:
    """A classifier of square grey images with about as many parameters as the task says.

    >>> abs(image_model(FAMILIES["cnn"], TASKS[False]).parameter_count - 10_000) < 500
    True
    """
    fields: dict[str, Any] = {"image_size": task.image, "classes": CLASSES}
    if family.kind == "attention":
        fields |= {"patch_size": task.patch, "width": task.width, "depth": task.depth, "heads": HEADS}
        fields |= {"pooling": "mean", "attention": family.attention}
    elif family.kind == "convolution":
        fields["depth"] = 2  # the last feature map has one position for every four by four pixels
    return sized_classifier("vision", family, task.parameters, fields)


def image_measurement(
    settings: Settings, family: str, count: int, seed: int, shuffle: bool = False
) -> Measurement:
    """Training on so many images; the largest number serves the row of best uses too."""
    full, steps, task = settings.full, settings.steps, TASKS[settings.full]
    config = experiment.run_config(family, seed, steps) | {
        "data": task.data,
        "count": count,
        "shuffle": SHUFFLE_SEED if shuffle else None,
        "size": task.size_config(),
    }
    run = partial(train_on_images, family, count, seed, steps=steps, full=full, shuffle=shuffle)
    seconds = 3 + steps * 0.03 if full else steps * 0.005
    return Measurement(measurement_name(family, count, seed, shuffle), config, run, seconds)


def measurement_name(family: str, count: int, seed: int, shuffle: bool = False) -> str:
    return f"images {family} {count}{' shuffled' if shuffle else ''} seed {seed}"


@cache
def load_data(name: str) -> Images:
    return load_images(name, validation=0)


def image_tensors(task: ImageTask, count: int, seed: int, shuffle: bool) -> list[Tensor]:
    """Normalised training images, the same for every family, and all test images, with their labels."""
    data = load_data(task.data)
    tensors = []
    for split in (data.train.select(permutation(len(data.train), seed)[:count]), data.test):
        images, labels = split.tensors()
        images = data.normalise(images)
        if shuffle:
            order = torch.from_numpy(permutation(images[0].numel(), SHUFFLE_SEED))
            images = images.flatten(1)[:, order].reshape(images.shape)
        # Zero is the mean grey of all images, so the margin looks like zero padding.
        tensors += [functional.pad(images, (task.margin,) * 4), labels]
    return tensors


def train_on_images(
    family: str, count: int, seed: int, *, steps: int, full: bool, shuffle: bool = False
) -> dict[str, Any]:
    """Train on so many images; the test accuracy, and the equivariance error before and after."""
    task = TASKS[full]
    images, labels, test_images, test_labels = image_tensors(task, count, seed, shuffle)
    keys = (seed, family, f"{task.data} {count} {shuffle}")
    model = experiment.build_seeded(lambda: image_model(FAMILIES[family], task), *keys)
    rng = experiment.generator_from(seed, "images", count)  # the same batches for every family
    chosen = (torch.randint(0, count, (experiment.BATCH_SIZE,), generator=rng) for _ in range(steps))

    def error() -> float:
        return equivariance_error(partial(features, model), test_images[:PROBE_IMAGES], task.margin)

    def accuracy_on(images: Tensor) -> float:
        return experiment.evaluate(model, experiment.in_batches(images, test_labels))

    error_before = error()
    experiment.train(model, (((images[index],), labels[index]) for index in chosen), *keys, steps=steps)
    sizes = {"tested": len(test_labels), "parameters": model.parameter_count}
    errors = {"error before": error_before, "error after": error()}
    shifted_accuracy = accuracy_on(test_images.roll(task.margin, -2))
    return {"accuracy": accuracy_on(test_images), **sizes, **errors, "shifted": shifted_accuracy}


def features(model: Model, images: Tensor) -> Tensor:
    """The vectors at all positions before pooling: (image, channel, row, column)."""
    steps: dict[str, Tensor] = {}
    model.with_backend("plain")(images, note=recorder(steps))
    if isinstance(model, ConvolutionalClassifier):
        return steps[f"block {model.config.depth - 1}/output"]
    if isinstance(model, VisionTransformer):
        vectors = steps["normalisation/output"].mT  # patches stand on a square grid
        return vectors.reshape(*vectors.shape[:-1], math.isqrt(vectors.shape[-1]), -1)
    # A recurrence reads one vector per row of the image.
    states = [value for path, value in steps.items() if path.endswith("state")]
    return torch.stack(states, -1).unsqueeze(-1)


@torch.no_grad()
def equivariance_error(function: Callable[[Tensor], Tensor], images: Tensor, shift: int) -> float:
    """The distance of the output for shifted images from the shifted output: 0 equivariant, 1 unrelated.

    >>> images = torch.arange(16.0).reshape(1, 1, 16, 1)
    >>> equivariance_error(lambda x: 3 * x, images, 4)
    0.0
    """
    with use_threads(1):
        output = function(images).double()
        output_of_shifted = function(images.roll(shift, -2)).double()
    rows = shift * output.shape[-2] // images.shape[-2]
    difference = (output_of_shifted - output.roll(rows, -2)).square().sum()
    spread = (output - output.mean((0, -2, -1), keepdim=True)).square().sum()
    # Two independent outputs with this spread differ by twice its square.
    return float((difference / (2 * spread)).sqrt()) if spread > 0 else 0.0


def circular_convolution_error() -> dict[str, float]:
    """The error of an untrained convolution with circular padding: zero up to rounding."""
    rng = experiment.generator_from("circular")
    kernels = [torch.randn(8, channels, 3, 3, generator=rng) / 3 for channels in (1, 8)]

    def convolve(images: Tensor) -> Tensor:
        for kernel in kernels:
            padded = functional.pad(images, (1, 1, 1, 1), mode="circular")
            images = functional.conv2d(padded, kernel).relu()
        return images

    return {"error": equivariance_error(convolve, torch.randn(16, 1, 8, 8, generator=rng), 2)}


def report(settings: Settings, results: Results) -> Section:
    names, task = settings.families, TASKS[settings.full]

    def runs(count: int, shuffle: bool = False) -> dict[str, list[Mapping[str, Any]]]:
        return settings.results_by_family(results, partial(measurement_name, count=count, shuffle=shuffle))

    largest = runs(task.counts[-1])
    tested = largest[names[0]][0]["tested"]
    sizes = [by_seed[0]["parameters"] for by_seed in largest.values()]
    setting: dict[str, Any] = {"data": task.data, "side": task.image, "margin": task.margin, "tested": tested}
    training = settings.describe_training("images", sizes)
    section = Section(**text_of("bias/section", training=training, chance=CHANCE, **setting))
    accuracies = {count: mean_accuracies(runs(count), tested) for count in task.counts}
    shifted = mean_accuracies(largest, tested, "shifted")
    shuffled = mean_accuracies(runs(task.counts[-1], shuffle=True), tested)
    errors = {
        when: {
            name: sum(run[f"error {when}"] for run in by_seed) / len(by_seed)
            for name, by_seed in largest.items()
        }
        for when in ("before", "after")
    }
    for when, state in (("before", "untrained"), ("after", "trained")):
        section.add_cells(f"equivariance error, {state}", errors[when], "{:.2f}".format)
    labels = {count: f"{count:,} training images" for count in task.counts}
    for count, by_family in accuracies.items():
        section.add_cells(f"accuracy, {labels[count]}", by_family, json_name=f"right, {labels[count]}")
    shift = f"tested {task.margin} rows lower"
    largest_label, at_largest = labels[task.counts[-1]], accuracies[task.counts[-1]]
    section.add_cells(f"accuracy, {largest_label}, {shift}", shifted, json_name=f"the last, {shift}")
    shuffle = "all pixels shuffled"
    section.add_cells(f"accuracy, {largest_label}, {shuffle}", shuffled, json_name=f"the last, {shuffle}")
    circular = results["bias circular convolution"]["error"]
    section.add_sentence(_equivariance_sentence(errors, circular))
    section.verdict = budget_sentence(all_accuracies(accuracies), CHANCE, settings.steps)
    if not section.verdict:
        ends = (task.counts[0], task.counts[-1])
        fewest, most = (f"{labels[count]} {leaders_sentence(accuracies[count])}" for count in ends)
        section.verdict = f"With {fewest}; with {most}."
        for change, others in (("lower", shifted), ("shuffled", shuffled)):
            changes = changes_sentence(at_largest, others)
            section.add_sentence(text_of(f"bias/changes/{change}", margin=task.margin, changes=changes))
        section.figures.append(_accuracy_figure(accuracies, shuffled, task.data))
    section.numbers = {
        "equivariance error": errors,
        "circular convolution": circular,
        "accuracy": values_by_size(accuracies),
        "shuffled": {name: one.value for name, one in shuffled.items()},
        "shifted": {name: one.value for name, one in shifted.items()},
    }
    return section


def _equivariance_sentence(errors: Mapping[str, Mapping[str, float]], circular: float) -> str:
    findings = {}
    for name, before in errors["before"].items():
        after = errors["after"][name]
        degree = on_scale(before, text_of("bias/shift/degree"))
        change = on_scale(after - before, text_of("bias/shift/change"))
        text = f"the output {degree} shifts with it, and {change} so after training,"
        findings[name] = (text, f"error {before:.2f}, trained {after:.2f}")
    return str(text_of("bias/shift/sentence", findings=clauses(findings), circular=circular))


def _accuracy_figure(accuracies: BySize, shuffled: ByFamily, data: str) -> FigureBlock:
    figure, axes, margins = plot_by_size(accuracies, CHANCE, **text_of("bias/plot", data=data))
    for index, (name, one) in enumerate(shuffled.items()):
        x = max(accuracies) * 1.7 * dodge_factor(index, len(shuffled))
        style = {**FAMILIES[name].style, "linestyle": "", "markerfacecolor": "white", "markersize": 6}
        axes.plot([x], [100 * one.value], **style)
    return FigureBlock(figure, **text_of("bias/figure", margins=margins))
