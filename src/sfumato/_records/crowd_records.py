"""The crowd encoding publishes noisy counts of people with equal public columns, and sets for all other people.

A crowd is a group of people with equal public columns that is large enough for counts. `counts.parquet` has a line for
each crowd and each value of the domain, sorted by crowd. `data.parquet` has a set for each person outside all crowds.
Coarse tables, such as `counts-1.parquet`, have the same form. They count all people by some of the public columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Codes, Counts, Floats, Indices
from sfumato._core.cell_values import simplify_type
from sfumato._core.markdown import format_as_code
from sfumato._records import DATA_FILE, Counter, CrowdContents, Naming, SideTable
from sfumato._records.bucket_records import NumberColumn
from sfumato._records.coarse_selection import CoarseSelection, choose_tables
from sfumato._records.column_codes import (
    CodedRows,
    Field,
    PublishedColumn,
    SensitiveColumns,
    find_smallest_type,
)
from sfumato._records.count_tables import (
    COARSE_FILES,
    COUNTS_FILE,
    AmountColumn,
    CountNames,
    check_count_columns,
    choose_free_names,
    list_count_fields,
    read_crowd_table,
)
from sfumato._records.crowd_lines import MOST_COUNTS, CoarseGroups, CrowdLines, CrowdTable
from sfumato._records.set_records import SetEncoding
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_if_needed, quote_name, quote_text
from sfumato._records.tally import Key, Scan, Scanner, Tally, WeightTallies
from sfumato.errors import ReleaseFormatError

CROWDS = quote_name("sfumato crowds")
"""The crowds in SQL, with a row for each."""
CROWD, PEOPLE = "sfumato crowd", "sfumato people"
"""The last columns of this table: the number of the crowd, and the number of its people.

If a public column has one of these names, the table uses another name.
"""
LINE = "file_row_number"
"""The column in which DuckDB numbers the lines of a file."""


@dataclass(frozen=True)
class CrowdEncoding(SetEncoding):
    """Publishes noisy counts of people with equal public columns, and sets for all other people."""

    is_list: bool = False
    coarse_columns: tuple[tuple[str, ...], ...] = ()
    """The columns of each coarse table."""
    coarse_variances: tuple[float, ...] = field(default=(), compare=False)
    """The variance of a count of each coarse table, if questions are answered."""
    _tables: dict[Path, CrowdTable] = field(default_factory=dict, compare=False, repr=False)
    """The tables of counts that were read, by their paths."""

    FILES: ClassVar = (DATA_FILE, COUNTS_FILE)
    OPTIONAL_FILES: ClassVar = COARSE_FILES
    TOOL_QUERY_HINT: ClassVar = f"""\
