"""Reads a table or a view of a DuckDB file. It is opened read-only, without extensions or access to other files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from sfumato._core.object_store import File
from sfumato._readers import tables_in_files
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato.errors import SourceError

READ_ONLY_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",  # a view could read other files or send network requests
}
TEXT_TYPES = ("UUID", "TIME", "TIMETZ", "TIME WITH TIME ZONE", "INTERVAL", "BIT")
"""Types that may identify persons and have no plain Arrow type."""
TABLE_NAMES_SQL = """
SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal AND database_name = current_database()
UNION ALL
SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal AND database_name = current_database()
ORDER BY ALL
"""
BATCH_ROWS = 1 << 16


def open_duckdb(opening: Opening) -> MemorySource:
    """Keep the rows of one table or view."""
    with open_rows(opening.file, opening.part) as rows:
        return opening.keep(rows)


@contextmanager
def open_rows(file: File, part: str | None) -> Iterator[pa.RecordBatchReader]:
    """The rows of a table, in the order of the file."""
    import duckdb  # noqa: PLC0415 - slow to load, and every command lists the readers

    try:
        with duckdb.connect(str(file), read_only=True, config=READ_ONLY_CONFIG) as database:
            names_by_label = {
                _format_table_name(*names): names for names in database.execute(TABLE_NAMES_SQL).fetchall()
            }
            table = ".".join(
                map(
                    _quote_name,
                    names_by_label[tables_in_files.choose_table(file.name, part, list(names_by_label), "table")],
                )
            )
            columns = database.execute(f"DESCRIBE SELECT * FROM {table}").fetchall()
            select_list = ", ".join(_write_column_sql(name, kind) for name, kind, *_ in columns)
            yield database.sql(f"SELECT {select_list} FROM {table}").to_arrow_reader(BATCH_ROWS)
    except duckdb.PermissionException as error:
        raise SourceError(
            f"{file.name!r} has a view that reads other files; store it as a table first.",
            code="view-of-files",
            fields={"file": file.name},
        ) from error
    except duckdb.Error as error:
        is_open = " lock " in str(error)
        why = "another program has it open" if is_open else "it is damaged, or of a newer version"
        raise SourceError(
            f"{file.name!r} cannot be read as a DuckDB file: {why}.",
            code="file-in-use" if is_open else "damaged-file",
            fields={"file": file.name},
        ) from None


def _format_table_name(schema: str, name: str) -> str:
    return name if schema == "main" else f"{schema}.{name}"


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _write_column_sql(name: str, kind: str) -> str:
    quoted = _quote_name(name)
    return f"CAST({quoted} AS VARCHAR) AS {quoted}" if kind in TEXT_TYPES else quoted


READER = TableReader(
    name="DuckDB",
    example="file.duckdb::TABLE",
    open=open_duckdb,
    endings=(".duckdb",),
    part_kind="table",
)
