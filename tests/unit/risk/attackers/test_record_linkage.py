"""Who is alone, in a release and in a population, by counting one by one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from releases import SENSITIVE, people, published
from sfumato._profile.equivalence_classes import number_combinations
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import Schema
from sfumato._risk.attackers.record_linkage import count_links, link_records
from sfumato.errors import SpecError

ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30)


@given(ROWS, ROWS)
def test_records_are_like_as_many_people_as_share_their_columns(here: list[tuple[int, int]], there: list) -> None:
    records, others = ([np.array(each) for each in zip(*rows, strict=True)] for rows in (here, there))
    found = count_links(["a", "b"], records, others)
    alike, like = Counter(here), Counter(there)
    assert found.in_release.unique_share == pytest.approx(sum(alike[each] == 1 for each in here) / len(here))
    assert found.in_population is not None
    for few, share in ((1, found.in_population.unique_share), (4, found.in_population.below_5)):
        assert share == pytest.approx(sum(1 <= like[each] <= few for each in here) / len(here))
    assert found.absent_share == pytest.approx(sum(like[each] == 0 for each in here) / len(here))


@given(ROWS)
def test_numbers_tell_combinations_apart(rows: list[tuple[int, int]]) -> None:
    numbers = number_combinations([np.array(each) for each in zip(*rows, strict=True)])
    assert len(set(numbers.tolist())) == len(set(rows)) == len(set(zip(numbers.tolist(), rows, strict=True)))


@given(st.lists(st.tuples(*[st.sampled_from([0, 1, 2**40, 2**61])] * 3), min_size=1, max_size=30))
def test_combinations_of_columns_of_very_many_values_are_told_apart(rows: list[tuple[int, ...]]) -> None:
    """Their product is beyond any number, so they are numbered anew in between."""
    numbers = number_combinations([np.array(each) for each in zip(*rows, strict=True)])
    assert len(set(numbers.tolist())) == numbers.max() + 1 == len(set(rows))
    assert len(set(zip(numbers.tolist(), rows, strict=True))) == len(set(rows))


def test_population_is_put_into_the_bins_of_the_release(tmp_path: Path) -> None:
    """Ages in two bins, by two sexes: 15 people of each kind; the population has ten of each, and no old men."""
    schema = Schema.of(SENSITIVE, ranges={"age": Ranges.of([0, 45, 99])}, public="*")
    published(people(), tmp_path / "release", schema=schema)
    ages, sexes = [20, 20, 70], ["F", "M", "F"]
    population = pa.table({"age": ages * 10, "sex": sexes * 10, "other": list(range(30))})
    found = link_records(tmp_path / "release", population)
    assert (found.columns, found.records) == (("age", "sex"), 60)
    assert found.in_population is not None
    assert (found.in_population.below_5, found.in_population.below_11) == (0, 0.75)
    assert found.absent_share == 0.25
    assert link_records(tmp_path / "release").in_population is None
    with refuses(SpecError, "no-shared-column"):
        link_records(tmp_path / "release", population.select(["other"]))
