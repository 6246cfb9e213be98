"""What each record adds to a count, for statistics packages that can weigh records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.errors import QueryError, ReleaseFormatError
from sfumato.estimate.ask import method_of
from sfumato.estimate.connection import RECORDS, Session, opened
from sfumato.estimate.count.scan import part_array
from sfumato.release.manifest import Manifest
from sfumato.request.values import Value, display, parts
from sfumato.shown.members import membership
from sfumato.shown.quoting import quoted
from sfumato.shown.tally import Floats, Members, Symbols


def record_weights(manifest: Manifest, folder: Path, value: Value, method: str | None = None) -> pa.Array:
    """A weight for each record, in the order of the data file."""
    linear = method_of(manifest, method).linear
    shown = manifest.observation
    if linear is None or not isinstance(shown, Symbols | Members):
        raise QueryError("this release has no weights by record; ask for counts instead.")
    if value not in manifest.domain:
        raise QueryError(f"{display(value)!r} is not in the domain of {manifest.sensitive_name!r}.")
    theta = (np.arange(len(manifest.domain)) == manifest.domain.index(value)).astype(np.float64)
    weights = linear(manifest.design).weights(theta)
    with opened(manifest, folder) as session:
        numbers = _by_members if isinstance(shown, Members) else _by_symbols
        found = [each + float(weights.always) for each in numbers(session, weights.shown)]
    return pa.array(np.concatenate(found) if found else np.zeros(0))


def _by_symbols(session: Session, weights: Floats) -> list[Floats]:
    """The weight of the symbol that each record shows."""
    manifest = session.manifest
    shown = manifest.observation
    if not isinstance(shown, Symbols):
        return []
    known = {}
    for symbol, place in enumerate(shown.places.tolist()):
        cell = () if shown.cells is None else (int(shown.cells[symbol]),)
        known[(*cell, *parts(manifest.domain[place]))] = symbol
    columns = [quoted(name) for name in (manifest.cell_column, *manifest.sensitive) if name is not None]
    found = []
    for batch in session.batches(f"SELECT {', '.join(columns)} FROM {RECORDS}"):
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        symbols = np.array([known.get(row, -1) for row in rows], dtype=np.int64)
        if symbols.min(initial=0) < 0:
            raise ReleaseFormatError("the release holds a value outside its domain; get it again from its publisher.")
        found.append(weights[symbols])
    return found


def _by_members(session: Session, weights: Floats) -> list[Floats]:
    """The sum of the weights of the members that each record shows."""
    manifest = session.manifest
    shown = manifest.observation
    if not isinstance(shown, Members):
        return []
    domain = part_array(manifest, 0)
    batches = session.batches(f"SELECT {quoted(manifest.sensitive_name)} FROM {RECORDS}")
    return [np.asarray(membership(batch.column(0), shown, domain) @ weights) for batch in batches]
