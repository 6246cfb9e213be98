"""Lists all readers. Recognition of tables, help, messages and documentation follow from this list."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._core.object_store import File
from sfumato._readers import (
    arrow_files,
    csv_files,
    duckdb_files,
    excel_files,
    json_lines,
    parquet_files,
    postgres_tables,
    python_frames,
    spark_frames,
    statistics_files,
)
from sfumato._readers.compressed_files import COMPRESSIONS, find_ending
from sfumato._readers.reader import AnyTable, TableReader
from sfumato.errors import SourceError

READERS: dict[str, TableReader] = {
    reader.name: reader
    for reader in (
        csv_files.READER,
        parquet_files.READER,
        arrow_files.READER,
        json_lines.READER,
        excel_files.READER,
        duckdb_files.READER,
        statistics_files.SPSS_READER,
        statistics_files.STATA_READER,
        statistics_files.SAS_READER,
        statistics_files.SAS_TRANSPORT_READER,
        postgres_tables.READER,
        spark_frames.READER,
        python_frames.PANDAS,
        python_frames.POLARS,
        python_frames.ARROW_TABLE,
        python_frames.ARROW_STREAM,  # last, because pandas and polars frames can also give streams
    )
}
"""All readers by name. Objects and addresses are matched in this order."""


def find_reader_of_file(file: File) -> TableReader | None:
    """Finds the reader of a file by the file's name alone. None if there is no reader."""
    is_packed = file.suffix.lower() in COMPRESSIONS
    kind = find_ending(file)
    file_reader = next((reader for reader in READERS.values() if kind in reader.endings), None)
    return None if is_packed and file_reader is not None and not file_reader.reads_compressed else file_reader


def find_reader_of_address(name: str) -> TableReader | None:
    """Finds the reader of an address that is not a file, by its form alone."""
    readers = (reader for reader in READERS.values() if reader.address_pattern is not None)
    return next(
        (reader for reader in readers if reader.address_pattern is not None and reader.address_pattern.match(name)),
        None,
    )


def find_reader_of_object(table: AnyTable) -> TableReader:
    """Finds the reader of an object."""
    for reader in READERS.values():
        if reader.is_own is not None and reader.is_own(table):
            return reader
    raise SourceError(
        f"a table of type {type(table).__name__!r} cannot be read; give a path, a pandas or Spark frame, or an "
        "object with an Arrow stream (pyarrow, polars, DuckDB).",
        code="unknown-table-type",
        fields={"type": type(table).__name__},
    )


def find_reader_of_beginning(content: bytes) -> TableReader:
    """Finds the reader of standard input by the first bytes. The longest match counts."""
    matches = [(mark, reader) for reader in READERS.values() for mark in reader.beginnings if content.startswith(mark)]
    return max(matches, key=lambda match: len(match[0]))[1]


def hide_secrets(name: str) -> str:
    """Writes the name of a table without the password that its address may contain."""
    reader = find_reader_of_address(name)
    return name if reader is None else reader.hide_secrets(name)


# ---------------------------------------------------------------------------------------------------------- for people


def join_words(items: Sequence[str]) -> str:
    """Joins words by commas, with `or` before the last word."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"


def describe_several() -> str:
    """Names the kinds of tables that may consist of several files."""
    return join_words([reader.name for reader in READERS.values() if reader.takes_several])


def describe_endings() -> str:
    """Lists the endings of files that are read."""
    return join_words([suffix for reader in READERS.values() for suffix in reader.endings])


def describe_tables() -> str:
    """Describes in one sentence, without its full stop, which tables the command line accepts."""
    readers = READERS.values()
    single_kinds = [
        reader.name for reader in readers if reader.endings and not (reader.takes_several or reader.part_kind)
    ]
    other = ", ".join(reader.example for reader in readers if reader.part_kind or reader.address_pattern is not None)
    one = f"one {join_words(single_kinds)} file; " if single_kinds else ""
    return (
        f"A {describe_several()} file, or several as a quoted glob or a directory, on this machine or in a store "
        f"(s3://...); {one}{other}; - for standard input"
    )
