"""Exports a release for statistics packages: public columns, and a column of weights for each requested value.

To count a value among selected records, add up its weights. The sum is the unbiased count. The published values of the
protected column are not exported, because counting them directly would mislead. People whose counts are published
together share one row. This row has their number, and the estimated counts as weights.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from sfumato._core.cell_values import Value, display, make_labels
from sfumato._query.counting.record_blocks import read_batches, read_record_schema
from sfumato._query.impossible_literals import explain_missing_value
from sfumato._query.record_weights import compute_record_weights
from sfumato._query.release import Release
from sfumato._readers.optional_packages import import_optional
from sfumato._records.crowd_lines import CrowdTable
from sfumato._release.staging import check_outside, place_with_writer
from sfumato.errors import InternalError, QueryError, TargetError

PREFIX = "w_"
PEOPLE = "people"
LONGEST_NAME = 32
"""The longest name in Stata. SPSS allows longer names."""
LONGEST_LABEL = 80
FORMULA = "^[=+@\t\r-]"
"""Matches the beginning of a string that a spreadsheet would treat as a formula."""
LARGEST_WHOLE = 2_147_483_620
"""The largest 32-bit integer in Stata. Larger ones are codes for missing values."""
LARGEST_NUMBER = 2.0**1022
"""The largest number for both packages.

