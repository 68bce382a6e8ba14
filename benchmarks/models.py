"""How fast the models train compared with their peers, how linear attention scales, what fused twins cost.

    python -m benchmarks.models            all of it, about ten minutes, most of them the compiler's
    python -m benchmarks.models --eager    without the compiler

The peers are other libraries' vision transformers of the same shape; one that is not installed is left out
and named (``pip install transformers``; ``pip install --no-deps vit-pytorch einops``).
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.report import RESULTS, Report, Row, markdown, write
from headwork.mechanisms import fused
from headwork.models import VisionTransformer, VisionTransformerConfig

ROUNDS = 20
BATCHES = (128, 256)
SHAPE = {
    "image": 28,
    "channels": 1,
    "patch": 4,
    "depth": 6,
    "heads": 4,
    "width": 64,
    "hidden": 128,
    "classes": 10,
}
LENGTHS = tuple(1024 << k for k in range(7))
TARGET_SHARE, MAX_EXPONENT, MIN_SPEEDUP, MIN_KERNEL_SPEED = 0.32, 1.1, 20.0, 0.95

Work = Callable[[], object]


def best_of(candidates: dict[str, Work], rounds: int = ROUNDS) -> dict[str, float]:
    """The best time of each, all taking turns, so that a busy moment affects every one of them.

    Every other round runs backwards: the order decides what is still in the processor's cache.
    """
    for work in candidates.values():
        work()
        work()
    best = dict.fromkeys(candidates, math.inf)
    for turn in range(rounds):
        for name, work in list(candidates.items())[:: -1 if turn % 2 else 1]:
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


# --- the training step of the hand-out's vision transformer --------------------------------------------


def ours() -> nn.Module:
    return VisionTransformer(VisionTransformerConfig(backend="fused", **SHAPE))  # type: ignore[arg-type]


def vit_pytorch(**changes: int) -> nn.Module:
    """The peer of our shape, with changes to it. Its package imports torchvision, its one file does not."""
    shape = {**SHAPE, **changes}
    found = importlib.util.find_spec("vit_pytorch")
    if found is None or not found.submodule_search_locations:
        raise ImportError("vit_pytorch")
    spec = importlib.util.spec_from_file_location("vit", Path(found.submodule_search_locations[0]) / "vit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model: nn.Module = module.ViT(
        image_size=shape["image"],
        patch_size=shape["patch"],
        channels=shape["channels"],
        num_classes=shape["classes"],
        dim=shape["width"],
        mlp_dim=shape["hidden"],
        depth=shape["depth"],
        heads=shape["heads"],
        dim_head=shape["width"] // shape["heads"],
    )
    return model


class Scores(nn.Module):
    """A model of the transformers library, cut down to its scores."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model(images).logits
        return scores


