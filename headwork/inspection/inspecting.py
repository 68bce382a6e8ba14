"""``headwork.inspect``: a model and one input in; out come what it predicts, where its heads attend, what the
prediction rests on by every method there is, and how far each of them is to be trusted.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from headwork.data import Images, Texts
from headwork.data.summaries import printable
from headwork.documents import Caution, Code, Details, Document, Heading, Item, Items, Renderable, Table
from headwork.documents.token_views import AttentionView, Heatmap, TokenHeatmaps, Tokens
from headwork.files import load_package_toml
from headwork.inspection.model_folders import find_target, open_model, open_model_on_input
from headwork.inspection.model_on_input import TOO_LARGE, Array, AttentionMap, ModelOnInput, model_on_array
from headwork.inspection.predictions import image_probabilities, predict
from headwork.inspection.relevance import DESCRIPTIONS, Trust, relevance, trust
from headwork.inspection.roles import HeadRole, role
from headwork.training.run_folders import Result, example_images, load_data_info

WORDS = load_package_toml(__file__, "words.toml")["inspection"]
MAX_WEIGHTS = 700_000  # in one page: 1.9 MB
SHOWN_HEADS = 12  # in the table; the others are folded


@dataclass(frozen=True, eq=False)
class Inspection(Renderable):
    """What is known of a model on one input; it shows itself in a notebook."""

    on_input: ModelOnInput

    @cached_property
    def relevance(self) -> dict[str, Array]:
        """Of each part by each method: occlusion, attention rollout, gradient x attention."""
        return relevance(self.on_input)

    @cached_property
    def trust(self) -> dict[str, Trust]:
        return trust(self.on_input, self.relevance)

    @property
    def attention_maps(self) -> list[AttentionMap]:
        """The weights, and gradients, of each attention on this input."""
        return self.on_input.attention_maps

    layers = attention_maps  # its former name

    @cached_property
    def roles(self) -> dict[tuple[int, int], HeadRole]:
        """The role of each head (layer, head)."""
        roles: dict[tuple[int, int], HeadRole] = {}
        for number, layer in enumerate(self.attention_maps):
            weights = [layer.weights, *self.on_input.attention_on_other_inputs.get(layer.path, ())]
            grid = self.on_input.grid if layer.weights.shape[-1] == len(self.on_input.labels) else None
            by_head = np.stack(weights, 1)
            roles |= {(number, head): role(one, grid=grid) for head, one in enumerate(by_head)}
        return roles

    @cached_property
    def heads(self) -> list[tuple[int, int]]:
        """Every head (layer, head), the most telling first: without it the score changes most."""
        effects = self.on_input.score_lost_per_head
        every = [(i, j) for i, layer in enumerate(effects) for j in range(len(layer))]
        return sorted(every, key=lambda head: -abs(float(effects[head[0]][head[1]])))

    # --- shown ------------------------------------------------------------------------------------
    def tokens(self) -> Tokens:
        shown = self.on_input
        return Tokens(tuple(map(printable, shown.labels)), shown.grid, to_png(shown.pixels))

    def explanation(self) -> Iterator[Any]:
        """What the prediction rests on, and how far to trust that."""
        on_input, maps = self.on_input, []
        for method, values in self.relevance.items():
            every = np.full(len(on_input.labels), np.nan)
            every[list(on_input.parts)] = values
            maps.append(Heatmap(method, every, f"{self.trust[method].verdict}; {DESCRIPTIONS[method]}"))
        yield TokenHeatmaps(self.tokens(), tuple(maps))
        yield Items(
            tuple(
                Item(f"on this input: {one.evidence}.", one.method, one.verdict, one.good)
                for one in self.trust.values()
            )
        )
        yield from map(Caution, on_input.remarks)

    def how_tested(self) -> str:
        """What the score is, and how methods are tested."""
        score = "how alike the vector of the whole input stays (cosine)"
        if self.on_input.explained_class is not None:
            score = f"the probability of {printable(self.on_input.explained_name)}"
        return str(WORDS["score"].format(score=score, hidden=self.on_input.hidden_note))

    def attention_view(self) -> AttentionView | None:
        """The layers between the tokens of the input, within what a page may hold."""
        count = len(self.on_input.labels)
        maps = self.attention_maps
        square = [i for i, layer in enumerate(maps) if layer.weights.shape[-2:] == (count, count)]
        best = list(dict.fromkeys(layer for layer, _ in self.heads if layer in square))
        if not best:
            return None
        sizes = np.cumsum([maps[i].weights.size for i in best])
        kept = sorted(i for i, size in zip(best, sizes, strict=True) if i == best[0] or size <= MAX_WEIGHTS)
        layer, head = next(head for head in self.heads if head[0] in kept)
        start = kept.index(layer), head, self.on_input.output_token_index
        remarks = {(kept.index(i), j): self.head_remark(i, j) for i, j in self.heads if i in kept}
        layers = tuple((maps[i].name, maps[i].weights) for i in kept)
        return AttentionView(self.tokens(), layers, start, remarks)

    def share_text(self, layer: int, head: int) -> str:
        """The share that a head's role explains; none of content on one input, where nothing varies."""
        role = self.roles[layer, head]
        return f"{role.share:.0%}" if self.on_input.other_input_count or role.name != "content" else ""

    def head_remark(self, layer: int, head: int) -> str:
        share = self.share_text(layer, head) and f" ({self.share_text(layer, head)})"
        fall = "without it the score falls by" if self.on_input.ablate_each_head else "weights x gradient"
        effect = self.on_input.score_lost_per_head[layer][head]
        return f"{self.roles[layer, head].text}{share}; {fall} {effect:+.3f}"

    def head_table(self, heads: Sequence[tuple[int, int]]) -> Table:
        rows: list[tuple[Any, ...]] = []
        for i, j in heads:
            head_role, weights = self.roles[i, j], self.attention_maps[i].weights[j]
            entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1).mean()
            effect = f"{self.on_input.score_lost_per_head[i][j]:+.3f}"
            name = f"{self.attention_maps[i].name}, head {j}".replace(" ", "\u00a0")
            distance, keys = f"{head_role.distance:.1f}", f"{np.exp(entropy):.1f}"
            rows.append((name, effect, head_role.text, self.share_text(i, j), distance, keys))
        effect = "score lost without it" if self.on_input.ablate_each_head else "weights x gradient"
        return Table("", ("head", effect, "role", "share", "distance", "effective keys"), rows)

    def prediction(self) -> Iterator[Any]:
        on_input = self.on_input
        if not on_input.classes:
            yield "This model has no classes: what is explained is the mean of its output vectors."
            return
        best = (-on_input.probabilities).argsort(kind="stable")[:5].tolist()
        rows = [(printable(on_input.classes[i]), f"{on_input.probabilities[i]:.1%}") for i in best]
        notes = [f"The true class is {printable(on_input.true_class)}."] if on_input.true_class else []
        yield Table("", ("prediction", "probability"), rows, notes)

    def document(self) -> Document:
        on_input, view = self.on_input, self.attention_view()
        others = on_input.other_input_count
        inputs = f"{1 + others} inputs" if others else "this input alone"
        parts: list[Any] = [*self.prediction(), Heading("What it rests on"), *self.explanation()]
        parts.append(self.how_tested())
        if view is not None:
            parts += [Heading("Where the heads attend"), view]
            if len(view.layers) < len(self.attention_maps):
                parts.append(f"Shown are {len(view.layers)} of {len(self.attention_maps)} attentions.")
        if self.heads:
            parts += [
                Heading("The heads, the most telling first"),
                self.head_table(self.heads[:SHOWN_HEADS]),
                WORDS["roles"].format(inputs=inputs),
            ]
        if len(self.heads) > SHOWN_HEADS:
            parts.append(Details("The other heads", (self.head_table(self.heads[SHOWN_HEADS:]),)))
        if on_input.position_similarity is not None and on_input.grid:
            parts.append(Details("Similarity of positions", (self._positions(on_input.position_similarity),)))
        title = on_input.name
        if (number := on_input.explained_class) is not None:
            title += f": {printable(on_input.explained_name)}, {on_input.probabilities[number]:.0%}"
        about = "What the model predicts, what that rests on, and how far to trust each explanation."
        return Document(title, tuple(parts), about, data=self.as_data)

    def _positions(self, similar: Array) -> TokenHeatmaps:
        """How alike the learned positions are, as seen from three patches."""
        tokens, (rows, columns) = self.tokens(), self.on_input.grid or (1, 1)
        patches = {"the first patch": 0, "the middle": rows // 2 * columns + columns // 2, "the last": -1}
        at = {name: patch + (tokens.first_patch if patch >= 0 else 0) for name, patch in patches.items()}
        maps = tuple(Heatmap(f"from {name}", similar[patch]) for name, patch in at.items())
        return TokenHeatmaps(Tokens(tokens.labels, tokens.grid), maps)

    def as_data(self) -> dict[str, Any]:
        on_input, maps = self.on_input, self.attention_maps
        classes, numbers = on_input.classes, on_input.probabilities
        named = zip(classes, numbers.tolist(), strict=True) if classes else ()
        return {
            "model": on_input.name,
            "tokens": list(on_input.labels),
            "parts": list(on_input.parts),
            "grid": on_input.grid,
            "probabilities": dict(named) if len(classes) <= 1000 else None,
            "explained": on_input.explained_name or None,
            "true": on_input.true_class or None,
            "relevance": {method: values.tolist() for method, values in self.relevance.items()},
            "trust": {method: one.as_data() for method, one in self.trust.items()},
            "heads": [
                {"layer": maps[i].name, "head": j, "effect": float(on_input.score_lost_per_head[i][j])}
                | vars(self.roles[i, j])
                for i, j in self.heads
            ],
            "weights": {one.name: np.round(one.weights.astype(float), 5).tolist() for one in maps},
            "remarks": list(on_input.remarks),
        }


def predict_why(folder: str | Path, *, images: Sequence[Path] = (), texts: Sequence[str] = ()) -> Document:
    """The predictions of a run, each with what it rests on and how far to trust that."""
    table = predict(folder, images=images, texts=texts)
    inputs: list[dict[str, Any]] = [{"image": image, "resize": True} for image in images]
    inputs += [{"text": text} for text in texts]
    inputs = inputs or [{"index": number} for number in example_images(folder).indices]
    source = open_model(folder)
    shown = [Inspection(open_model_on_input(source, **options)) for options in inputs]
    parts: list[Any] = [table]
    for row, one in zip(table.rows, shown, strict=True):
        parts += [Heading(f"{row[0]}: {row[1]}, {row[2]}"), *one.explanation()]
    why = [{name: one.as_data()[name] for name in ("relevance", "trust")} for one in shown]
    return Document("", (*parts, shown[0].how_tested()), data=lambda: {**table.as_data(), "why": why})


def inspect_test_images(result: Result, data: Images | Texts | None) -> list[Any]:
    """What the predictions for some test images rest on: the first three right ones and wrong ones."""
    if not isinstance(data, Images):
        return []
    source = open_model(result.folder)
    if not (at_once := source.array_model.inputs_at_once):
        return [Heading("Where it looked"), f"{result.folder.name}: {TOO_LARGE}"]
    images, labels = data.test.images[:at_once], data.test.labels[:at_once]
    info = load_data_info(result.folder)
    predicted = image_probabilities(source.array_model.inner, images, info).argmax(-1)
    right = (predicted == labels).nonzero()[0][:3].tolist()
    chosen = [*right, *(mistake["place"] for mistake in result.record["mistakes"][:3])]
    parts: list[Any] = [Heading("Where it looked")] if chosen else []
    for index in chosen:
        shown = Inspection(source.on_image(data.test.images[index]))
        confidence, name = float(shown.on_input.probabilities.max()), shown.on_input.explained_name
        true = source.classes[data.test.labels[index]]
        words = f"{name}, {confidence:.0%}" + ("" if true == name else f"; true: {true}")
        inner = Document(f"Test image {index}: {words}", tuple(shown.explanation()))
        parts.append(Code(f"headwork.inspect(folder, index={index})", (inner,)))
    return [*parts, shown.how_tested()] if chosen else []


def to_png(pixels: Array | None) -> bytes:
    """Bytes (channel, height, width) as a PNG."""
    if pixels is None:
        return b""
    from PIL import Image

    written = io.BytesIO()
    Image.fromarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)).save(written, "PNG")
    return written.getvalue()


