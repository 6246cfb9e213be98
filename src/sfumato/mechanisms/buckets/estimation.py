"""From buckets back to counts: how many of the selected records hold a value, if only their buckets are known.

Notation: for a bucket g: n = its size, q = its selected records, s = its records with a wanted value; o_y = all records
with value y, p_y = the share of them that is selected, W_xy = sum over buckets of s_x s_y / n. A sum is made of pieces;
in each, a record with value y adds z theta_y, where z is known: then q is the sum of z, and p_y the mean of z.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sfumato.errors import InternalError
from sfumato.mechanisms.coins.methods import Method
from sfumato.mechanisms.coins.operators import Floats, Places
from sfumato.shown.tally import Counts, Holdings, Moments, Piece, Tally

SINGULAR = 1e-9
"""A direction of which the buckets keep less than this part is lost."""

NOTHING = Moments(0.0, 0.0, 0.0, 0)
"""A sum over no records."""


def _holdings(tally: Tally) -> Holdings:
    if tally.holdings is None:
        raise InternalError("buckets cannot be counted without what they hold.")
    return tally.holdings


def by_uniform(design: Any, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    """The estimate of the papers: within a bucket every record is equally likely to hold each of its values."""
    holdings = _holdings(tally)
    return [_uniform(holdings, tally.counts.astype(np.float64), places) for places in wanted]


def _uniform(holdings: Holdings, selected: Floats, places: Places) -> Moments:
    """Sum q s / n; if all pairings are equally likely, each bucket's count is hypergeometric around that."""
    size, marked = holdings.sizes.astype(np.float64), _marked(holdings, places)
    value = float((selected * marked / size).sum())
    spread = selected * marked * (size - selected) * (size - marked)
    variance = float((spread / (size**2 * np.maximum(size - 1, 1))).sum())
    least, most = certain_bounds(size, selected, marked)
    return Moments(value, variance, 0.0, most, least, _sensitivity(holdings, marked, places))


def _sensitivity(holdings: Holdings, marked: Floats, places: Places) -> str:
    """How much association between values and selection would add: tau² times the squared length of c.

    c_y = [y is wanted] o_y - sum over wanted x of W_xy, and tau is the spread of the p_y.
    """
    shared = np.bincount(
        holdings.places,
        weights=holdings.counts * (marked / holdings.sizes)[holdings.buckets],
        minlength=holdings.domain_size,
    )
    is_wanted = np.isin(np.arange(holdings.domain_size), places)
    lost = np.where(is_wanted, holdings.held, 0) - shared
    return (
        f"if the selected shares of the values have a spread of tau, add tau² times {float(lost @ lost):.4g} to n_se²"
    )


def _marked(holdings: Holdings, places: Places) -> Floats:
    """How many records of each bucket hold one of the places."""
    is_wanted = np.zeros(holdings.domain_size, dtype=np.bool_)
    is_wanted[places] = True
    weights = np.where(is_wanted[holdings.places], holdings.counts, 0)
    return np.bincount(holdings.buckets, weights=weights, minlength=len(holdings.sizes)).astype(np.float64)


def certain_bounds(size: Floats, selected: Floats, marked: Floats) -> tuple[int, int]:
    """Between what the count must lie, whoever holds what."""
    least = np.maximum(selected + marked - size, 0).sum()
    return int(least), int(np.minimum(selected, marked).sum())


class Deal:
    """The variance of a sum over records that are dealt at random, within groups, to places with numbers on them.

    A line stands for `counts` places of a group. It has a number for each piece, with mean zero in the group, and adds
    z times that number if a record of the piece comes there. Source: Hoeffding 1951, theorem 2.
    """

    def __init__(self, groups: Counts, counts: Counts, sizes: Counts) -> None:
        self.groups, self.counts, self.sizes = groups, counts, sizes
        self.squares, self.means = np.zeros(len(groups)), np.zeros(len(groups))

    def add(self, numbers: Floats, first: Floats, second: Floats) -> None:
        """Add a piece, given the means of z and z² over all records of each group, outside the piece as 0."""
        self.squares += second[self.groups] * numbers**2
        self.means += first[self.groups] * numbers

    def variance(self) -> Floats:
        """The variance of each group."""
        added = self.counts * (self.squares - self.means**2)
        found = np.bincount(self.groups, weights=added, minlength=len(self.sizes))
        return np.asarray(found * self.sizes / np.maximum(self.sizes - 1, 1))


def uniform_total(design: Any, pieces: Sequence[Piece]) -> Moments:
    """Sum q times the mean theta of the bucket; if all pairings are equally likely, the variance is exact."""
    if not pieces:
        return NOTHING
    holdings, value = _holdings(pieces[0].first), 0.0
    deal = Deal(holdings.buckets, holdings.counts, holdings.sizes)
    for piece in pieces:
        theta = piece.theta[holdings.places]
        means = np.bincount(holdings.buckets, weights=holdings.counts * theta) / holdings.sizes
        value += float(means @ piece.first.counts)
        first, second = (tally.counts / holdings.sizes for tally in (piece.first, piece.second))
        deal.add(theta - means[holdings.buckets], first, second)
    least, most = _certain(holdings, pieces)
    return Moments(value, max(float(deal.variance().sum()), 0.0), 0.0, most, least)


