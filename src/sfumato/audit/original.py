"""Checking a release against the table it was made from: private, for the holder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.apply.preparation import Preparation
from sfumato.apply.source import Source, open_source
from sfumato.audit.comparison import Connection
from sfumato.audit.files import verify_folder
from sfumato.audit.laws import read
from sfumato.audit.laws.law import Law
from sfumato.audit.result import Check, Verification
from sfumato.audit.written import Written
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.estimate.release import Release
from sfumato.release.manifest import load_json, read_merged, read_missing
from sfumato.request.schema import Bins, NullPolicy, Role, Schema
from sfumato.request.values import field_type, plain_type
from sfumato.shown.columns import dense

MEMORY_LIMIT = "512MB"
BATCH_ROWS = 1 << 17
TABLES = ("original", "release")
FIRST_ROWS = 1000
CHANCE = 1e-9


def verify(release: str | Path, original: Any = None, *, encoding: str = "utf-8") -> Verification:
    """Check a release; with the original table, also its public columns and the exact posterior of every value."""
    opened = Release.open(release)  # an unpacked .zip lasts as long as this object
    folder = opened.folder
    found = verify_folder(folder)
    is_intact = found.checks[0].passed  # the files come first, and without them there is nothing to compare
    if original is None or not is_intact:
        return found
    law, written = read(load_json(folder))
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        private = Path(name)
        text, missing = text_columns(written), read_missing(written.ours)
        source = open_source(original, private / "spool", text=text, encoding=encoding, missing=missing)
        return Verification((*found.checks, *verify_original(folder, law, written, source, private).checks))


def verify_original(folder: Path, law: Law, written: Written, source: Source, private: Path) -> Verification:
    """Check a release against the table it was made from; what does not fit into memory goes into a private folder."""
    try:
        with duckdb.connect(config={"memory_limit": MEMORY_LIMIT, "temp_directory": str(private)}) as connection:
            _load(connection, folder, written, source)
            checks = (
                _check_public(connection, written),
                _check_order(connection, written),
                law.draws(connection, written),
                law.posteriors(connection, written),
            )
    except (KeyError, TypeError, ValueError, duckdb.Error) as error:
        if isinstance(error, SfumatoError):
            raise
        raise ReleaseFormatError("the release cannot be compared with that table: their columns do not fit.") from error
    return Verification(checks)


def original_schema(written: Written, columns: Sequence[str]) -> Schema:
    """The schema under which the original was published, as far as the manifest tells."""
    ours, sensitive = written.ours, written.names
    published = [*written.public, *sensitive]
    if lacking := sorted(set(published) - set(columns)):
        raise ReleaseFormatError(f"the table is not the original of this release: it has no column {lacking[0]!r}.")
    roles = {name: Role.DROPPED for name in columns if name not in published}
    roles |= dict.fromkeys(sensitive, Role.SENSITIVE)
    bins = {name: Bins(tuple(edges)) for name, edges in ours["bins"].items()}
    compound = sensitive if len(sensitive) > 1 and "domains" not in ours["design"] else ()
    nulls = NullPolicy(ours["nulls"])
    return Schema(roles, bins=bins, nulls=nulls, compound=compound, merged=read_merged(ours))


def text_columns(written: Written) -> list[str]:
    """The columns that a CSV original is read as text for: texts, and what is sensitive, whose type is its domain's."""
    texts = [name for name, kind in written.fields.items() if kind == "string"]
    return [name for name in (*texts, *written.names) if name not in written.ours["bins"]]


def released_types(folder: Path, written: Written, source: pa.Schema) -> dict[str, pa.Array]:
    """What is sensitive as the domain of the release has it, and public columns whose type is another than there."""
    found = {}
    for number, name in enumerate(written.names):
        if name not in written.ours["bins"]:
            found[name] = written.naming.part(number).drop_null().unique()
    published = pq.read_schema(folder / written.shown.FILES[0])
    for name in written.public:
        kind = plain_type(published.field(name).type)
        if name not in written.ours["bins"] and field_type(kind) != field_type(source.field(name).type):
            found[name] = pa.array([], type=kind)
    return {name: domain for name, domain in found.items() if not pa.types.is_null(domain.type)}


def _load(connection: Connection, folder: Path, written: Written, source: Source) -> None:
    """Bring the prepared original into DuckDB, which spills to disk where it is large."""
    schema = original_schema(written, source.schema.names)
    names = (*written.public, *written.names)
    preparation = Preparation(schema, names, released_types(folder, written, source.schema))
    prepared = preparation.types(source.schema)
    types = pa.schema([prepared.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(names, BATCH_ROWS):
            columns = [dense(column) for column in preparation(batch).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=types)

    connection.register("stream", pa.RecordBatchReader.from_batches(types, batches()))
    connection.execute("CREATE TEMP TABLE original AS SELECT * FROM stream")
    for view, file in zip(("release", "beside"), written.shown.FILES, strict=False):
        connection.read_parquet(str(folder / file)).create_view(view)


def _check_public(connection: Connection, written: Written) -> Check:
    columns = ", ".join(written.public_columns)
    rows = connection.execute("SELECT (SELECT COUNT(*) FROM original), (SELECT COUNT(*) FROM release)").fetchall()[0]
    counted = f"SELECT {columns}, COUNT(*) FROM {{}} GROUP BY ALL"
    sql = f"SELECT COUNT(*) FROM ({counted.format('original')} EXCEPT {counted.format('release')})"
    differing = connection.execute(sql).fetchall()[0][0]
    if rows[0] != rows[1] or differing:
        return Check("public columns", False, "the public columns are not those of the original.")
    return Check("public columns", True, f"the public columns of all {rows[0]:,} records are the original's.")


def _check_order(connection: Connection, written: Written) -> Check:
    """The first rows must not be those of the original, unless that could well be chance."""
    columns = ", ".join(written.public_columns)
    first = [connection.execute(f"SELECT {columns} FROM {name} LIMIT {FIRST_ROWS}").fetchall() for name in TABLES]
    sizes = f"SELECT COUNT(*) AS size FROM original GROUP BY {columns}"
    alike = connection.execute(f"SELECT SUM(size * size) / SUM(size) / SUM(size) FROM ({sizes})").fetchall()[0][0]
    if first[0] == first[1] and first[0] and alike ** len(first[0]) < CHANCE:
        return Check("order", False, "the rows stand in the order of the original, which gives values away.")
    return Check("order", True, "the rows do not stand in the order of the original.")
