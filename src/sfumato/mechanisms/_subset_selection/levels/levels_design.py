"""The published design of a plan with several levels, and its reader."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Floats, Mask
from sfumato._core.cell_values import Value, values_from_json, values_to_json
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._records.set_records import convert_bits_to_arrow
from sfumato._request.belief_bounds import BreachBound
from sfumato.mechanisms._randomized_response.estimation_weights import SetWeights, Weighing
from sfumato.mechanisms._subset_selection.levels.level_shares import Tier, build_tiers, group_by_kind
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection
from sfumato.mechanisms.capabilities import WeightColumns
from sfumato.mechanisms.estimator import Weights
from sfumato.mechanisms.mechanism import make_design_error

# Weights of the records of several levels, for counts and sums of a table and their variances.
#
# Notation: l = the level of a record, w = the share of its level, λ = the weight of that level's information about a
# tier, κ = λ/w; M_t = the mean of theta over a value's group of tier t. A record of level l adds, to the sum of theta,
# the mean of all theta and the sum of z s over the groups of its level. Here z is the unbiased estimate of the true
# group's indicator, and s = sum of κ (M_t - M_t+1) over the tiers from l on. Over all levels s has the mean theta less
# the mean of all theta, because the sum of κ w is 1 at every tier.

MOST_BITS = 1 << 30
"""The largest number of bits of all weights, over pairs of values, levels and degrees of kinship.

Weights with more bits are not written.
"""


@dataclass(frozen=True, eq=False, slots=True)
class LevelWeights(Weighing):
    """Records that publish their level and a random set of its groups.

    A record's entries are, for each level in turn, its groups and an indicator of the level.
    """

    tiers: Sequence[Tier]
    """The groups of each level, and the whole domain."""
    sets: Sequence[SetWeights]
    """The sets of each level."""
    shares: Sequence[float]
    contrast_weights: Sequence[Sequence[float]]

    def expand_to_entries(self, theta: Floats) -> Floats:
        """Returns theta: every index of the domain is an entry."""
        return theta

    def compute_factor(self, tier: int, level: int) -> float:
        """The factor of a level's records in the estimates of a tier; 0 if the level has no records."""
        return self.contrast_weights[tier][level] / self.shares[level] if self.shares[level] else 0.0

    def compute_scores(self, theta: Floats) -> list[Floats]:
        """For each level, the s of its groups. At the last tier nothing is subtracted, so s is 0 where theta is 0."""
        means = [tier.compute_means(theta) for tier in self.tiers[:-1]]
        level_scores = []
        for level, groups in enumerate(self.tiers[:-1]):
            score = np.zeros_like(means[0])
            for tier in range(level, len(means)):
                above = means[tier + 1] if tier + 1 < len(means) else 0.0
                score = score + self.compute_factor(tier, level) * (means[tier] - above)
            level_scores.append(score[..., groups.first_values])
        return level_scores

    def weigh_scores(self, scores: Floats) -> Weights:
        """The weight of a set: (the sum of s in it - b times that of all) / (a - b), plus the last tier's mean.

        The total is 1 for a theta of ones, at every level.
        """
        middle, entry_weights = scores.mean(axis=-1), []
        for level, (score, sets) in enumerate(zip(self.compute_scores(scores), self.sets, strict=True)):
            gain = sets.hold - sets.other
            constant = middle * (1 - self.compute_factor(-1, level))
            constant = constant - sets.other * score.sum(axis=-1) / gain
            entry_weights += [score / gain, constant[..., np.newaxis]]
        return Weights(np.concatenate(entry_weights, axis=-1), np.zeros_like(middle))

    def compute_variances(self, theta: Floats) -> Floats:
        """The variance of a set's contribution by level, and the difference of its mean from the true value's theta."""
        centred = theta - theta.mean(axis=-1, keepdims=True)
        variances = np.zeros_like(centred)
        for level, (score, sets) in enumerate(zip(self.compute_scores(centred), self.sets, strict=True)):
            places = self.tiers[level].places
            off = score[..., places] - centred
            variances = variances + self.shares[level] * (sets.compute_variances(score)[..., places] + off**2)
        return np.asarray(variances)

    def bound_scores(self, scores: Floats) -> tuple[Weights, Weights]:
        """The smallest and the largest of all scores."""
        nothing = np.zeros((*scores.shape[:-1], sum(level_sets.size + 1 for level_sets in self.sets)))
        return Weights(nothing, scores.min(axis=-1)), Weights(nothing, scores.max(axis=-1))


