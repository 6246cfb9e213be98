"""Proves the guarantee of a plan before publication, from first principles and the explanation of the plan.

A release does not publish the number of records of each value in a sub-table. So the guarantee about sub-tables is
proved before the release is written, from the counts of the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TypeVar

from sfumato._core.cell_values import Scalar, display, split_value, to_json
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._verify.distributions import find_distribution
from sfumato._verify.distributions.reference_distribution import ValueRetention
from sfumato._verify.distributions.sub_table_distribution import (
    SubTableDistribution,
    compute_sub_table_posteriors,
)
from sfumato.errors import InfeasibleError, InternalError
from sfumato.mechanisms.capabilities import PlanExplanation

NumberT = TypeVar("NumberT", int, Fraction)


def list_sub_tables(chosen: ChosenMechanism) -> list[list[ValueRetention]]:
    """The sub-tables of a plan, with values as in the histogram. Empty if the mechanism has no sub-tables."""
    list_retentions = find_distribution(chosen.mechanism.name).list_value_retentions
    if list_retentions is None:
        return []
    values_by_key = {_make_key(to_json(value)): value for value in chosen.histogram.values}
    explanation = chosen.mechanism.require(PlanExplanation).explain(chosen.plan)
    return [
        [
            ValueRetention(
                values_by_key[_make_key(value_retention.value)], value_retention.count, value_retention.retention
            )
            for value_retention in cell
        ]
        for cell in list_retentions(explanation, chosen.design.to_json(), chosen.histogram.counts)
    ]


def _make_key(value_json: object) -> object:
    return tuple(value_json) if isinstance(value_json, list) else value_json


def check_sub_tables(chosen: ChosenMechanism, spec: PrivacySpec) -> None:
    """Proves that no belief in a protected value exceeds the bound, even with knowledge of the sub-table's counts."""
    bound, total = spec.bound, chosen.histogram.total
    if bound is None:
        return
    value_counts = zip(chosen.histogram.values, chosen.histogram.counts, strict=True)
    protected = {value for value, count in value_counts if Fraction(count, total) <= bound.prior}
    for cell in list_sub_tables(chosen):
        distribution = SubTableDistribution.of(
            range(len(cell)), [value_retention.retention for value_retention in cell]
        )
        posteriors = compute_sub_table_posteriors([value_retention.count for value_retention in cell], distribution)
        if any(
            posterior > bound.posterior
            for value_retention, posterior in zip(cell, posteriors, strict=True)
            if value_retention.value in protected
        ):
            raise InternalError("the plan breaks its own bound. Please report this.", code="plan-breaks-bound")


def check_parts(chosen: ChosenMechanism, spec: PrivacySpec, names: Sequence[str]) -> None:
    """Refuses a plan by which the belief in a value of a single column may exceed the requested limit.

    The request is about combinations. A value of one column is a statement about several combinations.
    """
    histogram = chosen.histogram
    spec.find_part_limit(Fraction(0))  # this refuses requests that do not cover single columns
    cells = list_sub_tables(chosen)
    for number, name in enumerate(names):
        part_counts = _sum_by_key(
            (split_value(value)[number], count) for value, count in zip(histogram.values, histogram.counts, strict=True)
        )
        worst = dict.fromkeys(part_counts, Fraction(0))
        for part, posterior in (pair for cell in cells for pair in compute_part_posteriors(cell, number)):
            worst[part] = max(worst[part], posterior)
        for part, count in part_counts.items():
            allowed = spec.find_part_limit(Fraction(count, histogram.total))
            if allowed is not None and worst[part] > allowed:
                sentence = (
                    f"of column {name!r} alone could be inferred with a confidence of {worst[part]} (about "
                    f"{float(worst[part]):.3f}), above {allowed}. This mechanism protects combinations, but not the "
                    "single columns. Choose `mechanism='uniform'` or `mechanism='subset'`, which cover every "
                    "statement."
                )
                raise InfeasibleError(
                    f"one value {sentence}",
                    code="part-above-bound",
                    fields={"column": name, "posterior": str(worst[part]), "limit": str(allowed)},
                    sentence_with_values=f"{display(part)!r} {sentence}",
                )


def compute_part_posteriors(cell: Sequence[ValueRetention], number: int) -> Iterator[tuple[Scalar, Fraction]]:
    """The largest posterior of each value of one column in a sub-table, by Bayes' rule with the sub-table's counts.

    A record of x is kept with weight n(x)p, and redrawn with weight n(x)(1-p), into y with probability d(y). So
    relative to d(y), the weight of y is the weight of all redrawn records plus n(y)p / d(y). This weight has no limit
    if y is never drawn.
    """
    keys = [split_value(value_retention.value)[number] for value_retention in cell]
    by_part = _sum_by_key(
        (key, value_retention.count * (1 - value_retention.retention))
        for key, value_retention in zip(keys, cell, strict=True)
    )
    total = sum(by_part.values(), Fraction(0))
    chances = [
        Fraction(1, len(cell)) if value_retention.draw_chance is None else value_retention.draw_chance
        for value_retention in cell
    ]
    retained_weights = [
        (value_retention.count * value_retention.retention, chance)
        for value_retention, chance in zip(cell, chances, strict=True)
    ]
    more = [amount / chance if chance else None for amount, chance in retained_weights]
    certain = {key for key, (amount, chance) in zip(keys, retained_weights, strict=True) if amount and not chance}
    for part, weight in by_part.items():
        draw_amounts = [(amount, key == part) for amount, key in zip(more, keys, strict=True) if amount is not None]
        inside = max((amount for amount, is_inside in draw_amounts if is_inside), default=None)
        outside = min((amount for amount, is_inside in draw_amounts if not is_inside), default=None)
        posteriors = [Fraction(0)]
        if inside is not None and total + inside:
            posteriors.append((weight + inside) / (total + inside))
        if outside is not None and total + outside:
            posteriors.append(weight / (total + outside))
        yield part, Fraction(1) if part in certain else max(posteriors)


def _sum_by_key(pairs: Iterable[tuple[Scalar, NumberT]]) -> dict[Scalar, NumberT]:
    """Sums the numbers of each key."""
    sums: dict[Scalar, NumberT] = {}
    for key, number in pairs:
        sums[key] = sums.get(key, 0) + number
    return sums
