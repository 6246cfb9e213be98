from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from papers.coded_table import CodedTable, ColumnCodes
from papers.query_pools import (
    Band,
    Pool,
    compute_value_count,
    draw_band_pool,
    draw_crossed_pool,
    draw_spread_pool,
    make_bands_between,
    make_lower_bands,
    make_small_band,
)
from refusals import refuses
from sfumato._query.counting.count_request import CountQuery
from sfumato.errors import SchemaError, SpecError

ROWS = 600


def people(seed: int = 3) -> pa.Table:
    """Four public columns of several types, one with missing values, and a skewed sensitive one."""
    chance = np.random.default_rng(seed)
    towns = np.array(["Ulm", "Köln", "O'Hara", None], dtype=object)
    return pa.table(
        {
            "sex": pa.array(chance.choice(["F", "M"], ROWS)).dictionary_encode(),
            "age": pa.array(chance.integers(20, 40, ROWS)),
            "town": pa.array(towns[chance.integers(0, 4, ROWS)].tolist()),
            "old": pa.array(chance.integers(0, 2, ROWS) == 1),
            "disease": pa.array(np.array(["flu", "gout", "HIV", None], dtype=object)[chance.geometric(0.6, ROWS) % 4]),
        }
    )


TABLE = people()
CODED = CodedTable.of(TABLE, "disease")


def by_duckdb(queries: Sequence[CountQuery]) -> list[int]:
    """The true counts, by SQL."""
    wheres = [CountQuery({**query.where, "disease": list(query.values or ())}).sql for query in queries]
    with duckdb.connect() as connection:
        connection.register("people", TABLE)
        asked = ", ".join(f"COUNT(*) FILTER (WHERE {where})" for where in wheres)
        return list(connection.execute(f"SELECT {asked} FROM people").fetchone() or ())


POOLS = {
    "crossed": draw_crossed_pool(CODED, 1, conditions=40),
    "small counts": draw_band_pool(CODED, 1, make_small_band(), size=60),
    "large counts": draw_band_pool(CODED, 1, make_bands_between(ROWS, "0.05", "0.2")[0], size=60),
    "spread": draw_spread_pool(CODED, 1, size=60),
    "spread, more found": draw_spread_pool(CODED, 1, selectivity="1/5", size=60),
}


@pytest.mark.parametrize("name", POOLS)
def test_truths_are_those_of_sql_and_never_none(name: str) -> None:
    pool = POOLS[name]
    assert by_duckdb(pool.queries) == pool.truths.tolist()
    assert len(pool) == len(pool.truths) > 0
    assert (pool.truths > 0).all()


@pytest.mark.parametrize("name", POOLS)
def test_a_pool_finds_its_truths_again_and_counts_other_values(name: str) -> None:
    pool = POOLS[name]
    assert (pool.count_in(CODED) == pool.truths).all()
    turned = CODED.replace_sensitive((CODED.sensitive.codes + 1) % CODED.sensitive.size)
    domain = CODED.sensitive.domain
    back = {value: domain[place - 1] for place, value in enumerate(domain)}
    before = [CountQuery(each.where, [back[value] for value in each.values or ()]) for each in pool.queries]
    assert pool.count_in(turned).tolist() == by_duckdb(before)


def test_other_values_are_as_many_as_the_records() -> None:
    with refuses(SchemaError, "values-do-not-fit-records", records=600, values=599):
        CODED.replace_sensitive(CODED.sensitive.codes[1:])


def test_some_queries_of_a_pool_keep_their_truths() -> None:
    taken = POOLS["crossed"].take(np.array([5, 0, 5]))
    assert taken.queries == tuple(POOLS["crossed"].queries[number] for number in (5, 0, 5))
    assert by_duckdb(taken.queries) == taken.truths.tolist()


def test_the_same_seed_draws_the_same_pool_whatever_the_order_of_the_records() -> None:
    turned = CodedTable.of(TABLE.take(np.arange(ROWS)[::-1]), "disease")

    def drawn(table: CodedTable, seed: int) -> list[Pool]:
        return [
            draw_crossed_pool(table, seed, conditions=20),
            draw_band_pool(table, seed, make_small_band(), size=20),
            draw_spread_pool(table, seed, size=20),
        ]

    for one, again, other in zip(drawn(CODED, 5), drawn(turned, 5), drawn(CODED, 6), strict=True):
        assert one.queries == again.queries
        assert (one.truths == again.truths).all()
        assert one.queries != other.queries


