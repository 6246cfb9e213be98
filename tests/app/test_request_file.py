"""Request files: the options of plan and publish in TOML, told where they come from, and refused in a sentence."""

from __future__ import annotations

import difflib
import inspect
import json
import re
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin

import pytest

from accepted import REASON
from command_line import TEST_KEY, content, fail, people, run, succeed, write_csv
from refusals import refuses
from releases import read_json
from sfumato import Request, SfumatoError, SpecError, plan, publish
from sfumato._publish import request_settings
from sfumato._publish.request_file import COLUMN_SECTIONS, PATH, REQUEST_KEYS, SECTIONS, RequestKey, list_keys
from sfumato._publish.request_settings import DEFAULTS
from sfumato.cli.app import build
from sfumato.cli.engine_options import EngineOptions
from sfumato.cli.options import (
    GuaranteeOptions,
    NoticeOptions,
    PlanTableOptions,
    ReleaseOptions,
    StopOptions,
    TargetOptions,
)
from sfumato.errors import ErrorField

REQUEST = """
[table]
path = "people.csv"

[columns]
sensitive = "disease"

[protection]
prior = 0.1
posterior = "1/2"
"""


@pytest.fixture
def table(desk: Path) -> Path:
    return write_csv(desk / "people.csv", people(90, name=[f"Ann {place}" for place in range(90)]))


@pytest.fixture
def request_file(table: Path) -> Path:
    path = table.parent / "request.toml"
    path.write_text(REQUEST.replace("[protection]", 'drop = ["name"]\n\n[protection]'))
    return path


def ours(release: Path) -> dict[str, Any]:
    """What the manifest of a release says about how it was made."""
    found: dict[str, Any] = read_json(release)["sfumato"]
    return found


def test_file_is_the_same_as_its_options(request_file: Path) -> None:
    key = ("--unsafe-test-key", TEST_KEY)
    succeed("publish", request_file, "--out", "filed", *key)
    options = ["--sensitive", "disease", "--drop", "name", "--prior", "1/10", "--posterior", "0.5"]
    succeed("publish", "people.csv", "--out", "given", *options, *key)
    assert content(Path("filed")) == content(Path("given"))


def test_float_is_taken_as_it_is_written(request_file: Path) -> None:
    succeed("publish", request_file, "--out", "release", "--mechanism", "uniform")
    assert ours(Path("release"))["design"]["prior"] == "1/10"


def test_plan_takes_a_file(request_file: Path) -> None:
    assert succeed("plan", request_file, "--json").json["total"] == 90


def test_everything_can_stand_in_the_file(table: Path) -> None:
    (table.parent / "here").mkdir()
    (table.parent / "here" / "diseases.txt").write_text("flu\nHIV\ncold\nasthma\ngout\n")
    path = table.parent / "here" / "all.toml"
    path.write_text(
        """
        mechanism = "uniform"  # before all sections

        [table]
        path = "../people.csv"
        encoding = "utf-8"
        missing = ["?", "NA"]
        text = "sex"

        [columns]
        sensitive = ["disease"]
        drop = "name"
        keep = ["age"]
        nulls = "error"
        fail_on = ["telling-column", "telling-groups"]

        [ranges]
        age = [0, 35.5, inf]

        [domains]
        disease = "diseases.txt"

        [protection]
        prior = "1/10"
        posterior = 0.50
        breach_limit = 1
        accept_marginal_prior = "nobody knows who is where"

        [output]
        out = "release"
        plan_file = "private.plan"
        force = true
        """
    )
    succeed("publish", path)
    release = table.parent / "here" / "release"
    assert ours(release)["bins"] == {"age": ["0", "35.5", "inf"]}
    assert ours(release)["missing"] == ["?", "NA"]
    assert ours(release)["nulls"] == "error"
    assert ours(release)["design"]["domain"] == ["flu", "HIV", "cold", "asthma", "gout"]
    assert ours(release)["domain_declared"]
    assert (table.parent / "here" / "private.plan").exists()


def test_dates_are_edges_and_several_columns_are_one_text(desk: Path) -> None:
    dates = {"day": ["2023-05-01", "2024-03-09"], "a, b": ["x", "y", "z"]}
    write_csv(desk / "people.csv", people(**dates))
    path = desk / "request.toml"
    bins = "[ranges]\nday = [2023-01-01, 2024-01-01, 2025-01-01]\nage = '0,50,100'\n"
    domains = '[domains]\ndisease = "diseases.txt"\n"a, b" = "letters.txt"\n'
    (desk / "diseases.txt").write_text("flu\nHIV\ncold\nasthma\n")
    (desk / "letters.txt").write_text("x\ny\nz\n")
    path.write_text(REQUEST.replace('sensitive = "disease"', 'compound = ["disease", "a, b"]') + bins + domains)
    succeed("publish", path, "--out", "release")
    assert ours(desk / "release")["sensitive"] == ["disease", "a, b"]
    assert ours(desk / "release")["bins"] == {
        "day": ["2023-01-01", "2024-01-01", "2025-01-01"],
        "age": ["0", "50", "100"],
    }


