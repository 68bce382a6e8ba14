"""Models as checkpoints: the folders of ``headwork.model_files`` as torch models, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headwork import model_files
from headwork.errors import unknown_name
from headwork.loading import SavedModel, read_saved
from headwork.loading.model import check_parameters
from headwork.models.model import MODELS, Model


def save_pretrained(model: Model, folder: str | Path) -> Path:
    """Write a model into a folder of its own; an older checkpoint there is replaced once this one is whole.

    >>> import tempfile; from headwork.models import ConvolutionalClassifier, ConvolutionalConfig
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     saved = save_pretrained(ConvolutionalClassifier(ConvolutionalConfig(width=2)), f"{parent}/small")
    ...     sorted(path.name for path in saved.iterdir())
    ['config.json', 'manifest.json', 'model.safetensors']
    """
    name = type(model).__name__
    if MODELS.get(name) is not type(model):
        raise unknown_name("model to save", name, MODELS)
    state = model.state_dict()
    advice = "Only what its config describes can be read again."
    check_parameters(model.definition, model.config, state, name, advice)
    config = {"format": model_files.FORMAT, "model": name, "config": asdict(model.config)}
    return write_model(folder, config, state, model.tokenizer)


def write_model(folder: str | Path, config: Any, state: Mapping[str, Tensor], tokenizer: Any) -> Path:
    """Write the config and the parameters, and the tokenizer if there is one."""
    files = {
        model_files.CONFIG: model_files.to_json_bytes(config),
        model_files.PARAMETERS: as_safetensors(state, {"format": "pt"}),
    }
    if tokenizer is not None:
        files[model_files.TOKENIZER] = tokenizer.to_str(pretty=True).encode()
    return model_files.write_folder(folder, files)


def as_safetensors(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The content of a safetensors file."""
    from safetensors.torch import save

    return save({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, metadata)


def from_pretrained(folder: str | Path) -> Model:
    """The model of a folder, ours or the transformers library's, verified, ready to use (in eval mode)."""
    return torch_model(read_saved(folder))


class SkipInitialisation(TorchFunctionMode):
    """Makes parameters without random numbers, since others replace them at once."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.uniform_:
            return args[0]
        return (torch.empty if func is torch.randn else func)(*args, **(kwargs or {}))


def torch_model(saved: SavedModel) -> Model:
    """A saved model as a module, in its own precision, or single where its tensors have several."""
    with SkipInitialisation():
        model = MODELS[saved.definition.name](saved.config)
    state = as_tensors(saved.parameters)
    model.load_state_dict(state, assign=True)
    model.tokenizer = saved.tokenizer
    dtypes = {value.dtype for value in state.values()}
    return model.to(dtypes.pop() if len(dtypes) == 1 else torch.float32).eval()


def as_tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Copies: a file's buffer is read-only, and training this model must not change others' arrays."""
    result = {}
    for name, values in arrays.items():
        is_bfloat16 = values.dtype == model_files.BFLOAT16
        own = torch.from_numpy(np.array(values.view(np.int16) if is_bfloat16 else values, order="C"))
        result[name] = own.view(torch.bfloat16) if is_bfloat16 else own
    return result
