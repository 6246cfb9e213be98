"""Answers as tables for other tools: Arrow, pandas, polars, and whatever reads an Arrow stream, such as DuckDB."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from typing import Any

import pyarrow as pa

from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato.errors import MissingExtraError


class Tabular(ABC):
    """What can be read as a table, with `n`, `n_se`, `n_low` and `n_high` for each number `n`."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """As a table of Arrow."""

    def to_pandas(self, level: float = DEFAULT_LEVEL) -> Any:
        """As a pandas frame."""
        _import_package("pandas")
        return self.to_arrow(level).to_pandas()

    def to_polars(self, level: float = DEFAULT_LEVEL) -> Any:
        """As a polars frame."""
        return _import_package("polars").from_arrow(self.to_arrow(level))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What tools ask for that read Arrow: intervals are at the usual level."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _import_package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is not installed; install it (pip install 'sfumato[{name}]'), or use to_arrow()."
        ) from error
