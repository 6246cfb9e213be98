"""Drafts a request file from a first look at a table, as `sfumato init` does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from sfumato._commands.request_draft import check_place, draft
from sfumato._profile.role_guessing import TableGuess, guess_table
from sfumato._profile.sensitive_column_signs import Sign, find_sensitive_signs, is_usually_protected
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader_registry import find_reader_of_address
from sfumato._readers.tables_in_files import split_table_name
from sfumato._records.column_codes import CodedColumn
from sfumato._release.staging import place_file
from sfumato._request.schema import Role
from sfumato._risk.attackers.predictive_columns import find_predictive_columns


@dataclass(frozen=True)
class RequestDraft:
    """A written request file, and the decisions left to the data steward."""

    path: Path
    text: str
    open_decisions: tuple[str, ...]
    """The open decisions, in words."""
    guess: TableGuess
    """The likely role of each column."""


def init(
    table: str,
    out: str | Path = "request.toml",
    *,
    sensitive: Sequence[str] = (),
    read: ReadOptions = DEFAULT_READ_OPTIONS,
    force: bool = False,
) -> RequestDraft:
    """Write a draft of a request file: likely roles of the columns, and open decisions for the data steward.

    The file contains names of columns, but no value and no count from the table.
    """
    target = Path(out)
    if find_reader_of_address(table) is not None or Path(split_table_name(table)[0]).exists():
        check_place(target, force=force)  # first, because looking at the table takes long
    guess = guess_roles(table, sensitive, read)
    check_place(target, force=force)
    request_draft = draft(guess, table, target, sensitive, encoding=read.encoding)
    place_file(request_draft.text, target, "the request file", force=force)
    return RequestDraft(target, request_draft.text, request_draft.open_decisions, guess)


def guess_roles(table: str, sensitive: Sequence[str], read: ReadOptions) -> TableGuess:
    """Guess the roles of columns, and find columns that predict a sensitive or probably sensitive column."""
    guess, rows = guess_table(table, read=read)
    if sensitive:
        signs = find_sensitive_signs(*_select_coded(rows, sensitive))
        guess = guess.mark_sensitive([name for name, sign in signs.items() if sign in (Sign.FAMILY, Sign.VALUES)])
    column_names = rows.column_names
    likely_columns = [column.name for column in guess.columns if column.may_be_sensitive]
    likely_names = sensitive or sorted(likely_columns, key=is_usually_protected, reverse=True)[:1]
    for sensitive_name in (name for name in likely_names if name in column_names):
        others = [
            column.name
            for column in guess.select_roles(Role.PUBLIC)
            if column.name != sensitive_name and column.name in column_names
        ]
        guess = guess.mark_predictive(
            find_predictive_columns(rows, others, sensitive_name), sensitive_name, is_sure=bool(sensitive)
        )
    return guess


def _select_coded(rows: pa.Table, sensitive: Sequence[str]) -> tuple[list[CodedColumn], list[CodedColumn]]:
    """All columns of a table with their different values, and the sensitive ones among them."""
    columns = [
        CodedColumn(name, column.combine_chunks().unique().drop_null(), column.null_count > 0)
        for name, column in zip(rows.column_names, rows.columns, strict=True)
    ]
    return columns, [column for column in columns if column.name in sensitive]
