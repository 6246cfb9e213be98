"""K: whoever links records by their public columns: how many records are alike, and how many people of a population.

That is about finding a person's record, not about what it shows. Nobody is told apart by what is perturbed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.arrays import Codes, Places
from sfumato._core.cell_values import plain_type
from sfumato._profile.equivalence_classes import FEW, Alike, alike
from sfumato._profile.ranges import binned
from sfumato._query.release import Release
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import AS_USUAL, ReadOptions
from sfumato._records.column_codes import dense, local_codes
from sfumato._request.schema import Bins
from sfumato.errors import SpecError

BATCH_ROWS = 1 << 17
LARGEST = 1 << 62
ROOMY = 4
"""Combinations are numbered by a table of so many times the records, or else by sorting them."""


@dataclass(frozen=True)
class Linked:
    """How many records somebody finds by their public columns, and how surely."""

    columns: tuple[str, ...]
    """By which they are linked."""
    records: int
    in_release: Alike
    """The shares of the records that are alone in the release, among fewer than 5, and fewer than 11."""
    in_population: Alike | None = None
    """The shares of the records that are like one person of a population, like fewer than 5, and fewer than 11."""
    absent: float = 0.0
    """The share of the records that are like nobody of the population: it is not the one they come from."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "columns": list(self.columns),
            "records": self.records,
            "in_release": self.in_release.to_json(),
            "in_population": None if self.in_population is None else self.in_population.to_json(),
            "absent": self.absent,
        }


def linked(release: str | Path, population: Any = None, *, read: ReadOptions = AS_USUAL) -> Linked:
    """Look how many records of a release share their public columns, and how many people of a population do.

    The columns are those that the population has too; its values are put into the bins of the release.
    """
    opened = Release.open(release)
    names = public_columns(opened)
    records = pq.read_table(list(opened.manifest.paths(opened.folder)), columns=names)
    if not names:  # all are alike
        return Linked((), opened.rows, alike(np.array([opened.rows]), opened.rows))
    if population is None:
        return counted_links(names, shared_codes(names, [records])[0])
    texts = [each.name for each in opened.manifest.fields if each.type == "string" and each.name in names]
    bins = {name: Bins(tuple(edges)) for name, edges in opened.manifest.bins.items() if name in names}
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        text = [name for name in texts if name not in bins]
        source = open_source(population, Path(folder) / "spool", read=replace(read, text=(*read.text, *text)))
        names = [name for name in names if name in source.schema.names]
        if not names:
            raise SpecError("the population has no public column of the release, so nobody can be linked by one.")
        arrays: dict[str, list[pa.Array]] = {name: [] for name in names}
        for batch in source.batches(tuple(names), BATCH_ROWS):
            for name in names:
                column = batch.column(name)
                arrays[name].append(dense(binned(column, bins[name], name) if name in bins else column))
        people = pa.table({name: pa.chunked_array(each) for name, each in arrays.items()})
    return counted_links(names, *shared_codes(names, [records, people]))


def public_columns(release: Release) -> list[str]:
    """The public columns of a release."""
    return [each.name for each in release.manifest.fields if each.name not in release.manifest.shown_names]


def shared_codes(names: Sequence[str], tables: Sequence[pa.Table]) -> list[list[Codes]]:
    """Columns of some tables as numbers of the same values: a list of columns for each table."""
    found: list[list[Codes]] = [[] for _ in tables]
    ends = np.cumsum([each.num_rows for each in tables])[:-1]
    for name in names:
        kind = plain_type(tables[0].column(name).type)
        try:
            arrays = [dense(each).cast(kind) for table in tables for each in table.column(name).chunks]
        except pa.ArrowException as error:
            raise SpecError(f"column {name!r} is of another type in one of the tables; bring them to one.") from error
        for columns, codes in zip(found, np.split(local_codes(pa.concat_arrays(arrays))[0], ends), strict=True):
            columns.append(codes)
    return found


def counted_links(names: Sequence[str], records: Sequence[Codes], people: Sequence[Codes] | None = None) -> Linked:
    """Count who is like whom; columns are numbers of the same values in both."""
    number = len(records[0])
    if people is None:
        counts = np.bincount(combination_numbers(records))
        return Linked(tuple(names), number, alike(counts, number))
    together = combination_numbers([np.concatenate(pair) for pair in zip(records, people, strict=True)])
    size = int(together.max(initial=0)) + 1
    here, there = (np.bincount(each, minlength=size) for each in (together[:number], together[number:]))
    is_found = (here > 0) & (there > 0)
    found = np.repeat(there[is_found], here[is_found])  # how many people each record may be
    alone, below_5, below_11 = (float((found <= few).sum()) / max(number, 1) for few in FEW)
    absent = float(here[there == 0].sum()) / max(number, 1)
    return Linked(tuple(names), number, alike(here, number), Alike(alone, below_5, below_11), absent)


def combination_numbers(columns: Sequence[Codes]) -> Places:
    """One number for the values of a record in all columns; equal ones for records that are alike."""
    numbers: Places = np.zeros(len(columns[0]) if columns else 0, dtype=np.int64)
    room = 1
    for codes in columns:
        size = int(codes.max(initial=0)) + 1
        if room > LARGEST // size:  # numbered anew, so that numbers stay as small as the combinations are few
            numbers = _anew(numbers, room)
            room = int(numbers.max(initial=0)) + 1
        numbers = numbers * size + codes
        room *= size
    return _anew(numbers, room)


def _anew(numbers: Places, room: int) -> Places:
    """The same without numbers that do not occur; by a table where there is room for few."""
    if room <= ROOMY * len(numbers):
        occurs = np.bincount(numbers, minlength=room) > 0
        return np.asarray((np.cumsum(occurs) - 1)[numbers])
    return np.asarray(np.unique(numbers, return_inverse=True)[1])