def test_counts_can_be_planned_from_a_file(desk: Path) -> None:
    (desk / "counts.csv").write_text("value,count\nflu,60\ncold,40\nHIV,5\n")
    (desk / "request.toml").write_text(
        '[table]\ncounts = "counts.csv"\n[protection]\nprior = "1/10"\nposterior = "1/2"\n'
    )
    assert succeed("plan", "request.toml", "--json").json["total"] == 105


@pytest.mark.slow
def test_every_option_is_a_key_but_those_of_telling() -> None:
    told = {"json", "quiet", "verbose", "help", "report", "page", "decider", "sheet", "context"}
    for name in ("plan", "publish"):
        for option in build().commands[name].params:
            (long,) = [each for each in option.opts if each.startswith("--")] or [None]
            key = (long or "--path").removeprefix("--").replace("-", "_")
            assert key in list_keys() or key in told, key
            if key in list_keys():
                assert list_keys()[key].parameter == option.name


# ------------------------------------------------------------------------------------------------------------ who wins


def test_command_line_wins(request_file: Path) -> None:
    succeed("publish", request_file, "--out", "release", "--prior", "1/5", "--mechanism", "uniform")
    assert ours(Path("release"))["design"]["prior"] == "1/5"


def test_columns_that_the_file_leaves_out_stay_out(request_file: Path) -> None:
    succeed("publish", request_file, "--out", "release", "--drop", "sex")
    assert [field["name"] for field in read_json(Path("release"))["resources"][0]["schema"]["fields"]] == [
        "age",
        "disease",
    ]


def test_ranges_of_other_columns_stay(table: Path) -> None:
    path = table.parent / "request.toml"
    write_csv(table, people(height=[150, 160, 170]))
    path.write_text(f"{REQUEST}\n[ranges]\nage = [0, 50, 100]\nheight = [100, 200]\n")
    succeed("publish", path, "--out", "release", "--ranges", "age=0,40,100")
    assert ours(Path("release"))["bins"] == {"height": ["100", "200"], "age": ["0", "40", "100"]}


def test_other_lists_are_replaced(request_file: Path) -> None:
    request_file.write_text(request_file.read_text().replace("[columns]", 'missing = ["30"]\n[columns]'))
    succeed("publish", request_file, "--out", "release", "--missing", "F", "--text", "age")
    assert ours(Path("release"))["missing"] == ["F"]


def settings(*arguments: str | Path) -> list[str]:
    return [
        line.removeprefix("setting: ") for line in succeed(*arguments).err.splitlines() if line.startswith("setting: ")
    ]


def test_verbose_says_where_each_setting_comes_from(request_file: Path) -> None:
    options = ["--prior", "1/5", "--drop", "sex", "--nulls", "drop"]
    assert settings("plan", request_file.name, *options, "-v") == [
        "sensitive = disease, from request.toml",
        "public = *, from the command line",
        "drop = name sex, from request.toml and the command line",
        "nulls = drop, from the command line",
        "table = people.csv, from request.toml",
        "prior = 1/5, from the command line, instead of 0.1 from request.toml",
        "posterior = 1/2, from request.toml",
        "accept_unique = these people are made up, from the command line",
        "accept_uncovered = these people are made up, from the command line",
        "all other settings have their defaults",
    ]
    assert settings("plan", request_file.name, *options) == []


def test_verbose_tells_of_a_plain_table_too(table: Path) -> None:
    options = ["--sensitive", "disease", "--drop", "name", "--prior", "1/5", "--posterior", "1/2"]
    told = settings("publish", "people.csv", "--out", "release", *options, "--verbose", "--json")
    assert told[0] == "table = people.csv, from the command line"
    assert "out = release, from the command line" in told


