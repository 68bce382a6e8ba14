"""Modules that Headwork has not made, each with an input: of transformers, vit-pytorch, timm, torch and by hand."""

# ruff: noqa: E501, RUF012 - tables of sizes

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import math
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Case(NamedTuple):
    source: str
    name: str
    build: Callable[[], nn.Module]
    inputs: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    attention: bool = True


S = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
T = {"vocab_size": 64, "max_position_embeddings": 32}
G = {**S, **T, "num_key_value_heads": 2}
V = {**S, "image_size": 32, "patch_size": 8}
N = {"vocab_size": 64, "n_positions": 32, "n_embd": 32, "n_layer": 2, "n_head": 4}
E = {"vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
E |= {
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 32,
}
W = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
}
TEXTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Bert": ("eager sdpa", {**S, **T}),
    "Roberta": ("sdpa", {**S, **T}),
    "Albert": ("sdpa", {**S, **T, "embedding_size": 16}),
    "Electra": ("sdpa", {**S, **T, "embedding_size": 16}),
    "DebertaV2": ("eager", {**S, **T, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "MPNet": ("eager", {**S, **T}),
    "XLNet": ("eager", {"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}),
    "ModernBert": ("sdpa", {**S, **T, "pad_token_id": 0}),
    "Longformer": ("eager", {**S, **T, "attention_window": [4, 4]}),
    "GPT2": ("eager sdpa", N),
    "GPTJ": ("eager", {**N, "rotary_dim": 4}),
    "GPTNeoX": ("sdpa", {**S, **T}),
    "GPTBigCode": ("eager sdpa", N),
    "OPT": ("sdpa", {**S, **T, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "Bloom": ("eager", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "Llama": ("eager sdpa", G),
    "Mistral": ("sdpa", {**G, "sliding_window": 4}),
    "Qwen3": ("sdpa", {**G, "head_dim": 8}),
    "Gemma2": ("eager", {**G, "head_dim": 8}),
    "Mixtral": ("sdpa", {**G, "num_local_experts": 4}),
    "GptOss": ("eager", {**G, "head_dim": 8, "num_local_experts": 4}),
    "Falcon": (
        "sdpa",
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    ),
}
PAIRS = {
    "T5": (
        "eager sdpa",
        {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    ),
    "Bart": ("sdpa", E),
}
IMAGES = {
    "ViT": ("eager sdpa", V),
    "DeiT": ("sdpa", V),
    "Beit": ("sdpa", {**V, "use_relative_position_bias": True}),
    "Dinov2": ("sdpa", V),
    "Swin": ("sdpa", W),
    "Swinv2": ("eager", W),
    "SiglipVision": ("sdpa", V),
}
D = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 48}
D |= {"dim_head": 8}
C = {"num_classes": 5, "s1_emb_dim": 16, "s2_emb_dim": 16, "s3_emb_dim": 32, "s1_depth": 1, "s2_depth": 1}
VIT_PYTORCH: dict[str, tuple[str, dict[str, Any], int]] = {
    "vit": ("ViT", D, 32),
    "simple_vit": ("SimpleViT", D, 32),
    "deepvit": ("DeepViT", D, 32),
    "cait": ("CaiT", {**D, "cls_depth": 1}, 32),
    "parallel_vit": ("ViT", D, 32),
    "vit_for_small_dataset": ("ViT", D, 32),
    "simple_vit_with_qk_norm": ("SimpleViT", D, 32),
    "simple_flash_attn_vit": ("SimpleViT", D, 32),
    "learnable_memory_vit": ("ViT", D, 32),
    "rvt": ("RvT", D, 32),
    "cvt": ("CvT", {**C, "s3_depth": 1, "s2_heads": 2, "s3_heads": 2}, 64),
    "max_vit": (
        "MaxViT",
        {"num_classes": 5, "dim": 16, "depth": (1, 1), "dim_head": 8, "window_size": 4},
        128,
    ),
    "xcit": ("XCiT", {**D, "cls_depth": 1}, 32),
    "pit": ("PiT", {**D, "depth": (1, 1)}, 32),
}
TIMM = {
    "vit_tiny_patch16_224": 224,
    "swin_tiny_patch4_window7_224": 224,
    "xcit_nano_12_p16_224": 224,
    "levit_128s": 224,
    "convit_tiny": 224,
    "visformer_tiny": 224,
    "edgenext_xx_small": 256,
}


def cases(peers: str) -> Iterator[Case]:
    if peers:
        sys.path.append(peers)
        sys.meta_path.insert(0, NoTorchvision())
    ids = torch.randint(5, 60, (2, 9))
    texts = {"input_ids": ids, "attention_mask": torch.tensor([[1] * 9, [1] * 6 + [0] * 3])}
    groups = ((TEXTS, texts), (PAIRS, {**texts, "decoder_input_ids": ids[:, :5]}))
    for table, kwargs in (*groups, (IMAGES, {"pixel_values": torch.randn(2, 3, 32, 32)})):
        for name, (kinds, sizes) in table.items():
            for kind in kinds.split():
                yield Case(
                    "transformers",
                    f"{name}, {kind}",
                    lambda n=name, s=sizes, k=kind: hugging(n, s, k),
                    (),
                    kwargs,
                )
    clip = {**texts, "pixel_values": torch.randn(2, 3, 32, 32)}
    ends = {"eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0}
    parts = {"text_config": {**S, **T, **ends}, "vision_config": V}
    yield Case("transformers", "CLIP, sdpa", lambda: hugging("CLIP", parts, "sdpa"), (), clip)
    yield from torch_cases()
    for body in (*BY_HAND, *NO_ATTENTION):
        yield Case(
            "by hand",
            body.__name__,
            lambda b=body: Own(b).eval(),
            (torch.randn(2, 7, 16),),
            {},
            body in BY_HAND,
        )
    if peers:
        for name, (cls, sizes, size) in VIT_PYTORCH.items():
            picture = torch.randn(2, 3, size, size)
            yield Case(
                "vit-pytorch", name, lambda n=name, c=cls, s=sizes: vit_pytorch(peers, n, c, s), (picture,)
            )
        for name, size in TIMM.items():
            yield Case(
                "timm",
                name,
                lambda n=name: sys_import("timm").create_model(n).eval(),
                (torch.randn(1, 3, size, size),),
            )
        yield Case("x-transformers", "Encoder", x_encoder, (torch.randn(2, 9, 32),))
        yield Case("x-transformers", "Decoder, rotary", x_decoder, (torch.randn(2, 9, 32),))


def hugging(name: str, sizes: dict[str, Any], kind: str) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    model: nn.Module = getattr(transformers, f"{name}Model")._from_config(config, attn_implementation=kind)
    return model.eval()


def torch_cases() -> Iterator[Case]:
    x = torch.randn(2, 7, 16)
    for extra in ({}, {"add_zero_attn": True}, {"add_bias_kv": True}, {"batch_first": False}):
        for weights in (True, False):
            name = f"MultiheadAttention, {next(iter(extra), 'plain')}, {'with' if weights else 'without'} weights"
            sizes = {"batch_first": True, **extra}
            yield Case(
                "torch.nn",
                name,
                lambda s=sizes: nn.MultiheadAttention(16, 4, **s).eval(),
                (x, x, x),
                {"need_weights": weights},
            )
    layer = {"d_model": 16, "nhead": 4, "dim_feedforward": 32, "batch_first": True}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), 2, enable_nested_tensor=False).eval()
    yield Case("torch.nn", "TransformerEncoder", lambda: encoder, (x,))
    whole = nn.Transformer(16, 4, 1, 1, 32, batch_first=True).eval()
    yield Case("torch.nn", "Transformer", lambda: whole, (x, x[:, :5]))


def sys_import(name: str) -> Any:
    return importlib.import_module(name)


def vit_pytorch(peers: str, name: str, cls: str, sizes: dict[str, Any]) -> nn.Module:
    if "vit_pytorch" not in sys.modules:  # its __init__ wants torchvision
        package = types.ModuleType("vit_pytorch")
        package.__path__ = [f"{peers}/vit_pytorch"]
        sys.modules["vit_pytorch"] = package
    torch.manual_seed(0)
    model: nn.Module = getattr(importlib.import_module(f"vit_pytorch.{name}"), cls)(**sizes)
    return model.eval()


def x_encoder() -> nn.Module:
    model: nn.Module = sys_import("x_transformers").Encoder(dim=32, depth=2, heads=4, attn_dim_head=8)
    return model.eval()


def x_decoder() -> nn.Module:
    options = {"attn_dim_head": 8, "rotary_pos_emb": True, "attn_flash": True}
    model: nn.Module = sys_import("x_transformers").Decoder(dim=32, depth=2, heads=4, **options)
    return model.eval()


class NoTorchvision(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands in for torchvision, which timm imports and none of these models uses."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return (
            importlib.machinery.ModuleSpec(name, self, is_package=True)
            if name.split(".")[0] == "torchvision"
            else None
        )

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class _Names(type):
    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return name


class _Empty(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Names(name, (), {})


# --- by hand -----------------------------------------------------------------------------------


class Own(nn.Module):
    """Projections of a module's own, and what ``body`` does with query, key and value."""

    def __init__(self, body: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project, self.gate, self.score = nn.Linear(16, 48), nn.Linear(16, 4), nn.Linear(16, 1)
        self.experts, self.mix = (
            nn.ModuleList(nn.Linear(16, 16) for _ in range(4)),
            nn.Parameter(torch.randn(4, 4)),
        )
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (4, 4)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        return self.body(self, x, q / math.sqrt(4), k, v)


def einsum(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhij,bhjd->bihd", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v)


def causal_mask(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
    return (q @ k.mT).masked_fill(hidden, -math.inf).softmax(-1) @ v


def cross_attention(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q[:, :, :3] @ k.mT).softmax(-1) @ v


def rotary(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    angle = torch.outer(torch.arange(7.0), torch.tensor([1.0, 0.1])).repeat(1, 2)
    q, k = (t * angle.cos() + torch.cat([-t[..., 2:], t[..., :2]], -1) * angle.sin() for t in (q, k))
    return (q @ k.mT).softmax(-1) @ v


def windows(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (t[:, :, :6].unflatten(2, (2, 3)).transpose(1, 2).flatten(0, 1) for t in (q, k, v))
    return (q @ k.mT).softmax(-1) @ v


def grouped_queries(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True, is_causal=True)


def sums_of_products(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return ((q[:, :, :, None] * k[:, :, None]).sum(-1).softmax(-1)[..., None] * v[:, :, None]).sum(-2)


def talking_heads(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhij,hg->bgij", q @ k.mT, m.mix)
    return torch.einsum("bhij,hg->bgij", scores.softmax(-1), m.mix) @ v


def classifier(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return m.gate(x.mean(1)).softmax(-1)


def experts(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bne,bned->bnd", m.gate(x).softmax(-1), torch.stack([e(x) for e in m.experts], 2))


def pooling(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return m.score(x).softmax(1).mT @ x


def softmax_over_features(m: Any, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.softmax(-1) @ (k.softmax(-2).mT @ v)


BY_HAND = (
    einsum,
    causal_mask,
    cross_attention,
    rotary,
    windows,
    grouped_queries,
    sums_of_products,
    talking_heads,
)
NO_ATTENTION = (classifier, experts, pooling, softmax_over_features)
