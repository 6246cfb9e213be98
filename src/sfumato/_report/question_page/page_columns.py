"""What can be asked about: public columns with their values, and what is protected, by its values and its groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._core.cell_values import Scalar, split_value, to_json
from sfumato._records.sql_quoting import format_level, quote_if_needed
from sfumato._release.manifest import Manifest
from sfumato._request.schema import Ranges

EXACT = 1 << 53
"""Whole numbers beyond this lose digits in a browser, so they go there as texts."""


@dataclass(frozen=True)
class QuestionColumn:
    """A column to ask about: values are known by their places in its list."""

    id: str
    name: str
    sql: str
    """Its name as SQL writes it."""
    type: str
    values: tuple[Scalar, ...]

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        json_values = (to_json(value) for value in self.values)
        values = [str(value) if isinstance(value, int) and abs(value) > EXACT else value for value in json_values]
        return {"id": self.id, "name": self.name, "sql": self.sql, "type": self.type, "values": values}

    @property
    def places(self) -> Mapping[Scalar, int]:
        """The place of each value; all that are no number are one."""
        return {unify_nan(value): place for place, value in enumerate(self.values)}


def unify_nan(value: Scalar) -> Scalar:
    """A value that is equal to itself: what is no number is one object."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def describe_public_column(manifest: Manifest, number: int, values: Iterable[Scalar]) -> QuestionColumn:
    """A public column and the values it has: ranges in their order, all others sorted, what is missing last."""
    name = manifest.public_columns[number]
    edges = manifest.ranges.get(name)
    ranges = {label: place for place, label in enumerate(Ranges(edges).labels)} if edges else {}

    def make_sort_key(value: Any) -> tuple[Any, ...]:
        is_odd = isinstance(value, float) and math.isnan(value)
        return (value is None, is_odd, ranges.get(value, len(ranges)), 0 if value is None or is_odd else value)

    sorted_values = tuple(sorted({unify_nan(value) for value in values}, key=make_sort_key))
    return QuestionColumn(f"p{number}", name, quote_if_needed(name), manifest.get_field(name).type, sorted_values)


def list_protected_columns(manifest: Manifest) -> list[tuple[QuestionColumn, npt.NDArray[np.int64]]]:
    """What is protected: each column, and each level above it; with the place of every value of the domain."""
    pairs = enumerate(zip(manifest.sensitive_columns, manifest.sensitive_types, strict=True))
    entries = [
        (name, quote_if_needed(name), kind, [split_value(value)[number] for value in manifest.domain])
        for number, (name, kind) in pairs
    ]
    for column, hierarchy in manifest.hierarchies.items():
        for number, level in enumerate(hierarchy.levels[1:], start=1):
            groups = [path[number] for path in hierarchy.paths]
            entries.append((f"{column}.{level}", format_level(column, level), "string", groups))  # type: ignore[arg-type]
    return [_map_places(f"s{at}", *entry) for at, entry in enumerate(entries)]


def _map_places(
    id_: str, name: str, sql: str, kind: str, values: Sequence[Scalar]
) -> tuple[QuestionColumn, npt.NDArray[np.int64]]:
    column = QuestionColumn(id_, name, sql, kind, tuple(dict.fromkeys(map(unify_nan, values))))
    return column, np.array([column.places[unify_nan(value)] for value in values], dtype=np.int64)
