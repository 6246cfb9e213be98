"""Defines the capabilities of mechanisms: small groups of functions, each of which a mechanism has or does not have.

A mechanism without a capability has None in its place. `sfumato.mechanisms.missing` lists these, and a command that
needs one says which it is (`MissingCapabilityError`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Codes, Counts, Floats, Indices
from sfumato._core.cell_values import Value
from sfumato._core.json_types import Json
from sfumato._records import CellContents, PerturbedRecords
from sfumato._records.tally import Holdings
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.schema import MergedValues
from sfumato._request.warnings import Notice

SpecT = TypeVar("SpecT", bound=PrivacySpec)
OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT")
DesignT = TypeVar("DesignT")


class Capability:
    """Something that a mechanism may be able to do."""

    ABILITY: ClassVar[str]
    """What a mechanism without it cannot do, as the end of "the mechanism cannot ..."."""


@dataclass(frozen=True, kw_only=True)
class ErrorPrediction(Capability, Generic[PlanT]):
    """Predicts the errors of the default estimator from a plan, for the data steward."""

    ABILITY = "predict the errors of its counts"

    predict_variances: Callable[[PlanT, Floats, Floats], Floats]
    """The variance of the count of each value, if it is held by `counts` (last) of `rows` rows."""
    predict_set_variances: Callable[[PlanT, float, Sequence[Indices]], Floats]
    """The variance of the count of each set of values, among a share of the records of every value."""


@dataclass(frozen=True, kw_only=True)
class ReleaseErrorPrediction(Capability, Generic[DesignT]):
    """Predicts the errors of the default estimator from what is published alone, for analysts."""

    ABILITY = "predict errors from a release alone"

    predict_record_variances: Callable[[DesignT, Holdings | None], tuple[Floats, Floats] | None]
    """The variance that one record adds to the count of each value: if it holds the value, and if it holds another.

    The other values are taken to be equally frequent. The second argument is what buckets hold, if there are any. Not
    finite for a value that cannot be counted; None where the error depends on more."""


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column beside the values of a plan: an entry of `explain` that has a number for each value."""

    entry: str
    heading: str
    format_number: Callable[[Any], str]
    """Writes the number of a value."""
    placeholder: str = "-"
    """Stands for a value that has none."""


@dataclass(frozen=True, slots=True)
class PlanTable:
    """A small table that the data steward sees beside a plan."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class PlanExplanation(Capability, Generic[PlanT]):
    """Explains a plan to the data steward. It may contain counts."""

    ABILITY = "explain its plans"

    explain: Callable[[PlanT], Json]
    """The decisions of the plan, in JSON."""
    summarize: Callable[[PlanT], str]
    """The same in one line."""
    list_remarks: Callable[[PlanT], list[Notice]] = lambda plan: []
    """Warnings and notes about this plan."""
    remark_codes: tuple[str, ...] = ()
    """Every code that a remark can have; mechanisms that remark the same have the same code."""
    list_tables: Callable[[PlanT], Sequence[PlanTable]] = lambda plan: ()
    """Further tables to show, such as the errors of other options."""
    value_columns: tuple[ValueColumn, ...] = ()
    """The entries of `explain` to show beside the values."""


@dataclass(frozen=True, kw_only=True)
class AttackModel(Capability, Generic[PlanT, DesignT]):
    """Gives the likelihoods by which an attacker updates beliefs.

    Likelihoods are up to a factor for each record. There is one table (records by values) for each column that is
    protected by itself.
    """

    ABILITY = "be attacked, so nobody can tell how well its records are guessed"

    compute_likelihoods: Callable[[PlanT, PerturbedRecords], Sequence[Floats]]
    """The likelihood of each perturbed record, given each value; from a plan."""
    compute_published_likelihoods: Callable[[DesignT, Codes, Codes, Indices], Sequence[Floats]]
    """The same for some records of a release (last argument), from its design.

    The second argument is what all its records show, the third what they hold: for an attacker who knows how frequent
    the values of each cell are."""


@dataclass(frozen=True, slots=True)
class Risk:
    """The disclosure risk that an attacker adds who knows a record's group in the table."""

    worst_posterior: float
    """The largest posterior of a protected value whose prior in its group is within the bound's."""
    breached_share: float
    """The expected share of records whose published value lifts such a posterior above the bound's."""


@dataclass(frozen=True, kw_only=True)
class GroupRisk(Capability, Generic[PlanT]):
    """Measures the risk from an attacker who knows public columns; a marginal-prior mechanism needs it to publish."""

    ABILITY = "measure what an attacker learns who knows a public column"

    measure: Callable[[PlanT, Counts], Risk]
    """The risk from an attacker who knows the counts of the values (columns) in each group of the table (rows)."""


@dataclass(frozen=True, kw_only=True)
class Comparability(Capability, Generic[SpecT, DesignT]):
    """Relates the requests of this mechanism to a bound that all mechanisms can be compared at."""

    ABILITY = "be compared with others at one bound"

    match_posterior: Callable[[BreachBound, Sequence[Value]], SpecT]
    """The request under which a belief within the bound's prior rises to its posterior and no further.

    It holds against the attackers whom the mechanism's guarantee covers, for the values of a domain."""
    read_request: Callable[[DesignT], PrivacySpec | None]
    """The request that a design was made for, which limits the belief in each value; None where it does not tell."""


WeightColumns = Mapping[str, npt.NDArray[np.generic] | Sequence[str]]
"""The columns of weights.parquet by their names."""


@dataclass(frozen=True, kw_only=True)
class EstimationWeights(Capability, Generic[DesignT]):
    """Writes weights.parquet, with which any SQL tool estimates counts."""

    ABILITY = "give estimation weights"

    make_weights: Callable[[DesignT], WeightColumns | None]
    """The columns of weights.parquet, with values as indices in the domain; None where there would be too many lines.

    Either `cell`, `value`, `if_equal` and `otherwise`; or for sets `place` instead of the cell, and for sets of several
    levels `level`, `per_sibling` and `siblings` too; or `value`, `published` and `weight`, a line for each pair."""


@dataclass(frozen=True, kw_only=True)
class BucketTable(Capability, Generic[PlanT]):
    """Publishes the values of each bucket in a table beside the records."""

    ABILITY = "publish what buckets hold"

    list_contents: Callable[[PlanT], CellContents]
    """The lines of that table."""


ColumnCounts = Mapping[str, tuple[Sequence[Value], Sequence[int]]]
"""The values of each sensitive column, and how many records hold each."""


@dataclass(frozen=True, kw_only=True)
class Coarsening(Capability, Generic[SpecT, OptionsT]):
    """Merges values that are too rare to be protected."""

    ABILITY = "merge rare values"

    merge_rare_values: Callable[[ColumnCounts, SpecT, OptionsT], dict[str, MergedValues]]
    """The values of each column to publish as one; none where the options do not ask for it."""


@dataclass(frozen=True, kw_only=True)
class SeveralColumns(Capability):
    """Protects several sensitive columns, each by itself."""

    ABILITY = "protect several sensitive columns each by itself"

    max_combinations: int
    """The largest number of combinations that the values of these columns may have."""
