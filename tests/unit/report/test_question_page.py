"""The page that answers, as it is written; what a browser makes of it is tried in tests/app."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asked_pages import HOSTILE, patients
from refusals import refuses
from releases import published_by
from sfumato._query.release import Release
from sfumato._release.description import Description
from sfumato._report import QuestionPage, make_question_page
from sfumato._report.question_page import page_file as page_module
from sfumato._report.question_page.embedded_data import make_bit_maps, pack_arrays
from sfumato.errors import MissingCapabilityError, QueryError
from sfumato.mechanisms import REGISTRY

KINDS = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "i4": np.int32, "f8": np.float64}


def unpacked(letters: str, places: dict[str, Any]) -> dict[str, Any]:
    """What a browser reads: each array at its place, which must be a multiple of what a number takes."""
    data = zlib.decompress(base64.b64decode(letters))
    assert all(start % np.dtype(KINDS[kind]).itemsize == 0 for kind, start, _ in places.values())
    return {name: np.frombuffer(data, KINDS[kind], length, start) for name, (kind, start, length) in places.items()}


def held(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a page knows, and its arrays."""
    about = json.loads(re.search('<script type="application/json" id="about">(.*?)</script>', page)[1])  # type: ignore[index]
    letters = re.search('<script type="application/octet-stream" id="packed">(.*?)</script>', page)[1]  # type: ignore[index]
    return about, unpacked(letters, about["arrays"])


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return published_by("uniform", patients(300), tmp_path_factory.mktemp("asked") / "release")


@pytest.fixture(scope="module")
def page(release: Release) -> QuestionPage:
    return make_question_page(release)


@given(st.lists(st.lists(st.integers(-(2**31), 2**32 - 1) | st.floats(allow_nan=False), max_size=9), max_size=5))
def test_arrays_are_unpacked_as_they_were(lists: list[list[Any]]) -> None:
    arrays = {f"a{number}": np.array(each) for number, each in enumerate(lists) if not each or max(each) < 2**31}
    found = unpacked(*pack_arrays(arrays))
    assert set(found) == set(arrays)
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)


def test_members_of_sets_are_maps_of_all_records() -> None:
    members = np.array([[1, 0], [1, 1], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [1, 0]], dtype=np.uint8)
    assert make_bit_maps(members).tolist() == [[0b11000000, 0b10000000], [0b01000001, 0]]


def test_page_holds_the_release_and_nothing_else(release: Release, page: QuestionPage) -> None:
    """The records can be made again from it, in their order, and every text of a table that it has is theirs."""
    about, arrays = held(page.to_html())
    table = pq.read_table(release.path / "data.parquet")
    for column in about["public"]:
        shown = table.column(column["name"]).to_pylist()
        assert [column["values"][code] for code in arrays[column["id"]]] == json.loads(json.dumps(shown, default=str))
    (own,) = about["protected"]
    assert own["values"] == list(release.manifest.domain)
    assert [own["values"][code] for code in arrays["shown"]] == table.column("disease").to_pylist()
    assert str(release.path) not in page.to_html()
    assert page.to_html() == make_question_page(release).to_html()  # nothing of when or where it was made


def test_policy_allows_one_style_and_one_script(page: QuestionPage) -> None:
    text = page.to_html()
    policy = re.search('content="(default-src[^"]*)"', text)[1].replace("&#x27;", "'")  # type: ignore[index]
    (style,), (script,) = (re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL) for tag in ("style", "script"))
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (style, script)]
    sources = f"style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'"
    assert policy == f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"
    assert not re.search(r"\b(eval|innerHTML|outerHTML|insertAdjacentHTML|document\.write|fetch)\b|import\(", script)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script)
    assert "url(" not in style


def test_hostile_names_and_values_stay_within_their_texts(page: QuestionPage) -> None:
    text = page.to_html()
    assert text.count("<script") == text.count("</script>") == 3
    assert "<img" not in text
    assert "\u202e" not in text
    about, _ = held(text)
    assert HOSTILE in {each["name"] for each in about["public"]}


def test_page_says_what_the_publisher_says_of_the_release(page: QuestionPage) -> None:
    about = Description("Our <table>", "All of them.", "CC-BY-4.0", "Ada <ada@place.example>", {"sex": "as they said"})
    text = replace(page, manifest=replace(page.manifest, description=about)).to_html()
    assert "<p>All of them.</p>" in text
    assert "Licence: CC-BY-4.0. Contact: Ada &lt;ada@place.example&gt;." in text
    assert held(text)[0]["descriptions"] == {"sex": "as they said"}


@pytest.mark.slow
def test_large_releases_are_counted_beforehand(tmp_path: Path) -> None:
    release = published_by("uniform", patients(4000), tmp_path / "release")
    largest = make_question_page(release).size - 1
    found = make_question_page(release, max_megabytes=largest / 1e6)
    about, arrays = held(found.to_html())
    assert found.has_only_counts
    assert found.size <= largest
    assert "shown" not in arrays
    assert "up to two public columns" in found.to_html()
    for number, table in enumerate(about["tables"]):
        assert len(table["columns"]) <= 2
        assert arrays[f"table{number}_rows"].sum() == 4000
        assert arrays[f"table{number}_counts"].sum() == 4000


def test_counts_that_take_too_long_are_told_and_not_left_out(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "TIMEOUT", 0.0)
    with refuses(QueryError, "timeout", seconds=0.0):
        make_question_page(release, max_megabytes=0.00001)


def test_release_too_large_even_as_counts_is_refused(release: Release) -> None:
    with refuses(QueryError, "release-too-large-for-page"):
        make_question_page(release, max_megabytes=0.05)


def test_release_that_no_browser_counts_in_is_told_so(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    method = next(iter(release.manifest.methods.values()))
    monkeypatch.setitem(method.__dict__, "twin", None)
    with refuses(MissingCapabilityError, "missing-capability", capability="PageTwin") as raised:
        make_question_page(release)
    assert raised.value.capability == "PageTwin"


def test_scripts_are_of_the_package(page: QuestionPage) -> None:
    assert Path(page.twin.script).read_text(encoding="utf-8") in page.to_html()


@pytest.mark.slow
@pytest.mark.parametrize("name", REGISTRY)
def test_page_says_nothing_of_the_order_of_the_original(name: str, tmp_path: Path) -> None:
    """Nor of whose value is whose: apart from the records, it is the same for tables of the same columns."""
    people = patients(300)
    shuffled = people.take(np.random.default_rng(5).permutation(300))
    by_value = people.sort_by("disease")
    dealt = people.set_column(people.column_names.index("disease"), "disease", shuffled.column("disease"))
    pages = []
    for number, table in enumerate((people, shuffled, by_value, dealt)):
        release = published_by(name, table, tmp_path / str(number))
        try:
            about, _ = held(make_question_page(release).to_html())
        except QueryError:
            return  # it is counted by no page
        pages.append({key: value for key, value in about.items() if key != "arrays"})
    assert pages[1:] == pages[:1] * 3