def make_sibling_weights(weighing: LevelWeights, names: Sequence[str]) -> WeightColumns | None:
    """The columns of weights.parquet, with a line for each level and value; None if the domain needs too many bits.

    A record adds `if_equal` or `otherwise`. It also adds `per_sibling` for each further group in its set that shares
    the group of the level above with the value. `siblings` marks the first value of each such group. `per_sibling_2`
    and `siblings_2` are for groups that share only the group of the next higher level, and so on.
    """
    tiers, size = weighing.tiers, len(weighing.tiers[0].places)
    if size**2 * len(names) * (len(names) - 1) > MOST_BITS:
        return None
    by_kind = [
        (first, alike, weighing.weigh_values((np.arange(size) == first).astype(np.float64)).entry_weights)
        for first, alike in group_by_kind(tiers, 0)
    ]
    endings = ["", *(f"_{degree}" for degree in range(2, len(names)))]
    numbers = ["if_equal", "otherwise", *(f"per_sibling{ending}" for ending in endings)]
    weight_columns = {name: np.zeros((len(names), size)) for name in numbers}
    marks = {f"siblings{ending}": np.zeros((len(names), size, -(-size // 8)), dtype=np.uint8) for ending in endings}
    start = 0
    for level, own in enumerate(tiers[:-1]):
        for first, alike, entry_weights in by_kind:
            *own_weights, constant = entry_weights[start : start + own.group_count + 1].tolist()
            weight_columns["if_equal"][level, alike] = constant + own_weights[own.places[first]]
            weight_columns["otherwise"][level, alike] = constant
            for degree, ending in enumerate(endings, 1):
                kin = _mark_kin(tiers, level, degree, first)
                weight_columns[f"per_sibling{ending}"][level, alike] = (
                    own_weights[own.places[kin.argmax()]] if kin.any() else 0.0
                )
        for degree, ending in enumerate(endings[: len(names) - 1 - level], 1):
            marks[f"siblings{ending}"][level] = [
                np.packbits(_mark_kin(tiers, level, degree, value)) for value in range(size)
            ]
        start += own.group_count + 1
    return {
        "level": np.repeat(names, size).tolist(),
        "place": np.tile(np.arange(size, dtype=np.int32), len(names)),
        "value": np.tile(np.arange(size), len(names)),
        **{name: mark.ravel() for name, mark in weight_columns.items()},
        **{name: convert_bits_to_arrow(mark.reshape(len(names) * size, -1)) for name, mark in marks.items()},
    }


def _mark_kin(tiers: Sequence[Tier], level: int, degree: int, value: int) -> Mask:
    """Marks the first value of each group whose lowest common group with a value is this number of tiers higher."""
    is_kin = np.zeros(len(tiers[0].places), dtype=np.bool_)
    if level + degree < len(tiers) - 1:
        is_kin[tiers[level].first_values] = True
        near, far = tiers[level + degree - 1].places, tiers[level + degree].places
        is_kin &= (far == far[value]) & (near != near[value])
    return is_kin


# ---------------------------------------------------------------------------------------------------------------------

MOST_LEVELS = 8
"""The largest number of levels. Work grows with its square, and a hostile release must not cause endless work."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the hierarchy, its share of the records, and the sets of its groups."""

    name: str
    share: Fraction
    groups: tuple[int, ...]
    """The index of each value's group."""
    selection: SubsetSelection


@dataclass(frozen=True)
class Design:
    """The published part of a plan: the domain, its levels (the finest first), and the bound."""

    domain: tuple[Value, ...]
    levels: tuple[Level, ...]
    contrast_weights: tuple[tuple[Fraction, ...], ...]
    """For each level, the weights in the estimates of its groups: one for the records of each level up to this one."""
    bound: BreachBound

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The groups of each level, and the whole domain."""
        return build_tiers([level.groups for level in self.levels])

    @cached_property
    def weighing(self) -> LevelWeights:
        """The weights of records."""
        return LevelWeights(
            self.tiers,
            [level.selection.weighing for level in self.levels],
            [float(level.share) for level in self.levels],
            [[float(say) for say in line] for line in self.contrast_weights],
        )

    def to_json(self) -> Json:
        """Writes the design as JSON; rationals as strings. The groups of the first level are the values."""
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
    """Reads a design back, given the Data Package types of its columns."""
    domain, bound = values_from_json(design_json["domain"], types), BreachBound.from_json(design_json)
    levels, lines = [], []
    for number, level_entry in enumerate(design_json["levels"]):
        groups = tuple(map(int, level_entry["groups"])) if number else tuple(range(len(domain)))
        hold = parse_exact(level_entry["hold_probability"], "the probability that a set holds the true group")
        selection = SubsetSelection.read(len(set(groups)), int(level_entry["subset_size"]), hold, bound)
        levels.append(Level(str(level_entry["name"]), parse_exact(level_entry["share"], "a share"), groups, selection))
        lines.append(tuple(parse_exact(say, "the weight of a level") for say in level_entry["says"]))
    if not levels or len(set(domain)) != len(domain) or len({level.name for level in levels}) != len(levels):
        raise make_design_error("the design's levels or domain are out of range.", "levels")
    if any(level.share <= 0 for level in levels) or sum(level.share for level in levels) != 1:
        raise make_design_error("the shares of the design's levels do not add up to 1.", "shares")
    if any(len(line) != number or min(line) < 0 or sum(line) != 1 for number, line in enumerate(lines, 1)):
        raise make_design_error("the design lacks the weights that combine the counts of its levels.", "weights")
    for level in levels:
        if len(level.groups) != len(domain) or set(level.groups) != set(range(level.selection.size)):
            raise make_design_error("the groups of the design do not match its domain.", "groups")
    if len(levels) > MOST_LEVELS:
        raise make_design_error("the design has more levels than any valid release.", "levels")
    for below, above in itertools.pairwise(levels):
        if len(set(zip(below.groups, above.groups, strict=True))) != below.selection.size:
            raise make_design_error("a group of the design lies in two groups of the level above.", "groups")
    return Design(domain, tuple(levels), tuple(lines), bound)
