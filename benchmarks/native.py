"""The training step with the native kernel, beside the fused one and other libraries' vision transformers.

    python -m benchmarks native     about ten minutes; wants a quiet machine

Each process builds every model, and all of them take turns at their training step; a row is the median of
several processes, because one process against another swings by a tenth. Peers that are not installed are
left out and named (``pip install transformers``; ``pip install --no-deps vit-pytorch einops``).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from benchmarks.report import Report, Row

PROCESSES, ROUNDS = 5, 12
# threads, batch, width, and what native must reach of vit-pytorch's step and of the fused one
CASES = [
    (2, 128, 64, 0.62, 0.72),
    (2, 256, 64, 0.62, 0.72),
    (2, 128, 96, 0.75, None),
    (2, 128, 128, 0.75, None),
]
CASES += [(1, 128, 64, None, None)]
NATIVE, FUSED, PEER = "ours, native", "ours, fused and compiled", "vit-pytorch, compiled"
SHARE = {"AVX2": 0.70, "AVX512": 0.50}


def times(threads: int, batch: int, width: int) -> dict[str, float]:
    """The best step of each, in seconds, in this process; all take turns."""
    import torch

    from benchmarks.models import SHAPE, Scores, best_of, training_step, vit_pytorch
    from headwork.libc import keep_freed_memory
    from headwork.models import VisionTransformer, VisionTransformerConfig

    torch.set_num_threads(threads)
    shape = {**SHAPE, "width": width, "hidden": 2 * width}

    def ours(backend: str) -> torch.nn.Module:
        return VisionTransformer(VisionTransformerConfig(backend=backend, **shape))  # type: ignore[arg-type]

    def transformers() -> torch.nn.Module:
        from transformers import ViTConfig, ViTForImageClassification

        sizes = {"image_size": 28, "patch_size": 4, "num_channels": 1, "num_labels": 10}
        sizes |= {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 6}
        rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return Scores(ViTForImageClassification(ViTConfig(**sizes, num_attention_heads=4, **rates)))

    makers = {
        NATIVE: (lambda: ours("native"), False),
        "ours, native and compiled": (lambda: ours("native"), True),
        FUSED: (lambda: ours("fused"), True),
        PEER: (lambda: vit_pytorch(width=width, hidden=2 * width), True),
        "transformers, compiled": (transformers, True),
    }
    images, labels = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
    left, right = torch.randn(2, 1024, 1024)
    steps = {"product": lambda: left @ right}
    for name, (make, compiled) in makers.items():
        torch.manual_seed(0)
        try:
            steps[name] = training_step(make().train(), images, labels, compiled=compiled)
        except ImportError:
            print(f"left out: {name}, which is not installed", file=sys.stderr)
    with keep_freed_memory():
        return best_of(steps, ROUNDS)


def in_processes(*case: int) -> dict[str, list[float]]:
    """The times of several processes, one after another."""
    results: dict[str, list[float]] = {}
    for _ in range(PROCESSES):
        command = [sys.executable, "-m", "benchmarks.native", *map(str, case)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for name, seconds in json.loads(done.stdout).items():
            results.setdefault(name, []).append(seconds)
    return results


def build_report() -> Report:
    import torch

    from benchmarks.models import step_flops

    rows = []
    for threads, batch, width, of_peer, of_fused in CASES:
        found = in_processes(threads, batch, width)
        case = f"{threads} thread{'s' * (threads > 1)}, batch {batch}, width {width}"
        for name, seconds in found.items():
            if name == "product":
                continue
            ratio = statistics.median(a / b for a, b in zip(found[NATIVE], seconds, strict=True))
            limit = {PEER: of_peer, FUSED: of_fused}.get(name)
            spread = " to ".join(f"{1e3 * each:.1f}" for each in (min(seconds), max(seconds)))
            rows.append(Row(f"{case}: native / {name}", ratio, limit, detail=f"{name}: {spread} ms per step"))
        if width == 64:
            rate = step_flops(batch, last=1) / (2 * 1024**3)
            share = statistics.median(
                rate * b / a for a, b in zip(found[NATIVE], found["product"], strict=True)
            )
            least = SHARE.get(torch.backends.cpu.get_cpu_capability(), 0.0)
            detail = f"share of the rate of a 1024 x 1024 product: {share:.2f}, at least {least:g}"
            rows.append(Row(f"{case}: least share / share reached", least / share, 1.0, detail=detail))
    return Report(
        name="native",
        title="The native kernel: a training step near the processor's limit",
        method=(
            "A step is forward pass, loss, backward pass and AdamW of a vision transformer for 28 x 28 "
            "images (patch 4, 6 layers, 4 heads, hidden twice the width) in float32. All take turns in a "
            f"process, the best of {ROUNDS} rounds counts; a row is the median of {PROCESSES} "
            "processes. The share counts the products that are really run."
        ),
        rows=rows,
    )


if __name__ == "__main__":
    print(json.dumps(times(*map(int, sys.argv[1:4]))))
