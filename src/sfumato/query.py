"""Questions to a release: public columns are counted by DuckDB, and the counts become estimates.

The connection that counts can read the data of the release and nothing more, because it may come from a stranger.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sqlglot import exp

from sfumato.counting import member_counts
from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate import DEFAULT_LEVEL, EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato.manifest import BUCKETS, Manifest
from sfumato.mechanisms.methods import Method
from sfumato.mechanisms.operators import Places
from sfumato.sql import TABLE, Question, count_columns, note_column, parse, quoted
from sfumato.tally import Buckets, Counts, Holdings, Mask, Members, Symbols, Tally
from sfumato.values import Value, display, domain_array, parts

MEMORY_LIMIT = "1GB"
BATCH_ROWS = 1 << 17
NAMED_VALUES = 20
MOST_CELLS = 1 << 26
"""Groups times values of the domain: beyond this an answer would fill the memory, and nobody could read it."""


@dataclass(frozen=True)
class Answer:
    """The rows of an answer; each holds its group values and an Estimate."""

    names: tuple[str, ...]
    count_name: str
    rows: tuple[tuple[Mapping[str, Value], Estimate], ...]
    method: str
    assumption: str
    note: str | None = None

    def table(self, level: float = DEFAULT_LEVEL) -> tuple[list[str], list[dict[str, Any]]]:
        """Column names and rows with `n`, `n_se`, `n_low` and `n_high`, and `n_note` if there is something to say."""
        count, added = self.count_name, count_columns(self.count_name)
        if any(estimate.note for _, estimate in self.rows):
            added.append(note_column(count))
        columns = [each for name in self.names for each in (added if name == count else [name])]
        rows = [{**groups, **dict(zip(added, _numbers(each, level), strict=False))} for groups, each in self.rows]
        return columns, [{name: row[name] for name in columns} for row in rows]


def _numbers(estimate: Estimate, level: float) -> tuple[Any, ...]:
    """An estimate, its error, its interval and what to beware of; None where nothing is known."""
    ends = (None, None) if estimate.standard_error is None else estimate.interval(level)
    return (estimate.value, estimate.standard_error, *ends, estimate.note)


def ask(manifest: Manifest, folder: Path, sql: str, method: str | None = None) -> Answer:
    """Answer one SQL query."""
    return answer(manifest, folder, parse(sql, manifest), method)


def count(
    manifest: Manifest, folder: Path, value: Value | EllipsisType, where: str | None, method: str | None = None
) -> Estimate:
    """Count the rows that hold a value, or any value, under a condition."""
    question = parse(f"SELECT COUNT(*) FROM {TABLE}" + (f" WHERE {where}" if where else ""), manifest)
    if question.groups:
        raise QueryError("a condition has no GROUP BY; ask for groups with a whole query.")
    if not isinstance(value, EllipsisType):
        if value not in manifest.domain:
            raise QueryError(f"{display(value)!r} is not in the domain of {manifest.sensitive_name!r}.")
        pairs = zip(manifest.sensitive, parts(value), strict=True)
        is_value = [f"{quoted(name)} IS NOT DISTINCT FROM {exp.convert(part).sql('duckdb')}" for name, part in pairs]
        both = " AND ".join(filter(None, (question.sensitive_where, *is_value)))
        question = replace(question, sensitive_where=both)
    return answer(manifest, folder, question, method).rows[0][1]


def method_of(manifest: Manifest, name: str | None) -> Method:
    """The estimator of this name, or the default one."""
    methods = manifest.methods
    found = next(iter(methods.values())) if name is None else methods.get(name)
    if found is None:
        raise QueryError(
            f"the method {name!r} is unknown for {manifest.mechanism_name!r}; there are {', '.join(methods)}."
        )
    return found


def answer(manifest: Manifest, folder: Path, question: Question, name: str | None = None) -> Answer:
    """Count in the release, and estimate each group."""
    method = method_of(manifest, name)
    with _connection(folder / manifest.data) as connection:
        connection.register("domain", _domain_table(manifest))
        wanted = _wanted(connection, manifest, question)
        sets = _sets(manifest, question, wanted)
        is_exact = bool(wanted.all()) and not question.sensitive_groups
        tallies = _tallies(connection, manifest, question.public_groups, question.public_where, len(sets))
        holdings = _holdings(connection, manifest, folder) if isinstance(manifest.observation, Buckets) else None
        whole = None
        if method.needs_whole and not is_exact:
            ((_, whole),) = _tallies(connection, manifest, (), None, 1)
    rows = []
    for key, tally in tallies:
        if is_exact:
            rows.append((_named(question, key, ()), Estimate.exact(tally.rows)))
            continue
        moments = method.reconstruct(
            manifest.design, replace(tally, whole=whole, holdings=holdings), list(sets.values())
        )
        for values, each in zip(sets, moments, strict=True):
            estimate = Estimate.of(each, method.words, method.assumption, method.note or each.note)
            rows.append((_named(question, key, values), estimate))
    count_name = next(output.name for output in question.outputs if output.group is None)
    described = (EXACT_METHOD, EXACT_ASSUMPTION) if is_exact else (method.words, method.assumption)
    names = tuple(output.name for output in question.outputs)
    return Answer(names, count_name, tuple(rows), *described, note=_note(question, tallies))


def _note(question: Question, tallies: Sequence[tuple[Any, Tally]]) -> str | None:
    if question.public_where is None or any(tally.rows for _, tally in tallies):
        return None
    return "no record satisfies the condition on the public columns; check how their values are spelt."


def _sets(manifest: Manifest, question: Question, wanted: Mask) -> dict[tuple[Value, ...], Places]:
    """The wanted places of the domain, by the values of the sensitive columns that are grouped by."""
    grouped = [manifest.sensitive.index(name) for name in question.sensitive_groups]
    sets: dict[tuple[Value, ...], list[int]] = {} if grouped else {(): []}
    for place in np.flatnonzero(wanted).tolist():
        value = parts(manifest.domain[place])
        sets.setdefault(tuple(value[number] for number in grouped), []).append(place)
    return {key: np.array(places, dtype=np.int64) for key, places in sets.items()}


def _named(question: Question, key: Sequence[Value], sensitive: Sequence[Value]) -> dict[str, Value]:
    public, protected = iter(key), iter(sensitive)
    values = [next(protected) if group.is_sensitive else next(public) for group in question.groups]
    return {output.name: values[output.group] for output in question.outputs if output.group is not None}


def _connection(data: Path) -> duckdb.DuckDBPyConnection:
    """A connection that can read the data file of the release, and nothing else."""
    connection = duckdb.connect(
        config={
            "memory_limit": MEMORY_LIMIT,
            "temp_directory": "",  # what does not fit is refused, and not left on somebody's disk
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    path = str(data.resolve()).replace("'", "''")
    try:
        connection.execute(f"SET allowed_paths = ['{path}']")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        connection.execute(f"CREATE VIEW {TABLE} AS SELECT * FROM read_parquet('{path}')")
    except duckdb.Error as error:
        connection.close()
        raise ReleaseFormatError(f"{data.name} cannot be read; get the release again from its publisher.") from error
    return connection


def _domain_table(manifest: Manifest) -> pa.Table:
    """The domain as a table: the place of each value, and the value in each sensitive column."""
    places = pa.array(range(len(manifest.domain)))
    columns = {name: _part_array(manifest, number) for number, name in enumerate(manifest.sensitive)}
    return pa.table({_place(manifest): places, **columns})


def _part_array(manifest: Manifest, number: int) -> pa.Array:
    return domain_array([parts(value)[number] for value in manifest.domain])


def _wanted(connection: duckdb.DuckDBPyConnection, manifest: Manifest, question: Question) -> Mask:
    """Which values of the domain satisfy the sensitive part of the WHERE clause, by DuckDB's own rules."""
    domain = manifest.domain
    if question.sensitive_where is None:
        return np.ones(len(domain), dtype=np.bool_)
    wanted = np.zeros(len(domain), dtype=np.bool_)
    for row in _run(connection, f"SELECT {quoted(_place(manifest))} FROM domain WHERE {question.sensitive_where}"):
        wanted[row[0]] = True
    if not wanted.any():
        # A typing error would else be answered by a zero that looks certain.
        known = ", ".join(repr(display(value)) for value in domain[:NAMED_VALUES])
        more = f" and {len(domain) - NAMED_VALUES} more" if len(domain) > NAMED_VALUES else ""
        raise QueryError(
            f"no value of {manifest.sensitive_name!r} satisfies the condition; its values are {known}{more}."
        )
    return wanted


