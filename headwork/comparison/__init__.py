"""The families side by side, every row of the usual table measured.

comparison = compare(Settings.of(), "comparison-quick")     # or Settings.of(full=True, families=["cnn", "lstm"])
comparison.table(), comparison.rows[0].sentences
"""

from headwork.comparison.keeping import StoppedError
from headwork.comparison.report import Comparison, compare
from headwork.comparison.rows import ROWS, Row, Settings

__all__ = ["ROWS", "Comparison", "Row", "Settings", "StoppedError", "compare"]
