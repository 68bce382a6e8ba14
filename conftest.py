"""What the examples in docstrings have at hand, as those of NumPy have ``np``: ``np`` and ``HandTensor``."""

from typing import Any

import numpy as np
import pytest

from headwork.numbers import HandTensor


@pytest.fixture(autouse=True)
def names_in_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.update(np=np, HandTensor=HandTensor)
