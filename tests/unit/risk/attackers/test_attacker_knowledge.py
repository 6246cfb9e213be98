"""What is believed by somebody who knows public columns, record by record: learned from everybody else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._core.array_types import Codes, Floats
from sfumato._risk.attackers import known_column_beliefs as attacker_knowledge
from sfumato._risk.attackers.known_column_beliefs import (
    TEMPERS,
    WEIGHTS,
    ColumnEvidence,
    Knowledge,
    compute_smoothed_shares,
    count_cooccurrences,
)
from slow_beliefs import beliefs, lifts, shares_of

SIZE = 4
TABLES = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=30)


def codes_of(rows: Sequence[tuple[int, ...]]) -> list[Codes]:
    return [np.array(each, dtype=np.uint8) for each in zip(*rows, strict=True)]


def learned_by(columns: Sequence[Codes], held: Codes) -> Knowledge:
    shares = compute_smoothed_shares(held, SIZE)
    return Knowledge.of([ColumnEvidence.of(codes, held, shares) for codes in columns], held, shares)


def all_beliefs(columns: Sequence[Codes], held: Codes) -> Floats:
    return learned_by(columns, held).compute_beliefs(np.arange(len(held)))


@settings(max_examples=examples(60))
@given(TABLES)
def test_beliefs_by_one_column_are_the_shares_of_the_table_times_what_the_others_say(
    rows: list[tuple[int, ...]],
) -> None:
    column, _, held = (each.tolist() for each in codes_of(rows))
    found = all_beliefs(codes_of(rows)[:1], codes_of(rows)[2])
    assert found == pytest.approx(np.array(beliefs(column, held, SIZE)), rel=1e-6)


def test_beliefs_by_one_column_of_a_large_table_are_the_counts_of_the_others_and_the_shares_of_the_table() -> None:
    """(n + w f) / (N + w) of the others who share the column; what one record does to the shares does not show."""
    chance = np.random.default_rng(8)
    held = chance.choice(SIZE, 3000, p=[0.4, 0.3, 0.2, 0.1])
    column = np.where(chance.random(3000) < 0.2, held, chance.integers(0, 30, 3000))
    counts = np.zeros((30, SIZE))
    np.add.at(counts, (column, held), 1)
    met = counts[column]
    met[np.arange(3000), held] -= 1
    shares = np.bincount(held) / 3000
    fits = [
        np.log((met[np.arange(3000), held] + weight * shares[held]) / (met.sum(axis=1) + weight)).sum()
        for weight in WEIGHTS
    ]
    weight = WEIGHTS[np.argmax(fits)]
    expected = (met + weight * shares) / (met.sum(axis=1, keepdims=True) + weight)
    assert all_beliefs([column], held) == pytest.approx(expected, abs=0.003)


@settings(max_examples=examples(60))
@given(TABLES)
def test_beliefs_by_several_columns_are_tempered_products(rows: list[tuple[int, ...]]) -> None:
    *columns, held = (each.tolist() for each in codes_of(rows))
    shares = shares_of(held, SIZE)
    said = sum(np.log(lifts(column, held, SIZE)) for column in columns)
    tempered = []
    for temper in TEMPERS:
        weighed = shares * np.exp(temper * said)
        tempered.append(weighed / weighed.sum(axis=1, keepdims=True))
    fits = [float(np.log(each[np.arange(len(held)), held]).sum()) for each in tempered]
    found = learned_by(codes_of(rows)[:2], codes_of(rows)[2])
    assert fits[TEMPERS.tolist().index(found.temper)] == pytest.approx(max(fits))
    expected = tempered[TEMPERS.tolist().index(found.temper)]
    assert found.compute_beliefs(np.arange(len(held))) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("many", [1, 3])
def test_column_that_is_the_same_for_everybody_gives_the_shares_of_the_table(many: int) -> None:
    """Who is left out is left out of the shares too: else a record's own value would seem less likely than it is."""
    held = np.array([0] * 50 + [1] * 50)
    shares = shares_of(held.tolist(), SIZE)
    assert all_beliefs([np.zeros(100, dtype=np.uint8)] * many, held) == pytest.approx(
        np.array([shares] * 100), rel=0.03
    )


def test_sparse_counts_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    held = chance.integers(0, SIZE, 500)
    columns = [np.where(chance.random(500) < 0.5, held, chance.integers(0, 50, 500)), chance.integers(0, 9, 500)]
    expected = all_beliefs(columns, held)
    monkeypatch.setattr(attacker_knowledge, "MOST_CELLS", 10)
    assert not isinstance(count_cooccurrences(columns[0], held, SIZE)[0], np.ndarray)
    assert all_beliefs(columns, held) == pytest.approx(expected)


