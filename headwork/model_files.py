"""Checkpoints as files, without torch: one folder per model, verified whenever it is read.

``config.json`` (which model, and its config), ``model.safetensors`` (the parameters), ``tokenizer.json``
where the model has one, and ``manifest.json`` with the size and SHA-256 of each. A folder is written whole
under another name and renamed, so nobody ever reads half of one. Nothing is unpickled: that can run code.
"""

import hashlib
import json
import math
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwork.errors import HeadworkError, InputError, check_known, truncate
from headwork.files import MAX_JSON, open_file, parse_json, read_text, write_atomic
from headwork.libc import swap_directories

FORMAT = "headwork checkpoint 1"
MANIFEST, CONFIG = "manifest.json", "config.json"
PARAMETERS, TOKENIZER = "model.safetensors", "tokenizer.json"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt")
MAX_HEADER, MAX_AXES = 4_000_000, 64
BFLOAT16 = np.dtype([("bits", "<u2")])  # numpy has none: these are the upper halves of float32 numbers
DTYPES: dict[str, Any] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": BFLOAT16, "BOOL": "?", "I8": "i1"}
DTYPES |= {"I64": "<i8", "I32": "<i4", "I16": "<i2", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1"}


# --- safetensors --------------------------------------------------------------------------------
def read_tensors(data: bytes, where: str | Path) -> dict[str, NDArray[Any]]:
    """What a safetensors file holds, every number finite: views of ``data``, which cannot be written.

    >>> header = b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}'
    >>> read_tensors(len(header).to_bytes(8, "little") + header + bytes(8), "zeros")
    {'x': array([0., 0.], dtype=float32)}
    """
    try:
        stored = _parse_tensors(data)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where}: not a complete safetensors file ({error}). Fetch or save it again."
        ) from None
    for name, values in stored.items():
        bits = values["bits"] if values.dtype == BFLOAT16 else None
        finite = np.isfinite(values) if values.dtype.kind == "f" else bits is None or ~bits & 0x7F80 != 0
        if not np.all(finite):
            raise InputError(
                f"{where}: the tensor '{truncate(name, 200)}' holds numbers that are not finite (NaN or "
                "infinity), so nothing could be predicted. Fetch or train it again."
            )
    return stored


def half_to_float32(values: NDArray[Any]) -> NDArray[Any]:
    """Half precision as float32, everything else as it is."""
    if values.dtype == BFLOAT16:
        return (values["bits"].astype("<u4") << 16).view("<f4")
    return values.astype(np.float32) if values.dtype == np.float16 else values


def _parse_tensors(data: bytes) -> dict[str, NDArray[Any]]:
    """Each tensor as it lies in the file; a ValueError says what is wrong."""
    length = int.from_bytes(data[:8], "little")
    start = 8 + length
    if len(data) < 8 or start > min(len(data), MAX_HEADER):
        raise ValueError(f"{len(data):,} bytes with a header of {length:,}; at most {MAX_HEADER:,} are read")
    header = json.loads(data[8:start].decode(), object_pairs_hook=_without_repetition)
    if not isinstance(header, dict):
        raise ValueError("the header is not a table")
    header.pop("__metadata__", None)
    spans, result = [], {}
    for name, entry in header.items():
        what = f"the tensor '{truncate(name, 200)}'"
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError(f"{what} needs dtype, shape and data_offsets, and nothing else")
        code, shape, span = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(code, str) or code not in DTYPES:
            raise ValueError(
                f"{what} has the dtype {truncate(repr(code), 100)}; known are {', '.join(DTYPES)}"
            )
        sizes = [*shape, *span] if isinstance(shape, list) and isinstance(span, list) else [None]
        valid = all(type(size) is int and 0 <= size < 2**63 for size in sizes)
        if not valid or len(span) != 2 or len(shape) > MAX_AXES:
            raise ValueError(f"{what}: its shape or its data_offsets are not sizes")
        dtype, count = np.dtype(DTYPES[code]), math.prod(shape)
        if count * dtype.itemsize != span[1] - span[0]:
            raise ValueError(f"{what} of {count:,} numbers does not fit its {span[1] - span[0]:,} bytes")
        spans.append(span)
        result[name] = np.frombuffer(data, dtype, count, start + span[0]).reshape(shape)
    ends = [0, *(end for _, end in sorted(spans))]
    if [begin for begin, _ in sorted(spans)] != ends[:-1] or ends[-1] != len(data) - start:
        raise ValueError("its tensors overlap or leave gaps")
    return result


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


