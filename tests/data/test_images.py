"""Images: IDX, .npz, folders, digits; splits; what is damaged, enormous or of one class."""

import hashlib
import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from headwork.data import CATALOG, Images, load, load_images, load_texts, read_image
from headwork.data.catalog import Entry, File, Variant
from headwork.data.image_files import idx_array
from headwork.errors import InputError, TooLarge

rng = np.random.default_rng(0)


def idx(array):
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def small_fashion(tmp_path, monkeypatch):
    """Fashion-MNIST of 60 + 20 images under its own name, with the digests of what was made up."""
    monkeypatch.setenv("HEADWORK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache/small").mkdir(parents=True)
    files = []
    for part, count in (("train", 60), ("t10k", 20)):
        images, labels = rng.integers(0, 256, (count, 4, 4)), np.arange(count) % 10
        for name, array in ((f"{part}-images-idx3-ubyte", images), (f"{part}-labels-idx1-ubyte", labels)):
            data = idx(array)
            (tmp_path / "cache/small" / name).write_bytes(data)
            files.append(File(name, "md5:" + hashlib.md5(data, usedforsecurity=False).hexdigest(), len(data)))
    entry = Entry(
        "fashion-mnist",
        "images",
        "",
        "",
        "",
        "small",
        (Variant(tuple(files), ()),),
        CATALOG["fashion-mnist"].classes,
    )
    monkeypatch.setitem(CATALOG, "fashion-mnist", entry)
    return tmp_path / "cache/small"


def test_fashion_mnist_has_its_official_test_part(small_fashion):
    data = load_images("fashion_mnist", validation=0.2, log=lambda _: None)
    assert (len(data.train), len(data.validation), len(data.test)) == (50, 10, 20)
    assert data.train.images.shape == (50, 1, 4, 4)
    assert data.train.images.dtype == np.uint8
    assert data.train.labels.dtype == np.int64
    assert data.classes[9] == "Ankle boot"
    assert np.bincount(data.validation.labels).tolist() == [1] * 10, "validation has each class"
    whole = np.concatenate([data.train.images, data.validation.images])
    read = idx_array((small_fashion / "train-images-idx3-ubyte").read_bytes(), 3, "")
    assert sorted(map(bytes, whole)) == sorted(map(bytes, read)), (
        "train and validation together are the training file"
    )
    assert (
        data.test.images.tobytes()
        == idx_array((small_fashion / "t10k-images-idx3-ubyte").read_bytes(), 3, "").tobytes()
    )


def test_the_test_part_is_read_only_when_touched(small_fashion):
    data = load_images("fashion-mnist", log=lambda _: None)
    (small_fashion / "t10k-images-idx3-ubyte").write_bytes(b"changed meanwhile")
    with pytest.raises(InputError, match="t10k-images-idx3-ubyte"):
        _ = data.test


def test_the_seed_decides_the_validation_part_and_nothing_else():
    first, again, other = load("digits", seed=1), load("digits", seed=1), load("digits", seed=2)
    assert first.digest == again.digest != other.digest
    assert first.test.images.tobytes() == other.test.images.tobytes(), "no run trains on another's test"
    assert load("digits", validation=0).validation.images.shape == (0, 1, 8, 8)


def test_digits_are_the_known_ones():
    data = load_images("digits")
    assert len(data.train) + len(data.validation) + len(data.test) == 1797
    assert int(data.train.images.max()) == 255
    # The split of seed 0 is part of the promise: a newer NumPy must draw the same.
    assert data.digest == "1b2d330c91a663d001179273ef3a64f8819b24f5ab7801e5cb25f250d9fc3037"


