"""Traces and ledgers of models, reports on runs, predictions. Reports are imported by their own modules."""

from headwork.inspection.tracing import ModelTrace, ledger, trace
