"""The attack that joins records and values of a bucket by their order.

A script that makes both tables from the same sorted records leaves them in the same order: the first record of a bucket
has its first value. Here neither the order of the records, nor that of the lines, nor the ids of buckets tell anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from accepted import ALL_ACCEPTED, give_reasons
from releases import known_key
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.bucket_and_decoy_requirements import Diversity, LinearCap
from sfumato._request.schema import Schema
from statistical.support import ALPHA

pytestmark = pytest.mark.statistical

Numbers = npt.NDArray[np.int64]

ROWS, VALUES = 3000, 8
WAYS: dict[str, PrivacySpec] = {"anatomy": Diversity(3), "buckets": LinearCap("3/2", "1/20")}
every_way = pytest.mark.parametrize("way", WAYS)


def original() -> tuple[Numbers, pa.Table]:
    """The value of each record, and a table sorted by value: whoever finds the order back has found the values."""
    weights = np.linspace(2, 1, VALUES)
    values = np.sort(np.random.default_rng(5).choice(VALUES, size=ROWS, p=weights / weights.sum()))
    return values, pa.table({"person": np.arange(ROWS), "disease": [f"disease {value}" for value in values]})


class Published:
    """The two tables of a release, in the order of their files."""

    def __init__(self, folder: Path) -> None:
        records, lines = pq.read_table(folder / "qit.parquet"), pq.read_table(folder / "st.parquet")
        self.person: Numbers = records.column("person").to_numpy().astype(np.int64)
        self.bucket: Numbers = records.column("bucket").to_numpy().astype(np.int64)
        values = np.array([int(each.split()[1]) for each in lines.column("disease").to_pylist()])
        counts = lines.column("count").to_numpy().astype(np.int64)
        self.line_bucket: Numbers = np.repeat(lines.column("bucket").to_numpy().astype(np.int64), counts)
        self.line_value: Numbers = np.repeat(values, counts)


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Published]:
    folder = tmp_path_factory.mktemp("order")

    @cache
    def release(way: str) -> Published:
        request = Request(
            original()[1],
            schema=Schema.of("disease", keep=["person"], public="*"),
            spec=WAYS[way],
            mechanism=way,
            accept_disclosing=give_reasons(["person"]),
            **ALL_ACCEPTED,
        )
        publish(request, folder / way, unsafe_test_key=known_key(0))
        return Published(folder / way)

    return release


def joined(bucket: Numbers, line_bucket: Numbers, line_value: Numbers) -> Numbers:
    """The attack: to the i-th record of each bucket, in the order of the file, the i-th value of that bucket."""
    guess = np.empty(len(bucket), dtype=np.int64)
    guess[np.argsort(bucket, kind="stable")] = line_value[np.argsort(line_bucket, kind="stable")]
    return guess


def chances(published: Published, truth: Numbers) -> npt.NDArray[np.float64]:
    """The chance that a guess at random within the bucket is right: the share of the record's value there."""
    sizes = np.bincount(published.bucket)
    held = np.zeros((len(sizes), VALUES))
    np.add.at(held, (published.line_bucket, published.line_value), 1)
    return held[published.bucket, truth[published.person]] / sizes[published.bucket]


def chance_of(hits: int, chance: npt.NDArray[np.float64]) -> float:
    """An upper bound of the chance of so many hits, if each record is guessed by a coin of its own.

    Of all laws with this mean the binomial one with equal chances has the longest tail (Hoeffding 1956).
    """
    return float(stats.binom.sf(hits - 1, len(chance), chance.mean()))


def within_buckets(bucket: Numbers, key: Numbers) -> Numbers:
    """An order of the rows in which the records of each bucket, wherever they stand, are sorted by a key."""
    order = np.empty(len(bucket), dtype=np.int64)
    order[np.argsort(bucket, kind="stable")] = np.lexsort((key, bucket))
    return order


@every_way
def test_joining_records_and_values_by_their_order_is_no_better_than_chance(
    releases: Callable[[str], Published], way: str
) -> None:
    published, (truth, _) = releases(way), original()
    hits = joined(published.bucket, published.line_bucket, published.line_value) == truth[published.person]
    assert chance_of(int(hits.sum()), chances(published, truth)) >= ALPHA