def inspect(
    model: Any,
    /,
    *inputs: Any,
    image: str | Path | None = None,
    index: int | None = None,
    text: str | None = None,
    resize: bool = False,
    target: str | int | None = None,
    labels: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    fill: float = 0,
    **options: Any,
) -> Inspection:
    """Look inside a model on one input: its heads, what its output rests on, how far to trust that.

    ``model`` is a run or a folder of a model, with an ``image``, the ``index`` of a test example or a
    ``text``; or what ``headwork.load`` gives, with an image or tokens; or a torch module with its inputs, a
    batch of one: the first is an image, tokens or vectors. ``labels`` name the tokens, ``classes`` the
    classes; ``fill`` is the number that hidden parts of a module's input get. ``target`` is the class to
    explain, by default the predicted one.

    >>> steps = inspect("digits", index=0)
    >>> steps.on_input.classes[steps.on_input.explained_class], sorted(steps.relevance)[-1]
    ('3', 'occlusion')
    """
    fill = options.pop("hidden", fill)  # its former name
    if hasattr(model, "definition") and not options and len(inputs) < 2:  # one of ours, on torch or numpy
        on_input = model_on_array(model, inputs[0] if inputs else None, tuple(classes or ()))
    elif isinstance(model, (str, Path)):
        on_input = open_model_on_input(model, image=image, index=index, text=text, resize=resize)
    else:
        from headwork.inspection.module_on_input import module_on_input

        on_input = module_on_input(model, inputs, options, labels=labels, classes=classes, fill=fill)
    return Inspection(replace(on_input, target=find_target(on_input, target)))
