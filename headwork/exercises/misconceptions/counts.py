"""Mistakes in counts that change what is given; those that are one formula stand in the tables."""

from typing import Any

from headwork.exercises.case import RunView


def size_without_padding(run: RunView) -> Any:
    return {"padding": 0} if run.padding else None


def padding_once(run: RunView) -> Any:
    return {"padding": run.padding / 2} if run.padding else None


def size_without_stride(run: RunView) -> Any:
    return {"stride": 1} if run.stride != 1 else None


def biases_counted(run: RunView) -> Any:
    return None if run.biases else {"biases": 1}


def biases_not_counted(run: RunView) -> Any:
    return {"biases": 0} if run.biases else None
