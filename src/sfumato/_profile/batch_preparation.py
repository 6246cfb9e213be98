"""Prepares each batch of the table before anything is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import simplify_type
from sfumato._profile.declared_domains import cast_column_to_domain, replace_by_groups
from sfumato._profile.ranges import assign_bins
from sfumato._records.column_codes import combine_as_json, decode_dictionary, encode_batch_values
from sfumato._request.schema import MergedValues, NullPolicy, Schema
from sfumato.errors import SchemaError


@dataclass(frozen=True)
class Preparation:
    """Prepares a batch before anything is counted.

    Replaces values by their ranges, by their groups or by the type of their domain. Not-a-number becomes a missing
    value. Records without a sensitive value may be dropped.
    """

    schema: Schema
    columns: tuple[str, ...]
    domains: Mapping[str, pa.Array] = field(default_factory=dict)
    """The values of columns whose type does not come from the table."""
    groups: Mapping[str, pa.Array] = field(default_factory=dict)
    """For columns published at a level: the group of each value of the domain, and of the missing value."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Prepare one batch."""
        return self.prepare_rows(self.filter_rows(batch))

    def filter_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that are not dropped."""
        if self.schema.nulls is NullPolicy.DROP:
            for name in self.schema.sensitive_columns:
                is_missing = pc.is_null(decode_dictionary(batch.column(name)), nan_is_null=True)
                batch = batch.filter(pc.invert(is_missing))
        return batch

    def prepare_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Prepare the rows that remain after `filter_rows`."""
        arrays = [self._prepare_column(name, batch.column(name)) for name in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def append_compound(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the combinations of several sensitive columns to a prepared batch, so that they can be counted."""
        compound_columns = self.schema.combined_columns
        if not compound_columns:
            return batch
        return batch.append_column(
            self.schema.sensitive_name, combine_as_json([batch.column(name) for name in compound_columns])
        )

    def _prepare_column(self, name: str, column: pa.Array) -> pa.Array:
        if pa.types.is_floating(simplify_type(column.type)):
            column = _normalize_numbers(decode_dictionary(column))
        if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
            _check_calendar(column, name)
        if name in self.domains:
            column = cast_column_to_domain(column, self.domains[name], name)
        if name in self.groups:
            column = replace_by_groups(column, self.domains[name], self.groups[name], name)
        bins = self.schema.ranges.get(name)
        if bins:
            column = assign_bins(column, bins, name)
        rare = self.schema.merged_values.get(name)
        return merge_values(column, rare) if rare else column

    def derive_types(self, source: pa.Schema) -> pa.Schema:
        """The types of the prepared columns, and of their combinations."""
        kinds = {name: domain.type for name, domain in self.domains.items()}
        kinds |= dict.fromkeys((*self.schema.ranges, *self.groups), pa.string())
        fields = [(name, kinds.get(name, source.field(name).type)) for name in self.columns]
        return pa.schema(
            [*fields, *([(self.schema.sensitive_name, pa.string())] if self.schema.combined_columns else [])]
        )


def _normalize_numbers(column: pa.Array) -> pa.Array:
    """Gives equal numbers one spelling. Zero loses its sign, and not-a-number becomes missing."""
    column = pc.add(column, pa.scalar(0.0, column.type))
    is_nan = pc.is_nan(column)
    return pc.if_else(is_nan, pa.scalar(None, column.type), column) if pc.any(is_nan).as_py() else column


def _check_calendar(column: pa.Array, name: str) -> None:
    """Refuse days and times before the year 1 or after 9999, such as the infinite ones of a database."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        if kind.unit == "ns":
            return  # nanoseconds reach from 1677 to 2262
        kind = pa.timestamp(kind.unit)  # without the time zone, which shifts a time only by hours
    try:
        for end in pc.min_max(column).values():
            pa.scalar(end.value, kind).as_py()
    except OverflowError:
        raise SchemaError(
            f"column {name!r} holds infinite dates, or dates before the year 1 or after 9999; replace these by "
            f"missing values, or drop the column (`drop={[name]!r}`).",
            code="dates-out-of-range",
            fields={"column": name},
        ) from None


def merge_values(column: pa.Array, rare: MergedValues) -> pa.Array:
    """Replace some values by one label, or by the missing value."""
    codes, distinct = encode_batch_values(column)
    merged_values = [rare.label if value in rare.values else value for value in distinct.to_pylist()]
    last = rare.label if None in rare.values else None
    return pa.array([*merged_values, last], type=distinct.type).take(pa.array(codes))
