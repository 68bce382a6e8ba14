"""Look inside, in a real browser: drawn, chosen and dropped pictures, heads, changes, the way down, trust."""

from __future__ import annotations

import base64
import re
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

import headwork
from headwork.lab.calls import run_call
from headwork.training.run_folders import IMAGES_FOLDER, PACKAGED

pytestmark = pytest.mark.real("chromium", "playwright")
# The strokes of digits as a hand draws them, in shares of the pad: points, one stroke per list.
ARC = [
    (0.5, 0.12),
    (0.3, 0.2),
    (0.22, 0.5),
    (0.3, 0.8),
    (0.5, 0.88),
    (0.7, 0.8),
    (0.78, 0.5),
    (0.7, 0.2),
    (0.5, 0.12),
]
STROKES: dict[str, list[list[tuple[float, float]]]] = {
    "0": [ARC],
    "1": [[(0.35, 0.25), (0.52, 0.12), (0.52, 0.88)]],
    "2": [[(0.28, 0.28), (0.42, 0.13), (0.62, 0.15), (0.7, 0.32), (0.55, 0.55), (0.26, 0.86), (0.76, 0.86)]],
    "3": [
        [(0.28, 0.17), (0.55, 0.12), (0.72, 0.27), (0.6, 0.44), (0.42, 0.48)],
        [(0.42, 0.48), (0.68, 0.56), (0.74, 0.74), (0.55, 0.88), (0.27, 0.82)],
    ],
    "4": [[(0.55, 0.12), (0.24, 0.6), (0.78, 0.6)], [(0.62, 0.35), (0.62, 0.9)]],
    "5": [[(0.7, 0.13), (0.34, 0.13), (0.31, 0.45), (0.56, 0.42), (0.72, 0.6), (0.62, 0.83), (0.28, 0.87)]],
    "6": [
        [
            (0.62, 0.12),
            (0.36, 0.4),
            (0.28, 0.68),
            (0.42, 0.88),
            (0.64, 0.82),
            (0.68, 0.62),
            (0.5, 0.52),
            (0.3, 0.66),
        ]
    ],
    "7": [[(0.25, 0.14), (0.75, 0.14), (0.45, 0.88)]],
    "8": [
        [(0.5, 0.48), (0.32, 0.32), (0.4, 0.14), (0.6, 0.14), (0.68, 0.32), (0.5, 0.48)],
        [(0.5, 0.48), (0.28, 0.68), (0.38, 0.87), (0.62, 0.87), (0.72, 0.68), (0.5, 0.48)],
    ],
    "9": [
        [
            (0.7, 0.32),
            (0.52, 0.48),
            (0.34, 0.38),
            (0.36, 0.18),
            (0.56, 0.12),
            (0.7, 0.28),
            (0.66, 0.6),
            (0.5, 0.88),
        ]
    ],
}


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expecting

    return expecting(locator)


def room(opened: Any, served: Any, rest: str = "", **more: Any) -> Any:
    page = opened(f"{served.address}#/inside{rest}", **more)
    page.locator(".head-words").filter(has_text="gives").wait_for()
    return page


