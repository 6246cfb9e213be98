"""Inspects a file, folder or release for unintended disclosure, as an attacker would."""

from __future__ import annotations

import glob
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Codes, Counts, Places
from sfumato._core.cell_values import simplify_type
from sfumato._core.object_store import Address
from sfumato._engines.engine import Progress
from sfumato._engines.local_engine import ignore_progress
from sfumato._profile.equivalence_classes import compute_class_size_shares
from sfumato._profile.sensitive_column_signs import is_named_for_persons
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._records.crowd_lines import CrowdTable
from sfumato._release.manifest import WEIGHTS, Manifest
from sfumato._risk.inspected_table import (
    ARCHIVE,
    CodedValues,
    can_be_coded,
    open_containing_release,
    read_coded_columns,
)
from sfumato._risk.lint.betting_tests import (
    BLOCK_ROWS,
    FALSE_ALARMS,
    bin_codes,
    bound_chance,
    compute_order_capital,
    compute_pairing_capital,
)
from sfumato._risk.lint.column_findings import inspect_column
from sfumato._risk.lint.file_findings import inspect_csv, inspect_parquet
from sfumato._risk.lint.findings import Finding, LintReport
from sfumato._risk.privacy_models.table_groups import group_records
from sfumato.errors import SchemaError, SourceError

# Finds two tables whose rows correspond although no column shows this.

MOST_ROWS = 20_000
"""The number of compared rows. It is enough to learn which values correspond."""

CodedTable = Mapping[str, CodedValues]


def find_paired_tables(tables: Mapping[str, CodedTable]) -> Iterator[Finding]:
    """Finds tables of one folder whose rows correspond in their order."""
    pairs = [
        (one, other, aligned)
        for one, other in combinations(tables, 2)
        if (aligned := _align_rows(tables[one], tables[other])) is not None
    ]
    tests = sum(len(tables[one]) * len(tables[other]) for one, other, _ in pairs)
    for one, other, (first, second, blocks, key) in pairs:
        best_capital, best_columns = 0.0, ("", "")
        for own_column in (other_column for name, other_column in tables[one].items() if name not in key):
            bins = bin_codes(own_column.codes, own_column.size)[first]
            for paired_column in (other_column for name, other_column in tables[other].items() if name not in key):
                capital = compute_pairing_capital(
                    bins, bin_codes(paired_column.codes, paired_column.size)[second], blocks
                )
                if capital > best_capital:
                    best_capital, best_columns = capital, (own_column.name, paired_column.name)
        if tests and bound_chance(best_capital, tests) < FALSE_ALARMS:
            within_text = f", within each {', '.join(map(repr, key))}" if key else ""
            yield Finding(
                "tables-joined",
                f"the rows of {one!r} and {other!r} correspond in their order{within_text}: {best_columns[0]!r} of "
                f"the first table predicts {best_columns[1]!r} of the second. This happens by chance in less than "
                f"one of {1 / FALSE_ALARMS:,.0f} folders. Side by side, the two tables restore the values of each "
                "record.",
                "shuffle the rows of each table separately, and also within groups.",
                best_columns[1],
                other,
                {"chance": bound_chance(best_capital, tests), "rows": len(blocks)},
            )


def _align_rows(one: CodedTable, other: CodedTable) -> tuple[Places, Places, Codes, tuple[str, ...]] | None:
    """Aligns the rows of two tables in small blocks, by their common columns, if there are any.

    None if they cannot be aligned, or if every block is a single row.
    """
    if not one or not other or _count_rows(one) != _count_rows(other):
        return None
    key = tuple(name for name in one if name in other and one[name].values.type == other[name].values.type)
    own_keys, other_keys = (np.zeros(_count_rows(one), dtype=np.int64) for _ in range(2))
    for name in key:
        all_values = pc.unique(pa.concat_arrays([one[name].values, other[name].values]))
        size = len(all_values) + 1
        all_keys = np.concatenate(
            [
                own_keys * size + _encode_values(one[name], all_values),
                other_keys * size + _encode_values(other[name], all_values),
            ]
        )
        own_keys, other_keys = np.split(np.unique(all_keys, return_inverse=True)[1], 2)
    first, second = np.argsort(own_keys, kind="stable"), np.argsort(other_keys, kind="stable")
    if not np.array_equal(own_keys[first], other_keys[second]):
        return None
    first, second = first[:MOST_ROWS], second[:MOST_ROWS]
    groups = own_keys[first]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    block_positions = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    blocks = np.cumsum(block_positions % BLOCK_ROWS == 0) - 1
    return None if len(blocks) == 0 or blocks[-1] == len(blocks) - 1 else (first, second, blocks, key)


def _count_rows(table: CodedTable) -> int:
    return len(next(iter(table.values())).codes)


def _encode_values(column: CodedValues, all_values: pa.Array) -> Codes:
    places = pc.index_in(column.values, all_values).to_numpy(zero_copy_only=False)
    return np.append(places, len(all_values)).take(column.codes)


# ---------------------------------------------------------------------------------------------------------------------