Tallies = list[tuple[tuple[Value, ...], Tally]]


@dataclass(frozen=True)
class _Asked:
    """Which rows are counted: by which groups, under which clause, and for how many answers each."""

    groups: tuple[str, ...]
    clause: str
    answers: int

    def check_size(self, groups: int, size: int) -> None:
        """Refuse what would fill the memory."""
        if groups * max(size, self.answers) > MOST_CELLS:
            raise QueryError("the query makes too many groups; group by fewer or coarser columns.")


def _tallies(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, groups: Sequence[str], where: str | None, answers: int
) -> Tallies:
    """For each public group, what its records show; one empty tally if there is nothing to group by."""
    named = tuple(f"({group}) AS g{number}" for number, group in enumerate(groups))
    asked = _Asked(named, f" WHERE {where}" if where else "", answers)
    shown = manifest.observation
    if isinstance(shown, Buckets):
        return _bucket_tallies(connection, manifest, asked)
    if isinstance(shown, Members):
        tallies = _member_tallies(connection, manifest, shown, asked)
    else:
        tallies = _symbol_tallies(connection, manifest, shown, asked)
    size = shown.size if isinstance(shown, Members) else len(shown.places)
    return tallies if tallies or groups else [((), Tally(np.zeros(size, dtype=np.int64), 0))]


