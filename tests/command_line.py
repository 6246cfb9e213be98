"""Running commands in a test: what they say, and what a command that fails must not do."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from typer.core import TyperGroup

from accepted import OPTIONS
from papers import command_line as papers
from sfumato.cli import app
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.mechanism import AnyMechanism

BOUND = ("--prior", "1/10", "--posterior", "1/2")
OPEN_BOUND = ("--prior", "1/1000000000", "--posterior", "999999999/1000000000")
"""So weak that no record of a small table is ever changed: estimates are the truth."""

GRADES = ("stop: ", "warning: ", "note: ")
WAY_OUT = " " * 6
"""The beginning of a way out below a stop."""
"""How a line of advice begins on standard error."""
GRADES_OF_DOCUMENTS = dict(zip(("STOP ", "WARN ", "NOTE "), GRADES, strict=True))
"""How it begins in a document."""

TEST_KEY = "5f" * 32
SCRIPT = "import sys; from sfumato.cli import main; main(sys.argv[1:])"
LIMITED = (
    "import resource, sys\n"
    "for what in (resource.RLIMIT_FSIZE, resource.RLIMIT_AS):\n"
    "    resource.setrlimit(what, (int(sys.argv.pop(1)),) * 2)\n" + SCRIPT
)


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """What it printed, on one line."""
        return " ".join(self.out.split())

    @property
    def notices(self) -> list[str]:
        """What it wants the holder to know."""
        lines = [line for line in self.err.splitlines() if line.startswith(GRADES)]
        shown = [line for line in self.out.splitlines() if line.startswith(tuple(GRADES_OF_DOCUMENTS))]
        return [*lines, *(GRADES_OF_DOCUMENTS[line[:5]] + line[5:] for line in shown)]


def run(
    *arguments: str | Path, program: Callable[[Sequence[str]], None] | None = None, is_decided: bool = True
) -> Outcome:
    """Run a command inside this process: of sfumato or another program, or of papers where its option is given.

    Unless the test says otherwise, other columns are public, and the risks that small tables always have are accepted.
    """
    if program is None:
        program = papers.main if "--as-published" in arguments else app.main
    out, err = io.StringIO(), io.StringIO()
    code: Any = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _program_built_once():
        try:
            program([*map(str, arguments), *(list_decisions(arguments) if is_decided else ())])
        except SystemExit as leaving:
            code = leaving.code
    return Outcome(code, out.getvalue(), err.getvalue())


def list_decisions(arguments: Sequence[str | Path]) -> Sequence[str]:
    """The decisions that a command lacks: about a table, and none if it only shows help or asks for counts."""
    command = str(arguments[0]) if arguments else ""
    has_table = command in ("plan", "compare", "publish") and not {"--help", "--counts"} & set(map(str, arguments))
    given = {str(argument).partition("=")[0] for argument in arguments}
    return [option for option in OPTIONS if option.partition("=")[0] not in given] if has_table else []


def _program_built_once() -> contextlib.AbstractContextManager[Any]:
    # To build the program takes longer than most commands, and only the mechanisms change it.
    return mock.patch.object(app, "build", return_value=_built(tuple(REGISTRY.items())))


@functools.cache
def _built(mechanisms: tuple[tuple[str, AnyMechanism], ...]) -> TyperGroup:
    return app.build()


def run_apart(*arguments: str | Path, largest_file: int = -1, most_memory: int = -1, **environment: str) -> Outcome:
    """Run a command in a process of its own, which may be forbidden to write large files or to take much memory."""
    limits = [str(largest_file), str(most_memory)]  # -1 is no limit
    decisions = list_decisions(arguments)
    # Without -B, Python would cut off the bytecode of what it compiles first there, and others would trip over it.
    ran = subprocess.run(
        [sys.executable, "-B", "-c", LIMITED, *limits, *map(str, arguments), *decisions],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(ran.returncode, ran.stdout, ran.stderr)


def succeed(*arguments: str | Path) -> Outcome:
    """Run a command that must succeed."""
    outcome = run(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome


def fail(folder: Path, *arguments: str | Path) -> str:
    """Run a command that must fail as every command fails, and return its one sentence."""
    before = content(folder)
    outcome = run(*arguments)
    sentence = complaint(outcome)
    assert outcome.notices == []
    assert content(folder) == before
    return sentence


def list_stops(*arguments: str | Path, is_decided: bool = True) -> list[dict[str, Any]]:
    """The decisions that a command asks for instead of publishing; it leaves nothing behind."""
    before = content(Path())
    outcome = run(*arguments, "--json", is_decided=is_decided)
    assert outcome.code == 2, outcome.err
    assert outcome.json["error"]["kind"] == "decision", outcome.err
    assert content(Path()) == before
    stops: list[dict[str, Any]] = outcome.json["error"]["stops"]
    return stops


def complaint(outcome: Outcome, code: int = 2) -> str:
    """The one sentence of a command that failed; notices may come before it, and machines are told the same."""
    assert outcome.code == code, (outcome.code, outcome.err)
    lines = [line for line in outcome.err.splitlines() if not line.startswith((*GRADES, WAY_OUT))]
    assert len(lines) == 1, outcome.err
    assert "Traceback" not in outcome.err
    assert lines[0].startswith("error: ")
    assert re.search(r"[^.](\.|\.{3})$", lines[0]), lines[0]
    sentence = lines[0].removeprefix("error: ")
    assert outcome.out == "" or outcome.json["error"]["message"].rstrip(".") == sentence.rstrip(".")
    return sentence


def content(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its bytes, hidden ones included; directories without."""
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def publishing(table: str | Path, *options: str, out: str | Path = "release") -> list[str]:
    """The arguments of a command that publishes a table of people (see `people`)."""
    return ["publish", str(table), "--out", str(out), "--sensitive", "disease", *BOUND, *options]


def people(rows: int = 60, /, **columns: Sequence[Any]) -> dict[str, list[Any]]:
    """A table of people in which no public column tells the disease; further columns repeat to its length."""
    table = {
        "age": [30 + 10 * (row % 4) for row in range(rows)],
        "sex": ["FM"[row % 2] for row in range(rows)],
        "disease": [("flu", "HIV", "cold", "asthma", "flu")[row // 4 % 5] for row in range(rows)],
    }
    for name, values in columns.items():
        table[name] = [values[row % len(values)] for row in range(rows)]
    return table


def write_csv(path: Path, table: Mapping[str, Sequence[Any]], **dialect: Any) -> Path:
    """Write a table as CSV; a missing value is an empty field."""
    write_csv_rows(path, [list(table), *zip(*table.values(), strict=True)], **dialect)
    return path


def write_csv_rows(path: Path, rows: Iterable[Sequence[Any]], encoding: str = "utf-8", **dialect: Any) -> None:
    """Write rows as CSV, the header among them."""
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, **dialect).writerows(rows)


def write_parquet(path: Path, table: Mapping[str, Any] | pa.Table) -> Path:
    """Write a table as Parquet."""
    pq.write_table(table if isinstance(table, pa.Table) else pa.table(dict(table)), path)
    return path
