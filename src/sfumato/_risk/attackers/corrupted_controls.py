"""Would it be noticed? The same looks at the same records, spoilt on purpose in memory: what they must find.

A look that finds nothing says little by itself. So each is also taken at what a careless publisher would have put out:
true values shown besides, rows left in the order of the table, values of groups listed in the order of their people.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Codes, Floats, Places
from sfumato._risk.attackers.attack_result import ROUNDING, BeliefSummary
from sfumato._risk.attackers.attack_scenarios import attack_with_frequencies
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.record_linkage import encode_shared_values
from sfumato._risk.attackers.release_matching import MatchedRelease
from sfumato._risk.attackers.row_order_attack import (
    LARGEST_SCORE,
    OrderTest,
    compare_group_lists,
    compare_order,
    compare_places,
)

NORMAL_95_ONE_SIDED = 1.6448536269514722
"""A normal number is above minus this in 95 of 100 cases."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """Something that was spoilt on purpose, and whether it was noticed."""

    corruption: str
    score: float
    """In standard deviations; noticed beyond the limit of once in a million."""
    power: str
    """How small a fault would be noticed."""

    @property
    def is_noticed(self) -> bool:
        """Whether it was found."""
        return abs(self.score) > LARGEST_SCORE

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {"what": self.corruption, "score": self.score, "is_noticed": self.is_noticed, "power": self.power}


def corrupt_published_values(setup: AttackSetup) -> SelfTest | None:
    """Some people's records show what speaks most for their value: whoever knows the frequencies is right too often.

    As large a share as would be noticed in 95 of 100 cases, and twice that is tried. None where it is not known how
    likely a record shows what it does, or where records are in groups.
    """
    belief = attack_with_frequencies(setup).with_release
    if setup.groups is not None or belief is None:
        return None
    share = find_smallest_share(belief)
    if not share < 0.5:  # noqa: PLR2004 - twice that is tried
        return SelfTest("true values shown besides", 0.0, f"too few people ({len(setup.rows):,}) to notice it")
    rows, true_codes = setup.rows, setup.target.true_codes
    disclosing_rows = _select_most_disclosing(setup)
    is_corrupted = setup.draws.get_stream("spoilt").draw_bits(0, len(true_codes)) / 2.0**64 < 2 * share

    def corrupt_likelihoods(selected_rows: Places) -> Floats | None:
        return setup.compute_likelihoods(
            np.where(is_corrupted[selected_rows], disclosing_rows[true_codes[selected_rows]], selected_rows)
        )

    corrupted_belief = attack_with_frequencies(replace(setup, compute_likelihoods=corrupt_likelihoods)).with_release
    return SelfTest(
        f"{2 * share:.1%} of the people show what speaks most for their value of {setup.target.name!r}",
        0.0 if corrupted_belief is None else corrupted_belief.surprise,
        f"{share:.1%} of the people are noticed in 95 of 100 cases ({len(rows):,} looked at)",
    )


def find_smallest_share(belief: BeliefSummary) -> float:
    """Which share of the people must show their true value besides, so that it is noticed in 95 of 100 cases."""
    return (LARGEST_SCORE + NORMAL_95_ONE_SIDED) * belief.deviation / max(1 - belief.expected_success, ROUNDING)


def _select_most_disclosing(setup: AttackSetup) -> Places:
    """For each value a record, of those looked at, that speaks most for it."""
    likelihoods = setup.compute_likelihoods(setup.rows)
    if likelihoods is None:
        return setup.rows[:0]
    weights = likelihoods * setup.target.shares
    parts = weights / np.maximum(weights.sum(axis=1, keepdims=True), ROUNDING)
    return np.asarray(setup.rows[parts.argmax(axis=0)])


def make_unshuffled_tests(names: Sequence[str], table: pa.Table) -> list[SelfTest]:
    """The rows as the table has them, looked at as those of the release are."""
    (table_codes,) = encode_shared_values(names, [table])
    order_tests = [
        compare_places("rows that stand where the table has them", table_codes, table_codes),
        compare_order("rows in the order of the table", table_codes, table_codes),
    ]
    return [SelfTest(order_test.name, order_test.score, _describe_least_rows(order_test)) for order_test in order_tests]


def _describe_least_rows(order_test: OrderTest) -> str:
    if not order_test.score:
        return f"too few people are alone or differ to notice it ({order_test.records:,})"
    share = min((LARGEST_SCORE + NORMAL_95_ONE_SIDED) / abs(order_test.score), 1.0)
    return f"about {max(share, 0.001):.1%} of that is noticed in 95 of 100 cases"


def make_ordered_list_tests(release: MatchedRelease) -> list[SelfTest]:
    """The values beside groups of records in the order of their records."""
    if release.holdings is None:
        return []
    groups, true_codes = release.published_codes[release.order], release.true_codes[release.order]
    order = np.argsort(groups, kind="stable")
    lines: Codes = groups[order]
    order_test = compare_group_lists(
        "values of groups listed in the order of their records", groups, true_codes, lines, true_codes[order]
    )
    score = order_test.score if math.isfinite(order_test.score) else 0.0
    return [SelfTest(order_test.name, score, _describe_least_rows(order_test))]
