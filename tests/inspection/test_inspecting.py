"""``headwork inspect``: runs, folders of transformers, torch modules, arrays; and what is refused."""

from __future__ import annotations

import json
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import headwork
from headwork.cli.app import register
from headwork.errors import InputError, TooLarge
from headwork.inspection import model_on_input
from headwork.inspection.inspecting import inspect
from headwork.inspection.model_folders import open_model
from headwork.mechanisms import configs
from headwork.models.model import build_classifier

register()
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def digit():
    return inspect("digits", index=0)


def test_large_models_run_on_few_images_at_a_time(digit, monkeypatch):
    whole = json.loads(digit.to_json())
    monkeypatch.setattr(model_on_input, "MAX_VALUES", 3 * 152_500)  # fewer than the heads
    few = json.loads(inspect("digits", index=0).to_json())
    for method, values in whole["relevance"].items():
        assert np.allclose(few["relevance"][method], values, atol=1e-5)
    effects = [{(h["layer"], h["head"]): h["effect"] for h in one["heads"]} for one in (few, whole)]
    assert effects[0] == pytest.approx(effects[1], abs=1e-5)
    monkeypatch.setattr(model_on_input, "MAX_VALUES", 152_499)
    monkeypatch.setattr(model_on_input, "MAX_PASS", 152_499)
    with pytest.raises(TooLarge, match="digits: a pass has too many numbers to look into it"):
        inspect("digits", index=0)


@pytest.mark.parametrize("depth", [2, 200])
def test_a_small_file_of_a_model_that_takes_long_is_refused_at_once(depth, tmp_path):
    sizes = {"width": 1, "heads": 1, "hidden": 1, "depth": depth}
    images = configs.VisionTransformerConfig(image_size=16, patch_size=4, **sizes)
    texts = configs.TextClassifierConfig(vocabulary=300, max_length=64, **sizes)
    for name, config in (("images", images), ("texts", texts)):
        build_classifier(config).save_pretrained(tmp_path / name)
    for name in ("images", "texts"):
        if depth == 2:
            open_model(tmp_path / name)
        else:
            with pytest.raises(TooLarge, match=r"to look into it takes .* fewer blocks \(depth\) or heads"):
                open_model(tmp_path / name)


def test_a_folder_with_many_heads_is_refused_and_halves_run_as_singles(tmp_path):
    sizes = {"image_size": 28, "patch_size": 4, "width": 128, "hidden": 16}
    many = build_classifier(configs.VisionTransformerConfig(**sizes, heads=128, depth=3))
    many.save_pretrained(tmp_path / "many")
    with pytest.raises(TooLarge, match=r"many: to look into it takes 4,.* fewer blocks \(depth\) or heads"):
        open_model(tmp_path / "many")
    half = build_classifier(configs.VisionTransformerConfig(**sizes, heads=1, depth=1)).half()
    inner = open_model(half.save_pretrained(tmp_path / "half")).array_model.inner
    assert {value.dtype for value in inner.parameters()} == {torch.float32}
    assert inner.config.backend == "fused"


def test_scores_keep_no_probabilities_of_other_classes(digit):
    scores = digit.on_input.explained_scores(np.zeros((3, 10)))
    assert scores.tolist() == pytest.approx([0.1] * 3)
    assert scores.base is None or scores.base.size == 3  # not a view of every class's, chunk by chunk


# --- what is shown ----------------------------------------------------------------------------------
def test_a_picture_has_every_part(digit):
    data = json.loads(digit.to_json())
    assert data["explained"] == data["true"] == "3"
    assert set(data["relevance"]) == {"occlusion", "attention rollout", "gradient x attention"}
    assert all(len(values) == 16 for values in data["relevance"].values())
    assert set(data["trust"]) == set(data["relevance"])
    assert all(
        one["verdict"] in one["sentence"] and "random orders reach" in one["sentence"]
        for one in data["trust"].values()
    )
    assert np.array(data["weights"]["block 0"]).shape == (4, 17, 17)
    effects = [abs(head["effect"]) for head in data["heads"]]
    assert effects == sorted(effects, reverse=True)
    page = digit.to_html()
    assert len(page) < 3_000_000
    assert page.count('class="tint') >= 3 * 16
    assert "Similarity of positions" in page


def test_occlusion_hides_what_it_says(digit):
    """The first patch, hidden by hand: its pixels are the mean of the training images."""
    from headwork import example_images, load

    values = example_images("digits").inputs[:1].copy()
    model = load("digits")
    before = np.exp(model(values))[0]
    values[0, :, :2, :2] = 0
    after = np.exp(model(values))[0]
    fall = before[3] / before.sum() - after[3] / after.sum()
    assert digit.relevance["occlusion"][0] == pytest.approx(fall, abs=1e-5)


