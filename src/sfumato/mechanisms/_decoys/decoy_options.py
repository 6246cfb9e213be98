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
    """The options of decoys: the method for groups, the ratio limit, and the treatment of rare values."""

    groups: GroupCreation = GroupCreation.MIXED
    """The method that makes the groups. Only reproductions of papers set another method."""
    ratio_limit: Exact | None = option(
        None, "ratio_limit", "Values whose likelihood ratio is above R are rare.", metavar="R"
    )
    rare: RareTreatment = option(RareTreatment.KEEP, "rare", "Keep rare values, merge them, or leave them blank.")

    def __post_init__(self) -> None:
        limit = None if self.ratio_limit is None else parse_exact(self.ratio_limit, "the ratio limit")
        object.__setattr__(self, "ratio_limit", limit)  # an exact number in any notation
        if limit is not None and limit <= 1:
            raise SpecError(
                f"the ratio limit is {limit}, but it must be above 1, because a ratio of 1 discloses nothing.",
                code="ratio-limit-out-of-range",
                fields={"given": str(limit)},
            )
        if limit is None and self.rare is not RareTreatment.KEEP:
            raise SpecError(
                "the likelihood ratio above which a value is rare is missing; give it, for example `ratio_limit=100`.",
                code="no-ratio-limit",
            )

    @property
    def limit(self) -> Fraction | None:
        """The likelihood ratio above which a value is rare, exactly."""
        return None if self.ratio_limit is None else Fraction(self.ratio_limit)


def merge_rare_values(columns: ColumnCounts, spec: DecoyGroups, options: Options, /) -> dict[str, MergedValues]:
    """Lists the values of each column to merge, so that no value, and not the merged value, is above the ratio limit.

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
            # Values without records are merged too, so that a merged value does not disclose that it occurs.
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
