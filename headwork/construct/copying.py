r"""Copying by content (problem B6): q = k = v = x, beta = 1, no positions; how large must the norms be?

Orthogonal vectors a, b, c, d of norm r and tokens x1 = d + b, x2 = a, x3 = c + b. With E = e^(r^2) the scores
of x2 are 0, r^2, 0, so

    y2 - x2 = (x1 + x3 - 2 x2) / (E + 2),    |x1 + x3 - 2 x2| = |d + c + 2 b - 2 a| = sqrt(10) r.

For x1 (and x3 alike) |y1 - x1| / r = sqrt(2 E^2 + 2 E + 3) / (E^2 + E + 1), which is smaller for every E >=
1: 10 (E^2 + E + 1)^2 - (E + 2)^2 (2 E^2 + 2 E + 3) = 8 E^4 + 10 E^3 + 11 E^2 - 2 > 0. So the relative error
is sqrt(10) / (E + 2), it falls with r, and it is at most epsilon from r = sqrt(ln(sqrt(10)/epsilon - 2)) on.

With n orthogonal tokens of norm r instead, |y_i - x_i| / r = sqrt(n (n-1)) / (E + n - 1) for each of them,
and r = sqrt(ln(sqrt(n (n-1))/epsilon - n + 1)).
"""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from headwork.construct.certificate import UNIT_ROUNDOFF, ToleranceTooSmall
from headwork.construct.construction import MATRICES, Construction
from headwork.construct.targets import check_integer, text_of

HAND_OUT_TOKENS = ((0, 1, 0, 1), (1, 0, 0, 0), (0, 1, 1, 0))  # x1 = d+b, x2 = a, x3 = c+b over a, b, c, d


def copy(*, tolerance: float, tokens: Any = None) -> Construction:
    """The smallest norm at which self-attention copies its tokens: the hand-out's three, or n orthogonal.

    >>> copied = copy(tolerance=1e-3)
    >>> copied.norm_exact, round(copied.norm, 3)
    ('sqrt(ln(sqrt(10)*1000 - 2))', 2.839)
    """
    if tokens is None:
        rows, squared = np.array(HAND_OUT_TOKENS, float), 10  # |x1 + x3 - 2 x2|^2 = 10 r^2
        title = "copy by content: x1 = d+b, x2 = a, x3 = c+b"
    else:
        count = check_integer(tokens, "tokens", 2, 512)
        rows, squared = np.eye(count), count * (count - 1)
        title = f"copy by content: {count} orthogonal tokens"
    n, width = rows.shape
    rounding = (8 * width + 64) * UNIT_ROUNDOFF  # of the attention itself
    if tolerance < 4 * rounding:
        reason = str(ToleranceTooSmall(tolerance, rounding, 4 * rounding))
        return Construction(None, title, reason=reason, tolerance=tolerance)

    def error_at(norm: float) -> float:
        return float(math.sqrt(squared) / (math.exp(norm * norm) + n - 1) + rounding)

    inner = math.sqrt(squared) / (tolerance - rounding) - n + 1
    norm = math.sqrt(math.log(inner)) if inner > 1 else 0.0
    # As r -> 0 the relative error tends to sqrt(squared)/n: where that suffices, any norm will do.
    norm_exact = f"sqrt(ln(sqrt({squared})*{1 / Fraction(str(tolerance))} - {n - 1}))" if norm else "any"
    norm = norm or 1.0
    while error_at(norm) > tolerance:
        norm = math.nextafter(norm, math.inf)
    arrays: dict[str, Any] = {name: [np.eye(width)] for name in MATRICES}
    arrays |= {"codes": np.zeros((n, 0)), "worst_content": norm * rows, "matrix": np.eye(n)}
    numbers: dict[str, Any] = {"norm": norm, "norm_exact": norm_exact, "tolerance": tolerance}
    numbers |= {"bound": error_at(norm), "rounding": rounding, "relative": True}
    beta: dict[str, Any] = {"beta": 1.0, "beta_exact": "1", "beta_why": text_of("beta/copy")}
    remarks = tuple(text_of("copy/remarks"))
    result = Construction(True, title, n, **arrays, **numbers, **beta, remarks=remarks)
    measured = result.error(result.worst_content)
    return replace(result, measured=measured, measured_random=measured)
