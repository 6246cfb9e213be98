"""Looking at a table as somebody does who wants to know more than it should say: a file, a folder, or a release."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.object_store import Address
from sfumato._engines.engine import Progress
from sfumato._engines.local_engine import no_progress
from sfumato._profile.equivalence_classes import alike
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import AS_USUAL, ReadOptions
from sfumato._release.manifest import WEIGHTS, Manifest
from sfumato._risk.coded_table import ARCHIVE, CodedValues, can_be_coded, coded_columns, opened_release
from sfumato._risk.lint.betting_tests import FALSE_ALARMS, chance, order_capital
from sfumato._risk.lint.column_findings import column_findings, is_named_for_persons
from sfumato._risk.lint.file_findings import csv_findings, parquet_findings
from sfumato._risk.lint.findings import Finding, Inspection
from sfumato._risk.lint.paired_tables import pair_findings
from sfumato._risk.privacy_models.table_groups import groups_of
from sfumato.errors import SchemaError, SourceError

CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class _Part:
    """A table that is looked at, and what is known of it."""

    table: Any
    name: str
    is_about_people: bool = True
    """Whether each row is a person's; else only the file itself is looked at, and what it goes with."""
    public: Collection[str] | None = None
    """The columns that were not made by a mechanism; None where nobody knows."""
    domains: Mapping[str, pa.Array] = field(default_factory=dict)
    """The texts that everybody knows a column can hold."""


def lint(table: Any, *, read: ReadOptions = AS_USUAL, progress: Progress = no_progress) -> Inspection:
    """Look for what a table gives away beside its values: a file, a folder of tables, a release, or a frame.

    Rows are taken to stand in an order that tells nothing only if it could be a random one; a table in random order has
    a finding about its order with a chance of at most one in a million.
    """
    if isinstance(table, str | Path) and (address := Address.of(table, SourceError)) is not None:
        raise SourceError(f"'{address}' is in a store, and lint looks at how files were written; copy it here first.")
    with opened_release(table) as found, tempfile.TemporaryDirectory(prefix="sfumato-") as spool:
        if found is not None:
            folder, manifest = found
            parts = [
                _Part(folder / file, file, file in manifest.records, manifest.public, _domains(manifest))
                for file in manifest.tables
                if Path(table).is_dir() or Path(table).suffix.lower() == ARCHIVE or Path(table).name == file
            ]
        else:
            parts = _parts(table)
        found_in: dict[str, list[Finding]] = {}
        tables: dict[str, dict[str, CodedValues]] = {}
        rows = {}
        for number, part in enumerate(parts):
            columns, findings, rows[part.name] = _looked_at(part, Path(spool) / str(number), read, progress)
            found_in[part.name] = findings
            if part.name != WEIGHTS:
                tables[part.name] = columns
        joined = list(pair_findings(tables))
    found_here = [_of_groups(each, tables) for part in found_in.values() for each in part]
    return Inspection(rows, (*found_here, *joined))


def _of_groups(found: Finding, tables: Mapping[str, Mapping[str, CodedValues]]) -> Finding:
    """The same; a note where what looks like an identifier may number groups, which another table describes."""
    name = found.column or ""
    if found.code != "identifier" or found.numbers["alone"] or is_named_for_persons(name):
        return found
    others = [file for file, columns in tables.items() if file != found.file and name in columns]
    if not others or not pa.types.is_integer(tables[str(found.file)][name].values.type):
        return found
    return replace(
        found,
        code="group-number",
        sentence=f"column {name!r} numbers groups of few records, of which {others[0]!r} tells more.",
        remedy="leave it out if it numbers persons.",
    )


def _domains(manifest: Manifest) -> dict[str, pa.Array]:
    """The texts of the published domain, by sensitive column: values of a compound repeat."""
    naming = manifest.naming
    found = {name: naming.part(number) for number, name in enumerate(naming.sensitive)}
    return {name: each.drop_null().unique() for name, each in found.items() if pa.types.is_string(each.type)}


