"""What an attacker comes to believe without a release, and with it: the one form of all results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato._core.arrays import Codes, Floats
from sfumato._figures.attack_success import describe_known_columns

WELL_ABOVE = 1.1
NORMAL_95 = 1.959963984540054
ROUNDING = 1e-9
"""A belief above a limit by no more than this is a matter of floating-point numbers."""

EXPOSURE_WORDS = (
    "Each line is somebody who knows these columns of a person, and how they go with the values of everybody else; "
    "each number is without the release -> with it, over the {:,} records that were looked at. Clearly beyond the "
    "request is a true value that is believed more than was asked for by over a tenth of the odds, also where it was "
    "above the prior before. A bound limits what the release adds to a belief within its prior; what columns tell by "
    "themselves, and beliefs above the prior, it does not limit."
)
"""How tables of attacks are read, given how many records were looked at."""


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of the true values of all persons looked at."""

    right: float
    """For which share of the records the likeliest value is the true one."""
    interval: tuple[float, float]
    """A 95% interval of it, if the records looked at stand for others."""
    mean: float
    """How much the true value is believed on average."""
    worst: float
    """How much the true value of the most exposed record is believed."""
    above: float
    """For which share of the records the true value is believed beyond what the request allows for it."""
    well_above: float
    """The same by more than a tenth of the odds: a column that hardly tells lifts every other record a little."""
    expected: float = math.nan
    """Which share the attacker expects to be right, by how much the likeliest values are believed."""
    deviation: float = math.nan
    """The standard deviation of what is right about what is expected, if beliefs are those of the law."""

    @property
    def surprise(self) -> float:
        """By how many standard deviations more is right than was expected: what is shown tells more than its law."""
        return (self.right - self.expected) / max(self.deviation, ROUNDING)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "right": self.right,
            "right_low": self.interval[0],
            "right_high": self.interval[1],
            "mean_belief": self.mean,
            "worst_belief": self.worst,
            "above": self.above,
            "well_above": self.well_above,
        }


@dataclass(frozen=True, slots=True)
class Attack:
    """One attacker: who it is, what it was told, and what it believes of a protected column."""

    who: str
    """What kind of attacker: somebody who knows the `frequencies`, `one column` of a person, or `all columns`; ..."""
    told: tuple[str, ...]
    """The public columns that are known of each person."""
    about: str
    """The protected column."""
    records: int
    """How many records were looked at."""
    without: Belief
    """By the columns alone."""
    with_release: Belief | None
    """With what the release shows of the person; None where its law is not known."""
    words: str = ""
    """What it knows, where that is not the columns alone."""
    control: Belief | None = None
    """The same attacker about people of whom the release has no record: what it teaches in general."""
    seed: int | None = None
    """The number that what records show was drawn by; None where a secret key drew it."""

    @property
    def knows(self) -> str:
        """What it knows, so that `somebody who knows ...` can be said."""
        return self.words or describe_known_columns(self.told)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        more: dict[str, Any] = {}
        if self.words:
            more["knows"] = self.words
        if self.control is not None:
            more["control"] = self.control.to_json()
        if self.seed is not None:
            more["seed"] = self.seed
        return {
            "who": self.who,
            "told": list(self.told),
            "about": self.about,
            "records": self.records,
            "without": self.without.to_json(),
            "with_release": None if self.with_release is None else self.with_release.to_json(),
            **more,
        }


class BeliefSum:
    """Adds beliefs up, batch by batch."""

    def __init__(self, limits: Floats) -> None:
        self.limits = limits * (1 + ROUNDING)
        self.well_beyond = WELL_ABOVE * limits / (1 - limits + WELL_ABOVE * limits)
        self.records = self.above = self.well_above = 0
        self.right = self.total = self.worst = self.expected = self.variance = 0.0

    def add(self, beliefs: Floats, held: Codes) -> None:
        """Add what is believed of some records, and what they hold; of equally likely values one is guessed."""
        own, most = beliefs[np.arange(len(held)), held], beliefs.max(axis=1, keepdims=True)
        is_likeliest = beliefs >= most * (1 - ROUNDING)
        guessed = is_likeliest[np.arange(len(held)), held] / is_likeliest.sum(axis=1)
        self.records += len(held)
        self.right += float(guessed.sum())
        self.total += float(own.sum())
        self.expected += float(most.sum())
        self.variance += float((most * (1 - most)).sum())
        self.worst = max(self.worst, float(own.max(initial=0.0)))
        self.above += int((own > self.limits.take(held)).sum())
        self.well_above += int((own > self.well_beyond.take(held)).sum())

    def result(self) -> Belief:
        """All of it."""
        many = max(self.records, 1)
        right = self.right / many
        above, well_above = self.above / many, self.well_above / many
        return Belief(
            right,
            compute_wilson_interval(right, many),
            self.total / many,
            self.worst,
            above,
            well_above,
            self.expected / many,
            math.sqrt(max(self.variance, 0.0)) / many,
        )


def compute_wilson_interval(share: float, records: int, errors: float = NORMAL_95) -> tuple[float, float]:
    """Wilson's score interval of a share, by so many standard errors; at 95% unless something else is wanted."""
    squared = errors**2 / records
    middle = (share + squared / 2) / (1 + squared)
    half = math.sqrt(share * (1 - share) * squared + squared**2 / 4) / (1 + squared)
    return max(middle - half, 0.0), min(middle + half, 1.0)
