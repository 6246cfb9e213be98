"""Checking a release against the table it was made from: private, for the holder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.apply import Preparation
from sfumato.audit.promise import published_law, worst_posterior
from sfumato.audit.verify import Check, Verification, resource_of, sensitive_domain, verify_folder
from sfumato.columns import dense
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.manifest import DATA, load_json
from sfumato.release import Release
from sfumato.schema import Bins, NullPolicy, Role, Schema
from sfumato.source import Source, open_source
from sfumato.spec import exact
from sfumato.values import domain_array

MEMORY_LIMIT = "512MB"
BATCH_ROWS = 1 << 17


def verify(release: str | Path, original: Any = None, *, encoding: str = "utf-8") -> Verification:
    """Check a release; with the original table, also its public columns and the exact posterior of every value."""
    opened = Release.open(release)  # an unpacked .zip lasts as long as this object
    folder = opened.folder
    found = verify_folder(folder)
    is_intact = found.checks[0].passed  # the files come first, and without them there is nothing to compare
    if original is None or not is_intact:
        return found
    with tempfile.TemporaryDirectory(prefix="sfumato-") as spool:
        source = open_source(original, Path(spool) / "spool", text=text_columns(load_json(folder)), encoding=encoding)
        return Verification((*found.checks, *verify_original(folder, source).checks))


def verify_original(folder: Path, source: Source) -> Verification:
    """Check a release against the table it was made from: private, for the holder."""
    written = load_json(folder)
    try:
        with duckdb.connect(config={"memory_limit": MEMORY_LIMIT}) as connection:
            _load(connection, folder, written, source)
            checks = (_check_public(connection, written), _check_posteriors(connection, written))
    except (KeyError, TypeError, ValueError, duckdb.Error) as error:
        if isinstance(error, SfumatoError):
            raise
        raise ReleaseFormatError("the release cannot be compared with that table: their columns do not fit.") from error
    return Verification(checks)


def original_schema(written: Mapping[str, Any], columns: Sequence[str]) -> Schema:
    """The schema under which the original was published, as far as the manifest tells."""
    ours = written["sfumato"]
    published = [field["name"] for field in resource_of(written, DATA)["schema"]["fields"]]
    if lacking := sorted(set(published) - set(columns)):
        raise ReleaseFormatError(f"the table is not the original of this release: it has no column {lacking[0]!r}.")
    roles = {name: Role.DROPPED for name in columns if name not in published} | {ours["sensitive"]: Role.SENSITIVE}
    bins = {name: Bins(tuple(edges)) for name, edges in ours["bins"].items()}
    return Schema(roles, bins=bins, nulls=NullPolicy(ours["nulls"]))


def text_columns(written: Mapping[str, Any]) -> list[str]:
    """The columns that a CSV original must be read as text for."""
    fields = resource_of(written, DATA)["schema"]["fields"]
    return [
        field["name"]
        for field in fields
        if field["type"] == "string" and field["name"] not in written["sfumato"]["bins"]
    ]


def _load(connection: duckdb.DuckDBPyConnection, folder: Path, written: Mapping[str, Any], source: Source) -> None:
    """Bring the prepared original into DuckDB, which spills to disk where it is large."""
    schema = original_schema(written, source.schema.names)
    names = [field["name"] for field in resource_of(written, DATA)["schema"]["fields"]]
    preparation = Preparation(schema, tuple(names))
    types = preparation.types(source.schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.batches(names, BATCH_ROWS):
            columns = [dense(column) for column in preparation(batch).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=types)

    connection.register("stream", pa.RecordBatchReader.from_batches(types, batches()))
    connection.execute("CREATE TEMP TABLE original AS SELECT * FROM stream")
    connection.read_parquet(str(folder / DATA)).create_view("release")


def _check_public(connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any]) -> Check:
    sensitive = written["sfumato"]["sensitive"]
    fields = resource_of(written, DATA)["schema"]["fields"]
    columns = ", ".join(_quoted(field["name"]) for field in fields if field["name"] != sensitive)
    rows = connection.execute("SELECT (SELECT COUNT(*) FROM original), (SELECT COUNT(*) FROM release)").fetchall()[0]
    counted = f"SELECT {columns}, COUNT(*) FROM {{}} GROUP BY ALL"
    sql = f"SELECT COUNT(*) FROM ({counted.format('original')} EXCEPT {counted.format('release')})"
    differing = connection.execute(sql).fetchall()[0][0]
    if rows[0] != rows[1] or differing:
        return Check("public columns", False, "the public columns are not those of the original.")
    return Check("public columns", True, f"the public columns of all {rows[0]:,} records are the original's.")


def _check_posteriors(connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any]) -> Check:
    column, domain = sensitive_domain(written)
    design = written["sfumato"]["design"]
    prior, posterior = exact(design["prior"]), exact(design["posterior"])
    connection.register("domain", pa.table({"place": pa.array(range(len(domain))), "value": domain_array(domain)}))
    counted = f"SELECT {_quoted(column)} AS symbol, COUNT(*) AS rows FROM original GROUP BY ALL"
    joined = f"({counted}) LEFT JOIN domain ON symbol IS NOT DISTINCT FROM value"
    counts = [0] * len(domain)
    for place, rows in connection.execute(f"SELECT place, rows FROM {joined}").fetchall():
        if place is None:
            return Check("posteriors", False, f"the original holds a {column!r} outside the domain of the release.")
        counts[place] = rows
    worst = worst_posterior(counts, prior, published_law(written["sfumato"]))
    covered = sum(count * prior.denominator <= prior.numerator * sum(counts) for count in counts)
    words = f"of {covered} values with a share within {prior}, none can be believed with more than {worst}"
    return Check("posteriors", worst <= posterior, f"{words} (about {float(worst):.4f}); promised: {posterior}.")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
