"""Files that a person gave, read within limits; files of ours, written whole and then renamed.

Whoever reads a file goes through ``open_file`` (or ``read_bytes``, ``read_text``, ``read_toml``): only
regular files, so that no pipe blocks and no device is endless, and at most ``max_bytes``, checked before
reading. In a folder that is ours (a run, a model, answers) the caller names it as ``root``: nothing below it
may be a link. ``safe_file_name`` makes a file name of what a person typed.
"""

import itertools
import json
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import Any, BinaryIO

from headwork.errors import InputError, truncate

MAX_TEXT, MAX_JSON, MAX_TOML, MAX_NAME = 10_000_000, 3_000_000, 300_000, 64
MAX_KEY_DEPTH = 16  # of a.b.c = 1 in TOML, whose reader takes time and memory by its square
DEVICES = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)  # on Windows
_PART = r"""(?:[\w-]++|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"|'[^'\n]*+')[ \t]*+"""
_DEEP_KEY = re.compile(rf"(?<![^\s\[{{,]){_PART}(?:\.[ \t]*+{_PART}){{{MAX_KEY_DEPTH}}}")
_UNSEEN = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # what JSON leaves, and a terminal obeys
# What Windows lacks is not asked for there.
_NO_LINK, _NO_WAIT, _BINARY = (getattr(os, f"O_{n}", 0) for n in ("NOFOLLOW", "NONBLOCK", "BINARY"))


def safe_file_name(name: str) -> str:
    """A name for a file on every system: the name itself where it is plain, or else what is left of it.

    >>> [safe_file_name(name) for name in ("ada@l.org", "../../x", "Zoë", "nul.txt", "")]
    ['ada@l.org', 'x', 'Zo', '_nul.txt', '_']
    """
    plain = re.sub(r"[^A-Za-z0-9._@-]+", "-", name)[:MAX_NAME].strip(".-") or "_"
    return f"_{plain}" if DEVICES.fullmatch(plain) else plain


def refuse_links(path: str | Path, root: str | Path) -> None:
    """Refuse a link, and ``..``, anywhere below the folder ``root``: it might lead out of it."""
    folder = Path(root)
    if not Path(path).is_relative_to(folder):
        raise InputError(f"{path}: not in the folder {folder}, and nothing else is read here.")
    for part in Path(path).relative_to(folder).parts:
        folder /= part
        if part == ".." or os.path.islink(folder):
            raise InputError(f"{folder}: a link, which is not followed here. Put the file itself there.")


def cache_folder() -> Path:
    """The folder of fetched and compiled files: HEADWORK_CACHE, or the platform's own for caches."""
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


# --- reading ------------------------------------------------------------------------------------------
def open_file(
    path: str | Path,
    *,
    max_bytes: int | None = MAX_TEXT,
    root: str | Path | None = None,
    for_locking: bool = False,
) -> BinaryIO:
    """A regular file of at most ``max_bytes``, opened to be read; below ``root`` no link is followed.

    With ``for_locking`` the file is created if it is missing, and never truncated.
    """
    if root is not None:
        refuse_links(path, root)
    flags = (os.O_RDWR | os.O_CREAT if for_locking else os.O_RDONLY) | _NO_WAIT | _BINARY
    try:
        handle = os.open(path, flags | (_NO_LINK if root is not None else 0), 0o666)
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and (max_bytes is None or status.st_size <= max_bytes):
            return os.fdopen(handle, "rb")
        os.close(handle)
    except (OSError, ValueError) as error:  # a ValueError: a NUL in the name
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}.") from None
    if stat.S_ISREG(status.st_mode):
        raise InputError(f"{path}: {status.st_size:,} bytes; at most {max_bytes:,} are read.")
    raise InputError(f"{path}: not a plain file. Give a file, not a folder, a pipe or a device.")


def read_bytes(path: str | Path, *, max_bytes: int = MAX_TEXT, root: str | Path | None = None) -> bytes:
    """The bytes of a file that a person gave."""
    with open_file(path, max_bytes=max_bytes, root=root) as file:
        data = file.read(max_bytes + 1) or b""  # None: of a system's own file that would make us wait
    if len(data) > max_bytes:
        raise InputError(f"{path}: more than {max_bytes:,} bytes, which is the most that is read.")
    return data


def read_text(path: str | Path, *, max_bytes: int = MAX_TEXT, root: str | Path | None = None) -> str:
    """A text file that a person gave: UTF-8."""
    try:
        return read_bytes(path, max_bytes=max_bytes, root=root).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None


