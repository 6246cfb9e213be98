"""The connection that counts: it can read the data of the release and nothing more, for a limited time."""

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
from sfumato._records.sql_quoting import RECORDS, TABLE, quote_name, quote_text
from sfumato._records.tally import ResultRow
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError, ReleaseFormatError

# What DuckDB says of a query that it cannot run, in sentences for whoever asked.

TYPES = "info shows the types of the columns"
UNFIT = f"the query cannot be run on the columns of the release as it is written; {TYPES}."
_KINDS = {
    "VARCHAR": "a text", "BOOLEAN": "a truth value", "DATE": "a date", "TIMESTAMP": "a time", "INTERVAL": "a time span",
}  # fmt: skip
_NUMBERS = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?(\d+)?|DOUBLE|FLOAT|DECIMAL.*|INTEGER_LITERAL")


def _describe_kind(name: str) -> str:
    """A type of DuckDB in plain words."""
    base = name.strip().strip("'\"")
    if _NUMBERS.fullmatch(base):
        return "a number"
    return next((label for kind, label in _KINDS.items() if base.startswith(kind)), "what it was given")


def _explain_conversion(match: re.Match[str]) -> str:
    return f"{match[1]!r} is not {_describe_kind(match[2])}, as what it stands beside; {TYPES}."


def _explain_function(match: re.Match[str]) -> str:
    kinds = " and ".join(dict.fromkeys(map(_describe_kind, match[2].split(",")))) if match[2].strip() else "nothing"
    return f"{match[1].upper()} has no meaning for {kinds}; {TYPES}."


def _explain_ungrouped(match: re.Match[str]) -> str:
    return f"{match[1]!r} is neither an aggregate nor a group; add it to GROUP BY, or aggregate it."


def _explain_column(match: re.Match[str]) -> str:
    return f"there is no column {match[1]!r}; info shows the columns."


def _explain_table(match: re.Match[str]) -> str:
    return f"there is no table {match[1]!r} in this part of the query."


_SENTENCES: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"Could not convert string '([^'\"]*)' to (\w+)", _explain_conversion),
    (r"(?:invalid|date) \w+ ?field format: \"([^\"]*)\"", lambda match: f"{match[1]!r} is no date; write 2026-01-31."),
    (r"argument types '(\w+)\((.*?)\)'", _explain_function),
    (r"column \"?([\w .]+?)\"? must appear in the GROUP BY", _explain_ungrouped),
    (r"Referenced column \"([^\"]+)\" not found", _explain_column),
    (r"Referenced table \"([^\"]+)\" not found", _explain_table),
    (
        r"Cannot (?:compare|mix) values? of type (\w+).* (?:and|to) (?:values? of )?(?:type )?(\w+)",
        lambda match: f"{_describe_kind(match[1])} and {_describe_kind(match[2])} cannot be compared; {TYPES}.",
    ),
    (r"[Mm]ore than one row returned by a subquery", lambda match: "a subquery in an expression must give one row."),
    (
        r"(?:Out of Range|Overflow)",
        lambda match: "a number of the query is too large, or outside of what its type holds.",
    ),
)


def explain_error(message: str) -> str:
    """One sentence for what DuckDB said."""
    for pattern, explain in _SENTENCES:
        match = re.search(pattern, message)
        if match is not None and "sfumato " not in match[0]:
            return explain(match)
    return UNFIT


# ---------------------------------------------------------------------------------------------------------------------

BATCH_ROWS = 1 << 17
RETRY_SECONDS = 0.05
"""How long to wait before stopping once more what did not stop."""
OUT_OF_MEMORY = "Out of Memory"
LARGEST_PART = 1 << 28
"""How many bytes a subquery may give that is kept as a table."""