@every_way
def test_joining_by_the_opposite_order_is_no_better_than_chance(releases: Callable[[str], Published], way: str) -> None:
    published, (truth, _) = releases(way), original()
    backwards = joined(published.bucket[::-1], published.line_bucket, published.line_value)[::-1]
    hits = backwards == truth[published.person]
    assert chance_of(int(hits.sum()), chances(published, truth)) >= ALPHA


@every_way
def test_records_in_the_order_of_the_table_would_be_found_out(releases: Callable[[str], Published], way: str) -> None:
    """The power of the attack: sorted within their buckets as the original is, nearly all records tell their value."""
    published, (truth, _) = releases(way), original()
    order = within_buckets(published.bucket, published.person)
    bucket, person = published.bucket[order], published.person[order]
    assert (bucket == published.bucket).all()
    hits = joined(bucket, published.line_bucket, published.line_value) == truth[person]
    assert chance_of(int(hits.sum()), chances(published, truth)) < ALPHA
    assert hits.mean() > 0.99


@every_way
def test_even_a_few_records_in_order_would_be_found_out(releases: Callable[[str], Published], way: str) -> None:
    """The twin with less in it: one bucket of three keeps the order of the table."""
    published, (truth, _) = releases(way), original()
    kept = published.bucket % 3 == 0
    key = np.where(kept, published.person, np.arange(ROWS))
    order = within_buckets(published.bucket, key)
    hits = joined(published.bucket, published.line_bucket, published.line_value) == truth[published.person[order]]
    assert chance_of(int(hits.sum()), chances(published, truth)) < ALPHA


# ------------------------------------------------------------------------------------------------------ orders and ids


def correlation_chance(one: Numbers, other: Numbers) -> float:
    """The chance of so much rank correlation between two orders that have nothing to do with each other."""
    return float(stats.spearmanr(one, other).pvalue)


@every_way
def test_positions_ids_and_the_table_have_orders_of_their_own(releases: Callable[[str], Published], way: str) -> None:
    published, positions = releases(way), np.arange(ROWS)
    assert correlation_chance(positions, published.bucket) >= ALPHA
    assert correlation_chance(positions, published.person) >= ALPHA
    assert correlation_chance(published.person, published.bucket) >= ALPHA


@every_way
def test_the_order_of_a_bucket_is_not_that_of_the_table(releases: Callable[[str], Published], way: str) -> None:
    """Of two records of a bucket that follow each other, the earlier one of the table comes first half of the time."""
    published = releases(way)
    order = np.argsort(published.bucket, kind="stable")
    bucket, person = published.bucket[order], published.person[order]
    first = np.flatnonzero(np.diff(bucket) == 0)
    first = first[np.diff(first, prepend=-2) > 1]  # pairs that share no record
    earlier = int((person[first] < person[first + 1]).sum())
    assert stats.binomtest(earlier, len(first)).pvalue >= ALPHA
    assert stats.binomtest(len(first), len(first)).pvalue < ALPHA


@every_way
def test_what_buckets_hold_does_not_go_with_their_ids(releases: Callable[[str], Published], way: str) -> None:
    """Ids in the order of dealing would say how frequent values were dealt first."""
    published = releases(way)
    assert correlation_chance(published.line_bucket, published.line_value) >= ALPHA
    sizes = np.bincount(published.bucket)
    if len(set(sizes.tolist())) > 1:
        assert correlation_chance(np.arange(len(sizes)), sizes) >= ALPHA
        assert correlation_chance(np.arange(len(sizes)), np.sort(sizes)) < ALPHA


@every_way
def test_orders_that_go_together_would_be_noticed(releases: Callable[[str], Published], way: str) -> None:
    """Neighbours of the table in buckets of near ids; near means within a third of all of them."""
    published, chance = releases(way), np.random.default_rng(1)
    near = published.person + chance.integers(0, ROWS // 3, ROWS)
    assert correlation_chance(near, published.person) < ALPHA
    held = np.sort(published.line_value)
    assert correlation_chance(published.line_bucket[np.argsort(published.line_bucket)], held) < ALPHA
