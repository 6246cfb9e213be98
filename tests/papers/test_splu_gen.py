"""Groups and estimates of Fu et al., "Small sum privacy and large sum utility in data publishing" (2014), SPLU-Gen.

Journal of Biomedical Informatics. Its bounds are in test_splu_bounds.py. The numbers come from an independent reference
implementation; states are numbered by bits, the condition first, and ties are broken by the smaller place. Where the
paper errs, the docstring says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from sfumato._records.tally import Tally
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._decoys import Design
from sfumato.mechanisms._decoys.decoy_estimators import METHODS
from sfumato.mechanisms._decoys.group_creation import Groups, compute_transition, make_fullest_groups, make_mixed_groups
from sfumato.mechanisms._decoys.joint_columns import JointDistribution
from sfumato.mechanisms._decoys.leak_matrix import EvenDistribution, GroupCreation, cap_counts, recompute_distribution
from sfumato.mechanisms._decoys.likelihood_ratios import find_largest_group_size
from sfumato.mechanisms._decoys.splu_iteration import run_iteration
from single import Single
from statistical.support import keyed_draws

Floats = npt.NDArray[np.float64]
Compositions = list[list[int]]


def compositions(groups: Groups) -> Compositions:
    """The values of each group, one by one."""
    runs = zip(groups.members.tolist(), groups.sizes.tolist(), groups.lengths.tolist(), strict=True)
    return [sorted(members[:size]) for members, size, length in runs for _ in range(length)]


def wrapped(counts: Sequence[int], group_size: int) -> Groups:
    """All values round the groups in one tranche, in the order of the domain."""
    order = np.arange(len(counts))
    return make_mixed_groups(counts, group_size, np.array([order, order]))


def planned(counts: Sequence[int], group_size: int) -> _decoys.Plan:
    histogram = Histogram.of([f"value {place}" for place in range(len(counts))], counts)
    return _decoys.plan(histogram, DecoyGroups(group_size), _decoys.Options(GroupCreation.ANATOMY), keyed_draws(0))


# ------------------------------------------------------------------------------------------------- Figures and examples

FIGURE_3 = (2, 3, 3, 1)
"""HIV, flu, fever and one more disease of nine people; groups of three."""


def test_figure_3_groups_of_three() -> None:
    """Fig. 3(c): tuples 1, 2 and 4 have HIV, flu and fever, and each group has three different diseases."""
    expected = [[0, 1, 2], [0, 1, 2], [1, 2, 3]]
    assert compositions(make_fullest_groups(FIGURE_3, 3, None)) == expected
    assert compositions(wrapped(FIGURE_3, 3)) == expected
    assert make_fullest_groups(FIGURE_3, 3, None).group_count == 3


def test_figure_3_every_disease_of_a_group_is_published_with_one_third() -> None:
    """Fig. 3(d): p = q = 1/3, so that the fourth disease is never published by somebody with HIV."""
    thirds = [[3, 3, 3, 0], [2, 3, 3, 1], [2, 3, 3, 1], [0, 3, 3, 3]]
    expected = [[Fraction(each, 9) for each in row] for row in thirds]
    assert compute_transition(make_fullest_groups(FIGURE_3, 3, None)) == pytest.approx(
        np.array(expected, dtype=np.float64)
    )


def test_figure_2_three_is_the_largest_group_size() -> None:
    assert find_largest_group_size(FIGURE_3) == 3
    with pytest.raises(InfeasibleError, match="`group_size=3`,"):
        planned(FIGURE_3, 4)


# ------------------------------------------------------------------------------------------------------- Group creation

GROUPS: dict[str, tuple[tuple[int, ...], int, Compositions, Compositions]] = {
    "blocks of equal counts": ((4,) * 6, 3, [[0, 1, 2], [3, 4, 5]] * 4, [[0, 2, 4]] * 4 + [[1, 3, 5]] * 4),
    "exactly at the limit": (
        (5, 3, 1, 1),
        2,
        [[0, 1]] * 3 + [[0, 2], [0, 3]],
        [[0, 1]] * 3 + [[0, 2], [0, 3]],
    ),
    "two equal values": ((5, 5), 2, [[0, 1]] * 5, [[0, 1]] * 5),
    "one left over, pairs": ((3, 3, 1), 2, [[0, 1, 2], [0, 1], [0, 1]], [[0, 1, 2], [0, 1], [0, 1]]),
    "two left over, triples": (
        (3, 3, 3, 2),
        3,
        [[0, 1, 2, 3], [0, 1, 2], [0, 1, 2, 3]],
        [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2]],
    ),
    "two left over, fives": (
        (3, 3, 3, 3, 3, 2),
        5,
        [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]],
        [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4]],
    ),
    "three left over, one group": ((1,) * 7, 4, [[*range(7)]], [[*range(7)]]),
    "no multiple, at the limit": (
        (3, 2, 2, 2, 1),
        3,
        [[0, 1, 2, 4], [0, 1, 3], [0, 2, 3]],
        [[0, 1, 2, 4], [0, 1, 3], [0, 2, 3]],
    ),
    "nobody has one": ((4, 0, 4, 4), 3, [[0, 2, 3]] * 4, [[0, 2, 3]] * 4),
    "skewed": (
        (9, 7, 5, 4, 3, 2, 2, 2, 1, 1),
        4,
        [
            [0, 1, 2, 3],
            [0, 1, 2, 3],
            [0, 1, 2, 4],
            [0, 1, 2, 3],
            [0, 1, 4, 5],
            [0, 1, 6, 7],
            [0, 1, 2, 3],
            [0, 4, 5, 6],
            [0, 7, 8, 9],
        ],
        [
            [0, 1, 2, 4],
            [0, 1, 2, 5],
            [0, 1, 2, 5],
            [0, 1, 3, 6],
            [0, 1, 3, 6],
            [0, 1, 3, 7],
            [0, 1, 3, 7],
            [0, 2, 4, 8],
            [0, 2, 4, 9],
        ],
    ),
}
every_table = pytest.mark.parametrize(("counts", "group_size", "fullest", "wrap"), GROUPS.values(), ids=GROUPS)


@every_table
def test_groups_of_the_fullest_values_are_those_of_the_reference(
    counts: tuple[int, ...], group_size: int, fullest: Compositions, wrap: Compositions
) -> None:
    """The paper deletes up to two records of a table that is no multiple of three; here they join a group."""
    assert compositions(make_fullest_groups(counts, group_size, None)) == fullest


@every_table
def test_groups_by_wrapping_around_are_those_of_the_reference(
    counts: tuple[int, ...], group_size: int, fullest: Compositions, wrap: Compositions
) -> None:
    assert compositions(wrapped(counts, group_size)) == wrap


@every_table
def test_transitions_are_those_of_the_groups(
    counts: tuple[int, ...], group_size: int, fullest: Compositions, wrap: Compositions
) -> None:
    """A[u,v] = the groups of u that hold v too, each by one over its size, per record of u; from the definition."""
    size = len(counts)
    for groups, expected in (
        (make_fullest_groups(counts, group_size, None), fullest),
        (wrapped(counts, group_size), wrap),
    ):
        meeting = [
            [sum(Fraction(1, len(each)) for each in expected if {u, v} <= set(each)) for v in range(size)]
            for u in range(size)
        ]
        chances = [[float(each / max(counts[u], 1)) for each in meeting[u]] for u in range(size)]
        assert compute_transition(groups) == pytest.approx(np.array(chances))


def test_a_skewed_table_in_groups_of_five() -> None:
    groups = compositions(make_fullest_groups((20, 18, 15, 11, 9, 9, 7, 5, 3, 2, 1), 5, None))
    assert groups[:4] == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 5], [0, 1, 2, 3, 4], [0, 1, 2, 3, 5]]
    assert groups[10:14] == [[0, 1, 2, 3, 7], [0, 1, 2, 4, 5], [0, 1, 2, 6, 7], [0, 1, 3, 4, 5]]
    assert groups[-3:] == [[0, 1, 2, 8, 9], [0, 3, 4, 5, 6], [0, 7, 8, 9, 10]]
    wrap = compositions(wrapped((20, 18, 15, 11, 9, 9, 7, 5, 3, 2, 1), 5))
    assert wrap[:3] == [[0, 1, 2, 3, 5], [0, 1, 2, 3, 5], [0, 1, 2, 3, 6]]
    assert wrap[-3:] == [[0, 1, 3, 5, 9], [0, 2, 3, 5, 9], [0, 2, 3, 5, 10]]


@pytest.mark.parametrize(
    ("counts", "group_size", "largest"),
    [((6, 3, 1, 1), 2, 1), ((7,), 2, 1), ((4, 2, 2, 2, 1), 3, 2)],
    ids=["one over the limit", "one value only", "no multiple, one over the limit"],
)
def test_a_value_that_is_too_frequent_is_refused(counts: tuple[int, ...], group_size: int, largest: int) -> None:
    assert find_largest_group_size(counts) == largest
    remedy = f"at most `group_size={largest}`," if largest > 1 else "so no group size works"
    with pytest.raises(InfeasibleError, match=f"^one value belongs to .*{remedy}") as refused:
        planned(counts, group_size)
    assert refused.value.sentence_with_values.startswith("'value 0' belongs to ")


def test_blocks_of_equal_counts_cannot_be_told_apart_by_anybody() -> None:
    """Section 4.1 calls the partition deterministic: then ten values of 50 always meet the same four others."""
    chances = compute_transition(make_fullest_groups((50,) * 10, 5, None))
    assert np.linalg.matrix_rank(chances) == 2
    random = compute_transition(make_fullest_groups((50,) * 10, 5, keyed_draws(1).get_stream("ties")))
    assert np.linalg.matrix_rank(random) == 10


@pytest.mark.parametrize(
    ("counts", "group_size", "capped"),
    [
        ((30, 10, 10, 10), 3, [20, 14, 13, 13]),
        ((52, 48), 2, [50, 50]),
        ((9, 8, 2, 1), 3, [6, 6, 5, 3]),
        ((5, 5, 5), 3, [5, 5, 5]),
    ],
)
def test_published_counts_are_moved_to_where_groups_can_be_made(
    counts: tuple[int, ...], group_size: int, capped: list[int]
) -> None:
    assert cap_counts(np.array(counts), group_size).tolist() == capped


# ------------------------------------------------------------------------------------------------------- Reconstruction

OTHERS = 40
"""Into so many values everything but the value in question is split: the closed form does not depend on them."""


def closed(shown: Sequence[int], group_size: int) -> Single:
    """The closed form for the four states of a condition and a value."""

    def spread(inside: int, rest: int) -> npt.NDArray[np.int64]:
        each, more = divmod(rest, OTHERS)
        return np.array([inside, *(each + (place < more) for place in range(OTHERS))])

    selected, others = spread(shown[3], shown[2]), spread(shown[1], shown[0])
    design = Design((tuple(range(OTHERS + 1)),), group_size, GroupCreation.MIXED)
    tally = Tally.of_symbols(selected).attach_context(Tally.of_symbols(selected + others), None)
    (found,) = METHODS["closed"].count(design, tally, [np.array([0])])
    return Single.of(found)


STATES: dict[str, tuple[tuple[int, ...], int]] = {
    "typical, pairs": ((68000, 2600, 28400, 1000), 2),
    "typical, fives": ((68000, 2600, 28400, 1000), 5),
    "typical, tens": ((68000, 2600, 28400, 1000), 10),
    "unrelated": ((66500, 3500, 28500, 1500), 5),
    "below the leak": ((66000, 4000, 29700, 300), 5),
    "never with the condition": ((66000, 4000, 30000, 0), 5),
    "only the value": ((66000, 4000, 0, 7), 5),
    "only with the condition": ((70000, 0, 29900, 100), 5),
    "absent": ((70000, 0, 30000, 0), 5),
    "everything selected": ((0, 0, 95000, 5000), 5),
    "a single record": ((95999, 4000, 0, 1), 10),
    "in every group": ((56000, 14000, 24000, 6000), 5),
    "small": ((40, 5, 12, 3), 3),
}

CLOSED: dict[str, tuple[float, float]] = {
    "typical, pairs": (937.0689655172413, 50.32949988630242),
    "typical, fives": (715.1219512195119, 153.75146094158214),
    "typical, tens": (178.74999999999997, 397.26585098559934),
    "unrelated": (1500.0, 198.57032869640037),
    "below the leak": (-4744.585987261145, 169.11457697085373),
    "never with the condition": (-5999.999999999999, 160.59135510149144),
    "only the value": (43.980709197150404, 6.988697131604218),
    "only with the condition": (381.40703517587934, 35.46243995493751),
    "everything selected": (5000.000000000002, 63.245553203367585),  # not 68.06: f (1 - 1/gamma) is exact
    "small": (6.333333333333334, 5.728532188816195),
}
"""The estimate before it is cut to what a count can be, and its standard deviation."""


@pytest.mark.parametrize("name", CLOSED)
def test_the_closed_form_and_its_standard_deviation(name: str) -> None:
    """The reference adds no unevenness of the groups, and rounds the variance differently: within 3%."""
    found, (value, deviation) = closed(*STATES[name]), CLOSED[name]
    assert found.value == pytest.approx(value, rel=1e-9)
    assert found.estimate().standard_error == pytest.approx(deviation, rel=0.03)


def test_the_closed_form_of_a_single_record() -> None:
    """The record shows the value, and counts for fifteen; its error is that of one record, which it is at most."""
    found = closed(*STATES["a single record"])
    assert found.value == pytest.approx(15.40225037506251, rel=1e-9)
    assert found.most == 1
    error = found.estimate().standard_error
    assert error == pytest.approx(15.40225 * 0.3, rel=0.05)  # sqrt(1/10 * 9/10) over the gain


def test_the_closed_form_of_an_absent_value_is_nobody_but_not_certainly() -> None:
    found = closed(*STATES["absent"])
    low, high = found.estimate().interval()
    assert (found.value, low) == (0.0, 0.0)
    assert 3 < high < 30


def test_the_closed_form_of_a_value_in_every_group_tells_nothing() -> None:
    found = closed(*STATES["in every group"])
    assert found.value == pytest.approx(6000)
    assert found.estimate().interval() == (0, 30000)
    assert found.note is not None
    assert "no information" in found.note


PRINTED: dict[str, tuple[list[float], int]] = {
    "typical, pairs": ([68773.28750713047, 1826.7124928695316, 28778.593029752912, 621.4069702470869], 8),
    "typical, fives": ([68260.89801701148, 2339.101982988538, 28604.69354580364, 795.306454196357], 13),
    "typical, tens": ([68006.64689361093, 2593.35310638906, 28407.00954013786, 992.9904598621374], 1),
    "unrelated": ([66792.23446845141, 3207.765531548578, 28625.243343622038, 1374.7566563779624], 6),
    "never with the condition": ([65536.44668957604, 4463.55331042395, 29999.999999999996, 0.0], 7),
    "only the value": ([66314.12240514165, 3685.877594858326, 0.0, 6.999999999999999], 6),
    "only with the condition": ([70000.00000000001, 0.0, 29806.433344990237, 193.56665500976237], 12),
    "absent": ([70000.0, 0.0, 30000.0, 0.0], 1),
    "everything selected": ([0.0, 0.0, 95417.47781207344, 4582.522187926541], 6),
    "a single record": ([96012.66604637359, 3986.333953626396, 0.0, 1.0], 1),
    "in every group": ([56000.0, 14000.0, 24000.0, 6000.0], 1),
    "small": ([44.20511515479199, 0.7948848452080214, 9.087099832696996, 5.912900167303006], 74),
}


@pytest.mark.parametrize("name", PRINTED)
def test_section_5_the_printed_iteration_with_its_1_percent_rule(name: str) -> None:
    """It is biased even where nothing is estimated: of everything selected, 4583 remain of 5000."""
    shown, group_size = STATES[name]
    found, rounds = run_iteration(np.array(shown, dtype=np.float64), (group_size,))
    states, expected_rounds = PRINTED[name]
    assert found == pytest.approx(states, rel=1e-9, abs=1e-9)
    assert rounds == expected_rounds


@pytest.mark.slow
def test_section_5_the_relative_rule_does_not_stop_where_a_count_dies_out() -> None:
    """The text speaks of 325 rounds on average; this takes 5543, until the smallest number there is."""
    shown, group_size = STATES["below the leak"]
    found, rounds = run_iteration(np.array(shown, dtype=np.float64), (group_size,), most_rounds=6000)
    assert rounds == 5543
    assert found[:3] == pytest.approx([65311.288741492746, 4688.711258507251, 30000.0], rel=1e-9)
    assert found[3] == pytest.approx(0, abs=1e-300)


CONVERGED: dict[str, tuple[list[float], int]] = {
    "typical, pairs": ([68754.7942957844, 1845.205704215595, 28805.525438902303, 594.4745610976975], 400),
    "unrelated": ([66974.35053979527, 3025.649460204741, 28703.29308848368, 1296.706911516317], 400),
}


@pytest.mark.parametrize("name", CONVERGED)
def test_section_5_the_printed_iteration_does_not_converge_to_the_truth_either(name: str) -> None:
    """The leak f/N counts the value's own seats; so even 1500 of an unrelated value end at 1297."""
    shown, group_size = STATES[name]
    states, rounds = CONVERGED[name]
    found, _ = run_iteration(np.array(shown, dtype=np.float64), (group_size,), stop=0.0, most_rounds=rounds)
    assert found == pytest.approx(states, rel=1e-6)


