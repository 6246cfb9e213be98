"""Numbers printed in Chaytor and Wang, "Small Domain Randomization: Same Privacy, More Utility" (VLDB 2010)."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.draws import Draws
from sfumato.mechanisms import uniform
from sfumato.request.exact import Exact
from sfumato.request.histogram import Histogram
from sfumato.request.spec import BreachBound

AMPLIFICATION_FIVE = BreachBound("1/10", "5/14")


def _design(domain_size: int, bound: BreachBound = AMPLIFICATION_FIVE) -> uniform.Design:
    histogram = Histogram.of(range(domain_size), [1] * domain_size)
    return uniform.design(uniform.plan(histogram, bound, uniform.NoOptions(), Draws.unsafe_test_key("00" * 32)))


def _kept(design: uniform.Design) -> Fraction:
    return design.retention + design.swap_probability


def _percent(share: Fraction) -> int:
    return round(100 * share)


def test_the_bound_of_these_tests_has_amplification_five() -> None:
    assert AMPLIFICATION_FIVE.amplification == 5


@pytest.mark.parametrize(
    ("domain_size", "retention", "swap"),
    [(77, 5, 1), (70, 5, 1), (50, 7, 2), (14, 22, 6), (9, 31, 8), (7, 36, 9), (6, 40, 10), (2, 67, 17)],
)
def test_table_1_census_probabilities(domain_size: int, retention: int, swap: int) -> None:
    """Section 1.1, Table 1: p and q in percent for the eight columns of CENSUS, amplification 5; all correct."""
    design = _design(domain_size)
    assert (_percent(design.retention), _percent(design.swap_probability)) == (retention, swap)


def test_section_1_1_diagnosis_codes() -> None:
    """Section 1.1: with m = 15,000 ICD-9 codes, q = 6.7e-5 and p + q = 3.3e-4; both correct."""
    design = _design(15_000)
    assert f"{float(design.swap_probability):.1e}" == "6.7e-05"
    assert f"{float(_kept(design)):.1e}" == "3.3e-04"


def test_section_1_1_age_and_country() -> None:
    """Section 1.1: with m = 77 x 70 = 5390, q = 1.9e-4.

    Misprint: the paper gives p + q = 7.4e-4. That is p alone; the sum is 9.3e-4.
    """
    design = _design(77 * 70)
    assert f"{float(design.swap_probability):.1e}" == "1.9e-04"
    assert f"{float(_kept(design)):.1e}" == "9.3e-04"
    assert f"{float(design.retention):.1e}" == "7.4e-04"


def test_section_1_1_careless_partitioning_makes_a_value_nearly_certain() -> None:
    """Section 1.1: H1N1 holds 40% of the table, and 98% of the records of {H1N1, cancer}; correct (40/41)."""
    table = Histogram(("H1N1", "SARS", "HIV", "cancer"), (40, 30, 29, 1))
    part = Histogram(("H1N1", "cancer"), (40, 1))
    assert _percent(table.shares[0]) == 40
    assert _percent(part.shares[0]) == 98


@pytest.mark.parametrize(("prior", "kept", "swap"), [("1/3", "4/9", "1/9"), ("1/6", "2/3", "1/15")])
def test_example_1_matrices_of_the_two_parts(prior: str, kept: str, swap: str) -> None:
    """Section 4.1, Example 1: (1/3, 2/3)-privacy; the parts have priors 1/3 and 1/6 and six values each; correct."""
    design = _design(6, BreachBound(prior, "2/3"))
    assert (_kept(design), design.swap_probability) == (Fraction(kept), Fraction(swap))


def _retentions_of_table_2(prior: Exact) -> list[float]:
    bounds = [BreachBound(prior, posterior) for posterior in ("1/6", "1/5", "1/4", "1/3")]
    return [100 * float(_design(50, bound).retention) for bound in bounds]


def test_table_2_prints_the_retention_at_the_largest_share() -> None:
    """Section 6.2, Table 2, row UP: 2.9, 4.0, 5.9 and 9.4 percent for posteriors 1/6, 1/5, 1/4 and 1/3 at m = 50.

    The row belongs to the largest share of a value as the prior, 7.5 percent, which the text rounds to 7.
    """
    assert _retentions_of_table_2("0.075") == pytest.approx([2.9, 4.0, 5.9, 9.4], abs=0.06)


def test_table_2_would_be_lower_at_the_prior_of_the_text() -> None:
    """Section 6.2 says that the prior is 1/13; that gives 2.7, 3.8, 5.7 and 9.1 percent instead of the printed row."""
    assert [round(share, 1) for share in _retentions_of_table_2("1/13")] == [2.7, 3.8, 5.7, 9.1]
