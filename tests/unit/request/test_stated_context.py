from __future__ import annotations

from pathlib import Path

import pytest

from refusals import refuses
from sfumato._request.stated_context import NOT_STATED, SECTIONS, StatedContext
from sfumato.errors import ErrorField, SpecError

COLUMNS = ("age", "sex")


def written(folder: Path, text: str) -> Path:
    path = folder / "context.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_is_stated_is_told_and_the_rest_is_not_stated(tmp_path: Path) -> None:
    text = """
    [decision]
    name = "Ada Lovelace"
    role = "officer"
    date = 2026-03-01
    [judgement]
    threshold = 11
    [columns]
    age = "study plan"
    """
    found = StatedContext.read(written(tmp_path, text), COLUMNS)
    assert found.decider == "Ada Lovelace, officer"
    assert found.get_entry("decision", "date") == "2026-03-01"
    assert found.get_entry("judgement", "threshold") == "11"
    assert found.get_entry("setting", "licence") == NOT_STATED
    assert found.column_reasons == {"age": "study plan"}
    assert found.to_json()["columns"] == {"age": "study plan"}


def test_columns_that_are_not_known_yet_may_be_any(tmp_path: Path) -> None:
    path = written(tmp_path, '[columns]\nheight = "study plan"\n')
    assert StatedContext.read(path, None).column_reasons == {"height": "study plan"}
    with pytest.raises(SpecError):
        StatedContext.read(path, COLUMNS)


def test_nothing_is_stated_by_nobody() -> None:
    found = StatedContext()
    assert found.decider is None
    assert {text for section in SECTIONS for _, text in found.list_entries(section)} == {NOT_STATED}


@pytest.mark.parametrize(
    ("text", "code", "fields"),
    [
        ("[decisions]\nname = 'Ada'", "unknown-key", {"key": "decisions"}),
        ("[decision]\nnmae = 'Ada'", "unknown-key", {"key": "nmae"}),
        ("[columns]\nheight = 'needed'", "unknown-key", {"key": "height"}),
        ("decision = 'yes'", "key-not-in-section", {"section": "decision"}),
        ("[decision]\nname = ['Ada']", "wrong-type", {"section": "decision", "key": "name"}),
        ("[decision]\nname = 'Ada", "not-toml", {}),
        (f"[decision]\nname = {'9' * 9999}", "toml-value-too-large", {}),
        (f"[decision]\nname = '{'A' * 2001}'", "entry-too-long", {"key": "name", "longest": 2000}),
    ],
)
def test_what_would_be_lost_is_refused(tmp_path: Path, text: str, code: str, fields: dict[str, ErrorField]) -> None:
    with refuses(SpecError, code, **fields):
        StatedContext.read(written(tmp_path, text), COLUMNS)


def test_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path) -> None:
    with refuses(SpecError, "unreadable-file", file=str(tmp_path / "none.toml")):
        StatedContext.read(tmp_path / "none.toml")
    with refuses(SpecError, "file-too-large", limit=1 << 20):
        StatedContext.read(written(tmp_path, "#" * (1 << 21)))
