"""What mechanisms share that promise one bound for every prior and every statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato._core.exact_numbers import parse_exact
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import Connection, count_original_values
from sfumato._verify.reference_distributions.sub_table_distribution import bound_of, compute_raised_belief
from sfumato._verify.verification import Check


def check_any_prior(design: Mapping[str, Any], worst: Fraction | None) -> Check:
    """A belief of exactly the prior, and odds multiplied by the whole amplification: the worst case of any prior."""
    prior, posterior = bound_of(design["prior"], design["posterior"])
    rows = int(design.get("rows_per_person", 1))
    if rows < 1:
        return Check("promise", False, f"a person cannot have {rows} rows.")
    risen = compute_raised_belief(prior, None if worst is None else worst**rows)
    shown, times = (risen, worst) if rows == 1 else (f"{float(risen):.6g}", f"{worst} for each of {rows} rows")
    if risen > posterior:
        return Check("promise", False, f"a belief of {prior} can rise to {shown}, above the promised {posterior}.")
    detail = f"a belief of {prior} can rise to {shown} at most, within the promised {posterior} (odds times {times})."
    return Check("promise", True, detail)


def check_bounded_posteriors(
    connection: Connection, written: Written, believed: Callable[[Sequence[int]], Sequence[Fraction]]
) -> Check:
    """Among the values whose share is within the prior, none may come to be believed beyond the posterior."""
    counts = count_original_values(connection, written)
    if counts is None:
        return written.outside("posteriors")
    prior, posterior = parse_exact(written.design["prior"]), parse_exact(written.design["posterior"])
    limit = prior.numerator * sum(counts)
    pairs = list(zip(counts, believed(counts), strict=True))
    covered = [worst for count, worst in pairs if count * prior.denominator <= limit]
    if not covered:
        odds = posterior * (1 - prior) / (prior * (1 - posterior))
        if any(worst > compute_raised_belief(Fraction(count, sum(counts)), odds) for count, worst in pairs):
            return Check("posteriors", False, f"the odds of a value can rise more than the promised {odds} times.")
        return Check("posteriors", True, f"no value has a share within {prior}, so only the odds are bounded.")
    worst = max(covered)
    sentence = f"of {len(covered)} values with a share within {prior}, none can be believed with more than {worst}"
    return Check("posteriors", worst <= posterior, f"{sentence} (about {float(worst):.4f}); promised: {posterior}.")
