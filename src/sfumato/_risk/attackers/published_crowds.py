"""The published counts of crowds, which are groups of people with equal public columns, as attackers use them.

Nobody in a crowd has a record. An attacker learns from the noisy counts of the crowd. The attacker may assume weak or
strong ties between people who are alike. So every attack tries several degrees of ties and keeps the one with the most
correct guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats, Mask, Places
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.equivalence_classes import hash_numbers, number_classes
from sfumato._profile.record_sample import Sample
from sfumato._risk.attackers.crowd_posteriors import (
    CONCENTRATIONS,
    CountsOfRows,
    compute_crowd_posteriors,
    mix_with_known,
)
from sfumato.mechanisms.capabilities import CrowdAttackModel, CrowdCounts
from sfumato.mechanisms.mechanism import AnyMechanism

OUTSIDE, UNUSED = -1, -2
"""The crowd number of people without a crowd, and of people whose crowd is left out.

Crowds are left out if there are too many.
"""
MOST_COUNTS = 1 << 22
"""The most counts of crowds that are drawn for attacks before publishing."""
LARGEST_ONE_VALUED = 10
"""The most people of a crowd with one value that is counted as small."""


@dataclass(frozen=True, eq=False)
class PublishedCrowds:
    """The noisy and the true counts of crowds. The true counts only score guesses, or stand for known people."""

    numbers: Places = field(repr=False)
    """The crowd of each record, or `OUTSIDE` or `UNUSED`."""
    noisy: Counts = field(repr=False)
    """The noisy count of each value (columns) in each crowd (rows). They add up to the people of the crowd."""
    true_counts: Counts = field(repr=False)
    noise_probabilities: Floats = field(repr=False)
    """The probabilities of the noise of one count, from the most negative number to the most positive one."""
    moved_probabilities: Floats = field(repr=False)
    """The probabilities that the noise of a crowd moves 0, 1, 2, ... units."""
    compute_count_likelihoods: Callable[[Counts], Floats] = field(repr=False)
    """The likelihoods of the values of people, given their crowds' noisy counts minus all other people's counts."""

    @classmethod
    def of(
        cls, mechanism: AnyMechanism, design: Any, numbers: Places, noisy: Counts, true_counts: Counts
    ) -> PublishedCrowds:
        """Reads the distributions of the noise from the design."""
        model = mechanism.require(CrowdAttackModel)
        return cls(
            numbers,
            noisy,
            true_counts,
            model.list_noise_probabilities(design),
            model.list_moved_probabilities(design),
            lambda residuals: model.compute_count_likelihoods(design, residuals),
        )

    @property
    def people(self) -> Counts:
        """The number of people in each crowd, which is published."""
        return np.asarray(self.noisy.sum(axis=1))

    def is_inside(self, rows: Places) -> Mask:
        """Whether records are published in counts."""
        return np.asarray(self.numbers[rows] >= 0)

    def select(self, rows: Places) -> PublishedCrowds:
        """The same crowds, seen by some of the records."""
        return replace(self, numbers=self.numbers[rows])

    def compute_posteriors(
        self,
        beliefs: Floats,
        rows: Places,
        concentration: float,
        known: Counts | None = None,
        second: PublishedCrowds | None = None,
    ) -> Floats:
        """The beliefs about people of crowds with the counts, and with those of a second release.

        `known` has the true counts of the people of each crowd whose values the attacker knows.
        """
        crowds = self.numbers[rows]
        people, noisy = self.people[crowds], [self.noisy[crowds]]
        if second is not None:
            noisy.append(second.noisy[second.numbers[rows]])
        if known is not None:
            known = known[crowds]
            people, noisy = people - known.sum(axis=1), [counts - known for counts in noisy]
        return compute_crowd_posteriors(
            beliefs, CountsOfRows(people, noisy, known), self.noise_probabilities, concentration
        )

    def count_known(self, true_codes: Codes, is_known: Mask) -> Counts:
        """The true counts of the known people of each crowd."""
        rows = np.flatnonzero(is_known & (self.numbers >= 0))
        counts = np.zeros_like(self.true_counts)
        np.add.at(counts, (self.numbers[rows], true_codes[rows]), 1)
        return counts

    def count_others(self, true_codes: Codes, rows: Places) -> Counts:
        """The true counts of all other people in the crowd of each row."""
        others = self.true_counts[self.numbers[rows]].copy()
        others[np.arange(len(rows)), true_codes[rows]] -= 1
        return others

    def iter_with_others(self, beliefs: Floats, true_codes: Codes, rows: Places) -> Iterator[tuple[Floats, Floats]]:
        """The beliefs of an attacker who knows the values of all other people in a crowd, without and with the counts.

        The likelihood of the counts is exact. One pair for each degree of ties.
        """
        others = self.count_others(true_codes, rows)
        likelihoods = self.compute_count_likelihoods(self.noisy[self.numbers[rows]] - others)
        for concentration in CONCENTRATIONS:
            before = mix_with_known(beliefs, others, concentration)
            before /= before.sum(axis=1, keepdims=True)
            after = before * likelihoods
            yield before, after / after.sum(axis=1, keepdims=True)


def draw_planned_crowds(
    chosen: ChosenMechanism, sample: Sample, size: int, attacked_count: int, draws: Draws
) -> PublishedCrowds | None:
    """Draws the noisy counts of a possible release; None if the mechanism publishes no counts.

    If there are too many crowds, only the crowds of the first records and some others are drawn.
    """
    rules = chosen.mechanism.crowd_counts
    if rules is None or chosen.mechanism.crowd_attack_model is None:
        return None
    classes = number_classes(sample.columns, sample.records)
    numbers = number_crowds(rules, chosen.plan, classes)
    crowds = int(numbers.max(initial=OUTSIDE)) + 1
    if crowds * size > MOST_COUNTS:
        numbers = _leave_crowds_out(numbers, crowds, numbers[:attacked_count], MOST_COUNTS // size)
        crowds = int(numbers.max(initial=OUTSIDE)) + 1
    true_counts = count_values(numbers, sample.sensitive, crowds, size)
    noisy = true_counts + rules.draw_noise(chosen.plan, 0, crowds, draws)
    return PublishedCrowds.of(chosen.mechanism, chosen.design, numbers, noisy, true_counts)


def number_crowds(rules: CrowdCounts[Any], plan: object, classes: Places) -> Places:
    """The number of the crowd of each record."""
    is_crowd = rules.is_crowd(plan, np.bincount(classes))
    return np.where(is_crowd, np.cumsum(is_crowd) - 1, OUTSIDE)[classes]


def _leave_crowds_out(numbers: Places, crowds: int, attacked: Places, most: int) -> Places:
    """Renumbers the crowds of the attacked records and some others."""
    is_kept = np.zeros(crowds, dtype=np.bool_)
    is_kept[attacked[attacked >= 0]] = True
    rest = np.flatnonzero(~is_kept)
    rest = rest[np.argsort(hash_numbers(rest, np.uint64(2)))]
    is_kept[rest[: max(most - int(is_kept.sum()), 0)]] = True
    renumbered = np.append(np.where(is_kept, np.cumsum(is_kept) - 1, UNUSED), OUTSIDE)
    return np.asarray(renumbered[numbers])


def count_values(numbers: Places, true_codes: Codes, crowds: int, size: int) -> Counts:
    """The number of people with each value (columns) in each crowd (rows)."""
    rows = np.flatnonzero(numbers >= 0)
    keys = numbers[rows] * size + true_codes[rows].astype(np.int64)
    return np.bincount(keys, minlength=crowds * size).reshape(crowds, size)


def count_planned_one_valued(chosen: ChosenMechanism, sample: Sample) -> int | None:
    """The number of people in crowds of fewer than 11 people who all have the same value, before publishing.

    None if the mechanism publishes no counts, or if the sample is not the whole table: it has only parts of crowds.
    """
    rules = chosen.mechanism.crowd_counts
    if rules is None or not sample.is_whole:
        return None
    classes = number_classes(sample.columns, sample.records)
    people = np.bincount(classes)
    is_small = rules.is_crowd(chosen.plan, people) & (people <= LARGEST_ONE_VALUED)
    first_codes = np.empty(len(people), dtype=np.int64)
    first_codes[classes] = sample.sensitive
    has_other = np.bincount(classes, weights=sample.sensitive != first_codes[classes]) > 0
    return int(people[is_small & ~has_other].sum())


def count_one_valued(true_counts: Counts) -> int:
    """The number of people in crowds of fewer than 11 people who all have the same value.

    Noise rarely makes a mixed crowd look like a crowd of one value. So the counts disclose the value of all these
    people.
    """
    people = true_counts.sum(axis=1)
    is_one_valued = (true_counts.max(axis=1, initial=0) == people) & (people <= LARGEST_ONE_VALUED)
    return int(people[is_one_valued].sum())


def choose_most_correct(candidates: Iterable[Floats], true_codes: Codes) -> Floats:
    """The beliefs for the degree of ties that gives the most correct guesses."""
    return max(candidates, key=lambda beliefs: count_right_guesses(beliefs, true_codes))


def count_right_guesses(beliefs: Floats, true_codes: Codes) -> float:
    """The number of correct guesses of the most likely value. Of equally likely values, one is guessed."""
    is_top = beliefs >= beliefs.max(axis=1, keepdims=True)
    return float((is_top[np.arange(len(true_codes)), true_codes] / is_top.sum(axis=1)).sum())
