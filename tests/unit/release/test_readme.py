"""The README of a release: names and values stay text, and `verify` notices every other word."""

from __future__ import annotations

import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accepted import ALL_ACCEPTED
from refusals import refuses
from releases import WAYS, accepting, edit_manifest, fit_digests, known_key, people, published, published_by
from rendered import codes, marks
from selection import examples
from sfumato import Release, ReleaseFormatError, Request, Schema, publish
from sfumato._core.markdown import escape_markdown
from sfumato._release.description import Description
from sfumato._release.manifest import NUMBERED_FORMAT, README, README_TEMPLATE
from sfumato._terminal_safe import UNPRINTABLE, escape_unprintable
from sfumato._verify.file_checks import FITNESS, README_TEXT, verify_folder
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from tampering import failed, failed_alone

EVIL = (
    *("# Free for all", "\n# Free for all\n", "`", "``x`", "\n\n    code", "```\nx\n```", "<script>alert(1)</script>"),
    *("<!-- ", "[a](https://x.example)", "![a](b)", "a\n| - | - |\n| x | y |", "\n- item\n1. item", "\x1b[2J\x1b[31m"),
    *("a\r\nb", "\u2028# x", "\u202etxet", "**bold**", "~~gone~~", "\n---\n", "\\", "a\\", "&lt;b&gt;", "' OR 1=1 --"),
    *("https://x.example", "{0}", "{title}", "%s", "$HOME `id`", " x ", "\n> quote", "[x]: https://y.example", "\x85"),
)
HOSTILE = st.sampled_from(EVIL) | st.text("`*_[]()<>#|&\\\n\r\x1b\u2028~-=+ a\"'", min_size=1, max_size=10)
# No column is called `*` alone: a risk of such a column cannot be accepted by its name.
NAMES = st.lists(HOSTILE.filter(lambda name: name != "*"), min_size=3, max_size=3, unique_by=lambda name: name.lower())
VALUES = st.lists(HOSTILE, min_size=4, max_size=4, unique=True)
WORDS = HOSTILE.map(escape_unprintable).map(str.strip).filter(bool)


PLAIN = (["age", "sex", "disease"], ["flu", "HIV", "cold", "asthma"], "words")


def hostile_release(mechanism: str, names: list[str], values: list[str], words: str, folder: Path) -> Release:
    """The people of all tests with other names of columns, other diseases and other words about them."""
    age, sex, disease = names
    renamed = dict(zip(("flu", "HIV", "cold", "asthma"), values, strict=True))
    table = people()
    diseases = pa.array([renamed[value] for value in table["disease"].to_pylist()])
    table = pa.table({age: table["age"], sex: table["sex"], disease: diseases})
    options: dict[str, Any] = WAYS[mechanism].request(mechanism)
    schema = WAYS[mechanism].schema(Schema.of(disease, public="*"), table)
    about = Description(title=words, description=words, columns={age: words, disease: words})
    request = Request(table, schema=schema, **options, **accepting(table, schema), **ALL_ACCEPTED)
    return publish(request, folder, unsafe_test_key=known_key(0), describe=about).release


def readme(folder: Path) -> str:
    """The text, as it is on the disk."""
    return (folder / README).read_bytes().decode()


def without_coverage(release: Release) -> str:
    """The text without the coverage, which depends on what was drawn, and so on the order of the values."""
    coverage = release.bound_coverage
    return readme(release.folder).replace("" if coverage is None else escape_markdown(coverage.sentence), "")


@cache
def plain_marks(mechanism: str) -> Counter[str]:
    """The structure of the README with plain names and values."""
    with tempfile.TemporaryDirectory() as folder:
        return marks(without_coverage(hostile_release(mechanism, *PLAIN, Path(folder) / "plain")))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", WAYS)
