"""Heads built to order, with certificates; and pairs of computations proved equal."""

from headwork.construct import equivalences  # importing them registers them
from headwork.construct.building import build, target_list
from headwork.construct.construction import Construction
from headwork.construct.equivalence import EQUIVALENCES, Equality, equal, equivalence_list
from headwork.construct.targets import TARGETS