def draw(page: Any, digit: str, *, scale: float = 1.0, left: float = 0.0, top: float = 0.0) -> None:
    """Draw with the mouse, onto an empty pad or a test image."""
    if page.evaluate("lab.screen.pad.drawn"):
        page.get_by_role("button", name="Clear").click()
    pad = page.locator(".pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()

    def at(x: float, y: float) -> tuple[float, float]:
        return box["x"] + (left + scale * x) * box["width"], box["y"] + (top + scale * y) * box["height"]

    for stroke in STROKES[digit]:
        page.mouse.move(*at(*stroke[0]))
        page.mouse.down()
        for point in stroke[1:]:
            page.mouse.move(*at(*point), steps=4)
        page.mouse.up()


def settled(page: Any) -> dict[str, Any]:
    """What the page shows once it has come to rest."""
    page.wait_for_function(
        "() => { const r = lab.screen; return !r.lookCalls.busy && !r.lookCalls.next && !r.headCalls.busy; }"
    )
    return page.evaluate(
        "() => ({ sentence: lab.screen.sentence.textContent, given: lab.screen.shownRequest.given })"
    )  # type: ignore[no-any-return]


def test_the_first_screen_fits_and_says_what_it_shows(opened: Any, served: Any) -> None:
    page = room(opened, served)
    width, height = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert width <= height
    for name in (".pad", ".classes", ".heads", ".patches", ".head-words", ".changing"):
        box = page.locator(name).bounding_box()
        assert box["y"] + box["height"] <= 720, name
    assert page.locator("button.head").count() == 24
    expect(page.locator(".head-title")).to_have_text("Head 2 of block 3")
    expect(page.locator(".predicted .sentence")).to_have_text(re.compile("^Prediction: 3"))


def test_test_images_are_taken_dot_by_dot(opened: Any, served: Any) -> None:
    for model in ("digits", "fashion-mnist"):
        page = room(opened, served, f"/{model}")
        images = headwork.example_images(model).images
        for number in (0, 7, 19):
            page.locator(".test-images button").nth(number).click()
            assert base64.b64decode(settled(page)["given"]) == images[number].tobytes()


def test_drawn_digits_are_recognised(opened: Any, served: Any) -> None:
    page = room(opened, served)
    said = {}
    for digit in STROKES:
        draw(page, digit)
        said[digit] = settled(page)["sentence"]
    wrong = {digit: text for digit, text in said.items() if f"rediction: {digit} (" not in text}
    assert len(wrong) <= 1, wrong


def test_a_small_digit_in_a_corner_is_the_same_digit(opened: Any, served: Any) -> None:
    page = room(opened, served)
    for digit in ("0", "2", "7"):
        draw(page, digit, scale=0.6, left=0.35, top=0.05)
        assert f"rediction: {digit} (" in settled(page)["sentence"]


def test_the_prediction_moves_while_one_draws(opened: Any, served: Any) -> None:
    page = room(opened, served)
    page.evaluate(
        """() => {
          window.seen = new Set();
          const { sentence } = lab.screen;
          const watching = new MutationObserver(() => window.seen.add(sentence.textContent));
          watching.observe(sentence, { childList: true });
        }"""
    )
    draw(page, "8")
    settled(page)
    assert page.evaluate("window.seen.size") >= 4


def test_by_keyboard_alone(opened: Any, served: Any) -> None:
    page = room(opened, served)
    page.get_by_role("button", name="Clear").click()
    page.locator(".pad").focus()
    for key in ["ArrowUp"] * 10 + ["Space"] + ["ArrowDown"] * 20 + ["Space"]:
        page.keyboard.press(key)
    assert "rediction: 1 (" in settled(page)["sentence"]
    page.locator("button.head").first.focus()
    for key in ("ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    expect(page.locator(".head-title")).to_have_text("Head 1 of block 1")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".head-title")).to_have_text("Block 1, mean of its 4 heads")
    page.locator(".class-token").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".head-words")).to_contain_text("the patch at row 1, column 0 gives")


def test_by_touch_on_a_phone(opened: Any, served: Any) -> None:
    page = room(opened, served, width=390, height=844, touch=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Clear").tap()
    page.locator(".pad").tap()
    expect(page.locator(".remarks")).to_contain_text("Scaled and centred")
    page.locator("button.head").nth(5).tap()
    expect(page.locator(".head-title")).to_have_text("Head 1 of block 1")
    page.locator(".patch").nth(6).tap()
    expect(page.locator(".who")).to_contain_text("Where the patch at row 1, column 2 looks")


def test_a_head_is_switched_off_and_put_back(opened: Any, served: Any) -> None:
    page = room(opened, served)
    page.get_by_role("button", name="Switch it off").click()
    expect(page.locator(".effect")).to_contain_text("With head 2 of block 3 switched off: 3 goes from")
    expect(page.locator("button.head.changed small")).to_have_text("off")
    expect(page.locator(".head-words")).to_have_text("Head 2 of block 3 is off: it adds nothing.")
    page.locator("button.head").first.click()
    page.get_by_label("Replace this head by a built one").select_option("previous")
    expect(page.locator(".effect")).to_contain_text(
        "head 0 of block 0 replaced by one that looks at the token before"
    )
    settled(page)
    link = page.url
    page.get_by_role("button", name="Undo all changes").click()
    expect(page.locator(".effect")).to_have_text("")
    again = opened(link)
    expect(again.locator(".effect")).to_contain_text("head 0 of block 0 replaced")
    expect(again.locator(".head-title")).to_have_text("Head 0 of block 0")


def test_down_to_a_pixel_line_by_line(opened: Any, served: Any) -> None:
    page = room(opened, served)
    page.locator(".classes button").nth(3).click()
    expect(page.locator(".descent h3")).to_contain_text("the logit of 3")
    expect(page.locator(".descent .hint").filter(has_text="Worked out again")).to_be_visible()
    page.locator(".terms button").first.click()
    expect(page.locator(".chain li")).to_have_count(1)
    page.get_by_role("button", name="Follow the largest part to a pixel").click()
    expect(page.locator(".descent h3")).to_contain_text("pixel: channel 0, row", timeout=60_000)
    expect(page.locator(".descent-body")).to_contain_text("byte/255")
    page.locator(".chain button").first.click()
    expect(page.locator(".descent h3")).to_contain_text("the logit of 3")
    page.locator(".test-images button").nth(4).click()
    expect(page.locator(".descent")).to_contain_text("Start again")


def test_relevance_stands_beside_its_verdict(opened: Any, served: Any) -> None:
    page = room(opened, served)
    page.get_by_role("button", name="Work it out").click()
    expect(page.locator(".map")).to_have_count(2, timeout=60_000)
    for text in page.locator(".map .verdict").all_inner_texts():
        assert text in ("above random", "not distinguishable from random", "below random")
    page.locator(".test-images button").nth(2).click()
    expect(page.locator(".map")).to_have_count(0)


# --- what is refused --------------------------------------------------------------------------------------
def png(width: int, height: int, data: bytes = b"") -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(data))
        + chunk(b"IEND", b"")
    )


