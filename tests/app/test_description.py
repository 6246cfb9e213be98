"""What the publisher says in words: in the Data Package, in the README, by info; hostile words stay words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import frictionless
import pytest

from accepted import ALL_ACCEPTED, give_reasons
from command_line import fail, publishing, run, succeed
from refusals import refuses
from releases import SENSITIVE, edit_manifest, published_by
from releases import people as arrow_people
from rendered import marks, rendered
from sfumato import Release, ReleaseFormatError, Request, Schema, SpecError, publish
from sfumato._release.description import Description
from sfumato._release.manifest import MANIFEST
from sfumato._request.belief_bounds import BreachBound
from sfumato.mechanisms._subset_selection import subset_mechanism as subset

SAID = """
title = "Diagnoses of 2024"
description = \"\"\"All stays of the year,
without day cases.\"\"\"
licence = "CC-BY-4.0"
contact = "Data office <data@hospital.example>"
publisher = "St Anna Hospital"

[columns]
age = "Age at admission, in years"
disease = "Main diagnosis at discharge"
"""


@pytest.fixture
def described(table: Path) -> Path:
    (table.parent / "about.toml").write_text(SAID, encoding="utf-8")
    succeed(*publishing(table, "--describe", "about.toml"))
    return table.parent / "release"


@pytest.mark.slow
def test_words_stand_where_a_data_package_has_them(described: Path) -> None:
    written = json.loads((described / MANIFEST).read_text(encoding="utf-8"))
    assert written["title"] == "Diagnoses of 2024"
    assert written["description"] == "All stays of the year, without day cases."
    assert written["licenses"] == [{"name": "CC-BY-4.0"}]
    contact = {"title": "Data office", "email": "data@hospital.example", "roles": ["contact"]}
    assert written["contributors"] == [{"title": "St Anna Hospital", "roles": ["publisher"]}, contact]
    fields = {each["name"]: each.get("description") for each in written["resources"][0]["schema"]["fields"]}
    assert fields == {"age": "Age at admission, in years", "sex": None, "disease": "Main diagnosis at discharge"}
    package = frictionless.Package(str(described / MANIFEST))
    assert package.validate().valid
    assert package.title == "Diagnoses of 2024"


def test_words_are_shown(described: Path) -> None:
    shown = succeed("info", described).words
    for words in (
        "Diagnoses of 2024",
        "without day cases.",
        "Publisher: St Anna Hospital",
        "Licence: CC-BY-4.0",
        "age Age at admission, in years",
    ):
        assert words in shown
    told = succeed("info", described, "--json").json
    assert (told["title"], told["columns"]["age"]) == ("Diagnoses of 2024", "Age at admission, in years")
    readme = (described / "README.md").read_text(encoding="utf-8")
    assert readme.startswith("# Diagnoses of 2024\n")
    assert "Contact: Data office \\<data\\@hospital.example\\>" in readme
    assert succeed("verify", described).code == 0


def test_request_file_may_name_the_description(described: Path) -> None:
    (described.parent / "request.toml").write_text(
        'path = "people.csv"\nsensitive = "disease"\nprior = "1/10"\nposterior = "1/2"\ndescribe = "about.toml"\n'
    )
    succeed("publish", "request.toml", "--out", "again")
    assert "Diagnoses of 2024" in (described.parent / "again" / MANIFEST).read_text()


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("titel = 'x'", "the key 'titel' in 'about.toml' is unknown; the nearest known one is 'title'"),
        ("title = 7", "'title' in 'about.toml' should be a string in quotes"),
        ("columns = 'x'", "should be a section [columns]"),
        ("[columns]\nage = 3", "'age' in 'about.toml' should be a string in quotes"),
        ("[columns]\nagee = 'x'", "names a column that is not published, 'agee'; did you mean 'age'"),
        ("title = 'x", "is not TOML"),
        ("#" * (1 << 21), "is larger than 1 MiB"),
        (f"title = '{'x' * 201}'", "'title' of the description is longer than 200 characters"),
        ('title = "a\\u202eb"', "'title' of the description has invisible characters"),
        ('title = "\\u001b[2J"', "'title' of the description has invisible characters"),
        ("licence = 'do what you like'", "the licence should be a short name"),
        ("licence = 'javascript:alert(1)'", "the licence should be a short name"),
        ("contact = 'a <b'", "the contact should be a name"),
        (None, "cannot be read"),
    ],
)
def test_words_that_cannot_be_are_refused(written: str | None, words: str, table: Path) -> None:
    if written is not None:
        (table.parent / "about.toml").write_text(written, encoding="utf-8")
    assert words in fail(table.parent, *publishing(table, "--describe", "about.toml", "-q"))


HOSTILE = (
    "<script>alert(1)</script> [click](javascript:alert(1)) ![x](http://x.example/y) `code` **bold** # head",
    '=HYPERLINK("http://x.example")',
    "[bold red]not markup[/bold red] {braces} {0} %s \\n",
    "1. list",
    "| a | b |",
)


def about_all(text: str) -> Description:
    """The same words for everything."""
    return Description(title=text, description=text, contact="x", columns={"age": text, SENSITIVE: text})


def readme_of(release: Release) -> str:
    """What a release says for people."""
    return (release.folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_stay_words(text: str, tmp_path: Path) -> None:
    table = arrow_people(60)
    about = about_all(text)
    request = Request(
        table,
        schema=Schema.of(SENSITIVE, public="*"),
        spec=BreachBound("1/10", "1/2"),
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    release = publish(request, tmp_path / "release", describe=about).release
    assert release.manifest.description == about
    assert text in " ".join(run("info", release.folder).out.split()) or len(text) > 80
    readme = readme_of(release)
    plain = readme_of(publish(request, tmp_path / "plain", describe=about_all("plain")).release)
    assert marks(readme) == marks(plain)
    assert rendered(readme).count(" ".join(text.split())) == rendered(plain).count("plain")


@pytest.mark.parametrize(
    "change",
    [
        lambda written: written.update(title=["x"]),
        lambda written: written.update(title="x\x1b[2J"),
        lambda written: written.update(title="x" * 300),
        lambda written: written.update(licenses=[{"path": "javascript:alert(1)"}]),
        lambda written: written.update(licenses="x"),
        lambda written: written.update(contributors=[{"title": 7, "roles": ["contact"]}]),
        lambda written: written.update(contributors=[{"title": "x", "roles": ["contact"]}] * 2),
        lambda written: written.update(contributors=[{"title": "x", "roles": ["author"]}]),
        lambda written: written["resources"][0]["schema"]["fields"][0].update(description={"x": 1}),
    ],
)
def test_words_of_a_stranger_are_read_with_suspicion(change: Any, tmp_path: Path) -> None:
    folder = published_by("uniform", arrow_people(60), tmp_path / "release").folder
    edit_manifest(folder, change)
    with refuses(ReleaseFormatError, "invalid-description"):
        Release.open(folder)


def test_columns_of_sets_are_described_as_what_they_show(tmp_path: Path) -> None:
    about = Description(columns={SENSITIVE: "Main diagnosis"})
    options = {"subset": subset.Options(form=subset.Form.COLUMNS)}
    request = Request(
        arrow_people(200),
        schema=Schema.of(SENSITIVE, public="*"),
        spec=BreachBound("3/7", "1/2"),
        mechanism="subset",
        options=options,
        accept_disclosing=give_reasons(("age", "sex")),
        **ALL_ACCEPTED,
    )
    release = publish(request, tmp_path / "release", describe=about).release
    assert set(release.manifest.description.columns) == set(release.manifest.protected_columns)


def test_description_in_python_is_checked_too() -> None:
    with refuses(SpecError, "description-too-long", key="title"):
        Description(title="x" * 1000)
