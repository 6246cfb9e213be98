"""Privacy requests: one frozen class for each definition, in exact rationals.

A request knows itself: how it is given on the command line, what a plan file remembers of it, what it asks in a
sentence, what it comes to for a table, and how far a single column of a compound may be believed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from sfumato._core.cell_values import Value, display
from sfumato._core.exact_numbers import SMALLEST_PRIOR, Exact, find_root_below, parse_exact, round_share_down
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import Flag, OptionValues
from sfumato._core.small_text_files import match_to_domain, read_value_entries
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import MOST_ROWS
from sfumato.errors import InfeasibleError, SpecError


class PrivacySpec(ABC):
    """What a holder may ask for."""

    __slots__ = ()

    FLAGS: ClassVar[tuple[Flag, ...]]
    COMPANION_FLAGS: ClassVar[tuple[Flag, ...]] = ()
    """Flags of another kind of request that may be given beside its own."""
    FLAGS_TEXT: ClassVar[str]
    """The options that make such a request, in words."""
    REQUIREMENT_TEXT: ClassVar[str]
    """What a mechanism needs that meets such a request, in words."""
    RESOLVED_KIND: ClassVar[type[PrivacySpec] | None] = None
    """What it becomes for a table, where that is another kind of request."""
    IS_COLUMNWISE: ClassVar[bool] = False
    """Whether it makes sense for several sensitive columns, each for itself."""

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """The request from what was given on the command line, by the names of the parameters."""
        return cls(**arguments)

    @abstractmethod
    def to_json(self) -> Json:
        """What a plan file remembers of it: enough to tell whether another one is the same."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """What is asked, in plain words."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """Its numbers, in a few words."""

    @property
    def bound(self) -> BreachBound | None:
        """The one bound for all values, if that is what is asked."""
        return None

    @property
    def rows(self) -> int:
        """How many rows of a person it is asked for."""
        return 1

    def share_among_rows(self, rows: int) -> PrivacySpec:
        """The same for persons with up to so many rows; refused where a row's bound is no share of a person's."""
        if rows == 1:
            return self
        raise SpecError(
            f"{SEVERAL_ROWS_REASON} Ask for one bound (`spec=BreachBound(...)`), or publish one row (`one_row=`)."
        )

    def resolve(self, histogram: Histogram) -> PrivacySpec:
        """The request itself, where it is given by the shares of the table."""
        return self

    def adapt_to(self, kind: type[AdaptedSpec]) -> AdaptedSpec | None:
        """A request of another kind that asks for at least as much; None where there is none."""
        return self if isinstance(self, kind) else None

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """How far each value of a protected column may be believed; 1 where nothing is asked. Of a resolved request."""
        return (Fraction(1),) * len(values)

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The one bound that asks for as much, for comparing with mechanisms of other requests; of a resolved request.

        None where there is no such bound.
        """
        return self.bound

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """How far a value of one column of a compound may be believed, by its share; None where nothing is asked.

        The request speaks of combinations; a column on its own is a statement about several of them.
        """
        raise InfeasibleError(
            "caps and diversity of combinations say nothing about the columns they are made of; make buckets for one "
            "column, or choose `mechanism='uniform'` or `mechanism='subset'`, which cover every statement."
        )


SEVERAL_ROWS_REASON = (
    "several rows a person are protected by one bound for all statements alone (mechanisms uniform, subset, levels): "
    "where values have bounds of their own, a harmless value in another row can carry the belief in a protected one."
)
"""Why only some requests and mechanisms hold for persons with several rows."""

AdaptedSpec = TypeVar("AdaptedSpec", bound=PrivacySpec)


