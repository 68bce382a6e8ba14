"""Files written whole and renamed into place, so that nobody ever meets half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from headwork.errors import InputError


def write_whole(path: str | Path, content: str | bytes) -> Path:
    """Write a file beside its place, then rename it there."""
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
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {error.strerror}. Choose another place with --out."
        ) from None
    return target


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_text(path: str | Path, *, most: int = 10_000_000) -> str:
    """A text file that a person names: UTF-8, and not larger than is sensible."""
    source = Path(path)
    try:
        size = source.stat().st_size
        if size > most:
            raise InputError(f"{source}: {size:,} bytes; at most {most:,} are read.")
        return source.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read: {error.strerror}.") from None
