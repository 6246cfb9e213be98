"""Verification of releases of buckets: it accepts small random releases exactly where a slow check by hand does."""

from __future__ import annotations

import copy
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from bucket_tables import complaint
from releases import edit_manifest, people, published_by, read_json
from selection import examples
from sfumato._parquet.parquet_writer import write_table
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._records.bucket_records import BUCKET_CONTENTS, BUCKET_RECORDS
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato._request.schema import Schema
from sfumato._verify import manifest_view as audit_written
from sfumato._verify.against_original import verify
from sfumato._verify.file_checks import FITNESS
from tampering import edit_design, failed_alone, rewrite, with_column

Line = dict[str, Any]

DOMAIN = ["HIV", "asthma", "cold", "flu"]


@dataclass
class Content:
    """The two tables of a release and its caps, as somebody could write them."""

    records: list[int]
    lines: list[Line]
    caps: list[Fraction]

    @property
    def is_sound(self) -> bool:
        """By hand: the tables fit together and the caps hold, and they promise something."""
        promises = all(0 < cap <= 1 for cap in self.caps) and any(cap < 1 for cap in self.caps)
        return promises and complaint(self.records, self.lines, DOMAIN, self.caps) is None


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release to take the form from."""
    folder = published_by("buckets", people(), tmp_path_factory.mktemp("verify") / "release").folder
    assert read_json(folder)["sfumato"]["design"]["domain"] == DOMAIN
    return folder


def write(made: Path, folder: Path, content: Content) -> None:
    """A release of the same form with another content, in which all digests fit."""
    shutil.copytree(made, folder)
    ages = [20 + number % 7 for number in range(len(content.records))]
    records = {"age": ages, "sex": ["F" if age % 2 else "M" for age in ages], "bucket": content.records}
    lines = [{"bucket": each["bucket"], "disease": each["value"], "count": each["count"]} for each in content.lines]
    forms = {name: pq.read_schema(folder / name) for name in (BUCKET_RECORDS, BUCKET_CONTENTS)}
    tables = {
        BUCKET_RECORDS: pa.table(records, schema=forms[BUCKET_RECORDS]),
        BUCKET_CONTENTS: pa.Table.from_pylist(lines, schema=forms[BUCKET_CONTENTS]),
    }
    for name, table in tables.items():
        write_table(folder / name, table)
    caps = [str(cap) for cap in content.caps]
    edit_manifest(folder, lambda written: written["sfumato"]["design"].update(caps=caps))


# ----------------------------------------------------------------------------------------------------- random releases


@st.composite
def contents(draw: st.DrawFn) -> Content:
    """A few buckets of a few records; every other cap is as low as the buckets allow, or a little lower."""
    held = draw(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any), min_size=1, max_size=5))
    lines = [
        {"bucket": bucket, "value": DOMAIN[place], "count": count}
        for bucket, row in enumerate(held)
        for place, count in enumerate(row)
        if count
    ]
    records = draw(st.permutations([bucket for bucket, row in enumerate(held) for _ in range(sum(row))]))
    needed = [max(Fraction(row[place], sum(row)) for row in held) for place in range(4)]
    caps = [draw(st.sampled_from([max(need, Fraction(1, 9)), Fraction(1)])) for need in needed]
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, 3))
        caps[place] *= Fraction(10**9 - 1, 10**9)
    return Content(list(records), lines, caps)


def move_record(content: Content, draw: Callable[..., Any]) -> None:
    """One record is said to be in another bucket, perhaps in one that there is not."""
    content.records[draw(st.integers(0, len(content.records) - 1))] = draw(st.integers(0, max(content.records) + 1))


def change_count(content: Content, draw: Callable[..., Any]) -> None:
    draw(st.sampled_from(content.lines))["count"] += draw(st.sampled_from([-1, 1]))


def change_value(content: Content, draw: Callable[..., Any]) -> None:
    """A line is about another value, perhaps about one outside the domain."""
    draw(st.sampled_from(content.lines))["value"] = draw(st.sampled_from([*DOMAIN, "plague"]))


def trade(content: Content, draw: Callable[..., Any]) -> None:
    """Two lines trade a record: within a bucket the sizes stay."""
    one, other = (draw(st.sampled_from(content.lines)) for _ in range(2))
    one["count"] += 1
    other["count"] -= 1
    if draw(st.booleans()):
        content.lines = [line for line in content.lines if line["count"]]


def move_line(content: Content, draw: Callable[..., Any]) -> None:
    draw(st.sampled_from(content.lines))["bucket"] = draw(st.integers(-1, max(content.records) + 1))


def drop_line(content: Content, draw: Callable[..., Any]) -> None:
    content.lines.pop(draw(st.integers(0, len(content.lines) - 1)))


def repeat_line(content: Content, draw: Callable[..., Any]) -> None:
    content.lines.insert(draw(st.integers(0, len(content.lines))), dict(draw(st.sampled_from(content.lines))))


def swap_lines(content: Content, draw: Callable[..., Any]) -> None:
    one, other = (draw(st.integers(0, len(content.lines) - 1)) for _ in range(2))
    content.lines[one], content.lines[other] = content.lines[other], content.lines[one]


def move_both(content: Content, draw: Callable[..., Any]) -> None:
    """A record and a value go to another bucket together: the tables agree, and the caps may hold or not."""
    line = draw(st.sampled_from(content.lines))
    other = draw(st.integers(0, max(content.records)))
    if line["bucket"] in content.records:
        content.records[content.records.index(line["bucket"])] = other
    line["count"] -= 1
    mine = [each for each in content.lines if each["bucket"] == other and each["value"] == line["value"]]
    if mine:
        mine[0]["count"] += 1
    else:
        content.lines.append({"bucket": other, "value": line["value"], "count": 1})
    content.lines = sorted(
        (each for each in content.lines if each["count"]), key=lambda each: (each["bucket"], str(each["value"]))
    )


def rename(content: Content, draw: Callable[..., Any]) -> None:
    """Two buckets trade their ids in both tables: nothing is wrong."""
    one, other = (draw(st.integers(0, max(content.records))) for _ in range(2))
    ids = {one: other, other: one}
    content.records = [ids.get(each, each) for each in content.records]
    for line in content.lines:
        line["bucket"] = ids.get(line["bucket"], line["bucket"])
    content.lines.sort(key=lambda line: line["bucket"])


def leave_gap(content: Content, draw: Callable[..., Any]) -> None:
    """The last bucket gets a later id in both tables: they agree, but an id is nobody's."""
    last = max(content.records)
    content.records = [each + (each == last) for each in content.records]
    for line in content.lines:
        line["bucket"] += line["bucket"] == last


