"""Decoys, checked by first principles: from the release alone, and against the table it was made from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.audit.counted import (
    WHOLE,
    Connection,
    Numbers,
    held_counts,
    matched_values,
    outside,
    shown_counts,
)
from sfumato.audit.written import Check, by_column, sensitive_domain, sensitive_names

SMALLEST_VARIANCE = 100
MOST_DEVIATION = 8
"""With a variance of at least 100, Bernstein's inequality puts a deviation of 8 below 1e-10."""

LARGEST_TRANSITION = 2000
CHANCE = 1e-9


def check_promise(shown: Mapping[str, Sequence[int]], ours: Mapping[str, Any]) -> Check:
    """Groups of this size can be made: there are values enough, and none is published far too often.

    The published count of a value is its count on average, with a variance below that; and no value can have more than
    its part of the records.
    """
    size, design = int(ours["design"]["group_size"]), ours["design"]
    domains = design.get("domains") or [design["domain"]]
    if size < 2 or any(len(domain) < size for domain in domains):  # noqa: PLR2004
        return Check("promise", False, f"no group of {size} records with different values can be made.")
    for name, counts in shown.items():
        most, total = max(counts), sum(counts)
        if most > total / size + MOST_DEVIATION * math.sqrt(max(total / size, SMALLEST_VARIANCE)):
            detail = (
                f"a value of {name!r} is published by {most:,} of {total:,} records, too often for groups of {size}."
            )
            return Check("promise", False, detail)
    detail = f"knowing the shares of the values alone, a published value is the true one with at most 1/{size}."
    return Check("promise", True, detail)


def check_draws(connection: Connection, written: Mapping[str, Any]) -> Check:
    """Each value must be published about as often as it is held, and by its own holders with one over the group size.

    Conditions on public columns are not looked at: how much a value leaks under them depends on the groups.
    """
    size, worst, matched = int(written["sfumato"]["design"]["group_size"]), 0.0, 0
    for alone in by_column(written):
        truth = held_counts(connection, alone, WHOLE)
        if truth is None:
            return outside(written, "draws")
        held = truth.get(None, np.zeros(len(sensitive_domain(alone))))
        shown = shown_counts(connection, alone, WHOLE).get(None, {}).get(0, np.zeros(len(held)))
        if (shown[held == 0] > 0).any():
            return Check("draws", False, "a value is published that no record of the original holds.")
        if _is_too_close(held, shown, size):
            return Check("draws", False, "the published counts are nearer to the original's than decoys can be.")
        worst = max(worst, _deviation(held, shown, size))
        rows, agreement = _agreement(connection, alone, len(held), size)
        matched, worst = max(matched, rows), max(worst, agreement)
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate by {worst:.1f} standard deviations from what decoys do."
        return Check("draws", False, detail)
    told = f"{matched:,} of them matched with the original" if matched else "none could be matched with the original"
    return Check("draws", True, f"values are published as decoys do (within {worst:.1f} sd; {told}).")


def _deviation(held: Numbers, shown: Numbers, size: int) -> float:
    variance = held * (1 - 1 / size)
    known = variance >= SMALLEST_VARIANCE
    return float((np.abs(shown - held)[known] / np.sqrt(variance[known])).max(initial=0.0))


def _is_too_close(held: Numbers, shown: Numbers, size: int) -> bool:
    """Whether all counts agree so well that nothing can have been drawn, as in a release of the true values.

    The sum of squared deviations is about chi-square; Chernoff's bound for its lower tail, with half a record of
    rounding for each count.
    """
    variance = held * (1 - 1 / size)
    known = variance >= SMALLEST_VARIANCE
    freedom = int(known.sum()) - 1
    if freedom < 1:
        return False
    ratio = float(((np.abs(shown - held)[known] + 0.5) ** 2 / variance[known]).sum()) / freedom
    return ratio < 1 and freedom / 2 * (math.log(ratio) + 1 - ratio) < math.log(CHANCE)


def _agreement(connection: Connection, alone: Mapping[str, Any], values: int, size: int) -> tuple[int, float]:
    """By how many standard deviations records that are alone with their public columns show their own value."""
    if values > LARGEST_TRANSITION:
        return 0, 0.0
    rows, agreed, mean, variance = matched_values(connection, alone, np.eye(values) / size, largest=1)
    if variance < SMALLEST_VARIANCE:
        return 0, 0.0
    return rows, abs(agreed - mean) / math.sqrt(variance)


def check_posteriors(connection: Connection, written: Mapping[str, Any]) -> Check:
    """In the original no value may be so frequent that a group would have to hold it twice."""
    size = int(written["sfumato"]["design"]["group_size"])
    for alone in by_column(written):
        truth = held_counts(connection, alone, WHOLE)
        if truth is None:
            return outside(written, "posteriors")
        counts = truth.get(None, np.zeros(1))
        if size * int(counts.max()) > int(counts.sum()):
            name = sensitive_names(alone)[0]
            return Check("posteriors", False, f"a value of {name!r} is too frequent for groups of {size}.")
    return Check("posteriors", True, f"knowing the shares alone, no published value is believed beyond 1/{size}.")
