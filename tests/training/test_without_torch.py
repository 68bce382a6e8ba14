"""A trained run is loaded, called, traced and asked for labels where neither torch nor its libraries are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headwork
from headwork import training
from headwork.data import Tokenizer
from headwork.training.progress import quiet

BLOCKED = "import sys; sys.modules.update(dict.fromkeys(('torch', 'safetensors', 'tokenizers', 'sklearn')))\n"
TEXTS = ["a great film", "the plot was awful and the story was dull", "fine"]


def without_torch(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", BLOCKED + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def predicted(*arguments: object) -> list[dict[str, float]]:
    """The probabilities that the command gives, without torch."""
    code = "from headwork.cli import main; sys.argv[0] = 'headwork'; main()"
    answer = json.loads(without_torch(code, "predict", *arguments, "--as", "json"))
    rows: list[dict[str, float]] = answer["probabilities"]
    return rows


def test_inspect_without_torch() -> None:
    code = "from headwork.cli import main; sys.argv[0] = 'headwork'; main()"
    seen = json.loads(without_torch(code, "inspect", "digits", "--index", 0, "--json"))
    assert list(seen["relevance"]) == ["occlusion", "attention rollout"]
    assert seen["explained"] == "3"
    assert len(seen["heads"]) == 24


LOOK_INSIDE = """
import json
import numpy as np
import headwork
model = headwork.load(sys.argv[1])
images = np.load(sys.argv[2])
trace = headwork.trace(model, images[:1])
path = "block 0/attention/weights"
other = trace.what_if(path, np.full(trace[path].shape, 1 / trace[path].shape[-1]))
print(json.dumps({
    "logits": model(images).tolist(),
    "head": trace["block 0/attention/head 1/weights"].values.tolist(),
    "cell": str(trace.cell("scores", 0, 3)),
    "sources": trace.cell("scores", 0, 3).sources[1],
    "moved": other.result.tolist(),
}))
"""


@torch.no_grad()
def test_a_run_of_images(finished: Path, digits: Any, tmp_path: Path) -> None:
    from PIL import Image

    images = digits.normalise(torch.from_numpy(digits.test.images[:5]))
    np.save(tmp_path / "images.npy", images.numpy())
    model = headwork.load(finished, torch=True).with_backend("plain")
    seen = json.loads(without_torch(LOOK_INSIDE, finished, tmp_path / "images.npy"))
    assert np.allclose(seen["logits"], model(images), atol=1e-5)
    trace = headwork.trace(model, images[:1])
    assert np.allclose(seen["head"], trace["block 0/attention/head 1/weights"].values, atol=1e-6)
    even = np.full(trace["block 0/attention/weights"].shape, 1 / trace["block 0/attention/weights"].shape[-1])
    assert np.allclose(seen["moved"], trace.what_if("block 0/attention/weights", even).result, atol=1e-5)
    assert seen["cell"].startswith("z[0,3] = ")
    assert seen["cell"].endswith(f" = {trace['scores'].values[0, 3]:.4f}")
    assert seen["sources"] == ["head/matrix", [3, 0]]

    files = [tmp_path / f"{number}.png" for number in range(5)]
    for file, image in zip(files, digits.test.images[:5, 0], strict=True):
        Image.fromarray(image).save(file)
    options = [word for file in files for word in ("--image", file)]
    rows = [list(row.values()) for row in predicted(finished, *options)]
    assert np.allclose(rows, model(images).softmax(-1), atol=1e-5)

    copied = tmp_path / "lost"
    shutil.copytree(finished, copied)
    shutil.rmtree(copied / "model")
    assert np.allclose([list(row.values()) for row in predicted(copied, *options)], rows), "from a checkpoint"


@pytest.mark.parametrize("settings", [(), ("model.ngrams=64",)], ids=["transformer", "n-grams"])
def test_a_run_of_texts(settings: tuple[str, ...], tmp_path: Path) -> None:
    lines = ["review,stars"] + [f'"{text} {number}",{number % 2}' for number in range(20) for text in TEXTS]
    (tmp_path / "reviews.csv").write_text("\n".join(lines) + "\n")
    run = training.text(str(tmp_path / "reviews.csv"), columns=("review", "stars"))
    sizes = ["model.width=8", "model.hidden=8", "model.heads=2", "model.depth=1", "model.vocabulary=300"]
    run = training.changed(run, [*sizes, "max_length=12", "epochs=1", "batch_size=16", *settings])
    training.train(run, tmp_path / "run", log=quiet)
    model = headwork.load(tmp_path / "run", torch=True).with_backend("plain")
    tokens, mask, _ = Tokenizer(model.tokenizer, 12).encode(TEXTS).tensors(np.arange(3))
    rows = predicted(tmp_path / "run", *[word for text in TEXTS for word in ("--text", text)])
    wanted = model(tokens, mask).softmax(-1).detach()
    assert np.allclose([list(row.values()) for row in rows], wanted, atol=1e-5)


REFUSED = """
import headwork
for use in (lambda: headwork.load(sys.argv[1], torch=True), lambda: headwork.trace("model")):
    try:
        use()
    except (ImportError, ValueError) as error:
        print(error)
"""


def test_what_needs_torch_says_so(finished: Path) -> None:
    load, trace = without_torch(REFUSED, finished).splitlines()
    assert "torch" in load
    assert "str is not a model. Give one of headwork.models, or what headwork.load gives" in trace