def test_the_moments_are_those_of_the_training_images():
    import torch

    data = load_images("digits")
    scaled = data.train.images / 255
    assert data.mean == pytest.approx([scaled.mean()])
    assert data.std == pytest.approx([scaled.std()])
    images, labels = data.train.tensors()
    assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
    normalised = data.normalise(images)
    assert normalised.dtype == torch.float32
    assert float(normalised.mean()) == pytest.approx(0, abs=1e-5)
    assert float(normalised.std()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("share", [-0.1, 1, 2])
def test_a_share_that_is_none(share):
    with pytest.raises(InputError, match="expected a share"):
        load("digits", validation=share)


def test_idx_files_are_checked():
    good = idx(np.arange(8).reshape(2, 2, 2))
    assert idx_array(good, 3, "f").tolist() == np.arange(8).reshape(2, 2, 2).tolist()
    for bad in (good[:-1], good + b"x", b"", good[:6], b"\x00\x00\x09\x03" + good[4:]):
        with pytest.raises(InputError, match="f: "):
            idx_array(bad, 3, "f")
    huge = bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 2**32 - 1)
    with pytest.raises(InputError, match="cut short"):
        idx_array(huge, 3, "f")


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        (("images", "labels"), (20, 5, 6)),
        (("x_train", "y_train"), (20, 5, 6, 3)),
        (("train_images", "train_labels"), (20, 3, 5, 6)),
        (("x", "y"), (20, 1, 5, 6)),
    ],
)
def test_npz_of_several_makers(tmp_path, names, shape):
    values = rng.integers(0, 256, shape, dtype=np.uint8)
    np.savez(tmp_path / "own.npz", **{names[0]: values, names[1]: (np.arange(20) % 2)[:, None]})
    data = load_images(tmp_path / "own.npz")
    assert data.size == (5, 6)
    assert data.channels == (3 if 3 in shape else 1)
    assert len(data.train) + len(data.validation) + len(data.test) == 20
    assert data.classes == ("0", "1")


def test_npz_with_parts_classes_and_floats(tmp_path):
    images = np.linspace(0, 1, 16).reshape(4, 2, 2)
    labels = np.array([0, 1, 0, 1])
    np.savez_compressed(
        tmp_path / "own.npz",
        train_images=images,
        train_labels=labels,
        val_images=images,
        val_labels=labels,
        test_images=images,
        test_labels=labels,
        classes=np.array(["cat", "dog"]),
    )
    data = load_images(tmp_path / "own.npz")
    assert data.classes == ("cat", "dog")
    assert [len(part) for part in (data.train, data.validation, data.test)] == [4, 4, 4]
    assert data.train.images[3, 0, 1, 1] == 255