Stata's limit is almost twice this number. Both packages use their largest numbers for missing values.
"""
RESERVED = re.compile(
    "byte|double|float|if|in|int|long|str[0-9]+|strl|using|with|all|and|by|eq|ge|gt|le|lt|ne|not|or|to", re.IGNORECASE
)
"""Names that Stata or SPSS reserves."""
SUM_TOLERANCE = 1e-9
"""The allowed difference between sums in different orders. It is a share of the sum of absolute amounts."""


@dataclass(frozen=True)
class ExportedFiles:
    """A description of the exported file."""

    path: Path
    rows: int
    weight_columns: Mapping[str, Value]
    """The columns of weights, and the value that each column counts."""
    renamed_columns: Mapping[str, str]
    """Public columns with another name in the file, by their names in the release."""
    formula_columns: tuple[str, ...]
    """Columns with strings that a spreadsheet would treat as formulas."""
    people_column: str | None = None
    """The column with the number of people in each row. None if each row is one record."""


def export(
    release: Release, values: Sequence[Value | str], to: str | Path, *, method: str | None = None, force: bool = False
) -> ExportedFiles:
    """Writes the public columns of a release and a column of weights for each value: .csv, .dta or .sav."""
    target = Path(to)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise TargetError(
            f"{str(target)!r} must end in {', '.join(_WRITERS)}; the ending decides the format.",
            code="wrong-ending",
            fields={"file": str(target)},
        )
    if not target.parent.is_dir():
        raise TargetError(
            f"the directory {str(target.parent)!r} does not exist; create it first.",
            code="missing-directory",
            fields={"file": str(target.parent)},
        )
    check_outside(target, "the file")
    if os.path.lexists(target) and (not force or not target.is_file()):
        raise TargetError(
            f"{str(target)!r} exists; choose another name, or replace a file with `force=True`.",
            code="target-exists",
            fields={"file": str(target)},
        )
    if not values:
        raise QueryError("name the values to count, such as `values=['HIV', 'COPD']`.", code="invalid-values")
    chosen_values = list(dict.fromkeys(find_value(release, value) for value in values))
    manifest = release.manifest
    crowds = manifest.encoding.read_crowds(manifest.naming, release.folder)
    weights_by_value = {
        value: _add_crowd_weights(compute_record_weights(manifest, release.folder, value, method), crowds, index)
        for value, index in ((value, manifest.domain.index(value)) for value in chosen_values)
    }
    for value, weights in weights_by_value.items():
        check_sum(release, value, weights, method)
    public, is_csv = _read_public_columns(release, crowds), target.suffix.lower() == ".csv"
    names = dict(
        zip(public.column_names, public.column_names if is_csv else make_plain_names(public.column_names), strict=True)
    )
    used_names = set(names.values())
    columns, people_column = {}, None
    if crowds is not None:
        people_column = _find_free_name(PEOPLE, used_names)
        used_names.add(people_column)
    for value in chosen_values:
        columns[name := _find_free_name(PREFIX + _make_plain(display(value)), used_names)] = value
        used_names.add(name)
    table = public.rename_columns(list(names.values()))
    if crowds is not None:
        singles = np.ones(len(public) - len(crowds), dtype=np.int64)
        table = table.append_column(people_column, pa.array(np.concatenate([singles, crowds.people])))
    for name, value in columns.items():
        table = table.append_column(name, weights_by_value[value])
    column_labels = {name: f"weight of {display(value)}" for name, value in columns.items()} | {
        new: old for old, new in names.items() if new != old
    }
    if people_column is not None:
        column_labels[people_column] = "number of people in this row"
    place_with_writer(lambda path: write(table, path, column_labels), target, "the export", force=force)
    renamed_columns = {old: new for old, new in names.items() if new != old}
    return ExportedFiles(target, table.num_rows, columns, renamed_columns, find_formula_columns(public), people_column)


def find_value(release: Release, value: Value | str) -> Value:
    """Finds a value of the domain. A string may be the displayed form of the value."""
    domain = release.manifest.domain
    if value in domain:
        return value
    values_by_label = dict(zip(make_labels(domain), domain, strict=True))
    if isinstance(value, str) and value in values_by_label:
        return values_by_label[value]
    error = explain_missing_value(value, release.manifest)
    raise QueryError(f"{error} Put a value that contains a comma in quotes.", code=error.code, fields=error.fields)


def check_sum(release: Release, value: Value, weights: pa.Array, method: str | None) -> None:
    """Rejects weights whose sum differs from the release's own count of the value.

    Counts use coarse tables if the release has any. Weights cannot use these tables.
    """
    if release.manifest.encoding.has_coarse_tables:
        return
    count = release.count(value, method=method).value
    amounts = np.asarray(weights)
    if abs(float(amounts.sum()) - count) > SUM_TOLERANCE * max(1.0, float(np.abs(amounts).sum())):
        raise InternalError(
            f"the weights of {display(value)!r} add up to {amounts.sum():.6f}, but the count is {count:.6f}. "
            "Please report this.",
            code="wrong-sum-of-weights",
        )


def find_formula_columns(table: pa.Table) -> tuple[str, ...]:
    """The columns whose name or strings begin like a formula."""
    formula_columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        texts = [name, *(column.unique().drop_null().to_pylist() if pa.types.is_string(column.type) else ())]
        if pc.any(pc.match_substring_regex(pa.array(texts, pa.string()), FORMULA)).as_py():
            formula_columns.append(name)
    return tuple(formula_columns)


def _add_crowd_weights(weights: pa.Array, crowds: CrowdTable | None, index: int) -> pa.Array:
    """Appends the estimated counts of crowds to the weights of records."""
    return weights if crowds is None else pa.concat_arrays([weights, pa.array(crowds.estimates[:, index])])


def _read_public_columns(release: Release, crowds: CrowdTable | None) -> pa.Table:
    """Reads the public columns. The records come first, in their order, and then the crowds."""
    manifest = release.manifest
    paths = manifest.list_data_paths(release.folder)
    schema = read_record_schema(paths, manifest)
    plain = pa.schema([(name, _find_plain_type(schema.field(name).type)) for name in manifest.public_columns])
    batches = [_decode_batch(batch, plain) for batch in read_batches(paths, schema, manifest.public_columns)]
    if crowds is not None:
        batches += [_decode_batch(batch, plain) for batch in crowds.public.to_batches()]
    return pa.Table.from_batches(batches, plain)


def _decode_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _find_plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


# ---------------------------------------------------------------------------------------------------------------- names


def make_plain_names(names: Sequence[str]) -> list[str]:
    """Makes names that Stata and SPSS accept. They have letters, digits and _, and are unique regardless of case."""
    used_names: set[str] = set()
    new_names = []
    for name in names:
        new_names.append(_find_free_name(_make_plain(name), used_names))
        used_names.add(new_names[-1])
    return new_names


def _make_plain(name: str) -> str:
    plain = re.sub("[^A-Za-z0-9_]+", "_", name).strip("_")[:LONGEST_NAME] or "column"
    if RESERVED.fullmatch(plain):
        return f"v_{plain}"
    return plain if plain[0].isalpha() else f"v{plain}"[:LONGEST_NAME]


def _find_free_name(name: str, used_names: set[str]) -> str:
    """Returns the name if it is unique regardless of case. If not, adds the first number that makes it unique."""
    name, taken_names = name[:LONGEST_NAME], {taken_name.lower() for taken_name in used_names}
    for ending in _list_endings():
        if (candidate := name[: LONGEST_NAME - len(ending)] + ending).lower() not in taken_names:
            return candidate
    raise InternalError("no name is free. Please report this.", code="no-free-name")


def _list_endings() -> Iterator[str]:
    yield ""
    yield from (f"_{number}" for number in range(2, 1_000_000))


# -------------------------------------------------------------------------------------------------------------- writing


def _write_csv(table: pa.Table, path: Path, column_labels: Mapping[str, str]) -> None:
    """Writes a CSV with a header line. A missing value is empty, and an empty string is in quotes."""
    options = pa_csv.WriteOptions(quoting_style="needed")
    with pa_csv.CSVWriter(path, table.schema, write_options=options) as writer:
        writer.write_table(table)


def _write_by(name: str, **options: object) -> Callable[[pa.Table, Path, Mapping[str, str]], None]:
    def write(table: pa.Table, path: Path, column_labels: Mapping[str, str]) -> None:
        import_optional("pandas", "statistics", "a file for Stata or SPSS")
        package = import_optional("pyreadstat", "statistics", "a file for Stata or SPSS")
        short_labels = {
            column: _shorten_label(column_labels[column]) for column in table.column_names if column in column_labels
        }
        frame = _convert_for_packages(table, column_labels).to_pandas()
        try:
            getattr(package, name)(frame, str(path), column_labels=short_labels, **options)
        except package.ReadstatError as error:  # the writer does not report the reason
            raise TargetError(
                "the export could not be written completely; the disk may be full.", code="incomplete-export"
            ) from error

    return write


def _shorten_label(label: str) -> str:
    return label if len(label.encode()) <= LONGEST_LABEL else label.encode()[:LONGEST_LABEL].decode(errors="ignore")


def _convert_for_packages(table: pa.Table, column_labels: Mapping[str, str]) -> pa.Table:
    """Converts columns to types that both packages have.

    Booleans and integers become numbers, and times lose their zone. Numbers with more digits than a double can hold
    become strings. Otherwise, different numbers could become equal.
    """
    kinds = []
    for field in table.schema:
        kind, column = field.type, table.column(field.name)
        _check_writable(column_labels.get(field.name, field.name), column)
        if pa.types.is_boolean(kind):
            kind = pa.int8()
        elif pa.types.is_decimal(kind):
            kind = pa.float64() if _is_double(column) else pa.string()
        elif pa.types.is_timestamp(kind):
            kind = pa.timestamp("us")
        elif pa.types.is_integer(kind):
            kind = pa.int32() if _is_small(column) else pa.float64() if _is_double(column) else pa.string()
        kinds.append(pa.field(field.name, kind))
    return table.cast(pa.schema(kinds), safe=False)


def _check_writable(name: str, column: pa.ChunkedArray) -> None:
    """Rejects values that the packages would truncate or treat as missing."""
    remedy = "export a .csv file instead"
    if pa.types.is_string(column.type) and pc.any(pc.match_substring(column.unique(), "\0")).as_py():
        raise TargetError(
            f"column {name!r} contains strings with a zero character, at which Stata and SPSS would end the string; "
            f"{remedy}.",
            code="unwritable-column",
            fields={"column": name, "reason": "zero-character"},
        )
    if pa.types.is_floating(column.type):
        finite = column.drop_null().filter(pc.invert(pc.is_nan(column.drop_null())))
        if pc.any(pc.greater(pc.abs(finite), LARGEST_NUMBER)).as_py():
            raise TargetError(
                f"column {name!r} contains numbers that are too large for Stata and SPSS; {remedy}.",
                code="unwritable-column",
                fields={"column": name, "reason": "large-number"},
            )


def _is_double(column: pa.ChunkedArray) -> bool:
    """Whether every number converts to a double exactly."""
    try:
        doubles = column.cast(pa.float64())
        return not pa.types.is_decimal(column.type) or bool(doubles.cast(column.type).equals(column))
    except pa.ArrowInvalid:
        return False


def _is_small(column: pa.ChunkedArray) -> bool:
    """Whether both packages can store the integers as integers. If not, the integers become doubles."""
    span = pc.min_max(column)
    least, most = span["min"].as_py(), span["max"].as_py()
    return least is None or (least >= -LARGEST_WHOLE and most <= LARGEST_WHOLE)


_WRITERS: Mapping[str, Callable[[pa.Table, Path, Mapping[str, str]], None]] = {
    ".csv": _write_csv,
    ".dta": _write_by("write_dta", version=15),
    ".sav": _write_by("write_sav", compress=False),
}
