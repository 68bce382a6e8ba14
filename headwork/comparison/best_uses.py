"""Best use: accuracy, time and parameters on images and, in full, on reviews, with the same budget for all.

Times are those of one training step and of one prediction, as ratios to the fastest family.
"""

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch

from headwork.comparison import experiment, inductive_bias
from headwork.comparison.accuracy import Accuracy, budget_sentence, leaders_sentence, mean_accuracies
from headwork.comparison.experiment import BATCH_SIZE, Batch, Settings, generator_from
from headwork.comparison.families import FAMILIES, HEADS, Family, sized_classifier
from headwork.comparison.inductive_bias import TASKS, image_measurement, measurement_name
from headwork.comparison.measurements import Measurement
from headwork.comparison.section import Results, Section, format_ratio, text_of
from headwork.comparison.timing import InterleavedTimer, relative_times
from headwork.data import batches, load_texts, train_tokenizer
from headwork.models import Model
from headwork.training.examples import TextExamples
from headwork.training.runs import use_threads

REVIEWS, REVIEW_CHANCE = "imdb", 0.5
VOCABULARY, MAX_LENGTH = 2000, 200
TEXT_WIDTH, TEXT_PARAMETERS = 64, 200_000
TEXT_LEARNING_RATE = 1e-3
TEST_REVIEWS = 5000  # enough for a margin of one point, in a quarter of the time


def plan(settings: Settings) -> list[Measurement]:
    full, families, task = settings.full, settings.families, TASKS[settings.full]
    pairs = [(family, seed) for seed in settings.seeds for family in families]
    measurements = [image_measurement(settings, family, task.counts[-1], seed) for family, seed in pairs]
    config = {"families": families, "size": task.size_config(), "batch": BATCH_SIZE}
    run = partial(image_times, families, full)
    measurements.append(Measurement("uses time on images", config, run, len(families)))
    if full:
        measurements += [_review_measurement(family, seed, settings.steps) for family, seed in pairs]
        config = {"families": families, "width": TEXT_WIDTH, "wanted": TEXT_PARAMETERS, "longest": MAX_LENGTH}
        run = partial(text_times, families)
        measurements.append(Measurement("uses time on reviews", config, run, 3.0 * len(families)))
    return measurements


def _review_measurement(family: str, seed: int, steps: int) -> Measurement:
    sizes = {"wanted": TEXT_PARAMETERS, "vocabulary": VOCABULARY, "longest": MAX_LENGTH}
    config = experiment.run_config(family, seed, steps, TEXT_LEARNING_RATE)
    config |= {"data": REVIEWS, **sizes, "tested": TEST_REVIEWS}
    run = partial(train_on_reviews, family, seed, steps=steps)
    return Measurement(f"reviews {family} seed {seed}", config, run, steps * 0.1)


def image_times(families: Sequence[str], full: bool) -> dict[str, Any]:
    """Times of a training step and of a prediction on images, each in units of the shortest."""
    side = TASKS[full].image
    images = torch.randn(BATCH_SIZE, 1, side, side, generator=generator_from("timed images"))
    labels = torch.randint(0, inductive_bias.CLASSES, (BATCH_SIZE,), generator=generator_from("timed labels"))
    models = {name: inductive_bias.image_model(FAMILIES[name], TASKS[full]) for name in families}
    return _time_all(models, ((images,), labels), 20)


def text_times(families: Sequence[str]) -> dict[str, Any]:
    """The same on texts of the maximum length."""
    tokens = torch.randint(2, VOCABULARY, (BATCH_SIZE, MAX_LENGTH), generator=generator_from("timed tokens"))
    labels = torch.randint(0, 2, (BATCH_SIZE,), generator=generator_from("timed labels"))
    models = {name: text_model(FAMILIES[name]) for name in families}
    return _time_all(models, ((tokens, torch.ones_like(tokens)), labels), 5)


def _time_all(models: Mapping[str, Model], batch: Batch, rounds: int) -> dict[str, Any]:
    functions: dict[tuple[str, str], Any] = {}
    for name, model in models.items():
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.0, fused=True)
        functions["step", name] = partial(experiment.train_step, model, batch, optimiser, 0.0)
        functions["prediction", name] = torch.no_grad()(partial(model, *batch[0]))
    with use_threads(1):
        best = InterleavedTimer(functions).run(rounds)
    step_times, prediction_times = ({n: best[kind, n] for n in models} for kind in ("step", "prediction"))
    # A prediction's time is called an answer's in saved files.
    return {"step": relative_times(step_times), "answer": relative_times(prediction_times)}


