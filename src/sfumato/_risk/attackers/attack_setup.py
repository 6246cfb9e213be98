"""The input of the attacks: records with known true values, and the likelihood of their published values.

The records belong to a possible release that is drawn with a discarded key (`make_planned_setups`), or to the release
itself, which the key of its plan file matches with the original (`release_matching`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sfumato._core.array_types import Codes, Floats, Places
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._records.column_codes import SensitiveColumns
from sfumato._risk.attackers.assignment_posteriors import condition_on_groups
from sfumato._risk.attackers.attack_target import Target
from sfumato._risk.attackers.planned_exposure import SMALLEST, compute_value_likelihoods, draw_published_values
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

    def update_beliefs(self, beliefs: Floats, rows: Places) -> Floats | None:
        """The beliefs about some records with the release, by Bayes' rule."""
        if self.groups is not None:
            return condition_on_groups(beliefs, self.groups[rows], self.target.true_codes[rows])
        likelihoods = self.compute_likelihoods(rows)
        if likelihoods is None:
            return None
        weights = beliefs * likelihoods
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
    return [
        AttackSetup(
            target,
            partial(compute_value_likelihoods, chosen, perturbed_records, number),
            select_attacked_rows(np.arange(len(target.true_codes)), target, groups),
            groups,
            draws.narrow_to_column(target.name),
            seed,
        )
        for number, target in enumerate(protected_targets)
    ]


def select_attacked_rows(rows: Places, target: Target, groups: Codes | None) -> Places:
    """Selects as many records as an attack can use: the first records, or the groups with the first ids.

    Neither discloses anything: records come in random order, and ids are random.
    """
    if groups is None:
        return rows[: target.attacked_count]
    cumulative_sizes = np.cumsum(np.bincount(groups))
    group_limit = int(np.searchsorted(cumulative_sizes, target.attacked_count, side="right"))
    return np.flatnonzero(groups < max(group_limit, 1))
