"""One or many estimates with their errors: value, standard error, and an interval at any level.

Estimate and Estimates share `value`, `standard_error`, `interval(level)`, `method`, `assumption` and notes. Both are
computed from moments.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, overload

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Floats, Mask
from sfumato._core.cell_values import Value
from sfumato._document.notebook_document import render_notebook
from sfumato._figures.estimate_format import NumberCell
from sfumato._query.answer_document import make_estimate_document, make_estimates_document
from sfumato._query.intervals import (
    DEFAULT_LEVEL,
    compute_intervals,
    compute_one_error_interval,
    compute_quantile,
    compute_standard_errors,
)
from sfumato._query.scalar_functions import Function
from sfumato._request.person_rows import Population
from sfumato._terminal_safe import escape_unprintable
from sfumato.errors import MissingExtraError, QueryError
from sfumato.mechanisms.estimator import Moments

# Answers as tables for other tools: Arrow, pandas, polars, and any reader of Arrow streams, such as DuckDB.


class Tabular(ABC):
    """A result that converts to a table, with `n`, `n_se`, `n_low` and `n_high` for each number `n`."""

    __slots__ = ()

    @abstractmethod
    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """Converts to an Arrow table."""

    def to_pandas(self, level: float = DEFAULT_LEVEL) -> Any:
        """Converts to a pandas frame."""
        _import_package("pandas")
        return self.to_arrow(level).to_pandas()

    def to_polars(self, level: float = DEFAULT_LEVEL) -> Any:
        """Converts to a polars frame."""
        return _import_package("polars").from_arrow(self.to_arrow(level))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports an Arrow stream for other tools, with intervals at the default level."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def _import_package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{name} is not installed; install it (pip install 'sfumato[{name}]'), or use to_arrow().",
            code="missing-package",
            fields={"package": name},
        ) from error


# ---------------------------------------------------------------------------------------------------------------------

EXACT_METHOD = "exact count"
EXACT_ASSUMPTION = "none, because the published data give the exact number"
BELOW_ZERO = "below zero by chance"
"""The note on a negative estimate of a number that cannot be negative."""
NO_RECORDS = "no record satisfies the condition on the public columns; check the spelling of their values."
COLUMNS = ("n", "n_se", "n_low", "n_high", "n_note")
"""The column names of a number without a name."""
NO_END = "at this level the number may be zero, for which the function has no value"
NO_INTERVAL = "at this level the denominator may be zero, so the ratio may have any value"


def _join_notes(first: str, second: str | None) -> str:
    """Joins two notes. The first may be a sentence."""
    return first if second is None else f"{first}{' ' if first.endswith(('.', '?')) else '; '}{second}"


def _add_negative_notes(moments: Moments, notes: Sequence[str | None]) -> list[str | None]:
    """Adds a note to each negative estimate of a number that cannot be negative."""
    is_below = (moments.value < 0) & (moments.least >= 0)
    return [
        "; ".join(filter(None, (note, BELOW_ZERO))) if below and BELOW_ZERO not in (note or "") else note
        for note, below in zip(notes, is_below.tolist(), strict=True)
    ]


class Interval(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ScaledEstimate:
    """A number that is a known factor times an estimate, plus a known number."""

    inner: Estimate
    factor: float
    shift: float

    def interval(self, level: float) -> Interval:
        """The interval of the estimate, scaled and shifted."""
        low, high = sorted(self.factor * end + self.shift for end in self.inner.interval(level))
        return Interval(low, high)


@dataclass(frozen=True, slots=True)
class TransformedEstimate:
    """A function of an estimate."""

    inner: Estimate
    function: Function

    def interval(self, level: float) -> Interval:
        """The image of the estimate's interval under the function."""
        return Interval(*self.function.map_interval(*self.inner.interval(level)))