CSV = (".csv", ".tsv", ".txt")
PARQUET = (".parquet", ".pq")


@dataclass(frozen=True)
class _LintedTable:
    """A table to inspect, with known facts about it."""

    table: AnyTable
    name: str
    is_about_people: bool = True
    """Whether each row belongs to a person.

    If rows do not belong to people, only the file and its correspondence with other tables are inspected.
    """
    public_columns: Collection[str] | None = None
    """The columns that are not the output of a mechanism; None if unknown."""
    domains: Mapping[str, pa.Array] = field(default_factory=dict)
    """The publicly known possible values of columns."""
    crowds: CrowdTable | None = None
    """The groups of people with equal public columns who are in another table."""

    @property
    def other_classes(self) -> Counts:
        """The sizes of these groups."""
        return np.zeros(0, dtype=np.int64) if self.crowds is None else self.crowds.people

    def add_crowds(self, column: CodedValues) -> CodedValues:
        """The values of all people in a public column, also of those in another table."""
        if self.crowds is None or column.name not in self.crowds.public.column_names:
            return column
        others = self.crowds.public.column(column.name).combine_chunks().cast(column.values.type)
        own = column.values.take(pa.array(column.codes, mask=column.codes == len(column.values)))
        everybody = pa.concat_arrays(
            [own, others.take(pa.array(np.repeat(np.arange(len(others)), self.crowds.people)))]
        )
        values = everybody.unique().drop_null()
        values = values.take(pc.sort_indices(values))
        codes = pc.index_in(everybody, values).fill_null(len(values)).to_numpy(zero_copy_only=False)
        return CodedValues(column.name, codes, values)


def lint(
    table: AnyTable, *, read: ReadOptions = DEFAULT_READ_OPTIONS, progress: Progress = ignore_progress
) -> LintReport:
    """Inspects a file, a folder of tables, a release or a data frame for unintended disclosure.

    A table in random order has a finding about its order with probability at most one in a million.
    """
    if isinstance(table, str | Path) and (address := Address.of(table, SourceError)) is not None:
        raise SourceError(
            f"'{address}' is in a store, but lint inspects local files; copy the table to this machine first.",
            code="table-in-store",
        )
    with open_containing_release(table) as release, tempfile.TemporaryDirectory(prefix="sfumato-") as spool:
        if release is not None:
            folder, manifest = release
            crowds = manifest.encoding.read_crowds(manifest.naming, folder)
            domains = {**_list_crowd_values(crowds), **_list_domains(manifest)}
            parts = [
                _LintedTable(
                    folder / file,
                    file,
                    file in manifest.data_files,
                    manifest.public_columns,
                    domains,
                    crowds,
                )
                for file in manifest.tables
                if Path(table).is_dir() or Path(table).suffix.lower() == ARCHIVE or Path(table).name == file
            ]
        else:
            parts = _list_parts(table)
        findings_by_table: dict[str, list[Finding]] = {}
        tables: dict[str, dict[str, CodedValues]] = {}
        rows = {}
        for number, part in enumerate(parts):
            columns, findings, rows[part.name] = _inspect_part(part, Path(spool) / str(number), read, progress)
            findings_by_table[part.name] = findings
            if part.name != WEIGHTS:
                tables[part.name] = columns
        pair_findings = list(find_paired_tables(tables))
    table_findings = [_mark_group_number(finding, tables) for part in findings_by_table.values() for finding in part]
    return LintReport(rows, (*table_findings, *pair_findings))


def _mark_group_number(finding: Finding, tables: Mapping[str, Mapping[str, CodedValues]]) -> Finding:
    """Turns a finding about an identifier into a note if the column may number groups that another table describes."""
    name = finding.column or ""
    if finding.code != "identifier" or finding.numbers["alone"] or is_named_for_persons(name):
        return finding
    others = [file for file, columns in tables.items() if file != finding.file and name in columns]
    if not others or not pa.types.is_integer(tables[str(finding.file)][name].values.type):
        return finding
    return replace(
        finding,
        code="group-number",
        sentence=f"column {name!r} gives the numbers of small groups, and {others[0]!r} describes these groups.",
        remedy="drop this column if its numbers stand for people.",
    )


def _list_crowd_values(crowds: CrowdTable | None) -> dict[str, pa.Array]:
    """The values that occur in the public text columns of people in counts, so that other tables may list them too."""
    columns = {} if crowds is None else {name: crowds.public.column(name) for name in crowds.public.column_names}
    return {
        name: pc.unique(column.combine_chunks().cast(pa.string())).drop_null()
        for name, column in columns.items()
        if pa.types.is_string(simplify_type(column.type))
    }


def _list_domains(manifest: Manifest) -> dict[str, pa.Array]:
    """The published domain by sensitive column, as text. Values of a compound may repeat."""
    naming = manifest.naming
    domain_values = {name: naming.make_part_domain(number) for number, name in enumerate(naming.sensitive)}
    return {
        name: column_values.drop_null().unique()
        for name, column_values in domain_values.items()
        if pa.types.is_string(column_values.type)
    }


