"""The calls of "Look inside": a trained transformer on a picture that is drawn or chosen, or on a text.

``given`` is the input: base64 of the bytes of a picture (channel, height, width), or a text. ``changes`` are
heads that were changed, such as ``3.2 off; 0.1 uniform``. Blocks, heads, rows and columns count from 0.
"""

import base64
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from headwork.errors import InputError
from headwork.files import load_package_toml
from headwork.lab.calls import register_call

if TYPE_CHECKING:
    from headwork.lab.model_views import ModelView, ResumableModel

MODEL_TITLES = load_package_toml(__file__, "words.toml")["titles"]
MAX_CLASSES = 20  # of more, only the most probable are shown
MAX_NAMED_TOKENS = 5  # tokens that a sentence names, at most
MAX_PASSES = 16  # of a model, in one call: a drawing waits no longer than for these
HOW_TESTED = (
    "How a picture is tested: insertion is the mean probability while patches appear, the most relevant "
    "first; deletion, while they vanish in that order. Of an order that knows nothing, both are the same on "
    "average."
)
MISSING = "Gradient x attention needs torch, which is not used here: headwork inspect shows it."
UNCHANGED = "Gradient x attention is worked out with all heads as they are: undo the changes."
FOREIGN_PREFIX = "foreign "  # begins the names of models of other libraries (lab/foreign.py)
MAX_WORK = 10**9  # multiplications in one call, roughly, that relevance takes: a parameter and a token each
SHORT_TEXT = "A cat"
EXAMPLE = "The cat sat on the mat because it was tired."
IN_ONE_PIECE = (
    "This model is run by torch in one piece, and its single numbers are not recorded, so there is no way "
    "down here. The models of the package, runs, and every BERT and ViT have it."
)


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.214), percent(0.0312), percent(0.0001)
    ('21%', '3.1%', 'under 0.1%')
    """
    if 0 < share < 0.001:
        return "under 0.1%"
    return f"{share:.0%}" if share >= 0.0995 or share == 0 else f"{share:.1%}"


def _b64(array: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.uint8).tobytes()).decode()


def _tint_bytes(row: Any) -> str:
    """Weights as bytes, the largest of them 255."""
    return _b64(np.rint(row / max(float(row.max()), 1e-30) * 255))


def _view(model: str, content: str, changes: str) -> "ModelView":
    from headwork.lab.model_views import look_at

    if not all(isinstance(text, str) for text in (model, content, changes)):
        raise InputError("The request is not readable. Expected texts.")
    return look_at(model, content, changes)


def _read_token(view: "ModelView", text: str) -> int | None:
    """A token by its number; ``all`` is the mean of all of them, ``last`` the last one."""
    count = len(view.on_input.labels)
    return None if text == "all" else count - 1 if text == "last" else _read_number(text, count, "token")


def _read_number(text: str, count: int, name: str) -> int:
    if not (text.isdecimal() and len(text) < 6 and int(text) < count):
        raise InputError(f"There is no {name} {text[:20]}: they are 0 to {count - 1}.")
    return int(text)


# --- which models -----------------------------------------------------------------------------------------
@register_call
def models() -> dict[str, Any]:
    """The models that can be looked into, each with its test images (PNG)."""
    from headwork.lab.foreign import foreign_models
    from headwork.lab.known_models import RUN_PREFIX, find_model, run_names
    from headwork.training.run_folders import IMAGES_FOLDER, PACKAGED, PACKAGED_NAMES, Result

    listed = []
    for name in PACKAGED_NAMES:
        about = _about(name)
        files = sorted((PACKAGED / name / IMAGES_FOLDER).glob("*-*.png"))
        classes = find_model(name).classes
        labels = [classes[int(file.stem.partition("-")[2])] for file in files]
        images = [
            {"label": label, "png": base64.b64encode(file.read_bytes()).decode()}
            for label, file in zip(labels, files, strict=True)
        ]
        accuracy = f"test accuracy {Result.read(PACKAGED / name).test_accuracy:.1%}"
        listed.append({**about, "about": f"{about['about']}, {accuracy}", "images": images})
    foreign = [{"name": n, "title": f.title, "missing": f.missing} for n, f in foreign_models().items()]
    return {"models": listed, "runs": [f"{RUN_PREFIX}{name}" for name in run_names()], "foreign": foreign}


@register_call
def model(name: str) -> dict[str, Any]:
    """What there is to know of one model, such as a run of this machine."""
    return _about(str(name))


def _about(name: str) -> dict[str, Any]:
    """What the page must know of a model; its shape is read from a view of it on a plain input."""
    from headwork.lab.known_models import RUN_PREFIX, find_model
    from headwork.lab.pictures import DRAWING_SCALE

    source = find_model(name)
    images = source.input_kind == "images"
    channels, size = source.image_shape if images else (0, 0)
    view = _view(name, _b64(np.full((channels, size, size), 128)) if images else SHORT_TEXT, "")
    blocks = len(view.attention_maps)
    rows, columns = view.on_input.grid or (0, 0)
    if rows != columns:
        raise InputError(
            f"Its {rows} x {columns} patches do not form a square, which is what this screen shows."
        )
    token = view.on_input.output_token_index
    last = not images and token == len(view.on_input.labels) - 1
    prefix = next((start for start in (RUN_PREFIX, FOREIGN_PREFIX) if name.startswith(start)), None)
    hint = "open a picture, or draw" if channels > 1 else "draw, or open a picture"
    title, hint = MODEL_TITLES.get(name, (name.removeprefix(prefix) if prefix else "Your model", hint))
    return {
        "name": name,
        "title": title,
        "hint": hint,
        "about": f"{blocks} blocks of {view.head_count} heads, {view.parameter_count:,} parameters",
        "takes": source.input_kind,
        "example": EXAMPLE if prefix == FOREIGN_PREFIX else "",
        "size": size,
        "channels": channels,
        "drawn": size * DRAWING_SCALE.get(name, 1),
        "no_descent": "" if source.module is None else IN_ONE_PIECE,
        "blocks": blocks,
        "heads": view.head_count,
        "grid": rows,
        "query": "all" if token is None else "last" if last else str(token),
    }


@register_call
def open_model(files: dict[str, str], others: list[str]) -> dict[str, Any]:
    """A model of one's own: the files of its folder by name, in base64; ``others`` are names not sent."""
    from headwork.lab.known_models import open_files

    if not isinstance(files, dict) or not isinstance(others, list):
        raise InputError("The files are not readable. Choose the folder of a model.")
    return _about(open_files(files, [str(name) for name in others[:1000]]))


