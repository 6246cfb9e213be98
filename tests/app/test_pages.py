"""Pages that people file: how they are asked for, and what a browser makes of them."""

from __future__ import annotations

import re
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser

from command_line import BOUND, complaint, fail, run, succeed, write_csv, write_parquet
from generated_pages import DAY, WRITERS, made
from releases import people as table_of_people
from sfumato import Answer, Estimate, compare
from sfumato._evidence.certificate import make_certificate
from sfumato._release.description import Description

PLAN = ("plan", "people.csv", "--sensitive", "disease", *BOUND)


# --------------------------------------------------------------------------------------------------------- the commands


@pytest.mark.slow
def test_certificate_is_a_page_and_json(release: Path) -> None:
    outcome = succeed("certificate", release, "--out", "page.html")
    assert "written to page.html" in outcome.words
    assert "<h1>Certificate of a protected release</h1>" in Path("page.html").read_text(encoding="utf-8")
    told = succeed("certificate", release, "--json").json
    assert told["format"] == 1
    assert {"statement", "design", "digest", "columns", "checks", "not_covered", "relative_errors"} <= set(told)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", told["date"])
    assert "path" not in told
    both = succeed("certificate", release, "--out", "page.html", "--force", "--json").json
    assert both == {"format": 1, "path": "page.html", **{key: value for key, value in told.items() if key != "format"}}


@pytest.mark.slow
def test_certificate_prints_a_description_that_is_given_with_it(desk: Path, release: Path) -> None:
    (desk / "about.toml").write_text('title = "Stays of 2025"\npublisher = "St Anna"\n', encoding="utf-8")
    asked = ("certificate", release, "--describe", "about.toml")
    assert succeed(*asked, "--json").json["description"]["title"] == "Stays of 2025"
    assert "issued by" in succeed(*asked, "--out", "page.html").words
    text = Path("page.html").read_text(encoding="utf-8")
    assert "Stays of 2025" in text
    assert "St Anna" in text


def test_certificate_of_a_packed_release_is_that_of_its_folder(release: Path) -> None:
    with zipfile.ZipFile("release.zip", "w") as archive:
        for file in release.iterdir():
            archive.write(file, file.name)
    assert succeed("certificate", "release.zip", "--json").json == succeed("certificate", release, "--json").json


def test_certificate_refuses_what_it_cannot_do(desk: Path, release: Path) -> None:
    assert "name a file for the page" in fail(desk, "certificate", release)
    assert "would lie in a release" in fail(desk, "certificate", release, "--out", release / "page.html")
    assert "ends in .html" in fail(desk, "certificate", release, "--out", "page.pdf")
    (desk / "page.html").write_text("old", encoding="utf-8")
    assert "exists" in fail(desk, "certificate", release, "--out", "page.html")
    (release / "README.md").write_text("changed", encoding="utf-8")
    said = fail(desk, "certificate", release, "--out", "other.html")
    assert said.startswith("the release fails the check 'files', so it gets no certificate")


@pytest.mark.slow
def test_plan_is_filed_as_a_private_page(table: Path) -> None:
    shown = succeed(*PLAN).out
    filed = succeed(*PLAN, "--report", "plan.html", "--decider", "Ada <Lovelace>")
    told, *_ = shown.split("What an attacker infers")  # which is looked at with another key each time
    assert filed.out.startswith(told)
    assert filed.out.endswith("written to plan.html (private)\n")
    assert len(filed.out.splitlines()) == len(shown.splitlines()) + 1
    page = Path("plan.html")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert "Whether this is enough is up to Ada &lt;Lovelace&gt;." in page.read_text(encoding="utf-8")
    succeed(*PLAN, "--json", "--report", "plan.html", "--force")
    assert "Ada" not in page.read_text(encoding="utf-8")


@pytest.mark.slow
def test_plan_from_counts_has_a_page_too(desk: Path) -> None:
    write_csv(desk / "counts.csv", {"value": ["flu", "HIV", "cold"], "count": [6000, 300, 3700]})
    succeed("plan", "--counts", "counts.csv", *BOUND, "--report", "plan.html")
    assert "What an attacker infers" not in Path("plan.html").read_text(encoding="utf-8")


def test_plan_that_stops_leaves_no_page(desk: Path, table: Path) -> None:
    stopped = run(*PLAN, "--report", "plan.html", "--fail-on", "domain-observed")
    complaint(stopped, 1)
    assert not (desk / "plan.html").exists()
    assert "name the page with --report" in fail(desk, *PLAN, "--decider", "Ada")
    (desk / "plan.html").write_text("old", encoding="utf-8")
    assert "exists" in fail(desk, *PLAN, "--report", "plan.html")


