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
from sqlglot import exp

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate import DEFAULT_LEVEL, EXACT_ASSUMPTION, EXACT_METHOD, Estimate
from sfumato.manifest import Manifest
from sfumato.sql import TABLE, Question, count_columns, parse, quoted
from sfumato.tally import Mask, Tally
from sfumato.values import Value, display, domain_array

MEMORY_LIMIT = "1GB"
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
        """Column names and rows with `n`, `n_se`, `n_low` and `n_high`."""
        count, added = self.count_name, count_columns(self.count_name)
        columns = [each for name in self.names for each in (added if name == count else [name])]
        rows = []
        for groups, estimate in self.rows:
            numbers = (estimate.value, estimate.standard_error, *estimate.interval(level))
            rows.append({**groups, **dict(zip(added, numbers, strict=True))})
        return columns, [{name: row[name] for name in columns} for row in rows]


def ask(manifest: Manifest, data: Path, sql: str) -> Answer:
    """Answer one SQL query."""
    return answer(manifest, data, parse(sql, manifest))


def count(manifest: Manifest, data: Path, value: Value | EllipsisType, where: str | None) -> Estimate:
    """Count the rows that hold a value, or any value, under a condition."""
    question = parse(f"SELECT COUNT(*) FROM {TABLE}" + (f" WHERE {where}" if where else ""), manifest)
    if question.groups:
        raise QueryError("a condition has no GROUP BY; ask for groups with a whole query.")
    if not isinstance(value, EllipsisType):
        if value not in manifest.design.domain:
            raise QueryError(f"{display(value)!r} is not in the domain of {manifest.sensitive!r}.")
        is_value = f"{quoted(manifest.sensitive)} IS NOT DISTINCT FROM {exp.convert(value).sql('duckdb')}"
        both = " AND ".join(filter(None, (question.sensitive_where, is_value)))
        question = replace(question, sensitive_where=both)
    return answer(manifest, data, question).rows[0][1]


def answer(manifest: Manifest, data: Path, question: Question) -> Answer:
    """Count in the release, and estimate each group."""
    mechanism, design = manifest.mechanism, manifest.design
    with _connection(data) as connection:
        places = pa.array(range(len(design.domain)))
        domain = {_place(manifest): places, manifest.sensitive: domain_array(design.domain)}
        connection.register("domain", pa.table(domain))
        wanted = _wanted(connection, manifest, question)
        tallies = list(_tallies(connection, manifest, question))
    if not tallies and not any(question.groups):
        tallies = [((), Tally(np.zeros(len(design.domain), dtype=np.int64)))]
    is_exact = bool(wanted.all()) and not question.by_sensitive
    rows = []
    for key, tally in tallies:
        for value, mask in _masks(design.domain, wanted) if question.by_sensitive else [(None, wanted)]:
            if is_exact:
                estimate = Estimate.exact(tally.rows)
            else:
                moments = mechanism.reconstruct(design, tally, mask)
                estimate = Estimate.of(moments, mechanism.METHOD, mechanism.ASSUMPTION)
            rows.append((_named(question, key, value), estimate))
    count_name = next(output.name for output in question.outputs if output.group is None)
    method = (EXACT_METHOD, EXACT_ASSUMPTION) if is_exact else (mechanism.METHOD, mechanism.ASSUMPTION)
    names = tuple(output.name for output in question.outputs)
    return Answer(names, count_name, tuple(rows), *method, note=_note(question, tallies))


def _note(question: Question, tallies: Sequence[tuple[Any, Tally]]) -> str | None:
    if question.public_where is None or any(tally.rows for _, tally in tallies):
        return None
    return "no record satisfies the condition on the public columns; check how their values are spelt."


def _masks(domain: Sequence[Value], wanted: Mask) -> Iterator[tuple[Value, Mask]]:
    for place in np.flatnonzero(wanted):
        yield domain[int(place)], np.arange(len(domain)) == place


def _named(question: Question, key: Sequence[Value], value: Value) -> dict[str, Value]:
    public = iter(key)
    values = [value if group is None else next(public) for group in question.groups]
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


def _wanted(connection: duckdb.DuckDBPyConnection, manifest: Manifest, question: Question) -> Mask:
    """Which values of the domain satisfy the sensitive part of the WHERE clause, by DuckDB's own rules."""
    domain = manifest.design.domain
    if question.sensitive_where is None:
        return np.ones(len(domain), dtype=np.bool_)
    wanted = np.zeros(len(domain), dtype=np.bool_)
    for row in _run(connection, f"SELECT {quoted(_place(manifest))} FROM domain WHERE {question.sensitive_where}"):
        wanted[row[0]] = True
    if not wanted.any():
        # A typing error would else be answered by a zero that looks certain.
        known = ", ".join(repr(display(value)) for value in domain[:NAMED_VALUES])
        more = f" and {len(domain) - NAMED_VALUES} more" if len(domain) > NAMED_VALUES else ""
        raise QueryError(f"no value of {manifest.sensitive!r} satisfies the condition; its values are {known}{more}.")
    return wanted


def _tallies(
    connection: duckdb.DuckDBPyConnection, manifest: Manifest, question: Question
) -> Iterator[tuple[tuple[Value, ...], Tally]]:
    """For each public group, the counts of the published symbols."""
    sensitive = quoted(manifest.sensitive)
    groups = [f"({group}) AS g{number}" for number, group in enumerate(filter(None, question.groups))]
    names = "".join(f"counted.g{number}, " for number in range(len(groups)))
    where = f" WHERE {question.public_where}" if question.public_where else ""
    counted = (
        f"SELECT {', '.join([*groups, f'{sensitive} AS symbol'])}, COUNT(*) AS rows FROM {TABLE}{where} GROUP BY ALL"
    )
    joined = f"({counted}) AS counted LEFT JOIN domain ON counted.symbol IS NOT DISTINCT FROM domain.{sensitive}"
    numbered = f"SELECT {names}domain.{quoted(_place(manifest))}, counted.rows FROM {joined} ORDER BY ALL"
    rows = _run(connection, numbered)
    if len({tuple(row[:-2]) for row in rows}) * len(manifest.design.domain) > MOST_CELLS:
        raise QueryError("the query makes too many groups; group by fewer or coarser columns.")
    by_group: dict[tuple[Value, ...], np.ndarray] = {}
    for *key, place, count in rows:
        if place is None:
            raise ReleaseFormatError("the release holds a value outside its domain; get it again from its publisher.")
        # One object for every not-a-number, because two of them are never equal.
        group = tuple(math.nan if isinstance(value, float) and math.isnan(value) else value for value in key)
        by_group.setdefault(group, np.zeros(len(manifest.design.domain), dtype=np.int64))[place] += count
    return ((key, Tally(counts)) for key, counts in by_group.items())


def _place(manifest: Manifest) -> str:
    """The column that numbers the domain; its name cannot be that of the sensitive column beside it."""
    return f"{manifest.sensitive} place"


def _run(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[Any, ...]]:
    try:
        table = connection.sql(sql).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    except duckdb.Error as error:
        said = str(error).splitlines()[0]
        raise QueryError(
            f"the query does not fit the columns of the release ({said}); info shows their types."
        ) from error
