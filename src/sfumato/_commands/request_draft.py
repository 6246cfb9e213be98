"""Drafts a request file from the guessed roles of columns, with the decisions left to the data steward.

The file may be shown to others. The request file contains names of columns and remarks of `role_guessing`, but no value
and no count from the table.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sfumato._core.object_store import Address
from sfumato._core.small_text_files import TOML
from sfumato._figures.number_format import format_upper_percent
from sfumato._profile.role_guessing import ColumnGuess, TableGuess
from sfumato._profile.sensitive_column_signs import is_usually_protected
from sfumato._profile.untidy_values import Untidy
from sfumato._readers import tables_in_files
from sfumato._readers.read_options import POINT
from sfumato._readers.reader_registry import find_reader_of_address, hide_secrets
from sfumato._release.staging import check_outside
from sfumato._request.belief_bounds import propose_bound
from sfumato._request.schema import Role
from sfumato._terminal_safe import UNPRINTABLE, escape_unprintable
from sfumato.errors import SchemaError, SourceError, TargetError

WIDTH = 118
WIDEST_NAME = 60
"""Remarks are aligned in one column after names of up to this width."""
MOST_LIKELY = 5
"""The number of columns to suggest as sensitive."""
ANY_COLUMN = "COLUMN"
"""The placeholder for an unknown column name."""

# ------------------------------------------------------------------------------------------------------------- the text

ABOUT = """
How to publish {table}. sfumato init guessed everything below from the first rows of the table, so check each line. This
file contains names of columns, but no value and no count from the table.
"""
HOW_TO_READ = """
Lines that begin with "#" have no effect. DECIDE marks a decision that only you can make: read the text, remove the "# "
from one of the lines below it, and enter the right names or numbers for your table.
"""
OPTIONS = """
Every option of `sfumato publish` can stand here under its own name, with _ in place of -. Paths are relative to this
file. Options on the command line take precedence.
"""
DECIMAL = "Numbers seem to have a decimal comma:"
MISSING = "These strings mark a missing value, in every column:"
DOUBTFUL = """
Also found: {found}. If these texts mark missing values and are not ordinary values, use this line{instead}:
"""
SENSITIVE = """
DECIDE: which column must stay confidential, such as a diagnosis or an income? sfumato protects its values.{likely} If
you name a column that is also in a list below without a "#", remove it from that list.
"""
COMPOUND = """
DECIDE: how should sfumato protect these columns? With compound, it protects their combinations as if they were one
column. You must then list the possible values of each column in a file, see [domains] below. The alternative is decoys,
which protect each column separately, with a weaker guarantee. For decoys, replace the list compound by this line, and
prior by group_size = 3 (or more):
"""
ANY_PERSON = """
DECIDE: which column identifies the person of each row, such as a patient number? The guarantee is for persons with
one row. With this column, sfumato checks that nobody has two rows. The column itself is not published, and may stay
in the lists identifier and drop. Without such a column, you can state that each row is a different person. The
release prints your statement. Choose one of these lines:
"""
EACH_ROW = "# each_row_is_a_person = true"
PERSON = "Identifies the person of each row. It is not published."
SEVERAL_ROWS = """
DECIDE: persons have several rows, and every further row reveals more about the same person. You can publish one row of
each person: the first or the last row by a column such as a date, or a random row. Or you can publish up to K rows of
each person, and drop the other rows. The guarantee then covers the K rows together, and counts are less accurate.
Choose one of these four lines:
"""
ROWS_AT_RANDOM = '# rows_per_person = "2 at random"'
IDENTIFIER = "Names a person or a case. It is not published."
DROPPED = """
Also not published, because the column could identify a person, or has little content. To publish a column, move its
line to public. If the column is nearly unique and has no ranges below, also name it in the option keep to confirm this.
"""
PUBLIC = """
Published unchanged or in the ranges below, for everybody to see. Could one of these columns, or several together,
identify a person? Then move such a column to drop, or publish it in ranges. A column in no list is undecided, and
sfumato does not publish the table before you decide about it.
"""
UNDECIDED = """
DECIDE: a column marked with DECIDE looks sensitive, or discloses a column that may be sensitive. Remove the "#" of its
line to publish the column for everybody to see. Otherwise move it to drop, or name it in sensitive.
"""
RANGES = """
Ranges in which numbers and dates are published. [0, 20, 40] makes two ranges, from 0 to below 20 and from 20 to 40; inf
means no limit. Wider ranges make it harder to identify a person. The edges are round numbers,
not values of the table. Change the edges to suit your readers. A line for a column that is not published has no effect.
"""
DAYS = """
Dates are published in ranges unless you remove their line, because others may know the day of an admission.
"""
DOMAINS = """
Recommended: list all values that the sensitive column may have, in a file with one value on each line. Take the
values from a code book, not from the table; otherwise the release discloses which values occur. If the values have
groups, such as chapters of codes, use a section [hierarchies] with a CSV of code,chapter instead. Groups can then be
counted and published too.
"""
COMPOUND_DOMAINS = """
DECIDE: list all values that each of the protected columns may have, in a file with one value on each line. Take the
values from a code book, not from the table. A compound cannot be published without these files; for decoys, they are
recommended.
"""
PROMISE = """
DECIDE: how much may anyone learn about a person? With the two numbers below: anyone who thinks a statement about a
person's sensitive value at most {prior} likely (the prior) can think it at most {posterior} likely (the
posterior) after seeing that person's published value. A smaller posterior protects more, and makes counts less
accurate; `sfumato plan` shows by how much. The proposed numbers are larger if the sensitive column has few values, so
keep this file private. For another kind of protection, such as groups of decoys, remove the prior.
"""
RELEASE = "The place of the release, which is a new directory or a file that ends in .zip."
PLAN_FILE = """
A private file with the key of the release. With this file, publishing the same table again repeats the same release.
Without it, publishing again makes a second, different release, which weakens the protection. Keep the file where nobody
else can read it.
"""
NEXT_STEPS = "then check what would be published, and how accurate counts would be (this writes nothing), and publish:"


# ------------------------------------------------------------------------------------------------------------- the file


@dataclass(frozen=True)
class Draft:
    """A request file to complete."""

    text: str
    open_decisions: tuple[str, ...]
    """The open decisions, in words."""


def draft(
    guess: TableGuess, table: str, target: Path, sensitive: Sequence[str] = (), *, encoding: str = "utf-8"
) -> Draft:
    """Drafts the request file of a table. Some sensitive columns may be known."""
    names = [column.name for column in guess.columns]
    if unknown := next((name for name in sensitive if name not in names), None):
        raise SchemaError(
            f"the table has no column {unknown!r}; it has {', '.join(map(repr, names))}.",
            code="missing-column",
            fields={"column": unknown},
        )
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
        writer.write_public(),
        writer.write_ranges(),
        writer.write_domains(),
        writer.write_protection(),
        [
            "[output]",
            *format_remark(RELEASE),
            'out = "release"',
            *format_remark(PLAN_FILE),
            '# plan_file = "private.plan"',
        ],
    ]
    decisions = (*writer.open_decisions, "how much anyone may learn about a person (posterior)")
    name = escape_unprintable(shlex.quote(target.name))
    steps = [f"#   {number}. {decision}" for number, decision in enumerate(decisions, 1)]
    commands = [f"#   sfumato plan {name}", f"#   sfumato publish {name}"]
    parts.append(["# What to do next: decide", *steps, *format_remark(NEXT_STEPS), *commands])
    return Draft("\n\n".join("\n".join(part) for part in parts if part) + "\n", decisions)


def check_place(target: Path, *, force: bool) -> None:
    """Refuse a path without the ending of request files, and one that exists already."""
    if target.suffix.lower() != TOML:
        raise TargetError(
            f"the name of a request file has a fixed ending; choose a name that ends in {TOML}, not {str(target)!r}.",
            code="wrong-ending",
            fields={"file": str(target), "ending": TOML},
        )
    check_outside(target, "the request file")
    if os.path.lexists(target) and not force:
        raise TargetError(
            f"{str(target)!r} exists; choose another name with `out=`, or replace it with `force=True`.",
            code="target-exists",
            fields={"file": str(target)},
        )


# --------------------------------------------------------------------------------------------------------- formatting


def quote_toml(text: str) -> str:
    """A string in TOML syntax, on one line and without control characters."""
    quoted_text = json.dumps(text, ensure_ascii=False)
    return UNPRINTABLE.sub(lambda match: f"\\U{ord(match[0]):08X}", quoted_text)


def format_key(name: str) -> str:
    """The name of a column as a TOML key."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else quote_toml(name)


