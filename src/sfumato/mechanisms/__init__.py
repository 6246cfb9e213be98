"""The mechanisms: each is a module that satisfies `Mechanism`; the registry lists them.

A mechanism is a plan made from one histogram, and a pure function applied to each batch of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from sfumato.draws import Draws, Numbers
from sfumato.mechanisms import anatomy, buckets, decoys, fine_grain, small_domain, subset, uniform
from sfumato.mechanisms.coins.methods import Method
from sfumato.mechanisms.coins.operators import Floats
from sfumato.request.histogram import Histogram
from sfumato.request.spec import BreachBound, BreachBoundPerValue, DecoyGroups, Diversity, ShareCap
from sfumato.shown.tally import Codes, Counts, Observation, Replaced, Risk

SpecT = TypeVar("SpecT", contravariant=True)
OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT")
DesignT = TypeVar("DesignT")


class Mechanism(Protocol[SpecT, OptionsT, PlanT, DesignT]):
    """What a mechanism module provides. Plans are secret, designs are public."""

    NAME: str
    GUARANTEE: str
    SPEC: type[Any]
    """The kind of request it meets."""
    USES_SLOTS: bool
    """Whether records of one value are told apart by a random slot, which takes them to their cell."""
    COVERS_PREDICATES: bool
    """Whether the promise holds for every statement about a value, and so for each part of a compound value."""
    METHODS: Mapping[str, Method]
    """The ways to estimate, by name."""
    Options: type[OptionsT]
    """What a holder may decide besides the request; every field has a default."""

    def plan(self, histogram: Histogram, spec: SpecT, options: OptionsT, draws: Draws, /) -> PlanT:
        """Decide everything, exactly, from the histogram; raise InfeasibleError where nothing meets the request."""
        ...

    def replace(self, plan: PlanT, codes: Codes, slots: Numbers | None, draws: Draws, first_row: int, /) -> Replaced:
        """Turn the codes of a batch into what is published; row-local and vectorised."""
        ...

    def design(self, plan: PlanT, /) -> DesignT:
        """What is published of the plan."""
        ...

    def check_countable(self, plan: PlanT, /) -> None:
        """Raise InfeasibleError where nothing could be counted in a release of this plan."""
        ...

    def read_design(self, written: Mapping[str, Any], types: Sequence[str], /) -> DesignT:
        """Read a design back from JSON, given the Data Package types of the sensitive columns."""
        ...

    def default_method(self, design: DesignT, /) -> str:
        """The name of the way to estimate that a release is counted by unless another one is asked for."""
        ...

    def observe(self, design: DesignT, /) -> Observation:
        """What to count in a release to answer a query."""
        ...

    def weights(self, design: DesignT, /) -> Mapping[str, Any] | None:
        """The columns of weights.parquet, values as places in the domain; None where there are too many."""
        ...

    def variances(self, plan: PlanT, rows: Floats, counts: Floats, /) -> Floats:
        """The variance of the default count of each value, if it is held by `counts` of `rows` rows."""
        ...

    def explain(self, plan: PlanT, /) -> dict[str, Any]:
        """What the plan decided, in JSON, for its holder: it may contain counts."""
        ...

    def remarks(self, plan: PlanT, /) -> list[str]:
        """What the holder should know of this plan, a sentence each."""
        ...

    def risk(self, plan: PlanT, groups: Counts, /) -> Risk:
        """What an attacker learns at most who knows the counts of the values in each group of the table."""
        ...

    def promise(self, design: DesignT, /) -> str:
        """The guarantee in plain words, with the numbers of the design."""
        ...


AnyMechanism = Mechanism[Any, Any, Any, Any]

_uniform: Mechanism[BreachBound, uniform.Options, uniform.Plan, uniform.Design] = uniform
_subset: Mechanism[BreachBound, subset.Options, subset.Plan, subset.Design] = subset
_small_domain: Mechanism[BreachBound, small_domain.Options, small_domain.Plan, small_domain.Design] = small_domain
_fine_grain: Mechanism[BreachBoundPerValue, fine_grain.Options, fine_grain.Plan, fine_grain.Design] = fine_grain

_buckets: Mechanism[ShareCap, buckets.Options, buckets.Plan, buckets.Design] = buckets
_anatomy: Mechanism[Diversity, anatomy.Options, anatomy.Plan, anatomy.Design] = anatomy

_decoys: Mechanism[DecoyGroups, decoys.Options, decoys.Plan, decoys.Design] = decoys

_MODULES: tuple[AnyMechanism, ...] = (_uniform, _subset, _small_domain, _fine_grain, _buckets, _anatomy, _decoys)

REGISTRY: Mapping[str, AnyMechanism] = MappingProxyType({module.NAME: module for module in _MODULES})
