"""What every mechanism with counts of crowds owes: people with equal public columns are counted, and no others.

A crowd is a group of people with equal public columns whose counts are published. The tests recount the table row by
row in Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from far_engine import FarEngine
from refusals import refuses
from releases import WAYS, accepting, known_key, list_domains, people
from selection import examples
from sfumato import Release, Request, Schema, publish
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine
from sfumato._engines.local_engine import LocalEngine
from sfumato._perturb import crowd_counts
from sfumato._perturb.crowd_counts import GroupCounts, GroupKeys
from sfumato._records import DATA_FILE
from sfumato._records.column_codes import CodedColumn
from sfumato._records.count_tables import COUNTS_FILE
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, SchemaError
from sfumato.mechanisms import REGISTRY, CrowdCounts

NAMES = [name for name in REGISTRY if REGISTRY[name].crowd_counts is not None]
MECHANISMS = pytest.mark.parametrize("mechanism", NAMES)
VALUES = ["HIV", "asthma", "cold", "flu"]


def mixed_people(rows: int = 90) -> pa.Table:
    """People in large and small groups, some of them alone, and some with missing public values."""
    table = people(rows, town=["Aix", "Lich", None, "Virum", "Aix"], born=[*range(1950, 1950 + 13), None])
    alone = pa.table({"age": [99], "sex": ["F"], "disease": ["HIV"], "town": ["Lich"], "born": [2001]})
    return pa.concat_tables([table, alone.select(table.column_names).cast(table.schema)])


def ask(table: pa.Table, mechanism: str, **schema: Any) -> Request:
    """A request for counts; the domain has a value that nobody has."""
    domain = [*list_domains(table, ["disease"])["disease"], "zika"]
    asked = Schema.of("disease", public="*", domains={"disease": domain}, **schema)
    way = WAYS[mechanism].request(mechanism)
    return Request(table, schema=asked, **way, **accepting(table, asked), **ALL_ACCEPTED)


def released(table: pa.Table, mechanism: str, folder: Path, engine: Engine | None = None, key: int = 0) -> Path:
    """The folder of a release."""
    publish(ask(table, mechanism), folder, unsafe_test_key=known_key(key), engine=engine, on_notice=lambda notice: None)
    return folder


def list_groups(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The number of people of each combination of public values."""
    public = [name for name in table.column_names if name != "disease"]
    return Counter(tuple(row[name] for name in public) for row in table.select(public).to_pylist())


def read_crowds(folder: Path) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """The lines of each crowd, in the order of the file."""
    crowds: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in pq.read_table(folder / COUNTS_FILE).to_pylist():
        key = tuple(value for name, value in line.items() if name not in ("people", "disease", "noisy", "count"))
        crowds.setdefault(key, []).append(line)
    return crowds


@MECHANISMS
def test_everybody_is_counted_once(mechanism: str, tmp_path: Path) -> None:
    table = mixed_people()
    folder, groups = released(table, mechanism, tmp_path / "release"), list_groups(table)
    smallest = Release.open(folder).manifest.design.smallest_crowd
    crowds = read_crowds(folder)
    assert {key: lines[0]["people"] for key, lines in crowds.items()} == {
        key: count for key, count in groups.items() if count >= smallest
    }
    outside = list_groups(pq.read_table(folder / DATA_FILE))
    assert outside == Counter({key: count for key, count in groups.items() if count < smallest})
    assert crowds, "the table has a crowd"
    assert outside, "the table has people outside crowds"
    assert Release.open(folder).rows == table.num_rows


@MECHANISMS
def test_crowd_has_a_line_for_each_value_and_its_noise_adds_up_to_zero(mechanism: str, tmp_path: Path) -> None:
    table = mixed_people()
    for lines in read_crowds(released(table, mechanism, tmp_path / "release")).values():
        assert [line["disease"] for line in lines] == [*VALUES, "zika"]
        assert {line["people"] for line in lines} == {sum(line["noisy"] for line in lines)}
        assert sum(line["count"] for line in lines) == pytest.approx(lines[0]["people"])


