"""What a holder sees of how cells came about."""

from __future__ import annotations

from sfumato._request.histogram import Histogram
from sfumato.mechanisms._randomized_response.small_domain.sub_table_planning import (
    SHOWN_GROUPS,
    describe_groups,
    make_groups_table,
)

GROUPS = ((6, 6, 0), (0, 2, 5))
PARTS = ((1,), (0,))


def test_groups_stand_in_their_order_with_their_cell() -> None:
    table = make_groups_table(GROUPS, PARTS, 0.25)
    assert table.rows == [("2", "2", "7", "2 to 5", "1"), ("1", "2", "12", "6", "2")]
    assert "2 groups" in table.title
    assert "0.25" in table.title
    assert "95%" in table.title


def test_json_has_values_and_counts() -> None:
    histogram = Histogram.of(["a", "b", "c"], [6, 8, 5])
    assert describe_groups(histogram, GROUPS, PARTS) == [
        {"number": 2, "values": ["b", "c"], "counts": [2, 5]},
        {"number": 1, "values": ["a", "b"], "counts": [6, 6]},
    ]


def test_many_groups_are_cut_for_people_and_said_to_be() -> None:
    groups = tuple((each, each) for each in range(1, SHOWN_GROUPS + 6))
    table = make_groups_table(groups, (tuple(range(len(groups))),), 1.0)
    assert len(table.rows) == SHOWN_GROUPS + 1
    assert table.rows[-1][0] == "... and 5 more"
