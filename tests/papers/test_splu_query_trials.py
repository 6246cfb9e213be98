"""What is measured for small sums is what a release would say, and what the mechanism says of the printed iteration."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from papers.experiment import Conditions
from papers.experiment_tables import TableSample
from papers.measured_errors import Contestant, publish_once
from papers.query_pools import Band
from papers.splu_gen import query_trials as trials
from papers.splu_gen.further_figures import covers_mean, covers_median, describe_match, group_ages
from papers.splu_gen.query_trials import QueriedTable
from refusals import refuses
from sfumato._records.tally import Tally
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity
from sfumato.errors import SourceError
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy

CONDITIONS = Conditions(is_quick=True)
ROWS = 1200
LARGE = Band("20 and more", 20)


@cache
def sample() -> TableSample:
    """Two public columns and two sensitive ones that go together."""
    chance = np.random.default_rng(7)
    first = chance.integers(0, 6, ROWS)
    second = (first + chance.integers(0, 4, ROWS)) % 8
    columns = {"sex": first % 2, "place": (second + chance.integers(0, 2, ROWS)) % 5, "work": first, "illness": second}
    table = pa.table({name: pa.array([f"{name} {code}" for code in codes]) for name, codes in columns.items()})
    return TableSample(table, "illness", "drawn")


@cache
def one() -> QueriedTable:
    return QueriedTable.of(CONDITIONS, sample(), LARGE, 60)


@cache
def two() -> QueriedTable:
    return QueriedTable.from_two_columns(CONDITIONS, sample(), "work", LARGE, 60)


def test_true_counts_are_those_of_the_table() -> None:
    """The states of the unpublished table: the last is the count that is asked for, and all add up to the records."""
    for trial in (one(), two()):
        states = trial.count_states(trial.table.sensitive.codes)
        assert states.shape[1] == 2 << len(trial.sizes)
        assert (states[:, -1] == trial.pool.truths).all()
        assert (states.sum(axis=1) == ROWS).all()
        assert (states >= 0).all()


def test_the_states_of_two_columns_are_counted_one_by_one() -> None:
    trial, table = two(), sample().table.to_pylist()
    states = trial.count_states(trial.table.sensitive.codes)
    for query, found in zip(trial.pool.queries[:5], states, strict=False):
        ((work, illness),) = query.values or ()
        expected = [0] * 8
        for row in table:
            bits = (all(row[name] == value for name, value in query.where.items()), row["work"] == work)
            expected[4 * bits[0] + 2 * bits[1] + (row["illness"] == illness)] += 1
        assert found.tolist() == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one", "two"])
def test_the_printed_iteration_is_the_one_of_the_mechanism(name: str) -> None:
    """The method `paper` counts the same from a tally."""
    trial = {"one": one, "two": two}[name]()
    creation = trials.CREATIONS[trials.PRINTED]
    found, rounds = trials.iterate(Conditions(), trial, 3, 0)
    design, codes = trials.publish_decoys(Conditions(), trial, 3, 0, creation)
    table, (different, line_of) = trial.replace_sensitive(codes), trial.distinct_conditions
    tally = Tally.of_symbols(np.stack([table.count_values(where) for where in different]))
    tally = tally.attach_context(Tally.of_symbols(table.count_values({})), None)
    for number in range(0, len(trial.pool), 20):
        place = np.array([trial.combined_places[number]])
        (moments,) = _decoys.MECHANISM.estimators["paper"].count(
            design, tally.take(line_of[number : number + 1]), [place]
        )
        assert found[number] == pytest.approx(moments.value[0])
    assert rounds.min() >= 1


@pytest.mark.parametrize("name", ["one", "two"])
def test_ours_is_what_a_release_with_the_same_key_answers(name: str) -> None:
    trial = {"one": one, "two": two}[name]()
    contestant = Contestant("ours", _decoys.NAME, DecoyGroups(3))
    schema = trials.Schema.of(trial.names, public="*")
    for release, _ in publish_once(CONDITIONS, sample(), contestant, 1, schema):
        answers = release.count_many(trial.pool.queries)
        assert trials.count_ours(CONDITIONS, trial, 3, 1).value == pytest.approx(answers.value)
        if len(trial.sizes) == 1:
            shrunk = release.count_many(trial.pool.queries, method="shrunk")
            assert trials.count_ours(CONDITIONS, trial, 3, 1, trials.SHRUNK).value == pytest.approx(shrunk.value)


def test_anatomy_is_what_a_release_with_the_same_key_answers() -> None:
    found = trials.count_anatomy(CONDITIONS, one(), 3, 1, trials.BUCKET_METHODS)
    contestant = Contestant("anatomy", anatomy.NAME, Diversity(3))
    for release, _ in publish_once(CONDITIONS, sample(), contestant, 1):
        for name, method in trials.BUCKET_METHODS.items():
            answers = release.count_many(one().pool.queries, method=method)
            assert found[name] == pytest.approx(answers.value)


def test_values_drawn_afresh_keep_what_columns_have_and_not_how_they_go_together() -> None:
    """Of 1,200 records a share is off by 0.1 with a chance below 1e-11 (Hoeffding)."""
    trial = two()
    shares = np.array([trial.table.count_values(where).sum() for where in trial.query_conditions]) / ROWS
    counts = np.reshape(trial.histogram.counts, trial.sizes) / ROWS
    expected = shares * counts.sum(axis=1)[trial.places[:, 0]] * counts.sum(axis=0)[trial.places[:, 1]]
    assert np.abs(trials.count_redrawn(CONDITIONS, trial, 0) / ROWS - expected).max() < 0.1
    assert np.abs(trial.pool.truths / ROWS - expected).max() > 0.02


def test_errors_without_a_table_are_exact() -> None:
    truths = one().pool.truths
    found = trials.compute_baseline_errors(one())
    assert found["Laplace ln 2"] == pytest.approx(np.mean(1 / (np.log(2) * truths)))
    assert found[trials.CONSTANT] == pytest.approx(np.mean(abs(2 - truths) / truths))


def test_a_table_without_ages_is_refused() -> None:
    with refuses(SourceError, "missing-column", column="Age"):
        group_ages(sample())
    with refuses(SourceError, "missing-column", column="Age"):
        group_ages(replace(sample(), table=pa.table({"Age": ["old", "young"], "illness": ["a", "b"]})))


def test_ages_are_put_into_ten_intervals_of_about_as_many() -> None:
    ages = [f"Age {year:02}" for year in range(100)] * 3 + ["90 and more"] * 5
    table = group_ages(replace(sample(), table=pa.table({"Age": ages, "illness": ["a"] * 305}))).table
    counts = table["Age"].value_counts().field("counts").to_pylist()
    assert len(counts) == 10
    assert 27 <= min(counts) <= max(counts) <= 36


def test_printed_rounds_are_found_only_where_one_group_size_has_both() -> None:
    """Half of the rounds are 16; of the others some are so many that the mean is 325."""
    near = np.concatenate([np.full(600, 16), np.full(300, 40), np.full(100, 3034)])
    assert near.mean() == 325
    assert describe_match({4: near}) == (True, "groups of 4 have both to three standard errors")
    few, many = 15 + np.arange(1000) % 3, np.concatenate([np.full(900, 30), np.full(100, 2980)])
    holds, text = describe_match({4: many, 5: few})
    assert not holds
    assert "16 in groups of 5 and 325 in groups of 4" in text
    assert "16 at none and 325 at none" in describe_match({2: few + 100})[1]


def test_printed_rounds_are_within_three_standard_errors_and_no_further() -> None:
    """Of 900 rounds with a standard deviation of 300 the mean is known to 10; of their ranks the middle to 15."""
    even = np.tile([-1.0, 1.0], 450) * 300
    assert covers_mean(325 + 29 + even)
    assert not covers_mean(325 + 31 + even)
    ranks = np.arange(900)
    assert covers_median(ranks - 449 + 16 + 44)
    assert not covers_median(ranks - 449 + 16 + 47)
