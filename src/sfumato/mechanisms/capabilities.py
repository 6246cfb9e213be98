"""Defines the capabilities of mechanisms, which are small groups of functions that a mechanism may have.

A mechanism without a capability has None in its field. `sfumato.mechanisms.missing` lists the missing capabilities. A
command that needs a missing capability raises MissingCapabilityError with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato._core.array_types import Codes, Counts, Floats, Indices, Mask
from sfumato._core.cell_values import Value
from sfumato._core.json_types import Json
from sfumato._core.random_draws import Draws
from sfumato._records import CellContents, PerturbedRecords
from sfumato._records.tally import SideContents
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.schema import MergedValues
from sfumato._request.warnings import Notice

SpecT = TypeVar("SpecT", bound=PrivacySpec)
OptionsT = TypeVar("OptionsT")
PlanT = TypeVar("PlanT")
DesignT = TypeVar("DesignT")


class Capability:
    """A group of functions that a mechanism may have."""

    ABILITY: ClassVar[str]
    """What a mechanism without this capability cannot do, as the end of "the mechanism cannot ..."."""


@dataclass(frozen=True, kw_only=True)
class ErrorPrediction(Capability, Generic[PlanT]):
    """Predicts the errors of the default estimator from a plan, for the data steward."""

    ABILITY = "predict the errors of its counts"

    predict_variances: Callable[[PlanT, Floats, Floats], Floats]
    """The variance of the count of each value, if `counts` (the last argument) of `rows` rows have the value."""
    predict_set_variances: Callable[[PlanT, float, Sequence[Indices]], Floats]
    """The variance of the count of each set of values, if a share of the records of every value is counted."""


@dataclass(frozen=True, kw_only=True)
class ReleaseErrorPrediction(Capability, Generic[DesignT]):
    """Predicts the errors of the default estimator for analysts, from published data alone."""

    ABILITY = "predict errors from a release alone"

    predict_record_variances: Callable[[DesignT, SideContents | None], tuple[Floats, Floats] | None]
    """The variance that one record adds to the count of each value: if it has this value, and if it has another value.

    The other values are assumed to be equally frequent. The second argument has the contents of buckets or crowds, if
    there are any. The variance is not finite for a value that cannot be counted. The result is None if the error
    depends on further facts.
    """


@dataclass(frozen=True, slots=True)
class ValueColumn:
    """A column in the table of a plan's values: an entry of `explain` with a number for each value."""

    entry: str
    heading: str
    format_number: Callable[[Any], str]
    """Formats the number of a value."""
    placeholder: str = "-"
    """The text for a value without a number."""


@dataclass(frozen=True, slots=True)
class PlanTable:
    """A small table that the data steward sees beside a plan."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class PlanExplanation(Capability, Generic[PlanT]):
    """Explains a plan to the data steward. The explanation may contain counts."""

    ABILITY = "explain its plans"

    explain: Callable[[PlanT], Json]
    """The decisions of the plan, in JSON."""
    summarize: Callable[[PlanT], str]
    """The decisions of the plan in one line."""
    list_remarks: Callable[[PlanT], list[Notice]] = lambda plan: []
    """Warnings and notes about this plan."""
    remark_codes: tuple[str, ...] = ()
    """All codes that a remark can have. The same remark has the same code in all mechanisms."""
    list_tables: Callable[[PlanT], Sequence[PlanTable]] = lambda plan: ()
    """Further tables to show, such as the errors of other options."""
    value_columns: tuple[ValueColumn, ...] = ()
    """The entries of `explain` that are shown beside the values."""


@dataclass(frozen=True, kw_only=True)
class AttackModel(Capability, Generic[PlanT, DesignT]):
    """Gives the likelihoods with which an attacker updates beliefs.

    The likelihoods of each record are known up to a factor. There is one table (records by values) for each column that
    is protected on its own.
    """

    ABILITY = "be attacked by sfumato, so the attack success is unknown"

    compute_likelihoods: Callable[[PlanT, PerturbedRecords], Sequence[Floats]]
    """The likelihood of each perturbed record given each value, from a plan."""
    compute_published_likelihoods: Callable[[DesignT, Codes, Codes, Indices], Sequence[Floats]]
    """The likelihoods for some records of a release (last argument), from its design.

    The second argument has the published values of all records, and the third has their true values. An attacker who
    knows the frequencies of the values in each sub-table uses them.
    """


@dataclass(frozen=True, slots=True)
class Risk:
    """The disclosure risk from an attacker who knows a record's group in the table."""

    worst_posterior: float
    """The largest posterior of a protected value whose prior in its group is at most the bound's prior."""
    breached_share: float
    """The expected share of records whose published value raises such a posterior above the bound's posterior."""


@dataclass(frozen=True, kw_only=True)
class GroupRisk(Capability, Generic[PlanT]):
    """Measures the risk from an attacker who knows public columns.

    Marginal-prior mechanisms need this capability to publish.
    """

    ABILITY = "measure the risk from an attacker who knows a public column"

    measure: Callable[[PlanT, Counts], Risk]
    """The risk from an attacker who knows the counts of the values (columns) in each group of the table (rows)."""


