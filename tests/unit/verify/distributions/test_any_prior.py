"""The promise for every prior, recomputed from the published numbers alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato._verify.distributions.any_prior_guarantee import check_any_prior

BOUND = {"prior": "1/5", "posterior": "1/2"}
"""Odds may rise four times."""


@pytest.mark.parametrize(
    ("written", "worst", "is_kept"),
    [
        ({}, Fraction(4), True),
        ({}, Fraction(401, 100), False),
        ({"rows_per_person": 2}, Fraction(2), True),
        ({"rows_per_person": 2}, Fraction(201, 100), False),
        ({"rows_per_person": 3}, Fraction(2), False),
        ({"rows_per_person": 0}, Fraction(1), False),
    ],
)
def test_all_rows_of_a_person_together_keep_the_bound(written: dict[str, Any], worst: Fraction, is_kept: bool) -> None:
    assert check_any_prior({**BOUND, **written}, worst).has_passed is is_kept
