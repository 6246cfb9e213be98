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
from papers.coded_table import CodedTable, ColumnCodes, Taken
from papers.experiment import Conditions
from papers.experiment_tables import TableSample
from papers.query_pools import Band, Pool, within
from sfumato._comparison.comparison_baselines import compute_laplace_scale
from sfumato._core.arrays import Codes, Counts, Floats, Numbers, Places
from sfumato._core.cell_values import Scalar
from sfumato._core.random_draws import Draws
from sfumato._perturb.random_slots import Slots
from sfumato._records.tally import Holdings, Tally
from sfumato._request.group_requirements import DecoyGroups, Diversity
from sfumato._request.histogram import Histogram, compute_margins
from sfumato._request.schema import Schema
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy
from sfumato.mechanisms._bucketization.buckets import list_contents
from sfumato.mechanisms._decoys.splu_iteration import MOST_ROUNDS, run_iteration
from sfumato.mechanisms.estimator import Moments

PRINTED, BY_ORDER, OURS, SHRUNK = "printed", "printed, ties by order", "ours", "ours, shrunk"
ANATOMY, INVERTED, DBR = "Anatomy", "Anatomy, inverted", "DBR"
LAPLACE = {"Laplace ln 2": math.log(2), "Laplace ln 3": math.log(3)}
CONSTANT, GUESS = "always 2", 2
CREATIONS = {PRINTED: _decoys.Creation.ANATOMY_RANDOM, BY_ORDER: _decoys.Creation.ANATOMY}
BUCKET_METHODS = {ANATOMY: "uniform", INVERTED: "inverse"}
MOST_BUCKETS = 1 << 20
"""Whose contents are listed at a time."""

Found = dict[str, Floats]
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
        table = CodedTable.of(sample.table, sample.sensitive)
        pool = within(table, conditions.seed, band, size=queries)
        return cls(table, pool, (table.sensitive.size,), (sample.sensitive,))

    @classmethod
    def of_two(cls, conditions: Conditions, sample: TableSample, other: str, band: Band, queries: int) -> QueriedTable:
        """The same for two sensitive columns: values are combinations."""
        both = CodedTable.of(sample.table, sample.sensitive)
        first, second = both.public[other], both.sensitive
        domain = cast("tuple[Scalar, ...]", tuple(product(first.domain, second.domain)))
        codes = first.codes.astype(np.int64) * second.size + second.codes
        public = {name: column for name, column in both.public.items() if name != other}
        table = CodedTable(public, ColumnCodes(codes, domain))
        pool = within(table, conditions.seed, band, size=queries)
        return cls(table, pool, (first.size, second.size), (other, sample.sensitive))

    @cached_property
    def histogram(self) -> Histogram:
        """How often each value, or combination, occurs."""
        counts = np.bincount(self.table.sensitive.codes, minlength=self.table.sensitive.size)
        axes = self.sizes if len(self.sizes) > 1 else ()
        return Histogram.of(self.table.sensitive.domain, counts.tolist(), axes)

    @cached_property
    def wheres(self) -> list[Taken]:
        """The condition of each query, in codes."""
        codes = {name: _numbers(column) for name, column in self.table.public.items()}
        return [
            {name: [codes[name][cast("Scalar", value)]] for name, value in query.where.items()}
            for query in self.pool.queries
        ]

    @cached_property
    def places(self) -> Places:
        """The value of each query, in codes of each sensitive column: a row for each query."""
        numbers = _numbers(self.table.sensitive)
        values = [cast("Scalar", next(iter(query.values or ()))) for query in self.pool.queries]
        return np.stack(np.unravel_index([numbers[value] for value in values], self.sizes), axis=1)

    @cached_property
    def lines(self) -> tuple[list[Taken], Places]:
        """The different conditions, and which of them each query has."""
        numbers: dict[tuple[tuple[str, int], ...], int] = {}
        different: list[Taken] = []
        line_of = []
        for where in self.wheres:
            key = tuple(sorted((name, codes[0]) for name, codes in where.items()))
            if key not in numbers:
                numbers[key] = len(different)
                different.append(where)
            line_of.append(numbers[key])
        return different, np.array(line_of)

    @cached_property
    def combined(self) -> Places:
        """The value of each query, as a code of combinations."""
        return np.asarray(np.ravel_multi_index(tuple(self.places.T), self.sizes))

    def shown(self, codes: Codes, size: int | None = None) -> CodedTable:
        """The table with something else in the place of its sensitive values, as it may be published."""
        domain = self.table.sensitive.domain if size is None else (None,) * size
        return replace(self.table, sensitive=ColumnCodes(codes, domain))

    def counted(self, codes: Codes, columns: Sequence[bool]) -> Counts:
        """How many records of each query's condition publish its value in some of the sensitive columns."""
        grid = np.arange(math.prod(self.sizes)).reshape(self.sizes)
        taken = [
            grid[tuple(place if chosen else slice(None) for place, chosen in zip(row, columns, strict=True))]
            for row in self.places.tolist()
        ]
        return self.shown(codes).found(self.wheres, [np.atleast_1d(each).ravel().tolist() for each in taken])

    def states(self, codes: Codes) -> Floats:
        """For each query how many records are in each state of the paper: the condition, then each sensitive value."""
        whole = np.bincount(codes, minlength=math.prod(self.sizes)).reshape(self.sizes)
        inside, everywhere = [], []
        for columns in product((False, True), repeat=len(self.sizes)):
            rest = tuple(axis for axis, chosen in enumerate(columns) if not chosen)
            chosen_places = tuple(self.places[:, axis] for axis, chosen in enumerate(columns) if chosen)
            margin = whole.sum(axis=rest)
            everywhere.append(margin[chosen_places] if chosen_places else np.repeat(margin, len(self.pool)))
            inside.append(self.counted(codes, columns))
        selected, all_records = _states(np.stack(inside, axis=1)), _states(np.stack(everywhere, axis=1))
        return np.concatenate([all_records - selected, selected], axis=1).astype(np.float64)


