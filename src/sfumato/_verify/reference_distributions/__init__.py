"""The laws: one file each, from the published JSON alone; a second opinion that shares no code with the mechanisms."""

from __future__ import annotations

from sfumato._core.json_types import JsonView
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.reference_distributions import (
    bucket_distribution,
    decoy_distribution,
    fine_grain_distribution,
    harmonic_distribution,
    level_distribution,
    small_domain_distribution,
    subset_distribution,
    uniform_distribution,
)
from sfumato._verify.reference_distributions.reference_distribution import ReferenceDistribution
from sfumato.errors import MissingCapabilityError, ReleaseFormatError
from sfumato.mechanisms import REGISTRY, VERIFIER_GROUP, Registry

REFERENCE_DISTRIBUTIONS: Registry[ReferenceDistribution] = Registry(
    VERIFIER_GROUP,
    ReferenceDistribution,
    {
        "uniform": uniform_distribution.REFERENCE_DISTRIBUTION,
        "subset": subset_distribution.REFERENCE_DISTRIBUTION,
        "levels": level_distribution.REFERENCE_DISTRIBUTION,
        "small-domain": small_domain_distribution.REFERENCE_DISTRIBUTION,
        "fine-grain": fine_grain_distribution.REFERENCE_DISTRIBUTION,
        "harmonic": harmonic_distribution.REFERENCE_DISTRIBUTION,
        "buckets": bucket_distribution.REFERENCE_DISTRIBUTION,
        "anatomy": bucket_distribution.ANATOMY,
        "decoys": decoy_distribution.REFERENCE_DISTRIBUTION,
    },
)
"""The verifier of each mechanism; a plug-in brings one by an entry point in the group `sfumato.verifiers`."""


def find_distribution(mechanism: str) -> ReferenceDistribution:
    """Finds the verifier of a mechanism; refused where none is installed."""
    reference = REFERENCE_DISTRIBUTIONS.get(mechanism)
    if reference is not None:
        return reference
    if reason := REFERENCE_DISTRIBUTIONS.find_reason(mechanism):
        raise MissingCapabilityError(reason, mechanism, VERIFIER)
    if mechanism not in REGISTRY:
        raise ReleaseFormatError(f"the mechanism {mechanism!r} cannot be verified by this version.")
    raise MissingCapabilityError(
        f"no verifier of the mechanism {mechanism!r} is installed, so its releases cannot be verified; install the "
        f"distribution that has one (an entry point in the group {VERIFIER_GROUP!r}).",
        mechanism,
        VERIFIER,
    )


VERIFIER = "Verifier"
"""The name of the capability that a mechanism without an installed verifier does not have."""


def read_reference(json: JsonView) -> tuple[ReferenceDistribution, ManifestView]:
    """The law of a release, and its manifest as that law reads it."""
    reference = find_distribution(str(json["sfumato"]["mechanism"]))
    return reference, ManifestView(json, reference.make_encoding(json["sfumato"]["design"]))
