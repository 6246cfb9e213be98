"""Defines a mechanism: a plan made from one histogram, and a pure function applied to each batch of records.

A `Mechanism` is a value whose fields are functions. It has a required core, a few facts and rules with defaults, and
optional capabilities. Plans are secret, and designs are public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from sfumato._core.array_types import Codes, UInts
from sfumato._core.cell_values import Value
from sfumato._core.json_types import Json, JsonView
from sfumato._core.random_draws import Draws
from sfumato._records import Naming, PerturbedRecords, RecordEncoding
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS
from sfumato.errors import MissingCapabilityError, ReleaseFormatError
from sfumato.mechanisms.capabilities import (
    AttackModel,
    BucketTable,
    Capability,
    Coarsening,
    Comparability,
    CrowdAttackModel,
    CrowdCounts,
    ErrorPrediction,
    EstimationWeights,
    GroupRisk,
    PlanExplanation,
    ReleaseErrorPrediction,
    SeveralColumns,
)
from sfumato.mechanisms.estimator import Method

SpecT = TypeVar("SpecT", bound=PrivacySpec)
OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT")
CapabilityT = TypeVar("CapabilityT", bound=Capability)


class Design(Protocol):
    """The published part of a plan."""

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values that the sensitive column may have."""
        ...

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings."""
        ...


DesignT = TypeVar("DesignT", bound=Design)


def make_design_error(sentence: str, part: str) -> ReleaseFormatError:
    """Makes the error for a published design with an impossible part."""
    return ReleaseFormatError(sentence, code="damaged-design", fields={"part": part})


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of a mechanism without options."""


@dataclass(frozen=True, kw_only=True)
class PlanRules(Generic[OptionsT, PlanT]):
    """Special rules about plans. By default there are no such rules."""

    is_implied_by: Callable[[OptionsT], bool] = lambda options: False
    """Whether the given options require this mechanism, so that `auto` chooses no other mechanism."""
    check_countable: Callable[[PlanT], None] = lambda plan: None
    """Raises InfeasibleError if analysts could not count in a release of this plan."""
    fingerprint: Callable[[PlanT], object] = lambda plan: None
    """Exact numbers in JSON that determine the rows, in addition to the key, the table and the design.

    A plan file keeps the digest of these numbers, to recognise the same plan.
    """


