"""A cell of a plan as its holder sees it, with the error bound of the small-domain paper."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from sfumato.request.histogram import Histogram
from sfumato.request.values import to_json

RISK = 0.05
"""The error bound of the small-domain paper (its Theorem 2) holds with probability 1 - RISK."""

BOUND_FACTOR = 2 * math.sqrt(math.log(2 / RISK))
"""The factor of that bound which depends on the risk alone."""


def error_bound(total: int, retention: Fraction) -> float:
    """Theorem 2 of the small-domain paper: the largest error of any share, loose by a factor of 5 to 14."""
    return BOUND_FACTOR / (math.sqrt(total) * float(retention))


def cell_json(
    histogram: Histogram, places: Iterable[int], counts: Sequence[int], prior: Fraction, retention: Fraction
) -> dict[str, Any]:
    """One cell in JSON: its values and counts, the prior it covers, and its retention."""
    values = [histogram.values[place] for place in places]
    swap = (1 - retention) / len(values)
    return {
        "values": [to_json(value) for value in values],
        "counts": list(counts),
        "prior": ratio(prior),
        "amplification": ratio((retention + swap) / swap),
        "retention": ratio(retention),
        "error_bound": error_bound(sum(counts), retention),
    }


def ratio(number: Fraction) -> str:
    """A rational as JSON has it: always with its denominator."""
    return f"{number.numerator}/{number.denominator}"
