"""Privacy requests in exact numbers, with one frozen class for each privacy definition.

Each class states its command-line options, its entry in a plan file and its sentence. It also computes exact bounds for
a table, and how far an attacker's confidence may rise for one column of a compound.
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
    """A privacy requirement that a data steward may ask for."""

    __slots__ = ()

    FLAGS: ClassVar[tuple[Flag, ...]]
    COMPANION_FLAGS: ClassVar[tuple[Flag, ...]] = ()
    """Options of another kind of request that may be given together with its own."""
    FLAGS_TEXT: ClassVar[str]
    """The options that state such a request, in words."""
    REQUIREMENT_TEXT: ClassVar[str]
    """The request that a mechanism of this kind needs, in words."""
    RESOLVED_KIND: ClassVar[type[PrivacySpec] | None] = None
    """The kind of request that this request turns into for a given table, if that is another kind."""
    IS_COLUMNWISE: ClassVar[bool] = False
    """Whether such a request can protect several sensitive columns, each on its own."""

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Makes the request from command-line arguments, by the names of their parameters."""
        return cls(**arguments)

    @abstractmethod
    def to_json(self) -> Json:
        """The entries of a plan file that identify this request."""

    @property
    @abstractmethod
    def sentence(self) -> str:
        """The requirement in plain words."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """The numbers of the request, in a few words."""

    @property
    def bound(self) -> BreachBound | None:
        """The single bound for all values, if the request has one."""
        return None

    @property
    def rows(self) -> int:
        """The number of rows per person for which the bound holds."""
        return 1

    def share_among_rows(self, rows: int) -> PrivacySpec:
        """The same request for persons with up to this many rows. Refused if rows cannot share the bound."""
        if rows == 1:
            return self
        raise SpecError(
            f"{SEVERAL_ROWS_REASON} Ask for one bound (`spec=BreachBound(...)`), or publish one row (`one_row=`).",
            code="several-rows-not-covered",
            fields={"requirement": type(self).__name__, "rows": rows},
        )

    def resolve(self, histogram: Histogram) -> PrivacySpec:
        """The request itself, or the request that follows from it and the shares of the values in the table."""
        return self

    def adapt_to(self, kind: type[AdaptedSpec]) -> AdaptedSpec | None:
        """A request of another kind that is at least as strict. None if there is none."""
        return self if isinstance(self, kind) else None

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """The largest permitted confidence in each value, and 1 for unprotected values. For resolved requests only."""
        return (Fraction(1),) * len(values)

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The single bound that is equally strict, for comparing with mechanisms of other requests.

        For resolved requests only. None where there is no such bound.
        """
        return self.bound

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """The largest permitted confidence in a value with this share, in one column of a compound.

        None if there is no limit.

        The request is about combinations of values. A value of one column occurs in several combinations.
        """
        raise InfeasibleError(
            "caps and diversity of combinations do not protect the single columns. Make buckets for one column, or "
            "ask for one bound (`spec=BreachBound(...)`), which covers every statement.",
            code="columns-not-protected",
            fields={"requirement": type(self).__name__},
        )


SEVERAL_ROWS_REASON = (
    "several rows per person can be protected only by one bound for all statements (mechanisms uniform, subset, "
    "levels). If each value has its own bound, a harmless value in another row can raise an attacker's confidence in "
    "a protected value."
)
"""The reason why only some requests and mechanisms can protect persons with several rows."""

AdaptedSpec = TypeVar("AdaptedSpec", bound=PrivacySpec)