@settings(max_examples=examples(15))
@given(NAMES, VALUES, WORDS)
def test_structure_does_not_depend_on_names_and_values(
    mechanism: str, names: list[str], values: list[str], words: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        release = hostile_release(mechanism, names, values, words, Path(folder) / "release")
        text = readme(release.folder)
        assert marks(without_coverage(release)) == plain_marks(mechanism)
        assert {escape_unprintable(name) for name in names} <= set(codes(text))
        assert not UNPRINTABLE.search(text.replace("\n", ""))
        assert failed_alone(release.folder) == [FITNESS]


# --------------------------------------------------------------------------------------------------------- verification

FALSIFIED = [
    ("at most 1/10", "at most 1/20"),
    ("other columns are not protected", "other columns are protected"),
    ("at most 10% likely", "at most 5% likely"),
    ("has 60 records", "has 61 records"),
    (f"template {README_TEMPLATE}", "template 1"),
    (f" (template {README_TEMPLATE})", ""),
    ("\n", "\r\n"),
]


@pytest.mark.parametrize(("true", "false"), FALSIFIED)
def test_falsified_readme_does_not_verify(true: str, false: str, tmp_path: Path) -> None:
    folder = published(people(), tmp_path / "release", key=None).folder
    assert failed(folder) == []
    assert true in readme(folder)
    (folder / README).write_bytes(readme(folder).replace(true, false).encode())
    fit_digests(folder)
    assert failed(folder) == [README_TEXT]


@pytest.mark.parametrize("mechanism", WAYS)
def test_readme_of_another_guarantee_does_not_verify(mechanism: str, tmp_path: Path) -> None:
    """Every promise is compared, whichever mechanism wrote it."""
    folder = published_by(mechanism, people(), tmp_path / "release").folder
    heading = "## The guarantee\n\n"
    assert heading in readme(folder)
    (folder / README).write_bytes(readme(folder).replace(heading, f"{heading}Nobody learns anything. ").encode())
    fit_digests(folder)
    assert failed_alone(folder) == [README_TEXT, FITNESS]


@pytest.mark.parametrize("template", [1, 0, -2, 2.0, True, "2", None])
def test_older_template_cannot_be_claimed(template: Any, tmp_path: Path) -> None:
    folder = published(people(), tmp_path / "release").folder
    edit_manifest(folder, lambda written: written["sfumato"].update(readme_template=template))
    for read in (Release.open, verify_folder):
        with pytest.raises(ReleaseFormatError):
            read(folder)


def test_template_cannot_be_left_out(tmp_path: Path) -> None:
    folder = published(people(), tmp_path / "release").folder
    edit_manifest(folder, lambda written: written["sfumato"].pop("readme_template"))
    for read in (Release.open, verify_folder):
        with pytest.raises(ReleaseFormatError):
            read(folder)


def test_newer_template_asks_for_a_newer_version(tmp_path: Path) -> None:
    folder = published(people(), tmp_path / "release").folder
    edit_manifest(folder, lambda written: written["sfumato"].update(readme_template=README_TEMPLATE + 1))
    with refuses(ReleaseFormatError, "newer-readme-template", template=4, limit=3):
        Release.open(folder)


def test_older_format_has_no_template(tmp_path: Path) -> None:
    folder = published(people(), tmp_path / "release").folder
    edit_manifest(folder, lambda written: written["sfumato"].update(format=NUMBERED_FORMAT - 1))
    with refuses(ReleaseFormatError, "unknown-key", key="readme_template", file="datapackage.json"):
        Release.open(folder)


def test_description_of_sets_stands_once(tmp_path: Path) -> None:
    """The README is written from what is read back, where every column of the set has the words."""
    schema = Schema.of("disease", public="*")
    request = Request(
        people(200),
        schema=schema,
        spec=WAYS["subset"].spec,
        mechanism="subset",
        options={"subset": subset.Options(subset.Form.COLUMNS)},
        **accepting(people(), schema),
        **ALL_ACCEPTED,
    )
    about = Description(contact="Data  office <data@hospital.example>", columns={"disease": "Main diagnosis"})
    folder = publish(request, tmp_path / "release", unsafe_test_key=known_key(0), describe=about).release.folder
    assert readme(folder).count("Main diagnosis") == 1
    assert failed_alone(folder) == [FITNESS]
