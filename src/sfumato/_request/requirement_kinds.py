"""Every kind of request, and which of them was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato._core.option_fields import Flag
from sfumato._request.count_thresholds import CountThresholds
from sfumato._request.group_requirements import DecoyGroups, Diversity, LinearCap, ShareCap
from sfumato._request.requirements import BreachBound, BreachBoundPerValue, PrivacySpec, Tolerance
from sfumato.errors import SpecError

REQUESTS: tuple[type[PrivacySpec], ...] = (
    BreachBound,
    BreachBoundPerValue,
    Tolerance,
    ShareCap,
    LinearCap,
    Diversity,
    DecoyGroups,
    CountThresholds,
)
"""Every kind of request, in the order in which help lists them."""


def make_requirement(arguments: Mapping[str, Any]) -> PrivacySpec:
    """The request that was made on the command line, by the parameters that were given."""

    def among(flags: Sequence[Flag]) -> dict[str, Any]:
        return {
            flag.parameter: arguments[flag.parameter] for flag in flags if arguments.get(flag.parameter) is not None
        }

    kinds = [kind for kind in REQUESTS if among(kind.FLAGS)]
    beside = [flag for kind in kinds for flag in kind.BESIDE]
    kinds = [kind for kind in kinds if not all(flag in beside for flag in kind.FLAGS)]
    if len(kinds) > 1:
        raise SpecError(
            f"two kinds of request were made, by {kinds[0].GIVEN_BY} and by {kinds[1].GIVEN_BY}; make one of them."
        )
    kind = kinds[0] if kinds else REQUESTS[0]
    return kind.of_flags(among((*kind.FLAGS, *kind.BESIDE)))
