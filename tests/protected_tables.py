"""Small tables about patients, and the ways to protect them, as the command line takes them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from command_line import complaint, content, run, write_csv_rows

BOUND = ("--prior", "1/3", "--posterior", "2/3")
SMALL_DOMAIN = ("--mechanism", "small-domain", *BOUND)
CELLS = (*SMALL_DOMAIN, "--min-cell", "50", "--accept-marginal-prior=made up")

WAYS: Mapping[str, tuple[str, ...]] = {
    "uniform": ("--mechanism", "uniform", *BOUND),
    "subset as bits": ("--mechanism", "subset", *BOUND),
    "subset as lists": ("--mechanism", "subset", *BOUND, "--subset-form", "list"),
    "subset as columns": ("--mechanism", "subset", *BOUND, "--subset-form", "columns"),
    "small-domain": CELLS,
    "small-domain with shares": (*CELLS, "--publish-shares"),
    "fine-grain": ("--mechanism", "fine-grain", "--tolerance", "3"),
    "fine-grain for counts": (
        "--mechanism",
        "fine-grain",
        "--tolerance",
        "4",
        "--objective",
        "aggregate",
        "--direction",
        "both",
    ),
    "harmonic": ("--mechanism", "harmonic", "--tolerance", "3"),
}
"""The requests that every part of the program is tried with: each mechanism, in each form that a release can have."""

EXAMPLE = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
"""The counts of Example 1 of the small-domain paper, with its misprint corrected: the last four are 1."""

DISEASES: Mapping[str | None, int] = {
    "flu": 168,
    "cold": 114,
    "gout": 84,
    "HIV": 72,
    "Crohn's": 57,
    'the "blues"': 42,
    None: 24,
    "asthma": 21,
    "measles": 12,
    "mumps": 6,
}
"""How many patients have each disease: 600 in all, and no two shares alike in hundredths."""

FIRST = "Crohn's"
"""The first disease in canonical order, which is the example of every README."""


def patients() -> dict[str, list[Any]]:
    """A table of texts and numbers with a few missing; `drug` goes with `disease`, and the rest with nothing."""
    chance = random.Random(1)
    disease = [name for name, count in DISEASES.items() for _ in range(count)]
    chance.shuffle(disease)
    rows, common = len(disease), list(DISEASES)[:4]
    return {
        "sex": chance.choices("FM", k=rows),
        "age": chance.choices((30, 40, 50), k=rows),
        "ward": chance.choices(("north", "south", None), k=rows),
        "disease": disease,
        "drug": [chance.choice(("pill", "tea") if each in common else ("pill", "none")) for each in disease],
    }


def spread(counts: Sequence[int], times: int = 1) -> list[str]:
    """Values x1, x2, ... as often as these counts say, all of them `times` over."""
    return [f"x{number}" for number, count in enumerate(counts, 1) for _ in range(count * times)]


def refused(folder: Path, *arguments: str | Path) -> str:
    """Run a command that must fail and leave nothing behind; notices may come before its one sentence."""
    before = content(folder)
    outcome = run(*arguments)
    assert content(folder) == before
    return complaint(outcome)


def readme_query(folder: Path) -> str:
    """The query for DuckDB that stands in the README of a release, as it stands."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"^    (?:WITH|SELECT) .*?(?=\n\n)", text, re.DOTALL | re.MULTILINE)
    return str(found)


def readme_count(folder: Path) -> float | None:
    """What that query answers; the working directory must be the release."""
    with duckdb.connect() as connection:
        found: float | None = connection.execute(readme_query(folder)).fetchall()[0][0]
    return found


def counts_file(folder: Path, counts: Mapping[str, int]) -> Path:
    """A file of counts to plan from."""
    write_csv_rows(folder / "counts.csv", [["value", "count"], *counts.items()])
    return folder / "counts.csv"


def write_domains(folder: Path, domains: Mapping[str, Iterable[Any]]) -> list[str]:
    """Write a domain file of these values for each column; the options that name them."""
    options = []
    for name, values in domains.items():
        words = [str(value).lower() if isinstance(value, bool) else value for value in dict.fromkeys(values)]
        write_csv_rows(folder / f"{name}.csv", [[word] for word in words])
        options += ["--domain", f"{name}={folder / name}.csv"]
    return options


def bounds_file(folder: Path, bounds: Mapping[str, tuple[str, str]]) -> Path:
    """A file with a bound for each value."""
    lines = [[value, *each] for value, each in bounds.items()]
    write_csv_rows(folder / "bounds.csv", [["value", "prior", "posterior"], *lines])
    return folder / "bounds.csv"
