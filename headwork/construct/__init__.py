"""Heads built to order, with certificates; and different things shown to be the same thing."""

# Importing them registers the equivalences, in the order in which they are listed.
from headwork.construct import equivalences_convolution  # isort: skip
from headwork.construct import equivalences_attention  # isort: skip
from headwork.construct.building import build, target_list
from headwork.construct.construction import Construction
from headwork.construct.equivalence import EQUIVALENCES, Equality, equal, equivalence_list
from headwork.construct.targets import TARGETS
