"""The options for decoys: the method that makes groups, and the treatment of values too rare to be protected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from sfumato._core.cell_values import Value
from sfumato._core.exact_numbers import Exact, parse_exact
from sfumato._core.option_fields import option
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.schema import MergedValues
from sfumato.errors import SpecError
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from sfumato.mechanisms.capabilities import ColumnCounts

MERGED_LABEL = "(rare)"


class RareTreatment(StrEnum):
    """The treatment of values above the ratio limit."""

    KEEP = "keep"
    MERGE = "merge"
    SUPPRESS = "suppress"


@dataclass(frozen=True, slots=True)
class Options:
    """The options: the method for groups, the ratio from which a value is rare, and the treatment of rare values."""

    groups: GroupCreation = GroupCreation.MIXED
    """Only reproductions set another method."""
    ratio_limit: Exact | None = option(
        None, "ratio_limit", "Values whose likelihood ratio is above R are rare.", metavar="R"
    )
    rare: RareTreatment = option(RareTreatment.KEEP, "rare", "Keep rare values, merge them, or leave them blank.")

    def __post_init__(self) -> None:
        limit = None if self.ratio_limit is None else parse_exact(self.ratio_limit, "the ratio limit")
        object.__setattr__(self, "ratio_limit", limit)  # exact, in any notation
        if limit is not None and limit <= 1:
            raise SpecError(
                f"the ratio limit is {limit} and must be above 1: a ratio of 1 discloses nothing.",
                code="ratio-limit-out-of-range",
                fields={"given": str(limit)},
            )
        if limit is None and self.rare is not RareTreatment.KEEP:
            raise SpecError(
                "rare values are treated only above a likelihood ratio; give one, such as `ratio_limit=100`.",
                code="no-ratio-limit",
            )

    @property
    def limit(self) -> Fraction | None:
        """The likelihood ratio above which a value is rare, exactly."""
        return None if self.ratio_limit is None else Fraction(self.ratio_limit)


def merge_rare_values(columns: ColumnCounts, spec: DecoyGroups, options: Options, /) -> dict[str, MergedValues]:
    """For each column the values to merge: those above the ratio limit, and more until the merged value is below it.

    A count f has a ratio of at most L if it is at least N / (1 + (gamma - 1) L).
    """
    limit = options.limit
    if limit is None or options.rare is RareTreatment.KEEP:
        return {}
    merged_by_column = {}
    for name, (values, counts) in columns.items():
        least_count = Fraction(sum(counts)) / (1 + (spec.group_size - 1) * limit)
        sorted_counts = sorted((count, place) for place, count in enumerate(counts) if count)
        rare_places: list[int] = []
        merged_records = 0
        for count, place in sorted_counts:
            if count >= least_count and (not rare_places or merged_records >= least_count):
                break
            rare_places.append(place)
            merged_records += count
        if rare_places:
            # Values without records are included, because a merged value must not disclose that it occurs.
            rare_places += [place for place, count in enumerate(counts) if not count]
            label = None if options.rare is RareTreatment.SUPPRESS else _make_label(values)
            merged_by_column[name] = MergedValues(frozenset(values[place] for place in rare_places), label)
    return merged_by_column


def _make_label(values: Sequence[Value]) -> str:
    """Makes a label that no value has."""
    label = MERGED_LABEL
    while label in values:
        label += "_"
    return label
