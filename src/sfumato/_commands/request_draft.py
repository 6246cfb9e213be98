"""A request file to begin with: what was guessed of a table, and what is left for its holder to decide.

The file may be shown to others. It holds the names of columns and what `role_guessing` says of them, which is no value
and no count of the table.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sfumato._core.object_store import Address
from sfumato._core.small_text_files import TOML
from sfumato._profile.role_guessing import ColumnGuess, TableGuess
from sfumato._readers import tables_in_files
from sfumato._readers.read_options import POINT
from sfumato._readers.reader_registry import find_reader_of_address, hide_secrets
from sfumato._release.staging import check_outside
from sfumato._request.schema import Role
from sfumato._terminal_safe import UNPRINTABLE, escape_unprintable
from sfumato.errors import SchemaError, SourceError, TargetError

WIDTH = 118
WIDEST_NAME = 60
"""Remarks stand in one column beside names up to this wide."""
MOST_LIKELY = 5
"""So many columns are named that may be sensitive."""
ANY_COLUMN = "COLUMN"
"""Stands for the name of a column that is not known."""

# ------------------------------------------------------------------------------------------------------------- the text

ABOUT = """
How {table} is to be published. sfumato init wrote this from a first look at the table: all of it is guessed, so check
it. It names columns, and holds no value and no count of the table.
"""
HOW_TO_READ = """
Lines that begin with "#" do nothing. What only you can decide is marked DECIDE: read what it says, take the "# " away
from a line below it, and put in what is right for your table.
"""
OPTIONS = """
Every option of `sfumato publish` can stand here by its name, with _ for -. Paths are relative to this file. The same
option on the command line wins.
"""
DECIMAL = "Numbers are written with a comma, it seems:"
MISSING = "These texts stand for a missing value, in every column:"
DOUBTFUL = """
Found as well: {found}. If they mean that a value is missing, and are no values of their own, use this line{instead}:
"""
SENSITIVE = """
DECIDE: which column holds what nobody shall learn about a person, such as a diagnosis or an income? Its values are
published protected.{likely} If it stands in a list below, take it out there.
"""
ANY_PERSON = """
DECIDE: which column says whose row it is (a patient number)? The promise is made to persons with one row; with this
line it is checked that nobody has two. The column itself is left out of the release. If it stands in a list below, take
it out there.
"""
PERSON = "Says whose row it is. It is left out of the release."
SEVERAL_ROWS = """
DECIDE: persons have several rows, and every further row tells more about the same person. Publish one row of each: the
first or the last by a column such as a date, or one at random. Or publish up to so many rows of each, under a promise
for all of them together that costs accuracy, and leave out the surplus. Choose one of the four:
"""
IDENTIFIER = "Names a person or a case. Left out of the release."
DROPPED = """
Left out too, because somebody could be recognised by it, or because it says little. To publish one all the same, take
it out of this list; one that is nearly unique then needs ranges in [ranges], or the option keep, which confirms it.
"""
PUBLIC = """
All other columns are published as they are, for everybody to see. Could somebody be recognised by one of them, or by
several together? Then add it to drop, or publish it in ranges.
"""
RANGES = """
Ranges in which numbers and dates are published: [0, 20, 40] makes two, from 0 to below 20 and from 20 to 40; inf is
without end. Wider ranges make it harder to recognise somebody. These are round numbers, not values of the table: change
them to what your readers need.
"""
DAYS = """
Days are put into ranges unless you say otherwise: a day on which somebody was admitted can be looked up elsewhere.
"""
DOMAINS = """
Recommended: all values that the sensitive column may have, in a file with one value a line. Take them from a code book
and not from the table: without this, the release tells which values occur in it. If the values lie in groups, as codes
in chapters, a section [hierarchies] names a CSV of code,chapter instead, and groups can be counted and published too.
"""
PROMISE = """
DECIDE: how much may anybody learn about a person? With the two numbers below: who gave a statement about a person's
sensitive value a chance of at most 1/10 before, gives it at most 1/3 after seeing the release. A smaller posterior
protects more and makes counts less accurate; sfumato plan shows by how much.
"""
RELEASE = "Where the release goes: a new directory, or a file that ends in .zip."
PLAN_FILE = """
A private file that keeps the key of the release. Publishing the same table again with it repeats the same release; a
second, different one would weaken the protection. Keep it where nobody else can read it.
"""
NEXT_STEPS = (
    "then look at what would be published, and how accurate counts would be (this writes nothing), and publish:"
)


# ------------------------------------------------------------------------------------------------------------- the file


@dataclass(frozen=True)
class Draft:
    """A request file to be completed."""

    text: str
    open_decisions: tuple[str, ...]
    """What is left to decide, in words."""


def draft(
    guess: TableGuess, table: str, target: Path, sensitive: Sequence[str] = (), *, encoding: str = "utf-8"
) -> Draft:
    """The request file of a table, in which some columns may be known to be sensitive."""
    names = [column.name for column in guess.columns]
    if unknown := next((name for name in sensitive if name not in names), None):
        raise SchemaError(f"the table has no column {unknown!r}; it has {', '.join(map(repr, names))}.")
    writer = _DraftWriter(guess, tuple(sensitive))
    read_as = [f"encoding = {quote_toml(encoding)}"] if encoding != "utf-8" else []
    if guess.decimal != POINT:
        read_as += [*format_remark(DECIMAL), f"decimal = {quote_toml(guess.decimal)}"]
    parts = [
        [
            *format_remark(ABOUT, table=quote_toml(_get_short_name(table))),
            "#",
            *format_remark(HOW_TO_READ),
            *format_remark(OPTIONS),
        ],
        ["[table]", f"path = {quote_toml(format_table_path(table, target))}", *read_as, *writer.write_missing()],
        ["[columns]", *writer.write_sensitive()],
        writer.write_person(),
        writer.write_dropped(),
        [*format_remark(PUBLIC), *list_columns(writer.select_columns(Role.PUBLIC), "#   ", "")],
        writer.write_ranges(),
        ["[domains]", *format_remark(DOMAINS), f'# {format_key(writer.example_column)} = "values.txt"'],
        ["[promise]", *format_remark(PROMISE), '# prior = "1/10"', '# posterior = "1/3"'],
        [
            "[output]",
            *format_remark(RELEASE),
            'out = "release"',
            *format_remark(PLAN_FILE),
            '# plan_file = "private.plan"',
        ],
    ]
    decisions = (*writer.open_decisions, "how much anybody may learn (prior and posterior)")
    name = escape_unprintable(shlex.quote(target.name))
    steps = [f"#   {number}. {decision}" for number, decision in enumerate(decisions, 1)]
    commands = [f"#   sfumato plan {name}", f"#   sfumato publish {name}"]
    parts.append(["# What to do next: decide", *steps, *format_remark(NEXT_STEPS), *commands])
    return Draft("\n\n".join("\n".join(part) for part in parts if part) + "\n", decisions)


def check_place(target: Path, *, force: bool) -> None:
    """Refuse a place for a request file where one would not be known as such, or replace something."""
    if target.suffix.lower() != TOML:
        raise TargetError(f"a request file is known by its ending: name one that ends in {TOML}, not {str(target)!r}.")
    check_outside(target, "the request file")
    if os.path.lexists(target) and not force:
        raise TargetError(f"{str(target)!r} exists; choose another name with `out=`, or replace it with `force=True`.")


# -------------------------------------------------------------------------------------------------- how things are said


def quote_toml(text: str) -> str:
    """A text as TOML writes it; nothing in it ends its line or steers a terminal."""
    quoted_text = json.dumps(text, ensure_ascii=False)
    return UNPRINTABLE.sub(lambda match: f"\\U{ord(match[0]):08X}", quoted_text)


def format_key(name: str) -> str:
    """The name of a column as a key."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else quote_toml(name)


