"""The calls of "Look inside": what a trained model predicts, where it looks, how each number comes about."""

from __future__ import annotations

import base64
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headwork
from headwork.lab import model_views
from headwork.lab.calls import run_call
from headwork.lab.pictures import fit_drawing
from headwork.training.run_folders import PACKAGED
from tests.lab.asking import asked, refused

MODELS = ("digits", "fashion-mnist")


def as_text(pixels: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(pixels, np.uint8).tobytes()).decode()


def example(model: str, number: int = 0) -> str:
    return as_text(headwork.example_images(model).images[number])


def look(model: str, given: str, **more: Any) -> dict[str, Any]:
    return asked("look", model=model, given=given, **more)


# --- where it looks -------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", MODELS)
def test_test_images_are_recognised_and_logits_are_torchs(model: str) -> None:
    import torch

    images = headwork.example_images(model)
    theirs = headwork.load(model, torch=True)
    with torch.no_grad():
        expected = theirs(torch.from_numpy(images.inputs)).numpy()
    right = 0
    for number, label in enumerate(images.labels):
        view = model_views.look_at(model, example(model, number))
        assert np.abs(view.on_input.output - expected[number]).max() < 1e-4
        shown = look(model, example(model, number))["classes"]
        right += [one["best"] for one in shown].index(True) == label
    assert right >= 19


@pytest.mark.parametrize("model", MODELS)
def test_the_weights_shown_are_those_of_the_trace(model: str) -> None:
    images = headwork.example_images(model)
    trace = headwork.trace(headwork.load(model), images.inputs[:1])
    shown = look(model, example(model))
    tokens = len(shown["tokens"])
    for i, one in enumerate(shown["heads"]):
        weights = trace[f"block {i // 4}/attention/head {i % 4}/weights"].values[0][0]
        tints = np.frombuffer(base64.b64decode(one["tints"]), np.uint8)
        assert len(tints) == tokens
        assert np.abs(tints / 255 - weights / weights.max()).max() < 0.003


def test_a_head_is_told_in_words() -> None:
    given = example("fashion-mnist")
    found = asked("head", model="fashion-mnist", given=given, changes="", query="0", block="3", head="2")
    assert found["words"].startswith(
        "Head 2 of block 3: the class token gives 35% to row 2, column 6, 23% to"
    )
    assert found["shares"][1 + 2 * 7 + 6] == "35% to row 2, column 6"
    mean = asked("head", model="fashion-mnist", given=given, changes="", query="9", block="0", head="mean")
    assert mean["words"].startswith("Block 0, mean of its 4 heads: the patch at row 1, column 1 gives")
    assert "no head 4" in refused(
        "head", model="fashion-mnist", given=given, changes="", query="0", block="3", head="4"
    )


def test_models_are_listed_with_their_test_images() -> None:
    listed = asked("models")["models"]
    assert [one["name"] for one in listed] == list(MODELS)
    digits = listed[0]
    assert digits["drawn"] == 64
    assert digits["about"] == "6 blocks of 4 heads, 203,082 parameters, test accuracy 98.1%"
    assert base64.b64decode(digits["images"][0]["png"]).startswith(b"\x89PNG")


# --- drawings -------------------------------------------------------------------------------------------
def drawing(*boxes: tuple[int, int, int, int], side: int = 64) -> Any:
    dots = np.zeros((1, side, side), np.uint8)
    for top, left, bottom, right in boxes:
        dots[:, top:bottom, left:right] = 255
    return dots


def test_a_drawing_is_centred_and_scaled_wherever_it_was_drawn() -> None:
    here, _ = fit_drawing(drawing((0, 0, 32, 8)), 8, 0.8)
    there, _ = fit_drawing(drawing((30, 50, 62, 58)), 8, 0.8)
    assert np.array_equal(here, there)
    assert here[0, :, 3:5].min() == 255
    assert here[0, :, :3].max() == 0
    assert here[0].sum() == 16 * 255
    paper, remarks = fit_drawing(255 - drawing((0, 8, 32, 16)), 8, 0.8)
    assert np.array_equal(paper, here)
    assert remarks[0].startswith("Light and dark are exchanged")


