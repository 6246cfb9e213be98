"""The bound is divided exactly between crowds and coarse tables, and what cannot be read is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from coarse_plans import DRAWS, make_plan
from refusals import refuses
from sfumato._request.belief_bounds import BreachBound
from sfumato.errors import InfeasibleError, SfumatoError, SpecError
from sfumato.mechanisms import CrowdCounts
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._noisy_counts.budget_shares import CoarseShare, divide_budget, parse_shares
from sfumato.mechanisms._noisy_counts.fixed_sum_noise import FixedSumNoise


def test_shares_are_read() -> None:
    fifth, tenth = Fraction(1, 5), Fraction(1, 10)
    assert parse_shares("age,sex=1/5") == (CoarseShare(("age", "sex"), fifth),)
    assert parse_shares(" age , sex =20%; region=0.1") == (
        CoarseShare(("age", "sex"), fifth),
        CoarseShare(("region",), tenth),
    )
    assert parse_shares('"a, b","say ""x""",c=1/5') == (CoarseShare(("a, b", 'say "x"', "c"), fifth),)


@pytest.mark.parametrize("text", ["", "age", "=1/5", "age,=1/5", "age,age=1/5", "age=1/5,sex=1/5", ";age=1/5", '"=1/5'])
def test_text_in_another_form_is_refused(text: str) -> None:
    with refuses(SpecError, "invalid-coarse-tables"):
        parse_shares(text)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("age=x", "not-a-number"),
        ("age=0", "coarse-shares-out-of-range"),
        ("age=-1/5", "coarse-shares-out-of-range"),
        ("age=1/2;sex=1/2", "coarse-shares-out-of-range"),
        ("age=0.12345", "coarse-shares-out-of-range"),
        ("age,sex=1/5;sex,age=1/5", "repeated-coarse-table"),
        ("a=1/9;b=1/9;c=1/9;d=1/9;e=1/9", "too-many-coarse-tables"),
    ],
)
def test_impossible_shares_are_refused(text: str, code: str) -> None:
    with refuses(SpecError, code):
        noisy_counts.Options(also_by=text)


@pytest.mark.parametrize("shares", [[], [Fraction(1, 5)], [Fraction(1, 5), Fraction(1, 3)], [Fraction(1, 10)] * 4])
@pytest.mark.parametrize("bound", [BreachBound("1/10", "1/3"), BreachBound("1/10", "1/2", rows=3)], ids=["one", "rows"])
def test_product_of_all_factors_is_the_amplification(bound: BreachBound, shares: list[Fraction]) -> None:
    tables = [CoarseShare((str(number),), share) for number, share in enumerate(shares)]
    factor, coarse = divide_budget(bound.amplification, tables)
    assert factor * prod(coarse, start=Fraction(1)) == bound.amplification
    for own, share in zip(coarse, shares, strict=True):
        assert own**share.denominator <= bound.amplification**share.numerator
        assert float(own) == pytest.approx(float(bound.amplification) ** float(share))


def test_share_without_effect_is_refused() -> None:
    with refuses(InfeasibleError, "coarse-share-too-small"):
        divide_budget(Fraction(1_000_001, 1_000_000), parse_shares("age=1/1000"))


def test_plan_without_coarse_tables_is_as_before() -> None:
    plan = make_plan()
    assert (plan.coarse, plan.noise.ratio) == ((), 1 / plan.sets.bound.amplification)
    assert "also_by" not in noisy_counts.make_design(plan).to_json()


def test_design_is_read_back() -> None:
    design = noisy_counts.make_design(make_plan(also_by="age,sex=1/5; region=1/10"))
    assert noisy_counts.read_design(design.to_json(), ["integer"]) == design
    assert design.bound == BreachBound("1/10", "1/3")


@pytest.mark.parametrize(
    "tables",
    [
        [{"columns": [], "ratio": "1/2"}],
        [{"columns": "age", "ratio": "1/2"}],
        [{"columns": [1], "ratio": "1/2"}],
        [{"columns": ["age", "age"], "ratio": "1/2"}],
        [{"columns": ["age"], "ratio": "1"}],
        [{"columns": ["age"], "ratio": "1/2"}, {"columns": ["age"], "ratio": "1/2"}],
        [{"columns": [str(number)], "ratio": "1/2"} for number in range(5)],
    ],
)
def test_damaged_designs_are_refused(tables: object) -> None:
    entries = {**noisy_counts.make_design(make_plan()).to_json(), "also_by": tables}
    with pytest.raises(SfumatoError):
        noisy_counts.read_design(entries, ["integer"])


