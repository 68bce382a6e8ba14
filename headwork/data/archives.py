"""Archives read defensively: named members as streams, sizes checked before anything is unpacked.

Every reader takes the most bytes that may come out and reads no further: a small file that unpacks to
gigabytes is refused. Nothing is extracted to the disk.
"""

import gzip
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import IO

from headwork.errors import HeadworkError

GZIP = b"\x1f\x8b"
DAMAGED_ZIP = (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, zlib.error)
# A compressed copy is never much larger than its content.
SLACK = 1 << 16


class UnreadableError(HeadworkError):
    """An archive or another source that does not hold what was asked of it; the message is the reason."""


def read_at_most(path: Path, max_bytes: int) -> bytes:
    """A whole file that must not be larger."""
    with path.open("rb") as file:
        return _read_bounded(file, max_bytes, str(path))


def gunzip(data: bytes, max_bytes: int, name: str) -> bytes:
    """The content of gzipped bytes.

    >>> gunzip(gzip.compress(b"abc"), 3, "abc.gz")
    b'abc'
    """
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            return _read_bounded(file, max_bytes, name)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"{name} is damaged: {error}") from None


def zip_member(path: Path, member: str, max_bytes: int) -> bytes:
    """One member of a zip file, such as a wheel."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = archive.getinfo(member).file_size
            if size > max_bytes:
                raise UnreadableError(
                    f"{path.name}: {member} unpacks to {size:,} bytes; at most {max_bytes:,} were expected"
                )
            with archive.open(member) as file:
                return _read_bounded(file, max_bytes, f"{path.name}: {member}")
    except KeyError:
        raise UnreadableError(f"{path.name} holds no {member}") from None
    except DAMAGED_ZIP as error:
        raise UnreadableError(f"{path.name} is damaged: {error}") from None


def deb_members(path: Path, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Members of a Debian package by their path without the leading ``./``, each at most so many bytes."""
    program = shutil.which("dpkg-deb")
    if program is None:
        raise UnreadableError(f"{path.name} cannot be read: dpkg-deb is not installed")
    with subprocess.Popen(
        [program, "--fsys-tarfile", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        try:
            members: dict[str, bytes] = {}
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for entry in archive:
                    name = entry.name.removeprefix("./")
                    file = archive.extractfile(entry) if name in sizes and entry.isreg() else None
                    if file is not None:  # links are not followed
                        members[name] = _read_bounded(file, sizes[name], f"{path.name}: {name}")
                    if len(members) == len(sizes):
                        break
        except (tarfile.TarError, OSError, EOFError) as error:
            raise UnreadableError(f"{path.name} is damaged: {error}") from None
        finally:
            process.kill()
    if missing := sorted(set(sizes) - set(members)):
        raise UnreadableError(f"{path.name} holds no {missing[0]}")
    return members


def _read_bounded(file: IO[bytes] | gzip.GzipFile, max_bytes: int, name: str) -> bytes:
    data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnreadableError(f"{name} is larger than the {max_bytes:,} bytes expected")
    return data
