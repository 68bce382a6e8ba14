"""Models of other libraries in "Look inside": which are listed, what is shown of them, how they are changed.

The libraries' own classes with random parameters stand in a cache like Hugging Face's, links and all.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwork.lab import foreign, model_views
from headwork.lab.calls import CALLS
from tests.lab.asking import asked, refused

pytest.importorskip("transformers")
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
IMAGES = {**SIZES, "image_size": 16, "patch_size": 4, "num_labels": 3}
TEXT = "the cat sat on the mat"
CLASSES = ["boot", "bag", "coat"]


def tokenizer() -> str:
    import tokenizers

    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=290, initial_alphabet=letters, show_progress=False)
    inner.train_from_iterator([TEXT, "because it was tired"], trainer)
    return str(inner.to_str())


def made() -> dict[str, Any]:
    import torch
    import transformers as library

    torch.manual_seed(0)
    labels = {"id2label": dict(enumerate(CLASSES)), "label2id": {name: i for i, name in enumerate(CLASSES)}}
    gpt2 = {"n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 300}
    bert = {**SIZES, "vocab_size": 300, "max_position_embeddings": 64}
    models = {
        "tiny/vit": library.ViTForImageClassification(library.ViTConfig(**IMAGES, **labels)),
        "tiny/deit": library.DeiTForImageClassification(library.DeiTConfig(**IMAGES, **labels)),
        "tiny/gpt2": library.GPT2LMHeadModel(library.GPT2Config(**gpt2, bos_token_id=0, eos_token_id=0)),
        "tiny/bert": library.BertForSequenceClassification(
            library.BertConfig(**bert, num_labels=3, **labels)
        ),
    }
    for model in models.values():
        for parameter in model.parameters():
            parameter.data.mul_(8 if parameter.dim() > 1 else 1)  # so that heads differ
        model.eval()
    return models


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return made()


@pytest.fixture(scope="module", autouse=True)
def hub(models: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache as the library makes it: files are links to blobs."""
    home = tmp_path_factory.mktemp("hub")

    def put(title: str, files: dict[str, bytes]) -> None:
        repository = home / f"models--{title.replace('/', '--')}"
        for name, data in files.items():
            (repository / "blobs").mkdir(parents=True, exist_ok=True)
            (repository / "snapshots" / "0123").mkdir(parents=True, exist_ok=True)
            (repository / "blobs" / name).write_bytes(data)
            (repository / "snapshots" / "0123" / name).symlink_to(f"../../blobs/{name}")

    for title, model in models.items():
        plain = tmp_path_factory.mktemp("saved")
        model.save_pretrained(plain)
        put(title, {path.name: path.read_bytes() for path in plain.iterdir()})
        if model.config.model_type in ("gpt2", "bert"):
            put(title, {"tokenizer.json": tokenizer().encode()})
    put("tiny/pickled", {"config.json": b'{"model_type": "bert"}', "pytorch_model.bin": b"cos\nsystem\n"})
    put("tiny/whisper", {"config.json": b'{"model_type": "whisper"}', "model.safetensors": b""})
    put("tiny/broken", {"config.json": b"[" * 10_000})
    put(
        "timm/tiny", {"config.json": b'{"architecture": "x", "pretrained_cfg": {}}', "model.safetensors": b""}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_CACHE", str(home))
        patch.setenv("HEADWORK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(foreign, "OFFERED", {})
        yield home


def picture(seed: int = 0) -> str:
    dots = np.random.default_rng(seed).integers(0, 256, (3, 16, 16), np.uint8)
    return base64.b64encode(dots.tobytes()).decode()


def given_to(name: str) -> str:
    return picture() if name.endswith("it") else TEXT


# --- which are listed -------------------------------------------------------------------------------------
def test_what_is_on_this_machine_is_listed_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {one["title"]: one["missing"] for one in asked("models")["foreign"]}
    assert [title for title, missing in listed.items() if not missing] == [
        "tiny/bert",
        "tiny/deit",
        "tiny/gpt2",
        "tiny/vit",
    ]
    assert listed["MiniLM"] == "not on this machine: headwork data get minilm"
    assert "pickles are not read" in listed["tiny/pickled"]
    assert "another kind" in listed["tiny/whisper"]
    assert "cannot be read" in listed["tiny/broken"]
    monkeypatch.setattr(foreign, "find_spec", lambda name: None)
    listed = {one["title"]: one["missing"] for one in asked("models")["foreign"]}
    assert listed["tiny/gpt2"] == 'needs torch: pip install ".[train]"'
    assert listed["tiny/vit"] == "", "it is read without torch"
    monkeypatch.setattr(foreign, "find_spec", lambda name: name == "torch" or None)
    listed = {one["title"]: one["missing"] for one in asked("models")["foreign"]}
    assert listed["tiny/gpt2"] == "needs transformers: pip install transformers"
    assert listed["timm/tiny"].startswith("of another kind")
    assert "of another kind" in refused("model", name="foreign timm/tiny")


@pytest.mark.parametrize("claim", [{"n_layer": 10**7}, {"vocab_size": 10**8}, {"n_embd": 10**6}])
def test_sizes_that_the_parameters_cannot_have_are_refused_before_a_model_is_made(
    claim: dict[str, int], models: dict[str, Any], tmp_path: Path
) -> None:
    from headwork.errors import InputError
    from headwork.inspection.model_folders import open_model

    models["tiny/gpt2"].save_pretrained(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | claim))
    with pytest.raises(InputError, match="but the parameters have"):
        open_model(tmp_path)


def test_the_list_and_what_we_read_ourselves_need_no_torch() -> None:
    code = (
        "import sys; from headwork.lab.calls import run_call; listed = run_call('models', {})['foreign']; "
        "found = run_call('model', {'name': 'foreign tiny/vit'}); "
        "print(len(listed), found['blocks'], 'torch' in sys.modules, 'transformers' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["9", "2", "False", "False"]


@pytest.mark.parametrize(
    "name", ["foreign ", "foreign ../tiny/vit", "foreign os", "tiny/vit", "foreign tiny/vit/", "foreign /etc"]
)
def test_only_names_of_the_list_are_known(name: str) -> None:
    assert "unknown model" in refused("model", name=name)
    assert "unknown model" in refused("look", model=name, given=TEXT)


# --- what is shown ----------------------------------------------------------------------------------------
def of_library(model: Any, name: str) -> tuple[Any, Any]:
    """Logits and weights (block, head, query, key) by the library itself."""
    import torch

    model.set_attn_implementation("eager")
    with torch.no_grad():
        if name.endswith("it"):
            dots = np.frombuffer(base64.b64decode(picture()), np.uint8).reshape(1, 3, 16, 16)
            values = torch.from_numpy((dots / 255 - 0.5).astype(np.float32) / np.float32(0.5))
            out = model(pixel_values=values, output_attentions=True)
        else:
            import tokenizers

            ids = tokenizers.Tokenizer.from_str(tokenizer()).encode(TEXT).ids
            out = model(input_ids=torch.tensor([ids]), output_attentions=True)
    logits = out.logits[0, -1] if out.logits.dim() == 3 else out.logits[0]
    return logits.numpy(), np.stack([weights[0].numpy() for weights in out.attentions])


@pytest.mark.parametrize("title", ["tiny/vit", "tiny/deit", "tiny/gpt2", "tiny/bert"])
def test_logits_and_weights_are_the_librarys(models: dict[str, Any], title: str) -> None:
    name = f"foreign {title}"
    about = asked("model", name=name)
    texts = title in ("tiny/gpt2", "tiny/bert")
    assert (about["title"], about["blocks"], about["heads"]) == (title, 2, 4)
    assert (about["takes"], about["size"], about["grid"]) == (("texts", 0, 0) if texts else ("images", 16, 4))
    assert about["query"] == {"tiny/gpt2": "last"}.get(title, "0")
    logits, weights = of_library(models[title], title)
    look_at = model_views.look_at
    view = look_at(name, given_to(title))
    np.testing.assert_allclose(view.on_input.output, logits, atol=1e-4)
    for block, array in enumerate(layer.weights for layer in view.attention_maps):
        np.testing.assert_allclose(array, weights[block], atol=1e-5)
    shown = asked("look", model=name, given=given_to(title), query=about["query"])
    assert len(shown["heads"]) == 8
    assert shown["sentence"]
    if title != "tiny/gpt2":
        best = CLASSES[int(logits.argmax())]
        assert [one["name"] for one in shown["classes"] if one["best"]] == [best]
    assert shown["before"] == {"tiny/vit": 1, "tiny/deit": 2}.get(title, 0)
    words = asked("head", model=name, given=given_to(title), changes="", query="0", block="1", head="3")
    assert words["words"].startswith("Head 3 of block 1: ")


KINDS = ("off", "uniform", "itself", "previous")


@pytest.mark.parametrize("title", ["tiny/deit", "tiny/gpt2"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_head_is_what_intervene_makes_of_it(models: dict[str, Any], title: str, kind: str) -> None:
    import torch

    import headwork

    name, given, model = f"foreign {title}", given_to(title), models[title]
    look_at = model_views.look_at
    before, after = look_at(name, given), look_at(name, given, f"0.2 {kind}")
    head = headwork.head(2)
    count = len(before.on_input.labels)
    fixed = {"off": head.off, "uniform": head.uniform}
    change = fixed[kind]() if kind in fixed else head.fixed(model_views.built_weights(kind, count))
    if title == "tiny/deit":
        values = torch.from_numpy((before.on_input.pixels / 255 - 0.5) / 0.5).float()[None]
        effect = headwork.intervene(model, {before.attention_maps[0].path: change}, pixel_values=values)
    else:
        import tokenizers

        ids = torch.tensor([tokenizers.Tokenizer.from_str(tokenizer()).encode(TEXT).ids])
        effect = headwork.intervene(model, {before.attention_maps[0].path: change}, input_ids=ids)
    expected = effect.output.logits.detach().numpy().reshape(-1, after.on_input.output.shape[-1])[-1]
    np.testing.assert_allclose(after.on_input.output, expected, atol=1e-4)
    assert np.abs(after.on_input.output - before.on_input.output).max() > 1e-3
    rows = after.attention_maps[0].weights[2]
    assert np.allclose(rows.sum(-1), 0 if kind == "off" else 1, atol=1e-4)
    np.testing.assert_allclose(
        after.attention_maps[0].weights[1], before.attention_maps[0].weights[1], atol=1e-6
    )
    assert np.abs(after.attention_maps[1].weights - before.attention_maps[1].weights).max() > 1e-6
    shown = asked("look", model=name, given=given, changes=f"0.2 {kind}")
    assert shown["effect"].startswith("With head 2 of block 0 ")
    assert "no head 4 of block 9" in refused("look", model=name, given=given, changes="9.4 off")


def all_of_it(**request: Any) -> dict[str, Any]:
    for _ in range(200):
        found = asked("relevance", **request)
        if found["done"]:
            return found
    raise AssertionError("no end")


def test_relevance_has_gradients_where_torch_runs_and_verdicts() -> None:
    request = {"model": "foreign tiny/deit", "given": picture()}
    found = all_of_it(**request)
    assert [one["title"] for one in found["maps"]] == [
        "Occlusion",
        "Attention rollout",
        "Gradient x attention",
    ]
    assert all("random orders reach" in one["evidence"] for one in found["maps"])
    assert len(found["notes"]) == 1
    changed = all_of_it(**request, changes="1.0 off")
    assert [one["title"] for one in changed["maps"]] == ["Occlusion", "Attention rollout"]
    assert "undo the changes" in changed["notes"][1]
    assert changed["maps"][0]["positive"] != found["maps"][0]["positive"]


def test_the_way_down_is_there_where_we_read_the_model_and_else_said_in_words() -> None:
    name = "foreign tiny/vit"
    assert asked("model", name=name)["no_descent"] == ""
    shown = asked("look", model=name, given=picture())
    index = shown["classes"][0]["index"]
    line = asked("descend", model=name, given=picture(), changes="", path=shown["logits"], index=index)
    assert abs(line["left"] - line["right"]) < 1e-5
    about = asked("model", name="foreign tiny/deit")
    assert "in one piece" in about["no_descent"]
    words = refused(
        "descend", model="foreign tiny/deit", given=picture(), changes="", path="scores", index="0,0"
    )
    assert words == about["no_descent"]


def test_a_module_of_ones_own_and_a_folder_are_offered(
    models: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import nn

    from headwork.errors import InputError

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(1, 8, 4, 4)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.head = nn.Linear(8, 2)

        def forward(self, images: Any) -> Any:
            return self.head(self.layer(self.patches(images).flatten(2).mT).mean(1))

    monkeypatch.setattr(foreign, "OFFERED", {})
    foreign.offer("mine", Small(), size=12, mean=[0.5], std=[0.5], classes=["dark", "light"])
    about = asked("model", name="foreign mine")
    assert (about["blocks"], about["heads"], about["grid"], about["channels"]) == (1, 2, 3, 1)
    assert about["query"] == "all"
    shown = asked("look", model="foreign mine", given=base64.b64encode(bytes(144)).decode(), query="all")
    assert [one["name"] for one in shown["classes"]] == ["dark", "light"]
    foreign.offer("no attention", nn.Sequential(nn.Flatten(), nn.Linear(144, 2)), size=12, mean=[0], std=[1])
    assert "No attention between the tokens" in refused("model", name="foreign no attention")
    models["tiny/vit"].save_pretrained(tmp_path / "elsewhere")
    foreign.offer("elsewhere", tmp_path / "elsewhere")
    assert asked("model", name="foreign elsewhere")["blocks"] == 2
    with pytest.raises(InputError, match="no such folder"):
        foreign.offer("nowhere", tmp_path / "nowhere")
    with pytest.raises(InputError, match="Expected a size from 1 to 224"):
        foreign.offer("large", Small(), size=500)


def test_images_of_the_librarys_models_are_inspected_from_the_command_line(
    hub: Path, tmp_path: Path, headwork_command: Any
) -> None:
    from PIL import Image

    from headwork.cli.app import register

    register()
    dots = np.frombuffer(base64.b64decode(picture()), np.uint8).reshape(3, 16, 16)
    Image.fromarray(dots.transpose(1, 2, 0)).save(tmp_path / "dots.png")
    folder = hub / "models--tiny--deit" / "snapshots" / "0123"
    code, out, err = headwork_command("inspect", folder, "--image", tmp_path / "dots.png", "--json")
    assert code == 0, err
    told = json.loads(out)["probabilities"]
    view = model_views.look_at("foreign tiny/deit", picture())
    np.testing.assert_allclose(list(told.values()), view.on_input.probabilities, atol=1e-5)


# --- with the server --------------------------------------------------------------------------------------
def test_foreign_models_keep_nobody_else_waiting(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, threads = threading.Event(), set()

    def slow(**request: Any) -> dict[str, Any]:
        threads.add(threading.current_thread().name)
        go_on.wait(30)
        return {}

    monkeypatch.setitem(CALLS, "look", slow)
    asking = [
        threading.Thread(target=served.call, args=("look",), kwargs={"model": "foreign x", "given": str(i)})
        for i in range(8)
    ]
    for one in asking:
        one.start()
    try:
        assert served.call("capabilities")["version"]
    finally:
        go_on.set()
    for one in asking:
        one.join(30)
    assert len(threads) == 1


@pytest.mark.real("chromium", "playwright")
def test_in_the_page(served: Any, opened: Any, tmp_path: Path) -> None:
    from PIL import Image
    from playwright.sync_api import expect

    page = opened(f"{served.address}#/inside")
    page.locator(".head-words").filter(has_text="gives").wait_for()
    chooser = page.get_by_label("Model", exact=True)
    labels = chooser.locator("optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert labels[-1] == "Models of other libraries"
    lacking = chooser.locator("option", has_text="MiniLM")
    assert "headwork data get minilm" in lacking.inner_text()
    assert lacking.is_disabled()
    chooser.select_option("foreign tiny/deit")
    expect(page.locator(".about-model")).to_contain_text("2 blocks of 4 heads")
    expect(page.locator("button.head")).to_have_count(8)
    dots = np.frombuffer(base64.b64decode(picture()), np.uint8).reshape(3, 16, 16)
    Image.fromarray(dots.transpose(1, 2, 0)).save(tmp_path / "dots.png")
    page.locator("input[accept]").set_input_files(tmp_path / "dots.png")
    page.wait_for_function("(given) => lab.screen.shownRequest.given === given", arg=picture())
    sentence = asked("look", model="foreign tiny/deit", given=picture())["sentence"]
    expect(page.locator(".predicted .sentence")).to_have_text(sentence)
    expect(page.locator(".class-tokens button")).to_have_count(2)
    page.locator("button.head").nth(6).click()
    expect(page.locator(".head-words")).to_contain_text("Head 2 of block 1: token 0 gives")
    page.get_by_role("button", name="Switch it off").click()
    expect(page.locator(".effect")).to_contain_text("With head 2 of block 1 switched off")
    expect(page.locator(".descent")).to_contain_text("run by torch in one piece")
    expect(page.get_by_role("button", name="Start at the predicted logit")).to_be_hidden()
    expect(page.locator(".classes button").first).to_be_disabled()
    page.get_by_role("button", name="Put it back").click()
    page.get_by_role("button", name="Work it out").click()
    expect(page.locator(".map")).to_have_count(3, timeout=60_000)
    chooser.select_option("foreign tiny/gpt2")
    expect(page.get_by_label("Text", exact=True)).to_have_value(
        "The cat sat on the mat because it was tired."
    )
    expect(page.locator(".who")).to_contain_text("Where “")
    tokens = page.locator(".text-view .column").last.locator("span")
    expect(tokens).not_to_have_count(0)
    expect(page.locator(".text-view line")).to_have_count(tokens.count())
    broken = opened(f"{served.address}#/inside/foreign%20timm%2Ftiny")
    expect(broken.locator(".problem-line")).to_contain_text("timm/tiny: ")
    expect(broken.locator(".predicted .sentence")).to_contain_text("Prediction: 3")