# --------------------------------------------------------------------------------------------------- Several attributes

TWO: dict[str, tuple[list[int], tuple[int, int], list[float]]] = {
    "fives": (
        [51944, 5540, 2273, 244, 34569, 3748, 1514, 169],
        (5, 5),
        [
            52301.74660931183,
            5197.528285942666,
            2199.8515730712743,
            301.87353167423373,
            34501.375782081814,
            3800.349322663694,
            1297.0260355350865,
            401.24885971940284,
        ],
    ),
    "pairs and eights": (
        [51924, 5566, 2266, 244, 34588, 3722, 1522, 168],
        (2, 8),
        [
            52296.367631004345,
            5204.549399563337,
            2206.1323689956325,
            292.9506004366818,
            34521.336517467236,
            3777.7464519650775,
            1276.1634825327508,
            424.7535480349347,
        ],
    ),
    "never together": (
        [52000, 6000, 3000, 0, 31000, 5000, 3000, 0],
        (4, 4),
        [
            49142.38721804511,
            11462.875939849624,
            9661.184210526317,
            -9266.447368421053,
            13759.868421052633,
            19634.86842105263,
            16436.560150375943,
            -10831.296992481204,
        ],
    ),
}


@pytest.mark.parametrize(("shown", "group_sizes", "expected"), TWO.values(), ids=TWO)
def test_section_5_the_closed_form_for_two_attributes(
    shown: list[int], group_sizes: tuple[int, int], expected: list[float]
) -> None:
    """States are the condition, then a value of each attribute; those without a value are what is left over."""
    table = np.array(shown, dtype=np.float64).reshape(2, 2, 2)
    shares = table[:, 1, :].sum() / table.sum(), table[:, :, 1].sum() / table.sum()
    laws = [
        EvenDistribution(np.array([1 - share, share]), size) for share, size in zip(shares, group_sizes, strict=True)
    ]
    both = (table * JointDistribution(tuple(laws)).solve(np.array([[0.0, 0.0], [0.0, 1.0]]))).sum(axis=(1, 2))
    first = table.sum(axis=2) @ laws[0].solve(np.array([0.0, 1.0]))
    second = table.sum(axis=1) @ laws[1].solve(np.array([0.0, 1.0]))
    rows = table.sum(axis=(1, 2))
    states = np.stack([rows - first - second + both, second - both, first - both, both], axis=1)
    assert states.ravel() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "expected", "rounds"),
    [
        ("fives", [52636.38075190932, 5151.4076115098815, 2014.554423040941, 198.6572135398563], 11),
        ("pairs and eights", [52679.96973424401, 5613.836799500459, 1541.1568400126237, 165.03662624290746], 7),
    ],
)
def test_section_5_the_printed_iteration_for_two_attributes(name: str, expected: list[float], rounds: int) -> None:
    """It stops near what is shown: 199 for 302 outside the condition."""
    shown, group_sizes, _ = TWO[name]
    found, number = run_iteration(np.array(shown, dtype=np.float64), group_sizes)
    assert found[:4] == pytest.approx(expected, rel=1e-9)
    assert number == rounds


