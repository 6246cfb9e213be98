"""What is believed by somebody who knows public columns, record by record: learned from everybody else."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato.arrays import Codes, Floats
from sfumato.audit.attackers import knowledge
from sfumato.audit.attackers.knowledge import TEMPERS, WEIGHTS, Evidence, Knowledge, met_counts

SIZE = 4
TABLES = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=30)


def codes_of(rows: Sequence[tuple[int, ...]]) -> list[Codes]:
    return [np.array(each, dtype=np.uint8) for each in zip(*rows, strict=True)]


def shares_of(held: Sequence[int]) -> list[float]:
    """The shares of the table; a value that nobody has is worth a part of one record."""
    return [(list(held).count(value) + 1 / SIZE) / (len(held) + 1) for value in range(SIZE)]


def others(column: Sequence[int], held: Sequence[int], row: int) -> list[int]:
    """How many of the others who share a record's value hold each protected value."""
    met = [0] * SIZE
    for number, (group, value) in enumerate(zip(column, held, strict=True)):
        if group == column[row] and number != row:
            met[value] += 1
    return met


def slow_weight(column: Sequence[int], held: Sequence[int]) -> float:
    """The weight of the table's shares that makes the records likeliest, each by what the others say."""
    shares = shares_of(held)
    fits = []
    for weight in WEIGHTS:
        fit = 0.0
        for row, value in enumerate(held):
            met = others(column, held, row)
            fit += math.log((met[value] + weight * shares[value]) / (sum(met) + weight))
        fits.append(fit)
    best = [weight for weight, fit in zip(WEIGHTS, fits, strict=True) if fit > max(fits) - 1e-9]
    assume(len(best) in {1, len(WEIGHTS)})  # two that are as good are for floating-point numbers to choose from
    return float(best[0])


def all_beliefs(columns: Sequence[Codes], held: Codes) -> Floats:
    return Knowledge.of(columns, held, SIZE).beliefs(np.arange(len(held)))


@settings(max_examples=examples(60))
@given(TABLES)
def test_beliefs_by_one_column_are_the_counts_of_the_others_and_the_shares_of_the_table(
    rows: list[tuple[int, ...]],
) -> None:
    column, _, held = (each.tolist() for each in codes_of(rows))
    shares, weight = shares_of(held), slow_weight(column, held)
    expected = []
    for row in range(len(held)):
        met = others(column, held, row)
        expected.append([(met[value] + weight * shares[value]) / (sum(met) + weight) for value in range(SIZE)])
    found = all_beliefs(codes_of(rows)[:1], codes_of(rows)[2])
    assert found == pytest.approx(np.array(expected), rel=1e-6)


@settings(max_examples=examples(60))
@given(TABLES)
def test_beliefs_by_several_columns_are_tempered_products(rows: list[tuple[int, ...]]) -> None:
    """Each column multiplies by (n + w f) / (w f), to the power of the temper that predicts best."""
    *columns, held = (each.tolist() for each in codes_of(rows))
    shares = shares_of(held)
    said = np.zeros((len(held), SIZE))
    for column in columns:
        weight = slow_weight(column, held)
        for row in range(len(held)):
            met = others(column, held, row)
            said[row] += [
                math.log((met[value] + weight * shares[value]) / (weight * shares[value])) for value in range(SIZE)
            ]
    tempered = []
    for temper in TEMPERS:
        weighed = shares * np.exp(temper * said)
        tempered.append(weighed / weighed.sum(axis=1, keepdims=True))
    fits = [float(np.log(each[np.arange(len(held)), held]).sum()) for each in tempered]
    found = Knowledge.of(codes_of(rows)[:2], codes_of(rows)[2], SIZE)
    assert fits[TEMPERS.tolist().index(found.temper)] == pytest.approx(max(fits))
    expected = tempered[TEMPERS.tolist().index(found.temper)]
    assert found.beliefs(np.arange(len(held))) == pytest.approx(expected, rel=1e-6)


