"""What an attacker learns who also knows a public column: for the holder, before anything is published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.arrays import Counts
from sfumato.errors import InfeasibleError
from sfumato.plan.predict import Chosen

BREACH_LIMIT = Fraction(1, 100)
"""The usual limit on the share of records that a public column may breach."""


ALTERNATIVES = "choose --mechanism subset or uniform, which hold for every prior, drop or coarsen the column"


@dataclass(frozen=True)
class Exposure:
    """What knowing one public column adds; nothing where it has too many values to be checked."""

    column: str
    worst: float | None
    """The largest chance that a protected value can come to have, if it was within the prior in the column's group."""
    breached: float | None
    """The expected share of the records for which that is above the posterior."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {"column": self.column, "worst_posterior": self.worst, "breached": self.breached}


def exposures(chosen: Chosen, groups: Mapping[str, Counts | None]) -> tuple[Exposure, ...]:
    """Look at each public column: `groups` has the counts of the values by its values."""
    found = []
    for column, counts in groups.items():
        if counts is None:
            found.append(Exposure(column, None, None))
            continue
        risk = chosen.mechanism.risk(chosen.plan, counts)
        found.append(Exposure(column, None, None) if risk is None else Exposure(column, risk.worst, risk.breached))
    return tuple(found)


def check_exposure(found: Sequence[Exposure], limit: Fraction) -> None:
    """Stop where a public column breaches more records than the limit, and say what else could be done."""
    if unchecked := next((each.column for each in found if each.breached is None), None):
        raise InfeasibleError(
            f"column {unchecked!r} has too many values to tell how many records it would breach, and the promise of "
            f"this mechanism covers the marginal prior only; {ALTERNATIVES}, or go on with --accept-marginal-prior."
        )
    worst = max(found, key=lambda each: each.breached or 0.0, default=None)
    if worst is None or worst.breached is None or worst.breached <= limit:
        return
    raise InfeasibleError(
        f"whoever knows a person's {worst.column!r} would breach the bound for {worst.breached:.1%} of the records (up "
        f"to a chance of {worst.worst:.2f}), and the limit is {float(limit):.2%}: the promise of this mechanism covers "
        f"the marginal prior only; {ALTERNATIVES}, raise --breach-limit, or go on with --accept-marginal-prior."
    )