def test_a_head_without_its_weights(digit):
    from headwork import example_images, load, trace

    model, values = load("digits"), example_images("digits").inputs[:1]
    name = "block 2/attention/weights"
    weights = trace(model, values, only=name)[name].values.copy()
    weights[:, 1] = 0
    powers = np.exp(trace(model, values, only="scores", replacing={name: weights}).result[0])
    fall = digit.on_input.probabilities[3] - powers[3] / powers.sum()
    assert digit.on_input.score_lost_per_head[2][1] == pytest.approx(fall, abs=1e-5)


def test_another_class_can_be_explained(digit):
    other = inspect("digits", index=0, target="8")
    assert other.on_input.explained_class == 8
    assert not np.allclose(other.relevance["gradient x attention"], digit.relevance["gradient x attention"])
    with pytest.raises(InputError, match=r"unknown target .eleven."):
        inspect("digits", index=0, target="eleven")


def test_a_text_of_our_own(text_folder):
    shown = inspect(text_folder, text="A fine film, not bad")
    assert shown.on_input.labels[0] == "[CLS]"
    assert 0 not in shown.on_input.parts  # special tokens stay
    assert shown.on_input.classes == ("class 0", "class 1")
    assert "attention-view words" in shown.to_html()


def test_a_loaded_model_needs_no_torch(digit):
    from headwork import example_images, load

    shown = inspect(load("digits"), example_images("digits").inputs[0])
    assert set(shown.relevance) == {"occlusion", "attention rollout"}
    assert np.allclose(shown.relevance["occlusion"], digit.relevance["occlusion"], atol=1e-5)
    with pytest.raises(InputError, match=r"Expected one image \(channel, height, width\)"):
        inspect(load("digits"), np.zeros((2, 1, 8, 8)))


class Own(nn.Module):
    def __init__(self, pooled):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 16, batch_first=True)
        self.encoder, self.reader, self.pooled = nn.TransformerEncoder(layer, 2), nn.Linear(16, 3), pooled

    def forward(self, vectors):
        rows = self.encoder(vectors)
        return self.reader(rows.mean(1) if self.pooled == "mean" else rows[:, self.pooled])


@pytest.mark.parametrize(("pooled", "query"), [(0, 0), (4, 4), ("mean", None)])
def test_a_module_of_ones_own(pooled, query):
    torch.manual_seed(0)
    model = Own(pooled).train()
    shown = inspect(model, torch.randn(1, 5, 16), labels=["the", "cat", "sat", "down", "here"])
    assert shown.on_input.output_token_index == query
    assert [layer.weights.shape for layer in shown.attention_maps] == [(2, 5, 5)] * 2
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    html = shown._repr_html_()
    assert "<script>" in html
    assert "sat" in html


def test_a_module_without_attention_is_told_so():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    shown = inspect(model, torch.randn(1, 1, 21, 28))
    assert list(shown.relevance) == ["occlusion"]
    assert "No attention was found" in shown.to_text()


@pytest.mark.parametrize(
    "inputs",
    [(), ("words",), (torch.zeros(2, 5, 16),), (torch.zeros(5),), (torch.zeros(1, 0, 16),)],
)
def test_inputs_of_modules_that_do_not_fit(inputs):
    with pytest.raises(InputError, match="batch of one"):
        inspect(Own(0), *inputs)


def test_gpt2_by_the_library(tmp_path, headwork_command):
    transformers = pytest.importorskip("transformers")
    import tokenizers

    torch.manual_seed(0)
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16, "vocab_size": 300}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "gpt2")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=270, initial_alphabet=letters, show_progress=False)
    inner.train_from_iterator(["the cat sat"], trainer)
    inner.save(str(tmp_path / "gpt2" / "tokenizer.json"))
    code, out, err = headwork_command("inspect", tmp_path / "gpt2", "--text", "the cat", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert np.allclose(np.triu(data["weights"]["transformer.h.0.attn"][0], 1), 0)
    assert data["probabilities"]
    code, _, err = headwork_command("inspect", tmp_path / "gpt2", "--text", "the cat sat " * 30)
    assert code == 2
    assert "tokens; the model takes at most 16" in err


@pytest.mark.parametrize("weights", ["model.safetensors", "model-00001-of-00001.safetensors"])
def test_a_small_folder_of_the_library_with_many_layers_is_refused(weights, tmp_path):
    """One of 440 kB that says 3,000 layers took minutes: the library makes them before it looks for them."""
    config = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 4, "n_head": 1}
    (tmp_path / weights).write_bytes(bytes(440_000))
    for layers in (3000, 65):
        (tmp_path / "config.json").write_text(json.dumps(config | {"n_layer": layers}))
        with pytest.raises(TooLarge, match=rf"config.json: {layers:,} layers of 1 heads take too long"):
            open_model(tmp_path)


