"""The laws: one file each, from the published JSON alone; a second opinion that shares no code with the mechanisms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfumato.audit.laws import buckets, decoys, fine_grain, harmonic, levels, small_domain, subset, uniform
from sfumato.audit.laws.law import Law
from sfumato.audit.written import Written
from sfumato.errors import InternalError, ReleaseFormatError
from sfumato.mechanisms import REGISTRY

LAWS: dict[str, Law] = {
    "uniform": uniform.LAW,
    "subset": subset.LAW,
    "levels": levels.LAW,
    "small-domain": small_domain.LAW,
    "fine-grain": fine_grain.LAW,
    "harmonic": harmonic.LAW,
    "buckets": buckets.LAW,
    "anatomy": buckets.ANATOMY,
    "decoys": decoys.LAW,
}


def law_of(mechanism: str) -> Law:
    """The law of a mechanism; a mechanism of ours without a law is a mistake of ours, not of a release."""
    found = LAWS.get(mechanism)
    if found is None and mechanism not in REGISTRY:
        raise ReleaseFormatError(f"the mechanism {mechanism!r} cannot be verified by this version.")
    if found is None:
        raise InternalError(
            f"the mechanism {mechanism!r} has no law, so its releases cannot be verified: add one to audit/laws."
        )
    return found


def read(json: Mapping[str, Any]) -> tuple[Law, Written]:
    """The law of a release, and its manifest as that law reads it."""
    law = law_of(str(json["sfumato"]["mechanism"]))
    return law, Written(json, law.shown(json["sfumato"]["design"]))
