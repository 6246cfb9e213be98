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
from sfumato._request.schema import Bins

EXACT = 1 << 53
"""Whole numbers beyond this lose digits in a browser, so they go there as texts."""


@dataclass(frozen=True)
class Offered:
    """A column to ask about: values are known by their places in its list."""

    id: str
    name: str
    sql: str
    """Its name as SQL writes it."""
    type: str
    values: tuple[Scalar, ...]

    def to_json(self) -> dict[str, Any]:
        """For the page."""
        written = (to_json(value) for value in self.values)
        values = [str(value) if isinstance(value, int) and abs(value) > EXACT else value for value in written]
        return {"id": self.id, "name": self.name, "sql": self.sql, "type": self.type, "values": values}

    @property
    def places(self) -> Mapping[Scalar, int]:
        """The place of each value; all that are no number are one."""
        return {unify_nan(value): place for place, value in enumerate(self.values)}


def unify_nan(value: Scalar) -> Scalar:
    """A value that is equal to itself: what is no number is one object."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def describe_public_column(manifest: Manifest, number: int, values: Iterable[Scalar]) -> Offered:
    """A public column and the values it has: ranges in their order, all others sorted, what is missing last."""
    name = manifest.public[number]
    edges = manifest.bins.get(name)
    ranges = {label: place for place, label in enumerate(Bins(edges).labels)} if edges else {}

    def order(value: Any) -> tuple[Any, ...]:
        is_odd = isinstance(value, float) and math.isnan(value)
        return (value is None, is_odd, ranges.get(value, len(ranges)), 0 if value is None or is_odd else value)

    listed = tuple(sorted({unify_nan(value) for value in values}, key=order))
    return Offered(f"p{number}", name, quote_if_needed(name), manifest.field(name).type, listed)


def list_protected_columns(manifest: Manifest) -> list[tuple[Offered, npt.NDArray[np.int64]]]:
    """What is protected: each column, and each level above it; with the place of every value of the domain."""
    pairs = enumerate(zip(manifest.sensitive, manifest.types, strict=True))
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
) -> tuple[Offered, npt.NDArray[np.int64]]:
    offered = Offered(id_, name, sql, kind, tuple(dict.fromkeys(map(unify_nan, values))))
    return offered, np.array([offered.places[unify_nan(value)] for value in values], dtype=np.int64)
