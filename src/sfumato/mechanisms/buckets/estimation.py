"""From buckets back to counts: how many of the selected records hold a value, if only their buckets are known.

Notation: for a bucket g: n = its size, q = its selected records, s = its records with a wanted value; o_y = all records
with value y, p_y = the share of them that is selected, W_xy = sum over buckets of s_x s_y / n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import InternalError
from sfumato.mechanisms.methods import Method
from sfumato.mechanisms.operators import Floats, Places
from sfumato.tally import Holdings, Moments, Tally

SINGULAR = 1e-9
"""A direction of which the buckets keep less than this part is lost."""


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

    def solve(self, target: Floats) -> tuple[Floats, bool]:
        """The solution v of W v = target, and whether there is one."""
        along = self.directions.T @ (target / self.roots)
        is_kept = self.kept > SINGULAR
        inverse = np.divide(along, self.kept, out=np.zeros_like(along), where=is_kept)
        scale = max(1.0, float(np.abs(along).max(initial=0.0)))
        is_lost = bool((np.abs(along[~is_kept]) > SINGULAR * scale).any())
        return np.asarray(self.directions @ inverse / self.roots), not is_lost


def by_inverse(design: Any, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    """Undo the mixing of the buckets: records of a value are dealt to them at random, whatever else is known of them.

    With e_x = sum of q s_x / n, the expectation of e is W p, so o_x (W^-1 e)_x is unbiased for the selected records
    with value x.
    """
    holdings = _holdings(tally)
    meeting = Meeting(holdings)
    selected = tally.counts.astype(np.float64)
    told = meeting.by_value(selected / meeting.sizes)
    shares, _ = meeting.solve(told)
    spread = _spread(meeting, shares, tally.rows / max(holdings.sizes.sum(), 1))
    return [_inverse(holdings, meeting, selected, told, spread, places) for places in wanted]


def _spread(meeting: Meeting, shares: Floats, overall: float) -> Floats:
    """The variance p(1-p) of a record's coin for each value: p - p² without bias, and within what a share can have."""
    noise = overall * (1 - overall) * (_diagonal(meeting) - 1 / meeting.counts)
    correction = meeting.counts / np.maximum(meeting.counts - 1, 1)
    return np.asarray(np.clip(shares - shares**2 + np.maximum(noise, 0.0), 0.0, 0.25) * correction)


def _diagonal(meeting: Meeting) -> Floats:
    """The diagonal of W^-1."""
    inverse = np.divide(1.0, meeting.kept, out=np.zeros_like(meeting.kept), where=meeting.kept > SINGULAR)
    return np.asarray((meeting.directions**2 @ inverse) / meeting.counts)


def _inverse(  # noqa: PLR0913, PLR0917 - what all sets of places have in common, and one of them
    holdings: Holdings, meeting: Meeting, selected: Floats, told: Floats, spread: Floats, places: Places
) -> Moments:
    """Estimate the count of one set of places.

    With v = W^-1 (o on the wanted values) and u = v s / n by bucket, the variance of v e is the sum over values y of
    p_y (1-p_y) [sum over buckets of s_y u² - o_y if y is wanted]: the deal is hypergeometric.
    """
    is_wanted = np.isin(meeting.present, places)
    target = np.where(is_wanted, meeting.counts, 0.0)
    weights, is_told = meeting.solve(target)
    plain = _uniform(holdings, selected, places)
    if not is_told:  # the buckets keep nothing of this count beyond what is certain
        return Moments(plain.value, float(plain.most - plain.least) ** 2, 0.0, plain.most, plain.least)
    by_bucket = meeting.by_bucket(weights) / meeting.sizes
    squares = meeting.by_value(by_bucket**2)
    variance = float(spread @ np.maximum(squares - target, 0.0))
    return Moments(float(weights @ told), variance, 0.0, plain.most, plain.least)


UNIFORM = Method(
    "sum over buckets (Anatomy), normal interval within certain bounds",
    "within a bucket, values are unrelated to the public columns; where they are related, the interval is too short",
    by_uniform,
)
INVERSE = Method(
    "inverse of the mixing by buckets, normal interval within certain bounds",
    "none: records of a value were dealt to buckets at random",
    by_inverse,
)
METHODS: Mapping[str, Method] = MappingProxyType({"inverse": INVERSE, "uniform": UNIFORM})