def bad_npz(path, kind):
    if kind == "object":
        np.savez(path, images=np.array([{"a": 1}], object), labels=np.array([0]))
    elif kind == "names":
        np.savez(path, pixels=np.zeros((2, 2, 2), np.uint8))
    elif kind == "lies":
        with zipfile.ZipFile(path, "w") as archive:
            for name in ("images", "labels"):
                head = io.BytesIO()
                np.lib.format.write_array_header_1_0(
                    head, {"descr": "|u1", "fortran_order": False, "shape": (10**12, 28, 28)}
                )
                archive.writestr(f"{name}.npy", head.getvalue())
    elif kind == "bzip2":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
            for name in ("images", "labels"):
                archive.writestr(f"{name}.npy", bytes(5_000_000))
    elif kind == "range":
        np.savez(path, images=np.full((2, 2, 2), 1000), labels=np.array([0, 1]))
    elif kind == "counts":
        np.savez(path, images=np.zeros((3, 2, 2), np.uint8), labels=np.array([0, 1]))
    elif kind == "one class":
        np.savez(path, images=np.zeros((3, 2, 2), np.uint8), labels=np.array([0, 0, 0]))
    elif kind == "negative":
        np.savez(path, images=np.zeros((3, 2, 2), np.uint8), labels=np.array([0, -1, 1]))
    elif kind == "billion":
        np.savez(path, images=np.zeros((3, 2, 2), np.uint8), labels=np.array([0, 10**9, 1]))
    elif kind == "beyond int64":
        np.savez(path, images=np.zeros((3, 2, 2), np.uint8), labels=np.array([0, 2**63, 1], np.uint64))
    elif kind == "single label":
        np.savez(path, images=np.zeros((3, 2, 2), np.uint8), labels=np.array(3))
    elif kind == "strings":
        np.savez(path, images=np.full((3, 2, 2), "0.5"), labels=np.array([0, 1, 1]))
    elif kind == "empty":
        np.savez(path, images=np.zeros((0, 2, 2), np.uint8), labels=np.zeros(0, int))
    else:
        path.write_bytes(b"not a zip file")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("object", "cannot be read safely"),
        ("names", "holds pixels. Expected one of: train_images with train_labels"),
        ("lies", "unpacks to"),
        ("bzip2", "images is packed in a way that numpy never does"),
        ("range", "from 1000 to 1000. Expected bytes"),
        ("counts", "3 images but 2 labels"),
        ("one class", "every image is of one class, '0'"),
        ("negative", "labels: labels run from -1 to 1"),
        ("billion", "labels: labels run from 0 to 1000000000. Expected the numbers of the classes"),
        ("beyond int64", "labels run from 0 to 9223372036854775808"),
        ("single label", "labels is a single value of int64"),
        ("strings", "images holds <U3. Expected bytes"),
        ("empty", "Expected image x height x width"),
        ("text", "cannot be read as .npz"),
    ],
)
def test_bad_npz(tmp_path, kind, expected):
    path = tmp_path / "bad.npz"
    bad_npz(path, kind)
    with pytest.raises(InputError) as error:
        load(path)
    assert expected in str(error.value)
    assert "bad.npz" in str(error.value)


def test_an_npz_that_unpacks_to_gigabytes(tmp_path, monkeypatch):
    monkeypatch.setattr("headwork.data.image_files.MAX_BYTES", 1_000_000)
    np.savez_compressed(
        tmp_path / "bomb.npz", images=np.zeros((2, 1000, 1000), np.uint8), labels=np.array([0, 1])
    )
    assert (tmp_path / "bomb.npz").stat().st_size < 10_000
    with pytest.raises(TooLarge, match="unpacks to"):
        load(tmp_path / "bomb.npz")


def picture(path, colour, size=(8, 6), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


@pytest.fixture
def photos(tmp_path):
    for number in range(6):
        picture(tmp_path / "photos/red" / f"{number}.png", "red")
        picture(tmp_path / "photos/blue" / f"{number}.bmp", "blue")
    return tmp_path / "photos"


def test_a_folder_of_images_by_class(photos):
    (photos / "red/notes.txt").write_text("not an image")
    (photos / ".hidden").mkdir()
    data = load(str(photos))
    assert isinstance(data, Images)
    assert data.classes == ("blue", "red")
    assert (data.channels, data.size) == (3, (6, 8))
    image = data.train.images[data.train.labels == 0][0]
    assert image[:, 0, 0].tolist() == [0, 0, 255]
    assert data.notes[0] == "1 files whose names are not those of images were left out"


def test_a_folder_with_parts(tmp_path):
    for part in ("train", "val", "test"):
        for name in ("a", "b"):
            picture(tmp_path / part / name / "1.png", 200, mode="L")
    data = load_images(tmp_path)
    assert data.channels == 1
    assert [len(part) for part in (data.train, data.validation, data.test)] == [2, 2, 2]
    picture(tmp_path / "test/c/1.png", 200, mode="L")
    with pytest.raises(InputError, match=r"unknown class in .*test 'c'"):
        load_images(tmp_path)


def test_images_of_different_sizes_need_one(photos):
    picture(photos / "red/big.png", "red", size=(40, 20))
    with pytest.raises(InputError, match=r"big\.png is 20 x 40 pixels .*--size 32 \(train: --set size=32\)"):
        load(photos)
    assert load_images(photos, size=5).size == (5, 5)


def test_a_damaged_picture_is_named(photos):
    Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).save(photos / "red/0.png")
    (photos / "red/0.png").write_bytes((photos / "red/0.png").read_bytes()[:100])
    with pytest.raises(InputError, match=r"red/0\.png: damaged"):
        load(photos)
    (photos / "red/0.png").write_bytes(b"<svg/>")
    with pytest.raises(InputError, match=r"red/0\.png: not an image"):
        load(photos)


