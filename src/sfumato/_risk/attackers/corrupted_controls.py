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
from sfumato._risk.attackers.attack_result import ROUNDING, Belief
from sfumato._risk.attackers.attack_scenarios import attack_with_frequencies
from sfumato._risk.attackers.attack_setup import AttackSetup
from sfumato._risk.attackers.record_linkage import encode_shared_values
from sfumato._risk.attackers.release_matching import Matched
from sfumato._risk.attackers.row_order_attack import (
    LARGEST_SCORE,
    Trail,
    compare_group_lists,
    compare_order,
    compare_places,
)

OFTEN = 1.6448536269514722
"""A normal number is above minus this in 95 of 100 cases."""


@dataclass(frozen=True, slots=True)
class Control:
    """Something that was spoilt on purpose, and whether it was noticed."""

    what: str
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
        return {"what": self.what, "score": self.score, "is_noticed": self.is_noticed, "power": self.power}


def corrupt_published_values(scene: AttackSetup) -> Control | None:
    """Some people's records show what speaks most for their value: whoever knows the frequencies is right too often.

    As large a share as would be noticed in 95 of 100 cases, and twice that is tried. None where it is not known how
    likely a record shows what it does, or where records are in groups.
    """
    belief = attack_with_frequencies(scene).with_release
    if scene.groups is not None or belief is None:
        return None
    share = find_smallest_share(belief)
    if not share < 0.5:  # noqa: PLR2004 - twice that is tried
        return Control("true values shown besides", 0.0, f"too few people ({len(scene.rows):,}) to notice it")
    rows, true_codes = scene.rows, scene.target.held
    telling = _select_most_disclosing(scene)
    is_spoilt = scene.draws.stream("spoilt").words(0, len(true_codes)) / 2.0**64 < 2 * share

    def likely(wanted: Places) -> Floats | None:
        return scene.likely(np.where(is_spoilt[wanted], telling[true_codes[wanted]], wanted))

    spoilt = attack_with_frequencies(replace(scene, likely=likely)).with_release
    return Control(
        f"{2 * share:.1%} of the people show what speaks most for their value of {scene.target.name!r}",
        0.0 if spoilt is None else spoilt.surprise,
        f"{share:.1%} of the people are noticed in 95 of 100 cases ({len(rows):,} looked at)",
    )


def find_smallest_share(belief: Belief) -> float:
    """Which share of the people must show their true value besides, so that it is noticed in 95 of 100 cases."""
    return (LARGEST_SCORE + OFTEN) * belief.deviation / max(1 - belief.expected, ROUNDING)


def _select_most_disclosing(scene: AttackSetup) -> Places:
    """For each value a record, of those looked at, that speaks most for it."""
    likely = scene.likely(scene.rows)
    if likely is None:
        return scene.rows[:0]
    weighed = likely * scene.target.shares
    parts = weighed / np.maximum(weighed.sum(axis=1, keepdims=True), ROUNDING)
    return np.asarray(scene.rows[parts.argmax(axis=0)])


def make_unshuffled_controls(names: Sequence[str], table: pa.Table) -> list[Control]:
    """The rows as the table has them, looked at as those of the release are."""
    (own,) = encode_shared_values(names, [table])
    looks = [
        compare_places("rows that stand where the table has them", own, own),
        compare_order("rows in the order of the table", own, own),
    ]
    return [Control(trail.name, trail.score, _describe_least_rows(trail)) for trail in looks]


def _describe_least_rows(look: Trail) -> str:
    if not look.score:
        return f"too few people are alone or differ to notice it ({look.records:,})"
    share = min((LARGEST_SCORE + OFTEN) / abs(look.score), 1.0)
    return f"about {max(share, 0.001):.1%} of that is noticed in 95 of 100 cases"


def make_ordered_list_controls(release: Matched) -> list[Control]:
    """The values beside groups of records in the order of their records."""
    if release.listed is None:
        return []
    groups, true_codes = release.shown[release.order], release.held[release.order]
    order = np.argsort(groups, kind="stable")
    lines: Codes = groups[order]
    look = compare_group_lists(
        "values of groups listed in the order of their records", groups, true_codes, lines, true_codes[order]
    )
    score = look.score if math.isfinite(look.score) else 0.0
    return [Control(look.name, score, _describe_least_rows(look))]
