"""The page that answers: how it is asked for, and that its answers, in a real browser, are those of the library."""

from __future__ import annotations

import csv
import io
import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from accepted import ALL_ACCEPTED, REASON
from asked_pages import (
    DISEASES,
    FORMULA,
    HOSTILE,
    answered,
    asked,
    crossings,
    differences,
    opened,
    patients,
    question,
    questions,
    until,
)
from command_line import fail, publishing, run, succeed
from releases import WAYS, accepting, known_key, list_domains, people, published_by
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.intervals import FEW_EXPECTED_HITS, compute_intervals
from sfumato._query.release import Release
from sfumato._release.description import Description
from sfumato._report import make_question_page
from sfumato._report.question_page.page_file import LEVELS, MAX_MEGABYTES
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.schema import Schema
from sfumato.cli import page_commands as commands
from sfumato.mechanisms import _decoys
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.estimator import Moments


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release with hostile names, for pages to hold."""
    return published_by("uniform", patients(300), tmp_path_factory.mktemp("hostile") / "release")


# --------------------------------------------------------------------------------------------------------- the commands


def test_page_is_as_large_where_help_waits_for_nothing() -> None:
    assert commands.MAX_MEGABYTES == MAX_MEGABYTES


@pytest.mark.slow
def test_page_is_written_and_told_of(release: Path) -> None:
    assert (
        "written to ask.html: 0.1 MB, with the records of the release"
        in succeed("page", release, "--out", "ask.html").words
    )
    told = succeed("page", release, "--out", "ask.html", "--force", "--title", "All <of> them", "--json").json
    written = Path("ask.html").read_text(encoding="utf-8")
    assert told == {"format": 1, "path": "ask.html", "bytes": len(written.encode()), "holds": "records", "left_out": []}
    assert "<h1>All &lt;of&gt; them</h1>" in written
    assert succeed("page", release, "--out", "ask.html", "--force", "-q").out == ""


def test_page_is_refused_in_one_sentence(desk: Path, release: Path) -> None:
    assert "missing option '--out'" in fail(desk, "page", release)
    assert "would lie in a release" in fail(desk, "page", release, "--out", release / "ask.html")
    assert "ends in .html" in fail(desk, "page", release, "--out", "ask.txt")
    assert "is not a readable release" in fail(desk, "page", desk, "--out", "ask.html")
    (desk / "ask.html").write_text("old", encoding="utf-8")
    assert "exists" in fail(desk, "page", release, "--out", "ask.html")


@pytest.mark.slow
def test_page_is_written_beside_a_release_never_in_it(desk: Path, table: Path) -> None:
    told = succeed(*publishing(table, "--page", "ask.html", "--json")).json
    assert told["page"]["path"] == "ask.html"
    assert Path("ask.html").read_text(encoding="utf-8") == make_question_page("release").to_html()
    assert "would be inside the release" in fail(desk, *publishing(table, "--page", "other/ask.html", out="other"))
    assert "exists" in fail(desk, *publishing(table, "--page", "ask.html", out="other"))
    outcome = run(*publishing(table, "--page", "ask.html", "--force"))
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1].startswith("written to ask.html: ")


# --------------------------------------------------------------------------------------------------------- the answers


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", WAYS)
def test_answers_are_those_of_the_library(mechanism: str, tmp_path: Path, browser: Browser) -> None:
    """Value, standard error, interval and note of cross tables, by the SQL that the page itself offers to copy."""
    release = published_by(mechanism, patients(400), tmp_path / "release")
    with opened(browser, make_question_page(release), tmp_path) as tab:
        for each in questions(tab.evaluate("sfumato.about")):
            found = list(differences(asked(tab, each), answered(release, tab, each), each["level"]))
            assert not found, (each, found[:5])


def many_values(rows: int) -> pa.Table:
    """Patients with one of 130 diseases, some of which nobody shows."""
    drawn = random.Random(5)
    table = patients(rows)
    return table.set_column(5, "disease", [[f"d{int(130 * drawn.random() ** 2)}" for _ in range(rows)]])


CHAPTERS = Hierarchy.of(("own", "chapter"), [(name, "first" if name < "flu" else "second") for name in DISEASES])
SUBSET = {"spec": BreachBound("3/7", "1/2"), "mechanism": "subset"}
UNIFORM = {"spec": BreachBound("1/10", "1/2"), "mechanism": "uniform"}
PAIR = ("disease", "sex")
DESIGNS: dict[str, tuple[pa.Table, Schema, dict[str, Any]]] = {
    "compound": (
        patients(300),
        Schema.of(compound=PAIR, domains=list_domains(patients(300), PAIR), public="*"),
        UNIFORM,
    ),
    "domain": (
        patients(300),
        Schema.of("disease", domains={"disease": [*DISEASES, "rare"]}, ranges={"age": "0,30,99"}, public="*"),
        UNIFORM,
    ),
    "hierarchy": (patients(300), Schema.of("disease", hierarchies={"disease": CHAPTERS}, public="*"), UNIFORM),
    "lists": (
        patients(300),
        Schema.of("disease", public="*"),
        SUBSET | {"options": {"subset": subset.Options(subset.Form.LIST)}},
    ),
    "columns": (
        patients(300),
        Schema.of("disease", public="*"),
        SUBSET | {"options": {"subset": subset.Options(subset.Form.COLUMNS)}},
    ),
    "fitted": (many_values(900), Schema.of("disease", public="*"), {"spec": DecoyGroups(3), "mechanism": "decoys"}),
    "fullest": (
        patients(300),
        Schema.of("disease", public="*"),
        {"spec": DecoyGroups(2), "options": {"decoys": _decoys.Options(groups=_decoys.GroupCreation.ANATOMY_RANDOM)}},
    ),
    "in every group": (
        people(200, disease=["flu", "flu", "cold", "cold"]),
        Schema.of("disease", public="*"),
        {"spec": DecoyGroups(2)},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_answers_of_other_designs_are_those_of_the_library(design: str, tmp_path: Path, browser: Browser) -> None:
    """Several columns as one, levels, sets in each form, values that nobody shows, and decoys that tell little."""
    table, schema, asked_for = DESIGNS[design]
    request = Request(
        table, schema=schema, **asked_for, accept_exposure=REASON, **accepting(table, schema), **ALL_ACCEPTED
    )
    release = publish(request, tmp_path / "release", unsafe_test_key=known_key(3)).release
    with opened(browser, make_question_page(release), tmp_path) as tab:
        for each in crossings(tab.evaluate("sfumato.about")):
            found = list(differences(asked(tab, each), answered(release, tab, each), each["level"]))
            assert not found, (each, found[:5])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["uniform", "levels", "decoys"])
def test_answers_from_counts_are_those_of_the_library(mechanism: str, tmp_path: Path, browser: Browser) -> None:
    """Of a release that is too large for one file: up to two public columns, and a sentence beyond."""
    release = published_by(mechanism, patients(3000), tmp_path / "release")
    page = make_question_page(release, max_megabytes=(make_question_page(release).size - 1) / 1e6)
    assert page.has_only_counts
    with opened(browser, page, tmp_path) as tab:
        about = tab.evaluate("sfumato.about")
        held, compared = [each["columns"] for each in about["tables"]], 0
        for each in questions(about):
            used = {name for name in (*each["groups"], *each["conditions"]) if name.startswith("p")}
            if any(used <= set(columns) for columns in held):
                found = list(differences(asked(tab, each), answered(release, tab, each), each["level"]))
                assert not found, (each, found[:5])
                compared += 1
        assert compared > 5
        tab.evaluate("each => { sfumato.view.question = each; sfumato.view.answer(); }", question(["p0", "p1", "p2"]))
        assert "counts for up to two public columns together" in tab.locator("#answer .alarm").inner_text()


@pytest.mark.slow
def test_columns_protected_each_for_itself_are_refused(desk: Path) -> None:
    table, schema = patients(300), Schema.of(("disease", "sex"), public="*")
    request = Request(
        table, schema=schema, spec=DecoyGroups(2), accept_exposure=REASON, **accepting(table, schema), **ALL_ACCEPTED
    )
    publish(request, desk / "release", unsafe_test_key=known_key(0))
    assert "a page cannot count columns that are each protected on their own" in fail(
        desk, "page", "release", "--out", "ask.html"
    )


INHERITED = ("constructor", "toString", "__proto__", "hasOwnProperty", "valueOf", "__defineGetter__")
"""Names that every object of a browser has from the start."""


@pytest.mark.slow
@pytest.mark.parametrize("described", [(), ("constructor", "__proto__")], ids=["plain", "described"])
def test_names_that_objects_have_are_names_like_others(
    described: tuple[str, ...], tmp_path: Path, browser: Browser
) -> None:
    """As columns, as values of them, and as what is protected."""
    drawn = random.Random(3)
    public = {name: [drawn.choice(INHERITED) for _ in range(400)] for name in INHERITED[1:]}
    table = pa.table({**public, "constructor": [drawn.choice(INHERITED) for _ in range(400)]})
    schema = Schema.of("constructor", public="*")
    request = Request(table, schema=schema, **UNIFORM, **accepting(table, schema), **ALL_ACCEPTED)
    describe = Description(columns={name: f"about {name}" for name in described})
    release = publish(request, tmp_path / "release", unsafe_test_key=known_key(0), describe=describe).release
    with opened(browser, make_question_page(release), tmp_path) as tab:
        about = tab.evaluate("sfumato.about")
        assert [tab.get_by_text(f"about {name}", exact=True).count() for name in described] == [1] * len(described)
        assert {tuple(each["values"]) for each in about["public"]} == {tuple(sorted(INHERITED))}
        for each in crossings(about):
            assert not list(differences(asked(tab, each), answered(release, tab, each), each["level"]))


def drawn_moments(drawn: random.Random) -> dict[str, Any]:
    """A count told by hits of any two chances among any number of rows, and its variance; some are not told so."""
    rows, least = int(10 ** drawn.uniform(0, 5)), drawn.choice([0, 0, 7])
    other = 10 ** drawn.uniform(-6, -0.2)
    wanted = other + (1 - other) * drawn.choice([drawn.uniform(0.02, 0.2), drawn.uniform(0.01, 1)])
    hits = min(rows, int(rows * other + drawn.random() ** 4 * min(rows, 700)))
    gain, own, rest = wanted - other, wanted * (1 - wanted), other * (1 - other)
    slope = (own - rest) / gain**2
    return {
        "value": (hits - rows * other) / gain + least,
        "base": rows * rest / gain**2 - slope * least,
        "slope": slope,
        "least": least,
        "most": rows + least,
        "chances": drawn.choice([[wanted, other]] * 9 + [None]),
    }


@pytest.mark.slow
def test_intervals_of_any_count_are_those_of_the_library(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    """The exact law where few hits come from other values, the score elsewhere, at every level of the page."""
    drawn = random.Random(11)
    cases = [(drawn_moments(drawn), level) for level in LEVELS for _ in range(30)]
    asked_for = "cases => cases.map(([moments, level]) => sfumato.interval(moments, level))"
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        found = tab.evaluate(asked_for, cases)
    few = 0
    for (moments, level), ends in zip(cases, found, strict=True):
        chances = moments["chances"] and np.array(moments["chances"])[:, np.newaxis]
        few += chances is not None and bool((moments["most"] - moments["least"]) * chances[1, 0] < FEW_EXPECTED_HITS)
        lines = {name: np.array([float(each)]) for name, each in moments.items() if name != "chances"}
        expected = np.concatenate(compute_intervals(Moments(**lines, chances=chances), level))
        assert ends == pytest.approx(expected, rel=1e-6, abs=1e-6), (moments, level)
    assert few > len(cases) / 2


@pytest.mark.slow
def test_comparison_would_notice(tmp_path: Path, browser: Browser) -> None:
    release = published_by("uniform", patients(200), tmp_path / "release")
    with opened(browser, make_question_page(release), tmp_path) as tab:
        mine, theirs = (
            find(question(["s0"]))
            for find in (lambda each: asked(tab, each), lambda each: answered(release, tab, each))
        )
        assert not list(differences(mine, theirs, 0.95))
        assert {each[1] for each in differences(mine, theirs, 0.9)} == {"low", "high"}
        first = next(iter(mine))
        mine[first]["value"] += 1e-3
        assert [each[:2] for each in differences(mine, theirs, 0.95)] == [(first, "value")]
        del mine[first]
        assert [each[1] for each in differences(mine, theirs, 0.95)] == ["groups"]


# ------------------------------------------------------------------------------------------------------ what is clicked


def shown(tab: Page) -> list[list[str]]:
    """The rows of the table that is seen, cell by cell."""
    rows: list[list[str]] = tab.evaluate(
        "[...document.querySelectorAll('.answers tbody tr')].map(row => [...row.children].map(cell => cell.innerText))"
    )
    return rows


def saved(tab: Page, click: Callable[[], object]) -> list[list[str]]:
    """The lines of the file that a click saves."""
    with tab.expect_download() as waiting:
        click()
    written = Path(waiting.value.path()).read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(written, newline="")))


@pytest.mark.slow
def test_question_is_put_together_by_hand(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        assert len(shown(tab)) == 8
        tab.get_by_role("checkbox", name="flu").check()
        tab.get_by_text("sex", exact=True).first.click()
        tab.locator('[data-id="p1"][data-code="0"]').check()
        tab.locator('[data-group="s0"]').uncheck()
        tab.locator('[data-group="p4"]').check()
        until(tab, "sfumato.view.rows.length === 2 && sfumato.view.question.groups[0] === 'p4'")
        assert "Number of rows with disease flu, where sex is F, by well" in tab.locator("#answer h2").inner_text()
        asked_by_hand = tab.evaluate("sfumato.view.question")
        theirs = answered(hostile, tab, asked_by_hand)
        assert not list(differences(asked(tab, asked_by_hand), theirs, 0.95))
        said = {row[0]: row[1:4] for row in shown(tab)}
        for (well,), estimate in theirs.items():
            cell = estimate.to_cell()
            assert said[str(well).lower()] == [cell.value, f"± {cell.error}", f"{cell.low} to {cell.high}"]
        tab.locator('[data-share="true"]').check()
        tab.wait_for_selector("text=Share of the rows")
        assert all(row[1].endswith("%") for row in shown(tab))
        tab.get_by_role("button", name="Start again").click()
        until(tab, "sfumato.view.rows.length === 8")


@pytest.mark.slow
def test_one_number_stands_alone_and_ranges_are_typed(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        tab.locator('[data-group="s0"]').uncheck()
        tab.get_by_text("age", exact=True).first.click()
        tab.locator('[data-id="p0"][data-end="from"]').fill("30")
        tab.wait_for_selector(".headline")
        exact = hostile.sql("SELECT COUNT(*) FROM release WHERE age >= 30").get_estimate().value
        until(tab, f"document.querySelector('.headline').innerText.startsWith('{exact:,.0f}')")
        assert "exact" in tab.locator(".between").inner_text()
        tab.locator('[data-id="p0"][data-end="from"]').fill("no number")
        until(tab, "document.querySelector('.headline').innerText.startsWith('300')")


@pytest.mark.slow
def test_question_is_copied_and_answer_saved(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    with opened(
        browser, make_question_page(hostile), tmp_path, permissions=["clipboard-read", "clipboard-write"]
    ) as tab:
        tab.locator('[data-group="p2"]').check()
        until(tab, "sfumato.view.rows.length === 32")
        tab.get_by_text("Ask the same question in SQL, Python or a terminal").click()
        for language, start in (
            ("SQL", "SELECT"),
            ("Python", "from sfumato"),
            ("command line", "sfumato query release '"),
        ):
            tab.get_by_role("radio", name=language).check()
            tab.get_by_role("button", name="Copy").click()
            tab.wait_for_selector("text=Copied")
            text = tab.evaluate("navigator.clipboard.readText()")
            assert text.startswith(start)
            assert text == tab.locator("textarea").input_value()
        header, *lines = saved(tab, tab.get_by_role("button", name="Save as CSV").click)
    assert header == ["disease", HOSTILE, "n", "n_se", "n_low", "n_high", "n_note"]
    assert len(lines) == 32
    assert {line[1] for line in lines} == {HOSTILE, f"'{FORMULA}", "O'Hara", "a,b"}  # no cell is taken for a formula
    theirs = hostile.sql("SELECT SUM(1) FROM release").get_estimate().value
    assert sum(float(line[2]) for line in lines) == pytest.approx(theirs)


@pytest.mark.slow
@pytest.mark.parametrize(
    "leaves", ["dispatchEvent(new Event('beforeprint'))", "document.querySelector('.fold').click()"]
)
def test_what_is_seen_answers_the_question_at_once(
    leaves: str, hostile: Release, tmp_path: Path, browser: Browser
) -> None:
    """Who prints or unfolds the answer in the moment after the last click does not see the answer before it."""
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        assert (
            tab.evaluate(
                f"() => {{ document.querySelector('[data-group=p2]').click(); {leaves};"
                " return document.querySelectorAll('.answers tbody tr').length; }"
            )
            == 32
        )
        assert "by disease and" in tab.locator("#answer h2").inner_text()


@pytest.mark.slow
def test_what_is_saved_answers_the_question_at_once(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        clicks = "['[data-group=p2]', '[data-tool=csv]'].forEach(each => document.querySelector(each).click())"
        header, *lines = saved(tab, lambda: tab.evaluate(clicks))
    assert header[:2] == ["disease", HOSTILE]
    assert len(lines) == 32


@pytest.mark.slow
def test_what_is_copied_runs(
    hostile: Release, tmp_path: Path, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python as it stands, and the command by a shell, though values hold quotes, backslashes and markup."""
    monkeypatch.chdir(hostile.path.parent)
    each = question(["s0"], conditions={"p2": {"codes": [0, 1, 2]}, "s0": {"codes": [0, 7]}})
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        tab.evaluate("each => { sfumato.view.question = each; sfumato.view.answer(); }", each)
        texts = {}
        tab.get_by_text("Ask the same question in SQL, Python or a terminal").click()
        for language in ("Python", "command line"):
            tab.get_by_role("radio", name=language).check()
            texts[language] = tab.locator("textarea").input_value()
        rows = asked(tab, each)
    scope: dict[str, object] = {}
    exec(texts["Python"].replace("print(", "answer = (", 1), scope)
    assert {row["disease"]: row["n"].value for row in scope["answer"].rows} == pytest.approx(  # type: ignore[attr-defined]
        {key: row["value"] for (key,), row in rows.items()}
    )
    _, *arguments = shlex.split(texts["command line"])
    told = succeed(*arguments, "--json").json
    assert [each["n"] for each in told["rows"]] == pytest.approx([row["value"] for row in rows.values()])


