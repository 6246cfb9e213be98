"""Lists every kind of request, and makes the request that the arguments state."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato._core.option_fields import Flag, OptionValues
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, PrivacySpec, Tolerance
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, LinearCap, ShareCap
from sfumato._request.count_accuracy_request import CountThresholds
from sfumato.errors import SpecError

REQUIREMENT_KINDS: tuple[type[PrivacySpec], ...] = (
    BreachBound,
    BreachBoundPerValue,
    Tolerance,
    ShareCap,
    LinearCap,
    Diversity,
    DecoyGroups,
    CountThresholds,
)
"""Every kind of request, in the order of the help."""


def make_requirement(arguments: OptionValues) -> PrivacySpec:
    """Makes the request from the given command-line arguments."""

    def select_arguments(flags: Sequence[Flag]) -> OptionValues:
        return {flag.name: arguments[flag.name] for flag in flags if arguments.get(flag.name) is not None}

    kinds = [kind for kind in REQUIREMENT_KINDS if select_arguments(kind.FLAGS)]
    companion_flags = [flag for kind in kinds for flag in kind.COMPANION_FLAGS]
    kinds = [kind for kind in kinds if not all(flag in companion_flags for flag in kind.FLAGS)]
    if len(kinds) > 1:
        raise SpecError(
            f"two kinds of request were given: {kinds[0].FLAGS_TEXT}, and {kinds[1].FLAGS_TEXT}. Choose one of them.",
            code="two-requirements",
            fields={"first": kinds[0].__name__, "second": kinds[1].__name__},
        )
    kind = kinds[0] if kinds else REQUIREMENT_KINDS[0]
    return kind.from_flags(select_arguments((*kind.FLAGS, *kind.COMPANION_FLAGS)))
