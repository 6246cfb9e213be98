"""Shapes of SQL that people type: each gives what docs/sql.md says, and no error of DuckDB reaches anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato._query.release import Release
from sql_shapes import PAGE, SHAPES, Shape, open_release, told, with_table, written

pytestmark = pytest.mark.filterwarnings("ignore::sfumato._request.warnings.NoticeWarning")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return open_release(tmp_path_factory.mktemp("shapes"))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.sql[:80])
def test_a_shape_gives_what_people_expect(release: Release, shape: Shape) -> None:
    outcome, said = told(shape, release)
    assert outcome == shape.outcome, said
    assert "Error" not in said
    assert "sfumato " not in said


@pytest.mark.slow
def test_the_table_of_shapes_is_what_the_release_says(release: Release) -> None:
    page = Path(PAGE).read_text("utf-8")
    assert with_table(page, written(release)) == page, "run python tests/sql_shapes.py, and look at what changed"