# ------------------------------------------------------------------------------------------------------------ the looks


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")])
def test_page_is_for_every_screen_and_everybody(
    width: int, scheme: str, hostile: Release, tmp_path: Path, browser: Browser
) -> None:
    """Nothing is wider than the screen, it is dark by night, and axe finds nothing serious, with all parts open."""
    look = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    with opened(browser, make_question_page(hostile), tmp_path, **look) as tab:
        assert tab.locator("#question").is_visible() == (width > 720)
        tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        tab.locator('[data-group="p2"]').check()
        until(tab, "sfumato.view.rows.length === 32")
        tab.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate("document.querySelectorAll('#answer img, #question img').length") == 0
        ground = tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert (max(ground) < 60) == (scheme == "dark")
        found = Axe().run(tab).response["violations"]
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []


@pytest.mark.slow
def test_answer_is_printed_without_the_question(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    with opened(browser, make_question_page(hostile), tmp_path) as tab:
        tab.emulate_media(media="print")
        assert not tab.locator("#question").is_visible()
        assert tab.locator(".answers").is_visible()
        assert tab.get_by_role("heading", name="Guarantee").is_visible()
        assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(prefer_css_page_size=True))) <= 2


@pytest.mark.slow
def test_question_folds_on_a_telephone(hostile: Release, tmp_path: Path, browser: Browser) -> None:
    with opened(browser, make_question_page(hostile), tmp_path, viewport={"width": 360, "height": 640}) as tab:
        tab.get_by_text("Change the question").click()
        tab.locator('[data-share="true"]').check()
        tab.get_by_role("button", name="Show the answer").click()
        assert not tab.locator("#question").is_visible()
        assert "Share of the rows" in tab.locator("#answer h2").inner_text()