def _list_parts(table: AnyTable) -> list[_LintedTable]:
    if not isinstance(table, str | Path):
        return [_LintedTable(table, "table")]
    if not Path(table).is_dir():
        several = [] if Path(table).exists() else sorted(glob.glob(str(table)))
        return [_LintedTable(path, path) for path in several] or [_LintedTable(table, Path(table).name)]
    files = sorted(path for path in Path(table).iterdir() if path.suffix.lower() in (*CSV[:2], *PARQUET))
    if not files:
        raise SourceError(
            f"{str(table)!r} contains no table, because it has no CSV or Parquet file at its top level.",
            code="no-table-in-directory",
            fields={"file": str(table)},
        )
    return [_LintedTable(path, path.name) for path in files]


def _inspect_part(
    part: _LintedTable, spool: Path, read: ReadOptions, progress: Progress
) -> tuple[dict[str, CodedValues], list[Finding], int]:
    """Inspects a table: its readable columns, the findings, and the number of rows."""
    findings: list[Finding] = []
    path = Path(part.table) if isinstance(part.table, str | Path) and Path(part.table).is_file() else None
    if path is not None and path.suffix.lower() in CSV:
        findings, encoding = inspect_csv(path, read.encoding)
        read = replace(read, encoding=encoding)
    source = open_source(part.table, spool, read=read)
    names = source.schema.names
    if repeated_name := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(
            f"the table has two columns named {repeated_name!r}; rename one of them.",
            code="repeated-column",
            fields={"column": repeated_name},
        )
    countable_names = [name for name in names if can_be_coded(source.schema.field(name).type)]
    columns = read_coded_columns(source, countable_names, progress)
    if path is not None and path.suffix.lower() in PARQUET:
        findings += inspect_parquet(path, columns, part.domains)
    if unread_names := [name for name in names if name not in countable_names]:
        column_text = ", ".join(map(repr, unread_names[:5]))
        findings.append(
            Finding(
                "not-looked-at",
                (f"these columns were not inspected, because lint does not read their types: {column_text}."),
                "publish strings, numbers or dates.",
                numbers={"columns": len(unread_names)},
            )
        )
    rows = len(next(iter(columns.values())).codes) if columns else int(source.rows or 0)
    if part.is_about_people and rows:
        findings += _inspect_people(columns, rows, part, progress)
    return columns, [replace(finding, file=part.name) for finding in findings], rows


def _inspect_people(
    columns: Mapping[str, CodedValues], rows: int, part: _LintedTable, progress: Progress
) -> Iterator[Finding]:
    public = part.public_columns
    for number, column in enumerate(columns.values()):
        if public is None or column.name in public:
            yield from inspect_column(part.add_crowds(column), rows + int(part.other_classes.sum()))
        capital = compute_order_capital(column.codes, column.size)
        if (bound := bound_chance(capital, len(columns))) < FALSE_ALARMS:
            yield _make_order_finding(column, bound)
        progress("looking", rows * (number + 1) // len(columns), rows)
    yield from _find_unique_records(
        [column for column in columns.values() if public is None or column.name in public], rows, part.other_classes
    )


def _make_order_finding(column: CodedValues, bound: float) -> Finding:
    steps = np.diff(column.codes.astype(np.int64))
    equal, pairs = int((steps == 0).sum()), len(steps)
    expected = float((column.counts * (column.counts - 1) / max(len(column.codes), 1)).sum())
    ranks = (np.cumsum(column.counts) - column.counts / 2).take(column.codes)
    correlation = float(np.corrcoef(ranks, np.arange(len(ranks)))[0, 1])
    how = "are sorted by" if (steps >= 0).all() or (steps <= 0).all() else "are in an order that correlates with"
    return Finding(
        "order-tied",
        f"the rows {how} {column.name!r}: {equal:,} of {pairs:,} pairs of neighbours are equal, but in a random "
        f"order about {expected:,.0f} would be. The correlation of ranks and row numbers is {correlation:.2f}. In "
        f"random order, this happens in less than one of {1 / FALSE_ALARMS:,.0f} tables.",
        "shuffle the rows with an unpredictable random generator.",
        column.name,
        numbers={
            "equal": equal,
            "expected": expected,
            "neighbours": pairs,
            "correlation": correlation,
            "chance": bound,
        },
    )


def _find_unique_records(columns: Sequence[CodedValues], rows: int, other_classes: Counts) -> Iterator[Finding]:
    if not columns:
        return
    _, sizes = group_records(columns, rows)
    shares = compute_class_size_shares(np.concatenate([sizes, other_classes]), rows + int(other_classes.sum()))
    if shares.unique_share:
        yield Finding(
            "records-alone",
            f"{shares.unique_share:.1%} of records are unique on these columns, and {shares.below_5:.1%} are in "
            "classes below 5. Anyone who knows these columns of a person can re-identify the record.",
            "publish fewer or coarser columns (sfumato measure shows more).",
            numbers={"alone": shares.unique_share, "below_5": shares.below_5},
        )
