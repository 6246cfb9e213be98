"""What every engine owes: the same key gives the same bytes, however the work is cut up, and a failure leaves nothing.

A new engine adds its settings to `every_engine`.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from engine_inputs import INPUTS, ROWS, Input, every_type, with_gaps
from far_engine import FarEngine
from parquet_files import pages_of
from refusals import refuses
from releases import BOUND, WAYS, known_key, people, published, published_by
from sfumato._core.random_draws import Draws
from sfumato._engines import engine as engines
from sfumato._engines import shuffle
from sfumato._engines.engine import Engine
from sfumato._engines.local_engine import LocalEngine
from sfumato._engines.shuffle import Bundle, Rows
from sfumato._parquet import page_encoding as dictionary_pages
from sfumato._parquet.parquet_writer import FileWriter
from sfumato._perturb import perturbation as rewriting
from sfumato._perturb import record_writer
from sfumato._perturb.count_table import make_count_tables
from sfumato._perturb.crowd_counts import Crowds, find_crowds
from sfumato._perturb.perturbation import Rewrite
from sfumato._perturb.record_writer import write_records, write_side_table
from sfumato._planning.mechanism_choice import choose
from sfumato._profile.table_scan import TableScan
from sfumato._publish import publication, publication_plan
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import ReadOptions
from sfumato._readers.sources import MemorySource, Source
from sfumato._records import DATA_FILE, Naming
from sfumato._records.bucket_records import BucketEncoding, NumberColumn
from sfumato._records.column_codes import CodedColumn, PublishedColumn
from sfumato._records.count_tables import COUNTS_FILE
from sfumato._records.set_records import SetColumn
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.schema import Schema
from sfumato.errors import EngineError, InfeasibleError, InternalError, SchemaError, SourceError, TargetError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

RECORDS, BUCKETS = BucketEncoding.FILES
DRAWS = Draws.unsafe_test_key(known_key(1))

Test = TypeVar("Test", bound=Callable[..., None])


MECHANISMS = pytest.mark.parametrize("mechanism", REGISTRY)
OF_RECORDS = pytest.mark.parametrize("mechanism", [name for name in REGISTRY if REGISTRY[name].crowd_counts is None])
"""The mechanisms that publish a record for each row; `test_crowd_contract` has the others."""


@pytest.fixture
def engine(batch_rows: int, threads: int, budget: int) -> LocalEngine:
    """An engine of the settings that a test is given."""
    return LocalEngine(batch_rows, threads, budget)


def every_engine(test: Test) -> Test:
    """Batches of one row up to more than the table; scattered rows all on disk, partly on disk, and all in memory."""
    for name, values in {"batch_rows": (1, 7, 50, 1000), "threads": (1, 2, 4), "budget": (0, 2000, 1 << 28)}.items():
        test = pytest.mark.parametrize(name, values)(test)
    return test


SOME_ENGINES = pytest.mark.parametrize(
    ("batch_rows", "threads", "budget"), [(1, 4, 2000), (7, 2, 0), (50, 1, 1 << 28), (1000, 2, 0)]
)
USUAL = LocalEngine()
Usual = Callable[[Input, str], bytes]


@pytest.fixture(params=INPUTS)
def given_input(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Input:
    """A table to publish; where it says so, even short columns count as wide."""
    found = INPUTS[request.param]
    if found.most_values is not None:
        monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", found.most_values)
    return found


def make_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a table of a hundred rows several parts, row groups and pages, and a batch several blocks."""
    monkeypatch.setattr(shuffle, "PART_ROWS", 16)
    monkeypatch.setattr(rewriting, "BLOCK_ROWS", 3)
    monkeypatch.setattr(record_writer, "ROW_GROUP_ROWS", 25)
    monkeypatch.setattr(dictionary_pages, "PAGE_ROWS", 8)


