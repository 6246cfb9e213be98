"""Attacks people whose record the attacker cannot tell from those of other people with equal public columns.

Attacks on single records take the person's own record as known. For people who are alike this overstates the success,
because the rows of a release have a random order. Here the attacker does not know which record belongs to which person.
People in crowds have no record, so their counts are used. All mechanisms are attacked on the same people, in
equivalence classes of all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Counts, Floats, Indices, Mask, Places
from sfumato._profile.equivalence_classes import hash_numbers
from sfumato._risk.attackers.attack_result import BeliefSum, BeliefSummary, UnlinkedSuccess
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.belief_calibration import BeliefFunction
from sfumato._risk.attackers.crowd_posteriors import CONCENTRATIONS as CROWD_CONCENTRATIONS
from sfumato._risk.attackers.published_crowds import OUTSIDE, UNUSED, PublishedCrowds
from sfumato._risk.attackers.unlinked_records import CONCENTRATIONS, ClassRecords

MOST_CELLS, LEAST_RECORDS = 1 << 21, 3000
"""The largest product of records and values, and the smallest number of records, that one attack uses."""
CLASS_PART = 8
"""If a class has more than this part of these records, some of its records represent all of them."""
CHUNK_CELLS = 1 << 18

RecordLikelihoods = Callable[[Places], Floats | None]


@dataclass(frozen=True, eq=False)
class UnlinkedPeople:
    """Some equivalence classes, with the attacked people of each."""

    target: Target
    first_people: Places
    """One of the attacked people of each class."""
    true_counts: Counts
    """The number of attacked people with each value (columns) in each class (rows)."""
    records: Places
    """The records that are used of each class, class after class."""
    sizes: Counts
    """The number of these records of each class."""

    @classmethod
    def choose(cls, target: Target, is_usable: Mask | None = None) -> UnlinkedPeople | None:
        """Chooses classes of all sizes, with about as many records as an attack can use; None if there are none.

        In each class, only the people of one half are attacked, so that the belief about all of them is the same.
        """
        limit = max(MOST_CELLS // target.size, LEAST_RECORDS)
        most, class_sizes = limit // CLASS_PART, np.bincount(target.classes)
        order = np.lexsort((hash_numbers(np.arange(len(class_sizes)), np.uint64(3)), class_sizes))
        if is_usable is not None:
            is_usable_class = np.zeros(len(class_sizes), dtype=np.bool_)
            is_usable_class[target.classes[is_usable]] = True
            order = order[is_usable_class[order]]
        step = max(-(-int(np.minimum(class_sizes, most)[order].sum()) // limit), 1)
        chosen = order[step // 2 :: step]
        number = np.full(len(class_sizes), -1)
        number[chosen] = np.arange(len(chosen))
        people = np.flatnonzero(number[target.classes] >= 0)
        if not len(people):
            return None
        people = people[np.argsort(number[target.classes[people]], kind="stable")]
        own_class = number[target.classes[people]]
        starts = np.searchsorted(own_class, np.arange(len(chosen)))
        half = target.is_first[people[starts]]  # the half of the first person, which is random
        attacked = np.flatnonzero(target.is_first[people] == half[own_class])
        keys = own_class[attacked] * target.size + target.true_codes[people[attacked]].astype(np.int64)
        counts = np.bincount(keys, minlength=len(chosen) * target.size).reshape(-1, target.size)
        is_used = np.arange(len(people)) - starts[own_class] < most
        return cls(
            target, people[starts], counts, people[is_used], np.bincount(own_class[is_used], minlength=len(chosen))
        )

    def summarize(self, beliefs: Floats) -> BeliefSummary:
        """Summarises the beliefs about the attacked people of each class."""
        belief_sum = BeliefSum(self.target.limits)
        classes, codes = np.nonzero(self.true_counts)
        step = max(1, CHUNK_CELLS // self.target.size)
        for first in range(0, len(classes), step):
            part = classes[first : first + step], codes[first : first + step]
            belief_sum.add(beliefs[part[0]], part[1], self.true_counts[part])
        return belief_sum.summarize()

    def choose_best(self, classes: Indices, candidates: Iterable[Floats]) -> Floats:
        """The beliefs about some classes with the most correct guesses, of several candidates."""
        counts = self.true_counts[classes]

        def count_right(beliefs: Floats) -> float:
            is_top = beliefs >= beliefs.max(axis=1, keepdims=True)
            return float((is_top * counts / is_top.sum(axis=1, keepdims=True)).sum())

        return max(candidates, key=count_right)

    def list_records(self, classes: Indices) -> Places:
        """The records that are used of some classes, class after class."""
        starts, sizes = np.cumsum(self.sizes) - self.sizes, self.sizes[classes]
        offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(self.records[np.repeat(starts[classes], sizes) + offsets])


def attack_unlinked_people(
    target: Target,
    compute_beliefs: BeliefFunction,
    compute_likelihoods: RecordLikelihoods,
    crowds: PublishedCrowds | None,
    compute_earlier_beliefs: BeliefFunction | None = None,
) -> UnlinkedSuccess | None:
    """Attacks people without knowing whose record is whose; None if the distribution of records is unknown.

    The beliefs about a person must not depend on the person's own value. If an attacker learned these beliefs from the
    release, `compute_earlier_beliefs` gives the beliefs without the release.
    """
    people = UnlinkedPeople.choose(target, None if crowds is None else crowds.numbers != UNUSED)
    if people is None:
        return None
    beliefs = compute_beliefs(people.first_people)
    numbers = np.full(len(beliefs), OUTSIDE) if crowds is None else crowds.numbers[people.first_people]
    posteriors = np.empty_like(beliefs)
    counted, recorded = np.flatnonzero(numbers >= 0), np.flatnonzero(numbers < 0)
    if crowds is not None and len(counted):
        rows = people.first_people[counted]
        posteriors[counted] = people.choose_best(
            counted,
            (crowds.compute_posteriors(beliefs[counted], rows, degree) for degree in CROWD_CONCENTRATIONS),
        )
    if len(recorded):
        likelihoods = compute_likelihoods(people.list_records(recorded))
        if likelihoods is None:
            return None
        records = ClassRecords(likelihoods, people.sizes[recorded])
        posteriors[recorded] = people.choose_best(
            recorded, (records.compute_posteriors(beliefs[recorded], degree) for degree in CONCENTRATIONS)
        )
    number = int(people.true_counts.sum())
    earlier = beliefs if compute_earlier_beliefs is None else compute_earlier_beliefs(people.first_people)
    return UnlinkedSuccess(number, people.summarize(earlier), people.summarize(posteriors))
