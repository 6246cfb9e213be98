"""The reference distributions: a verifier for each mechanism. It uses published JSON and no code of the mechanism."""

from __future__ import annotations

from sfumato._core.json_types import JsonView
from sfumato._verify.distributions import bucket_verifier as bucket_distribution
from sfumato._verify.distributions import decoy_verifier as decoy_distribution
from sfumato._verify.distributions import fine_grain_verifier as fine_grain_distribution
from sfumato._verify.distributions import harmonic_verifier as harmonic_distribution
from sfumato._verify.distributions import levels_verifier as level_distribution
from sfumato._verify.distributions import noisy_counts_verifier as noisy_counts_distribution
from sfumato._verify.distributions import small_domain_verifier as small_domain_distribution
from sfumato._verify.distributions import subset_verifier as subset_distribution
from sfumato._verify.distributions import uniform_verifier as uniform_distribution
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.manifest_view import ManifestView
from sfumato.errors import MissingCapabilityError, ReleaseFormatError
from sfumato.mechanisms import REGISTRY, VERIFIER_GROUP, Registry

REFERENCE_DISTRIBUTIONS: Registry[ReferenceDistribution] = Registry(
    VERIFIER_GROUP,
    ReferenceDistribution,
    {
        "uniform": uniform_distribution.REFERENCE_DISTRIBUTION,
        "subset": subset_distribution.REFERENCE_DISTRIBUTION,
        "levels": level_distribution.REFERENCE_DISTRIBUTION,
        "noisy-counts": noisy_counts_distribution.REFERENCE_DISTRIBUTION,
        "small-domain": small_domain_distribution.REFERENCE_DISTRIBUTION,
        "fine-grain": fine_grain_distribution.REFERENCE_DISTRIBUTION,
        "harmonic": harmonic_distribution.REFERENCE_DISTRIBUTION,
        "buckets": bucket_distribution.REFERENCE_DISTRIBUTION,
        "anatomy": bucket_distribution.ANATOMY,
        "decoys": decoy_distribution.REFERENCE_DISTRIBUTION,
    },
)
"""The verifier of each mechanism. A plug-in adds a verifier by an entry point in the group `sfumato.verifiers`."""


def find_distribution(mechanism: str) -> ReferenceDistribution:
    """Finds the verifier of a mechanism; refuses a mechanism without an installed verifier."""
    reference = REFERENCE_DISTRIBUTIONS.get(mechanism)
    if reference is not None:
        return reference
    if reason := REFERENCE_DISTRIBUTIONS.find_reason(mechanism):
        raise MissingCapabilityError(reason, mechanism, VERIFIER)
    if mechanism not in REGISTRY:
        raise ReleaseFormatError(
            f"this version cannot verify the mechanism {mechanism!r}.",
            code="unknown-mechanism",
            fields={"mechanism": mechanism},
        )
    raise MissingCapabilityError(
        f"no verifier of the mechanism {mechanism!r} is installed, so its releases cannot be verified. Install the "
        f"package with this verifier (its entry point is in the group {VERIFIER_GROUP!r}).",
        mechanism,
        VERIFIER,
    )


VERIFIER = "Verifier"
"""The name of the capability that a mechanism without an installed verifier lacks."""


def read_reference(json: JsonView) -> tuple[ReferenceDistribution, ManifestView]:
    """The verifier of a release, and the release's manifest in the verifier's form."""
    reference = find_distribution(str(json["sfumato"]["mechanism"]))
    return reference, ManifestView(json, reference.make_encoding(json["sfumato"]["design"]))
