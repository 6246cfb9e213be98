"""What a table must not be published with, and what its holder should know before publishing it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.columns import CodedColumn, PublishedColumn, RawColumn
from sfumato.csv_source import OVERSIZED
from sfumato.errors import SchemaError
from sfumato.histogram import Histogram
from sfumato.profile import MOST_VALUES, Association, ColumnProfile, Profile
from sfumato.schema import NullPolicy, Schema
from sfumato.spec import BreachBound
from sfumato.values import Value, display, field_type

LONGEST_VALUE = 1000
TELLING_SHARE = Fraction(1, 2)
NAMED_VALUES = 5


def check_types(schema: pa.Schema, columns: Iterable[str]) -> None:
    """Refuse published columns of a type that a table of people should not hold."""
    for name in columns:
        kind = schema.field(name).type
        if kind == OVERSIZED:
            raise SchemaError(
                f"column {name!r} holds whole numbers beyond 64 bits; read it as text (--text {name}) or drop it "
                f"(--drop {name})."
            )
        if not pa.types.is_null(kind) and field_type(kind) is None:
            raise SchemaError(
                f"column {name!r} is of type {kind}, which cannot be published; convert it to text, numbers or dates, "
                f"or drop it (--drop {name})."
            )


def check_rows(profile: Profile) -> None:
    """Refuse tables that are too small to protect anybody."""
    if profile.rows == 0:
        raise SchemaError("the table is empty: there is nothing to publish.")
    if profile.rows == 1:
        raise SchemaError(
            "the table has one row: its public columns alone point at one person, and cannot be protected."
        )


def published_columns(profile: Profile, schema: Schema) -> tuple[PublishedColumn, ...]:
    """Decide the canonical values of every published column, and refuse the columns that must not go out."""
    return tuple(_published(column, profile.rows, schema) for column in profile.columns.values())


def _published(column: ColumnProfile, rows: int, schema: Schema) -> PublishedColumn:
    is_sensitive = column.name == schema.sensitive
    if column.missing == rows:
        raise SchemaError(f"column {column.name!r} holds only missing values; drop it (--drop {column.name}).")
    if is_sensitive:
        _check_sensitive(column, schema)
    if column.name not in schema.confirmed:
        _check_alone(column, rows, is_sensitive=is_sensitive)
        _check_lines(column)
    _check_length(column)
    if column.is_wide:
        return RawColumn(column.name, column.type, column.missing > 0)
    if column.name in schema.bins:
        return CodedColumn(column.name, pa.array(schema.bins[column.name].labels), column.missing > 0)
    if column.name in schema.domains:
        return _declared(column, schema.domains[column.name])
    return CodedColumn(column.name, column.values, column.missing > 0)


def _check_sensitive(column: ColumnProfile, schema: Schema) -> None:
    if column.missing and schema.nulls is NullPolicy.ERROR:
        raise SchemaError(
            f"{column.missing} records have no {column.name!r}, and missing values were declared an error; "
            "treat them as a value (--nulls value) or leave them out (--nulls drop)."
        )
    if not _is_whole_microseconds(column.values):
        raise SchemaError(
            f"the sensitive column {column.name!r} holds times finer than a microsecond, which are no categories; "
            f"put it into bins (--bins {column.name}=2024-01-01,2025-01-01)."
        )
    is_number = pa.types.is_floating(column.type)
    if pa.types.is_decimal(column.type) or (is_number and pc.any(pc.is_inf(column.values)).as_py()):
        raise SchemaError(
            f"the sensitive column {column.name!r} holds decimals or infinite numbers, which are no categories; "
            f"put it into bins (--bins {column.name}=0,10,20)."
        )


def _is_whole_microseconds(values: pa.Array) -> bool:
    """Whether a domain can be written down: JSON and Python know times to the microsecond."""
    if not pa.types.is_timestamp(values.type) or values.type.unit != "ns":
        return True
    nanoseconds = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return not np.any(nanoseconds % 1000)


def _check_alone(column: ColumnProfile, rows: int, *, is_sensitive: bool) -> None:
    if column.is_wide:
        why = f"has more than {MOST_VALUES:,} different values"
    elif 2 * column.alone > rows:
        why = f"is nearly unique ({column.alone} of {rows} records are alone with their value)"
    else:
        return
    if is_sensitive:
        raise SchemaError(
            f"the sensitive column {column.name!r} {why}: it looks like an identifier or free text; group its values "
            f"first, or confirm it by name (--keep {column.name})."
        )
    raise SchemaError(
        f"column {column.name!r} {why}, so it points at persons: leave it out (--identifier {column.name}), coarsen it "
        f"(--bins), or confirm it by name (--keep {column.name})."
    )


def _check_lines(column: ColumnProfile) -> None:
    """A quote that a CSV file opens and does not close makes one value of many rows, with the names in them."""
    if pa.types.is_string(column.type) and pc.any(pc.match_substring_regex(column.values, "[\r\n]")).as_py():
        raise SchemaError(
            f"column {column.name!r} holds values with line breaks, as if a quote in a CSV file were not closed: "
            f"correct the table, drop the column (--drop {column.name}), or confirm it by name (--keep {column.name})."
        )


def _check_length(column: ColumnProfile) -> None:
    if pa.types.is_string(column.type) and (pc.max(pc.utf8_length(column.values)).as_py() or 0) > LONGEST_VALUE:
        raise SchemaError(
            f"column {column.name!r} holds values of more than {LONGEST_VALUE} characters: free text can name people; "
            f"drop it (--drop {column.name}) or shorten its values."
        )


def _declared(column: ColumnProfile, declared: Sequence[Value]) -> CodedColumn:
    domain = typed_domain(column, declared)
    outside = column.values.filter(pc.invert(pc.is_in(column.values, domain)))
    if len(outside):
        named = ", ".join(repr(display(value)) for value in outside[:NAMED_VALUES].to_pylist())
        more = f" and {len(outside) - NAMED_VALUES} more" if len(outside) > NAMED_VALUES else ""
        raise SchemaError(
            f"column {column.name!r} holds values outside its declared domain: {named}{more}; correct the table or "
            "add them to the domain."
        )
    if column.missing and None not in declared:
        raise SchemaError(
            f"{column.missing} records have no {column.name!r}, and its declared domain has no missing value; add an "
            "empty line to the domain file, or leave them out (--nulls drop)."
        )
    return CodedColumn(column.name, domain, None in declared)


def typed_domain(column: ColumnProfile, declared: Sequence[Value]) -> pa.Array:
    """The declared values in the type of the column; text from a domain file is converted."""
    present = [value for value in declared if value is not None]
    try:
        if all(isinstance(value, str) for value in present):
            domain = pa.array(present, type=pa.string()).cast(column.type)
        else:
            domain = pa.array(present, type=column.type)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise SchemaError(f"the domain of {column.name!r} holds a value that is no {column.type}.") from error
    if len(domain.unique()) != len(declared) - (None in declared):
        raise SchemaError(f"the domain of {column.name!r} names a value twice; name each value once.")
    return domain


def notices(
    histogram: Histogram, bound: BreachBound, schema: Schema, associations: Iterable[Association], dropped: int
) -> list[str]:
    """What the holder should know: private advice, never written into a release."""
    said = [*_dropped(dropped, schema), *_observed_domain(schema), *_frequent(histogram, bound, schema)]
    return [*said, *_telling(histogram, schema, associations)]


def _dropped(dropped: int, schema: Schema) -> list[str]:
    return [f"{dropped} records without a {schema.sensitive!r} were left out."] if dropped else []


def _observed_domain(schema: Schema) -> list[str]:
    if schema.sensitive in schema.domains or schema.sensitive in schema.bins:
        return []
    return [
        f"the domain of {schema.sensitive!r} was taken from the table, so the release tells which values occur; "
        f"declare it to avoid that (--domain {schema.sensitive}=FILE)."
    ]


def _frequent(histogram: Histogram, bound: BreachBound, schema: Schema) -> list[str]:
    frequent = histogram.above(bound.prior)
    if not frequent:
        return []
    named = ", ".join(repr(display(value)) for value in frequent[:NAMED_VALUES])
    more = f" and {len(frequent) - NAMED_VALUES} more" if len(frequent) > NAMED_VALUES else ""
    return [
        f"{named}{more} of {schema.sensitive!r} are more frequent than the prior {bound.prior}: whoever knows the "
        f"frequencies already believes these values more than the bound speaks of, so for them only the odds are "
        f"bounded (by a factor of {bound.amplification}); the other values are covered in full."
    ]


def _telling(histogram: Histogram, schema: Schema, associations: Iterable[Association]) -> list[str]:
    """Name public columns that nearly tell the sensitive value: publishing them undoes the protection."""
    said = []
    blind = Fraction(max(histogram.counts), histogram.total)
    for each in associations:
        if not each.is_complete:
            said.append(
                f"whether {each.column!r} tells {schema.sensitive!r} was not checked: the two have too many pairs of "
                "values."
            )
        # Half of the distance between guessing blindly and knowing for certain.
        elif each.share > blind + (1 - blind) * TELLING_SHARE:
            said.append(
                f"public column {each.column!r} nearly tells {schema.sensitive!r}: guessing from it alone is right for "
                f"{float(each.share):.0%} of the records (blindly: {float(blind):.0%}); drop or coarsen it, because no "
                "perturbation can hide what another column says."
            )
    return said
