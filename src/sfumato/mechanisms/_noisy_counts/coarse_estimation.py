"""Combines the counts of coarse tables with those of crowds and sets.

Everybody in a coarse group is counted twice: in the coarse table, and in crowds or sets. Both estimates of the group
are unbiased. Their weighted mean has the smallest variance if the weights are proportional to the inverse variances.
The weights are computed from public sizes alone. So the mean stays unbiased, and its variance follows from the unbiased
variances of the two parts.

The weight of a group is the same for all values and all questions. Each part of a question uses either a whole group or
nothing of this group. So the estimates of the parts of a question add up.

Notation: V = the predicted variance of a group's count by crowds and sets, W = that by the coarse table;
share = V / (V + W), the weight of the coarse table; theta = a number for each value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato._core.array_types import Floats, Indices
from sfumato._records.crowd_lines import CrowdLines, CrowdTable
from sfumato._records.tally import Tally
from sfumato.mechanisms._noisy_counts.crowd_size import predict_cell_variances
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise

MOST_WEIGHTS = 1 << 22
"""The largest product of lines and groups that are processed together."""


def compute_shares(
    table: CrowdTable, noise: FixedSumNoise, coarse_noise: Sequence[FixedSumNoise], set_variance: float
) -> Floats:
    """The weight of the coarse table for each coarse group; the groups of all tables are numbered together."""
    crowd_variances = predict_cell_variances(noise, table.people)
    shares = [np.zeros(0)]
    for groups, own_noise in zip(table.coarse, coarse_noise, strict=True):
        size = len(groups.table)
        by_crowds = np.bincount(groups.crowd_groups, weights=crowd_variances, minlength=size)
        fine = by_crowds + set_variance * groups.members[:, -1].astype(np.float64)
        shares.append(fine / (fine + predict_cell_variances(own_noise, groups.table.people)))
    return np.concatenate(shares)


@dataclass(frozen=True)
class CoarsePart:
    """The coarse groups of one table in a sum, with their weights and the squared weights."""

    noise: FixedSumNoise
    groups: CrowdLines
    squared: CrowdLines


@dataclass(frozen=True)
class CombinedParts:
    """The parts of a sum over people: crowds, sets, and coarse tables. Their errors are independent."""

    crowds: CrowdLines
    squared_crowds: CrowdLines
    records: Tally
    """The tally of sets whose estimate is added."""
    squared_records: Tally
    """The tally of sets whose variance is added."""
    coarse: Sequence[CoarsePart]


@dataclass(frozen=True)
class CoarseCombiner:
    """Splits sums into parts, with the weights of coarse tables."""

    table: CrowdTable
    shares: Floats
    coarse_noise: Sequence[FixedSumNoise]

    def combine(self, crowds: CrowdLines, squared: CrowdLines, records: Tally, squared_records: Tally) -> CombinedParts:
        """Splits a sum. The squared tallies have the squares of the weights."""
        less_variance = 1 - (1 - self.shares) ** 2  # the share of a group's variance that is no longer added
        factors = self._compute_crowd_factors(crowds)
        squares = factors**2 if squared is crowds else self._compute_crowd_factors(squared) ** 2
        return CombinedParts(
            replace(crowds, weights=crowds.make_weights() * factors),
            replace(squared, weights=squared.make_weights() * squares),
            self._reduce_records(records, crowds, self.shares),
            self._reduce_records(squared_records, squared, less_variance),
            self._list_coarse_parts(crowds, squared),
        )

    def _compute_crowd_factors(self, lines: CrowdLines) -> Floats:
        """A number for each crowd of each line: 1 - share of its group if the line uses the group, and 1 if not."""
        factors, groups = np.ones(len(lines.crowds)), len(self.shares)
        step = max(MOST_WEIGHTS // groups, 1)
        for first_line in range(0, len(lines), step):
            part_lines = min(step, len(lines) - first_line)
            remaining = np.ones((part_lines, groups))
            entries = _select_part(lines.coarse, first_line, step)
            if lines.coarse is not None:
                own_groups = lines.coarse.crowds[entries]
                remaining[lines.coarse.line_numbers[entries] - first_line, own_groups] -= self.shares[own_groups]
            part = _select_part(lines, first_line, step)
            rows = (lines.line_numbers[part] - first_line) * groups
            for first, table in zip(self.table.first_coarse_groups, self.table.coarse, strict=False):
                factors[part] *= remaining.ravel().take(rows + (table.crowd_groups.take(lines.crowds[part]) + first))
        return factors

    def _reduce_records(self, records: Tally, lines: CrowdLines, shares: Floats) -> Tally:
        """Takes shares of the sets in coarse groups out of a tally of sets."""
        coarse = lines.coarse
        if coarse is None or not len(coarse.crowds):
            return records
        members = np.concatenate([table.members for table in self.table.coarse]).astype(np.float64)
        weights = coarse.make_weights() * shares[coarse.crowds]
        removed = np.zeros((len(lines), members.shape[1]))
        step = max(MOST_WEIGHTS // len(shares), 1)
        for first in range(0, len(lines), step):
            part = _select_part(coarse, first, step)
            matrix = np.zeros((min(step, len(lines) - first), len(shares)))
            np.add.at(matrix, (coarse.line_numbers[part] - first, coarse.crowds[part]), weights[part])
            removed[first : first + step] = matrix @ members
        return Tally(records.counts - removed[:, :-1], records.rows - removed[:, -1])

    def _list_coarse_parts(self, crowds: CrowdLines, squared: CrowdLines) -> Sequence[CoarsePart]:
        if crowds.coarse is None or squared.coarse is None:
            return []
        return [
            CoarsePart(noise, self._select(crowds.coarse, number, 1), self._select(squared.coarse, number, 2))
            for number, noise in enumerate(self.coarse_noise)
        ]

    def _select(self, lines: CrowdLines, number: int, power: int) -> CrowdLines:
        """Takes the groups of one coarse table, and multiplies their weights by a power of the share."""
        first, end = self.table.first_coarse_groups[number : number + 2]
        positions: Indices = np.flatnonzero((lines.crowds >= first) & (lines.crowds < end))
        groups = lines.crowds[positions]
        weights = lines.make_weights()[positions] * self.shares[groups] ** power
        return replace(lines.select(positions, groups - first, weights), table=self.table.coarse[number].table)


def _select_part(lines: CrowdLines | None, first: int, step: int) -> slice:
    """The positions of some consecutive lines."""
    if lines is None:
        return slice(0, 0)
    return slice(int(lines.starts[first]), int(lines.starts[min(first + step, len(lines))]))
