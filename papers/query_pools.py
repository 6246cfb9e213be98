"""Pools of count queries as the papers draw them, with their true counts.

A query joins conditions on some public columns with a value of the sensitive column, or with several. How the columns
and the values are drawn differs:

- `crossed`: 200 conditions on one to three columns, each joined with every sensitive value. Chaytor and Wang, "Small
  Domain Randomization", appendix 10.9.
- `within`: one to three columns and one sensitive value, of which those are kept whose true count lies in a band: large
  counts, or small ones. Fu, Wang, Wong, Wang and Jiang 2014 (SPLU), section 6.1.
- `spread`: a number of columns up to all, and for each so many values that a share of the records is expected to be
  found. Wang 2014 (F'-privacy), section 7.2.2; the thesis does not say how many, and `wanted_values` is what Anatomy's
  experiments take for queries of the same form (Xiao and Tao 2006).

All errors of these papers are relative to the true count, so no query of a pool has a true count of 0. Pools are drawn
by numpy's ordinary generator: what they hold is no secret, and a seed repeats them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from papers.coded_table import CodedTable, ColumnCodes
from sfumato._core.array_types import Counts, Mask, Places
from sfumato._core.exact_numbers import Exact, parse_exact
from sfumato._query.counting.count_request import Condition, CountQuery
from sfumato.errors import SchemaError, SpecError

CONDITIONS = 200
QUERIES = 5000
MOST_COLUMNS = 3
LARGEST_SMALL = 10
"""A small count has at most so many records."""
TRIES = 100
"""How often missing queries are drawn again, before a pool is given up."""


@dataclass(frozen=True)
class Band:
    """True counts from the least on, and below an end if there is one."""

    label: str
    least: int
    below: int | None = None

    def holds(self, truths: Counts) -> Mask:
        """Which of the counts lie in the band."""
        is_held: Mask = truths >= self.least
        return is_held if self.below is None else is_held & (truths < self.below)


def make_small_band() -> Band:
    """True counts of 1 to 10 (SPLU, section 6.1: "no more than 10")."""
    return Band(f"1 to {LARGEST_SMALL}", 1, LARGEST_SMALL + 1)


def make_lower_bands(rows: int, *shares: Exact) -> list[Band]:
    """A band for each least share of the records (small domain randomization, section 6.1: 0.1%, 0.5%, 1%)."""
    return [Band(f"from {float(share):.1%}", _find_first_count(rows, share)) for share in _parse_shares(shares)]


def make_bands_between(rows: int, *shares: Exact) -> list[Band]:
    """The bands from each share of the records to the next (SPLU, section 6.1: from 0.5% to 5% in CENSUS)."""
    pairs = itertools.pairwise(_parse_shares(shares))
    return [
        Band(f"{float(low):.1%} to {float(high):.1%}", _find_first_count(rows, low), _find_first_count(rows, high))
        for low, high in pairs
    ]


def _parse_shares(shares: Sequence[Exact]) -> list[Fraction]:
    return [parse_exact(share, "a share of the records") for share in shares]


def _find_first_count(rows: int, share: Fraction) -> int:
    """The first count that is not below a share of the records; never 0."""
    return max(math.ceil(share * rows), 1)


@dataclass(frozen=True, eq=False)
class Pool:
    """Queries with their true counts, in the order in which they were drawn."""

    queries: tuple[CountQuery, ...]
    truths: Counts

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, numbers: Places) -> Pool:
        """Some of them."""
        return Pool(tuple(self.queries[number] for number in numbers.tolist()), self.truths[numbers])

    def count_in(self, table: CodedTable) -> Counts:
        """How many records of a table each query finds: of the one it was drawn from the truth, of another an estimate.

        The other table has the same columns with the same domains, as after `with_sensitive`.
        """
        public = {name: _map_places(column) for name, column in table.public_columns.items()}
        sensitive = _map_places(table.sensitive)
        wheres = [
            {
                name: [public[name][value] for value in _list_values(condition)]
                for name, condition in query.where.items()
            }
            for query in self.queries
        ]
        return table.count_questions(
            wheres, [[sensitive[value] for value in query.values or ()] for query in self.queries]
        )


def _map_places(column: ColumnCodes) -> dict[Any, int]:
    return {value: code for code, value in enumerate(column.domain)}


def _list_values(condition: Condition) -> Collection[Any]:
    return condition if isinstance(condition, Collection) and not isinstance(condition, str) else [condition]


def draw_crossed_pool(table: CodedTable, seed: int, *, conditions: int = CONDITIONS) -> Pool:
    """Random conditions, each with every sensitive value that some of their records hold.

    One to three columns with equal probability, columns without replacement, a value of the domain of each.
    """
    generator = np.random.default_rng(seed)
    names = list(table.public_columns)
    queries: list[CountQuery] = []
    truths: list[Counts] = [np.zeros(0, dtype=np.int64)]
    for _ in range(conditions):
        number = generator.integers(1, min(MOST_COLUMNS, len(names)) + 1)
        column_names = [names[place] for place in generator.choice(len(names), size=number, replace=False)]
        codes = {name: int(generator.integers(table.public_columns[name].size)) for name in column_names}
        value_counts = table.count_values({name: [code] for name, code in codes.items()})
        where = {name: table.public_columns[name].domain[code] for name, code in codes.items()}
        places = np.flatnonzero(value_counts)
        queries += [CountQuery(where, [table.sensitive.domain[place]]) for place in places]
        truths.append(value_counts[places])
    return Pool(tuple(queries), np.concatenate(truths))


def draw_band_pool(table: CodedTable, seed: int, band: Band, *, size: int = QUERIES) -> Pool:
    """Random conditions with one random sensitive value each, of those whose true count lies in a band.

    Drawn are the columns as in `crossed`, a value of the domain of each, and a sensitive value, until the count lies in
    the band; the same query may come again. No query is tried in vain: all that find a record are counted, and drawn
    with the probability that they have.
    """
    if band.least < 1:
        raise SpecError(
            "a query that finds no record has no relative error; begin the band at 1.", code="band-from-zero"
        )
    names, sensitive = list(table.public_columns), table.sensitive
    subsets = [
        subset
        for number in range(1, min(MOST_COLUMNS, len(names)) + 1)
        for subset in itertools.combinations(names, number)
    ]
    subset_counts = {number: math.comb(len(names), number) for number in range(1, MOST_COLUMNS + 1)}
    cells: list[tuple[Places, Counts]] = []
    weights = []
    for subset in subsets:
        first, counts = _count_combinations([*(table.public_columns[name] for name in subset), sensitive])
        is_kept = band.holds(counts)
        cells.append((first[is_kept], counts[is_kept]))
        values = math.prod(table.public_columns[name].size for name in subset)
        weights.append(np.full(int(is_kept.sum()), 1 / subset_counts[len(subset)] / values))
    ends = np.cumsum([len(first) for first, _ in cells])
    if not ends[-1]:
        raise SpecError(
            f"no query of up to {MOST_COLUMNS} public columns has a true count of {band.label}.",
            code="empty-band",
            fields={"band": band.label},
        )
    weights_by_query = np.concatenate(weights)
    drawn_numbers = np.random.default_rng(seed).choice(
        len(weights_by_query), size=size, p=weights_by_query / weights_by_query.sum()
    )
    numbers = np.searchsorted(ends, drawn_numbers, side="right")
    rows = np.concatenate([first for first, _ in cells])[drawn_numbers]
    queries = [
        CountQuery(
            {
                name: table.public_columns[name].domain[table.public_columns[name].codes[row]]
                for name in subsets[number]
            },
            [sensitive.domain[sensitive.codes[row]]],
        )
        for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)
    ]
    return Pool(tuple(queries), np.concatenate([counts for _, counts in cells])[drawn_numbers])


def _count_combinations(columns: Sequence[ColumnCodes]) -> tuple[Places, Counts]:
    """For every combination of values that occurs, one of its records, and how many there are."""
    if math.prod(column.size for column in columns) > np.iinfo(np.int64).max:
        raise SchemaError(
            "the public columns have too many values for a pool; leave some out, or put them into ranges.",
            code="too-many-combinations",
        )
    numbers = np.zeros(len(columns[0].codes), dtype=np.int64)
    for column in columns:
        numbers = numbers * column.size + column.codes
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    return first, counts


def draw_spread_pool(table: CodedTable, seed: int, *, selectivity: Exact = "1/100", size: int = QUERIES) -> Pool:
    """Queries of one to all public columns, each with several values, and several sensitive values.

    Of each column, the sensitive one included, `wanted_values` different values are drawn. The thesis is silent on
    queries that find nothing, and divides by their count; here they are drawn again.
    """
    generator = np.random.default_rng(seed)
    share = parse_exact(selectivity, "the expected selectivity")
    if not 0 < share <= 1:
        raise SpecError(
            f"the expected selectivity is {share}, and must be above 0 and at most 1.",
            code="share-out-of-range",
            fields={"given": str(share)},
        )
    names, sensitive = list(table.public_columns), table.sensitive
    queries: list[CountQuery] = []
    truths = np.zeros(0, dtype=np.int64)
    for _ in range(TRIES):
        wheres, values = [], []
        for number in generator.integers(1, len(names) + 1, size=size - len(queries)).tolist():
            column_names = [names[place] for place in generator.choice(len(names), size=number, replace=False)]
            wheres.append(
                {name: _draw_values(table.public_columns[name], number, share, generator) for name in column_names}
            )
            values.append(_draw_values(sensitive, number, share, generator))
        counts = table.count_questions(wheres, values)
        for place in np.flatnonzero(counts).tolist():
            condition = {
                name: [table.public_columns[name].domain[code] for code in codes]
                for name, codes in wheres[place].items()
            }
            queries.append(CountQuery(condition, [sensitive.domain[code] for code in values[place]]))
        truths = np.concatenate([truths, counts[counts > 0]])
        if len(queries) == size:
            return Pool(tuple(queries), truths)
    raise SpecError(
        f"hardly any query that is expected to find {float(share):.2g} of the records finds one.",
        code="too-few-queries",
        fields={"share": float(share)},
    )


def compute_value_count(domain: int, columns: int, selectivity: Fraction) -> int:
    """How many values of a column a query names: ceil(b) for the number b = |A| s^(1/(qd+1)).

    Notation: |A| values of the column, qd public columns, s the expected selectivity. If all qd+1 columns were evenly
    distributed and independent, a query would find about the share s of the records.
    """
    # A whole number is not rounded up because the root of a float is a little too large.
    number = domain * math.pow(selectivity, 1 / (columns + 1))
    return min(max(math.ceil(number - 1e-9), 1), domain)


def _draw_values(column: ColumnCodes, columns: int, selectivity: Fraction, generator: np.random.Generator) -> list[int]:
    """Different random codes of a column."""
    value_count = compute_value_count(column.size, columns, selectivity)
    return sorted(generator.choice(column.size, size=value_count, replace=False).tolist())
