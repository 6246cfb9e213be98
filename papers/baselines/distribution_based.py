"""Values drawn afresh: each record publishes a value of the table's own distribution, whatever its own value is.

The published values keep the distribution of the column, and nothing of how it goes with other columns. It is what a
better mechanism must beat: a count in a condition is taken as it is published.

Source: Fu, Wang, Wong, Wang and Jiang 2014, sections 3 and 6.2.3.3 (distribution-based randomization, DBR).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.array_types import Codes, Mask
from sfumato._core.random_draws import Draws
from sfumato.errors import SchemaError


def redraw(counts: Sequence[int], rows: int, draws: Draws, first_row: int = 0) -> Codes:
    """The published values of some rows, as places in the domain: place v with the exact chance counts[v] / total.

    A row draws one of all records, numbered value by value, and publishes its value.
    """
    ends = np.cumsum(np.array(counts, dtype=np.uint64))
    if not len(ends) or not ends[-1]:
        raise SchemaError("the table is empty: there is no value to draw.", code="empty-table")
    records = draws.get_stream("redrawn/records").draw_integers(first_row, rows, int(ends[-1]))
    return np.searchsorted(ends, records, side="right").astype(np.min_scalar_type(len(ends) - 1))


def count_published(published: Codes, is_selected: Mask, place: int) -> int:
    """The estimate of how many records of a condition hold a value: as many as publish it."""
    return int(np.count_nonzero(published[is_selected] == place))
