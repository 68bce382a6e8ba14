"""Readings of a mechanism: recorded, replaced, explained, rendered."""

from headwork.readings.explaining import explain
from headwork.readings.recording import recorder, replacer
from headwork.readings.trace import CellArithmetic, Trace, TraceValue
