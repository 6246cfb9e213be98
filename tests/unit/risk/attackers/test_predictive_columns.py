"""Which public columns tell the protected one, against a guess made record by record; and where that stops."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import examples
from sfumato._risk.attackers import predictive_columns as module
from sfumato._risk.attackers.predictive_columns import (
    SMALLEST_GROUP,
    ColumnPrediction,
    count_disclosed_records,
    count_keys,
    find_predictive_columns,
    list_disclosing_columns,
    measure_best_guess,
    measure_blind_guess,
    measure_guesses,
)
from sfumato.cli.flags import name_flags

ROWS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=40)


def slow_guess(groups: Sequence[int], held: Sequence[int]) -> float:
    """Leave each record out, and guess the most frequent value of the rest of its group, or of the table if alone."""
    right, blind = 0.0, min(held, key=lambda value: (-held.count(value), value))
    for row, (group, value) in enumerate(zip(groups, held, strict=True)):
        others = Counter(
            other
            for number, (each, other) in enumerate(zip(groups, held, strict=True))
            if each == group and number != row
        )
        if not others:
            right += value == blind
        elif others[value] == max(others.values()):
            right += 1 / sum(count == others[value] for count in others.values())
    return right / len(held)


@settings(max_examples=examples(200))
@given(ROWS)
def test_guess_is_that_of_leaving_each_record_out(rows: list[tuple[int, int]]) -> None:
    groups, held = map(list, zip(*rows, strict=True))
    found = measure_best_guess(np.array(groups, dtype=np.int64), np.array(held), 4)
    assert found == pytest.approx(slow_guess(groups, held))


@given(ROWS)
def test_guess_does_not_depend_on_the_order_of_the_records_or_the_numbers_of_the_groups(
    rows: list[tuple[int, int]],
) -> None:
    groups, held = (np.array(each, dtype=np.int64) for each in zip(*rows, strict=True))
    expected = measure_best_guess(groups, held, 4)
    assert measure_best_guess(groups[::-1], held[::-1], 4) == pytest.approx(expected)
    assert measure_best_guess(10**12 - 10**9 * groups, held, 4) == pytest.approx(expected)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_numbers_are_counted_by_a_table_and_by_sorting_alike(keys: list[int]) -> None:
    expected = sorted(Counter(keys).items())
    for most in (1, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MOST_CELLS", most)
            found, times = count_keys(np.array(keys, dtype=np.int64))
        assert list(zip(found.tolist(), times.tolist(), strict=True)) == expected


@given(ROWS)
def test_guess_is_the_same_by_a_table_and_by_a_list(rows: list[tuple[int, int]]) -> None:
    groups, held = (np.array(each, dtype=np.int64) for each in zip(*rows, strict=True))
    found = []
    for dense in (0, 1000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "DENSE_FACTOR", dense)
            found.append(measure_best_guess(groups, held, 4))
    assert found[0] == found[1]


def test_column_in_which_everybody_is_alone_is_guessed_by_blindly() -> None:
    held = np.array([0, 1, 1, 2, 1, 0])
    assert measure_best_guess(np.arange(6), held, 3) == measure_blind_guess(held) == 1 / 2


def test_column_that_is_the_protected_one_tells_all_but_who_is_alone_with_a_value() -> None:
    held = np.array([0, 0, 0, 1, 1, 2])
    assert measure_best_guess(held.astype(np.int64), held, 3) == pytest.approx(5 / 6)


def test_column_of_pairs_of_different_values_tells_nothing() -> None:
    """Who guesses what the other one has is always wrong."""
    assert measure_best_guess(np.repeat(np.arange(10), 2), np.tile([0, 1], 10), 2) == 0


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 4), min_size=1, max_size=30))
def test_columns_together_are_guessed_by_their_combinations(rows: list[tuple[int, ...]]) -> None:
    codes = [np.array(each, dtype=np.uint8) for each in zip(*rows, strict=True)]
    columns, held = dict(zip("abc", codes[:3], strict=True)), codes[3]
    for together in (1, 2, 3):
        found = measure_guesses(columns, held, 3, "disease", together=together)
        assert [each.columns for each in found] == list(itertools.combinations("abc", together))
        for each in found:
            keys = [tuple(row["abc".index(name)] for name in each.columns) for row in rows]
            numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
            expected = slow_guess([numbers[key] for key in keys], held.tolist())
            assert each.success == pytest.approx(expected)
            assert (each.protected_column, each.records, each.blind_success) == (
                "disease",
                len(rows),
                measure_blind_guess(held),
            )


def test_columns_of_wide_codes_are_not_mixed_up() -> None:
    """Codes of one byte must not overflow where two columns are put together."""
    one, other = np.repeat(np.arange(250, dtype=np.uint8), 4), np.tile(np.arange(2, dtype=np.uint8), 500)
    held = (one % 2) ^ other
    (found,) = measure_guesses({"one": one, "other": other}, held, 2, "held", together=2)
    assert found.success == 1


def test_of_very_many_pairs_fewer_records_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Never fewer than enough; single columns and one pair are looked at by all."""
    monkeypatch.setattr(module, "MOST_WORK", 600)
    monkeypatch.setattr(module, "LEAST_RECORDS", 150)
    columns = {name: np.arange(1000) % 2 for name in "abcd"}
    held = np.arange(1000) // 2 % 2
    found = {
        (len(chosen), together): measure_guesses(
            {name: columns[name] for name in chosen}, held, 2, "held", together=together
        )
        for chosen, together in (("a", 1), ("ab", 2), ("abc", 2), ("abcd", 2))
    }
    assert {key: {each.records for each in told} for key, told in found.items()} == {
        (1, 1): {1000},
        (2, 2): {1000},
        (3, 2): {200},
        (4, 2): {150},
    }


