"""``load``: a known set by its name, or the user's own by its path, with its parts in memory."""

from __future__ import annotations

import csv
import re
import tarfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np

from headwork.data.archives import UnreadableError
from headwork.data.fetching import Say, cached_form, content, fetch, tell
from headwork.data.images import Images, ImageSplit, check_images
from headwork.data.known import KNOWN, File, Known, known
from headwork.data.pictures import folder_parts, idx_array, npz_parts
from headwork.data.splits import parts
from headwork.data.tables import KINDS, Row, class_names, labelled_rows, text_split
from headwork.data.texts import Texts, TextSplit
from headwork.errors import InputError, unknown

FASHION_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
SENTIMENTS = ("negative", "positive")
MOST_REVIEW = 1_000_000  # bytes of one review in IMDB's archive


def load(
    name: str | Path,
    *,
    from_folder: str | Path | None = None,
    seed: int = 0,
    validation: float = 0.1,
    columns: Sequence[str] | None = None,
    size: int | None = None,
    say: Say = tell,
) -> Images | Texts:
    """A data set in memory.

    ``name`` is a known set (``headwork data list``), a folder of images by class, an .npz file, a CSV, TSV or JSONL
    file, or a folder with train.csv and test.csv. ``columns`` names the text's and the label's column, ``size``
    the side to which the images of a folder are scaled. ``validation`` is the share of the training examples held
    out by the seed, class by class; a test part that nobody gives is held out the same for every seed.

    >>> data = load("digits")
    >>> len(data.train), len(data.validation), len(data.test)
    (1293, 145, 359)
    """
    slug = str(name).replace("_", "-").lower()
    if slug in KNOWN and not isinstance(name, Path):
        if columns is not None or size is not None:
            raise InputError(f"{slug}: --columns and --size are for files of your own.")
        return _known(known(slug), from_folder, seed, validation, say)
    path = Path(name)
    if from_folder is not None:
        raise InputError(
            f"--from brings the files of a known set ({', '.join(KNOWN)}); {path} is a path already."
        )
    if not path.exists():
        raise InputError(
            f"{unknown('data set', name, KNOWN)} And there is no file or folder of that name: "
            "a folder of images by class, an .npz, .csv, .tsv or .jsonl file."
        )
    kind = path.suffix.lower()
    pictures = path.is_dir() and not any((path / f"train{suffix}").exists() for suffix in KINDS)
    if size is not None and not pictures:
        raise InputError(f"{path}: a size is for a folder of images, which it is not. Leave the size out.")
    if columns is not None and (pictures or kind == ".npz"):
        raise InputError(f"{path}: holds images; columns are for texts. Leave them out.")
    if pictures:
        return _own_images(path, *folder_parts(path, size), seed=seed, validation=validation)
    if kind == ".npz":
        return _own_images(path, *npz_parts(path), [], seed=seed, validation=validation)
    if path.is_dir() or kind in KINDS:
        return _own_texts(path, columns, seed, validation)
    raise unknown(f"kind of data file ({path})", kind or "without a suffix", [*KINDS, ".npz"])


def load_images(
    name: str | Path,
    *,
    from_folder: str | Path | None = None,
    seed: int = 0,
    validation: float = 0.1,
    size: int | None = None,
    say: Say = tell,
) -> Images:
    """``load``, where only images will do."""
    data = load(name, from_folder=from_folder, seed=seed, validation=validation, size=size, say=say)
    if not isinstance(data, Images):
        raise InputError(f"{name} holds texts; images are needed here, such as fashion-mnist or digits.")
    return data


def load_texts(
    name: str | Path,
    *,
    from_folder: str | Path | None = None,
    seed: int = 0,
    validation: float = 0.1,
    columns: Sequence[str] | None = None,
    say: Say = tell,
) -> Texts:
    """``load``, where only texts will do."""
    data = load(name, from_folder=from_folder, seed=seed, validation=validation, columns=columns, say=say)
    if not isinstance(data, Texts):
        raise InputError(f"{name} holds images; texts are needed here, such as imdb or rotten-tomatoes.")
    return data


def _known(
    wanted: Known, from_folder: str | Path | None, seed: int, validation: float, say: Say
) -> Images | Texts:
    if wanted.kind == "encoder":
        raise InputError(
            f"{wanted.name} is a pretrained encoder, not data. Train with --encoder {wanted.name}."
        )
    if wanted.name == "digits":
        made = parts(_digits(), "images", seed=seed, validation=validation, test=0.2)
        return Images(wanted.name, tuple("0123456789"), *made)
    folder = fetch(wanted, from_folder=from_folder, say=say)
    if wanted.name == "fashion-mnist":
        return _fashion(wanted, folder, seed, validation)
    if wanted.name == "imdb":
        return _imdb(wanted, folder, seed, validation)
    rows = _reviews(folder, wanted.forms[0].files[0], "rotten_tomatoes")
    return Texts(wanted.name, SENTIMENTS, *parts(_labelled(rows), "texts", seed=seed, validation=validation))


def _digits() -> ImageSplit:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            'digits comes with scikit-learn, which is not installed: pip install ".[train]".'
        ) from None
    images, labels = load_digits(return_X_y=True)
    # Ink is counted from 0 to 16 in each of the 8 x 8 squares.
    return ImageSplit(
        np.rint(images.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8), labels.astype(np.int64)
    )