def text_model(family: Family) -> Model:
    """A classifier of texts into two classes with about ``TEXT_PARAMETERS`` parameters."""
    fields: dict[str, Any] = {"vocabulary": VOCABULARY, "max_length": MAX_LENGTH, "depth": 2, "dropout": 0.1}
    if family.kind == "attention":
        fields |= {"width": TEXT_WIDTH, "heads": HEADS, "attention": family.attention}
    else:
        fields |= {"hidden": 1, "heads": 1}
    return sized_classifier("text", family, TEXT_PARAMETERS, fields)


@cache
def load_reviews() -> tuple[TextExamples, TextExamples]:
    """Film reviews for training and for testing, as tokens."""
    data = load_texts(REVIEWS, validation=0)
    tokenizer = train_tokenizer(data.train.texts, vocabulary=VOCABULARY, max_length=MAX_LENGTH)
    test_split = data.test.select(batches(len(data.test), TEST_REVIEWS, seed=0, epoch=0)[0])
    return TextExamples(tokenizer.encode(data.train)), TextExamples(tokenizer.encode(test_split))


def train_on_reviews(family: str, seed: int, *, steps: int) -> dict[str, Any]:
    """Train to tell positive reviews from negative ones; the test accuracy."""
    train_examples, test_examples = load_reviews()
    keys = (seed, family, REVIEWS)
    model = experiment.build_seeded(lambda: text_model(FAMILIES[family]), *keys)
    train_batches = (
        train_examples.batch(indices)
        for epoch in range(1 + steps * BATCH_SIZE // len(train_examples.labels))
        for indices in train_examples.shuffled_batches(BATCH_SIZE, seed, epoch)
    )
    experiment.train(model, train_batches, *keys, steps=steps, rate=TEXT_LEARNING_RATE)
    test_batches = map(test_examples.batch, test_examples.sequential_batches(200))
    return {
        "accuracy": experiment.evaluate(model, test_batches),
        "tested": len(test_examples.labels),
        "parameters": model.parameter_count,
    }


def report(settings: Settings, results: Results) -> Section:
    task = TASKS[settings.full]
    section = Section(**text_of("uses/section", training=settings.describe_training("examples")))
    count = task.counts[-1]
    runs = settings.results_by_family(results, partial(measurement_name, count=count))
    label = f"{task.data}, {count:,} images"
    _add_task(section, label, runs, results["uses time on images"], inductive_bias.CHANCE, settings.steps)
    if settings.full:
        runs = settings.results_by_family(results, "reviews {family} seed {seed}".format)
        times = results["uses time on reviews"]
        _add_task(section, f"{REVIEWS} reviews", runs, times, REVIEW_CHANCE, settings.steps)
    else:
        section.add_sentence(text_of("uses/quick"))
    return section


def _add_task(
    section: Section, task_label: str, runs: Mapping[str, list[Any]], times: Any, chance: float, steps: int
) -> None:
    accuracies = mean_accuracies(runs, next(iter(runs.values()))[0]["tested"])
    counts = {name: by_seed[0]["parameters"] for name, by_seed in runs.items()}
    for label, values, format_value, json_name in (
        ("accuracy", accuracies, str, "right"),
        ("parameters", counts, "{:,}".format, "parameters"),
        ("time per training step", times["step"], format_ratio, "time a training step"),
        ("time per prediction", times["answer"], format_ratio, "time an answer"),
    ):
        section.add_cells(f"{task_label}: {label}", values, format_value, f"{task_label}: {json_name}")
    small = budget_sentence(accuracies.values(), chance, steps)
    sentence = small or f"{_summary(accuracies, times['step'])}."
    section.verdict = f"{section.verdict} On {task_label}, {sentence}".strip()
    section.numbers[task_label] = {
        "accuracy": {name: accuracy.value for name, accuracy in accuracies.items()},
        "parameters": counts,
        **times,
    }


def _summary(accuracies: Mapping[str, Accuracy], step_times: Mapping[str, float]) -> str:
    """Which family leads, and whether the fastest to train is worse."""
    best = max(accuracies, key=lambda name: accuracies[name].value)
    fastest = min(step_times, key=lambda name: step_times[name])
    text = leaders_sentence(accuracies)
    if len(accuracies) == 1:
        return text
    if fastest == best:
        return f"{text}; {fastest} is also the fastest to train"
    worse = "measurably worse" if accuracies[best].is_above(accuracies[fastest]) else "not measurably worse"
    factor = f"{step_times[best]:.1f} times as fast as {best}"
    return f"{text}; {fastest} is the fastest to train, {factor}, and {worse}"
