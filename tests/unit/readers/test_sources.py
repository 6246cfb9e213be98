"""Every way to hand over a table gives the same release; what is no table is refused."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from accepted import ALL_ACCEPTED
from command_line import TEST_KEY, people, write_csv
from refusals import refuses
from sfumato import BreachBound, Request, Schema, SourceError, publish
from sfumato._core.cell_values import simplify_type
from sfumato._readers.open_table import open_source
from sfumato._readers.parquet_files import ParquetSource
from sfumato._readers.sources import MemorySource, Source
from sfumato._records import DATA_FILE
from sfumato._request.schema import NullPolicy
from sfumato.errors import SchemaError

TABLE = pa.table(
    people(
        300,
        name=[f"person {row}" for row in range(300)],
        weight=[0.5, 1.25, None, 2.0, 0.5],
        disease=["flu", None, "HIV", "cold", "flu", "été", "flu"],
    )
)


def published(table: Any, folder: Path, nulls: NullPolicy = NullPolicy.VALUE) -> bytes:
    """The data of the release of a table under a known key."""
    request = Request(
        table,
        schema=Schema.of("disease", person="name", nulls=nulls, public="*"),
        spec=BreachBound("1/10", "1/2"),
        **ALL_ACCEPTED,
    )
    publish(request, folder / "release", unsafe_test_key=TEST_KEY)
    return (folder / "release" / DATA_FILE).read_bytes()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The data of the release of the table's Parquet file."""
    folder = tmp_path_factory.mktemp("expected")
    pq.write_table(TABLE, folder / "people.parquet")
    return published(folder / "people.parquet", folder)


def _duckdb_relation(folder: Path) -> Any:
    connection = duckdb.connect()
    connection.register("people", TABLE)
    return connection.sql("SELECT * FROM people")


def _files(folder: Path) -> Path:
    (folder / "parts").mkdir()
    for number, first in enumerate(range(0, 300, 70)):
        pq.write_table(TABLE.slice(first, 70), folder / "parts" / f"{number}.parquet")
    return folder / "parts"


def _small_row_groups(folder: Path) -> Path:
    pq.write_table(TABLE, folder / "people.pq", row_group_size=33, use_dictionary=False, compression="gzip")
    return folder / "people.pq"


def _packed(folder: Path, suffix: str) -> Path:
    text = write_csv(folder / "people.csv", TABLE.to_pydict()).read_bytes()
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": pa.Codec("zstd").compress}[suffix]
    # In two halves, as of files that were put together: both are read.
    (folder / f"packed.csv{suffix}").write_bytes(bytes(pack(text[:1000])) + bytes(pack(text[1000:])))
    return folder / f"packed.csv{suffix}"


def _tabs(folder: Path) -> Path:
    return write_csv(folder / "people.tsv", TABLE.to_pydict(), delimiter="\t")


def _csv_files(folder: Path) -> Path:
    (folder / "parts" / "deep").mkdir(parents=True)
    (folder / "parts" / "notes.txt").write_text("no table")
    write_csv(folder / "parts" / "1.csv", TABLE.slice(0, 100).to_pydict())
    packed = gzip.compress(write_csv(folder / "rest.csv", TABLE.slice(100).to_pydict()).read_bytes())
    (folder / "parts" / "deep" / "2.csv.gz").write_bytes(packed)
    return folder / "parts"


def _feather(folder: Path, compression: str = "zstd") -> Path:
    feather.write_feather(TABLE, folder / "people.feather", compression=compression, chunksize=37)
    return folder / "people.feather"