def _numbers(column: ColumnCodes) -> dict[Scalar, int]:
    return {value: number for number, value in enumerate(column.domain)}


def _states(counts: Counts) -> Counts:
    """From records that publish at least some values to those that publish exactly these."""
    found = counts.copy()
    bits = counts.shape[1].bit_length() - 1
    for bit in range(bits):
        either = found.reshape(len(found), 1 << bit, 2, -1)
        either[:, :, 0] -= either[:, :, 1]
    return found


@dataclass(frozen=True)
class RepeatDraws:
    """Draws as a release has them with the same key: what is measured is what would be published."""

    whole: Draws
    """For groups and buckets."""
    column: Draws
    """For what each record publishes."""
    columns: tuple[Draws, ...]
    """For the ranks of records in each sensitive column."""

    @classmethod
    def of(cls, conditions: Conditions, trial: QueriedTable, number: int) -> RepeatDraws:
        """The key of a repeat."""
        whole = Draws.unsafe_test_key(conditions.key(number))
        name = Schema.of(trial.names).sensitive
        return cls(whole, whole.for_column(name), tuple(map(whole.for_column, trial.names)))

    def slots(self, trial: QueriedTable, purpose: str) -> Numbers:
        """The slot of each record among those of its value, for each sensitive column if there are several."""
        codes = _decoys.split_codes(trial.table.sensitive.codes, trial.sizes)
        held = compute_margins(trial.histogram.counts, trial.sizes)
        found = [
            Slots(draws, purpose, counts.tolist())(own, np.zeros(len(counts), dtype=np.int64))
            for draws, own, counts in zip(self.columns, codes, held, strict=True)
        ]
        return np.stack(found) if len(found) > 1 else found[0]


def published(
    conditions: Conditions, trial: QueriedTable, group_size: int, number: int, creation: _decoys.Creation
) -> tuple[_decoys.Design, Codes]:
    """Decoys: their design, and what each record publishes."""
    key, codes = RepeatDraws.of(conditions, trial, number), trial.table.sensitive.codes
    plan = _decoys.plan(trial.histogram, DecoyGroups(group_size), _decoys.Options(creation), key.whole)
    made = _decoys.replace(plan, codes, key.slots(trial, _decoys.NAME), key.column, 0)
    return _decoys.design(plan), np.asarray(made.values)


def iterate(
    conditions: Conditions,
    trial: QueriedTable,
    group_size: int,
    number: int,
    creation: _decoys.Creation = CREATIONS[PRINTED],
) -> tuple[Floats, Counts]:
    """The printed iteration on printed groups: what it finds, and after how many rounds."""
    _, codes = published(conditions, trial, group_size, number, creation)
    most = conditions.either(QUICK_ROUNDS, MOST_ROUNDS)
    found, rounds = run_iteration(trial.states(codes), (group_size,) * len(trial.sizes), most_rounds=most)
    return np.asarray(found[:, -1]), rounds