# --------------------------------------------------------------------------------------------------------- in a browser


@dataclass
class Seen:
    """What a browser made of a page."""

    wide: int
    """How far the page can be scrolled to the right, and the window."""
    window: int
    background: list[int]
    sheets: int
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    """What a reader of the screen is told of pictures and tables."""
    hindrances: list[str] = field(default_factory=list)
    """What keeps people from reading it, by the rules of axe: serious findings and worse."""


@pytest.fixture(scope="module")
def look(browser: Browser) -> Callable[..., Seen]:
    """Open a page of a width, by day or by night, and print it."""

    def looked(page: Path, width: int, scheme: Any = "light") -> Seen:
        with browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme) as context:
            tab = context.new_page()
            complaints: list[str] = []
            asked: list[str] = []
            tab.on("console", lambda said: complaints.append(said.text))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            tab.on("request", lambda request: asked.append(request.url))
            tab.goto(page.as_uri())
            wide, window = tab.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            background = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
            named = "[...document.querySelectorAll('svg,[role=region]')].map(each => each.getAttribute('aria-label'))"
            labels = tab.evaluate(named)
            found = Axe().run(tab).response["violations"]
            hindrances = [
                f"{each['id']}: {each['help']}" for each in found if each["impact"] in {"serious", "critical"}
            ]
            sheets = len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True)))
        return Seen(wide, window, background, sheets, complaints, asked, labels, hindrances)

    return looked


@pytest.mark.slow
def test_pages_open_alone_at_every_width_by_night_and_on_paper(tmp_path: Path, look: Callable[..., Seen]) -> None:
    """A certificate and a decision sheet are one sheet; others begin a sheet with each of their large sections."""
    found = made("subset", tmp_path, table_of_people(600))
    for name, sheets in (("sheet", 1), ("certificate", 1), ("plan", 6), ("report", 12), ("comparison", 8)):
        page = tmp_path / f"{name}.html"
        write = WRITERS.get(name, lambda made: compare(made.request).document().to_html())
        page.write_text(write(found), encoding="utf-8")
        narrow, night = look(page, 360), look(page, 1000, "dark")
        assert narrow.wide == narrow.window == 360
        assert night.wide == night.window == 1000
        assert min(narrow.background) > 200
        assert max(night.background) < 60
        assert narrow.sheets == night.sheets
        assert narrow.sheets == sheets if name != "report" else narrow.sheets <= sheets, (name, narrow.sheets)
        assert all(narrow.labels)
        for seen in (narrow, night):
            assert seen.hindrances == [], name
            assert seen.complaints == []
            assert seen.asked == [page.as_uri()]


def test_decision_sheet_is_a_private_file_beside_the_plan(table: Path) -> None:
    Path("context.toml").write_text('[decision]\npurpose = "a study of the flu"\n')
    Path("about.toml").write_text('title = "People with a cold"\n')
    asked = ["plan", table, "--sensitive", "disease", *BOUND]
    outcome = succeed(*asked, "--sheet", "s.html", "--context", "context.toml", "--describe", "about.toml")
    assert "written to s.html (private)" in outcome.out
    text = Path("s.html").read_text(encoding="utf-8")
    assert stat.S_IMODE(Path("s.html").stat().st_mode) == 0o600
    assert "a study of the flu" in text
    assert "People with a cold" in text
    assert "s.html" in fail(table.parent, *asked, "--sheet", "s.html")
    succeed(*asked, "--sheet", "s.html", "--force", "--decider", "Ada Lovelace")
    assert "Ada Lovelace" in Path("s.html").read_text(encoding="utf-8")
    assert "--sheet" in fail(table.parent, *asked, "--context", "context.toml")
    assert "--sheet" in fail(table.parent, *asked, "--sheet", "new.html", "--report", "new.html")
    fail(table.parent, *asked, "--sheet", "new.html", "--context", "none.toml")


