"""Finds public columns that disclose too much together with a release, and stops the publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.record_sample import Sample
from sfumato._request.guarantee import Guarantee
from sfumato._request.warnings import Notice
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.known_column_beliefs import count_cooccurrences, select_rows
from sfumato._risk.attackers.planned_exposure import ONE_COLUMN, split_into_chunks
from sfumato.mechanisms.capabilities import GroupRisk
from sfumato.mechanisms.mechanism import AnyMechanism

LARGEST_LIFTED_SHARE = 0.5
"""The largest share of records for which a public column may raise the belief well above the caps."""
RELEASE_ONLY_GUARANTEES = (Guarantee.BUCKET_ONLY, Guarantee.DECOYS_ONLY)
"""Guarantees that hold only against an attacker who knows nothing but the release."""
COARSER = "Drop the column (`drop=`), or publish it in wider ranges (`ranges=`)."


@dataclass(frozen=True, slots=True)
class Breach:
    """The share of records for which a public column breaks the bound, under a guarantee for the marginal prior."""

    column: str
    worst_posterior: float
    """The largest posterior of a protected value that was within the prior in the column's class."""
    breached_share: float
    """The expected share of records with a posterior above the bound."""


def measure_breaches(chosen: ChosenMechanism, sample: Sample) -> list[Breach]:
    """Measures each public column with the plan's exact distribution, some groups at a time."""
    risks = chosen.mechanism.require(GroupRisk)
    size, column_breaches = chosen.histogram.domain_size, []
    for column, codes in sample.columns.items():
        table, _ = count_cooccurrences(codes, sample.sensitive, size)
        worst_posterior, breached_records = 0.0, 0.0
        for rows in split_into_chunks(table.shape[0], size):
            groups = select_rows(table, rows).astype(np.int64)
            risk = risks.measure(chosen.plan, groups)
            worst_posterior, breached_records = (
                max(worst_posterior, risk.worst_posterior),
                breached_records + risk.breached_share * float(groups.sum()),
            )
        column_breaches.append(Breach(column, worst_posterior, breached_records / sample.records))
    return column_breaches


def find_breach_stop(column_breaches: Sequence[Breach], limit: Fraction) -> Notice | None:
    """Makes a stop if a public column breaks the bound for more records than the limit allows."""
    worst_breach = max(column_breaches, key=lambda breach: breach.breached_share, default=None)
    if worst_breach is None or worst_breach.breached_share <= limit:
        return None
    return Notice(
        "bound-breached",
        f"for {worst_breach.breached_share:.1%} of the records, an attacker who knows a person's "
        f"{worst_breach.column!r} can exceed the bound (confidence up to {worst_breach.worst_posterior:.2f}). The "
        f"limit is {float(limit):.2%} of the records. The guarantee of this mechanism covers only the marginal prior.",
        worst_breach.column,
        {"share": worst_breach.breached_share, "posterior": worst_breach.worst_posterior, "limit": str(limit)},
        (worst_breach.column,),
        (
            "Choose `mechanism='subset'` or `mechanism='uniform'`, whose guarantee holds whatever the attacker knew "
            "before.",
            COARSER,
            "Or raise `breach_limit=`, or accept it: `accept_marginal_prior='REASON'`.",
        ),
    )


def find_exposure_stop(attack_results: Sequence[Attack], mechanism: AnyMechanism) -> Notice | None:
    """Makes a stop if a public column raises most beliefs well above those from the release alone."""
    if mechanism.guarantee not in RELEASE_ONLY_GUARANTEES:
        return None
    if attack_results:
        mechanism.check_attackable()  # without this no belief would seem to rise
    results_with_release = [
        (candidate.with_release, candidate)
        for candidate in attack_results
        if candidate.with_release is not None and candidate.scenario == ONE_COLUMN
    ]
    worst_belief, worst_attack = max(
        results_with_release, key=lambda candidate: candidate[0].share_well_above, default=(None, None)
    )
    if worst_belief is None or worst_attack is None or worst_belief.share_well_above <= LARGEST_LIFTED_SHARE:
        return None
    return Notice(
        "exposure-above-bound",
        f"for {worst_belief.share_well_above:.0%} of the records, an attacker who knows a person's "
        f"{worst_attack.known_columns[0]!r} and has the release can infer the true {worst_attack.protected_column!r} "
        f"with a confidence well above the bound (up to {worst_belief.worst_belief:.2f}). The guarantee of this "
        "mechanism covers only attackers who know nothing but the release.",
        worst_attack.known_columns[0],
        {"share": worst_belief.share_well_above, "belief": worst_belief.worst_belief},
        worst_attack.known_columns,
        (
            "Ask for one bound (`spec=BreachBound(...)`). Its guarantee holds whatever the attacker knew before.",
            COARSER,
            "Or accept it, with your reason: `accept_exposure='REASON'`.",
        ),
    )
