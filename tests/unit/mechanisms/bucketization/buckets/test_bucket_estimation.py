"""From buckets back to counts: hypergeometric moments, certain bounds, and the inverse of the mixing."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from refusals import refuses
from sfumato._records.tally import CONDITION_BATCH, Holdings, Tally, compute_certain_bounds
from sfumato.errors import InternalError
from sfumato.mechanisms._bucketization.buckets.bucket_estimation import (
    METHODS,
    MeetingMatrix,
    estimate_inverse,
    estimate_uniform,
)
from single import Single, check_lines, counted

Matrix = npt.NDArray[np.int64]
"""How many records of each value (column) each bucket (row) holds."""

CASES = {
    "one of three": ([(3, 1, 1)], "1/3", "2/9", 0, 1),
    "two buckets": ([(3, 2, 2), (2, 1, 1)], "11/6", "17/36", 1, 3),
    "alone and full": ([(6, 3, 2), (4, 4, 1), (1, 1, 1), (1, 1, 0)], "3", "2/5", 2, 4),
    "none and all": ([(10, 7, 6), (10, 2, 0), (5, 5, 5)], "46/5", "14/25", 8, 11),
}
"""Buckets of n records with q selected and s wanted; estimate, variance, and bounds over all pairings, enumerated."""

MIXED: Matrix = np.array(
    [[4, 2, 0, 2], [2, 4, 2, 0], [0, 2, 4, 4], [2, 0, 2, 4], [4, 4, 2, 0], [0, 2, 2, 4]], dtype=np.int64
)
"""Buckets in which four values meet in as many ways as there are values."""


def holdings_of(matrix: Matrix) -> Holdings:
    """The lines of a table of buckets."""
    buckets, places = np.nonzero(matrix)
    return Holdings(buckets, places, matrix[buckets, places], matrix.shape[1])


def estimates(method: str, matrix: Matrix, selected: Sequence[int], *wanted: Sequence[int]) -> list[Single]:
    """What a method makes of so many selected records in each bucket."""
    counts = np.array(selected, dtype=np.int64)
    tally = Tally.of_symbols(counts).attach_context(None, holdings_of(matrix))
    return counted(METHODS[method], None, tally, *wanted)


def two_values(groups: Sequence[tuple[int, int, int]]) -> tuple[Matrix, list[int]]:
    """Buckets that hold a wanted value and another, and the selected records of each."""
    return np.array([[s, n - s] for n, _, s in groups], dtype=np.int64), [q for _, q, _ in groups]


# -------------------------------------------------------------------------------------------------------------- uniform


@pytest.mark.parametrize(("groups", "value", "variance", "least", "most"), CASES.values(), ids=CASES)
def test_uniform_has_the_moments_and_the_bounds_of_all_pairings(
    groups: list[tuple[int, int, int]], value: str, variance: str, least: int, most: int
) -> None:
    matrix, selected = two_values(groups)
    (found,) = estimates("uniform", matrix, selected, [0])
    assert found.value == pytest.approx(float(Fraction(value)), rel=1e-12)
    assert found.variance_at(found.value) == pytest.approx(float(Fraction(variance)), rel=1e-12)
    assert (found.least, found.most) == (least, most)


def pairings(held: Sequence[int], selected: int) -> list[int]:
    """Of a bucket, the count of selected records with value 0, under every order of its values."""
    values = [value for value, count in enumerate(held) for _ in range(count)]
    return [order[:selected].count(0) for order in itertools.permutations(values)]


@pytest.mark.parametrize("held", [(1, 1), (2, 1), (1, 2, 1), (2, 2, 1), (3, 1, 2), (0, 2, 1), (3, 0)], ids=str)
def test_a_bucket_has_the_mean_and_the_variance_of_all_its_pairings(held: tuple[int, ...]) -> None:
    for selected in range(sum(held) + 1):
        counts = pairings(held, selected)
        (found,) = estimates("uniform", np.array([held]), [selected], [0])
        assert found.value == pytest.approx(np.mean(counts))
        assert found.base == pytest.approx(np.var(counts))
        assert (found.least, found.most) == (min(counts), max(counts))


def test_certain_bounds_hold_under_every_pairing_of_several_buckets() -> None:
    matrix, selected = np.array([[2, 1, 1], [1, 2, 0], [0, 1, 2]]), [3, 1, 2]
    counts = [sum(each) for each in itertools.product(*map(pairings, matrix.tolist(), selected))]
    size, marked = matrix.sum(axis=1).astype(np.float64), matrix[:, 0].astype(np.float64)
    assert compute_certain_bounds(size, np.array(selected, dtype=np.float64), marked) == (min(counts), max(counts))
    for method in METHODS:
        (found,) = estimates(method, matrix, selected, [0])
        assert (found.least, found.most) == (min(counts), max(counts))


def test_where_everybody_is_selected_the_count_is_certain() -> None:
    for method in METHODS:
        for place in range(4):
            (found,) = estimates(method, MIXED, MIXED.sum(axis=1).tolist(), [place])
            assert found.value == pytest.approx(MIXED[:, place].sum())
            assert found.least == found.most == MIXED[:, place].sum()


def test_where_nobody_is_selected_the_count_is_zero() -> None:
    for method in METHODS:
        (found,) = estimates(method, MIXED, [0] * len(MIXED), [0])
        assert (found.value, found.least, found.most) == (pytest.approx(0), 0, 0)


def test_uniform_says_what_association_would_add() -> None:
    """c_y = [y wanted] o_y - sum over wanted x of W_xy, from the definition in fractions."""
    wanted = (0, 2)
    c = [
        (sum(map(int, MIXED[:, y])) if y in wanted else 0)
        - sum(Fraction(int(row[x]) * int(row[y]), int(row.sum())) for row in MIXED for x in wanted)
        for y in range(4)
    ]
    (found,) = estimates("uniform", MIXED, [1] * len(MIXED), wanted)
    assert sum(c) == 0
    assert found.note is not None
    assert f"tau² times {float(sum(each * each for each in c)):.4g} " in found.note


# -------------------------------------------------------------------------------------------------------------- inverse


def test_the_inverse_gives_the_truth_from_what_is_expected() -> None:
    """If of each value the same part is selected in every bucket, bucket counts are their own expectation."""
    for halves in itertools.product((0, 1, 2), repeat=4):
        selected = MIXED @ np.array(halves) // 2
        found = estimates("inverse", MIXED, selected.tolist(), [0], [1], [2], [3])
        truth = MIXED.sum(axis=0) * halves / 2
        assert [each.value for each in found] == pytest.approx(truth.tolist(), abs=1e-9)


def test_uniform_does_not_give_the_truth_from_what_is_expected() -> None:
    """The twin: selection that goes with the value misleads an estimate that assumes it does not."""
    (found,) = estimates("uniform", MIXED, MIXED[:, 0].tolist(), [0])
    assert found.value < 0.7 * MIXED[:, 0].sum()


@pytest.mark.parametrize("matrix", [MIXED, np.vstack([MIXED, MIXED[:, ::-1]])], ids=["mixed", "turned"])
def test_the_inverse_is_that_of_the_directions_which_buckets_keep(matrix: Matrix) -> None:
    meeting = MeetingMatrix(holdings_of(matrix))
    kept, directions = meeting.spectrum
    assert meeting.stable_inverse is not None
    assert meeting.inverse == pytest.approx((directions / kept) @ directions.T)


def test_values_that_cannot_be_told_apart_have_no_sound_inverse() -> None:
    together = MeetingMatrix(holdings_of(np.array([[2, 2, 1], [4, 4, 0], [6, 6, 3]], dtype=np.int64)))
    assert together.stable_inverse is None
    _, is_told = together.solve(together.counts * np.eye(3))
    assert is_told.tolist() == [False, False, True]


def test_the_inverse_of_a_set_of_values_is_the_sum_of_theirs() -> None:
    selected = [3, 1, 5, 2, 4, 6]
    *single, pair, everything = estimates("inverse", MIXED, selected, [0], [1], [2], [3], [1, 3], [0, 1, 2, 3])
    assert pair.value == pytest.approx(single[1].value + single[3].value)
    assert everything.value == pytest.approx(sum(selected))
    assert everything.base == pytest.approx(0, abs=1e-9)
    assert everything.least == everything.most == sum(selected)


def dealt(matrix: Matrix, selected_of: Sequence[int], chance: np.random.Generator, times: int) -> Matrix:
    """How many selected records each bucket gets, dealt at random many times, if so many of each value are selected."""
    found = np.zeros((times, len(matrix)), dtype=np.int64)
    for column, chosen in zip(matrix.T, selected_of, strict=True):
        found += chance.multivariate_hypergeometric(column, chosen, size=times)
    return found


@pytest.mark.slow
def test_the_inverse_is_right_on_average_and_scatters_as_much_as_it_says() -> None:
    """Mean of estimates against the truth, mean of claimed variances against the scatter, over deals at random."""
    matrix, times = np.repeat(MIXED, 5, axis=0), 1500
    selected_of, wanted = (20, 50, 35, 40), [(0,), (2,), (0, 1), (1, 2, 3)]
    deals = dealt(matrix, selected_of, np.random.default_rng(7), times)
    found = [estimates("inverse", matrix, each.tolist(), *wanted) for each in deals]
    for place, places in enumerate(wanted):
        values = np.array([each[place].value for each in found])
        claimed = np.array([each[place].base for each in found])
        truth = sum(selected_of[value] for value in places)
        assert abs(values.mean() - truth) < 6.1 * values.std() / np.sqrt(times)
        assert claimed.mean() == pytest.approx(values.var(), rel=0.2)


def test_buckets_of_one_value_each_are_counted_without_error() -> None:
    matrix = np.diag([3, 2, 4])
    for method in METHODS:
        found = estimates(method, matrix, [2, 0, 1], [0], [1], [2])
        assert [each.value for each in found] == pytest.approx([2, 0, 1])
        if method != "shrunk":  # whose error is never told where there could be one
            assert [each.base for each in found] == pytest.approx([0, 0, 0], abs=1e-12)


# ------------------------------------------------------------------------------------------------- what buckets lose

TOGETHER: Matrix = np.array([[1, 1, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1]] * 4, dtype=np.int64)
"""The first two values always meet each other: nothing tells them apart."""


def test_values_that_always_meet_have_the_certain_bounds_as_interval() -> None:
    selected = [1, 2, 3] * 4
    uniform, inverse = (estimates(method, TOGETHER, selected, [0])[0] for method in ("uniform", "inverse"))
    assert inverse.value == uniform.value
    for level in (0.8, 0.95, 0.99):
        low, high = inverse.estimate().interval(level)
        assert (low, high) == (inverse.least, inverse.most)


def test_values_that_always_meet_can_be_counted_together() -> None:
    """All records of the first two values are selected: 24, though neither can be counted alone."""
    selected = TOGETHER[:, :2].sum(axis=1).tolist()
    pair, others = estimates("inverse", TOGETHER, selected, [0, 1], [2, 3])
    assert pair.value == pytest.approx(24)
    assert others.value == pytest.approx(0, abs=1e-9)
    assert pair.base is not None
    assert pair.base < (pair.most - pair.least) ** 2


def test_a_value_apart_can_be_counted_beside_values_that_always_meet() -> None:
    (found,) = estimates("inverse", TOGETHER, TOGETHER[:, 2].tolist(), [2])
    assert found.value == pytest.approx(TOGETHER[:, 2].sum())


def test_buckets_that_are_all_alike_tell_only_what_is_certain() -> None:
    matrix = np.ones((10, 3), dtype=np.int64)
    for found in estimates("inverse", matrix, [1, 2] * 5, [0], [1], [0, 2]):
        assert found.estimate().interval() == (found.least, found.most)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("matrix", [MIXED, TOGETHER], ids=["mixed", "together"])
def test_many_conditions_are_counted_as_each_alone(method: str, matrix: Matrix) -> None:
    """More than are looked at bucket by bucket at a time; of all records, of none, and of some."""
    sizes = matrix.sum(axis=1)
    some = np.random.default_rng(3).integers(0, sizes + 1, (2 * CONDITION_BATCH, len(sizes)))
    tally = Tally.of_symbols(np.vstack([some, sizes, 0 * sizes])).attach_context(None, holdings_of(matrix))
    sets = [np.array(places, dtype=np.int64) for places in ([0], [1, 3], [0, 1, 2, 3], [])]
    check_lines(lambda lines: METHODS[method].count(None, lines, sets), tally)


# --------------------------------------------------------------------------------------------------------- corner cases


@pytest.mark.parametrize("method", METHODS)
def test_a_value_that_nobody_has_is_counted_as_none(method: str) -> None:
    matrix = np.insert(MIXED, 2, 0, axis=1)
    absent, beside, alone = estimates(method, matrix, [3, 1, 5, 2, 4, 6], [2], [1, 2], [1])
    assert (absent.value, absent.base, absent.least, absent.most) == (pytest.approx(0), 0, 0, 0)
    assert (beside.value, beside.base) == pytest.approx((alone.value, alone.base))


@pytest.mark.parametrize("method", METHODS)
def test_nobody_wanted_is_nobody_found(method: str) -> None:
    (found,) = estimates(method, MIXED, [3, 1, 5, 2, 4, 6], [])
    assert (found.value, found.base, found.least, found.most) == (pytest.approx(0), 0, 0, 0)


@pytest.mark.parametrize("method", METHODS)
def test_buckets_of_one_record_are_counted_without_error(method: str) -> None:
    matrix = np.array([[1, 0], [0, 1], [1, 0]])
    (found,) = estimates(method, matrix, [1, 1, 0], [0])
    assert found.value == pytest.approx(1)
    assert found.base == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("selected", [[7, 0, 0, 0, 0, 0], [8, 8, 10, 8, 10, 8], [0, 0, 0, 0, 0, 0]])
def test_a_shrunk_count_that_is_certain_is_that_number(selected: Sequence[int]) -> None:
    """What the buckets leave no choice about is not estimated, to the last bit."""
    (found,) = estimates("shrunk", MIXED, selected, [2])
    assert found.least == found.most
    assert (found.value, found.base) == (found.least, 0)


@pytest.mark.parametrize("count", [estimate_uniform, estimate_inverse])
def test_counting_without_what_the_buckets_hold_is_a_mistake_of_ours(count: object) -> None:
    assert callable(count)
    with refuses(InternalError, "no-bucket-contents"):
        count(None, Tally.of_symbols(np.zeros(3, dtype=np.int64)), [np.array([0])])
