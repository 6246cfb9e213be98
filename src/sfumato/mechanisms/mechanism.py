"""What a mechanism is: a plan made from one histogram, and a pure function applied to each batch of records.

A mechanism is a value whose fields are functions. What a mechanism does not have it does not mention: everything that
is not the plan, the rewriting and the counting has a default here, and a new ability is one more default. Plans are
secret, designs are public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from sfumato.arrays import Codes, Counts, Floats, Numbers, Places
from sfumato.draws import Draws
from sfumato.mechanisms.method import Method
from sfumato.request.guarantee import Guarantee
from sfumato.request.histogram import Histogram
from sfumato.request.notice import Notice
from sfumato.request.requests import REQUESTS
from sfumato.request.schema import Merged
from sfumato.request.spec import BreachBound, PrivacySpec
from sfumato.request.values import Value
from sfumato.shown import Contents, Naming, Replaced, Shown
from sfumato.shown.tally import Holdings

SpecT = TypeVar("SpecT", bound=PrivacySpec)
OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT")


class Design(Protocol):
    """What is published of a plan."""

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values that the sensitive column may have."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Write the design down; rationals as strings."""
        ...


DesignT = TypeVar("DesignT", bound=Design)


@dataclass(frozen=True, slots=True)
class NoOptions:
    """There is nothing to decide."""


@dataclass(frozen=True, slots=True)
class Risk:
    """What knowing the groups of a table adds to a release: the worst belief, and how many records it breaches."""

    worst: float
    """The largest chance that a protected value within its prior in its group can come to have."""
    breached: float
    """The expected share of the records whose published value lifts such a chance above the bound."""


@dataclass(frozen=True, slots=True)
class PerValue:
    """An entry of `explain` that has a number for each value, and how people see it."""

    entry: str
    heading: str
    words: Callable[[Any], str]
    """The number of a value, in words."""
    without: str = "-"
    """What is said of a value that has none."""


