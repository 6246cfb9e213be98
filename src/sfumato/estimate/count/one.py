"""The quick way to one count: how many records show a wanted value, and how many another, cell by cell.

Where records are kept or redrawn evenly within their cells, an unbiased count needs to know no more of what they show.
So DuckDB need not tell values apart, and one count costs little more than a count of the shown values would.
"""

from __future__ import annotations

import numpy as np

from sfumato.errors import ReleaseFormatError
from sfumato.estimate.connection import Session
from sfumato.estimate.count.scan import COUNT, Asked, Key, Measured, key_of
from sfumato.estimate.sql.question import Question
from sfumato.estimate.sql.sources import VALUES, Source
from sfumato.mechanisms.coins.methods import CLOSED, Method
from sfumato.mechanisms.coins.operators import Operator
from sfumato.request.values import parts
from sfumato.shown.quoting import TABLE, literal, quoted
from sfumato.shown.tally import Counts, Mask, Symbols, Tally

FEW_CELLS = 256
"""So many cells have a number of one byte, by which DuckDB groups without a hash table."""


def condition_of(session: Session, question: Question, only: Mask | None, method: Method) -> str | None:
    """The condition that a shown value must satisfy to be wanted; None where the quick way leads nowhere."""
    manifest = session.manifest
    operator = getattr(manifest.design, "operator", None)
    is_even = isinstance(operator, Operator) and operator.is_flat and isinstance(manifest.observation, Symbols)
    if method is not CLOSED or not is_even or not _is_one_count(question):
        return None
    wanted = [*question.where.sensitive, *question.totals[0].condition.sensitive]
    if only is not None:
        value = parts(manifest.domain[int(only.argmax())])
        kinds = session.columns(f"SELECT {', '.join(map(quoted, manifest.sensitive))} FROM {VALUES}")
        wanted += [
            f"{quoted(TABLE)}.{quoted(name)} IS NOT DISTINCT FROM {literal(part, kinds[name])}"
            for name, part in zip(manifest.sensitive, value, strict=True)
        ]
    return " AND ".join(wanted) or None


def _is_one_count(question: Question) -> bool:
    """Whether one count is asked for, of which only the WHERE clause decides."""
    if len(question.totals) != 1 or not question.totals[0].is_count or question.sensitive_groups:
        return False
    inner = question.totals[0].condition
    is_separate = not (question.where.mixed or inner.mixed or inner.public)
    return is_separate and question.source.values == Source.values


def tallies(session: Session, asked: Asked, condition: str, wanted: Mask) -> dict[Key, Measured]:
    """Count, and put all wanted values of a cell into one of them, and all others into another."""
    operator: Operator = session.manifest.design.operator
    column = session.manifest.cell_column
    name = "0" if column is None else f"{quoted(TABLE)}.{quoted(column)}"
    # A number outside the range of a byte is an error of the release, and DuckDB complains.
    cell = f"CAST({name} AS UTINYINT)" if len(operator.sizes) <= FEW_CELLS else name
    columns = [*asked.named, f"{cell} AS cell", "COUNT(*)", f"COUNT(*) FILTER (WHERE {condition})"]
    order = ", ".join(f"g{number}" for number in range(len(asked.groups)))
    sql = f"SELECT {', '.join(columns)} {asked.clause} GROUP BY ALL" + (f" ORDER BY {order}" if order else "")
    counts: dict[Key, Counts] = {}
    for *key, place, rows, hits in session.rows(sql):
        if place is None or not 0 <= place < len(operator.sizes):
            raise _unlike()
        found = counts.setdefault(key_of(key), np.zeros(len(operator.places), dtype=np.int64))
        _put(found, _cell(operator, wanted, place), hits, rows - hits)
    asked.check_size(len(counts), len(operator.places))
    if not counts and not asked.groups:
        counts = {(): np.zeros(len(operator.places), dtype=np.int64)}
    return {key: {COUNT: Tally.of_symbols(found)} for key, found in counts.items()}


def _cell(operator: Operator, wanted: Mask, cell: int) -> tuple[int, Mask]:
    """The first entry of a cell, and which of its entries are wanted."""
    first = int(operator.first[cell])
    return first, wanted[operator.places[first : first + int(operator.sizes[cell])]]


def _put(counts: Counts, cell: tuple[int, Mask], hits: int, misses: int) -> None:
    first, entries = cell
    for number, is_wanted in ((hits, True), (misses, False)):
        at = np.flatnonzero(entries == is_wanted)
        if number and not len(at):
            raise _unlike()
        if number:
            counts[first + int(at[0])] += number


def _unlike() -> ReleaseFormatError:
    return ReleaseFormatError("the release holds a value outside its cell; get it again from its publisher.")
