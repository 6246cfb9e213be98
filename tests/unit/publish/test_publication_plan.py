"""What stops a publication because public columns tell what is protected, and what goes on with it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from accepted import ALL_ACCEPTED, REASON, give_reasons
from refusals import refuses
from sfumato import DecisionError, Grade, SchemaError, verify
from sfumato._profile import record_sample, table_profile
from sfumato._publish.publication import Publication, publish
from sfumato._publish.publication_plan import plan
from sfumato._publish.request import Request
from sfumato._release.manifest import MANIFEST, README
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import Schema
from sfumato._request.warnings import Notice
from sfumato._verify.file_checks import ACCEPTED
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy

BOUND = BreachBound("1/10", "1/2")
ROWS = 400
KEY = "5b" * 32

Table = Mapping[str, Sequence[Any]]


def coin(sides: Sequence[Any], seed: int, rows: int = ROWS) -> list[Any]:
    return random.Random(seed).choices(sides, k=rows)


def asking(table: Table, schema: Schema | None = None, **options: Any) -> Request:
    return Request(
        pa.table(dict(table)),
        schema=schema or Schema.of("code", public="*"),
        **{"spec": BOUND, **options},
        **ALL_ACCEPTED,
    )


def published(folder: Path, table: Table, schema: Schema | None = None, **options: Any) -> Publication:
    said: list[Notice] = []
    return publish(asking(table, schema, **options), folder / "release", unsafe_test_key=KEY, on_notice=said.append)


def stopped(folder: Path, table: Table, schema: Schema | None = None, **options: Any) -> Notice:
    """The one stop of a publication, which leaves nothing behind and is foretold by a plan."""
    with pytest.raises(DecisionError) as caught:
        published(folder, table, schema, **options)
    assert list(folder.iterdir()) == []
    (stop,) = caught.value.stops
    (foretold,) = plan(asking(table, schema, **options)).stops
    # How far beliefs go with a release depends on what is drawn for it.
    assert (foretold.code, foretold.columns, foretold.ways_out) == (stop.code, stop.columns, stop.ways_out)
    assert stop.grade is Grade.STOP
    return stop


def codes(rows: int = ROWS) -> list[str]:
    """Twelve codes in four chapters, as often as anything."""
    return coin([f"{chapter}{number}" for chapter in "ABCD" for number in (1, 1, 2, 3)], 1, rows)


def chapters() -> dict[str, list[str]]:
    """A chapter tells half of the codes: the first of each is as frequent as the others together."""
    held = coin([f"{chapter}{number}" for chapter in "ABCDEFGH" for number in (*[1] * 5, 2)], 1)
    return {"sex": coin("FM", 2), "chapter": [code[0] for code in held], "code": held}


# -------------------------------------------------------------------------------------------------- columns that tell


def test_chapter_that_determines_the_code_stops(tmp_path: Path) -> None:
    stop = stopped(tmp_path, chapters())
    assert (stop.code, stop.columns) == ("column-discloses", ("chapter",))
    assert "`drop=['chapter']`" in stop.ways_out[0]
    assert "`accept_disclosing={'chapter': 'REASON'}`" in stop.ways_out[1]


def test_publication_goes_on_without_the_chapter(tmp_path: Path) -> None:
    made = published(tmp_path, chapters(), Schema.of("code", drop=["chapter"], public="*"))
    assert made.release.manifest.public_columns == ("sex",)


def accepted_of(folder: Path) -> tuple[dict[str, Any], str, str]:
    """What the manifest, the README and the verification of a release say of what was accepted."""
    written = json.loads((folder / "release" / MANIFEST).read_text(encoding="utf-8"))
    (check,) = (each for each in verify(folder / "release").checks if each.name == ACCEPTED)
    assert check.has_passed
    return written["sfumato"]["accepted"], (folder / "release" / README).read_text(encoding="utf-8"), check.detail


def test_publication_goes_on_where_that_was_accepted_and_says_so(tmp_path: Path) -> None:
    made = published(tmp_path, chapters(), accept_disclosing=give_reasons(("chapter",)))
    accepted, readme, verified = accepted_of(tmp_path)
    assert accepted["disclosing"] == [{"column": "chapter", "reason": REASON}]
    assert REASON in readme
    assert "'chapter'" in verified
    assert REASON in verified
    (notice,) = (each for each in made.notices if each.code == "telling-column")
    assert notice.column == "chapter"
    assert notice.numbers["guessed"] > (1 + notice.numbers["blindly"]) / 2
    assert str(notice).endswith("you accepted this.")


def test_what_was_accepted_is_said_whether_or_not_it_tells(tmp_path: Path) -> None:
    """Else the release would say which columns tell."""
    made = published(
        tmp_path, chapters(), Schema.of("code", drop=["chapter"], public="*"), accept_disclosing=give_reasons(("sex",))
    )
    accepted, readme, verified = accepted_of(tmp_path)
    assert accepted["disclosing"] == [{"column": "sex", "reason": REASON}]
    assert "option accept-disclosing" in readme
    assert "'sex'" in verified
    assert not [each for each in made.notices if each.code == "telling-column"]


def test_release_says_that_nothing_was_accepted(tmp_path: Path) -> None:
    table = {"ward": coin("abc", 2, 400), "code": codes(400)}
    request = Request(pa.table(table), schema=Schema.of("code", public=["ward"]), spec=BOUND, accept_unique="")
    publish(request, tmp_path / "release", unsafe_test_key=KEY, on_notice=lambda notice: None)
    accepted, readme, _ = accepted_of(tmp_path)
    assert accepted == {"disclosing": []}
    assert "accepted" not in readme


def test_several_columns_that_tell_are_all_to_be_accepted(tmp_path: Path) -> None:
    table = chapters()
    table["section"] = [chapter.lower() for chapter in table["chapter"]]
    stop = stopped(tmp_path, table, accept_disclosing=give_reasons(("chapter",)))
    assert stop.columns == ("section",)
    published(tmp_path, table, accept_disclosing=give_reasons(("chapter", "section")))
    assert [entry["column"] for entry in accepted_of(tmp_path)[0]["disclosing"]] == ["chapter", "section"]


def test_column_that_the_table_does_not_have_cannot_be_accepted(tmp_path: Path) -> None:
    with refuses(SchemaError, "missing-column", column="chapters"):
        published(tmp_path, chapters(), accept_disclosing=give_reasons(("chapters",)))


def test_accepting_is_another_request(tmp_path: Path) -> None:
    plain = asking(chapters()).to_record()
    assert asking(chapters(), accept_disclosing=give_reasons(("chapter",))).to_record() != plain
    assert asking(chapters(), accept_exposure=REASON).to_record() != plain
    ways = [
        asking(chapters(), accept_disclosing=give_reasons(names)).to_record()
        for names in (("sex", "chapter"), ("chapter", "sex"))
    ]
    assert ways[0] == ways[1]


# ------------------------------------------------------------------------------------------------------ only together


def parity(rows: int = ROWS) -> dict[str, list[Any]]:
    """Two coins, and a code that is 1 where they differ, but for one record in ten."""
    one, other, noise = coin((0, 1), 3, rows), coin((0, 1), 4, rows), coin((0,) * 9 + (1,), 5, rows)
    held = [str(first ^ second ^ flipped) for first, second, flipped in zip(one, other, noise, strict=True)]
    return {"one": one, "other": other, "idle": coin("ab", 6, rows), "code": held}


def test_two_columns_that_tell_only_together_stop(tmp_path: Path) -> None:
    stop = stopped(tmp_path, parity(), spec=BreachBound("1/2", "2/3"))
    assert (stop.code, stop.columns) == ("column-discloses", ("one",))
    assert "'one' and 'other'" in str(stop)


@pytest.mark.parametrize(
    "options",
    [{"schema": Schema.of("code", drop=["one"], public="*")}, {"accept_disclosing": give_reasons(("one",))}],
    ids=str,
)
def test_one_of_two_that_tell_only_together_is_enough(tmp_path: Path, options: dict[str, Any]) -> None:
    published(tmp_path, parity(), spec=BreachBound("1/2", "2/3"), **options)


def test_many_weak_columns_that_tell_together_stop(tmp_path: Path) -> None:
    """Each has the code of four records in ten, and of the others any: none tells alone, nor do two."""
    rows, chance = 4000, random.Random(7)
    held = coin("01", 8, rows)
    table = {
        f"weak {number}": [value if chance.random() < 0.4 else chance.choice("01") for value in held]
        for number in range(9)
    }
    held = [{"0": "no", "1": "yes"}[value] for value in held]
    stop = stopped(tmp_path, {**table, "code": held}, spec=BreachBound("1/2", "2/3"))
    assert stop.code == "column-discloses"
    assert stop.columns[0].startswith("weak ")


# ------------------------------------------------------------------------------------------------- what does not stop


def test_table_in_which_nearly_everybody_is_alone_does_not_stop(tmp_path: Path) -> None:
    """With their public columns together 98 of 100 are alone; who is alone tells nothing of anybody else."""
    chance = random.Random(9)
    table = {
        "zip": [chance.randrange(200) for _ in range(ROWS)],
        "born": [1930 + chance.randrange(80) for _ in range(ROWS)],
        "sex": coin("FM", 2),
        "code": codes(),
    }
    made = published(tmp_path, table)
    assert made.uniqueness.after_bins.unique_share > 0.98
    assert made.uniqueness.after_bins.is_exact
    assert all(each.without_release.interval[0] <= 0.2 for each in made.exposures)


def test_small_table_does_not_stop_by_chance(tmp_path: Path) -> None:
    """Of twelve records nine are guessed right, and that may be luck."""
    table = {"sex": [*"FFFFFFMMMMMM"], "code": [*"xxxxxyyyyyxx"]}
    published(tmp_path, table, spec=BreachBound("1/2", "3/4"))


# ----------------------------------------------------------------------------------------------- columns of many values


def families(rows: int = 600) -> dict[str, list[Any]]:
    """Three of a family have the same code, and every family has its number."""
    held = coin([f"c{number}" for number in range(12)], 10, rows // 3)
    return {
        "family": [row // 3 for row in range(rows)],
        "sex": coin("FM", 2, rows),
        "code": [held[row // 3] for row in range(rows)],
    }


def test_kept_column_of_nearly_as_many_values_as_records_is_checked_too(tmp_path: Path) -> None:
    assert stopped(tmp_path, families(), Schema.of("code", keep=["family"], public="*")).columns == ("family",)


def test_column_of_too_many_values_to_be_numbered_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_profile, "MOST_VALUES", 50)
    assert stopped(tmp_path, families(), Schema.of("code", keep=["family"], public="*")).columns == ("family",)


def test_column_in_which_everybody_is_alone_tells_nothing(tmp_path: Path) -> None:
    table = {"number": list(range(ROWS)), "code": codes()}
    made = published(tmp_path, table, Schema.of("code", keep=["number"], public="*"))
    assert made.uniqueness.after_bins.unique_share == 1
    assert made.exposures[0].without_release.success == pytest.approx(
        max(codes().count(each) for each in set(codes())) / ROWS
    )


# -------------------------------------------------------------------------------------------------------------- samples


def test_holder_is_told_if_some_records_were_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_sample, "MOST_RECORDS", 150)
    made = published(tmp_path, chapters(), accept_disclosing=give_reasons(("chapter",)))
    (notice,) = (each for each in made.notices if each.code == "records-sampled")
    assert notice.numbers == {"records": 150, "total": ROWS}
    assert "150 of 400 records" in str(notice)
    assert {each.records for each in made.exposures} == {150}
    assert made.uniqueness.records == 150


def test_sampled_records_tell_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_sample, "MOST_RECORDS", 150)
    assert stopped(tmp_path, chapters()).columns == ("chapter",)


def test_holder_is_told_nothing_of_samples_if_all_records_were_looked_at(tmp_path: Path) -> None:
    made = published(tmp_path, chapters(), accept_disclosing=give_reasons(("chapter",)))
    assert "records-sampled" not in {each.code for each in made.notices}
    assert {each.records for each in made.exposures} == {ROWS}


# ------------------------------------------------------------------------------------------------ beside other promises


def pairs(rows: int = 2000) -> dict[str, list[Any]]:
    """Twenty codes, of which a ward has two: too little to tell them, and enough to tell who is who in a bucket."""
    held = coin(range(20), 11, rows)
    return {"ward": [f"w{code // 2:02d}" for code in held], "code": [f"c{code:02d}" for code in held]}


WAYS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "anatomy": lambda: {"spec": Diversity(4), "mechanism": "anatomy", "options": {"anatomy": anatomy.Options()}},
    "decoys": lambda: {"spec": DecoyGroups(4), "mechanism": "decoys", "options": {"decoys": _decoys.Options()}},
}


@pytest.mark.parametrize("way", WAYS)
def test_column_that_lifts_most_records_beyond_a_promise_for_the_release_alone_stops(tmp_path: Path, way: str) -> None:
    stop = stopped(tmp_path, pairs(), **WAYS[way]())
    assert (stop.code, stop.columns) == ("exposure-above-bound", ("ward",))
    assert any("`accept_exposure='REASON'`" in way_out for way_out in stop.ways_out)


@pytest.mark.parametrize("way", WAYS)
def test_that_exposure_can_be_accepted_and_is_said(tmp_path: Path, way: str) -> None:
    published(tmp_path, pairs(), **WAYS[way](), accept_exposure=REASON)
    accepted, readme, verified = accepted_of(tmp_path)
    assert accepted["exposure"] == REASON
    for text in (readme, verified):
        assert "option accept-exposure" in text


@pytest.mark.parametrize("mechanism", ["uniform", "subset"])
def test_promise_for_every_prior_is_not_stopped_by_that_column(tmp_path: Path, mechanism: str) -> None:
    published(tmp_path, pairs(), mechanism=mechanism)


# ----------------------------------------------------------------------------------------------------------- uniqueness


def test_holder_is_told_how_many_are_alone_before_and_after_bins(tmp_path: Path) -> None:
    """Everybody has an age of their own, and after bins nobody."""
    table = {"age": list(range(ROWS)), "sex": ["F", "M"] * (ROWS // 2), "code": codes()}
    made = published(tmp_path, table, Schema.of("code", ranges={"age": Ranges.parse("0,100,200,300,400")}, public="*"))
    before, after = made.uniqueness.before_bins, made.uniqueness.after_bins
    assert before is not None
    assert (before.unique_share, after.unique_share, after.below_11) == (1, 0, 0)
    assert made.uniqueness.unique_without == {"age": 0, "sex": 0}


def test_nothing_is_said_of_bins_where_there_are_none(tmp_path: Path) -> None:
    assert (
        published(
            tmp_path, parity(), accept_disclosing=give_reasons(("one",)), spec=BreachBound("1/2", "2/3")
        ).uniqueness.before_bins
        is None
    )
