"""Opens tables that are objects in Python: pandas, polars, Arrow tables and Arrow streams."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato.errors import SourceError


def is_from(library: str, table: object) -> bool:
    """Whether an object belongs to a library, without loading it."""
    return type(table).__module__.split(".")[0] == library


def is_pandas(table: object) -> bool:
    """Whether an object is a pandas frame."""
    return is_from("pandas", table)


def is_polars(table: object) -> bool:
    """Whether an object is a frame of polars, lazy or not."""
    return is_from("polars", table) and (hasattr(table, "collect") or is_stream(table))


def is_arrow_table(table: object) -> bool:
    """Whether an object is an Arrow table."""
    return isinstance(table, pa.Table)


def is_stream(table: object) -> bool:
    """Whether an object gives an Arrow stream."""
    return hasattr(table, "__arrow_c_stream__")


def open_pandas(opening: Opening) -> MemorySource:
    """Copy a pandas frame. Its index does not become a column."""
    return MemorySource.from_pandas(opening.table)


def open_polars(opening: Opening) -> MemorySource:
    """Keep the rows of a frame. A lazy frame is computed once."""
    frame = opening.table
    return opening.keep(_collect(frame) if hasattr(frame, "collect") else frame)


def open_arrow_table(opening: Opening) -> MemorySource:
    """Use an Arrow table unchanged."""
    return MemorySource(opening.table)


def open_stream(opening: Opening) -> MemorySource:
    """Keep the rows of an Arrow stream, which can be read only once."""
    return opening.keep(opening.table)


def _collect(lazy: Any) -> Any:
    try:
        return lazy.collect()
    except Exception as error:  # errors of polars have no narrower common class, and their messages may repeat values
        raise SourceError(
            f"polars cannot compute the lazy frame ({type(error).__name__}); collect it first.",
            code="uncomputable-frame",
            fields={"frame": "polars"},
        ) from None


PANDAS = TableReader(
    name="pandas",
    example="a DataFrame",
    open=open_pandas,
    is_own=is_pandas,
    extra="pandas",
)


POLARS = TableReader(
    name="polars",
    example="a DataFrame or a LazyFrame",
    open=open_polars,
    is_own=is_polars,
    extra="polars",
)


ARROW_TABLE = TableReader(
    name="Arrow table",
    example="a pyarrow.Table",
    open=open_arrow_table,
    is_own=is_arrow_table,
)


ARROW_STREAM = TableReader(
    name="Arrow stream",
    example="an object with `__arrow_c_stream__`",
    open=open_stream,
    is_own=is_stream,
)
