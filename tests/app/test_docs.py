"""The documentation is run: what it says must work, name every option, and link to what exists."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sfumato
from command_line import complaint, run, succeed
from doc_images import DRAWN, IMAGES
from papers import command_line as papers
from sfumato import Release, _figures, errors
from sfumato._readers.reader import TableReader
from sfumato._readers.reader_registry import READERS
from sfumato._request.warnings import NOTICE_CODES, NoticeWarning
from sfumato.cli.app import build
from sfumato.mechanisms import REGISTRY
from store_server import make_bucket, serving

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
COMPARED = [
    DOCS / "how-to" / name
    for name in (
        "count-with-any-tool.md",
        "count-in-sets.md",
        "use-a-hierarchy.md",
        "count-in-a-table-of-counts.md",
    )
]
"""The pages whose numbers are compared with the library's, where they are run."""
ON_SPARK = DOCS / "how-to" / "publish-on-spark.md"
"""Run where Spark is (`tests/spark`)."""
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("bench/*.md")])


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page: Path) -> list[str]:
    """The shell commands of a page: what follows `$ ` in its console blocks."""
    return [command for block in blocks(page, "console") for command in typed(block)]


def typed(block: str) -> list[str]:
    """The commands of a block; a line that ends in a backslash goes on."""
    return [line[2:] for line in block.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def in_shell(command: str) -> None:
    """Run a command of another program, successfully; `python` is the one that runs this."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    assert ran.returncode == 0, f"{command}\n{ran.stderr}"


def follow(block: str) -> None:
    """Run the commands of a block in the working directory; those of this project in this process, which is quicker."""
    for command in typed(block):
        words = shlex.split(command)
        if words[:3] == ["python", "-m", "papers"]:
            assert run(*words[3:], program=papers.main).code == 0, command
        elif words[0] != "sfumato":
            in_shell(command)
        elif words[-2:] == ["||", "true"]:
            complaint(run(*words[1:-2]))
        else:
            succeed(*words[1:])


def told(page: Path) -> dict[str, Any]:
    """Run all that a page tells, in its order, in the working directory; and what its Python leaves behind."""
    scope: dict[str, Any] = {"__name__": page.stem}
    written = re.findall(r"```(console|python)\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    with warnings.catch_warnings(action="ignore", category=NoticeWarning):
        for language, block in written:
            if language == "console":
                follow(block)
            else:
                exec(block, scope)
    return scope


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the commands of the tutorial were run, each successfully."""
    folder = tmp_path_factory.mktemp("tutorial")
    with contextlib.chdir(folder):
        told(DOCS / "tutorial.md")
    return folder


@pytest.fixture
def reader(toured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory is one's own, with what the tutorial leaves behind."""
    monkeypatch.chdir(shutil.copytree(toured, tmp_path / "tutorial"))


@pytest.mark.parametrize("block", blocks(DOCS / "errata.md", "python"), ids=itertools.count())
def test_counterexample_of_the_errata_holds(block: str) -> None:
    """Each asserts by itself what it says."""
    assert "assert" in block
    exec(block, {})


def test_architecture_walk_runs() -> None:
    scope: dict[str, object] = {}
    for block in blocks(DOCS / "architecture.md", "python"):
        exec(block, scope)
    assert "estimate" in scope


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", sorted(set((DOCS / "how-to").glob("*.md")) - {*COMPARED, ON_SPARK}), ids=lambda page: page.stem
)
@pytest.mark.usefixtures("reader")
def test_how_to_runs(page: Path) -> None:
    assert commands(page)
    with hospital_store() if page.stem == "use-a-store" else contextlib.nullcontext():
        told(page)


@pytest.mark.slow
def test_readme_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty directory, as a newcomer has it."""
    monkeypatch.chdir(tmp_path)
    scope = told(ROOT / "README.md")
    assert scope["estimate"].standard_error > 0
    assert Path("release").is_dir()


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_errors_of_two_numbers_are_those_of_the_table() -> None:
    page = DOCS / "how-to" / "choose-the-two-numbers.md"
    scope: dict[str, Any] = {}
    exec(blocks(page, "python")[0], scope)
    lines = re.findall(
        r"^\| (\d+/\d+) \| (\d+/\d+) \| [\d.]+ \| (.+)% \| (.+)% \| (.+)% \|$", page.read_text(), re.MULTILINE
    )
    assert {(prior, posterior): numbers for prior, posterior, *numbers in lines} == {
        pair: [f"{100 * each:.2g}" for each in errors] for pair, errors in scope["errors"].items()
    }
    assert f"Q = {float(scope['needed'].posterior):.2f}" in page.read_text()


@contextlib.contextmanager
def hospital_store() -> Iterator[None]:
    """The store that a page speaks of."""
    with serving():
        make_bucket("hospital")
        yield


def only_number(sql: str) -> float:
    """What a query for one number answers."""
    ((found,),) = duckdb.sql(sql).fetchall()
    return float(found)


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_count_with_any_tool_agrees_with_the_library() -> None:
    page = COMPARED[0]
    n = told(page)["n"]
    expected = Release.open("plain").count("depression", where="sex = 'F'").value
    one, all_groups = blocks(page, "sql")
    rows = {(sex, value): n for sex, value, n in duckdb.sql(all_groups).fetchall()}
    found = [only_number(one), n, rows["F", "depression"]]
    assert found == pytest.approx([expected] * 3, rel=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_count_in_sets_agrees_with_the_library() -> None:
    page = COMPARED[1]
    scope = told(page)
    names = ("sets", "lists", "columns")
    bits, lists, columns = (Release.open(name).count("migraine", where="sex = 'F'").value for name in names)
    found = [*map(only_number, blocks(page, "sql")), scope["n"], scope["by_column"]]
    assert found == pytest.approx([bits, lists, columns, bits, columns], rel=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_count_from_several_levels_agrees_with_the_library() -> None:
    page = COMPARED[2]
    told(page)
    expected = Release.open("both").count("migraine", where="sex = 'F'").value
    assert [*map(only_number, blocks(page, "sql"))] == pytest.approx([expected], rel=1e-9)


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_count_in_a_table_of_counts_agrees_with_the_library() -> None:
    page = COMPARED[3]
    scope = told(page)
    expected = Release.open("counted").count("migraine", where="sex = 'F'").value
    assert [*map(only_number, blocks(page, "sql")), scope["n"]] == pytest.approx([expected] * 2, rel=1e-9)


def test_reference_names_every_command_and_option() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    for name, command in build().commands.items():
        assert f"`sfumato {name}" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in text, f"{name} {option}"


def row_of(reader: TableReader) -> str:
    """The row of a reader in the table of the reference."""
    example = reader.example if " " in reader.example else f"`{reader.example}`"
    cells = (
        reader.name,
        example,
        ", ".join(f"`{ending}`" for ending in reader.endings),
        "yes" if reader.takes_several else "",
        reader.part_kind,
        "yes" if reader.reads_stores else "",
        "yes" if reader.beginnings else "",
        "yes" if reader.reads_compressed else "",
        f"`{reader.extra}`" if reader.extra else "",
    )
    return f"| {' | '.join(cells)} |"


def test_reference_has_a_row_for_every_reader_and_no_other() -> None:
    (table,) = re.findall(r"\| reader \|.*?\n\n", (DOCS / "reference.md").read_text(), flags=re.DOTALL)
    assert table.splitlines()[2:-1] == [row_of(reader) for reader in READERS.values()]


def test_every_extra_of_a_reader_can_be_installed() -> None:
    offered = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert {reader.extra for reader in READERS.values()} - {""} <= offered.keys()


def test_figures_of_the_reference_are_drawn() -> None:
    (block,) = (each for each in blocks(DOCS / "reference.md", "python") if "sfumato._figures" in each)
    scope: dict[str, Any] = {}
    exec(block, scope)
    assert scope["figure"].reading.startswith("With ")


@pytest.mark.slow
def test_attackers_of_the_reference_are_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (each for each in blocks(DOCS / "reference.md", "python") if "sfumato._risk.attackers" in each)
    scope: dict[str, Any] = {}
    with warnings.catch_warnings(action="ignore", category=NoticeWarning):
        exec(block, scope)
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    tried = [*scope["before"], *scope["found"].attacks]
    assert [each.scenario for each in tried if f"`{each.scenario}` |" not in text] == []
    assert len(tried) == 6 + 5
    assert all(check.has_passed for check in scope["found"].checks)


def test_reference_names_every_figure() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    drawing = [
        name
        for name in _figures.__all__
        if getattr(getattr(_figures, name), "__annotations__", {}).get("return") == "Figure"
    ]
    assert len(drawing) == 11
    assert [name for name in drawing if f"`{name}`" not in text] == []


def test_reference_names_every_error() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    classes = [name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)]
    assert classes
    assert [name for name in classes if f"`{name}`" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_readme_names_the_two_commands_that_set_everything_up() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text


def list_glossary_names() -> list[str]:
    """The names in the last column of the tables of the glossary."""
    rows = [line for line in (DOCS / "glossary.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return sorted({name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[4])})


def has_member(name: str) -> bool:
    """Whether a public class, and what is named of it, exist."""
    owner, _, member = name.partition(".")
    found = getattr(sfumato, owner, None)
    fields = {field.name for field in dataclasses.fields(found)} if dataclasses.is_dataclass(found) else set()
    return owner in sfumato.__all__ and (not member or member in fields or hasattr(found, member))


def test_glossary_names_what_exists() -> None:
    commands = build().commands
    options = {option for command in commands.values() for parameter in command.params for option in parameter.opts}
    known = {*options, *(f"sfumato {name}" for name in commands), *REGISTRY, *NOTICE_CODES, "python -m papers"}
    names = list_glossary_names()
    assert len(names) > 50
    assert [name for name in names if name not in known and not has_member(name)] == []
    assert not has_member("Release.nothing")
    assert not has_member("Nothing")


# -------------------------------------------------------------------------------------------------------- the evidence

QUOTED = re.compile(r"^> .*(?:\n>.*)*", flags=re.MULTILINE)


def words(text: str) -> str:
    """A text without its line breaks and the marks of quotations."""
    return " ".join(re.sub(r"^> ?", "", text, flags=re.MULTILINE).split())


def evidence() -> list[tuple[str, list[str]]]:
    """Each sentence that is quoted, with the tests that are named for it."""
    text = (DOCS / "evidence.md").read_text(encoding="utf-8")
    places = [*QUOTED.finditer(text)]
    ends = [*(place.start() for place in places[1:]), len(text)]
    return [
        (words(place[0]), re.findall(r"^- `([^`]+)`$", text[place.end() : end], flags=re.MULTILINE))
        for place, end in zip(places, ends, strict=True)
    ]


def test_evidence_quotes_what_stands_in_the_documents() -> None:
    pages = [DOCS / "promise.md", DOCS / "limits.md", ROOT / "README.md"]
    read = " ".join(words(page.read_text(encoding="utf-8")) for page in pages)
    assert evidence()
    # A sentence may be quoted from its middle on, and then begins with a capital letter here.
    assert [said for said, _ in evidence() if said not in read and said[0].lower() + said[1:] not in read] == []


@pytest.mark.slow
def test_evidence_names_tests_that_exist() -> None:
    named = [test for _, tests in evidence() for test in tests]
    found: set[str] = set()
    for file in {name.partition("::")[0] for name in named if (ROOT / name.partition("::")[0]).is_file()}:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        found |= {f"{file}::{each.name}" for each in tree.body if isinstance(each, ast.FunctionDef)}
    assert sorted(set(named) - found) == []
    assert all(name.partition("::")[2].startswith("test_") for name in named)


def test_every_sentence_of_the_evidence_has_a_test() -> None:
    assert [said for said, tests in evidence() if not tests] == []


def test_evidence_has_every_promise_in_a_frame_of_its_own() -> None:
    promises = {words(each) for each in QUOTED.findall((DOCS / "promise.md").read_text(encoding="utf-8"))}
    assert promises
    assert promises - {said for said, _ in evidence()} == set()


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_are_those_that_are_drawn_now(name: str) -> None:
    """`python tests/doc_images.py` draws them anew."""
    assert (IMAGES / name).read_text(encoding="utf-8") == DRAWN[name]().to_standalone_svg()
