"""Two tables that belong together row by row, though nothing in them says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.arrays import Codes, Places
from sfumato._risk.coded_table import CodedValues
from sfumato._risk.lint.betting_tests import BLOCK_ROWS, FALSE_ALARMS, bin_codes, bound_chance, compute_pairing_capital
from sfumato._risk.lint.findings import Finding

MOST_ROWS = 20_000
"""So many rows are compared: enough to learn what goes with what."""

CodedTable = Mapping[str, CodedValues]


def find_paired_tables(tables: Mapping[str, CodedTable]) -> Iterator[Finding]:
    """Tables of one folder in whose rows something in the one goes with something in the other."""
    pairs = [
        (one, other, aligned)
        for one, other in combinations(tables, 2)
        if (aligned := _align_rows(tables[one], tables[other])) is not None
    ]
    tests = sum(len(tables[one]) * len(tables[other]) for one, other, _ in pairs)
    for one, other, (first, second, blocks, key) in pairs:
        best_capital, best_columns = 0.0, ("", "")
        for own_column in (other_column for name, other_column in tables[one].items() if name not in key):
            bins = bin_codes(own_column.codes, own_column.size)[first]
            for paired_column in (other_column for name, other_column in tables[other].items() if name not in key):
                capital = compute_pairing_capital(
                    bins, bin_codes(paired_column.codes, paired_column.size)[second], blocks
                )
                if capital > best_capital:
                    best_capital, best_columns = capital, (own_column.name, paired_column.name)
        if tests and bound_chance(best_capital, tests) < FALSE_ALARMS:
            within_text = f", within each {', '.join(map(repr, key))}" if key else ""
            yield Finding(
                "tables-joined",
                f"rows of {one!r} and {other!r} belong together in the order in which they stand{within_text}: "
                f"{best_columns[0]!r} of the one goes with {best_columns[1]!r} of the other, as by chance in less "
                f"than one of {1 / FALSE_ALARMS:,.0f} folders. Side by side, they give each record its values back.",
                "shuffle the rows of each table by itself, within groups too.",
                best_columns[1],
                other,
                {"chance": bound_chance(best_capital, tests), "rows": len(blocks)},
            )


def _align_rows(one: CodedTable, other: CodedTable) -> tuple[Places, Places, Codes, tuple[str, ...]] | None:
    """The rows of two tables side by side, in blocks of few rows; by the columns that both have, if they have any.

    None where they cannot be put side by side, or every block is a row.
    """
    if not one or not other or _count_rows(one) != _count_rows(other):
        return None
    key = tuple(name for name in one if name in other and one[name].values.type == other[name].values.type)
    own_keys, other_keys = (np.zeros(_count_rows(one), dtype=np.int64) for _ in range(2))
    for name in key:
        all_values = pc.unique(pa.concat_arrays([one[name].values, other[name].values]))
        size = len(all_values) + 1
        all_keys = np.concatenate(
            [
                own_keys * size + _encode_values(one[name], all_values),
                other_keys * size + _encode_values(other[name], all_values),
            ]
        )
        own_keys, other_keys = np.split(np.unique(all_keys, return_inverse=True)[1], 2)
    first, second = np.argsort(own_keys, kind="stable"), np.argsort(other_keys, kind="stable")
    if not np.array_equal(own_keys[first], other_keys[second]):
        return None
    first, second = first[:MOST_ROWS], second[:MOST_ROWS]
    groups = own_keys[first]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    block_positions = np.arange(len(groups)) - np.repeat(starts, np.diff(starts, append=len(groups)))
    blocks = np.cumsum(block_positions % BLOCK_ROWS == 0) - 1
    return None if len(blocks) == 0 or blocks[-1] == len(blocks) - 1 else (first, second, blocks, key)


def _count_rows(table: CodedTable) -> int:
    return len(next(iter(table.values())).codes)


def _encode_values(column: CodedValues, all_values: pa.Array) -> Codes:
    places = pc.index_in(column.values, all_values).to_numpy(zero_copy_only=False)
    return np.append(places, len(all_values)).take(column.codes)
