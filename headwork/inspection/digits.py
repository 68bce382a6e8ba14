"""The main job's training: a vision transformer on the embedded digits, in well under a minute."""

from pathlib import Path
from typing import Any

from headwork.data import Images
from headwork.data.fetching import Log, to_stderr
from headwork.documents import Figure
from headwork.inspection import figures
from headwork.inspection.predictions import image_probabilities
from headwork.inspection.run_report import write_report
from headwork.training.recipes import vision
from headwork.training.run_folders import Result, load_data, load_data_info, load_model
from headwork.training.runs import train

COUNT = 12  # images with their predictions


def train_digits(out_folder: str | Path, *, log: Log = to_stderr) -> tuple[Result, Figure]:
    """Train on the digits into ``out_folder``/digits, write its report, and draw predictions."""
    run = vision("digits")
    data: Any = load_data(run, log=log)
    folder = Path(out_folder) / "digits"
    result = train(run, folder, log=log, data=data)
    log("writing its report ...")
    write_report(result, log=log)
    return result, predictions(folder, data)


def predictions(folder: Path, data: Images) -> Figure:
    """The first test images with their predictions, and a caption."""
    images, labels = data.test.images[:COUNT], data.test.labels[:COUNT]
    info = load_data_info(folder)
    probabilities = image_probabilities(load_model(folder), images, info)
    predicted = probabilities.argmax(-1)
    captions = []
    for row, label, choice in zip(probabilities, labels, predicted, strict=True):
        true = "" if choice == label else f", true: {info.classes[label]}"
        captions.append(f"{info.classes[choice]} ({row[choice]:.0%}){true}")
    correct = int((predicted == labels).sum())
    caption = f"The first {COUNT} test images with their predictions: {correct} are correct."
    return Figure(figures.image_figure(images, captions), "test images and predictions", caption)
