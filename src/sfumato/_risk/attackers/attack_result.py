"""What an attacker comes to believe without a release, and with it: the one form of all results."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import Codes, Floats
from sfumato._core.json_types import Json
from sfumato._figures.attack_success import describe_known_columns

WELL_ABOVE = 1.1
NORMAL_95 = 1.959963984540054
ROUNDING = 1e-9
"""A belief above a limit by no more than this is a matter of floating-point numbers."""

EXPOSURE_EXPLANATION = (
    "Each line is somebody who knows these columns of a person, and how they go with the values of everybody else; "
    "each number is without the release -> with it, over the {:,} records that were looked at. Clearly beyond the "
    "request is a true value that is believed more than was asked for by over a tenth of the odds, also where it was "
    "above the prior before. A bound limits what the release adds to a belief within its prior; what columns tell by "
    "themselves, and beliefs above the prior, it does not limit."
)
"""How tables of attacks are read, given how many records were looked at."""


@dataclass(frozen=True, slots=True)
class BeliefSummary:
    """What is believed of the true values of all persons looked at."""

    success: float
    """For which share of the records the likeliest value is the true one."""
    interval: tuple[float, float]
    """A 95% interval of it, if the records looked at stand for others."""
    mean_belief: float
    """How much the true value is believed on average."""
    worst_belief: float
    """How much the true value of the most exposed record is believed."""
    share_above: float
    """For which share of the records the true value is believed beyond what the request allows for it."""
    share_well_above: float
    """The same by more than a tenth of the odds: a column that hardly tells lifts every other record a little."""
    expected_success: float = math.nan
    """Which share the attacker expects to be right, by how much the likeliest values are believed."""
    deviation: float = math.nan
    """The standard deviation of what is right about what is expected, if beliefs are those of the law."""

    @property
    def surprise(self) -> float:
        """By how many standard deviations more is right than was expected: what is shown tells more than its law."""
        return (self.success - self.expected_success) / max(self.deviation, ROUNDING)

    def to_json(self) -> Json:
        """For machines."""
        return {
            "right": self.success,
            "right_low": self.interval[0],
            "right_high": self.interval[1],
            "mean_belief": self.mean_belief,
            "worst_belief": self.worst_belief,
            "above": self.share_above,
            "well_above": self.share_well_above,
        }


@dataclass(frozen=True, slots=True)
class Attack:
    """One attacker: who it is, what it was told, and what it believes of a protected column."""

    scenario: str
    """What kind of attacker: somebody who knows the `frequencies`, `one column` of a person, or `all columns`; ..."""
    known_columns: tuple[str, ...]
    """The public columns that are known of each person."""
    protected_column: str
    """The protected column."""
    records: int
    """How many records were looked at."""
    without_release: BeliefSummary
    """By the columns alone."""
    with_release: BeliefSummary | None
    """With what the release shows of the person; None where its law is not known."""
    label: str = ""
    """What it knows, where that is not the columns alone."""
    control: BeliefSummary | None = None
    """The same attacker about people of whom the release has no record: what it teaches in general."""
    seed: int | None = None
    """The number that what records show was drawn by; None where a secret key drew it."""

    @property
    def knowledge(self) -> str:
        """What it knows, so that `somebody who knows ...` can be said."""
        return self.label or describe_known_columns(self.known_columns)

    def to_json(self) -> Json:
        """For machines."""
        more: Json = {}
        if self.label:
            more["knows"] = self.label
        if self.control is not None:
            more["control"] = self.control.to_json()
        if self.seed is not None:
            more["seed"] = self.seed
        return {
            "who": self.scenario,
            "told": list(self.known_columns),
            "about": self.protected_column,
            "records": self.records,
            "without": self.without_release.to_json(),
            "with_release": None if self.with_release is None else self.with_release.to_json(),
            **more,
        }


class BeliefSum:
    """Adds beliefs up, batch by batch."""

    def __init__(self, limits: Floats) -> None:
        self.limits = limits * (1 + ROUNDING)
        self.clear_limits = WELL_ABOVE * limits / (1 - limits + WELL_ABOVE * limits)
        self.records = self.count_above = self.count_well_above = 0
        self.right_guesses = self.total = self.worst = self.expected = self.variance = 0.0

    def add(self, beliefs: Floats, true_codes: Codes) -> None:
        """Add what is believed of some records, and what they hold; of equally likely values one is guessed."""
        true_beliefs, top_beliefs = beliefs[np.arange(len(true_codes)), true_codes], beliefs.max(axis=1, keepdims=True)
        is_likeliest = beliefs >= top_beliefs * (1 - ROUNDING)
        guess_shares = is_likeliest[np.arange(len(true_codes)), true_codes] / is_likeliest.sum(axis=1)
        self.records += len(true_codes)
        self.right_guesses += float(guess_shares.sum())
        self.total += float(true_beliefs.sum())
        self.expected += float(top_beliefs.sum())
        self.variance += float((top_beliefs * (1 - top_beliefs)).sum())
        self.worst = max(self.worst, float(true_beliefs.max(initial=0.0)))
        self.count_above += int((true_beliefs > self.limits.take(true_codes)).sum())
        self.count_well_above += int((true_beliefs > self.clear_limits.take(true_codes)).sum())

    def summarize(self) -> BeliefSummary:
        """All of it."""
        record_count = max(self.records, 1)
        success = self.right_guesses / record_count
        share_above, share_well_above = self.count_above / record_count, self.count_well_above / record_count
        return BeliefSummary(
            success,
            compute_wilson_interval(success, record_count),
            self.total / record_count,
            self.worst,
            share_above,
            share_well_above,
            self.expected / record_count,
            math.sqrt(max(self.variance, 0.0)) / record_count,
        )


def compute_wilson_interval(share: float, records: int, errors: float = NORMAL_95) -> tuple[float, float]:
    """Wilson's score interval of a share, by so many standard errors; at 95% unless something else is wanted."""
    squared = errors**2 / records
    middle = (share + squared / 2) / (1 + squared)
    half = math.sqrt(share * (1 - share) * squared + squared**2 / 4) / (1 + squared)
    return max(middle - half, 0.0), min(middle + half, 1.0)
