"""Names the array types that modules exchange. Each name has one meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_ROWS = 1 << 17
"""The number of rows in a block. All steps of a computation process one block before the next block.

Its data fit into the cache of a processor core. With smaller blocks, threads would wait for each other too often. At a
tenth of this size, two threads are no faster than one thread.
"""

Array = npt.NDArray[np.generic]
"""An array of any type."""

WholeNumbers = npt.NDArray[np.integer[Any]]
"""Signed or unsigned integers of any width."""

Codes = WholeNumbers
"""Indices of values in their domain, in the narrowest unsigned type that holds them."""

UInts = WholeNumbers
"""Integers from 0 upwards, of any width, such as slots, ranks and ids."""

Bits64 = npt.NDArray[np.uint64]
"""Random or packed bits, 64 at a time."""

Bytes = npt.NDArray[np.uint8]
"""Packed bits, eight at a time. For each record, these bits hold a set of values."""

Indices = npt.NDArray[np.int64]
"""Indices of values in a domain, of entries in sub-tables, or of rows in a table."""

# Older names, which some modules still use.
Numbers = UInts
RandomBits = Bits64
Places = Indices

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Amounts = Counts | Floats
"""Counts of records, or sums of a number over the counted records."""

Mask = npt.NDArray[np.bool_]

UIntType = np.dtype[np.unsignedinteger[Any]]
"""The type of unsigned integers of some width."""
