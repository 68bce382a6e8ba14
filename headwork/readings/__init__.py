"""What is read off a mechanism: its trace (``explain``), recorded, continued from other values, laid out."""

from headwork.readings.explaining import explain
from headwork.readings.recording import recorder, replacer
from headwork.readings.trace import CellArithmetic, Trace, TraceValue
