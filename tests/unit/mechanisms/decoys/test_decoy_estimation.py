"""Counts from decoys: exact on what is expected, certain where nothing is random, and frank where nothing is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import single
from refusals import refuses
from sfumato._query.estimate import Interval
from sfumato._records.tally import Tally
from sfumato.errors import InternalError, QueryError
from sfumato.mechanisms._decoys import Design
from sfumato.mechanisms._decoys.decoy_estimators import METHODS
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation, recompute_distribution
from sfumato.mechanisms.estimator import SumPiece
from single import Single

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

COUNTS = np.array([1900, 1700, 1500, 1300, 1100, 800, 600, 500, 300, 200, 100])
"""Ten thousand records; in groups of four none is near the limit of 2500."""

SELECTED = np.array([700, 200, 450, 130, 300, 100, 250, 90, 20, 60, 40])
"""What some condition selects, quite unlike the whole."""


def design_of(*sizes: int, group_size: int = 4, creation: GroupCreation = GroupCreation.MIXED) -> Design:
    return Design(tuple(tuple(range(size)) for size in sizes), group_size, creation)


def counted(
    design: Design, shown: Numbers | Floats, whole: Numbers | Floats, wanted: Sequence[Sequence[int]], method: str
) -> list[Single]:
    """Estimates from what selected records show, and from what all records show."""
    tally, beside = (Tally.of_one(each, round(float(each.sum()))) for each in (shown, whole))
    return single.counted(METHODS[method], design, tally.attach_context(beside, None), *wanted)


def interval(moments: Single) -> Interval:
    return moments.estimate().interval()


ONE = design_of(len(COUNTS))
SETS = [(place,) for place in range(len(COUNTS))] + [(0, 3), (1, 2, 5, 7), (0, 1, 2, 3, 4, 5, 6), tuple(range(10))]
unbiased = pytest.mark.parametrize("method", ["closed", "inverse"])
every_creation = pytest.mark.parametrize("creation", GroupCreation)
HONEST = {
    "fitted": {GroupCreation.MIXED},
    "closed": {GroupCreation.MIXED},
    "inverse": {GroupCreation.MIXED, GroupCreation.ANATOMY_RANDOM},
}
"""The groups of which each method tells an error."""
with_error = pytest.mark.parametrize(
    ("method", "creation"), [(name, kind) for name, kinds in HONEST.items() for kind in sorted(kinds)]
)
without_error = pytest.mark.parametrize(
    ("method", "creation"),
    [(name, kind) for name, kinds in HONEST.items() for kind in GroupCreation if kind not in kinds],
)

# ----------------------------------------------------------------------------------------------------- what is expected


def test_the_closed_form_finds_what_a_condition_selects_where_leaks_are_alike() -> None:
    """A record shows its own value with 1/gamma, and another's with a = f (gamma - 1) / (gamma (N - f))."""
    rows, total = SELECTED.sum(), COUNTS.sum()
    leaks = COUNTS * 3 / (4 * (total - COUNTS))
    shown = SELECTED / 4 + (rows - SELECTED) * leaks
    for place in range(len(COUNTS)):
        others = np.full(len(COUNTS), (rows - shown[place]) / (len(COUNTS) - 1))
        others[place] = shown[place]
        (found,) = counted(ONE, others, COUNTS, [(place,)], "closed")
        assert found.value == pytest.approx(SELECTED[place])


@pytest.mark.slow
@every_creation
def test_the_inverse_finds_what_a_condition_selects_for_every_set(creation: GroupCreation) -> None:
    design = design_of(len(COUNTS), creation=creation)
    shown = recompute_distribution(COUNTS, 4, creation).expect_published(SELECTED.astype(np.float64))
    for places, found in zip(SETS, counted(design, shown, COUNTS, SETS, "inverse"), strict=True):
        assert found.value == pytest.approx(SELECTED[list(places)].sum(), abs=1e-6)


def test_the_closed_form_is_biased_where_values_always_meet_the_same_others() -> None:
    """Why it tells no error there."""
    design = design_of(len(COUNTS), creation=GroupCreation.ANATOMY)
    shown = recompute_distribution(COUNTS, 4, GroupCreation.ANATOMY).expect_published(SELECTED.astype(np.float64))
    closed = counted(design, shown, COUNTS, SETS[:11], "closed")
    assert max(abs(each.value - true) for each, true in zip(closed, SELECTED, strict=True)) > 50


