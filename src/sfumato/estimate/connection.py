"""The connection that counts: it can read the data of the release and nothing more, for a limited time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate.limits import Limits
from sfumato.release.manifest import Manifest
from sfumato.shown.quoting import RECORDS, TABLE, quoted

BATCH_ROWS = 1 << 17
MOMENT = 0.05
"""How long to wait before stopping once more what did not stop."""


@dataclass
class Session:
    """A connection to one release, with the tables of the analyst beside it."""

    manifest: Manifest
    folder: Path
    connection: duckdb.DuckDBPyConnection
    attached: Mapping[str, pa.Table] = field(default_factory=dict)
    """By their names in small letters."""
    limits: Limits = field(default_factory=Limits)
    parts: list[pa.Table] = field(default_factory=list)
    """What subqueries gave."""
    kept: dict[str, Any] = field(default_factory=dict)
    """What was worked out of the whole release, for all questions to it."""
    stops_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.stops_at = time.monotonic() + self.limits.seconds

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows of a statement, as Python values."""
        table = self.table(sql)
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def table(self, sql: str) -> pa.Table:
        """All rows of a statement."""
        with self._complaining():
            return self.connection.sql(sql).to_arrow_table()

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """The rows of a statement, some at a time."""
        with self._complaining():
            yield from self.connection.sql(sql).to_arrow_reader(BATCH_ROWS)

    def columns(self, sql: str) -> dict[str, str]:
        """The columns that a statement would have, and their types; nothing is run."""
        with self._complaining():
            relation = self.connection.sql(sql)
            return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def register(self, name: str, table: pa.Table) -> None:
        """Let statements read a table under a name."""
        self.connection.register(name, table)

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            if time.monotonic() >= self.stops_at:
                raise duckdb.InterruptException("time is over")
            yield
        except duckdb.InterruptException as error:
            raise QueryError(
                f"the question takes longer than {self.limits.seconds:g} seconds; allow it more (--timeout), or ask "
                "for fewer groups."
            ) from error
        except duckdb.OutOfMemoryException as error:
            raise QueryError(
                f"the question takes more memory than {self.limits.memory}; group by fewer or coarser columns."
            ) from error
        except duckdb.Error as error:
            said = str(error).splitlines()[0]
            raise QueryError(
                f"the query does not fit the columns of the release ({said}); info shows their types."
            ) from error
        except UnicodeDecodeError as error:  # DuckDB quotes the bytes of a text that is none
            said = "the release holds a text that is none; get it again from its publisher."
            raise ReleaseFormatError(said) from error


@dataclass(frozen=True)
class OpenRelease:
    """A release that is open for questions: making a connection takes as long as many a count, so they are kept."""

    manifest: Manifest
    folder: Path
    _connections: dict[str, duckdb.DuckDBPyConnection] = field(default_factory=dict, repr=False)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    @contextmanager
    def session(
        self, attached: Mapping[str, pa.Table] | None = None, limits: Limits | None = None
    ) -> Iterator[Session]:
        """A session for one question: a cursor of its own, with its own tables."""
        limits, tables = limits or Limits(), {name.lower(): table for name, table in (attached or {}).items()}
        with self._lock:
            if limits.memory not in self._connections:
                data = self.folder / self.manifest.data
                self._connections[limits.memory] = connected(data, self.manifest.public, limits)
            cursor = self._connections[limits.memory].cursor()
        with cursor as connection:
            for name, table in tables.items():
                connection.register(name, table)
            session = Session(self.manifest, self.folder, connection, tables, limits, kept=self._kept)
            with _stopping(session):
                yield session


def connected(data: Path, public: tuple[str, ...], limits: Limits) -> duckdb.DuckDBPyConnection:
    """A connection that can read the data file of the release, and nothing else."""
    connection = duckdb.connect(
        config={
            "memory_limit": limits.memory,
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
        connection.execute(f"CREATE VIEW {RECORDS} AS SELECT * FROM read_parquet('{path}')")
        shown = ", ".join(map(quoted, public))
        connection.execute(f"CREATE VIEW {TABLE} AS SELECT {shown} FROM {RECORDS}")
    except duckdb.Error as error:
        connection.close()
        raise ReleaseFormatError(f"{data.name} cannot be read; get the release again from its publisher.") from error
    return connection


@contextmanager
def _stopping(session: Session) -> Iterator[None]:
    """Stop the statement that runs when time is over, and every later one."""
    is_done = threading.Event()

    def stop() -> None:
        left = session.stops_at - time.monotonic()
        while not is_done.wait(max(left, MOMENT)):
            session.connection.interrupt()
            left = 0.0

    watch = threading.Thread(target=stop, daemon=True)
    watch.start()
    try:
        yield
    finally:
        is_done.set()
        watch.join()
