from __future__ import annotations

import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from figure_examples import EXAMPLES
from generated_pages import DAY, WRITERS, Made, check_sound, made, verdicts
from refusals import refuses
from releases import WAYS, people, published
from sfumato._document.document import (
    DEFAULT_DECIDER,
    MOST_ROWS,
    DataTable,
    Decision,
    Document,
    Facts,
    SideBySide,
    Text,
    make_section,
)
from sfumato._document.html_document import render_block
from sfumato._document.html_markup import PRIVATE
from sfumato._evidence.certificate import make_certificate
from sfumato._figures.svg import escape_markup
from sfumato._query.release import Release
from sfumato._release.description import Description
from sfumato._report import check_place, save
from sfumato._request.accepted_risks import AcceptedRisks
from sfumato._request.guarantee import Guarantee
from sfumato._request.schema import Schema
from sfumato._request.warnings import Notice
from sfumato.errors import ReleaseFormatError, SchemaError, SpecError, TargetError
from sfumato.mechanisms import REGISTRY

HOSTILE = "<script>alert('x')</script>\"&\x00\x1b[2J\r\u202e\ud800\uffff" + "W" * 1000
PAGE = Document("A title", "of something", (make_section("First", Text("said")),))
SECRET = replace(PAGE, is_private=True)


# ----------------------------------------------------------------------------------------------------- what is written


