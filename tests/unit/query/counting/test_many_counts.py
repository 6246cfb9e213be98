"""Many counts at once: the same numbers as one by one, for every mechanism, method and way of counting."""

from __future__ import annotations

import datetime
import itertools
import random
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlglot
from hypothesis import event, given, settings
from hypothesis import strategies as st

from refusals import refuses
from releases import SENSITIVE, WAYS, list_domains, people, published, published_by
from selection import examples
from sfumato._core.cell_values import Value
from sfumato._query.counting import bitmap_counts, cell_keys, counting_strategy, record_blocks
from sfumato._query.counting.count_request import CountQuery, Range
from sfumato._query.counting.cube_counts import Cube
from sfumato._query.counting.file_counts import SymbolCounter
from sfumato._query.counting.many_counts import _group_by_wheres, count_many
from sfumato._query.counting.queried_cells import CellLookup, SharedPair
from sfumato._query.counting.shared_conditions import COLUMN_SHIFT, Atom, QueriedColumn, Workload
from sfumato._query.counting.simple_sql import parse_simple_count
from sfumato._query.estimate import Estimate
from sfumato._query.intervals import FEW_EXPECTED_HITS
from sfumato._query.release import Release
from sfumato._release.manifest import Manifest
from sfumato._request.schema import Schema
from sfumato.errors import ErrorField, QueryError, ReleaseFormatError

DISEASES = ["flu", "HIV", "cold", "crohn's", "asthma", "gout", None, "flu"]
DAYS = [datetime.date(2019, 12, 31), datetime.date(2020, 2, 29), datetime.date(2021, 7, 1)]
ROWS = 1200


def patients(rows: int = ROWS) -> pa.Table:
    """Every type of public column, each with values of its own; nothing goes with the disease."""
    chance = random.Random(5)
    columns = {
        "age": pa.array(chance.choices([*range(20, 30), None], k=rows), pa.int16()),
        "Sex": pa.array(chance.choices(["F", "M", None], k=rows)),
        "home town": pa.array(chance.choices(["Aix", "Birr", "Lich's"], k=rows)).dictionary_encode(),
        "admitted": pa.array(chance.choices([*DAYS, None], k=rows), pa.date32()),
        "smoker": pa.array(chance.choices([True, False, None], k=rows)),
        "weight": pa.array(chance.choices([50.25, 61.5, -0.0, None], k=rows), pa.float32()),
        "fee": pa.array(chance.choices([Decimal("1.10"), Decimal("2.00")], k=rows), pa.decimal128(8, 2)),
        SENSITIVE: pa.array(chance.choices(DISEASES, k=rows)),
    }
    return pa.table(columns)


CONDITIONS: dict[str, Sequence[Any]] = {
    "age": [20, 25, 99, None, 25.0, 25.5, [20, 21, None], [], Range(at_least=24), Range(above=24, below=27.5)],
    "Sex": ["F", "M", "X", None, ("F", "M"), {"F", None}, Range(at_most="F"), Range()],
    "home town": ["Aix", "Lich's", ["Aix", "Birr"], Range(at_least="Birr", below="C")],
    "admitted": [DAYS[0], DAYS[1], None, Range(at_least=DAYS[1]), frozenset(DAYS[:2])],
    "smoker": [True, False, None],
    "weight": [50.25, 0, 0.0, 61.5, None, Range(above=0, at_most=61.5)],
    "fee": [Decimal("1.10"), 2, 1.1, Range(below=Decimal("1.5")), Range(at_least=1.1)],
}


@st.composite
def conditions(draw: st.DrawFn) -> dict[str, Any]:
    """Conditions on some public columns."""
    names = draw(st.lists(st.sampled_from(sorted(CONDITIONS)), max_size=4, unique=True))
    return {name: draw(st.sampled_from(CONDITIONS[name])) for name in names}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    """A release of the same patients by every mechanism."""
    folder = tmp_path_factory.mktemp("many")
    return {name: published_by(name, patients(), folder / name) for name in WAYS}


def many(release: Release, queries: Sequence[CountQuery], method: str | None = None) -> Any:
    """Answer all queries at once."""
    return count_many(release.manifest, release.folder, queries, method)