@dataclass(frozen=True, slots=True)
class PlanTable:
    """A small table that people see beside a plan."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


Columns = Mapping[str, tuple[Sequence[Value], Sequence[int]]]
"""The values of each sensitive column, and how many records hold each."""


def _nothing(*given: Any) -> None:
    """What a mechanism without this ability does."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Mechanism(Generic[SpecT, OptionsT, PlanT, DesignT]):
    """A way to protect what is sensitive."""

    name: str
    guarantee: Guarantee
    spec: type[SpecT]
    """The kind of request that it plans for."""
    plan: Callable[[Histogram, SpecT, OptionsT, Draws], PlanT]
    """Decide everything, exactly, from the histogram; raise InfeasibleError where nothing meets the request."""
    replace: Callable[[PlanT, Codes, Numbers | None, Draws, int], Replaced]
    """Turn the codes of a batch, its slots and its first row into what is published; row-local and vectorised."""
    design: Callable[[PlanT], DesignT]
    """What is published of the plan."""
    read_design: Callable[[Mapping[str, Any], Sequence[str]], DesignT]
    """Read a design back from JSON, given the Data Package types of the sensitive columns."""
    shown: Callable[[DesignT], Shown]
    """What a record shows."""
    methods: Mapping[str, Method[DesignT]]
    """The ways to estimate, by name; the first is the default unless `default_method` says otherwise."""
    promise: Callable[[DesignT], str]
    """The guarantee in plain words, with the numbers of the design."""

    options: type[OptionsT] = NoOptions  # type: ignore[assignment]
    """What a holder may decide besides the request: a dataclass whose fields declare their flags."""
    is_asked: Callable[[OptionsT], bool] = lambda options: False
    """Whether options that were given ask for this mechanism, so that no other is taken."""
    requests: tuple[type[PrivacySpec], ...] = ()
    """Other kinds of request that it meets as well, if they are lent as its own."""
    uses_slots: bool = False
    """Whether records of one value are told apart by a random slot, which takes them to their cell."""
    covers_predicates: bool = False
    """Whether the promise holds for every statement about a value, and so for each part of a compound value."""
    takes_columns: bool = False
    """Whether several sensitive columns can be protected each for itself."""
    most_combinations: int = 0
    """How many combinations the values of such columns may have."""
    default_method: Callable[[DesignT], str | None] = _nothing
    """The name of the way to estimate that a release is counted by, where it depends on the design."""
    proposal: Callable[[DesignT], str | None] = _nothing
    """Which other way to count with where errors are large, and what it costs; None where there is none to propose."""
    check_countable: Callable[[PlanT], None] = _nothing
    """Raise InfeasibleError where nothing could be counted in a release of this plan."""
    weights: Callable[[DesignT], Mapping[str, Any] | None] = _nothing
    """The columns of weights.parquet, values as places in the domain; None where there are none, or too many.

    Either `cell`, `value`, `if_equal` and `otherwise`; or for sets `place` instead of the cell, and for sets of several
    levels `level`, `per_sibling` and `siblings` too; or `value`, `published` and `weight`, a line for each pair."""
    by_hand: Callable[[DesignT, Naming], str | None] = _nothing
    """How to count with any SQL tool, where there are no weights."""
    contents: Callable[[PlanT], Contents | None] = _nothing
    """What the cells hold, where that is published."""
    variances: Callable[[PlanT, Floats, Floats], Floats] = lambda plan, rows, counts: np.full(len(counts), np.nan)
    """The variance of the default count of each value, if it is held by `counts` of `rows` rows."""
    set_variances: Callable[[PlanT, float, Sequence[Places]], Floats] = lambda plan, share, sets: np.full(
        len(sets), np.nan
    )
    """The variance of the default count of each set of values, among a share of the records of every value."""
    record_variances: Callable[[DesignT, Holdings | None], tuple[Floats, Floats] | None] = _nothing
    """What one record adds to the variance of the default count of each value, by what is published alone: if it holds
    the value, and if it holds another, of which all are taken to be equally frequent. From the design, and from what
    buckets hold if there are any; not finite for a value that cannot be counted, None where it depends on more."""
    explain: Callable[[PlanT], dict[str, Any]] = lambda plan: {}
    """What the plan decided, in JSON, for its holder: it may contain counts."""
    by_value: tuple[PerValue, ...] = ()
    """The entries of `explain` that have a number for each value, for people to see."""
    tables: Callable[[PlanT], Sequence[PlanTable]] = lambda plan: ()
    """What else people should see of a plan: how its errors would be if something else had been asked for."""
    summary: Callable[[PlanT], str] = lambda plan: ""
    """What the plan decided, in one line."""
    remarks: Callable[[PlanT], list[Notice]] = lambda plan: []
    """What the holder should know of this plan."""
    remark_codes: tuple[str, ...] = ()
    """The codes that its remarks can have; where two mechanisms remark the same, they have the same code."""
    risk: Callable[[PlanT, Counts], Risk | None] = _nothing
    """What an attacker learns at most who knows the counts of the values in each group of the table, if known."""
    requested: Callable[[DesignT], PrivacySpec | None] = _nothing
    """The request as the design tells it, which says how far each value may be believed; None where it does not."""
    likelihoods: Callable[[PlanT, Replaced], Sequence[Floats] | None] = _nothing
    """How likely what each record shows would be from each value, up to a factor of the record; one table for each
    column that is protected for itself. None where that is not known."""
    revealed: Callable[[DesignT, Codes, Codes, Places], Sequence[Floats] | None] = _nothing
    """The same for some records (the last argument) of a release, from its design, from what all its records show as
    its reader reads them, and what they hold: for whoever knows how frequent the values of each cell are."""
    at_posterior: Callable[[BreachBound, Sequence[Value]], SpecT | None] = _nothing
    """The request of its own kind that lets a belief within the prior of a bound rise to the posterior and no further,
    against those whom its guarantee covers, for the values of a domain: what mechanisms are compared at. None where it
    has none."""
    coarsened: Callable[[Columns, SpecT, OptionsT], dict[str, Merged]] = lambda columns, spec, options: {}
    """Values of each column to publish as one, because they are too rare to be protected."""
    decided: Callable[[PlanT], Any] = _nothing
    """Exact numbers that decide the rows besides the key, the table and the design, for telling whether a plan is the
    same; JSON."""

    def __reduce__(self) -> tuple[Any, ...]:
        """A mechanism travels by its name, so that what holds one can be pickled."""
        from sfumato.mechanisms import mechanism_of  # noqa: PLC0415 - the registry imports this module

        return mechanism_of, (self.name,)

    @property
    def asked(self) -> tuple[type[PrivacySpec], ...]:
        """Every kind of request that it meets, before and after it is resolved."""
        own = (self.spec, *self.requests)
        return tuple(kind for kind in REQUESTS if issubclass(kind.RESOLVED or kind, own))

    def lent(self, spec: PrivacySpec) -> SpecT | None:
        """A request as this mechanism plans for it; None where it does not meet it."""
        return spec.lent(self.spec) if isinstance(spec, (self.spec, *self.requests)) else None

    def methods_of(self, design: DesignT) -> dict[str, Method[DesignT]]:
        """The ways to estimate, the default one first."""
        default = self.default_method(design) or next(iter(self.methods))
        return {default: self.methods[default], **self.methods}


AnyMechanism = Mechanism[Any, Any, Any, Any]
