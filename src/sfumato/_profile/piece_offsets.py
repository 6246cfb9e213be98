"""Computes the positions of the pieces of a table: the number of records before each piece, in total and by value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Counts, Numbers
from sfumato._request.histogram import compute_margins


@dataclass(frozen=True)
class PieceCounts:
    """The number of records in one piece, in total and by value."""

    rows: int
    counts: Numbers
    """The counts by value. Their type is the narrowest, because there may be many pieces and many values."""


@dataclass(frozen=True)
class PieceOffset:
    """The position of a piece: its first record and its size."""

    first_row: int
    rows: int
    ranks_before: Counts | None = None
    """The number of records of each value before the piece, for one ranked column after another."""
    ranks_after: Counts | None = None


def compute_offsets(pieces: Iterable[PieceCounts], ranked_sizes: Sequence[int]) -> Iterator[PieceOffset]:
    """Add up the pieces in order. Records are ranked by the values of some columns, if their domain sizes are given."""
    first_row, before = 0, np.zeros(sum(ranked_sizes), dtype=np.int64)
    for piece in pieces:
        if not ranked_sizes:
            yield PieceOffset(first_row, piece.rows)
        else:
            after = before + np.concatenate(compute_margins(piece.counts.astype(np.int64), ranked_sizes))
            yield PieceOffset(first_row, piece.rows, before, after)
            before = after
        first_row += piece.rows
