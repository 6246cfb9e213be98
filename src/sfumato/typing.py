"""Types that stand in public signatures, for annotations in code that uses sfumato."""

from __future__ import annotations

from sfumato._core.cell_values import Value
from sfumato._core.exact_numbers import Exact
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Progress

__all__ = ["Draws", "Exact", "Progress", "Value"]
