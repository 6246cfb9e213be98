from __future__ import annotations

from fractions import Fraction

import pytest

from bucket_cases import linear_caps
from sfumato.mechanisms._bucketization.buckets.bucket_problem import (
    CapBelowShare,
    LargestTooSmall,
    NoBucketingError,
    NothingFits,
    pose,
)
from sfumato.mechanisms._bucketization.buckets.cap_rounding import (
    compute_floors,
    compute_largest_count,
    compute_least_size,
)


@pytest.mark.parametrize(
    ("cap", "size", "floor"),
    [
        ("0.58", 50, 29),
        ("0.29", 100, 29),
        ("0.57", 100, 57),
        ("0.1", 30, 3),
        ("0.07", 100, 7),
        ("1/3", 3, 1),
        ("2/3", 3, 2),
        ("0.02", 50, 1),
        ("0.35", 20, 7),
        ("0.55", 20, 11),
        ("1", 7, 7),
        ("1/7", 6, 0),
    ],
)
def test_floors_are_exact_where_doubles_are_not(cap: str, size: int, floor: int) -> None:
    assert compute_largest_count(Fraction(cap), size) == floor
    assert compute_floors([Fraction(cap)], [size]).tolist() == [[floor]]


def test_least_size_is_the_smallest_with_a_positive_floor() -> None:
    for cap in (Fraction(a, b) for b in range(1, 12) for a in range(1, b + 1)):
        size = compute_least_size(cap)
        assert compute_largest_count(cap, size) >= 1
        assert size == 1 or compute_largest_count(cap, size - 1) == 0


def test_linear_caps_are_exact_and_end_at_one() -> None:
    assert linear_caps([2, 9, 25], Fraction(3), Fraction("0.02")) == (Fraction(14, 75), Fraction(77, 100), 1)


def test_a_cap_below_the_share_names_the_value_and_the_remedy() -> None:
    with pytest.raises(NoBucketingError) as caught:
        pose([9, 1], [Fraction(4, 5), Fraction(1)], 1, 10)
    assert caught.value.reason == CapBelowShare(0, Fraction(9, 10), Fraction(4, 5))
    named = caught.value.name_values(["'flu'", "'HIV'"])
    said = "has a share of 9/10, above its cap 4/5, so no bucketization exists. Raise the cap to at least 9/10."
    assert (str(named), named.sentence_with_values) == (f"one value {said}", f"'flu' {said}")


def test_a_maximum_below_the_least_size_names_the_value_and_the_size() -> None:
    with pytest.raises(NoBucketingError) as caught:
        pose([9, 1], [Fraction(1), Fraction(1, 8)], 1, 7)
    assert caught.value.reason == LargestTooSmall(1, Fraction(1, 8), 8, 7)
    assert "Allow buckets of at least 8" in str(caught.value)


def test_values_without_records_are_not_checked() -> None:
    assert pose([5, 0, 5], [Fraction(1, 2), Fraction(1, 10), Fraction(1, 2)], 1, 6).sizes.tolist() == [2, 4, 6]


def test_sizes_that_cannot_be_filled_are_left_out() -> None:
    assert pose([1, 3, 5], [Fraction(1, 4), Fraction(7, 9), Fraction(2, 3)], 1, 4).sizes.tolist() == [2, 3, 4]


def test_many_places_are_counted_and_few_are_named() -> None:
    named = NoBucketingError(NothingFits(tuple(range(9)), 6, 8)).name_values([f"x{place + 1}" for place in range(9)])
    assert "cannot hold all records with 9 values within" in str(named)
    message = named.sentence_with_values
    assert "x1, x2, x3, x4, x5 and 4 other values" in message
    assert "allow buckets of 8" in message