def transformers() -> nn.Module:
    from transformers import ViTConfig, ViTForImageClassification  # type: ignore[import-not-found,unused-ignore]

    config = ViTConfig(  # type: ignore[call-arg,unused-ignore]
        image_size=SHAPE["image"],
        patch_size=SHAPE["patch"],
        num_channels=SHAPE["channels"],
        num_labels=SHAPE["classes"],
        hidden_size=SHAPE["width"],
        intermediate_size=SHAPE["hidden"],
        num_hidden_layers=SHAPE["depth"],
        num_attention_heads=SHAPE["heads"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return Scores(ViTForImageClassification(config))


MAKERS: dict[str, Callable[[], nn.Module]] = {
    "ours": ours,
    "vit-pytorch": vit_pytorch,
    "transformers": transformers,
}


def build_models() -> tuple[dict[str, nn.Module], list[str]]:
    models, missing = {}, []
    for name, make in MAKERS.items():
        try:
            torch.manual_seed(0)
            models[name] = make().train()
        except ImportError:
            missing.append(name)
    return models, missing


def training_step(model: nn.Module, images: Tensor, labels: Tensor, *, compiled: bool) -> Work:
    """Forward, loss, backward and AdamW: the same for everyone."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model) if compiled else model

    def step() -> None:
        optimiser.zero_grad()
        functional.cross_entropy(forward(images), labels).backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def step_flops(batch: int, *, last: int | None = None) -> int:
    """Two for each multiply-add of the matrix products, forward and (twice that) backward, for this shape.

    With ``last``, the last layer works on that many tokens only, as ours does: only the class token is read.
    """
    width, hidden, patch = SHAPE["width"], SHAPE["hidden"], SHAPE["patch"]
    patches = (SHAPE["image"] // patch) ** 2
    tokens = patches + 1

    def layer(asking: int) -> int:
        mine, theirs = asking * (2 * width * width + 2 * width * hidden), tokens * 2 * width * width
        return mine + theirs + 2 * asking * tokens * width

    ends = patches * SHAPE["channels"] * patch * patch * width + width * SHAPE["classes"]
    return 3 * 2 * batch * ((SHAPE["depth"] - 1) * layer(tokens) + layer(last or tokens) + ends)


def training_rows(*, compilers: Iterable[bool]) -> list[Row]:
    rows: list[Row] = []
    left, right = torch.randn(2, 2048, 2048)
    for batch in BATCHES:
        images, labels = torch.randn(batch, 1, 28, 28), torch.randint(10, (batch,))
        candidates: dict[str, Work] = {"product": lambda: left @ right}
        for compiled in compilers:
            torch.compiler.reset()
            models, missing = build_models()
            for name, model in models.items():
                how = "compiled" if compiled else "eager"
                candidates[f"{name}, {how}"] = training_step(model, images, labels, compiled=compiled)
        best = best_of(candidates)
        peak = 2 * 2048**3 / best.pop("product")
        rows.append(Row(f"batch {batch}: matrix-product peak", peak / 1e9, unit="GFLOP/s"))
        for name, seconds in best.items():
            share, detail = step_flops(batch) / seconds / peak, f"{1e3 * seconds:.1f} ms per step"
            if name.startswith("ours"):
                run_share = share * step_flops(batch, last=1) / step_flops(batch)
                detail += f"; {run_share:.3f} by the products really run"
            rows.append(Row(f"batch {batch}: share of peak, {name}", share, detail=detail))
        for how in ("compiled" if compiled else "eager" for compiled in compilers):
            peers = {n: t for n, t in best.items() if n.endswith(how) and not n.startswith("ours")}
            mine = best[f"ours, {how}"]
            for name, seconds in peers.items():
                rows.append(Row(f"batch {batch}: step time, ours / {name}", mine / seconds, 1.0))
            if how == "compiled":
                needed = step_flops(batch) / (TARGET_SHARE * peak)
                rows.append(
                    Row(
                        f"batch {batch}: step time, ours compiled / at {TARGET_SHARE} of peak",
                        mine / needed,
                        1.0,
                    )
                )
        rows += [Row(f"batch {batch}: {name} is not installed", 0.0) for name in missing]
    return rows


# --- linear attention ------------------------------------------------------------------------------------


def forward_backward(attend: Callable[..., Tensor], *tensors: Tensor) -> Work:
    """A forward and a backward pass."""
    inputs = [tensor.detach().requires_grad_() for tensor in tensors]
    direction = torch.randn_like(attend(*inputs))

    def work() -> object:
        return torch.autograd.grad(attend(*inputs), inputs, direction)

    return work


def linear(mask: str | None) -> Callable[..., Tensor]:
    return partial(fused.linear_attention, features="elu+1", mask=mask)


def exponent(times: dict[int, float]) -> float:
    """The slope of log time over log T, by least squares."""
    xs, ys = [math.log(t) for t in times], [math.log(s) for s in times.values()]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def peak_memory(mask: str | None, length: int) -> float:
    """Megabytes that a process of its own needs at most for one forward and backward."""
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.models", "--memory", mask or "none", str(length)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(process.stdout)


def memory_of(mask: str, length: int) -> float:
    heads = torch.randn(3, 1, 4, length, 64)
    forward_backward(linear(None if mask == "none" else mask), *heads)()
    # Not getrusage: its highest mark takes in the process that started this one.
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def linear_rows() -> tuple[list[Row], dict[str, dict[int, float]]]:
    forms = {"linear attention": linear(None), "causal linear attention": linear("causal")}
    curves: dict[str, dict[int, float]] = {name: {} for name in (*forms, "fused softmax attention")}
    for length in LENGTHS:
        heads = torch.randn(3, 1, 4, length, 64)
        candidates = {name: forward_backward(attend, *heads) for name, attend in forms.items()}
        if length <= 16384:
            candidates["fused softmax attention"] = forward_backward(fused.attention, *heads)
        for name, seconds in best_of(candidates, 5 if length >= 8192 else ROUNDS).items():
            curves[name][length] = seconds
    rows = []
    for name, mask in (("linear attention", None), ("causal linear attention", "causal")):
        rows.append(Row(f"{name}: exponent of time in T, 1k to 64k", exponent(curves[name]), MAX_EXPONENT))
        ratio = curves[name][16384] / curves["fused softmax attention"][16384]
        detail = f"{1 / ratio:.0f} times faster"
        rows.append(Row(f"{name}: time at T = 16k / fused softmax", ratio, 1 / MIN_SPEEDUP, detail=detail))
        start, *sizes = (peak_memory(mask, n) for n in (1024, 16384, 32768, 65536))
        growth = exponent(
            {n: max(size - start, 1.0) for n, size in zip((16384, 32768, 65536), sizes, strict=True)}
        )
        detail = ", ".join(f"{size - start:.0f} MB" for size in sizes) + " at 16k, 32k, 64k"
        rows.append(Row(f"{name}: exponent of memory in T", growth, MAX_EXPONENT, detail=detail))
    return rows, curves


# --- the fused twin beside torch's kernel ------------------------------------------------------------------


def kernel_rows() -> list[Row]:
    rows, direct = [], functional.scaled_dot_product_attention
    for length, batch in ((49, 128), (197, 16), (1024, 2)):
        heads = torch.randn(3, batch, 4, length, 16)
        best = best_of(
            {
                "ours": partial(fused.attention, *heads),
                "direct": partial(direct, *heads),
                "ours, trained": forward_backward(fused.attention, *heads),
                "direct, trained": forward_backward(direct, *heads),
            },
            10 * ROUNDS,
        )
        for passes, suffix in (("forward", ""), ("forward and backward", ", trained")):
            ratio = best[f"ours{suffix}"] / best[f"direct{suffix}"]
            rows.append(
                Row(f"T = {length}: fused attention / torch's kernel, {passes}", ratio, 1 / MIN_KERNEL_SPEED)
            )
    return rows


# --- the report ---------------------------------------------------------------------------------------------


def draw_curves(curves: dict[str, dict[int, float]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for name, times in curves.items():
        axes.loglog(list(times), [1e3 * s for s in times.values()], "o-", label=name)
    axes.set(
        title="Linear attention grows with T, softmax attention with its square",
        xlabel="T (tokens)",
        ylabel="forward and backward pass (ms)",
        xticks=(lengths := sorted({length for times in curves.values() for length in times})),
        xticklabels=[f"{length // 1024}k" for length in lengths],
    )
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def build_report(*, compiled: bool = True) -> Report:
    from headwork.documents import save_figure

    torch.manual_seed(0)
    rows = training_rows(compilers=(False, True) if compiled else (False,))
    more, curves = linear_rows()
    save_figure(draw_curves(curves), RESULTS / "models.svg")
    return Report(
        name="models",
        title="Models: the training step, linear attention, the fused twins",
        method=(
            "Everything compared takes turns in one run; the best of several rounds counts. The training "
            "step is forward pass, loss, backward pass and AdamW of a vision transformer for 28 x 28 "
            "images (patch 4, 6 layers, 4 heads, width 64, hidden 128) in float32; its share of peak "
            "counts the matrix products of the whole model, the same for everyone, over the rate of a 2048 "
            "x 2048 product measured in between. Ours leaves out what is never read (the last layer's "
            "other tokens), and its row also gives the share without that. Attention is 4 heads of 64 (of "
            "16 against torch's kernel), forward and backward pass. Curves: models.svg."
        ),
        rows=[*rows, *more, *kernel_rows()],
        curves=curves,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--eager", action="store_true", help="leave the compiler out")
    parser.add_argument("--memory", nargs=2, metavar=("MASK", "LENGTH"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.memory:
        print(memory_of(chosen.memory[0], int(chosen.memory[1])))
        return 0
    report = build_report(compiled=not chosen.eager)
    write(report)
    print(markdown(report))
    return 0 if report.held else 1


if __name__ == "__main__":
    sys.exit(main())
