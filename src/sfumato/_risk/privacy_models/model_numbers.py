"""The number of each privacy model, from how often each value occurs in each group.

Every number is the best for which the model's definition holds in all groups. Where the definition holds for no number,
it is infinite; where the model does not apply, there is none.

Notation: p = share of a value among all records, q = its share in a group, r_1 >= r_2 >= ... = its counts in a group.
"""

from __future__ import annotations

import numpy as np

from sfumato._core.arrays import Floats
from sfumato._risk.privacy_models.table_groups import GroupValues

ROUNDING = 1e-12
"""Shares that differ by less are equal: they are quotients of whole numbers."""


def compute_largest_share(contents: GroupValues) -> float:
    """Alpha of (alpha, k)-anonymity (Wong et al. 2006): the largest share of one value in a group."""
    return float(contents.group_shares.max())


def count_distinct_values(contents: GroupValues) -> int:
    """Distinct diversity (Machanavajjhala et al. 2007): the fewest values of a group."""
    return int(np.bincount(contents.group_codes).min())


def compute_entropy_diversity(contents: GroupValues) -> float:
    """Entropy diversity (the same): e to the least entropy of a group; so many equal values would have it."""
    entropies = -np.add.reduceat(contents.group_shares * np.log(contents.group_shares), contents.starts)
    return float(np.exp(entropies.min()))


def compute_recursive_ratio(contents: GroupValues) -> float | None:
    """Recursive (c, l)-diversity (the same) for l = the fewest values of a group: every larger c will do.

    The most frequent value of a group is at most so many times as frequent as the l-th, the next and all rarer ones
    together: r_1 < c (r_l + ... + r_m). None where a group has one value only.
    """
    least = count_distinct_values(contents)
    if least == 1:
        return None
    order = np.lexsort((-contents.counts, contents.group_codes))
    falling, starts = contents.counts[order], contents.starts
    rank = np.arange(len(falling)) - np.repeat(starts, np.diff(starts, append=len(falling)))
    tails = np.add.reduceat(np.where(rank >= least - 1, falling, 0), starts)
    return float((falling[starts] / tails).max())


def compute_equal_distance(contents: GroupValues) -> float:
    """t-closeness (Li et al. 2007) where all values are equally far apart: half the sum of |q - p|.

    Which is the sum of q - p over the values that are more frequent in the group, and all of these occur in it.
    """
    excess_shares = np.maximum(contents.group_shares - contents.shares, 0)
    return float(np.add.reduceat(excess_shares, contents.starts).max())


def compute_ordered_distance(contents: GroupValues) -> float:
    """t-closeness (the same) by the order of the values: the earth mover's distance, over the number of values - 1.

    That is the sum of |Q - P| over all values, with Q and P summed up to them. Q only changes at values that the group
    has, and P rises: between two of them the sign of Q - P changes once at most, at a place that is looked up.
    """
    if len(contents.totals) == 1:
        return 0.0
    below = np.cumsum(contents.totals) / contents.totals.sum()
    areas = np.concatenate([[0.0], np.cumsum(below)])
    starts = contents.starts
    cumulative_counts: Floats = np.cumsum(contents.counts)
    before = np.repeat(
        cumulative_counts[starts] - contents.counts[starts], np.diff(starts, append=len(cumulative_counts))
    )
    level = (cumulative_counts - before) / contents.sizes[contents.group_codes]
    first, end = contents.value_codes, np.append(contents.value_codes[1:], 0)
    end[np.append(starts[1:], len(end)) - 1] = len(below)
    crossing = np.clip(np.searchsorted(below, level), first, end)
    above = level * (2 * crossing - first - end) - 2 * areas[crossing] + areas[first] + areas[end]
    group_distances = np.add.reduceat(above, starts) + areas[contents.value_codes[starts]]
    return float(max(group_distances.max(), 0.0) / (len(below) - 1))


def compute_basic_likeness(contents: GroupValues) -> float:
    """Basic beta-likeness (Cao and Karras 2012): the largest (q - p) / p."""
    return float((contents.group_shares / contents.shares).max() - 1)


def compute_enhanced_likeness(contents: GroupValues) -> float:
    """Enhanced beta-likeness (the same): (q - p) / p is at most beta, and also at most -ln p.

    The second does not depend on beta. Where it fails, the definition holds for no beta at all.
    """
    gains = contents.group_shares / contents.shares - 1
    is_beyond = gains > -np.log(contents.shares) + ROUNDING
    return float("inf") if is_beyond[gains > ROUNDING].any() else compute_basic_likeness(contents)


def compute_disclosure(contents: GroupValues) -> float:
    """Delta-disclosure privacy (Brickell and Shmatikov 2008): the largest |ln (q / p)|, over all values.

    Infinite where a group lacks a value: then q = 0, and everybody in it is known not to have it.
    """
    is_complete = len(contents.counts) == len(contents.sizes) * len(contents.totals)
    return compute_present_disclosure(contents) if is_complete else float("inf")


def compute_present_disclosure(contents: GroupValues) -> float:
    """The same over the values that a group has; what some tools report under that name."""
    return float(np.abs(np.log(contents.group_shares / contents.shares)).max())


def compute_cap_factor(contents: GroupValues) -> float:
    """F'-privacy (Wang 2014) with caps in proportion: the least factor such that q is never above factor times p."""
    return float((contents.group_shares / contents.shares).max())


def compute_caps(contents: GroupValues) -> Floats:
    """F'-privacy (the same): for each value the least cap that holds, the largest share that it has in a group."""
    largest_shares = np.zeros(len(contents.totals))
    np.maximum.at(largest_shares, contents.value_codes, contents.group_shares)
    return largest_shares