def format_table_path(table: str, target: Path) -> str:
    """The path of a table as its request file says it: from where the file is, and without a name and password."""
    if (address := Address.of(table, SourceError)) is not None:
        return str(address)
    if find_reader_of_address(table) is not None:
        return hide_secrets(table)
    bare = re.sub(r"(?<=://).*@", "", table)
    return bare if "://" in bare or os.path.isabs(bare) else os.path.relpath(bare, target.parent)


def _get_short_name(table: str) -> str:
    """What a table is called for short."""
    return (
        Path(table).name
        if find_reader_of_address(table) is None
        else tables_in_files.split_table_name(table)[1] or table
    )


def format_remark(text: str, **values: str) -> list[str]:
    """A paragraph of comment."""
    lines = textwrap.wrap(text.strip().format(**values), WIDTH, break_on_hyphens=False, break_long_words=False)
    return [f"# {line}" for line in lines]


def add_remarks(line: str, column: ColumnGuess) -> str:
    """A line about a column, with all that is remarked of it."""
    return f"{line}  # {'; '.join(column.remarks)}" if column.remarks else line.rstrip()


def list_columns(columns: Sequence[ColumnGuess], before: str, after: str) -> Iterator[str]:
    """A line for each column, with all that is remarked of it."""
    names = [f"{before}{quote_toml(column.name)}{after}" for column in columns]
    width = max((len(name) for name in names if len(name) <= WIDEST_NAME), default=0)
    for column, name in zip(columns, names, strict=True):
        yield add_remarks(f"{name:{width}}", column)