def test_setting_does_not_steer_a_terminal(request_file: Path) -> None:
    request_file.write_text(request_file.read_text().replace('["name"]', '["name"]\nmissing = "\\u001b[2J"'))
    assert "missing = \\x1b[2J, from request.toml" in settings("plan", request_file.name, "-v")


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize("command", [["plan"], ["publish", "--out", "release"]], ids=["plan", "publish"])
@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("[table\n", "the request file 'request.toml' is not TOML: expected ']' at the end of a table declaration (at "
                     "line 1, column 7)."),
        ("a = 1\na = 2\n",
         "the request file 'request.toml' is not TOML: cannot overwrite a value (at line 2, column 6)."),
        ("a = " + "[" * 9999, "the request file 'request.toml' is not TOML: a value is too long or too deeply nested."),
        ("a = " + "9" * 9999, "the request file 'request.toml' is not TOML: a value is too long or too deeply nested."),
        ("[columns]\nsensitve = 'disease'\n",
         "the key 'sensitve' in 'request.toml' is unknown; the nearest known name is 'sensitive'."),
        ("[output]\nplan-file = 'p'\n",
         "the key 'plan-file' in 'request.toml' is unknown; the nearest known name is 'plan_file'."),
        ("[colums]\n", "the section [colums] in 'request.toml' is unknown; the nearest known name is 'columns'."),
        ("json = true\n", "the key 'json' in 'request.toml' is unknown; the nearest known name is 'person'."),
        ("[columns]\nsensitive = true\n", "'sensitive' in 'request.toml' should be a list of strings."),
        ("[columns]\nsensitive = [['disease']]\n", "'sensitive' in 'request.toml' should be a list of strings."),
        ("[columns]\ndrop = {name = 1}\n", "'drop' in 'request.toml' should be a list of strings."),
        ("[protection]\nprior = [1, 10]\n", "'prior' in 'request.toml' should be a string in quotes, or a number."),
        ("[protection]\nprior = 2024-01-01\n", "'prior' in 'request.toml' should be a string in quotes, or a number."),
        ("[protection]\ngroup_size = 3.5\n", "'group_size' in 'request.toml' should be a whole number."),
        ("[protection]\ngroup_size = true\n", "'group_size' in 'request.toml' should be a whole number."),
        ("[output]\nforce = 'yes'\n", "'force' in 'request.toml' should be true or false."),
        ("[output]\nout = 3\n", "'out' in 'request.toml' should be the name of a file, in quotes."),
        ("[ranges]\nage = 20\n", "'age' in 'request.toml' should be a list of numbers or dates, such as [0, 20, 40]."),
        ("[ranges]\nage = [0, true]\n",
         "'age' in 'request.toml' should be a list of numbers or dates, such as [0, 20, 40]."),
        ("[domains]\ndisease = ['flu']\n", "'disease' in 'request.toml' should be the name of a file, in quotes."),
        ("[columns]\nranges = ['age=0,20']\n",
         "'ranges' in 'request.toml' should be a section [ranges] with one line for each column."),
        ("domain = 'disease=codes.csv'\n",
         "'domain' in 'request.toml' should be a section [domains] with one line for each column."),
        ("drop = 'sex'\n[columns]\ndrop = 'age'\n", "'drop' occurs twice in 'request.toml'; write it once."),
        ("[columns]\nsensitive = 'disease'\n",
         "the request file 'request.toml' names no table; add path = '...' to its section [table]."),
        ("[table]\npath = 'nobody.csv'\n",
         "the request file 'request.toml' names the table 'nobody.csv', which does not exist; write its path "
         "relative to the "
         "request file."),
    ],
    ids=lambda value: value.strip()[:24] if "\n" in value or len(value) > 999 else "",
)  # fmt: skip
def test_file_that_makes_no_sense_is_refused(command: list[str], written: str, sentence: str, desk: Path) -> None:
    (desk / "request.toml").write_text(written)
    assert fail(desk, *command[:1], "request.toml", *command[1:]) == sentence


def test_file_that_is_not_there_is_refused(desk: Path) -> None:
    assert fail(desk, "plan", "nobody.toml") == (
        "the request file 'nobody.toml' cannot be read: No such file or directory."
    )


def test_file_that_is_no_text_is_refused(desk: Path) -> None:
    (desk / "request.toml").write_bytes(b"path = '\xff\xfe'\n")
    assert fail(desk, "plan", "request.toml") == "the request file 'request.toml' is not UTF-8 text; save it as UTF-8."


def test_value_that_no_option_takes_is_refused_as_on_the_command_line(request_file: Path) -> None:
    request_file.write_text(request_file.read_text().replace("[protection]", 'nulls = "perhaps"\n[protection]'))
    assert "'perhaps' is not one of" in fail(request_file.parent, "plan", request_file)


def test_relative_table_is_looked_for_beside_the_file(table: Path) -> None:
    (table.parent / "requests").mkdir()
    (table.parent / "requests" / "request.toml").write_text(REQUEST)
    assert "'requests/people.csv', which does not exist; write its path relative to the request file." in fail(
        table.parent, "plan", "requests/request.toml"
    )


