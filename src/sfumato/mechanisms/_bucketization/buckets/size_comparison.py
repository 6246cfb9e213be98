"""Compares choices of bucket sizes by the errors of counts and by the loss."""

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
from sfumato.mechanisms._bucketization.buckets.record_assignment import DealingMethod, deal_out
from sfumato.mechanisms._bucketization.buckets.size_methods import Choice
from sfumato.mechanisms.capabilities import PlanTable
from sfumato.mechanisms.error_at_count import ErrorAtCount

MOST_LISTED = 5
"""The number of choices shown to people, and the number of sizes shown for each choice."""

SEARCHES = {"two": "two sizes", "multi": "several sizes", "optimal": "least loss"}
"""The names of the compared search methods, for people."""


@dataclass(frozen=True, slots=True)
class RankedChoice:
    """A compared choice of buckets: the search that found it, its loss, and the errors of counts."""

    method: str
    smallest: int
    dealing_method: DealingMethod
    setting: Setting
    errors: tuple[ErrorAtCount, ...]
    score: float

    def to_json(self) -> Json:
        """Writes the choice for the data steward."""
        return {
            "sizes": self.method,
            "min_bucket": self.smallest,
            "dealing": self.dealing_method,
            "buckets": [list(pair) for pair in self.setting],
            "loss": self.setting.loss,
            "error_curve": [error.to_json() for error in self.errors],
        }


def predict_errors(counts: Sequence[int], choice: Choice, dealing_method: DealingMethod) -> CountErrors:
    """The errors of counts, from buckets like those to be published.

    Counts, caps and sizes are published, and the random part of these buckets follows from the counts. So a choice
    based on these errors discloses nothing, and anyone can repeat the choice.
    """
    value_counts = np.array(counts, dtype=np.int64)
    public = Draws(hashlib.sha256(value_counts.tobytes()).digest(), is_test=True)
    return CountErrors(deal_out(choice.assignment, choice.floors, dealing_method, public, "foreseen"), value_counts)


def rank_choices(
    counts: Sequence[int], choices_by_key: Mapping[tuple[str, int], Choice], dealing_method: DealingMethod
) -> tuple[RankedChoice, ...]:
    """Ranks all choices by the errors of their counts, smallest first."""

    def rank_choice(choice_key: tuple[str, int]) -> RankedChoice:
        choice = choices_by_key[choice_key]
        expected = predict_errors(counts, choice, dealing_method)
        return RankedChoice(
            *choice_key,
            dealing_method,
            choice.assignment.setting,
            expected.inverse_errors,
            float(f"{expected.score:.6e}"),
        )

    return tuple(
        sorted(map(rank_choice, choices_by_key), key=lambda candidate: (candidate.score, candidate.setting.loss))
    )


def make_tables(ranked_choices: Sequence[RankedChoice]) -> list[PlanTable]:
    """The tables of the best choices, and that of smallest loss, for people."""
    if not ranked_choices:
        return []
    least_lossy = min(ranked_choices, key=lambda choice: choice.setting.loss)
    listed_choices = [
        *ranked_choices[:MOST_LISTED],
        *([] if least_lossy in ranked_choices[:MOST_LISTED] else [least_lossy]),
    ]
    rows = [
        (
            f"{SEARCHES[choice.method]}, at least {choice.smallest}",
            _format_sizes([size for size, _ in choice.setting]),
            f"{choice.setting.loss:,}",
            *(format_relative_error(error.by_records) for error in choice.errors),
        )
        for choice in listed_choices
    ]
    errors = [f"standard error of a count of {error.count:,.0f}" for error in least_lossy.errors]
    return [
        PlanTable(
            "Compared bucket sizes, ordered by error. The sizes in the first line are used:",
            ("search", "sizes", "loss", *errors),
            rows,
        )
    ]


def _format_sizes(sizes: Sequence[int]) -> str:
    return ", ".join(map(str, sizes)) if len(sizes) <= MOST_LISTED else f"{len(sizes)} from {sizes[0]} to {sizes[-1]}"