# ------------------------------------------------------------------------------------------------------------ the bound


def test_all_tables_together_reach_the_bound_and_do_not_exceed_it() -> None:
    """One person with one of two values, in a crowd of two and in a coarse group of three; every small outcome."""
    plan = make_plan(also_by="age=1/4", values=2)
    crowd, coarse = plan.noise, plan.coarse[0].noise

    def compute_likelihood(noise: FixedSumNoise, noisy: int, true: int) -> Fraction:
        return noise.zero_probability * noise.ratio ** abs(noisy - true)

    factors = [
        compute_likelihood(crowd, own, 1 + others)
        * compute_likelihood(coarse, also, 1 + others + beside)
        / (compute_likelihood(crowd, own, others) * compute_likelihood(coarse, also, others + beside))
        for own, also, others, beside in product(range(-3, 6), range(-3, 7), range(2), range(2))
    ]
    assert max(factors) == plan.sets.bound.amplification
    assert min(factors) == 1 / plan.sets.bound.amplification


def test_sets_have_the_factor_that_coarse_tables_leave() -> None:
    plan = make_plan(also_by="age=1/4", values=20)
    assert plan.sets.selection.amplification <= 1 / plan.noise.ratio
    assert float(plan.sets.selection.amplification * plan.noise.ratio) == pytest.approx(1)


# ------------------------------------------------------------------------------------------------------------ the draws


def draw_tables(also_by: str) -> list[np.ndarray]:
    """The noise of the first crowds, and of the first groups of each coarse table."""
    plan = make_plan(also_by=also_by, values=5)
    rules = noisy_counts.MECHANISM.require(CrowdCounts)
    tables = rules.list_coarse_counts(plan)
    return [rules.draw_noise(plan, 0, 50, DRAWS), *(table.draw_noise(0, 50, DRAWS) for table in tables)]


def test_every_table_has_draws_of_its_own() -> None:
    """Equal shares, so that noise with the same purpose would be the same."""
    crowds, one, other = draw_tables("age=1/3; sex=1/3")
    assert not np.array_equal(one, other)
    assert not np.array_equal(crowds, one)
    assert not np.array_equal(crowds, other)


def test_tables_with_one_purpose_would_have_equal_noise() -> None:
    """The twin: if the purpose is used again, the difference of the two tables is exact."""
    noise = FixedSumNoise(5, Fraction(2, 5))
    assert np.array_equal(noise.draw(DRAWS, 0, 50), noise.draw(DRAWS, 0, 50))
    assert not np.array_equal(noise.draw(DRAWS, 0, 50), noise.draw(DRAWS, 0, 50, "noisy-counts/also/1"))


def test_noise_of_a_group_depends_on_its_number_and_on_no_other() -> None:
    (table,) = noisy_counts.list_coarse_counts(make_plan(also_by="age=1/3", values=5))
    parts = [table.draw_noise(first, 5, DRAWS) for first in range(0, 50, 5)]
    assert np.array_equal(table.draw_noise(0, 50, DRAWS), np.concatenate(parts))


def test_attackers_who_do_not_use_coarse_tables_are_pointed_out() -> None:
    remarks = [noisy_counts.list_remarks(make_plan(also_by, class_sizes=((3, 9),))) for also_by in ("age=1/5", None)]
    codes = [{notice.code for notice in notices} for notices in remarks]
    assert codes == [{"counts-published", "coarse-tables-not-attacked"}, {"counts-published"}]


def test_plan_table_shows_the_trade() -> None:
    """Crowds of three and people alone, in ten coarse groups of 100: the large counts gain, and all others lose."""
    plan = make_plan(also_by="age=1/5", values=20, class_sizes=((1, 400), (3, 200)), coarse_sizes=(((100, 10),),))
    (table,) = noisy_counts.list_tables(plan)
    (_, without, combined), (_, group_without, group_with), (_, other_without, other_with) = table.rows
    assert float(combined) < 0.8 * float(without)
    assert float(group_with) < float(group_without)
    assert float(other_with) > float(other_without)
    assert noisy_counts.list_tables(make_plan(values=20)) == []