def _certain(holdings: Holdings, pieces: Sequence[Piece]) -> tuple[float, float]:
    """Between what a sum must lie, whoever holds what.

    In a bucket theta lies between two numbers. Where a z may be negative, the sum of |z| is at most the root of n times
    the sum of z².
    """
    least, most = 0.0, 0.0
    for piece in pieces:
        theta = piece.theta[holdings.places]
        low, high = np.full(len(holdings.sizes), np.inf), np.full(len(holdings.sizes), -np.inf)
        np.minimum.at(low, holdings.buckets, theta)
        np.maximum.at(high, holdings.buckets, theta)
        reach = piece.first.counts
        if not piece.has_bounds:
            reach = np.sqrt(holdings.sizes * np.maximum(piece.second.counts, 0.0))
        middle, half = float((low + high) / 2 @ piece.first.counts), float((high - low) / 2 @ reach)
        least, most = least + middle - half, most + middle + half
    return least, most


class Meeting:
    """How often values meet in buckets, and the inverse of that."""

    def __init__(self, holdings: Holdings) -> None:
        from scipy import sparse  # noqa: PLC0415 - scipy takes long to load, and few commands need it

        shape = (len(holdings.sizes), holdings.domain_size)
        entries = (holdings.counts.astype(np.float64), (holdings.buckets, holdings.places))
        self.sizes = holdings.sizes.astype(np.float64)
        self.present = np.flatnonzero(holdings.held)
        self.held: Any = sparse.csr_array(entries, shape=shape)[:, self.present]
        self.counts: Floats = holdings.held[self.present].astype(np.float64)
        scaled = sparse.diags_array(1 / np.sqrt(self.sizes)) @ self.held
        weights: npt.NDArray[np.float64] = (scaled.T @ scaled).toarray()
        # On the scale of the counts the matrix has eigenvalues between 0 and 1: what the buckets keep of a direction.
        roots = np.sqrt(self.counts)
        kept, directions = np.linalg.eigh(weights / np.outer(roots, roots))
        self.kept, self.directions, self.roots = kept, directions, roots

    def by_value(self, numbers: Floats) -> Floats:
        """Add a number of each bucket up over the records of each value."""
        return np.asarray(self.held.T @ numbers)

    def by_bucket(self, numbers: Floats) -> Floats:
        """Add a number of each value up over the records of each bucket."""
        return np.asarray(self.held @ numbers)

    @cached_property
    def doubt(self) -> Floats:
        """The diagonal of W^-1 less 1/o: the variance of each estimate of p, if 1 is that of z and all p are alike."""
        inverse = np.divide(1.0, self.kept, out=np.zeros_like(self.kept), where=self.kept > SINGULAR)
        return np.asarray(np.maximum(self.directions**2 @ inverse - 1, 0.0) / self.counts)

    def solve(self, target: Floats) -> tuple[Floats, bool]:
        """The solution v of W v = target, and whether there is one."""
        along = self.directions.T @ (target / self.roots)
        is_kept = self.kept > SINGULAR
        inverse = np.divide(along, self.kept, out=np.zeros_like(along), where=is_kept)
        scale = max(1.0, float(np.abs(along).max(initial=0.0)))
        is_lost = bool((np.abs(along[~is_kept]) > SINGULAR * scale).any())
        return np.asarray(self.directions @ inverse / self.roots), not is_lost


_MEETINGS: WeakKeyDictionary[Holdings, Meeting] = WeakKeyDictionary()
"""The inverse takes long to find, and is the same for all questions to a release."""


def _meeting(holdings: Holdings) -> Meeting:
    if holdings not in _MEETINGS:
        _MEETINGS[holdings] = Meeting(holdings)
    return _MEETINGS[holdings]


