"""The laws: one file each, from the published JSON alone; a second opinion that shares no code with the mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.audit.laws import buckets, decoys, fine_grain, harmonic, levels, small_domain, subset, uniform
from sfumato.audit.laws.law import Law
from sfumato.audit.written import Written
from sfumato.errors import MissingCapabilityError, ReleaseFormatError
from sfumato.mechanisms import REGISTRY, VERIFIERS, Registry

LAWS: Registry[Law] = Registry(
    VERIFIERS,
    Law,
    {
        "uniform": uniform.LAW,
        "subset": subset.LAW,
        "levels": levels.LAW,
        "small-domain": small_domain.LAW,
        "fine-grain": fine_grain.LAW,
        "harmonic": harmonic.LAW,
        "buckets": buckets.LAW,
        "anatomy": buckets.ANATOMY,
        "decoys": decoys.LAW,
    },
)
"""The verifier of each mechanism; a plug-in brings one by an entry point in the group `sfumato.verifiers`."""


def law_of(mechanism: str) -> Law:
    """Finds the verifier of a mechanism; refused where none is installed."""
    law = LAWS.get(mechanism)
    if law is not None:
        return law
    if reason := LAWS.reason(mechanism):
        raise MissingCapabilityError(reason, mechanism, VERIFIER)
    if mechanism not in REGISTRY:
        raise ReleaseFormatError(f"the mechanism {mechanism!r} cannot be verified by this version.")
    raise MissingCapabilityError(
        f"no verifier of the mechanism {mechanism!r} is installed, so its releases cannot be verified; install the "
        f"distribution that has one (an entry point in the group {VERIFIERS!r}).",
        mechanism,
        VERIFIER,
    )


VERIFIER = "Verifier"
"""The name of the capability that a mechanism without an installed verifier does not have."""


def read(json: Mapping[str, Any]) -> tuple[Law, Written]:
    """The law of a release, and its manifest as that law reads it."""
    law = law_of(str(json["sfumato"]["mechanism"]))
    return law, Written(json, law.shown(json["sfumato"]["design"]))