@dataclass(frozen=True, slots=True, init=False)
class BreachBound(PrivacySpec):
    """Bounds an attacker's confidence. Confidence of at most `prior` may rise to at most `posterior`.

    Source: Evfimievski, Gehrke and Srikant 2003 ((rho1, rho2)-privacy).
    If a person has several rows, all of them together multiply the odds by at most the whole factor, and each row by
    its root.
    Notation: rho1 = prior, rho2 = posterior, gamma = amplification.
    """

    FLAGS: ClassVar = (
        Flag("prior", "Confidence up to this before the release is limited: 1/10, 0.02, 2%.", metavar="R"),
        Flag("posterior", "Such confidence rises to at most this: 1/3, 0.5, 50%.", metavar="R"),
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
            if belief.denominator == 1 and 1 < belief < 100:  # noqa: PLR2004 - a percentage
                raise SpecError(
                    f"the {name} is {belief}, but it must be between 0 and 1. For a percentage, write {belief}%.",
                    code="belief-out-of-range",
                    fields={"argument": name, "given": str(belief)},
                )
        if self.prior <= 0:
            raise SpecError(
                f"the prior is {self.prior} and must be above 0. The prior is the largest confidence before the "
                "release that is protected, such as 1/10.",
                code="belief-out-of-range",
                fields={"argument": "prior", "given": str(self.prior)},
            )
        if self.posterior >= 1:
            raise SpecError(
                f"the posterior is {self.posterior} and must be below 1. A posterior of 1 lets an attacker be "
                "certain, so nothing would be protected.",
                code="belief-out-of-range",
                fields={"argument": "posterior", "given": str(self.posterior)},
            )
        if self.prior >= self.posterior:
            raise SpecError(
                f"the prior {self.prior} must be below the posterior {self.posterior}. The bound limits how far an "
                "attacker's confidence may rise. No table can be published if it may not rise.",
                code="prior-not-below-posterior",
                fields={"prior": str(self.prior), "posterior": str(self.posterior)},
            )
        if self.amplification == 1:
            raise SpecError(
                f"with {rows} rows per person, the share of the bound for one row is too small to publish anything. "
                "Allow fewer rows (`rows_per_person=`), publish one row per person (`one_row=`), or raise the "
                "posterior.",
                code="bound-too-small-for-rows",
                fields={"rows": rows},
            )

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Makes a bound from a prior and a posterior. If one is missing, the error names it."""
        if lacking := " and ".join(f"`{flag.name}=`" for flag in cls.FLAGS if flag.name not in arguments):
            proposed = propose_bound()
            raise SpecError(
                f"no protection was chosen. Give {lacking}, for example `prior='{proposed.prior}'` "
                f"`posterior='{proposed.posterior}'`.",
                code="no-protection",
                fields={"lacking": lacking},
            )
        return cls(**arguments)

    @classmethod
    def from_odds(cls, amplification: Fraction) -> Self:
        """A bound on odds alone. From a negligible prior, they may rise by exactly this factor."""
        posterior_odds = amplification * SMALLEST_PRIOR
        return cls(SMALLEST_PRIOR, posterior_odds / (posterior_odds + 1 - SMALLEST_PRIOR))

    @property
    def is_odds_only(self) -> bool:
        """Whether the bound limits only odds. Its prior and posterior then say no more than its amplification."""
        return self.prior == SMALLEST_PRIOR

    @property
    def belief_bound(self) -> BreachBound | None:
        """The bound itself if a prior and a posterior were requested. None if it limits only odds."""
        return None if self.is_odds_only else self

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Reads the bound from a design. A design without a number of rows per person has one row per person."""
        rows = int(entries.get("rows_per_person", 1))
        if not 1 <= rows <= MOST_ROWS:
            raise SpecError("the number of rows per person is out of range.", code="rows-out-of-range")
        return cls(entries["prior"], entries["posterior"], rows)

    @property
    def person_amplification(self) -> Fraction:
        """The largest factor by which all published values of a person may multiply an attacker's odds. Above 1."""
        return self.posterior * (1 - self.prior) / (self.prior * (1 - self.posterior))

    @property
    def amplification(self) -> Fraction:
        """The largest factor by which one published value may multiply an attacker's odds; exact, above 1."""
        return find_root_below(self.person_amplification, self.rows)

    def share_among_rows(self, rows: int) -> BreachBound:
        """The same bound, shared among this number of rows of a person."""
        return BreachBound(self.prior, self.posterior, rows)

    @property
    def bound(self) -> BreachBound:
        """The bound itself."""
        return self

    @property
    def summary(self) -> str:
        """The prior and the posterior, in a few words."""
        return f"{self.prior} to {self.posterior}"

    @property
    def sentence(self) -> str:
        """The bound in plain words."""
        return f"an attacker's confidence of at most {self.prior} may not rise above {self.posterior}."

    def to_json(self) -> Json:
        """Writes the prior and the posterior exactly, and the number of rows per person if that is above 1."""
        row_entry = {"rows_per_person": self.rows} if self.rows > 1 else {}
        return {"prior": str(self.prior), "posterior": str(self.posterior), **row_entry}

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """The posterior, for every value."""
        return (self.posterior,) * len(values)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """The posterior, for shares up to the prior."""
        return self.posterior if share <= self.prior else None


PROPOSED_BOUNDS = (
    (2, ("1/2", "4/5")),
    (3, ("1/3", "2/3")),
    (4, ("1/4", "3/5")),
    (9, ("1/5", "1/2")),
)
"""Pairs of a number of values, and the bound proposed for columns with at most that many values."""
USUAL_BOUND = ("1/10", "1/3")
"""The proposal for more values, or an unknown number of them."""


def propose_bound(domain_size: int | None = None) -> BreachBound:
    """Proposes a first bound for a sensitive column, by its number of values.

    If a column has few values, more than 1/10 of the people have each value, so a prior of 1/10 would cover none.
    """
    numbers = next((numbers for most, numbers in PROPOSED_BOUNDS if domain_size and domain_size <= most), USUAL_BOUND)
    return BreachBound(*numbers)


@dataclass(frozen=True, slots=True)
class BreachBoundPerValue(PrivacySpec):
    """A separate bound for each value. A value without a bound is not protected.

    Source: the fine-grain model, in which a harmless value may be published unchanged more often.
    Notation: rho1i = prior, rho2i = posterior and gamma_i = amplification of the bound of value i.
    """

    FLAGS: ClassVar = (Flag("bounds", "One bound per value: a CSV of value,prior,posterior.", Path, "CSV"),)
    FLAGS_TEXT: ClassVar = "`bounds=`"
    REQUIREMENT_TEXT: ClassVar = "a bound for each value (`spec=BreachBoundPerValue(...)` or `spec=Tolerance(...)`)"

    bounds: Mapping[Value, BreachBound]
    tolerance: Fraction | None = None
    """The factor by which the bounds follow from shares, if they do."""

    def __post_init__(self) -> None:
        if not self.bounds:
            raise SpecError(
                "no value has a bound, so nothing would be protected. Give at least one bound.",
                code="nothing-protected",
            )

    @classmethod
    def from_bound(cls, bound: BreachBound, values: Sequence[Value]) -> BreachBoundPerValue:
        """Gives every value the same bound."""
        return cls(dict.fromkeys(values, bound))

    @classmethod
    def from_bounds(cls, values: Sequence[Value], bounds: Sequence[BreachBound | None]) -> Self | None:
        """The request behind the bounds of a design. None if no value has a requested bound."""
        pairs = zip(values, bounds, strict=True)
        bounds_by_value = {
            value: bound for value, bound in pairs if bound is not None and bound.belief_bound is not None
        }
        return cls(bounds_by_value) if bounds_by_value else None

    @classmethod
    def from_tolerance(cls, histogram: Histogram, tolerance: Exact) -> BreachBoundPerValue:
        """Lets an attacker's confidence in each value rise from the value's share to `tolerance` times the share.

        Shares are rounded down first, and the bounds disclose no more than the rounded shares. A larger share would
        allow a larger amplification, so rounding down makes the bounds stricter. A share that is rounded to zero has
        the smallest amplification, which is the tolerance itself. As in the paper, a value has no bound if `tolerance`
        times its share is 1 or more.
        """
        factor, total = Tolerance(tolerance).factor, histogram.total
        bounds: dict[Value, BreachBound] = {}
        for value, count in zip(histogram.values, histogram.counts, strict=True):
            prior = round_share_down(count, total)
            if factor * prior < 1:
                bounds[value] = BreachBound(prior, factor * prior) if prior else BreachBound.from_odds(factor)
        if not bounds:
            raise SpecError(
                f"with a tolerance of {factor} an attacker may become certain of every value, so nothing would be "
                "protected. Choose a smaller tolerance.",
                code="nothing-protected",
                fields={"tolerance": str(factor)},
            )
        return cls(bounds, factor)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a CSV with the columns value, prior and posterior. An empty value stands for the missing value."""
        bounds = {}
        for value, row in read_value_entries(path, ("prior", "posterior")).items():
            try:
                bounds[value] = BreachBound(row["prior"].strip(), row["posterior"].strip())
            except SpecError as error:
                raise SpecError(
                    f"the bound of {display(value)!r} in {str(path)!r} is wrong: {error}",
                    code="wrong-bound",
                    fields={"file": str(path)},
                ) from error
        return cls(bounds)

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Reads the bounds from a file."""
        return cls.read(arguments["bounds"])

    @property
    def summary(self) -> str:
        """The bounds, in a few words."""
        summaries = {bound.summary for bound in self.bounds.values()}
        return f"each {summaries.pop()}" if len(summaries) == 1 else f"{len(self.bounds)} values: a bound each"

    @property
    def sentence(self) -> str:
        """The bounds in plain words."""
        return f"an attacker's confidence in each of {len(self.bounds)} values is limited by the value's own bound."

    def to_json(self) -> Json:
        """Writes each bound by its value."""
        return {"bounds": {display(value): f"{bound.prior} {bound.posterior}" for value, bound in self.bounds.items()}}

    def resolve(self, histogram: Histogram) -> BreachBoundPerValue:
        """The request itself, if the table has every value that has a bound."""
        self.list_bounds(histogram.values)
        return self

    def adapt_to(self, kind: type[AdaptedSpec]) -> AdaptedSpec | None:
        """The strictest of the bounds, which has the smallest amplification, as one bound for all values.

        If the bounds follow from shares, the tolerance itself is used as the amplification. No bound is stricter, and
        the tolerance discloses nothing about shares.
        """
        if isinstance(self, kind):
            return self
        if self.tolerance is None:
            strictest = min(self.bounds.values(), key=lambda bound: bound.amplification)
        else:
            strictest = BreachBound.from_odds(self.tolerance)
        return strictest if isinstance(strictest, kind) else None

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The strictest of the bounds. If they follow from shares, only the odds are bounded alike for all values."""
        return None if self.tolerance is not None else self.adapt_to(BreachBound)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """Refuses, because bounds for combinations do not bound the single columns."""
        raise InfeasibleError(
            "bounds for combinations do not protect the single columns. Use a tolerance (`spec=Tolerance(...)`), or "
            "one bound (`spec=BreachBound(...)`), which covers every statement.",
            code="columns-not-protected",
            fields={"requirement": type(self).__name__},
        )

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """The posterior of each value's bound."""
        return [Fraction(1) if bound is None else bound.posterior for bound in self.list_bounds(values)]

    def list_bounds(self, values: Sequence[Value]) -> tuple[BreachBound | None, ...]:
        """The bound of each value of a domain. A number or a date in the file may be written as text."""
        return match_to_domain(self.bounds, values, "bound")


@dataclass(frozen=True, slots=True, init=False)
class Tolerance(PrivacySpec):
    """Bounds from shares of the table. Confidence in a value may rise from its share to `factor` times its share.

    Notation: theta = factor.
    """

    FLAGS: ClassVar = (
        Flag("tolerance", "Confidence in a value may rise to R times the value's share of records.", metavar="R"),
    )
    FLAGS_TEXT: ClassVar = "`tolerance=`"
    REQUIREMENT_TEXT: ClassVar = BreachBoundPerValue.REQUIREMENT_TEXT
    RESOLVED_KIND: ClassVar = BreachBoundPerValue

    factor: Fraction = field()

    def __init__(self, factor: Exact) -> None:
        object.__setattr__(self, "factor", parse_exact(factor, "the tolerance"))
        if self.factor <= 1:
            raise SpecError(
                f"the tolerance is {self.factor} and must be above 1. The tolerance is the factor by which an "
                "attacker's confidence may rise.",
                code="tolerance-out-of-range",
                fields={"given": str(self.factor)},
            )

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Makes the request from its factor."""
        return cls(arguments["tolerance"])

    @property
    def summary(self) -> str:
        """The factor, in a few words."""
        return f"tolerance {self.factor}"

    @property
    def sentence(self) -> str:
        """The tolerance in plain words."""
        share_text = f"from the value's share to at most {self.factor} times the share"
        return f"an attacker's confidence in a value may rise {share_text}."

    def to_json(self) -> Json:
        """Writes the factor exactly."""
        return {"tolerance": str(self.factor)}

    def resolve(self, histogram: Histogram) -> BreachBoundPerValue:
        """A bound for each value, from rounded shares."""
        return BreachBoundPerValue.from_tolerance(histogram, self.factor)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """The same rule for the share of several values together. Bounds that grow with the share hold for sums."""
        return self.factor * share if self.factor * share < 1 else None
