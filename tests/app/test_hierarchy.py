"""Hierarchies on the command line: declared, published at a level, asked about, planned and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from command_line import BOUND, OPEN_BOUND, fail, people, succeed, write_csv
from sfumato import Histogram, Release, verify

DISEASES = ("flu", "HIV", "cold", "asthma")
CHAPTERS = (
    b"code,chapter,part\nflu,lungs,body\nHIV,blood,body\ncold,lungs,body\nasthma,lungs,body\n,none said,none said\n"
)
HIERARCHY = ("--hierarchy", "disease=codes.csv")
AT_CHAPTER = (*HIERARCHY, "--publish-at", "disease=Chapter")


@pytest.fixture
def table(desk: Path) -> Path:
    """A table of people, some without a disease, and a hierarchy beside it."""
    (desk / "codes.csv").write_bytes(CHAPTERS)
    values = [name for name in ("flu", "HIV", "cold", "asthma", "flu", None) for _ in range(4)]
    return write_csv(desk / "people.csv", people(1200, disease=values))


def publish(table: Path, *options: str, bound: tuple[str, ...] = BOUND) -> Release:
    """Publish the table; whatever its columns tell is accepted."""
    accepted = [word for name in ("age", "sex") for word in ("--accept-disclosing", f"{name}=made up")]
    succeed("publish", table, "--sensitive", "disease", *bound, *accepted, "--out", "release", "--force", *options)
    return Release.open("release")


def answered(sql: str) -> dict[Any, float]:
    """The counts of an answer, by its first column."""
    rows = succeed("query", "release", sql, "--json").json["rows"]
    return {row[next(iter(row))]: row["n"] for row in rows}


# --------------------------------------------------------------------------------------------------------- published


@pytest.mark.slow
def test_levels_are_published_shown_and_asked_about(table: Path) -> None:
    release = publish(table, *HIERARCHY, bound=OPEN_BOUND)
    by_chapter = "SELECT disease.chapter, COUNT(*) FROM release GROUP BY disease.chapter"
    assert answered(by_chapter) == pytest.approx({"lungs": 800, "blood": 200, "none said": 200}, abs=0.1)
    assert release.hierarchies["disease"].levels == ("code", "chapter", "part")
    shown = succeed("info", "release").words
    assert "disease.chapter has 3 groups: 'lungs', 'blood', 'none said'" in shown
    assert succeed("info", "release", "--json").json["levels"]["disease.part"] == ["body", "none said"]
    readme = (release.folder / "README.md").read_text()
    assert "`disease.chapter` (3), `disease.part` (2)" in readme
    assert by_chapter in readme
    assert succeed("verify", "release", "--original", table).code == 0


@pytest.mark.slow
def test_names_that_need_quotes_are_shown_as_sql_takes_them(desk: Path, table: Path) -> None:
    (desk / "codes.csv").write_bytes(
        CHAPTERS.replace(b"chapter,part", b"main group,all").replace(b",body", b",everyone")
    )
    (desk / "codes.csv").write_bytes(
        (desk / "codes.csv").read_bytes().replace(b"none said,none said", b"gone,everyone")
    )
    publish(table, *HIERARCHY, bound=OPEN_BOUND)
    words = succeed("info", "release").words
    assert "disease.all has one group: 'everyone' (query: GROUP BY disease.all)" in words
    asked = 'disease."main group"'
    assert f"{asked} has 3 groups: 'lungs', 'blood', 'gone' (query: GROUP BY {asked})" in words
    assert answered(f"SELECT {asked}, COUNT(*) FROM release GROUP BY {asked}")["blood"] == pytest.approx(200, abs=0.1)


@pytest.mark.slow
def test_column_is_published_at_a_level(table: Path) -> None:
    release = publish(table, *AT_CHAPTER, bound=OPEN_BOUND)
    assert release.manifest.domain == ("lungs", "blood", "none said")
    assert release.hierarchies["disease"].levels == ("chapter", "part")
    found = answered("SELECT disease, COUNT(*) FROM release GROUP BY disease")
    assert found == pytest.approx({"lungs": 800, "blood": 200, "none said": 200}, abs=0.1)
    assert answered("SELECT disease.part, COUNT(*) FROM release GROUP BY 1")["body"] == pytest.approx(1000, abs=0.1)
    assert "protected, at the level chapter" in succeed("info", "release").words
    assert succeed("info", "release", "--json").json["published_at"] == {"disease": "chapter"}
    assert "groups of the level `chapter`" in (release.folder / "README.md").read_text()
    assert b"asthma" not in (release.folder / "datapackage.json").read_bytes()


@pytest.mark.slow
def test_release_at_a_level_is_verified_with_its_hierarchy(desk: Path, table: Path) -> None:
    publish(table, *AT_CHAPTER)
    assert succeed("verify", "release", "--original", table, *HIERARCHY).code == 0
    assert verify("release", table, hierarchies={"disease": desk / "codes.csv"}).has_passed
    sentence = fail(desk, "verify", "release", "--original", table)
    assert "Give the hierarchy with the group of each value (--hierarchy disease=FILE)." in sentence
    (desk / "codes.csv").write_bytes(CHAPTERS.replace(b"HIV,blood", b"HIV,immune"))
    assert "different groups at the level 'chapter'" in fail(desk, "verify", "release", "--original", table, *HIERARCHY)


@pytest.mark.parametrize("options", [HIERARCHY, AT_CHAPTER], ids=["values", "groups"])
def test_hierarchy_of_the_release_may_have_its_lines_in_any_order(
    desk: Path, table: Path, options: tuple[str, ...]
) -> None:
    publish(table, *options)
    header, *lines = CHAPTERS.splitlines(keepends=True)
    (desk / "codes.csv").write_bytes(b"".join([header, *reversed(lines)]))
    assert succeed("verify", "release", "--original", table, *HIERARCHY).code == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            (b"HIV,blood", b"HIV,immune"),
            "different levels or groups of 'disease'; give the hierarchy of the release.",
        ),
        (
            (b"cold,lungs", b"cold,blood"),
            "different levels or groups of 'disease'; give the hierarchy of the release.",
        ),
        (
            (b"chapter", b"block"),
            "different levels or groups of 'disease'; give the hierarchy of the release.",
        ),
        (
            (b"asthma", b"gout"),
            "the hierarchy and the release have different values of 'disease'; give the hierarchy of the release.",
        ),
        ((b"code", b"chapter"), "a hierarchy has at least two levels with different names"),
    ],
    ids=lambda given: given[1].decode() if isinstance(given, tuple) else "",
)
def test_release_of_values_is_not_verified_with_another_hierarchy(
    desk: Path, table: Path, change: tuple[bytes, bytes], sentence: str
) -> None:
    publish(table, *HIERARCHY)
    (desk / "codes.csv").write_bytes(CHAPTERS.replace(*change))
    assert sentence in fail(desk, "verify", "release", "--original", table, *HIERARCHY)


def test_hierarchy_that_the_release_has_none_of_is_refused(desk: Path, table: Path) -> None:
    publish(table, *HIERARCHY)
    asked = ("verify", "release", "--original", table, "--hierarchy")
    assert "the hierarchy 'nowhere.csv' cannot be read" in fail(desk, *asked, "disease=nowhere.csv")
    assert fail(desk, *asked, "sex=codes.csv") == (
        "the release has no hierarchy of 'sex'; leave --hierarchy sex=FILE out."
    )
    assert "name the table too (--original)." in fail(desk, "verify", "release", *HIERARCHY)


def test_numbers_of_a_hierarchy_are_compared_as_numbers(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(1200, disease=[1, 2, 3, 10]))
    (desk / "codes.csv").write_bytes(b"code,chapter\n1,a\n2,a\n3,b\n10,b\n")
    publish(table, *HIERARCHY)
    assert succeed("verify", "release", "--original", table, *HIERARCHY).code == 0


def test_table_of_other_groups_does_not_pass(desk: Path, table: Path) -> None:
    publish(table, *AT_CHAPTER)
    (desk / "codes.csv").write_bytes(CHAPTERS.replace(b"cold,lungs", b"cold,blood"))
    found = verify("release", table, hierarchies={"disease": desk / "codes.csv"})
    assert [check.name for check in found.checks if not check.has_passed] == ["draws"]


@pytest.mark.slow
def test_finest_level_changes_nothing_and_the_coarsest_leaves_no_hierarchy(table: Path) -> None:
    plain = publish(table, *HIERARCHY)
    finest = publish(table, *HIERARCHY, "--publish-at", "disease=code")
    assert finest.manifest == plain.manifest
    coarsest = publish(table, *HIERARCHY, "--publish-at", "disease=part")
    assert (coarsest.hierarchies, coarsest.manifest.domain) == ({}, ("body", "none said"))


def test_request_file_names_hierarchy_and_level(desk: Path, table: Path) -> None:
    (desk / "request.toml").write_text(
        "[table]\npath = 'people.csv'\n[columns]\nsensitive = 'disease'\n"
        "[accept_disclosing]\nage = 'made up'\nsex = 'made up'\n"
        "[hierarchies]\ndisease = 'codes.csv'\n[publish_at]\ndisease = 'chapter'\n"
        "[protection]\nprior = 0.1\nposterior = 0.5\n"
    )
    succeed("publish", "request.toml", "--out", "release", "--plan-file", "private.json")
    assert Release.open("release").manifest.published_levels == {"disease": "chapter"}
    again = ("publish", "request.toml", "--out", "again", "--plan-file", "private.json")
    assert "belongs to another request" in fail(desk, *again, "--publish-at", "disease=part")
    (desk / "request.toml").write_text("[publish_at]\ndisease = 3\n")
    assert "should be the name of a level, in quotes" in fail(desk, "plan", "request.toml")


# ----------------------------------------------------------------------------------------------------------- planned


def test_plan_tells_what_each_level_would_gain(table: Path) -> None:
    asked = ("plan", table, "--sensitive", "disease", *HIERARCHY, *BOUND)
    words = succeed(*asked).words
    assert "by chapter, in 3 groups (--publish-at disease=chapter): the error of a group's count is 1." in words
    chapter, part = succeed(*asked, "--json").json["publish_at"]
    assert (chapter["level"], chapter["groups"], part["groups"]) == ("chapter", 3, 2)
    assert part["error_factor"] > chapter["error_factor"] > 1


def test_plan_without_a_hierarchy_tells_no_gain(table: Path) -> None:
    told = succeed("plan", table, "--sensitive", "disease", *BOUND, "--json").json
    assert "publish_at" not in told


def test_counts_are_planned_with_a_hierarchy(desk: Path, table: Path) -> None:
    (desk / "counts.csv").write_text("value,count\nHIV,30\nflu,70\n,10\n")
    asked = ("plan", "--counts", "counts.csv", *BOUND, "--json")
    whole = succeed(*asked, *HIERARCHY).json
    assert (whole["values"], whole["counts"]) == ([*DISEASES, None], [70, 30, 0, 0, 10])
    grouped = succeed(*asked, *AT_CHAPTER).json
    assert (grouped["values"], grouped["counts"]) == (["lungs", "blood", "none said"], [70, 30, 10])
    assert [each["level"] for each in grouped["publish_at"]] == ["part"]
    (desk / "counts.csv").write_text("value,count\ngout,30\nflu,70\n")
    assert (
        fail(desk, *asked, *HIERARCHY) == "the hierarchy lacks one value that the counts have; add every value to it."
    )
    assert Histogram.of(["a", "b"], [1, 2]).hierarchy is None


def test_request_that_groups_cannot_meet_is_said(table: Path) -> None:
    asked = ("plan", table, "--sensitive", "disease", *HIERARCHY, "--diversity", "2", "--accept-exposure=made up")
    assert "(--publish-at disease=chapter): not possible, because one value" in succeed(*asked).words


# ----------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            (*HIERARCHY, "--publish-at", "disease=town"),
            "there is no level 'town'; the hierarchy has code, chapter, part.",
        ),
        (("--publish-at", "disease=chapter"), "because it has no hierarchy; give it one (--hierarchy disease=FILE)."),
        ((*HIERARCHY, "--publish-at", "sex=chapter"), "column 'sex' cannot be published at a level"),
        ((*HIERARCHY, "--publish-at", "disease"), "'disease' should be written as --publish-at COL=LEVEL."),
        ((*HIERARCHY, "--domain", "disease=codes.csv"), "line 1 of the domain file"),
        (("--hierarchy", "sex=codes.csv"), "only a single sensitive column can. Leave its hierarchy out."),
        (("--hierarchy", "disease"), "'disease' should be written as --hierarchy COL=FILE."),
        (("--hierarchy", "disease=nowhere.csv"), "the hierarchy 'nowhere.csv' does not exist"),
        (("--hierarchy", "disease=short.csv"), "holds 2 values outside its declared domain"),
        (
            ("--hierarchy", "disease=short.csv", "--publish-at", "disease=chapter"),
            "holds 2 values outside its declared",
        ),
        ((*HIERARCHY, "--nulls", "error"), "200 records have no 'disease'"),
        ((*AT_CHAPTER, "--nulls", "error"), "200 records have no 'disease'"),
    ],
)
def test_bad_hierarchy_gets_one_sentence(desk: Path, table: Path, options: tuple[str, ...], sentence: str) -> None:
    (desk / "short.csv").write_text("code,chapter\nflu,lungs\nHIV,blood\n,none said\n")
    assert sentence in fail(desk, "publish", table, "--sensitive", "disease", *BOUND, "--out", "release", *options)


def test_column_with_the_name_of_a_level_is_refused(desk: Path, table: Path) -> None:
    write_csv(desk / "people.csv", {**people(), "Disease.Chapter": ["x", "y"] * 30})
    asked = ("publish", table, "--sensitive", "disease", *BOUND, "--out", "release", *HIERARCHY)
    assert "has a column 'disease.chapter', which is the name of a level" in fail(desk, *asked)
