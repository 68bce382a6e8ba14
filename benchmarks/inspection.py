"""``python -m benchmarks.inspection``: attention in modules that Headwork has not made, with peers beside it.

Without more it takes torch, transformers (a tool of the tests) and modules by hand. For all of it:
``pip install --no-deps --target PEERS vit-pytorch x-transformers timm torchlens einops einx frozendict loguru
torch_einops_utils graphviz``, then ``python -m benchmarks.inspection PEERS``.
"""

# ruff: noqa: E501, B023 - tables, and functions that run within their round

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_flatten

import headwork
from benchmarks.foreign.zoo import Case, cases
from benchmarks.report import RESULTS, machine
from headwork.files import write_atomic

HEADING = "## Attention in foreign modules"
NAMES = ("attn_drop", "attn.softmax", "attend", "attn_dropout", "attention_dropout", "dropout_attn")


@contextmanager
def eager(weights: list[Tensor]) -> Iterator[None]:
    """The reference: Python's own softmax functions and scaled_dot_product_attention note their weights."""
    originals = (
        torch.softmax,
        Tensor.softmax,
        functional.scaled_dot_product_attention,
        torch._C._nn.scaled_dot_product_attention,
    )

    def softmax(*args: Any, **kwargs: Any) -> Tensor:
        weights.append(originals[1](*args, **kwargs))
        return weights[-1]

    def attention(
        q: Any,
        k: Any,
        v: Any,
        attn_mask: Any = None,
        dropout_p: float = 0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) if enable_gqa else t for t in (k, v))
        scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
        hidden = ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril() if is_causal else None
        if attn_mask is not None and attn_mask.dtype != torch.bool:
            scores = scores + attn_mask
        elif attn_mask is not None:
            hidden = ~attn_mask
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        weights.append(originals[1](scores, -1).nan_to_num())
        return weights[-1] @ v

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    torch.softmax, Tensor.softmax, functional.scaled_dot_product_attention = softmax, softmax, attention  # type: ignore
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        torch.softmax, Tensor.softmax, functional.scaled_dot_product_attention = originals[:3]  # type: ignore


def references(case: Case, module: nn.Module) -> list[Tensor]:
    """The weights of every attention, by means that share nothing with ``attention_of``."""
    if case.source == "transformers":
        from benchmarks.foreign import zoo

        table: dict[str, Any] = {**zoo.TEXTS, **zoo.PAIRS, **zoo.IMAGES}
        name = case.name.split(",")[0]
        if name != "CLIP" and name not in ("Swin", "Swinv2", "SiglipVision"):
            other = zoo.hugging(name, table[name][1], "eager")
            other.load_state_dict(module.state_dict())
            output = other(**case.kwargs, output_attentions=True)
            keys = ("encoder_attentions", "decoder_attentions", "cross_attentions", "attentions")
            return [t for key in keys for t in (getattr(output, key, None) or ())]
        # Some give only a part of their weights: these run eagerly with the softmax noted.
    found: list[Tensor] = []
    starts: list[int] = []

    def blended(part: Any, inputs: Any, _output: Any) -> None:
        """A layer that blends two softmaxes says itself what its weights are (timm's ConViT)."""
        del found[starts.pop() :]
        count, weights = len(found), part.get_attention(*inputs)
        found[count:] = [weights]

    own = [part for part in module.modules() if hasattr(part, "get_attention")]
    hooks = [part.register_forward_pre_hook(lambda *_: starts.append(len(found))) for part in own]
    hooks += [part.register_forward_hook(blended) for part in own]
    with eager(found):
        module(*case.inputs, **case.kwargs)
    for hook in hooks:
        hook.remove()
    return found


def differences(records: list[Tensor], wanted: list[Tensor]) -> tuple[list[float], int]:
    """For each reference the distance to its record, and how many records have no reference."""
    left, errors = list(records), []
    for weights in wanted:
        fitting = [
            (float((r.reshape(-1) - weights.reshape(-1)).abs().max()), i)
            for i, r in enumerate(left)
            if same_sizes(r, weights)
        ]
        best = min(fitting, default=(float("inf"), -1))
        errors.append(best[0])
        if best[0] < 1e-5:
            left.pop(best[1])
    return errors, len(left)


def same_sizes(record: Tensor, weights: Tensor) -> bool:
    """Equal, or with leading axes that a reference has folded (batch x head) or split (batch, window)."""
    return record.shape == weights.shape or (
        weights.dim() != 4 and record.shape[-2:] == weights.shape[-2:] and record.numel() == weights.numel()
    )


def by_name(case: Case, module: nn.Module) -> list[Tensor]:
    """What tools find that hook modules by their names, as timm's AttentionExtract and vit-explain do."""
    found: list[Tensor] = []
    parts = [part for path, part in module.named_modules() if path.endswith(NAMES)]
    hooks = [part.register_forward_hook(lambda _m, _i, out: found.append(out)) for part in parts]
    try:
        module(*case.inputs, **case.kwargs)
    finally:
        for hook in hooks:
            hook.remove()
    return [t for t in found if isinstance(t, Tensor) and t.dim() > 2]


def by_torchlens(case: Case, module: nn.Module) -> list[Tensor]:
    import torchlens

    trace = torchlens.trace(module, list(case.inputs) or None, case.kwargs or None, reconstruction_ready=True)
    found = []
    for part in trace.modules:
        for one in (part, *part.calls.values()):  # a module that runs several times has facets per call
            try:
                found += [torch.as_tensor(one.facets.pattern.value)] if one.facets.has("pattern") else []
                break
            except Exception:
                continue
    return found


