"""Untidy values of a column: each kind is found, and ordinary columns have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato._profile.table_warnings import UNTIDY_NOTICES
from sfumato._profile.untidy_values import (
    Untidy,
    find_missing_numbers,
    find_untidy_kinds,
    group_by_kind,
)

AGES = list(range(96))


def kinds(values: list[Any], counts: list[int] | int = 10, name: str = "x") -> set[Untidy]:
    each = [counts] * len(values) if isinstance(counts, int) else counts
    return set(find_untidy_kinds(name, pa.array(values), np.array(each)))


@pytest.mark.parametrize(
    ("values", "counts", "expected"),
    [
        ([1, 2, 9], 10, [9]),
        ([1, 2, 7, 9], 10, [7, 9]),
        ([1, 2, 3, 4, 5, 9], 10, [9]),
        ([*AGES, 99], [5] * 96 + [40], [99]),
        ([*AGES, 999], 5, [999]),
        ([-9, *range(7)], 5, [-9]),
        ([-1, *range(10)], 5, [-1]),
        ([-99, -9, 20.5, 30.25, 41.0], 5, [-99, -9]),
        ([-99, *range(-20, 30), 999], 5, [-99, 999]),
        ([1, 2, 3, 77, 88], 5, [77, 88]),
        ([18.5, 24.25, 31.0, 9999.0], [1, 1, 1, 7], [9999]),
    ],
)
def test_isolated_number_is_a_missing_value(values: list[float], counts: Any, expected: list[float]) -> None:
    each = np.array([counts] * len(values) if isinstance(counts, int) else counts)
    order = np.random.default_rng(3).permutation(len(values))
    found = find_missing_numbers(pa.array(values).take(pa.array(order)), each[order])
    assert found == tuple(expected)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ([*AGES, 99], [5] * 96 + [2]),  # people of this age are as rare as their neighbours
        ([*AGES, 999], [5] * 96 + [1]),  # once
        ([-1, 0, 1], 10),
        (list(range(-50, 60)), 5),
        (list(range(1, 61)), 5),
        (list(range(90, 100)), 5),
        ([0, 1, 2, 3, 4, 7], 5),
        ([99], 50),
        ([float("nan"), 1.0, 2.0], 5),
    ],
)
def test_ordinary_number_is_no_missing_value(values: list[float], counts: Any) -> None:
    each = np.array([counts] * len(values) if isinstance(counts, int) else counts)
    assert find_missing_numbers(pa.array(values), each) == ()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["Diabetes", "flu "], Untidy.OUTER_SPACES),
        ([" flu", "cold"], Untidy.OUTER_SPACES),
        (["Diabetes", "DIABETES", "flu"], Untidy.SPELLINGS),
        (["type 2", "type  2"], Untidy.SPELLINGS),
        (["\uff28\uff29\uff36", "HIV"], Untidy.SPELLINGS),
        (["caf\u00e9", "cafe\u0301"], Untidy.SPELLINGS),
        (["1,234", "12,345,678", "999"], Untidy.THOUSANDS),
        (["1.234,5", "10,5"], Untidy.THOUSANDS),
        (["1 234", "12"], Untidy.THOUSANDS),
        (["31.12.2024", "12/31/2024"], Untidy.DATES),
        (["31/12/2024", "12/31/2024"], Untidy.DATES),
        (["01/02/2024", "03/04/2024"], Untidy.DATES),
        (["31.12.24", "01.02.24"], Untidy.DATES),
        ([f"came in with pains, number {row}" for row in range(40)], Untidy.FREE_TEXT),
    ],
)
def test_kind_is_found_alone(values: list[str], kind: Untidy) -> None:
    assert kinds(values, 1) == {kind}


@pytest.mark.parametrize(
    "values",
    [
        ["Diabetes", "flu", "cold"],
        ["3,5", "4,25"],
        ["3,125", "4,5"],
        ["31.12.2024", "01.02.2024"],
        ["123-45-6789", "987-65-4321"],
        ["10.0.0.1", "10.0.0.2"],
        ["type 2 diabetes mellitus without complication", "essential hypertension of unknown origin"],
        [],
    ],
)
def test_tidy_text_has_no_kind(values: list[str]) -> None:
    assert kinds(values) == set()


def test_repeated_sentences_are_no_free_text() -> None:
    assert kinds([f"disease of the organ {row} with complications" for row in range(40)], 100) == set()


def test_spaces_in_a_name_are_found_and_columns_are_grouped() -> None:
    assert kinds(["a", "b"], name="age ") == {Untidy.NAME_SPACES}
    grouped = group_by_kind([("a", (Untidy.SPELLINGS,)), ("b", ()), ("c", (Untidy.SPELLINGS, Untidy.OUTER_SPACES))])
    assert grouped == {Untidy.OUTER_SPACES: ["c"], Untidy.SPELLINGS: ["a", "c"]}


def test_every_kind_has_its_notice() -> None:
    assert {kind: make("", None, {}).code for kind, make in UNTIDY_NOTICES.items()} == {
        kind: kind.value.code for kind in Untidy
    }
