"""Parts of the report on a run: where it looked on some test images, and how far to take its confidence."""

from typing import Any

from headwork.data import Images, Texts
from headwork.documents import Code, Document, Heading, Table
from headwork.inspection.folder_subjects import open_source
from headwork.inspection.inspecting import Inspection
from headwork.inspection.predictions import image_probabilities
from headwork.training.folders import Result, load_data_info
from headwork.training.recipes import RunConfig

LOOKED = 64  # test images among which right ones are looked for


def test_images(result: Result, data: Images | Texts | None) -> list[Any]:
    """What the predictions for some test images rest on: the first three right ones and wrong ones."""
    if not isinstance(data, Images):
        return []
    source = open_source(result.folder)
    images, labels = data.test.images[:LOOKED], data.test.labels[:LOOKED]
    predicted = image_probabilities(source.model.model, images, load_data_info(result.folder)).argmax(-1)
    right = (predicted == labels).nonzero()[0][:3].tolist()
    chosen = [*right, *(mistake["place"] for mistake in result.record["mistakes"][:3])]
    parts: list[Any] = [Heading("Where it looked")] if chosen else []
    for place in chosen:
        shown = Inspection(source.subject(data.test.images[place]))
        sure = float(shown.subject.probabilities.max())
        true, said = (source.classes[i] for i in (data.test.labels[place], shown.subject.explained or 0))
        words = f"{said}, {sure:.0%}" + ("" if true == said else f"; true: {true}")
        inner = Document(f"Test image {place}: {words}", tuple(shown.why()))
        parts.append(Code(f"headwork.inspect(folder, index={place})", (inner,)))
    return [*parts, shown.explained()] if chosen else []


def calibration(result: Result, run: RunConfig, classes: int) -> list[Any]:
    """Whether the model is right as often as it says."""
    bins = result.record.get("calibration")
    if not bins:  # trained before it was recorded
        return []
    total = sum(part["count"] for part in bins)
    gap = sum(part["count"] * abs(part["accuracy"] - part["confidence"]) for part in bins) / total
    rows: list[tuple[Any, ...]] = [
        (f"{p['from']:.0%} to {p['to']:.0%}", p["count"], f"{p['confidence']:.1%}", f"{p['accuracy']:.1%}")
        for p in bins
    ]
    words = f"On average confidence and accuracy are {gap:.1%} apart."
    if run.label_smoothing:
        most = 1 - run.label_smoothing + run.label_smoothing / classes
        words += (
            f" Confidence is too low by design: with label smoothing {run.label_smoothing:g} the loss is "
            f"smallest where the true class has probability 1 - {run.label_smoothing:g} + "
            f"{run.label_smoothing:g}/{classes} = {most:.1%}, so that is how sure the model gets, however "
            "often it is right."
        )
    columns = ("confidence", "examples", "mean confidence", "accuracy")
    return [Heading("Calibration"), Table("", columns, rows), words]
