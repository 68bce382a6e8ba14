"""A run, or the folder of a model, with an image, a test example or a text: opened as a ``ModelOnInput``."""

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headwork.data import read_image
from headwork.data.datasets import normalise
from headwork.errors import InputError, TooLarge, truncate, unknown_name
from headwork.files import parse_json, read_bytes
from headwork.inspection.model_on_input import (
    SPECIAL_TOKENS,
    Array,
    ArrayModel,
    ModelOnInput,
    classifier_on_image,
    model_on_text,
)
from headwork.loading import read_saved
from headwork.loading.model import SMALL_FILE, check_work
from headwork.model_files import CONFIG, PARAMETERS, TOKENIZER, is_transformers_folder, refuse_pickles
from headwork.tokenizer_files import MAX_TOKENIZER_BYTES, read_tokenizer_json
from headwork.training import run_folders

OTHER_IMAGES = 15  # further test images on which the roles of heads are scored
PREPROCESSOR = "preprocessor_config.json"
LANGUAGE_MODELS = ("LMHeadModel", "ForCausalLM")  # of the library: what predicts the next token
AUTO_CLASSES = {
    **dict.fromkeys(LANGUAGE_MODELS, "AutoModelForCausalLM"),
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForImageClassification": "AutoModelForImageClassification",
}
DEFAULT_MEAN_STD: tuple[float, ...] = (0.5, 0.5, 0.5)  # of ViT's images, unless its folder says otherwise


@dataclass(frozen=True)
class ModelSource:
    """A model, and what its folder says about inputs and classes."""

    path: Path
    array_model: Any = None  # an ArrayModel
    module: Any = None  # or a torch module: of a library, or a person's own
    classes: tuple[str, ...] = ()
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    run: Any = None
    data_digest: str = ""  # of the data it was trained on
    size: int = 0  # of the images that a module takes; 0 for texts
    edits: tuple[Any, ...] = ()  # of heads of the module: HeadEdit

    @property
    def input_kind(self) -> str:
        if self.array_model is None:
            return "images" if self.size else "texts"
        if "images" in (card.name for card in self.array_model.definition.inputs):
            return "images"
        return "texts" if self.array_model.definition.slug in ("text", "text-encoder", "language") else ""

    @property
    def image_shape(self) -> tuple[int, int]:
        """How many channels its images have, and their side."""
        config = self.array_model and self.array_model.config
        return (config.channels, config.image_size) if config else (len(self.mean), self.size)

    def on_image(self, pixels: Array) -> ModelOnInput:
        values = normalise(pixels[None], self.mean, self.std)[0]
        if self.module is not None:
            import torch

            from headwork.inspection.module_on_input import module_on_input

            given = [torch.from_numpy(values[None])]
            on_input = module_on_input(self.module, given, {}, classes=self.classes, edits=self.edits)
            return replace(on_input, name=self.path.name, pixels=pixels)
        return classifier_on_image(self.array_model, self.path.name, pixels, values, self.classes)


def open_model_on_input(
    folder: "str | Path | ModelSource",
    *,
    image: str | Path | None = None,
    index: int | None = None,
    text: str | None = None,
    resize: bool = False,
) -> ModelOnInput:
    """A run or the folder of a model on one input."""
    options = {"image": image, "index": index, "text": text}
    option_names = [name for name, value in options.items() if value is not None]
    if len(option_names) != 1:
        which = " and ".join(f"--{name}" for name in option_names) or "nothing"
        raise InputError(f"inspect: {which} given. Give one of --image FILE, --index NUMBER, --text WORDS.")
    source = folder if isinstance(folder, ModelSource) else open_model(folder)
    if not source.input_kind:
        raise InputError(
            f"{source.path}: a {source.array_model.definition.name}. A classifier, an encoder of texts or a "
            "language model is inspected from its folder, others in Python: headwork.inspect(model, input)."
        )
    if option_names == ["image"] and source.input_kind != "images":
        raise InputError(f"{source.path} takes texts: give --text, not --image.")
    if option_names == ["text"] and source.input_kind == "images":
        raise InputError(f"{source.path} takes images: give --image, not --text.")
    if index is not None:
        return _test_example(source, index)
    if text is not None:
        return source_on_text(source, text)
    channels, side = source.image_shape
    return source.on_image(read_image(str(image), channels=channels, size=(side, side), resize=resize))


