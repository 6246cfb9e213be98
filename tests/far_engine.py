"""An engine as a cluster would be: pieces are read where they are worked on, and everything that travels is pickled."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sfumato._engines.engine import Progress, Resources, TablePiece
from sfumato._engines.local_engine import ignore_progress
from sfumato._engines.shuffle import Bundle
from sfumato._readers.sources import Source

Thing = TypeVar("Thing")


def sent(thing: Thing) -> Thing:
    """What arrives elsewhere."""
    arrived: Thing = pickle.loads(pickle.dumps(thing))
    return arrived


@dataclass(frozen=True)
class FarEngine:
    """Works on pieces of about so many rows, and finishes the last part first."""

    piece_rows: int = 40
    memory: int = 0
    progress: Progress = ignore_progress

    def allot_resources(self, parts: int) -> Resources:
        return Resources(1, self.memory)

    def split_source(self, source: Source, columns: Sequence[str]) -> Iterator[TablePiece]:
        first = 0
        for piece in source.iter_pieces(self.piece_rows):
            yield TablePiece(first, piece)
            first += piece.rows or 0

    def map_items(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            yield sent(sent(work)(sent(item)))

    def shuffle(
        self,
        work: Callable[[Any], Iterable[Bundle]],
        items: Iterable[Any],
        finish: Callable[[int, Iterator[Bundle]], Iterator[Any]],
        parts: int,
        done: Callable[[int], None],
    ) -> Iterator[Any]:
        bundles: defaultdict[int, list[Bundle]] = defaultdict(list)
        for number, item in enumerate(items, 1):
            for bundle in sent(work)(sent(item)):
                bundles[bundle.file].append(sent(bundle))
            done(number)
        for part in reversed(range(parts)):
            yield from map(sent, sent(finish)(part, iter(bundles[part])))
