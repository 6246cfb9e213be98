"""One home for the hypothesis strategies: values, domains, histograms, requests and ways to cut rows into batches."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

from hypothesis import strategies as st

from sfumato._core.cell_values import Value
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram

# Quotes, controls, accents composed and combining, scripts, line separators and emoji; a fixed alphabet also spares
# hypothesis the seconds that it takes to classify all of Unicode on a fresh machine.
_letters = st.text("aZ09 _-/,;'\"\\\t\n\0é\u0301ßאع漢\u2028\U0001f5bc")
_offsets = st.sampled_from([None, datetime.UTC, datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))])

VALUES_OF_TYPE: Mapping[str, st.SearchStrategy[Value]] = {
    "string": _letters,
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "date": st.dates(),
    "datetime": st.datetimes(timezones=_offsets),
}
"""Values for each Data Package type that a column can have; None belongs to every type."""


def field_types() -> st.SearchStrategy[str]:
    """The name of a Data Package type."""
    return st.sampled_from(sorted(VALUES_OF_TYPE))


def values() -> st.SearchStrategy[Value]:
    """Any value that a cell can hold: of every type, missing, and what is no number among the numbers."""
    decimals = st.decimals(-(10**60), 10**60, places=3)
    return st.one_of(st.none(), *VALUES_OF_TYPE.values(), st.floats(), decimals)


def domains(field_type: str, min_size: int = 2, max_size: int = 8) -> st.SearchStrategy[tuple[Value, ...]]:
    """Distinct values of one column type, in any order."""
    kind = st.none() | VALUES_OF_TYPE[field_type]
    return st.lists(kind, min_size=min_size, max_size=max_size, unique=True).map(tuple)


@st.composite
def histograms(draw: st.DrawFn, min_size: int = 2, max_size: int = 8) -> Histogram:
    """A domain of one type with counts, some of them zero, of a table that is not empty."""
    kind = draw(field_types().filter(lambda name: name != "boolean" or min_size <= 3))
    domain = draw(domains(kind, min_size, max_size if kind != "boolean" else min(max_size, 3)))
    counts = draw(st.lists(st.integers(0, 10**12), min_size=len(domain), max_size=len(domain)).filter(any))
    return Histogram(domain, tuple(counts))


def _parts(number: int, largest: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(1, largest)] * number)


def shares(largest: int = 1000) -> st.SearchStrategy[Fraction]:
    """An exact number strictly between 0 and 1: one of two parts of a whole."""
    return _parts(2, largest).map(lambda parts: Fraction(parts[0], sum(parts)))


def breach_bounds(largest: int = 1000) -> st.SearchStrategy[BreachBound]:
    """A request that makes sense, 0 < prior < posterior < 1: two limits between three parts of a whole."""
    return _parts(3, largest).map(
        lambda parts: BreachBound(Fraction(parts[0], sum(parts)), Fraction(parts[0] + parts[1], sum(parts)))
    )


def fine_breach_bounds() -> st.SearchStrategy[BreachBound]:
    """Requests too fine for 63 bits: long denominators, beliefs next to each other, posteriors next to certainty."""
    near_certain = st.builds(
        lambda prior, digits: BreachBound(prior, 1 - (1 - prior) / 10**digits), shares(), st.integers(1, 60)
    )
    neighbours = st.builds(
        lambda prior, digits: BreachBound(prior, prior + (1 - prior) / 10**digits), shares(), st.integers(1, 60)
    )
    return st.one_of(breach_bounds(10**40), near_certain, neighbours)


def batch_splits(rows: int) -> st.SearchStrategy[list[range]]:
    """A way to cut `range(rows)` into consecutive batches; empty batches happen."""

    def ranges(cuts: list[int]) -> list[range]:
        edges = [0, *sorted(cuts), rows]
        return [range(first, last) for first, last in pairwise(edges)]

    return st.lists(st.integers(0, rows), max_size=8).map(ranges)
