from __future__ import annotations

import itertools
import pickle
from dataclasses import FrozenInstanceError
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._request.histogram import Histogram, compute_margins
from sfumato.errors import SchemaError
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
    assert list(histogram.list_values_above(limit)) == expected


def test_above_leaves_out_a_share_that_equals_the_limit() -> None:
    assert Histogram(("a", "b", "c"), (1, 1, 1)).list_values_above(Fraction(1, 3)) == ()


def test_above_decides_shares_that_floats_cannot_tell_apart() -> None:
    histogram = Histogram(("a", "b"), (10**20 + 1, 2 * 10**20 - 1))
    assert histogram.list_values_above(Fraction(1, 3)) == ("a", "b")


def test_histogram_tells_values_of_different_types_apart() -> None:
    assert Histogram((1, True, 1.0, "1", None), (1, 1, 1, 1, 1)).domain_size == 5


def test_histogram_refuses_counts_that_do_not_fit_the_values() -> None:
    with refuses(SchemaError, "values-do-not-fit-counts", values=2, counts=1):
        Histogram(("a", "b"), (1,))


def test_histogram_refuses_a_count_below_zero() -> None:
    with refuses(SchemaError, "negative-count"):
        Histogram(("a", "b"), (3, -1))


@pytest.mark.parametrize("value", ["a", 1, None])
def test_histogram_refuses_a_value_named_twice(value: str | int | None) -> None:
    with refuses(SchemaError, "repeated-value"):
        Histogram((value, "b", value), (1, 1, 1))


@pytest.mark.parametrize(("values", "counts"), [((), ()), (("a", "b"), (0, 0))], ids=["no values", "no records"])
def test_histogram_refuses_an_empty_table(values: tuple[str, ...], counts: tuple[int, ...]) -> None:
    with refuses(SchemaError, "empty-table"):
        Histogram(values, counts)


def test_histogram_cannot_be_changed() -> None:
    histogram = Histogram(("a", "b"), (1, 2))
    with pytest.raises(FrozenInstanceError):
        histogram.counts = (9, 9)  # type: ignore[misc]


# ----------------------------------------------------------------------------------------------------- several columns


def test_histogram_of_one_column_has_no_axes() -> None:
    assert Histogram.of("ab", (1, 2)).axes == ()


def test_histogram_of_columns_that_are_protected_each_for_itself_knows_their_sizes() -> None:
    """The asker of a request cannot set them: they belong to the table."""
    pairs = list(itertools.product("ab", "xyz"))
    histogram = Histogram.of(pairs, range(6), [2, 3])
    assert histogram.axes == (2, 3)
    assert histogram != Histogram.of(pairs, range(6))
    assert pickle.loads(pickle.dumps(histogram)) == histogram


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_margins_are_the_counts_of_each_column_alone(data: st.DataObject, sizes: list[int]) -> None:
    places = list(itertools.product(*map(range, sizes)))
    counts = data.draw(st.lists(st.integers(0, 9), min_size=len(places), max_size=len(places)))
    for axis, found in enumerate(compute_margins(counts, sizes)):
        expected = [0] * sizes[axis]
        for place, count in zip(places, counts, strict=True):
            expected[place[axis]] += count
        assert found.tolist() == expected


# ---------------------------------------------------------------------------------------------------------- from a file


def read(text: str | bytes) -> Histogram:
    """The histogram of a file in the working directory."""
    Path("counts.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return Histogram.read(Path("counts.csv"))


def test_counts_are_read_with_their_values(desk: Path) -> None:
    found = read('\ufeffnote,count,value\n,7,"a, b"\n\nx,0,c\n,3,\n')
    assert found == Histogram(("a, b", "c", None), (7, 0, 3))


@pytest.mark.parametrize(
    "text",
    [
        "disease,count\nflu,3\n",
        "value\nflu\n",
        "value,count\nflu\n",
        "value,count\nflu,\n",
        "value,count\nflu,many\n",
        "value,count\nflu,1.5\n",
        f"value,count\n{'x' * 1001},3\n",
        'value,count\n"' + "x" * 200_000,
    ],
    ids=["name", "no count", "short", "blank", "word", "half", "long value", "open quote"],
)
def test_file_that_holds_no_counts_is_refused(desk: Path, text: str) -> None:
    with refuses(SchemaError, "wrong-file-format", file="counts.csv"):
        read(text)


def test_file_of_another_encoding_is_refused_for_that(desk: Path) -> None:
    with refuses(SchemaError, "other-encoding", file="counts.csv"):
        read("value,count\né,3\n".encode("latin-1"))


def test_file_that_is_not_there_is_refused_for_that(desk: Path) -> None:
    with refuses(SchemaError, "unreadable-file", file="counts.csv", reason="No such file or directory"):
        Histogram.read(Path("counts.csv"))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("value,count\nflu,-1\n", "negative-count"),
        ("value,count\nflu,1\nflu,2\n", "repeated-value"),
        ("value,count\n", "empty-table"),
        ("", "empty-table"),
    ],
)
def test_counts_of_a_file_must_make_a_histogram(desk: Path, text: str, code: str) -> None:
    with refuses(SchemaError, code):
        read(text)
