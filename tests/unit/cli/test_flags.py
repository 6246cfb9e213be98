"""Arguments in sentences of the library, and the options that a terminal shows in their place."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.core import TyperGroup

import sfumato
from command_line import people, run, succeed, write_csv
from sfumato._publish.request_settings import parse_assignments
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS
from sfumato._terminal_safe import is_printable
from sfumato.cli.app import build
from sfumato.cli.argument_names import name_arguments_in_json
from sfumato.cli.flags import LIST_ARGUMENTS, format_flag, name_flags
from sfumato.cli.option_group import LIST_MARK, split_list
from sfumato.cli.options import GuaranteeOptions, TableOptions
from sfumato.errors import SchemaError

BOUND = ("--prior", "1/10", "--posterior", "1/3")


@pytest.mark.parametrize(
    ("argument", "flags"),
    [
        ("person=", "--person"),
        ("rows_per_person=", "--rows-per-person"),
        ("person='patient'", "--person patient"),
        ("rows_per_person=3", "--rows-per-person 3"),
        ("rows_per_person=K", "--rows-per-person K"),
        ("one_row='first:day'", "--one-row first:day"),
        ("drop=['age']", "--drop age"),
        ("drop=['age', 'home town', '']", "--drop 'age,home town,'"),
        ("drop=('age',)", "--drop age"),
        ("drop=['a,b', 'c']", """--drop '"a,b",c'"""),
        ("sensitive='a,b'", """--sensitive '"a,b"'"""),
        ("person='a,b'", "--person a,b"),
        ("missing=['?', 'NA']", "--missing '?,NA'"),
        ("compound=['a', 'b']", "--compound a,b"),
        ("values=['HIV', 'COPD']", "--values HIV,COPD"),
        ("ranges={'age': [0, 20, 40]}", "--ranges age=0,20,40"),
        ("ranges={'home town': ...}", "--ranges 'home town=...'"),
        ("ranges={'day': ['2024-01-01', '2025-01-01']}", "--ranges day=2024-01-01,2025-01-01"),
        ("publish_at={'code': 'chapter'}", "--publish-at code=chapter"),
        ("domains={'code': Path('codes.txt')}", "--domain code=codes.txt"),
        ("hierarchies={'code': Path('FILE')}", "--hierarchy code=FILE"),
        ("force=True", "--force"),
        ("mechanism='uniform'", "--mechanism uniform"),
        ("decimal=','", "--decimal ,"),
        ("prior='1/10'", "--prior 1/10"),
        ("form='bits'", "--subset-form bits"),
        ("master='local[2]'", "--spark-master 'local[2]'"),
        ("spec=BreachBound('1/10', '1/3')", "--prior 1/10 --posterior 1/3"),
        ("spec=BreachBound(...)", "--prior with --posterior"),
        ("spec=Tolerance(...)", "--tolerance"),
        ("spec=Diversity(3)", "--diversity 3"),
        ("spec=Nothing(3)", "--spec Nothing(3)"),
        ("drop=[", "--drop ["),
        ("drop=f(1, 2)", "--drop f(1, 2)"),
    ],
)
def test_argument_is_an_option(argument: str, flags: str) -> None:
    assert name_flags(f"Leave it out (`{argument}`), or not.") == f"Leave it out ({flags}), or not."


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no column 'Diagnosis'. Did you mean 'diagnosis'?",
        'The codes are written as `["a", "b"]`.',
        "`sfumato verify` compares it.",
        "a column 'x`drop=' and a column \"it's `drop=1`\"",
        "persons' rows, and a person's",
        "`drop=",
    ],
)
def test_sentence_without_an_argument_stays(sentence: str) -> None:
    assert name_flags(sentence) == sentence


def test_name_that_cannot_be_printed_can_be_pasted_into_bash() -> None:
    names = ["two\nlines", "tab\t'quoted'", "soft\u00adhyphen \\n", "left\u202eright", "plain $'name'"]
    flags = name_flags(f"`drop={names!r}`")
    assert is_printable(flags)
    pasted = subprocess.run(["bash", "-c", f"printf '%s\\1' {flags}"], capture_output=True, text=True, check=True)
    option, text = pasted.stdout.split("\1")[:-1]
    assert (option, split_list(text)) == ("--drop", names)


def test_column_whose_name_has_the_sign_of_a_setting_is_named_in_quotes() -> None:
    settings = {"a=b": "why = how", '"': "x", "plain": "y=z"}
    flags = shlex.split(name_flags(f"`accept_disclosing={settings!r}`"))
    assert dict(parse_assignments(flags[1::2], "COL=REASON")) == settings


@given(st.lists(st.text().filter(is_printable), min_size=1))
def test_any_name_can_be_pasted_into_a_shell(names: list[str]) -> None:
    """Also one with a backquote, quotes, or what looks like an argument."""
    *_, flags = name_flags(f"column {names[0]!r} is unique; leave it out: `drop={names!r}`").partition("leave it out: ")
    option, text = shlex.split(flags)
    assert (option, split_list(text)) == ("--drop", names)


@given(st.text())
def test_no_sentence_breaks_anything(text: str) -> None:
    name_flags(text)
    name_flags(f"`drop={text}`")


@pytest.mark.parametrize("kind", REQUIREMENT_KINDS, ids=lambda kind: kind.__name__)
def test_kind_of_request_is_named_by_its_options(kind: type[sfumato.PrivacySpec]) -> None:
    assert name_flags(f"`spec={kind.__name__}(...)`") == name_flags(kind.FLAGS_TEXT)
    assert all(format_flag(flag.name) in name_flags(kind.FLAGS_TEXT) for flag in kind.FLAGS)


def test_arguments_of_a_schema_are_options() -> None:
    """Those with another name are in the table of names."""
    options = {option.name for group in (TableOptions, GuaranteeOptions) for option in group.list_parameters()}
    for name in sfumato.Schema.of.__annotations__.keys() - {"return"}:
        assert name_flags(f"`{name}=`").removeprefix("--").replace("-", "_") in options


def test_every_option_with_a_list_is_named_with_commas() -> None:
    program = build()
    assert isinstance(program, TyperGroup)
    options = {
        option.name: option.metavar or ""
        for command in program.commands.values()
        for option in command.params
        if getattr(option, "multiple", False)
    }
    assert {name for name, metavar in options.items() if metavar.endswith(LIST_MARK)} == set(LIST_ARGUMENTS)
    pairs = {name for name, metavar in options.items() if "=" in metavar}
    assert options.keys() - set(LIST_ARGUMENTS) - pairs == {"person", "totals"}, "one column, and files"


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("age", ["age"]),
        ("age,ward", ["age", "ward"]),
        ("age, home town", ["age", "home town"]),
        ('"a,b",c', ["a,b", "c"]),
        ('"a ""b"""', ['a "b"']),
        ("", [""]),
        (",", ["", ""]),
        ('5" pipe', ['5" pipe']),
        ('"a,b', ['"a', "b"]),
    ],
)
def test_list_is_split_at_its_commas(text: str, items: list[str]) -> None:
    assert split_list(text) == items


