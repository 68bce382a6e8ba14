"""``load``: a set of the catalog by its name, or the user's own by its path, in memory."""

import csv
import os
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from headwork.data.catalog import CATALOG, Entry, File, get_entry
from headwork.data.datasets import Images, ImageSplit, Texts, TextSplit, check_images
from headwork.data.fetching import Log, cached_variant, fetch, read_verified, to_stderr
from headwork.data.image_files import folder_parts, idx_array, npz_parts
from headwork.data.text_files import SUFFIXES, class_names, labelled_rows, text_split
from headwork.errors import InputError, unknown_name

Review = tuple[str, int]  # text and label
DatasetT = TypeVar("DatasetT", Images, Texts)


def load(
    name: str | Path,
    *,
    from_folder: str | Path | None = None,
    seed: int = 0,
    validation: float = 0.1,
    columns: Sequence[str] | None = None,
    size: int | None = None,
    log: Log = to_stderr,
) -> Images | Texts:
    """A data set in memory.

    ``name`` is a name of the catalog (``headwork data list``), a folder of images by class, an .npz file, a
    CSV, TSV or JSONL file, or a folder with train.csv and test.csv. ``columns`` names the columns of text and
    label, ``size`` the side to which the images of a folder are scaled. ``validation`` is the share of the
    training examples held out by the seed, class by class; without a test part, one is held out in the same
    way for every seed.

    >>> data = load("digits")
    >>> len(data.train), len(data.validation), len(data.test)
    (1293, 145, 359)
    """
    entry = None if isinstance(name, Path) else get_entry(name)
    if entry is not None:
        if columns is not None or size is not None:
            raise InputError(f"{entry.name}: --columns and --size are for files of your own.")
        return _load_entry(entry, from_folder, log, seed=seed, validation=validation)
    path = Path(name)
    if from_folder is not None:
        raise InputError(
            f"--from is for a set of the catalog ({', '.join(CATALOG)}); {path} is a path already."
        )
    if not os.path.exists(path):  # False for a name that is too long, too
        raise InputError(
            f"{unknown_name('data set', name, CATALOG)} And there is no file or folder of that name: "
            "a folder of images by class, an .npz, .csv, .tsv or .jsonl file."
        )
    suffix = path.suffix.lower()
    is_image_folder = path.is_dir() and not any((path / f"train{suffix}").exists() for suffix in SUFFIXES)
    if size is not None and not is_image_folder:
        raise InputError(f"{path}: a size is for a folder of images, which it is not. Leave the size out.")
    if columns is not None and (is_image_folder or suffix == ".npz"):
        raise InputError(f"{path}: holds images; columns are for texts. Leave them out.")
    if is_image_folder:
        return _load_own_images(path, *folder_parts(path, size), seed=seed, validation=validation)
    if suffix == ".npz":
        return _load_own_images(path, *npz_parts(path), seed=seed, validation=validation)
    if path.is_dir() or suffix in SUFFIXES:
        return _load_own_texts(path, columns, seed=seed, validation=validation)
    raise unknown_name(f"kind of data file ({path})", suffix or "without a suffix", [*SUFFIXES, ".npz"])


def load_images(name: str | Path, **options: Any) -> Images:
    """``load``, where only images will do."""
    return _load_only(Images, "texts", "fashion-mnist or digits", name, options)


def load_texts(name: str | Path, **options: Any) -> Texts:
    """``load``, where only texts will do."""
    return _load_only(Texts, "images", "imdb or rotten-tomatoes", name, options)


def _load_only(
    kind: type[DatasetT], other_noun: str, example: str, name: str | Path, options: dict[str, Any]
) -> DatasetT:
    """A set of one kind; one that is known to be of the other is refused before it is fetched."""
    entry = get_entry(name)
    data = None if entry and entry.kind == other_noun else load(name, **options)
    if not isinstance(data, kind):
        raise InputError(f"{name} holds {other_noun}; {kind.noun} are needed here, such as {example}.")
    return data


# The readers of the catalog's sets check nothing: ``read_verified`` compares the digest of each file.
def _load_entry(entry: Entry, from_folder: str | Path | None, log: Log, **options: Any) -> Images | Texts:
    if entry.kind == "encoder":
        raise InputError(
            f"{entry.name} is a pretrained encoder, not data. Train with --encoder {entry.name}."
        )
    if entry.kind == "runtime":
        raise InputError(f"{entry.name} is a runtime, not data. headwork lab --save puts it into a page.")
    if entry.name == "digits":
        return Images.from_training(entry.name, entry.classes, _load_digits(), test=0.2, **options)
    folder = fetch(entry, from_folder=from_folder, log=log)
    if entry.name == "fashion-mnist":
        return _load_fashion_mnist(entry, folder, **options)
    if entry.name == "imdb":
        return _load_imdb(entry, folder, **options)
    reviews = _read_reviews(folder, entry.variants[0].files[0], "rotten_tomatoes")
    return Texts.from_training(entry.name, entry.classes, _text_split(reviews), **options)


