"""Training: recipes, one readable loop, verified checkpoints, and the files of a run.

run = training.vision("fashion-mnist", epochs=10)    # whole; training.changed(run, ["model.width=96"])
result = training.train(run, "runs/v10")             # or training.resume("runs/v10")
result.test_accuracy
model = training.load_model("runs/v10")

Reports on a run are written by ``headwork.inspection.run_report``; ``headwork.inspection.estimator`` has a
classifier for scikit-learn. What reads a run needs no torch, so a name is imported when it is first used.
"""

from importlib import import_module
from typing import Any

NAMES = {
    "evaluation": "Evaluation evaluate",
    "run_folders": "Result load_data_info load_metrics load_model load_run load_run_config",
    "loop": "DivergedError InterruptedRunError",
    "recipes": "RunConfig TextRunConfig VisionRunConfig run_to_json changed text vision",
    "runs": "resume train",
}


def __getattr__(name: str) -> Any:
    for module, names in NAMES.items():
        if name in names.split():
            return getattr(import_module(f"headwork.training.{module}"), name)
    raise AttributeError(f"module 'headwork.training' has no attribute '{name}'.")