def test_an_empty_drawing_says_so() -> None:
    shown = look("digits", as_text(drawing()))
    assert shown["remarks"] == ["Nothing is drawn yet: this is an empty picture."]


def test_a_picture_of_another_size_is_refused() -> None:
    for count in (0, 1, 63, 65, 8 * 9):
        assert "Expected 1 x 8 x 8" in refused("look", model="digits", given=as_text(np.zeros(count)))
    assert "not valid base64" in refused("look", model="digits", given="<b>" * 30)
    assert "more than" in refused("look", model="digits", given="A" * 400_000)


# --- changes --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", list(model_views.HEAD_CHANGES))
def test_a_changed_head_changes_what_follows_as_what_if_does(model: str, kind: str) -> None:
    images, block, head = headwork.example_images(model), 2, 1
    trace = headwork.trace(headwork.load(model), images.inputs[4:5])
    path = f"block {block}/attention/weights"
    weights = trace[path].values.copy()
    weights[:, head] = model_views.new_weights(kind, weights[:, head])
    expected = trace.what_if(path, weights).result[0]
    view = model_views.look_at(model, example(model, 4), f"{block}.{head} {kind}")
    np.testing.assert_allclose(view.on_input.output, expected, atol=1e-5)
    assert np.abs(view.on_input.output - trace.result[0]).max() > 1e-4
    rows = view.attention_maps[block].weights[head]
    assert np.allclose(rows.sum(-1), 0 if kind == "off" else 1, atol=1e-4)
    np.testing.assert_array_equal(
        view.attention_maps[1].weights, trace["block 1/attention/weights"].values[0]
    )


def test_built_heads_look_where_their_names_say() -> None:
    assert model_views.built_weights("itself", 5).argmax(-1).tolist() == [0, 1, 2, 3, 4]
    assert model_views.built_weights("previous", 5).argmax(-1).tolist() == [0, 0, 1, 2, 3]
    assert model_views.built_weights("next", 5).argmax(-1).tolist() == [1, 2, 3, 4, 4]
    assert model_views.built_weights("first", 5).argmax(-1).tolist() == [0] * 5
    np.testing.assert_allclose(
        model_views.built_weights("neighbours", 5)[2], [0, 1 / 3, 1 / 3, 1 / 3, 0], atol=0.01
    )


def test_the_effect_of_a_change_is_told() -> None:
    shown = look("digits", example("digits"), changes="0.0 off; 1.1 uniform")
    assert shown["effect"].startswith(
        "With head 0 of block 0 switched off; head 1 of block 1 made uniform: 3 goes"
    )
    assert [one["changed"] for one in shown["heads"][:6]] == ["off", "", "", "", "", "uniform"]
    assert "no head 4 of block 9" in refused(
        "look", model="digits", given=example("digits"), changes="9.4 off"
    )
    assert "not readable" in refused("look", model="digits", given=example("digits"), changes="off")
    assert "unknown change" in refused("look", model="digits", given=example("digits"), changes="0.0 of")


# --- down to the pixels ---------------------------------------------------------------------------------
def walk(model: str, given: str, changes: str, draw: random.Random) -> str:
    """From a random logit along random numbers; both sides of each line must be equal."""
    path, index = "scores", f"0,{draw.randrange(10)}"
    for _ in range(300):
        line = asked("descend", model=model, given=given, changes=changes, path=path, index=index)
        if "left" in line:
            assert abs(line["left"] - line["right"]) <= 1e-5 * max(1, abs(line["left"])), line
        every = [cell for term in line["terms"] for cell in term["cells"]]
        total = sum(float(term["value"]) for term in line["terms"])
        assert not every or line["more"] or abs(total - line["left"]) < 0.01 + 0.001 * len(every)
        if not every:
            return str(line["kind"])
        onward = [cell for cell in every if cell["kind"] != "parameter"]
        chosen = draw.choice(onward if onward and draw.random() < 0.97 else every)
        path, index = chosen["path"], chosen["index"]
    raise AssertionError("no end")


