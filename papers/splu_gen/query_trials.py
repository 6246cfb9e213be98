"""The queries of small sums, section 6.1, and those who answer them: decoys as printed, ours, and what others do.

Decoys as printed have the paper's groups, the fullest values first, and its iteration with its rule of 1%. Ties of
equally full values, of which the paper does not say how it breaks them, are broken at random, which is to its favour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import cast

import numpy as np

from papers.baselines import distribution_based
from papers.coded_table import CodedTable, CodesByColumn, ColumnCodes
from papers.experiment import Conditions
from papers.experiment_tables import TableSample
from papers.query_pools import Band, Pool, draw_band_pool
from sfumato._comparison.comparison_baselines import compute_laplace_scale
from sfumato._core.array_types import Codes, Counts, Floats, Numbers, Places
from sfumato._core.cell_values import Scalar
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Slots
from sfumato._records.tally import Holdings, Tally
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity
from sfumato._request.histogram import Histogram, compute_margins
from sfumato._request.schema import Schema
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization.buckets import list_contents
from sfumato.mechanisms._decoys.splu_iteration import MOST_ROUNDS, run_iteration
from sfumato.mechanisms.estimator import Moments

PRINTED, BY_ORDER, OURS, SHRUNK = "printed", "printed, ties by order", "ours", "ours, shrunk"
ANATOMY, INVERTED, DBR = "Anatomy", "Anatomy, inverted", "DBR"
LAPLACE = {"Laplace ln 2": math.log(2), "Laplace ln 3": math.log(3)}
CONSTANT, GUESS = "always 2", 2
CREATIONS = {PRINTED: _decoys.GroupCreation.ANATOMY_RANDOM, BY_ORDER: _decoys.GroupCreation.ANATOMY}
BUCKET_METHODS = {ANATOMY: "uniform", INVERTED: "inverse"}
MOST_BUCKETS = 1 << 20
"""Whose contents are listed at a time."""

AnswersByName = dict[str, Floats]
"""The answers of each contestant to the queries of a pool."""

QUICK_ROUNDS = 400
"""Of the printed iteration in a quick run: estimates that die out are near nought by then."""


@dataclass(frozen=True, eq=False)
class QueriedTable:
    """A table with a pool of queries, each for one value, or for one of each of several sensitive columns."""

    table: CodedTable
    pool: Pool
    sizes: tuple[int, ...]
    """How many values each sensitive column has; codes are those of combinations."""
    names: tuple[str, ...]
    """What the sensitive columns are called."""

    @classmethod
    def of(cls, conditions: Conditions, sample: TableSample, band: Band, queries: int) -> QueriedTable:
        """The paper's pool for one sensitive column."""
        table = CodedTable.of(sample.table, sample.sensitive_column)
        pool = draw_band_pool(table, conditions.seed, band, size=queries)
        return cls(table, pool, (table.sensitive.size,), (sample.sensitive_column,))

    @classmethod
    def from_two_columns(
        cls, conditions: Conditions, sample: TableSample, other: str, band: Band, queries: int
    ) -> QueriedTable:
        """The same for two sensitive columns: values are combinations."""
        coded_table = CodedTable.of(sample.table, sample.sensitive_column)
        first, second = coded_table.public_columns[other], coded_table.sensitive
        domain = cast("tuple[Scalar, ...]", tuple(product(first.domain, second.domain)))
        codes = first.codes.astype(np.int64) * second.size + second.codes
        public = {name: column for name, column in coded_table.public_columns.items() if name != other}
        table = CodedTable(public, ColumnCodes(codes, domain))
        pool = draw_band_pool(table, conditions.seed, band, size=queries)
        return cls(table, pool, (first.size, second.size), (other, sample.sensitive_column))

    @cached_property
    def histogram(self) -> Histogram:
        """How often each value, or combination, occurs."""
        counts = np.bincount(self.table.sensitive.codes, minlength=self.table.sensitive.size)
        axes = self.sizes if len(self.sizes) > 1 else ()
        return Histogram.of(self.table.sensitive.domain, counts.tolist(), axes)

    @cached_property
    def query_conditions(self) -> list[CodesByColumn]:
        """The condition of each query, in codes."""
        codes = {name: _map_numbers(column) for name, column in self.table.public_columns.items()}
        return [
            {name: [codes[name][cast("Scalar", value)]] for name, value in query.where.items()}
            for query in self.pool.queries
        ]

    @cached_property
    def places(self) -> Places:
        """The value of each query, in codes of each sensitive column: a row for each query."""
        numbers = _map_numbers(self.table.sensitive)
        values = [cast("Scalar", next(iter(query.values or ()))) for query in self.pool.queries]
        return np.stack(np.unravel_index([numbers[value] for value in values], self.sizes), axis=1)

    @cached_property
    def distinct_conditions(self) -> tuple[list[CodesByColumn], Places]:
        """The different conditions, and which of them each query has."""
        numbers: dict[tuple[tuple[str, int], ...], int] = {}
        different: list[CodesByColumn] = []
        line_of = []
        for where in self.query_conditions:
            key = tuple(sorted((name, codes[0]) for name, codes in where.items()))
            if key not in numbers:
                numbers[key] = len(different)
                different.append(where)
            line_of.append(numbers[key])
        return different, np.array(line_of)

    @cached_property
    def combined_places(self) -> Places:
        """The value of each query, as a code of combinations."""
        return np.asarray(np.ravel_multi_index(tuple(self.places.T), self.sizes))

    def replace_sensitive(self, codes: Codes, size: int | None = None) -> CodedTable:
        """The table with something else in the place of its sensitive values, as it may be published."""
        domain = self.table.sensitive.domain if size is None else (None,) * size
        return replace(self.table, sensitive=ColumnCodes(codes, domain))

    def count_queries(self, codes: Codes, columns: Sequence[bool]) -> Counts:
        """How many records of each query's condition publish its value in some of the sensitive columns."""
        grid = np.arange(math.prod(self.sizes)).reshape(self.sizes)
        combination_codes = [
            grid[tuple(place if chosen else slice(None) for place, chosen in zip(row, columns, strict=True))]
            for row in self.places.tolist()
        ]
        return self.replace_sensitive(codes).count_questions(
            self.query_conditions, [np.atleast_1d(query_codes).ravel().tolist() for query_codes in combination_codes]
        )

    def count_states(self, codes: Codes) -> Floats:
        """For each query how many records are in each state of the paper: the condition, then each sensitive value."""
        whole = np.bincount(codes, minlength=math.prod(self.sizes)).reshape(self.sizes)
        inside, everywhere = [], []
        for columns in product((False, True), repeat=len(self.sizes)):
            rest = tuple(axis for axis, chosen in enumerate(columns) if not chosen)
            chosen_places = tuple(self.places[:, axis] for axis, chosen in enumerate(columns) if chosen)
            margin = whole.sum(axis=rest)
            everywhere.append(margin[chosen_places] if chosen_places else np.repeat(margin, len(self.pool)))
            inside.append(self.count_queries(codes, columns))
        selected, all_records = _split_states(np.stack(inside, axis=1)), _split_states(np.stack(everywhere, axis=1))
        return np.concatenate([all_records - selected, selected], axis=1).astype(np.float64)


