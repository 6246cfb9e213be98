"""The types in public signatures, for annotations in code that uses sfumato."""

from __future__ import annotations

from sfumato._core.cell_values import Value
from sfumato._core.exact_numbers import Exact
from sfumato._core.json_types import Json
from sfumato._core.option_fields import OptionValues
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Progress
from sfumato._readers.reader import AnyTable

__all__ = ["AnyTable", "Draws", "Exact", "Json", "OptionValues", "Progress", "Value"]
