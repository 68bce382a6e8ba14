"""The source chain: cache, a folder that the user names, the system's package, the registries, the official address.

Each place is tried in that order and says on stderr what it does. A file is taken only when the digest of its
content is right, and is written whole into the cache: the platform's, or the folder that HEADWORK_CACHE names.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from headwork.data.archives import (
    GZIP,
    SLACK,
    UnreadableError,
    deb_members,
    read_at_most,
    unzipped,
    wheel_member,
)
from headwork.data.known import Address, File, Form, Installed, Known, Package, Place, known
from headwork.errors import InputError
from headwork.files import write_whole

Say = Callable[[str], None]
PATIENCE = 30  # seconds without a byte from an address
DOWNLOAD_TIME = 1800  # seconds for a package manager
CHUNK = 1 << 20


def tell(line: str) -> None:
    """A line on stderr: results alone go to stdout."""
    print(line, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """Where fetched files are kept: HEADWORK_CACHE, or the platform's place for caches."""
    if named := os.environ.get("HEADWORK_CACHE"):
        return Path(named).expanduser()
    try:
        home = Path.home()
    except RuntimeError:
        raise InputError("there is no home folder to keep data in. Set HEADWORK_CACHE to a folder.") from None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "headwork"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "headwork" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "headwork"


def fetch(name: str | Known, *, from_folder: str | Path | None = None, say: Say = tell) -> Path:
    """The folder in the cache that holds the files of a known set, fetched first if need be.

    ``from_folder`` is a folder (or one file) with files brought by hand: plain, gzipped, or the package itself.
    """
    wanted = known(name) if isinstance(name, str) else name
    folder = cache_folder() / wanted.folder
    if not wanted.forms:
        raise InputError(f"{wanted.name} is not fetched: {wanted.source}. Load it.")
    if from_folder is not None and not Path(from_folder).exists():
        raise InputError(f"--from {from_folder}: there is no such file or folder.")
    tried: list[str] = []

    def note(place: str, outcome: str) -> None:
        tried.append(f"{place}: {outcome}")
        say(f"{wanted.name}: {tried[-1]}")

    for form in wanted.forms:
        missing = _missing(folder, form, note)
        if not missing:
            say(f"{wanted.name}: from the cache, {folder}")
            return folder
    note(f"cache {folder}", "not there" if not folder.exists() else "not complete")
    for form in wanted.forms:
        missing = _missing(folder, form)
        for where, held, read in _readers(form, from_folder, say):
            if offered := [file for file in missing if held is None or file.name in held]:
                left = _take(folder, offered, where, read, note)
                missing = [file for file in missing if file not in offered or file in left]
        if not missing:
            say(f"{wanted.name}: digests right, kept in {folder}")
            return folder
    raise InputError(_not_had(wanted, folder, tried))


def cached(wanted: Known) -> bool:
    """Whether the files are there, judged by their sizes; ``fetch`` looks at the digests too."""
    folder = cache_folder() / wanted.folder
    return any(all(_size(folder / file.name) == file.size for file in form.files) for form in wanted.forms)


def cached_form(wanted: Known, folder: Path) -> Form:
    """The form whose files are in the folder."""
    return next(
        form for form in wanted.forms if all(_size(folder / file.name) == file.size for file in form.files)
    )


def content(folder: Path, file: File) -> bytes:
    """A fetched file, its digest checked again: disks forget."""
    try:
        data = read_at_most(folder / file.name, file.size)
        _check(file, data)
    except (UnreadableError, OSError) as error:
        raise InputError(f"{folder / file.name}: {error}. Delete it and fetch it again.") from None
    return data


class Reader(Protocol):
    """Yields those of the files that a place holds."""

    def __call__(self, files: list[File], /) -> Iterator[tuple[File, bytes]]: ...


def _missing(folder: Path, form: Form, note: Callable[[str, str], None] | None = None) -> list[File]:
    missing = []
    for file in form.files:
        path = folder / file.name
        if _size(path) < 0:
            missing.append(file)
            continue
        try:
            _check(file, read_at_most(path, file.size))
        except (UnreadableError, OSError) as error:
            missing.append(file)
            if note:
                note(f"cache {path}", f"not used: {error}")
    return missing


def _take(
    folder: Path, missing: list[File], where: str, read: Reader, note: Callable[[str, str], None]
) -> list[File]:
    """Put into the cache what a place holds of the missing files; what is missing still."""
    left = list(missing)
    try:
        for file, data in read(missing):
            _check(file, data)
            try:
                write_whole(folder / file.name, data)
            except InputError as error:
                reason = str(error).removesuffix(" Choose another place with --out.")
                raise InputError(
                    f"{reason} Set HEADWORK_CACHE to a folder with room that you may write to."
                ) from None
            left.remove(file)
    except (UnreadableError, OSError) as error:
        note(where, str(error))
    else:
        given = ", ".join(file.name for file in missing if file not in left)
        note(where, f"gave {given}" if given else "holds none of the files")
    return left


def _check(file: File, data: bytes) -> None:
    method, _, wanted = file.digest.partition(":")
    found = hashlib.new(method, data, usedforsecurity=False).hexdigest()
    if found != wanted:
        raise UnreadableError(
            f"{file.name} has {method} {found}, expected {wanted} ({len(data):,} bytes, expected {file.size:,})"
        )