With any SQL tool, add up the counts in `{COUNTS_FILE}`. Then add one weight for each row of `{DATA_FILE}`;
`weights.parquet` has the weights. The sum is an unbiased count. It may be negative if the true count is small. This
DuckDB query counts the people with one value in both tables. To count some of these people, add `WHERE` with conditions
on other columns at the end. To count them by group, add the columns after the last `SELECT`, and `GROUP BY` at the
end:"""
    WARNING: ClassVar = (
        f"`{DATA_FILE}` alone does not have all people: add the counts of `{COUNTS_FILE}`, also those below zero. Do "
        "not count the members of the sets directly: most members are in a set by chance."
    )

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the tables. An engine needs only the records."""
        return {**self.__dict__, "_tables": {}}

    @property
    def files(self) -> tuple[str, ...]:
        """The records, the counts, and the coarse tables."""
        return (*self.FILES, *self.coarse_files)

    @property
    def has_coarse_tables(self) -> bool:
        """Whether coarse tables count everybody again, by some of the public columns."""
        return len(self.coarse_columns) > 0

    @property
    def coarse_files(self) -> tuple[str, ...]:
        """The coarse tables."""
        return COARSE_FILES[: len(self.coarse_columns)]

    # ---------------------------------------------------------------------------------------------------------- writing

    def make_count_tables(self, sensitive: SensitiveColumns, contents: Sequence[CrowdContents]) -> list[SideTable]:
        """The table of the counts of crowds, and the coarse tables."""
        return [
            self._make_count_table(sensitive, table, file) for table, file in zip(contents, self.files[1:], strict=True)
        ]

    def _make_count_table(self, sensitive: SensitiveColumns, contents: CrowdContents, file: str) -> SideTable:
        """A line for each group and each value, group after group."""
        public, value = contents.public, sensitive.parts[0]
        names = CountNames.choose([*(column.name for column in public), value.name])
        counts = NumberColumn(names.noisy), AmountColumn(names.count)
        columns: tuple[PublishedColumn, ...] = (*public, NumberColumn(names.people), value, counts[0], counts[1])
        value_codes = np.arange(self.size).astype(find_smallest_type(self.size))

        def iter_batches(rows: int) -> Iterator[CodedRows]:
            for batch in contents.iter_batches(max(rows // self.size, 1)):
                codes = zip(public, batch.public_codes, strict=True)
                yield {
                    **{column.name: np.repeat(column_codes, self.size) for column, column_codes in codes},
                    names.people: np.repeat(batch.people, self.size),
                    value.name: np.tile(value_codes, len(batch.people)),
                    names.noisy: batch.noisy.ravel(),
                    names.count: batch.estimates.ravel() + 0.0,  # zero has one sign
                }

        return SideTable(file, columns, contents.size * self.size, iter_batches)

    def make_readable(self, batch: pa.RecordBatch, naming: Naming) -> pa.RecordBatch:
        """Converts sets to lists of values. The values in the table of counts are already readable."""
        place = batch.schema.get_field_index(naming.joined_name)
        has_sets = place >= 0 and pa.types.is_fixed_size_binary(simplify_type(batch.schema.field(place).type))
        return super().make_readable(batch, naming) if has_sets else batch

    # ------------------------------------------------------------------------------------------------------- describing

    def list_tables(self, naming: Naming, fields: Sequence[Field]) -> dict[str, Sequence[Field]]:
        """The records, and the tables of counts."""
        public = {column.name: column for column in fields if column.name != naming.joined_name}
        if not public.keys() >= {name for columns in self.coarse_columns for name in columns}:
            raise ReleaseFormatError(
                "a coarse table has a column that the records do not have; get the release again from its publisher.",
                code="missing-column",
            )
        tables = [list(public.values()), *([public[name] for name in columns] for columns in self.coarse_columns)]
        pairs = zip(self.files[1:], tables, strict=True)
        return {DATA_FILE: fields, **{file: list_count_fields(naming, columns) for file, columns in pairs}}

    def describe(self, subject: str, naming: Naming) -> str:
        """Describes the encoding."""
        return (
            f"Where several people have equal public columns, `{COUNTS_FILE}` publishes their counts instead of their "
            f"rows. It has a line for each such group and each value of {naming.markdown_names}. Each count has noise "
            "that averages out. A noisy count may be below zero, and must be added as it is. All other people have a "
            f"row in `{DATA_FILE}`. {super().describe(subject, naming)}"
            f"{self._describe_coarse_tables(naming)}"
        )

    def _describe_coarse_tables(self, naming: Naming) -> str:
        """Describes the coarse tables in Markdown, and how to use one with SQL."""
        if not self.coarse_columns:
            return ""
        tables = " and ".join(
            f"`{file}` counts everybody by {', '.join(map(format_as_code, columns))}"
            for file, columns in zip(self.coarse_files, self.coarse_columns, strict=True)
        )
        file, columns = self.coarse_files[0], self.coarse_columns[0]
        count, value = CountNames.choose([*columns, *naming.sensitive]).count, quote_if_needed(naming.sensitive[0])
        query = f"SELECT {value}, SUM({count}) FROM '{file}' GROUP BY {value}"
        return (
            f" {tables}, in the same form. Use such a table alone for a question about large groups that needs no "
            f"other column: {format_as_code(query)}. Never add its counts to those of `{COUNTS_FILE}`, because it has "
            "the same people. sfumato combines all tables."
        )

    def describe_size(self, data: str, rows: int, counted: int, unit: str) -> str:
        """Says how many people are in each table."""
        return (
            f"The release has {rows:,} {unit}: {counted:,} are counted in `{COUNTS_FILE}`, and {rows - counted:,} are "
            f"in `{data}`."
        )

    def write_tool_query(self, amount: str, source: str, naming: Naming, public: Sequence[str], condition: str) -> str:
        """SQL for one list of conditions that adds up the estimated counts of crowds and the amounts of records."""
        names = CountNames.choose([*public, *naming.sensitive])
        sensitive = quote_if_needed(naming.joined_name)
        return "\n".join(
            [
                "WITH amounts AS (",
                f"  SELECT * EXCLUDE ({names.people}, {sensitive}, {names.noisy})",
                f"  FROM '{COUNTS_FILE}' WHERE {condition}",
                "  UNION ALL BY NAME",
                f"  SELECT d.* EXCLUDE ({sensitive}),",
                f"    {amount} AS {names.count}",
                *(f"  {line}" for line in source.splitlines()),
                ")",
                f"SELECT COALESCE(SUM({names.count}), 0) FROM amounts",
            ]
        )

    # --------------------------------------------------------------------------------------------------------- trusting

    def compute_line_limits(self, records: int) -> dict[str, int]:
        """The largest size of the table. The number of people in crowds is unknown here."""
        return dict.fromkeys(self.files[1:], MOST_COUNTS)

    # --------------------------------------------------------------------------------------------------------- counting

    def sum_weights(self, codes: Codes, weights: Floats) -> Floats:
        """The weights of each set's members, and a last weight. Each person outside crowds adds the last weight."""
        return super().sum_weights(codes, weights[:-1]) + float(weights[-1])

    def list_count_files(self, public: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """The table of the counts of crowds, and the coarse tables."""
        return {COUNTS_FILE: tuple(public), **dict(zip(self.coarse_files, self.coarse_columns, strict=True))}

    def list_query_files(self) -> tuple[str, ...]:
        """The tables of counts."""
        return self.files[1:]

    def write_query_tables(self, naming: Naming, public: Sequence[str], records: str, folder: Path) -> tuple[str, ...]:
        """Makes a table of the crowds, and two views.

        A crowd is one record in one view, and one row per person in the other.
        """
        check_count_columns(naming, folder / COUNTS_FILE)
        used = [*public, *naming.sensitive]
        people = CountNames.choose(used).people
        crowd, number_of_people = map(quote_name, choose_free_names((CROWD, PEOPLE), used))
        line, lines = _number_lines(folder / COUNTS_FILE, used)
        columns = [quote_name(name) for name in public]
        crowds = (
            f"SELECT {', '.join([*columns, f'{line} // {self.size} AS {crowd}'])}, "
            f"{quote_name(people)} AS {number_of_people} FROM {lines} WHERE {line} % {self.size} = 0"
        )
        expanded = f"{CROWDS}, range(CAST({number_of_people} AS BIGINT))"
        crowd_columns = ", ".join(f"{CROWDS}.{name}" for name in columns)
        return (
            f"CREATE TABLE {CROWDS} AS {crowds}",
            f"CREATE VIEW {RECORDS} AS SELECT * FROM {records} UNION ALL BY NAME SELECT * FROM {CROWDS}",
            f"CREATE VIEW {TABLE} AS SELECT {', '.join(columns)} FROM {records} "
            f"UNION ALL SELECT {crowd_columns} FROM {expanded}",
            *self._write_coarse_tables(naming, folder),
        )

    def _write_coarse_tables(self, naming: Naming, folder: Path) -> list[str]:
        """SQL that makes the tables of coarse groups."""
        statements = []
        for number, (file, names) in enumerate(zip(self.coarse_files, self.coarse_columns, strict=True)):
            used = [*names, *naming.sensitive]
            line, lines = _number_lines(folder / file, used)
            people = quote_name(CountNames.choose(used).people)
            statements.append(self._coarse_selection.write_table(number, people, line, lines))
        return statements

    @property
    def _coarse_selection(self) -> CoarseSelection:
        return CoarseSelection(self.coarse_columns, self.coarse_variances, self.size)

    def write_crowds(self, naming: Naming, public: Sequence[str], table: str) -> str | None:
        """SQL of the crowds, in the order of the table of counts."""
        people = CountNames.choose([*public, *naming.sensitive]).people
        columns = "".join(f"{quote_name(name)} AS c{number}, " for number, name in enumerate(public))
        lines = f"SELECT {columns}{quote_name(people)}::BIGINT AS people, ROW_NUMBER() OVER () - 1 AS line FROM {table}"
        return f"SELECT * EXCLUDE (line), line // {self.size} AS crowd FROM ({lines}) WHERE line % {self.size} = 0"

    def read_crowds(self, naming: Naming, folder: Path) -> CrowdTable:
        """Reads the table of counts once."""
        return self._read_counts(naming, folder / COUNTS_FILE)

    def _read_counts(self, naming: Naming, path: Path) -> CrowdTable:
        if path not in self._tables:
            self._tables[path] = read_crowd_table(naming, path)
        return self._tables[path]

    def read_holdings(self, scanner: Scanner, everything: Scan, naming: Naming, folder: Path) -> CrowdTable:
        """Reads the counts of the crowds, and counts the people outside crowds."""
        sql = f"SELECT COUNT(*) FROM {RECORDS} WHERE {_find_crowd_columns(scanner)[0]} IS NULL"
        ((people,),) = scanner.fetch_cached_rows(sql)
        table = replace(self.read_crowds(naming, folder), people_outside=int(people))
        if not self.coarse_columns:
            return table
        coarse = [
            self._gather_coarse_groups(scanner, naming, number, self._read_counts(naming, folder / file), table)
            for number, file in enumerate(self.coarse_files)
        ]
        return replace(table, coarse=tuple(coarse))

    def _gather_coarse_groups(
        self, scanner: Scanner, naming: Naming, number: int, groups: CrowdTable, table: CrowdTable
    ) -> CoarseGroups:
        """Counts the sets of each group of a coarse table, and finds the group of each crowd."""
        selection = self._coarse_selection
        crowd, _ = _find_crowd_columns(scanner)
        scan = selection.write_scan(number, f"{quote_name(TABLE)}.{crowd} IS NULL")
        columns, members = self.list_scan_columns(naming), np.zeros((len(groups), self.width + 1), dtype=np.int64)
        keys, batches = scan.number_groups(scanner, columns)
        if keys:
            sums, rows = self.sum_members(batches, (len(keys), 1), naming.make_part_domain(0), len(columns))
            places = np.array([key[0] for key in keys], dtype=np.int64)
            members[places] = np.rint(np.column_stack([sums[:, 0], rows])).astype(np.int64)
        pairs = scanner.fetch_table(selection.write_crowd_groups(number, CROWDS, crowd))
        crowds, numbers = (column.to_numpy().astype(np.int64) for column in pairs.columns)
        crowd_groups = np.full(len(table), -1, dtype=np.int64)
        crowd_groups[crowds] = numbers
        return CoarseGroups.check(groups, crowd_groups, members, table.people)

    def tally_groups(self, scanner: Scanner, scan: Scan, naming: Naming) -> dict[Key, WeightTallies]:
        """Counts the sets of people outside crowds by group. Lists the crowds of each group."""
        crowd_columns = (f"{quote_name(TABLE)}.{column}" for column in _find_crowd_columns(scanner))
        columns = [*self.list_scan_columns(naming), *crowd_columns]
        keys, batches = scan.number_groups(scanner, columns)
        scan.check_size(len(keys), self.width)
        if not keys:
            return {key: _add_no_crowds(tallies) for key, tallies in scan.make_empty_tallies(self.width + 1).items()}
        gathered: list[pa.RecordBatch] = []
        shape = (len(keys), 1 + len(scan.weights))
        sums, rows = self.sum_members(
            _set_crowds_aside(batches, gathered), shape, naming.make_part_domain(0), len(columns) - 2
        )
        selection = _CrowdSelection.of(gathered, len(keys), len(scan.weights))
        coarse_lines = self._coarse_selection.find_lines(scanner, scan, _find_crowd_columns(scanner)[1])
        return {
            key: selection.add_to(
                scan.make_tallies(
                    [
                        np.append(members, record_rows)
                        for members, record_rows in zip(sums[number], rows[number], strict=True)
                    ],
                    rows[number].tolist(),
                ),
                number,
                coarse_lines.get(key),
            )
            for number, key in enumerate(keys)
        }

    def tally_conditions(self, counter: Counter, naming: Naming, folder: Path) -> Tally:
        """For each condition, counts the members of sets and lists the crowds that the condition selects."""
        members, rows = counter.count_members(self.make_reader(naming), self.width, self.list_needed_members)
        table = self.read_crowds(naming, folder)
        selected, starts = counter.find_rows(table.public, len(table))
        crowds = CrowdLines(selected, starts, table=table)
        if self.coarse_columns:
            crowds = self._select_coarse_groups(crowds, counter, naming, folder)
        people = np.rint(crowds.sum(table.people.astype(np.float64))).astype(np.int64)
        return Tally(np.column_stack([members, rows]), rows + people, crowds=crowds)

    def _select_coarse_groups(self, crowds: CrowdLines, counter: Counter, naming: Naming, folder: Path) -> CrowdLines:
        """Finds the coarse groups that each condition selects as a whole."""
        table, coarse, selections = crowds.counts, [], []
        for file in self.coarse_files:
            groups = self._read_counts(naming, folder / file)
            members = counter.count_group_members(self.make_reader(naming), self.width, groups.public)
            numbers = counter.number_rows(table.public, groups.public)
            coarse.append(CoarseGroups.check(groups, numbers, members, table.people))
            selections.append(
                CrowdLines(*counter.find_whole_groups(groups.public, groups.people, table.public, table.people))
            )
        table = replace(table, coarse=tuple(coarse))
        return replace(crowds, table=table, coarse=choose_tables(selections, table, self.coarse_variances))


def _number_lines(path: Path, used: Iterable[str]) -> tuple[str, str]:
    """SQL of a column with the numbers of a table's lines, and of the table with this column."""
    (line,), file = map(quote_name, choose_free_names((LINE,), used)), quote_text(str(path.resolve()))
    if line == quote_name(LINE):
        return line, f"read_parquet({file}, {LINE} = true)"
    # DuckDB refuses to number the lines if a column has this name.
    return line, f"(SELECT *, ROW_NUMBER() OVER () - 1 AS {line} FROM read_parquet({file}))"


def _find_crowd_columns(scanner: Scanner) -> tuple[str, str]:
    """The columns of all records with the number of the crowd and its number of people. They are the last columns."""
    names = scanner.fetch_cached_rows(f"SELECT column_name FROM (DESCRIBE {RECORDS})")
    (crowd,), (people,) = names[-2:]
    return quote_name(crowd), quote_name(people)


def _add_no_crowds(tallies: WeightTallies) -> WeightTallies:
    nothing = CrowdLines.of_one(np.zeros(0, dtype=np.int64))
    return {weight: replace(tally, crowds=nothing) for weight, tally in tallies.items()}


def _set_crowds_aside(batches: Iterable[pa.RecordBatch], gathered: list[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Yields the records outside crowds, without the two columns of crowds, and gathers the crowds.

    A batch has the number of the group, the set, the number of the crowd, its people, and the weights.
    """
    for batch in batches:
        is_record = batch.column(2).is_null()
        gathered.append(batch.filter(pc.invert(is_record)))
        yield batch.filter(is_record).select([0, 1, *range(4, batch.num_columns)])


@dataclass(frozen=True)
class _CrowdSelection:
    """The selected crowds of all groups, sorted by group."""

    starts: Indices
    crowds: Indices
    people: Counts
    weights: Sequence[Floats]

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch], groups: int, weights: int) -> _CrowdSelection:
        """Sorts the crowds of some batches by group."""
        columns = [
            np.concatenate([batch.column(place).to_numpy(zero_copy_only=False) for batch in batches] or [np.zeros(0)])
            for place in (0, *range(2, 4 + weights))
        ]
        numbers = columns[0].astype(np.int64)
        order = np.argsort(numbers, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(numbers, minlength=groups)))
        crowds, people, *weight_columns = (column[order] for column in columns[1:])
        return cls(starts, crowds.astype(np.int64), people.astype(np.int64), weight_columns)

    def add_to(self, tallies: WeightTallies, group: int, coarse: Sequence[CrowdLines] | None) -> Mapping[str, Tally]:
        """For each weight, the tally of one group with its crowds and coarse groups. The first weight is 1."""
        part = slice(self.starts[group], self.starts[group + 1])
        crowds, people = self.crowds[part], self.people[part]
        whole = {}
        columns, no_groups = (None, *self.weights), (None,) * (1 + len(self.weights))
        for (weight, tally), column, own_coarse in zip(tallies.items(), columns, coarse or no_groups, strict=True):
            own_weights = None if column is None else column[part]
            added = people.sum() if own_weights is None else (people * own_weights).sum()
            lines = replace(CrowdLines.of_one(crowds, own_weights), coarse=own_coarse)
            whole[weight] = replace(tally, rows=tally.rows + added, crowds=lines)
        return whole
