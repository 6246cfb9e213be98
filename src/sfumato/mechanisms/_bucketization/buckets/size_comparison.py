"""Ways to make buckets side by side: which of them tells counts best, and what each costs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.cell_values import off_by
from sfumato._core.json_types import Json
from sfumato._core.random_draws import Draws
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.error_prediction import CountErrors
from sfumato.mechanisms._bucketization.buckets.record_assignment import Deal, deal_out
from sfumato.mechanisms._bucketization.buckets.size_methods import Choice
from sfumato.mechanisms.capabilities import PlanTable
from sfumato.mechanisms.error_curve import ErrorAt

SHOWN = 5
"""So many are shown to people, and as many sizes of each."""

SEARCHES = {"two": "two sizes", "multi": "several sizes", "optimal": "least loss"}
"""The searches for sizes that are compared, in words."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to make buckets that was looked at: the search that found it, its loss, and the errors of counts."""

    sizes: str
    least: int
    deal: Deal
    setting: Setting
    errors: tuple[ErrorAt, ...]
    score: float

    def to_json(self) -> Json:
        """For the holder."""
        return {
            "sizes": self.sizes,
            "min_bucket": self.least,
            "dealing": self.deal,
            "buckets": [list(pair) for pair in self.setting],
            "loss": self.setting.loss,
            "error_curve": [each.to_json() for each in self.errors],
        }


def foreseen(counts: Sequence[int], choice: Choice, deal: Deal) -> CountErrors:
    """The errors of counts, from buckets such as might be published.

    Counts, caps and sizes are published, and what is random in these buckets follows from the counts: so what is chosen
    by them tells nothing, and everybody comes to the same.
    """
    held = np.array(counts, dtype=np.int64)
    public = Draws(hashlib.sha256(held.tobytes()).digest(), is_test=True)
    return CountErrors(deal_out(choice.assignment, choice.floors, deal, public, "foreseen"), held)


def compared(counts: Sequence[int], found: Mapping[tuple[str, int], Choice], deal: Deal) -> tuple[Way, ...]:
    """All choices, that with the smallest errors of counts first."""

    def way(asked: tuple[str, int]) -> Way:
        choice = found[asked]
        expected = foreseen(counts, choice, deal)
        return Way(*asked, deal, choice.assignment.setting, expected.inverse_errors, float(f"{expected.score:.6e}"))

    return tuple(sorted(map(way, found), key=lambda each: (each.score, each.setting.loss)))


def tables_of(ways: Sequence[Way]) -> list[PlanTable]:
    """The best of them, and that of least loss, for people."""
    if not ways:
        return []
    least = min(ways, key=lambda way: way.setting.loss)
    shown = [*ways[:SHOWN], *([] if least in ways[:SHOWN] else [least])]
    rows = [
        (
            f"{SEARCHES[way.sizes]}, at least {way.least}",
            _written([size for size, _ in way.setting]),
            f"{way.setting.loss:,}",
            *(off_by(each.by_records) for each in way.errors),
        )
        for way in shown
    ]
    errors = [f"standard error of a count of {each.count:,.0f}" for each in least.errors]
    return [
        PlanTable("sizes that were compared, of which the first are taken:", ("search", "sizes", "loss", *errors), rows)
    ]


def _written(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) if len(sizes) <= SHOWN else f"{len(sizes)} from {sizes[0]} to {sizes[-1]}"
