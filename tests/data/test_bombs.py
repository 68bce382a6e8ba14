"""Small files that would become large: refused before they do."""

from __future__ import annotations

import copy
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headwork import tokenizer_files
from headwork.data import image_files, load, load_images, tokens
from headwork.data.summaries import contact_sheet
from headwork.errors import InputError
from headwork.tokenizer_files import read_tokenizer_json

WORD_PIECE: dict[str, Any] = {
    "version": "1.0",
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {},
    },
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"[UNK]": 0, "fine": 1, "film": 2},
    },
}


def changed(**parts: Any) -> bytes:
    return json.dumps({**copy.deepcopy(WORD_PIECE), **parts}).encode()


def replacing(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def several(*normalizers: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(normalizers)}


HOSTILE = {
    "a letter becomes two, ten times": changed(normalizer=several(*[replacing({"String": "a"}, "aa")] * 10)),
    "a letter becomes a megabyte": changed(normalizer=replacing({"String": "a"}, "a" * 1_000_000)),
    "text between all letters": changed(normalizer=several(*[replacing({"Regex": ""}, "xx")] * 5)),
    "a long beginning": changed(normalizer={"type": "Prepend", "prepend": "a b " * 10_000}),
    "many beginnings": changed(normalizer=several(*[{"type": "Prepend", "prepend": "abc"}] * 14)),
    "a deep sequence": b'{"normalizer":' + b'{"type":"Sequence","normalizers":[' * 2000 + b"]}" * 2000 + b"}",
    "deep brackets": changed()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a panic of the library": changed(
        normalizer={"type": "Precompiled", "precompiled_charsmap": "//8AAAAAAAA="}
    ),
    "no tokenizer": b"[]",
    "no JSON": b"\xff{",
}


def test_an_ordinary_tokenizer_is_read() -> None:
    inner = read_tokenizer_json(changed(), "tokenizer.json")
    assert [inner.token_text(number) for number in inner.encode("Fine film")] == ["fine", "film"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tokenizer_is_refused_in_words(name: str) -> None:
    with pytest.raises(InputError, match=r"^tokenizer\.json: not a tokenizer") as error:
        read_tokenizer_json(HOSTILE[name], "tokenizer.json")
    assert len(str(error.value)) < 5000


def test_a_member_that_is_not_needed_is_not_unpacked(tmp_path: Path) -> None:
    labels = np.arange(8) % 2
    unused = np.zeros(200_000_000, np.uint8)
    np.savez_compressed(
        tmp_path / "a.npz", images=np.zeros((8, 4, 4), np.uint8), labels=labels, unused=unused
    )
    tracemalloc.start()
    try:
        data = load(tmp_path / "a.npz")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(data.classes) == 2
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("mode", "name", "weight"),
    [
        ("RGB", "a.png", 1),
        ("L", "a.jpg", 1),
        ("RGBA", "a.png", 3),
        ("LA", "a.png", 3),
        ("I;16", "a.png", 3),
        ("CMYK", "a.jpg", 3),
        ("P", "a.gif", 3),
        ("RGB", "a.webp", 4),
    ],
)
def test_pixels_are_bounded_by_the_memory_of_their_kind(
    mode: str, name: str, weight: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.new(mode, (30, 30)).save(tmp_path / name)
    monkeypatch.setattr(image_files, "MAX_PIXELS", 900 * weight)
    assert image_files.read_image(tmp_path / name).shape == (3, 30, 30)
    monkeypatch.setattr(image_files, "MAX_PIXELS", 900 * weight - 1)
    with pytest.raises(InputError, match="30 x 30 pixels; of this kind at most 899 are decoded"):
        image_files.read_image(tmp_path / name)


def many_scans(count: int) -> bytes:
    """A progressive JPEG, its last scan repeated."""
    file = io.BytesIO()
    Image.new("RGB", (40, 40)).save(file, "JPEG", progressive=True)
    whole = file.getvalue()[:-2]
    return whole + whole[whole.rindex(b"\xff\xda") :] * count + b"\xff\xd9"


def test_a_jpeg_is_drawn_over_a_few_times_only(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(many_scans(90))
    assert image_files.read_image(tmp_path / "a.jpg").shape == (3, 40, 40)
    (tmp_path / "a.jpg").write_bytes(many_scans(91))
    with pytest.raises(InputError, match="drawn over 101 times; at most 100 are decoded"):
        image_files.read_image(tmp_path / "a.jpg")


@pytest.mark.parametrize("size", [(1, 65_536), (65_536, 1)])
def test_a_side_is_bounded_since_each_row_takes_memory(size: tuple[int, int], tmp_path: Path) -> None:
    Image.new("RGB", size).save(tmp_path / "a.png")
    with pytest.raises(InputError, match="and 65,535 in a row or a column"):
        image_files.read_image(tmp_path / "a.png")


def test_moments_and_a_sheet_of_large_images_take_little_memory(tmp_path: Path) -> None:
    images = np.zeros((20, 1000, 1000), np.uint8)
    images[1:, 10] = 7
    np.savez_compressed(tmp_path / "a.npz", images=images, labels=np.arange(20) % 2)
    data = load_images(tmp_path / "a.npz")
    pixels = data.train.images / 255
    tracemalloc.start()
    try:
        assert data.mean[0] == pytest.approx(pixels.mean())
        peak = tracemalloc.get_traced_memory()[1]
        sheet = contact_sheet(data, 10, 0)
    finally:
        tracemalloc.stop()
    assert data.std[0] == pytest.approx(pixels.std())
    assert peak < pixels.nbytes / 8
    assert max(sheet.axes[0].images[0].get_array().shape) < 1000


def test_a_very_long_word_is_learned_from_its_beginning_and_cut_into_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = "".join(chr(97 + n * n % 23) for n in range(200))
    known = tokens.train_tokenizer(["ab ab", start] * 2, vocabulary=300)
    assert (
        tokens.train_tokenizer(["ab ab", start + "x" * 50] * 2, vocabulary=300).to_bytes() == known.to_bytes()
    )
    assert known.tokens("ababab")[1:] == ["ab", "ab", "ab"]
    monkeypatch.setattr(tokenizer_files, "MAX_WORD", 3)  # the space before a word counts
    assert known.tokens("abababab")[1:] == ["ab", "ab", "a", "b", "ab"]
