"""Files written whole and then renamed, so that nobody ever reads half of one."""

from __future__ import annotations

import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from headwork.errors import InputError


def write_atomic(path: str | Path, content: str | bytes) -> Path:
    """Write a temporary file beside the target, then rename it."""
    target = Path(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write {target}: {error.strerror}. Choose another --out.") from None
    return target


def read_text(path: str | Path, *, max_bytes: int = 10_000_000) -> str:
    """A text file that a person names: UTF-8, and not larger than is sensible."""
    source = Path(path)
    try:
        size = source.stat().st_size
        if size > max_bytes:
            raise InputError(f"{source}: {size:,} bytes; at most {max_bytes:,} are read.")
        return source.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}.") from None


def read_toml(path: str | Path, *, max_bytes: int = 10_000_000) -> dict[str, Any]:
    """A TOML file; a decimal stays text, so that 0.5 is 1/2 in exact work."""
    text = read_text(path, max_bytes=max_bytes)
    try:
        return tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f'{path}: not valid TOML: {error}. A matrix is written in quotes: tokens = "1 2; 2 0".'
        ) from None
    except (RecursionError, ValueError) as error:
        raise InputError(
            f"{path}: cannot be read as TOML ({type(error).__name__}): nested too deep, or a number too long."
        ) from None