@pytest.mark.slow
def test_decision_about_fifteen_columns_is_one_sheet(desk: Path, look: Callable[..., Seen]) -> None:
    """With long names, reasons, ranges, questions, accepted stops and open decisions."""
    columns = {f"public column number {number}": [f"value {number % 3}", "other"] for number in range(12)}
    table = table_of_people(600, **columns)
    write_parquet(desk / "people.parquet", table)
    lines = "\n".join(f'"{name}" = "needed for the study, protocol section 7"' for name in columns)
    Path("context.toml").write_text(f'[decision]\nname = "Ada Lovelace"\nrole = "officer"\n[columns]\n{lines}\n')
    condition = " AND ".join(f"\"{name}\" = 'other'" for name in columns)
    Path("questions.sql").write_text(f"SELECT COUNT(*) FROM release WHERE disease = 'flu' AND {condition}\n" * 4)
    options = [f"--accept-disclosing={name}=made up" for name in (*columns, "age", "sex")]
    asked = ["--sensitive", "disease", "--ranges", "age=0,40,100", *BOUND, *options]
    sheet = ["--sheet", "sheet.html", "--context", "context.toml", "--questions", "questions.sql"]
    succeed("plan", "people.parquet", *asked, *sheet)
    assert look(desk / "sheet.html", 1000).sheets == 1


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "sheets"), [(5, 1), (12, 1), (40, 3)])  # 37 accepted columns take half a sheet
def test_certificate_of_up_to_twelve_columns_is_one_sheet(
    tmp_path: Path, look: Callable[..., Seen], columns: int, sheets: int
) -> None:
    names = [f"measurement_{number}" for number in range(columns - 3)]
    release = made("uniform", tmp_path, table_of_people(600, **{name: [1, 2, 3] for name in names})).release
    about = Description(
        title="Stays of 2025",
        description="One row for each patient who was discharged in 2025, with the main diagnosis protected. " * 2,
        licence="CC-BY-4.0",
        contact="Data office <data@hospital.example>",
        publisher="St Anna Hospital",
        columns={"age": "Age at admission, in years", "disease": "Main diagnosis at discharge"},
    )
    page = tmp_path / "certificate.html"
    document = make_certificate(release.path, DAY, "Ada Lovelace, data protection officer", about).document()
    page.write_text(document.to_html(), encoding="utf-8")
    assert all(f">{name}</th>" in page.read_text(encoding="utf-8") for name in names)
    assert look(page, 1000).sheets == sheets


@pytest.mark.slow
def test_looking_would_notice(tmp_path: Path, look: Callable[..., Seen]) -> None:
    page = tmp_path / "bad.html"
    bad = "<div style='width:900px'>wide</div><img src='nowhere.png'><script>nowhere()</script>"
    page.write_text(
        f"<!doctype html><body style='background:#fff'>{bad}<p style='break-before:page'>more", encoding="utf-8"
    )
    seen = look(page, 360, "dark")
    assert seen.wide > seen.window
    assert min(seen.background) == 255
    assert seen.sheets == 2
    assert len(seen.asked) == 2
    assert seen.complaints
    assert any(each.startswith("image-alt") for each in seen.hindrances)


JUPYTER = (
    ".host td,.host th{text-align:right;padding:.5em}.host tbody tr:nth-child(even){background:#777;color:#777}"
    "body[data-jp-theme-light=false]{background:#111;color:#ddd}"
)
"""Rules such as a notebook has for all tables."""
SEEN_IN_A_NOTEBOOK = """() => {
    const bright = colour => Math.max(...colour.match(/[\\d.]+/g).slice(0, 3).map(Number));
    const [cell, row, text] = ['.cell', 'tbody tr:nth-child(even)', 'tbody tr:nth-child(even) td']
        .map(each => getComputedStyle(document.querySelector(each)));
    return [bright(cell.backgroundColor), row.backgroundColor, bright(text.color), document.documentElement.scrollWidth]
}"""


@pytest.mark.slow
def test_answers_are_read_in_notebooks_by_day_and_by_night(browser: Browser) -> None:
    """By day the cell is white and its letters are dark, by night the other way round, whatever rules there are."""
    rows = tuple({"sex": sex, "n": Estimate.exact(5), "m": Estimate.exact(7)} for sex in "FM")
    shown = Answer(("sex", "n", "m"), ("n", "m"), rows, "a method", "none")._repr_html_()
    seen = {}
    for is_light in ("true", "false"):
        with browser.new_context(viewport={"width": 360, "height": 800}) as context:
            tab = context.new_page()
            body = f"<body data-jp-theme-light={is_light}><div class=host>{shown}</div>"
            tab.set_content(f"<!doctype html><style>{JUPYTER}</style>{body}")
            seen[is_light] = tab.evaluate(SEEN_IN_A_NOTEBOOK)
    for ground, row, letters, wide in seen.values():
        assert abs(ground - letters) > 150
        assert row == "rgba(0, 0, 0, 0)"
        assert wide == 360
    assert seen["true"][0] > 200
    assert seen["false"][0] < 60