def walks(count: int, seed: int) -> set[str]:
    draw = random.Random(seed)
    changes = ("", "", "3.2 off", "0.1 uniform; 4.3 previous")
    ends = set()
    for number in range(count):
        model = MODELS[number % 2]
        ends.add(walk(model, example(model, number // 2 % 20), changes[number // 2 % 4], draw))
    return ends


def test_every_line_of_a_descent_is_true() -> None:
    assert walks(12, seed=3) >= {"input", "parameter"}


@pytest.mark.soak
def test_every_line_of_two_hundred_descents_is_true() -> None:
    assert walks(200, seed=4) >= {"input", "parameter", "set"}


def test_the_way_down_can_be_followed_to_a_pixel() -> None:
    path, index = "scores", "0,9"
    for _ in range(100):
        line = asked(
            "descend",
            model="fashion-mnist",
            given=example("fashion-mnist"),
            changes="",
            path=path,
            index=index,
        )
        if not line.get("follow"):
            break
        path, index = line["follow"]
    assert line["kind"] == "input"
    assert line["title"].startswith("pixel: channel 0, row ")
    assert line["lines"][0].startswith("x = (byte/255 - mean)/deviation = (")


def test_beside_a_changed_head_the_others_keep_their_arithmetic() -> None:
    request = {
        "model": "digits",
        "given": example("digits"),
        "changes": "2.1 off",
        "path": "block 2/attention/weights",
    }
    assert asked("descend", **request, index="0,1,0,3")["kind"] == "set"
    assert asked("descend", **request, index="0,0,0,3")["kind"] == "step"


# --- what it rests on -----------------------------------------------------------------------------------
def test_relevance_comes_with_how_far_to_trust_it_a_little_at_a_time() -> None:
    from headwork.inspection.relevance import relevance as methods_of
    from headwork.inspection.relevance import trust

    given, shares = example("digits"), []
    for _ in range(30):
        found = asked("relevance", model="digits", given=given)
        if found["done"]:
            break
        shares.append(float(found["percent"].rstrip("%")))
    assert shares == sorted(shares)
    assert len(shares) >= 3
    on_input = model_views.look_at("digits", given).on_input
    methods = methods_of(on_input)
    whole = trust(on_input, methods)
    assert [one["title"] for one in found["maps"]] == ["Occlusion", "Attention rollout"]
    assert [one["evidence"] for one in found["maps"]] == [one.evidence for one in whole.values()]
    assert "torch" in found["notes"][1]


# --- a model of one's own -------------------------------------------------------------------------------
def folder_files(folder: Path) -> dict[str, str]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".png"]
    return {p.relative_to(folder).as_posix(): base64.b64encode(p.read_bytes()).decode() for p in files}


@pytest.mark.parametrize("folder", [PACKAGED / "digits", PACKAGED / "digits" / "model"], ids=["run", "model"])
def test_a_model_of_ones_own(folder: Path) -> None:
    opened = asked("open_model", files=folder_files(folder), others=[])
    assert (opened["blocks"], opened["heads"], opened["size"], opened["grid"]) == (6, 4, 8, 4)
    shown = look(opened["name"], example("digits"))
    assert len(shown["heads"]) == 24
    if folder.name == "digits":
        assert shown["classes"] == look("digits", example("digits"))["classes"]


def test_runs_of_this_machine_are_found_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(PACKAGED / "digits", tmp_path / "runs" / "mine")
    (tmp_path / "runs" / "unfinished").mkdir()
    monkeypatch.chdir(tmp_path)
    assert asked("models")["runs"] == ["run mine"]
    assert asked("model", name="run mine")["title"] == "mine"
    assert look("run mine", example("digits"))["classes"] == look("digits", example("digits"))["classes"]
    for name in ("run unfinished", "run ../runs/mine", "run ", "mine", "runs/mine"):
        assert "unknown model" in refused("model", name=name)


def damaged(name: str, change: Any) -> dict[str, str]:
    files = folder_files(PACKAGED / "digits" / "model")
    files[name] = base64.b64encode(change(base64.b64decode(files[name]))).decode()
    return files


HOSTILE: list[tuple[Any, str]] = [
    (dict, "No model.safetensors"),
    (lambda: damaged("model.safetensors", lambda data: data[:-1] + b"x"), "damaged or changed"),
    (lambda: damaged("model.safetensors", lambda data: data[:100]), "truncated"),
    (
        lambda: damaged("config.json", lambda data: data.replace(b'"depth": 6', b'"depth": 9')),
        "damaged or changed",
    ),
    (lambda: damaged("manifest.json", lambda data: b"[" * 100_000), "not valid JSON"),
    (lambda: folder_files(PACKAGED / "digits" / "model") | {"../../x": "AAAA"}, "unknown file of a model"),
    (lambda: folder_files(PACKAGED / "digits" / "model") | {"config.json": "<b>"}, "not valid base64"),
    (lambda: {"model.safetensors": "AAAA", "config.json": "e30="}, "manifest.json"),
]


@pytest.mark.parametrize(("files", "words"), HOSTILE, ids=[words for _, words in HOSTILE])
def test_a_hostile_folder_is_refused_in_words(files: Any, words: str) -> None:
    message = refused("open_model", files=files(), others=[])
    assert words in message
    assert "/tmp" not in message


def test_a_model_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    from headwork.models import VisionTransformer, VisionTransformerConfig

    large = VisionTransformerConfig(
        image_size=48, patch_size=1, width=4, hidden=4, heads=1, depth=10, positions="sinusoidal"
    )
    folder = VisionTransformer(large).save_pretrained(tmp_path / "large")
    assert "Give it fewer blocks" in refused("open_model", files=folder_files(folder), others=[])
    wide = VisionTransformerConfig(image_size=32, patch_size=2, width=8, hidden=40_000, heads=1, depth=5)
    folder = VisionTransformer(wide).save_pretrained(tmp_path / "wide")
    words = refused("open_model", files=folder_files(folder), others=[])
    assert "On 257 tokens this model has about" in words
    assert "at most 50,000,000" in words


def test_a_pickle_is_refused_by_name() -> None:
    assert "is a pickle" in refused("open_model", files={"config.json": "e30="}, others=["pytorch_model.bin"])


def test_strange_requests_are_answered() -> None:
    for request in (
        {},
        {"files": []},
        {"files": {"model.safetensors": 3}, "others": []},
        {"files": {}, "others": 3},
    ):
        assert run_call("open_model", request)["error"]["message"]
    for model in ("", "../digits", "/etc", "own 00", 3, None):
        assert run_call("look", {"model": model, "given": ""})["error"]["message"]
    given = example("digits")
    for path, index in (
        ("scores", ""),
        ("scores", "0,10"),
        ("nothing", "0"),
        ("images", "0,0,8,0"),
        ("head/bias", "99"),
    ):
        request = {"model": "digits", "given": given, "changes": "", "path": path, "index": index}
        assert run_call("descend", request)["error"]["message"]
    assert refused("look", model="digits", given=given, query="17").startswith("There is no token 17")


# --- texts ----------------------------------------------------------------------------------------------
def test_a_classifier_of_texts_is_looked_into(text_folder: Path) -> None:
    opened = asked("open_model", files=folder_files(text_folder), others=[])
    assert (opened["takes"], opened["blocks"], opened["heads"]) == ("texts", 2, 2)
    shown = look(opened["name"], "a fine film", query=opened["query"])
    words = shown["tokens"]
    assert "film" in words
    assert len(shown["heads"]) == 4
    request = {"model": opened["name"], "given": "a fine film", "changes": ""}
    one = asked("head", **request, query="0", block="1", head="1")
    assert one["words"].startswith(f"Head 1 of block 1: “{words[0]}” gives ")
    line = asked("descend", **request, path=shown["logits"], index=shown["classes"][0]["index"])
    assert abs(line["left"] - line["right"]) < 1e-5
    while line.get("follow"):
        line = asked("descend", **request, path=line["follow"][0], index=line["follow"][1])
    changed = look(opened["name"], "a fine film", changes="0.1 off")
    assert changed["effect"].startswith("With head 1 of block 0 switched off")
    for _ in range(40):
        found = asked("relevance", **request)
        if found["done"]:
            break
    assert found["maps"][0]["title"] == "Occlusion"
    assert "empty text" in refused("look", model=opened["name"], given="  ")
    assert "at most 12" in refused("look", model=opened["name"], given="film " * 50)