def one(release: Release, query: CountQuery, method: str | None = None) -> Estimate:
    """Answer one query by SQL."""
    if query.values is None:
        return release.count(where=query.sql, method=method)
    is_wanted = " OR ".join(
        f"{SENSITIVE} IS NULL" if value is None else f"{SENSITIVE} = '{str(value).replace(chr(39), chr(39) * 2)}'"
        for value in query.values
    )
    both = " AND ".join(f"({part})" for part in (query.sql, is_wanted) if part)
    return release.sql(f"SELECT COUNT(*) FROM release WHERE {both}", method=method).get_estimate()


def said(estimate: Estimate) -> tuple[bool, str]:
    """Whether a note tells that no record is there, for which SQL names the value that nobody has; and what else."""
    nobody = re.compile(r"^no record (satisfies the condition .* their values|has '.*' in '.*')\. ?")
    note = estimate.note or ""
    return nobody.match(note) is not None, nobody.sub("", note)


def assert_same(found: Estimate, expected: Estimate) -> None:
    """The same answer, up to the rounding of sums in another order."""
    close = pytest.approx
    assert found.value == close(expected.value, rel=1e-11, abs=1e-9)
    assert (found.method, found.assumption, said(found)) == (expected.method, expected.assumption, said(expected))
    if expected.standard_error is None:
        assert found.standard_error is None
        return
    assert found.standard_error == close(expected.standard_error, rel=1e-9, abs=1e-5)
    assert tuple(found.interval()) == close(tuple(expected.interval()), rel=1e-9, abs=1e-6)


PAIRS = [(name, method) for name in WAYS for method in (None, "em", "gls", "uniform", "inverse")]


def known_pairs() -> list[Any]:
    from sfumato.mechanisms import REGISTRY  # noqa: PLC0415 - only to list the cases

    return [
        pytest.param(name, method, id=f"{name}-{method or 'default'}")
        for name, method in PAIRS
        if method is None or method in REGISTRY[name].estimators
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), known_pairs())
def test_many_counts_are_those_of_single_queries(releases: dict[str, Release], name: str, method: str | None) -> None:
    release, chance = releases[name], random.Random(name)
    domain = release.manifest.domain
    queries = [
        CountQuery({}, None),
        CountQuery({}, [domain[0]]),
        CountQuery({"Sex": "F"}, domain),
        CountQuery({"Sex": "X"}, [domain[0]]),
    ]
    for _ in range(3 if method == "em" else 14):  # iterations take long
        names = chance.sample(sorted(CONDITIONS), chance.choice([0, 1, 2, 3]))
        where = {each: chance.choice(CONDITIONS[each]) for each in names}
        values = None if chance.random() < 0.1 else chance.sample(domain, chance.choice([1, 1, 1, 2, 3]))
        queries.append(CountQuery(where, values))
    found = many(release, queries, method)
    assert len(found) == len(queries)
    for query, estimate in zip(queries, found, strict=True):
        assert_same(estimate, one(release, query, method))


@settings(max_examples=examples(15))
@given(st.data())
def test_any_conditions_select_what_sql_selects(releases: dict[str, Release], data: st.DataObject) -> None:
    release = releases["uniform"]
    wheres = data.draw(st.lists(conditions(), min_size=1, max_size=4))
    values = data.draw(st.lists(st.sampled_from(release.manifest.domain), min_size=1, max_size=3, unique=True))
    queries = [CountQuery(where, each) for where in wheres for each in ([values] if where else [None])]
    for query, estimate in zip(queries, many(release, queries), strict=True):
        assert_same(estimate, one(release, query))


def test_the_arrays_are_the_numbers_of_the_estimates(releases: dict[str, Release]) -> None:
    for name, release in releases.items():
        domain = release.manifest.domain
        queries = [
            CountQuery({"Sex": sex, "age": age}, [value]) for sex in "FM" for age in (20, 99) for value in domain
        ]
        found = many(release, [*queries, CountQuery({"Sex": "F"})])
        for level in (0.5, 0.95):
            low, high = found.interval(level)
            for number, estimate in enumerate(found):
                assert found.value[number] == estimate.value, name
                assert found.standard_error[number] == estimate.standard_error
                assert (low[number], high[number]) == estimate.interval(level)
        table = found.to_arrow()
        assert table.column_names[:4] == ["n", "n_se", "n_low", "n_high"]
        assert table.column("n").to_pylist() == found.value.tolist()


def test_a_method_without_errors_gives_none(releases: dict[str, Release]) -> None:
    found = many(releases["uniform"], [CountQuery({}, ["HIV"]), CountQuery({"Sex": "F"})], "em")
    assert np.isnan(found.standard_error).tolist() == [True, False]
    assert found[0].standard_error is None
    assert found.to_arrow().column("n_low").to_pylist()[0] is None
    assert found[0].note is not None
    assert found[1].note is None


