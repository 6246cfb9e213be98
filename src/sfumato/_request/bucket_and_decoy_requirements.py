"""Requests about groups of records.

Such requests limit the share of each value in a bucket, or ask for decoys for each record.

Their guarantees hold against an attacker who knows only which group a record is in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import ClassVar, Self

from sfumato._core.cell_values import Value, display
from sfumato._core.exact_numbers import Exact, parse_exact, round_up_two_digits
from sfumato._core.json_types import Json
from sfumato._core.option_fields import Flag, OptionValues
from sfumato._core.small_text_files import match_to_domain, read_value_entries
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.histogram import Histogram, compute_margins
from sfumato.errors import InfeasibleError, SpecError


@dataclass(frozen=True, slots=True)
class ShareCap(PrivacySpec):
    """Caps the share of each value in any bucket. This share is an attacker's confidence from the bucket alone.

    Source: F'-privacy, in which each value has a cap of its own; the cap of an unnamed value is 1.
    Notation: f'_i = cap of value i.
    """

    FLAGS: ClassVar = (
        Flag("caps", "Caps on shares in buckets: a CSV of value,cap; for other values `cap_factor=`.", Path, "CSV"),
    )
    FLAGS_TEXT: ClassVar = "`caps=`"
    REQUIREMENT_TEXT: ClassVar = "caps (`spec=ShareCap(...)`, or `spec=LinearCap(...)`)"

    caps: Mapping[Value, Fraction]

    def __post_init__(self) -> None:
        if not self.caps:
            raise SpecError(
                "no value has a cap, so nothing would be protected. Give at least one cap.", code="nothing-protected"
            )
        for value, cap in self.caps.items():
            if not 0 < cap <= 1:
                raise SpecError(
                    f"the cap of {display(value)!r} is {cap} and must be above 0 and at most 1.",
                    code="cap-out-of-range",
                    fields={"given": str(cap)},
                )

    @classmethod
    def from_posterior(cls, bound: BreachBound, values: Sequence[Value]) -> Self:
        """Uses the posterior of a bound as the cap of every value."""
        return cls(dict.fromkeys(values, bound.posterior))

    @classmethod
    def from_shares(cls, histogram: Histogram, factor: Exact, offset: Exact = 0) -> ShareCap:
        """Gives each value the cap min(1, factor * share + offset)."""
        cap = LinearCap(factor, offset)
        pairs = zip(histogram.values, histogram.shares, strict=True)
        # A value that nobody has is in no bucket, so its cap has no effect; it must still be a valid cap.
        smallest = Fraction(1, 10**9)
        return cls({value: max(min(Fraction(1), cap.factor * share + cap.offset), smallest) for value, share in pairs})

    @classmethod
    def read(cls, path: Path) -> Self:
        """Reads a CSV with the columns value and cap. An empty value stands for the missing value."""
        rows = read_value_entries(path, ("cap",))
        return cls({value: parse_exact(row["cap"].strip(), "a cap") for value, row in rows.items()})

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Reads the caps from a file."""
        return cls.read(arguments["caps"])

    @property
    def summary(self) -> str:
        """The range of the caps, in a few words."""
        low, high = min(self.caps.values()), max(self.caps.values())
        return f"cap {low}" if low == high else f"caps {low} to {high}"

    @property
    def sentence(self) -> str:
        """The caps in plain words."""
        return f"in any bucket, the share of each of {len(self.caps)} values may be at most its own cap."

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The bound from the largest share of a value, as prior, to the smallest limit of a value, as posterior."""
        return make_bound_from_limits(histogram, self.list_limits(histogram.values))

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """The cap of each value."""
        return self.list_caps(values)

    def to_json(self) -> Json:
        """Writes each cap by its value."""
        return {"caps": {display(value): str(cap) for value, cap in self.caps.items()}}

    def list_caps(self, values: Sequence[Value]) -> tuple[Fraction, ...]:
        """The cap of each value of a domain."""
        return tuple(Fraction(1) if cap is None else cap for cap in match_to_domain(self.caps, values, "cap"))


@dataclass(frozen=True, slots=True, init=False)
class LinearCap(PrivacySpec):
    """Caps from the table's own shares: `factor` times the share plus `offset`, at most 1.

    A value in `named` has its own cap there instead.
    """

    FLAGS: ClassVar = (
        Flag("cap_factor", "Caps from shares: R times the share, plus `cap_offset=`, at most 1.", metavar="R"),
        Flag("cap_offset", "See `cap_factor=`; 0 if not given.", metavar="R"),
    )
    COMPANION_FLAGS: ClassVar = ShareCap.FLAGS
    FLAGS_TEXT: ClassVar = "`cap_factor=` and `cap_offset=`"
    REQUIREMENT_TEXT: ClassVar = ShareCap.REQUIREMENT_TEXT
    RESOLVED_KIND: ClassVar = ShareCap

    factor: Fraction
    offset: Fraction
    named: Mapping[Value, Fraction]

    def __init__(self, factor: Exact, offset: Exact = 0, named: ShareCap | None = None) -> None:
        object.__setattr__(self, "factor", parse_exact(factor, "the cap factor"))
        object.__setattr__(self, "offset", parse_exact(offset, "the cap offset"))
        object.__setattr__(self, "named", {} if named is None else named.caps)
        if self.factor < 0 or self.offset < 0 or self.factor + self.offset == 0:
            raise SpecError(
                f"the cap factor {self.factor} and offset {self.offset} must not be negative, nor both 0. A cap is "
                "factor * share + offset.",
                code="cap-out-of-range",
                fields={"factor": str(self.factor), "offset": str(self.offset)},
            )

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """Makes the request from the factor and the offset (0 if not given), and from a file of caps."""
        named = ShareCap.from_flags(arguments) if "caps" in arguments else None
        return cls(arguments.get("cap_factor", "0"), arguments.get("cap_offset", "0"), named)

    @property
    def summary(self) -> str:
        """The factor and the offset, in a few words."""
        return f"caps of {self.factor} shares + {self.offset}"

    @property
    def sentence(self) -> str:
        """The caps in plain words."""
        others = f", but for each of {len(self.named)} values at most its own cap" if self.named else ""
        return (
            f"in any bucket, the share of a value may be at most {self.factor} times its share of the table plus "
            f"{self.offset}{others}."
        )

    def to_json(self) -> Json:
        """Writes both numbers exactly, and each value's own cap."""
        named = {"caps": {display(value): str(cap) for value, cap in self.named.items()}} if self.named else {}
        return {"cap_factor": str(self.factor), "cap_offset": str(self.offset), **named}

    def resolve(self, histogram: Histogram) -> ShareCap:
        """The cap of each value, from the table's shares."""
        caps = dict(ShareCap.from_shares(histogram, self.factor, self.offset).caps)
        own_caps = zip(histogram.values, match_to_domain(self.named, histogram.values, "cap"), strict=True)
        return ShareCap(caps | {value: cap for value, cap in own_caps if cap is not None})


