"""The arrays that pass between modules: one name, one meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_ROWS = 1 << 17
"""So many rows are worked on at a time, where several steps follow each other. What they need stays near a core; and
steps are long enough for threads, which wait for each other between them: of blocks of a tenth of that, two threads
together make no more than one."""

Array = npt.NDArray[np.generic]
"""An array of any type."""

WholeNumbers = npt.NDArray[np.integer[Any]]
"""Whole numbers of any width, with or without a sign."""

Codes = WholeNumbers
"""Indices of values in their domain, in the narrowest unsigned type that holds them."""

UInts = WholeNumbers
"""Whole numbers from 0 on, of any width: slots, ranks, ids."""

Bits64 = npt.NDArray[np.uint64]
"""Random or packed bits, 64 at a time."""

Bytes = npt.NDArray[np.uint8]
"""Packed bits, eight at a time: a set of values for each record."""

Indices = npt.NDArray[np.int64]
"""Positions: of values in a domain, of entries in cells, of rows in a table."""

# Former names, in modules that still have them.
Numbers = UInts
RandomBits = Bits64
Places = Indices

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Amounts = Counts | Floats
"""Counts of records, or sums of numbers of the counted records."""

Mask = npt.NDArray[np.bool_]

UIntType = np.dtype[np.unsignedinteger[Any]]
"""The type of unsigned integers of some width."""
