"""How a page carries numbers: arrays one after the other, compressed, in letters; a browser undoes it by itself."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._core.arrays import Codes
from sfumato._records.column_codes import find_smallest_type

ALIGNMENT = 8
"""A browser looks at numbers only where they begin at a multiple of their size."""


def pack_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[str, dict[str, tuple[str, int, int]]]:
    """The arrays as letters; and of each its kind, where it begins, and how many numbers it has."""
    places: dict[str, tuple[str, int, int]] = {}
    parts, start = [], 0
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array, dtype=_choose_number_type(array)).ravel()
        places[name] = (plain.dtype.str[1:], start, len(plain))
        array_bytes = plain.tobytes()
        parts.append(array_bytes + b"\0" * (-len(array_bytes) % ALIGNMENT))
        start += len(parts[-1])
    return base64.b64encode(zlib.compress(b"".join(parts), 9)).decode("ascii"), places


def _choose_number_type(array: npt.NDArray[Any]) -> np.dtype[Any]:
    """The smallest kind of numbers that a browser has for an array; the low byte first, as browsers have it."""
    if array.dtype.kind == "f":
        return np.dtype("<f8")
    if array.size and array.min() < 0:
        return np.dtype("<i4")
    return np.dtype(find_smallest_type(int(array.max(initial=0)))).newbyteorder("<")


def make_bit_maps(members: Codes) -> npt.NDArray[np.uint8]:
    """For each member a map of all records, a bit each, from a row of zeros and ones for each record."""
    return np.packbits(members.T, axis=1)
