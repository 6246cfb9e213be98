"""Checks shared by mechanisms that guarantee one bound for every prior and every statement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._figures.number_format import format_upper_factor, format_upper_percent
from sfumato._verify.check_results import Check
from sfumato._verify.distributions.sub_table_distribution import compute_raised_belief, parse_bound
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection, count_original_values


def check_any_prior(design: JsonView, worst: Fraction | None) -> Check:
    """Recomputes the guarantee for the worst case: the odds of the prior are multiplied by the amplification."""
    prior, posterior = parse_bound(design["prior"], design["posterior"])
    rows = int(design.get("rows_per_person", 1))
    if rows < 1:
        return Check("guarantee", False, f"{rows} is not a possible number of rows of a person.")
    raised_belief = compute_raised_belief(prior, None if worst is None else worst**rows)
    factor = "infinity" if worst is None else format_upper_factor(worst)
    belief_text, factor_text = (
        (raised_belief, factor) if rows == 1 else (f"{float(raised_belief):.6g}", f"{factor} for each of {rows} rows")
    )
    if raised_belief > posterior:
        return Check(
            "guarantee", False, f"a belief of {prior} can rise to {belief_text}, above the guaranteed {posterior}."
        )
    detail = (
        f"a belief of {prior} can rise to at most {belief_text}, which is within the guaranteed {posterior}. The odds "
        f"rise by a factor of at most {factor_text}."
    )
    return Check("guarantee", True, detail)


def check_bounded_posteriors(
    connection: Connection, view: ManifestView, compute_posteriors: Callable[[Sequence[int]], Sequence[Fraction]]
) -> Check:
    """Checks that for values whose share is within the prior, no belief exceeds the posterior."""
    counts = count_original_values(connection, view)
    if counts is None:
        return view.fail_outside_domain("posteriors")
    prior, posterior = parse_exact(view.design["prior"]), parse_exact(view.design["posterior"])
    limit = prior.numerator * sum(counts)
    pairs = list(zip(counts, compute_posteriors(counts), strict=True))
    covered_posteriors = [worst for count, worst in pairs if count * prior.denominator <= limit]
    if not covered_posteriors:
        odds = posterior * (1 - prior) / (prior * (1 - posterior))
        if any(worst > compute_raised_belief(Fraction(count, sum(counts)), odds) for count, worst in pairs):
            return Check(
                "posteriors", False, f"the odds of a value can rise by more than the guaranteed factor {odds}."
            )
        return Check(
            "posteriors",
            True,
            f"every value has a share of the records above {prior}. "
            "There is no fixed limit on the confidence in these values; only the factor by which the odds can rise is "
            f"limited ({format_upper_factor(odds)}).",
        )
    worst = max(covered_posteriors)
    sentence = (
        f"for each of the {len(covered_posteriors)} values with a share of at most {prior}, an attacker's confidence "
        f"is at most {format_upper_percent(worst)}"
    )
    return Check("posteriors", worst <= posterior, f"{sentence} (exactly {worst}); guaranteed: {posterior}.")