def _bucket_tallies(connection: duckdb.DuckDBPyConnection, manifest: Manifest, asked: _Asked) -> Tallies:
    """Count the records of each bucket, by group."""
    bucket, groups, buckets = quoted(manifest.cell_column or ""), asked.groups, _buckets(connection, manifest)
    rows = _run(
        connection, f"SELECT {', '.join([*groups, 'COUNT(*)'])} FROM {TABLE}{asked.clause} GROUP BY ALL ORDER BY ALL"
    )
    keys = [_key(row[:-1]) for row in rows]
    asked.check_size(len(keys), buckets)
    inner = f"SELECT {', '.join([*groups, f'{bucket} AS bucket'])} FROM {TABLE}{asked.clause}"
    order = ", ".join(f"g{number}" for number in range(len(groups)))
    number = f"DENSE_RANK() OVER (ORDER BY {order}) - 1" if groups else "0"
    counts = np.zeros(max(len(keys), 1) * buckets, dtype=np.int64)
    for batch in _batches(connection, f"SELECT {number}, bucket FROM ({inner})"):
        places = [column.to_numpy(zero_copy_only=False).astype(np.int64) for column in batch.columns]
        counts += np.bincount(places[0] * buckets + places[1], minlength=len(counts))
    by_group = counts.reshape(-1, buckets)
    return [(key, Tally.of_symbols(by_group[place])) for place, key in enumerate(keys)]


def _buckets(connection: duckdb.DuckDBPyConnection, manifest: Manifest) -> int:
    """The number of buckets; ids that do not run from 0 up are refused before anything is made as long as they are."""
    bucket = quoted(manifest.cell_column or "")
    ((rows, given, least, most),) = _run(
        connection, f"SELECT COUNT(*), COUNT({bucket}), MIN({bucket}), MAX({bucket}) FROM {TABLE}"
    )
    if not rows or given < rows or least < 0 or most >= rows:
        raise _unlike_buckets()
    return int(most) + 1


def _unlike_buckets() -> ReleaseFormatError:
    return ReleaseFormatError(
        "the records and the buckets do not fit together; get the release again from its publisher."
    )


def _holdings(connection: duckdb.DuckDBPyConnection, manifest: Manifest, folder: Path) -> Holdings:
    """What the buckets hold, if they hold as much as there are records in them."""
    holdings = read_holdings(manifest, folder)
    ((_, whole),) = _bucket_tallies(connection, manifest, _Asked((), "", 1))
    buckets, counts = holdings.buckets, holdings.counts
    fits = len(buckets) and buckets.min() >= 0 and buckets.max() < len(whole.counts) and counts.min() >= 1
    if not fits or not np.array_equal(holdings.sizes, whole.counts):
        raise _unlike_buckets()
    return holdings


def read_holdings(manifest: Manifest, folder: Path) -> Holdings:
    """What the buckets of a release hold."""
    names = [field.name for field in manifest.bucket_fields()]
    try:
        table = pq.read_table(folder / BUCKETS, columns=names)
        if table.column(names[0]).null_count or table.column(names[-1]).null_count:
            raise _unlike_buckets()
        buckets, counts = (table.column(name).to_numpy().astype(np.int64) for name in (names[0], names[-1]))
        places = _places(manifest, table.select(names[1:-1]))
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise ReleaseFormatError(f"{BUCKETS} cannot be read; get the release again from its publisher.") from error
    return Holdings(buckets, places, counts, len(manifest.domain))