# --- where it looks ---------------------------------------------------------------------------------------
@register_call
def look(model: str, given: str, changes: str = "", query: str = "0") -> dict[str, Any]:
    """The prediction, and where one token (0: the class token) looks in every head of every block."""
    view = _view(model, given, changes)
    token = _read_token(view, query)
    changed = {(change.block, change.head): change.kind for change in view.changes}
    heads = []
    for block, layer in enumerate(view.attention_maps):
        for number in range(len(layer.weights)):
            row = view.weights_of_query(block, number, token)
            best = int(row.argmax())
            most = percent(float(row[best])) if row.any() else "off"
            words = {"most": most, "words": f"{most} to {view.token_name(best)}"}
            heads.append({"tints": _tint_bytes(row), **words, "changed": changed.get((block, number), "")})
    pixels = view.on_input.pixels
    return {
        **_predicted(view, model, given),
        "heads": heads,
        "query": view.query_name(token),
        "seen": "" if pixels is None else _b64(pixels),
        "tokens": list(view.on_input.labels),
        "before": view.patches_start,
        "logits": view.output_step,
        "remarks": list(view.remarks),
    }


def _predicted(view: "ModelView", model: str, content: str) -> dict[str, Any]:
    """The probabilities in the order of the classes, beside those without the changes, and a sentence."""
    if not view.on_input.classes:
        return {
            "classes": [],
            "sentence": "This model has no classes, only a vector per token.",
            "effect": "",
            "start": ",".join("0" * (1 + view.on_input.output.ndim)),
        }
    probabilities, names = view.on_input.probabilities, view.on_input.classes
    unchanged = _view(model, content, "").on_input.probabilities if view.changes else probabilities
    order = np.argsort(-probabilities)
    best, effect = int(order[0]), ""
    what = "Prediction" if probabilities[best] > 0.5 else "No clear prediction"
    best_two = [f"{names[i]} ({percent(probabilities[i])})" for i in order[:2]]
    sentence = f"{what}: {'; runner-up: '.join(best_two)}."
    if view.changes:
        best_before = int(unchanged.argmax())
        done = "; ".join(map(str, view.changes))
        pairs = [
            (f"{unchanged[best_before]:.{digits}%}", f"{probabilities[best_before]:.{digits}%}")
            for digits in (1, 2, 3)
        ]
        first, second = next((pair for pair in pairs if pair[0] != pair[1]), pairs[0])
        moved = f"{names[best_before]} goes from {first} to {second}"
        verdict = "the prediction stays" if best_before == best else f"the prediction becomes {names[best]}"
        effect = f"With {done}: {moved}; {verdict}."
    own = view.source.array_model
    language = own is not None and own.definition.slug == "language"
    step = (0, len(view.on_input.labels) - 1) if language else (0,)
    shown = [
        {
            "name": names[i],
            "index": ",".join(map(str, (*step, i))),
            "share": round(float(probabilities[i]), 4),
            "percent": percent(float(probabilities[i])),
            "before": round(float(unchanged[i]), 4),
            "best": int(i) == best,
        }
        for i in (range(len(names)) if len(names) <= MAX_CLASSES else order[: MAX_CLASSES // 2].tolist())
    ]
    first_cell = ",".join(map(str, (*step, best)))
    return {"classes": shown, "sentence": sentence, "effect": effect, "start": first_cell}


@register_call
def head(model: str, given: str, changes: str, query: str, block: str, head: str) -> dict[str, Any]:
    """One head, or with ``mean`` the mean of a block, in words: what a token gives to each token."""
    view = _view(model, given, changes)
    token = _read_token(view, query)
    layer = _read_number(block, len(view.attention_maps), "block")
    number = None if head == "mean" else _read_number(head, view.head_count, "head")
    row = view.weights_of_query(layer, number, token)
    name = (
        f"Block {layer}, mean of its {view.head_count} heads"
        if number is None
        else f"Head {number} of block {layer}"
    )
    order = [int(i) for i in np.argsort(-row, kind="stable")[:MAX_NAMED_TOKENS] if row[i] > 0]
    query_name = view.query_name(token)

    def name_of(key_token: int) -> str:
        return f"itself ({query_name})" if key_token == token else view.token_name(key_token)

    given_to = [f"{percent(float(row[i]))} to {name_of(i)}" for i in order]
    words = f"{name} is off: it adds nothing."
    if given_to:
        words = f"{name}: {query_name} gives {', '.join(given_to)}."
    if np.allclose(row, row[0], atol=1e-6) and given_to:
        words = f"{name}: {query_name} gives the same to every token, {percent(float(row[0]))} each."
    return {
        "name": name,
        "words": words,
        "tints": _tint_bytes(row),
        "shares": [f"{percent(float(share))} to {name_of(i)}" for i, share in enumerate(row)],
    }


@register_call
def descend(model: str, given: str, changes: str, path: str, index: str) -> dict[str, Any]:
    """One number of the model as a line of arithmetic, with the numbers that one can descend to."""
    from headwork.lab.derivation import arithmetic_line

    view = _view(model, given, changes)
    if view.source.array_model is None:
        raise InputError(IN_ONE_PIECE)
    return arithmetic_line(view, path, index)


# --- which patches it rests on ------------------------------------------------------------------------------
@lru_cache(maxsize=2)
def _resumable(model: str, content: str, changes: str) -> "ResumableModel":
    from headwork.lab.model_views import ResumableModel

    return ResumableModel(_view(model, content, changes).on_input)


@register_call
def relevance(model: str, given: str, changes: str = "") -> dict[str, Any]:
    """Which parts the prediction rests on, and how far to trust that. It is done a little at each call.

    Until ``done`` is 1, ask again.
    """
    from headwork.inspection.relevance import DESCRIPTIONS, GRADIENT, RANDOM_ORDERS, curve_sizes, trust
    from headwork.inspection.relevance import relevance as methods_of
    from headwork.lab.model_views import OutOfPassesError

    resumable = _resumable(model, given, changes)
    on_input, count = resumable.on_input, len(resumable.on_input.parts)
    call_count = 1 + count + (RANDOM_ORDERS + 2) * 2 * (len(curve_sizes(count)) - 2)
    view = _view(model, given, changes)
    resumable.passes_left = max(1, min(MAX_PASSES, MAX_WORK // (view.parameter_count * len(on_input.labels))))
    try:
        methods = methods_of(on_input)
        trusts = trust(on_input, methods)
    except OutOfPassesError:
        return {"done": 0, "percent": percent(min(0.99, len(resumable.outputs) / call_count))}
    maps = []
    for name, values in methods.items():
        parts = values / max(float(np.abs(values).max()), 1e-30) * 255
        best = np.argsort(-values, kind="stable")[:3]
        maps.append(
            {
                "title": f"{name[0].upper()}{name[1:]}",
                "how": f"{DESCRIPTIONS[name][0].upper()}{DESCRIPTIONS[name][1:]}",
                "positive": _b64(np.rint(parts.clip(0))),
                "negative": _b64(np.rint((-parts).clip(0))),
                "parts": list(on_input.parts),
                "verdict": trusts[name].verdict,
                "good": {True: "good", False: "bad", None: "open"}[trusts[name].good],
                "evidence": trusts[name].evidence,
                "top": "; ".join(view.token_name(on_input.parts[i]) for i in best),
            }
        )
    explained = on_input.explained_name or "the vector"
    words = f"What speaks for {explained}: amber, and against it: blue. {on_input.hidden_note}"
    missing = MISSING if view.source.module is None else UNCHANGED
    return {"done": 1, "maps": maps, "words": words, "notes": [HOW_TESTED, *[missing][GRADIENT in methods :]]}
