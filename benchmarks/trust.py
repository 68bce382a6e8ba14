"""Which explanation to trust: roles of built heads, relevance against a planted truth, deletion, insertion.

    python -m benchmarks.trust             all of it, about two minutes of processor time
    python -m benchmarks.trust --quick     a tenth of it, nothing written

Writes its own sections of ``results/inspection.md``: what stands there between other markers stays.

A planted model is two layers of heads that ``headwork.build`` made. A classifier reads the content of one
token at the end; which input tokens that content comes from is known exactly, from the matrices that the
heads were asked for. With decoys each layer has a second head that attends elsewhere and whose output is
thrown away (its W_o is 0): attention that means nothing.
"""

from __future__ import annotations

import argparse
import math
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.report import RESULTS, machine
from headwork import build
from headwork.data import load_images
from headwork.data.datasets import normalise
from headwork.files import write_atomic
from headwork.inspection.model_on_input import ArrayModel, ModelOnInput, classifier_on_image
from headwork.inspection.module_on_input import module_on_input
from headwork.inspection.relevance import insertion_and_deletion, relevance, trust
from headwork.inspection.roles import role
from headwork.training.run_folders import find_run, load_data_info, load_run_config, saved_model

PAGE = RESULTS / "inspection.md"
NOISE = 0.1  # of the spread (largest less smallest) of a head's scores
INPUTS = 8  # with their own noise, for each head
METHODS = ("occlusion", "attention rollout", "gradient x attention", "random")


# --- roles -----------------------------------------------------------------------------------------
def built_head(kind: str, generator: np.random.Generator) -> Any:
    """A head of this role, of a random size and tolerance; of content None."""
    n, pick = int(generator.integers(5, 17)), generator.choice
    options = {"tokens": n, "tolerance": float(pick([0.01, 0.05, 0.1, 0.2]))}
    ends = str(pick(["clamp", "wrap"]))
    if kind in ("previous", "next"):
        return build("shift", by=1 if kind == "next" else -1, ends=ends, **options)
    if kind == "shifted window":
        return build("shift", by=int(pick([-3, -2, 2, 3])), ends="clamp", **options)
    if kind == "window":
        window = int(generator.integers(2, n - 2))
        return build("running-mean", window=window, causal=bool(pick(2)), ends="shrink", **options)
    if kind == "permutation":
        order = generator.permutation(n)
        while len({int(k - i) % n for i, k in enumerate(order)}) < 3:  # a rotation is next or previous
            order = generator.permutation(n)
        return build("permutation", order=[int(k) + 1 for k in order], tolerance=options["tolerance"])
    return build({"uniform": "mean"}.get(kind, kind), **options)


