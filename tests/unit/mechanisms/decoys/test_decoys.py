"""The decoys of several columns, their design, rare values, and what the holder is told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from sfumato._perturb.perturbation import Slots
from sfumato._records import PerturbedRecords
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, InternalError, ReleaseFormatError, SpecError
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._decoys import Design
from sfumato.mechanisms._decoys.decoy_estimators import describe_shrunk_gain
from sfumato.mechanisms._decoys.decoy_options import Options, RareTreatment
from sfumato.mechanisms._decoys.leak_matrix import GroupCreation
from sfumato.mechanisms._decoys.likelihood_ratios import compute_likelihood_ratio
from statistical.support import keyed_draws

DISEASES, DRUGS = ("cold", "flu", "gout", "HIV"), ("pill", "salve", "tea")
TABLE = np.array([[20, 10, 6], [9, 15, 8], [7, 7, 12], [2, 1, 3]])


def two_columns(group_size: int = 2, options: Options | None = None) -> _decoys.Plan:
    values = [(disease, drug) for disease in DISEASES for drug in DRUGS]
    histogram = Histogram.of(values, TABLE.ravel().tolist(), (4, 3))
    return _decoys.plan(histogram, DecoyGroups(group_size), options or Options(), keyed_draws(0))


# ------------------------------------------------------------------------------------------------------ several columns


def test_each_column_has_the_groups_of_its_own_counts() -> None:
    plan = two_columns()
    assert plan.sizes == (4, 3)
    assert [column.values for column in plan.columns] == [DISEASES, DRUGS]
    assert [list(column.counts) for column in plan.columns] == [[36, 32, 26, 6], [38, 33, 29]]
    assert [column.groups.counts.tolist() for column in plan.columns] == [[36, 32, 26, 6], [38, 33, 29]]
    assert [column.groups.group_count for column in plan.columns] == [50, 50]


def test_columns_that_do_not_have_the_combinations_of_the_domain_are_an_error_of_ours() -> None:
    histogram = Histogram.of(range(12), TABLE.ravel().tolist(), (4, 4))
    with pytest.raises(InternalError):
        _decoys.plan(histogram, DecoyGroups(2), Options(), keyed_draws(0))


def test_every_column_must_let_groups_be_made() -> None:
    values = [(disease, drug) for disease in ("cold", "flu", "gout") for drug in ("pill", "tea")]
    histogram = Histogram.of(values, [10, 1] * 3, (3, 2))
    with refuses(InfeasibleError, "value-too-frequent", count=30, records=33, group_size=2) as caught:
        _decoys.plan(histogram, DecoyGroups(2), Options(), keyed_draws(0))
    assert caught.value.sentence_with_values.startswith("'pill' belongs to 30 of 33 records, ")


def test_records_show_a_value_of_their_group_in_each_column() -> None:
    plan, draws = two_columns(), keyed_draws(3)
    codes = np.random.default_rng(0).permutation(np.repeat(np.arange(12), TABLE.ravel()))
    held = _decoys.split_codes(codes, plan.sizes)
    assert [np.bincount(each).tolist() for each in held] == [[36, 32, 26, 6], [38, 33, 29]]
    slots = np.stack(
        [
            Slots(draws.narrow_to_column(str(number)), _decoys.NAME, column.counts)(
                each, np.zeros(plan.sizes[number], int)
            )
            for number, (column, each) in enumerate(zip(plan.columns, held, strict=True))
        ]
    )
    values = _decoys.perturb(plan, codes, slots, draws, 0).values
    assert values is not None
    for column, mine, own, shown in zip(
        plan.columns, held, slots, _decoys.split_codes(values, plan.sizes), strict=True
    ):
        groups = column.groups
        runs = groups.find_runs(mine, own)
        for run, value in zip(runs.tolist(), shown.tolist(), strict=True):
            assert value in groups.members[run, : groups.sizes[run]]
        assert (shown != mine).any()
    batches = [_decoys.perturb(plan, codes[part], slots[:, part], draws, part.start).values for part in _parts(100, 7)]
    assert np.array_equal(np.concatenate(batches), values)


def _parts(rows: int, size: int) -> list[slice]:
    return [slice(first, min(first + size, rows)) for first in range(0, rows, size)]


@given(st.lists(st.integers(1, 7), min_size=1, max_size=4))
def test_codes_of_columns_are_those_of_the_combination(sizes: list[int]) -> None:
    table = np.indices(sizes).reshape(len(sizes), -1)
    found = _decoys.split_codes(np.arange(table.shape[1]), sizes)
    assert all(np.array_equal(mine, expected) for mine, expected in zip(found, table, strict=True))


def test_the_design_of_several_columns_comes_back_from_json() -> None:
    design = _decoys.make_design(two_columns(options=Options(GroupCreation.ANATOMY_RANDOM)))
    assert design.domain == tuple((disease, drug) for disease in DISEASES for drug in DRUGS)
    written = json.loads(json.dumps(design.to_json()))
    assert written == {"domains": [list(DISEASES), list(DRUGS)], "group_size": 2, "groups": "anatomy-random"}
    assert _decoys.read_design(written, ["string", "string"]) == design


@pytest.mark.parametrize(
    "change",
    [
        {"domains": [["a", "a"], ["b", "c"]]},
        {"domains": [["a"], ["b", "c"]]},
        {"domains": [["a", "b"], [1, 2]]},
        {"domains": [[], []]},
        {"group_size": 1},
        {"group_size": 4},
    ],
    ids=str,
)
def test_a_design_of_several_columns_that_no_plan_made_is_refused(change: dict[str, Any]) -> None:
    written = _decoys.make_design(two_columns()).to_json() | change
    with pytest.raises(ReleaseFormatError):
        _decoys.read_design(written, ["string", "string"])


@pytest.mark.parametrize("types", [["string"], ["string"] * 3])
def test_a_design_needs_a_type_for_each_column(types: list[str]) -> None:
    with pytest.raises(ValueError, match="zip"):
        _decoys.read_design(_decoys.make_design(two_columns()).to_json(), types)


def test_a_design_with_too_many_combinations_is_refused() -> None:
    values = [f"value {number}" for number in range(600)]
    with refuses(ReleaseFormatError, "damaged-design", part="groups"):
        _decoys.read_design({"domains": [values, values], "group_size": 2, "groups": "mixed"}, ["string", "string"])


def test_likelihoods_of_several_columns_are_those_of_each_for_itself() -> None:
    plan = two_columns()
    together = _decoys.compute_likelihoods(plan, PerturbedRecords(np.arange(12)))
    assert [each.shape for each in together] == [(12, 4), (12, 3)]
    for number, column in enumerate(plan.columns):
        single = _decoys.plan(
            Histogram.of(column.values, column.counts), DecoyGroups(2), Options(), keyed_draws(number)
        )
        shown = np.arange(12) // 3 if number == 0 else np.arange(12) % 3
        (alone,) = _decoys.compute_likelihoods(single, PerturbedRecords(shown))
        assert together[number].tolist() == alone.tolist()


def test_variances_of_combinations_are_not_predicted() -> None:
    assert np.isnan(_decoys.predict_variances(two_columns(), np.full(12, 50.0), np.full(12, 5.0))).all()


# ---------------------------------------------------------------------------------------------------------- rare values


def merged(counts: Sequence[int], group_size: int, limit: str, rare: RareTreatment = RareTreatment.MERGE) -> list[int]:
    """The places that are merged, in order."""
    values = [f"value {place}" for place in range(len(counts))]
    options = Options(ratio_limit=limit, rare=rare)
    found = _decoys.MECHANISM.coarsening.merge_rare_values({"a": (values, counts)}, DecoyGroups(group_size), options)
    return sorted(values.index(str(value)) for value in found["a"].values) if found else []


@pytest.mark.parametrize(
    ("counts", "limit", "places"),
    [
        ((50, 40, 10), "9", []),  # 10 of 100 have a ratio of exactly 9
        ((50, 40, 10), "899/100", [1, 2]),
        ((50, 45, 3, 2), "100", []),
        ((50, 45, 3, 2), "40", [2, 3]),  # 2 are rare, and together with 3 they are not
        ((50, 44, 3, 3, 0), "40", []),
        ((50, 44, 4, 2, 0), "40", [2, 3, 4]),  # whoever is merged, so is the value that nobody has
    ],
)
def test_as_many_values_are_merged_as_are_needed(counts: tuple[int, ...], limit: str, places: list[int]) -> None:
    assert merged(counts, 2, limit) == places


@given(
    st.lists(st.integers(0, 200), min_size=2, max_size=10).filter(any),
    st.integers(2, 6),
    st.fractions(Fraction(11, 10), 500, max_denominator=10),
)
def test_what_is_left_is_not_above_the_limit_unless_everything_is_merged(
    counts: list[int], group_size: int, limit: Fraction
) -> None:
    places = merged(counts, group_size, str(limit))
    total, together = sum(counts), sum(counts[place] for place in places)
    least = Fraction(total) / (1 + (group_size - 1) * limit)
    kept = [count for place, count in enumerate(counts) if place not in places and count]
    assert all(count >= least for count in kept)
    assert not places or together >= least
    for count in (*kept, together):
        if count and group_size * count <= total:
            assert compute_likelihood_ratio(count, total, group_size) <= limit
    if places:
        assert all(counts[place] or place in places for place in range(len(counts)))
        # Without the most frequent of them the others would still be too rare, or that one is.
        most = max(counts[place] for place in places)
        assert most < least or together - most < least


def test_no_label_is_that_of_a_value_and_suppressed_values_have_none() -> None:
    values, counts = ("(rare)", "(rare)_", "c", "d"), (50, 45, 3, 2)
    options = Options(ratio_limit=40, rare=RareTreatment.MERGE)
    assert (
        _decoys.MECHANISM.coarsening.merge_rare_values({"a": (values, counts)}, DecoyGroups(2), options)["a"].label
        == "(rare)__"
    )
    blank = Options(ratio_limit=40, rare=RareTreatment.SUPPRESS)
    assert (
        _decoys.MECHANISM.coarsening.merge_rare_values({"a": (values, counts)}, DecoyGroups(2), blank)["a"].label
        is None
    )


def test_nothing_is_merged_without_a_limit() -> None:
    assert _decoys.MECHANISM.coarsening.merge_rare_values({"a": (("x", "y"), (99, 1))}, DecoyGroups(2), Options()) == {}


@pytest.mark.parametrize("limit", ["1", "0", "-3", 1])
def test_a_limit_that_says_nothing_is_refused(limit: Any) -> None:
    with refuses(SpecError, "ratio-limit-out-of-range", given=str(limit)):
        Options(ratio_limit=limit)


@pytest.mark.parametrize("rare", [RareTreatment.MERGE, RareTreatment.SUPPRESS])
def test_rare_values_need_a_limit(rare: RareTreatment) -> None:
    with refuses(SpecError, "no-ratio-limit"):
        Options(rare=rare)


@pytest.mark.parametrize("group_size", [1, 0, -1])
def test_a_group_of_one_is_refused(group_size: int) -> None:
    with refuses(SpecError, "group-size-out-of-range", given=group_size):
        DecoyGroups(group_size)


# ------------------------------------------------------------------------------------------------------------- in words


def remarks(counts: Sequence[int], options: Options | None = None, group_size: int = 2) -> list[str]:
    histogram = Histogram.of([f"value {place}" for place in range(len(counts))], counts)
    plan = _decoys.plan(histogram, DecoyGroups(group_size), options or Options(), keyed_draws(0))
    return [str(remark) for remark in _decoys.list_remarks(plan)]


def test_the_rarest_value_is_named_with_its_ratio() -> None:
    said = remarks((40, 30, 28, 2))
    assert any(
        "if 'value 3' is published for a person, the odds that the person has this value rise by a factor of 49" in each
        for each in said
    )


def test_a_value_in_nearly_all_groups_is_named() -> None:
    assert any("in more than 80% of the groups" in each and "'value 0'" in each for each in remarks((41, 30, 29)))
    assert not any("in more than 80%" in each for each in remarks((40, 30, 30)))


def test_values_above_the_limit_are_named_and_else_nothing_is_said_of_them() -> None:
    said = remarks((40, 30, 26, 2, 1, 1), Options(ratio_limit=30))
    assert any("have a likelihood ratio above 30: 'value 3', 'value 4', 'value 5'." in each for each in said)
    assert not any("likel" in each for each in remarks((40, 30, 30), Options(ratio_limit=30)))


def test_groups_of_the_literature_are_advised_against() -> None:
    assert any("not for a publication" in each for each in remarks((4, 3, 3), Options(GroupCreation.ANATOMY)))
    assert not any(
        "not for a publication" in each for each in remarks((4, 3, 3), Options(GroupCreation.ANATOMY_RANDOM))
    )


def test_shrinking_is_proposed_where_counts_are_uncertain_with_its_error_and_its_bias() -> None:
    """Relative errors of a half beside changes of a half: half of a change is left out."""
    counts = np.array([100.0, 40.0, 0.0, 10.0, 30.0])
    (said,) = describe_shrunk_gain(counts, np.array([5.0, 20.0, 8.0, 5.0, np.nan]))
    assert said.numbers == pytest.approx({"default": 0.5, "shrunk": 0.5 / 2**0.5, "values": 2, "bias": 0.5})
    assert "for 2 of 5 values" in str(said)
    assert "35% instead of 50%" in str(said)
    assert describe_shrunk_gain(counts, counts / 10) == []


def test_shrinking_is_proposed_for_one_column() -> None:
    assert any("`method='shrunk'`" in each for each in remarks((40, 30, 28, 2)))
    assert not any("shrunk" in str(each) for each in _decoys.list_remarks(two_columns()))
    proposal = _decoys.MECHANISM.estimation_rules.propose_estimator(Design((DISEASES,), 2, GroupCreation.MIXED))
    assert proposal is not None
    assert "biased" in proposal
    assert (
        _decoys.MECHANISM.estimation_rules.propose_estimator(Design((DISEASES, DRUGS), 2, GroupCreation.MIXED)) is None
    )


def test_the_methods_begin_with_what_the_groups_need() -> None:
    few, many = (("a", "b", "c"),), (tuple(map(str, range(101))),)
    for domains, mixed in ((few, "inverse"), (many, "fitted")):
        defaults = [_decoys.choose_estimator(Design(domains, 2, creation)) for creation in GroupCreation]
        assert defaults == [mixed, "inverse", "inverse"]
    assert list(_decoys.MECHANISM.estimators) == ["fitted", "closed", "inverse", "shrunk", "paper"]