def _readers(
    form: Form, from_folder: str | Path | None, say: Say
) -> Iterator[tuple[str, Mapping[str, str] | None, Reader]]:
    """The places of a form in the order in which they are tried: name, the files they hold if known, reader."""
    if from_folder is not None:
        named = Path(from_folder)
        yield f"--from {named}", None, lambda files: _from_folder(named, files, form.places)
    for place in form.places:
        match place:
            case Installed(folder):
                yield (
                    f"installed package {folder}",
                    None,
                    lambda files, at=Path(folder): _from_folder(at, files, ()),
                )
            case Package(manager, name, members):
                yield (
                    f"{manager} package {name}",
                    members,
                    lambda files, at=place: _from_registry(at, files, say),
                )
            case Address(addresses):
                yield (
                    f"address {_host(place)}",
                    addresses,
                    lambda files, at=place: _from_address(at, files, say),
                )


def _from_folder(folder: Path, files: list[File], places: tuple[Place, ...]) -> Iterator[tuple[File, bytes]]:
    """Files lying in a folder: plain, gzipped, or inside the package's own file."""
    if not folder.exists():
        raise UnreadableError("not there")
    beside = [folder] if folder.is_file() else sorted(path for path in folder.iterdir() if path.is_file())
    left = list(files)
    for file in files:
        for path in beside:
            if path.name in (file.name, f"{file.name}.gz"):
                left.remove(file)
                yield file, _plain(file, read_at_most(path, file.size + SLACK), str(path))
                break
    for package in places:
        if isinstance(package, Package):
            for path in beside:
                offered = [file for file in left if file.name in package.members]
                if offered and path.match(package.pattern):
                    yield from _from_package(package, path, offered)
                    left = [file for file in left if file not in offered]


def _from_package(package: Package, path: Path, files: list[File]) -> Iterator[tuple[File, bytes]]:
    if package.manager == "apt":
        found = deb_members(path, {package.members[file.name]: file.size + SLACK for file in files})
        for file in files:
            yield file, _plain(file, found[package.members[file.name]], f"{path.name}: {file.name}")
    else:
        for file in files:
            yield file, wheel_member(path, package.members[file.name], file.size)


def _plain(file: File, data: bytes, what: str) -> bytes:
    """Gzipped content is unpacked, unless the file itself is a gzipped one."""
    gzipped = data.startswith(GZIP) and not file.name.endswith(".gz")
    return unzipped(data, file.size, what) if gzipped else data


def _from_registry(package: Package, files: list[File], say: Say) -> Iterator[tuple[File, bytes]]:
    command = _download_command(package)
    with tempfile.TemporaryDirectory(prefix="headwork-") as temporary:
        folder = Path(temporary)
        say(f"  {package.command} ...")
        _run(command, folder)
        found = sorted(folder.glob(package.pattern))
        if not found:
            raise UnreadableError(f"{package.command} brought no {package.pattern}")
        yield from _from_package(package, found[0], files)


def _download_command(package: Package) -> list[str]:
    if package.manager == "apt":
        program = shutil.which("apt-get")
        if program is None:
            raise UnreadableError("apt-get is not installed")
        return [program, "download", package.name]
    # A wheel only, and nothing beside it: a source archive would run its own code to tell its name.
    return [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
        ".",
        package.name,
    ]


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=DOWNLOAD_TIME,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError(f"no answer within {DOWNLOAD_TIME // 60} minutes") from None
    except OSError as error:
        raise UnreadableError(f"cannot be run: {error.strerror}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        hint = (
            " (no package lists yet? As root: apt-get update)"
            if "Unable to locate package" in done.stderr
            else ""
        )
        raise UnreadableError(
            f"failed: {lines[-1].strip() if lines else f'exit code {done.returncode}'}{hint}"
        )


def _host(address: Address) -> str:
    return next(iter(address.files.values())).rpartition("/")[0]


def _from_address(address: Address, files: list[File], say: Say) -> Iterator[tuple[File, bytes]]:
    import http.client
    import urllib.error
    import urllib.request

    for file in files:
        where = address.files[file.name]
        say(f"  {where} ...")
        try:
            with urllib.request.urlopen(where, timeout=PATIENCE) as answer:
                data = _received(answer, file)
        except urllib.error.URLError as error:
            raise UnreadableError(f"no answer: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise UnreadableError(f"broke off: {error}") from None
        yield file, _plain(file, data, where)


def _received(answer: object, file: File) -> bytes:
    """What an address sends, with progress on a terminal and no more bytes than the file may have."""
    total = int(answer.headers.get("Content-Length") or 0)  # type: ignore[attr-defined]
    received = bytearray()
    while piece := answer.read(CHUNK):  # type: ignore[attr-defined]
        received += piece
        if len(received) > file.size + SLACK:
            raise UnreadableError(f"sends more than the {file.size:,} bytes expected")
        if sys.stderr.isatty():
            share = f" of {total / 1e6:.0f}" if total else ""
            print(f"\r  {len(received) / 1e6:.0f}{share} MB", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return bytes(received)


def _not_had(wanted: Known, folder: Path, tried: list[str]) -> str:
    listed = "\n".join(f"  {line}" for line in tried)
    ways = [way for form in wanted.forms for way in _ways(form)]
    by_hand = "\n".join(f"  {'ABCDEF'[place]}) " + "\n     ".join(way) for place, way in enumerate(ways))
    choice = "this" if len(ways) == 1 else "all of one letter"
    return (
        f"{wanted.name} could not be had. Tried:\n{listed}\n"
        f"To bring it by hand, do on a machine with a network {choice}:\n{by_hand}\n"
        f"copy what it brings into a folder here, and run: headwork data get {wanted.name} --from FOLDER"
    )


def _ways(form: Form) -> list[list[str]]:
    """What to do by hand for a form: a place that holds all its files is enough, the others are needed together."""
    ways, together = [], []
    for place in form.places:
        match place:
            case Package(_, _, held):
                way = [place.command]
            case Address(held):
                way = [f"download {where}" for where in held.values()]
            case _:
                continue
        if all(file.name in held for file in form.files):
            ways.append(way)
        else:
            together += way
    return [*ways, together] if together else ways


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