def scores_of(head: Any, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Scores (input, query, key) on random content; a head by content has random projections."""
    if head is None:
        n, width = int(generator.integers(5, 17)), 8
        W = generator.normal(size=(width, width))
        content = generator.normal(size=(INPUTS, n, width))
        return np.asarray(content @ W @ content.transpose(0, 2, 1) / math.sqrt(width))
    width = head.W_v[0].shape[1] - head.codes.shape[1]
    content = generator.normal(size=(INPUTS, head.tokens, width))
    pairs = [head.project(head.input(rows), 0)[:2] for rows in content]
    return np.stack([head.beta * (query.array @ key.array.T) for query, key in pairs])


def roles(count: int, seed: int) -> list[str]:
    kinds = ("identity", "previous", "next", "first", "window", "shifted window", "permutation", "uniform")
    right: dict[str, list[bool]] = {}
    generator = np.random.default_rng(seed)
    for number in range(count):
        kind = (*kinds, "content")[number % (len(kinds) + 1)]
        scores = scores_of(None if kind == "content" else built_head(kind, generator), generator)
        scores += NOISE * (scores.max() - scores.min()) * generator.normal(size=scores.shape)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        found = role(weights / weights.sum(-1, keepdims=True)).name
        right.setdefault(kind, []).append(found == kind.removeprefix("shifted "))
    every = [one for each in right.values() for one in each]
    return [
        f"Roles of {len(every)} built heads (one-hot positions, 5 to 16 tokens, tolerance 0.01 to 0.2), "
        f"each on {INPUTS} inputs, with Gaussian noise of {NOISE:.0%} of the spread of its scores: "
        f"**{np.mean(every):.1%} right** (seed {seed}).",
        "",
        "| role | heads | right |",
        "|---|---:|---:|",
        *(f"| {kind} | {len(each)} | {np.mean(each):.1%} |" for kind, each in right.items()),
    ]


# --- planted models --------------------------------------------------------------------------------
class Planted(nn.Module):
    """Layers of built heads, then a classifier that reads one token's content."""

    def __init__(self, layers: list[list[tuple[Any, float]]], token: int, classes: int) -> None:
        super().__init__()
        self.layers, self.token = layers, token
        width = layers[0][0][0].W_o[0].shape[0]
        self.reader = nn.Linear(width, classes, bias=False)
        self.reader.weight.requires_grad_(True)

    def forward(self, content: Tensor) -> Tensor:
        for heads in self.layers:
            total = torch.zeros_like(content)
            for built, factor in heads:
                codes = torch.as_tensor(built.codes, dtype=content.dtype).expand(len(content), -1, -1)
                rows = torch.cat([content, codes], -1)
                W_q, W_k, W_v, W_o = (
                    torch.as_tensor(W[0], dtype=content.dtype)
                    for W in (built.W_q, built.W_k, built.W_v, built.W_o)
                )
                weights = (built.beta * (rows @ W_q.mT) @ (rows @ W_k.mT).mT).softmax(-1)
                total = total + factor * (weights @ (rows @ W_v.mT) @ W_o.mT)
            content = total
        logits: Tensor = self.reader(content[:, self.token])
        return logits


def planted(seed: int, decoys: bool) -> tuple[ModelOnInput, np.ndarray[Any, Any]]:
    """A planted model on random content, and which of its tokens are truly relevant."""
    generator = np.random.default_rng(seed)
    n, width = 12, 4

    def head() -> Any:
        kind = str(generator.choice(["permutation", "running-mean", "shift"]))
        options: dict[str, Any] = {"tolerance": 0.01, "width": width}
        if kind == "permutation":
            return build(kind, order=[int(k) + 1 for k in generator.permutation(n)], **options)
        if kind == "shift":
            return build(kind, tokens=n, by=int(generator.integers(-4, 5)), ends="wrap", **options)
        return build(kind, tokens=n, window=3, **options)

    layers = [[(head(), 1.0), *([(head(), 0.0)] if decoys else [])] for _ in range(2)]
    token = int(generator.integers(n))
    truth = layers[1][0][0].matrix[token] @ layers[0][0][0].matrix > 0.01
    torch.manual_seed(seed)
    model = Planted(layers, token, 3).double()
    with torch.no_grad():
        model.reader.weight.mul_(8)  # so that probabilities are clear
    return module_on_input(model, [torch.from_numpy(generator.normal(size=(1, n, width)))], {}), truth


def agreement(values: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> float:
    """The share of the truly relevant tokens among as many that a method puts first, whatever their sign."""
    first = np.argsort(-abs(values), kind="stable")[: int(truth.sum())]
    return float(truth[first].mean())


def planted_rows(count: int, seed: int, decoys: bool) -> list[str]:
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in METHODS}
    for number in range(count):
        subject, truth = planted(seed + number, decoys)
        values = relevance(subject)
        values["random"] = np.random.default_rng(seed + number).normal(size=len(truth))
        orders = np.stack([np.argsort(-one, kind="stable") for one in values.values()])
        inserted, deleted = insertion_and_deletion(subject, orders)
        for i, name in enumerate(values):
            found[name].append((agreement(values[name], truth), float(deleted[i]), float(inserted[i])))
    kind = "with decoys" if decoys else "without decoys"
    return [row(f"{name}, {kind}", np.array(rows)) for name, rows in found.items()]


def row(name: str, values: np.ndarray[Any, Any]) -> str:
    """Means of a share, of deletion and insertion, and of their difference with its interval."""
    gain = values[:, -1] - values[:, -2]
    half = 1.96 * gain.std(ddof=1) / math.sqrt(len(gain))
    first = [f"{values[:, 0].mean():.0%}"]
    cells = [*first, *(f"{mean:.3f}" for mean in values[:, 1:].mean(0)), f"{gain.mean():+.3f} ± {half:.3f}"]
    return f"| {name} | {' | '.join(cells)} |"


# --- trained models ----------------------------------------------------------------------------------
def trained_rows(name: str, count: int, fill: str) -> list[str]:
    """Deletion and insertion on the first test images, hidden patches being grey or black."""
    path = find_run(name)
    run, info, model = load_run_config(path), load_data_info(path), ArrayModel(saved_model(path))
    images = load_images(name, seed=run.seed, validation=run.validation, log=lambda _: None).test.images[
        :count
    ]
    found: dict[str, list[tuple[float, float, float]]] = {method: [] for method in METHODS}
    for number, pixels in enumerate(images):
        values = normalise(pixels[None], info.mean, info.std)[0]
        black = normalise(np.zeros_like(pixels[None]), info.mean, info.std)[0].max()
        subject = classifier_on_image(
            model, name, pixels, values, info.classes, fill=black if fill == "black" else 0.0
        )
        relevances = relevance(subject)
        relevances["random"] = np.random.default_rng(number).normal(size=len(subject.parts))
        for method, one in trust(subject, relevances, seed=number).items():
            found[method].append((float(one.verdict == "above random"), one.deletion, one.insertion))
    return [row(f"{name}, {fill}: {method}", np.array(rows)) for method, rows in found.items()]


def measured(share: float = 1.0, seed: int = 2026) -> str:
    count, planted_count, images = (round(share * n) for n in (500, 100, 200))
    head = "insertion | insertion less deletion (95% of the mean) |"
    rule = "|---|---:|---:|---:|---:|"
    return "\n".join(
        [
            f"Sections of `python -m benchmarks.trust`. Machine: {machine()}; busy, so no times are told.",
            "",
            "## Roles of heads",
            "",
            *roles(count, seed),
            "",
            "## Relevance against a planted truth",
            "",
            f"{planted_count} models of two layers planted by `headwork.build` (12 tokens; permutations, "
            "shifts, running means), half of them with decoys: heads that attend elsewhere and whose output "
            "is thrown away. Agreement: the share of the truly relevant tokens among as many that a method "
            "finds most relevant, for or against the class. Deletion should be low, insertion high.",
            "",
            f"| method | agreement | deletion | {head}",
            rule,
            *planted_rows(planted_count // 2, seed, decoys=False),
            *planted_rows(planted_count - planted_count // 2, seed + 10_000, decoys=True),
            "",
            "## Deletion and insertion on trained models",
            "",
            f"The first {images} test images of the models of the package. Hidden patches are grey (the mean "
            "of the training images, as `headwork inspect` hides them) or black. Above random: the share of "
            "images on which a method lies beyond the 95% interval of random orders.",
            "",
            f"| model, hidden as: method | above random | deletion | {head}",
            rule,
            *(
                line
                for name in ("fashion-mnist", "digits")
                for fill in ("grey", "black")
                for line in trained_rows(name, images, fill)
            ),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    start = time.process_time()
    text = measured(0.1 if quick else 1.0)
    print(f"{text}\n\n{time.process_time() - start:.0f} s of processor time")
    if not quick:
        write_sections(PAGE, "trust", text)


def write_sections(page: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of this name, or add it at the end."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before = page.read_text(encoding="utf-8") if page.exists() else "# Inspection, measured\n"
    ours = f"{begin}\n{text}\n{end}\n"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}\n", flags=re.DOTALL)
    write_atomic(page, pattern.sub(lambda _: ours, before) if begin in before else f"{before}\n{ours}")


if __name__ == "__main__":
    main()