@dataclass
class Session:
    """A connection to one release, with the tables of the analyst beside it."""

    manifest: Manifest
    folder: Path
    connection: duckdb.DuckDBPyConnection
    attached_tables: Mapping[str, pa.Table] = field(default_factory=dict)
    """By their names in small letters."""
    clock: Clock = field(default_factory=Clock)
    subquery_tables: list[pa.Table] = field(default_factory=list)
    """What subqueries gave."""
    cache: dict[str, Any] = field(default_factory=dict)
    """What was worked out of the whole release, for all questions to it."""
    absent_values: list[AbsentValue] = field(default_factory=list)
    """Values that the question names and that are not there."""

    def fetch_rows(self, sql: str) -> list[ResultRow]:
        """All rows of a statement, as Python values."""
        table = self.fetch_table(sql)
        try:
            return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        except ValueError as error:
            raise QueryError("an answer has times finer than a microsecond; cast them to TIMESTAMP.") from error

    def fetch_table(self, sql: str) -> pa.Table:
        """All rows of a statement."""
        with self.explain_errors():
            return self.connection.sql(sql).to_arrow_table()

    def fetch_batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a statement, some at a time."""
        with self.explain_errors():
            yield from self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)

    def fetch_cached_rows(self, sql: str) -> list[ResultRow]:
        """All rows of a statement about all records, which is run once for all questions."""
        if sql not in self.cache:
            self.cache[sql] = self.fetch_rows(sql)
        cached_rows: list[ResultRow] = self.cache[sql]
        return cached_rows

    def fetch_subquery(self, sql: str) -> pa.Table:
        """All rows of a subquery, which are kept: so there must not be too many."""
        with self.explain_errors():
            reader = self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)
            batches, size = [], 0
            for batch in reader:
                batches.append(batch)
                size += max(batch.nbytes, batch.num_rows)
                if size > LARGEST_PART:
                    raise QueryError(
                        f"a subquery gives more than {LARGEST_PART >> 20} MiB; select fewer rows or columns of it, or "
                        "SELECT DISTINCT."
                    )
            return pa.Table.from_batches(batches, reader.schema)

    @property
    def longest_text(self) -> int:
        """How many bytes the longest text of any table has; looked up once for the release."""
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
        """The columns that a statement would have, and their types; nothing is run."""
        with self.explain_errors():
            relation = self.connection.sql(sql)
            return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def register(self, name: str, table: pa.Table) -> None:
        """Let statements read a table under a name."""
        self.connection.register(name, table)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """What goes wrong becomes a sentence for whoever asked."""
        try:
            self.clock.check()
            yield
        except (duckdb.Error, OSError, pa.ArrowException, MemoryError) as error:
            # Through a reader of Arrow, DuckDB can only say what happened in words.
            message, limits = (str(error).splitlines() or ["no memory is left"])[0], self.clock.limits
            if isinstance(error, duckdb.InterruptException) or self.clock.seconds_left <= 0:
                raise limits.timeout_error from error
            if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or OUT_OF_MEMORY in message:
                raise limits.memory_error from error
            raise QueryError(explain_error(message)) from error
        except UnicodeDecodeError as error:  # DuckDB quotes the bytes of a text that is none
            message = "the release holds a text that is none; get it again from its publisher."
            raise ReleaseFormatError(message) from error


@dataclass(frozen=True)
class OpenRelease:
    """A release that is open for questions: making a connection takes as long as many a count, so they are kept."""

    manifest: Manifest
    folder: Path
    _connections: dict[str, duckdb.DuckDBPyConnection] = field(default_factory=dict, repr=False)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @contextmanager
    def open_session(
        self, attached: Mapping[str, pa.Table] | None = None, clock: Clock | None = None
    ) -> Iterator[Session]:
        """A session for one question: a cursor of its own, with its own tables."""
        clock, tables = clock or Clock(), {name.lower(): table for name, table in (attached or {}).items()}
        limits = clock.limits
        with self._lock:
            if limits.memory not in self._connections:
                paths = self.manifest.list_data_paths(self.folder)
                self._connections[limits.memory] = open_connection(paths, self.manifest.public_columns, limits)
            cursor = self._connections[limits.memory].cursor()
        with cursor as connection:
            for name, table in tables.items():
                connection.register(name, table)
            session = Session(self.manifest, self.folder, connection, tables, clock, cache=self._cache)
            with _stop_on_timeout(session):
                yield session


def open_connection(data: Sequence[Path], public: tuple[str, ...], limits: Limits) -> duckdb.DuckDBPyConnection:
    """A connection that can read the data files of the release, and nothing else."""
    connection = duckdb.connect(
        config={
            "memory_limit": limits.memory,
            "temp_directory": "",  # what does not fit is refused, and not left on somebody's disk
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
    )
    paths = ", ".join(quote_text(str(path.resolve())) for path in data)
    try:
        connection.execute("SET GLOBAL TimeZone = 'UTC'")  # else the clock of whoever asks would decide what is counted
        connection.execute(f"SET allowed_paths = [{paths}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        connection.execute(f"CREATE VIEW {RECORDS} AS SELECT * FROM read_parquet([{paths}])")
        public_columns = ", ".join(map(quote_name, public))
        connection.execute(f"CREATE VIEW {TABLE} AS SELECT {public_columns} FROM {RECORDS}")
    except (duckdb.Error, UnicodeDecodeError) as error:  # DuckDB quotes the bytes of a name that is none
        connection.close()
        raise ReleaseFormatError(f"{data[0].name} cannot be read; get the release again from its publisher.") from error
    return connection


@contextmanager
def _stop_on_timeout(session: Session) -> Iterator[None]:
    """Stop the statement that runs when time is over, and every later one."""
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
