"""R: what the README of a release says runs there, and an export is read there. DuckDB for R need not be installed."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pytest

from needs import needs
from protected_tables import readme_query
from releases import people, published, published_by
from sfumato import Release, Schema, export

pytestmark = pytest.mark.slow

STUBS = """
library <- function(name) invisible(NULL)
duckdb <- function() NULL
dbConnect <- function(driver) NULL
dbGetQuery <- function(connection, statement) cat(statement)
"""
"""In the place of DuckDB for R, which Debian does not have: they print the statement that it would run."""


def r(script: str, folder: Path) -> str:
    """What a script prints."""
    done = subprocess.run(
        [needs("Rscript"), "--vanilla", "-"], input=script, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def snippet(folder: Path) -> str:
    """The lines for R in the README of a release."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    said = text[text.index("in R, with the package duckdb") :].split("\n\n")[1]
    assert said.startswith("    library(duckdb)")
    return said


def answered(release: Release, statement: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(release.folder)
    with duckdb.connect() as connection:
        return connection.execute(statement).fetchall()[0][0]


@pytest.mark.parametrize("name", ["disease", 'a "quoted" \\ name', "été"])
def test_statement_for_r_is_the_one_of_the_readme(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = people(200)
    renamed = table.rename_columns([name if each == "disease" else each for each in table.column_names])
    release = published(renamed, tmp_path / "release", schema=Schema.of(name, public="*"), mechanism="uniform")
    statement = r(STUBS + snippet(release.folder), tmp_path)
    assert statement.split() == readme_query(release.folder).split()
    assert answered(release, statement, monkeypatch) == pytest.approx(release.count(release.manifest.domain[0]).value)


def test_statement_for_r_is_there_for_sets_and_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for mechanism in ("subset", "buckets", "noisy-counts"):
        release = published_by(mechanism, people(200), tmp_path / mechanism)
        statement = r(STUBS + snippet(release.folder), tmp_path)
        method = "uniform" if mechanism == "buckets" else None  # the plain estimate is what SQL can do
        counted = release.count(release.manifest.domain[0], method=method).value
        assert answered(release, statement, monkeypatch) == pytest.approx(counted)


def test_r_adds_up_an_export(tmp_path: Path) -> None:
    release = published_by("uniform", people(200), tmp_path / "release")
    export(release, ["HIV"], tmp_path / "counts.csv")
    script = 'counts <- read.csv("counts.csv")\nwrite.csv(aggregate(w_HIV ~ sex, counts, sum), row.names = FALSE)'
    lines = r(script, tmp_path).splitlines()
    found = {sex.strip('"'): float(number) for sex, number in (line.split(",") for line in lines[1:])}
    assert found == pytest.approx({sex: release.count("HIV", where=f"sex = '{sex}'").value for sex in "FM"})