# --- a folder with a manifest -----------------------------------------------------------------
def to_json_bytes(data: Any) -> bytes:
    return (json.dumps(data, indent=2) + "\n").encode()


def manifest_bytes(files: Mapping[str, bytes]) -> bytes:
    """The size and SHA-256 of each file, as manifest.json lists them."""
    entries = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
    }
    return to_json_bytes({"format": FORMAT, "files": entries})


def write_folder(folder: str | Path, files: Mapping[str, bytes]) -> Path:
    """Write files and their manifest into a new folder, then rename it to its own name in one step."""
    if os.path.islink(folder):
        raise InputError(f"{folder}: a link, which is not followed. Choose another folder.")
    target = Path(folder).resolve()
    _check_replaceable(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        for name, data in files.items():
            write_atomic(temporary / name, data)
        write_atomic(temporary / MANIFEST, manifest_bytes(files))
        _sync_folder(temporary)
        _move_into_place(temporary, target)
        _sync_folder(target.parent)
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}. Choose another folder.") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def read_folder(
    folder: str | Path, *, needed: tuple[str, ...], optional: tuple[str, ...] = (), file_name: str = ""
) -> dict[str, bytes]:
    """The files of such a folder, or one of them, compared with the manifest before anybody looks inside."""
    path = Path(folder)
    refuse_pickles(path, needed)
    if not path.is_dir():
        raise InputError(f"{path}: no such folder. Give the folder that save_pretrained wrote.")
    entries = _read_manifest(path, (*needed, *optional))
    for name in needed:
        if name not in entries:
            raise InputError(f"{path / MANIFEST}: {name} is not listed, but a checkpoint needs it.")
    for name in optional:
        if (path / name).exists() and name not in entries:
            raise InputError(
                f"{path / MANIFEST}: {name} is there but not listed: it came from elsewhere. Remove it."
            )
    return {n: _read_verified(path / n, entry) for n, entry in entries.items() if file_name in ("", n)}


def refuse_pickles(path: Path, needed: tuple[str, ...] = ()) -> None:
    """A pickle is refused wherever it is offered as the model."""
    pickles = [path] if path.suffix in PICKLES else []
    if path.is_dir() and not all((path / name).exists() for name in needed):
        pickles += sorted(file for file in path.iterdir() if file.suffix in PICKLES)
    if pickles:
        raise InputError(
            f"{pickles[0]} is a pickle, which can run any code when it is opened, so it is not read. Ask for "
            "the safetensors file. If you trust it, convert it yourself: load it with torch.load(..., "
            "weights_only=True) and save it with safetensors.torch.save_file(state, 'model.safetensors')."
        )


def _read_manifest(path: Path, known_files: tuple[str, ...]) -> dict[str, Any]:
    where = path / MANIFEST
    if not where.exists():
        raise InputError(f"{path}: no {MANIFEST}, so this is not a checkpoint of Headwork.")
    data = parse_json(read_text(where, root=path), where)
    valid = isinstance(data, dict) and data.keys() == {"format", "files"}
    if not valid or not isinstance(data["files"], dict):
        raise InputError(f"{where}: expected 'format' and 'files', and nothing else.")
    if data["format"] != FORMAT:
        raise InputError(f"{where}: format {data['format']!r}, expected '{FORMAT}'.")
    entries: dict[str, Any] = data["files"]
    for name, entry in entries.items():
        check_known(f"file in {where}", name, known_files)
        if not isinstance(entry, dict) or entry.keys() != {"bytes", "sha256"}:
            raise InputError(f"{where}: {name} needs 'bytes' and 'sha256', and nothing else.")
    return entries