@dataclass(frozen=True, kw_only=True)
class Comparability(Capability, Generic[SpecT, DesignT]):
    """Relates the requests of this mechanism to a bound that makes all mechanisms comparable."""

    ABILITY = "be compared with other mechanisms at the same bound"

    match_posterior: Callable[[BreachBound, Sequence[Value]], SpecT]
    """The request under which a belief within the bound's prior rises to its posterior and no further.

    The limit holds against the attackers that the mechanism's guarantee covers, for the values of a domain.
    """
    read_request: Callable[[DesignT], PrivacySpec | None]
    """The request for which a design was made, with its limits on beliefs; None if the design does not record it."""


WeightColumns = Mapping[str, npt.NDArray[np.generic] | Sequence[str]]
"""The columns of weights.parquet by their names."""


@dataclass(frozen=True, kw_only=True)
class EstimationWeights(Capability, Generic[DesignT]):
    """Writes weights.parquet, with which any SQL tool estimates counts."""

    ABILITY = "give estimation weights"

    make_weights: Callable[[DesignT], WeightColumns | None]
    """The columns of weights.parquet, with values as indices in the domain; None if there would be too many lines.

    One of three forms:
    - `cell`, `value`, `if_equal` and `otherwise`;
    - for sets, `place` instead of `cell`, and for sets of several levels also `level`, `per_sibling` and `siblings`;
    - `value`, `published` and `weight`, a line for each pair.
    """


@dataclass(frozen=True, kw_only=True)
class BucketTable(Capability, Generic[PlanT]):
    """Publishes the values of each bucket in a separate table."""

    ABILITY = "publish the contents of buckets"

    list_contents: Callable[[PlanT], CellContents]
    """Lists the lines of this table."""


@dataclass(frozen=True, slots=True)
class CoarseCounts:
    """A coarse table beside the counts of crowds: the counts of all people by some of the public columns."""

    columns: tuple[str, ...]
    """The names of the columns."""
    draw_noise: Callable[[int, int, Draws], Counts]
    """The noise of each value (columns) in some groups (rows), given the first group and the number of groups."""
    estimate: Callable[[Counts, Counts], Floats]
    """The estimated counts, given the people and the noisy counts of each group."""


@dataclass(frozen=True, kw_only=True)
class CrowdCounts(Capability, Generic[PlanT]):
    """Publishes counts of people with equal public columns, with noise that does not depend on any record.

    The engine counts the people and adds the noise. The mechanism never sees a count.
    """

    ABILITY = "publish counts of people with equal public columns"

    is_crowd: Callable[[PlanT, Counts], Mask]
    """Whether groups of these sizes publish counts. The sizes are public."""
    draw_noise: Callable[[PlanT, int, int, Draws], Counts]
    """The noise of each value (columns) in some crowds (rows), given the first crowd and the number of crowds."""
    estimate: Callable[[PlanT, Counts, Counts], Floats]
    """The estimated counts that are published beside the noisy ones, given the people of each crowd."""
    list_coarse_columns: Callable[[Any], Sequence[tuple[str, ...]]] = lambda options: ()
    """The columns of each coarse table that the mechanism's options request."""
    list_coarse_counts: Callable[[PlanT], Sequence[CoarseCounts]] = lambda plan: ()
    """The coarse tables of a plan, each with noise of its own."""


@dataclass(frozen=True, kw_only=True)
class CrowdAttackModel(Capability, Generic[DesignT]):
    """Gives the distributions with which an attacker learns from the counts of people with equal public columns.

    A mechanism that publishes such counts needs this capability beside the likelihoods of its records.
    """

    ABILITY = "be attacked by sfumato through its counts, so the attack success is unknown"

    list_noise_probabilities: Callable[[DesignT], Floats]
    """The probabilities of the noise of one count, from the most negative number to the most positive one."""
    list_moved_probabilities: Callable[[DesignT], Floats]
    """The probabilities that the noise of a crowd moves 0, 1, 2, ... units.

    Moved units are half the sum of the absolute noise.
    """
    compute_count_likelihoods: Callable[[DesignT, Counts], Floats]
    """The likelihood of each value (columns) of some people (rows), up to a factor for each person.

    The second argument has the noisy counts of each person's crowd minus the true counts of all its other people.
    """


ColumnCounts = Mapping[str, tuple[Sequence[Value], Sequence[int]]]
"""The values of each sensitive column, and the number of records with each."""


@dataclass(frozen=True, kw_only=True)
class Coarsening(Capability, Generic[SpecT, OptionsT]):
    """Merges values that are too rare to be protected."""

    ABILITY = "merge rare values"

    merge_rare_values: Callable[[ColumnCounts, SpecT, OptionsT], dict[str, MergedValues]]
    """The values of each column to publish as one value; none unless the options request it."""


@dataclass(frozen=True, kw_only=True)
class SeveralColumns(Capability):
    """Protects several sensitive columns, each on its own."""

    ABILITY = "protect several sensitive columns, each on its own"

    max_combinations: int
    """The largest number of combinations that the values of these columns may have."""
