"""The DuckDB connection for counting. It reads only the data of the release, and has a time limit."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from sfumato._core.cell_values import display, split_value
from sfumato._query.impossible_literals import AbsentValue
from sfumato._query.query_limits import Clock, Limits
from sfumato._records.sql_quoting import TABLE, quote_name, quote_text
from sfumato._records.tally import ResultRow
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError, ReleaseFormatError

# Translates errors of DuckDB into sentences for analysts.

TYPES = "the description of the release lists the types of the columns"
UNFIT = f"the columns of the release do not support this query as written; {TYPES}."
_KINDS = {
    "VARCHAR": "a string", "BOOLEAN": "a boolean", "DATE": "a date", "TIMESTAMP": "a time", "INTERVAL": "a time span",
}  # fmt: skip
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?(\d+)?|DOUBLE|FLOAT|DECIMAL.*|INTEGER_LITERAL")


def _describe_kind(name: str) -> str:
    """Names a DuckDB type in plain words."""
    base = name.strip().strip("'\"")
    if _NUMBERS.fullmatch(base):
        return "a number"
    return next((label for kind, label in _KINDS.items() if base.startswith(kind)), "a value of this type")


def _explain_conversion(match: re.Match[str]) -> str:
    return f"{match[1]!r} is not {_describe_kind(match[2])}, but the query uses it as one; {TYPES}."


def _explain_function(match: re.Match[str]) -> str:
    kinds = " and ".join(dict.fromkeys(map(_describe_kind, match[2].split(",")))) if match[2].strip() else "nothing"
    return f"{match[1].upper()} does not accept {kinds}; {TYPES}."


def _explain_ungrouped(match: re.Match[str]) -> str:
    return f"{match[1]!r} is neither an aggregate nor a group; add this column to GROUP BY, or aggregate it."


def _explain_column(match: re.Match[str]) -> str:
    return f"there is no column {match[1]!r}; the description of the release lists the columns."


def _explain_table(match: re.Match[str]) -> str:
    return f"there is no table {match[1]!r} in this part of the query."


_SENTENCES: tuple[tuple[str, str, Callable[[re.Match[str]], str]], ...] = (
    (r"Could not convert string '([^'\"]*)' to (\w+)", "incomparable-value", _explain_conversion),
    (
        r"(?:invalid|date) \w+ ?field format: \"([^\"]*)\"",
        "invalid-date",
        lambda match: f"{match[1]!r} is not a valid date; write 2026-01-31.",
    ),
    (r"argument types '(\w+)\((.*?)\)'", "other-argument-types", _explain_function),
    (r"column \"?([\w .]+?)\"? must appear in the GROUP BY", "not-grouped", _explain_ungrouped),
    (r"Referenced column \"([^\"]+)\" not found", "missing-column", _explain_column),
    (r"Referenced table \"([^\"]+)\" not found", "unknown-table", _explain_table),
    (
        r"Cannot (?:compare|mix) values? of type (\w+).* (?:and|to) (?:values? of )?(?:type )?(\w+)",
        "incomparable-value",
        lambda match: f"{_describe_kind(match[1])} and {_describe_kind(match[2])} cannot be compared; {TYPES}.",
    ),
    (
        r"[Mm]ore than one row returned by a subquery",
        "subquery-not-scalar",
        lambda match: "a subquery in an expression must return one row.",
    ),
    (
        r"(?:Out of Range|Overflow)",
        "number-too-large",
        lambda match: "a number in the query is too large, or outside the range of its type.",
    ),
)


_FIELD_NAMES = {"missing-column": "column", "not-grouped": "column", "unknown-table": "table"}
"""The name of the fact in the first group of a pattern, by the code of the error."""


def explain_error(message: str) -> QueryError:
    """Turns a DuckDB error into one sentence."""
    for pattern, code, explain in _SENTENCES:
        match = re.search(pattern, message)
        if match is not None and "sfumato " not in match[0]:
            fields = {_FIELD_NAMES[code]: match[1]} if code in _FIELD_NAMES else {}
            return QueryError(explain(match), code=code, fields=fields)
    return QueryError(UNFIT, code="unfit-columns")


# ---------------------------------------------------------------------------------------------------------------------

BATCH_ROWS = 1 << 17
RETRY_SECONDS = 0.05
"""The seconds to wait before interrupting a statement again."""
OUT_OF_MEMORY = "Out of Memory"
LARGEST_PART = 1 << 28
"""The largest subquery result in bytes that is kept as a table."""


@dataclass
class Session:
    """A connection to one release, with the tables of the analyst."""

    manifest: Manifest
    folder: Path
    connection: duckdb.DuckDBPyConnection
    attached_tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """The analyst's tables by their lower-case names."""
    clock: Clock = field(default_factory=Clock)
    subquery_tables: list[pa.Table] = field(default_factory=list)
    """The results of subqueries."""
    cache: dict[str, Any] = field(default_factory=dict)
    """Results about the whole release, shared by all questions."""
    absent_values: list[AbsentValue] = field(default_factory=list)
    """Values in the question that do not exist in the release."""

    def fetch_rows(self, sql: str) -> list[ResultRow]:
        """All rows of a statement, as Python values."""
        table = self.fetch_table(sql)
        try:
            return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        except ValueError as error:
            raise QueryError(
                "the answer contains times finer than a microsecond; cast them to TIMESTAMP.", code="times-too-fine"
            ) from error

    def fetch_table(self, sql: str) -> pa.Table:
        """All rows of a statement, as an Arrow table."""
        with self.explain_errors():
            return self.connection.sql(sql).to_arrow_table()

    def fetch_batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a statement, in batches."""
        with self.explain_errors():
            yield from self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)

    def fetch_cached_rows(self, sql: str) -> list[ResultRow]:
        """All rows of a statement about all records. The statement runs once for all questions."""
        if sql not in self.cache:
            self.cache[sql] = self.fetch_rows(sql)
        cached_rows: list[ResultRow] = self.cache[sql]
        return cached_rows

    def fetch_subquery(self, sql: str) -> pa.Table:
        """All rows of a subquery. Their size is limited, because all rows are kept in memory."""
        with self.explain_errors():
            reader = self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)
            batches, size = [], 0
            for batch in reader:
                batches.append(batch)
                size += max(batch.nbytes, batch.num_rows)
                if size > LARGEST_PART:
                    raise QueryError(
                        f"a subquery returns more than {LARGEST_PART >> 20} MiB; select fewer rows or columns in the "
                        "subquery, or use SELECT DISTINCT.",
                        code="subquery-too-large",
                        fields={"limit": LARGEST_PART},
                    )
            return pa.Table.from_batches(batches, reader.schema)

    @property
    def longest_text(self) -> int:
        """The length in bytes of the longest string in any table. The length is computed once for the release."""
        if "longest" not in self.cache:
            values = [part for value in self.manifest.domain for part in split_value(value)]
            values += [group for level in self.manifest.upper_levels.values() for group in dict.fromkeys(level)]  # type: ignore[misc]
            self.cache["longest"] = max(
                self._measure_longest_text(TABLE), *(len(display(value).encode()) for value in values)
            )
        return max(int(self.cache["longest"]), *map(self._measure_longest_text, self.attached_tables), 0)

    def _measure_longest_text(self, table: str) -> int:
        kinds = self.describe_columns(f"SELECT * FROM {quote_name(table)}")
        texts = [f"MAX(STRLEN({quote_name(name)}))" for name, kind in kinds.items() if kind == "VARCHAR"]
        (lengths,) = self.fetch_rows(f"SELECT 0, {', '.join(texts)} FROM {quote_name(table)}" if texts else "SELECT 0")
        return max(length or 0 for length in lengths)

    def describe_columns(self, sql: str) -> dict[str, str]:
        """The columns of a statement and their types, without running it."""
        with self.explain_errors():
            relation = self.connection.sql(sql)
            return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def register(self, name: str, table: pa.Table) -> None:
        """Makes a table available to statements under a name."""
        self.connection.register(name, table)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turns errors of DuckDB and Arrow into sentences for the analyst."""
        try:
            self.clock.check()
            yield
        except (duckdb.Error, OSError, pa.ArrowException, MemoryError) as error:
            # Arrow's reader passes on errors of DuckDB as text only.
            message, limits = (str(error).splitlines() or ["no memory is left"])[0], self.clock.limits
            if isinstance(error, duckdb.InterruptException) or self.clock.seconds_left <= 0:
                raise limits.timeout_error from error
            if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or OUT_OF_MEMORY in message:
                raise limits.memory_error from error
            raise explain_error(message) from error
        except UnicodeDecodeError as error:  # the message of DuckDB would quote the bytes of an invalid string
            message = "the release contains an invalid string; get it again from its publisher."
            raise ReleaseFormatError(message, code="invalid-string") from error