@pytest.fixture(params=["usual sizes", "small sizes"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are, or small."""
    if request.param == "small sizes":
        make_small(monkeypatch)


# ----------------------------------------------------------------------------------------------------------- same bytes


def surveyed(
    given_input: Input, engine: Engine, folder: Path, mechanism: str, draws: Draws = DRAWS
) -> tuple[TableScan, Rewrite]:
    """The first pass, and what the second one needs."""
    source, way = open_source(given_input.table, folder / "spool"), WAYS[mechanism]
    schema = way.schema(given_input.schema, given_input.table)
    request = Request(given_input.table, schema=schema, **way.request(mechanism), **ALL_ACCEPTED)
    request, found = publication_plan.survey_table(request, source, engine, folder, draws, keeps=True)
    chosen = choose(found.histogram, way.spec, draws, mechanism, options=request.options)
    counts = found.histogram.counts
    return found, Rewrite(found.columns, found.sensitive, chosen.mechanism, chosen.plan, counts, draws)


def is_refused(mechanism: str, given_input: Input) -> bool:
    """Whether counts of crowds are refused: they protect one column, and need public columns of few values."""
    has_counts = REGISTRY[mechanism].crowd_counts is not None
    return has_counts and bool(given_input.schema.compound or given_input.most_values)


def counted(
    given_input: Input, engine: Engine, folder: Path, mechanism: str, draws: Draws
) -> tuple[TableScan, Rewrite, Crowds | None]:
    """The first pass, what the second one needs, and the crowds if the mechanism has any."""
    found, rewrite = surveyed(given_input, engine, folder, mechanism, draws)
    return found, rewrite, find_crowds(engine, found, rewrite.mechanism, rewrite.plan)


def written(given_input: Input, engine: Engine, folder: Path, mechanism: str, draws: Draws = DRAWS) -> bytes:
    """Both passes; the bytes of the published table, and of the one beside it, if there is one."""
    folder.mkdir()
    if is_refused(mechanism, given_input):
        with pytest.raises((InfeasibleError, SchemaError)):
            counted(given_input, engine, folder, mechanism, draws)
        return b""
    found, rewrite, crowds = counted(given_input, engine, folder, mechanism, draws)
    if crowds is None:
        write_records(engine, found, rewrite, folder)
    else:
        rewrite = replace(rewrite, crowd_index=crowds.index)
        write_records(engine, found, rewrite, folder, people_in_crowds=crowds.total)
        (counts,) = make_count_tables(crowds, rewrite)
        assert counts is not None
        write_side_table(engine, counts, folder)
    if has_side(mechanism):
        contents = rewrite.mechanism.bucket_table.list_contents(rewrite.plan)
        names = tuple(part.name for part in found.sensitive.parts)
        naming = Naming(names, found.histogram.values, (), rewrite.cell_name)
        side = rewrite.encoding.make_side_table(found.sensitive, naming, contents)
        assert side is not None
        write_side_table(engine, side, folder)
    files = tables_of(mechanism)
    assert sorted(os.listdir(folder)) == files
    return b"".join((folder / name).read_bytes() for name in files)


@pytest.fixture(scope="session")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Usual:
    """What is written in the usual way, of a table by a mechanism: once, for whatever sizes groups and pages have."""

    @cache
    def made(name: str, mechanism: str, *sizes: int) -> bytes:
        return written(INPUTS[name], USUAL, tmp_path_factory.mktemp("usual") / "folder", mechanism)

    def of(given_input: Input, mechanism: str) -> bytes:
        (name,) = (name for name, each in INPUTS.items() if each is given_input)
        return made(name, mechanism, record_writer.ROW_GROUP_ROWS, dictionary_pages.PAGE_ROWS)

    return of


def has_side(mechanism: str) -> bool:
    """Whether a table says beside the records what they show."""
    return REGISTRY[mechanism].bucket_table is not None


def records_of(mechanism: str) -> str:
    return RECORDS if has_side(mechanism) else DATA_FILE


def tables_of(mechanism: str) -> list[str]:
    if REGISTRY[mechanism].crowd_counts is not None:
        return [COUNTS_FILE, DATA_FILE]
    return [RECORDS, BUCKETS] if has_side(mechanism) else [DATA_FILE]


@pytest.mark.slow
def test_requests_are_for_what_mechanisms_differ_in(tmp_path: Path) -> None:
    designs = {
        name: REGISTRY[name].make_design(surveyed(INPUTS["every type"], USUAL, tmp_path, name)[1].plan)
        for name in REGISTRY
    }
    assert len(designs["small-domain"].cells) > 1
    assert designs["subset"].subset_size > 1
    assert len(set(designs["fine-grain"].retentions)) > 1
    plans = [surveyed(INPUTS["every type"], USUAL, tmp_path, name)[1].plan for name in REGISTRY if has_side(name)]
    assert all(len(set(plan.dealing.bucket_sizes.tolist())) > 1 and len(plan.dealing.tranches) > 1 for plan in plans)
    assert len(plans) > 1


@pytest.mark.pairwise
@MECHANISMS
@every_engine
def test_same_key_gives_the_same_bytes(
    engine: LocalEngine, mechanism: str, usual: Usual, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    found = written(INPUTS["every type"], engine, tmp_path / "other", mechanism)
    assert found == usual(INPUTS["every type"], mechanism)


@pytest.mark.pairwise
@MECHANISMS
@SOME_ENGINES
@pytest.mark.usefixtures("sizes")
def test_same_key_gives_the_same_bytes_for_every_table(
    engine: LocalEngine, mechanism: str, given_input: Input, usual: Usual, tmp_path: Path
) -> None:
    assert written(given_input, engine, tmp_path / "other", mechanism) == usual(given_input, mechanism)


@pytest.mark.slow
@pytest.mark.pairwise
@MECHANISMS
@pytest.mark.parametrize("piece_rows", [13, 1000])
def test_same_key_gives_the_same_bytes_where_pieces_travel(
    piece_rows: int, mechanism: str, given_input: Input, usual: Usual, tmp_path: Path
) -> None:
    """Pieces of several batches are read and rewritten elsewhere, and parts are sorted and written elsewhere."""
    with pytest.MonkeyPatch.context() as patched:
        make_small(patched)
        expected = usual(given_input, mechanism)
        patched.setattr(engines, "BATCH_ROWS", 5)
        assert written(given_input, FarEngine(piece_rows), tmp_path / "other", mechanism) == expected


@SOME_ENGINES
def test_same_key_gives_the_same_bytes_where_sets_are_lists(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch)
    lists = replace(WAYS["subset"], options=subset.Options(subset.Form.LIST))
    monkeypatch.setitem(WAYS, "subset", lists)
    expected = written(INPUTS["with gaps"], USUAL, tmp_path / "usual", "subset")
    assert written(INPUTS["with gaps"], engine, tmp_path / "other", "subset") == expected
    sets = pq.read_table(tmp_path / "other" / DATA_FILE).column("disease").to_pylist()
    assert {len(members) for members in sets} == {2}
    assert {member for members in sets for member in members} == {"flu", "cold", "asthma", None}


@SOME_ENGINES
def test_same_key_gives_the_same_bytes_where_sets_are_columns(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They say what the bits of the same key say."""
    make_small(monkeypatch)
    expected = {}
    for form in (subset.Form.LIST, subset.Form.COLUMNS):
        monkeypatch.setitem(WAYS, "subset", replace(WAYS["subset"], options=subset.Options(form)))
        expected[form] = written(INPUTS["with gaps"], USUAL, tmp_path / form, "subset")
    assert written(INPUTS["with gaps"], engine, tmp_path / "other", "subset") == expected[subset.Form.COLUMNS]
    lists, told = (pq.read_table(tmp_path / form / DATA_FILE) for form in (subset.Form.LIST, subset.Form.COLUMNS))
    for value in ("flu", "cold", "asthma", None):
        holds = [value in members for members in lists.column("disease").to_pylist()]
        assert told.column(f"disease_{value or 'missing'}").to_pylist() == holds


@SOME_ENGINES
def test_same_key_gives_the_same_bytes_where_columns_are_protected_each_for_itself(
    engine: LocalEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every record has a slot in each column, by how many records of its value there are before it."""
    make_small(monkeypatch)
    table = with_gaps()
    request = Request(
        table,
        schema=Schema.of(["disease", "sex"], public="*"),
        spec=DecoyGroups(2),
        accept_disclosing=give_reasons(("age",)),
        accept_exposure=REASON,
        **ALL_ACCEPTED,
    )
    for name, each in {"usual": USUAL, "other": engine}.items():
        publish(request, tmp_path / name, unsafe_test_key=known_key(0), engine=each)
    assert (tmp_path / "other" / DATA_FILE).read_bytes() == (tmp_path / "usual" / DATA_FILE).read_bytes()
    shown = pq.read_table(tmp_path / "usual" / DATA_FILE)
    for name in ("disease", "sex"):
        held = Counter(table.column(name).to_pylist())
        assert set(shown.column(name).to_pylist()) == set(held)
        assert Counter(shown.column(name).to_pylist()) != held


@pytest.mark.pairwise
@MECHANISMS
@pytest.mark.parametrize("part_rows", [1, 16, 60, 4096])
def test_number_of_parts_does_not_matter(
    part_rows: int, mechanism: str, usual: Usual, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_writer, "ROW_GROUP_ROWS", 25)
    expected = usual(INPUTS["every type"], mechanism)
    monkeypatch.setattr(shuffle, "PART_ROWS", part_rows)
    engine = LocalEngine(10, 2, 500)
    assert written(INPUTS["every type"], engine, tmp_path / "other", mechanism) == expected


@MECHANISMS
def test_rows_are_grouped_in_the_file_as_asked(mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_writer, "ROW_GROUP_ROWS", 25)
    written(INPUTS["every type"], LocalEngine(7, 2, 0), tmp_path / "folder", mechanism)
    metadata = pq.read_metadata(tmp_path / "folder" / records_of(mechanism))
    assert [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)] == [25, 25, 25, 25, 1]


@pytest.mark.slow
@pytest.mark.pairwise
@OF_RECORDS
def test_every_group_lists_the_same_values_and_none_that_would_tell_something(
    mechanism: str, given_input: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what is sensitive the domain, which is published anyway, whatever was drawn; of the others what occurs."""
    make_small(monkeypatch)
    written(given_input, LocalEngine(7, 2, 0), tmp_path / "folder", mechanism)
    found, rewrite = surveyed(given_input, USUAL, tmp_path, mechanism)
    domains = {part.name: list(part.values.to_pylist()) for part in found.sensitive.parts}
    records = tmp_path / "folder" / records_of(mechanism)
    rows = pq.read_table(records)
    columns = [column for column in rewrite.published_columns if column.dictionary_values is not None]
    for column in columns:
        assert column.dictionary_values is not None
        listed = column.dictionary_values.to_pylist()
        if column.name in domains:
            assert listed == domains[column.name]
        elif column.name != rewrite.cell_name:
            assert set(listed) == set(rows.column(column.name).to_pylist()) - {None}
        first, *others = ([page for page in group if not page.is_data] for group in pages_of(records, column.name))
        assert [page.listed for page in first] == [len(listed)]
        assert others == [first] * len(others)
    assert columns or given_input.most_values is not None


@MECHANISMS
def test_pyarrow_can_write_every_column_with_the_same_rows(
    mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way back, should pages of our own ever fail somebody."""
    make_small(monkeypatch)
    ours = written(INPUTS["with gaps"], USUAL, tmp_path / "ours", mechanism)
    monkeypatch.setattr(CodedColumn, "dictionary_values", None)
    for kind in (CodedColumn, NumberColumn, SetColumn):
        monkeypatch.setattr(kind, "is_plain", False)
    assert written(INPUTS["with gaps"], USUAL, tmp_path / "theirs", mechanism) != ours
    for name in tables_of(mechanism):
        assert pq.read_table(tmp_path / "ours" / name).equals(pq.read_table(tmp_path / "theirs" / name))


@MECHANISMS
def test_another_key_gives_other_bytes(mechanism: str, tmp_path: Path) -> None:
    one = written(INPUTS["every type"], USUAL, tmp_path / "one", mechanism)
    draws = Draws.unsafe_test_key(known_key(2))
    assert written(INPUTS["every type"], USUAL, tmp_path / "other", mechanism, draws) != one
    for name in tables_of(mechanism):
        has_lines = pq.read_metadata(tmp_path / "one" / name).num_rows > 0
        assert ((tmp_path / "one" / name).read_bytes() != (tmp_path / "other" / name).read_bytes()) == has_lines


# ----------------------------------------------------------------------------------------------------------- right rows


@pytest.mark.pairwise
@OF_RECORDS
@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("engine", [LocalEngine(7, 2, 0), LocalEngine(1000, 1)], ids=["in pieces", "at once"])
def test_rows_are_replaced_one_by_one_and_sorted_by_their_words(
    engine: LocalEngine, mechanism: str, given_input: Input, tmp_path: Path
) -> None:
    """The whole table in one piece: every value coded and replaced, every row put where its word says."""
    written(given_input, engine, tmp_path / "folder", mechanism)
    found, rewrite = surveyed(given_input, USUAL, tmp_path, mechanism)
    (batch,) = given_input.table.combine_chunks().to_batches()
    before = np.zeros(found.histogram.domain_size, dtype=np.int64) if rewrite.mechanism.uses_slots else None
    rows = values_of(rewrite.published_columns, rewrite(found.preparation(batch), 0, before))
    words = DRAWS.get_stream("order").draw_bits(0, found.histogram.total).tolist()
    order = sorted(range(len(words)), key=words.__getitem__)
    published_table = pq.read_table(tmp_path / "folder" / records_of(mechanism))
    assert published_table.column_names == list(rows)
    for name, values in rows.items():
        assert published_table.column(name).to_pylist() == [values[row] for row in order]


def values_of(columns: Sequence[PublishedColumn], rows: Rows) -> dict[str, list[Any]]:
    """Rewritten rows as values, one by one."""
    found = {}
    for column in columns:
        written = column.to_file_values(rows[column.source])
        if column.dictionary_values is None:
            found[column.name] = written.to_pylist()
        else:
            values = [*column.dictionary_values.to_pylist(), None]
            found[column.name] = [values[code] for code in written.tolist()]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [name for name in REGISTRY if has_side(name)])
def test_lines_of_the_buckets_are_what_their_records_hold_in_order(
    mechanism: str, given_input: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each record with its bucket, before the rows are shuffled: counted one by one."""
    make_small(monkeypatch)
    written(given_input, LocalEngine(7, 2, 0), tmp_path / "folder", mechanism)
    found, rewrite = surveyed(given_input, USUAL, tmp_path, mechanism)
    (batch,) = given_input.table.combine_chunks().to_batches()
    prepared = found.preparation(batch)
    shown = rewrite(prepared, 0, np.zeros(found.histogram.domain_size, dtype=np.int64))[rewrite.cell_name]
    places = {value: place for place, value in enumerate(found.histogram.values)}
    names = given_input.schema.sensitive_columns
    values = list(zip(*(batch.column(name).to_pylist() for name in names), strict=True))
    held = [value for value in values if given_input.schema.nulls == "value" or value != (None,)]
    keys = [value if len(names) > 1 else value[0] for value in held]
    counted = Counter(zip(shown.tolist(), (places[key] for key in keys), strict=True))
    lines = pq.read_table(tmp_path / "folder" / BUCKETS)
    read = zip(*(lines.column(name).to_pylist() for name in names), strict=True)
    found_places = [places[value if len(names) > 1 else value[0]] for value in read]
    buckets, counts = (lines.column(name).to_pylist() for name in (rewrite.cell_name, "count"))
    found_lines = list(zip(buckets, found_places, counts, strict=True))
    assert found_lines == sorted((*key, count) for key, count in counted.items())


@OF_RECORDS
def test_public_columns_are_the_original_ones(mechanism: str, given_input: Input, tmp_path: Path) -> None:
    written(given_input, LocalEngine(7, 2, 0), tmp_path / "folder", mechanism)
    sensitive = given_input.schema.sensitive_name
    public = [name for name in given_input.table.column_names if name not in given_input.schema.sensitive_columns]

    def rows(table: pa.Table) -> list[str]:
        held = table.to_pylist() if given_input.schema.nulls == "value" else with_sensitive(table, sensitive)
        return sorted(repr([_plain(row[name]) for name in public]) for row in held)

    assert rows(pq.read_table(tmp_path / "folder" / records_of(mechanism))) == rows(given_input.table)


def with_sensitive(table: pa.Table, sensitive: str) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if sensitive not in row or row[sensitive] is not None]


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and np.isnan(value) else value


# --------------------------------------------------------------------------------------------------------- every source


def _csv(table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(table, folder / "people.csv")
    return folder / "people.csv"


def _several_csv(table: pa.Table, folder: Path) -> Any:
    for number, first in enumerate(range(0, len(table), 40)):
        pa_csv.write_csv(table.slice(first, 40), folder / f"part-{number}.csv")
    return str(folder / "part-*.csv")


def _parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "people.parquet", row_group_size=13)
    return folder / "people.parquet"


def _parts(table: pa.Table, folder: Path) -> Any:
    (folder / "people").mkdir()
    for number, first in enumerate(range(0, len(table), 40)):
        pq.write_table(table.slice(first, 40), folder / "people" / f"part-{number}.parquet")
    return folder / "people"


def _chunks(table: pa.Table, folder: Path) -> Any:
    return pa.concat_tables([table.slice(first, 9) for first in range(0, len(table), 9)])


def _stream(table: pa.Table, folder: Path) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(11))


@pytest.mark.parametrize("engine", [LocalEngine(7, 2, 0), FarEngine(20)], ids=["here", "elsewhere"])
@pytest.mark.parametrize(
    "offer",
    [_csv, _several_csv, _parquet, _parts, _chunks, _stream, lambda table, folder: table.to_pandas()],
    ids=["CSV", "several CSV", "Parquet", "several files", "chunks", "stream", "pandas"],
)
def test_same_rows_give_the_same_bytes_from_every_source(
    engine: Engine, offer: Callable[[pa.Table, Path], Any], tmp_path: Path
) -> None:
    table = people(ROWS, weight=[50.5, 61.25, None])
    expected = published(table, tmp_path / "expected").folder
    found = published(offer(table, tmp_path), tmp_path / "found", engine=engine).folder
    assert (found / DATA_FILE).read_bytes() == (expected / DATA_FILE).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("offer", [_csv, _parquet, _chunks], ids=["CSV", "Parquet", "memory"])
@pytest.mark.parametrize("rows", [{"one_row": "last:weight"}, {"rows_per_person": 2, "surplus": "drop"}], ids=str)
def test_same_rows_of_persons_are_chosen_by_every_engine(
    rows: dict[str, Any], offer: Callable[[pa.Table, Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By small parts and by pieces of their own, with a text that stands for a missing value."""
    table = people(ROWS, weight=[50.5, 61.25, 70.0], who=[f"person {row * row % 31}" for row in range(ROWS)])
    table = table.append_column("ward", pa.array(["?" if row % 4 == 0 else "ward" for row in range(ROWS)]))
    schema = Schema.of("disease", person="who", **rows, public="*")
    offered = offer(table, tmp_path)

    def release(name: str, engine: Engine) -> bytes:
        request = Request(
            offered,
            schema=schema,
            spec=BOUND,
            mechanism="uniform",
            accept_disclosing=give_reasons(("age", "sex", "weight", "ward")),
            read=ReadOptions(missing=("?",)),
            **ALL_ACCEPTED,
        )
        publish(request, tmp_path / name, unsafe_test_key=known_key(0), engine=engine)
        return (tmp_path / name / DATA_FILE).read_bytes()

    expected = release("expected", USUAL)
    monkeypatch.setattr(shuffle, "PART_ROWS", 16)
    assert release("here", LocalEngine(7, 2, 0)) == release("elsewhere", FarEngine(20)) == expected


# --------------------------------------------------------------------------------------------------------- no more left


class Broken(Exception):
    """What goes wrong in a piece of work."""


def bundles(number: int) -> list[Bundle]:
    """One bundle for each of three parts."""
    return [Bundle(part, {"": np.array([number], dtype=np.uint64)}, np.array([0, 1])) for part in range(3)]


def numbers(part: int, given: Iterator[Bundle]) -> Iterator[tuple[int, list[int]]]:
    yield part, [int(bundle.rows[""][0]) for bundle in given]


@pytest.mark.parametrize(
    "engine", [LocalEngine(threads=1), LocalEngine(threads=4), FarEngine()], ids=["one thread", "four threads", "far"]
)
def test_every_part_gets_its_bundles_in_the_order_of_the_items(engine: Engine) -> None:
    told: list[int] = []
    found = dict(engine.shuffle(bundles, range(50), numbers, 3, told.append))
    assert found == {part: list(range(50)) for part in range(3)}
    assert told == list(range(1, 51))


def failing_work(number: int) -> list[Bundle]:
    if number == 20:
        raise Broken
    return bundles(number)


def failing_at_first(part: int, given: Iterator[Bundle]) -> Iterator[int]:
    if part == 1:
        raise Broken
    yield len(list(given))


def failing_in_between(part: int, given: Iterator[Bundle]) -> Iterator[int]:
    for number, _ in enumerate(given):
        if part == 1 and number == 7:
            raise Broken
    yield 1


def failing_at_last(part: int, given: Iterator[Bundle]) -> Iterator[int]:
    yield len(list(given))
    if part == 1:
        raise Broken
    yield 1


def failing_items() -> Iterator[int]:
    yield from range(30)
    raise Broken


def failing_when_told(number: int) -> None:
    if number == 40:
        raise Broken


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    ("work", "items", "finish", "done"),
    [
        (failing_work, lambda: range(50), numbers, lambda number: None),
        (bundles, failing_items, numbers, lambda number: None),
        (bundles, lambda: range(50), numbers, failing_when_told),
        *(
            (bundles, lambda: range(50), finish, lambda number: None)
            for finish in (failing_at_first, failing_in_between, failing_at_last)
        ),
    ],
    ids=["work", "items", "told", "first", "in between", "last"],
)
def test_what_goes_wrong_anywhere_stops_everything_and_is_raised_as_it_is(
    work: Any, items: Any, finish: Any, done: Any, threads: int
) -> None:
    before = threading.active_count()
    with pytest.raises(Broken):
        list(LocalEngine(threads=threads).shuffle(work, items(), finish, 3, done))
    assert threading.active_count() == before


def test_whoever_takes_no_more_results_stops_everything() -> None:
    before = threading.active_count()
    for _ in LocalEngine(threads=2).shuffle(bundles, range(50), numbers, 3, lambda number: None):
        break
    assert threading.active_count() == before


def test_no_more_parts_are_finished_at_once_than_keep_the_threads_busy() -> None:
    lock, running, most = threading.Lock(), set(), []

    def finish(part: int, given: Iterator[Bundle]) -> Iterator[int]:
        yield len(list(given))
        with lock:
            running.add(part)
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.remove(part)

    found = list(LocalEngine(threads=5).shuffle(bundles, range(5), finish, 3, lambda number: None))
    assert (found, len(most)) == ([5, 5, 5], 3)
    assert max(most) <= 2


@MECHANISMS
@pytest.mark.parametrize("engine", [USUAL, LocalEngine(7, 2, 0)], ids=["in memory", "on disk"])
def test_publishing_leaves_the_release_and_nothing_else(engine: LocalEngine, mechanism: str, tmp_path: Path) -> None:
    published_by(mechanism, every_type(), tmp_path / "release", engine=engine)
    assert os.listdir(tmp_path) == ["release"]
    has_weights = not has_side(mechanism) and mechanism != "decoys"
    tables = [*tables_of(mechanism), *(["weights.parquet"] if has_weights else [])]
    assert sorted(os.listdir(tmp_path / "release")) == sorted(["README.md", "datapackage.json", *tables])


def test_progress_is_told_up_to_the_last_row(tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    engine = LocalEngine(10, 2, 0, progress=lambda *each: told.append(each))
    published(every_type(), tmp_path / "release", engine=engine)
    assert list(dict.fromkeys(stage for stage, *_ in told)) == ["counting", "rewriting", "writing"]
    for stage in ("counting", "rewriting", "writing"):
        done = [each for name, each, _ in told if name == stage]
        assert done == sorted(done)
        assert done[-1] == ROWS
    assert {total for _, _, total in told} == {ROWS}


# --------------------------------------------------------------------------------------- a table that changes meanwhile

Change = Callable[[Path], Any]


@dataclass
class Meddler:
    """Changes a file once, when a pass over it has come to its end."""

    path: Path
    stage: str
    change: Change
    has_changed: bool = False

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if stage == self.stage and done == ROWS and not self.has_changed:
            self.has_changed = True
            self.change(self.path)


def meddled(table: pa.Table) -> pa.Table:
    """Of the same size, with the same values in every column: two rows have exchanged their sex."""
    values = table.column("sex").to_pylist()
    values[0], values[1] = values[1], values[0]
    return table.set_column(table.column_names.index("sex"), "sex", pa.array(values))


def _writers() -> Iterator[Any]:
    def to_csv(table: pa.Table, path: Path) -> None:
        pa_csv.write_csv(table, path)

    def to_parquet(table: pa.Table, path: Path) -> None:
        pq.write_table(table, path)

    yield pytest.param(to_csv, "people.csv", id="CSV")
    yield pytest.param(to_parquet, "people.parquet", id="Parquet")


CHANGES: Mapping[str, Callable[[pa.Table], pa.Table]] = {
    "two cells exchanged": meddled,
    "a new value": lambda table: people(len(table), sex=["F", "X"]),
    "a value gone missing": lambda table: people(len(table), sex=["F", None]),
    "rows appended": lambda table: people(len(table) + 4),
    "rows removed": lambda table: table.slice(4),
    "rows in another order": lambda table: table.take(list(reversed(range(len(table))))),
    "another sensitive value": lambda table: people(len(table), disease=["flu", "cold", "HIV"]),
    "a column of another type": lambda table: people(len(table), age=["old", "young"]),
    "a column removed": lambda table: table.drop_columns(["sex"]),
    "columns exchanged": lambda table: table.select(["sex", "age", "disease"]),
    "a column renamed": lambda table: table.rename_columns({"sex": "gender"}),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("stage", ["counting", "rewriting"])
@pytest.mark.parametrize(("write", "name"), list(_writers()))
def test_table_that_changes_between_the_passes_is_refused(
    write: Callable[[pa.Table, Path], None],
    name: str,
    stage: str,
    change: Callable[[pa.Table], pa.Table],
    tmp_path: Path,
) -> None:
    write(people(ROWS), tmp_path / name)
    meddler = Meddler(tmp_path / name, stage, lambda path: write(change(people(ROWS)), path))
    with pytest.raises(SourceError):
        published(tmp_path / name, tmp_path / "release", engine=LocalEngine(7, 2, 0, progress=meddler))
    assert meddler.has_changed
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_table_that_changes_between_the_passes_is_refused_where_records_have_slots(
    change: Callable[[pa.Table], pa.Table], tmp_path: Path
) -> None:
    path = tmp_path / "people.parquet"
    pq.write_table(people(ROWS), path)
    meddler = Meddler(path, "counting", lambda path: pq.write_table(change(people(ROWS)), path))
    with pytest.raises(SourceError):
        published_by("small-domain", path, tmp_path / "release", engine=LocalEngine(7, 2, 0, progress=meddler))
    assert meddler.has_changed
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b"garbage" * 99),
    ],
    ids=["deleted", "emptied", "cut off", "overwritten"],
)
@pytest.mark.parametrize("stage", ["counting", "rewriting"])
@pytest.mark.parametrize(("write", "name"), list(_writers()))
def test_table_that_is_lost_between_the_passes_is_refused(
    write: Callable[[pa.Table, Path], None], name: str, stage: str, change: Change, tmp_path: Path
) -> None:
    write(people(ROWS), tmp_path / name)
    meddler = Meddler(tmp_path / name, stage, change)
    with pytest.raises(SourceError):
        published(tmp_path / name, tmp_path / "release", engine=LocalEngine(7, 2, 0, progress=meddler))
    assert set(os.listdir(tmp_path)) <= {name}


@pytest.mark.parametrize("names", [["name 1", None], ["name 1", "other"]], ids=["a value gone missing", "other values"])
def test_wide_column_that_changes_between_the_passes_is_refused(
    names: list[str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its values are not remembered from the first pass, so only the digest of the table can tell."""
    monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", 20)
    path = tmp_path / "people.parquet"
    pq.write_table(people(ROWS, name=[f"name {row}" for row in range(ROWS)]), path)
    meddler = Meddler(path, "counting", lambda path: pq.write_table(people(ROWS, name=names), path))
    engine = LocalEngine(7, 2, 0, progress=meddler)
    with refuses(SourceError, "table-changed"):
        published(path, tmp_path / "release", schema=Schema.of("disease", keep=["name"], public="*"), engine=engine)
    assert os.listdir(tmp_path) == [path.name]


def test_table_that_is_lost_as_soon_as_it_was_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = tmp_path / "people.csv", publication.open_table
    pa_csv.write_csv(people(ROWS), path)

    def lost(*given: Any) -> Source:
        found = opened(*given)
        path.unlink()
        return found

    monkeypatch.setattr(publication, "open_table", lost)
    with refuses(SourceError, "unreadable-table", reason="No such file or directory"):
        published(path, tmp_path / "release")
    assert os.listdir(tmp_path) == []


def test_table_that_is_only_touched_is_published(tmp_path: Path) -> None:
    pq.write_table(people(ROWS), tmp_path / "people.parquet")
    meddler = Meddler(tmp_path / "people.parquet", "counting", lambda path: os.utime(path, (0, 0)))
    release = published(meddler.path, tmp_path / "release", engine=LocalEngine(7, 2, 0, progress=meddler))
    assert (meddler.has_changed, release.rows) == (True, ROWS)


class Quiet(LocalEngine):
    """An engine that does not tell when the last piece is rewritten."""

    def shuffle(self, work: Any, items: Any, finish: Any, parts: int, done: Any) -> Iterator[Any]:
        return super().shuffle(work, items, finish, parts, lambda pieces: None)


def test_engine_that_does_not_tell_of_its_last_piece_leaves_nothing_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the table of buckets, nor the last look at the table, of which here only the digest tells a change."""
    assert published_by("buckets", people(ROWS), tmp_path / "buckets", engine=Quiet(7, 2, 0)).rows == ROWS
    monkeypatch.setattr("sfumato._profile.table_profile.MOST_VALUES", 20)
    path = tmp_path / "people.parquet"
    pq.write_table(people(ROWS, name=[f"name {row}" for row in range(ROWS)]), path)
    meddler = Meddler(path, "counting", lambda path: pq.write_table(people(ROWS, name=["name 1", "other"]), path))
    with refuses(SourceError, "table-changed"):
        published(
            path,
            tmp_path / "changed",
            schema=Schema.of("disease", keep=["name"], public="*"),
            engine=Quiet(7, 2, 0, progress=meddler),
        )


def test_files_that_are_not_what_was_written_are_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies on the disk is read again, and has to have the digest of what was to be written."""
    finish = FileWriter.finish
    monkeypatch.setattr(FileWriter, "finish", lambda writer: finish(writer)[::-1])
    with refuses(InternalError, "release-fails-check", check="files"):
        published(people(ROWS), tmp_path / "release")
    assert os.listdir(tmp_path) == []


def test_disk_that_fails_once_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system tells of data that it lost to the first who asks, and to nobody after."""
    answers = iter([OSError(errno.EIO, "lost")])

    def sync(descriptor: int) -> None:
        for error in answers:
            raise error

    monkeypatch.setattr(os, "fsync", sync)
    with refuses(TargetError, "unwritable-file"):
        published(people(ROWS), tmp_path / "release")
    assert os.listdir(tmp_path) == []


class Stop(Exception):
    """What a user does who has seen enough."""


@pytest.mark.parametrize("stage", ["counting", "rewriting", "writing"])
def test_run_that_is_stopped_leaves_nothing(stage: str, tmp_path: Path) -> None:
    def stop(now: str, done: int, total: int | None) -> None:
        if now == stage:
            raise Stop

    with pytest.raises(Stop):
        published(every_type(), tmp_path / "release", engine=LocalEngine(7, 2, 0, progress=stop))
    assert os.listdir(tmp_path) == []


def test_memory_source_is_read_twice_in_the_same_order() -> None:
    source = MemorySource(every_type())
    readings = [pa.Table.from_batches(source.read_batches(["age", "sex"], 7)) for _ in range(2)]
    assert readings[0].equals(readings[1])


@dataclass(frozen=True)
class CarelessEngine(FarEngine):
    """Brings each part some bundles less, or more, than there are."""

    brought: Callable[[list[Bundle]], list[Bundle]] = list

    def shuffle(self, work: Any, items: Any, finish: Any, parts: int, done: Any) -> Iterator[Any]:
        def carelessly(part: int, bundles: Iterator[Bundle]) -> Iterator[Any]:
            return finish(part, iter(self.brought(list(bundles))))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("far_engine.sent", lambda thing: thing)
            yield from super().shuffle(work, items, carelessly, parts, done)


@pytest.mark.parametrize("brought", [lambda all_: all_[1:], lambda all_: [*all_, all_[0]]], ids=["lost", "twice"])
def test_engine_that_loses_or_repeats_records_publishes_nothing(brought: Any, tmp_path: Path) -> None:
    request = Request(
        people(ROWS),
        schema=Schema.of("disease", public="*"),
        spec=BOUND,
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    with refuses(EngineError, "records-lost", expected=ROWS):
        publish(request, tmp_path / "release", engine=CarelessEngine(brought=brought))
    assert os.listdir(tmp_path) == []