@MECHANISMS
def test_noise_looks_at_no_value(mechanism: str, tmp_path: Path) -> None:
    """Two tables with equal public columns and one key have equal noise, whatever the values are."""
    table = mixed_people()
    sick = table.column("disease").to_pylist()
    other = table.set_column(table.schema.get_field_index("disease"), "disease", pa.array([*sick[1:], sick[0]]))
    noise = []
    for number, each in enumerate((table, other)):
        folder = released(each, mechanism, tmp_path / f"release {number}")
        true_counts = Counter(tuple(row.values()) for row in each.to_pylist())
        names = each.column_names
        lines = pq.read_table(folder / COUNTS_FILE).to_pylist()
        noise.append([line["noisy"] - true_counts[tuple(line[name] for name in names)] for line in lines])
    assert noise[0] == noise[1]
    assert any(noise[0])


@MECHANISMS
@pytest.mark.parametrize(
    "engine", [LocalEngine(1, 4, 0), LocalEngine(7, 2, 2000), FarEngine(13)], ids=["single rows", "pieces", "far"]
)
def test_same_key_gives_the_same_release_however_the_table_is_cut(
    engine: Engine, mechanism: str, tmp_path: Path
) -> None:
    expected = released(mixed_people(), mechanism, tmp_path / "usual")
    found = released(mixed_people(), mechanism, tmp_path / "other", engine)
    for path in expected.iterdir():
        assert (found / path.name).read_bytes() == path.read_bytes()


@MECHANISMS
def test_order_of_the_rows_changes_no_count(mechanism: str, tmp_path: Path) -> None:
    table = mixed_people()
    turned = table.take(list(reversed(range(table.num_rows))))
    one, other = (released(each, mechanism, tmp_path / f"{number}") for number, each in enumerate((table, turned)))
    assert (one / COUNTS_FILE).read_bytes() == (other / COUNTS_FILE).read_bytes()


@MECHANISMS
@pytest.mark.parametrize("rows", [2, 60])
def test_table_without_a_crowd_or_without_anybody_alone_is_published(mechanism: str, rows: int, tmp_path: Path) -> None:
    """Two people who differ, and sixty who are all in one of four groups."""
    folder = tmp_path / "release"
    publish(ask(people(rows), mechanism, keep=["age", "sex"]), folder, unsafe_test_key=known_key(0))
    assert pq.read_metadata(folder / COUNTS_FILE).num_rows == (0 if rows == 2 else 4 * 5)
    assert pq.read_metadata(folder / DATA_FILE).num_rows == (2 if rows == 2 else 0)
    release = Release.open(folder)
    assert release.sql("SELECT COUNT(*) FROM release WHERE age = 30").get_estimate().value == (1 if rows == 2 else 15)
    total = release.sql("SELECT disease, COUNT(*) AS n FROM release GROUP BY disease")
    assert sum(row["n"].value for row in total.rows) == pytest.approx(rows)


# ------------------------------------------------------------------------------------------------------ what is refused


@MECHANISMS
def test_domain_from_the_table_is_refused(mechanism: str, tmp_path: Path) -> None:
    asked = Schema.of("disease", public="*")
    table = mixed_people()
    request = Request(
        table, schema=asked, **WAYS[mechanism].request(mechanism), **accepting(table, asked), **ALL_ACCEPTED
    )
    with refuses(InfeasibleError, "counts-without-domain"):
        publish(request, tmp_path / "release", unsafe_test_key=known_key(0))
    assert not list(tmp_path.iterdir())


@MECHANISMS
def test_several_columns_as_one_are_refused(mechanism: str, tmp_path: Path) -> None:
    table = mixed_people()
    asked = Schema.of(compound=["sex", "disease"], domains=list_domains(table, ["sex", "disease"]), public="*")
    request = Request(
        table, schema=asked, **WAYS[mechanism].request(mechanism), **accepting(table, asked), **ALL_ACCEPTED
    )
    with refuses(InfeasibleError, "counts-of-several-columns"):
        publish(request, tmp_path / "release", unsafe_test_key=known_key(0))


