"""Warns about literals in a query that never occur in the release.

A list of codes may contain codes that a release does not have. And `<> 'x'` is correct if no value is x. So such
literals are allowed. But a typo makes a count too small, so the answer mentions these literals.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlglot import exp

from sfumato._core.cell_values import Value, display, split_value
from sfumato._core.suggestions import MOST_COMPARED
from sfumato._query.duckdb_session import Session
from sfumato._query.estimate import NO_RECORDS
from sfumato._query.impossible_literals import AbsentValue
from sfumato._query.parser import range_comparisons
from sfumato._query.parser.allowed_sql import Tree
from sfumato._query.parser.range_comparisons import find_equalities
from sfumato._records.sql_quoting import RECORDS, quote_name, quote_text
from sfumato._release.manifest import Manifest

MOST_NAMED, MOST_SUGGESTED = 3, 100
"""The largest number of values that an answer names.

It is also the largest number of values per column with a suggestion, because suggestions take time.
"""
FIRST_ROWS = 1 << 16
"""The number of records to search first.

They are usually enough, because the files list a column's values at the start.
"""


@dataclass(frozen=True)
class _ListedColumn:
    """A protected column or one of its levels, whose values the release lists."""

    name: str
    values: Sequence[Value]
    comparable_values: frozenset[Value] | None
    """The strings or the numbers of the column. None for types with special comparison rules, such as dates."""

    @classmethod
    def of(cls, name: str, values: Sequence[Value]) -> _ListedColumn:
        present_values = frozenset(value for value in values if value is not None)
        is_plain = all(isinstance(value, str) for value in present_values) or all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in present_values
        )
        return cls(name, values, present_values if is_plain else None)

    def contains(self, literal: exp.Literal) -> bool:
        """Whether the literal is a value of the column. Also true if this cannot be decided."""
        if self.comparable_values is None or not self.comparable_values:
            return True
        if isinstance(next(iter(self.comparable_values)), str):
            return not literal.is_string or literal.name in self.comparable_values
        try:
            return float(literal.name) in self.comparable_values
        except ValueError:
            return True

    @cached_property
    def labels(self) -> list[str]:
        """The displayed forms of the values."""
        return [display(value) for value in dict.fromkeys(self.values)]


def check_literals(expression: Tree, session: Session) -> Tree:
    """Notes the missing literals of a resolved expression, and rewrites its comparisons with ranges."""
    note_absent_values(expression, session, range_comparisons.is_release_column)
    return range_comparisons.rewrite_by_ranges(expression, session.manifest.ranges)


def note_absent_values(tree: Tree, session: Session, is_own: Callable[[exp.Column], bool]) -> None:
    """Notes the literals that are compared with a column of the release but do not occur in this column."""
    literals_by_column: dict[str, dict[str, exp.Literal]] = {}
    for column, literal in find_equalities(tree):
        if is_own(column):
            literals_by_column.setdefault(column.name.lower(), {})[literal.name] = literal
    protected, public = (
        _list_protected_columns(session),
        list_text_columns(session.manifest) if literals_by_column else {},
    )
    for name, literals in literals_by_column.items():
        if name in public:
            texts = [literal_text for literal_text, literal in literals.items() if literal.is_string]
            session.absent_values += find_absent_values(session, public[name], texts)
        elif name in protected:
            listed_column = protected[name]
            session.absent_values += [
                AbsentValue(listed_column.name, literal_text, listed_column.labels, is_protected=True)
                for literal_text, literal in literals.items()
                if not listed_column.contains(literal)
            ]


def list_text_columns(manifest: Manifest) -> dict[str, str]:
    """The public string columns that are published unchanged, by their lower-case names."""
    names = [
        name
        for name in manifest.public_columns
        if name not in manifest.ranges and manifest.get_field(name).type == "string"
    ]
    return {name.lower(): name for name in names}


def _list_protected_columns(session: Session) -> dict[str, _ListedColumn]:
    """The protected columns and their levels, by their lower-case names. Columns in ranges are checked elsewhere."""
    manifest, cache = session.manifest, session.cache
    if "protected" not in cache:
        columns: dict[str, Sequence[Value]] = {
            name: [split_value(value)[number] for value in manifest.domain]
            for number, name in enumerate(manifest.sensitive_columns)
        }
        listed_columns = [
            _ListedColumn.of(name, values)
            for name, values in (columns | manifest.upper_levels).items()
            if name not in manifest.ranges
        ]
        cache["protected"] = {column.name.lower(): column for column in listed_columns}
    columns_by_name: dict[str, _ListedColumn] = cache["protected"]
    return columns_by_name


def find_absent_values(session: Session, name: str, texts: Collection[str]) -> list[AbsentValue]:
    """The given strings that no record has in a public column."""
    valid_texts = [candidate for candidate in texts if _is_text(candidate)]
    first = _read_first_values(session, name)
    present_texts = set(pc.filter(values := pa.array(valid_texts, pa.string()), pc.is_in(values, first)).to_pylist())
    if rest := [candidate for candidate in valid_texts if candidate not in present_texts]:
        listed = ", ".join(map(quote_text, rest))
        rows = session.fetch_rows(
            f"SELECT DISTINCT {quote_name(name)} FROM {RECORDS} WHERE {quote_name(name)} IN ({listed})"
        )
        present_texts |= {candidate for (candidate,) in rows}
    with session.explain_errors():
        examples: list[str] = first.slice(0, MOST_COMPARED).to_pylist() if len(present_texts) < len(texts) else []
    missing = [candidate for candidate in texts if candidate not in present_texts]
    return [
        AbsentValue(name, candidate, examples if number < MOST_SUGGESTED else (), is_protected=False)
        for number, candidate in enumerate(missing)
    ]


def _is_text(literal: str) -> bool:
    """Whether a string can be encoded. A lone surrogate cannot be encoded, and no record contains one."""
    try:
        literal.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_first_values(session: Session, name: str) -> pa.Array:
    """The values of a column in the first records. In a file that sfumato wrote, these are all values of the column."""
    key = f"first values of {name}"
    if key not in session.cache:
        first_values = pa.array([], pa.string())
        (path, *_) = session.manifest.list_data_paths(session.folder)
        with session.explain_errors(), pq.ParquetFile(path, read_dictionary=[name]) as file:
            for batch in file.iter_batches(FIRST_ROWS, columns=[name]):
                column = batch.column(0)
                values = column.dictionary if pa.types.is_dictionary(column.type) else column
                texts = values.cast(pa.string()).drop_null()
                first_values = texts if values is not column else texts.unique()
                break
        session.cache[key] = first_values
    cached_values: pa.Array = session.cache[key]
    return cached_values


def summarize_absent_values(absent_values: Iterable[AbsentValue]) -> str | None:
    """Joins the first sentences, each once. Adds the number of further values."""
    different = list({(value.column, value.text): value for value in absent_values}.values())
    sentences, more = [value.sentence for value in different[:MOST_NAMED]], len(different) - MOST_NAMED
    return " ".join([*sentences, *([f"A further {more:,} values do not exist."] if more > 0 else [])]) or None


def explain_absent_values(session: Session, *, is_empty: bool) -> str | None:
    """Notes on values that do not exist, and on an empty selection that no missing public value explains."""
    has_public_value = any(not value.is_protected for value in session.absent_values)
    return (
        " ".join(
            filter(
                None,
                [
                    summarize_absent_values(session.absent_values),
                    NO_RECORDS if is_empty and not has_public_value else None,
                ],
            )
        )
        or None
    )