def test_columns_of_a_table_that_tell_another_one_are_named() -> None:
    rows = pa.table({"code": [*"aabccd"] * 50, "chapter": [*"xxxyyy"] * 50, "sex": [*"FM"] * 150})
    assert find_predictive_columns(rows, ["chapter", "sex"], "code") == ["chapter"]


# --------------------------------------------------------------------------------------------------------- what is told


def telling(
    right: float, blindly: float = 0.2, records: int = 10_000, columns: tuple[str, ...] = ("a",)
) -> ColumnPrediction:
    return ColumnPrediction(columns, "disease", right, blindly, records)


@pytest.mark.parametrize(
    ("right", "is_telling"), [(0.6, True), (0.599, False), (1.0, True), (0.2, False), (0.0, False)]
)
def test_guess_that_closes_half_of_the_distance_to_certainty_is_telling(right: float, is_telling: bool) -> None:
    assert telling(right).is_predictive is is_telling


def test_nothing_is_told_where_a_blind_guess_is_certain() -> None:
    assert not telling(1.0, blindly=1.0).is_predictive


def test_guess_from_few_records_is_telling_only_if_it_is_no_chance() -> None:
    """Three standard errors: of 12 records 9 right against 5 blindly may be luck, of 120 not."""
    assert not telling(9 / 12, 5 / 12, 12).is_predictive
    assert telling(90 / 120, 50 / 120, 120).is_predictive
    assert not telling(1.0, 1 / 2, 8).is_predictive
    assert telling(1.0, 1 / 2, 10).is_predictive


@given(st.floats(0, 0.99), st.integers(1, 10**6))
def test_guess_that_is_telling_is_better_than_a_blind_one_by_three_standard_errors(
    blindly: float, records: int
) -> None:
    found = telling((1 + blindly) / 2 + 1e-9, blindly, records)
    if found.is_predictive:
        assert found.success - blindly > 3 * math.sqrt(blindly * (1 - blindly) / records) * (1 - 1e-6)


def test_words_say_how_many_are_guessed_from_what() -> None:
    one = telling(0.6123, columns=("a",)).sentence
    assert one == "guesses of 'disease' from 'a' are correct for 61.2% of the records (without these columns: 20.0%)"
    assert "from 'a' and 'b' are correct" in telling(0.6, columns=("a", "b")).sentence
    every = telling(0.6, columns=("a", "b", "c", "d")).sentence
    assert "from all public columns together (mainly 'a', 'b' and 2 more) are correct" in every


# ------------------------------------------------------------------------------------------------------------- the stop


def test_columns_that_tell_little_do_not_stop() -> None:
    assert list_disclosing_columns([]) is None
    assert list_disclosing_columns([telling(0.3), telling(0.59, columns=("a", "b"))]) is None


def test_every_column_that_tells_alone_is_named_the_worst_first() -> None:
    worst, columns = list_disclosing_columns(
        [telling(0.7, columns=("b",)), telling(0.9, columns=("a",)), telling(0.95, columns=("b", "c"))]
    )
    assert worst == telling(0.9, columns=("a",))
    assert columns == ["a", "b"]


def test_column_that_tells_two_protected_ones_is_named_once() -> None:
    found = list_disclosing_columns([telling(0.9), ColumnPrediction(("a",), "drug", 0.8, 0.2, 10_000)])
    assert found[1] == ["a"]


def test_of_columns_that_tell_only_together_the_first_is_named() -> None:
    worst, columns = list_disclosing_columns([telling(0.9, columns=("a", "b")), telling(0.95, columns=("b", "c"))])
    assert worst.columns == ("b", "c")
    assert columns == ["b"]


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("home town", "'home town'"), ("it's", "'it'\"'\"'s'"), ("a;b", "'a;b'"), ("$HOME", "'$HOME'"), ("age", "age")],
)
def test_options_can_be_pasted_into_a_shell(name: str, quoted: str) -> None:
    assert name_flags(f"`drop={[name]!r}`") == f"--drop {quoted}"


# ----------------------------------------------------------------------------------------------------------- the groups


def slow_told_groups(groups: Sequence[int], held: Sequence[int], prior: float, posterior: float) -> int:
    """Record by record: rare in the table, frequent in a group that is large enough."""
    told = 0
    for group, value in zip(groups, held, strict=True):
        mine = [other for each, other in zip(groups, held, strict=True) if each == group]
        is_rare = held.count(value) <= prior * len(held)
        told += is_rare and mine.count(value) > posterior * len(mine) and len(mine) >= SMALLEST_GROUP
    return told


@settings(max_examples=examples(100))
@given(
    st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.integers(0, 3)), min_size=20, max_size=90),
    st.sampled_from([0.25, 0.5]),
    st.sampled_from([0.3, 0.5]),
)
def test_records_that_a_column_tells_are_counted(rows: list[tuple[int, int]], prior: float, posterior: float) -> None:
    groups, held = map(list, zip(*rows, strict=True))
    found = count_disclosed_records(
        np.array(groups, dtype=np.uint8), np.array(held, dtype=np.uint8), 4, prior, posterior
    )
    assert found == slow_told_groups(groups, held, prior, posterior)


@pytest.mark.parametrize("size", [SMALLEST_GROUP - 1, SMALLEST_GROUP])
def test_small_groups_are_not_looked_at(size: int) -> None:
    codes = np.array([1] * size + [0] * 1000)
    held = np.array([1] * size + [0] * 1000)
    assert count_disclosed_records(codes, held, 2, 0.1, 0.5) == (size if size == SMALLEST_GROUP else 0)
