from __future__ import annotations

import numpy as np

from sfumato.shown.tally import Moments, Tally


def test_tally_of_symbols_counts_its_rows() -> None:
    assert Tally.of_symbols(np.array([3, 0, 4])).rows == 7


def test_variance_is_linear_in_the_count() -> None:
    assert Moments(5.0, 2.0, 0.5, 10).variance_at(4) == 4.0


def test_variance_is_never_below_zero() -> None:
    assert Moments(5.0, 1.0, -0.5, 10).variance_at(10) == 0.0


def test_variance_that_is_not_known_stays_unknown() -> None:
    assert Moments(5.0, None, 0.0, 10).variance_at(3) is None