def _places(manifest: Manifest, values: pa.Table) -> Counts:
    """The places of values in the domain."""
    known = {parts(value): place for place, value in enumerate(manifest.domain)}
    columns = [column.combine_chunks().dictionary_encode() for column in values.columns]
    if len(columns) == 1:
        encoded = columns[0] if isinstance(columns[0], pa.DictionaryArray) else columns[0].combine_chunks()
        distinct = [known[(value,)] for value in encoded.dictionary.to_pylist()]
        places = np.array([*distinct, known.get((None,), -1)], dtype=np.int64)
        indices = encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)
        return np.asarray(places[indices])
    rows = zip(*(column.to_pylist() for column in values.columns), strict=True)
    return np.array([known[row] for row in rows], dtype=np.int64)


def _symbol_tallies(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, shown: Symbols, asked: _Asked
) -> Tallies:
    """Count the symbols: each is a value, or a cell and a value."""
    columns = [] if manifest.cell_column is None else [manifest.cell_column]
    symbols = pa.table({f"s{number}": column for number, column in enumerate(_symbol_columns(manifest, shown))})
    connection.register("symbols", symbols.append_column("symbol", pa.array(range(len(shown.places)))))
    seen = [f"{quoted(name)} AS c{number}" for number, name in enumerate([*columns, *manifest.sensitive])]
    counted = f"SELECT {', '.join([*asked.groups, *seen])}, COUNT(*) AS rows FROM {TABLE}{asked.clause} GROUP BY ALL"
    matches = " AND ".join(f"c{number} IS NOT DISTINCT FROM s{number}" for number in range(len(seen)))
    names = "".join(f"g{number}, " for number in range(len(asked.groups)))
    rows = _run(connection, f"SELECT {names}symbol, rows FROM ({counted}) LEFT JOIN symbols ON {matches} ORDER BY ALL")
    asked.check_size(len({tuple(row[:-2]) for row in rows}), len(shown.places))
    by_group: dict[tuple[Value, ...], Counts] = {}
    for *key, symbol, count in rows:
        if symbol is None:
            raise ReleaseFormatError("the release holds a value outside its domain; get it again from its publisher.")
        by_group.setdefault(_key(key), np.zeros(len(shown.places), dtype=np.int64))[symbol] += count
    return [(key, Tally.of_symbols(counts)) for key, counts in by_group.items()]


def _symbol_columns(manifest: Manifest, shown: Symbols) -> list[pa.Array]:
    cells = [] if shown.cells is None else [pa.array(shown.cells)]
    places = pa.array(shown.places)
    return [*cells, *(_part_array(manifest, number).take(places) for number in range(len(manifest.sensitive)))]


def _member_tallies(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, shown: Members, asked: _Asked
) -> Tallies:
    """Count the members of sets: DuckDB numbers the groups, and the bits are added up here."""
    column, groups, clause = quoted(manifest.sensitive_name), asked.groups, asked.clause
    rows = _run(connection, f"SELECT {', '.join([*groups, 'COUNT(*)'])} FROM {TABLE}{clause} GROUP BY ALL ORDER BY ALL")
    if not groups and not rows[0][-1]:
        return []
    keys = [_key(row[:-1]) for row in rows]
    asked.check_size(len(keys), shown.size)
    inner = f"SELECT {', '.join([*groups, f'{column} AS members'])} FROM {TABLE}{clause}"
    order = ", ".join(f"g{number}" for number in range(len(groups)))
    number = f"DENSE_RANK() OVER (ORDER BY {order}) - 1" if groups else "0"
    batches = _batches(connection, f"SELECT {number}, members FROM ({inner})")
    counts = member_counts(batches, len(keys), shown, _part_array(manifest, 0))
    return [(key, Tally(counts[place], int(row[-1]))) for place, (key, row) in enumerate(zip(keys, rows, strict=True))]


def _batches(connection: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from connection.sql(sql).to_arrow_reader(BATCH_ROWS)
    except duckdb.Error as error:
        raise _misfit(error) from error


def _key(values: Sequence[Value]) -> tuple[Value, ...]:
    """The values of a group; one object for every not-a-number, because two of them are never equal."""
    return tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in values)


def _place(manifest: Manifest) -> str:
    """The column that numbers the domain; its name cannot be that of a sensitive column beside it."""
    return f"{manifest.sensitive_name} place"


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    try:
        table = connection.sql(sql).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    except duckdb.Error as error:
        raise _misfit(error) from error


def _misfit(error: duckdb.Error) -> QueryError:
    said = str(error).splitlines()[0]
    return QueryError(f"the query does not fit the columns of the release ({said}); info shows their types.")
