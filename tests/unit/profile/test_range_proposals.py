"""Round edges for ranges: they cover everything, cut where records are, and never at the smallest or largest value."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._profile.role_guessing import propose_date_edges, propose_number_edges
from sfumato._request.range_edges import Ranges

NUMBERS = st.floats(-1e12, 1e12, allow_nan=False) | st.integers(-1000, 1000).map(float)
FIRST, LAST = datetime.date(1, 1, 1), datetime.date(9999, 12, 31)
EPOCH = datetime.date(1970, 1, 1)


@pytest.mark.parametrize(
    ("numbers", "edges"),
    [
        (range(101), "0 20 40 60 80 inf"),
        (range(10, 96), "0 20 40 60 80 inf"),
        (range(1950, 2006), "0 1960 1970 1980 1990 2000 inf"),
        (range(-50, 51), "-inf -40 -20 0 20 40 inf"),
        (range(3), "0 1 inf"),
        ([0.0, 0.25, 0.5, 0.75, 1.0], "0 0.2 0.4 0.6 0.8 inf"),
        ([1e-7, 5e-7, 1e-6], "0 0.0000002 0.0000004 0.0000006 0.0000008 inf"),
        ([5, 5, 5], ""),
        ([0.6, 0.6, 1.0, 1.7, 1.7], "0 0.8 1.0 1.2 1.4 1.6 inf"),
    ],
)
def test_edges_of_numbers_are_round(numbers: range | list[float], edges: str) -> None:
    found = propose_number_edges(np.array(numbers, dtype=np.float64), is_whole=isinstance(numbers, range))
    assert found == tuple(edges.split())


def test_numbers_without_end_are_covered() -> None:
    assert propose_number_edges(np.array([np.inf, -np.inf, 0, 10, 20, 30]), is_whole=False)[:1] == ("-inf",)
    assert propose_number_edges(np.array([np.inf, -np.inf]), is_whole=False) == ()
    assert propose_number_edges(np.array([-1.7e308, 1.7e308]), is_whole=False) == ()


@given(st.lists(NUMBERS, min_size=1), st.booleans())
def test_edges_of_numbers_hold_everything_and_no_extreme(numbers: list[float], is_whole: bool) -> None:
    values = np.round(numbers) if is_whole else np.array(numbers)
    edges = propose_number_edges(values, is_whole=is_whole)
    if not edges:
        return
    parsed = Ranges(edges).parsed_edges
    assert parsed[0] <= values.min()  # type: ignore[operator]
    assert parsed[-1] >= values.max()  # type: ignore[operator]
    assert len(edges) <= 12
    assert not {Decimal(str(values.min())), Decimal(str(values.max()))} & {Decimal(edge) for edge in edges[1:-1]}


@pytest.mark.parametrize(
    ("first", "last", "edges"),
    [
        ("2008-01-05", "2012-12-20", "2009-01-01 2010-01-01 2011-01-01 2012-01-01"),
        ("1931-04-04", "1999-04-04", "1940-01-01 1960-01-01 1980-01-01"),
        ("2024-01-05", "2024-06-20", "2024-02-01 2024-03-01 2024-04-01 2024-05-01 2024-06-01"),
        ("2024-01-05", "2024-01-20", ""),
    ],
)
def test_edges_of_dates_are_firsts_of_months(first: str, last: str, edges: str) -> None:
    days = [(datetime.date.fromisoformat(day) - EPOCH).days for day in (first, last)]
    found = propose_date_edges(np.arange(days[0], days[1] + 1))
    assert found == (("1900-01-01", *edges.split(), "2100-01-01") if edges else ())


@given(st.lists(st.dates(FIRST, LAST), min_size=1))
def test_edges_of_dates_hold_everything_and_no_extreme(dates: list[datetime.date]) -> None:
    edges = propose_date_edges(np.array([(day - EPOCH).days for day in dates]))
    if not edges:
        return
    parsed = Ranges(edges).parsed_edges
    assert parsed[0] <= min(dates)  # type: ignore[operator]
    assert parsed[-1] >= max(dates)  # type: ignore[operator]
    assert not {min(dates), max(dates)} & set(parsed[1:-1])


def test_dates_of_other_ages_have_edges_too() -> None:
    edges = propose_date_edges(np.array([-5_000_000, 0, 5_000_000]))
    assert (edges[0], edges[-1]) == ("0001-01-01", "9999-12-31")
