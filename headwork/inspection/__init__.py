"""Insight into models: traces of a whole forward pass, and the ledger of what each part holds and does."""

from headwork.inspection.ledger import ledger
from headwork.inspection.tracing import ModelTrace, trace

__all__ = ["ModelTrace", "ledger", "trace"]