def _parts(table: Any) -> list[_Part]:
    if not isinstance(table, str | Path):
        return [_Part(table, "table")]
    if not Path(table).is_dir():
        several = [] if Path(table).exists() else sorted(glob.glob(str(table)))
        return [_Part(each, each) for each in several] or [_Part(table, Path(table).name)]
    files = sorted(each for each in Path(table).iterdir() if each.suffix.lower() in (*CSV[:2], *PARQUET))
    if not files:
        raise SourceError(f"{str(table)!r} holds no table: there is no CSV or Parquet file directly in it.")
    return [_Part(each, each.name) for each in files]


def _looked_at(
    part: _Part, spool: Path, read: ReadOptions, progress: Progress
) -> tuple[dict[str, CodedValues], list[Finding], int]:
    """The columns of a table that can be looked at, what was found, and how many rows it has."""
    findings: list[Finding] = []
    path = Path(part.table) if isinstance(part.table, str | Path) and Path(part.table).is_file() else None
    if path is not None and path.suffix.lower() in CSV:
        findings, encoding = csv_findings(path, read.encoding)
        read = replace(read, encoding=encoding)
    source = open_source(part.table, spool, read=read)
    names = source.schema.names
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"the table has two columns named {repeated!r}; rename one of them.")
    known = [name for name in names if can_be_coded(source.schema.field(name).type)]
    columns = coded_columns(source, known, progress)
    if path is not None and path.suffix.lower() in PARQUET:
        findings += parquet_findings(path, columns, part.domains)
    if unknown := [name for name in names if name not in known]:
        named = ", ".join(map(repr, unknown[:5]))
        findings.append(
            Finding(
                "not-looked-at",
                f"the types of some columns are none that people are described by; they were not looked at: {named}.",
                "publish texts, numbers or dates.",
                numbers={"columns": len(unknown)},
            )
        )
    rows = len(next(iter(columns.values())).codes) if columns else int(source.rows or 0)
    if part.is_about_people and rows:
        findings += _of_people(columns, rows, part.public, progress)
    return columns, [replace(each, file=part.name) for each in findings], rows


def _of_people(
    columns: Mapping[str, CodedValues], rows: int, public: Collection[str] | None, progress: Progress
) -> Iterator[Finding]:
    for number, column in enumerate(columns.values()):
        if public is None or column.name in public:
            yield from column_findings(column, rows)
        capital = order_capital(column.codes, column.size)
        if (bound := chance(capital, len(columns))) < FALSE_ALARMS:
            yield _order_finding(column, bound)
        progress("looking", rows * (number + 1) // len(columns), rows)
    yield from _alone([column for column in columns.values() if public is None or column.name in public], rows)


def _order_finding(column: CodedValues, bound: float) -> Finding:
    steps = np.diff(column.codes.astype(np.int64))
    equal, pairs = int((steps == 0).sum()), len(steps)
    expected = float((column.counts * (column.counts - 1) / max(len(column.codes), 1)).sum())
    ranks = (np.cumsum(column.counts) - column.counts / 2).take(column.codes)
    correlation = float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])
    how = "are sorted by" if (steps >= 0).all() or (steps <= 0).all() else "stand in an order that goes with"
    return Finding(
        "order-tied",
        f"rows {how} {column.name!r}: neighbours agree in it {equal:,} times of {pairs:,}, in a random order about "
        f"{expected:,.0f} times, and its ranks and the row numbers correlate by {correlation:.2f}; by chance so much "
        f"order comes less than once in {1 / FALSE_ALARMS:,.0f} tables.",
        "shuffle the rows, by a generator that nobody can repeat.",
        column.name,
        numbers={
            "equal": equal,
            "expected": expected,
            "neighbours": pairs,
            "correlation": correlation,
            "chance": bound,
        },
    )


def _alone(columns: Sequence[CodedValues], rows: int) -> Iterator[Finding]:
    if not columns:
        return
    _, sizes = groups_of(columns, rows)
    shares = alike(sizes, rows)
    if shares.alone:
        yield Finding(
            "records-alone",
            f"{shares.alone:.1%} of the records are alone with their columns, {shares.below_5:.1%} among fewer than 5: "
            "whoever knows these columns of a person finds the record.",
            "publish fewer or coarser columns (sfumato measure has more).",
            numbers={"alone": shares.alone, "below_5": shares.below_5},
        )
