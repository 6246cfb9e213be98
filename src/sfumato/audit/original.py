"""Checking a release against the table it was made from: private, for the holder."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.apply import Preparation
from sfumato.audit.promise import Law, published_law, worst_posterior
from sfumato.audit.verify import Check, Verification, resource_of, sensitive_domain, verify_folder
from sfumato.columns import dense
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.manifest import DATA, load_json
from sfumato.release import Release
from sfumato.schema import Bins, NullPolicy, Role, Schema
from sfumato.source import Source, open_source
from sfumato.spec import exact
from sfumato.sql import quoted
from sfumato.values import domain_array

MEMORY_LIMIT = "512MB"
BATCH_ROWS = 1 << 17
TABLES = ("original", "release")
FIRST_ROWS = 1000
CHANCE = 1e-9
MOST_GROUPS = 100
SMALLEST_VARIANCE = 100
MOST_DEVIATION = 8
"""With a variance of at least 100, Bernstein's inequality puts a deviation of 8 below 1e-10, and one in 10,000 counts
below 1e-6: the chance of a false alarm."""


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
    columns = ", ".join(_public(written))
    rows = connection.execute("SELECT (SELECT COUNT(*) FROM original), (SELECT COUNT(*) FROM release)").fetchall()[0]
    counted = f"SELECT {columns}, COUNT(*) FROM {{}} GROUP BY ALL"
    sql = f"SELECT COUNT(*) FROM ({counted.format('original')} EXCEPT {counted.format('release')})"
    differing = connection.execute(sql).fetchall()[0][0]
    if rows[0] != rows[1] or differing:
        return Check("public columns", False, "the public columns are not those of the original.")
    return Check("public columns", True, f"the public columns of all {rows[0]:,} records are the original's.")


def _check_order(connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any]) -> Check:
    """The first rows must not be those of the original, unless that could well be chance."""
    columns = ", ".join(_public(written))
    first = [connection.execute(f"SELECT {columns} FROM {name} LIMIT {FIRST_ROWS}").fetchall() for name in TABLES]
    sizes = f"SELECT COUNT(*) AS size FROM original GROUP BY {columns}"
    alike = connection.execute(f"SELECT SUM(size * size) / SUM(size) / SUM(size) FROM ({sizes})").fetchall()[0][0]
    if first[0] == first[1] and first[0] and alike ** len(first[0]) < CHANCE:
        return Check("order", False, "the rows stand in the order of the original, which gives values away.")
    return Check("order", True, "the rows do not stand in the order of the original.")


def _check_draws(connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any]) -> Check:
    """The published values must be distributed as the design says, in the whole table and by each public column."""
    law = published_law(written["sfumato"])
    nobody = dict.fromkeys(range(len(written["sfumato"]["design"]["domain"])), 0)
    worst = 0.0
    for group in ("NULL", *_coarse(connection, written)):
        truth, shown = (_counted(connection, written, name, group) for name in TABLES)
        if any(None in counts for counts in truth.values()):
            column = written["sfumato"]["sensitive"]
            return Check("draws", False, f"the original holds a {column!r} outside the domain of the release.")
        for key, counts in truth.items():
            whole = nobody | counts  # a value that nobody has is shown too
            worst = max(worst, largest_deviation(whole, shown.get(key, {}), law))
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate by {worst:.1f} standard deviations from what the design says."
        return Check("draws", False, detail)
    return Check("draws", True, f"the published values are distributed as the design says (within {worst:.1f} sd).")


def _check_posteriors(connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any]) -> Check:
    design = written["sfumato"]["design"]
    prior, posterior = exact(design["prior"]), exact(design["posterior"])
    found = _counted(connection, written, "original", "NULL").get(None, {})
    if None in found:
        column = written["sfumato"]["sensitive"]
        return Check("posteriors", False, f"the original holds a {column!r} outside the domain of the release.")
    counts = [found.get(place, 0) for place in range(len(design["domain"]))]
    worst = worst_posterior(counts, prior, published_law(written["sfumato"]))
    covered = sum(count * prior.denominator <= prior.numerator * sum(counts) for count in counts)
    if not covered:
        return Check("posteriors", True, f"no value has a share within {prior}, so only the odds are bounded.")
    words = f"of {covered} values with a share within {prior}, none can be believed with more than {worst}"
    return Check("posteriors", worst <= posterior, f"{words} (about {float(worst):.4f}); promised: {posterior}.")


_CHECKS = (_check_public, _check_order, _check_draws, _check_posteriors)


def largest_deviation(truth: Mapping[Any, int], shown: Mapping[Any, int], law: Law) -> float:
    """By how many standard deviations a published count is off at most, where the normal law is good enough to tell.

    Of n records with a value and R - n without, each shows it by a coin of its own: binomial mean and variance.
    """
    rows, same, other = sum(truth.values()), float(law.same), float(law.other)
    worst = 0.0
    for place in {*truth, *shown}:
        held = truth.get(place, 0)
        variance = held * same * (1 - same) + (rows - held) * other * (1 - other)
        if variance >= SMALLEST_VARIANCE:
            expected = held * same + (rows - held) * other
            worst = max(worst, abs(shown.get(place, 0) - expected) / math.sqrt(variance))
    return worst


def _counted(
    connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any], table: str, group: str
) -> dict[Any, dict[int | None, int]]:
    """For each value of a grouping, how many records hold each place of the domain; None is outside of it."""
    column, domain = sensitive_domain(written)
    connection.register("domain", pa.table({"place": pa.array(range(len(domain))), "value": domain_array(domain)}))
    counted = f"SELECT {group} AS part, {quoted(column)} AS symbol, COUNT(*) AS rows FROM {table} GROUP BY ALL"
    joined = f"({counted}) LEFT JOIN domain ON symbol IS NOT DISTINCT FROM value"
    found: dict[Any, dict[int | None, int]] = {}
    for part, place, rows in connection.execute(f"SELECT part, place, rows FROM {joined}").fetchall():
        counts = found.setdefault(part, {})
        counts[place] = counts.get(place, 0) + rows
    return found


def _coarse(connection: duckdb.DuckDBPyConnection, written: Mapping[str, Any]) -> list[str]:
    """The public columns of few values."""
    columns = _public(written)
    counts = ", ".join(f"APPROX_COUNT_DISTINCT({column})" for column in columns)
    sizes = connection.execute(f"SELECT {counts} FROM original").fetchall()[0]
    return [column for column, size in zip(columns, sizes, strict=True) if size <= MOST_GROUPS]


def _public(written: Mapping[str, Any]) -> list[str]:
    fields = resource_of(written, DATA)["schema"]["fields"]
    return [quoted(field["name"]) for field in fields if field["name"] != written["sfumato"]["sensitive"]]