@dataclass(frozen=True)
class OpenRelease:
    """A release that is open for questions.

    It keeps its connections, because opening a connection takes as long as many counts.
    """

    manifest: Manifest
    folder: Path
    _connections: dict[str, duckdb.DuckDBPyConnection] = field(default_factory=dict, repr=False)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @contextmanager
    def open_session(
        self, attached: Mapping[str, pa.Table] | None = None, clock: Clock | None = None
    ) -> Iterator[Session]:
        """Opens a session for one question, with its own cursor and its own tables."""
        clock, tables = clock or Clock(), {name.lower(): table for name, table in (attached or {}).items()}
        limits = clock.limits
        with self._lock:
            if limits.memory not in self._connections:
                self._connections[limits.memory] = open_connection(self.manifest, self.folder, limits)
            cursor = self._connections[limits.memory].cursor()
        with cursor as connection:
            for name, table in tables.items():
                connection.register(name, table)
            session = Session(self.manifest, self.folder, connection, tables, clock, cache=self._cache)
            with _stop_on_timeout(session):
                yield session


def open_connection(manifest: Manifest, folder: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """Opens a connection that can read the data files of the release and nothing else."""
    encoding, data = manifest.encoding, manifest.list_data_paths(folder)
    connection = duckdb.connect(
        config={
            "memory_limit": limits.memory,
            "temp_directory": "",  # a query that exceeds the memory fails instead of writing data to disk
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    records = _write_list(data)
    allowed_files = [*data, *(folder / name for name in encoding.list_query_files())]
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")  # otherwise the analyst's time zone would change the counts
        connection.execute(f"SET allowed_paths = {_write_list(allowed_files)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        for statement in encoding.write_query_tables(
            manifest.naming, manifest.public_columns, f"read_parquet({records})", folder
        ):
            connection.execute(statement)
    except (
        duckdb.Error,
        UnicodeDecodeError,
    ) as error:  # the message of DuckDB would quote the bytes of an invalid name
        connection.close()
        raise ReleaseFormatError(
            f"{data[0].name} cannot be read; get the release again from its publisher.",
            code="damaged-file",
            fields={"file": data[0].name},
        ) from error
    return connection


def _write_list(paths: Sequence[Path]) -> str:
    """SQL of a list of files."""
    return f"[{', '.join(quote_text(str(path.resolve())) for path in paths)}]"


@contextmanager
def _stop_on_timeout(session: Session) -> Iterator[None]:
    """Interrupts the running statement once the time limit is reached. Later statements are interrupted too."""
    is_done = threading.Event()

    def stop() -> None:
        seconds_left = session.clock.seconds_left
        while not is_done.wait(max(seconds_left, RETRY_SECONDS)):
            session.connection.interrupt()
            seconds_left = 0.0

    watch = threading.Thread(target=stop, daemon=True)
    watch.start()
    try:
        yield
    finally:
        is_done.set()
        watch.join()