@dataclass(frozen=True, slots=True, init=False)
class BreachBound(PrivacySpec):
    """Whoever believed a property with at most `prior` believes it with at most `posterior` afterwards.

    Source: Evfimievski, Gehrke and Srikant 2003 ((rho1, rho2)-privacy).
    A person may have several rows. All of them together multiply odds by at most the whole; each row by its root.
    Notation: rho1 = prior, rho2 = posterior, gamma = amplification.
    """

    FLAGS: ClassVar = (
        Flag("prior", "Beliefs up to this are protected: 1/10, 0.02, 2%.", metavar="R"),
        Flag("posterior", "No such belief rises above this: 1/3, 0.5, 50%.", metavar="R"),
    )
    FLAGS_TEXT: ClassVar = "`prior=` with `posterior=`"
    REQUIREMENT_TEXT: ClassVar = "one bound (`spec=BreachBound(...)`)"

    prior: Fraction
    posterior: Fraction
    rows: int

    def __init__(self, prior: Exact, posterior: Exact, rows: int = 1) -> None:
        object.__setattr__(self, "prior", parse_exact(prior, "the prior"))
        object.__setattr__(self, "posterior", parse_exact(posterior, "the posterior"))
        object.__setattr__(self, "rows", rows)
        for name, belief in (("prior", self.prior), ("posterior", self.posterior)):
            if belief.denominator == 1 and 1 < belief < 100:  # noqa: PLR2004 - what percent can be
                raise SpecError(f"the {name} is {belief}, and a belief lies between 0 and 1: write {belief}% for that.")
        if self.prior <= 0:
            raise SpecError(
                f"the prior is {self.prior}, and must be above 0: it is the belief to protect, such as 1/10."
            )
        if self.posterior >= 1:
            raise SpecError(
                f"the posterior is {self.posterior}, and must be below 1: a posterior of 1 lets an attacker be "
                "certain, so nothing would be protected."
            )
        if self.prior >= self.posterior:
            raise SpecError(
                f"the prior {self.prior} must be below the posterior {self.posterior}: the bound says how far a belief "
                "may rise, and no table can be published if it may not rise at all."
            )
        if self.amplification == 1:
            raise SpecError(
                f"shared out among {rows} rows a person, the bound leaves nothing that a row may tell; allow fewer "
                "rows (`rows_per_person=`), publish one row a person (`one_row=`), or raise the posterior."
            )

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Both ends of the bound; what is lacking is named."""
        if lacking := " and ".join(f"`{flag.name}=`" for flag in cls.FLAGS if flag.name not in arguments):
            raise SpecError(f"say what to protect: give {lacking}, for example `prior='1/10'` `posterior='1/3'`.")
        return cls(**arguments)

    @classmethod
    def from_odds(cls, amplification: Fraction) -> Self:
        """A bound on odds alone: exactly so many times, from a prior that is next to nothing."""
        posterior_odds = amplification * SMALLEST_PRIOR
        return cls(SMALLEST_PRIOR, posterior_odds / (posterior_odds + 1 - SMALLEST_PRIOR))

    @property
    def is_odds_only(self) -> bool:
        """Whether the bound speaks of odds alone: its ends say no more than its amplification does."""
        return self.prior == SMALLEST_PRIOR

    @property
    def belief_bound(self) -> BreachBound | None:
        """Itself where its ends were asked for; None where it stands for odds alone, and no belief is a limit."""
        return None if self.is_odds_only else self

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Read it back from a design, which has one row a person unless it says otherwise."""
        rows = int(entries.get("rows_per_person", 1))
        if not 1 <= rows <= MOST_ROWS:
            raise SpecError("the rows of a person are out of range.")
        return cls(entries["prior"], entries["posterior"], rows)

    @property
    def person_amplification(self) -> Fraction:
        """The largest factor by which all published values of a person may multiply anybody's odds; above 1."""
        return self.posterior * (1 - self.prior) / (self.prior * (1 - self.posterior))

    @property
    def amplification(self) -> Fraction:
        """The largest factor by which one published value may multiply anybody's odds; exact, above 1."""
        return find_root_below(self.person_amplification, self.rows)

    def share_among_rows(self, rows: int) -> BreachBound:
        """The bound of a person, shared out among the rows."""
        return BreachBound(self.prior, self.posterior, rows)

    @property
    def bound(self) -> BreachBound:
        """Itself."""
        return self

    @property
    def summary(self) -> str:
        """Its numbers, in a few words."""
        return f"{self.prior} to {self.posterior}"

    @property
    def sentence(self) -> str:
        """What is asked, in plain words."""
        return f"no belief of at most {self.prior} may rise above {self.posterior}."

    def to_json(self) -> Json:
        """Both numbers, exactly, and the rows of a person if they may be several."""
        row_entry = {"rows_per_person": self.rows} if self.rows > 1 else {}
        return {"prior": str(self.prior), "posterior": str(self.posterior), **row_entry}

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """The posterior."""
        return (self.posterior,) * len(values)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """The posterior, for what is within the prior."""
        return self.posterior if share <= self.prior else None


