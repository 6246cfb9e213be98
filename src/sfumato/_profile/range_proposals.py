"""Edges of ranges to propose for a column of numbers or dates: round ones, so that they tell nothing of single values.

The first and the last edge do not come from the table. Those between them are multiples of a round step, and lie
between the values of ordinary records: the smallest and the largest value are never among them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt

RANGES = 6
"""About how many ranges are proposed."""
ORDINARY_SHARES = (0.02, 0.98)
"""Between these shares of the records lie the values that the ranges are made for; the others go to the outer ones."""
STEPS = (1, 2, 5, 10)
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)


def propose_number_edges(numbers: npt.NDArray[np.float64], *, is_whole: bool) -> tuple[str, ...]:
    """Edges for numbers: from 0, or from below everything, to above everything; empty where there is nothing to cut."""
    finite = numbers[np.isfinite(numbers)]
    low, high = map(float, np.quantile(finite, ORDINARY_SHARES, method="nearest")) if len(finite) else (0.0, 0.0)
    width = (high - low) / RANGES
    if not 0 < width < math.inf:
        return ()
    power = max(math.floor(math.log10(width)), 0 if is_whole else -300)
    step = next(step for step in STEPS if step * 10.0**power >= width or step == STEPS[-1])
    unit = Decimal(step).scaleb(power)
    # By their digits: 0.6 / 0.2 is below 3 in floating-point numbers, and 0.6 would be an edge.
    first, last = math.floor(Decimal(repr(low)) / unit) + 1, math.ceil(Decimal(repr(high)) / unit) - 1
    inner = [format(unit * number, "f") for number in range(first, last + 1)]
    return _join_edges("0" if numbers.min() >= 0 else "-inf", inner, "inf")


def propose_date_edges(days: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """Edges for dates, given in days since 1970: firsts of months, between the turns of two centuries."""
    low, high = (_convert_to_date(int(day)) for day in np.quantile(days, ORDINARY_SHARES, method="nearest"))
    months = [12 * day.year + day.month - 1 for day in (low, high)]
    step = next((step for step in MONTHS if step * RANGES >= months[1] - months[0]), MONTHS[-1])
    starts = range(months[0] // step * step + step, months[1] + 1, step)
    inner = [f"{month // 12:04d}-{month % 12 + 1:02d}-01" for month in starts]
    smallest, largest = (_convert_to_date(int(day)) for day in (days.min(), days.max()))
    inner = [day for day in inner if day not in (str(smallest), str(largest))]
    first = FIRST_DAY if smallest >= FIRST_DAY else datetime.date.min
    last = LAST_DAY if largest <= LAST_DAY else datetime.date.max
    return _join_edges(str(first), [day for day in inner if str(first) < day < str(last)], str(last))


def _convert_to_date(days: int) -> datetime.date:
    """A date from days since 1970; the nearest there is for those of other ages."""
    ordinal = datetime.date(1970, 1, 1).toordinal() + days
    return datetime.date.fromordinal(min(max(ordinal, 1), datetime.date.max.toordinal()))


def _join_edges(first: str, inner: Sequence[str], last: str) -> tuple[str, ...]:
    """All edges, if there is more than one range."""
    return (first, *inner, last) if inner else ()