@pytest.mark.parametrize("arguments", [["info"], ["verify"], ["query"]], ids=" ".join)
def test_other_commands_take_no_file(arguments: list[str], request_file: Path) -> None:
    asked = ["SELECT COUNT(*) FROM release"] if arguments == ["query"] else []
    assert run(*arguments, request_file, *asked).code == 2


def test_refusal_is_told_to_machines(desk: Path) -> None:
    outcome = run("plan", "nobody.toml", "--json")
    assert json.loads(outcome.out)["error"]["kind"] == "spec"


def test_nearest_key_is_the_one_that_was_meant() -> None:
    """Of each key, what is left without one letter is nearest to it, or to another key that it nearly is."""
    known = list(list_keys())
    for key in known:
        (nearest,) = difflib.get_close_matches(key[1:], known, 1, 0)
        assert nearest == key or len(key) <= 6
    assert not {*SECTIONS, *COLUMN_SECTIONS} & {*list_keys()} - {PATH, "ranges", "publish_at"}


# -------------------------------------------------------------------------------------------------------- the library


def test_keys_are_the_options_of_the_commands() -> None:
    groups = (
        *(PlanTableOptions, GuaranteeOptions, TargetOptions, StopOptions, ReleaseOptions, NoticeOptions, EngineOptions),
    )
    options = {PATH: RequestKey("table", Path)}
    for parameter in (item for group in groups for item in group.list_parameters() if item.name != "table"):
        declared, info = get_args(parameter.annotation)
        kind = next(item for item in get_args(declared) or (declared,) if item is not NoneType)
        name = next(item for item in (info.default, *info.param_decls) if str(item).startswith("--"))
        if parameter.name == "accept_disclosing":  # a section with a line for each column
            continue
        options[name.removeprefix("--").replace("-", "_")] = RequestKey(
            parameter.name,
            kind if kind in (bool, int, Path) else str,
            get_origin(declared) is list,
            "," in (info.metavar or "") and get_origin(declared) is not list,
        )
    assert list_keys() == options


def test_library_reads_the_request_of_a_file(request_file: Path) -> None:
    succeed("publish", request_file, "--out", "by-command", "--unsafe-test-key", "11" * 32)
    request_file.write_text(
        request_file.read_text() + f'public = "*"\nunique_limit = 1\naccept_uncovered = "{REASON}"\n'
    )
    publish(Request.from_file(request_file), "by-library", unsafe_test_key="11" * 32)
    one, other = (Path(name, "data.parquet").read_bytes() for name in ("by-command", "by-library"))
    assert one == other


def test_library_takes_options_of_a_mechanism_from_a_file(request_file: Path) -> None:
    request_file.write_text(request_file.read_text() + 'mechanism = "subset"\nsubset_form = "list"\nforce = true\n')
    request = Request.from_file(request_file)
    assert (request.mechanism, request.options["subset"].form.value) == ("subset", "list")


@pytest.mark.parametrize(
    ("line", "code", "fields"),
    [
        ("nulls = 'perhaps'", "unknown-choice", {"argument": "nulls", "given": "perhaps"}),
        ("surplus = 'keep'", "unknown-choice", {"argument": "surplus", "given": "keep"}),
        ("subset_form = 'tree'", "unknown-choice", {"argument": "subset_form", "given": "tree"}),
        ("min_bucket = 0", "number-too-small", {"argument": "min_bucket", "given": 0}),
        ("mechanism = 'magic'", "unknown-mechanism", {"mechanism": "magic"}),
        ("colour = 'red'", "unknown-key", {"key": "colour"}),
    ],
)
def test_library_refuses_in_a_file_what_no_setting_takes(
    line: str, code: str, fields: dict[str, ErrorField], request_file: Path
) -> None:
    request_file.write_text(request_file.read_text() + line + "\n")
    with refuses(SfumatoError, code, **fields):
        plan(Request.from_file(request_file))


def test_library_needs_a_table_in_the_file(desk: Path) -> None:
    Path("request.toml").write_text('[columns]\nsensitive = "disease"\n[protection]\nprior = 0.1\nposterior = 0.5\n')
    with refuses(SpecError, "no-table", file="request.toml"):
        Request.from_file("request.toml")


def test_every_setting_of_a_request_has_a_default_and_is_used() -> None:
    names = {key.parameter for name, key in REQUEST_KEYS.items() if name != PATH}
    used_names = set(re.findall(r'settings\["(\w+)"\]', inspect.getsource(request_settings)))
    assert names | {"accept_disclosing"} == DEFAULTS.keys()
    assert names | {"accept_disclosing"} == used_names