def _load_digits() -> ImageSplit:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            'digits comes with scikit-learn, which is not installed: pip install ".[train]".'
        ) from None
    images, labels = load_digits(return_X_y=True)
    # Ink is counted from 0 to 16 in each of the 8 x 8 squares.
    pixels = np.rint(images.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    return ImageSplit(pixels, labels.astype(np.int64))


def _load_fashion_mnist(entry: Entry, folder: Path, **options: Any) -> Images:
    train_images, train_labels, test_images, test_labels = entry.variants[0].files

    def read(images: File, labels: File) -> ImageSplit:
        return ImageSplit(
            idx_array(read_verified(folder, images), 3, str(folder / images.name))[:, None],
            idx_array(read_verified(folder, labels), 1, str(folder / labels.name)).astype(np.int64),
        )

    options |= {"test": partial(read, test_images, test_labels), "notes": ["test: the official images"]}
    return Images.from_training(entry.name, entry.classes, read(train_images, train_labels), **options)


def _load_imdb(entry: Entry, folder: Path, **options: Any) -> Texts:
    """The official split: the second table holds all 50,000 reviews, those not in the first are the test.

    No film is in both parts, and a film's reviews of one label are neighbours. So validation is held out in
    stretches: drawn one by one it rewards a model that learns the names of films (docs/experiments.md).
    """
    variant = cached_variant(entry)
    assert variant is not None  # just fetched
    if len(variant.files) == 1:
        train, test = _read_imdb_archive(folder, variant.files[0])
    else:
        reviews = _read_reviews(folder, variant.files[0], "imdb")
        train, test = _text_split(reviews), partial(_imdb_test_split, entry, folder, reviews)
    notes = ["test: the official reviews (123 of them are in the training part too)"]
    options |= {"contiguous": True, "notes": notes}
    return Texts.from_training(entry.name, entry.classes, train, test=test, **options)


def _text_split(reviews: Iterable[Review]) -> TextSplit:
    texts, labels = zip(*reviews, strict=True)
    return TextSplit(list(texts), np.array(labels, np.int64))


def _csv_rows(folder: Path, file: File) -> Iterator[dict[str, str]]:
    return csv.DictReader(StringIO(read_verified(folder, file).decode("utf-8"), newline=""))


def _read_reviews(folder: Path, file: File, source: str) -> list[Review]:
    """The reviews of one source in the table, which is sorted by label."""
    rows = (row for row in _csv_rows(folder, file) if row["source"] == source)
    return [(clean(row["text"]), int(row["label"])) for row in rows]


def _imdb_test_split(entry: Entry, folder: Path, train: list[Review]) -> TextSplit:
    remaining, test = Counter(train), []
    for row in _csv_rows(folder, entry.variants[0].files[1]):
        review = clean(row["review"]), entry.classes.index(row["sentiment"])
        if remaining[review]:
            remaining[review] -= 1
        else:
            test.append(review)
    return _text_split(test)


def clean(text: str) -> str:
    """A text with its line breaks, HTML's too, and runs of white space as single spaces.

    >>> clean("Good.<br /><br />Not great. ")
    'Good. Not great.'
    """
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def _read_imdb_archive(folder: Path, file: File) -> tuple[TextSplit, Callable[[], TextSplit]]:
    """The official archive: aclImdb/train/pos/0_9.txt and so on."""
    numbered: dict[str, list[tuple[int, str, int]]] = {"train": [], "test": []}
    with tarfile.open(fileobj=BytesIO(read_verified(folder, file)), mode="r:gz") as archive:
        for entry in archive:
            match = re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt", entry.name)
            review = archive.extractfile(entry) if match and entry.isreg() else None
            if match and review is not None:
                text = clean(review.read().decode("utf-8"))
                numbered[match[1]].append((int(match[3]), text, int(match[2] == "pos")))
    train, test = (_text_split(review[1:] for review in sorted(numbered[part])) for part in ("train", "test"))
    return train, lambda: test


def _load_own_images(
    path: Path,
    classes: tuple[str, ...],
    splits: dict[str, ImageSplit],
    notes: Sequence[str] = (),
    **options: Any,
) -> Images:
    for part, split in splits.items():
        check_images(f"{path} ({part})", classes, split, several=part == "train")
    return Images.from_training(path.stem, classes, splits["train"], notes=notes, **_parts(splits, options))


def _load_own_texts(path: Path, columns: Sequence[str] | None, **options: Any) -> Texts:
    files = {"train": path}
    if path.is_dir():
        named = [path / f"{part}{suffix}" for suffix in SUFFIXES for part in ("train", "validation", "test")]
        files = {file.stem: file for file in named if file.exists()}
    rows = {part: labelled_rows(file, columns) for part, file in files.items()}
    classes = class_names(rows["train"], files["train"])
    if len(classes) < 2:
        raise InputError(
            f"{files['train']}: every row has the label '{classes[0]}'. A classifier needs at least two."
        )
    splits = {part: text_split(read, classes, files[part]) for part, read in rows.items()}
    return Texts.from_training(path.stem, classes, splits["train"], **_parts(splits, options))


def _parts(splits: Mapping[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The options with the validation and test parts of the user's own."""
    own = {"validation": splits["validation"]} if "validation" in splits else {}
    return options | own | ({"test": lambda: splits["test"]} if "test" in splits else {})
