"""Computes exact properties of decoy groups: what a published value discloses, and the amplification of noise.

All numbers are Fractions. The errors of published counts are in `decoy_count_errors`, because data stewards may use
them in a request.

Source: Fu, Wang, Wong, Wang and Jiang 2014; the leak is corrected.
Notation: f = count, γ = group_size, N = total, φ = f / N.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from fractions import Fraction

from sfumato._core.cell_values import Value, display
from sfumato._request.decoy_count_errors import check_group_size
from sfumato.errors import InfeasibleError, SpecError


def compute_leak(count: int, total: int, group_size: int) -> Fraction:
    """The mean probability that a record without the value publishes it: f (γ-1) / (γ (N-f)).

    The paper's f / N also counts the places of the value's own records in their groups, and is right only if γ f = N.
    """
    count, total, group_size = _check_arguments(count, total, group_size)
    return Fraction(count * (group_size - 1), group_size * (total - count))


def compute_likelihood_ratio(count: int, total: int, group_size: int) -> Fraction:
    """The likelihood ratio of a published value: (N-f) / ((γ-1) f).

    It compares a record with the value to one without it.

    If the value is published, an attacker's odds of it are multiplied by this ratio, so a rare value is nearly
    disclosed. The ratio has no bound over all tables. It is a mean over the records without the value; some other
    values may never be in a group with it.
    """
    count, total, group_size = _check_arguments(count, total, group_size)
    if not count:
        raise SpecError(
            "a value that no record has is never published, and has no likelihood ratio.", code="value-without-records"
        )
    return Fraction(total - count, (group_size - 1) * count)


def compute_amplification(count: int, total: int, group_size: int) -> Fraction | float:
    """The factor by which the estimation of a count amplifies the noise: γ (1-φ) / (1-γφ).

    The factor is infinite if the share of the count is 1/γ or more. Noise can raise a published count to this share. A
    value in every group discloses nothing about which records have it.
    """
    check_group_size(group_size)
    count, total, group_size = operator.index(count), operator.index(total), operator.index(group_size)
    if not 0 <= count <= total or not total:
        raise SpecError(
            f"{count} of {total} records is not a possible count of a value.",
            code="count-out-of-range",
            fields={"given": count, "records": total},
        )
    spare = total - group_size * count
    return Fraction(group_size * (total - count), spare) if spare > 0 else math.inf


def find_largest_group_size(counts: Sequence[int]) -> int:
    """The largest group size for which the table can be grouped; below 2, it cannot be grouped at all."""
    most = max((operator.index(count) for count in counts), default=0)
    return sum(operator.index(count) for count in counts) // most if most else 0


def _check_arguments(count: int, total: int, group_size: int) -> tuple[int, int, int]:
    check_group_size(group_size)
    count, total, group_size = operator.index(count), operator.index(total), operator.index(group_size)
    if not total or not 0 <= count * group_size <= total:
        raise SpecError(
            f"{count} of {total} records have the value, but groups of {group_size} allow at most "
            f"{total // group_size}.",
            code="value-too-frequent",
            fields={"records": total, "count": count, "largest_count": total // group_size, "group_size": group_size},
        )
    return count, total, group_size


def check_eligible(values: Sequence[Value], counts: Sequence[int], group_size: int) -> None:
    """Refuses a value that is too frequent for groups of different values."""
    largest_count, total = max(counts), sum(counts)
    if largest_count * group_size <= total:
        return
    largest = find_largest_group_size(counts)
    value = display(values[list(counts).index(largest_count)])
    remedy = (
        f"use at most `group_size={largest}`"
        if largest > 1
        else "more than half of the records have it, so no group size works: use caps (`spec=LinearCap(...)`)"
    )
    sentence = (
        f"belongs to {largest_count:,} of {total:,} records, but groups of {group_size} allow at most "
        f"{total // group_size:,} records a value; {remedy}, or one bound (`spec=BreachBound(...)`)."
    )
    raise InfeasibleError(
        f"one value {sentence}",
        sentence_with_values=f"{value!r} {sentence}",
        code="value-too-frequent",
        fields={
            "records": total,
            "count": largest_count,
            "largest_count": total // group_size,
            "group_size": group_size,
            "largest_group_size": largest,
        },
    )