def change_cap(content: Content, draw: Callable[..., Any]) -> None:
    place = draw(st.integers(0, 3))
    content.caps[place] = draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1), Fraction(9, 8)]))


EDITS = [
    move_record,
    change_count,
    change_value,
    trade,
    move_line,
    drop_line,
    repeat_line,
    swap_lines,
    move_both,
    rename,
    leave_gap,
    change_cap,
]


def accepts(made: Path, content: Content) -> bool:
    """Whether verification has nothing against a release, but that its key is known.

    So many lines are read at a time that some buckets are in one batch, some in two, and some in several.
    """
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(audit_written, "BATCH_ROWS", 1 + len(content.lines) % 4)
        folder = Path(name) / "release"
        write(made, folder, content)
        found = set(failed_alone(folder)) - {FITNESS}
    assert found <= {"domain", "guarantee"}
    return not found


@pytest.mark.slow
@profile(max_examples=examples(60))
@given(content=contents())
def test_releases_as_they_should_be_are_accepted_unless_a_cap_is_too_low(made: Path, content: Content) -> None:
    """A cap that is a billionth too low is too low."""
    assert accepts(made, content) == content.is_sound


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
@profile(max_examples=examples(15))
@given(content=contents(), data=st.data())
def test_edited_releases_are_accepted_exactly_where_they_are_still_sound(
    made: Path,
    edit: Callable[[Content, Callable[..., Any]], None],
    content: Content,
    data: st.DataObject,
) -> None:
    edited = copy.deepcopy(content)
    edit(edited, data.draw)
    assert accepts(made, edited) == edited.is_sound


