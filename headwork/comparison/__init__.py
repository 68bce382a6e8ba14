"""Convolution, recurrence and attention side by side, every row of the usual table measured.

comparison = compare(Settings.of(families=["cnn", "lstm"]), "comparison-quick")
comparison.table(), comparison.rows[0].sentences
"""

from headwork.comparison.experiment import SECTIONS, Settings
from headwork.comparison.measurements import StoppedError
from headwork.comparison.report import Comparison, compare
from headwork.comparison.section import Section
