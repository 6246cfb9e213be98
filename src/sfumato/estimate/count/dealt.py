"""Many counts in a release of buckets: the records are sorted by their bucket, and counted bucket by bucket.

Buckets that hold the same values are alike: what an estimate needs of them is how many selected records they have
together. Only the certain bounds of a count, and the variance of the `uniform` method, need each bucket by itself; and
of these only the buckets that hold a wanted value.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.errors import ReleaseFormatError
from sfumato.estimate.count import bitmaps, cubes
from sfumato.estimate.count.blocks import Block, blocks
from sfumato.estimate.count.scan import read_holdings
from sfumato.estimate.count.workload import Asked
from sfumato.mechanisms.buckets import estimation
from sfumato.mechanisms.coins.methods import Method
from sfumato.mechanisms.coins.operators import Places
from sfumato.release.manifest import Manifest
from sfumato.shown.tally import Codes, Counts, Floats, Holdings, ManyMoments, Tally


def estimated(asked: Asked, manifest: Manifest, folder: Path, schema: pa.Schema, method: Method) -> ManyMoments:
    """The moments of all queries."""
    holdings = read_holdings(manifest, folder)
    records = _records(asked, manifest, folder / manifest.data, schema)
    _check(holdings, records.shown)
    kinds = _Kinds.of(holdings)
    counts = _tallied(asked, replace(records, shown=kinds.kind_of[records.shown]), len(kinds.example))
    rows = counts.sum(axis=1)
    found = ManyMoments.unfilled(len(asked.where_of))
    inverse = _Inverse(holdings, kinds) if method is estimation.INVERSE else None
    for number, places in enumerate(asked.sets):
        group = np.flatnonzero(asked.set_of == number)
        wheres = asked.where_of[group]
        if places is None:
            found.put(group, ManyMoments.exact(rows[wheres].astype(np.float64)))
            continue
        part = _Part.of(holdings, records, places)
        if inverse is not None:
            found.put(group, inverse.estimated(asked, part, counts[wheres], wheres, places))
            continue
        tallies = (Tally(part.everywhere(asked, where), int(rows[where]), None, holdings) for where in wheres.tolist())
        each = [method.reconstruct(manifest.design, tally, [places])[0] for tally in tallies]
        found.put(group, ManyMoments.of(each))
    return found


def _records(asked: Asked, manifest: Manifest, path: Path, schema: pa.Schema) -> Block:
    """All records in one block: a bucket may have records anywhere."""
    read = list(blocks(asked, manifest, path, schema))
    if not read:
        raise _unlike()
    return Block(
        sum(block.rows for block in read),
        [np.concatenate([block.codes[number] for block in read]) for number in range(len(asked.columns))],
        {number: np.concatenate([block.ranges[number] for block in read]) for number in read[0].ranges},
        np.concatenate([block.shown for block in read]),
    )


def _check(holdings: Holdings, ids: Codes) -> None:
    """The buckets must hold as much as there are records in them."""
    buckets, counts = holdings.buckets, holdings.counts
    fits = len(ids) and len(buckets) and buckets.min() >= 0 and counts.min() >= 1 and ids.min() >= 0
    if not fits or max(buckets.max(), ids.max()) >= len(ids):
        raise _unlike()
    if not np.array_equal(holdings.sizes, np.bincount(ids)):
        raise _unlike()


def _unlike() -> ReleaseFormatError:
    return ReleaseFormatError(
        "the records and the buckets do not fit together; get the release again from its publisher."
    )


def _tallied(asked: Asked, block: Block, size: int) -> Counts:
    """How many records of each combination are in buckets of each kind."""
    counts = np.zeros((len(asked.wheres), size), dtype=np.int64)
    conditions = [number for number, where in enumerate(asked.wheres) if where]
    made, left = cubes.chosen(asked, conditions, size, block.rows)
    for cube in made:
        cube.add(block)
        for numbers, found in cube.answers(asked):
            counts[numbers] = found
    for numbers, found in bitmaps.counts(asked, block, left, size):
        counts[numbers] = found
    everything = [number for number, where in enumerate(asked.wheres) if not where]
    counts[everything] = np.bincount(block.shown, minlength=size)
    return counts


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Buckets that hold the same."""

    kind_of: Codes
    """The kind of each bucket."""
    example: Places
    """One bucket of each kind."""

    @classmethod
    def of(cls, holdings: Holdings) -> _Kinds:
        order = np.lexsort((holdings.places, holdings.buckets))
        lines = np.stack((holdings.places[order], holdings.counts[order]), axis=1)
        ends = np.searchsorted(holdings.buckets[order], np.arange(len(holdings.sizes) + 1)) * lines.itemsize * 2
        written = lines.tobytes()
        known: dict[bytes, int] = {}
        pieces = itertools.pairwise(ends.tolist())
        kinds = np.array([known.setdefault(written[first:last], len(known)) for first, last in pieces])
        _, example = np.unique(kinds, return_index=True)
        return cls(kinds.astype(np.min_scalar_type(len(known))), example)


