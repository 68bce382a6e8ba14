"""attention_of reads every attention of any module, lists what it does not read, and leaves no trace."""

from __future__ import annotations

import gc
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import scaled_dot_product_attention as imported_earlier

import headwork
from headwork.errors import InputError, TooLarge

transformers.utils.logging.set_verbosity_error()
BATCH, TOKENS, WIDTH, HEADS = 2, 7, 16, 4
SCALE = 1 / math.sqrt(WIDTH / HEADS)


def reference(query: Any, key: Any, scale: float = SCALE, mask: Any = 0.0) -> Any:
    """softmax(scale Q K^T + mask), by numpy in double precision."""
    query, key = np.asarray(query.detach(), float), np.asarray(key.detach(), float)
    scores = scale * query @ np.swapaxes(key, -1, -2) + mask
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


class Own(nn.Module):
    """A module of somebody's own: projections, then whatever ``body`` does with query, key and value."""

    def __init__(self, body: Callable[..., Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.project, self.join = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.gate, self.score = nn.Linear(WIDTH, 4), nn.Linear(WIDTH, 1)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.learned = nn.Parameter(torch.randn(1, HEADS, 3, WIDTH // HEADS))
        self.mix = nn.Parameter(torch.randn(HEADS, HEADS))
        self.softmax = nn.Softmax(-1)
        self.body = body

    def parts(self, x: Tensor) -> tuple[Tensor, ...]:
        cut = (*x.shape[:-1], HEADS, WIDTH // HEADS)
        return tuple(part.reshape(cut).transpose(-3, -2) for part in self.project(x).chunk(3, -1))

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self, x, *self.parts(x))


def scores_of(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-1, -2) * SCALE


def flat(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1, *tensor.shape[-2:])


def head_major(tensor: Tensor) -> Tensor:
    return flat(tensor.transpose(0, 1))


def exponentials(query: Tensor, key: Tensor) -> Tensor:
    scores = scores_of(query, key)
    return (scores - scores.amax(-1, keepdim=True)).exp()


def twice(scores: Tensor) -> Tensor:
    return torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True)


def by_rows(scores: Tensor, value: Tensor) -> Tensor:
    return torch.cat([part.softmax(-1) @ value for part in scores.split(4, -2)], -2)


def overwritten(scores: Tensor, value: Tensor) -> Tensor:
    weights = scores.softmax(-1)
    output = weights @ value
    weights.detach().zero_()
    return output


def written_out(scores: Tensor, value: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.softmax(scores, -1, out=torch.empty_like(scores)) @ value


# Each computes the same attention: weights softmax(Q K^T / sqrt(width of a head)).
ATTENTIONS: dict[str, Callable[..., Tensor]] = {
    "matmul": lambda m, x, q, k, v: scores_of(q, k).softmax(-1) @ v,
    "a module for softmax": lambda m, x, q, k, v: m.softmax(scores_of(q, k)) @ v,
    "bmm": lambda m, x, q, k, v: torch.bmm(torch.bmm(flat(q), flat(k).mT).mul(SCALE).softmax(-1), flat(v)),
    "heads before batch": lambda m, x, q, k, v: (
        (head_major(q) @ head_major(k).mT * SCALE).softmax(-1) @ head_major(v)
    ),
    "einsum": lambda m, x, q, k, v: torch.einsum(
        "bhij,bhjd->bihd", torch.einsum("bhid,bhjd->bhij", q, k).mul(SCALE).softmax(-1), v
    ),
    "baddbmm": lambda m, x, q, k, v: (
        torch.baddbmm(torch.zeros(1), flat(q), flat(k).mT, alpha=SCALE).softmax(-1) @ flat(v)
    ),
    "keys first": lambda m, x, q, k, v: (v.mT @ scores_of(k, q).softmax(-2)).mT,
    "sums of products": lambda m, x, q, k, v: (
        ((q[:, :, :, None] * k[:, :, None]).sum(-1) * SCALE).softmax(-1)[..., None] * v[:, :, None]
    ).sum(-2),
    "five axes": lambda m, x, q, k, v: (
        scores_of(q.unflatten(1, (2, 2)), k.unflatten(1, (2, 2))).softmax(-1) @ v.unflatten(1, (2, 2))
    ),
    "queries and heads on one axis": lambda m, x, q, k, v: (
        (q.transpose(1, 2).reshape(BATCH, -1, WIDTH // HEADS) @ k[:, 0].mT * SCALE).softmax(-1) @ v[:, 0]
    ),
    "exponentials over their sum": lambda m, x, q, k, v: (
        (e := exponentials(q, k)) / e.sum(-1, keepdim=True) @ v
    ),
    "exponentials taken twice": lambda m, x, q, k, v: twice(scores_of(q, k)) @ v,
    "exponentials times one over their sum": lambda m, x, q, k, v: (
        (e := exponentials(q, k)) * (1 / e.sum(-1, keepdim=True)) @ v
    ),
    "exponentials normalised": lambda m, x, q, k, v: (
        functional.normalize(exponentials(q, k), p=1, dim=-1) @ v
    ),
    "divided last": lambda m, x, q, k, v: (e := exponentials(q, k)) @ v / e.sum(-1, keepdim=True),
    "less logsumexp": lambda m, x, q, k, v: (
        ((s := scores_of(q, k)) - s.logsumexp(-1, keepdim=True)).exp() @ v
    ),
    "less log of the sum": lambda m, x, q, k, v: (
        ((s := scores_of(q, k)) - s.exp().sum(-1, keepdim=True).log()).exp() @ v
    ),
    "powers of e": lambda m, x, q, k, v: (p := math.e ** scores_of(q, k)) / p.sum(-1, keepdim=True) @ v,
    "log_softmax": lambda m, x, q, k, v: scores_of(q, k).log_softmax(-1).exp() @ v,
    "dropout": lambda m, x, q, k, v: functional.dropout(scores_of(q, k).softmax(-1), 0.4) @ v,
    "dropout in place": lambda m, x, q, k, v: (
        functional.dropout(scores_of(q, k).softmax(-1), 0.4, inplace=True) @ v
    ),
    "written over afterwards": lambda m, x, q, k, v: overwritten(scores_of(q, k), v),
    "written to a given tensor": lambda m, x, q, k, v: written_out(scores_of(q.detach(), k.detach()), v),
    "heads mixed afterwards": lambda m, x, q, k, v: (
        torch.einsum("bhij,hg->bgij", scores_of(q, k).softmax(-1), m.mix) @ v
    ),
    "fused": lambda m, x, q, k, v: functional.scaled_dot_product_attention(q, k, v),
    "fused, imported earlier": lambda m, x, q, k, v: imported_earlier(q, k, v, scale=SCALE),
    "fused, dropout": lambda m, x, q, k, v: imported_earlier(q, k, v, dropout_p=0.5),
    "fused, three axes": lambda m, x, q, k, v: imported_earlier(flat(q), flat(k), flat(v)),
    "vmap": lambda m, x, q, k, v: torch.vmap(lambda q, k, v: scores_of(q, k).softmax(-1) @ v)(q, k, v),
    "checkpoint": lambda m, x, q, k, v: torch.utils.checkpoint.checkpoint(
        lambda q, k, v: scores_of(q, k).softmax(-1) @ v, q, k, v, use_reentrant=False
    ),
}


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_weights_however_they_are_computed(name: str, mode: Callable[[], Any]) -> None:
    module, x = Own(ATTENTIONS[name]).eval(), torch.randn(BATCH, TOKENS, WIDTH)
    with mode():
        torch.manual_seed(1)
        output = module(x)
        torch.manual_seed(1)
        result = headwork.attention_of(module, x)
        query, key, _ = module.parts(x)
    assert torch.equal(result.output, output)
    assert result.output.requires_grad == output.requires_grad
    assert not result.unread
    (record,) = result.records
    expected = reference(query, key[:, :1] if name.startswith("queries and heads") else key)
    assert record.weights.shape == (BATCH, HEADS, TOKENS, TOKENS)
    np.testing.assert_allclose(record.weights, expected, atol=1e-6)
    assert not record.weights.requires_grad


# No attention: each is listed with its reason, and nothing is recorded.
OTHERS: dict[str, tuple[Callable[..., Tensor], str]] = {
    "classifier": (lambda m, x, q, k, v: m.gate(x.mean(1)).softmax(-1), "a gate, a classifier"),
    "experts": (
        lambda m, x, q, k, v: torch.einsum(
            "bne,bned->bnd", m.gate(x).softmax(-1), torch.stack([e(x) for e in m.experts], 2)
        ),
        "a gate, a classifier",
    ),
    "experts by cosine": (
        lambda m, x, q, k, v: torch.einsum(
            "bne,bned->bnd",
            (functional.normalize(x, dim=-1) @ functional.normalize(m.gate.weight, dim=-1).T).softmax(-1),
            torch.stack([e(x) for e in m.experts], 2),
        ),
        "a gate, a classifier",
    ),
    "learned memory": (
        lambda m, x, q, k, v: m.gate(x).softmax(-1) @ m.gate.weight,
        "a gate, a classifier or a learned memory",
    ),
    "pooling": (lambda m, x, q, k, v: (m.score(x).softmax(1) * x).sum(1), "pooling"),
    "pooling after attention": (
        lambda m, x, q, k, v: (
            (y := x + m.join((q @ k.mT @ v).transpose(1, 2).flatten(2))) * m.score(y).softmax(1)
        ).sum(1),
        "pooling",
    ),
    "additive": (
        lambda m, x, q, k, v: (
            m.score(torch.tanh(m.join(x)[:, :, None] + x[:, None])).squeeze(-1).softmax(-1) @ x
        ),
        "additive attention",
    ),
    "softmax over features": (
        lambda m, x, q, k, v: q.softmax(-1) @ (k.softmax(-2).mT @ v),
        "a gate, a classifier",
    ),
    "weights without values": (lambda m, x, q, k, v: scores_of(q, k).softmax(-1), "no product with values"),
    "linear attention": (lambda m, x, q, k, v: q.relu() @ (k.relu().mT @ v), "without softmax"),
    "sigmoid attention": (lambda m, x, q, k, v: scores_of(q, k).sigmoid() @ v, "without softmax"),
    "unnormalised": (lambda m, x, q, k, v: scores_of(q, k).exp() @ v, "never divided by their sum"),
    "tiles": (
        lambda m, x, q, k, v: (
            (
                (a := scores_of(q, k[:, :, :3]).exp()) @ v[:, :, :3]
                + (b := scores_of(q, k[:, :, 3:]).exp()) @ v[:, :, 3:]
            )
            / (a.sum(-1, keepdim=True) + b.sum(-1, keepdim=True))
        ),
        "never divided by their sum",
    ),
    "numpy": (
        lambda m, x, q, k, v: torch.from_numpy(reference(q, k)).float() @ v,
        "from outside of torch",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
@torch.no_grad()
def test_what_is_no_attention_is_listed(name: str) -> None:
    body, reason = OTHERS[name]
    module, x = Own(body).eval(), torch.randn(BATCH, TOKENS, WIDTH)
    result = headwork.attention_of(module, x)
    assert torch.equal(result.output, module(x))
    assert result.records == []
    assert any(reason in one.reason for one in result.unread)


# --- other shapes of attention -----------------------------------------------------------------


@torch.no_grad()
def test_learned_queries_single_keys_and_unbatched_tokens() -> None:
    module = Own(lambda m, x, q, k, v: scores_of(m.learned.expand(len(x), -1, -1, -1), k).softmax(-1) @ v)
    x = torch.randn(BATCH, TOKENS, WIDTH)
    expected = reference(module.learned.expand(BATCH, -1, -1, -1), module.parts(x)[1])
    np.testing.assert_allclose(headwork.attention_of(module, x).records[0].weights, expected, atol=1e-6)
    plain = Own(ATTENTIONS["matmul"])
    assert headwork.attention_of(plain, x[:, :1]).records[0].weights.tolist() == [[[[1.0]]] * HEADS] * BATCH
    weights = headwork.attention_of(plain, x[0]).records[0].weights
    np.testing.assert_allclose(weights[0], reference(*plain.parts(x[0])[:2]), atol=1e-6)


class Windows(nn.Module):
    """Attention within windows of 4 tokens, one head."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.project(x).unflatten(1, (-1, 4)).chunk(3, -1)
        return ((query @ key.mT).softmax(-1) @ value).flatten(1, 2)


@torch.no_grad()
def test_windows_are_part_of_the_batch() -> None:
    module, x = Windows(), torch.randn(BATCH, 8, WIDTH)
    query, key, _ = module.project(x).reshape(2 * BATCH, 1, 4, -1).chunk(3, -1)
    (record,) = headwork.attention_of(module, x).records
    np.testing.assert_allclose(record.weights, reference(query, key, 1.0), atol=1e-6)


class Cached(nn.Module):
    """Keys and values are written into buffers, and read from there."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("cache", torch.zeros(2, BATCH, 9, HEADS, WIDTH // HEADS))

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (p.unflatten(-1, (HEADS, -1)) for p in self.project(x).chunk(3, -1))
        self.cache[0, :, : x.shape[1]] = key
        self.cache[1, :, : x.shape[1]] = value
        key, value = (self.cache[i, :, : x.shape[1]].transpose(1, 2) for i in range(2))
        return (query.transpose(1, 2) @ key.mT).softmax(-1) @ value


@torch.no_grad()
def test_a_cache_in_buffers_holds_data_and_is_put_back() -> None:
    module, x = Cached(), torch.randn(BATCH, TOKENS, WIDTH)
    query, key, _ = (p.unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in module.project(x).chunk(3, -1))
    result = headwork.attention_of(module, x)
    np.testing.assert_allclose(result.records[0].weights, reference(query, key, 1.0), atol=1e-6)
    assert not module.cache.any()


@given(
    st.integers(1, 3),
    st.integers(1, 9),
    st.integers(1, 9),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2]),
)
@settings(max_examples=40, deadline=None)
@torch.no_grad()
def test_any_sizes_masks_and_groups(batch: int, queries: int, keys: int, groups: int, masks: int) -> None:
    """Grouped queries and masks: the same numbers as by hand, fused and in steps."""
    query, key = torch.randn(batch, 4, queries, 3), torch.randn(batch, groups, keys, 3)
    allowed = torch.rand(batch, 1, queries, keys) > 0.3
    allowed[..., 0] = True
    mask = allowed if masks == 1 else torch.randn(queries, keys)
    added = np.where(allowed, 0, -np.inf) if masks == 1 else mask.numpy()

    class Fused(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(q, k, k, attn_mask=mask, enable_gqa=True)

    (record,) = headwork.attention_of(Fused(), query, key).records
    expected = reference(query, key.repeat_interleave(4 // groups, 1), 3**-0.5, added)
    np.testing.assert_allclose(record.weights, expected, atol=1e-6)


# --- torch's own layers and transformers -------------------------------------------------------


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "extra", [{}, {"add_zero_attn": True}, {"add_bias_kv": True}, {"kdim": 5, "vdim": 6}]
)
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(mode: Any, batch_first: bool, extra: Any, need_weights: bool) -> None:
    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first, **extra).eval()
    x = torch.randn(3, 5, 8)
    key, value = (torch.randn(3, 5, extra.get(name, 8)) for name in ("kdim", "vdim"))
    with mode():
        inputs = (x, key, value) if extra.get("kdim") else (x, x, x)
        expected = layer(*inputs, need_weights=True, average_attn_weights=False)[1]
        result = headwork.attention_of(layer, *inputs, need_weights=need_weights)
        output = layer(*inputs, need_weights=need_weights)
    assert torch.equal(result.output[0], output[0])
    assert result.unread == []
    torch.testing.assert_close(result.records[0].weights, expected.detach(), atol=1e-6, rtol=0)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "padding", "causal", "both"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_the_encoder_in_eval_is_read_on_its_fast_path(norm_first: bool, mask: str) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    x, given = torch.randn(2, 5, 8), {}
    if mask in ("padding", "both"):
        given["src_key_padding_mask"] = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    if mask in ("causal", "both"):
        given["mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    slow = headwork.attention_of(encoder, x, **given)  # with gradients torch leaves the fast path
    with torch.no_grad():
        fast = headwork.attention_of(encoder, x, **given)
        assert torch.equal(fast.output, encoder(x, **given))
    assert {record.kind for record in fast.records} == {"fast path of torch"}
    assert (
        [r.path for r in fast.records]
        == [r.path for r in slow.records]
        == [
            "layers.0.self_attn",
            "layers.1.self_attn",
        ]
    )
    for one, other in zip(fast.records, slow.records, strict=True):
        kept = slice(3) if mask in ("padding", "both") else slice(5)  # nested batches have no padded queries
        torch.testing.assert_close(one.weights[1, :, kept], other.weights[1, :, kept], atol=1e-6, rtol=0)
        torch.testing.assert_close(one.weights[0], other.weights[0], atol=1e-6, rtol=0)


SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
TEXT = {"vocab_size": 20, "max_position_embeddings": 16}
LIBRARY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertModel", "BertConfig", {**SMALL, **TEXT}),
    "gpt2": (
        "GPT2Model",
        "GPT2Config",
        {"vocab_size": 20, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4},
    ),
    "llama": ("LlamaModel", "LlamaConfig", {**SMALL, **TEXT, "num_key_value_heads": 2}),
    "bloom": ("BloomModel", "BloomConfig", {"vocab_size": 20, "hidden_size": 16, "n_layer": 2, "n_head": 4}),
    "t5": (
        "T5EncoderModel",
        "T5Config",
        {"vocab_size": 20, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 2, "num_heads": 4},
    ),
}


@pytest.mark.parametrize("kind", ["sdpa", "eager"])
@pytest.mark.parametrize("name", LIBRARY)
@torch.no_grad()
def test_models_of_transformers(name: str, kind: str) -> None:
    model_name, config_name, sizes = LIBRARY[name]
    make = getattr(transformers, model_name)._from_config
    config = getattr(transformers, config_name)
    eager = make(config(**sizes), attn_implementation="eager").eval()
    model = eager
    if kind == "sdpa" and name != "bloom":
        model = make(config(**sizes), attn_implementation="sdpa").eval()
        model.load_state_dict(eager.state_dict())
    given = {
        "input_ids": torch.randint(3, 20, (2, 6)),
        "attention_mask": torch.tensor([[1] * 6, [1] * 4 + [0] * 2]),
    }
    result = headwork.attention_of(model, **given)
    expected = eager(**given, output_attentions=True).attentions
    assert torch.equal(result.output.last_hidden_state, model(**given).last_hidden_state)
    assert result.unread == []
    assert len(result.records) == len(expected)
    for record, weights in zip(result.records, expected, strict=True):
        torch.testing.assert_close(record.weights, weights, atol=1e-6, rtol=0)


def test_a_cache_that_is_given_is_filled_once() -> None:
    model = transformers.GPT2Model(transformers.GPT2Config(**LIBRARY["gpt2"][2])).eval()
    with torch.no_grad():
        cache = model(torch.tensor([[3, 4, 5]]), use_cache=True).past_key_values
        result = headwork.attention_of(model, torch.tensor([[6]]), past_key_values=cache)
    assert cache.get_seq_length() == 4
    assert [record.weights.shape for record in result.records] == [(1, 4, 1, 4)] * 2


# --- what is left behind -----------------------------------------------------------------------


class Careless(nn.Module):
    """Changes all that a module can change while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.normalise = nn.BatchNorm1d(5)
        self.attend = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        self.register_buffer("count", torch.zeros(1))
        self.scale = nn.Parameter(torch.ones(3))
        self.fails = False

    def forward(self, x: Tensor) -> Tensor:
        self.count = self.count + 1
        self.scale.data.mul_(2)
        self.attend.in_proj_bias.data = torch.ones(24)
        x = self.normalise(x)
        self.eval()
        _ = torch.rand(3), random.random(), np.random.rand()
        if self.fails:
            raise KeyError("its own")
        return self.attend(x, x, x)[0]


@pytest.mark.parametrize("fails", [False, True])
def test_everything_is_as_it_was(fails: bool) -> None:
    module, x = Careless().train(), torch.randn(4, 5, 8)
    module.fails = fails
    module.attend.register_forward_hook(lambda *_: None)

    def state() -> list[Any]:
        values = [value.tolist() for value in module.state_dict().values()]
        modes = [
            (part.training, len(part._forward_hooks), len(part._forward_pre_hooks))
            for part in module.modules()
        ]
        places = [parameter.data_ptr() for parameter in module.parameters()]
        states = torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()
        stack = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
        flags = torch.is_grad_enabled(), torch.backends.mha.get_fastpath_enabled(), len(stack)
        return [values, modes, places, states, flags]

    before = state()
    if fails:
        with pytest.raises(KeyError, match="its own"):
            headwork.attention_of(module, x)
    else:
        assert len(headwork.attention_of(module, x).records) == 1
    assert state() == before


@torch.no_grad()
def test_many_calls_leave_nothing() -> None:
    module, x = Own(ATTENTIONS["matmul"]), torch.randn(BATCH, TOKENS, WIDTH)
    headwork.attention_of(module, x)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(200):
        headwork.attention_of(module, x)
    gc.collect()
    assert len(gc.get_objects()) - before < 50


def test_paths_limit_and_what_is_kept() -> None:
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3).eval()
    x = torch.randn(1, 5, 8)
    assert [r.path for r in headwork.attention_of(encoder, x, paths="layers.1").records] == [
        "layers.1.self_attn"
    ]
    assert len(headwork.attention_of(encoder, x, paths=["*0.self_attn", "layers.2"]).records) == 2
    with pytest.raises(
        InputError, match=r"path of an attention 'layer.1'. Did you mean 'layers.1.self_attn'"
    ):
        headwork.attention_of(encoder, x, paths="layer.1")
    with pytest.raises(TooLarge, match=r"3 attentions take 0.00057\d MiB, the limit is 0.000381 MiB"):
        headwork.attention_of(encoder, x, limit=400)
    with pytest.raises(InputError, match=r"unknown tensor to keep 'keys'\. Did you mean 'key'"):
        headwork.attention_of(encoder, x, keep=("keys",))
    with pytest.raises(InputError, match="function is not a torch module"):
        headwork.attention_of(lambda x: x, x)


@pytest.mark.parametrize(
    "name", ["matmul", "heads before batch", "keys first", "einsum", "fused", "fused, three axes"]
)
@torch.no_grad()
def test_queries_keys_values_and_outputs_on_request(name: str) -> None:
    module, x = Own(ATTENTIONS[name]), torch.randn(BATCH, TOKENS, WIDTH)
    record = headwork.attention_of(module, x, keep=("query", "key", "value", "output")).records[0]
    value = module.parts(x)[2]
    scale = 1 if name == "fused, three axes" else SCALE  # torch scales queries and keys there
    np.testing.assert_allclose(reference(record.query, record.key, scale), record.weights, atol=1e-6)
    torch.testing.assert_close(record.value, value)
    torch.testing.assert_close(record.output, record.weights @ value, atol=1e-5, rtol=0)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", ["bmm", "fused", "exponentials over their sum", "keys first"])
def test_gradients_by_the_weights(name: str, frozen: bool) -> None:
    """Against the gradient worked out by hand: d target / d weights = (d target / d output) V^T."""
    module, x = (
        Own(ATTENTIONS[name]).requires_grad_(not frozen).double(),
        torch.randn(2, TOKENS, WIDTH).double(),
    )
    direction = torch.randn(BATCH, HEADS, TOKENS, WIDTH // HEADS).double()
    result = headwork.attention_of(module, x, gradients=True, keep=("output",))
    target = (result.output.reshape(direction.shape) * direction).sum()
    (gradient,) = result.gradients(target)
    torch.testing.assert_close(gradient, (direction @ module.parts(x)[2].mT).detach())
    with pytest.raises(InputError, match=r"Call attention_of\(..., gradients=True\)"):
        headwork.attention_of(module, x).gradients(target)


# --- what cannot be looked into ----------------------------------------------------------------


@torch.library.custom_op("headwork_tests::attention", mutates_args=())
def own_kernel(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return (query @ key.mT).softmax(-1) @ value


compiled_function = torch.compile(lambda q, k, v: scores_of(q, k).softmax(-1) @ v, backend="eager")


class CallsCompiled(Own):
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = compiled_function(*self.parts(x))
        return result


@torch.no_grad()
def test_compiled_modules_and_kernels_are_listed() -> None:
    x = torch.randn(BATCH, TOKENS, WIDTH)
    result = headwork.attention_of(Own(lambda m, x, q, k, v: own_kernel(q, k, v)), x)
    assert "kernel of its own" in result.unread[0].reason
    whole = nn.Sequential(nn.Linear(WIDTH, WIDTH), torch.compile(Own(ATTENTIONS["matmul"]), backend="eager"))
    in_place = nn.Sequential(Own(ATTENTIONS["matmul"]))
    in_place[0].compile(backend="eager")
    for module, path in (
        (whole, "1"),
        (in_place, "0"),
        (nn.Sequential(CallsCompiled(ATTENTIONS["matmul"])), "0"),
    ):
        result = headwork.attention_of(module, x)
        assert (path, "compiled") in [(one.path, one.reason[:8]) for one in result.unread]
        assert torch.equal(result.output, module(x))
