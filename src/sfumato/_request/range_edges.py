"""Ranges into which a column is recoded, by their edges."""

from __future__ import annotations

import datetime
import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.errors import SchemaError

RANGE_LABEL = re.compile(r"\[(?P<low>[^,]+),(?P<high>[^,]+)[)\]]")
"""The published name of a range, such as `[18,65)`."""
Edge = int | float | datetime.date | datetime.datetime


@dataclass(frozen=True, slots=True)
class Ranges:
    """Half-open intervals [a,b) between edges. The last interval is closed, and edges keep their spelling."""

    edges: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.edges) in (0, 1):
            raise SchemaError("ranges need at least two edges, such as 0,20,40,60.", code="too-few-edges")
        parsed = self.parsed_edges
        dates = [edge for edge in parsed if isinstance(edge, datetime.date)]
        if len(dates) not in (0, len(parsed)):
            raise SchemaError("the edges of ranges must be all numbers or all dates.", code="mixed-edges")
        if len({isinstance(edge, datetime.datetime) and edge.tzinfo is not None for edge in dates}) > 1:
            raise SchemaError("either all edges of ranges must have an offset from UTC, or none.", code="mixed-offsets")
        if any(low >= high for low, high in itertools.pairwise(parsed)):  # type: ignore[operator]
            raise SchemaError(
                f"the edges {', '.join(self.edges)} must rise from left to right.", code="edges-not-rising"
            )

    @classmethod
    def parse(cls, text: str) -> Ranges:
        """Reads `0,20,40,60` or `2020-01-01,2021-01-01`."""
        return cls(tuple(edge.strip() for edge in text.split(",")))

    @classmethod
    def of(cls, edges: Ranges | str | Sequence[Edge]) -> Ranges:
        """Accepts ranges, a string, or a list of edges."""
        if isinstance(edges, Ranges):
            return edges
        return cls.parse(edges) if isinstance(edges, str) else cls(tuple(str(edge) for edge in edges))

    @property
    def parsed_edges(self) -> tuple[Edge, ...]:
        """The edges as numbers or dates. If some edges have a time of day, a date stands for its midnight."""
        parsed = tuple(_parse_edge(edge) for edge in self.edges)
        if not any(isinstance(edge, datetime.datetime) for edge in parsed):
            return parsed
        return tuple(
            datetime.datetime.combine(edge, datetime.time()) if type(edge) is datetime.date else edge for edge in parsed
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The published names of the ranges, in rising order."""
        pairs = list(itertools.pairwise(self.edges))
        return tuple(f"[{low},{high}{']' if (low, high) == pairs[-1] else ')'}" for low, high in pairs)


def is_list_of_rising_ranges(labels: Sequence[str]) -> bool:
    """Whether all texts are names of ranges, and their lower edges rise: `[5,18)` comes before `[18,65)`."""
    matches = [RANGE_LABEL.fullmatch(label) for label in labels]
    edges = [match for match in matches if match is not None]
    if not edges or len(edges) < len(matches):
        return False
    try:
        Ranges((*(match["low"] for match in edges), edges[-1]["high"]))
    except SchemaError:
        return False
    return True


def _parse_edge(text: str) -> Edge:
    for read in (int, float, datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            edge: Edge = read(text)
        except ValueError:
            continue
        if not (isinstance(edge, float) and math.isnan(edge)):
            return edge
    raise SchemaError(
        f"the edge {text!r} is neither a number nor a date such as 2024-01-31.",
        code="wrong-edge",
        fields={"edge": text},
    )