def test_a_compound_value_is_a_tuple(tmp_path: Path) -> None:
    table = patients().append_column("drug", pa.array(random.Random(3).choices(["pill", "tea", None], k=ROWS)))
    release = published(
        table,
        tmp_path / "release",
        schema=Schema.of(compound=[SENSITIVE, "drug"], public="*", domains=list_domains(table, [SENSITIVE, "drug"])),
        mechanism="uniform",
    )
    value = release.manifest.domain[3]
    found = many(release, [CountQuery({"Sex": "F"}, [value]), CountQuery({"Sex": "M"}, [value])])
    for sex, estimate in zip("FM", found, strict=True):
        assert_same(estimate, release.count(value, where=f"Sex = '{sex}'"))


@pytest.mark.slow
def test_blocks_add_up(releases: dict[str, Release], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, release in releases.items():
        domain = release.manifest.domain
        ages = itertools.product(range(20, 30), domain, [{"Sex": "F"}, {}])
        queries = [CountQuery({"age": age, **more}, [value]) for age, value, more in ages]
        whole = many(release, queries)
        with monkeypatch.context() as patch:
            patch.setattr(record_blocks, "BLOCK_ROWS", 500)
            patch.setattr("sfumato._query.counting.file_counts.BLOCK_ROWS", 500)
            patch.setattr(bitmap_counts, "MEMORY", 1 << 10)
            assert many(release, queries).value == pytest.approx(whole.value, rel=1e-12, abs=1e-9), name
        with monkeypatch.context() as patch:
            patch.setattr("sfumato._query.counting.many_counts.MOST_COUNTS", 20)
            assert many(release, queries).value == pytest.approx(whole.value, rel=1e-12, abs=1e-9), name


# ----------------------------------------------------------------------------------------------------- ways of counting


@st.composite
def problems(draw: st.DrawFn) -> tuple[Workload, record_blocks.Block, int]:
    """Random codes, symbols and combinations of conditions."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    rows, symbols = draw(st.integers(1, 300)), draw(st.integers(1, 5))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = [
        QueriedColumn(str(number), pa.int8(), {each: each for each in range(size)}) for number, size in enumerate(sizes)
    ]
    atoms = {
        (number << COLUMN_SHIFT) + more: Atom(number, tuple(sorted(draw(st.sets(st.integers(0, size), max_size=3)))))
        for number, size in enumerate(sizes)
        for more in range(3)
    }
    atoms[3] = Atom(0, range=Range(below=1))
    per_column = [[None, *(each for each in atoms if atoms[each].column == number)] for number in range(len(sizes))]
    chosen = draw(st.lists(st.tuples(*map(st.sampled_from, per_column)), min_size=1, max_size=12, unique=True))
    wheres = [tuple(each for each in where if each is not None) for where in chosen]
    nothing = np.zeros(0, dtype=np.int64)
    codes = [chance.integers(0, column.size, rows).astype(np.uint8) for column in columns]
    block = record_blocks.Block(rows, codes, {3: codes[0] < 1}, chance.integers(0, symbols, rows).astype(np.uint8))
    return Workload(columns, atoms, wheres, [], nothing, nothing), block, symbols


def slow(work: Workload, block: record_blocks.Block, where: int, symbols: int) -> list[int]:
    """Look at every record by itself."""
    counts = [0] * symbols
    for row in range(block.rows):
        atoms = [work.atoms[number] for number in work.wheres[where]]
        if all(
            block.codes[atom.column][row] < 1 if atom.range else block.codes[atom.column][row] in atom.codes
            for atom in atoms
        ):
            counts[block.published_codes[row]] += 1
    return counts


def combined(work: Workload) -> list[int]:
    return [number for number, where in enumerate(work.wheres) if where]


@settings(deadline=None)
@given(problems())
def test_bitmaps_and_row_numbers_count_alike(problem: tuple[Workload, record_blocks.Block, int]) -> None:
    work, block, symbols = problem
    wheres = combined(work)
    for way in (bitmap_counts.count_symbol_bits, bitmap_counts.count_row_symbols):
        found = {
            number: line
            for some, lines in way(work, block, wheres, symbols)
            for number, line in zip(some, lines, strict=True)
        }
        assert sorted(found) == wheres
        for number in wheres:
            assert found[number].tolist() == slow(work, block, number, symbols)


PRICES = {
    "cubes": {"LOOKUP_RECORD": 1e9, "COMBINATION": 1e12},
    "tables": {"CELL": 1e9, "COMBINATION": 1e12, "CHOSEN_CODE": 1e9},
    "pairs": {"CELL": 1e9, "COMBINATION": 1e12, "CHOSEN_CODE": -1e9},
}
"""So that one way is cheaper than all others."""


@settings(deadline=None)
@given(problems(), st.sampled_from([0, 60, 1 << 20]), st.sampled_from([7, 1 << 16]))
@pytest.mark.parametrize("cheap", PRICES)
def test_cubes_and_tables_count_what_they_say_they_answer(
    cheap: str, problem: tuple[Workload, record_blocks.Block, int], largest: int, slice_rows: int
) -> None:
    work, block, symbols = problem
    answered: dict[int, list[int]] = {}
    has_pairs = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting_strategy, "LARGEST_CUBE", largest)
        patch.setattr(cell_keys, "SLICE_ROWS", slice_rows)
        for name, price in PRICES[cheap].items():
            patch.setattr(counting_strategy, name, price)
        made = counting_strategy.choose_strategy(work, combined(work), symbols, block)
        for way in made.cell_counters:
            made_of = Cube if cheap == "cubes" else CellLookup | SharedPair
            assert isinstance(way, made_of)
            has_pairs |= isinstance(way, SharedPair)
            for some, lines in way.iter_counts(work, way.count(block)):
                answered.update(zip(some, lines.tolist(), strict=True))
    if has_pairs:
        event("records were chosen by pairs")
    assert made.has_room(block)
    assert sorted([*answered, *made.bitmap_wheres]) == combined(work)
    assert {number for number in made.bitmap_wheres} == {
        number for number in combined(work) if any(work.atoms[atom].range for atom in work.wheres[number])
    }
    for number, counts in answered.items():
        assert counts == slow(work, block, number, symbols)


@settings(deadline=None)
@given(problems(), st.data())
def test_blocks_are_counted_by_any_mixture_of_ways(
    problem: tuple[Workload, record_blocks.Block, int], data: st.DataObject
) -> None:
    """Also by those that were chosen for the codes of the first block, where others have more of them."""
    work, block, symbols = problem
    prices = {
        name: data.draw(st.sampled_from([0.0, 1.0, 1e3, 1e6]), name)
        for name in ("CELL", "LOOKUP_RECORD", "COMBINATION", "CHOSEN_CODE")
    }
    prices |= {
        "MOST_CELLS": data.draw(st.sampled_from([0, 20, 1 << 25])),
        "LARGEST_TABLE": data.draw(st.sampled_from([9, 1 << 22])),
    }
    cuts = sorted(data.draw(st.sets(st.integers(1, block.rows), max_size=3)) | {0, block.rows})
    counting = SymbolCounter(work, symbols)
    with pytest.MonkeyPatch.context() as patch:
        for name, price in prices.items():
            patch.setattr(counting_strategy, name, price)
        for rows in itertools.starmap(slice, itertools.pairwise(cuts)):
            counting.add(
                record_blocks.Block(
                    rows.stop - rows.start,
                    [codes[rows] for codes in block.codes],
                    {number: mask[rows] for number, mask in block.ranges.items()},
                    block.published_codes[rows],
                )
            )
    expected = [slow(work, block, number, symbols) for number in range(len(work.wheres))]
    assert counting.collect_counts().tolist() == expected


def grid(size: int) -> tuple[list[QueriedColumn], dict[int, Atom], record_blocks.Block]:
    """Two columns of so many values, a condition for each value, and 100,000 records."""
    columns = [QueriedColumn(str(number), pa.int16(), {each: each for each in range(size)}) for number in range(2)]
    atoms = {(number << COLUMN_SHIFT) + each: Atom(number, (each,)) for number in range(2) for each in range(size)}
    codes = [np.arange(100_000) % size, np.arange(100_000) // 7 % size]
    shown = (np.arange(100_000) % 10).astype(np.uint8)
    return columns, atoms, record_blocks.Block(100_000, [each.astype(np.uint8) for each in codes], {}, shown)


@pytest.mark.parametrize(
    ("size", "asked", "expected"),
    [(50, 2, None), (50, 60, CellLookup), (20, 400, Cube)],
    ids=["few by bitmaps", "many of more by a table", "all by a cube"],
)
def test_the_way_depends_on_how_much_is_asked(size: int, asked: int, expected: type | None) -> None:
    columns, atoms, block = grid(size)
    pairs = list(itertools.product(list(atoms)[:size], list(atoms)[size:]))[:: size * size // asked][:asked]
    nothing = np.zeros(0, dtype=np.int64)
    work = Workload(columns, atoms, [*pairs, *((each,) for each in atoms if expected is Cube)], [], nothing, nothing)
    made = counting_strategy.choose_strategy(work, range(len(work.wheres)), 10, block)
    assert [type(way) for way in made.cell_counters] == ([expected] if expected else [])
    assert len(made.bitmap_wheres) == (0 if expected else asked)


def test_records_are_chosen_by_a_pair_that_several_sets_of_columns_share() -> None:
    """Of 50 times 50 pairs of the first two columns, ten are asked about, each with a value of one of two others."""
    columns, atoms, block = grid(50)
    columns += [QueriedColumn(str(number), pa.int16(), {each: each for each in range(8)}) for number in (2, 3)]
    atoms |= {(number << COLUMN_SHIFT) + each: Atom(number, (each,)) for number in (2, 3) for each in range(8)}
    chance = np.random.default_rng(5)
    block = replace(block, codes=[*block.codes, *chance.integers(0, 8, (2, block.rows)).astype(np.uint8)])
    wheres = [
        (pair, (1 << COLUMN_SHIFT) + pair, (third << COLUMN_SHIFT) + value)
        for pair in range(10)
        for third in (2, 3)
        for value in range(8)
    ]
    nothing = np.zeros(0, dtype=np.int64)
    work = Workload(columns, atoms, wheres, [], nothing, nothing)
    (way,) = counting_strategy.choose_strategy(work, range(len(wheres)), 10, block).cell_counters
    assert isinstance(way, SharedPair)
    assert way.pair == (0, 1)
    found = {
        where: line
        for some, lines in way.iter_counts(work, way.count(block))
        for where, line in zip(some, lines, strict=True)
    }
    for number, (first, second, third) in enumerate(wheres):
        mask = (block.codes[0] == first) & (block.codes[1] == second - (1 << COLUMN_SHIFT))
        mask &= block.codes[third >> COLUMN_SHIFT] == third % (1 << COLUMN_SHIFT)
        assert found[number].tolist() == np.bincount(block.published_codes[mask], minlength=10).tolist()


@pytest.mark.parametrize(("room", "tables"), [(2499, 0), (2500, 1)])
def test_there_is_room_for_all_tables(room: int, tables: int) -> None:
    columns, atoms, block = grid(50)
    pairs = list(itertools.product(list(atoms)[:50], list(atoms)[50:]))[::40]
    nothing = np.zeros(0, dtype=np.int64)
    work = Workload(columns, atoms, pairs, [], nothing, nothing)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting_strategy, "MOST_CELLS", room)
        made = counting_strategy.choose_strategy(work, range(len(pairs)), 10, block)
    assert len(made.cell_counters) == tables
    assert len(made.bitmap_wheres) == (0 if tables else len(pairs))


def test_cubes_have_no_room_for_codes_that_do_not_occur() -> None:
    columns, atoms, block = grid(20)
    nothing = np.zeros(0, dtype=np.int64)
    work = Workload(columns, atoms, [(each,) for each in atoms], [], nothing, nothing)
    assert counting_strategy.choose_strategy(work, range(40), 10, block).sizes == [20, 20]
    block.codes[1][5] = columns[1].size - 1
    assert counting_strategy.choose_strategy(work, range(40), 10, block).sizes == [20, 22]
    work.atoms[0] = Atom(0, (columns[0].missing_code,))  # type: ignore[index]
    assert counting_strategy.choose_strategy(work, range(40), 10, block).sizes == [21, 22]


@given(st.lists(st.text(max_size=3)))
def test_values_are_numbered_in_their_order_in_the_end(texts: list[str]) -> None:
    column = QueriedColumn("x", pa.string())
    first = [column.encode(text) for text in texts]
    codes = column.put_in_order()
    assert list(column.codes_by_value) == sorted(set(texts))
    assert [codes[code] for code in first if code is not None] == [column.codes_by_value[text] for text in texts]
    assert codes[-1] == column.missing_code == len(set(texts))


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("query", "code", "facts"),
    [
        (CountQuery({"shoe": 1}), "missing-column", {"column": "shoe"}),
        (CountQuery({"sexx": 1}), "missing-column", {"column": "sexx"}),
        (CountQuery({"Disease": "HIV"}), "condition-on-sensitive-column", {"column": "Disease"}),
        (CountQuery({"age": "20"}), "incomparable-value", {"column": "age", "type": "int16"}),
        (CountQuery({"age": True}), "incomparable-value", {"column": "age", "type": "int16"}),
        (CountQuery({"Sex": 1}), "incomparable-value", {"column": "Sex", "type": "string"}),
        (CountQuery({"admitted": "2020-01-01"}), "incomparable-value", {"column": "admitted", "type": "date32[day]"}),
        (CountQuery({"age": Range(above="x")}), "incomparable-value", {"column": "age", "type": "int16"}),
        (CountQuery({}, ["plague"]), "unknown-value", {"column": "disease"}),
        (CountQuery({}, []), "invalid-values", {}),
        (CountQuery({}, "HIV"), "invalid-values", {}),
        (CountQuery({}, 5), "invalid-values", {}),  # type: ignore[arg-type]
        (CountQuery({}, [["HIV"]]), "invalid-values", {}),  # type: ignore[list-item]
        (CountQuery({3: 5}), "missing-column", {"column": "3"}),  # type: ignore[dict-item]
        (CountQuery({"age": b"20"}), "incomparable-value", {"column": "age", "type": "int16"}),
        (CountQuery({"age": [20, [21]]}), "incomparable-value", {"column": "age"}),
        (CountQuery({"Sex": Range(at_least="\ud800")}), "incomparable-value", {"column": "Sex", "type": "string"}),
    ],
)
def test_mistakes_are_refused(
    releases: dict[str, Release], query: CountQuery, code: str, facts: dict[str, ErrorField]
) -> None:
    with refuses(QueryError, code, **facts):
        many(releases["uniform"], [query])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=1, max_size=30))
@settings(max_examples=examples(50))
def test_sets_under_the_same_conditions_are_estimated_together(pairs: list[tuple[int, int]]) -> None:
    """Every query is in one group; sets with the same conditions share a group, and their queries come alike."""
    where_of, set_of = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    sets = [None, *(np.array([place]) for place in range(4))]
    work = Workload([], {}, [(number,) for number in range(6)], sets, where_of, set_of)
    found = list(_group_by_wheres(work))
    assert sorted(query for groups, _ in found for group in groups for query in group.tolist()) == [*range(len(pairs))]
    wanted: dict[int, list[int]] = {}
    for where, number in pairs:
        wanted.setdefault(number, []).append(where)
    different = {tuple(sorted(wheres)) for number, wheres in wanted.items() if sets[number] is not None}
    assert len(found) == len(different) + (0 in wanted)
    for groups, places in found:
        for group, mine in zip(groups, [None] if places is None else places, strict=True):
            assert (where_of[group] == where_of[groups[0]]).all()
            assert all(sets[number] is mine for number in set_of[group])


def test_values_may_come_one_by_one(releases: dict[str, Release]) -> None:
    asked = [CountQuery({}, (each for each in ("HIV", "flu"))), CountQuery({}, ["HIV", "flu"])]  # type: ignore[arg-type]
    found = many(releases["uniform"], asked)
    assert found[0].value == found[1].value != 0


def test_no_whole_number_is_infinite_or_none(releases: dict[str, Release]) -> None:
    asked = [CountQuery({"age": float(each)}) for each in ("inf", "-inf", "nan")]
    assert many(releases["uniform"], asked).value.tolist() == [0, 0, 0]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_are_compared_alike_wherever_the_clock_stands(tmp_path: Path, zone: str | None) -> None:
    """Alone and together, by texts, dates and times, with an offset and without; what has none is in UTC."""
    noon = datetime.datetime(2024, 1, 1, 12)
    days = [noon + datetime.timedelta(hours=12 * number) for number in (-1, 0, 1, 2)]
    table = people(120, seen=pa.array([days[row % 4] for row in range(120)], pa.timestamp("us", zone)))
    release = published(table, tmp_path / "release")
    with as_if_in("America/New_York"):
        for end in (days[2], days[2].date(), days[2].replace(tzinfo=datetime.UTC)):
            asked = [CountQuery({"seen": end}), CountQuery({"seen": Range(below=end)}), CountQuery({"seen": [end]})]
            assert release.count_many(asked).value.tolist() == [30, 60, 30]
        for text in ("2024-01-02", "2024-01-02 00:00:00", *(["2024-01-01 19:00:00-05:00"] if zone else ())):
            assert release.count(where=f"seen = '{text}'").value == 30
            assert release.count(where=f"seen < '{text}'").value == 60
        assert release.count(where="DAY(seen) = 2").value == 60
        assert release.count(where="seen = DATE '2024-01-02'").value == 30
    assert [release.count(where=each.sql).value for each in asked] == [30, 60, 30]


@contextmanager
def as_if_in(zone: str) -> Iterator[None]:
    """With the clock of another place."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        yield
    time.tzset()


def test_query_as_sql_knows_numbers_without_end(tmp_path: Path) -> None:
    release = published(people(120, size=[1.5, float("inf"), float("-inf"), 0.0]), tmp_path / "release")
    for each in (1.5, float("inf"), float("-inf"), Range(at_least=float("inf")), Range(below=float("inf")), (0, 1.5)):
        query = CountQuery({"size": each})
        assert release.count(where=query.sql).value == release.count_many([query])[0].value > 0


@pytest.mark.slow
def test_a_wrong_level_is_refused(releases: dict[str, Release]) -> None:
    with refuses(QueryError, "invalid-level", level=1.0):
        many(releases["uniform"], [CountQuery({}, ["HIV"])]).interval(1.0)


def test_no_queries_have_no_answers(releases: dict[str, Release]) -> None:
    for release in releases.values():
        assert list(many(release, [])) == []


def test_records_that_cannot_be_read_are_refused(releases: dict[str, Release], tmp_path: Path) -> None:
    for name, release in releases.items():
        folder = tmp_path / name
        folder.mkdir()
        for file in release.folder.iterdir():
            (folder / file.name).write_bytes(b"PAR1" if file.name == release.manifest.data_file else file.read_bytes())
        with refuses(ReleaseFormatError, "damaged-file"):
            count_many(release.manifest, folder, [CountQuery({}, ["HIV"])])


def test_records_without_a_column_are_refused(releases: dict[str, Release], tmp_path: Path) -> None:
    for name, release in releases.items():
        folder = tmp_path / name
        shutil.copytree(release.folder, folder)
        path = folder / release.manifest.data_file
        whole = pq.read_table(path)
        for column in ("age", *release.manifest.protected_columns):
            pq.write_table(whole.drop_columns([column]), path)
            with refuses(ReleaseFormatError, "damaged-file"):
                count_many(release.manifest, folder, [CountQuery({"age": 20}, ["HIV"])])


def test_values_outside_the_domain_are_refused(releases: dict[str, Release], tmp_path: Path) -> None:
    for name in ("uniform", "small-domain", "fine-grain"):
        release, folder = releases[name], tmp_path / name
        shutil.copytree(release.folder, folder)
        path = folder / release.manifest.data_file
        whole = pq.read_table(path)
        for column in release.manifest.protected_columns:
            other = pa.array([99] * ROWS) if column == release.manifest.cell_column else pa.array(["plague"] * ROWS)
            pq.write_table(whole.set_column(whole.column_names.index(column), column, other), path)
            with refuses(ReleaseFormatError, "value-outside-domain"):
                count_many(release.manifest, folder, [CountQuery({"age": 20}, ["HIV"])])


def test_buckets_that_do_not_fit_their_records_are_refused(releases: dict[str, Release], tmp_path: Path) -> None:
    for name in ("buckets", "anatomy"):
        release, folder = releases[name], tmp_path / name
        shutil.copytree(release.folder, folder)
        path, column = folder / release.manifest.data_file, release.manifest.cell_column or ""
        whole = pq.read_table(path)
        place, ids = whole.column_names.index(column), whole.column(column).to_numpy()
        for other in (ids + 1, ids - 1, ids * 10**9, np.zeros_like(ids)):
            pq.write_table(whole.set_column(place, column, pa.array(other)), path)
            with refuses(ReleaseFormatError, "inconsistent-buckets"):
                count_many(release.manifest, folder, [CountQuery({"age": 20}, ["HIV"])])


# ------------------------------------------------------------------------------------------------------- simple counts


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("SELECT COUNT(*) FROM release", CountQuery()),
        ("SELECT COUNT(*) AS k FROM release WHERE (age = 20 AND (sex = 'F'))", CountQuery({"age": 20, "Sex": "F"})),
        ("SELECT COUNT(*) FROM release WHERE 20 < age", CountQuery({"age": Range(above=20)})),
        (
            "SELECT COUNT(*) FROM release WHERE age >= 20 AND age < 25 AND disease = 'HIV'",
            CountQuery({"age": Range(at_least=20, below=25)}, ("HIV",)),
        ),
        ("SELECT COUNT(*) FROM release WHERE age BETWEEN -1 AND 2", CountQuery({"age": Range(-1, at_most=2)})),
        ("SELECT COUNT(*) FROM release WHERE disease IS NULL", CountQuery({}, (None,))),
        ("SELECT COUNT(*) FROM release WHERE release.smoker = TRUE", CountQuery({"smoker": True})),
        ("SELECT COUNT(*) FROM release WHERE disease IN ('HIV', 'gout')", CountQuery({}, ("HIV", "gout"))),
    ],
)
def test_simple_counts_are_recognised(releases: dict[str, Release], sql: str, query: CountQuery) -> None:
    assert recognised(sql, releases["uniform"].manifest) == query


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM release WHERE age = 20 OR sex = 'F'",
        "SELECT COUNT(*) FROM release WHERE age = '20'",
        "SELECT COUNT(*) FROM release WHERE NOT age = 20",
        "SELECT COUNT(*) FROM release WHERE age + 1 = 20",
        "SELECT COUNT(*) FROM release WHERE age = NULL",
        "SELECT COUNT(*) FROM release WHERE age = 20 AND age = 21",
        "SELECT COUNT(*) FROM release WHERE disease = 'plague'",
        "SELECT COUNT(*) FROM release WHERE disease > 'plague'",
        "SELECT COUNT(*) FROM release WHERE disease = 'HIV' AND disease = 'flu' AND disease = 'HIV'",
        "SELECT COUNT(*) FROM release WHERE disease.chapter = 'HIV'",
        "SELECT COUNT(*) FROM release WHERE other.age = 20",
        "SELECT COUNT(*) FROM release WHERE shoe = 1",
        "SELECT COUNT(*) FROM release WHERE admitted = '2020-02-29'",
        "SELECT COUNT(*) FROM release GROUP BY age",
        "SELECT COUNT(age) FROM release",
        "SELECT SUM(age) FROM release",
        "SELECT COUNT(*), COUNT(*) FROM release",
        "SELECT COUNT(*) FROM release AS r WHERE r.age = 20",
        "SELECT COUNT(*) FROM other",
        "SELECT COUNT(*) FROM release LIMIT 1",
        "SELECT 1",
    ],
)
def test_other_queries_are_left_to_others(releases: dict[str, Release], sql: str) -> None:
    assert recognised(sql, releases["uniform"].manifest) is None


