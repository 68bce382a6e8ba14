"""Calls of the lab as its tests make them."""

from __future__ import annotations

import json
from typing import Any

from headwork.lab.calls import run_call


def asked(name: str, /, **request: Any) -> dict[str, Any]:
    """The answer, which is JSON and no error."""
    found: dict[str, Any] = json.loads(json.dumps(run_call(name, request), allow_nan=False))
    assert "error" not in found, found
    return found


def refused(name: str, /, **request: Any) -> str:
    """The words of a refusal."""
    return str(run_call(name, request)["error"]["message"])
