"""A reader that src does not know: archives of NumPy, an array for each column."""

from __future__ import annotations

from zipfile import BadZipFile

import numpy as np
import pyarrow as pa

from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.sources import MemorySource
from sfumato.errors import SourceError


def open_archive(opening: Opening) -> MemorySource:
    """Read the arrays of an archive as columns; nothing in it is run."""
    try:
        with opening.file.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return MemorySource(pa.table({name: arrays[name] for name in arrays.files}))
    except (OSError, ValueError, BadZipFile, pa.ArrowException):
        raise SourceError(f"{opening.file.name!r} is not a whole archive of NumPy; write it again.") from None


READER = TableReader(name="NumPy", example="people.npz", open=open_archive, endings=(".npz",))