def load_package_toml(module: str, name: str) -> dict[str, Any]:
    """A TOML file of the package, beside the module (its ``__file__``) that reads it."""
    return tomllib.loads(Path(module).with_name(name).read_text("utf-8"))


def load_words(module: str) -> Callable[..., Any]:
    """A function that gives an entry of ``words.toml`` there by its path, filled in: a text of the package.

    ``text_of("gap/note", gap=24)`` is the entry ``note`` of ``[gap]``, with 24 for ``{gap}``; a table or a
    list is filled in throughout.
    """
    entries = load_package_toml(module, "words.toml")

    def fill(entry: Any, values: dict[str, Any]) -> Any:
        if isinstance(entry, dict):
            return {key: fill(part, values) for key, part in entry.items()}
        if isinstance(entry, list):
            return [fill(part, values) for part in entry]
        return entry.format(**values) if isinstance(entry, str) else entry

    def words(path: str, /, **values: Any) -> Any:
        return fill(reduce(dict.__getitem__, path.split("/"), entries), values)

    return words


def files_under(root: Path, parts: Iterable[str], needed: Callable[[str], bool]) -> dict[str, bytes]:
    """The files of a package by their names in an archive; ``parts`` are folders and files of it."""
    paths = [path for part in parts for path in (root / part, *sorted((root / part).rglob("*")))]
    named = {path.relative_to(root.parent).as_posix(): path for path in paths if path.is_file()}
    return {name: path.read_bytes() for name, path in named.items() if needed(name)}


def unused_path(path: Path) -> Path:
    """The path, or the first of path-2, path-3 ... that does not exist yet."""
    names = itertools.chain([path.name], (f"{path.name}-{count}" for count in itertools.count(2)))
    return next(free for name in names if not (free := path.with_name(name)).exists())


def read_toml(
    path: str | Path, *, max_bytes: int = MAX_TOML, root: str | Path | None = None
) -> dict[str, Any]:
    """A TOML file; a decimal stays text, so that 0.5 is 1/2 in exact work."""
    return parse_toml(read_text(path, max_bytes=max_bytes, root=root), path)


def parse_toml(text: str, where: str | Path) -> dict[str, Any]:
    """What a TOML text holds."""
    if deep := _DEEP_KEY.search(text):
        raise InputError(f"{where}: the key {truncate(deep[0], 40)} has more than {MAX_KEY_DEPTH} parts.")
    try:
        data = tomllib.loads(text, parse_float=str)
        json.dumps(data, default=str)  # an integer that is too long to be written is no answer to anything
        return data
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f'{where}: not valid TOML: {error}. A matrix is written in quotes: tokens = "1 2; 2 0".'
        ) from None
    except (RecursionError, ValueError) as error:
        raise InputError(
            f"{where}: cannot be read as TOML ({type(error).__name__}): nested too deep, "
            "or a number too long."
        ) from None


def toml_text(value: Any) -> str:
    """A string, number, boolean or list as TOML and Python write it: an emoji stays whole, unlike in JSON.

    >>> toml_text("🙂"), toml_text(1.5)
    ('"🙂"', '1.5')
    """
    return _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(value, ensure_ascii=False))


def parse_json(text: str | bytes, where: str | Path, *, max_bytes: int = MAX_JSON) -> Any:
    """What a JSON text holds; its parts may take ten times the memory of a text, which is bounded before."""
    if len(text) > max_bytes:
        raise InputError(f"{where}: {len(text):,} bytes of JSON; at most {max_bytes:,} are read.")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error}).") from None


# --- writing ------------------------------------------------------------------------------------------
def write_atomic(path: str | Path, content: str | bytes, *, root: str | Path | None = None) -> Path:
    """Write a temporary file beside the target, then rename it; below ``root`` no link is followed."""
    target = Path(path)
    # A lone surrogate, which JSON can hold and UTF-8 cannot, becomes a question mark.
    data = content.encode(errors="replace") if isinstance(content, str) else content
    temporary = target.parent / f".{target.name[:40]}.{secrets.token_hex(4)}"
    if root is not None:
        refuse_links(target, root)
    if os.path.exists(target) and not os.path.isfile(target):
        raise InputError(f"{target}: a folder, a pipe or a device, so it is not replaced. Name a file.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # The system applies the umask itself: to ask for it would change it for other threads.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BINARY, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise InputError(f"cannot write {target}: {reason}. Choose another --out.") from None
    return target
