"""Group F: training on real data: figures and curves of the kept runs, and the commands that repeat them."""

from functools import cache
from typing import Any

from headwork.documents import Table, subplots
from headwork.files import load_package_toml
from headwork.problems.book import Solution

EPOCHS = (1, 2, 3, 5, 10, 20, 30, 40, 50)  # the lines of the table of a curve
VISION = {
    f"{epochs} epochs": name for epochs, name in ((10, "vision-10-0"), (30, "vision-30"), (50, "vision-50"))
}
TEXT = {"transformer alone": "imdb", "n-grams": "imdb-ngrams", "MiniLM": "imdb-minilm"}
TEXT["MiniLM, short"] = "rotten-tomatoes-minilm"


@cache
def kept_runs() -> dict[str, Any]:
    """The command, test accuracy and curves of each run in results/ (``python -m benchmarks.kept_runs``)."""
    return load_package_toml(__file__, "kept_runs.toml")


def _show(solution: Solution, names: dict[str, str]) -> list[dict[str, Any]]:
    """The figures of these runs, their curves as a table and as a figure."""
    runs = {label: kept_runs()[name] for label, name in names.items()}
    figures = [
        (label, run["command"], f"{run['test_accuracy']:.2%}", f"results/{names[label]}")
        for label, run in runs.items()
    ]
    note = "Each run used the test set once, at the end; its folder holds curves.png and every figure."
    solution.show(Table("Kept runs", ("run", "command", "test accuracy", "kept in"), figures, [note]))
    curved = {label: run for label, run in runs.items() if run["validation loss"]}  # had a validation part
    curves = {
        f"{label}: {quantity}": [f"{value:{form}}" for value in run[f"validation {quantity}"]]
        for label, run in curved.items()
        for quantity, form in (("loss", ".3f"), ("accuracy", ".1%"))
    }
    rows = [
        (epoch, *("".join(curve[epoch - 1 : epoch]) for curve in curves.values()))
        for epoch in EPOCHS
        if any(epoch <= len(curve) for curve in curves.values())
    ]
    solution.show(Table("Curves on validation, by epoch", ("epoch", *curves), rows))
    figure, panels = subplots(10, 4, 1, 2)
    for axes, quantity in zip(panels, ("loss", "accuracy"), strict=True):
        for colour, (label, run) in zip(("#0072B2", "#D55E00", "#009E73"), curved.items(), strict=True):
            for part, line in (("validation", "o-"), ("training", "--")):
                curve = run[f"{part} {quantity}"]
                axes.plot(range(1, len(curve) + 1), curve, line, color=colour, ms=3, label=f"{label}, {part}")
        axes.set(xlabel="epoch", ylabel=quantity, title=quantity)
        axes.grid(alpha=0.25)
    panels[0].legend(fontsize="small")
    solution.show(figure)
    return list(runs.values())


def f1(solution: Solution) -> None:
    runs = _show(solution, VISION)
    solution.check("epochs of the three curves", [len(run["validation loss"]) for run in runs], [10, 30, 50])
    accuracies = [run["test_accuracy"] for run in runs]
    solution.confirm("more epochs give a higher test accuracy", accuracies == sorted(accuracies))
    falls = (
        run[f"{part} loss"][-1] < run[f"{part} loss"][0]
        for run in runs
        for part in ("training", "validation")
    )
    solution.confirm("the loss falls in training and on validation", all(falls))


def f2(solution: Solution) -> None:
    runs = _show(solution, TEXT)
    ahead = [run["test_accuracy"] > run["baseline"] for run in runs]
    label = "TF-IDF with a linear SVM is behind n-grams and MiniLM, ahead of the transformer alone"
    solution.confirm(label, ahead == [False, True, True, True])
