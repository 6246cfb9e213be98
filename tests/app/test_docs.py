"""The documentation is run: what it says must work, name every option, and link to what exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
import typer.main

from sfumato import Release, errors
from sfumato.cli import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("bench/*.md")])


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page: Path) -> list[str]:
    """The shell commands of a page: what follows `$ ` in its console blocks."""
    return [line[2:] for block in blocks(page, "console") for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture(scope="module")
def toured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the commands of the tutorial were run, each successfully."""
    folder = tmp_path_factory.mktemp("tutorial")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands(DOCS / "tutorial.md"):
        found = {**os.environ, "PATH": path}
        run = subprocess.run(command, shell=True, cwd=folder, env=found, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"{command}\n{run.stderr}"
    return folder


def test_tutorial_python_runs_on_its_own_release(toured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toured)
    assert blocks(DOCS / "tutorial.md", "python")
    for block in blocks(DOCS / "tutorial.md", "python"):
        exec(block, {})


def test_architecture_walk_runs() -> None:
    scope: dict[str, object] = {}
    for block in blocks(DOCS / "architecture.md", "python"):
        exec(block, scope)
    assert "estimate" in scope


def test_count_with_any_tool_agrees_with_the_library(toured: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toured)
    page = DOCS / "how-to" / "count-with-any-tool.md"
    expected = Release.open("release").count("depression", where="sex = 'F'").value
    one, all_groups = blocks(page, "sql")
    scope: dict[str, float] = {}
    exec(blocks(page, "python")[0], scope)
    rows = {(sex, value): n for sex, value, n in duckdb.sql(all_groups).fetchall()}
    found = [duckdb.sql(one).fetchall()[0][0], scope["n"], rows["F", "depression"]]
    assert found == pytest.approx([expected] * 3, rel=1e-9)


def test_reference_names_every_command_and_option() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        assert f"`sfumato {name}" in text
        for parameter in command.params:
            for option in parameter.opts:
                assert not option.startswith("--") or f"`{option}" in text, f"{name} {option}"


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
