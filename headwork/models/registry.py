"""The registry of models: a class of ``Model`` with a config of its own enters itself when it is defined.

Everything that lists models reads it: checkpoints, recipes, ledgers, the comparison of families, the tests.
"""

from typing import TYPE_CHECKING, Any, Literal

from headwork.errors import unknown

if TYPE_CHECKING:
    from headwork.models.model import Config, Model

Task = Literal["vision", "text"]

MODELS: "dict[str, type[Model]]" = {}  # by the name of the class, as saved folders have it


def find_model(slug: str) -> "type[Model]":
    """The model of a short name, such as ``vision``.

    >>> find_model("vision").__name__
    'VisionTransformer'
    """
    models = {model.slug: model for model in MODELS.values() if model.slug}
    if slug not in models:
        raise unknown("model", slug, models)
    return models[slug]


def classifier_configs() -> "dict[str, type[Config]]":
    """The configs of all classifiers by their names, as saved runs have them."""
    return {model.config_class.__name__: model.config_class for model in MODELS.values() if model.task}


def classifier_config(task: Task, architecture: str, **fields: Any) -> "Config":
    """The config of a classifier of images (``vision``) or of texts by the name of its architecture.

    >>> classifier_config("vision", "gru", width=8).cell
    'gru'
    """
    models = [model for model in MODELS.values() if model.task == task]
    settings = {name: (model, own) for model in models for name, own in model.architectures.items()}
    if architecture not in settings:
        raise unknown({"vision": "image model", "text": "text model"}[task], architecture, settings)
    model, own = settings[architecture]
    return model.config_class(**{**own, **fields})


def classifier_of(config: "Config") -> "type[Model]":
    """The classifier that such a config is for."""
    return next(m for m in MODELS.values() if m.task and m.config_class is type(config))


def build_classifier(config: "Config") -> "Model":
    """A new classifier, with random parameters."""
    return classifier_of(config)(config)