# ------------------------------------------------------------------------------------------------------ The full matrix

SKEWED = (19, 17, 15, 13, 11, 8, 6, 5, 3, 2, 1)
FIRST_ROW = (19, 16, 12, 9, 7, 4, 4, 3, 1, 1, 0)
"""Of 76 seats in the groups of the first value, those of each value; groups of four, ties by place."""

INVERSES = [
    (
        (8, 6, 5, 2, 4, 1, 3, 0, 1, 0, 0),
        [
            61.2349397590361,
            -10.968611287254209,
            -0.35668991756502905,
            -24.363665187064058,
            13.702916930881424,
            -11.188332276474304,
            34.41915028535195,
            -51.571020925808526,
            16.996512365250485,
            -5.107799619530752,
            7.20259987317692,
        ],
    ),
    (
        (3,) * 11,
        [
            -6.695783132530115,
            16.00015852885226,
            -5.229074191502856,
            -0.45133164235892015,
            1.1247622067216225,
            7.499048826886496,
            32.26474318325936,
            -29.831166772352585,
            0.8888712745719758,
            -0.48034242232086627,
            17.910114140773626,
        ],
    ),
]


def test_the_full_matrix_is_that_of_the_groups() -> None:
    law = recompute_distribution(np.array(SKEWED), 4, GroupCreation.ANATOMY)
    chances = law.average(np.eye(11)).T
    assert chances[0] * 76 == pytest.approx(FIRST_ROW)
    assert np.linalg.cond(chances) == pytest.approx(98.87, abs=0.01)


@pytest.mark.parametrize(("shown", "expected"), INVERSES, ids=["some", "three of each"])
def test_the_inverse_of_the_full_matrix(shown: tuple[int, ...], expected: list[float]) -> None:
    law = recompute_distribution(np.array(SKEWED), 4, GroupCreation.ANATOMY)
    assert law.solve(np.eye(11)) @ np.array(shown) == pytest.approx(expected, rel=1e-8)


def test_the_even_law_has_the_mean_leak_of_the_matrix_and_not_its_leaks() -> None:
    """The closed form takes the leaks of a value to be alike; where ties are broken by place they are not."""
    counts = np.array(SKEWED)
    chances = recompute_distribution(counts, 4, GroupCreation.ANATOMY).average(np.eye(11)).T
    even = EvenDistribution(counts / 100, 4)
    for place in range(11):
        others = np.delete(counts, place)
        assert np.delete(chances[:, place], place) @ others / others.sum() == pytest.approx(even.leaks[place])
    assert np.std(np.delete(chances[:, 10], 10)) > 0.5 * even.leaks[10]
