"""Checking a release against the table it was made from: private, for the holder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.apply.rewrite import Preparation
from sfumato.apply.source import Source, open_source
from sfumato.audit.counted import Connection, public_columns, public_names
from sfumato.audit.draws import check_draws
from sfumato.audit.posteriors import check_posteriors
from sfumato.audit.verify import verify_folder
from sfumato.audit.written import Check, Verification, data_of, resource_of, sensitive_names, tables_of
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.estimate.release import Release
from sfumato.release.manifest import BUCKETS, load_json, read_merged
from sfumato.request.schema import Bins, NullPolicy, Role, Schema
from sfumato.shown.columns import dense

Numbers = npt.NDArray[np.float64]

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
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        private = Path(name)
        source = open_source(original, private / "spool", text=text_columns(load_json(folder)), encoding=encoding)
        return Verification((*found.checks, *verify_original(folder, source, private).checks))


def verify_original(folder: Path, source: Source, private: Path) -> Verification:
    """Check a release against the table it was made from; what does not fit into memory goes into a private folder."""
    written = load_json(folder)
    try:
        with duckdb.connect(config={"memory_limit": MEMORY_LIMIT, "temp_directory": str(private)}) as connection:
            _load(connection, folder, written, source)
            checks = tuple(check(connection, written) for check in _CHECKS)
    except (KeyError, TypeError, ValueError, duckdb.Error) as error:
        if isinstance(error, SfumatoError):
            raise
        raise ReleaseFormatError("the release cannot be compared with that table: their columns do not fit.") from error
    return Verification(checks)


def original_schema(written: Mapping[str, Any], columns: Sequence[str]) -> Schema:
    """The schema under which the original was published, as far as the manifest tells."""
    ours = written["sfumato"]
    sensitive = sensitive_names(written)
    published = [*public_names(written), *sensitive]
    if lacking := sorted(set(published) - set(columns)):
        raise ReleaseFormatError(f"the table is not the original of this release: it has no column {lacking[0]!r}.")
    roles = {name: Role.DROPPED for name in columns if name not in published}
    roles |= dict.fromkeys(sensitive, Role.SENSITIVE)
    bins = {name: Bins(tuple(edges)) for name, edges in ours["bins"].items()}
    compound = sensitive if len(sensitive) > 1 and "domains" not in ours["design"] else ()
    nulls = NullPolicy(ours["nulls"])
    return Schema(roles, bins=bins, nulls=nulls, compound=compound, merged=read_merged(ours))


def text_columns(written: Mapping[str, Any]) -> list[str]:
    """The columns that a CSV original must be read as text for."""
    ours, names = written["sfumato"], sensitive_names(written)
    types = {field["name"]: field["type"] for field in resource_of(written, data_of(written))["schema"]["fields"]}
    types |= dict(zip(names, ours.get("types", [types.get(name) for name in names]), strict=True))
    return [name for name, kind in types.items() if kind == "string" and name not in ours["bins"]]


def _load(connection: Connection, folder: Path, written: Mapping[str, Any], source: Source) -> None:
    """Bring the prepared original into DuckDB, which spills to disk where it is large."""
    schema = original_schema(written, source.schema.names)
    names = (*public_names(written), *sensitive_names(written))
    preparation = Preparation(schema, names)
    prepared = preparation.types(source.schema)
    types = pa.schema([prepared.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(names, BATCH_ROWS):
            columns = [dense(column) for column in preparation(batch).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=types)

    connection.register("stream", pa.RecordBatchReader.from_batches(types, batches()))
    connection.execute("CREATE TEMP TABLE original AS SELECT * FROM stream")
    connection.read_parquet(str(folder / data_of(written))).create_view("release")
    if BUCKETS in tables_of(written):
        connection.read_parquet(str(folder / BUCKETS)).create_view("buckets")


def _check_public(connection: Connection, written: Mapping[str, Any]) -> Check:
    columns = ", ".join(public_columns(written))
    rows = connection.execute("SELECT (SELECT COUNT(*) FROM original), (SELECT COUNT(*) FROM release)").fetchall()[0]
    counted = f"SELECT {columns}, COUNT(*) FROM {{}} GROUP BY ALL"
    sql = f"SELECT COUNT(*) FROM ({counted.format('original')} EXCEPT {counted.format('release')})"
    differing = connection.execute(sql).fetchall()[0][0]
    if rows[0] != rows[1] or differing:
        return Check("public columns", False, "the public columns are not those of the original.")
    return Check("public columns", True, f"the public columns of all {rows[0]:,} records are the original's.")


def _check_order(connection: Connection, written: Mapping[str, Any]) -> Check:
    """The first rows must not be those of the original, unless that could well be chance."""
    columns = ", ".join(public_columns(written))
    first = [connection.execute(f"SELECT {columns} FROM {name} LIMIT {FIRST_ROWS}").fetchall() for name in TABLES]
    sizes = f"SELECT COUNT(*) AS size FROM original GROUP BY {columns}"
    alike = connection.execute(f"SELECT SUM(size * size) / SUM(size) / SUM(size) FROM ({sizes})").fetchall()[0][0]
    if first[0] == first[1] and first[0] and alike ** len(first[0]) < CHANCE:
        return Check("order", False, "the rows stand in the order of the original, which gives values away.")
    return Check("order", True, "the rows do not stand in the order of the original.")


_CHECKS = (_check_public, _check_order, check_draws, check_posteriors)