@dataclass(frozen=True, slots=True)
class Crossing:
    """The point where a distribution reaches a share: the first point with at least this share at or below it.

    For each point, take the estimated number of records at or below it, minus the share of all records. `above` has
    these numbers, and `errors` has their standard errors.
    """

    points: tuple[float, ...]
    excesses: tuple[float, ...]
    errors: tuple[float, ...]
    is_coarse: bool = False
    """Whether a point represents all values from the previous point up to it."""

    def interval(self, level: float) -> Interval:
        """The range from the first point that may have reached the share to the point after which all certainly have.

        If the quantile is t, the estimate at t is not far below zero, and the estimate at the previous point is not far
        above zero. Each of these statements is false with half of the error probability. Source: Woodruff 1952, for a
        band of tests.
        """
        half_width = compute_quantile(level)
        bands = [
            (crossing - half_width * error, crossing + half_width * error)
            for crossing, error in zip(self.excesses, self.errors, strict=True)
        ]
        end = len(self.points) - 1
        first = next((number for number, (_, high) in enumerate(bands) if high >= 0), end)
        last = max((number for number, (low, _) in enumerate(bands) if low < 0), default=-1)
        low = self.points[max(first - self.is_coarse, 0)]
        return Interval(low, max(low, self.points[min(last + 1, end)]))


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two estimates, with their variances and their covariance."""

    numerator: float
    denominator: float
    variance: float
    covariance: float
    denominator_variance: float

    def interval(self, level: float) -> Interval:
        """All ratios r for which numerator - r * denominator may be zero. If the denominator may be zero, all numbers.

        Source: Fieller 1954. With z for the level, solve (a - rb)² <= z² (V_a - 2 r C + r² V_b) for r.
        """
        squared = compute_quantile(level) ** 2
        square = self.denominator**2 - squared * self.denominator_variance
        middle = self.numerator * self.denominator - squared * self.covariance
        rest = self.numerator**2 - squared * self.variance
        if square <= 0:
            return Interval(-math.inf, math.inf)
        half = math.sqrt(max(0.0, middle**2 - square * rest))
        return Interval((middle - half) / square, (middle + half) / square)


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(Tabular):
    """An estimate of a count, or of another number, of the original table.

    The interval is for the number in the original table, not for a larger population. An unbiased estimate may be
    negative or exceed the number of rows, because clipping would bias sums over groups. The value is NaN if there is
    nothing to estimate.
    """

    value: float
    standard_error: float | None
    method: str
    assumption: str
    moments: Moments = field(repr=False)
    note: str | None = None
    """The reason why the number or its error is missing, or a caution."""
    origin: ScaledEstimate | TransformedEstimate | Crossing | Ratio | None = field(default=None, repr=False)
    """How the estimate was derived from other estimates, if this determines the interval."""
    derivation: str | None = field(default=None, repr=False)
    """How the number was derived from counts, if it is not a count itself. `method` includes this text."""
    population: Population | None = field(default=None, repr=False, compare=False)
    """The people or rows that the number describes. None within a computation."""

    @classmethod
    def of(
        cls, moments: Moments, method: str, assumption: str, note: str | None = None, derivation: str | None = None
    ) -> Estimate:
        """Builds the estimate of one number from its moments.

        The standard error is that at the nearest possible value.
        """
        (value,), (error,) = moments.value.tolist(), compute_standard_errors(moments).tolist()
        method_label = method if derivation is None else f"{method}; {derivation}"
        (full_note,) = _add_negative_notes(moments, [note])
        return cls(
            value,
            None if math.isnan(error) else error,
            method_label,
            assumption,
            moments,
            full_note,
            derivation=derivation,
        )

    @classmethod
    def exact(cls, count: float) -> Estimate:
        """A count or a sum of public columns only. The release gives it without error."""
        certain = Moments.of(count, 0.0, 0.0, count, count)
        return cls(float(count), 0.0, EXACT_METHOD, EXACT_ASSUMPTION, certain)

    @classmethod
    def missing(cls, note: str | None) -> Estimate:
        """An estimate without a number, like NULL in SQL."""
        nothing = Moments.of(math.nan, None, 0.0, math.inf, -math.inf)
        return cls(math.nan, None, EXACT_METHOD, EXACT_ASSUMPTION, nothing, note)

    def __str__(self) -> str:
        return self.to_cell().text

    def __repr__(self) -> str:
        return f"Estimate({self}{f': {escape_unprintable(self.note)}' if self.note else ''})"

    def _repr_html_(self) -> str:
        """Renders the estimate for a notebook."""
        return render_notebook(make_estimate_document(self))

    def to_cell(self, level: float = DEFAULT_LEVEL) -> NumberCell:
        """Formats the number with its error and interval."""
        ends = self.interval(level) if self.has_interval else None
        centre = None if self.moments.unbiased_value is None else float(self.moments.centre[0])
        return NumberCell.of(self.value, self.standard_error, ends, centre)

    def list_notes(self, level: float = DEFAULT_LEVEL) -> tuple[str, ...]:
        """Lists the cautions on this number."""
        note = self.note or ""
        own_note = note.removesuffix(BELOW_ZERO).removesuffix("; ")
        may_open = self.has_interval and self.origin is not None  # other numbers have finite intervals
        is_open = may_open and not all(map(math.isfinite, self.interval(level)))
        reason = (
            NO_END
            if isinstance(self.origin, TransformedEstimate) and not isinstance(self.origin.inner.origin, Ratio)
            else NO_INTERVAL
        )
        return tuple(filter(None, (own_note, BELOW_ZERO if note != own_note else "", reason if is_open else "")))

    def to_row(self, level: float = DEFAULT_LEVEL) -> tuple[Value, ...]:
        """The number, its error, its interval and its notes. Unknown parts are None."""
        value = None if math.isnan(self.value) else self.value
        ends = self.interval(level) if self.has_interval else (math.nan, math.nan)
        finite_ends = (end if math.isfinite(end) else None for end in ends)
        return (
            value,
            self.standard_error if self.has_interval else None,
            *finite_ends,
            "; ".join(self.list_notes(level)) or None,
        )

    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """One row: `n`, `n_se`, `n_low` and `n_high`. If there are notes, also `n_note`."""
        *numbers, note = self.to_row(level)
        columns = {name: pa.array([number], pa.float64()) for name, number in zip(COLUMNS, numbers, strict=False)}
        return pa.table(columns | ({} if note is None else {COLUMNS[-1]: pa.array([note])}))

    @property
    def is_exact(self) -> bool:
        """Whether the number has no error."""
        return self.method == EXACT_METHOD

    @property
    def has_interval(self) -> bool:
        """Whether there is a number with a known error."""
        return self.standard_error is not None and not math.isnan(self.value)

    @property
    def bounds(self) -> Interval:
        """The range in which the number certainly lies."""
        return Interval(float(self.moments.least[0]), float(self.moments.most[0]))

    @property
    def lasting_note(self) -> str | None:
        """The notes that also apply to numbers computed from this number."""
        if self.moments.is_own_note or self.note is None:
            return None
        return self.note.removesuffix(BELOW_ZERO).removesuffix("; ") or None

    def add_note(self, note: str | None) -> Estimate:
        """The estimate with an additional note."""
        return self if note is None else replace(self, note=_join_notes(note, self.note))

    def scale(self, factor: float, shift: float) -> Estimate:
        """A known factor times this estimate, plus a known number."""
        if (factor, shift) == (1.0, 0.0):
            return self
        value = factor * self.value + shift
        error = None if self.standard_error is None else abs(factor) * self.standard_error
        variance = None if error is None else error**2
        least, most = sorted(factor * end + shift for end in self.bounds)
        moments = Moments.of(value, variance, 0.0, most, least)
        if self.moments.unbiased_value is not None:
            moments = replace(moments, unbiased_value=factor * self.moments.unbiased_value + shift)
        (note,) = _add_negative_notes(moments, [self.lasting_note])
        return replace(
            self,
            value=value,
            standard_error=error,
            moments=moments,
            note=note,
            origin=ScaledEstimate(self, factor, shift),
        )

    def interval(self, level: float = DEFAULT_LEVEL) -> Interval:
        """The values that a test at this level would not reject. Values within one standard error are included."""
        if self.standard_error is None:
            raise QueryError(
                f"the method {self.method!r} gives no error here, so there is no interval.",
                code="method-without-errors",
                fields={"operation": "interval", "method": self.method},
            )
        if self.origin is None:
            (low,), (high,) = (ends.tolist() for ends in compute_intervals(self.moments, level))
            return Interval(low, high)
        least, most = self.bounds
        low, high = (min(max(end, least), most) for end in self.origin.interval(level))
        (from_low,), (to_high,) = compute_one_error_interval(self.moments, level)
        return Interval(min(low, float(from_low)), max(high, float(to_high)))


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Sequence[Estimate], Tabular):
    """The answers to many queries in order, as arrays for all queries and as an Estimate for each query."""

    moments: Moments = field(repr=False)
    method: str
    assumption: str
    note: str | None = None
    """A caution for every estimate."""
    is_empty: Mask | None = None
    """Marks the queries whose conditions no record satisfies."""
    population: Population | None = None
    """The people or rows that the numbers describe."""

    def __repr__(self) -> str:
        first = f", the first {self[0]}" if len(self) else ""
        return f"Estimates({len(self):,} numbers{first})"

    def _repr_html_(self) -> str:
        """Renders the estimates for a notebook."""
        return render_notebook(make_estimates_document(self))

    def __len__(self) -> int:
        return len(self.moments.value)

    def __iter__(self) -> Iterator[Estimate]:
        return (self[number] for number in range(len(self)))

    @overload
    def __getitem__(self, number: int) -> Estimate: ...
    @overload
    def __getitem__(self, number: slice) -> list[Estimate]: ...
    def __getitem__(self, number: int | slice) -> Estimate | list[Estimate]:
        if isinstance(number, slice):
            return [self[place] for place in range(*number.indices(len(self)))]
        note = self.notes[number]
        if self.is_exact[number]:
            estimate = Estimate.exact(float(self.moments.value[number])).add_note(note)
        else:
            estimate = Estimate.of(self.moments.take(np.array([number])), self.method, self.assumption, note)
        return replace(estimate, population=self.population)

    @cached_property
    def is_exact(self) -> Mask:
        """Marks the exact answers. Such an answer depends only on public columns, or on no record."""
        return self.moments.is_certain

    @cached_property
    def notes(self) -> list[str | None]:
        """The notes on each estimate."""
        pairs = zip(self.is_exact.tolist(), self.moments.all_notes, strict=True)
        all_notes = _add_negative_notes(self.moments, [None if exact else self.note or note for exact, note in pairs])
        for number in np.flatnonzero(self.is_empty).tolist() if self.is_empty is not None else ():
            all_notes[number] = _join_notes(NO_RECORDS, all_notes[number])
        return all_notes

    @property
    def value(self) -> Floats:
        """The estimated counts."""
        return self.moments.value

    @property
    def standard_error(self) -> Floats:
        """The standard errors; NaN if unknown."""
        return compute_standard_errors(self.moments)

    def interval(self, level: float = DEFAULT_LEVEL) -> tuple[Floats, Floats]:
        """The low and the high ends of the intervals; NaN if no error is known."""
        return compute_intervals(self.moments, level)

    def to_arrow(self, level: float = DEFAULT_LEVEL) -> pa.Table:
        """One row for each query: `n`, `n_se`, `n_low` and `n_high`. If there are notes, also `n_note`."""
        numbers = (self.value, self.standard_error, *self.interval(level))
        columns = {
            name: pa.array(numbers_column, from_pandas=True)
            for name, numbers_column in zip(COLUMNS, numbers, strict=False)
        }
        if any(self.notes):
            columns[COLUMNS[-1]] = pa.array(self.notes, type=pa.string())
        return pa.table(columns)
