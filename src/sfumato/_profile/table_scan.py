"""Reads the table for the first time, to check it, count its values, and warn the data steward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Counts, Numbers, Places
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine
from sfumato._engines.scan_cache import CachedSource
from sfumato._profile.batch_preparation import Preparation
from sfumato._profile.column_checks import (
    check_compound,
    check_lines,
    check_rows,
    check_types,
    decide_sensitive_domain,
    decide_table_columns,
)
from sfumato._profile.declared_domains import list_groups, make_typed_domain
from sfumato._profile.equivalence_classes import Uniqueness, compute_unique_without
from sfumato._profile.persons import PersonGrouping, check_identifier, check_stated_persons
from sfumato._profile.piece_offsets import PieceCounts
from sfumato._profile.record_sample import Sample, encode_sample
from sfumato._profile.sensitive_column_signs import PERSON_NAME, get_letters
from sfumato._profile.table_profile import Profile, profile_table
from sfumato._profile.table_warnings import (
    list_warnings,
    warn_of_decimal_commas,
    warn_of_missing_markers,
    warn_of_untidy_values,
)
from sfumato._readers.csv_files import CsvSource
from sfumato._readers.sources import Source
from sfumato._records.column_codes import SensitiveColumns, TableColumn
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import PersonBasis, PersonCheck
from sfumato._request.schema import NullPolicy, Schema
from sfumato._request.warnings import Notice

MOST_NAMED = 3
"""The number of columns to name. They are the columns whose removal would leave the fewest unique records."""


CACHE_SHARE = 4
"""The cache for rows that are needed again may use 1/CACHE_SHARE of the memory."""


@dataclass(frozen=True)
class TableScan:
    """The result of the first pass. Secret."""

    source: Source
    """The rows to publish: all rows of the table, or up to the requested number for each person."""
    persons: PersonCheck | None
    """The result of the person check. None if it is unknown which rows belong to one person."""
    preparation: Preparation
    columns: tuple[TableColumn, ...]
    sensitive: SensitiveColumns
    histogram: Histogram
    pieces: tuple[PieceCounts, ...]
    """The histogram of each piece of the table."""
    sample: Sample
    """A sample of the records, or all of them if they are not many."""
    uniqueness: Uniqueness
    notices: tuple[Notice, ...]


def scan_table(  # noqa: PLR0913 - the request and its source
    schema: Schema,
    *,
    source: Source,
    engine: Engine,
    folder: Path,
    draws: Draws,
    text: Sequence[str] = (),
    most_combinations: int = 0,
    is_cached: bool = False,
) -> TableScan:
    """Read the table once, check it, and count its sensitive column. The rows may be cached for the second pass."""
    schema.check_columns(source.schema.names)
    names = schema.select_published(source.schema.names)
    check_compound(schema)
    check_types(source.schema, names)
    is_csv = isinstance(source, CsvSource)
    persons = PersonCheck(basis=PersonBasis.STATED) if schema.each_row_is_a_person else None
    if schema.person_column is not None:
        selection = PersonGrouping(engine, source, schema.person_column, folder).select_rows(schema.person_rows, draws)
        source = selection.source
        persons = PersonCheck.of(schema.person_rows, selection.dropped_rows, names, selection.basis)
    else:
        for name in schema.identifiers:
            check_identifier(name, PersonGrouping(engine, source, name, folder), draws)
        for name in _list_person_names(schema, source.schema.names) if schema.each_row_is_a_person else ():
            check_stated_persons(name, PersonGrouping(engine, source, name, folder), draws)
    if is_cached:
        source = CachedSource(source, folder, engine.allot_resources(1).memory // CACHE_SHARE)
    # With the policy "error", a missing value must stay missing, so that a later check refuses it.
    has_missing_group = schema.nulls is not NullPolicy.ERROR
    groups = {
        name: list_groups(schema.hierarchies[name], level, with_missing=has_missing_group)
        for name, level in schema.publish_at.items()
    }
    preparation = Preparation(schema, names, _make_declared_domains(schema, names, text), groups)
    profile = profile_table(engine, source, preparation, draws)
    check_rows(profile)
    if is_csv:
        check_lines(profile, schema)
    columns = decide_table_columns(profile, schema)
    sensitive = decide_sensitive_domain(profile, schema, columns, most_combinations)
    histogram, pieces = _build_histogram(profile, schema, sensitive)
    sample = encode_sample(profile.sample_table, columns, sensitive, histogram.total)
    uniqueness = Uniqueness(
        profile.class_sizes,
        profile.class_sizes_before,
        compute_unique_without(sample.columns, sample.records, MOST_NAMED, schema.person_rows.max_rows),
        sample.records,
    )
    warnings = [
        *list_warnings(schema, profile.dropped_rows, persons),
        *warn_of_missing_markers(profile),
        *warn_of_untidy_values(profile, names),
    ]
    if is_csv:
        warnings += warn_of_decimal_commas(profile)
    return TableScan(
        source, persons, preparation, columns, sensitive, histogram, pieces, sample, uniqueness, tuple(warnings)
    )


def _list_person_names(schema: Schema, names: Sequence[str]) -> list[str]:
    """The unpublished columns whose names say that they identify persons."""
    published = schema.select_published(names)
    return [name for name in names if name not in published and PERSON_NAME.fullmatch(get_letters(name))]


def _make_declared_domains(schema: Schema, names: Sequence[str], text: Sequence[str]) -> dict[str, pa.Array]:
    """The declared domains in their types. Merging rare values does not change the type of the other values."""
    domains = {}
    for name in (name for name in names if name in schema.domains):
        merged = schema.merged_values.get(name)
        was_text = merged is not None and any(isinstance(value, str) for value in merged.values)
        domains[name] = make_typed_domain(name, schema.domains[name], is_text=was_text or name in text)
    return domains


def _find_domain_places(profile: Profile, sensitive: SensitiveColumns) -> Counts:
    """The position in the domain of each counted value, and last of the missing value."""
    column_profile = profile.columns[sensitive.name]
    if len(sensitive.parts) > 1:
        # A compound value is never missing as a whole.
        return np.append(sensitive.find_places(column_profile.values.to_pylist()), 0)
    column = sensitive.parts[0]
    places = pc.index_in(column_profile.values, column.values).to_numpy(zero_copy_only=False)
    return np.append(places.astype(np.int64), len(column.values) if column.has_missing else 0)


def _sum_by_place(counts: Numbers, places: Places, size: int) -> Counts:
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, places, counts)
    return sums


def _build_histogram(
    profile: Profile, schema: Schema, sensitive: SensitiveColumns
) -> tuple[Histogram, tuple[PieceCounts, ...]]:
    """The number of records of each value of the domain, in the whole table and in each piece."""
    column_profile, places, domain = (
        profile.columns[sensitive.name],
        _find_domain_places(profile, sensitive),
        sensitive.domain,
    )
    counts = _sum_by_place(np.append(column_profile.counts, column_profile.missing), places, len(domain))
    pieces = []
    for piece in profile.pieces:
        value_counts = _sum_by_place(piece.counts, places, len(domain))
        pieces.append(PieceCounts(piece.rows, value_counts.astype(piece.counts.dtype)))
    axes = sensitive.sizes if sensitive.is_independent else ()
    declared = schema.get_published_hierarchy(sensitive.name)
    hierarchy = None if declared is None else declared.canonical_hierarchy.replace_values(domain)
    histogram = Histogram.of(domain, counts.tolist(), axes, hierarchy)
    return replace(histogram, is_declared=schema.is_declared, class_sizes=profile.class_size_counts), tuple(pieces)
