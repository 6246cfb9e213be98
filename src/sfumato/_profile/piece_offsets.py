"""Where a piece of a table stands: how many records there are before it, and of each value how many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Counts, Numbers
from sfumato._request.histogram import compute_margins


@dataclass(frozen=True)
class PieceCounts:
    """What was counted in one piece: its records, and how many of them hold each value."""

    rows: int
    counts: Numbers
    """In the narrowest type, because there may be many pieces and many values."""


@dataclass(frozen=True)
class PieceOffset:
    """Where a piece stands, and how far it goes."""

    first_row: int
    rows: int
    ranks_before: Counts | None = None
    """How many records of each value are before it; of each column after the other, where several are ranked."""
    ranks_after: Counts | None = None


def compute_offsets(pieces: Iterable[PieceCounts], ranked_sizes: Sequence[int]) -> Iterator[PieceOffset]:
    """Add up the pieces in their order; records are ranked by the values of columns of these sizes, if by any."""
    first_row, before = 0, np.zeros(sum(ranked_sizes), dtype=np.int64)
    for piece in pieces:
        if not ranked_sizes:
            yield PieceOffset(first_row, piece.rows)
        else:
            after = before + np.concatenate(compute_margins(piece.counts.astype(np.int64), ranked_sizes))
            yield PieceOffset(first_row, piece.rows, before, after)
            before = after
        first_row += piece.rows
