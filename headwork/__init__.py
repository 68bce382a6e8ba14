"""Headwork: a workbench for attention and the networks around it.

>>> import headwork
>>> headwork.explain("softmax", scores="0 0", exact=True)["weights"].exact.tolist()
[1/2, 1/2]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwork.construct import Construction, Equality, build, equal
    from headwork.courses.checks import check
    from headwork.inspection import trace
    from headwork.readings import Trace, explain
    from headwork.training.folders import example_images, load

__version__ = "0.1.0"
__all__ = [
    "Construction",
    "Equality",
    "Trace",
    "build",
    "check",
    "equal",
    "example_images",
    "explain",
    "load",
    "trace",
]

# The module of each public name: it is imported when the name is first used.
MODULES = {
    "Construction": "headwork.construct",
    "Equality": "headwork.construct",
    "build": "headwork.construct",
    "check": "headwork.courses.checks",
    "equal": "headwork.construct",
    "example_images": "headwork.training.folders",
    "Trace": "headwork.readings",
    "explain": "headwork.readings",
    "load": "headwork.training.folders",
    "trace": "headwork.inspection",
}


def __getattr__(name: str) -> Any:
    if name not in MODULES:
        raise AttributeError(f"module 'headwork' has no attribute '{name}'. Known: {', '.join(MODULES)}.")
    return getattr(import_module(MODULES[name]), name)
