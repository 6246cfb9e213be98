"""The coverage that a release estimates of itself."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

from releases import published, published_by
from sfumato import BreachBound, Schema, certificate, info
from sfumato._figures.number_format import format_percent
from sfumato._query.bound_coverage import estimate_bound_coverage
from sfumato._release.manifest import README
from sfumato._report import make_question_page

ROWS = 40_000
DISEASES = ["flu"] * 12 + ["cold"] * 5 + ["asthma", "gout", "HIV"]


def patients() -> pa.Table:
    return pa.table({"sex": ["F", "F", "M"] * ROWS, "disease": DISEASES * (3 * ROWS // len(DISEASES))})


@pytest.mark.parametrize("mechanism", ["uniform", "subset"])
def test_coverage_is_that_of_the_table_within_its_error(mechanism: str, tmp_path: Path) -> None:
    release = published(patients(), tmp_path / "release", bound=BreachBound("1/10", "1/2"), mechanism=mechanism)
    coverage = estimate_bound_coverage(release)
    assert coverage is not None
    assert coverage.uncovered_values == ("cold", "flu")
    assert coverage.low <= 3 / 20 <= coverage.high  # two errors each; the key is known, so the draw repeats
    assert coverage.low <= coverage.share <= coverage.high < coverage.low + 0.05
    assert coverage.borderline_values == ()
    assert coverage.prior == Fraction(1, 10)


@pytest.mark.parametrize(("mechanism", "has_odds_bound"), [("uniform", True), ("small-domain", False)])
def test_uncovered_values_have_bounded_odds_only_against_every_prior(
    mechanism: str, has_odds_bound: bool, tmp_path: Path
) -> None:
    release = published(patients(), tmp_path / "release", bound=BreachBound("1/10", "1/2"), mechanism=mechanism)
    coverage = estimate_bound_coverage(release)
    assert coverage is not None
    assert coverage.uncovered_values
    assert (coverage.odds_factor is not None) is has_odds_bound
    assert ("odds" in coverage.sentence) is has_odds_bound


def test_everybody_is_covered_where_no_value_is_above_the_prior(tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "F", "M"] * ROWS, "disease": ["flu", "cold", "gout"] * ROWS})
    release = published(
        table, tmp_path / "release", schema=Schema.of("disease", public="*"), bound=BreachBound("1/2", "3/4")
    )
    coverage = estimate_bound_coverage(release)
    assert (coverage.share, coverage.uncovered_values) == (1, ())


def test_value_close_to_the_prior_widens_the_coverage(tmp_path: Path) -> None:
    """Of 1,000 people 99 have gout, so the release cannot show that gout is below a tenth."""
    diseases = ["flu"] * 800 + ["gout"] * 99 + ["HIV"] * 51 + ["cold"] * 50
    table = pa.table({"sex": ["F", "M"] * 500, "disease": diseases})
    release = published(table, tmp_path / "release", bound=BreachBound("1/10", "1/2"), mechanism="uniform")
    coverage = estimate_bound_coverage(release)
    assert coverage.uncovered_values == ("flu",)
    assert "gout" in coverage.borderline_values
    assert coverage.low < 0.2 < coverage.high
    assert "gout" in coverage.sentence


def test_groups_without_a_common_prior_have_no_coverage(tmp_path: Path) -> None:
    assert estimate_bound_coverage(published_by("buckets", patients().slice(0, 600), tmp_path / "release")) is None


@pytest.mark.slow
def test_coverage_is_in_everything_that_leaves_the_house(tmp_path: Path) -> None:
    release = published(patients(), tmp_path / "release", key=None, mechanism="uniform")
    coverage = release.bound_coverage
    assert coverage is not None
    percent = format_percent(coverage.low)
    for text in (
        (release.folder / README).read_text(encoding="utf-8"),
        str(release.document()),
        str(certificate(release.path).document()),
        make_question_page(release).to_html(),
    ):
        assert f"covers {percent}" in text
    assert info(release)["coverage"] == certificate(release.path).to_json()["coverage"] == coverage.to_json()
