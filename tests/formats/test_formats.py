"""Releases written by past versions must still open, verify and answer; and a key must still mean the same draws.

`1/` was published from the table below by version 0.1.0, the first of format 1. It is never written anew.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato import BreachBound, Release, Request, Schema, publish
from sfumato.audit.verify import FIT, verify_folder

FIRST = Path(__file__).parent / "1"
KEY = "5f" * 32
DISEASES = ("flu", "asthma", "HIV", None)


def people() -> pa.Table:
    """Three hundred invented people, by arithmetic alone."""
    numbers = range(300)
    return pa.table(
        {
            "age": pa.array([20 + number * 7 % 60 for number in numbers], type=pa.int16()),
            "sex": ["FM"[number * 5 % 7 % 2] for number in numbers],
            "disease": [DISEASES[min(number * number % 11 // 3, 3)] for number in numbers],
        }
    )


def request() -> Request:
    return Request(people(), Schema.of("disease", domains={"disease": DISEASES}), BreachBound("1/4", "3/4"))


def test_first_format_opens_and_answers_as_when_it_was_written() -> None:
    estimate = Release.open(FIRST).count("asthma", where="sex = 'F' AND age < 50")
    assert (estimate.value, estimate.standard_error) == pytest.approx((56.75000000000001, 5.382262535402746), rel=1e-12)


def test_first_format_verifies_but_for_its_test_key() -> None:
    assert [check.name for check in verify_folder(FIRST).checks if not check.passed] == [FIT]


def test_key_still_gives_the_rows_of_the_first_format(tmp_path: Path) -> None:
    publish(request(), tmp_path / "release", unsafe_test_key=KEY)
    assert pq.read_table(tmp_path / "release" / "data.parquet").equals(pq.read_table(FIRST / "data.parquet"))