def test_crossed_has_every_value_that_the_records_of_a_condition_hold() -> None:
    groups = itertools.groupby(
        zip(POOLS["crossed"].queries, POOLS["crossed"].truths.tolist(), strict=True), key=lambda pair: pair[0].where
    )
    found = {tuple(where.items()): list(pairs) for where, pairs in groups}
    assert {len(where) for where in found} == {1, 2, 3}
    rows = by_duckdb([CountQuery(dict(where), CODED.sensitive.domain) for where in found])
    for number, pairs in zip(rows, found.values(), strict=True):
        times = sum(query.values == pairs[0][0].values for query, _ in pairs)  # drawn again, one after the other
        assert sum(truth for _, truth in pairs) == times * number


def test_within_stays_in_its_band() -> None:
    small, large = POOLS["small counts"].truths, POOLS["large counts"].truths
    assert small.max() <= 10
    assert large.min() >= 30
    assert large.max() < 120


def test_within_draws_each_query_as_often_as_drawing_until_it_fits() -> None:
    """Two columns of two values: one column or both, then which one, then a value of each.

    Of the queries that find a record, {a: x} has the weight 1/2 * 1/2 * 1/2, and {a: x, b: 1} has 1/2 * 1/4.
    """
    table = CodedTable.of(pa.table({"a": ["x", "z"], "b": [1, 2], "v": ["p", "p"]}), "v")
    pool = draw_band_pool(table, 8, Band("any", 1), size=40_000)
    weights = {1: 4 * (1 / 2) * (1 / 2) * (1 / 2), 2: 2 * (1 / 2) * (1 / 4)}
    share = np.mean([len(query.where) == 2 for query in pool.queries])
    assert share == pytest.approx(weights[2] / sum(weights.values()), abs=0.012)  # six standard errors


def test_within_says_where_a_band_is_empty_or_begins_at_nothing() -> None:
    with refuses(SpecError, "empty-band", band="600 and more"):
        draw_band_pool(CODED, 1, Band("600 and more", 601))
    with refuses(SpecError, "band-from-zero"):
        draw_band_pool(CODED, 1, Band("none", 0, 5))


def test_spread_has_as_many_values_of_each_column_as_the_selectivity_asks_for() -> None:
    """By hand: 20 values at 1%: with one column 20 * 0.1 = 2, with three 20 * 0.01^(1/4) = 6.3, so 7."""
    assert [compute_value_count(20, columns, Fraction(1, 100)) for columns in (1, 3)] == [2, 7]
    assert compute_value_count(1000, 2, Fraction(1, 1000)) == 100  # and not 101, by the error of a float
    assert compute_value_count(3, 7, Fraction(1)) == 3
    assert compute_value_count(3, 1, Fraction(1, 10**9)) == 1
    for query in POOLS["spread"].queries:
        for name, values in query.where.items():
            assert isinstance(values, list)
            assert (
                len(values)
                == len(set(values))
                == compute_value_count(CODED.public_columns[name].size, len(query.where), Fraction(1, 100))
            )
        assert len(query.values or ()) == compute_value_count(4, len(query.where), Fraction(1, 100))
    assert {len(query.where) for query in POOLS["spread"].queries} == {1, 2, 3, 4}


@pytest.mark.slow
def test_spread_gives_up_where_nothing_is_found_and_refuses_no_share() -> None:
    lonely = CodedTable(
        {"a": ColumnCodes(np.zeros(1, dtype=np.uint8), tuple(range(10**5)))},
        ColumnCodes(np.zeros(1, dtype=np.uint8), ("v",)),
    )
    with refuses(SpecError, "too-few-queries"):
        draw_spread_pool(lonely, 1, selectivity="1/10000000000", size=2)
    with refuses(SpecError, "share-out-of-range", given="0"):
        draw_spread_pool(CODED, 1, selectivity=0)


def test_bands_are_cut_exactly() -> None:
    """0.5% of 1,000 records are 5; of 148,318 they are 741.59, so that the first count is 742."""
    assert make_bands_between(1000, "0.5%", "1%", "2%") == [Band("0.5% to 1.0%", 5, 10), Band("1.0% to 2.0%", 10, 20)]
    assert make_lower_bands(148_318, "0.5%") == [Band("from 0.5%", 742)]
    assert make_lower_bands(10, "0.1%")[0].least == 1
    assert make_small_band().holds(np.array([0, 1, 10, 11])).tolist() == [False, True, True, False]


def test_a_table_without_what_is_needed_is_refused() -> None:
    for table in (TABLE.select(["disease"]), TABLE.drop(["disease"]), TABLE.slice(0, 0)):
        with refuses(SchemaError, "incomplete-pool", column="disease"):
            CodedTable.of(table, "disease")
    wide = ColumnCodes(np.zeros(1, dtype=np.uint8), tuple(range(60_000)))
    with refuses(SchemaError, "too-many-combinations"):
        draw_band_pool(CodedTable(dict.fromkeys("abc", wide), wide), 1, make_small_band())  # 60,000^4 is above 2^63
