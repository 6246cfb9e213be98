"""What is published of a plan with several levels, and how it is read back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from sfumato._core.cell_values import Value, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._request.requirements import BreachBound
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms._subset_selection.levels.level_shares import Tier, build_tiers
from sfumato.mechanisms._subset_selection.levels.level_weights import LevelWeights
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection

MOST_LEVELS = 8
"""Weights grow with the square of their number, and a reader must not be made to compute without end."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the hierarchy, the share of the records that are drawn at it, and their sets of its groups."""

    name: str
    share: Fraction
    groups: tuple[int, ...]
    """The place of each value's group."""
    selection: SubsetSelection


@dataclass(frozen=True)
class Design:
    """What the analyst needs: the domain, its levels, the finest first, and the bound."""

    domain: tuple[Value, ...]
    levels: tuple[Level, ...]
    contrast_weights: tuple[tuple[Fraction, ...], ...]
    """For each level, how much of what is told of its groups comes from the records of each level up to it."""
    bound: BreachBound

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The groups of each level, and the whole domain."""
        return build_tiers([level.groups for level in self.levels])

    @cached_property
    def weighing(self) -> LevelWeights:
        """How records become weights."""
        return LevelWeights(
            self.tiers,
            [level.selection.weighing for level in self.levels],
            [float(level.share) for level in self.levels],
            [[float(say) for say in line] for line in self.contrast_weights],
        )

    def to_json(self) -> Json:
        """Write the design down; rationals as strings. The groups of the first level are the values."""
        return {
            "domain": values_to_json(self.domain),
            "levels": [
                {
                    "name": level.name,
                    "share": str(level.share),
                    **({"groups": list(level.groups)} if number else {}),
                    "subset_size": level.selection.members,
                    "hold_probability": str(level.selection.hold_probability),
                    "says": [str(say) for say in line],
                }
                for number, (level, line) in enumerate(zip(self.levels, self.contrast_weights, strict=True))
            ],
            **self.bound.to_json(),
        }


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Read a design back, given the Data Package types of its columns."""
    domain, bound = values_from_json(design_json["domain"], types), BreachBound.from_json(design_json)
    levels, lines = [], []
    for number, level_entry in enumerate(design_json["levels"]):
        groups = tuple(map(int, level_entry["groups"])) if number else tuple(range(len(domain)))
        hold = parse_exact(level_entry["hold_probability"], "the chance that a set holds the true group")
        selection = SubsetSelection.read(len(set(groups)), int(level_entry["subset_size"]), hold, bound)
        levels.append(Level(str(level_entry["name"]), parse_exact(level_entry["share"], "a share"), groups, selection))
        lines.append(tuple(parse_exact(say, "the say of a level") for say in level_entry["says"]))
    if not levels or len(set(domain)) != len(domain) or len({level.name for level in levels}) != len(levels):
        raise ReleaseFormatError("the design's levels or domain are out of range.")
    if any(level.share <= 0 for level in levels) or sum(level.share for level in levels) != 1:
        raise ReleaseFormatError("the shares of the design's levels are not those of a whole.")
    if any(len(line) != number or min(line) < 0 or sum(line) != 1 for number, line in enumerate(lines, 1)):
        raise ReleaseFormatError("the design does not say how its levels are counted together.")
    for level in levels:
        if len(level.groups) != len(domain) or set(level.groups) != set(range(level.selection.size)):
            raise ReleaseFormatError("the groups of the design are not those of its domain.")
    if len(levels) > MOST_LEVELS:
        raise ReleaseFormatError("the design has more levels than any release.")
    for below, above in itertools.pairwise(levels):
        if len(set(zip(below.groups, above.groups, strict=True))) != below.selection.size:
            raise ReleaseFormatError("a group of the design lies in two groups of the level above.")
    return Design(domain, tuple(levels), tuple(lines), bound)
