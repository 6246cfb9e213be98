"""What machines are told: a format, errors, codes of notices, exit codes."""

from __future__ import annotations

import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import sfumato
from accepted import ALL_ACCEPTED
from command_line import BOUND, complaint, content, people, publishing, run, succeed, write_csv
from refusals import refuses
from sfumato import BreachBound, Notice, NoticeError, NoticeWarning, Request, Schema, SfumatoError, SpecError, publish
from sfumato._publish.plan_notices import list_notice_codes
from sfumato._request.warnings import NOTICE_CODES
from sfumato.mechanisms import REGISTRY

REFERENCE = Path(__file__).parents[2] / "docs" / "reference.md"
COUNT = "SELECT COUNT(*) FROM release"


def planning(table: Path, *options: str) -> list[str]:
    return ["plan", str(table), "--sensitive", "disease", *BOUND, *options]


# --------------------------------------------------------------------------------------------------------------- format


@pytest.mark.slow
def test_every_document_says_its_format_first(desk: Path, table: Path, release: Path) -> None:
    write_csv(desk / "questions.csv", {"sql": [COUNT]})
    write_csv(desk / "counts.csv", {"value": ["a", "b"], "count": [30, 30]})
    for command in (
        ["demo", "--rows", "1000"],
        planning(table),
        ["plan", "--counts", "counts.csv", *BOUND],
        publishing(table, out="new"),
        ["info", "release"],
        ["query", "release", COUNT],
        ["query", "release", "--batch", "questions.csv"],
        ["verify", "release"],
    ):
        assert next(iter(succeed(*command, "--json").json.items())) == ("format", 1)


# --------------------------------------------------------------------------------------------------------------- errors

MISTAKES = {
    "spec": ["plan", "people.csv", "--sensitive", "disease", "--prior", "1/2", "--posterior", "1/3"],
    "schema": ["plan", "people.csv", "--sensitive", "illness", *BOUND],
    "source": ["plan", "nothing.csv", "--sensitive", "disease", *BOUND],
    "infeasible": ["plan", "people.csv", "--sensitive", "disease", "--diversity", "9"],
    "target": publishing("people.csv", out="no/where"),
    "release-format": ["info", "people.csv"],
    "query": ["query", "release", "SELECT nothing"],
    "usage": ["info", "release", "--magic"],
    "file": ["publish", "people.csv", "--out", "x" * 300, "--sensitive", "disease", *BOUND],
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_error_is_a_document_and_a_sentence(desk: Path, table: Path, release: Path, kind: str) -> None:
    before = content(desk)
    outcome = run(*MISTAKES[kind], "--json")
    sentence = complaint(outcome)  # which compares it with the message
    assert content(desk) == before
    assert outcome.json["format"] == 1
    assert outcome.json["error"]["kind"] in {kind, "target" if kind == "file" else kind}
    assert set(outcome.json["error"]) == {"kind", "code", "fields", "message"}
    assert complaint(run(*MISTAKES[kind])) == sentence
    assert run(*MISTAKES[kind]).out == ""


def test_error_has_its_code_and_its_facts_in_json(table: Path) -> None:
    error = run(*MISTAKES["spec"], "--json").json["error"]
    assert error["code"] == "prior-not-below-posterior"
    assert error["fields"] == {"prior": "1/2", "posterior": "1/3"}
    error = run(*MISTAKES["schema"], "--json").json["error"]
    assert (error["code"], error["fields"]) == ("missing-column", {"column": "illness", "argument": "sensitive"})


def test_password_is_hidden_in_the_facts_too() -> None:
    error = SpecError("no.", fields={"file": "postgresql://me:secret@host/people", "rows": 3})
    assert "secret" not in str(error.fields)
    assert error.fields["rows"] == 3


def test_stopped_command_says_so_to_machines(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sfumato.Release, "open", stop)
    outcome = run("info", release, "--json")
    assert outcome.code == 130
    stopped = {"kind": "stopped", "code": "stopped", "message": "stopped; nothing was written.", "fields": {}}
    assert outcome.json["error"] == stopped


def test_every_error_has_a_kind_of_its_own_that_the_reference_names() -> None:
    def tree(each: type[SfumatoError]) -> list[type[SfumatoError]]:
        return [each, *(below for child in each.__subclasses__() for below in tree(child))]

    public = [each for each in tree(SfumatoError)[1:] if each.__module__ == "sfumato.errors"]
    kinds = [each.kind for each in public]
    assert len(set(kinds)) == len(kinds)
    text = REFERENCE.read_text(encoding="utf-8")
    assert [kind for kind in kinds if f"`{kind}`" not in text] == []


def test_error_survives_the_way_between_processes() -> None:
    sent = pickle.loads(pickle.dumps(SpecError("one value.", sentence_with_values="'a'.")))
    assert (str(sent), sent.sentence_with_values) == ("one value.", "'a'.")
    assert SpecError("one\nvalue\x1b").sentence_with_values == "one value\\x1b"


# ---------------------------------------------------------------------------------------------------------------- codes


def made_codes(path: Path) -> set[str]:
    """The codes of the notices that a module makes; a code that is no literal is found too, and is none."""
    return set(re.findall(r"\bNotice\(\s*\"?([^\",\s)]*)", path.read_text(encoding="utf-8")))


def test_codes_are_those_that_are_said() -> None:
    root = Path(sfumato.__file__).parent
    made = {path.relative_to(root).parts[0]: set[str]() for path in root.rglob("*.py")}
    for path in root.rglob("*.py"):
        made[path.relative_to(root).parts[0]] |= made_codes(path)
    remarked = made.pop("mechanisms")
    assert remarked == {code for each in REGISTRY.values() for code in each.explanation.remark_codes}
    assert set().union(*made.values()) == set(NOTICE_CODES)
    assert not remarked & set(NOTICE_CODES)


def test_reference_lists_every_code_and_no_other() -> None:
    section = REFERENCE.read_text(encoding="utf-8").split("## Notices")[1].split("\n## ")[0]
    assert sorted(re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)) == sorted(list_notice_codes())


