"""A request for decoys, stated by the errors of counts. Small counts should be unreliable, large counts accurate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from sfumato._core.exact_numbers import Exact, parse_exact
from sfumato._core.json_types import Json
from sfumato._core.option_fields import Flag, OptionValues
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.decoy_count_errors import SMALLEST_GROUP, compute_error_probability, find_accurate_count
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, SpecError

LARGEST_GROUP = 100
"""In groups larger than this, the chances of published counts hardly change."""
LARGEST_SMALL = 20
"""The largest small count: counts are summed one by one up to it."""


@dataclass(frozen=True, slots=True, init=False)
class CountThresholds(PrivacySpec):
    """Asks for the smallest groups that make small published counts unreliable and large published counts accurate.

    A published count is off if its error exceeds a share of the true count. The thresholds concern only the published
    count of a value in the whole table. For a person, only the guarantee of groups follows from them.

    Source: SPLU (small privacy, large utility), with its Lemma 1 corrected.
    Notation: ε = relative_error, α = small_count, T_p = small_chance, T_f = large_count, T_E = large_chance.
    """

    FLAGS: ClassVar = (
        Flag(
            "off_by",
            "Find the group size from thresholds. A count is off if its error exceeds R times the count.",
            metavar="R",
        ),
        Flag(
            "small_count",
            "Counts up to N must be off (see `off_by=`) with a chance of at least `small_chance=`.",
            int,
            "N",
        ),
        Flag("small_chance", "See `small_count=`.", metavar="R"),
        Flag(
            "large_count",
            "Counts of at least N must be off (see `off_by=`) with a chance of at most `large_chance=`.",
            int,
            "N",
        ),
        Flag("large_chance", "See `large_count=`.", metavar="R"),
    )
    FLAGS_TEXT: ClassVar = "`off_by=` with `small_count=` and `small_chance=`, and `large_count=` with `large_chance=`"
    REQUIREMENT_TEXT: ClassVar = "a group size (`spec=DecoyGroups(...)`, or thresholds with `off_by=`)"
    RESOLVED_KIND: ClassVar = DecoyGroups

    relative_error: Fraction
    small_count: int
    small_chance: Fraction
    large_count: int | None
    large_chance: Fraction | None

    def __init__(
        self,
        relative_error: Exact,
        small_count: int,
        small_chance: Exact,
        large_count: int | None = None,
        large_chance: Exact | None = None,
    ) -> None:
        chances = {"small_chance": small_chance, "large_chance": large_chance}
        for name, chance in chances.items():
            exact_chance = None if chance is None else parse_exact(chance, "a chance")
            if exact_chance is not None and not 0 < exact_chance < 1:
                raise SpecError(
                    f"the chance {exact_chance} must be between 0 and 1, such as 1/20.",
                    code="chance-out-of-range",
                    fields={"given": str(exact_chance)},
                )
            object.__setattr__(self, name, exact_chance)
        object.__setattr__(self, "relative_error", parse_exact(relative_error, "the error"))
        object.__setattr__(self, "small_count", small_count)
        object.__setattr__(self, "large_count", large_count)
        if self.relative_error <= 0:
            raise SpecError(
                f"the error is {self.relative_error} and must be above 0. The error is a share of the count, such as "
                "3/10.",
                code="error-out-of-range",
                fields={"given": str(self.relative_error)},
            )
        if not 1 <= small_count <= LARGEST_SMALL:
            raise SpecError(
                f"the small count is {small_count} and must be from 1 to {LARGEST_SMALL}.",
                code="count-out-of-range",
                fields={"argument": "small_count", "given": small_count, "largest": LARGEST_SMALL},
            )
        if (large_count is None) != (large_chance is None):
            raise SpecError(
                "large counts need both `large_count=` and `large_chance=`. Give both or neither.",
                code="incomplete-thresholds",
                fields={"lacking": "`large_count=`" if large_count is None else "`large_chance=`"},
            )
        if large_count is not None and large_count <= small_count:
            raise SpecError(
                f"the large count {large_count} must be above the small count {small_count}.",
                code="large-count-not-above-small",
                fields={"given": large_count, "small_count": small_count},
            )

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Makes the request from all thresholds. If a threshold is missing, the error names it."""
        needed = cls.FLAGS[:3]
        if lacking := " and ".join(f"`{flag.name}=`" for flag in needed if flag.name not in arguments):
            raise SpecError(
                f"a group size from thresholds also needs {lacking}, for example `off_by='3/10'` `small_count=5` "
                "`small_chance='2/5'`.",
                code="incomplete-thresholds",
                fields={"lacking": lacking},
            )
        small, large = (
            (arguments["small_count"], arguments["small_chance"]),
            (arguments.get("large_count"), arguments.get("large_chance")),
        )
        return cls(arguments["off_by"], *small, *large)

    @property
    def summary(self) -> str:
        """The thresholds, in a few words."""
        return f"thresholds {self.relative_error}, {self.small_count}, {self.small_chance}"

    @property
    def sentence(self) -> str:
        """The thresholds in plain words."""
        large = ""
        if self.large_count is not None:
            large = f", and counts of {self.large_count:,} or more with a chance of at most {self.large_chance}"
        return (
            f"published counts of up to {self.small_count} are off by more than {self.relative_error} of the count "
            f"with a chance of at least {self.small_chance}{large}."
        )

    def to_json(self) -> Json:
        """Writes all thresholds exactly."""
        entries = {"off_by": str(self.relative_error), "small_count": self.small_count}
        entries["small_chance"] = str(self.small_chance)
        if self.large_count is not None:
            entries |= {"large_count": self.large_count, "large_chance": str(self.large_chance)}
        return entries

    def resolve(self, histogram: Histogram) -> DecoyGroups:
        """The smallest groups that meet both thresholds.

        The size follows from the thresholds alone, so it discloses nothing.
        """
        return DecoyGroups(self.group_size)

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """Refuses in the same way as other requests for decoys."""
        return DecoyGroups(SMALLEST_GROUP).find_part_limit(share)

    @property
    def group_size(self) -> int:
        """Finds the group size that meets the thresholds.

        Larger groups make both small and large counts wrong more often.
        """
        sizes = range(SMALLEST_GROUP, LARGEST_GROUP + 1)
        smallest_size = next((size for size in sizes if self._compute_small_chance(size) >= self.small_chance), None)
        if smallest_size is None:
            largest_chance = float(self._compute_small_chance(LARGEST_GROUP))
            raise InfeasibleError(
                f"counts of up to {self.small_count} are off by more than {self.relative_error} with a chance of at "
                f"most {largest_chance:.3f} in groups of up to {LARGEST_GROUP}. Choose a smaller chance or "
                "`small_count=`.",
                code="thresholds-unreachable",
                fields={
                    "small_count": self.small_count,
                    "largest_group": LARGEST_GROUP,
                    "chance": round(float(largest_chance), 3),
                },
            )
        if self.large_count is None or self.large_chance is None:
            return smallest_size
        accurate_count = find_accurate_count(smallest_size, self.relative_error, self.large_chance, inclusive=False)
        if accurate_count > self.large_count:
            raise InfeasibleError(
                f"small counts need groups of {smallest_size}. With these, only counts of {accurate_count:,} or more "
                f"are off with a chance of at most {self.large_chance}. Choose a larger `large_count=`, or weaker "
                "thresholds for small counts.",
                code="thresholds-conflict",
                fields={"group_size": smallest_size, "accurate_count": accurate_count},
            )
        return smallest_size

    def _compute_small_chance(self, group_size: int) -> Fraction:
        return compute_error_probability(self.small_count, group_size, self.relative_error)
