"""Facts about the planning of small domains; no number here was made by the code that it tests.

They stand in `small_domain_cases.json`, with their source. Counts and groups that several cases share are named there,
and a text that is too long for a line is a list of lines. How they are written:

- counts: "5 1x3" is 5 1 1 1;
- places, and numbers of groups: "3 7-9 4-2" is 3 7 8 9 4 3 2;
- parts: "0 2 | 1" are two cells, of the groups 0 and 2, and of group 1;
- groups: "6: 0; 5: 1-3 | 1: 0" are two groups, one with 6 records of place 0 and 5 of each of the places 1, 2 and 3;
- cells: records, values, prior, amplification, retention and swap probability of each.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Case:
    """A table, a request, and what each phase makes of it when it merges by the paper's error bound."""

    name: str
    counts: str
    prior: str
    posterior: str
    protected: str
    balance: int
    """How often the largest protected count fits in the whole table."""
    protected_balance: int
    """How often it fits in the records of protected values; the same if all are."""
    parts: str
    """One after the other, they are also the rearranged order."""
    tables: str
    """The digest of the counts in each cell."""
    cells: str
    bound: float
    bound_of_the_whole: float
    bound_of_the_groups: float
    variance: float
    """Of all reconstructed counts, divided by the records and by the values."""
    groups: str = ""
    sizes: str = ""
    """Of the groups, where they are too many to write down."""


@dataclass(frozen=True)
class VarianceCase:
    """A table, a request, and the cells with the least variance."""

    name: str
    counts: str
    prior: str
    posterior: str
    minimum: int
    parts: str
    variance: float
    variance_by_bound: float
    """The variance if it is merged by the paper's error bound instead, without a minimum."""


@dataclass(frozen=True)
class Partition:
    """Cells that nobody planned."""

    name: str
    counts: str
    prior: str
    posterior: str
    tables: str
    amplifications: tuple[str, ...]
    can_rise: tuple[bool, ...]
    """Whether the largest share of a protected value, in each cell, lies below the posterior."""
    bound: float


def numbers(text: str) -> tuple[int, ...]:
    """Read counts."""
    runs = [token.partition("x") for token in text.split()]
    return tuple(int(count) for count, _, times in runs for _ in range(int(times or 1)))


def places(text: str) -> tuple[int, ...]:
    """Read places, or the numbers of groups."""
    found: list[int] = []
    for token in text.split():
        first, last = (int(end) for end in (token.split("-") * 2)[:2])
        found += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return tuple(found)


def parts(text: str) -> tuple[tuple[int, ...], ...]:
    """Read the groups of each cell."""
    return tuple(places(part) for part in text.split("|"))


def groups(text: str, size: int) -> tuple[tuple[int, ...], ...]:
    """Read groups over a domain of the given size."""
    return tuple(_group(group, size) for group in text.split("|"))


def _group(text: str, size: int) -> tuple[int, ...]:
    group = [0] * size
    for piece in text.split(";"):
        count, _, where = piece.partition(":")
        for place in places(where):
            group[place] = int(count)
    return tuple(group)


def cells(text: str) -> list[tuple[Fraction, ...]]:
    """Read what is known of each cell."""
    return [tuple(map(Fraction, cell.split())) for cell in text.split("|")]


def digest(tables: Sequence[Sequence[int]]) -> str:
    """What stands for tables that are too large to write down."""
    return hashlib.sha256(json.dumps(tables, separators=(",", ":")).encode()).hexdigest()[:16]


_WRITTEN = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_TEXTS = ("counts", "groups", "parts", "cells", "sizes")
_FLOATS = ("bound", "bound_of_the_groups")
"""These may be infinite, which JSON has no number for."""


def _text(written: str | list[str]) -> str:
    return written if isinstance(written, str) else " ".join(written)


_NAMED = {name: _text(text) for name, text in {**_WRITTEN["counts"], **_WRITTEN["groups"]}.items()}

EDUCATION_300K = _NAMED["education 300k"]
OCCUPATIONS_100K = _NAMED["occupations 100k"]
OCCUPATIONS_200K = _NAMED["occupations 200k"]
OCCUPATIONS_300K = _NAMED["occupations 300k"]
OCCUPATIONS_400K = _NAMED["occupations 400k"]
OCCUPATIONS_500K = _NAMED["occupations 500k"]


def _fields(written: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a case, as they are used."""
    texts = {name: _text(written[name]) for name in _TEXTS if name in written}
    lists = {name: tuple(value) for name, value in written.items() if name not in texts and isinstance(value, list)}
    named = {name: _NAMED.get(text, text) for name, text in texts.items()}
    return {**written, **named, **lists, **{name: float(written[name]) for name in _FLOATS if name in written}}


CASES = tuple(Case(**_fields(each)) for each in _WRITTEN["cases"])
VARIANCE_CASES = tuple(VarianceCase(**_fields(each)) for each in _WRITTEN["variance_cases"])
PARTITIONS = tuple(Partition(**_fields(each)) for each in _WRITTEN["partitions"])
