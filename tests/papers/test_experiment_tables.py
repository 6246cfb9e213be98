"""Tables that experiments run on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from papers.experiment_tables import DESIGNS, TableSource
from refusals import refuses
from sfumato.errors import SourceError


@pytest.mark.parametrize("name", DESIGNS)
def test_shares_are_the_published_ones(name: str) -> None:
    design = DESIGNS[name]
    shares = design.compute_shares()
    assert len(shares) == design.value_count
    assert (shares.max(), shares.min()) == pytest.approx((design.largest_share, design.smallest_share), rel=0.02)
    assert sum(design.compute_counts()) == design.rows
    assert all(np.diff(shares) <= 0)


def test_education_keeps_what_is_published_of_it() -> None:
    """Of 14 values the largest has 27% and nine are rarer than 1/30 (section 6.3 of small domain randomization)."""
    shares = DESIGNS["education"].compute_shares()
    assert len(shares) == 14
    assert round(shares.max(), 2) == 0.27
    for rows in (300_000, 20_000, 5_000):
        assert sum(30 * count < rows for count in DESIGNS["education"].compute_counts(rows)) == 9


def test_a_generated_table_has_the_columns_and_follows_from_its_seed() -> None:
    first = TableSource().get_sample("occupations", 5000, 1).table
    assert set(first.column_names) == {*DESIGNS["occupations"].public_sizes, "Occupation"}
    assert len(first["Country"].unique()) <= 70
    assert TableSource().get_sample("occupations", 5000, 1).table.equals(first)
    assert not TableSource().get_sample("occupations", 5000, 2).table.equals(first)


def test_public_columns_go_with_the_sensitive_one() -> None:
    """Without it, nothing would be lost by publishing independent columns: the chi-square of 49 cells would be 49."""
    table = TableSource().get_sample("occupations", 20_000, 1).table
    value, sex = (table[name].combine_chunks().dictionary_encode().indices for name in ("Occupation", "Gender"))
    counts = np.zeros((50, 2))
    np.add.at(counts, (np.asarray(value), np.asarray(sex)), 1)
    expected = counts.sum(1, keepdims=True) * counts.sum(0) / counts.sum()
    assert ((counts - expected) ** 2 / expected).sum() > 500


def test_a_directory_stands_before_generated_tables(tmp_path: Path) -> None:
    table = pa.table({"Gender": ["F", "M", "F"], "Occupation": ["a", "a", "b"]})
    pq.write_table(table, tmp_path / "census_occ.parquet")
    tables = TableSource(tmp_path)
    assert tables.get_sample("occupations").table.equals(table)
    assert tables.get_counts("occupations", 3) == (2, 1)
    assert tables.get_sample("occupations", 1000).table.num_rows == 1000
    assert list(tables.digests) == ["census_occ.parquet"]
    assert [each for each in tables.origins if "with replacement" in each]


def test_missing_directory_is_refused(tmp_path: Path) -> None:
    with refuses(SourceError, "missing-directory", file=str(tmp_path / "nowhere")):
        TableSource(tmp_path / "nowhere").get_sample("occupations")


def test_a_directory_without_the_tables_does_not_stand_for_generated_ones(tmp_path: Path) -> None:
    with refuses(SourceError, "missing-file", file=str(tmp_path)):
        TableSource(tmp_path).digests  # noqa: B018 - it looks


def test_what_is_no_parquet_file_or_has_another_column_is_refused(tmp_path: Path) -> None:
    (tmp_path / "census_occ.parquet").write_text("text")
    with refuses(SourceError, "damaged-file", file=str(tmp_path / "census_occ.parquet")):
        TableSource(tmp_path).get_sample("occupations")
    pq.write_table(pa.table({"Job": ["a", "b"]}), tmp_path / "census_all.parquet")
    with refuses(SourceError, "missing-column", file=str(tmp_path / "census_all.parquet"), column="Education"):
        TableSource(tmp_path).get_sample("education")