def recognised(sql: str, manifest: Manifest) -> CountQuery | None:
    select = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(select, sqlglot.exp.Expression)
    found = parse_simple_count(select, manifest)
    if found is None or found.values is None:
        return found
    order: dict[Value, int] = {"HIV": 0, "gout": 1, None: 2}
    return CountQuery(found.where, tuple(sorted(found.values, key=lambda value: order[value])))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["uniform", "subset"])
def test_interval_by_the_exact_law_is_the_same_by_every_way(releases: dict[str, Release], name: str) -> None:
    release, values = releases[name], ["flu", "HIV", "cold", "gout"]
    queries = [CountQuery({"age": age, "smoker": True, "Sex": "F"}, [value]) for age in (20, 25) for value in values]
    found = many(release, queries)
    rows = found.moments.most - found.moments.least
    assert (rows * found.moments.hit_chances[1] < FEW_EXPECTED_HITS).all()
    low, high = found.interval()
    for number, query in enumerate(queries):
        (value,) = query.values or ()
        where = f"age = {query.where['age']} AND smoker AND sex = 'F'"
        grouped = f"SELECT {SENSITIVE}, COUNT(*) AS n FROM release WHERE {where} GROUP BY {SENSITIVE}"
        (group,) = [row["n"] for row in release.sql(grouped).rows if row[SENSITIVE] == value]
        for estimate in (one(release, query), release.count(value, where=where), found[number], group):
            assert tuple(estimate.interval()) == pytest.approx((low[number], high[number]), rel=1e-12, abs=1e-12)
            assert estimate.note == found.notes[number]