@pytest.mark.slow
@profile(max_examples=examples(50))
@given(content=contents(), edits=st.lists(st.sampled_from(EDITS), min_size=2, max_size=4), data=st.data())
def test_releases_edited_several_times_are_accepted_exactly_where_they_are_still_sound(
    made: Path,
    content: Content,
    edits: list[Callable[[Content, Callable[..., Any]], None]],
    data: st.DataObject,
) -> None:
    """One edit can make another good."""
    for edit in edits:
        if content.lines:
            edit(content, data.draw)
    assert accepts(made, content) == content.is_sound


# -------------------------------------------------------------------------------------------------- beside an original


@profile(max_examples=examples(15))
@given(
    content=contents().filter(lambda each: min(each.caps) < 1),
    others=st.dictionaries(st.integers(0, 8), st.sampled_from(DOMAIN)),
)
def test_buckets_must_hold_the_values_of_the_original(made: Path, content: Content, others: dict[int, str]) -> None:
    """Some people of the original have another disease; if the counts are the same all the same, nobody can tell."""
    values = [line["value"] for line in content.lines for _ in range(line["count"])]
    truth = [others.get(number, value) for number, value in enumerate(values)]
    ages = [20 + number % 7 for number in range(len(values))][::-1]
    original = pa.table({"age": ages, "sex": ["F" if age % 2 else "M" for age in ages], "disease": truth})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "release"
        write(made, folder, content)
        passed = {check.name: check.has_passed for check in verify(folder, original).checks}
    assert passed["public columns"]
    assert passed["draws"] == (Counter(truth) == Counter(values))
    shares = [Fraction(Counter(truth)[value], len(truth)) for value in DOMAIN]
    assert passed["posteriors"] == all(share <= cap for share, cap in zip(shares, content.caps, strict=True))


# -------------------------------------------------------------------------------------------------------------- Anatomy


@pytest.fixture
def anatomy(tmp_path: Path) -> Path:
    """A release of Anatomy: 24 records of four values, in buckets of two."""
    table = pa.table({"place": [str(row % 5) for row in range(24)], "disease": list("abcd" * 6)})
    publish(
        Request(table, schema=Schema.of("disease", public="*"), spec=Diversity(2), **ALL_ACCEPTED), tmp_path / "release"
    )
    return tmp_path / "release"


def test_anatomy_has_one_cap_for_all(anatomy: Path) -> None:
    edit_design(anatomy, lambda design: design["caps"].__setitem__(0, "3/5"))
    assert failed_alone(anatomy) == ["guarantee"]


def test_a_bucket_of_anatomy_holds_no_value_twice(anatomy: Path) -> None:
    """Two buckets of two become one of four in which a value has two: within its cap of a half, and still too often."""
    held = pq.read_table(anatomy / BUCKET_CONTENTS).to_pylist()
    name = next(key for key in held[0] if key not in ("disease", "count"))
    of = {bucket: {line["disease"] for line in held if line[name] == bucket} for bucket in range(12)}
    pairs = ((one, other) for one in of for other in of if one < other and of[one] & of[other])
    one, other = next(pairs)
    renamed = {bucket: bucket - (bucket > other) for bucket in of} | {other: one}
    lines = Counter((renamed[line[name]], line["disease"]) for line in held)
    rewrite(anatomy, BUCKET_CONTENTS, lambda table: _lines(table, name, lines))
    rewrite(
        anatomy,
        BUCKET_RECORDS,
        lambda table: with_column(table, name, [renamed[bucket] for bucket in table.column(name).to_pylist()]),
    )
    assert failed_alone(anatomy) == ["domain"]


def _lines(table: pa.Table, name: str, lines: Counter[tuple[int, str]]) -> pa.Table:
    rows = [{name: bucket, "disease": value, "count": count} for (bucket, value), count in sorted(lines.items())]
    return pa.Table.from_pylist(rows, schema=table.schema)
