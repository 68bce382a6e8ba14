"""The ledger of a model: each part that owns parameters or does work, in the order in which it runs."""

from torch import Tensor

from headwork.errors import InputError
from headwork.inspection.tracing import inputs_by_name
from headwork.models import Model
from headwork.sizes import Ledger
from headwork.sizes.architectures import model_ledger


def ledger(model: Model, /, *inputs: Tensor, **more: Tensor) -> Ledger:
    """What each part of a model holds and does, on an input of this shape; nothing is computed.

    >>> import torch; from headwork.models import ConvolutionalClassifier, ConvolutionalConfig
    >>> model = ConvolutionalClassifier(ConvolutionalConfig(width=4, depth=1))
    >>> counted = ledger(model, torch.zeros(1, 1, 28, 28))
    >>> [(row.name, row.parameters, row.flops) for row in counted.rows]
    [('block 0', 40, 56448), ('head', 50, 80)]
    """
    if not isinstance(model, Model):
        raise InputError(f"ledger: {type(model).__name__} is not a model of Headwork.")
    named = inputs_by_name(model, inputs, more)
    shapes = {
        name: tuple(value.shape) if isinstance(value, Tensor) else value for name, value in named.items()
    }
    return model_ledger(model.definition, model.config, shapes)
