"""Training: recipes, one readable loop, checkpoints that never lie, and what a run leaves behind.

run = training.vision("fashion-mnist", epochs=10)       # a whole config; training.changed(run, ["model.width=96"])
result = training.train(run, "runs/v10")                # or training.resume("runs/v10")
result.test_accuracy
model = training.load_model("runs/v10")
"""

from headwork.training.digits import DigitsJob, digits_job
from headwork.training.estimator import Classifier
from headwork.training.evaluation import Evaluation, evaluate
from headwork.training.folders import Result, load_facts, load_metrics, load_model, load_run
from headwork.training.loop import DivergedError, InterruptedRunError
from headwork.training.recipes import Run, TextRun, VisionRun, as_text, changed, text, vision
from headwork.training.runs import resume, train

__all__ = [
    "Classifier",
    "DigitsJob",
    "DivergedError",
    "Evaluation",
    "InterruptedRunError",
    "Result",
    "Run",
    "TextRun",
    "VisionRun",
    "as_text",
    "changed",
    "digits_job",
    "evaluate",
    "load_facts",
    "load_metrics",
    "load_model",
    "load_run",
    "resume",
    "text",
    "train",
    "vision",
]
