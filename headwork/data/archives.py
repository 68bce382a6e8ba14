"""Archives read defensively: named members as streams, sizes checked before anything is unpacked, nothing extracted.

Every reader takes the most bytes that may come out and reads no further: a small file that unpacks to gigabytes
is refused.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

from headwork.errors import HeadworkError

GZIP = b"\x1f\x8b"
# A compressed copy is never much larger than its content.
SLACK = 1 << 16


class UnreadableError(HeadworkError):
    """An archive, or a place, that does not give what was asked of it; the message is the reason."""


def read_at_most(path: Path, most: int) -> bytes:
    """A whole file that must not be larger."""
    with path.open("rb") as file:
        return _bounded(file, most, str(path))


def unzipped(data: bytes, most: int, what: str) -> bytes:
    """The content of gzipped bytes.

    >>> unzipped(gzip.compress(b"abc"), 3, "abc.gz")
    b'abc'
    """
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            return _bounded(file, most, what)
    except (OSError, EOFError, zlib.error) as error:
        raise UnreadableError(f"{what} is damaged: {error}") from None


def wheel_member(path: Path, member: str, most: int) -> bytes:
    """One member of a wheel (a zip file)."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = archive.getinfo(member).file_size
            if size > most:
                raise UnreadableError(
                    f"{path.name}: {member} unpacks to {size:,} bytes; at most {most:,} were expected"
                )
            with archive.open(member) as file:
                return _bounded(file, most, f"{path.name}: {member}")
    except KeyError:
        raise UnreadableError(f"{path.name} holds no {member}") from None
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise UnreadableError(f"{path.name} is damaged: {error}") from None


def deb_members(path: Path, wanted: Mapping[str, int]) -> dict[str, bytes]:
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
            found = {}
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                for name, data in tar_files(archive, path.name, wanted):
                    found[name] = data
                    if len(found) == len(wanted):
                        break
        except (tarfile.TarError, OSError, EOFError) as error:
            raise UnreadableError(f"{path.name} is damaged: {error}") from None
        finally:
            process.kill()
    if missing := sorted(set(wanted) - set(found)):
        raise UnreadableError(f"{path.name} holds no {missing[0]}")
    return found


def tar_files(archive: tarfile.TarFile, what: str, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    """Those of the wanted files that an archive holds, in its own order; links are not followed."""
    for entry in archive:
        name = entry.name.removeprefix("./")
        if name not in wanted or not entry.isreg():
            continue
        if entry.size > wanted[name]:
            raise UnreadableError(
                f"{what}: {name} is {entry.size:,} bytes; at most {wanted[name]:,} were expected"
            )
        file = archive.extractfile(entry)
        if file is not None:
            yield name, _bounded(file, wanted[name], f"{what}: {name}")


def _bounded(file: object, most: int, what: str) -> bytes:
    data: bytes = file.read(most + 1)  # type: ignore[attr-defined]
    if len(data) > most:
        raise UnreadableError(f"{what} is larger than the {most:,} bytes expected")
    return data
