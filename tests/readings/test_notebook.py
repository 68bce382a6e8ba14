"""The notebook of a trace: valid, runs from top to bottom, and works the very same problem."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import nbformat
import numpy as np
import pytest

from headwork import explain
from headwork.numbers.parsing import read_tensor
from headwork.readings.notebook_cells import array_text
from headwork.readings.trace import Trace

A2: dict[str, Any] = {"tokens": "1 2; 2 0; 0 1; 1 1", "W_k": "1 0; 0 0", "W_v": "0 0; 0 1", "beta": 1}
SWAPPED = "1 2 3 4; 1 2 e 4; 0 0 0 0; 0 0 0 0"
random = np.random.default_rng(1)


def _ints(*shape: int) -> Any:
    return random.integers(-2, 3, size=shape)


TRACES = {
    "A2": lambda: explain("self-attention", **A2, exact=True),
    "columns": lambda: explain(
        "multi-head-attention",
        tokens=_ints(4, 3),
        W_q=_ints(4, 4) / 3,
        W_k=_ints(4, 4),
        heads=2,
        tokens_as="columns",
        mask=[[1, 0, 1], [1, 1, 0], [0, 1, 1]],
        convention="x W",
        beta=float("inf"),
        digits=6,
    ),
    "exact columns": lambda: explain(
        "multi-head-attention",
        tokens="1 2 0; 0 1 1; 1 0 3; 1/2 1 0",
        tokens_as="columns",
        heads=2,
        mask="causal",
        exact=True,
    ),
    "symbols": lambda: explain("self-attention", tokens=[["x1", "1"], ["sqrt(2)", "e+1"]], beta="b"),
    "three symbols": lambda: explain("self-attention", tokens="x1 1; x2 2", exact=True),
    "one row": lambda: explain("attention", query=[[1, 2]], key=[[1, 2]], value=[[0.1, 1e-9]]),
    "number": lambda: explain("recurrence", inputs=[1, 2, 3.5], W_x=1, W_h=-0.5, output="step"),
    "channels": lambda: explain("convolution-2d", image=_ints(2, 3, 3), kernel=_ints(1, 2, 2, 2), padding=1),
    "undefined": lambda: explain("attention", query="1; 2", key="1; 2", value="1; 2", mask="0 0; 1 1"),
    "large": lambda: explain("self-attention", tokens=random.normal(size=(30, 8))),
    "limit": lambda: explain("self-attention", **A2, exact=True).limit("beta", "oo"),
    "what if": lambda: explain("self-attention", **A2, exact=True).what_if("scores", SWAPPED),
}


def _code(text: str) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", TRACES)
def test_the_notebook_works_the_same_problem(name: str) -> None:
    trace = TRACES[name]()
    text = trace.to_notebook()
    nbformat.validate(nbformat.reads(text, as_version=4))
    assert text == trace.to_notebook()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for code in _code(text):
            exec(code, names)
    again: Trace = names["trace"]
    assert again.exact == trace.exact
    assert again.digits == trace.digits
    assert list(again.steps) == list(trace.steps)
    for ours, theirs in zip(trace.all_values(), again.all_values(), strict=True):
        assert ours.shape == theirs.shape
        assert np.array_equal(ours.raw.array, theirs.raw.array, equal_nan=not trace.exact), ours.path
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    streams = [o["text"] for cell in cells for o in cell["outputs"] if o["output_type"] == "stream"]
    assert printed.getvalue() == "".join("".join(lines) for lines in streams)


def test_typed_text_is_kept_as_it_was_typed() -> None:
    code = _code(TRACES["A2"]().to_notebook())[0]
    assert 'tokens="1 2; 2 0; 0 1; 1 1"' in code
    assert "exact=True" in code


def test_a_step_that_was_replaced_is_replaced_again() -> None:
    code = _code(TRACES["what if"]().to_notebook())[0]
    assert 'replacing = {"scores": "1 2 3 4; 1 2 e 4; 0 0 0 0; 0 0 0 0"}' in code


@pytest.mark.parametrize(
    "text",
    [
        "1 2; 2 0",
        "[[1, 2]]",
        "1 2 3",
        "[5]",
        "7",
        "[[[1, 2], [3, 4]]]",
        "1; 2",
        "-oo 1/3; sqrt(2)+1 e^2/(e+1)",
    ],
)
def test_numbers_are_written_as_they_are_typed(text: str) -> None:
    for exact in (True, False):
        array = read_tensor(text, exact=exact).array
        again = read_tensor(array_text(array), exact=exact).array
        assert again.shape == array.shape
        assert np.array_equal(again, array)


def test_the_notebook_runs_from_top_to_bottom() -> None:
    from nbclient import NotebookClient

    book = nbformat.reads(TRACES["A2"]().to_notebook(), as_version=4)
    NotebookClient(book, timeout=120, kernel_name="python3").execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("text/html" in output.get("data", {}) for output in shown)
    assert any("(3*e + 1)/(e + 1)^2 = 0.6622" in output.get("text", "") for output in shown)
