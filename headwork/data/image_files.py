"""Images from files: IDX (LeCun's format of MNIST), NumPy's .npz, a folder of images by class, one image.

Sizes are read and checked before anything is decoded; an image of more than MAX_PIXELS is refused, and so is
one that would be drawn over too often.
"""

import math
import struct
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from headwork.data.archives import DAMAGED_ZIP, UnreadableError, zip_member
from headwork.data.datasets import ImageSplit
from headwork.data.text_files import MAX_CLASSES, USER_FILES
from headwork.errors import InputError, TooLarge, unknown_name
from headwork.files import open_file

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 30_000_000
MAX_SIDE = 65_535  # as in JPEG; a row takes memory of its own, however short it is
MAX_SCANS = 100  # of a JPEG: each goes over all of its pixels; ten are usual
MAX_BYTES = 4_000_000_000  # of a whole set in memory
SMALL_NPZ = 10_000_000  # bytes: from a smaller file no large set is unpacked
MAX_NPY_HEADER = 10_000  # bytes of an array's header
ARRAY_NAMES, FOLDER_PARTS = USER_FILES["arrays"], USER_FILES["folders"]
FORMATS, SUFFIXES, GREY_MODES = USER_FILES["images"].values()


def idx_array(data: bytes, axes: int, name: str) -> NDArray[np.uint8]:
    """The bytes of an IDX file: two zeros, 8 for bytes, the number of axes, their sizes, the values.

    >>> idx_array(bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 7]), 1, "labels").tolist()
    [5, 7]
    """
    header = 4 + 4 * axes
    if len(data) < header or data[:4] != bytes((0, 0, 8, axes)):
        raise InputError(
            f"{name}: not an IDX file of bytes with {axes} axes; it starts with {data[:4].hex(' ')}."
        )
    shape = struct.unpack(f">{axes}I", data[4:header])
    if math.prod(shape) != len(data) - header:
        sizes = " x ".join(map(str, shape))
        raise InputError(
            f"{name}: its header promises {sizes} bytes; {len(data) - header:,} follow. "
            "The file is cut short."
        )
    # A copy, because torch wants memory that may be written.
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape).copy()


def npz_parts(path: Path) -> tuple[tuple[str, ...], dict[str, ImageSplit]]:
    """The classes and the parts (train, and if they are there validation and test) of an .npz file.

    Only what is used is unpacked, and by its header first: a few bytes of zip can be gigabytes of zeros.
    """
    headers = _npz_headers(path)
    held = {
        part: [pair for pair in pairs if headers.keys() >= set(pair)] for part, pairs in ARRAY_NAMES.items()
    }
    used = {part: pairs[0] for part, pairs in held.items() if pairs}
    if "train" not in used:
        known = ", ".join(f"{images} with {labels}" for images, labels in ARRAY_NAMES["train"])
        raise InputError(f"{path}: holds {', '.join(headers) or 'no arrays'}. Expected one of: {known}.")
    size, names = path.stat().st_size, [name for pair in used.values() for name in pair]
    unpacked = sum(math.prod(headers[name][0]) * headers[name][1].itemsize for name in names)
    rows = max(length for name in names for length in headers[name][0][:1] or (0,))
    most, max_rows = (80_000_000, 2**20) if size <= SMALL_NPZ else (32 * size, size)
    if unpacked > min(most, MAX_BYTES) or rows > max_rows:
        raise TooLarge(
            f"{path}: unpacks to {unpacked:,} bytes, far more than a file of {size:,} bytes should hold. "
            "Save fewer images, as bytes, or uncompressed with np.savez."
        )
    arrays = {name: _npy_array(path, name, *headers[name]) for name in names}
    parts = {}
    for part, (images, labels) in used.items():
        pixels = to_uint8(arrays[images], f"{path}: {images}")
        parts[part] = ImageSplit(pixels, _as_labels(arrays[labels], f"{path}: {labels}"))
    sizes = {part: split.images.shape[1:] for part, split in parts.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"{path}: the parts have images of different sizes: {sizes}.")
    shape, dtype = headers.get("classes", ((), np.dtype("U1")))
    if len(shape) == 1 and shape[0] * max(1, dtype.itemsize) <= MAX_CLASSES**2:
        classes = _npy_array(path, "classes", shape, dtype)
        with _damaged_npz(path):
            "".join(names := [str(name) for name in classes]).encode()
        return tuple(names), parts
    return tuple(map(str, range(1 + max(int(split.labels.max()) for split in parts.values())))), parts


