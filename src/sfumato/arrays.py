"""The arrays that pass between modules: one name, one meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_ROWS = 1 << 17
"""So many rows are worked on at a time, where several steps follow each other. What they need stays near a core; and
steps are long enough for threads, which wait for each other between them: of blocks of a tenth of that, two threads
together make no more than one."""

Codes = npt.NDArray[Any]
"""Numbers of values in the order of their domain, in the narrowest unsigned type."""

Numbers = npt.NDArray[Any]
"""Whole numbers from 0 on, in any unsigned type: slots, ranks, ids."""

Words = npt.NDArray[np.uint64]
"""Random or packed bits, 64 at a time."""

Places = npt.NDArray[np.int64]
"""Where things stand: values in a domain, entries of cells, rows of a table."""

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Amounts = Counts | Floats
"""Counts of records, or sums of numbers of the counted records."""

Mask = npt.NDArray[np.bool_]