def test_columns_are_named_by_commas_or_one_by_one(desk: Path) -> None:
    columns = people(**{"a,b": range(60), "name": range(60), "zip": range(60)})
    table = write_csv(desk / "people.csv", columns)
    drops = ("--drop", '"a,b", name', "--drop", "zip")
    succeed("publish", table, "--sensitive", "disease", *drops, *BOUND, "--out", "release")
    published = [name for name, *_ in sfumato.Release.open("release").columns]
    assert published == ["age", "sex", "disease"]


def test_sentences_of_a_document_name_options_and_data_stay() -> None:
    span = "`drop=['a']`"
    document = {
        "rows": [{"note": span}],
        "column": span,
        "notices": [{"sentence": span, "numbers": {"share": 0.5}}],
        "remarks": [span],
        "target": None,
    }
    assert name_arguments_in_json(document) == {
        **document,
        "notices": [{"sentence": "--drop a", "numbers": {"share": 0.5}}],
        "remarks": ["--drop a"],
    }


@pytest.mark.parametrize("name", ["number", "home`town"])
def test_library_names_the_argument_and_a_terminal_the_option(desk: Path, name: str) -> None:
    columns = people(**{name: range(60)})
    request = sfumato.Request(
        pa.table(columns), schema=sfumato.Schema.of("disease", public="*"), spec=sfumato.BreachBound("1/10", "1/3")
    )
    with pytest.raises(SchemaError) as caught:
        sfumato.plan(request)
    assert f"`person={name!r}`" in str(caught.value)
    assert f"`identifier=[{name!r}]`" in str(caught.value)
    assert "--" not in str(caught.value)
    outcome = run("plan", write_csv(desk / "people.csv", columns), "--sensitive", "disease", *BOUND, "--json")
    for message in (outcome.err, json.loads(outcome.out)["error"]["message"]):
        assert f"--person {shlex.quote(name)}" in " ".join(message.split())
        assert "identifier=[" not in message


def test_notice_names_the_argument_and_a_terminal_the_option(desk: Path) -> None:
    request = sfumato.Request(
        pa.table(people()), schema=sfumato.Schema.of("disease", public="*"), spec=sfumato.BreachBound("1/10", "1/3")
    )
    (notice,) = (notice for notice in sfumato.plan(request).notices if notice.code == "domain-observed")
    assert "(`domains={'disease': Path('FILE')}`)" in str(notice)
    outcome = run("plan", write_csv(desk / "people.csv", people()), "--sensitive", "disease", *BOUND, "--json")
    assert "(--domain disease=FILE)" in " ".join(outcome.err.split())
    sentences = {notice["code"]: notice["sentence"] for notice in json.loads(outcome.out)["notices"]}
    assert sentences["domain-observed"].endswith("(--domain disease=FILE).")
