"""The mechanisms: each is a module that satisfies `Mechanism`; the registry lists them.

A mechanism is a plan made from one histogram, and a pure function applied to each batch of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from sfumato.draws import Draws, Words
from sfumato.histogram import Histogram
from sfumato.mechanisms import uniform
from sfumato.spec import BreachBound
from sfumato.tally import Codes, Mask, Moments, Tally

SpecT = TypeVar("SpecT", contravariant=True)
OptionsT = TypeVar("OptionsT", contravariant=True)
PlanT = TypeVar("PlanT")
DesignT = TypeVar("DesignT")


class Mechanism(Protocol[SpecT, OptionsT, PlanT, DesignT]):
    """What a mechanism module provides. Plans are secret, designs are public."""

    NAME: str
    GUARANTEE: str
    METHOD: str
    ASSUMPTION: str

    def plan(self, histogram: Histogram, spec: SpecT, options: OptionsT, draws: Draws, /) -> PlanT:
        """Decide everything, exactly, from the histogram; raise InfeasibleError where nothing meets the request."""
        ...

    def replace(self, plan: PlanT, codes: Codes, slots: Words | None, draws: Draws, first_row: int, /) -> Codes:
        """Turn the codes of a batch into the codes to publish; row-local and vectorised."""
        ...

    def design(self, plan: PlanT, /) -> DesignT:
        """What is published of the plan."""
        ...

    def read_design(self, written: Mapping[str, Any], field_type: str, /) -> DesignT:
        """Read a design back from JSON, given the Data Package type of its column."""
        ...

    def reconstruct(self, design: DesignT, tally: Tally, wanted: Mask, /) -> Moments:
        """Estimate how many of the tallied records hold a wanted value."""
        ...

    def count_variance(self, design: DesignT, rows: int, values: int = 1) -> tuple[float, float]:
        """The exact variance of a count of `values` values among `rows` rows, as base + slope * count."""
        ...

    def weights(self, design: DesignT, /) -> tuple[float, float]:
        """What a row adds to the unbiased count of a value: (if it shows the value, otherwise)."""
        ...

    def promise(self, design: DesignT, /) -> str:
        """The guarantee in plain words, with the numbers of the design."""
        ...


AnyMechanism = Mechanism[Any, Any, Any, Any]

_uniform: Mechanism[BreachBound, None, uniform.Plan, uniform.Design] = uniform

REGISTRY: Mapping[str, AnyMechanism] = MappingProxyType({_uniform.NAME: _uniform})