def format_table_path(table: str, target: Path) -> str:
    """The path of a table relative to its request file; addresses lose their user name and password."""
    if (address := Address.of(table, SourceError)) is not None:
        return str(address)
    if find_reader_of_address(table) is not None:
        return hide_secrets(table)
    bare = re.sub(r"(?<=://).*@", "", table)
    return bare if "://" in bare or os.path.isabs(bare) else os.path.relpath(bare, target.parent)


def _get_short_name(table: str) -> str:
    """The short name of a table."""
    return (
        Path(table).name
        if find_reader_of_address(table) is None
        else tables_in_files.split_table_name(table)[1] or table
    )


def format_remark(text: str, **values: str) -> list[str]:
    """A paragraph as a comment."""
    lines = textwrap.wrap(text.strip().format(**values), WIDTH, break_on_hyphens=False, break_long_words=False)
    return [f"# {line}" for line in lines]


def add_remarks(line: str, column: ColumnGuess) -> str:
    """A line of the file about a column, with its remarks."""
    return f"{line}  # {'; '.join(column.remarks)}" if column.remarks else line.rstrip()


def list_columns(columns: Sequence[ColumnGuess], undecided: Collection[ColumnGuess] = ()) -> Iterator[str]:
    """One line of a list for each column, with its remarks. The lines of undecided columns are comments."""
    names = [f"    {'# ' if column in undecided else ''}{quote_toml(column.name)}," for column in columns]
    width = max((len(name) for name in names if len(name) <= WIDEST_NAME), default=0)
    for column, name in zip(columns, names, strict=True):
        yield add_remarks(f"{name:{width}}", column)


