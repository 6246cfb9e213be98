"""Any table, by any mechanism: everybody is still there, and every value is counted without bias."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED, REASON, give_reasons
from releases import known_key
from selection import examples
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, Tolerance
from sfumato._request.schema import Schema
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from slow_counts import SlowRelease

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "text": st.text("ab'\"\\ é漢,;", max_size=4),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "date": st.dates(),
    "boolean": st.booleans(),
}


@st.composite
def columns(draw: st.DrawFn, most: int) -> list[Any]:
    """A column of few values of one type, perhaps with missing ones, each at least twice."""
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    values = draw(st.lists(kind, min_size=2, max_size=most, unique=True))
    if draw(st.booleans()):
        values.append(None)
    ordered = draw(st.permutations(values))
    return [*ordered, *ordered, *draw(st.lists(st.sampled_from(ordered), min_size=10, max_size=60))]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Two public columns and a sensitive one, of the same length."""
    found = [draw(columns(most)) for most in (3, 3, 9)]
    rows = max(map(len, found))
    one, two, held = ((column * rows)[:rows] for column in found)
    return pa.table({"one": one, "two": two, "held": held})


def requests(values: Sequence[Any]) -> dict[str, tuple[str, Any, Any]]:
    """Every mechanism in every form, with a request that nearly any table lets it meet."""
    bound = BreachBound("1/5", "3/4")
    named = {value: BreachBound(Fraction(1, 10 + place), "1/2") for place, value in enumerate(values[:4])}
    aggregate = fine_grain.Options(objective=fine_grain.Objective.AGGREGATE)
    both = fine_grain.Options(fine_grain.Direction.BOTH, fine_grain.Objective.AGGREGATE)
    shared = small_domain.Options(small_domain.Merge.VARIANCE, 5, publish_shares=True)
    return {
        "uniform": ("uniform", bound, None),
        "bits": ("subset", bound, subset.Options()),
        "lists": ("subset", bound, subset.Options(subset.Form.LIST)),
        "columns": ("subset", bound, subset.Options(subset.Form.COLUMNS)),
        "paper": ("small-domain", bound, small_domain.Options(small_domain.Merge.PAPER)),
        "shares": ("small-domain", bound, shared),
        "bounds": ("fine-grain", BreachBoundPerValue(named), aggregate),
        "tolerance": ("fine-grain", Tolerance("3/2"), both),
        "record": ("fine-grain", Tolerance("3/2"), fine_grain.Options()),
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", requests(["a"]))
@settings(max_examples=examples(6))
@given(table=tables(), key=st.integers(0, 2**64))
def test_any_table_keeps_its_people_and_is_counted_without_bias(
    tmp_path_factory: pytest.TempPathFactory, form: str, table: pa.Table, key: int
) -> None:
    one, two, held = (table.column(name).to_pylist() for name in ("one", "two", "held"))
    mechanism, spec, options = requests(sorted(set(held) - {None}, key=repr))[form]
    schema = Schema.of("held", keep=table.column_names, public="*")
    given_options = {} if options is None else {mechanism: options}
    accepted = {
        "accept_marginal_prior": REASON,
        "accept_disclosing": give_reasons(("one", "two")),
    }  # by chance, a column may tell all
    request = Request(
        table, schema=schema, spec=spec, mechanism=mechanism, options=given_options, **accepted, **ALL_ACCEPTED
    )
    out = tmp_path_factory.mktemp("any") / "release"
    try:
        release = publish(request, out, unsafe_test_key=known_key(key)).release
    except InfeasibleError:
        assert not out.exists()
        assert form in ("paper", "shares", "record")  # nothing is rare enough, or nothing could be told apart
        return
    slow = SlowRelease(out)
    assert release.rows == len(held)
    assert Counter((row["one"], row["two"]) for row in slow.rows) == Counter(zip(one, two, strict=True))
    assert {value for (value,) in slow.domain} == set(held)
    counts = slow.counts()
    for value in (slow.domain[0], slow.domain[-1]):
        assert release.count(*value).value == pytest.approx(float(counts[value]), rel=1e-6, abs=1e-5)
    expected = {
        (group, value): float(count)
        for group in set(one)
        for (value,), count in slow.counts(lambda row, group=group: row["one"] == group).items()
    }
    rows = release.sql("SELECT one, held, COUNT(*) FROM release GROUP BY one, held").rows
    found = {(row["one"], row["held"]): row["n"].value for row in rows}
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-5)
