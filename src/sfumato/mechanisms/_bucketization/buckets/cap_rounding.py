"""Rounds caps on the share of a value in a bucket to whole records, exactly.

A cap is a rational in (0, 1]: in a bucket of S records, at most floor(cap * S) may have the value. The floors are
computed with integers, because floating-point numbers give some wrong floors: 0.58 * 50 becomes 28.999... instead of
29.

Notation: f'_i = cap, o_i = count, |T| = total, c_i(S) = floors[value, size].
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


def compute_largest_count(cap: Fraction, size: int) -> int:
    """The largest number of records with the value in a bucket of this size."""
    return cap.numerator * size // cap.denominator


def compute_least_size(cap: Fraction) -> int:
    """The size of the smallest bucket that may have the value at all: ceil(1 / cap)."""
    return -(-cap.denominator // cap.numerator)


def compute_floors(caps: Sequence[Fraction], sizes: Sequence[int]) -> Integers:
    """Computes floor(cap * size) for every value (row) and size (column). Equal caps are computed once."""
    rows = {cap: [compute_largest_count(cap, size) for size in sizes] for cap in set(caps)}
    return np.array([rows[cap] for cap in caps], dtype=np.int64).reshape(len(caps), len(sizes))