@MECHANISMS
def test_column_of_too_many_values_is_refused_with_the_ways_out(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", 10)
    with refuses(SchemaError, "too-many-values-for-counts", column="born"):
        publish(ask(mixed_people(), mechanism, keep=["born"]), tmp_path / "release", unsafe_test_key=known_key(0))
    assert not list(tmp_path.iterdir())


@MECHANISMS
def test_too_many_counts_are_refused_with_the_ways_out(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd_counts, "MOST_COUNTS", 20)
    with refuses(InfeasibleError, "too-many-counts"):
        released(mixed_people(), mechanism, tmp_path / "release")
    assert not list(tmp_path.iterdir())


# ----------------------------------------------------------------------------------------------------------------- keys


def make_keys(sizes: Sequence[int]) -> GroupKeys:
    """Keys of columns with so many values each, and a missing one; the sensitive column has five values."""
    columns = (CodedColumn(f"c{number}", pa.array(range(size)), True) for number, size in enumerate(sizes))
    return GroupKeys(tuple(columns), 5)


CODES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 300), st.integers(0, 70_000)), max_size=60)


@given(CODES)
@settings(max_examples=examples(40))
@pytest.mark.parametrize("columns", [1, 12])
def test_keys_are_in_the_order_of_the_codes_and_give_them_back(columns: int, rows: list[tuple[int, int, int]]) -> None:
    """As numbers, and as bytes where a number would be too large."""
    keys = make_keys([3, 300, 70_000] * columns)
    assert keys.has_numbers == (columns == 1)
    codes = [np.array([row[place] for row in rows], dtype=np.uint32) for place in range(3)] * columns
    made = keys.make_keys(codes, len(rows))
    assert [each.tolist() for each in keys.split_keys(made)] == [each.tolist() for each in codes]
    assert [rows[place] for place in np.argsort(made, kind="stable")] == sorted(rows)
    values = np.arange(len(rows), dtype=np.uint8) % 5
    pairs = keys.make_pairs(codes, values)
    found, found_values = keys.split_pairs(pairs)
    assert np.array_equal(found, made)
    assert np.array_equal(found_values, values)
    both = list(zip(rows, values.tolist(), strict=True))
    assert [both[place] for place in np.argsort(pairs, kind="stable")] == sorted(both)


@given(st.lists(st.integers(0, 12), max_size=80), st.integers(1, 30), st.integers(1, 40))
@settings(max_examples=examples(60))
def test_counts_of_pieces_add_up(rows: list[int], step: int, most_waiting: int) -> None:
    """Whether pairs repeat or not, and however often counts are merged."""
    pairs = np.array(rows, dtype=np.uint64)
    pieces = [GroupCounts.of(pairs[first : first + step]) for first in range(0, max(len(rows), 1), step)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(crowd_counts, "MOST_WAITING", most_waiting)
        merged = crowd_counts._merge_all(pieces)
    assert dict(zip(merged.pairs.tolist(), merged.list_counts().tolist(), strict=True)) == Counter(rows)
    assert merged.pairs.tolist() == sorted(set(rows))


def test_noise_of_a_crowd_depends_on_its_number_and_on_no_other() -> None:
    for name in NAMES:
        histogram = replace(Histogram.of(VALUES, [5, 5, 5, 5]), is_declared=True)
        mechanism = REGISTRY[name]
        plan = mechanism.plan(histogram, WAYS[name].spec, mechanism.options(), Draws.unsafe_test_key(known_key(3)))
        rules, draws = mechanism.require(CrowdCounts), Draws.unsafe_test_key(known_key(4))
        whole = rules.draw_noise(plan, 0, 50, draws)
        parts = [rules.draw_noise(plan, first, 5, draws) for first in range(0, 50, 5)]
        assert np.array_equal(whole, np.concatenate(parts))
