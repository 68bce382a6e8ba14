"""The native kernel, compiled for its sizes on first use, by the machine's own compiler, into the cache.

A compiled file is named by the digest of all that decides it: source, flags, sizes, compiler, processor. It
is written whole beside its own digest, and only what agrees with that is loaded. Nothing is compiled at
import.
"""

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from headwork.errors import HeadworkError, InputError
from headwork.files import cache_folder, open_file, read_bytes, write_atomic

SOURCES = ("encoder_block.cpp", "panels.h")
PANEL_WIDTH, MAX_TOKENS, MAX_WIDTH = 16, 1024, 1024  # the first is PANEL in panels.h
FLAGS = ("-std=c++17", "-O3", "-march=native", "-fopenmp", "-fPIC", "-shared")
VECTOR_BYTES = {"AVX512": 64, "AVX2": 32}
COMPILE_SECONDS = 300


class UnavailableError(HeadworkError):
    """There is no native kernel for these sizes, or on this machine."""


class Sizes(NamedTuple):
    """What the compiler knows of a block; so many ``outputs`` are computed of its tokens."""

    tokens: int
    outputs: int
    width: int
    heads: int
    hidden: int
    activation: Literal["relu", "gelu"]
    real: Literal["float", "double"] = "float"

    @property
    def kept(self) -> int:
        """How many numbers of an image the backward pass needs (``Kept`` in the source)."""
        keys, head = (-(-n // PANEL_WIDTH) * PANEL_WIDTH for n in (self.tokens, self.width // self.heads))
        inner = self.heads * head
        every, some = self.width + 3 * inner, inner + self.width + 2 * self.hidden + self.heads * keys
        return self.tokens * every + self.outputs * some + 2 * keys


@cache
def library(sizes: Sizes) -> ctypes.CDLL:
    """The compiled kernel; ``UnavailableError`` says why there is none."""
    if sizes.width % sizes.heads or sizes.width % PANEL_WIDTH or sizes.hidden % PANEL_WIDTH:
        raise UnavailableError(
            f"width {sizes.width}, hidden {sizes.hidden}: the native kernel takes multiples of {PANEL_WIDTH}"
        )
    if max(sizes.tokens, sizes.width, sizes.hidden // 4) > MAX_WIDTH:
        raise UnavailableError(f"the native kernel takes at most {MAX_TOKENS} tokens of width {MAX_WIDTH}")
    vector_bytes = VECTOR_BYTES.get(torch.backends.cpu.get_cpu_capability())
    if vector_bytes is None or not sys.platform.startswith("linux"):
        raise UnavailableError("the native kernel needs Linux and a processor with AVX2")
    compiler = shutil.which(os.environ.get("CXX") or "g++")
    if compiler is None:
        raise UnavailableError("no C++ compiler (g++) was found")
    sources = {name: files(__package__).joinpath(name).read_bytes() for name in SOURCES}
    defines = [
        f"-D{name.upper()}={value}" for name, value in sizes._asdict().items() if isinstance(value, int)
    ]
    defines += [f"-DREAL={sizes.real}", f"-DRELU={int(sizes.activation == 'relu')}"]
    flags = [*FLAGS, *defines, f"-DVECTOR_BYTES={vector_bytes}"]
    ingredients = repr((flags, _compiler_version(compiler), platform.machine(), _processor())).encode()
    name = hashlib.sha256(b"".join(sources.values()) + ingredients).hexdigest()[:24]
    loaded = ctypes.CDLL(str(_compiled_path(name, [compiler, *flags], sources)))
    loaded.kept_numbers.restype = int64 = ctypes.c_int64
    address, images_and_threads = ctypes.c_void_p, (int64, ctypes.c_int)
    loaded.forward_pass.argtypes = (address, address, ctypes.c_double, *images_and_threads, address, address)
    loaded.backward_pass.argtypes = (address, address, *images_and_threads, address, address, address)
    if loaded.kept_numbers() != sizes.kept:
        raise UnavailableError("the native kernel saves more or less for its backward pass than expected")
    return loaded


def _compiled_path(name: str, command: list[str], sources: dict[str, bytes]) -> Path:
    """The file of that name in the cache, compiled first where it is missing or damaged."""
    try:
        folder = cache_folder() / "native"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _compile_lock(folder):
            if (existing := _read_verified(folder / f"{name}.so")) is not None:
                return existing
            binary = _compile(command, sources)
            # The digest comes last: a file without one does not count.
            write_atomic(folder / f"{name}.so", binary)
            write_atomic(folder / f"{name}.sha256", hashlib.sha256(binary).hexdigest())
            return folder / f"{name}.so"
    except (InputError, OSError):  # the cache cannot be written, or there is no home
        target = Path(tempfile.mkdtemp(prefix="headwork-native-")) / f"{name}.so"
        return write_atomic(target, _compile(command, sources))


def _read_verified(path: Path) -> Path | None:
    with contextlib.suppress(InputError):
        digest = read_bytes(path.with_suffix(".sha256"), max_bytes=64).decode(errors="replace")
        if hashlib.sha256(read_bytes(path)).hexdigest() == digest:
            return path
    return None


@contextlib.contextmanager
def _compile_lock(folder: Path) -> Iterator[None]:
    """One process compiles at a time; the others wait and find what it compiled."""
    import fcntl

    with open_file(folder / ".lock", max_bytes=None, root=folder, for_locking=True) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _compile(command: list[str], sources: dict[str, bytes]) -> bytes:
    print("compiling the native kernel for these sizes (once, some seconds) ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="headwork-native-") as folder:
        for name, content in sources.items():
            (Path(folder) / name).write_bytes(content)
        result = _run([*command, SOURCES[0], "-o", "kernel.so"], folder)
        if result.returncode:
            lines = result.stderr.strip().splitlines()
            raise UnavailableError(f"the C++ compiler failed: {lines[0] if lines else result.returncode}")
        return (Path(folder) / "kernel.so").read_bytes()


@cache
def _compiler_version(compiler: str) -> str:
    return _run([compiler, "--version"]).stdout.partition("\n")[0]


def _run(command: list[str], folder: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=COMPILE_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"the C++ compiler failed: {error}") from None


@cache
def _processor() -> str:
    """The model and features of the processor, on which -march=native depends."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        fields = ("model name", "model", "flags")
        return "\n".join(
            next((x for x in lines if x.partition("\t")[0].strip() == name), "") for name in fields
        )
    return platform.processor()