def _map_numbers(column: ColumnCodes) -> dict[Scalar, int]:
    return {value: number for number, value in enumerate(column.domain)}


def _split_states(counts: Counts) -> Counts:
    """From records that publish at least some values to those that publish exactly these."""
    state_counts = counts.copy()
    bits = counts.shape[1].bit_length() - 1
    for bit in range(bits):
        either = state_counts.reshape(len(state_counts), 1 << bit, 2, -1)
        either[:, :, 0] -= either[:, :, 1]
    return state_counts


@dataclass(frozen=True)
class RepeatDraws:
    """Draws as a release has them with the same key: what is measured is what would be published."""

    table_draws: Draws
    """For groups and buckets."""
    column_draws: Draws
    """For what each record publishes."""
    draws_by_column: tuple[Draws, ...]
    """For the ranks of records in each sensitive column."""

    @classmethod
    def of(cls, conditions: Conditions, trial: QueriedTable, number: int) -> RepeatDraws:
        """The key of a repeat."""
        table_draws = Draws.unsafe_test_key(conditions.make_key(number))
        name = Schema.of(trial.names, public="*").sensitive_name
        return cls(
            table_draws, table_draws.narrow_to_column(name), tuple(map(table_draws.narrow_to_column, trial.names))
        )

    def draw_slots(self, trial: QueriedTable, purpose: str) -> Numbers:
        """The slot of each record among those of its value, for each sensitive column if there are several."""
        codes = _decoys.split_codes(trial.table.sensitive.codes, trial.sizes)
        margins = compute_margins(trial.histogram.counts, trial.sizes)
        slots = [
            Slots(draws, purpose, counts.tolist())(column_codes, np.zeros(len(counts), dtype=np.int64))
            for draws, column_codes, counts in zip(self.draws_by_column, codes, margins, strict=True)
        ]
        return np.stack(slots) if len(slots) > 1 else slots[0]


def publish_decoys(
    conditions: Conditions, trial: QueriedTable, group_size: int, number: int, creation: _decoys.GroupCreation
) -> tuple[_decoys.Design, Codes]:
    """Decoys: their design, and what each record publishes."""
    key, codes = RepeatDraws.of(conditions, trial, number), trial.table.sensitive.codes
    plan = _decoys.plan(trial.histogram, DecoyGroups(group_size), _decoys.Options(creation), key.table_draws)
    decoys = _decoys.perturb(plan, codes, key.draw_slots(trial, _decoys.NAME), key.column_draws, 0)
    return _decoys.make_design(plan), np.asarray(decoys.values)


def iterate(
    conditions: Conditions,
    trial: QueriedTable,
    group_size: int,
    number: int,
    creation: _decoys.GroupCreation = CREATIONS[PRINTED],
) -> tuple[Floats, Counts]:
    """The printed iteration on printed groups: what it finds, and after how many rounds."""
    _, codes = publish_decoys(conditions, trial, group_size, number, creation)
    most = conditions.choose(QUICK_ROUNDS, MOST_ROUNDS)
    estimates, rounds = run_iteration(trial.count_states(codes), (group_size,) * len(trial.sizes), most_rounds=most)
    return np.asarray(estimates[:, -1]), rounds


