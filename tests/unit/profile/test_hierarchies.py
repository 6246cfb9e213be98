"""A hierarchy on its way from the request to the histogram."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED
from refusals import refuses
from releases import BOUND
from sfumato._publish.publication_plan import plan
from sfumato._publish.request import Request
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato._request.schema import NullPolicy, Schema
from sfumato.errors import ErrorField, SchemaError
from sfumato.mechanisms import _decoys

ROWS = 400
CODES = Hierarchy.of(
    ("code", "chapter"), [(None, "unknown"), ("J10", "lungs"), ("F32", "mind"), ("J45", "lungs"), ("I10", "heart")]
)


def table(values: Sequence[Any]) -> pa.Table:
    return pa.table({"sex": ["F", "M"] * (ROWS // 2), "code": [values[row % len(values)] for row in range(ROWS)]})


def asked(values: Sequence[Any], hierarchy: Hierarchy = CODES, **more: Any) -> Request:
    schema = Schema.of("code", hierarchies={"code": hierarchy}, nulls=more.pop("nulls", NullPolicy.VALUE), public="*")
    return Request(table(values), schema=schema, **{"spec": BOUND, **more}, **ALL_ACCEPTED)


def test_hierarchy_reaches_the_histogram_in_the_published_order() -> None:
    histogram = plan(asked(["J45", None, "F32", "J45"])).choice.histogram
    assert histogram.values == ("J10", "F32", "J45", "I10", None)
    assert histogram.counts == (0, 100, 200, 0, 100)
    assert histogram.hierarchy is not None
    assert histogram.hierarchy.paths == (*CODES.paths[1:], CODES.paths[0])


def test_values_have_the_type_of_a_declared_domain() -> None:
    numbers = Hierarchy.of(("code", "chapter"), [("250", "sugar"), ("401", "heart")])
    histogram = plan(asked(["401", "250"], numbers)).choice.histogram
    assert histogram.hierarchy == Hierarchy.of(("code", "chapter"), [(250, "sugar"), (401, "heart")])


def test_records_without_a_value_may_be_left_out() -> None:
    known = Hierarchy.of(("code", "chapter"), CODES.paths[1:])
    histogram = plan(asked(["J10", None], known, nulls=NullPolicy.DROP)).choice.histogram
    assert (histogram.counts, histogram.hierarchy) == ((200, 0, 0, 0), known)


@pytest.mark.parametrize(
    ("values", "hierarchy", "code", "fields"),
    [
        (["J10", "X99"], CODES, "value-outside-domain", {"values": 1, "declared_by": "hierarchy"}),
        (
            ["J10", None],
            Hierarchy.of(("code", "chapter"), CODES.paths[1:]),
            "missing-value-outside-domain",
            {"column": "code"},
        ),
    ],
)
def test_value_that_the_hierarchy_does_not_name_is_refused(
    values: Sequence[Any], hierarchy: Hierarchy, code: str, fields: dict[str, ErrorField]
) -> None:
    with refuses(SchemaError, code, **fields):
        plan(asked(values, hierarchy))


@pytest.mark.parametrize(
    ("more", "code", "fields"),
    [
        ({"sensitive": "sex"}, "hierarchy-not-possible", {"column": "code"}),
        ({"sensitive": ["code", "sex"]}, "hierarchy-not-possible", {"column": "code"}),
        ({"compound": ["code", "sex"]}, "hierarchy-not-possible", {"column": "code"}),
        (
            {"sensitive": "code", "domains": {"code": CODES.domain}},
            "two-domains",
            {"column": "code", "by": "domain, hierarchy"},
        ),
        ({"sensitive": "code", "ranges": {"code": "0,1"}}, "two-domains", {"column": "code", "by": "domain, ranges"}),
        (
            {"sensitive": "code", "hierarchies": {"code": Path("nowhere.csv")}},
            "unreadable-file",
            {"file": "nowhere.csv"},
        ),
    ],
)
def test_hierarchy_that_does_not_fit_is_refused(more: dict[str, Any], code: str, fields: dict[str, ErrorField]) -> None:
    with refuses(SchemaError, code, **fields):
        Schema.of(**{"hierarchies": {"code": CODES}, **more}, public="*")


def test_plan_file_remembers_the_hierarchy() -> None:
    other = Hierarchy.of(CODES.levels, [(path[0], f"{path[1]}s") for path in CODES.paths])
    remembered = [asked(["J10"], each).to_record().request["schema"] for each in (CODES, CODES, other)]
    assert remembered[0] == remembered[1] != remembered[2]


def test_rare_values_of_a_hierarchy_are_not_merged() -> None:
    options = _decoys.Options(ratio_limit="2", rare=_decoys.RareTreatment.MERGE)  # type: ignore[arg-type]
    values = [*["J10"] * 20, *["F32"] * 19, "I10"]
    with refuses(SchemaError, "cannot-merge-values", column="code", because="hierarchy"):
        plan(asked(values, spec=DecoyGroups(2), options={"decoys": options}))


# ------------------------------------------------------------------------------------------------- published at a level


def at_chapter(values: Sequence[Any], hierarchy: Hierarchy = CODES, **more: Any) -> Histogram:
    """The histogram of a column that is published by chapter."""
    schema = Schema.of("code", hierarchies={"code": hierarchy}, publish_at={"code": "CHAPTER"}, **more, public="*")
    return plan(Request(table(values), schema=schema, spec=BOUND, **ALL_ACCEPTED)).choice.histogram


def test_groups_stand_in_the_place_of_values() -> None:
    histogram = at_chapter(["J45", None, "F32", "J10"])
    assert (histogram.values, histogram.counts) == (("unknown", "lungs", "mind", "heart"), (100, 200, 100, 0))
    assert histogram.hierarchy is None


def test_groups_of_numbers_keep_their_names() -> None:
    numbers = Hierarchy.of(("code", "chapter", "part"), [("250", "1", "a"), ("401", "2", "a"), ("402", "2", "a")])
    histogram = at_chapter(["401", "250", "402"], numbers)
    assert (histogram.values, histogram.counts) == (("1", "2"), (133, 267))
    assert histogram.hierarchy == Hierarchy.of(("chapter", "part"), [("1", "a"), ("2", "a")])


def test_missing_value_without_a_group_stays_missing() -> None:
    unsaid = Hierarchy.of(("code", "chapter", "part"), [(None, None, None), ("a", "x", "X"), ("b", "y", "X")])
    histogram = at_chapter(["a", None, "b", "b"], unsaid)
    assert (histogram.values, histogram.counts) == (("x", "y", None), (100, 200, 100))
    assert histogram.hierarchy == Hierarchy.of(("chapter", "part"), [("x", "X"), ("y", "X"), (None, None)])


def test_value_that_is_the_name_of_a_group_is_none_of_its_values() -> None:
    with refuses(SchemaError, "value-outside-domain", column="code", values=1):
        at_chapter(["J10", "lungs"])


def test_only_values_that_a_row_has_are_outside() -> None:
    listed = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 200), pa.array(["J10", "F32", "X99"]))
    schema = Schema.of("code", hierarchies={"code": CODES}, publish_at={"code": "chapter"}, public="*")
    asked_for = Request(
        pa.table({"sex": ["F", "F", "M", "M"] * 100, "code": listed}), schema=schema, spec=BOUND, **ALL_ACCEPTED
    )
    assert plan(asked_for).choice.histogram.counts == (0, 200, 200, 0)


@pytest.mark.parametrize("hierarchy", [CODES, Hierarchy.of(("code", "chapter"), CODES.paths[1:])])
def test_records_without_a_value_are_left_out_before_they_are_grouped(hierarchy: Hierarchy) -> None:
    histogram = at_chapter(["J10", None, "F32", None], hierarchy, nulls=NullPolicy.DROP)
    assert (histogram.total, dict(zip(histogram.values, histogram.counts, strict=True))["lungs"]) == (200, 100)


def test_plan_file_remembers_the_level() -> None:
    schemas = [
        Schema.of("code", hierarchies={"code": CODES}, publish_at=at, public="*") for at in ({}, {"code": "chapter"})
    ]
    one, other = (
        Request(table(["J10"]), schema=schema, spec=BOUND, **ALL_ACCEPTED).to_record().request for schema in schemas
    )
    assert one != other
    finest = Schema.of("code", hierarchies={"code": CODES}, publish_at={"code": "CODE"}, public="*")
    assert finest == schemas[0]
