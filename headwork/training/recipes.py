"""Recipes: functions that return a whole run, which is a frozen config, saved as ``config.json``.

One recipe serves every number of epochs: only ``epochs``, and with it the length of the schedule, differs.
``changed`` sets any field by its dotted name, as ``--set model.width=96`` does.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, TypeVar, get_type_hints

from headwork.data.catalog import get_entry
from headwork.documents import Code, Document
from headwork.errors import InputError, unknown_name
from headwork.files import load_package_toml, parse_json
from headwork.mechanisms import configs
from headwork.mechanisms.configs import VisionTransformerConfig, bounded, checked_settings, with_current_names
from headwork.mechanisms.definitions import classifier_config, classifier_configs
from headwork.mechanisms.images import CELL_KINDS
from headwork.numbers.options import read_option

FORMAT = "headwork run 1"
ImageModel = VisionTransformerConfig | configs.ConvolutionalConfig | configs.RecurrentConfig


@dataclass(frozen=True, kw_only=True)
class Augmentation:
    """``flip`` left and right, ``shift`` by up to so many pixels, ``erase`` a rectangle in some images."""

    flip: bool = True
    shift: int = bounded(1, at_least=0, below=10_000)
    erase: float = bounded(0.2, at_least=0, at_most=1)

    def __post_init__(self) -> None:
        configs.check_fields(self, "augmentation")

    @property
    def active(self) -> bool:
        return bool(self.flip or self.shift or self.erase)


RECIPES = load_package_toml(__file__, "recipes.toml")
NOT_SETTABLE: dict[str, str] = RECIPES["not_settable"]
# What a pretrained encoder leaves open.
SETTABLE_WITH_ENCODER = {"model.dropout", "model.pooling", "model.backend"}


@dataclass(frozen=True, kw_only=True)
class RunConfig(metaclass=configs.ConfigMeta):
    """What training needs to know.

    ``warm_up`` is a share of all steps; ``validation`` a share of the training examples, 0 trains on all of
    them; ``save_every`` counts steps; ``threads`` 0 leaves their number to torch.
    """

    OLD_NAMES: ClassVar[dict[str, str]] = {
        "batch": "batch_size",
        "smoothing": "label_smoothing",
        "clipping": "max_grad_norm",
        "keep": "keep_checkpoints",
    }
    task: ClassVar[str]

    data: str
    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = bounded(2e-3, above=0)
    optimiser: Literal["adamw", "muon"] = "adamw"
    weight_decay: float = bounded(0.05, at_least=0)
    warm_up: float = 0.1
    label_smoothing: float = 0.1
    max_grad_norm: float = bounded(1.0, above=0)
    validation: float = 0.1
    seed: int = bounded(0, at_least=0)
    precision: Literal["float32", "float64"] = "float32"
    compiled: bool = False
    threads: int = bounded(0, at_least=0, below=1025)
    save_every: int = 200
    keep_checkpoints: int = 3

    def __post_init__(self) -> None:
        configs.check_fields(self, "run")
        model_config = getattr(self, "model", None)
        of_blocks = isinstance(model_config, configs.TransformerConfig)
        of_blocks = of_blocks and getattr(model_config, "encoder", "transformer") == "transformer"
        if self.optimiser == "muon" and not of_blocks:
            raise InputError(
                "run: optimiser is muon, which is for the blocks of a transformer. Take optimiser=adamw."
            )


@dataclass(frozen=True, kw_only=True)
class VisionRunConfig(RunConfig):
    """A classifier of images.

    ``image_size`` is the side to which the images of a folder are scaled, 0 is their own. A vision
    transformer may start at random, or with heads that attend to their neighbours as a convolution does.
    """

    OLD_NAMES: ClassVar[dict[str, str]] = {"size": "image_size", "start": "initialisation"}
    task: ClassVar[str] = "vision"

    model: ImageModel = field(default_factory=VisionTransformerConfig)
    augmentation: Augmentation = field(default_factory=Augmentation)
    initialisation: Literal["random", "convolution"] = "random"
    image_size: int = bounded(0, at_least=0, below=4097)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.initialisation == "convolution" and not isinstance(self.model, VisionTransformerConfig):
            raise InputError(
                "run: initialisation is convolution, but only a vision transformer has heads. "
                "Take initialisation=random."
            )


@dataclass(frozen=True, kw_only=True)
class TextRunConfig(RunConfig):
    """A classifier of texts, whose middle is cut beyond ``max_length`` tokens."""

    OLD_NAMES: ClassVar[dict[str, str]] = {"longest": "max_length"}
    task: ClassVar[str] = "text"

    model: configs.TextClassifierConfig = field(default_factory=configs.TextClassifierConfig)
    encoder: str = ""  # the name or the folder of a pretrained one
    max_length: int = 256
    columns: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.columns is not None and (
            not isinstance(self.columns, tuple) or [type(name) for name in self.columns] != [str, str]
        ):
            raise InputError(f"run: columns is {self.columns!r}. Expected two names, of text and label.")


def vision(data: str = "fashion-mnist", model: str = "transformer", **changes: Any) -> VisionRunConfig:
    """The config of a run that trains on images: ``model`` is transformer, cnn, lstm, gru or rnn.

    >>> run = vision(epochs=50)
    >>> run.epochs, run.model.patch_size, run.model.depth, run.model.heads
    (50, 4, 6, 4)
    """
    entry = get_entry(data)
    data = entry.name if entry else data
    defaults = RECIPES["digits" if data == "digits" else "images"]
    recipe: dict[str, Any] = {**defaults["run"], **defaults.get(f"{model}-run", {})}
    if "augmentation" in recipe:
        recipe["augmentation"] = Augmentation(**recipe["augmentation"])
    if model == "transformer" and data in ("digits", "fashion-mnist"):
        recipe["initialisation"] = "convolution"
    recipe["model"] = classifier_config("vision", model, **{**defaults["model"], **defaults.get(model, {})})
    return VisionRunConfig(**{**recipe, "data": data, **with_current_names(VisionRunConfig, changes)})


def text(
    data: str = "imdb", model: str = "transformer", encoder: str = "", *, ngrams: bool = False, **changes: Any
) -> TextRunConfig:
    """The config of a run that trains on texts: ``model`` is transformer, cnn, lstm, gru or rnn.

    ``encoder`` is the name or the folder of a pretrained one, instead. ``ngrams`` adds a table of words,
    pairs and triples, each with logits of its own, as a linear model has.

    >>> text("imdb", "lstm").model.encoder, text("rotten-tomatoes", encoder="minilm").learning_rate
    ('lstm', 5e-05)
    """
    if encoder and (ngrams or model != "transformer"):
        other = "--ngrams" if ngrams else f"--model {model}"
        raise InputError(
            f"{other} with --encoder {encoder}: a pretrained encoder is the model. Leave one out."
        )
    defaults, kind = RECIPES["texts"], "ngrams" if ngrams and model == "transformer" else model
    fields = {"bidirectional": model in CELL_KINDS, "ngrams": 2**20 * ngrams}
    if not encoder:
        fields |= defaults.get(kind, {})
    recipe: dict[str, Any] = {**defaults["run"], **defaults.get(f"{'encoder' if encoder else kind}-run", {})}
    recipe["model"] = classifier_config("text", model, **{**defaults["model"], **fields})
    return TextRunConfig(
        **{**recipe, "data": data, "encoder": encoder, **with_current_names(TextRunConfig, changes)}
    )


RUN_CONFIGS: dict[str, type[RunConfig]] = {"vision": VisionRunConfig, "text": TextRunConfig}


# --- setting fields -----------------------------------------------------------------------------
AnyRun = TypeVar("AnyRun", bound=RunConfig)


def changed(run: AnyRun, settings: Iterable[str]) -> AnyRun:
    """A copy of the run with fields set by name, all at once.

    >>> changed(vision(), ["model.width=96", "augmentation.shift=1", "epochs=3"]).model.width
    96
    """
    changes: dict[str, dict[str, Any]] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        path, value = path.strip(), value.strip()
        if not equals or not path:
            raise InputError(f"--set {setting!r}: expected field=value, such as --set model.width=96.")
        part, dot, name = path.rpartition(".")
        target: Any = getattr(run, part, None) if part else run
        if target is None:
            raise unknown_name("field to --set", path, settable(run))
        (name,) = with_current_names(type(target), {name: value})
        path = part + dot + name
        _check_settable(run, path)
        hint = get_type_hints(type(target))[name]
        changes.setdefault(part, {})[name] = read_option(hint, value, where=path)
    top = changes.pop("", {})
    parts = {part: replace(getattr(run, part), **inner) for part, inner in changes.items()}
    return replace(run, **top, **parts)


def settable(run: RunConfig) -> list[str]:
    """Every field that can be set."""
    names = []
    for entry in fields(run):
        value = getattr(run, entry.name)
        inner = fields(value) if is_dataclass(value) else ()
        names += [f"{entry.name}.{part.name}" for part in inner] or [entry.name]
    return [name for name in names if name not in NOT_SETTABLE]


def _check_settable(run: RunConfig, path: str) -> None:
    encoder = run.encoder if isinstance(run, TextRunConfig) else ""
    if path in NOT_SETTABLE:
        raise InputError(f"--set {path}: {NOT_SETTABLE[path]}.")
    if path not in settable(run):
        raise unknown_name("field to --set", path, settable(run))
    if encoder and path.startswith("model.") and path not in SETTABLE_WITH_ENCODER:
        known = ", ".join(sorted(SETTABLE_WITH_ENCODER))
        raise InputError(
            f"--set {path}: the pretrained encoder '{encoder}' decides that. These can be set: {known}."
        )


# --- as JSON ------------------------------------------------------------------------------------
def run_to_json(run: RunConfig) -> str:
    """The run as JSON.

    >>> read_run(run_to_json(vision()), "config.json") == vision()
    True
    """
    data = {"format": FORMAT, "task": run.task, **asdict(run)}
    data["model"] = {"kind": type(run.model).__name__, **data["model"]}  # type: ignore[attr-defined]
    return json.dumps(data, indent=2) + "\n"


def recipe_document(run: RunConfig) -> Document:
    """The whole recipe, as its config.json holds it."""
    text = run_to_json(run)
    return Document("", (Code(text),), data=lambda: json.loads(text))


def read_run(text: str | bytes, where: str) -> RunConfig:
    """The run of a config.json; a field that is unknown is refused by its name."""
    data = parse_json(text, where)
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise InputError(f"{where}: not the config of a run ('format' is not '{FORMAT}').")
    kind = RUN_CONFIGS.get(str(data.pop("task", None)))
    model, known = data.get("model"), classifier_configs()
    if kind is None or not isinstance(model, dict) or str(model.get("kind")) not in known:
        raise InputError(f"{where}: its task or its model is unknown.")
    data["model"] = _build_config(known[model.pop("kind")], model, f"{where}: model")
    if "augmentation" in data:
        data["augmentation"] = _build_config(Augmentation, data["augmentation"], f"{where}: augmentation")
    if isinstance(data.get("columns"), list):
        data["columns"] = tuple(data["columns"])
    return _build_config(kind, data, where)  # type: ignore[no-any-return]


def _build_config(kind: type, data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise InputError(f"{where} is {data!r}. Expected its fields by name.")
    try:
        return kind(**checked_settings(kind, data))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except TypeError:
        missing = ", ".join(entry.name for entry in fields(kind) if entry.name not in data)
        raise InputError(f"{where}: a field is missing (of {missing}).") from None
