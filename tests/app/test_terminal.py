"""What a table or a release says reaches a terminal as text alone, and values reach nobody but a terminal."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from rich.padding import Padding
from rich.table import Table

import sfumato
from command_line import (
    BOUND,
    SCRIPT,
    fail,
    people,
    publishing,
    run,
    succeed,
    write_csv,
    write_parquet,
)
from sfumato import BreachBound, Request, Schema, SourceError, publish
from sfumato._terminal_safe import UNPRINTABLE
from sfumato.cli import app
from sfumato.cli.render import GuardedConsole

CLEARING, TURNED, FORGED = "\x1b[2Jflu", "\u202eVIH", "cold\n│ HIV  │ 60 │"
COLUMN = "ward\x1b]0;owned\x07\u2066[red]"
SHOWN = "ward\\x1b]0;owned\\x07\\u2066[red]"


@pytest.fixture
def hostile(desk: Path) -> Path:
    """A table whose values and column names steer a terminal, turn letters around and forge lines."""
    table = people(disease=[each for each in (CLEARING, TURNED, FORGED, "\x9b31masthma") for _ in range(4)])
    table[COLUMN] = [("a\rb", "\x7f")[row % 2] for row in range(60)]
    return write_parquet(desk / "people.parquet", table)


def commands(table: Path) -> Iterator[list[str]]:
    """Every command that shows something of a table or of its release."""
    tell = ["plan", str(table), "--sensitive", "disease", *BOUND]
    yield tell
    yield publishing(table, "--force")
    yield ["info", "release"]
    yield ["query", "release", "SELECT *, COUNT(*) FROM release GROUP BY ALL"]
    yield ["query", "release", f'SELECT disease AS "n{TURNED}", COUNT(*) FROM release GROUP BY 1']
    yield ["query", "release", f"SELECT COUNT(*) FROM release WHERE disease = '{CLEARING}x'"]
    yield ["query", "release", "SELECT COUNT(*) FROM release WHERE nothing = 1"]
    yield ["query", "release", "--batch", "questions.csv"]
    yield ["verify", "release", "--original", str(table)]
    yield [*tell, "--domain", "disease=domain.txt"]
    yield [*tell, "--drop", "no\x1b[1m"]
    yield [*tell, "--\x1b[1m"]
    yield ["info", "no\x1b[1m"]


@pytest.mark.slow
def test_no_command_prints_what_steers_a_terminal(desk: Path, hostile: Path) -> None:
    (desk / "domain.txt").write_text("flu\n")
    write_csv(desk / "questions.csv", {"sql": [f'SELECT "{COLUMN}", COUNT(*) FROM release GROUP BY 1', "\x1b[1m"]})
    for command in commands(hostile):
        for more in ([], ["--json"]):
            outcome = run(*command, *more)
            assert outcome.code in {0, 2}, outcome.err
            for written in (outcome.out, outcome.err):
                assert not UNPRINTABLE.search(written.replace("\n", "")), command
            assert "Traceback" not in outcome.err


@pytest.mark.slow
def test_values_are_shown_as_escapes_and_in_json_as_they_are(hostile: Path) -> None:
    succeed(*publishing(hostile))
    assert SHOWN in succeed("info", "release").words
    sql = f'SELECT disease, "{COLUMN}", COUNT(*) FROM release GROUP BY ALL'
    shown = succeed("query", "release", sql).out
    for escaped in (r"\x1b[2Jflu", r"\u202eVIH", r"\x9b31masthma", r"a\rb", r"\x7f"):
        assert escaped in shown
    narrow = "SELECT disease, COUNT(*) FROM release GROUP BY 1"
    assert r"│ cold\n│ HIV  │ 60 │ " in succeed("query", "release", narrow).out
    answer = succeed("query", "release", sql, "--json").json
    assert {row["disease"] for row in answer["rows"]} == {CLEARING, TURNED, FORGED, "\x9b31masthma"}
    assert COLUMN in answer["columns"]


def test_console_guards_what_nobody_thought_of() -> None:
    out = io.StringIO()
    console, table = GuardedConsole(file=out), Table("a\x1b[1m")
    table.add_row("\u202eb")
    for each in (table, "[bold]c[/bold]\x9b\nd", Padding("e\r", 1)):
        console.print(each)
    assert not UNPRINTABLE.search(out.getvalue().replace("\n", ""))
    assert "c\\x9b\nd\n" in out.getvalue()


def test_path_with_what_steers_a_terminal_is_shown_as_an_escape(desk: Path) -> None:
    table = write_csv(desk / "people.csv", people())
    assert r"written to re[b]\x1b[2J" in succeed(*publishing(table, out="re[b]\x1b[2J")).out


# ------------------------------------------------------------------------------------------------- values of the table


def outside(desk: Path) -> list[str]:
    """A command that fails because the table holds values that were not declared."""
    table = write_csv(desk / "people.csv", people(disease=["flu", "cold", "HIV"]))
    (desk / "domain.txt").write_text("flu\n")
    return publishing(table, "--domain", "disease=domain.txt")


COUNTED = "column 'disease' holds 2 values outside its declared domain; correct the table or add them to the domain."


def test_error_counts_values_where_nobody_looks(desk: Path) -> None:
    assert fail(desk, *outside(desk)) == COUNTED


NAMED = COUNTED.replace("2 values", "values").replace("domain;", "domain: 'HIV', 'cold';")


class Terminal(io.StringIO):
    """A terminal that somebody looks at."""

    def isatty(self) -> bool:
        return True


def test_error_names_values_on_a_terminal_and_not_to_machines(desk: Path) -> None:
    out, err = io.StringIO(), Terminal()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit):
        app.main([*outside(desk), "--json"])
    assert NAMED in err.getvalue()
    error = json.loads(out.getvalue())["error"]
    assert (error["kind"], error["message"]) == ("schema", COUNTED)


def test_log_is_no_terminal_whatever_colours_are_forced_upon_it(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(app, "err", GuardedConsole(stderr=True))
    assert app.err.is_terminal
    assert COUNTED in run(*outside(desk)).err


@pytest.mark.slow
@pytest.mark.full
def test_error_names_values_on_a_real_terminal(desk: Path) -> None:
    there, terminal = os.openpty()
    ran = subprocess.run([sys.executable, "-c", SCRIPT, *outside(desk)], stderr=terminal, check=False)
    os.close(terminal)
    with os.fdopen(there, "rb", buffering=0) as looked_at:
        assert NAMED in looked_at.read(10_000).decode().replace("\r\n", "\n")
    assert ran.returncode == 2


def test_traceback_of_a_table_that_cannot_be_read_repeats_no_row(desk: Path) -> None:
    """What Arrow says of a row that it cannot read repeats the row, and a traceback shows what was raised before."""
    rows = ["age,disease", *["30,flu"] * 30]
    (desk / "long.csv").write_text("\n".join([*rows, "30,Zelenka,HIV"]))
    mixed = pd.DataFrame({"age": [30, "Zelenka", 2.5] * 20, "disease": ["flu", "HIV", 1] * 20})
    for table in (desk / "long.csv", mixed):
        with pytest.raises(SourceError) as caught:
            publish(Request(table, schema=Schema.of("disease"), spec=BreachBound("1/10", "1/2")), "release")
        shown = "".join(traceback.format_exception(caught.value))
        assert "Zelenka," not in shown
        assert "Error: Could not convert" not in shown
        assert caught.value.__suppress_context__


SEEING = (
    *(
        "_profile/",
        "_readers/",
        "_engines/",
        "_perturb/",
        "mechanisms/",
        "_planning/",
        "_records/",
        "_verify/",
        "_risk/",
        "_publish/",
    ),
)
"""The modules that see values of the table; what they raise must keep them apart from the sentence."""


def naming(tree: ast.AST) -> list[int]:
    """The lines that raise an error whose sentence names values, and not only its twin for a terminal."""
    return [
        raised.lineno
        for raised in ast.walk(tree)
        if isinstance(raised, ast.Raise) and isinstance(raised.exc, ast.Call) and isinstance(raised.exc.func, ast.Name)
        for each in ast.walk(ast.List(raised.exc.args))
        if isinstance(each, ast.Name) and each.id in {"display", "listed"}
    ]


def test_no_sentence_of_an_error_names_values_of_the_table() -> None:
    root = Path(sfumato.__file__).parent
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.relative_to(root).as_posix().startswith(SEEING) and ("display(" in text or "listed(" in text):
            assert naming(ast.parse(text)) == [], path


def test_sentence_that_names_values_would_be_found() -> None:
    assert naming(ast.parse("raise SchemaError(f'there is {listed(found)}')")) == [1]
    assert naming(ast.parse("raise SchemaError('there is one', with_values=listed(found))")) == []
