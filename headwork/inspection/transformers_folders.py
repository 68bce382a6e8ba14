"""Models as the transformers library builds them, with parameters that are on this machine.

Nothing is fetched and no code of a folder is run. Parameters are safetensors.
"""

import os
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from torch import nn

from headwork.checkpoint_files import PARAMETERS, refuse_pickles
from headwork.errors import InputError, truncate
from headwork.inspection.model_folders import OpenedModel, image_mean_and_std, read_settings

WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")
OTHER_SIZES = ("vocab_size", "intermediate_size", "n_inner", "d_ff", "hidden_dim", "embedding_size")
DEPTHS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers")


def transformers_source(path: Path, kind: str) -> OpenedModel:
    """The model of a folder by a class of the transformers library, with what is said about its images."""
    refuse_pickles(path, (PARAMETERS,))
    _check_sizes(path, read_settings(path))
    with warnings.catch_warnings(), open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        warnings.simplefilter("ignore")
        import transformers

        try:
            model: nn.Module = getattr(transformers, kind).from_pretrained(
                path.resolve(), use_safetensors=True, trust_remote_code=False, local_files_only=True
            )
        except Exception as error:  # the library raises nearly anything
            reason = truncate(str(error), 300)
            raise InputError(f"{path}: the transformers library cannot read it: {reason}") from None
    if not kind.endswith("ImageClassification"):
        return OpenedModel(path, module=model.eval())
    settings: Any = model.config
    side = getattr(settings, "image_size", 0)
    mean, std = image_mean_and_std(path, settings.num_channels)
    size = side if isinstance(side, int) else max(side)
    return OpenedModel(path, module=model.eval(), mean=mean, std=std, size=size)


def _check_sizes(path: Path, settings: Mapping[str, Any]) -> None:
    """Refuse sizes that the parameters cannot have, before the library makes a model of them."""
    if not (path / PARAMETERS).is_file():
        return
    room = (path / PARAMETERS).stat().st_size
    sizes = {name: value for name, value in settings.items() if isinstance(value, int)}
    width = max(sizes.get(name, 1) for name in WIDTHS)
    least = dict.fromkeys((*WIDTHS, *OTHER_SIZES), width) | dict.fromkeys(DEPTHS, width * width)
    for name, value in sizes.items():
        if name in least and value * least[name] > room:
            config = path / "config.json"
            raise InputError(f"{config}: {name} is {value:,}, but the parameters have {room:,} bytes.")
