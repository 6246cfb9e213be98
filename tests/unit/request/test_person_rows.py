"""Several rows a person: how a bound is shared out, and how persons are described."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato import BreachBound, DecoyGroups, Diversity, LinearCap, Schema, SchemaError, SpecError, Tolerance
from sfumato._core import exact_numbers
from sfumato._core.exact_numbers import find_root_below
from sfumato._request.person_rows import MOST_ROWS, OneRow, PersonCheck, PersonRows, RowChoice, Surplus

WHOLES = st.builds(lambda above, below: 1 + Fraction(above, below), st.integers(1, 400), st.integers(1, 400))


# ------------------------------------------------------------------------------------------------------------ the root


@given(WHOLES, st.integers(2, 6))
def test_root_is_the_largest_fraction_of_small_parts_within_the_whole(whole: Fraction, times: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_numbers, "LARGEST_PART", 40)
        found = find_root_below.__wrapped__(whole, times)
    parts = range(1, 40)
    assert found == max(
        Fraction(above, below)
        for above in parts
        for below in parts
        if (above / below) ** times < 10**6 and Fraction(above, below) ** times <= whole
    )


@given(WHOLES, st.integers(2, 50))
def test_root_keeps_the_whole_and_nothing_larger_near_it_does(whole: Fraction, times: int) -> None:
    found = find_root_below(whole, times)
    assert found**times <= whole
    assert max(found.numerator, found.denominator) < 10**6
    assert (found + Fraction(3, 10**6)) ** times > whole


@pytest.mark.parametrize(
    ("whole", "times", "root"),
    [(4, 2, "2"), (Fraction(27, 8), 3, "3/2"), (Fraction(9, 2), 1, "9/2"), (10**13, 2, "999999")],
)
def test_root_of_a_power_is_exact(whole: Fraction, times: int, root: str) -> None:
    assert find_root_below(Fraction(whole), times) == Fraction(root)


def test_bound_of_one_row_is_the_whole() -> None:
    bound = BreachBound("1/10", "1/3")
    assert (
        bound.amplification == bound.person_amplification == bound.share_among_rows(1).amplification == Fraction(9, 2)
    )


def test_rows_share_the_whole() -> None:
    bound = BreachBound("1/10", "1/3").share_among_rows(3)
    assert (bound.rows, bound.person_amplification) == (3, Fraction(9, 2))
    assert 0 < bound.person_amplification - bound.amplification**3 < Fraction(1, 10**9)
    assert BreachBound.from_json(bound.to_json()) == bound


def test_bound_that_leaves_nothing_for_a_row_is_refused() -> None:
    with refuses(SpecError, "bound-too-small-for-rows", rows=3):
        BreachBound("1/2", "500001/1000001").share_among_rows(3)


@pytest.mark.parametrize(
    "written", [{"rows_per_person": 0}, {"rows_per_person": -1}, {"rows_per_person": MOST_ROWS + 1}]
)
def test_design_with_impossible_rows_is_refused(written: dict[str, int]) -> None:
    with refuses(SpecError, "rows-out-of-range"):
        BreachBound.from_json({"prior": "1/10", "posterior": "1/3", **written})


@pytest.mark.parametrize("spec", [Tolerance("3"), LinearCap("2", "1/10"), Diversity(3), DecoyGroups(3)], ids=str)
def test_requests_with_bounds_of_their_own_are_refused_for_several_rows(spec: Tolerance) -> None:
    assert spec.share_among_rows(1) is spec
    with refuses(SpecError, "several-rows-not-covered", rows=2, requirement=type(spec).__name__):
        spec.share_among_rows(2)


# ------------------------------------------------------------------------------------------------------ what is asked


@pytest.mark.parametrize("text", ["first:admitted", "last:a:b", "random"])
def test_row_of_each_person_is_written_as_it_is_read(text: str) -> None:
    assert str(OneRow.parse(text)) == text


@pytest.mark.parametrize("text", ["first", "last", "random:age", "any", "", ":age", "First:age"])
def test_other_rows_of_each_person_are_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        OneRow.parse(text)


@pytest.mark.parametrize("most", [0, -1, MOST_ROWS + 1])
def test_impossible_numbers_of_rows_are_refused(most: int) -> None:
    with refuses(SchemaError, "rows-out-of-range", given=most, largest=MOST_ROWS):
        PersonRows(most)


@pytest.mark.parametrize("given", [{"rows_per_person": 2}, {"surplus": "drop"}])
def test_one_row_leaves_nothing_else_to_decide(given: dict[str, object]) -> None:
    with refuses(SchemaError, "one-row-with-several"):
        Schema.of("s", person="p", one_row="random", **given, public="*")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"rows_per_person": 2}, {"surplus": "drop"}, {"one_row": "random"}])
def test_rows_are_nobody_s_without_a_person(given: dict[str, object]) -> None:
    with refuses(SchemaError, "no-person-column"):
        Schema.of("s", **given, public="*")  # type: ignore[arg-type]


def test_row_must_not_be_chosen_by_what_is_sensitive() -> None:
    with refuses(SchemaError, "rows-ordered-by-sensitive", column="s"):
        Schema.of("s", person="p", one_row="first:s", public="*")
    with refuses(SchemaError, "missing-column", column="when"):
        Schema.of("s", person="p", one_row="first:when", public="*").check_columns(["p", "s", "x"])


# ------------------------------------------------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (PersonRows(), "exactly one row"),
        (PersonRows(3), "at most 3 rows"),
        (PersonRows(3, Surplus.DROP), "1,234 rows are not published"),
        (PersonRows(one_row=OneRow(RowChoice.RANDOM)), "a random one"),
        (PersonRows(one_row=OneRow(RowChoice.FIRST, "seen")), "the first one by 'seen'"),
        (PersonRows(one_row=OneRow(RowChoice.LAST, "hidden")), "The other 1,234 rows are not"),
    ],
)
def test_persons_are_described_without_a_column_that_is_not_published(rows: PersonRows, words: str) -> None:
    persons = PersonCheck.of(rows, 1234 if rows.is_selective else 0, ("seen", "sex"))
    assert words in persons.sentence
    assert "hidden" not in str(persons.to_json()) + persons.sentence
    assert PersonCheck.from_json(persons.to_json()) == persons
    assert PersonRows.from_json(rows.to_json()) == rows


@pytest.mark.parametrize("change", [{"one_row": "best"}, {"surplus": "burn"}, {"most": "x"}])
def test_persons_that_make_no_sense_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"is not a valid|invalid literal"):
        PersonCheck.from_json({**PersonCheck().to_json(), **change})