def _arrow_stream(folder: Path) -> Path:
    with pa.ipc.new_stream(folder / "people.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=41)
    return folder / "people.arrow"


def _polars_ipc(folder: Path) -> Path:
    pl.from_arrow(TABLE).with_columns(pl.col("disease").cast(pl.Categorical)).write_ipc(folder / "people.ipc")
    return folder / "people.ipc"


def json_lines(folder: Path, name: str = "people.jsonl") -> Path:
    """The table, in which what is missing is null or has no key."""
    rows = [
        {key: value for key, value in row.items() if value is not None or row["age"] > 40} for row in TABLE.to_pylist()
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    (folder / name).write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
    return folder / name


FILES: dict[str, Callable[[Path], Any]] = {
    **{f"csv{suffix}": partial(_packed, suffix=suffix) for suffix in (".gz", ".bz2", ".zst")},
    "tsv": _tabs,
    "directory of csv": _csv_files,
    "feather": _feather,
    "arrow stream": _arrow_stream,
    "arrow file of polars": _polars_ipc,
    "json lines": json_lines,
    "json lines, packed": partial(json_lines, name="people.ndjson.gz"),
}
"""Files beside Parquet, and those of CSV that are more than one text."""


def _with_unused_values(folder: Path) -> pa.Table:
    listed = pa.array([*TABLE.column("disease").unique().drop_null().to_pylist(), "never"])
    indices = pc.index_in(TABLE.column("disease").combine_chunks(), listed)
    return TABLE.set_column(2, "disease", pa.DictionaryArray.from_arrays(indices, listed))


def _file_with_unused_values(folder: Path) -> Path:
    pq.write_table(_with_unused_values(folder), folder / "people.parquet")
    return folder / "people.parquet"


def _pandas_with_index(folder: Path) -> pd.DataFrame:
    return TABLE.to_pandas().set_axis([f"secret {row}" for row in range(300)], axis=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda _: TABLE,
        lambda _: pa.Table.from_batches(TABLE.to_batches(max_chunksize=37)),
        lambda _: TABLE.combine_chunks().to_batches()[0],
        lambda _: TABLE.to_reader(max_chunksize=41),
        lambda _: pa.RecordBatchReader.from_batches(TABLE.schema, iter(TABLE.to_batches(max_chunksize=1))),
        lambda _: TABLE.set_column(1, "sex", TABLE.column("sex").dictionary_encode()),
        lambda _: TABLE.set_column(2, "disease", TABLE.column("disease").cast(pa.large_string())),
        lambda _: TABLE.to_pandas(),
        lambda _: TABLE.to_pandas(types_mapper=pd.ArrowDtype),
        lambda _: TABLE.to_pandas().astype({"sex": "category"}),
        _pandas_with_index,
        _with_unused_values,
        _file_with_unused_values,
        lambda folder: _with_unused_values(folder).to_pandas(),
        lambda _: pl.from_arrow(TABLE),
        lambda _: pl.from_arrow(TABLE).with_columns(pl.col("disease").cast(pl.Categorical)),
        _duckdb_relation,
        _files,
        lambda folder: str(_files(folder)) + "/*.parquet",
        _small_row_groups,
        lambda folder: write_csv(folder / "people.csv", TABLE.to_pydict()),
        *FILES.values(),
        lambda _: pl.from_arrow(TABLE).lazy(),
    ],
    ids=[
        "arrow",
        "arrow in chunks",
        "record batch",
        "reader read once",
        "generator read once",
        "dictionary",
        "large strings",
        "pandas",
        "pandas of arrow types",
        "pandas category",
        "pandas with an index",
        "unused values in a dictionary",
        "unused values in a file",
        "unused categories of pandas",
        "polars",
        "polars categorical",
        "duckdb relation",
        "directory",
        "glob",
        "small row groups",
        "csv",
        *FILES,
        "polars lazy",
    ],
)
def test_every_kind_of_table_gives_the_release_of_its_parquet_file(
    make: Callable[[Path], Any], expected: bytes, desk: Path
) -> None:
    assert published(make(desk), desk) == expected


@pytest.mark.parametrize("make", [pl.from_arrow, lambda table: table.to_pandas()], ids=["polars", "pandas"])
def test_records_without_a_value_are_left_out_of_every_kind_of_table(make: Callable[[Any], Any], desk: Path) -> None:
    for name, table in (("one", TABLE), ("other", make(TABLE))):
        (desk / name).mkdir()
        published(table, desk / name, NullPolicy.DROP)
    one, other = (pq.read_table(desk / name / "release" / DATA_FILE) for name in ("one", "other"))
    assert one.num_rows == 300 - TABLE.column("disease").null_count
    assert one.equals(other)


def test_releases_of_another_table_differ(expected: bytes, desk: Path) -> None:
    assert published(TABLE.slice(0, 299), desk) != expected


def read(source: Source, columns: list[str], rows: int) -> list[dict[str, Any]]:
    return [row for batch in source.read_batches(columns, rows) for row in batch.to_pylist()]


@pytest.mark.parametrize("rows", [1, 7, 300, 10_000])
def test_batches_are_the_rows_in_order_whatever_their_size(rows: int, desk: Path) -> None:
    pq.write_table(TABLE, desk / "people.parquet", row_group_size=50)
    columns = ["disease", "age"]
    expected = TABLE.select(columns).to_pylist()
    for table in (desk / "people.parquet", TABLE, TABLE.to_reader(max_chunksize=11), _files(desk)):
        source = open_source(table, desk / f"spool-{type(table).__name__}-{Path(str(table)).name[:5]}")
        assert read(source, columns, rows) == expected
        assert read(source, columns, rows) == expected
        assert source.rows == 300


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_files_are_read_in_order_and_known_again_by_their_bytes(make: Callable[[Path], Any], desk: Path) -> None:
    path, columns = make(desk), ["disease", "age"]
    source, again = (open_source(path, desk / "spool") for _ in range(2))
    for rows in (1, 7, 10_000):
        assert read(source, columns, rows) == TABLE.select(columns).to_pylist()
    assert [row for piece in source.iter_pieces(100) for row in read(piece, columns, 50)] == read(source, columns, 300)
    assert source.rows in (300, None)
    assert (before := source.compute_fingerprint()) == again.compute_fingerprint()
    changed = next(each for each in path.rglob("1.csv")) if path.is_dir() else path
    changed.write_bytes(changed.read_bytes() + b" ")
    with contextlib.suppress(SourceError):  # which is as good
        assert open_source(path, desk / "spool").compute_fingerprint() != before


def test_stream_is_spooled_into_a_file_without_a_name(desk: Path) -> None:
    seen = []

    def batches() -> Any:
        for batch in TABLE.to_batches(max_chunksize=100):
            seen.append(list(desk.iterdir()))
            yield batch

    source = open_source(pa.RecordBatchReader.from_batches(TABLE.schema, batches()), desk / "spool")
    assert seen == [[]] * 3
    assert read(source, TABLE.column_names, 70) == TABLE.to_pylist()
    assert list(desk.iterdir()) == []


KILLED = """
import os, signal, sys
import pyarrow as pa
from sfumato import BreachBound, LocalEngine, Request, Schema, plan, publish
out, moment = sys.argv[1:]
table = pa.table({"age": [30, 40] * 1000, "disease": ["Zelenka fever", "flu", "cold", "gout"] * 500})
def batches():
    for number, batch in enumerate(table.to_batches(max_chunksize=500)):
        if number == 3 and moment == "spooling":
            os.kill(os.getpid(), signal.SIGKILL)
        yield batch
def crash(stage, done, total):
    if stage == moment:
        os.kill(os.getpid(), signal.SIGKILL)
stream = pa.RecordBatchReader.from_batches(table.schema, batches())
accepted = dict.fromkeys(("accept_unique", "accept_uncovered"), "made up")
request = Request(stream, schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **accepted)
engine = LocalEngine(progress=crash)
plan(request, engine) if out == "plan" else publish(request, out, engine=engine)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("out", "moment"),
    [
        ("plan", "counting"),
        pytest.param("plan", "spooling", marks=pytest.mark.full),
        pytest.param("release", "spooling", marks=pytest.mark.full),
        pytest.param("release", "counting", marks=pytest.mark.full),
        pytest.param("release", "rewriting", marks=pytest.mark.full),
    ],
)
def test_killed_run_leaves_nothing_of_a_stream_behind(out: str, moment: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", KILLED, out, moment]
    assert subprocess.run(command, env=environment, cwd=tmp_path, check=False).returncode == -signal.SIGKILL
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path.name for path in found if b"Zelenka" in path.read_bytes()]
    assert {path.name for path in found} <= {"lock"}


def test_column_names_of_pandas_become_text() -> None:
    source = open_source(pd.DataFrame({7: [1, 2], ("a", "b"): [3, 4]}), Path("unused"))
    assert source.schema.names == ["7", "('a', 'b')"]


def test_duplicate_columns_of_pandas_are_refused() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["age", "sex", "age"])
    with refuses(SchemaError, "repeated-column", column="age"):
        open_source(frame, Path("unused"))


@pytest.mark.parametrize("table", [{"age": [1]}, [1, 2], None, 3, object()], ids=lambda table: type(table).__name__)
def test_object_that_is_no_table_is_refused_by_its_type(table: Any) -> None:
    with refuses(SourceError, "unknown-table-type", type=type(table).__name__):
        open_source(table, Path("unused"))


@pytest.mark.parametrize("error", [pa.ArrowInvalid, OSError])
def test_broken_stream_is_refused_without_its_content(error: type[Exception], desk: Path) -> None:
    def batches() -> Any:
        yield TABLE.to_batches()[0]
        raise error("Zelenka has the flu")

    stream = pa.RecordBatchReader.from_batches(TABLE.schema, batches())
    with refuses(SourceError, "unreadable-stream") as caught:
        open_source(stream, desk / "spool")
    assert "Zelenka" not in "".join(traceback.format_exception(caught.value, limit=0))


# -------------------------------------------------------------------------------------------------------- several files


def test_files_of_a_directory_are_read_in_the_order_of_their_names(desk: Path) -> None:
    for name, value in (("b", 2), ("a", 1), ("nested/c", 3)):
        path = desk / "table" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [value]}), path)
    (desk / "table" / "_SUCCESS").touch()
    source = open_source(desk / "table", desk / "spool")
    assert read(source, ["x"], 10) == [{"x": 1}, {"x": 2}, {"x": 3}]


def test_file_whose_name_looks_like_a_pattern_is_read_itself(desk: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), desk / "people[1].parquet")
    pq.write_table(pa.table({"x": [2]}), desk / "people1.parquet")
    assert read(open_source("people[1].parquet", desk / "spool"), ["x"], 10) == [{"x": 1}]


@pytest.mark.parametrize(
    "other",
    [pa.table({"y": [1]}), pa.table({"x": ["1"]}), pa.table({"x": [1], "y": [1]})],
    ids=["name", "type", "more"],
)
def test_files_with_different_columns_are_refused(other: pa.Table, desk: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), desk / "a.parquet")
    pq.write_table(other, desk / "b.parquet")
    with refuses(SourceError, "other-columns", file="b.parquet", first_file="a.parquet"):
        open_source("*.parquet", desk / "spool")


def test_files_of_several_types_are_refused(desk: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), desk / "a.parquet")
    (desk / "b.csv").write_text("x\n1\n")
    with refuses(SourceError, "mixed-file-types", file="*"):
        open_source("*", desk / "spool")


@pytest.mark.parametrize("folder", ["year=2024", "deep/year=2024/more"])
def test_columns_in_folder_names_are_refused(folder: str, desk: Path) -> None:
    (desk / "table" / folder).mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), desk / "table" / folder / "part.parquet")
    with refuses(SourceError, "column-in-folder-names", file="table"):
        open_source("table", desk / "spool")


@pytest.mark.parametrize("name", ["nowhere", "nowhere.csv", "*.parquet", "empty", "only-notes"])
def test_name_of_no_table_is_refused(name: str, desk: Path) -> None:
    (desk / "empty").mkdir()
    (desk / "only-notes").mkdir()
    (desk / "only-notes" / "notes.txt").write_text("x\n1\n")
    (desk / "only-notes" / "_people.csv").write_text("x\n1\n")
    with refuses(SourceError, "missing-file", file=name):
        open_source(name, desk / "spool")


def test_empty_name_is_not_the_working_directory(desk: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), desk / "people.parquet")
    with refuses(SourceError, "no-table-name"):
        open_source("", desk / "spool")


# --------------------------------------------------------------------------------------------------------- fingerprints


@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.date32(), pa.bool_()], ids=str)
def test_what_lies_beneath_a_missing_value_does_not_count(kind: pa.DataType) -> None:
    """Drivers of databases leave there what was in memory before; a plan file would not know its table again."""
    valid = pa.py_buffer(bytes([0b00000101]))

    def column(beneath: int) -> pa.Array:
        width = max(kind.bit_width // 8, 1)
        one, other = (number.to_bytes(1, "little") * width for number in (1, beneath))
        values = bytes([beneath & 0b010 | 0b101]) if kind == pa.bool_() else one + other + one
        return pa.Array.from_buffers(kind, 3, [valid, pa.py_buffer(values)], null_count=1)

    prints = {MemorySource(pa.table({"x": column(beneath)})).compute_fingerprint() for beneath in (0, 2, 255)}
    assert len(prints) == 1
    assert MemorySource(pa.table({"x": column(0).fill_null(column(0)[0])})).compute_fingerprint() not in prints


def test_fingerprint_of_a_table_does_not_depend_on_its_chunks() -> None:
    whole = MemorySource(TABLE.combine_chunks()).compute_fingerprint()
    assert MemorySource(pa.Table.from_batches(TABLE.to_batches(max_chunksize=13))).compute_fingerprint() == whole
    assert MemorySource(TABLE.slice(0, 299)).compute_fingerprint() != whole


def test_fingerprint_of_files_is_that_of_their_bytes(desk: Path) -> None:
    pq.write_table(TABLE, desk / "one.parquet")
    pq.write_table(TABLE, desk / "two.parquet")
    one, two = (ParquetSource.open([desk / name]).compute_fingerprint() for name in ("one.parquet", "two.parquet"))
    assert one == two
    pq.write_table(TABLE.slice(1), desk / "two.parquet")
    assert ParquetSource.open([desk / "two.parquet"]).compute_fingerprint() != one


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int8(), pa.large_string()), pa.string()),
        (pa.date64(), pa.date32()),
        (pa.float16(), pa.float32()),
        (pa.int8(), pa.int8()),
        (pa.timestamp("ns", "UTC"), pa.timestamp("ns", "UTC")),
    ],
    ids=str,
)
def test_types_are_reduced_to_plain_ones(kind: pa.DataType, plain: pa.DataType) -> None:
    assert simplify_type(kind) == plain


@pytest.mark.parametrize("made", [_feather, _arrow_stream], ids=["file", "stream"])
def test_arrow_files_know_their_rows(made: Callable[[Path], Path], tmp_path: Path) -> None:
    """By which rows of persons are chosen, and pieces are numbered."""
    for number in range(2):
        (folder := tmp_path / f"{number}").mkdir()
        made(folder)
    source = open_source(str(tmp_path), tmp_path / "spool")
    assert source.rows == 2 * len(TABLE)
    assert [piece.rows for piece in source.iter_pieces(1)] == [len(TABLE)] * 2