def by_inverse(design: Any, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    """Undo the mixing of the buckets: records of a value are dealt to them at random, whatever else is known of them.

    With e_x = sum of q s_x / n, the expectation of e is W p, so o_x (W^-1 e)_x is unbiased for the selected records
    with value x.
    """
    holdings = _holdings(tally)
    meeting = _meeting(holdings)
    selected = tally.counts.astype(np.float64)
    told = meeting.by_value(selected / meeting.sizes)
    shares, _ = meeting.solve(told)
    spread = _spread(meeting, shares, tally.rows / max(holdings.sizes.sum(), 1))
    return [_inverse(meeting, selected, told, spread, places) for places in wanted]


def _spread(meeting: Meeting, shares: Floats, overall: float) -> Floats:
    """The variance p(1-p) of a record's coin for each value."""
    return _variance(meeting, shares, shares, overall * (1 - overall))


def _variance(meeting: Meeting, first: Floats, second: Floats, overall: float) -> Floats:
    """For each value, the variance of z over its records, from estimated means of z and z²; never negative.

    What the error of the former takes away on average, if all values are selected alike, is added.
    """
    correction = meeting.counts / np.maximum(meeting.counts - 1, 1)
    return np.asarray(np.maximum(second - first**2 + overall * meeting.doubt, 0.0) * correction)


def _inverse(meeting: Meeting, selected: Floats, told: Floats, spread: Floats, places: Places) -> Moments:
    """Estimate the count of one set of places.

    With v = W^-1 (o on the wanted values) and u = v s / n by bucket, the variance of v e is the sum over values y of
    p_y (1-p_y) [sum over buckets of s_y u² - o_y if y is wanted]: the deal is hypergeometric.
    """
    is_wanted = np.isin(meeting.present, places).astype(np.float64)
    target, marked = meeting.counts * is_wanted, meeting.by_bucket(is_wanted)
    least, most = certain_bounds(meeting.sizes, selected, marked)
    weights, is_told = meeting.solve(target)
    if not is_told:  # the buckets keep nothing of this count beyond what is certain
        plain = float((selected * marked / meeting.sizes).sum())
        return Moments(plain, float(most - least) ** 2, 0.0, most, least)
    by_bucket = meeting.by_bucket(weights) / meeting.sizes
    squares = meeting.by_value(by_bucket**2)
    variance = float(spread @ np.maximum(squares - target, 0.0))
    return Moments(float(weights @ told), variance, 0.0, most, least)


def inverse_total(design: Any, pieces: Sequence[Piece]) -> Moments:
    """Undo the mixing of the buckets, piece by piece.

    With v = W^-1 (o theta) and u = v s / n by bucket, the sum of q u is unbiased: the mean of u over the records of a
    value y is theta_y. These are dealt at random to places with the numbers u, so the variance is that of a deal.
    """
    if not pieces:
        return NOTHING
    holdings = _holdings(pieces[0].first)
    meeting = _meeting(holdings)
    solved = [meeting.solve(meeting.counts * piece.theta[meeting.present]) for piece in pieces]
    if not all(is_told for _, is_told in solved):  # the buckets keep nothing of this sum beyond what is certain
        plain = uniform_total(design, pieces)
        return replace(plain, variance_base=(plain.most - plain.least) ** 2)
    by_bucket = [meeting.by_bucket(weights) / meeting.sizes for weights, _ in solved]
    value = sum(float(each @ piece.first.counts) for each, piece in zip(by_bucket, pieces, strict=True))
    if len(pieces) == 1:
        variance = _variance_of_one(meeting, by_bucket[0], pieces[0])
    else:
        variance = _variance_of_several(holdings, meeting, by_bucket, pieces)
    least, most = _certain(holdings, pieces)
    return Moments(value, variance, 0.0, most, least)


def _variance_of_one(meeting: Meeting, by_bucket: Floats, piece: Piece) -> float:
    """The numbers of one piece are the same for all records: their variance, times that of z."""
    (first, mean), (second, square) = (_means(meeting, tally) for tally in (piece.first, piece.second))
    squares = meeting.by_value(by_bucket**2) - meeting.counts * piece.theta[meeting.present] ** 2
    return float(_variance(meeting, first, second, square - mean**2) @ np.maximum(squares, 0.0))


def _variance_of_several(
    holdings: Holdings, meeting: Meeting, by_bucket: Sequence[Floats], pieces: Sequence[Piece]
) -> float:
    """The same as a deal, in which each record takes the number of its own piece."""
    place_of = np.searchsorted(meeting.present, holdings.places)
    counts = holdings.held[meeting.present]
    estimated, alike = (Deal(place_of, holdings.counts, counts) for _ in range(2))
    for numbers, piece in zip(by_bucket, pieces, strict=True):
        centred = numbers[holdings.buckets] - piece.theta[holdings.places]
        (first, mean), (second, square) = (_means(meeting, tally) for tally in (piece.first, piece.second))
        estimated.add(centred, first, second)
        alike.add(centred, np.full(len(counts), mean), np.full(len(counts), square))
    return float(np.maximum(estimated.variance() + meeting.doubt * alike.variance(), 0.0).sum())


def _means(meeting: Meeting, tally: Tally) -> tuple[Floats, float]:
    """The estimated mean of z over the records of each value, and the mean over all records."""
    means, _ = meeting.solve(meeting.by_value(tally.counts / meeting.sizes))
    return means, float(tally.counts.sum() / meeting.sizes.sum())


UNIFORM = Method(
    "sum over buckets (Anatomy), normal interval within certain bounds",
    "within a bucket, values are unrelated to the public columns; where they are related, the interval is too short",
    by_uniform,
    total=uniform_total,
)
INVERSE = Method(
    "inverse of the mixing by buckets, normal interval within certain bounds",
    "none: records of a value were dealt to buckets at random",
    by_inverse,
    total=inverse_total,
)
METHODS: Mapping[str, Method] = MappingProxyType({"inverse": INVERSE, "uniform": UNIFORM})