def _read_verified(path: Path, entry: Mapping[str, Any]) -> bytes:
    if not path.exists():
        raise InputError(
            f"{path}: missing, though the manifest lists it. Fetch or save the checkpoint again."
        )
    data = _read_whole_file(path, root=path.parent, expected=entry["bytes"])
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise InputError(f"{path}: damaged or changed: its SHA-256 is not the manifest's. Fetch it again.")
    return data


def _read_whole_file(path: Path, *, root: Path | None = None, expected: Any = None) -> bytes:
    """All bytes of a file, whose size is known if it is ours."""
    try:
        with open_file(path, max_bytes=None, root=root) as file:
            size = os.fstat(file.fileno()).st_size
            if expected is not None and size != expected:
                word = "truncated" if isinstance(expected, int) and size < expected else "the wrong size"
                raise InputError(
                    f"{path}: {word}: {size:,} bytes, the manifest says {expected}. Fetch it again."
                )
            return file.read()
    except (OSError, MemoryError) as error:
        raise InputError(f"{path}: cannot be read: {error or 'too large for the memory'}.") from None


def _check_replaceable(target: Path) -> None:
    """Only an older checkpoint may be replaced, and only if nobody put anything else beside it."""
    if not target.exists():
        return
    if not target.is_dir():
        raise InputError(f"{target} is a file. A checkpoint is a folder: choose another name.")
    ours = {MANIFEST, CONFIG, PARAMETERS, TOKENIZER}
    others = sorted(path.name for path in target.iterdir() if path.name not in ours)
    if others or (any(target.iterdir()) and not (target / MANIFEST).exists()):
        reason = f"it holds {others[0]}" if others else f"it has no {MANIFEST}"
        raise InputError(
            f"{target} is not a checkpoint of Headwork ({reason}): not replaced. Choose another folder."
        )


def _move_into_place(temporary: Path, target: Path) -> None:
    """Rename to the target's name. An older folder is exchanged in one step where the system can, so that at
    every moment one of the two is there, whole; what ``temporary`` then holds is the old one."""
    if not target.exists():
        os.rename(temporary, target)
    elif not swap_directories(temporary, target):
        old_name = temporary.with_name(f"{temporary.name}.old")
        os.rename(target, old_name)
        try:
            os.rename(temporary, target)
        except OSError:
            os.rename(old_name, target)
            raise
        os.rename(old_name, temporary)


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk only when its folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- a folder of the transformers library --------------------------------------------------------
def is_transformers_folder(path: Path) -> bool:
    """Whether the config is one of the transformers library."""
    try:
        return "model_type" in json.loads(read_text(path / CONFIG, max_bytes=MAX_JSON))
    except (HeadworkError, ValueError, TypeError, RecursionError):
        return False


def read_transformers_folder(path: Path) -> dict[str, bytes]:
    """The files of a folder of the transformers library, verified if it has a manifest of ours."""
    if (path / MANIFEST).exists():
        return read_folder(path, needed=(CONFIG, PARAMETERS), optional=(TOKENIZER,))
    refuse_pickles(path, (PARAMETERS,))
    if (path / f"{PARAMETERS}.index.json").exists():
        raise InputError(
            f"{path}: the parameters are split into several files. Save the model as one file first."
        )
    for name in (CONFIG, PARAMETERS):
        if not (path / name).is_file():
            raise InputError(
                f"{path}: {name} is missing. Give the folder of one model of the transformers library."
            )
    names = [name for name in (CONFIG, PARAMETERS, TOKENIZER) if (path / name).is_file()]
    return {name: _read_whole_file(path / name) for name in names}