def _explain_decision(column: ColumnGuess) -> str:
    """The remark beside a column that only the data steward can decide about."""
    return "DECIDE: looks sensitive" if column.may_be_sensitive else "DECIDE"


class _DraftWriter:
    """Writes the sections that follow from the guesses, and collects the open decisions."""

    def __init__(self, guess: TableGuess, sensitive: tuple[str, ...]) -> None:
        self.guess = guess
        self.sensitive = sensitive
        self.open_decisions: list[str] = []
        self.columns = [column for column in guess.columns if column.name not in sensitive]
        candidates = sorted(
            (column for column in self.columns if self._may_be_chosen(column)),
            key=lambda column: (column.role is not Role.PUBLIC, not is_usually_protected(column.name)),
        )
        self.likely_columns = [column.name for column in candidates][:MOST_LIKELY]
        self.example_column = next(iter((*sensitive, *self.likely_columns)), ANY_COLUMN)

    def _may_be_chosen(self, column: ColumnGuess) -> bool:
        """Whether the data steward may still name a column as the sensitive column."""
        can_be_protected = column.domain_size > 0 and Untidy.FREE_TEXT not in column.untidy_kinds
        return column.may_be_sensitive and can_be_protected and column.role is not Role.PERSON

    def is_undecided(self, column: ColumnGuess) -> bool:
        """Whether the draft gives a column no role, because it may be sensitive or disclose a sensitive column."""
        if column.role is Role.PUBLIC:
            return column.may_be_sensitive or column.discloses is not None
        return not self.sensitive and self._may_be_chosen(column)

    def select_columns(self, *roles: Role) -> list[ColumnGuess]:
        """The decided columns whose likely role is one of `roles`, except those known to be sensitive."""
        return [column for column in self.columns if column.role in roles and not self.is_undecided(column)]

    def write_missing(self) -> list[str]:
        """The markers of missing values."""
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
        """The sensitive columns."""
        sensitive_guesses = [column for column in self.guess.columns if column.name in self.sensitive]
        if len(sensitive_guesses) > 1:
            self.open_decisions.append("how to protect several columns (compound or decoys)")
            names = ", ".join(quote_toml(column.name) for column in sensitive_guesses)
            remark = [*format_remark(COMPOUND), f"# sensitive = [{names}]"]
            return [*remark, "# Protected:", "compound = [", *list_columns(sensitive_guesses), "]"]
        if self.sensitive:
            return ["# Protected:", "sensitive = [", *list_columns(sensitive_guesses), "]"]
        self.open_decisions.append("which column is sensitive")
        likely = (
            f" Judging by the name, it may be {' or '.join(map(quote_toml, self.likely_columns))}."
            if self.likely_columns
            else ""
        )
        return [*format_remark(SENSITIVE, likely=likely), f"# sensitive = {quote_toml(self.example_column)}"]

    def write_person(self) -> list[str]:
        """The person column, and the choice between several rows of a person."""
        person = next(iter(self.select_columns(Role.PERSON)), None)
        if person is None:
            self.open_decisions.append("which column identifies the person of each row")
            likely = [column.name for column in self.guess.columns if column.may_be_person] or [ANY_COLUMN]
            person_lines = [f"# person = {quote_toml(name)}" for name in likely[:MOST_LIKELY]]
            return [*format_remark(ANY_PERSON), *person_lines, EACH_ROW]
        lines = [*format_remark(PERSON), add_remarks(f"person = {quote_toml(person.name)}", person)]
        if not person.has_repeats:
            return lines
        self.open_decisions.append("what to do with several rows of a person")
        ordered = [
            column for column in self.select_columns(Role.IDENTIFIER, Role.DROPPED, Role.PUBLIC) if column.is_ordered
        ]
        # Times come first, then numbers that count cases, then numbers that measure something.
        first = min(ordered, key=lambda column: (not column.is_time, column.role is not Role.IDENTIFIER), default=None)
        order = first.name if first else ANY_COLUMN
        return [
            *(*lines, "", *format_remark(SEVERAL_ROWS)),
            f"# one_row = {quote_toml(f'first:{order}')}",
            f"# one_row = {quote_toml(f'last:{order}')}",
            '# one_row = "random"',
            ROWS_AT_RANDOM,
        ]

    def write_dropped(self) -> list[str]:
        """The columns that are not published."""
        lines: list[str] = []
        for name, explanation, role in (("identifier", IDENTIFIER, Role.IDENTIFIER), ("drop", DROPPED, Role.DROPPED)):
            if columns := self.select_columns(role):
                lines += [
                    *([""] if lines else []),
                    *format_remark(explanation),
                    f"{name} = [",
                    *list_columns(columns),
                    "]",
                ]
        return lines

    def write_public(self) -> list[str]:
        """The public columns, and the columns that may be public if the data steward decides so."""
        marked_columns = [
            replace(column, remarks=(_explain_decision(column), *column.remarks))
            if self.is_undecided(column)
            else column
            for column in self.columns
        ]
        undecided = [column for column in marked_columns if self.is_undecided(column)]
        listed = [column for column in marked_columns if column.role is Role.PUBLIC or column in undecided]
        if undecided:
            self.open_decisions.append("what to do with columns that look sensitive (DECIDE in the list public)")
        remarks = [*format_remark(PUBLIC), *(format_remark(UNDECIDED) if undecided else ())]
        return [*remarks, "public = [", *list_columns(listed, undecided), "]"]

    def is_ranged(self, column: ColumnGuess) -> bool:
        """Whether the ranges of a column apply if it is published, as for dates and nearly unique numbers."""
        return bool(column.edges) and (column.is_time or column.role is not Role.PUBLIC)

    def write_ranges(self) -> list[str]:
        """Ranges for numbers and dates."""
        columns = [column for column in self.guess.columns if column.edges]
        lines = [
            f"{'' if self.is_ranged(column) else '# '}{format_key(column.name)} = [{', '.join(column.edges)}]"
            for column in columns
        ]
        has_dates = any(column.is_ranged for column in self.select_columns(Role.PUBLIC))
        return (
            ["[ranges]", *format_remark(RANGES), *(format_remark(DAYS) if has_dates else ()), *lines] if lines else []
        )

    def write_domains(self) -> list[str]:
        """The lines for the declared values of the sensitive columns. Ranges declare them already."""
        names = self.sensitive or (self.example_column,)
        ranged = {column.name for column in self.guess.columns if self.is_ranged(column)}
        undeclared = [name for name in dict.fromkeys(names) if name not in ranged]
        if not undeclared:
            return []
        if len(set(names)) == 1:
            return ["[domains]", *format_remark(DOMAINS), f'# {format_key(undeclared[0])} = "values.txt"']
        self.open_decisions.append("which values the protected columns may have (files for the section domains)")
        lines = [f'# {format_key(name)} = "values-{number}.txt"' for number, name in enumerate(undeclared, 1)]
        return ["[domains]", *format_remark(COMPOUND_DOMAINS), *lines]

    def write_protection(self) -> list[str]:
        """The prior and the posterior, proposed from the number of values of the sensitive column."""
        names = self.sensitive or (self.example_column,)
        sizes = [
            len(column.edges) - 1 if self.is_ranged(column) else column.domain_size
            for column in self.guess.columns
            if column.name in names
        ]
        bound = propose_bound(math.prod(sizes) if sizes else None)
        prior, posterior = f"{float(bound.prior):.0%}", format_upper_percent(bound.posterior)
        remark = format_remark(PROMISE, prior=prior, posterior=posterior)
        return ["[protection]", *remark, f'prior = "{bound.prior}"', f'# posterior = "{bound.posterior}"']
