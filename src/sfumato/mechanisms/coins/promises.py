"""The sentences that several mechanisms promise in the same words."""

from __future__ import annotations

from sfumato.request.spec import BreachBound


def any_prior(bound: BreachBound) -> str:
    """The promise for every prior and every statement, upward and downward."""
    return (
        "Take a person with one record, and any statement about that person's sensitive value. If somebody, from all "
        "they know and from everything in this release but that person's own published value, gives the statement a "
        f"chance of at most {bound.prior}, then with that value they give it a chance of at most {bound.posterior}; "
        f"and a chance of at least {bound.posterior} stays at least {bound.prior}. The published value multiplies "
        f"anybody's odds by at most {bound.amplification}, even if they know all other columns and the true values of "
        "all other people."
    )
