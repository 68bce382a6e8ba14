"""Other libraries' checkpoints come in and go out again with the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn

import headwork
from headwork.errors import InputError
from headwork.loading.folders import resize_positions
from headwork.mechanisms.texts import mean_of_tokens
from headwork.models import (
    Encoder,
    LanguageModel,
    LanguageModelConfig,
    TextClassifier,
    TextEncoder,
    TextEncoderConfig,
    TransformerConfig,
    VisionTransformer,
    VisionTransformerConfig,
    from_pretrained,
)
from headwork.models.pretrained import (
    from_torch,
    from_transformers,
    sentence_vectors,
    to_torch,
    to_transformers,
    tokenize_texts,
)

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
TEXTS = ["a cat sat", "the mat", "cat", "the cat sat on the mat and sat and sat", "on a mat"]


def scattered(module: nn.Module) -> Any:
    """Every parameter random, also biases and scales, which would else be 0 and 1 and hide a mistake."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator))
    return module.eval()


def largest(difference: torch.Tensor) -> float:
    return float(difference.abs().max())


# --- BERT -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    theirs = scattered(transformers.BertModel(transformers.BertConfig(vocab_size=50, **SMALL)))
    folder = tmp_path_factory.mktemp("bert")
    theirs.save_pretrained(folder)
    return theirs, folder


@pytest.fixture
def padded() -> tuple[torch.Tensor, torch.Tensor]:
    lengths = [1, 3, 9, 12, 17]
    mask = torch.tensor([[1] * n + [0] * (17 - n) for n in lengths])
    tokens = torch.randint(1, 50, mask.shape, generator=torch.Generator().manual_seed(1))
    return tokens * mask, mask


@torch.no_grad()
def test_bert_in_and_out_again(bert: Any, padded: Any, tmp_path: Path) -> None:
    theirs, folder = bert
    tokens, mask = padded
    ours = from_transformers(folder)
    assert isinstance(ours, TextEncoder)
    assert ours.config.epsilon == 1e-12
    hidden = theirs(input_ids=tokens, attention_mask=mask).last_hidden_state
    real = mask.bool()
    assert largest((ours(tokens, mask) - hidden)[real]) < 1e-5
    assert largest(mean_of_tokens(ours(tokens, mask), mask) - mean_of_tokens(hidden, mask)) < 1e-5
    assert largest((ours.with_backend("fused")(tokens, mask) - hidden)[real]) < 1e-5
    types = torch.ones_like(tokens)
    typed = theirs(input_ids=tokens, attention_mask=mask, token_type_ids=types).last_hidden_state
    assert largest((ours(tokens, mask, types) - typed)[real]) < 1e-5

    back = transformers.BertModel.from_pretrained(to_transformers(ours, tmp_path / "out")).eval()
    assert torch.equal(back(input_ids=tokens, attention_mask=mask).last_hidden_state, hidden)


@torch.no_grad()
def test_bert_with_a_head_for_pretraining_and_old_names(padded: Any, tmp_path: Path) -> None:
    theirs = scattered(transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=50, **SMALL)))
    theirs.save_pretrained(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    old = {
        n.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): p
        for n, p in state.items()
    }
    save_file(
        {**old, "bert.embeddings.position_ids": torch.arange(512)[None]}, tmp_path / "model.safetensors"
    )
    tokens, mask = padded
    hidden = theirs.bert(input_ids=tokens, attention_mask=mask).last_hidden_state
    assert largest((from_transformers(tmp_path)(tokens, mask) - hidden)[mask.bool()]) < 1e-5