def test_why(headwork_command, tmp_path):
    Image.new("L", (8, 8), 90).save(tmp_path / "grey.png")
    code, out, err = headwork_command("predict", "digits", "--image", tmp_path / "grey.png", "--why")
    assert code == 0, err
    assert "runners-up" in out
    assert out.count("random orders reach") == 3


# --- what is refused --------------------------------------------------------------------------------
def bomb():
    """A PNG of 60,000 x 60,000 grey pixels in a few bytes."""

    def chunk(kind, data):
        whole = kind + data
        return struct.pack(">I", len(data)) + whole + struct.pack(">I", zlib.crc32(whole))

    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"0"))
        + chunk(b"IEND", b"")
    )


def test_pictures_of_every_kind(tmp_path):
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8) * 4)
    grey.save(tmp_path / "grey.png")
    grey.convert("RGBA").save(tmp_path / "rgba.png")
    Image.fromarray(np.arange(64, dtype=np.uint16).reshape(8, 8) * 1024).save(tmp_path / "deep.png")
    exif = grey.getexif()
    exif[0x0112] = 6  # turned by a quarter
    grey.convert("RGB").save(tmp_path / "turned.png", exif=exif)
    seen = {path.stem: inspect("digits", image=path).on_input.pixels for path in tmp_path.iterdir()}
    assert np.array_equal(seen["grey"], seen["rgba"])
    assert np.array_equal(seen["grey"], seen["deep"])
    assert np.array_equal(seen["turned"][0], np.rot90(seen["grey"][0], -1))


def test_another_size_is_resized_only_when_asked(tmp_path):
    Image.new("L", (20, 10)).save(tmp_path / "wide.png")
    with pytest.raises(InputError, match=r"10 x 20 pixels .*, the model takes 8 x 8\. With --resize"):
        inspect("digits", image=tmp_path / "wide.png")
    assert inspect("digits", image=tmp_path / "wide.png", resize=True).on_input.pixels.shape == (1, 8, 8)


def test_files_that_are_no_pictures(tmp_path):
    (tmp_path / "words.png").write_text("no picture")
    (tmp_path / "bomb.png").write_bytes(bomb())
    with pytest.raises(InputError, match="not an image"):
        inspect("digits", image=tmp_path / "words.png")
    with pytest.raises(TooLarge):
        inspect("digits", image=tmp_path / "bomb.png")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        inspect("digits", image=tmp_path / "none.png")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "nothing given. Give one of --image FILE, --index NUMBER, --text WORDS"),
        ({"text": "a", "index": 1}, "--index and --text given"),
        ({"text": "a"}, "takes images: give --image"),
        ({"index": -1}, "examples 0 to 358"),
        ({"index": 359}, "examples 0 to 358"),
    ],
)
def test_the_wrong_input(options, message):
    with pytest.raises(InputError, match=message):
        inspect("digits", **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("  ", "an empty text"),
        ("a " * 40, "the model takes at most 12. Shorten it"),
        ("[CLS]", "only special"),
    ],
)
def test_the_wrong_text(text_folder, text, message):
    with pytest.raises(InputError, match=message):
        inspect(text_folder, text=text)
    with pytest.raises(InputError, match="takes texts"):
        inspect(text_folder, image="a.png")
    with pytest.raises(InputError, match="without a test set"):
        inspect(text_folder, index=0)


def test_folders_that_are_no_models(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        inspect(tmp_path / "none", text="a")
    with pytest.raises(InputError):
        inspect(tmp_path, text="a")
    # A pickle beside a config of GPT-2 is refused, not opened; so is a folder that asks for code of its own.
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    )
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(InputError, match="pickle"):
        inspect(tmp_path, text="a")
    (tmp_path / "pytorch_model.bin").unlink()
    settings = {
        "model_type": "mine",
        "architectures": ["MineForCausalLM"],
        "auto_map": {"AutoConfig": "evil.A"},
    }
    (tmp_path / "config.json").write_text(json.dumps(settings))
    (tmp_path / "evil.py").write_text("raise SystemExit('executed')")
    with pytest.raises(InputError):
        inspect(tmp_path, text="a")
    assert headwork.inspect is inspect
