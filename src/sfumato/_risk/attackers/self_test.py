"""Self-test: the checks of an audit on deliberately corrupted records, in memory, which they must detect.

A check that detects nothing says little by itself. So each check also runs on the output of a careless publisher: true
values published as well, rows in the order of the table, values of groups listed in the order of their people.

If no test of these records could detect a corruption, there is no self-test, and the result states the reason. If a
corruption should be detected but is not, the audit fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._core.json_types import Json
from sfumato._risk.attackers.record_linkage import encode_shared_values
from sfumato._risk.attackers.release_matching import MatchedRelease
from sfumato._risk.attackers.row_order_attack import (
    LARGEST_SCORE,
    OrderTest,
    compare_group_lists,
    compare_order,
    compare_places,
)
from sfumato._verify.check_results import Check

NORMAL_95_ONE_SIDED = 1.6448536269514722
"""A standard normal number is above minus this with probability 95%."""
SELF_TEST_CHECK = "self-test"


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A deliberate corruption, and its detection."""

    corruption: str
    score: float
    """The result in standard deviations.

    Beyond the limit of one false alarm in a million, the corruption is detected.
    """
    power: str
    """The smallest fault that is detected, or the reason why no self-test is possible."""
    is_possible: bool = True
    """Whether the records are enough to detect the corruption."""

    @classmethod
    def make_impossible(cls, corruption: str, score: float, reason: str) -> Self:
        """Makes the result of a self-test that these records do not allow."""
        return cls(corruption, score, f"no self-test is possible: {reason}", is_possible=False)

    @property
    def is_noticed(self) -> bool:
        """Whether the corruption was detected."""
        return abs(self.score) > LARGEST_SCORE

    @property
    def check(self) -> Check | None:
        """The self-test as a check; None if none is possible."""
        if not self.is_possible:
            return None
        if self.is_noticed:
            return Check(SELF_TEST_CHECK, True, f"detected: {self.corruption} ({self.score:.1f} standard deviations).")
        sentence = (
            f"not detected: {self.corruption} ({self.score:.1f} standard deviations). So the checks that this release "
            "passes say nothing about such a fault."
        )
        return Check(SELF_TEST_CHECK, False, sentence)

    def to_json(self) -> Json:
        """The self-test as JSON."""
        return {
            "what": self.corruption,
            "score": self.score,
            "is_possible": self.is_possible,
            "is_noticed": self.is_noticed,
            "power": self.power,
        }


def make_unshuffled_tests(names: Sequence[str], table: pa.Table) -> list[SelfTest]:
    """Self-tests with the rows in the order of the table."""
    (table_codes,) = encode_shared_values(names, [table])
    return [
        _make_order_self_test(compare_places("rows at the same positions as in the table", table_codes, table_codes)),
        _make_order_self_test(compare_order("rows in the order of the table", table_codes, table_codes)),
    ]


def make_ordered_list_tests(release: MatchedRelease) -> list[SelfTest]:
    """Self-tests with the values of groups listed in the order of their records."""
    if release.holdings is None:
        return []
    groups, true_codes = release.published_codes[release.order], release.true_codes[release.order]
    order = np.argsort(groups, kind="stable")
    lines: Codes = groups[order]
    name = "values of groups listed in the order of their records"
    return [_make_order_self_test(compare_group_lists(name, groups, true_codes, lines, true_codes[order]))]


def _make_order_self_test(order_test: OrderTest) -> SelfTest:
    """Makes the self-test from a test of an order that discloses every record."""
    if not order_test.largest_score > LARGEST_SCORE:
        reason = (
            f"too few records are unique or differ ({order_test.records:,}); an order that discloses every record "
            f"has {order_test.largest_score:.1f} standard deviations, and the test needs {LARGEST_SCORE:.1f}"
        )
        return SelfTest.make_impossible(order_test.name, order_test.score, reason)
    share = (LARGEST_SCORE + NORMAL_95_ONE_SIDED) / order_test.largest_score
    power = (
        f"a fault of about {max(share, 0.001):.1%} of this size is detected in 95% of cases"
        if share < 1
        else "no smaller fault is detected in 95% of cases"
    )
    return SelfTest(order_test.name, order_test.score, power)