def count_ours(conditions: Conditions, trial: QueriedTable, group_size: int, number: int, name: str = OURS) -> Moments:
    """Our decoys by their default estimator, or shrunk: the answers, with their errors."""
    design, codes = publish_decoys(conditions, trial, group_size, number, _decoys.GroupCreation.MIXED)
    table, (different, line_of) = trial.replace_sensitive(codes), trial.distinct_conditions
    tally = Tally.of_symbols(np.stack([table.count_values(where) for where in different]))
    tally = tally.attach_context(Tally.of_symbols(table.count_values({})), None)
    places = np.unique(trial.combined_places)
    groups = [np.flatnonzero(trial.combined_places == place) for place in places]
    if name == SHRUNK:  # it looks at all values of a condition whatever is asked, so all is asked at once
        moments_by_place = _decoys.MECHANISM.estimators["shrunk"].count(
            design, tally, [np.array([place]) for place in places]
        )
        parts = [moments.take(line_of[group]) for moments, group in zip(moments_by_place, groups, strict=True)]
    else:
        method = _decoys.MECHANISM.estimators[_decoys.choose_estimator(design)]
        parts = [
            method.count(design, tally.take(line_of[group]), [np.array([place])])[0]
            for place, group in zip(places, groups, strict=True)
        ]
    return Moments.concatenate(parts).take(np.argsort(np.concatenate(groups)))


def count_anatomy(
    conditions: Conditions, trial: QueriedTable, size: int, number: int, methods: Mapping[str, str]
) -> AnswersByName:
    """Anatomy with as many different values in a bucket, by some of its estimators."""
    mechanism, key, codes = anatomy.MECHANISM, RepeatDraws.of(conditions, trial, number), trial.table.sensitive.codes
    plan = anatomy.plan(trial.histogram, Diversity(size), anatomy.Options(), key.table_draws)
    cells = mechanism.perturb(plan, codes, key.draw_slots(trial, anatomy.NAME), key.column_draws, 0).cells
    batches = list_contents(plan).iter_batches(MOST_BUCKETS)
    contents = [np.concatenate(arrays).astype(np.int64) for arrays in zip(*batches, strict=True)]
    holdings = Holdings(contents[0], contents[1], contents[2], domain_size=trial.histogram.domain_size)
    design, table, (different, line_of) = (
        mechanism.make_design(plan),
        trial.replace_sensitive(np.asarray(cells), plan.bucket_count),
        trial.distinct_conditions,
    )
    answers_by_name = {name: np.zeros(len(trial.pool)) for name in methods}
    for line, where in enumerate(different):  # one by one: a line is as long as there are buckets
        tally = Tally.of_symbols(table.count_values(where)).attach_context(None, holdings)
        query_numbers = np.flatnonzero(line_of == line)
        value_places = [np.array([place]) for place in trial.combined_places[query_numbers]]
        for name, method in methods.items():
            moments_by_query = mechanism.estimators[method].count(design, tally, value_places)
            answers_by_name[name][query_numbers] = [moments.value[0] for moments in moments_by_query]
    return answers_by_name


def count_redrawn(conditions: Conditions, trial: QueriedTable, number: int) -> Floats:
    """Values drawn afresh, each column for itself."""
    rows, codes = trial.table.rows, np.zeros(1, dtype=np.int64)
    margins = compute_margins(trial.histogram.counts, trial.sizes)
    for draws, counts in zip(RepeatDraws.of(conditions, trial, number).draws_by_column, margins, strict=True):
        codes = codes * len(counts) + distribution_based.redraw(counts.tolist(), rows, draws)
    return trial.count_queries(codes, [True] * len(trial.sizes)).astype(np.float64)


def collect_answers(
    conditions: Conditions, trial: QueriedTable, group_size: int, number: int, names: Sequence[str]
) -> AnswersByName:
    """What each of some contestants answers to the pool, in one of several repeats."""
    answers_by_name: AnswersByName = {}
    for name in names:
        if name in CREATIONS:
            answers_by_name[name], _ = iterate(conditions, trial, group_size, number, CREATIONS[name])
        elif name in (OURS, SHRUNK):
            answers_by_name[name] = count_ours(conditions, trial, group_size, number, name).value
        elif name == DBR:
            answers_by_name[name] = count_redrawn(conditions, trial, number)
    bucket_methods = {name: BUCKET_METHODS[name] for name in names if name in BUCKET_METHODS}
    return answers_by_name | (
        count_anatomy(conditions, trial, group_size, number, bucket_methods) if bucket_methods else {}
    )


def compute_baseline_errors(trial: QueriedTable) -> dict[str, float]:
    """The mean relative error of those who publish none: noise, whose mean is exact, and one answer to everything."""
    truths = trial.pool.truths
    noise = {name: float((compute_laplace_scale(epsilon) / truths).mean()) for name, epsilon in LAPLACE.items()}
    return {**noise, CONSTANT: float((np.abs(GUESS - truths) / truths).mean())}
