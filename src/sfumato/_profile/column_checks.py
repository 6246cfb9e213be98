"""Checks that columns may be published, and lists their canonical values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import display, find_field_type
from sfumato._core.small_text_files import LONGEST_VALUE
from sfumato._profile.declared_domains import make_outside_domain_error, make_typed_domain
from sfumato._profile.ranges import is_orderable
from sfumato._profile.table_profile import FEW_RECORDS, MOST_BYTES, MOST_VALUES, ColumnProfile, Profile
from sfumato._profile.untidy_values import is_free_text
from sfumato._readers.type_inference import OVERSIZED, has_decimal_commas, has_thousands_separators
from sfumato._records.column_codes import CodedColumn, RawColumn, SensitiveColumns, TableColumn
from sfumato._request.schema import MergedValues, NullPolicy, Schema
from sfumato.errors import ErrorField, SchemaError

MANY_VALUES = 1000
"""A column with more values than this is also nearly unique if most records share their value with very few others.
"""

FEW_NUMBERS = 20
"""A column with up to this many different numbers may hold codes, for example of a survey.

A column with more different numbers holds quantities.
"""

INIT_PROPOSES_RANGES = ", which `sfumato init` proposes,"


def check_types(schema: pa.Schema, columns: Iterable[str]) -> None:
    """Refuse published columns of a type that a table of people should not hold."""
    for name in columns:
        kind = schema.field(name).type
        if kind == OVERSIZED:
            raise SchemaError(
                f"column {name!r} holds whole numbers beyond 64 bits; read it as text (`text={[name]!r}`) or drop "
                f"it (`drop={[name]!r}`).",
                code="numbers-too-large",
                fields={"column": name},
            )
        if not pa.types.is_null(kind) and find_field_type(kind) is None:
            raise SchemaError(
                f"column {name!r} is of type {kind}, which cannot be published; convert it to text, numbers or dates, "
                f"or drop it (`drop={[name]!r}`).",
                code="unpublishable-type",
                fields={"column": name, "type": str(kind)},
            )


def check_compound(schema: Schema) -> None:
    """Refuse a compound whose columns have no declared values, because many combinations occur for one person only."""
    undeclared = schema.list_undeclared()
    if schema.compound and undeclared:
        files = ", ".join(f"{name!r}: Path('FILE')" for name in undeclared)
        raise SchemaError(
            f"the columns of the compound {schema.sensitive_name!r} need declared values, because a combination that "
            f"occurs may be one person's; list the possible values of each in a file (`domains={{{files}}}`).",
            code="combinations-undeclared",
            fields={"column": undeclared[0]},
        )


def check_rows(profile: Profile) -> None:
    """Refuse tables that are too small to protect anyone."""
    if profile.rows == 0:
        raise SchemaError("the table is empty: there is nothing to publish.", code="empty-table")
    if profile.rows == 1:
        raise SchemaError(
            "the table has one row, so its public columns identify one person, and it cannot be protected.",
            code="one-row-table",
        )


def check_lines(profile: Profile, schema: Schema) -> None:
    """Refuse line breaks in CSV. An unclosed quote turns many rows, and the names in them, into one value."""
    for column in profile.columns.values():
        if column.has_line_breaks and column.name not in schema.confirmed_columns:
            raise SchemaError(
                f"column {column.name!r} holds values with line breaks, so a quote may be unclosed. Correct the "
                f"table, drop the column (`drop={[column.name]!r}`), or confirm it by name (`keep={[column.name]!r}`).",
                code="line-breaks",
                fields={"column": column.name},
            )


def decide_table_columns(profile: Profile, schema: Schema) -> tuple[TableColumn, ...]:
    """Determine the canonical values of every published column, and refuse columns that must not be published."""
    together = {schema.sensitive_name} if schema.combined_columns else set()
    return tuple(
        _make_published_column(column, profile.rows, schema)
        for name, column in profile.columns.items()
        if name not in together
    )


def decide_sensitive_domain(
    profile: Profile, schema: Schema, columns: Sequence[TableColumn], most_combinations: int
) -> SensitiveColumns:
    """The sensitive columns with their domain.

    A compound has all combinations of its declared values. Columns that are protected separately have all combinations
    of their values; there may be up to `most_combinations` of them.
    """
    by_name = {column.name: column for column in columns}
    part_columns = []
    for name in schema.sensitive_columns:
        column = by_name[name]
        if not isinstance(column, CodedColumn):
            raise SchemaError(
                f"the sensitive column {name!r} has too many values to be protected; group them first.",
                code="too-many-values",
                fields={"column": name},
            )
        part_columns.append(column)
    parts = tuple(part_columns)
    if not schema.combined_columns:
        return SensitiveColumns.of_column(parts[0])
    sensitive = SensitiveColumns(schema.sensitive_name, parts, schema.is_independent)
    if schema.is_independent:
        if sensitive.size > most_combinations:
            raise SchemaError(
                f"the sensitive columns have {sensitive.size:,} possible combinations, too many to count; group their "
                "values first, or publish fewer columns.",
                code="too-many-combinations",
                fields={"combinations": sensitive.size},
            )
    elif sensitive.size > MOST_VALUES:
        raise SchemaError(
            f"the compound {schema.sensitive_name!r} has {sensitive.size:,} possible combinations, too many to be "
            "protected; group the values of its columns first, or remove a column from it.",
            code="too-many-combinations",
            fields={"column": schema.sensitive_name, "combinations": sensitive.size},
        )
    return sensitive


def merge_in_schema(schema: Schema, rare: Mapping[str, MergedValues], columns: Sequence[TableColumn]) -> Schema:
    """The same schema with rare values merged. A declared domain has their label in place of the rare values."""
    kinds = {column.name: column.type for column in columns}
    domains = dict(schema.domains)
    for name, merged in rare.items():
        if name in schema.ranges:
            raise SchemaError(
                f"rare values of {name!r} cannot be merged, because it has ranges; make the ranges wider.",
                code="cannot-merge-values",
                fields={"column": name, "because": "ranges"},
            )
        if name in schema.hierarchies:
            raise SchemaError(
                f"rare values of {name!r} cannot be merged, because it has a hierarchy; merge rare values or give a "
                "hierarchy, not both.",
                code="cannot-merge-values",
                fields={"column": name, "because": "hierarchy"},
            )
        if merged.label is not None and not pa.types.is_string(kinds[name]):
            raise SchemaError(
                f"rare values of {name!r} cannot be merged, because they are not text; suppress them "
                "(`rare='suppress'`).",
                code="cannot-merge-values",
                fields={"column": name, "because": "not text"},
            )
        if name in domains:
            remaining_values = [value for value in domains[name] if display(value) not in map(display, merged.values)]
            domains[name] = (*remaining_values, *([merged.label] if merged.label not in remaining_values else []))
    return replace(schema, domains=domains, merged_values=dict(rare))


def _make_published_column(column: ColumnProfile, rows: int, schema: Schema) -> TableColumn:
    is_sensitive = column.name in schema.sensitive_columns
    if column.missing == rows:
        raise SchemaError(
            f"column {column.name!r} holds only missing values; drop it (`drop={[column.name]!r}`).",
            code="only-missing-values",
            fields={"column": column.name},
        )
    if not _is_whole_microseconds(column.values):
        raise SchemaError(
            f"column {column.name!r} holds times finer than a microsecond, which are not categories; group them "
            f"into ranges (`ranges={{{column.name!r}: ...}}`), or round them.",
            code="times-too-fine",
            fields={"column": column.name},
        )
    if is_sensitive:
        _check_sensitive(column, schema)
    _check_uniqueness(column, rows, schema)
    _check_length(column)
    if column.is_wide:
        return RawColumn(column.name, column.type, column.missing > 0)
    if column.name in schema.ranges:
        # The policy decides, not the records, because the domain must not show whether a person's value is missing.
        has_missing = schema.nulls is NullPolicy.VALUE if is_sensitive else column.missing > 0
        return CodedColumn(column.name, pa.array(schema.ranges[column.name].labels), has_missing)
    if column.name in schema.domains:
        return _make_declared_column(column, schema)
    return CodedColumn(column.name, column.values, column.missing > 0)


def _check_sensitive(column: ColumnProfile, schema: Schema) -> None:
    if column.missing and schema.nulls is NullPolicy.ERROR:
        raise SchemaError(
            f"{column.missing} records have no {column.name!r}, and the option `nulls='error'` refuses missing "
            "values; treat them as a value (`nulls='value'`) or drop these records (`nulls='drop'`).",
            code="missing-values",
            fields={"column": column.name, "records": column.missing},
        )
    is_undeclared = column.name in schema.list_undeclared() and column.name not in schema.confirmed_columns
    if is_undeclared and is_free_text(column.values, column.counts):
        raise SchemaError(
            f"the sensitive column {column.name!r} looks like free text, and each of its texts would be listed in the "
            f"release; replace them by codes, or list the possible values (`domains={{{column.name!r}: "
            f"Path('FILE')}}`).",
            code="free-text-undeclared",
            fields={"column": column.name},
        )
    if column.name in schema.list_undeclared() and _has_many_numbers(column):
        raise SchemaError(
            f"the sensitive column {column.name!r} holds numbers, and each of them would be listed in the release; "
            f"publish them in ranges (`ranges={{{column.name!r}: [0, 10, 20]}}`){INIT_PROPOSES_RANGES} or "
            f"list the possible values (`domains={{{column.name!r}: Path('FILE')}}`).",
            code="numbers-undeclared",
            fields={"column": column.name},
        )
    is_number = pa.types.is_floating(column.type)
    if pa.types.is_decimal(column.type) or (is_number and pc.any(pc.is_inf(column.values)).as_py()):
        raise SchemaError(
            f"the sensitive column {column.name!r} holds decimals or infinite numbers, which are not categories; "
            f"group them into ranges (`ranges={{{column.name!r}: ['-inf', 0, 10, 20, 'inf']}}`).",
            code="sensitive-decimals",
            fields={"column": column.name},
        )


def _has_many_numbers(column: ColumnProfile) -> bool:
    """Whether a column holds quantities or times, because it has more different values than a list of codes."""
    return not pa.types.is_string(column.type) and len(column.values) > FEW_NUMBERS


def _is_whole_microseconds(values: pa.Array) -> bool:
    """Whether JSON can store the values. JSON stores times to the microsecond."""
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return True
    nanoseconds = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return not np.any(nanoseconds % 1000)


def explain_uniqueness(column: ColumnProfile, rows: int, rows_each: int = 1) -> str | None:
    """The reason why the values of a column identify persons, who have up to `rows_each` rows. None if they do not."""
    if column.is_wide:
        return f"has more than {MOST_VALUES:,} different values or {MOST_BYTES >> 20} MiB of different text"
    present_rows, unique_rows, nearly_unique = (
        rows - column.missing,
        column.count_unique(rows_each),
        column.count_nearly_unique(rows_each),
    )
    if 2 * unique_rows > present_rows:
        are_unique = "that no other record has" if rows_each == 1 else "that perhaps no other person has"
        return f"is nearly unique ({unique_rows:,} of {present_rows:,} records have a value {are_unique})"
    if len(column.values) > MANY_VALUES and 2 * nearly_unique > present_rows:
        most = (FEW_RECORDS - 1) * rows_each - 1
        return (
            f"is nearly unique ({nearly_unique:,} of the {present_rows:,} records that have a value share it with at "
            f"most {most} others)"
        )
    return None


def _list_uniqueness_facts(column: ColumnProfile, rows: int, rows_each: int) -> dict[str, ErrorField]:
    """The counts that show whether the values of a column identify persons."""
    if column.is_wide:
        return {"column": column.name, "most_values": MOST_VALUES}
    return {
        "column": column.name,
        "records": rows - column.missing,
        "unique": column.count_unique(rows_each),
        "nearly_unique": column.count_nearly_unique(rows_each),
    }


def _check_uniqueness(column: ColumnProfile, rows: int, schema: Schema) -> None:
    if column.name in schema.confirmed_columns:
        return
    if (why := explain_uniqueness(column, rows, schema.person_rows.max_rows)) is None:
        return
    facts = _list_uniqueness_facts(column, rows, schema.person_rows.max_rows)
    if column.name in schema.sensitive_columns:
        raise SchemaError(
            f"the sensitive column {column.name!r} {why}: it looks like an identifier or free text; group its values "
            f"first, or confirm it by name (`keep={[column.name]!r}`).",
            code="sensitive-identifier",
            fields=facts,
        )
    if pa.types.is_string(column.type) and has_decimal_commas(column.values):
        raise SchemaError(
            f"column {column.name!r} {why}, and looks like numbers with a decimal comma. If the table is a CSV "
            f"file, confirm this (`decimal=','`) and group the numbers into ranges "
            f"(`ranges={{{column.name!r}: ...}}`). Or drop the column (`drop={[column.name]!r}`).",
            code="decimal-commas",
            fields=facts,
        )
    if pa.types.is_string(column.type) and has_thousands_separators(column.values):
        raise SchemaError(
            f"column {column.name!r} {why}, and looks like numbers with separators of thousands. Remove the separators "
            f"in the table, and group the numbers into ranges (`ranges={{{column.name!r}: ...}}`). Or drop the column "
            f"(`drop={[column.name]!r}`)."
        )
    has_ranges = is_orderable(column.type)
    coarsen = f"To publish ranges of its values: `ranges={{{column.name!r}: ...}}`. " if has_ranges else ""
    leave_out = f"`identifier={[column.name]!r}`"
    roles = (
        f"If each value stands for one person: `person={column.name!r}`. If not: {leave_out}. "
        if schema.person_column is None
        else f"Do not publish it: {leave_out}. "
    )
    raise SchemaError(
        f"column {column.name!r} {why}, so it identifies persons. {roles}{coarsen}To publish it unchanged: "
        f"`keep={[column.name]!r}`.",
        code="nearly-unique",
        fields=facts,
    )


def _check_length(column: ColumnProfile) -> None:
    if column.max_length > LONGEST_VALUE:
        raise SchemaError(
            f"column {column.name!r} holds values of more than {LONGEST_VALUE} characters, and free text can name "
            f"people; drop it (`drop={[column.name]!r}`) or shorten its values.",
            code="values-too-long",
            fields={"column": column.name, "longest": LONGEST_VALUE},
        )


def _make_declared_column(column: ColumnProfile, schema: Schema) -> CodedColumn:
    declared, is_hierarchy = schema.get_published_domain(column.name), column.name in schema.hierarchies
    domain = make_typed_domain(column.name, declared, is_text=pa.types.is_string(column.type))
    outside = column.values.filter(pc.invert(pc.is_in(column.values, domain)))
    if len(outside):
        raise make_outside_domain_error(column.name, outside, "hierarchy" if is_hierarchy else "domain")
    if column.missing and None not in declared:
        line = (
            "a line with a group and no value (,GROUP) to the hierarchy"
            if is_hierarchy
            else ("an empty line to the domain file")
        )
        raise SchemaError(
            f"{column.missing} records have no {column.name!r}, and its declared domain has no missing value; add "
            f"{line}, or drop these records (`nulls='drop'`).",
            code="missing-value-outside-domain",
            fields={"column": column.name, "records": column.missing},
        )
    if column.name not in schema.sensitive_columns:
        # The remedy is a line in a file, because these files list the values of a column.
        domain = domain.filter(pc.is_in(domain, column.values))
    return CodedColumn(column.name, domain, None in declared)
