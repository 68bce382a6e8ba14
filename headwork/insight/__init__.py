"""Insight into models: traces of a whole forward pass, and the ledger of what each part holds and does."""

from headwork.insight.ledger import ledger
from headwork.insight.tracing import ModelTrace, trace

__all__ = ["ModelTrace", "ledger", "trace"]
