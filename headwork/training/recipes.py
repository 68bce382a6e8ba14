"""Recipes: functions that return a whole run. A run is a frozen config, kept as ``config.json`` in the run's folder.

One recipe serves every number of epochs: only ``epochs``, and with it the length of the schedule, differs.
``changed`` sets any field by its dotted name, as ``--set model.width=96`` does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from headwork.data.catalog import CATALOG
from headwork.errors import InputError, unknown
from headwork.models import (
    ConvolutionalConfig,
    RecurrentConfig,
    TextClassifierConfig,
    TransformerConfig,
    VisionTransformerConfig,
)
from headwork.models.model import current_names
from headwork.models.recurrent import CELLS
from headwork.models.registry import classifier_config, classifier_configs
from headwork.numbers.options import read_option
from headwork.training.augmentation import Augmentation

FORMAT = "headwork run 1"
Precision = Literal["float32", "float64"]
ImageModel = VisionTransformerConfig | ConvolutionalConfig | RecurrentConfig

# Fields that the data, or another field, decides.
BY_THE_DATA = {"model.image", "model.channels", "model.classes"}
# What a pretrained encoder leaves open.
OPEN_WITH_ENCODER = {"model.dropout", "model.pooling", "model.kernel"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """What training needs to know.

    ``warm_up`` is a share of all steps; ``save_every`` counts steps; ``threads`` 0 leaves their number to torch.
    """

    task: ClassVar[str]

    data: str
    epochs: int = 10
    batch: int = 128
    learning_rate: float = 2e-3
    optimiser: Literal["adamw", "muon"] = "adamw"
    weight_decay: float = 0.05
    warm_up: float = 0.1
    smoothing: float = 0.1
    clipping: float = 1.0
    validation: float = 0.1
    seed: int = 0
    precision: Precision = "float32"
    compiled: bool = False
    threads: int = 0
    save_every: int = 200
    keep: int = 3

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for name in ("epochs", "batch", "save_every", "keep", "longest"):
            if name in hints:
                _check(name, getattr(self, name), whole=True, least=1)
        _check("seed", self.seed, whole=True)
        _check("threads", self.threads, whole=True)
        _check("learning_rate", self.learning_rate, above=True)
        _check("weight_decay", self.weight_decay)
        _check("clipping", self.clipping, above=True)
        for name in ("warm_up", "smoothing", "validation"):
            _check(name, getattr(self, name), below=1)
        if self.validation == 0:
            raise InputError("run: validation is 0. Hold out a share of the training examples, such as 0.1.")
        for entry in fields(self):
            if get_origin(hints[entry.name]) is Literal and getattr(self, entry.name) not in get_args(
                hints[entry.name]
            ):
                raise unknown(f"run: {entry.name}", getattr(self, entry.name), get_args(hints[entry.name]))
        model = getattr(self, "model", None)
        blocks = (
            isinstance(model, TransformerConfig) and getattr(model, "encoder", "transformer") == "transformer"
        )
        if self.optimiser == "muon" and not blocks:
            raise InputError(
                "run: optimiser is muon, which is for the blocks of a transformer. Take optimiser=adamw."
            )


@dataclass(frozen=True, kw_only=True)
class VisionRun(Run):
    """A classifier of images.

    ``size`` is the side to which the pictures of a folder are scaled, 0 is their own; ``start`` how a vision
    transformer begins: at random, or with heads that look at their neighbours as a convolution does.
    """

    task: ClassVar[str] = "vision"

    model: ImageModel = field(default_factory=VisionTransformerConfig)
    augmentation: Augmentation = field(default_factory=Augmentation)
    start: Literal["random", "convolution"] = "random"
    size: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check("size", self.size, whole=True, below=4097)
        if self.start == "convolution" and not isinstance(self.model, VisionTransformerConfig):
            raise InputError(
                "run: start is convolution, but only a vision transformer has heads. Take start=random."
            )


@dataclass(frozen=True, kw_only=True)
class TextRun(Run):
    """A classifier of texts; of more than ``longest`` tokens each loses its middle. ``encoder`` is a pretrained one."""

    task: ClassVar[str] = "text"

    model: TextClassifierConfig = field(default_factory=TextClassifierConfig)
    encoder: str = ""
    longest: int = 256
    columns: tuple[str, str] | None = None


def vision(data: str = "fashion-mnist", model: str = "transformer", **changes: Any) -> VisionRun:
    """Train on images: ``model`` is transformer, cnn, lstm, gru or rnn.

    >>> run = vision(epochs=50)
    >>> run.epochs, run.model.patch, run.model.depth, run.model.heads
    (50, 4, 6, 4)
    """
    slug = data.replace("_", "-").lower()
    data = slug if slug in CATALOG else data
    small = data == "digits"
    sizes: dict[str, int] = {"image": 8} if small else {}
    sizes |= {"transformer": {"patch": 2}, "cnn": {"depth": 2}}.get(model, {}) if small else {}
    made: dict[str, Any] = {"compiled": False}
    made["model"] = classifier_config("vision", model, kernel="fused", **sizes)
    if model == "transformer":
        made["compiled"] = not small  # on 8 x 8 images compiling takes longer than training
        made["start"] = "convolution" if data in ("digits", "fashion-mnist") else "random"
        made |= {"optimiser": "muon", "learning_rate": 3e-3}
    if small:
        # A digit turned over is another digit or none, and one pixel is an eighth of its size.
        still = Augmentation(flip=False, shift=0, erase=0.0)
        # Threads that wait for each other cost more than such small products.
        made |= {"epochs": 10, "batch": 32, "learning_rate": 3e-3, "augmentation": still, "threads": 1}
    return VisionRun(**{**made, "data": data, **changes})


def text(data: str = "imdb", model: str = "transformer", encoder: str = "", **changes: Any) -> TextRun:
    """Train on texts: ``model`` is transformer, cnn, lstm, gru or rnn; ``encoder`` a pretrained one instead.

    >>> text("imdb", "lstm").model.encoder, text("rotten-tomatoes", encoder="minilm").learning_rate
    ('lstm', 5e-05)
    """
    if encoder and model != "transformer":
        raise InputError(
            f"--model {model} with --encoder {encoder}: a pretrained encoder is the model. Leave one out."
        )
    made: dict[str, Any] = {
        "learning_rate": 1e-3,
        "epochs": 4,
        "batch": 32,
        "smoothing": 0.0,
        "encoder": encoder,
    }
    made["model"] = classifier_config(
        "text",
        model,
        vocabulary=8000,
        width=128,
        hidden=256,
        heads=4,
        depth=2,
        dropout=0.1,
        kernel="fused",
        bidirectional=model in CELLS,
    )
    if model == "transformer" and not encoder:
        made["model"] = replace(made["model"], vocabulary=30_000, dropout=0.3, word_dropout=0.5, ngrams=2**20)
        made |= {"epochs": 3, "longest": 512}
    if encoder:
        made |= {"learning_rate": 5e-5, "epochs": 3, "weight_decay": 0.01, "longest": 128}
    return TextRun(**{**made, "data": data, **changes})


RUNS: dict[str, type[Run]] = {"vision": VisionRun, "text": TextRun}


# --- setting fields -----------------------------------------------------------------------------

AnyRun = TypeVar("AnyRun", bound=Run)


def changed(run: AnyRun, settings: Iterable[str]) -> AnyRun:
    """The run with fields set by name, all at once.

    >>> changed(vision(), ["model.width=96", "augmentation.shift=1", "epochs=3"]).model.width
    96
    """
    found: dict[str, dict[str, Any]] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        path, value = path.strip(), value.strip()
        if not equals or not path:
            raise InputError(f"--set {setting!r}: expected field=value, such as --set model.width=96.")
        part, dot, name = path.rpartition(".")
        target = _part(run, part, path)
        (name,) = current_names(type(target), {name: value})
        path = part + dot + name
        _check_open(run, path)
        found.setdefault(part, {})[name] = read_option(get_type_hints(type(target))[name], value, where=path)
    for part in [part for part in found if part]:
        found.setdefault("", {})[part] = replace(getattr(run, part), **found[part])
    return replace(run, **found.get("", {}))


def settable(run: Run) -> list[str]:
    """Every field that can be set."""
    names = []
    for entry in fields(run):
        value = getattr(run, entry.name)
        inner = (
            [f"{entry.name}.{f.name}" for f in fields(value)]
            if hasattr(value, "__dataclass_fields__")
            else []
        )
        names += inner or [entry.name]
    return [name for name in names if name not in BY_THE_DATA and name not in ("data", "model.max_length")]


def _check_open(run: Run, path: str) -> None:
    if path in BY_THE_DATA:
        raise InputError(f"--set {path}: the data decides that.")
    if path == "model.max_length":
        raise InputError("--set model.max_length: set longest, to which each text is cut.")
    if path in ("data", "encoder", "model", "augmentation"):
        raise InputError(
            f"--set {path}: give it as --{path} NAME."
            if path != "augmentation"
            else f"--set {path}: set its fields, such as augmentation.shift=2."
        )
    if path not in settable(run):
        raise unknown("field to --set", path, settable(run))
    if (
        isinstance(run, TextRun)
        and run.encoder
        and path.startswith("model.")
        and path not in OPEN_WITH_ENCODER
    ):
        raise InputError(
            f"--set {path}: the pretrained encoder '{run.encoder}' decides that. "
            f"Open are {', '.join(sorted(OPEN_WITH_ENCODER))}."
        )


def _part(run: Run, part: str, path: str) -> Any:
    if not part:
        return run
    target = getattr(run, part, None)
    if target is None:
        raise unknown("field to --set", path, settable(run))
    return target


def _check(
    name: str,
    value: Any,
    *,
    whole: bool = False,
    least: float = 0,
    above: bool = False,
    below: float = math.inf,
) -> None:
    kind = int if whole else (int, float)
    good = isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
    if not good or value < least or (above and value <= least) or value >= below:
        word = "a whole number" if whole else "a number"
        bounds = f"above {least:g}" if above else f"at least {least:g}"
        raise InputError(
            f"run: {name} is {value!r}. Give {word}, {bounds}{'' if below == math.inf else f', below {below:g}'}."
        )


# --- as JSON ------------------------------------------------------------------------------------


def as_text(run: Run) -> str:
    """The run as JSON.

    >>> read_run(as_text(vision()), "config.json") == vision()
    True
    """
    data = {"format": FORMAT, "task": run.task, **asdict(run)}
    data["model"] = {"kind": type(run.model).__name__, **data["model"]}  # type: ignore[attr-defined]
    return json.dumps(data, indent=2) + "\n"


def read_run(text: str, where: str) -> Run:
    """The run of a config.json; a field that is unknown is refused by its name."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InputError(f"{where}: not valid JSON ({error}).") from None
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise InputError(f"{where}: not the config of a run ('format' is not '{FORMAT}').")
    kind = RUNS.get(data.pop("task", None))
    model = data.get("model")
    if kind is None or not isinstance(model, dict) or model.get("kind") not in classifier_configs():
        raise InputError(f"{where}: its task or its model is none that is known.")
    make = classifier_configs()[model.pop("kind")]
    data["model"] = _made(make, model, f"{where}: model")
    if "augmentation" in data:
        data["augmentation"] = _made(Augmentation, data["augmentation"], f"{where}: augmentation")
    if data.get("columns") is not None:
        data["columns"] = tuple(data["columns"])
    return _made(kind, data, where)  # type: ignore[no-any-return]


def _made(kind: type, data: Mapping[str, Any], where: str) -> Any:
    known = [entry.name for entry in fields(kind)]
    data = current_names(kind, data)
    for name in data:
        if name not in known:
            raise unknown(f"field in {where}", name, known)
    return kind(**data)
