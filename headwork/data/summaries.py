"""Summaries of a data set: counts by class, a contact sheet of images, lengths and samples of texts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.data.catalog import CATALOG
from headwork.data.datasets import Images, Texts
from headwork.data.fetching import cache_folder, cached_variant
from headwork.data.splits import permutation
from headwork.documents import Document, FigureBlock, Table, subplots
from headwork.errors import InputError

MAX_CLASSES = 20  # of a sheet and of the samples; the counts have them all
MAX_SAMPLE_LENGTH = 160  # characters
MAX_SIDE = 96  # pixels of an image on the sheet; of a larger one some are left out
BARS = 12


def catalog_table() -> Table:
    """The data sets and encoders of the catalog, and whether they are in the cache."""
    rows = []
    for entry in CATALOG.values():
        size, here = "", "embedded"
        if entry.variants:
            size, here = f"{entry.size / 1e6:.0f} MB", "cached" if cached_variant(entry) else "not yet"
        rows.append((entry.name, entry.kind, entry.about, size, here, entry.licence, entry.source))
    cache = f"Cache: {cache_folder()} (set HEADWORK_CACHE to move it)."
    own = "Your own: a folder of images by class, an .npz, .csv, .tsv or .jsonl file."
    columns = ("name", "kind", "what", "size", "here", "licence", "source")
    return Table("Data sets and encoders", columns, rows, [cache, own])


def summary(data: Images | Texts) -> Table:
    """The number of examples of each class in each part, and how the parts were made."""
    parts = {"train": data.train, "validation": data.validation, "test": data.test}
    counts = [np.bincount(part.labels, minlength=len(data.classes)).tolist() for part in parts.values()]
    rows = [(printable(name), *of_class) for name, *of_class in zip(data.classes, *counts, strict=True)]
    rows.append(("all", *map(sum, counts)))
    notes = list(data.notes)
    if isinstance(data, Images):
        height, width = data.size
        moments = ", ".join(f"mean {m:.4f} std {s:.4f}" for m, s in zip(data.mean, data.std, strict=True))
        sizes = f"{data.channels} x {height} x {width} (channel, height, width)"
        notes.insert(0, f"images: {sizes}, {moments}")
    return Table(data.name, ("class", *parts), rows, notes, summed=True)


def data_document(data: Images | Texts, per_class: int, seed: int) -> Document:
    """What a set holds: counts, of texts their lengths and samples, of images a picture of some."""
    blocks: list[Any] = [summary(data)]
    if isinstance(data, Texts):
        blocks += [length_table(data), sample_table(data, per_class, seed)]
    tables = list(blocks)
    if isinstance(data, Images):
        figure = contact_sheet(data, per_class, seed)
        blocks.append(FigureBlock(figure, f"{data.name}: training examples by class"))
    return Document(data.name, tuple(blocks), data=lambda: [table.as_data() for table in tables])


def length_table(data: Texts) -> Table:
    """A histogram of the lengths of the training texts."""
    lengths = np.array([len(text.split()) for text in data.train.texts], np.int64)
    # The few longest texts would press all others into one bar.
    most = int(np.percentile(lengths, 99))
    edges = np.unique(np.linspace(0, most + 1, BARS + 1).astype(int))
    counts = np.histogram(np.minimum(lengths, most), edges)[0]
    rows = []
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        label = f"{low} to {high - 1}" + ("" if high <= most else " and more")
        rows.append((label, int(count), "#" * round(40 * count / counts.max())))
    middle, long = np.percentile(lengths, (50, 90))
    note = f"median {middle:.0f} words, 90th percentile {long:.0f}, maximum {lengths.max():,}"
    return Table("Words per training text", ("words", "texts", ""), rows, [note])


def sample_table(data: Texts, per_class: int, seed: int) -> Table:
    """Some training texts of each class."""
    rows = []
    for label, name in enumerate(data.classes[:MAX_CLASSES]):
        for index in _sample_indices(data.train.labels, label, per_class, seed):
            text = data.train.texts[index]
            rows.append((printable(name), len(text.split()), printable(text)))
    return Table("Samples", ("class", "words", "text"), rows)


def contact_sheet(data: Images | Texts, per_class: int, seed: int) -> Any:
    """A picture of training images by class."""
    if not isinstance(data, Images):
        raise InputError(f"{data.name} holds texts; a picture is of images. Show it as html or markdown.")
    classes, every, gap = data.classes[:MAX_CLASSES], -(-max(data.size) // MAX_SIDE), 1
    height, width = (-(-side // every) for side in data.size)
    down, across = height + gap, width + gap
    canvas = np.full((len(classes) * down - gap, per_class * across - gap, data.channels), 255, np.uint8)
    for row in range(len(classes)):
        for column, index in enumerate(_sample_indices(data.train.labels, row, per_class, seed)):
            image = data.train.images[index, :, ::every, ::every].transpose(1, 2, 0)
            canvas[row * down : row * down + height, column * across : column * across + width] = image
    figure, axes = subplots(1.6 + 0.55 * per_class * min(4, width / height), 0.5 + 0.55 * len(classes))
    pixels = canvas[..., 0] if data.channels == 1 else canvas
    axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    middles = [row * down + height / 2 for row in range(len(classes))]
    axes.set_yticks(middles, [plot_label(name) for name in classes])
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    left_out = len(data.classes) - len(classes)
    axes.set_title(f"{data.name}: training images" + (f" ({left_out} more classes)" if left_out else ""))
    return figure


def _sample_indices(labels: NDArray[np.int64], label: int, per_class: int, seed: int) -> list[int]:
    members = np.flatnonzero(labels == label)
    return [int(index) for index in members[permutation(len(members), seed)[:per_class]]]


def plot_label(name: str, max_length: int = 20) -> str:
    """A name for a plot: short, not read as a formula, and in the legend even with a leading _."""
    short = printable(name, max_length)
    return f"{' ' if short.startswith('_') else ''}{short}".replace("$", r"\$")


def printable(text: str, max_length: int = MAX_SAMPLE_LENGTH) -> str:
    """A text of unknown origin for the screen: one line, not too long, without control characters.

    >>> printable("so\\x1b[31m good\\n")
    'so·[31m good'
    """
    flat = "".join(sign if sign.isprintable() else "·" for sign in " ".join(text.split()))
    return flat if len(flat) <= max_length else flat[: max_length - 1] + "…"
