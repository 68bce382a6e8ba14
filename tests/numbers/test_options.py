"""One reader of options by their type hints."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

import pytest

from headwork.errors import InputError
from headwork.numbers.options import read_option
from headwork.readings import explain

NUMBER, MASK = Annotated[Any, "number"], Annotated[Any, "mask"]


@pytest.mark.parametrize(
    ("hint", "typed", "value"),
    [
        (int, "8/2", 4),
        (int | None, "none", None),
        (int | None, "3", 3),
        (float, "1e-3", 0.001),
        (bool, "Yes", True),
        (bool, "false", False),
        (Literal["a", "b"], "b", "b"),
        (Literal["a", "b"] | None, "none", None),
        (tuple[str, str] | None, "review, stars", ("review", "stars")),
        (str, "minilm", "minilm"),
        (NUMBER, "oo", math.inf),
        (MASK, "causal", "causal"),
    ],
)
def test_a_typed_option_becomes_what_its_hint_says(hint: Any, typed: str, value: Any) -> None:
    assert read_option(hint, typed, where="option") == value


@pytest.mark.parametrize(
    ("hint", "typed", "message"),
    [
        (int, "wide", "option is wide. Expected a whole number"),
        (int, "2.5", "Expected a whole number"),
        (float, "fast", "Expected a number"),
        (bool, "perhaps", "Expected true or false"),
        (Literal["post", "pre"], "prae", "unknown option 'prae'. Did you mean 'pre'"),
        (tuple[str, str], "review", "Expected 2 names"),
        (NUMBER, "1 2", "Expected a single number"),
        (MASK, "casual", "Expected causal, or a matrix"),
    ],
)
def test_any_other_value_is_refused(hint: Any, typed: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_option(hint, typed, where="option")


def test_a_symbol_is_no_whole_number() -> None:
    with pytest.raises(InputError, match=r"heads is n\. Expected a whole number"):
        explain("multi-head-attention", tokens="1 2; 2 0", heads="n")
