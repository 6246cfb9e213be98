"""The numbers of the privacy models against their definitions, spelled out group by group in exact arithmetic."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refuses
from releases import people, published_by
from sfumato import SchemaError, measure
from sfumato._risk.privacy_models.measure_table import MODELS
from sfumato.errors import ErrorField

VALUES = [None, 1, 2, 5, 7]
rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["x", None]), st.sampled_from(VALUES)), min_size=1, max_size=25
)


def held(table: Sequence[tuple[Any, ...]]) -> tuple[list[Counter[Any]], Counter[Any], list[Any]]:
    """The values of each group, those of all, and the domain in order, in which a missing value comes last."""
    groups: dict[Any, Counter[Any]] = {}
    for *public, value in table:
        groups.setdefault(tuple(public), Counter())[value] += 1
    whole = sum(groups.values(), Counter())
    return list(groups.values()), whole, sorted(whole, key=lambda value: (value is None, value or 0))


def share(counts: Counter[Any], value: Any) -> Fraction:
    return Fraction(counts[value], counts.total())


def earth_moved(group: Counter[Any], whole: Counter[Any], domain: Sequence[Any]) -> Fraction:
    """By its definition: what flows from each value to the next."""
    flows = [sum(share(group, each) - share(whole, each) for each in domain[: end + 1]) for end in range(len(domain))]
    return Fraction(sum(map(abs, flows))) / max(len(domain) - 1, 1)


def defined(table: Sequence[tuple[Any, ...]]) -> dict[str, float | None]:
    """Every number from its definition."""
    groups, whole, domain = held(table)
    pairs = [(share(group, value), share(whole, value)) for group in groups for value in domain]
    rises = [q / p - 1 for q, p in pairs]
    least = min(map(len, groups))
    falling = [sorted(group.values(), reverse=True) for group in groups]
    is_limited = all(rise <= 0 or rise <= -math.log(p) + 1e-12 for rise, (_, p) in zip(rises, pairs, strict=True))
    logarithms = [abs(math.log(q / p)) for q, p in pairs if q]
    return {
        "k_anonymity": min(group.total() for group in groups),
        "largest_share": max(q for q, _ in pairs),
        "distinct_diversity": least,
        "entropy_diversity": min(
            math.exp(-sum(share(group, each) * math.log(share(group, each)) for each in group)) for group in groups
        ),
        "recursive_ratio": None
        if least == 1
        else max(Fraction(counts[0], sum(counts[least - 1 :])) for counts in falling),
        "equal_distance": max(
            sum(abs(share(group, each) - share(whole, each)) for each in domain) / 2 for group in groups
        ),
        "ordered_distance": max(earth_moved(group, whole, domain) for group in groups),
        "basic_likeness": max(rises),
        "enhanced_likeness": max(rises) if is_limited else math.inf,
        "disclosure": max(logarithms) if all(q for q, _ in pairs) else math.inf,
        "disclosure_of_present": max(logarithms),
        "cap_factor": max(rises) + 1,
    }


@given(rows)
def test_numbers_are_those_of_the_definitions(table: list[tuple[Any, ...]]) -> None:
    columns = dict(zip(("one", "two", "value"), map(list, zip(*table, strict=True)), strict=True))
    typed = pa.table({**columns, "value": pa.array(columns["value"], pa.int64())})
    found = measure(typed, ["one", "two"], ["value"])
    numbers = dict(found["value"].numbers)
    expected = defined(table)
    assert list(numbers) == list(expected) == [model.key for model in MODELS]
    for key, number in numbers.items():
        assert number == pytest.approx(expected[key] if expected[key] is None else float(expected[key]), abs=1e-12), key
    groups, whole, _ = held(table)
    assert found["value"].caps == {
        value: (
            pytest.approx(float(share(whole, value))),
            pytest.approx(float(max(share(group, value) for group in groups))),
        )
        for value in whole
    }


# -------------------------------------------------------------------------------------------------------------- pyCANON


def invented() -> pd.DataFrame:
    """A table that is the same everywhere."""
    diseases = ("flu", "HIV", "cold", "asthma", "gout")
    return pd.DataFrame(
        {
            "sex": ["FM"[row % 2] for row in range(600)],
            "age": [20 + 10 * (row * row % 7 % 4) for row in range(600)],
            "disease": [diseases[(row // 3 + row * row // 5) % 5 if row % 4 else row % 3] for row in range(600)],
            "visits": [row * row // 11 % 9 for row in range(600)],
        }
    )


@pytest.mark.parametrize(
    ("sensitive", "others_known", "expected"),
    [
        (["disease"], False, (0.3023255813953488, 5, 4, 0.11558139534883716, 0.5731874145006838, 0.6523251860396901)),
        (
            ["visits"],
            False,
            (0.18604651162790697, 9, 8, 0.022979651162790694, 0.16279069767441856, 0.20585205420414873),
        ),
        (["disease", "visits"], True, (0.75, 2, 1, 0.6266666666666667, 4.555555555555555, 1.7147984280919266)),
    ],
    ids=["texts", "numbers", "others known"],
)
@pytest.mark.light
def test_numbers_are_those_of_pycanon(sensitive: list[str], others_known: bool, expected: tuple[float, ...]) -> None:
    """Computed by pyCANON 1.3.6 (the last case with gen=False); of several columns it tells the worst."""
    found = measure(invented(), ["sex", "age"], sensitive, others_known=others_known)
    assert found.smallest_group == 85
    worst = {
        key: (min if key.endswith("diversity") else max)(column.numbers[key] or 0 for column in found.columns)
        for key in found.columns[0].numbers
    }
    closeness = max(each.numbers["ordered_distance"] or each.numbers["equal_distance"] or 0 for each in found.columns)
    assert (
        worst["largest_share"],
        worst["distinct_diversity"],
        math.floor(worst["entropy_diversity"]),
        closeness,
        worst["basic_likeness"],
        worst["disclosure_of_present"],
    ) == pytest.approx(expected, rel=1e-12)


def test_recursive_diversity_takes_the_most_frequent_value() -> None:
    """pyCANON 1.3.6 says c = 1, l = 2 here; but 3 < 1 * 1 is false: it begins with the rarest value."""
    table = pa.table({"q": list("xxxxyyyy"), "s": list("aaababbb")})
    assert measure(table, ["q"], ["s"])["s"].numbers["recursive_ratio"] == 3


def test_enhanced_likeness_may_hold_for_no_number() -> None:
    """pyCANON 1.3.6 says ln 2 here; but the share of a rises from 1/2 to 1, by 1, and may rise by -ln 1/2 = 0.69."""
    table = pa.table({"q": list("xxyy"), "s": list("aabb")})
    assert measure(table, ["q"], ["s"])["s"].numbers["enhanced_likeness"] == math.inf


# -------------------------------------------------------------------------------------------------------------- corners


def test_one_group_tells_nothing_about_anybody() -> None:
    numbers = measure(pa.table({"s": ["a", "b", None, "a"]}), [], ["s"])["s"].numbers
    assert [numbers[key] for key in ("k_anonymity", "equal_distance", "basic_likeness", "disclosure")] == [4, 0, 0, 0]


def test_one_value_is_told_for_certain_and_far_from_nothing() -> None:
    numbers = measure(pa.table({"q": ["x", "y"], "s": [7, 7]}), ["q"], ["s"])["s"].numbers
    assert [numbers[key] for key in ("largest_share", "distinct_diversity", "ordered_distance")] == [1, 1, 0]
    assert numbers["recursive_ratio"] is None


def test_missing_values_are_a_value_and_a_group() -> None:
    table = pa.table({"q": ["x", "x", None, None], "s": [1.5, None, float("nan"), 1.5]})
    found = measure(table, ["q"], ["s"])
    assert (found.group_count, found.smallest_group, found["s"].numbers["distinct_diversity"]) == (2, 2, 2)
    assert list(found["s"].caps) == [1.5, None]


def test_many_columns_of_many_values_are_still_told_apart() -> None:
    """Their product is beyond 64 bits."""
    table = pa.table({f"c{number}": [(row + number) % 40 for row in range(80)] for number in range(14)})
    assert measure(table, table.column_names).group_count == 40


def test_files_and_frames_give_the_same(tmp_path: Path) -> None:
    frame = invented()
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet")
    told = [
        measure(table, ["sex"], ["disease", "visits"])
        for table in (frame, pa.Table.from_pandas(frame), tmp_path / "table.csv", str(tmp_path / "table.parquet"))
    ]
    assert all(each == told[0] for each in told)


@pytest.mark.slow
def test_protected_column_of_a_release_is_not_measured(tmp_path: Path) -> None:
    published_by("uniform", people(400), tmp_path / "release")
    assert measure(tmp_path / "release", ["age", "sex"]).rows == 400
    for table in (tmp_path / "release", tmp_path / "release" / "data.parquet"):
        with refuses(SchemaError, "protected-column-measured", column="disease"):
            measure(table, ["age"], ["disease"])


@pytest.mark.parametrize(
    ("public", "sensitive", "code", "fields"),
    [
        (["none"], ["s"], "missing-column", {"column": "none"}),
        (["q"], ["q"], "two-roles", {"column": "q"}),
        ([], [], "no-columns", {}),
        (["list"], ["s"], "uncountable-type", {"column": "list"}),
    ],
)
@pytest.mark.light
def test_columns_that_cannot_be_measured_are_refused(
    public: list[str], sensitive: list[str], code: str, fields: dict[str, ErrorField]
) -> None:
    with refuses(SchemaError, code, **fields):
        measure(pa.table({"q": [1], "s": [2], "list": [[3]]}), public, sensitive)


def test_empty_table_is_refused() -> None:
    with refuses(SchemaError, "empty-table"):
        measure(pa.table({"q": pa.array([], pa.string())}), ["q"])
