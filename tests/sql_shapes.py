"""Shapes of SQL that people type at a release, and what each must give: the table in docs/sql.md is made from them.

`python tests/sql_shapes.py` writes the table anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np
import pyarrow as pa

from accepted import ALL_ACCEPTED, give_reasons
from releases import known_key
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.describe_statements import AS_PUBLISHED
from sfumato._query.estimate import EXACT_METHOD
from sfumato._query.release import Release
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.schema import Schema
from sfumato.errors import QueryError

PAGE = Path(__file__).parents[1] / "docs" / "sql.md"
BEGINS, ENDS = "<!-- shapes: written by tests/sql_shapes.py -->", "<!-- end of shapes -->"

Outcome = Literal["estimated", "exact", "refused"]


@dataclass(frozen=True)
class Shape:
    """One way to ask, and what comes of it."""

    family: str
    sql: str
    outcome: Outcome


def _read(path: Path) -> Iterator[Shape]:
    """One shape for each line, below the name of its family."""
    family: str = ""
    outcome: Outcome = "estimated"
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("-- ") and ": " in line:
            family, _, said = line.removeprefix("-- ").rpartition(": ")
            outcome = said  # type: ignore[assignment]
        elif line and not line.startswith("--"):
            yield Shape(family, line, outcome)


SHAPES = tuple(_read(Path(__file__).with_suffix(".sql")))


def table(rows: int = 3000) -> pa.Table:
    """An invented table of hospital stays."""
    chance = np.random.default_rng(5)
    diagnoses = np.array(["flu", "asthma", "injury", "diabetes", "migraine", "infarct"])
    code = chance.choice(len(diagnoses), rows, p=[0.3, 0.25, 0.15, 0.12, 0.1, 0.08])
    stay = 1 + chance.poisson(2 + code)
    return pa.table(
        {
            "age": chance.integers(0, 100, rows),
            "sex": chance.choice(["F", "M"], rows),
            "ward": chance.choice(["A", "B", "C", "D"], rows),
            "stay": stay,
            "drugs": stay + chance.poisson(3, rows),
            "diagnosis": diagnoses[code],
        }
    )


CODES: Mapping[str, list[str]] = {
    "code": ["J10", "J45", "T14", "E11", "G43", "I21"],
    "diagnosis": ["flu", "asthma", "injury", "diabetes", "migraine", "infarct"],
    "chapter": ["lung", "lung", "outside", "hormones", "nerves", "heart"],
}


def told(shape: Shape, release: Release) -> tuple[Outcome, str]:
    """What comes of a shape, and what is said."""

    try:
        answer = release.sql(shape.sql, attach={"codes": pa.table(CODES)})
    except QueryError as error:
        return "refused", str(error)
    return ("exact" if answer.method in (EXACT_METHOD, AS_PUBLISHED) else "estimated"), answer.note or ""


def open_release(folder: Path) -> Release:
    """The release to ask."""

    schema = Schema.of("diagnosis", ranges={"age": [0, 20, 40, 60, 120]}, public="*")
    request = Request(
        table(),
        schema=schema,
        spec=BreachBound("1/3", "3/4"),
        accept_disclosing=give_reasons(("stay", "drugs", "age", "sex", "ward")),
        **ALL_ACCEPTED,
    )
    return publish(request, folder / "release", unsafe_test_key=known_key(1)).release


def written(release: Release) -> str:
    """The table of shapes, as Markdown."""
    lines = []
    for family in dict.fromkeys(shape.family for shape in SHAPES):
        lines += [f"### {family[0].upper()}{family[1:]}", "", "| query | |", "|---|---|"]
        for shape in (each for each in SHAPES if each.family == family):
            outcome, said = told(shape, release)
            words = said if outcome == "refused" else outcome
            lines.append(f"| `{_escaped(shape.sql)}` | {_escaped(words)} |")
        lines.append("")
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def with_table(page: str, found: str) -> str:
    """A page with the table put into its place."""
    before, _, rest = page.partition(BEGINS)
    return f"{before}{BEGINS}\n\n{found}{ENDS}{rest.partition(ENDS)[2]}"


if __name__ == "__main__":
    with TemporaryDirectory() as made:
        opened = open_release(Path(made))
        if "--show" in sys.argv:
            for each in SHAPES:
                outcome, said = told(each, opened)
                mark = "  " if outcome == each.outcome else "!!"
                print(mark, outcome, "|", each.sql, "|", said if outcome == "refused" else "")
        else:
            PAGE.write_text(with_table(PAGE.read_text("utf-8"), written(opened)), "utf-8")
