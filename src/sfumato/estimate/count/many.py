"""Counting for many queries at once: read the release once, tally each combination of conditions, estimate."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import QueryError
from sfumato.estimate.ask import method_of
from sfumato.estimate.count import bitmaps, cubes, dealt
from sfumato.estimate.count.blocks import BLOCK_ROWS, Block, blocks, schema_of, shown_size
from sfumato.estimate.count.formulas import estimator
from sfumato.estimate.count.queries import CountQuery
from sfumato.estimate.count.workload import Asked, taken_apart
from sfumato.estimate.estimates import Estimates
from sfumato.mechanisms.coins.methods import Method
from sfumato.mechanisms.coins.operators import Places
from sfumato.release.manifest import Manifest
from sfumato.shown.tally import Buckets, Counts, ManyMoments, Members, Tally

MOST_COUNTS = 1 << 26
"""Combinations times symbols that are tallied in one reading; more take several readings."""


def count_many(manifest: Manifest, folder: Path, queries: Sequence[CountQuery], method: str | None = None) -> Estimates:
    """Answer many counts in one reading of the release, as `count` would answer each."""
    for query in queries:
        given: object = query
        if not (isinstance(given, CountQuery) and isinstance(given.where, Mapping)):
            raise QueryError(
                f"{query!r} is no query that can be counted with others: write CountQuery(where={{'sex': 'F'}}, "
                "values=['HIV'])."
            )
    path, way = folder / manifest.data, method_of(manifest, method)
    schema = schema_of(path, manifest)
    asked = taken_apart(queries, manifest, schema)
    if isinstance(manifest.observation, Buckets):
        moments = dealt.estimated(asked, manifest, folder, schema, way)
    else:
        moments = _estimated(asked, manifest, path, schema, way)
    return Estimates(moments, way.words, way.assumption, way.note)


def _estimated(asked: Asked, manifest: Manifest, path: Path, schema: pa.Schema, method: Method) -> ManyMoments:
    found = ManyMoments.unfilled(len(asked.where_of))
    whole = _whole(asked, manifest, path, schema) if method.needs_whole else None
    estimate = estimator(method, manifest.design, whole)
    most = max(MOST_COUNTS // max(shown_size(manifest.observation), 1), 1)
    for first in range(0, len(asked.wheres), most):
        wheres = range(first, min(first + most, len(asked.wheres)))
        counts, rows = tallied(asked, manifest, path, schema, wheres)
        queries = np.flatnonzero((asked.where_of >= first) & (asked.where_of < first + most))
        for group, places in by_set(asked, queries):
            numbers = asked.where_of[group] - first
            if places is None:
                found.put(group, ManyMoments.exact(rows[numbers].astype(np.float64)))
            else:
                found.put(group, estimate(counts[numbers], rows[numbers], places))
    return found


def by_set(asked: Asked, queries: Places) -> Iterator[tuple[Places, Places | None]]:
    """The queries of each set of values."""
    sets = asked.set_of[queries]
    order = np.argsort(sets, kind="stable")
    present, starts = np.unique(sets[order], return_index=True)
    for number, group in zip(present.tolist(), np.split(queries[order], starts[1:]), strict=True):
        yield group, asked.sets[number]


def _whole(asked: Asked, manifest: Manifest, path: Path, schema: pa.Schema) -> Tally:
    """The tally of all records."""
    everything = replace(asked, columns=[], atoms={}, wheres=[()])
    counts, rows = tallied(everything, manifest, path, schema, range(1))
    return Tally(counts[0], int(rows[0]))


# ------------------------------------------------------------------------------------------------------------- tallying


def tallied(
    asked: Asked, manifest: Manifest, path: Path, schema: pa.Schema, wheres: Sequence[int]
) -> tuple[Counts, Counts]:
    """For some combinations: how many of their records show each symbol or member, and how many records they have."""
    shown = manifest.observation
    read = blocks(asked, manifest, path, schema)
    if isinstance(shown, Members):
        return _members(asked, shown.size, read, wheres)
    return _symbols(asked, shown_size(shown), read, wheres, int(pq.read_metadata(path).num_rows))


def _symbols(asked: Asked, size: int, read: Iterable[Block], wheres: Sequence[int], rows: int) -> tuple[Counts, Counts]:
    counts, first = np.zeros((len(wheres), size), dtype=np.int64), wheres[0]
    conditions = [where for where in wheres if asked.wheres[where]]
    made, left = cubes.chosen(asked, conditions, size, min(rows, BLOCK_ROWS))
    everything = [where - first for where in wheres if not asked.wheres[where]]
    lock = Lock()

    def work(block: Block) -> None:
        with lock:
            for cube in made:
                cube.add(block)
            counts[everything] += np.bincount(block.shown, minlength=size)
        for numbers, found in bitmaps.counts(asked, block, left, size):
            with lock:
                counts[np.array(numbers) - first] += found

    _each(work, read, rows > BLOCK_ROWS)
    for cube in made:
        for numbers, found in cube.answers(asked):
            counts[np.array(numbers) - first] = found
    return counts, counts.sum(axis=1)


def _members(asked: Asked, size: int, read: Iterable[Block], wheres: Sequence[int]) -> tuple[Counts, Counts]:
    counts, rows = np.zeros((len(wheres), size), dtype=np.int64), np.zeros(len(wheres), dtype=np.int64)
    first = wheres[0]
    wanted: dict[int, set[int]] = {where: set() for where in wheres}
    for where, number in zip(asked.where_of.tolist(), asked.set_of.tolist(), strict=True):
        places = asked.sets[number]
        if where in wanted and places is not None:
            wanted[where].update(places.tolist())
    listed: dict[int, Sequence[int]] = {where: sorted(places) for where, places in wanted.items()}
    for block in read:
        for where, selected, places, found in bitmaps.member_counts(asked, block, listed):
            rows[where - first] += selected
            counts[where - first, places] += found
    return counts, rows


def _each(work: Callable[[Block], None], read: Iterable[Block], is_long: bool) -> None:
    """Work on every block; on several at a time if there are several."""
    if not is_long:
        for block in read:
            work(block)
        return
    workers = os.cpu_count() or 1
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for block in read:
            waiting.append(pool.submit(work, block))
            if len(waiting) > workers:
                waiting.popleft().result()
        for each in waiting:
            each.result()
