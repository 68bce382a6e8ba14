"""The end of a run: the model saved, the test set touched once, curves and report written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from headwork.data import Images, Texts
from headwork.files import write_whole
from headwork.pages import save_plot
from headwork.training import figures
from headwork.training.baseline import baseline
from headwork.training.evaluation import evaluate
from headwork.training.folders import METRICS, MODEL, RESULT, Result
from headwork.training.loop import Place, Session
from headwork.training.progress import clock

LONGEST_SENTENCE = 600  # characters of a mistaken text that are kept


def finish(session: Session, place: Place, folder: Path, say: Any) -> Result:
    """Write everything that a finished run leaves behind."""
    prepared, model = session.prepared, session.model.to("cpu")
    model.save_pretrained(folder / MODEL)
    write_whole(folder / METRICS, "".join(json.dumps(line) + "\n" for line in place.metrics))
    test = prepared.read_test()
    say(f"measuring the test set, {len(test.labels):,} examples, once ...")
    evaluation = evaluate(model, test, session.run.batch)
    told = {
        "test": evaluation.summary(),
        "validation": figures.epochs_of(place.metrics)[-1]["validation"],
        "steps": place.step,
        "seconds": round(place.seconds, 1),
        "forecast": next((line["forecast"] for line in place.metrics if "forecast" in line), None),
        "parameters": model.parameter_count,
        "threads": torch.get_num_threads(),
        "processes": session.processes.world,
        "confusion": evaluation.confusion,
        "mistakes": [{**wrong, **_shown(prepared.shown, wrong["place"])} for wrong in evaluation.mistakes()],
    }
    beside = baseline(prepared.shown, say) if isinstance(prepared.shown, Texts) else None
    if beside is not None:
        told["baseline"] = beside
    result = Result(folder, told, place.metrics)
    picture = figures.curves({folder.name: place.metrics}, folder.name, figures.curves_caption(session.run))
    for kind in ("png", "svg"):
        save_plot(picture, folder / f"curves.{kind}")
    from headwork.training.report import html

    write_whole(folder / "report.html", html(result, prepared.shown))
    # Last: with it the run counts as finished, and is never gone on with.
    write_whole(folder / RESULT, json.dumps(told, indent=2) + "\n")
    say(
        f"test accuracy {evaluation.accuracy:.2%} of {len(evaluation.labels):,}, after {place.step:,} steps in "
        f"{clock(place.seconds)}. Report: {folder / 'report.html'}"
    )
    if beside is not None:
        say(f"{beside['name']}, on the same texts: {beside['accuracy']:.2%}")
    return result


def _shown(data: Any, place: int) -> dict[str, str]:
    """A mistaken text in words; a picture is drawn from the data."""
    return {} if isinstance(data, Images) else {"text": str(data.test.texts[place])[:LONGEST_SENTENCE]}