def _npz_headers(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """The shape and dtype of each array that could be used, from its first bytes."""
    headers: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    usable_names = {"classes", *(name for pairs in ARRAY_NAMES.values() for pair in pairs for name in pair)}
    with open_file(path, max_bytes=None) as file, _damaged_npz(path), zipfile.ZipFile(file) as archive:
        for entry in (entry for entry in archive.infolist() if entry.filename.endswith(".npy")):
            headers[name := entry.filename[:-4]] = ((), np.dtype("u1"))
            if name in usable_names and entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Of bzip2 zipfile unpacks 4 kB at a time, which may be a gigabyte.
                raise InputError(f"{path}: {name} is packed in a way that numpy never does. Use np.savez.")
            if name in usable_names:
                with archive.open(entry) as member:
                    headers[name] = _npy_header(BytesIO(member.read(MAX_NPY_HEADER)))
    return headers


@contextmanager
def _damaged_npz(path: Path) -> Iterator[None]:
    try:
        yield
    except (*DAMAGED_ZIP, UnreadableError, struct.error) as error:
        raise InputError(f"{path}: cannot be read as .npz: {error}.") from None
    except (ValueError, SyntaxError, TokenError, RecursionError, MemoryError, SystemError) as error:
        # What numpy's reader of headers raises, and texts of numbers that no character has.
        reason = str(error) or "nested too deep"
        raise InputError(f"{path}: holds an array that cannot be read safely: {reason}.") from None


def _npy_header(file: BytesIO) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds objects, and to read those can run code")
    if any(isinstance(size, bool) for size in shape):  # which numpy takes for a number here, and later not
        raise ValueError(f"{shape} is not a shape")
    return shape, dtype


def _npy_array(path: Path, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of an array, of which no more is unpacked than its header promises."""
    size = math.prod(shape) * dtype.itemsize
    with _damaged_npz(path):
        member = BytesIO(zip_member(path, f"{name}.npy", size + MAX_NPY_HEADER))
        values: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return values


def to_uint8(images: NDArray[Any], name: str, *, any_channels: bool = False) -> NDArray[np.uint8]:
    """uint8 (image, channel, height, width) from grey or colour, channels first or last, bytes or 0 to 1.

    There are 1 or 3 channels, or, first, ``any_channels``.
    """
    if images.dtype.kind not in "fiu":
        raise InputError(f"{name} holds {images.dtype}. Expected bytes 0 to 255, or numbers 0.0 to 1.0.")
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim == 4 and images.shape[3] in (1, 3) and images.shape[1] not in (1, 3):
        images = images.transpose(0, 3, 1, 2)
    if images.ndim != 4 or not (any_channels or images.shape[1] in (1, 3)) or 0 in images.shape:
        raise InputError(
            f"{name} is {' x '.join(map(str, images.shape))}. "
            "Expected image x height x width, with 1 or 3 channels first or last."
        )
    if images.dtype == np.uint8:
        return np.ascontiguousarray(images)
    low, high = images.min(), images.max()
    if np.issubdtype(images.dtype, np.floating) and low >= 0 and high <= 1:
        return (images * 255).round().astype(np.uint8)
    if images.dtype.kind in "iu" and low >= 0 and high <= 255:
        return images.astype(np.uint8)
    raise InputError(
        f"{name} holds {images.dtype} from {low} to {high}. Expected bytes 0 to 255, or 0.0 to 1.0."
    )


def _as_labels(labels: NDArray[Any], name: str) -> NDArray[np.int64]:
    if labels.dtype.kind not in "iu" or labels.ndim == 0 or labels.size != len(labels) or labels.size == 0:
        shape = " x ".join(map(str, labels.shape)) or "a single value"
        raise InputError(f"{name} is {shape} of {labels.dtype}. Expected one whole number per image.")
    if labels.min() < 0 or labels.max() >= MAX_CLASSES:
        raise InputError(
            f"{name}: labels run from {labels.min()} to {labels.max()}. "
            f"Expected the numbers of the classes, 0 to at most {MAX_CLASSES - 1}."
        )
    return labels.reshape(-1).astype(np.int64)


def folder_parts(
    folder: Path, size: int | None = None
) -> tuple[tuple[str, ...], dict[str, ImageSplit], list[str]]:
    """The classes, parts and notes of a folder: CLASS/FILE, or train/CLASS/FILE and test/CLASS/FILE."""
    split = {FOLDER_PARTS[path.name]: path for path in _folders(folder) if path.name in FOLDER_PARTS}
    if "train" not in split:
        split = {"train": folder}
    classes = tuple(path.name for path in _folders(split["train"]))
    if not classes:
        raise InputError(
            f"{folder}: no folder per class. Expected {folder}/CLASS/IMAGE.png, for two or more classes."
        )
    listed: dict[str, list[tuple[Path, int]]] = {}
    left_out = 0
    for part, path in split.items():
        listed[part] = []
        for class_folder in _folders(path):
            if class_folder.name not in classes:
                raise unknown_name(f"class in {path}", class_folder.name, classes)
            files = sorted(p for p in class_folder.iterdir() if p.is_file() and not p.name.startswith("."))
            images = [file for file in files if file.suffix.lower() in SUFFIXES]
            left_out += len(files) - len(images)
            if not images and part == "train":
                raise InputError(f"{class_folder}: holds no images ({', '.join(SUFFIXES)}).")
            listed[part] += [(file, classes.index(class_folder.name)) for file in images]
        if not listed[part]:
            raise InputError(f"{path}: holds no images ({', '.join(SUFFIXES)}).")
    channels, shape = _common_shape([file for files in listed.values() for file, _ in files], size)
    notes = [f"{left_out} files whose names are not those of images were left out"] if left_out else []
    return classes, {part: _decode(files, channels, shape) for part, files in listed.items()}, notes


def _folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _common_shape(files: list[Path], size: int | None) -> tuple[int, tuple[int, int]]:
    """Channels, height and width of all the images, from their headers alone."""
    grey = True
    shapes: dict[tuple[int, int], Path] = {}
    for file in files:
        with _open_file(file) as image:
            grey = grey and image.mode in GREY_MODES
            shapes.setdefault((image.height, image.width), file)
        if size is None and len(shapes) > 1:
            (before, first), (here, _) = shapes.items()
            raise InputError(
                f"{file} is {here[0]} x {here[1]} pixels (height, width), "
                f"{first} is {before[0]} x {before[1]}. Give one size for all, "
                "such as --size 32 (train: --set size=32): they are scaled and cropped to a square."
            )
    channels, shape = 1 if grey else 3, next(iter(shapes)) if size is None else (size, size)
    if len(files) * channels * shape[0] * shape[1] > MAX_BYTES:
        raise TooLarge(
            f"{len(files):,} images of {shape[0]} x {shape[1]} need more than {MAX_BYTES:,} bytes. "
            "Give a smaller --size (train: --set size=32)."
        )
    return channels, shape


def _decode(files: list[tuple[Path, int]], channels: int, shape: tuple[int, int]) -> ImageSplit:
    images = np.empty((len(files), channels, *shape), np.uint8)
    for index, (file, _) in enumerate(files):
        images[index] = read_image(file, channels=channels, size=shape)
    return ImageSplit(images, np.array([label for _, label in files], np.int64))


def read_image(
    path: str | Path, *, channels: int = 3, size: tuple[int, int] | None = None, resize: bool = True
) -> NDArray[np.uint8]:
    """One image as bytes (channel, height, width), grey or colour, scaled and cropped to ``size``.

    Without ``resize`` an image of another size is refused.
    """
    from PIL import Image, ImageOps

    with _open_file(Path(path)) as file:
        try:
            file.load()
            ImageOps.exif_transpose(file, in_place=True)
            image: Image.Image = file
            if image.mode in ("I;16", "I;16B", "I"):
                high_bytes = np.asarray(image) >> 8
                image = Image.fromarray(high_bytes.clip(0, 255).astype(np.uint8))
            if image.has_transparency_data:
                # What is transparent shows the paper behind it.
                layer = image if image.mode == "RGBA" else image.convert("RGBA")
                image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
            mode = "L" if channels == 1 else "RGB"
            image = image if image.mode == mode else image.convert(mode)
            if size is not None and (image.height, image.width) != size:
                if not resize:
                    raise InputError(
                        f"{path} is {image.height} x {image.width} pixels (height, width), "
                        f"the model takes {size[0]} x {size[1]}. With --resize it is scaled and cropped."
                    )
                image = ImageOps.fit(image, (size[1], size[0]))
        except InputError:
            raise
        except Exception as error:  # a damaged file can raise nearly anything from within a decoder
            raise InputError(f"{path}: damaged: {error}. Repair or delete it.") from None
        array = np.asarray(image, np.uint8)
    del file, image  # before the second copy
    return np.ascontiguousarray(array[None] if channels == 1 else array.transpose(2, 0, 1))


def _memory_per_pixel(image: "Image") -> int:
    """How much more memory a pixel takes than an opaque one of 8 bits, until the image is read."""
    if image.format == "WEBP":  # its decoder keeps whole pictures of its own
        return 4
    plain = image.mode in ("1", "L", "P", "RGB") and image.format != "GIF" and not image.has_transparency_data
    return 1 if plain else 3


@contextmanager
def _open_file(path: Path) -> Iterator["Image"]:
    with open_file(path, max_bytes=None) as file, open_image(file, path) as image:
        yield image


def open_image(file: BinaryIO, path: Path) -> "Image":
    """An image whose header was read: of a known format, not enormous."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError:
        raise TooLarge(
            f"{path}: too large; at most {MAX_PIXELS:,} pixels are decoded. Make it smaller."
        ) from None
    except Exception as error:  # as above: headers are damaged too
        reason = "" if isinstance(error, UnidentifiedImageError) else f": {error}"  # whose words name no path
        raise InputError(f"{path}: not an image that can be read ({', '.join(FORMATS)}){reason}.") from None
    most, scans = MAX_PIXELS // _memory_per_pixel(image), _count_scans(file, image)
    if scans > MAX_SCANS:
        image.close()
        raise TooLarge(
            f"{path}: a JPEG that is drawn over {scans:,} times; at most {MAX_SCANS} are decoded. "
            "Save it again."
        )
    if image.width * image.height > most or max(image.size) > MAX_SIDE:
        shape = f"{image.height} x {image.width}"
        image.close()
        raise TooLarge(
            f"{path}: {shape} pixels; of this kind at most {most:,} are decoded, "
            f"and {MAX_SIDE:,} in a row or a column. Make it smaller."
        )
    return image


def _count_scans(file: BinaryIO, image: "Image") -> int:
    """How often a JPEG is drawn over; 0 of another image."""
    if image.format not in ("JPEG", "MPO"):
        return 0
    offset = file.tell()
    file.seek(0)
    # The two bytes begin a scan; within one they do not occur.
    count = sum(piece.count(b"\xff\xda") for piece in iter(lambda: file.read(1 << 20), b""))
    file.seek(offset)
    return count
