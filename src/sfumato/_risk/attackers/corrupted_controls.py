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
from sfumato._risk.attackers.attack_scenarios import frequencies
from sfumato._risk.attackers.attack_setup import Scene
from sfumato._risk.attackers.record_linkage import shared_codes
from sfumato._risk.attackers.release_matching import Matched
from sfumato._risk.attackers.row_order_attack import LARGEST_SCORE, Trail, joined, same_order, same_places

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


def shown_too_often(scene: Scene) -> Control | None:
    """Some people's records show what speaks most for their value: whoever knows the frequencies is right too often.

    As large a share as would be noticed in 95 of 100 cases, and twice that is tried. None where it is not known how
    likely a record shows what it does, or where records are in groups.
    """
    found = frequencies(scene).with_release
    if scene.groups is not None or found is None:
        return None
    share = smallest_share(found)
    if not share < 0.5:  # noqa: PLR2004 - twice that is tried
        return Control("true values shown besides", 0.0, f"too few people ({len(scene.rows):,}) to notice it")
    rows, held = scene.rows, scene.target.held
    telling = _most_telling(scene)
    is_spoilt = scene.draws.stream("spoilt").words(0, len(held)) / 2.0**64 < 2 * share

    def likely(wanted: Places) -> Floats | None:
        return scene.likely(np.where(is_spoilt[wanted], telling[held[wanted]], wanted))

    spoilt = frequencies(replace(scene, likely=likely)).with_release
    return Control(
        f"{2 * share:.1%} of the people show what speaks most for their value of {scene.target.name!r}",
        0.0 if spoilt is None else spoilt.surprise,
        f"{share:.1%} of the people are noticed in 95 of 100 cases ({len(rows):,} looked at)",
    )


def smallest_share(found: Belief) -> float:
    """Which share of the people must show their true value besides, so that it is noticed in 95 of 100 cases."""
    return (LARGEST_SCORE + OFTEN) * found.deviation / max(1 - found.expected, ROUNDING)


def _most_telling(scene: Scene) -> Places:
    """For each value a record, of those looked at, that speaks most for it."""
    likely = scene.likely(scene.rows)
    if likely is None:
        return scene.rows[:0]
    weighed = likely * scene.target.shares
    parts = weighed / np.maximum(weighed.sum(axis=1, keepdims=True), ROUNDING)
    return np.asarray(scene.rows[parts.argmax(axis=0)])


def never_shuffled(names: Sequence[str], table: pa.Table) -> list[Control]:
    """The rows as the table has them, looked at as those of the release are."""
    (own,) = shared_codes(names, [table])
    looks = [
        same_places("rows that stand where the table has them", own, own),
        same_order("rows in the order of the table", own, own),
    ]
    return [Control(each.name, each.score, _least_rows(each)) for each in looks]


def _least_rows(look: Trail) -> str:
    if not look.score:
        return f"too few people are alone or differ to notice it ({look.records:,})"
    share = min((LARGEST_SCORE + OFTEN) / abs(look.score), 1.0)
    return f"about {max(share, 0.001):.1%} of that is noticed in 95 of 100 cases"


def listed_in_order(release: Matched) -> list[Control]:
    """The values beside groups of records in the order of their records."""
    if release.listed is None:
        return []
    groups, held = release.shown[release.order], release.held[release.order]
    order = np.argsort(groups, kind="stable")
    lines: Codes = groups[order]
    look = joined("values of groups listed in the order of their records", groups, held, lines, held[order])
    score = look.score if math.isfinite(look.score) else 0.0
    return [Control(look.name, score, _least_rows(look))]