def open_model(folder: str | Path, *, on_torch: bool | None = None) -> ModelSource:
    """The model of a folder, verified: a run, a saved model, or a BERT, ViT or GPT-2 of transformers.

    It runs on torch where that is installed, unless ``on_torch`` says otherwise.
    """
    path = run_folders.find_run(folder)
    if not path.is_dir():
        raise InputError(f"{path}: no such folder. Give that of a run or of a model.")
    if (path / run_folders.DATA).exists():
        run, info = run_folders.load_run_config(path), run_folders.load_data_info(path)
        model = ArrayModel(run_folders.saved_model(path), on_torch=on_torch)
        return ModelSource(path, model, None, info.classes, info.mean, info.std, run, info.digest)
    with_torch = on_torch is not False and find_spec("torch") and find_spec("transformers")
    if with_torch and is_transformers_folder(path) and (kind := transformers_class(read_settings(path))):
        return transformers_source(path, kind)
    saved = read_saved(path)
    config = saved.config
    side = getattr(config, "image_size", 0)
    check_work(saved, path, (side // getattr(config, "patch_size", -(-side // 7) or 1)) ** 2)
    model = ArrayModel(saved, on_torch=on_torch)
    classes = tuple(f"class {number}" for number in range(getattr(config, "classes", 0)))
    channels = getattr(config, "channels", 0)
    mean = std = DEFAULT_MEAN_STD[:channels]
    if is_transformers_folder(path):
        labels = read_settings(path).get("id2label")
        if isinstance(labels, dict) and len(labels) == len(classes):
            classes = tuple(str(labels.get(str(number), name)) for number, name in enumerate(classes))
        mean, std = image_mean_and_std(path, channels)
    return ModelSource(path, model, None, classes, mean, std)


def transformers_class(settings: Mapping[str, Any]) -> str:
    """The class of the transformers library for a model; none where it is another kind, or we read it."""
    names = settings.get("architectures")
    name = str(names[0]) if isinstance(names, list) and names else ""
    matches = (kind for end, kind in AUTO_CLASSES.items() if name.endswith(end))
    return "" if name == "ViTForImageClassification" else next(matches, "")


def read_settings(path: Path, name: str = CONFIG) -> dict[str, Any]:
    """A file of settings in a folder of the library, whose cache is made of links."""
    data = parse_json(read_bytes(path / name, max_bytes=2**20), path / name)
    return data if isinstance(data, dict) else {}


def image_mean_and_std(path: Path, channels: int) -> list[tuple[float, ...]]:
    """Mean and standard deviation of the images that a model of the library takes."""
    settings = read_settings(path, PREPROCESSOR) if (path / PREPROCESSOR).exists() else {}
    moments = []
    for values in (settings.get("image_mean"), settings.get("image_std")):
        numbers: Sequence[Any] = values if isinstance(values, list) else ()
        numbers = numbers if len(numbers) == channels else DEFAULT_MEAN_STD[:channels]
        moments.append(tuple(x if isinstance(x, float) and 0 < x < 1 else 0.5 for x in numbers))
    return moments


def _test_example(source: ModelSource, index: int) -> ModelOnInput:
    """An example of the test set of a run, and some others of its images."""
    run, path = source.run, source.path
    if run is None:
        raise InputError(f"{path}: a model without a test set, so no --index. Give --image or --text.")
    split: Any = run_folders.example_images(path) if (path / run_folders.IMAGES_FOLDER).exists() else None
    if split is not None and index in split.indices:
        row = split.indices.index(index)
    else:
        data = run_folders.load_data(run)
        _check_index(source, data, index)
        split, row = data.test, index
    true_class = source.classes[int(split.labels[row])]
    if source.input_kind == "texts":
        return replace(source_on_text(source, str(split.texts[row])), true_class=true_class)
    on_image = replace(source.on_image(split.images[row]), true_class=true_class)
    others = [n for n in range(len(split.images)) if n != row][: min(OTHER_IMAGES, on_image.inputs_at_once)]
    inputs = {"images": normalise(split.images[others], source.mean, source.std)}
    weights = source.array_model.attention_weights(inputs)
    return replace(on_image, attention_on_other_inputs=weights, other_input_count=len(others))


def _check_index(source: ModelSource, data: Any, index: int) -> None:
    if source.data_digest and data.digest != source.data_digest:
        raise InputError(f"{source.path}: {data.name} is not what it was trained on. Give --image or --text.")
    if not 0 <= index < len(data.test):
        last = len(data.test) - 1
        raise InputError(f"--index {index}: the test set of {data.name} has examples 0 to {last}.")


def source_on_text(source: ModelSource, text: str) -> ModelOnInput:
    if not text.strip():
        raise InputError("inspect: an empty text. Give at least one word.")
    if source.module is not None:
        return _module_on_text(source, text)
    model, config = source.array_model, source.run or source.array_model.config
    ids = _encode(source.path, model.tokenizer, text, config.max_length)
    return model_on_text(model, source.path.name, ids, source.classes)


def _encode(path: Path, tokenizer: Any, text: str, max_tokens: int) -> list[int]:
    if tokenizer is None:
        raise InputError(f"{path}: no {TOKENIZER}, so a text cannot be read. Put it beside the model.")
    ids: list[int] = tokenizer.encode(text, all_tokens=True)
    if len(ids) > max_tokens:
        raise InputError(f"inspect: {len(ids):,} tokens; the model takes at most {max_tokens:,}. Shorten it.")
    if all(tokenizer.token_names[number] in SPECIAL_TOKENS for number in ids):
        raise InputError("inspect: the text has only special tokens. Give at least one word.")
    return ids


def _module_on_text(source: ModelSource, text: str) -> ModelOnInput:
    """A text through a model of the transformers library, by its tokenizer.json."""
    import torch

    from headwork.inspection.module_on_input import module_on_input

    path, config = source.path, source.module.config
    file = path / TOKENIZER
    content = read_bytes(file, max_bytes=MAX_TOKENIZER_BYTES) if file.is_file() else None
    tokenizer = None if content is None else read_tokenizer_json(content, file)
    ids = _encode(path, tokenizer, text, getattr(config, "max_position_embeddings", None) or 512)
    assert tokenizer is not None
    special = [i for i, number in enumerate(ids) if tokenizer.token_names[number] in SPECIAL_TOKENS]
    numbers = range(config.vocab_size if type(source.module).__name__.endswith(LANGUAGE_MODELS) else 0)
    words = [tokenizer.token_text(n) if n in tokenizer.token_names else f"token {n}" for n in numbers]
    labels = [tokenizer.token_text(n).strip() or tokenizer.token_names[n] for n in ids]
    inputs = {"input_ids": torch.tensor([ids])}
    options: dict[str, Any] = {"labels": labels, "classes": words, "never_hidden": special}
    on_input = module_on_input(source.module, (), inputs, edits=source.edits, **options)
    return replace(on_input, name=path.name)


def find_target(on_input: ModelOnInput, target: str | int | None) -> int | None:
    """The number of the class to explain."""
    if target is None:
        return None
    if target in on_input.classes:
        return on_input.classes.index(str(target))
    if isinstance(target, int) and 0 <= target < len(on_input.classes):
        return target
    raise unknown_name("target", target, on_input.classes[:50])


WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
OTHER_SIZES = ("vocab_size", "intermediate_size", "n_inner", "d_ff", "hidden_dim", "embedding_size")
HEADS, LAYER_HEADS, MAX_HEADS = (
    ("num_attention_heads", "n_head", "num_heads"),
    9,
    625,
)  # a layer takes as 9: 5 s
DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")


def transformers_source(path: Path, kind: str) -> ModelSource:
    """The model of a folder by a class of the transformers library, with what is said about its images."""
    refuse_pickles(path, (PARAMETERS,))
    _check_sizes(path, read_settings(path))
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        import transformers

        try:
            model: Any = getattr(transformers, kind).from_pretrained(
                path.resolve(), use_safetensors=True, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:  # the library raises nearly anything
            problem = f"{path}: the transformers library cannot read it: {truncate(str(error), 300)}"
            raise InputError(problem) from None
    if not kind.endswith("ImageClassification"):
        return ModelSource(path, module=model.eval())
    settings: Any = model.config
    side = getattr(settings, "image_size", 0)
    mean, std = image_mean_and_std(path, settings.num_channels)
    size = side if isinstance(side, int) else max(side)
    return ModelSource(path, module=model.eval(), mean=mean, std=std, size=size)


def _check_sizes(path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse sizes that the parameters cannot have, before the library makes a model of them."""
    config, file_bytes = path / CONFIG, sum(file.stat().st_size for file in path.glob("*.safetensors"))
    sizes = {name: value for name, value in settings.items() if isinstance(value, int)}
    width = max(sizes.get(name, 1) for name in WIDTHS)
    least = dict.fromkeys((*WIDTHS, *OTHER_SIZES), width) | dict.fromkeys(DEPTHS, width * width)
    for name, value in sizes.items():
        if name in least and value * least[name] > file_bytes:
            raise InputError(f"{config}: {name} is {value:,}, but the parameters have {file_bytes:,} bytes.")
    layers, heads = (max(sizes.get(name, 1) for name in names) for names in (DEPTHS, HEADS))
    if file_bytes <= SMALL_FILE and layers * (LAYER_HEADS + heads) > MAX_HEADS:
        raise TooLarge(f"{config}: {layers:,} layers of {heads:,} heads take too long to look into.")