@dataclass(frozen=True, slots=True)
class BreachBoundPerValue(PrivacySpec):
    """A bound for each value; a value without one is not protected.

    Source: the fine-grain model, in which a value that is harmless may be published more often as it is.
    Notation: rho1i = prior, rho2i = posterior and gamma_i = amplification of the bound of value i.
    """

    FLAGS: ClassVar = (Flag("bounds", "A bound for each value instead: a CSV of value,prior,posterior.", Path, "CSV"),)
    FLAGS_TEXT: ClassVar = "`bounds=`"
    REQUIREMENT_TEXT: ClassVar = "a bound for each value (`spec=BreachBoundPerValue(...)` or `spec=Tolerance(...)`)"

    bounds: Mapping[Value, BreachBound]
    tolerance: Fraction | None = None
    """The factor that made the bounds of shares, if one did."""

    def __post_init__(self) -> None:
        if not self.bounds:
            raise SpecError("no value has a bound, so nothing would be protected; give at least one.")

    @classmethod
    def from_bound(cls, bound: BreachBound, values: Sequence[Value]) -> BreachBoundPerValue:
        """The same bound for every value."""
        return cls(dict.fromkeys(values, bound))

    @classmethod
    def from_bounds(cls, values: Sequence[Value], bounds: Sequence[BreachBound | None]) -> Self | None:
        """The request behind the bounds of a design; None where no value has one that was asked for."""
        pairs = zip(values, bounds, strict=True)
        bounds_by_value = {
            value: bound for value, bound in pairs if bound is not None and bound.belief_bound is not None
        }
        return cls(bounds_by_value) if bounds_by_value else None

    @classmethod
    def from_tolerance(cls, histogram: Histogram, tolerance: Exact) -> BreachBoundPerValue:
        """Let the belief in each value rise from its share to `tolerance` times its share.

        Shares are first rounded down: the amplification that a tolerance allows grows with the share, so this rounds
        towards privacy, and the bounds tell no more than the rounded shares. A share that is rounded to nothing has
        the amplification of the tolerance itself, which is the limit. A value of which `tolerance` times the share
        reaches 1 has no bound, as in the paper.
        """
        factor, total = Tolerance(tolerance).factor, histogram.total
        bounds: dict[Value, BreachBound] = {}
        for value, count in zip(histogram.values, histogram.counts, strict=True):
            prior = round_share_down(count, total)
            if factor * prior < 1:
                bounds[value] = BreachBound(prior, factor * prior) if prior else BreachBound.from_odds(factor)
        if not bounds:
            raise SpecError(
                f"with a tolerance of {factor} the belief in every value may rise to certainty, so nothing would be "
                "protected; choose a smaller one."
            )
        return cls(bounds, factor)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a CSV with the columns value, prior and posterior; an empty value is the missing one."""
        bounds = {}
        for value, row in read_value_entries(path, ("prior", "posterior")).items():
            try:
                bounds[value] = BreachBound(row["prior"].strip(), row["posterior"].strip())
            except SpecError as error:
                raise SpecError(f"the bound of {display(value)!r} in {str(path)!r} is wrong: {error}") from error
        return cls(bounds)

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """The bounds of a file."""
        return cls.read(arguments["bounds"])

    @property
    def summary(self) -> str:
        """Its numbers, in a few words."""
        summaries = {bound.summary for bound in self.bounds.values()}
        return f"each {summaries.pop()}" if len(summaries) == 1 else f"{len(self.bounds)} values: a bound each"

    @property
    def sentence(self) -> str:
        """What is asked, in plain words."""
        return f"the belief in each of {len(self.bounds)} values may rise no further than its own bound."

    def to_json(self) -> Json:
        """Each bound by its value."""
        return {"bounds": {display(value): f"{bound.prior} {bound.posterior}" for value, bound in self.bounds.items()}}

    def resolve(self, histogram: Histogram) -> BreachBoundPerValue:
        """Itself, if every bound is for a value of the table."""
        self.list_bounds(histogram.values)
        return self

    def adapt_to(self, kind: type[AdaptedSpec]) -> AdaptedSpec | None:
        """As one bound for all values: that of the smallest amplification asks for more of every value.

        No share has a smaller one than the tolerance itself, which is lent instead: it tells nothing about shares.
        """
        if isinstance(self, kind):
            return self
        if self.tolerance is None:
            strictest = min(self.bounds.values(), key=lambda bound: bound.amplification)
        else:
            strictest = BreachBound.from_odds(self.tolerance)
        return strictest if isinstance(strictest, kind) else None

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The strictest of the bounds; where they follow shares, the amplification is all that they have in common."""
        return None if self.tolerance is not None else self.adapt_to(BreachBound)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """Bounds for combinations are none for the parts."""
        raise InfeasibleError(
            "bounds for combinations say nothing about the columns they are made of; ask for a tolerance "
            "(`spec=Tolerance(...)`), or for one bound with `mechanism='uniform'` or `mechanism='subset'`, which cover "
            "every statement."
        )

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """The posterior of each value's bound."""
        return [Fraction(1) if bound is None else bound.posterior for bound in self.list_bounds(values)]

    def list_bounds(self, values: Sequence[Value]) -> tuple[BreachBound | None, ...]:
        """The bound of each value of a domain; a value that is no text may be named by its text."""
        return match_to_domain(self.bounds, values, "bound")


