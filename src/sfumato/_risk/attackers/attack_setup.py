"""The input of the attacks: records with known true values, and the likelihood of their published values.

The records belong to a possible release that is drawn with a discarded key (`make_planned_setups`), or to the release
itself, which the key of its plan file matches with the original (`release_matching`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sfumato._core.array_types import Codes, Counts, Floats, Mask, Places
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._records.column_codes import SensitiveColumns
from sfumato._risk.attackers.assignment_posteriors import condition_on_groups
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.crowd_posteriors import CONCENTRATIONS, SMALLEST
from sfumato._risk.attackers.planned_values import compute_value_likelihoods, draw_published_values
from sfumato._risk.attackers.published_crowds import PublishedCrowds, choose_most_correct, draw_planned_crowds
from sfumato.errors import SpecError

SEED_DIGITS = 64


@dataclass(frozen=True, eq=False)
class AttackSetup:
    """One protected column, its published values, and the attacked records."""

    target: Target
    compute_likelihoods: Callable[[Places], Floats | None] = field(repr=False)
    """The likelihood of records' published values for each true value, up to a factor for each record; None if
    unknown.
    """
    rows: Places = field(repr=False)
    """The attacked records. If there are groups, whole groups are attacked."""
    groups: Codes | None = field(default=None, repr=False)
    """The group of each record, if the values of each group are published and the group is complete."""
    draws: Draws = field(default_factory=Draws.from_fresh_key, repr=False)
    """Random draws of the attacker, such as the choice of known people."""
    seed: int | None = None
    """The seed of these draws; None if they are secret."""

    crowds: PublishedCrowds | None = field(default=None, repr=False)
    """What is published about people without a record; None if all people have records."""

    def update_beliefs(
        self, beliefs: Floats, rows: Places, *, second: AttackSetup | None = None, known: Counts | None = None
    ) -> Floats | None:
        """The beliefs about some records with the release, by Bayes' rule.

        The attacker may also have a second release of the same people, and may know some people of each crowd (with
        their true counts).
        """
        if self.groups is not None:
            posteriors = condition_on_groups(beliefs, self.groups[rows], self.target.true_codes[rows])
            return posteriors if second is None else second.update_by_records(posteriors, rows)
        if self.crowds is None and (second is None or second.crowds is None):
            posteriors_or_none = self.update_by_records(beliefs, rows)
            if posteriors_or_none is None or second is None:
                return posteriors_or_none
            return second.update_by_records(posteriors_or_none, rows)
        candidates = self._iter_updates(beliefs, rows, second, known)
        return None if candidates is None else choose_most_correct(candidates, self.target.true_codes[rows])

    def update_by_records(self, beliefs: Floats, rows: Places) -> Floats | None:
        """The beliefs with the records of the people alone."""
        likelihoods = self.compute_likelihoods(rows)
        if likelihoods is None:
            return None
        return _normalize(beliefs * likelihoods)

    def is_counted(self, rows: Places) -> Mask:
        """Whether people are published in the counts of a crowd, so that they have no record."""
        return np.zeros(len(rows), dtype=np.bool_) if self.crowds is None else self.crowds.is_inside(rows)

    def _iter_updates(
        self, beliefs: Floats, rows: Places, second: AttackSetup | None, known: Counts | None
    ) -> Iterator[Floats] | None:
        """The beliefs with the release for each degree of ties; None if the distribution of records is unknown."""
        weights = beliefs
        for setup in (self, *(() if second is None else (second,))):
            has_record = ~setup.is_counted(rows)
            likelihoods = setup.compute_likelihoods(rows[has_record])
            if likelihoods is None:
                return None
            weights = weights.copy()
            weights[has_record] *= likelihoods
        return self._iter_count_updates(_normalize(weights), rows, second, known)

    def _iter_count_updates(
        self, beliefs: Floats, rows: Places, second: AttackSetup | None, known: Counts | None
    ) -> Iterator[Floats]:
        is_first = self.is_counted(rows)
        is_second = np.zeros_like(is_first) if second is None else second.is_counted(rows)
        for concentration in CONCENTRATIONS:
            posteriors = beliefs.copy()
            if self.crowds is not None:
                only = is_first & ~is_second
                posteriors[only] = self.crowds.compute_posteriors(beliefs[only], rows[only], concentration, known)
            if second is not None and second.crowds is not None:
                only = is_second & ~is_first
                posteriors[only] = second.crowds.compute_posteriors(beliefs[only], rows[only], concentration)
                if self.crowds is not None:
                    both = is_first & is_second
                    posteriors[both] = self.crowds.compute_posteriors(
                        beliefs[both], rows[both], concentration, known, second.crowds
                    )
            yield posteriors


def _normalize(weights: Floats) -> Floats:
    return np.asarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), SMALLEST))


def make_draws(seed: int | None) -> Draws:
    """Makes the draws of an attack. They are secret, or come from a seed so that the attack can be repeated."""
    if seed is None:
        return Draws.from_fresh_key()
    if not 0 <= seed < 16**SEED_DIGITS:
        raise SpecError(
            f"the seed must be a number of at least 0, with at most {SEED_DIGITS} hexadecimal digits.",
            code="seed-out-of-range",
            fields={"digits": SEED_DIGITS},
        )
    return Draws.unsafe_test_key(f"{seed:0{SEED_DIGITS}x}")


def make_planned_setups(
    chosen: ChosenMechanism,
    sample: Sample,
    sensitive: SensitiveColumns,
    protected_targets: Sequence[Target],
    seed: int | None = None,
) -> list[AttackSetup]:
    """Makes a setup for each protected column, by publishing a sample's records with a plan."""
    draws = make_draws(seed)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive, draws)
    groups = perturbed_records.cells if sample.is_whole and chosen.mechanism.bucket_table is not None else None
    setups = []
    for number, target in enumerate(protected_targets):
        column_draws = draws.narrow_to_column(target.name)
        crowds = draw_planned_crowds(chosen, sample, target.size, target.attacked_count, column_draws)
        rows = select_attacked_rows(np.arange(len(target.true_codes)), target, groups)
        compute_likelihoods = partial(compute_value_likelihoods, chosen, perturbed_records, number)
        setups.append(AttackSetup(target, compute_likelihoods, rows, groups, column_draws, seed, crowds))
    return setups


def select_attacked_rows(rows: Places, target: Target, groups: Codes | None) -> Places:
    """Selects as many records as an attack can use: the first records, or the groups with the first ids.

    Neither discloses anything: records come in random order, and ids are random.
    """
    if groups is None:
        return rows[: target.attacked_count]
    cumulative_sizes = np.cumsum(np.bincount(groups))
    group_limit = int(np.searchsorted(cumulative_sizes, target.attacked_count, side="right"))
    return np.flatnonzero(groups < max(group_limit, 1))
