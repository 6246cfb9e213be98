"""What a page holds of a release: all records, packed; or, where these are too large, counts of pairs of columns."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._query.connection import Session
from sfumato._query.counting.record_blocks import batches, schema_of
from sfumato._query.release import Release
from sfumato._records.sql_quoting import RECORDS, TABLE, quoted
from sfumato._records.tally import COUNT, Scan
from sfumato._release.manifest import Manifest
from sfumato._report.question_page.page_columns import Offered, public_column, same
from sfumato._report.question_page.page_packing import bit_maps, packed
from sfumato.errors import QueryError

MOST_VALUES = 2000
"""A public column of more values is not counted beforehand."""
MOST_NUMBERS = 1 << 22
"""Cells times what a record may show, of one pair of columns."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PageContents:
    """The public columns that can be asked about, and the arrays behind them."""

    columns: Sequence[Offered]
    arrays: dict[str, npt.NDArray[Any]]
    about: dict[str, Any] = field(default_factory=dict)
    """What else the script must know."""
    left_out: Sequence[str] = ()
    """Public columns that cannot be asked about."""


def records_of(release: Release) -> PageContents:
    """All records, in the order of the release: a code for each public column, and what each shows."""
    manifest, shown = release.manifest, []
    read, paths = manifest.shown.reader(manifest.naming), manifest.paths(release.folder)
    codes: list[list[npt.NDArray[Any]]] = [[] for _ in manifest.public]
    seen: list[dict[Any, int]] = [{} for _ in manifest.public]
    for batch in batches(paths, schema_of(paths, manifest), [*manifest.public, *manifest.shown_names]):
        shown.append(read(batch))
        for number, name in enumerate(manifest.public):
            column = batch.column(name)
            encoded = column if hasattr(column, "dictionary") else column.dictionary_encode()
            values = [*map(same, encoded.dictionary.to_pylist()), None]
            numbers = np.array([seen[number].setdefault(value, len(seen[number])) for value in values])
            codes[number].append(numbers[encoded.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)])
    columns, arrays = [], {}
    for number, found in enumerate(codes):
        old = np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
        present = set(np.unique(old).tolist())
        column = public_column(manifest, number, [value for value, place in seen[number].items() if place in present])
        new = np.zeros(max(len(seen[number]), 1), dtype=np.int64)
        for value, place in column.places.items():
            new[seen[number][value]] = place
        columns.append(column)
        arrays[column.id] = new[old]
    whole = np.concatenate(shown) if shown else np.zeros(0, dtype=np.int64)
    is_set = whole.ndim > 1
    arrays["shown"] = bit_maps(whole) if is_set else whole
    return PageContents(columns, arrays, {"is_set": is_set})


def tallies_of(manifest: Manifest, session: Session, width: int, largest: int, progress: Progress) -> PageContents:
    """What the records of each pair of public columns show, of so many things; as many pairs as have room."""
    columns, left_out = [], []
    for number, name in enumerate(manifest.public):
        found = session.table(f"SELECT DISTINCT {quoted(name)} FROM {RECORDS} LIMIT {MOST_VALUES + 1}").column(0)
        if len(found) > MOST_VALUES:
            left_out.append(name)
        else:
            columns.append(public_column(manifest, number, found.to_pylist()))
    wanted = [*itertools.combinations(columns, 2), *((each,) for each in columns), ()]
    tables: list[list[str]] = []
    arrays: dict[str, npt.NDArray[Any]] = {}
    covered: set[str] = set()
    room = largest
    for done, chosen in enumerate(wanted):
        progress(done, len(wanted))
        if len(chosen) < 2 and tables and covered >= {each.id for each in chosen}:  # noqa: PLR2004 - no pair
            continue
        counted = _counted(manifest, session, chosen, width)
        size = 0 if counted is None else len(packed(counted)[0])
        if counted is None or size > room:
            continue
        room -= size
        arrays |= {f"table{len(tables)}_{name}": array for name, array in counted.items()}
        tables.append([each.id for each in chosen])
        covered |= {each.id for each in chosen}
    progress(len(wanted), len(wanted))
    left_out += [each.name for each in columns if each.id not in covered]
    kept = [each for each in columns if each.id in covered]
    if not tables:
        raise QueryError(
            "this release is too large for such a page, even as counts; allow more with --megabytes, or ask it with "
            "sfumato query."
        )
    return PageContents(kept, arrays, {"tables": [{"columns": each} for each in tables]}, left_out)


def _counted(
    manifest: Manifest, session: Session, chosen: Sequence[Offered], width: int
) -> dict[str, npt.NDArray[Any]] | None:
    """The cells of some columns: the codes of each, its records, and what they show; None where there are too many."""
    names = ", ".join(quoted(each.name) for each in chosen) or "1"
    ((cells,),) = session.rows(f"SELECT COUNT(*) FROM (SELECT DISTINCT {names} FROM {RECORDS}) AS t")
    if cells * width > MOST_NUMBERS:
        return None
    groups = tuple(f"{quoted(TABLE)}.{quoted(each.name)}" for each in chosen)
    found = manifest.shown.scanned(session, Scan(groups=groups), manifest.naming)
    tallies = [measured[COUNT] for measured in found.values()]
    arrays: dict[str, npt.NDArray[Any]] = {
        each.id: np.array([each.places[same(key[at])] for key in found], dtype=np.int64)  # type: ignore[arg-type]
        for at, each in enumerate(chosen)
    }
    arrays["rows"] = np.array([int(tally.rows[0]) for tally in tallies])
    arrays["counts"] = np.concatenate([tally.counts for tally in tallies])
    return arrays