REFUSED = {
    "bomb.png": (png(60_000, 60_000), "60000 × 60000 dots; at most 16 million"),
    "none.png": (png(0, 0), "0 × 0 dots"),
    "cut.png": (png(28, 28)[:30], "cannot be decoded"),
    "short.png": (b"\x89PNG", "not a picture"),
    "page.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", "not a picture"),
    "<b>x</b>.png": (b"hello", "<b>x</b>.png: not a picture"),
}


def test_pictures_that_are_none_or_enormous_are_refused_in_words(opened: Any, served: Any) -> None:
    page = room(opened, served)
    for name, (data, words) in REFUSED.items():
        page.locator("input[accept]").set_input_files({"name": name, "mimeType": "image/png", "buffer": data})
        expect(page.locator(".problem-line")).to_contain_text(words)
    page.locator(".test-images button").nth(2).click()
    expect(page.locator(".problem-line")).to_be_hidden()


def test_a_picture_is_opened_and_light_paper_is_turned_dark(opened: Any, served: Any, tmp_path: Path) -> None:
    import numpy as np
    from PIL import Image

    page = room(opened, served)
    dots = np.kron(255 - headwork.example_images("digits").images[0, 0], np.ones((20, 20), np.uint8))
    Image.fromarray(np.pad(dots, 60, constant_values=255)).convert("RGB").save(tmp_path / "paper.jpg")
    page.locator("input[accept]").set_input_files(tmp_path / "paper.jpg")
    expect(page.locator(".remarks")).to_contain_text("Light and dark are exchanged")
    expect(page.locator(".sentence")).to_contain_text("rediction: 3 (")
    page.locator("input[accept]").set_input_files(
        sorted((PACKAGED / "digits" / IMAGES_FOLDER).glob("*.png"))[2]
    )
    expect(page.locator(".sentence")).to_contain_text("rediction: 0 (")


