"""Files of up to 10 MB made to harm, for every reader besides those of a class: little time, little memory.

Each reader works through its files in a process of its own, which says the seconds of processor time and the
megabytes that each took. The quick test holds the same files at a few kilobytes.
"""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headwork.errors import HeadworkError

MAX_SECONDS, MAX_MEGABYTES, LARGE = 5, 300, 9_900_000


# --- contents -------------------------------------------------------------------------------------------
def json_texts(size: int) -> dict[str, bytes]:
    many = {"empty lists": "[],", "lists": "[1],", "tables": '{"a":1},', "nested tables": '{"a":{}},'}
    many |= {"numbers": "1.5,", "integers": "7,", "texts": '"ab",', "nothing": "null,"}
    texts = {name: f"[{unit * (size // len(unit))}0]" for name, unit in many.items()}
    texts |= {
        "deep": "[" * size,
        "deep tables": '{"a":' * (size // 5),
        "closed": "[" * (size // 2) + "]" * (size // 2),
        "long number": "1" * size,
        "long decimal": "0." + "1" * size,
        "long text": json.dumps("a" * size),
        "escapes": '"' + "\\u0041" * (size // 6) + '"',
        "many keys": "{" + ",".join(f'"{n}":1' for n in range(size // 10)) + "}",
        "same keys": "{" + '"a":1,' * (size // 6) + '"a":1}',
        "open text": '"' + "a" * size,
        "not a number": "[" + "NaN," * (size // 4) + "Infinity]",
        "empty": "",
        "nothing at all": "null",
        "lines of lists": "[]\n" * (size // 3),
        "lines of tables": "{}\n" * (size // 3),
    }
    encoded = {name: text.encode() for name, text in texts.items()}
    return encoded | {
        "zeros": bytes(size),
        "no UTF-8": b"\xff" * size,
        "UTF-16": ("[1," * (size // 6)).encode("utf-16"),
    }


def toml_texts(size: int) -> dict[str, bytes]:
    size = min(size, 290_000)  # more is refused by its size
    texts = {
        "deep key": "a" + ".a" * (size // 2) + " = 1",
        "tables": "[[override]]\n" * (size // 13),
        "nested": "override = " + "[" * size,
        "numbers": f"override = [{'1,' * (size // 2)}]",
        "many keys": "\n".join(f"k{n} = 1" for n in range(size // 12)),
        "inline": "override = [" + "{a=1}," * (size // 6) + "]",
        "long": 'mechanism = "' + "a" * size + '"',
        "quotes": '"' * size,
        "entry": 'mechanism = "softmax"\n[inputs]\nscores = "' + "1 " * (size // 2) + '"',
    }
    return {name: text.encode() for name, text in texts.items()}


def table_texts(size: int) -> dict[str, bytes]:
    texts = {
        "rows": "text,label\n" + "a,b\n" * (size // 4),
        "labels": "text,label\n" + "".join(f"a,{n}\n" for n in range(size // 9)),
        "one field": 'text,label\n"' + "a" * size,
        "quotes": "text,label\n" + '""' * (size // 2),
        "columns": "text,label" + "," * size,
        "names": ",".join(f"c{n}" for n in range(size // 8)) + "\n1",
        "tabs": "text\tlabel\n" + "\t" * size,
        "lines": "\n" * size,
        "returns": "text,label\r" + "a,b\r" * (size // 4),
        "zeros": "text,label\n" + "\0" * size,
        "words": "text,label\n" + "a " * (size // 2) + ",1\nb,2\n",
        "JSON rows": '{"text": "a", "label": 1}\n' * (size // 26),
        "JSON depth": '{"text": ' + "[" * size,
        "JSON numbers": '{"text": ' + "1" * size + ', "label": 1}',
        "JSON keys": "{" + ",".join(f'"{n}":1' for n in range(size // 10)) + "}",
        "JSON lists": ('{"text": [' + "[]," * 3000 + '[]], "label": 1}\n') * (size // 9000),
    }
    return {name: text.encode() for name, text in texts.items()} | {
        "no UTF-8": b"text,label\n\xff" * (size // 12)
    }


def png(width: int, height: int, mode: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, mode, 0, 0, 0))
    parts = [chunk(kind, content) for kind, content in more]
    return b"\x89PNG\r\n\x1a\n" + head + b"".join(parts) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def images(size: int) -> dict[str, bytes]:
    from PIL import Image

    def saved(kind: str, mode: str, side: int, **options: Any) -> bytes:
        file = io.BytesIO()
        Image.new(mode, (side, side)).save(file, kind, **options)
        return file.getvalue()

    side = 5477 if size > 10**6 else 90  # as many pixels as are decoded
    drawn = saved("JPEG", "RGB", side, progressive=True)[:-2]
    scan = drawn[drawn.rindex(b"\xff\xda") :]
    squeezed = zlib.compress(bytes(side * (side * 3 + 1)), 9)
    text = b"a\0\0" + zlib.compress(bytes(20 * size), 9)
    frames = [Image.new("P", (side // 4, side // 4), n % 7) for n in range(20)]
    moving = io.BytesIO()
    frames[0].save(moving, "GIF", save_all=True, append_images=frames[1:])
    return {
        "as it says": png(side, side, 2, squeezed),
        "larger than it says": png(8, 8, 2, squeezed),
        "smaller than it says": png(side, side, 2, squeezed[:40]),
        "enormous": png(2**31 - 1, 2**31 - 1, 2, squeezed),
        "wide": png(30_000_000, 1, 0, zlib.compress(bytes(30_000_001))),
        "compressed text": png(8, 8, 2, zlib.compress(bytes(8 * 25)), *[(b"zTXt", text)] * 50),
        "many texts": png(8, 8, 2, zlib.compress(bytes(8 * 25)), *[(b"tEXt", b"a\0b")] * (size // 20)),
        "profile": png(8, 8, 2, zlib.compress(bytes(8 * 25)), (b"iCCP", text)),
        "scans": drawn + scan * ((size - len(drawn)) // len(scan)) + b"\xff\xd9",
        "progressive": drawn + b"\xff\xd9",
        "tall": png(1, side**2, 2, zlib.compress(bytes(4 * side**2), 9)),
        "transparent": saved("PNG", "RGBA", int(side / 1.74)),
        "photograph": saved("JPEG", "RGB", side),
        "four colours": saved("JPEG", "CMYK", int(side / 1.74)),
        "web": saved("WEBP", "RGB", side // 2),
        "bitmap": saved("BMP", "L", side // 3),
        "scan": saved("TIFF", "RGB", side, compression="tiff_lzw"),
        "moving": moving.getvalue(),
        "noise": os.urandom(size),
        "zeros": bytes(size),
        "header only": b"\x89PNG\r\n\x1a\n" + bytes(size),
    }


def archives(size: int) -> dict[str, bytes]:
    def packed(*members: tuple[str, bytes]) -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, content in members:
                archive.writestr(name, content)
        return file.getvalue()

    def array(value: Any) -> bytes:
        file = io.BytesIO()
        np.save(file, value)
        return file.getvalue()

    def claims(shape: Any, dtype: str) -> bytes:
        head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head

    labels, small = ("labels.npy", array(np.arange(8) % 2)), ("images.npy", array(np.zeros((8, 4, 4), "u1")))
    large = np.zeros((8, size), "u1")
    return {
        "zeros": packed(labels, ("images.npy", array(large.reshape(8, -1, 1)))),
        "decimals": packed(labels, ("images.npy", claims((8, 4, size // 32), "<f8") + bytes(8 * size))),
        "many images": packed(
            ("images.npy", array(np.zeros((size, 1, 1), "u1"))), ("labels.npy", array(np.zeros(size, "u1")))
        ),
        "claims": packed(labels, ("images.npy", claims((2**40, 2**20), "<f8"))),
        "negative": packed(labels, ("images.npy", claims((-1, 4, 4), "|u1"))),
        "objects": packed(labels, ("images.npy", claims((8, 4, 4), "|O") + bytes(100))),
        "long header": packed(
            labels, ("images.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", size) + b"(" * size)
        ),
        "many members": packed(labels, small, *((f"{n}.npy", b"") for n in range(size // 120))),
        "same member": packed(labels, small, *[("x.npy", bytes(1000))] * 20),
        "labels": packed(small, ("labels.npy", array(np.full(8, 2**62)))),
        "classes": packed(small, labels, ("classes.npy", claims((10,), "<U999999") + bytes(100))),
        "empty classes": packed(small, labels, ("classes.npy", claims((2**40,), "<U0"))),
        "no character": packed(small, labels, ("classes.npy", claims((1,), "<U1") + b"\xff" * 4)),
        "half a character": packed(small, labels, ("classes.npy", claims((1,), "<U1") + b"\x00\xd8\0\0")),
        "truth as a size": packed(labels, ("images.npy", claims((True, 4, 4), "|u1") + bytes(16))),
        "signs": packed(labels, ("images.npy", claims("-" * min(size, 9000) + "1", "|u1"))),
        "truncated": packed(labels, small)[:-30],
        "noise": b"PK\x03\x04" + os.urandom(size),
        "nothing": b"PK\x05\x06" + bytes(18),
    }


def tensors(size: int) -> dict[str, bytes]:
    def stored(header: bytes, data: bytes = b"", length: int | None = None) -> bytes:
        return (len(header) if length is None else length).to_bytes(8, "little") + header + data

    entry = '{"dtype":"F32","shape":[%s],"data_offsets":[0,%d]}'
    headers = {name: stored(text) for name, text in json_texts(size).items()}
    return headers | {
        "length": stored(b"{}", length=2**63),
        "as long as the file": stored(b"{" * size, length=size),
        "axes": stored(('{"x":' + entry % ("1," * (size // 4) + "1", 4) + "}").encode(), bytes(4)),
        "product": stored(('{"x":' + entry % (f"{2**40},{2**40}", 4) + "}").encode(), bytes(4)),
        "many": stored(
            ("{" + ",".join(f'"{n}":' + entry % ("0", 0) for n in range(size // 60)) + "}").encode()
        ),
        "halves": stored(
            b'{"x":{"dtype":"F16","shape":[%d],"data_offsets":[0,%d]}}' % (size, 2 * size), bytes(2 * size)
        ),
        "not finite": stored(('{"x":' + entry % (str(size), 4 * size) + "}").encode(), b"\xff" * 4 * size),
    }


def tokenizers(size: int) -> dict[str, bytes]:
    def with_model(**model: Any) -> bytes:
        return json.dumps({"version": "1.0", "model": model}).encode()

    words = {f"w{n}": n for n in range(size // 16)}
    pairs = [f"a{n} b" for n in range(size // 14)]
    return json_texts(size) | {
        "words": with_model(type="WordPiece", unk_token="[UNK]", vocab={"[UNK]": len(words), **words}),
        "merges": with_model(type="BPE", vocab={"a": 0}, merges=pairs),
        "long word": with_model(type="WordPiece", unk_token="[UNK]", vocab={"a" * size: 0, "[UNK]": 1}),
        "numbers": with_model(type="WordPiece", unk_token="[UNK]", vocab={"[UNK]": 10**300}),
        "added": json.dumps(
            {"added_tokens": [{"id": n, "content": "a"} for n in range(size // 24)], "model": {}}
        ).encode(),
        "expression": json.dumps(
            {"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(a+)+" * (size // 5)}}}
        ).encode(),
    }


# --- readers --------------------------------------------------------------------------------------------
def run_folder(folder: Path, name: str, data: bytes) -> Path:
    for other in ("config.json", "data.json", "metrics.jsonl", "result.json"):
        (folder / other).write_bytes(b"{}")
    (folder / name).write_bytes(data)
    return folder


def model_folder(folder: Path, name: str, data: bytes) -> Path:
    """A model of which the manifest lists the file as it is."""
    from headwork.model_files import manifest_bytes

    files = {
        "config.json": b'{"format": "headwork checkpoint 1"}',
        "model.safetensors": b"\2" + bytes(7) + b"{}",
    } | {name: data}
    for other, content in files.items():
        (folder / other).write_bytes(content)
    (folder / "manifest.json").write_bytes(data if name == "manifest.json" else manifest_bytes(files))
    return folder


def written(folder: Path, name: str, data: bytes) -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def readers() -> dict[str, tuple[Callable[[int], dict[str, bytes]], Callable[[Path, bytes], Any]]]:
    """Each kind of file: its contents, and its use."""
    import headwork
    import headwork.data.summaries
    from headwork import data, training
    from headwork.comparison import measurements
    from headwork.courses.cohort import read_overrides
    from headwork.data.image_files import read_image
    from headwork.readings.explaining import read_problem
    from headwork.tokenizer_files import read_tokenizer_json

    def load(name: str) -> Callable[[Path, bytes], Any]:
        return lambda folder, content: data.load(written(folder, name, content))

    def npz(folder: Path, content: bytes) -> Any:
        return data.summaries.data_document(data.load(written(folder, "a.npz", content)), 10, 0).to_html()

    def problem(folder: Path, content: bytes) -> Any:
        slug, values = read_problem(written(folder, "problem.toml", content))
        return headwork.explain(slug, **values)

    def measurement(folder: Path, content: bytes) -> Any:
        one = measurements.Measurement("x", {}, dict, 1.0)
        path = measurements.result_path(folder, one)
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content)
        return measurements.load(folder, one, lambda line: None)

    run_readers: dict[str, Callable[[Path], Any]] = {
        "config.json": training.load_run_config,
        "data.json": training.load_data_info,
        "metrics.jsonl": training.load_metrics,
        "result.json": training.Result.read,
    }
    found: dict[str, Any] = {
        "overrides": (toml_texts, lambda f, c: read_overrides(written(f, "overrides.toml", c))),
        "problem": (toml_texts, problem),
        "csv": (table_texts, load("a.csv")),
        "tsv": (
            lambda size: {name: text.replace(b",", b"\t") for name, text in table_texts(size).items()},
            load("a.tsv"),
        ),
        "jsonl": (table_texts, load("a.jsonl")),
        "parquet": (table_texts, load("a.parquet")),
        "npz": (archives, npz),
        "image": (images, lambda f, c: read_image(written(f, "a.png", c))),
        "tokenizer": (tokenizers, lambda f, c: read_tokenizer_json(c, "tokenizer.json")),
        "measurement": (json_texts, measurement),
    }
    for name, read in run_readers.items():
        found[f"run {name}"] = (json_texts, lambda f, c, n=name, r=read: r(run_folder(f, n, c)))
    for name, texts in (
        ("config.json", json_texts),
        ("manifest.json", json_texts),
        ("model.safetensors", tensors),
    ):
        found[f"model {name}"] = (texts, lambda f, c, n=name: headwork.load(model_folder(f, n, c)))
    return found


READERS = (
    "overrides",
    "problem",
    "csv",
    "tsv",
    "jsonl",
    "parquet",
    "npz",
    "image",
    "tokenizer",
    "measurement",
)
READERS += tuple(f"run {name}" for name in ("config.json", "data.json", "metrics.jsonl", "result.json"))
READERS += tuple(f"model {name}" for name in ("config.json", "manifest.json", "model.safetensors"))


def attempt(reader: str, content: bytes, folder: Path) -> str:
    try:
        readers()[reader][1](folder, content)
    except HeadworkError as error:
        return str(error)
    return "read"


PLACES = {"csv": "a.csv", "tsv": "a.tsv", "jsonl": "a.jsonl", "npz": "a.npz", "image": "a.png"}
PLACES |= {"overrides": "overrides.toml", "problem": "problem.toml"}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has none")
@pytest.mark.parametrize("reader", PLACES)
def test_a_pipe_or_an_endless_device_is_refused(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uses = readers()[reader][1]
    monkeypatch.setattr(sys.modules[__name__], "written", lambda folder, name, data: folder / name)
    place = tmp_path / PLACES[reader]
    os.mkfifo(place)
    for _ in range(2):  # a reader that blocks here is stopped by the suite's own limit
        with pytest.raises(HeadworkError, match=r"not a plain file|cannot be read"):
            uses(tmp_path, b"")
        place.unlink()
        place.symlink_to("/dev/zero")


@pytest.mark.parametrize("reader", READERS)
def test_a_hostile_file_is_read_or_refused_in_words(reader: str, tmp_path: Path) -> None:
    for name, content in readers()[reader][0](3_000).items():
        outcome = attempt(reader, content, tmp_path)
        assert len(outcome) <= 4_000, name


@pytest.mark.parametrize(
    ("lines", "told"), [(b"[]\n", "is a list. Expected a table"), (b"{}\n" * 8_001, "8,001 lines")]
)
def test_metrics_are_tables_and_not_too_many(lines: bytes, told: str, tmp_path: Path) -> None:
    from headwork import training

    with pytest.raises(HeadworkError, match=told):
        training.load_metrics(run_folder(tmp_path, "metrics.jsonl", lines))


def measure(reader: str, folder: Path) -> None:
    """Print what each file takes, each in a fork of a process that has loaded everything beforehand."""
    import time

    texts = readers()[reader][0]
    for content in texts(3_000).values():
        attempt(reader, content, folder)
    for name, content in texts(LARGE).items():
        if child := os.fork():
            os.waitpid(child, 0)
            continue
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        normal, begun = resident("VmRSS"), time.process_time()
        outcome = attempt(reader, content, folder)
        seconds, megabytes = time.process_time() - begun, resident("VmHWM") - normal
        print(f"{reader}, {name}: {seconds:.1f} s, {megabytes} MB, {outcome[-70:]!r}", flush=True)
        if seconds > MAX_SECONDS or megabytes > MAX_MEGABYTES:
            print("! too much", flush=True)
        os._exit(0)


def resident(field: str) -> int:
    """Megabytes of this process, now or at most."""
    return int(Path("/proc/self/status").read_text().split(f"{field}:")[1].split()[0]) // 1024


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")
@pytest.mark.parametrize("reader", READERS)
def test_a_large_hostile_file_takes_little_time_and_memory(reader: str, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from test_large_hostile_files import measure\n"
    code += "measure(sys.argv[1], Path(sys.argv[2]))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    command = [sys.executable, "-c", code, reader, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    assert "! too much" not in done.stdout
    assert len(done.stdout.splitlines()) == len(readers()[reader][0](3_000)), done.stderr[-2000:]
