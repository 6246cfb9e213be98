"""Checks shared by mechanisms that guarantee a bound for each single value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sfumato._core.json_types import JsonView
from sfumato._request.belief_bounds import BreachBound
from sfumato._verify.check_results import Check
from sfumato._verify.distributions.sub_table_distribution import (
    compute_lowered_belief,
    compute_raised_belief,
    parse_bound,
)
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection, count_original_values

Factor = Callable[[int], Fraction | None]
"""The largest factor by which published values change the odds of the value with an index; None without a limit."""


def check_single_values(design: JsonView, rise: Factor, fall: Factor | None) -> Check:
    """Checks that no belief in a value with a bound rises above the posterior (or falls below the prior)."""
    bounds = list(zip(design["priors"], design["posteriors"], strict=True))
    if len(bounds) != len(design["domain"]):
        return Check("guarantee", False, "the number of bounds differs from the number of values.")
    bounded_count = 0
    for number, (low, high) in enumerate(bounds):
        if low is None:
            continue
        bounded_count += 1
        prior, posterior = parse_bound(low, high)
        raised_belief = compute_raised_belief(prior, rise(number))
        if raised_belief > posterior:
            return Check(
                "guarantee",
                False,
                f"a belief of {prior} can rise to {raised_belief}, above the guaranteed {posterior}.",
            )
        if fall is not None and (lowered := compute_lowered_belief(posterior, fall(number))) < prior:
            return Check(
                "guarantee", False, f"a belief of {posterior} can fall to {lowered}, below the guaranteed {prior}."
            )
    if not bounded_count:
        return Check("guarantee", False, "no value has a bound, so no value is protected.")
    limits_text = "above its posterior" if fall is None else "above the bound's posterior or below its prior"
    return Check("guarantee", True, f"for {bounded_count} values with a bound, no belief can go {limits_text}.")


def check_single_posteriors(
    connection: Connection, view: ManifestView, compute_posteriors: Callable[[Sequence[int]], Sequence[Fraction]]
) -> Check:
    """Checks each value with a bound, by Bayes' rule with the counts of the original."""
    counts = count_original_values(connection, view)
    if counts is None:
        return view.fail_outside_domain("posteriors")
    design, total = view.design, sum(counts)
    bounds = zip(design["priors"], design["posteriors"], counts, compute_posteriors(counts), strict=True)
    bounded = [
        (worst, compute_allowed_posterior(BreachBound(low, high), Fraction(count, total)))
        for low, high, count, worst in bounds
        if low
    ]
    if breach := next((pair for pair in bounded if pair[0] > pair[1]), None):
        return Check(
            "posteriors",
            False,
            f"an attacker's confidence in a value can reach {breach[0]}, but the guaranteed limit is {breach[1]}.",
        )
    return Check(
        "posteriors",
        True,
        f"for none of the {len(bounded)} values with a bound can an attacker's confidence exceed the bound.",
    )


def compute_allowed_posterior(bound: BreachBound, share: Fraction) -> Fraction:
    """The largest permitted belief in a value with this share.

    If the share exceeds the prior, the bound limits only the odds.
    """
    return bound.posterior if share <= bound.prior else compute_raised_belief(share, bound.amplification)