def test_a_model_of_ones_own_and_a_hostile_one(opened: Any, served: Any, tmp_path: Path) -> None:
    page = room(opened, served)
    folder = tmp_path / "run"
    shutil.copytree(PACKAGED / "digits", folder)
    page.locator("input[multiple]").set_input_files(folder)
    expect(page.get_by_label("Model", exact=True).locator("option:checked")).to_have_text("Your model")
    draw(page, "7")
    assert settled(page)["sentence"]
    parameters = folder / "model" / "model.safetensors"
    parameters.write_bytes(parameters.read_bytes()[:-1] + b"?")
    page.locator("input[multiple]").set_input_files(folder)
    expect(page.locator(".problem-line")).to_contain_text("model/model.safetensors: damaged or changed")
    parameters.unlink()
    (folder / "model" / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    page.locator("input[multiple]").set_input_files(folder)
    expect(page.locator(".problem-line")).to_contain_text("is a pickle")


# --- a text -----------------------------------------------------------------------------------------------
def text_room(opened: Any, served: Any, folder: Path, **more: Any) -> Any:
    page = room(opened, served, **more)
    page.locator("input[multiple]").set_input_files(folder)
    page.get_by_label("Text", exact=True).fill("a fine film")
    page.locator(".text-view button").first.wait_for()
    settled(page)
    return page


LINES = """() => {
  const view = document.querySelector(".text-view");
  const box = view.getBoundingClientRect();
  const [from, to] = [...view.querySelectorAll(".column")].map((column) => [...column.children].map((one) => {
    const own = one.getBoundingClientRect();
    const y = (own.top + own.bottom) / 2 - box.top;
    const [left, right] = [own.left - box.left, own.right - box.left];
    return { left, right, y, tint: one.style.getPropertyValue("--tint"), text: one.textContent };
  }));
  const lines = [...view.querySelectorAll("line")].map((line) => Object.fromEntries(
    ["x1", "y1", "x2", "y2", "stroke"].map((name) => [name, line.getAttribute(name)])));
  return { from, to, lines };
}"""


@pytest.mark.parametrize("width", [1280, 390])
def test_a_text_has_its_tokens_tinted_and_lines_from_token_to_token(
    opened: Any, served: Any, text_folder: Path, width: int
) -> None:
    page = text_room(opened, served, text_folder, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    looking = page.get_by_role("group", name="Tokens that look").get_by_role("button")
    looking.nth(1).click()
    expect(looking.nth(1)).to_have_attribute("aria-pressed", "true")
    page.locator("button.head").nth(2).click()
    expect(page.locator(".head-title")).to_have_text("Head 0 of block 1")
    settled(page)
    request = {"changes": "", "query": "1", "block": "1", "head": "0"}
    model = page.evaluate("lab.screen.model.name")
    found = run_call("head", {"model": model, "given": "a fine film", **request})
    shown = page.evaluate(LINES)
    tints = [f"#ffab00{byte:02x}" for byte in base64.b64decode(found["tints"])]
    assert [one["tint"] for one in shown["to"]] == tints
    assert [line["stroke"] for line in shown["lines"]] == tints
    assert len(set(tints)) > 1
    assert "film" in [one["text"] for one in shown["to"]]
    for line, word in zip(shown["lines"], shown["to"], strict=True):
        start = shown["from"][1]
        ends = [start["right"], start["y"], word["left"], word["y"]]
        assert all(
            abs(float(line[name]) - end) < 1 for name, end in zip(("x1", "y1", "x2", "y2"), ends, strict=True)
        )
        assert float(line["x2"]) - float(line["x1"]) > 40
    page.get_by_role("button", name="Back to all tokens").click()
    expect(page.locator(".text-view line")).to_have_count(0)
    page.get_by_role("button", name="Work it out").click()
    expect(page.locator(".map .tokens span").first).to_be_visible(timeout=60_000)
    again = opened(page.url, width=width)
    expect(again.get_by_label("Text", exact=True)).to_have_value("a fine film")
    gone = opened(page.url.replace(model.replace(" ", "%20"), "own%200000"), width=width)
    expect(gone.locator(".problem-line")).to_have_text(
        "This model is no longer open. Choose its files again."
    )
    expect(gone.locator(".predicted .sentence")).to_contain_text("Prediction: 3")


@pytest.mark.real("chromium", "playwright", "axe")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    opened: Any, served: Any, part: Any, text_folder: Path, scheme: str, width: int
) -> None:
    look = {"width": width, "color_scheme": scheme, "bypass_csp": True}
    picture = room(opened, served, **look)
    picture.get_by_role("button", name="Switch it off").click()
    picture.locator(".classes button").nth(3).click()
    picture.locator(".terms").first.wait_for()
    text = text_room(opened, served, text_folder, **look)
    for page in (picture, text):
        page.get_by_role("button", name="Work it out").click()
        expect(page.locator(".map")).to_have_count(2, timeout=60_000)
        page.evaluate(Path(part("axe")).read_text(encoding="utf-8"))
        found = page.evaluate("axe.run()")["violations"]
        serious = [
            (one["id"], [node["html"][:200] for node in one["nodes"]])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_from_the_start_page_to_a_heads_patches(opened: Any, served: Any) -> None:
    """What a new user does: the door, a digit, head 2 of block 3."""
    page = opened(f"{served.address}#/start")
    page.get_by_role("link", name=re.compile("Look inside .*Draw a digit")).click()
    page.locator(".head-words").filter(has_text="gives").wait_for()
    draw(page, "2")
    given = settled(page)["given"]
    page.get_by_role("button", name=re.compile("head 2 of block 3")).click()
    settled(page)
    words = page.locator(".head-words").inner_text()
    request = {"model": "digits", "given": given, "changes": "", "query": "0", "block": "3", "head": "2"}
    assert words == run_call("head", request)["words"]
    assert re.match(r"Head 2 of block 3: the class token gives [\d.]+% to ", words)
