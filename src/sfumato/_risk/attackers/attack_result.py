"""The beliefs of an attacker without and with a release, in the common form of all results."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats
from sfumato._core.json_types import Json
from sfumato._figures.attack_success import describe_known_columns

WELL_ABOVE = 1.1
NORMAL_95 = 1.959963984540054
ROUNDING = 1e-9
"""If a belief exceeds a limit by less than this number, the cause is floating-point rounding."""

EXPOSURE_EXPLANATION = (
    "Each line is one attacker, who knows the named columns of a person and has learned from all other people how "
    "these columns predict the value. Numbers are percentages of {:,} records: first without the release, then with "
    "it. 'Clearly above the bound' means that the attacker's odds of the true value exceed the bound by more than 10%. "
    "This includes values that exceed the bound without the release. The bound limits how much the release can raise a "
    "confidence that was within the prior. The bound does not limit a confidence that was above the prior, nor what "
    "public columns disclose by themselves."
)
"""Explains how to read tables of attacks, given the number of records."""


@dataclass(frozen=True, slots=True)
class BeliefSummary:
    """The attacker's beliefs in the true values of all attacked persons."""

    success: float
    """The share of records whose most likely value is the true value."""
    interval: tuple[float, float]
    """The 95% confidence interval of this share, if the attacked records are a sample."""
    mean_belief: float
    """The mean belief in the true value."""
    worst_belief: float
    """The belief in the true value of the most exposed record."""
    share_above: float
    """The share of records for which the belief in the true value is above the bound."""
    share_well_above: float
    """The share of records for which the odds of the true value are above the bound by more than 10%."""
    expected_success: float = math.nan
    """The share of correct guesses that the attacker expects, from the beliefs in the most likely values."""
    deviation: float = math.nan
    """The standard deviation of the share of correct guesses, if beliefs have the reference distribution."""

    @property
    def surprise(self) -> float:
        """The number of standard deviations by which the correct guesses exceed the number that the design predicts."""
        return (self.success - self.expected_success) / max(self.deviation, ROUNDING)

    def to_json(self) -> Json:
        """The summary as JSON."""
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
class UnlinkedSuccess:
    """The beliefs of an attacker who does not know which of the records with equal public columns is the person's.

    This describes a real release, because its rows have a random order. People in counts have no record.
    """

    records: int
    """The number of attacked people, who are in whole equivalence classes."""
    without_release: BeliefSummary
    with_release: BeliefSummary

    def to_json(self) -> Json:
        """The beliefs as JSON."""
        return {
            "records": self.records,
            "without": self.without_release.to_json(),
            "with_release": self.with_release.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Attack:
    """One attacker, with its name, its knowledge, and its beliefs about a protected column."""

    scenario: str
    """The kind of attacker, by its knowledge: `frequencies`, `one column` of a person, `all columns`; ..."""
    known_columns: tuple[str, ...]
    """The known public columns of each person."""
    protected_column: str
    """The protected column."""
    records: int
    """The number of attacked records."""
    without_release: BeliefSummary
    """The beliefs from the columns alone."""
    with_release: BeliefSummary | None
    """The beliefs of an attacker who knows which record is the person's; None if its distribution is unknown.

    A person whose value is published in counts has no record. Then these are the beliefs with the counts.
    """
    label: str = ""
    """The knowledge of the attacker, if it is more than the columns."""
    control: BeliefSummary | None = None
    """The beliefs of this attacker about people without a record in the release, as a control."""
    seed: int | None = None
    """The seed that drew the published values; None if a secret key drew them."""
    unlinked: UnlinkedSuccess | None = None
    """The beliefs with the release of an attacker who does not know which record is the person's; None if unknown."""

    @property
    def final_success(self) -> float:
        """The attack success with the release. If this is unknown, the attack success without the release."""
        return (self.with_release or self.without_release).success

    @property
    def knowledge(self) -> str:
        """The knowledge of the attacker, as a phrase that completes `an attacker who knows ...`."""
        return self.label or describe_known_columns(self.known_columns)

    def to_json(self) -> Json:
        """The attack as JSON."""
        more: Json = {}
        if self.label:
            more["knows"] = self.label
        if self.control is not None:
            more["control"] = self.control.to_json()
        if self.seed is not None:
            more["seed"] = self.seed
        if self.unlinked is not None:
            more["record_unknown"] = self.unlinked.to_json()
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
    """Sums up beliefs, batch by batch."""

    def __init__(self, limits: Floats) -> None:
        self.limits = limits * (1 + ROUNDING)
        self.clear_limits = WELL_ABOVE * limits / (1 - limits + WELL_ABOVE * limits)
        self.records = self.count_above = self.count_well_above = 0
        self.right_guesses = self.total = self.worst = self.expected = self.variance = 0.0

    def add(self, beliefs: Floats, true_codes: Codes, times: Counts | None = None) -> None:
        """Adds the beliefs about some records and their true values. Of equally likely values, one is guessed.

        `times` says how many records each row stands for.
        """
        times = np.ones(len(true_codes), dtype=np.int64) if times is None else times
        true_beliefs, top_beliefs = beliefs[np.arange(len(true_codes)), true_codes], beliefs.max(axis=1, keepdims=True)
        is_likeliest = beliefs >= top_beliefs * (1 - ROUNDING)
        guess_shares = is_likeliest[np.arange(len(true_codes)), true_codes] / is_likeliest.sum(axis=1)
        self.records += int(times.sum())
        self.right_guesses += float((guess_shares * times).sum())
        self.total += float((true_beliefs * times).sum())
        self.expected += float((top_beliefs[:, 0] * times).sum())
        self.variance += float((top_beliefs[:, 0] * (1 - top_beliefs[:, 0]) * times).sum())
        self.worst = max(self.worst, float(true_beliefs.max(initial=0.0)))
        self.count_above += int(times[true_beliefs > self.limits.take(true_codes)].sum())
        self.count_well_above += int(times[true_beliefs > self.clear_limits.take(true_codes)].sum())

    def summarize(self) -> BeliefSummary:
        """The summary of all batches."""
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


def compute_wilson_interval(share: float, records: float, errors: float = NORMAL_95) -> tuple[float, float]:
    """Wilson's score interval of a share, 95% by default; `errors` is its half-width in standard errors."""
    squared = errors**2 / records
    middle = (share + squared / 2) / (1 + squared)
    half = math.sqrt(share * (1 - share) * squared + squared**2 / 4) / (1 + squared)
    return max(middle - half, 0.0), min(middle + half, 1.0)