@given(TABLES, st.integers(1, 2))
def test_beliefs_of_each_record_add_up_to_one(rows: list[tuple[int, ...]], known: int) -> None:
    found = all_beliefs(codes_of(rows)[:known], codes_of(rows)[2])
    assert found.sum(axis=1) == pytest.approx(1)
    assert (found > 0).all()


@given(TABLES)
def test_column_in_which_everybody_is_alone_gives_the_shares_of_the_table(rows: list[tuple[int, ...]]) -> None:
    held = codes_of(rows)[2]
    found = all_beliefs([np.arange(len(held))], held)
    assert found == pytest.approx(np.array([shares_of(held.tolist(), SIZE)] * len(held)))


@given(TABLES)
def test_beliefs_of_some_records_are_those_of_all(rows: list[tuple[int, ...]]) -> None:
    learned = learned_by(codes_of(rows)[:2], codes_of(rows)[2])
    whole = learned.compute_beliefs(np.arange(len(rows)))
    some = np.arange(len(rows))[::-2]
    assert learned.compute_beliefs(some) == pytest.approx(whole[some])


@given(TABLES)
def test_who_knows_nothing_believes_the_shares_of_the_table(rows: list[tuple[int, ...]]) -> None:
    held = codes_of(rows)[2]
    assert all_beliefs([], held) == pytest.approx(np.array([shares_of(held.tolist(), SIZE)] * len(held)))


def test_column_that_determines_the_value_is_believed() -> None:
    held = np.arange(5000) % SIZE
    found = all_beliefs([(10 - held).astype(np.uint16)], held)
    assert found[np.arange(5000), held].min() > 0.999


def test_what_is_believed_of_a_record_does_not_come_from_itself() -> None:
    """Pairs of records with different values: everybody believes what the other one has."""
    pairs, held = np.repeat(np.arange(200), 2), np.tile([0, 1], 200)
    own = ColumnEvidence.of(pairs, held, np.array([0.5, 0.5]))
    found = Knowledge(np.array([0.5, 0.5]), held, [own]).compute_beliefs(np.arange(400))
    assert (found[np.arange(400), held] < 0.5).all()


def test_one_column_is_believed_whole() -> None:
    held = np.arange(100) % SIZE
    assert learned_by([held % 2], held).temper == 1


@pytest.mark.slow
def test_same_column_five_times_is_believed_as_once() -> None:
    """It is tempered to a fifth, and says five times as much."""
    chance = np.random.default_rng(1)
    held = chance.integers(0, SIZE, 20_000)
    column = np.where(chance.random(20_000) < 0.5, held, chance.integers(0, SIZE, 20_000))
    once, often = learned_by([column], held), learned_by([column] * 5, held)
    rows = np.arange(20_000)
    assert often.temper == 0.2
    assert often.compute_beliefs(rows) == pytest.approx(once.compute_beliefs(rows), abs=1e-9)


@pytest.mark.parametrize("most", [1, 10**6], ids=["sparse", "dense"])
def test_pairs_are_counted_however_they_are_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attacker_knowledge, "MOST_CELLS", most)
    chance = np.random.default_rng(2)
    codes, held = chance.integers(0, 250, 500).astype(np.uint8), chance.integers(0, 5, 500).astype(np.uint8)
    expected = np.zeros((250, 5))
    np.add.at(expected, (codes, held), 1)
    table, met = count_cooccurrences(codes, held, 5)
    assert (table if most > 1 else table.toarray()).tolist() == expected[: codes.max() + 1].tolist()
    assert met.tolist() == expected[codes, held].tolist()


def test_evidence_of_a_record_is_that_of_its_cell() -> None:
    """Where there are more records than cells it is computed once for each cell, and is the same to the last bit."""
    chance = np.random.default_rng(3)
    codes, held = chance.integers(0, 7, 500).astype(np.uint8), chance.integers(0, 5, 500).astype(np.uint8)
    shares = attacker_knowledge.compute_smoothed_shares(held, 5)
    by_cell, by_record = (ColumnEvidence.of(codes, held, shares, height) for height in (0, 500))
    assert by_cell.own_log_weights.tolist() == by_record.own_log_weights.tolist()


def test_temper_is_chosen_on_few_of_many_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first records stand for all: a sample is in no order."""
    monkeypatch.setattr(attacker_knowledge, "TUNING_CELLS", 4 * SIZE)
    held = np.array([0, 1, 2, 3] * 100)
    rows: list[int] = []
    said = Knowledge._sum_log_weights

    def noted(self: Knowledge, asked: Codes) -> Floats:
        rows.append(len(asked))
        return said(self, asked)

    monkeypatch.setattr(Knowledge, "_sum_log_weights", noted)
    learned_by([held, held], held)
    assert rows == [4]