def measure(case: Case, peers: bool) -> dict[str, Any]:
    module = case.build()
    with torch.no_grad():
        torch.manual_seed(0)
        output = module(*case.inputs, **case.kwargs)
        torch.manual_seed(0)
        result = headwork.attention_of(module, *case.inputs, **case.kwargs)
        same = all(torch.equal(a, b) for a, b in zip(tensors(output), tensors(result.output), strict=True))
        wanted = references(case, module) if case.attention else []
        errors, extra = differences([r.weights for r in result.records], wanted)
        row = {
            "case": case,
            "same": same,
            "wanted": len(wanted),
            "records": len(result.records),
            "unread": result.unread,
        }
        row |= {
            "read": sum(e < 1e-5 for e in errors),
            "error": max((e for e in errors if e < 1e-5), default=0.0),
            "extra": extra,
        }
        for peer, function in (("by name", by_name), ("torchlens", by_torchlens)) if peers else ():
            try:
                row[peer] = sum(e < 1e-5 for e in differences(function(case, module), wanted)[0])
            except Exception as error:
                row[peer] = f"{type(error).__name__}"
    return row


def tensors(value: Any) -> list[Tensor]:
    value = dict(value) if hasattr(value, "keys") else value
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def overhead() -> list[tuple[str, float, float]]:
    """Plain forward and attention_of in turn, in processor time, for ViTs of 197 tokens."""
    import transformers

    rows = []
    for name, width, heads, depth in (("tiny", 192, 3, 12), ("small", 384, 6, 12), ("base", 768, 12, 12)):
        config = transformers.ViTConfig(
            hidden_size=width, num_hidden_layers=depth, num_attention_heads=heads, intermediate_size=4 * width
        )
        for kind in ("sdpa", "eager"):
            model = transformers.ViTModel._from_config(config, attn_implementation=kind).eval()
            image, taken = torch.randn(1, 3, 224, 224), ([], [])
            with torch.no_grad():
                for _ in range(8):
                    for times, run in zip(
                        taken,
                        (lambda: model(image), lambda: headwork.attention_of(model, image)),
                        strict=True,
                    ):
                        start = time.process_time()
                        run()
                        times.append(time.process_time() - start)
            plain, read = (statistics.median(times[1:]) for times in taken)
            rows.append((f"ViT-{name}, {kind}", plain, read / plain))
    return rows


def section(rows: list[dict[str, Any]], peers: bool) -> str:
    true = [r for r in rows if r["case"].attention]
    wanted, read = sum(r["wanted"] for r in true), sum(r["read"] for r in true)
    whole = [r for r in true if r["read"] == r["wanted"]]
    silent = sum(r["wanted"] - r["read"] for r in true if not r["unread"])
    false = sum(r["extra"] for r in rows)
    lines = [HEADING, "", f"`python -m benchmarks.inspection{' PEERS' if peers else ''}`, {machine()}.", ""]
    lines += [
        f"- {len(rows)} modules, {len(true)} of them with attention. Every weight within 1e-5 of the reference in "
        f"{len(whole)} of {len(true)} ({len(whole) / len(true):.1%}); {read} of {wanted} attentions.",
        f"- Silent misses: {silent}. False attentions: {false}. Output bit-identical: "
        f"{sum(r['same'] for r in rows)} of {len(rows)}.",
    ]
    if peers:
        for peer in ("by name", "torchlens"):
            found = sum(r[peer] for r in true if isinstance(r[peer], int))
            complete = sum(r[peer] == r["wanted"] for r in true)
            failed = sum(isinstance(r[peer], str) for r in true)
            lines.append(
                f"- {peer}: {found} of {wanted} attentions, all of them in {complete} of {len(true)} modules; {failed} stopped with an error."
            )
    lines += [
        "",
        "Overhead, in processor time of one thread, both in turn:",
        "",
        "| 197 tokens | plain | attention_of / plain |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {plain * 1e3:.0f} ms | {ratio:.2f} |" for name, plain, ratio in overhead()]
    lines += [
        "",
        "References: `output_attentions=True` of the eager model for transformers, else every softmax noted by Python's",
        'functions while the module runs eagerly (a layer with `get_attention`, of ConViT, by that). "by name": modules whose name ends as attention\'s dropout or softmax',
        "usually do are hooked.",
        "",
    ]
    lines += [
        "| library | module | attentions | read | largest error | by name | torchlens | listed as unread |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        reasons = "; ".join(dict.fromkeys(u.reason.split(": ", 1)[-1] for u in r["unread"]))
        lines.append(
            f"| {r['case'].source} | {r['case'].name} | {r['wanted']} | {r['read']} | {r['error']:.0e} | {r.get('by name', '')} | {r.get('torchlens', '')} | {reasons} |"
        )
    return "\n".join(lines) + "\n"


def replace_section(text: str) -> None:
    """Write this section of results/inspection.md, and leave the others."""
    path = RESULTS / "inspection.md"
    old = path.read_text() if path.exists() else "# Inspection\n"
    before, _, after = old.partition(HEADING)
    rest = after.partition("\n## ")[2]
    write_atomic(path, before.rstrip() + "\n\n" + text + (f"\n## {rest}" if rest else ""))


def main(peers: str) -> int:
    warnings.filterwarnings("ignore")
    import transformers

    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    for case in cases(peers):
        row = measure(case, bool(peers))
        rows.append(row)
        print(
            case.source,
            case.name,
            {k: v for k, v in row.items() if k not in ("case", "unread")},
            file=sys.stderr,
        )
    replace_section(section(rows, bool(peers)))
    failed = [r for r in rows if not r["same"] or r["extra"] or (r["read"] < r["wanted"] and not r["unread"])]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
