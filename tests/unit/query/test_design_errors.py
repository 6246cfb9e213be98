"""What is foreseen from what is published alone is what answers then say of themselves."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from releases import WAYS, published_by
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release_error_prediction import predict_errors

ROWS, VALUES, PARTS = 6000, 6, 20
DESIGN_IS_SILENT = {"small-domain"}
"""Where errors depend on how many records are in each cell."""


def even_table() -> pa.Table:
    """Values that are equally frequent, and a column that has nothing to do with them."""
    names = [f"value {number}" for number in range(VALUES)]
    drawn = [hashlib.sha256(str(row).encode()).digest()[0] for row in range(ROWS)]
    return pa.table({"part": [each % PARTS for each in drawn], "disease": [names[row % VALUES] for row in range(ROWS)]})


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", list(WAYS))
def test_errors_of_answers_are_foreseen(mechanism: str, tmp_path: Path) -> None:
    release = published_by(mechanism, even_table(), tmp_path / "release")
    found = predict_errors(release)
    if mechanism in DESIGN_IS_SILENT:
        assert found is None
        return
    assert found is not None
    queries = [CountQuery({"part": part}, [value]) for part in range(PARTS) for value in release.manifest.domain]
    answers = release.count_many(queries)
    # An error is told for the estimated count, which scatters; its square is linear in it, so that means agree.
    told = float(np.sqrt(np.nanmean(answers.standard_error**2)))
    count = ROWS / PARTS / VALUES
    expected = found.predict_error(count, 1 / VALUES) * count
    assert told == pytest.approx(expected, rel=0.05)
    assert told != pytest.approx(1.1 * expected, rel=0.05)


@pytest.mark.slow
def test_records_of_other_values_do_not_matter_in_buckets(tmp_path: Path) -> None:
    release = published_by("buckets", even_table(), tmp_path / "buckets")
    found = predict_errors(release)
    assert found is not None
    assert found.is_share_independent
    assert found.predict_error(100, 0.1) == found.predict_error(100, 0.001)
