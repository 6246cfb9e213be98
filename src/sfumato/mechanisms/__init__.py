"""The mechanisms, and everything needed to add a mechanism: `Mechanism`, its capabilities, `register` and `missing`.

An installed package adds a mechanism by an entry point in the group `sfumato.mechanisms`, and its verifier by an entry
point in the group `sfumato.verifiers`. Both entry points have the mechanism's name.
"""

from __future__ import annotations

from sfumato._core.json_types import Json
from sfumato.errors import InternalError, SpecError
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.capabilities import (
    AttackModel,
    BucketTable,
    CoarseCounts,
    Coarsening,
    Comparability,
    CrowdAttackModel,
    CrowdCounts,
    ErrorPrediction,
    EstimationWeights,
    GroupRisk,
    PlanExplanation,
    PlanTable,
    ReleaseErrorPrediction,
    Risk,
    SeveralColumns,
    ValueColumn,
)
from sfumato.mechanisms.estimator import BrowserEstimator, Moments, SumPiece, Weights
from sfumato.mechanisms.estimator import Method as Estimator
from sfumato.mechanisms.mechanism import (
    CAPABILITIES,
    AnyMechanism,
    Design,
    EstimationRules,
    Mechanism,
    NoOptions,
    PlanRules,
)
from sfumato.mechanisms.registry import MECHANISM_GROUP, VERIFIER_GROUP, BrokenPlugin, Registry

__all__ = [
    "CAPABILITIES",
    "MECHANISM_GROUP",
    "REGISTRY",
    "VERIFIER_GROUP",
    "AnyMechanism",
    "AttackModel",
    "BrokenPlugin",
    "BrowserEstimator",
    "BucketTable",
    "CoarseCounts",
    "Coarsening",
    "Comparability",
    "CrowdAttackModel",
    "CrowdCounts",
    "Design",
    "ErrorPrediction",
    "EstimationRules",
    "EstimationWeights",
    "Estimator",
    "GroupRisk",
    "Mechanism",
    "Moments",
    "NoOptions",
    "PlanExplanation",
    "PlanRules",
    "PlanTable",
    "Registry",
    "ReleaseErrorPrediction",
    "Risk",
    "SeveralColumns",
    "SumPiece",
    "ValueColumn",
    "Weights",
    "find_mechanism",
    "list_broken_plugins",
    "missing",
    "register",
]

REGISTRY: Registry[AnyMechanism] = Registry(
    MECHANISM_GROUP,
    Mechanism,
    {
        mechanism.name: mechanism
        for mechanism in (
            uniform.MECHANISM,
            subset.MECHANISM,
            levels.MECHANISM,
            noisy_counts.MECHANISM,
            small_domain.MECHANISM,
            fine_grain.MECHANISM,
            harmonic.MECHANISM,
            buckets.MECHANISM,
            anatomy.MECHANISM,
            _decoys.MECHANISM,
        )
    },
)
"""All mechanisms by name, from simple to complex: of equally good mechanisms the first is chosen.

Plug-ins come last.
"""


def find_mechanism(name: str) -> AnyMechanism:
    """Finds a mechanism by its name."""
    mechanism = REGISTRY.get(name)
    if mechanism is None:
        raise InternalError(
            f"there is no mechanism {name!r}. Please report this.", code="unknown-mechanism", fields={"mechanism": name}
        )
    return mechanism


def register(mechanism: AnyMechanism) -> None:
    """Adds a mechanism until this program ends. Installed plug-ins use an entry point instead."""
    REGISTRY.register(getattr(mechanism, "name", repr(mechanism)), mechanism)


def missing(name: str) -> tuple[str, ...]:
    """Lists the capabilities that a mechanism does not have."""
    if name not in REGISTRY:
        raise SpecError(
            f"there is no mechanism {name!r}; choose from {', '.join(REGISTRY)}.",
            code="unknown-mechanism",
            fields={"mechanism": name},
        )
    return REGISTRY[name].missing_capabilities


def list_broken_plugins() -> tuple[BrokenPlugin, ...]:
    """Lists the plug-ins that could not be loaded, each with the reason in one sentence."""
    return REGISTRY.broken_plugins


UNNAMED_OPTIONS: dict[str, Json] = {
    "subset": {"form": "bits"},
    "levels": {"levels": None, "importance": None},
    "noisy-counts": {"smallest_crowd": None, "also_by": None},
    "small-domain": {"merge": "variance", "min_cell": None, "publish_shares": False},
    "fine-grain": {"direction": "upward", "objective": "record"},
    "harmonic": {"direction": "upward"},
    "buckets": {"sizes": "optimal", "min_bucket": 2, "max_bucket": 50, "dealing": "mixed"},
    "anatomy": {"dealing": "mixed"},
    "decoys": {"groups": "mixed", "ratio_limit": None, "rare": "keep"},
}
"""The values of options that a plan file does not name: the defaults at the time when such files were written.

When you add an option, add a line here with the value for the earlier behaviour. Never change a line, even if the
default changes.
"""
