"""Ways to make buckets side by side: which of them tells counts best, and what each costs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.cell_values import format_relative_error
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
            "error_curve": [error.to_json() for error in self.errors],
        }


def predict_errors(counts: Sequence[int], choice: Choice, deal: Deal) -> CountErrors:
    """The errors of counts, from buckets such as might be published.

    Counts, caps and sizes are published, and what is random in these buckets follows from the counts: so what is chosen
    by them tells nothing, and everybody comes to the same.
    """
    value_counts = np.array(counts, dtype=np.int64)
    public = Draws(hashlib.sha256(value_counts.tobytes()).digest(), is_test=True)
    return CountErrors(deal_out(choice.assignment, choice.floors, deal, public, "foreseen"), value_counts)


def rank_choices(
    counts: Sequence[int], choices_by_key: Mapping[tuple[str, int], Choice], deal: Deal
) -> tuple[Way, ...]:
    """All choices, that with the smallest errors of counts first."""

    def way(choice_key: tuple[str, int]) -> Way:
        choice = choices_by_key[choice_key]
        expected = predict_errors(counts, choice, deal)
        return Way(
            *choice_key, deal, choice.assignment.setting, expected.inverse_errors, float(f"{expected.score:.6e}")
        )

    return tuple(sorted(map(way, choices_by_key), key=lambda candidate: (candidate.score, candidate.setting.loss)))


def make_tables(ways: Sequence[Way]) -> list[PlanTable]:
    """The best of them, and that of least loss, for people."""
    if not ways:
        return []
    least = min(ways, key=lambda way: way.setting.loss)
    shown = [*ways[:SHOWN], *([] if least in ways[:SHOWN] else [least])]
    rows = [
        (
            f"{SEARCHES[way.sizes]}, at least {way.least}",
            _format_sizes([size for size, _ in way.setting]),
            f"{way.setting.loss:,}",
            *(format_relative_error(error.by_records) for error in way.errors),
        )
        for way in shown
    ]
    errors = [f"standard error of a count of {error.count:,.0f}" for error in least.errors]
    return [
        PlanTable("sizes that were compared, of which the first are taken:", ("search", "sizes", "loss", *errors), rows)
    ]


def _format_sizes(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) if len(sizes) <= SHOWN else f"{len(sizes)} from {sizes[0]} to {sizes[-1]}"
