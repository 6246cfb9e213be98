"""Names for the array types that modules exchange, one meaning each."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BLOCK_ROWS = 1 << 17
"""The number of rows that a series of steps processes at a time. Their data stay near a core. Smaller blocks would make
threads wait for each other too often: with a tenth of this size, two threads are no faster than one."""

Array = npt.NDArray[np.generic]
"""An array of any type."""

WholeNumbers = npt.NDArray[np.integer[Any]]
"""Signed or unsigned integers of any width."""

Codes = WholeNumbers
"""Indices of values in their domain, in the narrowest unsigned type that holds them."""

UInts = WholeNumbers
"""Integers from 0, of any width: slots, ranks, ids."""

Bits64 = npt.NDArray[np.uint64]
"""Random or packed bits, 64 at a time."""

Bytes = npt.NDArray[np.uint8]
"""Packed bits, eight at a time: a set of values for each record."""

Indices = npt.NDArray[np.int64]
"""Indices: of values in a domain, of entries in sub-tables, of rows in a table."""

# Former names, in modules that still use them.
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