@dataclass(frozen=True, kw_only=True)
class EstimationRules(Generic[DesignT]):
    """Special rules about estimation. By default there are no such rules."""

    choose_estimator: Callable[[DesignT], str | None] = lambda design: None
    """The name of the default estimator, if it depends on the design. None stands for the first estimator."""
    propose_estimator: Callable[[DesignT], str | None] = lambda design: None
    """Proposes another estimator for large errors, in a sentence that also names its disadvantage."""
    write_manual_sql: Callable[[DesignT, Naming], str | None] = lambda design, naming: None
    """Writes a query for any SQL tool, if neither estimation weights nor the record encoding give one."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism(Generic[SpecT, OptionsT, PlanT, DesignT]):
    """A way to protect a sensitive column."""

    # The core, which every mechanism has.
    name: str
    guarantee: Guarantee
    request: type[SpecT]
    """The kind of request for which the mechanism makes plans."""
    options: type[OptionsT]
    """A dataclass whose fields declare the flags of the options; `NoOptions` if there are none."""
    plan: Callable[[Histogram, SpecT, OptionsT, Draws], PlanT]
    """Makes the exact plan from the histogram; raises InfeasibleError if no plan meets the request."""
    perturb: Callable[[PlanT, Codes, UInts | None, Draws, int], PerturbedRecords]
    """Perturbs a batch, given its codes, its slots and the number of its first row.

    The function is row-local and vectorised.
    """
    make_design: Callable[[PlanT], DesignT]
    """Extracts the published part of a plan."""
    read_design: Callable[[JsonView, Sequence[str]], DesignT]
    """Reads a design back from JSON, given the Data Package types of the sensitive columns."""
    make_encoding: Callable[[DesignT], RecordEncoding]
    """The record encoding: whether a record publishes a value, a set or a bucket, and how this is written."""
    estimators: Mapping[str, Method[DesignT]]
    """The estimators by name. The first is the default unless `estimation_rules` choose another."""
    state_guarantee: Callable[[DesignT], GuaranteeStatement]
    """States the guarantee in plain words, with the numbers of the design."""

    # Facts and rules. The defaults suit most mechanisms.
    further_requests: tuple[type[PrivacySpec], ...] = ()
    """Other kinds of request that the mechanism accepts and turns into its own kind."""
    uses_slots: bool = False
    """Whether a random slot among the records of one value assigns each record to a sub-table."""
    covers_predicates: bool = False
    """Whether the guarantee holds for every statement about a value, and so for each part of a compound value."""
    plan_rules: PlanRules[OptionsT, PlanT] = field(default_factory=PlanRules)
    estimation_rules: EstimationRules[DesignT] = field(default_factory=EstimationRules)

    # Capabilities: None if a mechanism does not have the capability. `missing` lists the missing ones.
    error_prediction: ErrorPrediction[PlanT] | None = None
    release_error_prediction: ReleaseErrorPrediction[DesignT] | None = None
    explanation: PlanExplanation[PlanT] | None = None
    attack_model: AttackModel[PlanT, DesignT] | None = None
    group_risk: GroupRisk[PlanT] | None = None
    comparability: Comparability[SpecT, DesignT] | None = None
    estimation_weights: EstimationWeights[DesignT] | None = None
    bucket_table: BucketTable[PlanT] | None = None
    coarsening: Coarsening[SpecT, OptionsT] | None = None
    several_columns: SeveralColumns | None = None
    crowd_counts: CrowdCounts[PlanT] | None = None
    crowd_attack_model: CrowdAttackModel[DesignT] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles a mechanism by its name."""
        from sfumato.mechanisms import find_mechanism  # noqa: PLC0415 - the registry imports this module

        return find_mechanism, (self.name,)

    @property
    def accepted_requests(self) -> tuple[type[PrivacySpec], ...]:
        """All kinds of request that the mechanism accepts, before and after the request is resolved."""
        own = (self.request, *self.further_requests)
        return tuple(kind for kind in REQUIREMENT_KINDS if issubclass(kind.RESOLVED_KIND or kind, own))

    def adapt_request(self, spec: PrivacySpec) -> SpecT | None:
        """Turns a request into this mechanism's own kind; returns None if the mechanism does not accept the request."""
        return spec.adapt_to(self.request) if isinstance(spec, (self.request, *self.further_requests)) else None

    def list_estimators(self, design: DesignT) -> dict[str, Method[DesignT]]:
        """The estimators by name, the default one first."""
        default = self.estimation_rules.choose_estimator(design) or next(iter(self.estimators))
        return {default: self.estimators[default], **self.estimators}

    def require(self, capability: type[CapabilityT]) -> CapabilityT:
        """The capability of this kind; raises MissingCapabilityError if the mechanism does not have it."""
        capability_functions = getattr(self, CAPABILITIES[capability])
        if capability_functions is None:
            raise self.make_missing_error(capability.__name__, capability.ABILITY)
        return cast(CapabilityT, capability_functions)

    @property
    def attack_capabilities(self) -> tuple[type[Capability], ...]:
        """The capabilities that attacks need: one for records, and one for counts if the mechanism publishes counts."""
        return (AttackModel,) if self.crowd_counts is None else (AttackModel, CrowdAttackModel)

    def check_attackable(self) -> None:
        """Raises MissingCapabilityError if the attack success would be unknown for all people, or for some of them."""
        for capability in self.attack_capabilities:
            self.require(capability)

    def make_missing_error(self, capability: str, ability: str) -> MissingCapabilityError:
        """Makes the error for a missing capability of this mechanism."""
        return MissingCapabilityError(
            f"the mechanism {self.name!r} has no {capability}, so it cannot {ability}.", self.name, capability
        )

    @property
    def missing_capabilities(self) -> tuple[str, ...]:
        """The names of the capabilities that the mechanism does not have."""
        own = [kind.__name__ for kind, name in CAPABILITIES.items() if getattr(self, name) is None]
        estimators = self.estimators.values()
        of_estimators = [
            name
            for name, entry in ESTIMATOR_CAPABILITIES.items()
            if all(getattr(estimator, entry) is None for estimator in estimators)
        ]
        return (*own, *of_estimators)


CAPABILITIES: Mapping[type[Capability], str] = {
    ErrorPrediction: "error_prediction",
    ReleaseErrorPrediction: "release_error_prediction",
    PlanExplanation: "explanation",
    AttackModel: "attack_model",
    GroupRisk: "group_risk",
    Comparability: "comparability",
    EstimationWeights: "estimation_weights",
    BucketTable: "bucket_table",
    Coarsening: "coarsening",
    SeveralColumns: "several_columns",
    CrowdCounts: "crowd_counts",
    CrowdAttackModel: "crowd_attack_model",
}
"""All capabilities, each with its field of a mechanism."""

SUMS, PAGE = "Sums", "PageTwin"
ESTIMATOR_CAPABILITIES: Mapping[str, str] = {SUMS: "total", PAGE: "twin"}
"""The capabilities that a mechanism has through its estimators: sums and means, and a page that answers in a
browser.
"""

AnyMechanism = Mechanism[Any, Any, Any, Any]