def ours(conditions: Conditions, trial: QueriedTable, group_size: int, number: int, name: str = OURS) -> Moments:
    """Our decoys by their default estimator, or shrunk: the answers, with their errors."""
    design, codes = published(conditions, trial, group_size, number, _decoys.Creation.MIXED)
    table, (different, line_of) = trial.shown(codes), trial.lines
    tally = Tally.of_symbols(np.stack([table.held(where) for where in different]))
    tally = tally.beside(Tally.of_symbols(table.held({})), None)
    places = np.unique(trial.combined)
    groups = [np.flatnonzero(trial.combined == place) for place in places]
    if name == SHRUNK:  # it looks at all values of a condition whatever is asked, so all is asked at once
        found = _decoys.MECHANISM.estimators["shrunk"].count(design, tally, [np.array([place]) for place in places])
        parts = [moments.take(line_of[group]) for moments, group in zip(found, groups, strict=True)]
    else:
        method = _decoys.MECHANISM.estimators[_decoys.choose_estimator(design)]
        parts = [
            method.count(design, tally.take(line_of[group]), [np.array([place])])[0]
            for place, group in zip(places, groups, strict=True)
        ]
    return Moments.joined(parts).take(np.argsort(np.concatenate(groups)))


def buckets(conditions: Conditions, trial: QueriedTable, size: int, number: int, methods: Mapping[str, str]) -> Found:
    """Anatomy with as many different values in a bucket, by some of its estimators."""
    made, key, codes = anatomy.MECHANISM, RepeatDraws.of(conditions, trial, number), trial.table.sensitive.codes
    plan = anatomy.plan(trial.histogram, Diversity(size), anatomy.Options(), key.whole)
    cells = made.perturb(plan, codes, key.slots(trial, anatomy.NAME), key.column, 0).cells
    batches = list_contents(plan).batches(MOST_BUCKETS)
    held = [np.concatenate(each).astype(np.int64) for each in zip(*batches, strict=True)]
    holdings = Holdings(held[0], held[1], held[2], domain_size=trial.histogram.domain_size)
    design, table, (different, line_of) = made.design(plan), trial.shown(np.asarray(cells), plan.size), trial.lines
    found = {name: np.zeros(len(trial.pool)) for name in methods}
    for line, where in enumerate(different):  # one by one: a line is as long as there are buckets
        tally = Tally.of_symbols(table.held(where)).beside(None, holdings)
        mine = np.flatnonzero(line_of == line)
        wanted = [np.array([place]) for place in trial.combined[mine]]
        for name, method in methods.items():
            counted = made.estimators[method].count(design, tally, wanted)
            found[name][mine] = [moments.value[0] for moments in counted]
    return found


def afresh(conditions: Conditions, trial: QueriedTable, number: int) -> Floats:
    """Values drawn afresh, each column for itself."""
    rows, codes = trial.table.rows, np.zeros(1, dtype=np.int64)
    held = compute_margins(trial.histogram.counts, trial.sizes)
    for draws, counts in zip(RepeatDraws.of(conditions, trial, number).columns, held, strict=True):
        codes = codes * len(counts) + distribution_based.redraw(counts.tolist(), rows, draws)
    return trial.counted(codes, [True] * len(trial.sizes)).astype(np.float64)


def answers(conditions: Conditions, trial: QueriedTable, group_size: int, number: int, names: Sequence[str]) -> Found:
    """What each of some contestants answers to the pool, in one of several repeats."""
    found: Found = {}
    for name in names:
        if name in CREATIONS:
            found[name], _ = iterate(conditions, trial, group_size, number, CREATIONS[name])
        elif name in (OURS, SHRUNK):
            found[name] = ours(conditions, trial, group_size, number, name).value
        elif name == DBR:
            found[name] = afresh(conditions, trial, number)
    asked = {name: BUCKET_METHODS[name] for name in names if name in BUCKET_METHODS}
    return found | (buckets(conditions, trial, group_size, number, asked) if asked else {})


def without_table(trial: QueriedTable) -> dict[str, float]:
    """The mean relative error of those who publish none: noise, whose mean is exact, and one answer to everything."""
    truths = trial.pool.truths
    noise = {name: float((compute_laplace_scale(epsilon) / truths).mean()) for name, epsilon in LAPLACE.items()}
    return {**noise, CONSTANT: float((np.abs(GUESS - truths) / truths).mean())}