def _fashion(wanted: Known, folder: Path, seed: int, validation: float) -> Images:
    train_images, train_labels, test_images, test_labels = wanted.forms[0].files

    def split(images: File, labels: File) -> ImageSplit:
        read = ImageSplit(
            idx_array(content(folder, images), 3, str(folder / images.name))[:, None],
            idx_array(content(folder, labels), 1, str(folder / labels.name)).astype(np.int64),
        )
        check_images(wanted.name, FASHION_CLASSES, read)
        return read

    read_test = partial(split, test_images, test_labels)
    train = split(train_images, train_labels)
    made = parts(
        train,
        "images",
        seed=seed,
        validation=validation,
        read_test=read_test,
        notes=("test: the official images",),
    )
    return Images(wanted.name, FASHION_CLASSES, *made)


def _imdb(wanted: Known, folder: Path, seed: int, validation: float) -> Texts:
    """The official split: the second table holds all 50,000 reviews, those not in the first are the test part.

    No film is in both parts, and a film's reviews of one label stand together. So validation is held out in stretches:
    one by one it rewards who learns the names of films, and misled us (docs/experiments.md).
    """
    form = cached_form(wanted, folder)
    if len(form.files) == 1:
        train, read_test = _archive(folder, form.files[0])
    else:
        rows = _reviews(folder, form.files[0], "imdb")
        train = _labelled(rows)
        read_test = partial(_rest_of_imdb, folder, form.files[1], rows)
    notes = ("test: the official reviews (123 of them stand in the training part too)",)
    return Texts(
        wanted.name,
        SENTIMENTS,
        *parts(
            train,
            "texts",
            seed=seed,
            validation=validation,
            read_test=read_test,
            neighbours=True,
            notes=notes,
        ),
    )


def _reviews(folder: Path, file: File, source: str) -> list[Row]:
    """The rows of one source in the table of reviews, which is sorted by label."""
    text = content(folder, file).decode("utf-8")
    found = csv.DictReader(StringIO(text, newline=""))
    return [
        (0, folded(row["text"]), SENTIMENTS[int(row["label"])]) for row in found if row["source"] == source
    ]


def _rest_of_imdb(folder: Path, file: File, train: list[Row]) -> TextSplit:
    text = content(folder, file).decode("utf-8")
    seen = Counter((row[1], row[2]) for row in train)
    rest = []
    for row in csv.DictReader(StringIO(text, newline="")):
        review = (folded(row["review"]), row["sentiment"])
        if seen[review]:
            seen[review] -= 1
        else:
            rest.append((0, *review))
    if len(rest) != len(train):
        raise InputError(
            f"{folder / file.name}: {len(rest):,} reviews are left for the test; expected {len(train):,}."
        )
    return _labelled(rest)


def folded(text: str) -> str:
    """A text with its line breaks, HTML's too, and runs of white space as single spaces.

    >>> folded("Good.<br /><br />Not great. ")
    'Good. Not great.'
    """
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def _labelled(rows: Sequence[Row]) -> TextSplit:
    return TextSplit([row[1] for row in rows], np.array([SENTIMENTS.index(row[2]) for row in rows], np.int64))


def _archive(folder: Path, file: File) -> tuple[TextSplit, Callable[[], TextSplit]]:
    """The official archive: aclImdb/train/pos/0_9.txt and so on."""
    rows: dict[str, list[Row]] = {"train": [], "test": []}
    labels = {"neg": SENTIMENTS[0], "pos": SENTIMENTS[1]}
    try:
        with tarfile.open(fileobj=BytesIO(content(folder, file)), mode="r:gz") as archive:
            for entry in archive:
                match = re.fullmatch(r"aclImdb/(train|test)/(neg|pos)/(\d+)_\d+\.txt", entry.name)
                if not match or not entry.isreg():
                    continue
                if entry.size > MOST_REVIEW:
                    raise UnreadableError(f"{entry.name} is {entry.size:,} bytes")
                review = archive.extractfile(entry)
                assert review is not None
                rows[match[1]].append(
                    (int(match[3]), folded(review.read().decode("utf-8")), labels[match[2]])
                )
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError, UnreadableError) as error:
        raise InputError(f"{folder / file.name}: damaged: {error}. Delete it and fetch it again.") from None
    test = sorted(rows["test"])
    return _labelled(sorted(rows["train"])), lambda: _labelled(test)


def _own_images(
    path: Path,
    classes: tuple[str, ...],
    found: dict[str, ImageSplit],
    remarks: list[str],
    *,
    seed: int,
    validation: float,
) -> Images:
    for part, split in found.items():
        if part == "train" or len(split):
            check_images(f"{path} ({part})", classes, split, several=part == "train")
    test = found.get("test")
    made = parts(
        found["train"],
        "images",
        seed=seed,
        validation=validation,
        given=found.get("validation"),
        read_test=(lambda: test) if test is not None else None,
        notes=tuple(remarks),
    )
    return Images(path.stem, classes, *made)


def _own_texts(path: Path, columns: Sequence[str] | None, seed: int, validation: float) -> Texts:
    files = {"train": path}
    if path.is_dir():
        files = {
            part: path / f"{part}{kind}"
            for kind in KINDS
            for part in ("train", "validation", "test")
            if (path / f"{part}{kind}").exists()
        }
    rows = {part: labelled_rows(file, columns) for part, file in files.items()}
    classes = class_names(rows["train"], files["train"])
    if len(classes) < 2:
        raise InputError(
            f"{files['train']}: every row has the label '{classes[0]}'. A classifier needs at least two."
        )
    found = {part: text_split(read, classes, files[part]) for part, read in rows.items()}
    test = found.get("test")
    made = parts(
        found["train"],
        "texts",
        seed=seed,
        validation=validation,
        given=found.get("validation"),
        read_test=(lambda: test) if test is not None else None,
    )
    return Texts(path.stem, classes, *made)