@dataclass(frozen=True, eq=False)
class _Part:
    """The records of the buckets that hold a wanted value."""

    buckets: Places
    """These buckets."""
    sizes: Floats
    marked: Floats
    block: Block
    """Their records; each shows the place of its bucket among these."""
    all_buckets: int

    @classmethod
    def of(cls, holdings: Holdings, records: Block, places: Places) -> _Part:
        is_wanted = np.isin(holdings.places, places)
        marked = np.bincount(
            holdings.buckets[is_wanted], weights=holdings.counts[is_wanted], minlength=len(holdings.sizes)
        )
        buckets = np.flatnonzero(marked)
        place_of = np.full(len(marked), -1, dtype=np.int64)
        place_of[buckets] = np.arange(len(buckets))
        shown = place_of[records.shown]
        mine = np.flatnonzero(shown >= 0)
        block = Block(
            len(mine),
            [codes[mine] for codes in records.codes],
            {number: mask[mine] for number, mask in records.ranges.items()},
            shown[mine],
        )
        sizes = holdings.sizes[buckets].astype(np.float64)
        return cls(buckets, sizes, marked[buckets].astype(np.float64), block, len(marked))

    def selected(self, asked: Asked, where: int) -> Floats:
        """How many records of each of these buckets satisfy a combination."""
        shown = self.block.shown
        if asked.wheres[where]:
            shown = shown[bitmaps.selected(asked, self.block, where)]
        return np.bincount(shown, minlength=len(self.buckets)).astype(np.float64)

    def everywhere(self, asked: Asked, where: int) -> Counts:
        """The same for all buckets: those that hold no wanted value do not matter, and are left at zero."""
        counts = np.zeros(self.all_buckets, dtype=np.int64)
        counts[self.buckets] = self.selected(asked, where)
        return counts


class _Inverse:
    """The inverse of the mixing by buckets, found once for all queries."""

    def __init__(self, holdings: Holdings, kinds: _Kinds) -> None:
        self.meeting = estimation.Meeting(holdings)
        self.records = float(holdings.sizes.sum())
        held = self.meeting.held[kinds.example].toarray()
        self.told = held / self.meeting.sizes[kinds.example][:, np.newaxis]
        """What one record of a bucket of each kind tells about each value."""

    def estimated(self, asked: Asked, part: _Part, counts: Counts, wheres: Places, places: Places) -> ManyMoments:
        """The moments of the count of some places under each combination."""
        is_wanted = np.isin(self.meeting.present, places)
        target = np.where(is_wanted, self.meeting.counts, 0.0)
        weights, is_told = self.meeting.solve(target)
        selected = (part.selected(asked, where) for where in wheres.tolist())
        bounds = [estimation.certain_bounds(part.sizes, each, part.marked) for each in selected]
        least, most = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
        told = counts @ self.told
        if not is_told:
            return self._untold(asked, part, wheres, least, most)
        by_bucket = self.meeting.by_bucket(weights) / self.meeting.sizes
        squares = self.meeting.by_value(by_bucket**2)
        lengths = np.maximum(squares - target, 0.0)
        overall = counts.sum(axis=1) / max(self.records, 1.0)
        spread = [
            estimation._spread(self.meeting, self.meeting.solve(each)[0], share)
            for each, share in zip(told, overall.tolist(), strict=True)
        ]
        variance = np.array(spread).reshape(len(wheres), -1) @ lengths
        return ManyMoments(told @ weights, variance, np.zeros(len(wheres)), most, least)

    @staticmethod
    def _untold(asked: Asked, part: _Part, wheres: Places, least: Floats, most: Floats) -> ManyMoments:
        """The buckets keep nothing of this count beyond what is certain."""
        value = np.array([(part.selected(asked, where) * part.marked / part.sizes).sum() for where in wheres.tolist()])
        return ManyMoments(value, (most - least) ** 2, np.zeros(len(wheres)), most, least)
