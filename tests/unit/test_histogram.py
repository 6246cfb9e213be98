from __future__ import annotations

from dataclasses import FrozenInstanceError
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given

from sfumato.errors import SchemaError
from sfumato.request.histogram import Histogram
from strategies import histograms, shares


def test_histogram_counts_records_and_values() -> None:
    histogram = Histogram(("flu", "cold", "none"), (3, 0, 9))
    assert (histogram.total, histogram.domain_size) == (12, 3)


def test_histogram_gives_exact_shares() -> None:
    assert Histogram(("flu", "none"), (1, 2)).shares == (Fraction(1, 3), Fraction(2, 3))


def test_histogram_of_any_sequences_holds_tuples_of_plain_integers() -> None:
    histogram = Histogram.of(["flu", None], list(np.array([4, 5])))
    assert histogram == Histogram(("flu", None), (4, 5))
    assert [type(count) for count in histogram.counts] == [int, int]


@given(histograms())
def test_shares_sum_to_one(histogram: Histogram) -> None:
    assert sum(histogram.shares) == 1


@given(histograms())
def test_shares_are_counts_over_total(histogram: Histogram) -> None:
    assert [share * histogram.total for share in histogram.shares] == list(histogram.counts)


@given(histograms(), shares())
def test_above_names_the_values_whose_share_exceeds_the_limit(histogram: Histogram, limit: Fraction) -> None:
    expected = [value for value, share in zip(histogram.values, histogram.shares, strict=True) if share > limit]
    assert list(histogram.above(limit)) == expected


def test_above_leaves_out_a_share_that_equals_the_limit() -> None:
    assert Histogram(("a", "b", "c"), (1, 1, 1)).above(Fraction(1, 3)) == ()


def test_above_decides_shares_that_floats_cannot_tell_apart() -> None:
    histogram = Histogram(("a", "b"), (10**20 + 1, 2 * 10**20 - 1))
    assert histogram.above(Fraction(1, 3)) == ("a", "b")


def test_histogram_tells_values_of_different_types_apart() -> None:
    assert Histogram((1, True, 1.0, "1", None), (1, 1, 1, 1, 1)).domain_size == 5


def test_histogram_refuses_counts_that_do_not_fit_the_values() -> None:
    with pytest.raises(SchemaError, match=r"^2 values and 1 counts do not fit together\.$"):
        Histogram(("a", "b"), (1,))


def test_histogram_refuses_a_count_below_zero() -> None:
    with pytest.raises(SchemaError, match=r"^a count is below zero\.$"):
        Histogram(("a", "b"), (3, -1))


@pytest.mark.parametrize("value", ["a", 1, None])
def test_histogram_refuses_a_value_named_twice(value: str | int | None) -> None:
    with pytest.raises(SchemaError, match="occurs twice in the domain; name each value once"):
        Histogram((value, "b", value), (1, 1, 1))


@pytest.mark.parametrize(("values", "counts"), [((), ()), (("a", "b"), (0, 0))], ids=["no values", "no records"])
def test_histogram_refuses_an_empty_table(values: tuple[str, ...], counts: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="the table is empty"):
        Histogram(values, counts)


def test_histogram_cannot_be_changed() -> None:
    histogram = Histogram(("a", "b"), (1, 2))
    with pytest.raises(FrozenInstanceError):
        histogram.counts = (9, 9)  # type: ignore[misc]
