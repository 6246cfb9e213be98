"""The connection that counts: it can read the data of the release and nothing more, for a limited time."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.release.manifest import Manifest
from sfumato.shown.quoting import TABLE, quoted

RECORDS = quoted("sfumato records")
"""All columns of the release; what is called `release` has only the public ones."""
BATCH_ROWS = 1 << 17
DEFAULT_SECONDS = 60.0
DEFAULT_MEMORY = "1GB"
MOMENT = 0.05
"""How long to wait before stopping once more what did not stop."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much memory one question may take."""

    seconds: float = DEFAULT_SECONDS
    memory: str = DEFAULT_MEMORY


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


@contextmanager
def opened(
    manifest: Manifest, folder: Path, attached: Mapping[str, pa.Table] | None = None, limits: Limits | None = None
) -> Iterator[Session]:
    """Open a release for one question."""
    tables = {name.lower(): table for name, table in (attached or {}).items()}
    with _connection(manifest, folder, limits or Limits()).cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        session = Session(manifest, folder, connection, tables, limits or Limits())
        with _stopping(session):
            yield session


_open: dict[tuple[int, Path, str], duckdb.DuckDBPyConnection] = {}
"""The connections of releases that are still in use: making one takes as long as many a count."""


_opening = threading.Lock()


def _connection(manifest: Manifest, folder: Path, limits: Limits) -> duckdb.DuckDBPyConnection:
    """The connection of a release, made once; each question gets a cursor of its own, with its own tables."""
    key = (id(manifest), folder, limits.memory)
    with _opening:
        if key not in _open:
            _open[key] = connected(folder / manifest.data, manifest.public, limits)
            weakref.finalize(manifest, _closed, key)
        return _open[key]


def _closed(key: tuple[int, Path, str]) -> None:
    _open.pop(key).close()


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
