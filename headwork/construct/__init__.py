"""Heads built to order, with certificates; and different things shown to be the same thing."""

# Importing them registers the equivalences, in the order in which they are listed.
from headwork.construct import same_convolution  # isort: skip
from headwork.construct import same_attention  # isort: skip
from headwork.construct.building import build
from headwork.construct.construction import Construction
from headwork.construct.proving import EQUIVALENCES, Equality, equal
from headwork.construct.showing import equivalence_list, target_list
from headwork.construct.targets import TARGETS

__all__ = [
    "EQUIVALENCES",
    "TARGETS",
    "Construction",
    "Equality",
    "build",
    "equal",
    "equivalence_list",
    "same_attention",
    "same_convolution",
    "target_list",
]
