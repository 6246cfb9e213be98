"""One count of one condition as plain numbers, where estimators give arrays with a line for each condition."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from sfumato._query.estimate import Estimate
from sfumato._records.tally import Tally
from sfumato.mechanisms.estimator import Method, Moments


@dataclass(frozen=True)
class Single:
    """The moments of one number; no base where nothing is known about its error."""

    value: float
    base: float | None
    slope: float
    most: float
    least: float
    note: str | None
    moments: Moments = field(repr=False, compare=False)

    @classmethod
    def of(cls, moments: Moments) -> Single:
        """The only number that there is."""
        lines = (moments.value, moments.base, moments.slope, moments.most, moments.least)
        assert [line.shape for line in lines] == [(1,)] * len(lines)
        assert all(line.dtype == np.float64 for line in lines)
        value, base, slope, most, least = (float(line[0]) for line in lines)
        return cls(value, None if math.isnan(base) else base, slope, most, least, moments.note, moments)

    def variance_at(self, count: float) -> float | None:
        """The variance of the estimate if the true count were `count`."""
        return None if self.base is None else max(0.0, self.base + self.slope * count)

    def estimate(self) -> Estimate:
        """The same with its error and its interval."""
        return Estimate.of(self.moments, "method", "assumption")


def singles(moments: Sequence[Moments]) -> list[Single]:
    """The only number of each."""
    return [Single.of(each) for each in moments]


def counted(method: Method[Any], design: Any, tally: Tally, *wanted: Sequence[int]) -> list[Single]:
    """What a method counts of each set of places, in a tally of one line."""
    return singles(method.count(design, tally, [np.array(places, dtype=np.int64) for places in wanted]))


def check_lines(count: Callable[[Tally], Sequence[Moments]], tally: Tally) -> None:
    """Every line of a tally is counted as if it were alone: numbers, bounds and notes."""
    together = count(tally)
    assert all(len(each) == len(tally) for each in together)
    for line in range(len(tally)):
        only = np.array([line])
        for all_lines, one in zip(together, count(tally.take(only)), strict=True):
            mine = all_lines.take(only)
            for name in ("value", "base", "slope", "most", "least"):
                scale = max(1.0, abs(float(tally.rows[line])))
                assert getattr(mine, name) == pytest.approx(getattr(one, name), rel=1e-9, abs=1e-9 * scale, nan_ok=True)
            assert mine.note == one.note
            assert mine.note is None or mine.is_own_note == one.is_own_note