@torch.no_grad()
def test_half_precision_is_read_as_single(bert: Any, tmp_path: Path) -> None:
    _, folder = bert
    state = {n: p.half() for n, p in load_file(folder / "model.safetensors").items()}
    save_file(state, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    table = from_transformers(tmp_path).embedding.table
    assert table.dtype == torch.float32
    assert torch.equal(table.half(), state["embeddings.word_embeddings.weight"])


def test_a_tokenizer_goes_along(bert: Any, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    _, folder = bert
    words = {word: i for i, word in enumerate(["[PAD]", "[UNK]", *dict.fromkeys(" ".join(TEXTS).split())])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_padding(length=40)
    tokenizer.enable_truncation(4)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = from_transformers(tmp_path)
    tokens, mask = tokenize_texts(ours, TEXTS)
    assert mask.sum(-1).tolist() == [3, 2, 1, 10, 3]
    assert tokens[0, :3].tolist() == [words[w] for w in TEXTS[0].split()]
    vectors = sentence_vectors(ours, TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert largest(sentence_vectors(ours, [text])[0] - vector) < 1e-5
    for again in (
        from_pretrained(ours.save_pretrained(tmp_path / "own")),
        from_transformers(to_transformers(ours, tmp_path / "theirs")),
    ):
        assert torch.equal(sentence_vectors(again, TEXTS), vectors)
    assert TextClassifier.on(ours, classes=3)(tokens, mask).shape == (5, 3)


def test_no_tokenizer_and_no_text(bert: Any) -> None:
    ours = from_transformers(bert[1])
    with pytest.raises(InputError, match="no tokenizer"):
        tokenize_texts(ours, TEXTS)


# --- the real one, where it is at hand ----------------------------------------------------------

SENTENCES = [
    "A cat.",
    "The quick brown fox jumps over the lazy dog.",
    "Attention is all you need, they said.",
    "Hello",
    "ok",
    "Numbers: 1, 22, 333 and 4,444.",
    "How many heads does it have, and how wide is each one of them?",
    "Short text.",
    "naïve café résumé",
    "What is a transformer?",
    "I left after twenty minutes and do not regret it for a second.",
    "One two three four five six seven eight nine ten eleven twelve thirteen.",
    "Paris is the capital of France.",
    "def f(x): return x * 2",
    "It rained all day. " * 20,
    "She sells sea shells by the sea shore.",
    "E = mc^2",
    "Antidisestablishmentarianism is a long word.",
    "word " * 150,
    "The end.",
]


@torch.no_grad()
def check_minilm(folder: Path, out: Path) -> None:
    ours, theirs = from_transformers(folder), transformers.BertModel.from_pretrained(folder).eval()
    tokens, mask = tokenize_texts(ours, SENTENCES)
    cut = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    assert torch.equal(tokens, cut["input_ids"])
    hidden = theirs(input_ids=tokens, attention_mask=mask).last_hidden_state
    # Rows of padding are left out: there even the two kernels of the transformers library differ by 2e-4.
    assert largest((ours(tokens, mask) - hidden)[mask.bool()]) < 2e-5
    assert largest(sentence_vectors(ours, SENTENCES) - mean_of_tokens(hidden, mask)) < 2e-5
    back = transformers.BertModel.from_pretrained(to_transformers(ours, out)).eval()
    assert torch.equal(back(input_ids=tokens, attention_mask=mask).last_hidden_state, hidden)


@pytest.mark.real("minilm")
def test_minilm(tmp_path: Path) -> None:
    from headwork.data.fetching import fetch

    check_minilm(fetch("minilm"), tmp_path / "out")


# --- ViT --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("image", "patch", "channels"), [(224, 16, 3), (20, 4, 1)])
@torch.no_grad()
def test_vit_in_and_out_again(image: int, patch: int, channels: int, tmp_path: Path) -> None:
    config = transformers.ViTConfig(
        image_size=image, patch_size=patch, num_channels=channels, num_labels=5, **SMALL
    )
    theirs = scattered(transformers.ViTForImageClassification(config))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = from_transformers(tmp_path / "theirs")
    images = torch.randn(2, channels, image, image, generator=torch.Generator().manual_seed(0))
    scores = theirs(images).logits
    assert largest(ours(images) - scores) < 1e-5
    assert largest(ours.with_backend("fused")(images) - scores) < 1e-5
    back = transformers.ViTForImageClassification.from_pretrained(
        to_transformers(ours, tmp_path / "out")
    ).eval()
    assert torch.equal(back(images).logits, scores)


@torch.no_grad()
def test_vit_for_another_image_size(tmp_path: Path) -> None:
    config = transformers.ViTConfig(image_size=32, patch_size=8, num_labels=5, **SMALL)
    theirs = scattered(transformers.ViTForImageClassification(config))
    theirs.save_pretrained(tmp_path)
    for image in (48, 24):
        images = torch.randn(2, 3, image, image)
        wanted = theirs(images, interpolate_pos_encoding=True).logits
        assert largest(from_transformers(tmp_path, image_size=image)(images) - wanted) < 1e-5
    with pytest.raises(InputError, match="cannot be cut into patches"):
        from_transformers(tmp_path, image_size=50)
    with pytest.raises(ValueError, match="image_size is 0"):
        from_transformers(tmp_path, image_size=0)


@torch.no_grad()
def test_vit_without_a_classifier_needs_classes(tmp_path: Path) -> None:
    config = transformers.ViTConfig(image_size=32, patch_size=8, **SMALL)
    theirs = scattered(transformers.ViTModel(config))
    theirs.save_pretrained(tmp_path)
    with pytest.raises(InputError, match="no classifier"):
        from_transformers(tmp_path)
    ours = from_transformers(tmp_path, classes=7)
    images, kept = torch.randn(2, 3, 32, 32), {}
    ours(images, note=lambda name, value: kept.setdefault(name, value))
    assert largest(kept["normalisation/output"] - theirs(images).last_hidden_state) < 1e-5
    assert ours(images).shape == (2, 7)


def test_positions_that_do_not_fit_the_config() -> None:
    with pytest.raises(InputError, match="positions for 5 patches, but the config says 4"):
        resize_positions(np.zeros((1, 6, 8)), 2, 3)


# --- torch ------------------------------------------------------------------------------------

SIZES = {"d_model": 16, "nhead": 4, "dim_feedforward": 24, "dropout": 0.1, "batch_first": True}


@pytest.mark.parametrize("first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.filterwarnings("ignore:.*(nested|prototype).*")
@torch.no_grad()
def test_nn_transformer_with_masks_both_ways(first: bool, activation: str) -> None:
    options = {"norm_first": first, "activation": activation, "layer_norm_eps": 1e-4}
    theirs = scattered(nn.Transformer(num_encoder_layers=2, num_decoder_layers=3, **SIZES, **options))
    encoder, decoder = from_torch(theirs)  # type: ignore[misc]
    source, target = torch.randn(3, 7, 16), torch.randn(3, 5, 16)
    hidden = torch.tensor([[False] * n + [True] * (7 - n) for n in (7, 4, 1)])
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    masks = {"src_key_padding_mask": hidden, "memory_key_padding_mask": hidden, "tgt_mask": causal}
    wanted = theirs(source, target, tgt_is_causal=True, **masks)
    seen = (~hidden)[:, None, None, :]
    assert largest(decoder(target, encoder(source, mask=seen), memory_mask=seen) - wanted) < 1e-5
    assert largest(decoder(target, encoder(source)) - theirs(source, target, tgt_mask=causal)) < 1e-5

    back = to_torch(encoder, decoder)
    assert isinstance(back, nn.Transformer)
    assert largest(back(source, target, **masks) - wanted) < 1e-5
    assert all(torch.equal(p, back.state_dict()[n]) for n, p in theirs.state_dict().items())


@pytest.mark.parametrize("first", [False, True], ids=["post", "pre"])
@pytest.mark.parametrize("normalised", [False, True])
@torch.no_grad()
def test_nn_transformer_encoder_both_ways(first: bool, normalised: bool) -> None:
    layer = nn.TransformerEncoderLayer(**SIZES, norm_first=first)
    last = nn.LayerNorm(16) if normalised else None
    theirs = scattered(nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=False))
    ours = from_torch(theirs)
    tokens, looking = torch.randn(2, 6, 16), torch.ones(6, 6).tril().bool()
    wanted = theirs(tokens, mask=~looking)
    assert largest(ours(tokens, mask=looking) - wanted) < 1e-5  # type: ignore[operator]
    assert largest(ours(tokens, mask="causal") - wanted) < 1e-5  # type: ignore[operator]
    back = to_torch(ours)  # type: ignore[arg-type]
    assert largest(back(tokens, mask=~looking) - wanted) < 1e-5
    config = ours.config  # type: ignore[union-attr]
    assert torch.equal(from_torch(theirs.state_dict(), config)(tokens), ours(tokens))  # type: ignore[operator]


@torch.no_grad()
def test_what_comes_from_torch_is_a_copy() -> None:
    theirs = nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES), 1, enable_nested_tensor=False)
    ours, before = from_torch(theirs), theirs.layers[0].linear1.bias.clone()
    for parameter in ours.parameters():  # type: ignore[union-attr]
        parameter.zero_()
    assert torch.equal(theirs.layers[0].linear1.bias, before)


# --- what is refused --------------------------------------------------------------------------


@pytest.fixture(params=[from_transformers, from_pretrained, headwork.load], ids=["own", "torch", "numpy"])
def read(request: pytest.FixtureRequest) -> Any:
    """Three ways to read their folders, which refuse the same things."""
    return request.param


def changed(bert: Any, tmp_path: Path, config: dict[str, Any] | None = None, **tensors: Any) -> Path:
    told = json.loads((bert[1] / "config.json").read_text()) | (config or {})
    (tmp_path / "config.json").write_text(json.dumps(told))
    state: dict[str, Any] = {**load_file(bert[1] / "model.safetensors"), **tensors}
    save_file({n: p for n, p in state.items() if p is not None}, tmp_path / "model.safetensors")
    return tmp_path


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"hidden_act": "gelu_new"}, "hidden_act is 'gelu_new'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"model_type": ["bert"]}, "unknown model_type in .*config.json"),
        ({"model_type": "gpt2"}, "unknown model_type in .*config.json 'gpt2'. .*Known: bert, vit"),
        ({"hidden_size": "wide"}, "hidden_size is 'wide'"),
        ({"num_attention_heads": 5}, "width 32 cannot be cut into 5 heads"),
        ({"num_hidden_layers": 10**9}, "1000000000 layers by its config, but only"),
        ({"num_hidden_layers": 3}, r"the tensor 'encoder\.layer\.2\.[\w.]+' is missing \(and 15 more\)"),
        ({"num_hidden_layers": 1}, r"the tensor 'encoder\.layer\.1\.[\w.]+' is not expected \(and 15 more\)"),
        ({"vocab_size": 51}, r"'embeddings.word_embeddings.weight' is 50 x 32, expected 51 x 32"),
    ],
)
def test_configs_that_do_not_fit(
    read: Any, bert: Any, tmp_path: Path, config: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        read(changed(bert, tmp_path, config))


def test_tensors_that_do_not_fit(read: Any, bert: Any, tmp_path: Path) -> None:
    name = "encoder.layer.1.output.dense.weight"
    with pytest.raises(InputError, match=f"the tensor '{name}' is missing"):
        read(changed(bert, tmp_path, **{name: None}))
    with pytest.raises(InputError, match="the tensor 'stranger' is not expected"):
        read(changed(bert, tmp_path, stranger=torch.zeros(1)))
    with pytest.raises(InputError, match=f"the tensor '{name}' is 48 x 32, expected 32 x 48"):
        read(changed(bert, tmp_path, **{name: torch.zeros(48, 32)}))


def test_files_that_are_no_model(read: Any, bert: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"config.json is missing|no manifest.json"):
        read(tmp_path)
    (tmp_path / "config.json").write_bytes((bert[1] / "config.json").read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickled")
    with pytest.raises(InputError, match=r"pytorch_model.bin is a pickle.*safetensors"):
        read(tmp_path)
    (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(InputError, match="split into several files"):
        read(tmp_path)
    (tmp_path / "model.safetensors.index.json").unlink()
    (tmp_path / "model.safetensors").write_bytes((bert[1] / "model.safetensors").read_bytes()[:-5])
    with pytest.raises(InputError, match=r"model.safetensors: not a complete safetensors file"):
        read(tmp_path)
    with pytest.raises(InputError, match=r"it has no manifest.json.*not replaced"):
        to_transformers(from_transformers(bert[1]), tmp_path)


def test_what_theirs_cannot_express(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"normalisation is 'pre', but .* always has 'post'"):
        to_transformers(TextEncoder(TextEncoderConfig(depth=1, token_types=1)), tmp_path / "a")
    with pytest.raises(InputError, match="pooling is 'mean'"):
        to_transformers(VisionTransformer(VisionTransformerConfig(depth=1, pooling="mean")), tmp_path / "b")
    with pytest.raises(InputError, match="LanguageModel: the transformers library has no such model"):
        to_transformers(LanguageModel(LanguageModelConfig(depth=1)), tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_what_torch_offers_and_ours_has_not() -> None:
    def encoder(**options: Any) -> nn.Module:
        layer = nn.TransformerEncoderLayer(**SIZES, **options)
        return nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    with pytest.raises(InputError, match="activation is"):
        from_torch(encoder(activation=nn.GELU(approximate="tanh")))
    with pytest.raises(InputError, match=r"the tensor '[\w.]*bias' is missing"):
        from_torch(encoder(bias=False))
    with pytest.raises(InputError, match="Linear is not read"):
        from_torch(nn.Linear(2, 2))
    with pytest.raises(InputError, match="does not tell its heads"):
        from_torch(encoder().state_dict())
    with pytest.raises(InputError, match="softmax attention only"):
        to_torch(Encoder(TransformerConfig(width=8, heads=2, depth=1, attention="linear")))