@dataclass(frozen=True, slots=True, init=False)
class Tolerance(PrivacySpec):
    """A request for bounds from the table's own shares: from a share to `factor` times that share.

    Notation: theta = factor.
    """

    FLAGS: ClassVar = (
        Flag("tolerance", "Bounds from shares: belief in a value may rise to R times its share.", metavar="R"),
    )
    FLAGS_TEXT: ClassVar = "`tolerance=`"
    REQUIREMENT_TEXT: ClassVar = BreachBoundPerValue.REQUIREMENT_TEXT
    RESOLVED_KIND: ClassVar = BreachBoundPerValue

    factor: Fraction = field()

    def __init__(self, factor: Exact) -> None:
        object.__setattr__(self, "factor", parse_exact(factor, "the tolerance"))
        if self.factor <= 1:
            raise SpecError(f"the tolerance is {self.factor}, and must be above 1: a belief may rise by this factor.")

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """The factor."""
        return cls(arguments["tolerance"])

    @property
    def summary(self) -> str:
        """Its numbers, in a few words."""
        return f"tolerance {self.factor}"

    @property
    def sentence(self) -> str:
        """What is asked, in plain words."""
        return f"the belief in a value may rise from its share to at most {self.factor} times its share."

    def to_json(self) -> Json:
        """The factor, exactly."""
        return {"tolerance": str(self.factor)}

    def resolve(self, histogram: Histogram) -> BreachBoundPerValue:
        """A bound for each value, from rounded shares."""
        return BreachBoundPerValue.from_tolerance(histogram, self.factor)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """Bounds that grow with the share hold for sums of values too; this is the proof for the table at hand."""
        return self.factor * share if self.factor * share < 1 else None
