"""The ways to estimate from a release: each has a name and says what it assumes, and whether it is biased."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from sfumato.mechanisms.coins.inverse import closed, entry_counts, iterated, least_squares, shares_from
from sfumato.mechanisms.coins.operators import Floats, Operator, Places
from sfumato.mechanisms.coins.weights import Cells, Linear, total
from sfumato.shown.tally import Moments, Piece, Tally

DEFAULT = "closed"
EM_TOLERANCE = 1e-9
EM_STEPS = 10_000

NO_ASSUMPTION = "none: the randomness is the perturbation's own, and its probabilities are published"
SPREAD = "the records of a value that a condition selects are spread over the cells as all records of that value are"
BIASED = "biased, and its error is not known: use it to compare, not to conclude"
PLUG_IN = (
    "slightly biased: its weights are estimated from the same release; an error is given only if the release publishes "
    "the shares of its cells"
)


@dataclass(frozen=True, slots=True)
class Method:
    """One way to estimate, as it is named in every answer."""

    words: str
    assumption: str
    reconstruct: Callable[[Any, Tally, Sequence[Places]], list[Moments]]
    """From a design, a tally and sets of wanted places: one estimate for each set."""
    needs_whole: bool = False
    """Whether it also looks at the counts of the whole release."""
    note: str | None = None
    """What to beware of, beside every number."""
    total: Callable[[Any, Sequence[Piece]], Moments] | None = None
    """From a design and the pieces of one sum: its estimate, its variance (whatever the sum is) and its certain bounds.

    None where the method only counts."""
    linear: Callable[[Any], Linear] | None = None
    """The weights behind `total`, to be computed once for many queries; None where there are none."""


class CellDesign(Protocol):
    """A design of cells in which records are kept or redrawn."""

    @property
    def operator(self) -> Operator:
        """The cells, laid out as arrays."""
        ...

    @property
    def cell_shares(self) -> Floats | None:
        """Which part of each value's records is in each cell, where the holder has made that public."""
        ...


def _by_closed_form(design: CellDesign, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    return closed(design.operator, tally, wanted)


def _by_weights(design: CellDesign, pieces: Sequence[Piece]) -> Moments:
    return total(_linear(design), pieces)


def _linear(design: CellDesign) -> Linear:
    return Cells(design.operator)


def _by_iteration(design: CellDesign, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    held = iterated(design.operator, tally.counts, _shares(design, tally), EM_STEPS, tolerance=EM_TOLERANCE)
    return [Moments(float(held[places].sum()), None, 0.0, tally.rows) for places in wanted]


def _by_least_squares(design: CellDesign, tally: Tally, wanted: Sequence[Places]) -> list[Moments]:
    found = least_squares(design.operator, tally, _shares(design, tally), wanted)
    if design.cell_shares is not None:
        return found
    # The error of shares that are estimated themselves is not known, and can be most of the error.
    return [replace(moments, variance_base=None) for moments in found]


def _shares(design: CellDesign, tally: Tally) -> Floats:
    """The published shares, or else those that the whole release lets one estimate."""
    if design.cell_shares is not None:
        return design.cell_shares
    return shares_from(design.operator, entry_counts(design.operator, tally.whole or tally))


CLOSED = Method("unbiased count, score interval", NO_ASSUMPTION, _by_closed_form, total=_by_weights, linear=_linear)
EM = Method("iterative Bayes (EM), biased", NO_ASSUMPTION, _by_iteration, note=BIASED)
CELLS_EM = Method("iterative Bayes (EM) over all cells, biased", SPREAD, _by_iteration, needs_whole=True, note=BIASED)
CELLS_GLS = Method(
    "generalised least squares over all cells, normal interval",
    SPREAD,
    _by_least_squares,
    needs_whole=True,
    note=PLUG_IN,
)


def first_of(methods: Mapping[str, Method]) -> Callable[[Any], str]:
    """The default where it does not depend on the design: the first method."""
    first = next(iter(methods))
    return lambda design, /: first


ONE_CELL: Mapping[str, Method] = MappingProxyType({DEFAULT: CLOSED, "em": EM})
SEVERAL_CELLS: Mapping[str, Method] = MappingProxyType({DEFAULT: CLOSED, "gls": CELLS_GLS, "em": CELLS_EM})