class _DraftWriter:
    """Writes what follows from the guesses, and gathers what is left to decide."""

    def __init__(self, guess: TableGuess, sensitive: tuple[str, ...]) -> None:
        self.guess = guess
        self.sensitive = sensitive
        self.open_decisions: list[str] = []
        self.columns = [column for column in guess.columns if column.name not in sensitive]
        candidates = [column for column in self.select_columns(Role.PUBLIC, Role.DROPPED) if column.may_be_sensitive]
        self.likely_columns = [
            column.name for column in sorted(candidates, key=lambda column: column.role is Role.DROPPED)
        ][:MOST_LIKELY]
        self.example_column = next(iter((*sensitive, *self.likely_columns)), ANY_COLUMN)

    def select_columns(self, *roles: Role) -> list[ColumnGuess]:
        """The columns that may have one of some roles, beside those that are known to be sensitive."""
        return [column for column in self.columns if column.role in roles]

    def write_missing(self) -> list[str]:
        """What stands for a missing value."""
        sure_texts, doubtful_texts = (
            [quote_toml(text) for text in texts] for texts in (self.guess.missing_markers, self.guess.doubtful_markers)
        )
        lines = ["", *format_remark(MISSING), f"missing = [{', '.join(sure_texts)}]"] if sure_texts else []
        if doubtful_texts:
            instead = " instead of the one above" if sure_texts else ""
            lines += ["", *format_remark(DOUBTFUL, found=", ".join(doubtful_texts), instead=instead)]
            lines.append(f"# missing = [{', '.join([*sure_texts, *doubtful_texts])}]")
        return lines

    def write_sensitive(self) -> list[str]:
        """What is protected."""
        if self.sensitive:
            sensitive_guesses = [column for column in self.guess.columns if column.name in self.sensitive]
            return ["# Protected:", "sensitive = [", *list_columns(sensitive_guesses, "    ", ","), "]"]
        self.open_decisions.append("which column is sensitive")
        likely = (
            f" By its name, it may be {' or '.join(map(quote_toml, self.likely_columns))}."
            if self.likely_columns
            else ""
        )
        return [*format_remark(SENSITIVE, likely=likely), f"# sensitive = {quote_toml(self.example_column)}"]

    def write_person(self) -> list[str]:
        """Whose row it is, and what is done with several rows of a person."""
        person = next(iter(self.select_columns(Role.PERSON)), None)
        if person is None:
            self.open_decisions.append("which column says whose row it is")
            likely = [column.name for column in self.guess.columns if column.may_be_person] or [ANY_COLUMN]
            return [*format_remark(ANY_PERSON), *(f"# person = {quote_toml(name)}" for name in likely[:MOST_LIKELY])]
        lines = [*format_remark(PERSON), add_remarks(f"person = {quote_toml(person.name)}", person)]
        if not person.has_repeats:
            return lines
        self.open_decisions.append("what is done with several rows of a person")
        ordered = [
            column for column in self.select_columns(Role.IDENTIFIER, Role.DROPPED, Role.PUBLIC) if column.is_ordered
        ]
        # A time if there is one; else a number that counts cases, before one that measures something.
        first = min(ordered, key=lambda column: (not column.is_time, column.role is not Role.IDENTIFIER), default=None)
        order = first.name if first else ANY_COLUMN
        return [
            *(*lines, "", *format_remark(SEVERAL_ROWS)),
            f"# one_row = {quote_toml(f'first:{order}')}",
            f"# one_row = {quote_toml(f'last:{order}')}",
            '# one_row = "random"',
            *("# rows_per_person = 2  # and the next line", '# surplus = "drop"'),
        ]

    def write_dropped(self) -> list[str]:
        """Columns that are not published."""
        lines: list[str] = []
        for name, explanation, role in (("identifier", IDENTIFIER, Role.IDENTIFIER), ("drop", DROPPED, Role.DROPPED)):
            if columns := self.select_columns(role):
                lines += [
                    *([""] if lines else []),
                    *format_remark(explanation),
                    f"{name} = [",
                    *list_columns(columns, "    ", ","),
                    "]",
                ]
        return lines

    def write_ranges(self) -> list[str]:
        """Ranges for numbers and dates."""
        range_lines = [
            f"{format_key(column.name)} = [{', '.join(column.edges)}]" for column in self.guess.columns if column.edges
        ]
        active_starts = [
            f"{format_key(column.name)} = " for column in self.select_columns(Role.PUBLIC) if column.is_ranged
        ]
        lines = [line if line.startswith(tuple(active_starts)) else f"# {line}" for line in range_lines]
        return (
            ["[ranges]", *format_remark(RANGES), *(format_remark(DAYS) if active_starts else ()), *lines]
            if range_lines
            else []
        )
