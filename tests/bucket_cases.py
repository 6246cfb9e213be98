"""Ground truth for bucketing: cases with known optima, computed by an independent reference implementation.

The numbers, and where they come from, stand in `bucket_cases.json`; counts may be the name of a histogram there.
Settings are pairs (size, number of buckets). `two` is the best of at most two sizes, with ties to the smallest sizes;
`split_top_down` moves records in the order of the values.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from sfumato._request.bucket_and_decoy_requirements import ShareCap
from sfumato._request.histogram import Histogram


def linear_caps(counts: Sequence[int], factor: Fraction, offset: Fraction) -> tuple[Fraction, ...]:
    """The caps that a request for factor * share + offset stands for."""
    histogram = Histogram.of(range(len(counts)), counts)
    return ShareCap.from_shares(histogram, factor, offset).list_caps(histogram.values)


Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Case:
    name: str
    counts: tuple[int, ...]
    caps: tuple[str, ...]
    sizes: tuple[int, int]
    two: Pairs | None = None
    optimum: int | None = None
    optima: tuple[Pairs, ...] = ()
    top_down: Pairs | None = None
    blame: int | None = None
    least_largest: int | None = None

    @property
    def share_caps(self) -> tuple[Fraction, ...]:
        if self.caps[0] == "linear":
            return linear_caps(self.counts, Fraction(self.caps[1]), Fraction(self.caps[2]))
        return tuple(Fraction(cap) for cap in self.caps)


_WRITTEN = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
_HISTOGRAMS = {name: tuple(counts) for name, counts in _WRITTEN["histograms"].items()}

EDU_LIKE_300000, OCC_LIKE_500000 = (_HISTOGRAMS[name] for name in ("edu-like 300000", "occ-like 500000"))


def _tuples(value: Any) -> Any:
    """A value of a case, with tuples for lists."""
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


def _case(written: dict[str, Any]) -> Case:
    read = {name: _tuples(value) for name, value in written.items()}
    return Case(**{**read, "counts": _HISTOGRAMS.get(read["counts"], read["counts"])})


CASES = tuple(_case(written) for written in _WRITTEN["cases"])
