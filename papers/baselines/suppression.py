"""Records of values that are too frequent are left out, until Anatomy can be made: a step of experiments alone.

Nobody can publish so with sfumato: whoever is missing had one of those values, and all counts of them are too small by
an amount that no error bar tells.

Source: Chaytor and Wang, "Small domain randomization", section 6.3.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato._core.array_types import Codes, Mask
from sfumato.errors import InfeasibleError, SpecError


def compute_kept_counts(counts: Sequence[int], diversity: int) -> tuple[int, ...]:
    """The most records of each value that leave none above one in so many: the largest counts are cut to one height.

    With the height h and the rest r of smaller counts, h * diversity <= r + h * (the values cut); the largest such h.
    """
    if diversity < 1:
        raise SpecError(
            f"a diversity is 1 or more, and not {diversity}.",
            code="diversity-out-of-range",
            fields={"given": diversity},
        )
    low, high = 0, max(counts, default=0)
    while low < high:
        height = (low + high + 1) // 2
        total = sum(min(count, height) for count in counts)
        low, high = (height, high) if height * diversity <= total else (low, height - 1)
    if not low:
        raise InfeasibleError(
            f"there are fewer than {diversity} values: nothing that is left out would help.",
            code="too-few-values",
            fields={"diversity": diversity},
        )
    return tuple(min(count, low) for count in counts)


def select_remaining(codes: Codes, diversity: int, generator: np.random.Generator) -> Mask:
    """Which records stay; of values that are cut, a random choice."""
    counts = np.bincount(codes)
    is_kept = np.zeros(len(codes), dtype=np.bool_)
    for place, kept_count in enumerate(compute_kept_counts(counts.tolist(), diversity)):
        value_rows = np.flatnonzero(codes == place)
        is_kept[
            value_rows if kept_count == len(value_rows) else generator.choice(value_rows, kept_count, replace=False)
        ] = True
    return is_kept
