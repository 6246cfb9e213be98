"""Records of several levels, against every outcome in exact numbers, and against subset selection."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from selection import examples
from sfumato._core.random_draws import LARGEST_BOUND, Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, SfumatoError, SpecError
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms._subset_selection.levels.level_options import Options
from sfumato.mechanisms._subset_selection.levels.level_shares import (
    build_tiers,
    compute_contrast_weights,
    compute_level_variances,
    find_best_shares,
)
from sfumato.mechanisms._subset_selection.set_sampler import SubsetSelection
from slow_counts import added_by_level

DRAWS = Draws.unsafe_test_key("1e" * 32)
BOUND = BreachBound("1/10", "1/3")
EVEN, UNEVEN = [45] * 7 + [44] * 12, [5, 6, 7, 9, 11, 13, 16, 19, 23, 28, 34, 41, 49, 59, 71, 86, 104, 120, 142]
"""843 codes in 19 chapters."""


def histogram_of(groups: Sequence[Sequence[int]], counts: Sequence[int] | None = None) -> Histogram:
    """A table whose values have these groups at the levels above them: code, chapter, part."""
    size = len(groups[0])
    names = ("code", "chapter", "part")[: 1 + len(groups)]
    paths = [(f"v{place}", *(f"g{each[place]}" for each in groups)) for place in range(size)]
    return Histogram.of([path[0] for path in paths], counts or [1] * size, (), Hierarchy.of(names, paths))


def plan_of(groups: Sequence[Sequence[int]], text: str | None = None, **given: Any) -> levels.Plan:
    options = Options(text, given.pop("importance", None))
    return levels.plan(histogram_of(groups, given.pop("counts", None)), given.pop("bound", BOUND), options, DRAWS)


def chapters(sizes: Sequence[int]) -> list[list[int]]:
    return [np.repeat(np.arange(len(sizes)), sizes).tolist()]


def outcomes(design: levels.Design, original: int) -> Iterator[tuple[Fraction, int, set[int], set[int]]]:
    """Everything that a record can show, with its chance by the published rationals: its level, groups and values."""
    for number, level in enumerate(design.to_json()["levels"]):
        groups = level.get("groups", list(range(len(design.domain))))
        size, members, hold = max(groups) + 1, level["subset_size"], Fraction(level["hold_probability"])
        for chosen in combinations(range(size), members):
            is_held = groups[original] in chosen
            chance = hold / math.comb(size - 1, members - 1) if is_held else (1 - hold) / math.comb(size - 1, members)
            values = {place for place, group in enumerate(groups) if group in chosen}
            yield Fraction(level["share"]) * chance, number, set(chosen), values


@st.composite
def hierarchies(draw: st.DrawFn) -> list[list[int]]:
    """The groups of up to seven values at one level or two, of any sizes."""
    blocks = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4).filter(lambda sizes: 2 < sum(sizes) < 8))
    low = np.repeat(np.arange(len(blocks)), blocks)
    if len(blocks) == sum(blocks) or len(blocks) == 2 or draw(st.booleans()):
        return [low.tolist()] if len(blocks) < sum(blocks) else [[0] * (sum(blocks) - 1) + [1]]
    cut = draw(st.integers(1, len(blocks) - 1))
    order = draw(st.permutations(range(sum(blocks))))
    return [low[order].tolist(), (low >= cut)[order].astype(int).tolist()]


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(hierarchies(), st.sampled_from(["3/2", "3", "9/2", "40"]), st.data())
def test_every_outcome_adds_exactly_what_is_unbiased_and_adds_up(groups: Any, odds: str, data: st.DataObject) -> None:
    """In fractions by the definition; and the weights of the package are the same numbers."""
    parts = data.draw(st.lists(st.integers(1, 5), min_size=len(groups) + 1, max_size=len(groups) + 1))
    shares = [f"{name}={part}/{sum(parts)}" for name, part in zip(("code", "chapter", "part"), parts, strict=False)]
    factor = Fraction(odds)
    design = plan_of(groups, ",".join(shares), bound=BreachBound("1/2", factor / (1 + factor))).design
    size, written, weighing = len(design.domain), design.to_json(), design.weighing
    starts = np.cumsum([0, *(level.selection.size + 1 for level in design.levels)]).tolist()
    by_value = [weighing.weigh_values(line).entry_weights for line in np.eye(size)]
    spread = weighing.compute_variances(np.eye(size))
    for original in range(size):
        mean, second, mass = [Fraction(0)] * size, [0.0] * size, Fraction(0)
        for chance, level, chosen, values in outcomes(design, original):
            added = added_by_level(written, level, values)
            assert sum(added) == 1
            mean = [one + chance * more for one, more in zip(mean, added, strict=True)]
            second = [one + float(chance * more**2) for one, more in zip(second, added, strict=True)]
            mass += chance
            entries = [*(starts[level] + group for group in chosen), starts[level + 1] - 1]
            assert [float(each[entries].sum()) for each in by_value] == pytest.approx(list(map(float, added)), abs=1e-9)
        assert mass == 1
        assert mean == [int(place == original) for place in range(size)]
        exact = [each - (place == original) for place, each in enumerate(second)]
        assert spread[:, original].tolist() == pytest.approx(exact, abs=1e-9)


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(hierarchies(), st.sampled_from(["3/2", "9/2", "1000001/1000000"]))
def test_no_two_values_differ_by_more_than_the_amplification_in_any_outcome(groups: Any, odds: str) -> None:
    factor = Fraction(odds)
    design = plan_of(groups, bound=BreachBound("1/2", factor / (1 + factor))).design
    chances = [[chance for chance, *_ in outcomes(design, original)] for original in range(len(design.domain))]
    ratios = [max(column) / min(column) for column in zip(*chances, strict=True)]
    assert max(ratios) == factor


def test_chances_that_need_too_many_bits_are_rounded_towards_privacy() -> None:
    bound = BreachBound(Fraction(10**20 + 39, 10**21), Fraction(1, 3))
    plan = plan_of(chapters([3, 2, 4]), bound=bound)
    assert max(each.outcome_count for each in plan.selections) == LARGEST_BOUND
    assert all(1 < each.amplification <= bound.amplification for each in plan.selections)


# ------------------------------------------------------------------------------------------------------------- accuracy


def plain_variances(sizes: Sequence[int]) -> tuple[float, float]:
    """What a record adds to the variance of a code's and of a chapter's count in plain subset selection."""
    histogram = histogram_of(chapters(sizes))
    sets = subset.plan(histogram, BOUND, subset.Options(), DRAWS).selection
    a, b, d, m = float(sets.hold_probability), float(sets.other_probability), sets.members, sets.size
    code = b * (1 - b) / (a - b) ** 2
    # Of k wanted values a set of another value holds a hypergeometric number, by whether it holds its own.
    found = []
    for size in sizes:
        parts = [(a, d - 1), (1 - a, d)]
        mean = size * b
        moments = [
            chance * (n * size / (m - 1) * (1 - size / (m - 1)) * (m - 1 - n) / (m - 2) + (n * size / (m - 1)) ** 2)
            for chance, n in parts
        ]
        found.append((sum(moments) - mean**2) / (a - b) ** 2)
    return code, float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_chapters_gain_much_and_codes_lose_little(sizes: list[int]) -> None:
    """At amplification 9/2, 843 codes in 19 chapters, and the usual shares; against plain subset selection by hand."""
    assert (sum(sizes), len(sizes)) == (843, 19)
    plan = plan_of(chapters(sizes))
    told = next(each["relative_to_subset"] for each in levels.explain(plan)["errors"] if each["above"] == "1/5")
    assert told["code"] <= 1.15
    assert told["chapter"] <= 0.4
    weighing, places = plan.design.weighing, np.array(plan.design.levels[1].groups)
    code, chapter = plain_variances(sizes)
    found = [weighing.compute_variances((places == group).astype(float))[places != group].mean() for group in range(19)]
    assert math.sqrt(np.mean(found) / chapter) == pytest.approx(told["chapter"], rel=1e-9)
    found = [np.delete(weighing.compute_variances(line), place).mean() for place, line in enumerate(np.eye(843))]
    assert math.sqrt(np.mean(found) / code) == pytest.approx(told["code"], rel=1e-9)


def test_without_records_above_it_is_subset_selection() -> None:
    told = levels.explain(plan_of(chapters(EVEN)))["errors"][0]
    assert told == {"above": "0/1", "relative_to_subset": {"code": 1.0, "chapter": 1.0}}


def test_a_plan_shows_its_errors_against_the_shares() -> None:
    (table,) = levels.list_tables(plan_of(chapters(EVEN), "code=0.85,chapter=0.15"))
    assert table.headings == ("share above", "code", "chapter")
    assert table.title.startswith(
        "Error of a count divided by the error of subset selection, for several shares of records "
    )
    assert [row[0] for row in table.rows] == ["0%", "10%", "15% (this plan)", "20%", "30%", "50%"]
    errors = np.array([[float(each) for each in row[1:]] for row in table.rows])
    assert (np.diff(errors[:, 0]) > 0).all()
    assert (np.diff(errors[:, 1]) < 0).all()


# --------------------------------------------------------------------------------------------------------------- shares


def shares_of(plan: levels.Plan) -> list[str]:
    return [str(level.share) for level in plan.design.levels]


@pytest.mark.parametrize(
    ("text", "importance", "expected"),
    [
        (None, None, ["4/5", "1/10", "1/10"]),
        ("code=0.8,chapter=20%", None, ["4/5", "1/5"]),
        ("PART=1/3, code=2/3, chapter=0", None, ["2/3", "1/3"]),
        (None, "chapter=0,code=1,part=0.5", ["39/50", "11/50"]),
    ],
)
def test_shares_are_those_that_were_asked_for(text: str | None, importance: str | None, expected: list[str]) -> None:
    groups = [[0, 0, 1, 1, 2, 2, 3, 3, 3], [0, 0, 0, 0, 0, 0, 1, 1, 1]]
    assert shares_of(plan_of(groups, text, importance=importance)) == expected


@pytest.mark.parametrize("importance", [(1, 1, 1), (1, 3, 0.5), (20, 1, 1), (0, 1, 1)])
def test_shares_of_least_error_are_the_best_of_all_hundredths(importance: tuple[float, ...]) -> None:
    groups = [[*range(12)], [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3, 3], [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]]
    sets = [SubsetSelection.from_bound(max(each) + 1, BOUND) for each in groups]
    known, weights = compute_level_variances(build_tiers(groups), sets), [Fraction(each) for each in importance]
    numbers = np.array(known, dtype=float)

    def error(shares: Sequence[float]) -> float:
        total = 0.0
        for contrast in range(3):
            precise = [shares[level] / numbers[contrast, contrast, level] for level in range(contrast + 1)]
            for level, each in enumerate(precise):
                factor = (each / sum(precise)) ** 2 / shares[level]
                total += factor * sum(importance[tier] * numbers[tier, contrast, level] for tier in range(contrast + 1))
        return total

    triples = [(one, two, 100 - one - two) for one in range(1, 99) for two in range(1, 100 - one)]
    best = min(triples, key=lambda triple: error([each / 100 for each in triple]))
    found = find_best_shares(weights, known)
    assert sum(found) == 1
    assert error([float(each) for each in found]) <= error([each / 100 for each in best]) * (1 + 1e-9)


def test_variances_that_decide_shares_are_those_of_the_estimates_where_groups_are_alike() -> None:
    """If all values are equally frequent: the variance of what a record adds, whatever its true value is."""
    groups = [[*range(12)], [place // 3 for place in range(12)], [place // 6 for place in range(12)]]
    plan = plan_of(groups[1:])
    known = compute_level_variances(plan.design.tiers, plan.selections)
    shares = [level.share for level in plan.design.levels]
    lines = compute_contrast_weights(shares, known)
    for tier, places in enumerate(groups):
        expected = sum(
            float(lines[contrast][level] ** 2 / shares[level] * known[tier][contrast][level])
            for contrast in range(tier, 3)
            for level in range(contrast + 1)
        )
        theta = (np.array(places) == 0).astype(float)
        total = plan.design.weighing.compute_variances(theta).mean() + theta.var()
        assert total == pytest.approx(expected, rel=1e-6)


@settings(max_examples=examples(10))
@given(st.lists(st.integers(0, 10**6), min_size=7, max_size=7).filter(any))
def test_shares_of_least_error_do_not_follow_the_counts(counts: list[int]) -> None:
    groups = [[0, 0, 1, 1, 2, 2, 2]]
    made = plan_of(groups, importance="code=2,chapter=1", counts=counts)
    assert made.design == plan_of(groups, importance="code=2,chapter=1").design


# ------------------------------------------------------------------------------------------------------------- refusals

THREE = [[0, 0, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2]]


@pytest.mark.parametrize(
    ("groups", "text", "importance", "error", "sentence"),
    [
        ([[0, 0, 1]], "code=0.8,chapter=0.1", None, SpecError, "the shares of the levels must add up to 1,"),
        ([[0, 0, 1]], "code=2,chapter=-1", None, SpecError, "the number of the level 'chapter' is below 0; give 0"),
        ([[0, 0, 1]], "chapter=1", None, SpecError, "the level 'code' has no records, so its values cannot be counted"),
        ([[0, 0, 1]], "code=1", None, InfeasibleError, "no level above 'code' has both a share and several"),
        ([[0, 0, 1]], "code=1/2,block=1/2", None, SpecError, "`levels=`: there is no level 'block'; the hierarchy has"),
        (
            [[0, 0, 1]],
            "code",
            None,
            SpecError,
            "'code' is not a level with a number; write, for example, `levels='code=4/5",
        ),
        ([[0, 0, 1]], "code=1/2,CODE=1/2", None, SpecError, "'CODE=1/2' is not a level with a number; write"),
        ([[0, 0, 1]], "code=half,chapter=half", None, SpecError, "the number of the level 'code' is 'half': write a"),
        (
            [[0, 0, 1]],
            None,
            "code=0,chapter=0",
            SpecError,
            "every level has the importance 0; give at least one level a number",
        ),
        (
            [[0, 0, 1]],
            "code=1/2,chapter=1/2",
            "code=1",
            SpecError,
            "`levels=` sets the shares and `importance=` computes",
        ),
        (
            [[0, 0, 0]],
            None,
            None,
            InfeasibleError,
            "no level above 'code' has both a share and several groups; give a share",
        ),
        ([[0, 0, 0]], "code=1/2,chapter=1/2", None, InfeasibleError, "the level 'chapter' has only one group, so"),
        ([[0, 1, 2]], "code=1/2,chapter=1/2", None, InfeasibleError, "the levels 'code' and 'chapter' have the same g"),
        (THREE, "code=1/2,chapter=1/4,part=1/4", None, InfeasibleError, "the levels 'chapter' and 'part' have the sam"),
        (
            [[0, 0, 1]],
            f"code=1/{3**45},chapter={3**45 - 1}/{3**45}",
            None,
            SpecError,
            "the shares of the levels have too many digits to be drawn exactly; round them.",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    groups: Any, text: str | None, importance: str | None, error: type[SfumatoError], sentence: str
) -> None:
    with pytest.raises(error) as raised:
        plan_of(groups, text, importance=importance)
    assert str(raised.value).startswith(sentence)


def test_levels_that_tell_nothing_are_left_out_if_nothing_is_said_of_them() -> None:
    assert shares_of(plan_of(THREE)) == ["4/5", "1/5"]


# ----------------------------------------------------------------------------------------------------------- the choice


def test_without_a_hierarchy_it_is_never_taken() -> None:
    histogram = Histogram.of([f"v{place}" for place in range(40)], [5] * 40)
    chosen = choose(histogram, BOUND, DRAWS, rivals=True)
    assert "levels" not in {chosen.mechanism.name, *(each.mechanism.name for each in chosen.alternatives)}
    for name in ("levels", "auto"):
        with refuses(InfeasibleError, "no-hierarchy", mechanism="levels"):
            choose(histogram, BOUND, DRAWS, name, options={"levels": Options("code=1/2,chapter=1/2")})


def test_with_a_hierarchy_it_is_a_rival_and_taken_where_something_is_said_of_levels() -> None:
    histogram = histogram_of(chapters([10] * 4))
    chosen = choose(histogram, BOUND, DRAWS, rivals=True)
    assert chosen.mechanism.name == "subset"
    assert "levels" in {each.mechanism.name for each in chosen.alternatives}
    for options in (Options("code=1/2,chapter=1/2"), Options(importance="chapter=1")):
        asked = choose(histogram, BOUND, DRAWS, options={"levels": options}, rivals=True)
        assert asked.mechanism.name == "levels"
        assert asked.reason == "levels is chosen, because its options were given."
        assert {"uniform", "subset"} <= {each.mechanism.name for each in asked.alternatives}


def test_an_amplification_of_nearly_one_is_refused() -> None:
    with refuses(InfeasibleError, "posterior-too-close", prior="1/2"):
        plan_of(chapters([2, 3]), bound=BreachBound("1/2", Fraction(10**20 + 1, 2 * 10**20)))
