"""Headwork: a workbench for attention and the networks around it.

>>> import headwork
>>> headwork.explain("softmax", scores="0 0", exact=True)["weights"].exact_values.tolist()
[1/2, 1/2]
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwork.construct import Construction as Construction
    from headwork.construct import Equality as Equality
    from headwork.construct import build as build
    from headwork.construct import equal as equal
    from headwork.courses.checks import check as check
    from headwork.inspection import trace as trace
    from headwork.inspection.attention import attention_of as attention_of
    from headwork.inspection.inspecting import inspect as inspect
    from headwork.inspection.intervening import head as head
    from headwork.inspection.intervening import intervene as intervene
    from headwork.readings import Trace as Trace
    from headwork.readings import explain as explain
    from headwork.training.run_folders import example_images as example_images
    from headwork.training.run_folders import load as load

__version__ = "0.1.0"
# The public names of each module, which is imported when one of them is first used.
MODULES = {
    "construct": "Construction Equality build equal",
    "courses.checks": "check",
    "inspection": "trace",
    "inspection.attention": "attention_of",
    "inspection.inspecting": "inspect",
    "inspection.intervening": "head intervene",
    "readings": "Trace explain",
    "training.run_folders": "example_images load",
}
PUBLIC = {name: f"headwork.{module}" for module, names in MODULES.items() for name in names.split()}
__all__ = sorted(PUBLIC)


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module 'headwork' has no attribute '{name}'. Known: {', '.join(PUBLIC)}.")
    return getattr(import_module(PUBLIC[name]), name)
