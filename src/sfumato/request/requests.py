"""Every kind of request, and which of them was made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.errors import SpecError
from sfumato.request.group_spec import DecoyGroups, Diversity, LinearCap, ShareCap
from sfumato.request.spec import BreachBound, BreachBoundPerValue, PrivacySpec, Tolerance

REQUESTS: tuple[type[PrivacySpec], ...] = (
    BreachBound,
    BreachBoundPerValue,
    Tolerance,
    ShareCap,
    LinearCap,
    Diversity,
    DecoyGroups,
)
"""Every kind of request, in the order in which help lists them."""


def asked(given: Mapping[str, Any]) -> PrivacySpec:
    """The request that was made on the command line, by the parameters that were given."""
    kinds = {
        kind: {flag.parameter: given[flag.parameter] for flag in kind.FLAGS if given.get(flag.parameter) is not None}
        for kind in REQUESTS
    }
    made = [kind for kind, parameters in kinds.items() if parameters]
    if len(made) > 1:
        raise SpecError(
            f"two kinds of request were made, by {made[0].GIVEN_BY} and by {made[1].GIVEN_BY}; make one of them."
        )
    kind = made[0] if made else REQUESTS[0]
    return kind.of_flags(kinds[kind])
