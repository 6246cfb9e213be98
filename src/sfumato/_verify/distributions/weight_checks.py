"""Checks that the lines of the weights have the expected values and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from sfumato._core.cell_values import split_value
from sfumato._verify.distributions.reference_distribution import WeightTable
from sfumato._verify.manifest_view import ManifestView

TOLERANCE = 1e-9


def are_close(weight_rows: Iterable[tuple[float, ...]], expected: Sequence[tuple[float, ...]]) -> bool:
    """Whether each line has the expected numbers."""
    rows = np.array(list(weight_rows), dtype=np.float64)
    return rows.shape == np.shape(expected) and bool(np.allclose(rows, expected, rtol=TOLERANCE, atol=TOLERANCE))


def are_values(view: ManifestView, table: WeightTable, expected: Mapping[str, Iterable[int]]) -> bool:
    """Whether the columns of values have the values at the expected indices. A compound has a column for each part."""
    for name, places in expected.items():
        values = [split_value(view.domain[place]) for place in places]
        for number, part in enumerate(view.sensitive_names):
            column = name if len(view.sensitive_names) == 1 else f"{name} {part}"
            if table[column] != [value[number] for value in values]:
                return False
    return True