@dataclass(frozen=True, slots=True)
class Diversity(PrivacySpec):
    """Requires at least `ell` different values in every bucket, each at most once."""

    FLAGS: ClassVar = (Flag("diversity", "Buckets of at least N records, all of different values.", int, "N"),)
    FLAGS_TEXT: ClassVar = "`diversity=`"
    REQUIREMENT_TEXT: ClassVar = "a diversity (`spec=Diversity(...)`)"

    ell: int

    def __post_init__(self) -> None:
        if self.ell < 2:  # noqa: PLR2004
            raise SpecError(
                f"the diversity is {self.ell} and must be at least 2. A bucket with one value discloses it.",
                code="diversity-out-of-range",
                fields={"given": self.ell},
            )

    @classmethod
    def from_posterior(cls, bound: BreachBound, values: Sequence[Value]) -> Self:
        """The smallest diversity that keeps confidence in every value within the posterior of a bound."""
        return cls(math.ceil(1 / bound.posterior))

    @classmethod
    def from_flags(cls, arguments: OptionValues) -> Self:
        """The smallest number of different values, in a few words."""
        return cls(arguments["diversity"])

    @property
    def summary(self) -> str:
        """The diversity, in a few words."""
        return f"diversity {self.ell}"

    @property
    def sentence(self) -> str:
        """The diversity in plain words."""
        return f"every bucket holds at least {self.ell} different values, each at most once."

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The bound from the largest share of a value, as prior, to the smallest limit of a value, as posterior."""
        return make_bound_from_limits(histogram, self.list_limits(histogram.values))

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """One divided by the diversity, for every value."""
        return (Fraction(1, self.ell),) * len(values)

    def to_json(self) -> Json:
        """Writes the number of different values."""
        return {"diversity": self.ell}


@dataclass(frozen=True, slots=True)
class DecoyGroups(PrivacySpec):
    """Requires that every record publishes a value drawn from a group of at least `group_size` different values."""

    FLAGS: ClassVar = (Flag("group_size", "Publish a value drawn from N records' different values.", int, "N"),)
    FLAGS_TEXT: ClassVar = "`group_size=`"
    REQUIREMENT_TEXT: ClassVar = "a group size (`spec=DecoyGroups(...)`)"
    IS_COLUMNWISE: ClassVar = True

    group_size: int

    def __post_init__(self) -> None:
        if self.group_size < 2:  # noqa: PLR2004
            raise SpecError(
                f"the group size is {self.group_size} and must be at least 2. A group of one record has no decoys.",
                code="group-size-out-of-range",
                fields={"given": self.group_size},
            )

    @classmethod
    def from_posterior(cls, bound: BreachBound, values: Sequence[Value]) -> Self:
        """The smallest group size that keeps confidence in every value within the posterior of a bound."""
        return cls(math.ceil(1 / bound.posterior))

    @property
    def summary(self) -> str:
        """The group size, in a few words."""
        return f"groups of {self.group_size}"

    @property
    def sentence(self) -> str:
        """The group size in plain words."""
        return f"every record publishes a value drawn from {self.group_size} records with different values."

    def find_common_bound(self, histogram: Histogram) -> BreachBound | None:
        """The bound from the largest share of a value, as prior, to the smallest limit of a value, as posterior."""
        return make_bound_from_limits(histogram, self.list_limits(histogram.values))

    def list_limits(self, values: Sequence[Value]) -> Sequence[Fraction]:
        """One divided by the group size, for every value."""
        return (Fraction(1, self.group_size),) * len(values)

    def to_json(self) -> Json:
        """Writes the size of the groups."""
        return {"group_size": self.group_size}

    def find_part_limit(self, share: Fraction) -> Fraction | None:
        """Refuses, because decoys for combinations do not protect the single columns."""
        raise InfeasibleError(
            "decoys for combinations do not protect the single columns. Name each column with `sensitive=` instead; "
            "each is then protected on its own.",
            code="columns-not-protected",
            fields={"requirement": type(self).__name__},
        )


def make_bound_from_limits(histogram: Histogram, limits: Sequence[Fraction]) -> BreachBound | None:
    """The bound that is at least as strict as the limits, for an attacker who knows the frequencies of the values.

    Its prior is the largest share, rounded up to two digits. Its posterior is the smallest limit of a value that
    occurs.
    """
    counts = [histogram.counts]
    if histogram.axes:
        counts = [tuple(margin.tolist()) for margin in compute_margins(histogram.counts, histogram.axes)]
    share = max(Fraction(most, histogram.total) for margin in counts for most in margin)
    posterior = min(limit for limit, count in zip(limits, histogram.counts, strict=True) if count)
    prior = min(round_up_two_digits(share), Fraction(99, 100))
    return BreachBound(prior, posterior) if share <= prior < posterior < 1 else None