def test_notices_are_told_with_code_column_and_numbers(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people(disease=["flu", "flu", "cold", "flu", None]))
    for command in (publishing(table, "--nulls", "drop"), planning(table, "--nulls", "drop")):
        told = {each["code"]: each for each in succeed(*command, "--json").json["notices"]}
        assert {"records-left-out", "persons-unchecked", "domain-observed", "frequent-values"} <= set(told)
        assert all(set(each) == {"code", "sentence", "column", "numbers", "grade"} for each in told.values())
        assert told["records-left-out"]["numbers"] == {"records": 12}
        assert told["persons-unchecked"]["column"] is None
        assert told["domain-observed"]["column"] == told["frequent-values"]["column"] == "disease"
        assert told["frequent-values"]["numbers"]["values"] == 2


def test_remark_of_a_mechanism_is_about_the_sensitive_column(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    said = succeed("plan", table, "--sensitive", "disease", "--tolerance", "3", "--json").json
    told = {each["code"]: each for each in said["notices"]}
    assert told["beliefs-may-fall"]["column"] == "disease"
    assert said["remarks"] == [each["sentence"] for each in said["notices"] if each["sentence"] in said["remarks"]]


# -------------------------------------------------------------------------------------------------------------- fail-on


@pytest.mark.parametrize("codes", ["persons-unchecked", "telling-column, persons-unchecked"])
def test_notice_that_must_not_come_up_stops_everything(desk: Path, table: Path, codes: str) -> None:
    before = content(desk)
    sentence = "a notice stopped the publication: persons-unchecked. Nothing was written."
    for command in (publishing(table, "--plan-file", "plan.json"), planning(table)):
        outcome = run(*command, "--fail-on", codes)
        assert complaint(outcome, code=1) == sentence
        assert outcome.out == ""
        assert len(outcome.notices) >= 2  # all of them are said, not only those that stop
        told = run(*command, "--fail-on", codes, "--json")
        assert told.code == 1
        assert told.json["error"]["kind"] == "notice"
        assert [each["code"] for each in told.json["error"]["notices"]] == ["persons-unchecked"]
        assert set(told.json["error"]) == {"kind", "code", "message", "fields", "notices"}
        assert set(told.json["error"]["notices"][0]) == {"code", "grade", "sentence", "column", "numbers"}
        assert content(desk) == before


def test_all_notices_that_stop_are_named_with_their_columns(table: Path) -> None:
    outcome = run(*publishing(table, "--fail-on", "persons-unchecked,domain-observed"))
    assert "notices stopped the publication: persons-unchecked, domain-observed ('disease')." in (
        complaint(outcome, code=1)
    )


def test_notices_that_do_not_come_up_stop_nothing(table: Path) -> None:
    succeed(*publishing(table, "--fail-on", "telling-column,in-the-clear"))


def test_code_that_no_notice_has_is_refused(desk: Path, table: Path) -> None:
    for command in (publishing(table), planning(table)):
        sentence = complaint(run(*command, "--fail-on", "telling"))
        assert sentence.startswith("there is no notice with the code 'telling'; choose from records-left-out, ")
    assert not (desk / "release").exists()


def test_plan_from_counts_stops_at_a_notice(desk: Path) -> None:
    write_csv(desk / "counts.csv", {"value": ["a", "b"], "count": [30, 30]})
    outcome = run("plan", "--counts", "counts.csv", *BOUND, "--fail-on", "frequent-values")
    assert "frequent-values ('value'). Nothing" in complaint(outcome, code=1)


# --------------------------------------------------------------------------------------------------------------- Python


def request(table: Path) -> Request:
    return Request(table, schema=Schema.of("disease", public="*"), spec=BreachBound("1/10", "1/2"), **ALL_ACCEPTED)


def test_notices_are_warnings_unless_they_are_taken(desk: Path, table: Path) -> None:
    with pytest.warns(NoticeWarning) as warned:
        publication = publish(request(table), "release")
    said = [each.message for each in warned if isinstance(each.message, NoticeWarning)]
    assert [each.notice for each in said] == list(publication.notices)
    assert [str(each) for each in said] == [notice.sentence for notice in publication.notices]
    assert {each.filename for each in warned} == {__file__}
    taken: list[Notice] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = publish(request(table), "again", on_notice=taken.append)
    assert tuple(taken) == again.notices == publication.notices
    assert all(isinstance(each, Notice) for each in taken)


@pytest.mark.slow
def test_python_says_that_the_key_is_not_kept(desk: Path, table: Path) -> None:
    """In the words of Python; the command says it once, in its own, and so do its notices."""
    published = publish(request(table), "release")
    (said,) = (notice.sentence for notice in published.notices if notice.code == "key-not-kept")
    assert "plan_file=" in said
    assert "--" not in said
    kept = publish(request(table), "kept", plan_file="plan.json")
    known = publish(request(table), "known", unsafe_test_key="07" * 32)
    assert not [notice for each in (kept, known) for notice in each.notices if notice.code == "key-not-kept"]
    with pytest.raises(NoticeError):
        publish(request(table), "stopped", fail_on=["key-not-kept"])
    assert not Path("stopped").exists()
    secret = publishing(table, out="told")
    told = succeed(*secret)
    assert (told.out + told.err).count("--plan-file") == 1
    assert "plan_file=" not in told.out + told.err
    (said,) = (
        each["sentence"]
        for each in succeed(*secret, "--force", "--json").json["notices"]
        if each["code"] == "key-not-kept"
    )
    assert "--plan-file" in said


def test_notice_that_must_not_come_up_stops_python_too(desk: Path, table: Path) -> None:
    with pytest.raises(NoticeError) as caught:
        publish(request(table), "release", fail_on=["domain-observed"])
    assert [each.code for each in caught.value.notices] == ["domain-observed"]
    assert not (desk / "release").exists()
    with refuses(SpecError, "unknown-notice", notice="domain"):
        publish(request(table), "release", fail_on=["domain"])


def test_notice_is_its_sentence_and_steers_no_terminal() -> None:
    notice = Notice("domain-observed", "declare it (--domain \x1b[2J=FILE).", "\x1b[2J", {"values": 1})
    assert str(notice) == f"{notice}" == r"declare it (--domain \x1b[2J=FILE)."
    assert hash(notice) == hash(Notice("domain-observed", notice.sentence, "\x1b[2J"))