@pytest.fixture(scope="module", params=[name for name in WAYS])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What a mechanism makes of a small table."""
    assert set(WAYS) == set(REGISTRY)
    return made(request.param, tmp_path_factory.mktemp("made"))


@pytest.mark.slow
def test_everything_that_is_written_leaves_the_verdict_to_people(written: Made) -> None:
    for name, write in WRITERS.items():
        assert not verdicts(write(written)), name


def test_readings_of_figures_leave_it_to_people_too() -> None:
    for name, example in EXAMPLES.items():
        assert not verdicts(example(760).reading), name


@pytest.mark.slow
def test_pages_are_sound_and_small(written: Made) -> None:
    for name in ("certificate", "plan", "sheet", "report"):
        text = WRITERS[name](written)
        check_sound(text)
        assert len(text.encode()) < 400_000
        assert ("PRIVATE" in text) == (name != "certificate")
        assert "Whether this is enough is up to the data steward." in text
    caps = "caps" in written.planned.choice.to_json()
    assert ("Composition of buckets by size" in WRITERS["plan"](written)) == caps


@pytest.mark.parametrize(
    "text",
    [
        "This table is anonymous.",
        "<p>The data are <b>safe</b>.</p>",
        "GDPR does not apply to it.",
        "It is differentially private.",
        "Local differential privacy of this column, one record per person.",
        "a k-anonymous column",
        "intervals for the population",
        "the re-identification risk is 3%",
    ],
)
def test_verdicts_are_found(text: str) -> None:
    assert verdicts(text)


def test_what_is_no_verdict_is_let_through() -> None:
    said = "local differential privacy of this column, one record per person, with epsilon = ln(amplification)"
    assert not verdicts(f"unsafe --unsafe-test-key --safe; {said}; k-anonymity <i class='safe'>of</i> the original")


# --------------------------------------------------------------------------------------------------------- the builder


def test_hostile_text_is_escaped_and_cut_wherever_it_stands() -> None:
    rows = ((HOSTILE, HOSTILE, ""), ("plain", "1", "2"))
    blocks = (Text(HOSTILE), DataTable(HOSTILE, (HOSTILE, "b", "c"), rows), Decision(False, HOSTILE))
    text = Document("A title", HOSTILE, (make_section("First", *blocks),), HOSTILE).to_html()
    check_sound(text)
    assert "<script" not in text
    assert "W" * 61 not in text
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\ud800-\udfff]", text)


def test_private_pages_say_so_in_their_title_ribbon_sections_and_on_paper() -> None:
    text = SECRET.to_html()
    check_sound(text)
    assert "<title>PRIVATE: A title</title>" in text
    assert text.count(PRIVATE) == 1
    assert text.count('class="tag">PRIVATE<') == 1
    assert '@bottom-left{content:"PRIVATE: A title' in text
    assert "PRIVATE" not in PAGE.to_html()


def test_long_tables_are_cut_and_say_how_much_is_left() -> None:
    text = render_block(DataTable("numbers", ("n",), tuple((str(n),) for n in range(MOST_ROWS + 7))))
    assert text.count("<tr>") == MOST_ROWS + 1
    assert "7 more" in text


def test_request_that_is_not_met_says_so() -> None:
    assert "The request is not met. Whether this is enough is up to Ada." in render_block(Decision(False, "Ada"))


# ------------------------------------------------------------------------------------------------------------ as a file


def test_page_is_written_whole_for_its_owner_alone_if_it_is_private(tmp_path: Path) -> None:
    os.umask(umask := os.umask(0))
    for page, mode in ((SECRET, 0o600), (PAGE, 0o666)):
        target = tmp_path / f"{mode}.html"
        save(page, target, force=False)
        assert target.read_text(encoding="utf-8") == page.to_html()
        assert stat.S_IMODE(target.stat().st_mode) == mode & ~umask
    assert {each.name for each in tmp_path.iterdir()} == {"384.html", "438.html"}


def test_existing_file_is_kept_without_force_and_replaced_with_it(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_text("old", encoding="utf-8")
    with refuses(TargetError, "target-exists", file=str(target)):
        save(SECRET, target, force=False)
    assert target.read_text(encoding="utf-8") == "old"
    save(SECRET, target, force=True)
    assert target.read_text(encoding="utf-8") == SECRET.to_html()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_page_is_refused_where_it_would_not_open_replace_a_folder_or_have_none(tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    for name, code, refused in (
        ("page.txt", "wrong-ending", "page.txt"),
        ("folder.html", "target-exists", "folder.html"),
        ("no/page.html", "missing-directory", "no"),
    ):
        with refuses(TargetError, code, file=str(tmp_path / refused)):
            check_place(tmp_path / name, force=True)


def test_page_is_refused_inside_a_release_also_an_edited_one(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release")
    inside, elsewhere = release.path / "page.html", tmp_path / "package" / "page.html"
    elsewhere.parent.mkdir()
    (elsewhere.parent / "datapackage.json").write_text('{"name": "of somebody else"}', encoding="utf-8")
    check_place(elsewhere, force=False)
    deep = release.path / "deep"
    deep.mkdir()
    for target in (inside, deep / "page.html"):
        with refuses(TargetError, "inside-release", path=str(target)):
            check_place(target, force=False)
    (release.path / "datapackage.json").write_text("{", encoding="utf-8")
    with refuses(TargetError, "inside-release", path=str(inside)):
        check_place(inside, force=False)


# ------------------------------------------------------------------------------------------------------ the certificate


def of_day(release: Release) -> str:
    return make_certificate(release.path, DAY).document().to_html()


@pytest.mark.slow
def test_certificate_follows_nothing_but_the_design(tmp_path: Path) -> None:
    """Two tables of the same design and other counts have the same certificate, but for the digest."""
    pages = []
    domain = {"disease": ["flu", "HIV", "cold", "asthma"]}
    for number, diseases in enumerate((["flu"] * 9 + ["HIV"], ["HIV", "cold", "asthma"])):
        schema = Schema.of("disease", domains=domain, public="*")
        table = people(60 + 60 * number, disease=diseases)
        release = published(table, tmp_path / str(number), schema=schema, key=None, mechanism="uniform")
        found = make_certificate(release.path, DAY)
        digest = " ".join(re.findall("." * 16, found.digest))
        text = found.document().to_html()
        assert digest in text
        assert str(tmp_path) not in text
        assert not re.search(r"\.parquet|\.json|\d\d:\d\d:", text)
        # What the release estimates of itself depends on what was drawn.
        pages.append(text.replace(digest, "").replace(escape_markup(release.bound_coverage.sentence), ""))
    assert pages[0] == pages[1]


@pytest.mark.slow
def test_certificate_says_numbers_exactly_and_as_decimals(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release", key=None, mechanism="uniform")
    found = make_certificate(release.path, DAY, "Ada")
    design = dict(found.design_facts)
    retention = release.manifest.design.retention
    assert design["retention"] == f"{retention} = {float(retention):.6g}"
    assert design["prior"] == "1/10 = 0.1"
    assert ("sex", "string", "public, unchanged") in found.columns
    assert found.columns[0][0] == "disease"
    assert found.to_json()["design"] == release.manifest.design.to_json()
    assert found.to_json()["date"] == "2026-03-01"
    # By hand: a record that holds the value shows it with a = p + q, another one with q = (1-p)/m.
    p, q = float(retention), float(release.manifest.design.swap_probability)
    variance = 1000 * (p + q) * (1 - p - q) / p**2 + 99_000 * q * (1 - q) / p**2
    assert dict(found.error_curves[0].errors)[1000] == pytest.approx(variance**0.5 / 1000)
    page = found.document().to_html()
    assert "up to Ada" in page
    headings = re.findall(r"<th[^>]*>(1 in [0-9,]+)</th>", page.split("counted rows that have the value</caption>")[1])
    assert headings == ["1 in 10", "1 in 100", "1 in 1,000"]
    assert found.limits[0] == Guarantee.ANY_PRIOR.limit


def test_release_that_fails_a_check_has_no_certificate(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release")
    with refuses(ReleaseFormatError, "release-fails-check", check="fitness"):
        make_certificate(release.path, DAY)
    (release.path / "README.md").write_text("changed", encoding="utf-8")
    with refuses(ReleaseFormatError, "release-fails-check", check="files"):
        make_certificate(release.path, DAY)


@pytest.mark.slow
def test_many_columns_and_hostile_names_leave_a_certificate_sound(tmp_path: Path) -> None:
    names = {f"<b>{number}</b>" + "x" * 300: ["a", "b"] for number in range(30)}
    release = published(people(60, **names), tmp_path / "release", key=None)
    text = of_day(release)
    check_sound(text)
    assert "<b>" not in text
    columns = re.findall(r'<th scope="row">&lt;b&gt;(\d+)&lt;', text)
    assert sorted(map(int, columns)) == list(range(30))
    assert "x" * 61 not in text


ABOUT = Description(
    title="Stays of 2025",
    description="One row a patient.",
    licence="CC-BY-4.0",
    contact="Data office <data@hospital.example>",
    publisher="St Anna Hospital",
    columns={"age": "Age at admission"},
)


def list_facts(document: Document) -> dict[str, str]:
    """The facts of the parts that stand side by side."""
    sections = [
        section for part in document.sections if isinstance(part, SideBySide) for section in part.left + part.right
    ]
    return dict(
        pair for section in sections for block in section.blocks if isinstance(block, Facts) for pair in block.pairs
    )


@pytest.mark.slow
@pytest.mark.parametrize("is_published", [True, False])
def test_certificate_prints_the_description_of_the_release(tmp_path: Path, is_published: bool) -> None:
    """Whether it was published with it, or is given to the certificate."""
    release = published(people(), tmp_path / "release", key=None, describe=ABOUT if is_published else None)
    document = make_certificate(release.path, DAY, describe=None if is_published else ABOUT).document()
    facts = list_facts(document)
    assert [facts[name] for name in ("title", "description", "licence", "contact", "issued by", "date")] == [
        "Stays of 2025",
        "One row a patient.",
        "CC-BY-4.0",
        "Data office <data@hospital.example>",
        "St Anna Hospital",
        "2026-03-01",
    ]
    assert "<td>Age at admission</td>" in document.to_html()


@pytest.mark.slow
def test_certificate_contradicts_no_published_description(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release", key=None, describe=ABOUT)
    with pytest.raises(SpecError, match="published with another title"):
        make_certificate(release.path, DAY, describe=Description(title="Something else"))
    with pytest.raises(SpecError, match="another description of the column 'age'"):
        make_certificate(release.path, DAY, describe=Description(columns={"age": "Age at death"}))
    with pytest.raises(SchemaError, match="is not published"):
        make_certificate(release.path, DAY, describe=Description(columns={"patient": "Number"}))
    added = make_certificate(release.path, DAY, describe=Description(title=ABOUT.title, columns={"sex": "Sex"}))
    assert added.description.columns == {"age": "Age at admission", "sex": "Sex"}


@pytest.mark.slow
def test_certificate_prints_each_accepted_risk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AcceptedRisks, "list_sentences", lambda self, sensitive: ["One was accepted.", "Another too."])
    release = published(people(), tmp_path / "release", key=None)
    found = make_certificate(release.path, DAY)
    text = found.document().to_html()
    assert (text.count("One was accepted."), text.count("Another too.")) == (1, 1)
    assert found.to_json()["accepted"] == ["One was accepted.", "Another too."]


@pytest.mark.slow
def test_certificate_has_lines_to_sign(tmp_path: Path) -> None:
    release = published(people(), tmp_path / "release", key=None)
    for decider, name, role in (
        (DEFAULT_DECIDER, "", ""),
        ("Ada, officer, MD", "Ada", "officer, MD"),
        ("Ada", "Ada", ""),
    ):
        document = make_certificate(release.path, DAY, decider).document()
        parts = [part for part in document.sections if isinstance(part, SideBySide)]
        blocks = [block for part in parts for section in part.right for block in section.blocks]
        (decision,) = [block for block in blocks if isinstance(block, Decision)]
        assert decision.statements == (("name", name), ("role", role), ("date", ""), ("signature", ""))


# -------------------------------------------------------------------------------------------------------------- a plan


@pytest.mark.slow
def test_plan_that_publishing_would_refuse_says_that_the_request_is_not_met(tmp_path: Path) -> None:
    told = made("uniform", tmp_path, people(600))
    page = told.planned.document().to_html()
    assert "The request is met." in page
    known = [escape_markup(each.sentence[1:]) for each in told.planned.notices]
    assert known
    assert all(page.index(each) < page.index("The request is met.") for each in known)  # before anybody signs
    refused = replace(told.planned, notices=(Notice("would-be-refused", "publishing would stop: a column tells."),))
    page = refused.document().to_html()
    assert "The request is not met." in page
    assert "No: publishing would stop: a column tells." in page
