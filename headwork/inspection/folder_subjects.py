"""A run, or the folder of a model, with an image, a test example or a text: opened as a ``Subject``."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwork.checkpoint_files import CONFIG, TOKENIZER, is_foreign
from headwork.data import read_image
from headwork.data.datasets import normalise
from headwork.errors import InputError, unknown
from headwork.files import parse_json, read_bytes
from headwork.inspection.subjects import SPECIAL, Array, OwnModel, Subject, image_subject, text_subject
from headwork.loading import read_saved
from headwork.tokenizer_files import MAX_TOKENIZER_BYTES, read_tokenizer_json
from headwork.training import folders

OTHERS = 15  # further test images on which the roles of heads are scored
PREPROCESSOR = "preprocessor_config.json"
LANGUAGE = ("LMHeadModel", "ForCausalLM")  # of the library: what predicts the next token
MOMENTS: tuple[float, ...] = (0.5, 0.5, 0.5)  # of ViT's images, unless its folder says otherwise


@dataclass(frozen=True)
class Source:
    """A model, and what its folder says about inputs and classes."""

    path: Path
    model: Any = None  # an OwnModel
    transformers_model: Any = None  # or a text model of the transformers library
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    run: Any = None
    digest: str = ""

    @property
    def input_kind(self) -> str:
        if self.model is None:
            return "texts"
        if "images" in (card.name for card in self.model.definition.inputs):
            return "images"
        return "texts" if self.model.definition.slug in ("text", "text-encoder", "language") else ""

    def subject(self, pixels: Array) -> Subject:
        values = normalise(pixels[None], self.mean, self.std)[0]
        return image_subject(self.model, self.path.name, pixels, values, self.classes)


def open_folder(
    folder: "str | Path | Source",
    *,
    image: str | Path | None = None,
    index: int | None = None,
    text: str | None = None,
    resize: bool = False,
) -> Subject:
    """A run or the folder of a model on one input."""
    options = {"image": image, "index": index, "text": text}
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        which = " and ".join(f"--{name}" for name in given) or "nothing"
        raise InputError(f"inspect: {which} given. Give one of --image FILE, --index NUMBER, --text WORDS.")
    source = folder if isinstance(folder, Source) else open_source(folder)
    if not source.input_kind:
        raise InputError(
            f"{source.path}: a {source.model.definition.name}. A classifier, an encoder of texts or a "
            "language model is inspected from its folder, others in Python: headwork.inspect(model, input)."
        )
    if given == ["image"] and source.input_kind != "images":
        raise InputError(f"{source.path} takes texts: give --text, not --image.")
    if given == ["text"] and source.input_kind == "images":
        raise InputError(f"{source.path} takes images: give --image, not --text.")
    if index is not None:
        return _test_example(source, index)
    if text is not None:
        return text_of(source, text)
    config = source.model.config
    size = (config.image_size, config.image_size)
    return source.subject(read_image(str(image), channels=config.channels, size=size, resize=resize))


def open_source(folder: str | Path, *, torch: bool | None = None) -> Source:
    """The model of a folder, verified: a run, a saved model, or a BERT, ViT or GPT-2 of transformers.

    It runs on torch where that is installed, unless ``torch`` says otherwise.
    """
    path = folders.find_run(folder)
    if not path.is_dir():
        raise InputError(f"{path}: no such folder. Give that of a run or of a model.")
    if (path / folders.DATA).exists():
        run, info = folders.load_run(path), folders.load_data_info(path)
        model = OwnModel(folders.saved_model(path), torch=torch)
        return Source(path, model, None, info.classes, info.mean, info.std, run, info.digest)
    if torch is not False and is_foreign(path) and find_spec("torch") is not None:
        from headwork.inspection.torch_subjects import library_model

        transformers_model = library_model(path, _settings(path, CONFIG))
        if transformers_model is not None:
            return Source(path, transformers_model=transformers_model)
    model = OwnModel(read_saved(path), torch=torch)
    config = model.config
    classes = tuple(f"class {number}" for number in range(getattr(config, "classes", 0)))
    channels = getattr(config, "channels", 0)
    mean = std = MOMENTS[:channels]
    if is_foreign(path):
        labels = _settings(path, CONFIG).get("id2label")
        if isinstance(labels, dict) and len(labels) == len(classes):
            classes = tuple(str(labels.get(str(number), name)) for number, name in enumerate(classes))
        moments = _settings(path, PREPROCESSOR) if (path / PREPROCESSOR).exists() else {}
        mean, std = (_moments(moments.get(f"image_{name}"), channels) for name in ("mean", "std"))
    return Source(path, model, None, classes, mean, std)


def _settings(path: Path, name: str) -> dict[str, Any]:
    data = parse_json(read_bytes(path / name, max_bytes=2**20, root=path), path / name)
    return data if isinstance(data, dict) else {}


def _moments(values: Any, channels: int) -> tuple[float, ...]:
    numbers = values if isinstance(values, list) and len(values) == channels else MOMENTS[:channels]
    return tuple(x if isinstance(x, float) and 0 < x < 1 else 0.5 for x in numbers)


def _test_example(source: Source, index: int) -> Subject:
    """An example of the test set of a run, and some others of its images."""
    run, path = source.run, source.path
    if run is None:
        raise InputError(
            f"{path}: a model without a test set, so --index finds nothing. Give --image or --text."
        )
    split: Any = folders.example_images(path) if (path / folders.IMAGES).exists() else None
    if split is not None and index in split.places:
        at = split.places.index(index)
    else:
        data = folders.load_data(run)
        _check(source, data, index)
        split, at = data.test, index
    truth = source.classes[int(split.labels[at])]
    if source.input_kind == "texts":
        return replace(text_of(source, str(split.texts[at])), truth=truth)
    others = [number for number in range(len(split.images)) if number != at][:OTHERS]
    inputs = normalise(split.images[others], source.mean, source.std)
    layers = source.model.layers_of({"images": inputs})
    return replace(source.subject(split.images[at]), others=layers, truth=truth)


def _check(source: Source, data: Any, index: int) -> None:
    if source.digest and data.digest != source.digest:
        raise InputError(
            f"{source.path}: {data.name} is not the data that it was trained on. Give --image or --text."
        )
    if not 0 <= index < len(data.test):
        raise InputError(
            f"--index {index}: the test set of {data.name} has examples 0 to {len(data.test) - 1}."
        )


def text_of(source: Source, text: str) -> Subject:
    if not text.strip():
        raise InputError("inspect: an empty text. Give at least one word.")
    if source.transformers_model is not None:
        return _their_text(source, text)
    model, decides = source.model, source.run or source.model.config
    ids = _tokens(source.path, model.tokenizer, text, decides.max_length)
    return text_subject(model, source.path.name, ids, source.classes)


def _tokens(path: Path, tokenizer: Any, text: str, most: int) -> list[int]:
    if tokenizer is None:
        raise InputError(f"{path}: no {TOKENIZER}, so a text cannot be read. Put it beside the model.")
    ids: list[int] = tokenizer.encode(text, whole=True)
    if len(ids) > most:
        raise InputError(
            f"inspect: a text of {len(ids):,} tokens; the model takes at most {most:,}. Shorten it."
        )
    if all(tokenizer.names[number] in SPECIAL for number in ids):
        raise InputError("inspect: the text has only special tokens. Give at least one word.")
    return ids


def _their_text(source: Source, text: str) -> Subject:
    """A text through a model of the transformers library, by its tokenizer.json."""
    import torch

    from headwork.inspection.torch_subjects import module_subject

    path, config = source.path, source.transformers_model.config
    at = path / TOKENIZER
    known = read_tokenizer_json(read_bytes(at, max_bytes=MAX_TOKENIZER_BYTES), at) if at.is_file() else None
    most = getattr(config, "max_position_embeddings", None) or 512
    ids = _tokens(path, known, text, most)
    assert known is not None
    kept = [i for i, number in enumerate(ids) if known.names[number] in SPECIAL]
    numbers = range(config.vocab_size if type(source.transformers_model).__name__.endswith(LANGUAGE) else 0)
    words = [known.word(n) if n in known.names else f"token {n}" for n in numbers]
    labels = [known.word(n).strip() or known.names[n] for n in ids]
    given = {"input_ids": torch.tensor([ids])}
    subject = module_subject(source.transformers_model, (), given, labels=labels, classes=words, kept=kept)
    return replace(subject, name=path.name)


def find_target(subject: Subject, target: str | int | None) -> int | None:
    """The number of the class to explain."""
    if target is None:
        return None
    if target in subject.classes:
        return subject.classes.index(str(target))
    if isinstance(target, int) and 0 <= target < len(subject.classes):
        return target
    raise unknown("target", target, subject.classes[:50])
