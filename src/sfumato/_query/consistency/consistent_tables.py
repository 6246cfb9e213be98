"""Makes the counts of an answer consistent: the cells, their totals, and the available methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats, Mask
from sfumato._core.cell_values import display
from sfumato._query.consistency.known_totals import Key, KnownTotals
from sfumato._query.consistency.least_squares import calibrate
from sfumato._query.consistency.nonnegative_projection import make_consistent
from sfumato._query.consistency.sum_constraints import Family
from sfumato._query.estimate import Estimate
from sfumato.errors import QueryError


@dataclass(frozen=True)
class Adjustment:
    """A method to make a table consistent."""

    name: str
    """The suffix of the adjusted column, which turns `n` into `n_consistent`."""
    description: str
    """A one-line description of the method for analysts."""
    find: Callable[[Floats, Floats, Sequence[Family]], Floats]
    """The function that computes the table from numbers, variances and sums."""

    def name_column(self, number: str) -> str:
        """The name of the adjusted column of a number."""
        return f"{number}_{self.name}"


CONSISTENT = Adjustment(
    "consistent",
    "nearest table without negative numbers that adds up to the exact totals, weighted by variance; biased where "
    "negative estimates are set to 0, so there are no intervals",
    make_consistent,
)
CALIBRATED = Adjustment(
    "calibrated",
    "nearest table that adds up to the exact and the known totals, weighted by variance; unbiased if the known "
    "totals are right; numbers may be negative",
    lambda values, variances, families: calibrate(values, variances, families).values,
)


@dataclass(frozen=True)
class AnswerCells:
    """The counts of an answer before any filter."""

    columns: tuple[str, ...]
    """The columns of the answer that may occur in known totals."""
    keys: Sequence[Key | None]
    """The values of each cell in these columns.

    The value is None for records of a group that are in no row of the answer.
    """
    estimates: Sequence[Estimate]
    public_columns: tuple[str, ...]
    groups: Sequence[Key]
    """The public group of each cell: its values in the public columns."""
    records: Mapping[Key, float]
    """The number of records in each public group.

    The number is exact, because public columns are published unchanged.
    """

    def adjust(self, adjustment: Adjustment, totals: Sequence[KnownTotals] = ()) -> Floats:
        """Computes a number for each cell. Every public group then adds up to its records, and known totals hold."""
        families = [self._make_record_sums(), *(item.make_family(self.columns, self.keys) for item in totals)]
        values = np.array([item.value for item in self.estimates], dtype=np.float64)
        adjusted_values = adjustment.find(values, self._compute_variances(), families)
        # Conflicts are explained better, so they are checked before totals above the number of records.
        most = sum(map(float, self.records.values()))
        for family in families[1:]:
            for number in np.flatnonzero((family.totals < 0) | (family.totals > most)).tolist():
                raise QueryError(
                    f"{family.describe_total(number)} is given as {family.totals[number]:g}, but the answer covers "
                    f"only {most:g} records; correct this total.",
                    code="total-above-records",
                    fields={"total": float(family.totals[number]), "records": most},
                )
        return adjusted_values

    def _make_record_sums(self) -> Family:
        """The constraint that every public group adds up to its records."""
        groups = list(self.records)
        numbers = {group: number for number, group in enumerate(groups)}

        def name(number: int) -> str:
            pairs = zip(self.public_columns, groups[number], strict=True)
            conditions = ", ".join(f"{column} = {display(value)!r}" for column, value in pairs)
            return f"the number of records with {conditions}" if conditions else "the number of records"

        return Family(
            np.array([numbers[group] for group in self.groups], dtype=np.int64),
            np.array([float(count) for count in self.records.values()], dtype=np.float64),
            "the numbers of records",
            name,
        )

    def _compute_variances(self) -> Floats:
        """The variance of each cell. Only exact cells have the variance 0."""
        if any(
            estimate.standard_error is None or estimate.moments.unbiased_value is not None
            for estimate in self.estimates
        ):
            raise QueryError(
                "this method gives no errors, which are needed as weights; use the default method.",
                code="method-without-errors",
                fields={"operation": "weights"},
            )
        variances: Floats = np.array(
            [(estimate.standard_error or 0.0) ** 2 for estimate in self.estimates], dtype=np.float64
        )
        is_exact: Mask = np.array([estimate.is_exact for estimate in self.estimates], dtype=np.bool_)
        positive = variances[~is_exact & (variances > 0)]
        # An estimated variance may be zero by chance, which must not fix the number.
        least = float(positive.min()) if len(positive) else 1.0
        return np.where(is_exact, 0.0, np.maximum(variances, least))