@unbiased
@every_creation
def test_an_unrelated_condition_selects_its_part_of_every_value(method: str, creation: GroupCreation) -> None:
    design = design_of(len(COUNTS), creation=creation)
    for places, found in zip(SETS, counted(design, COUNTS // 10, COUNTS, SETS, method), strict=True):
        assert found.value == pytest.approx(COUNTS[list(places)].sum() / 10)


@unbiased
@every_creation
@given(shown=st.lists(st.integers(0, 50), min_size=5, max_size=5).filter(lambda counts: sum(counts) >= 12))
def test_of_everything_the_estimate_is_what_is_published(
    method: str, creation: GroupCreation, shown: list[int]
) -> None:
    """Theorem 2 of the paper: for all records a value is counted by how often it is published, if groups fit that."""
    whole = np.array(shown)
    if 3 * whole.max() > whole.sum():
        return
    design = design_of(5, group_size=3, creation=creation)
    sets = [(0,), (4,), (1, 2), (0, 1, 2, 3)]
    for places, found in zip(sets, counted(design, whole, whole, sets, method), strict=True):
        assert found.value == pytest.approx(whole[list(places)].sum(), abs=1e-6)


@unbiased
def test_the_error_of_everything_is_not_understated(method: str) -> None:
    """Var f' = f (1 - 1/gamma), by the seats of the value's groups; up to 1/gamma more is said.

    For the error of a condition takes chance to decide whether a record's group holds the value; of all records that
    is known.
    """
    for place, found in enumerate(counted(ONE, COUNTS, COUNTS, SETS[:11], method)):
        variance, exact = found.variance_at(COUNTS[place]), COUNTS[place] * 3 / 4
        assert variance is not None
        assert 0.99 * exact < variance < 1.01 * exact * (1 + 1 / 4)


# --------------------------------------------------------------------------------------------------- sets and certainty


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@every_creation
def test_all_values_are_the_selected_records_and_certain(method: str, creation: GroupCreation) -> None:
    design = design_of(len(COUNTS), creation=creation)
    every, none = counted(design, SELECTED, COUNTS, [range(len(COUNTS)), ()], method)
    assert (every.value, every.least, every.most, every.variance_at(0)) == (2340, 2340, 2340, 0)
    assert (none.value, none.least, none.most, none.variance_at(0)) == (0, 0, 0, 0)


@with_error
def test_a_set_and_its_complement_are_the_selected_records_with_the_same_error(
    method: str, creation: GroupCreation
) -> None:
    design = design_of(len(COUNTS), creation=creation)
    for places in SETS:
        rest = tuple(place for place in range(len(COUNTS)) if place not in places)
        one, other = counted(design, SELECTED, COUNTS, [places, rest], method)
        assert one.value + other.value == pytest.approx(SELECTED.sum())
        errors = [each.estimate().standard_error for each in (one, other)]
        assert errors[0] == pytest.approx(errors[1], rel=0.03)


@unbiased
@every_creation
def test_nobody_selected_is_nobody_and_certain(method: str, creation: GroupCreation) -> None:
    design = design_of(len(COUNTS), creation=creation)
    for found in counted(design, np.zeros_like(COUNTS), COUNTS, SETS, method):
        assert (found.value, found.most, found.variance_at(0)) == (0, 0, 0)
        assert interval(found) == (0, 0)


@pytest.mark.parametrize("method", ["shrunk", "paper"])
def test_nobody_selected_is_nobody_by_the_biased_methods_too(method: str) -> None:
    assert all(found.value == 0 for found in counted(ONE, np.zeros_like(COUNTS), COUNTS, SETS, method))


@with_error
@given(data=st.data())
def test_variances_are_not_negative_and_intervals_are_within_the_selected(
    method: str, creation: GroupCreation, data: st.DataObject
) -> None:
    shown = np.array([data.draw(st.integers(0, int(count))) for count in COUNTS])
    design = design_of(len(COUNTS), creation=creation)
    for found in counted(design, shown, COUNTS, SETS[::4], method):
        assert found.base is not None
        assert found.base >= -1e-9 * shown.sum()
        low, high = interval(found)
        assert 0 <= low <= high <= found.most == shown.sum()


# ------------------------------------------------------------------------------------------------- what cannot be known

AT_LIMIT = np.array([2500, 1700, 1500, 1300, 1000, 800, 600, 300, 200, 100])


@unbiased
@every_creation
def test_a_value_in_every_group_is_flagged_and_its_interval_holds_everything(
    method: str, creation: GroupCreation
) -> None:
    design = design_of(len(AT_LIMIT), creation=creation)
    shown = AT_LIMIT // 5
    told, both, other = counted(design, shown, AT_LIMIT, [(0,), (0, 3), (3,)], method)
    for found in (told, both):
        assert found.note is not None
        assert found.note.startswith("no information")
        assert interval(found) == (0, shown.sum())
    assert told.value == pytest.approx(500)  # taken as unrelated
    # One number is missing: without it the matrix tells no other count either, unless leaks are taken to be alike.
    assert other.note is not None
    assert other.note.startswith("no information") == (method == "inverse")
    if creation in HONEST[method]:
        assert (interval(other)[1] == shown.sum()) == (method == "inverse")


def test_a_value_that_is_published_too_often_by_chance_is_flagged_too() -> None:
    whole = AT_LIMIT + np.array([40, -40, *[0] * 8])
    (found,) = counted(design_of(len(whole)), whole // 5, whole, [(0,)], "closed")
    assert found.note is not None
    assert found.note.startswith("no information")
    assert interval(found) == (0, (whole // 5).sum())


@without_error
def test_groups_that_a_method_is_not_for_have_counts_without_an_interval(method: str, creation: GroupCreation) -> None:
    """Too short an interval is worse than none; a count of all records is what the release shows, and keeps its own."""
    design = design_of(len(COUNTS), creation=creation)
    some, every = counted(design, SELECTED, COUNTS, [(2,), range(len(COUNTS))], method)
    assert (some.base, every.base) == (None, 0)
    assert some.note is not None
    assert some.note.startswith("no interval, because ")
    (whole,) = counted(design, COUNTS, COUNTS, [(2,)], method)
    low, high = interval(whole)
    assert low < COUNTS[2] < high
    shown = Tally.of_symbols(SELECTED).attach_context(Tally.of_symbols(COUNTS), None)
    total = METHODS[method].total
    assert total is not None
    assert np.isnan(total(design, [SumPiece(np.arange(11.0), shown, shown)]).base)
    with refuses(QueryError, "no-interval"):
        METHODS[method].twin(design, Tally.of_symbols(COUNTS), None)  # type: ignore[misc]


def test_values_that_always_meet_cannot_be_told_apart_but_together() -> None:
    """Six values of equal counts in blocks of three: within a block nothing is known, of a block everything."""
    whole = np.full(6, 1000)
    design = design_of(6, group_size=3, creation=GroupCreation.ANATOMY)
    shown = np.array([300, 250, 200, 90, 80, 80])
    one, block = counted(design, shown, whole, [(0,), (0, 1, 2)], "inverse")
    assert one.note is not None
    assert one.note.startswith("no information")
    assert interval(one) == (0, 1000)
    assert block.value == pytest.approx(750)


@with_error
def test_an_absent_value_is_counted_as_nobody_with_an_error(method: str, creation: GroupCreation) -> None:
    whole = np.append(COUNTS, 0)
    design = design_of(len(whole), creation=creation)
    (found,) = counted(design, whole // 10, whole, [(11,)], method)
    low, high = interval(found)
    assert found.value == pytest.approx(0, abs=1e-9)
    assert low == 0
    assert 1 < high < 50


def test_a_large_count_is_said_to_have_a_relative_error_and_a_small_one_to_be_unreliable() -> None:
    shown = COUNTS // 2
    large, small = counted(ONE, shown, COUNTS, [(0,), (10,)], "closed")
    assert large.note is not None
    assert small.note is not None
    error = large.estimate().standard_error
    assert error is not None
    assert large.note == f"the relative error is about {error / large.value:.1%}"
    assert small.note.startswith("deliberately unreliable: the count is too small (noise is amplified 4.0")


def test_the_regimes_change_where_the_error_is_three_tenths_of_the_count() -> None:
    notes = {}
    for part in (2, 5, 10, 20, 50, 100, 500):
        (found,) = counted(ONE, COUNTS // part, COUNTS, [(1,)], "closed")
        error = found.estimate().standard_error
        assert error is not None
        assert found.note is not None
        notes[part] = found.note.startswith("the relative error")
        assert notes[part] == (error <= 0.3 * found.value)
    assert set(notes.values()) == {True, False}


@pytest.mark.parametrize("method", METHODS)
def test_decoys_are_not_counted_without_the_whole_release(method: str) -> None:
    with pytest.raises(InternalError):
        METHODS[method].count(ONE, Tally.of_symbols(SELECTED), [np.array([0])])


# ------------------------------------------------------------------------------------------------------------ shrinking


def test_shrunk_counts_of_an_unrelated_condition_are_near_its_part_of_every_value() -> None:
    """Of eleven values noise is not known too well, so a part of it stays."""
    noisy = COUNTS // 10 + np.array([9, -9, 8, -8, 7, -7, 4, -4, 3, -3, 0])
    fitted, shrunk = (counted(ONE, noisy, COUNTS, SETS[:11], method) for method in ("fitted", "shrunk"))
    off = [
        abs(np.array([each.value for each in found]) - COUNTS * noisy.sum() / COUNTS.sum())
        for found in (fitted, shrunk)
    ]
    assert off[1].sum() < 0.5 * off[0].sum()


def test_shrunk_counts_of_a_related_condition_lie_between_independence_and_the_inverse() -> None:
    """What is typical is a little less than independence."""
    law = recompute_distribution(COUNTS, 4, GroupCreation.MIXED)
    shown = np.round(law.expect_published(SELECTED.astype(np.float64))).astype(np.int64)
    fitted, shrunk = (counted(ONE, shown, COUNTS, SETS[:11], method) for method in ("fitted", "shrunk"))
    unrelated = COUNTS * shown.sum() / COUNTS.sum()
    pulls = []
    for place in range(len(COUNTS)):
        found, whole = shrunk[place].value, fitted[place].value
        assert min(whole, 0.8 * unrelated[place]) - 1e-6 <= found <= max(whole, unrelated[place]) + 1e-6
        pulls.append((found - unrelated[place]) / (whole - unrelated[place]))
        assert shrunk[place].base is None
    assert 0.1 < np.median(pulls) < 1


@every_creation
def test_shrunk_counts_of_all_records_are_those_published(creation: GroupCreation) -> None:
    found = counted(design_of(11, creation=creation), COUNTS, COUNTS, SETS[:11], "shrunk")
    assert [each.value for each in found] == pytest.approx(COUNTS.tolist())


def test_the_paper_is_biased_even_for_everything() -> None:
    (found,) = counted(ONE, COUNTS, COUNTS, [(9,)], "paper")
    assert found.value < 0.9 * COUNTS[9]
    assert found.base is None


# ------------------------------------------------------------------------------------------------------ several columns

SIZES = (11, 6)


@pytest.fixture(scope="module")
def table() -> Numbers:
    """What all records show in two columns, a little related."""
    chance = np.random.default_rng(4)
    shares = np.outer(COUNTS / COUNTS.sum(), np.linspace(2, 1, 6) / 9) * np.exp(0.2 * chance.normal(size=SIZES))
    return chance.multinomial(40_000, (shares / shares.sum()).ravel())


@pytest.mark.slow
@unbiased
@every_creation
def test_a_question_about_one_of_several_columns_is_answered_as_if_it_were_the_only_one(
    table: Numbers, method: str, creation: GroupCreation
) -> None:
    shown = np.random.default_rng(1).binomial(table, 0.2)
    both = design_of(*SIZES, creation=creation)
    places = np.arange(len(table)).reshape(SIZES)
    for axis, size in enumerate(SIZES):
        alone = design_of(size, creation=creation)
        sets = [(0,), (size - 1,), (1, 2, 3)]
        wide = [places.take(each, axis=axis).ravel().tolist() for each in sets]
        other = 1 - axis
        margins = [each.reshape(SIZES).sum(axis=other) for each in (shown, table)]
        expected = counted(alone, *margins, sets, method)
        assert counted(both, shown, table, wide, method) == expected


@pytest.mark.slow
@unbiased
def test_a_combination_is_the_product_of_both_columns_closed_forms(table: Numbers, method: str) -> None:
    shown, both = np.random.default_rng(1).binomial(table, 0.2), design_of(*SIZES)
    (found,) = counted(both, shown, table, [(0 * 6 + 2,)], method)
    margins = [table.reshape(SIZES).sum(axis=axis) for axis in (1, 0)]
    factors = []
    for margin, place in zip(margins, (0, 2), strict=True):
        share = margin[place] / table.sum()
        gain = (1 / 4) * (1 - 4 * share) / (1 - share)
        factors.append(np.where(np.arange(len(margin)) == place, 1 / gain, 0) + share - share / gain)
    expected = float((np.outer(*factors) * shown.reshape(SIZES)).sum())
    if method == "closed":
        assert found.value == pytest.approx(expected)
    error = found.estimate().standard_error
    assert error is not None
    assert abs(found.value - expected) < 5 * error


@unbiased
def test_combinations_are_flagged_as_telling_next_to_nothing(table: Numbers, method: str) -> None:
    shown, both = np.random.default_rng(1).binomial(table, 0.2), design_of(*SIZES)
    (found,) = counted(both, shown, table, [(2,)], method)
    assert found.note is not None
    assert found.note.startswith(
        "deliberately unreliable: almost no joint information about these columns is published (noise"
    )
    amplified = float(found.note.partition("amplified ")[2].partition(" times")[0])
    assert amplified > 20


def test_the_noise_of_a_combination_is_amplified_by_the_product(table: Numbers) -> None:
    (found,) = counted(design_of(*SIZES), table // 5, table, [(2,)], "closed")
    assert found.note is not None
    product = 1.0
    for axis, place in ((1, 0), (0, 2)):
        share = table.reshape(SIZES).sum(axis=axis)[place] / table.sum()
        product *= share + (1 - share) * 4 * (1 - share) / (1 - 4 * share)
    assert f"amplified {product:.3g} times" in found.note


def test_a_value_in_every_group_of_one_column_tells_nothing_of_its_combinations() -> None:
    whole = np.outer(AT_LIMIT, [3, 3, 2, 2, 2, 2]).ravel()
    design = design_of(10, 6)
    in_all, alone, not_in_all = counted(design, whole // 4, whole, [(0,), (0, 6, 12), (6,)], "closed")
    for found in (in_all, alone):
        assert found.note is not None
        assert found.note.startswith("no information")
    assert not_in_all.note is not None
    assert not not_in_all.note.startswith("no information")


def test_shrunk_counts_are_for_one_column(table: Numbers) -> None:
    with refuses(QueryError, "method-for-one-column", method="shrunk"):
        counted(design_of(*SIZES), table // 5, table, [(0,)], "shrunk")


@unbiased
def test_all_combinations_are_the_selected_records(table: Numbers, method: str) -> None:
    every, none = counted(design_of(*SIZES), table // 5, table, [range(len(table)), ()], method)
    rows = (table // 5).sum()
    assert (every.value, every.most, every.least, every.variance_at(rows)) == (rows, rows, rows, 0)
    assert (none.value, none.most) == (0, 0)


@unbiased
def test_a_combination_in_all_records_is_as_uncertain_as_in_nearly_all(table: Numbers, method: str) -> None:
    """Of one column the published count is the estimate, and exact in its error; of two it is not."""
    nearly = table - (table > 50)
    (every,), (most,) = (counted(design_of(*SIZES), shown, table, [(0,)], method) for shown in (table, nearly))
    assert every.variance_at(every.value) == pytest.approx(most.variance_at(most.value), rel=0.05)


def test_a_sum_says_nothing_about_the_size_of_a_count(table: Numbers) -> None:
    alone = table.reshape(SIZES).sum(axis=1)
    design, whole = design_of(SIZES[0]), Tally.of_symbols(alone)
    ninth = (alone // 9).astype(np.float64)
    piece = SumPiece(
        np.eye(SIZES[0])[0], *(Tally.of_symbols(by * ninth).attach_context(whole, None) for by in (-3.0, 9.0))
    )
    total = METHODS["fitted"].total
    assert total is not None
    found = Single.of(total(design, [piece]))
    assert found.note is None
    assert (found.least, found.most) == (-math.inf, math.inf)