@given(TABLES, st.integers(1, 2))
def test_beliefs_of_each_record_add_up_to_one(rows: list[tuple[int, ...]], known: int) -> None:
    found = all_beliefs(codes_of(rows)[:known], codes_of(rows)[2])
    assert found.sum(axis=1) == pytest.approx(1)
    assert (found > 0).all()


@given(TABLES)
def test_column_in_which_everybody_is_alone_gives_the_shares_of_the_table(rows: list[tuple[int, ...]]) -> None:
    held = codes_of(rows)[2]
    found = all_beliefs([np.arange(len(held))], held)
    assert found == pytest.approx(np.array([shares_of(held.tolist())] * len(held)))


@given(TABLES)
def test_beliefs_of_some_records_are_those_of_all(rows: list[tuple[int, ...]]) -> None:
    learned = Knowledge.of(codes_of(rows)[:2], codes_of(rows)[2], SIZE)
    whole = learned.beliefs(np.arange(len(rows)))
    some = np.arange(len(rows))[::-2]
    assert learned.beliefs(some) == pytest.approx(whole[some])


@given(TABLES)
def test_who_knows_nothing_believes_the_shares_of_the_table(rows: list[tuple[int, ...]]) -> None:
    held = codes_of(rows)[2]
    assert all_beliefs([], held) == pytest.approx(np.array([shares_of(held.tolist())] * len(held)))


def test_column_that_determines_the_value_is_believed() -> None:
    held = np.arange(5000) % SIZE
    found = all_beliefs([(10 - held).astype(np.uint16)], held)
    assert found[np.arange(5000), held].min() > 0.999


def test_what_is_believed_of_a_record_does_not_come_from_itself() -> None:
    """Pairs of records with different values: everybody believes what the other one has."""
    pairs, held = np.repeat(np.arange(200), 2), np.tile([0, 1], 200)
    own = Evidence.of(pairs, held, np.array([0.5, 0.5]))
    beliefs = Knowledge(np.array([0.5, 0.5]), held, [own]).beliefs(np.arange(400))
    assert (beliefs[np.arange(400), held] < 0.5).all()


def test_one_column_is_believed_whole() -> None:
    held = np.arange(100) % SIZE
    assert Knowledge.of([held % 2], held, SIZE).temper == 1


def test_same_column_five_times_is_believed_as_once() -> None:
    """It is tempered to a fifth, and says five times as much."""
    chance = np.random.default_rng(1)
    held = chance.integers(0, SIZE, 20_000)
    column = np.where(chance.random(20_000) < 0.5, held, chance.integers(0, SIZE, 20_000))
    once, often = Knowledge.of([column], held, SIZE), Knowledge.of([column] * 5, held, SIZE)
    rows = np.arange(20_000)
    assert often.temper == 0.2
    assert often.beliefs(rows) == pytest.approx(once.beliefs(rows), abs=1e-9)


def test_counts_of_pairs_are_those_of_numpy() -> None:
    chance = np.random.default_rng(2)
    codes, held = chance.integers(0, 9, 500).astype(np.uint8), chance.integers(0, 5, 500).astype(np.uint8)
    expected = np.zeros((9, 5))
    np.add.at(expected, (codes, held), 1)
    assert met_counts(codes, held, 5).toarray().tolist() == expected.tolist()


def test_temper_is_chosen_on_few_of_many_beliefs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first records stand for all: a sample is in no order."""
    monkeypatch.setattr(knowledge, "TUNING_CELLS", 4 * SIZE)
    held = np.array([0, 1, 2, 3] * 100)
    rows: list[int] = []
    said = Knowledge._said

    def noted(self: Knowledge, asked: Codes) -> Floats:
        rows.append(len(asked))
        return said(self, asked)

    monkeypatch.setattr(Knowledge, "_said", noted)
    Knowledge.of([held, held], held, SIZE)
    assert rows == [4]
