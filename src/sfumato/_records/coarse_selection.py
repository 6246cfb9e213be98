"""Finds the groups of coarse tables that the parts of a question select as a whole.

A coarse table counts all people by some of the public columns. A part of a question can use a group if this part
selects everybody in the group, with equal weights. The selected people decide this, and not the wording of the
question. If a part can use several coarse tables, it uses the table that has most of its people. If several tables have
equally many, it uses the table with the least noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._records.crowd_lines import CrowdLines, CrowdTable
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_name
from sfumato._records.tally import Key, ResultRow, Scan, Scanner, make_group_key

GROUPS = "c"
"""The name of a coarse table in a statement."""


@dataclass(frozen=True)
class CoarseSelection:
    """Writes SQL about coarse tables. Each table has the columns k0, k1, ..., people and number."""

    columns: Sequence[Sequence[str]]
    """The public columns of each table."""
    variances: Sequence[float]
    """The variance of a count of each table."""
    size: int
    """The number of lines of each group."""

    def write_table(self, number: int, people: str, line: str, lines: str) -> str:
        """SQL that makes a table of groups from a coarse table's lines. `people` and `line` are SQL of its columns."""
        return (
            f"CREATE TABLE {_name_table(number)} AS SELECT {self._list_keys(number)}, "
            f"CAST({people} AS BIGINT) AS people, {line} // {self.size} AS number FROM {lines} "
            f"WHERE {line} % {self.size} = 0"
        )

    def _list_keys(self, number: int, table: str = "") -> str:
        return ", ".join(f"{table}{quote_name(name)} AS k{place}" for place, name in enumerate(self.columns[number]))

    def _write_join(self, number: int, rows: str) -> str:
        """SQL that joins a coarse table to rows with its public columns."""
        pairs = [
            f"{rows}.{quote_name(name)} IS NOT DISTINCT FROM {GROUPS}.k{place}"
            for place, name in enumerate(self.columns[number])
        ]
        return f"JOIN {_name_table(number)} AS {GROUPS} ON {' AND '.join(pairs)}"

    def write_scan(self, number: int, where: str) -> Scan:
        """A scan of the records by the groups of a coarse table."""
        records = f"{RECORDS} AS {quote_name(TABLE)} {self._write_join(number, quote_name(TABLE))}"
        return Scan(records, where, (f"{GROUPS}.number",))

    def write_crowd_groups(self, number: int, crowds: str, crowd: str) -> str:
        """SQL of the number of each crowd and the number of its group."""
        return f"SELECT r.{crowd}, {GROUPS}.number FROM {crowds} AS r {self._write_join(number, 'r')}"

    def find_lines(self, scanner: Scanner, scan: Scan, people: str) -> dict[Key, list[CrowdLines]]:
        """For each group of a scan and each weight, the coarse groups that the group selects as a whole.

        The weight 1 comes first. Groups that select no whole coarse group are left out.
        """
        lines: dict[Key, list[CrowdLines]] = {}
        coverage: dict[Key, tuple[int, float]] = {}
        first, width = 0, len(scan.groups)
        for number in range(len(self.columns)):
            rows_by_key: dict[Key, list[ResultRow]] = {}
            for row in scanner.fetch_rows(self._write_whole_groups(number, scan, people)):
                rows_by_key.setdefault(make_group_key(row[:width]), []).append(row[width:])
            for key, rows in rows_by_key.items():
                own_coverage = sum(row[1] for row in rows), -len(rows) * self.variances[number]
                if key not in coverage or own_coverage > coverage[key]:
                    coverage[key] = own_coverage
                    lines[key] = _make_lines(rows, first)
            first += scanner.fetch_cached_rows(f"SELECT COUNT(*) FROM {_name_table(number)}")[0][0]
        return lines

    def _write_whole_groups(self, number: int, scan: Scan, people: str) -> str:
        """SQL of the coarse groups that one group of a scan selects as a whole, with equal weights."""
        weights = [f"COALESCE(CAST({sql} AS DOUBLE), 0)" for sql in scan.weights]
        columns = [
            *scan.group_columns,
            self._list_keys(number, f"{quote_name(TABLE)}."),
            f"SUM(COALESCE({quote_name(TABLE)}.{people}, 1)) AS selected",
            *(f"MIN({weight}) AS w{place}, MAX({weight}) AS v{place}" for place, weight in enumerate(weights)),
        ]
        keys = " AND ".join(
            f"s.k{place} IS NOT DISTINCT FROM {GROUPS}.k{place}" for place in range(len(self.columns[number]))
        )
        same = "".join(f" AND s.w{place} = s.v{place}" for place in range(len(weights)))
        wanted = [
            *(f"s.g{place}" for place in range(len(scan.groups))),
            f"{GROUPS}.number",
            f"{GROUPS}.people",
            *(f"s.w{place}" for place in range(len(weights))),
        ]
        return (
            f"SELECT {', '.join(wanted)} FROM (SELECT {', '.join(columns)} {scan.clause} GROUP BY ALL) AS s "
            f"JOIN {_name_table(number)} AS {GROUPS} ON {keys} WHERE s.selected = {GROUPS}.people{same} "
            f"ORDER BY {GROUPS}.number"
        )


def _name_table(number: int) -> str:
    return quote_name(f"sfumato counts {number + 1}")


def _make_lines(rows: Sequence[ResultRow], first: int) -> list[CrowdLines]:
    """For each weight, the coarse groups of one line. Each row has the number of a group, its size, and its weights."""
    columns = list(zip(*rows, strict=True))
    groups = np.array(columns[0], dtype=np.int64) + first
    weights = [None, *(np.array(column, dtype=np.float64) for column in columns[2:])]
    return [CrowdLines.of_one(groups, own_weights) for own_weights in weights]


def choose_tables(selections: Sequence[CrowdLines], table: CrowdTable, variances: Sequence[float]) -> CrowdLines:
    """For each line, the groups of one coarse table. The groups of each coarse table are given."""
    pairs = zip(selections, table.coarse, strict=True)
    coverage = np.stack([lines.sum(groups.table.people.astype(np.float64)) for lines, groups in pairs])
    noise = np.stack([lines.sizes * variance for lines, variance in zip(selections, variances, strict=True)])
    is_largest = coverage == coverage.max(axis=0)
    chosen = np.where(is_largest, noise, np.inf).argmin(axis=0)  # of equal ones the first
    parts = []
    for number, lines in enumerate(selections):
        positions = np.flatnonzero(chosen[lines.line_numbers] == number)
        first = int(table.first_coarse_groups[number])
        parts.append((lines.select(positions, lines.crowds[positions] + first, np.ones(len(positions))), 1.0))
    return CrowdLines.combine(parts)
