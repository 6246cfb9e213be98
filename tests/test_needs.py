"""A program that is missing skips a test here, fails it in CI, and is named in the last line of the run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from needs import needs

TESTS = """
from needs import needs

def test_of_a_browser(): needs("no-such-browser", "nor-this-one")
def test_of_a_page(): needs("no-such-browser", "nor-this-one")
def test_of_java(): needs("no-such-java")
def test_of_nothing(): pass
"""


def test_program_that_is_there_is_found_by_any_of_its_names() -> None:
    assert Path(needs("no-such-shell", "sh")).name == "sh"


def run(folder: Path, **environment: str) -> list[str]:
    """The lines that a run of the tests above prints."""
    (folder / "test_programs.py").write_text(TESTS, encoding="utf-8")
    others = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
    environment = others | {"PYTHONPATH": str(Path(__file__).parent)} | environment
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "needs", "-p", "no:randomly", str(folder)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_missing_programs_skip_tests_and_are_counted_in_the_last_line(tmp_path: Path) -> None:
    *_, summary, last = run(tmp_path)
    assert summary.startswith("1 passed, 3 skipped")
    assert last == "skipped: 2 for no no-such-browser or nor-this-one, 1 for no no-such-java"


@pytest.mark.slow
def test_missing_programs_are_failures_in_ci(tmp_path: Path) -> None:
    *_, summary, last = run(tmp_path, CI="true")
    assert summary.startswith("3 failed, 1 passed")
    assert last == "skipped: nothing"


@pytest.mark.slow
def test_programs_that_ci_could_not_install_are_named_there(tmp_path: Path) -> None:
    *_, summary, last = run(tmp_path, CI="true", CI_LACKS="nor-this-one")
    assert summary.startswith("1 failed, 1 passed, 2 skipped")
    assert last == "skipped: 2 for no no-such-browser or nor-this-one"