def enormous_png(width, height):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [9_000, 12_000, 100_000])
def test_an_enormous_picture_is_refused_by_its_head(photos, side):
    (photos / "red/0.png").write_bytes(enormous_png(side, side))
    with pytest.raises(TooLarge, match=r"red/0\.png.*at most 30,000,000"):
        load_images(photos, size=8)


def test_a_folder_of_one_class_or_none(tmp_path):
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="no folder per class"):
        load(tmp_path / "none")
    for number in range(3):
        picture(tmp_path / "one/only" / f"{number}.png", "red")
    with pytest.raises(InputError, match="every image is of one class, 'only'"):
        load(tmp_path / "one")
    (tmp_path / "one/empty").mkdir()
    with pytest.raises(InputError, match="empty: holds no images"):
        load(tmp_path / "one")


def test_pictures_of_every_mode(tmp_path):
    Image.new("RGBA", (2, 2), (255, 0, 0, 0)).save(tmp_path / "clear.png")
    assert read_image(tmp_path / "clear.png")[:, 0, 0].tolist() == [255, 255, 255], (
        "what is clear shows white paper"
    )
    Image.fromarray(np.full((2, 2), 0x8000, np.uint16)).save(tmp_path / "deep.png")
    assert read_image(tmp_path / "deep.png", channels=1).tolist() == [[[128, 128], [128, 128]]]
    Image.new("P", (2, 2), 0).save(tmp_path / "palette.gif")
    assert read_image(tmp_path / "palette.gif", channels=1, size=(4, 3)).shape == (1, 4, 3)


def test_images_are_not_texts(tmp_path):
    with pytest.raises(InputError, match="holds images; texts are needed"):
        load_texts("digits")
    (tmp_path / "t.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 10)
    with pytest.raises(InputError, match="holds texts; images are needed"):
        load_images(tmp_path / "t.csv")


def test_options_for_other_kinds_of_data_are_refused(photos, tmp_path):
    (tmp_path / "t.csv").write_text("text,label\n" + "good,1\nbad,0\n" * 10)
    np.savez(tmp_path / "own.npz", images=np.zeros((9, 2, 2), np.uint8), labels=np.arange(9) % 2)
    with pytest.raises(InputError, match="photos: holds images; columns are for texts"):
        load(photos, columns=("a", "b"))
    for file in ("t.csv", "own.npz"):
        with pytest.raises(InputError, match=f"{file}: a size is for a folder of images"):
            load(tmp_path / file, size=3)


def test_whether_the_test_part_was_given(photos, tmp_path):
    assert not load("digits").has_test_part
    assert not load(photos).has_test_part
    for part in ("train", "test"):
        for name in ("a", "b"):
            for number in "12":
                picture(tmp_path / "own" / part / name / f"{number}.png", 200, mode="L")
    assert load(tmp_path / "own").has_test_part


def test_names_that_are_not_known(tmp_path):
    with pytest.raises(InputError, match="Did you mean 'fashion-mnist'"):
        load("fashion-mnits")
    with pytest.raises(InputError, match="pretrained encoder, not data"):
        load("minilm")
    (tmp_path / "x.xlsx").write_text("")
    with pytest.raises(InputError, match="kind of data file"):
        load(tmp_path / "x.xlsx")
    with pytest.raises(InputError, match="--from is for a set of the catalog"):
        load(tmp_path / "x.xlsx", from_folder=tmp_path)
