"""Guesses the role of each column from its name and its first values.

A guess is written to a file that others may see, so it contains no value and no count from the table. The file contains
names of columns, fixed remarks, round edges of ranges, and those usual markers of missing values that occur.
"""

from __future__ import annotations

import datetime
import math
import re
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import find_field_type
from sfumato._core.small_text_files import LONGEST_VALUE
from sfumato._profile.column_checks import explain_uniqueness
from sfumato._profile.persons import PersonCounts, find_extremes
from sfumato._profile.ranges import is_fractional
from sfumato._profile.sensitive_column_signs import (
    DIRECT_NAME,
    PERSON_NAME,
    Sign,
    find_name_sign,
    find_value_sign,
    get_letters,
)
from sfumato._profile.table_profile import ColumnProfile
from sfumato._profile.untidy_values import (
    Untidy,
    find_missing_numbers,
    find_untidy_kinds,
    group_by_kind,
)
from sfumato._readers.csv_files import CsvSource
from sfumato._readers.open_table import STANDARD_INPUT, open_source
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, DOUBTFUL_MARKERS, MISSING_MARKERS, POINT, ReadOptions
from sfumato._readers.sources import Source
from sfumato._readers.type_inference import OVERSIZED, has_decimal_commas
from sfumato._records.column_codes import decode_dictionary, encode_batch_values
from sfumato._request.person_rows import PersonBasis
from sfumato._request.schema import Role
from sfumato.errors import SchemaError, SourceError

# Proposed edges of ranges for numbers and dates are round, so that they disclose nothing about single values. The first
# and the last edge do not come from the table. The other edges are multiples of a round step. They lie within the range
# of ordinary records, and are never the smallest or the largest value.

RANGES = 6
"""The approximate number of proposed ranges."""
ORDINARY_SHARES = (0.02, 0.98)
"""The quantiles between which the ranges are fitted; the outer ranges hold the other values."""
STEPS = (1, 2, 5, 10)
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)


def propose_number_edges(numbers: npt.NDArray[np.float64], *, is_whole: bool, ranges: int = RANGES) -> tuple[str, ...]:
    """Edges of about RANGE_COUNT ranges, from 0 or -inf to inf. None if one range would hold all values."""
    finite = numbers[np.isfinite(numbers)]
    low, high = map(float, np.quantile(finite, ORDINARY_SHARES, method="nearest")) if len(finite) else (0.0, 0.0)
    width = (high - low) / ranges
    if not 0 < width < math.inf:
        return ()
    power = max(math.floor(math.log10(width)), 0 if is_whole else -300)
    step = next(step for step in STEPS if step * 10.0**power >= width or step == STEPS[-1])
    unit = Decimal(step).scaleb(power)
    # Decimal digits are needed, because 0.6 / 0.2 is below 3 in floating point, and 0.6 would become an edge.
    first, last = math.floor(Decimal(repr(low)) / unit) + 1, math.ceil(Decimal(repr(high)) / unit) - 1
    inner = [format(unit * number, "f") for number in range(first, last + 1)]
    return _join_edges("0" if numbers.min() >= 0 else "-inf", inner, "inf")


def propose_date_edges(days: npt.NDArray[np.int64], ranges: int = RANGES) -> tuple[str, ...]:
    """Edges for dates given in days since 1970: first days of months, in the years 1900 to 2100."""
    low, high = (_convert_to_date(int(day)) for day in np.quantile(days, ORDINARY_SHARES, method="nearest"))
    months = [12 * day.year + day.month - 1 for day in (low, high)]
    step = next((step for step in MONTHS if step * ranges >= months[1] - months[0]), MONTHS[-1])
    starts = range(months[0] // step * step + step, months[1] + 1, step)
    inner = [f"{month // 12:04d}-{month % 12 + 1:02d}-01" for month in starts]
    smallest, largest = (_convert_to_date(int(day)) for day in (days.min(), days.max()))
    inner = [day for day in inner if day not in (str(smallest), str(largest))]
    first = FIRST_DAY if smallest >= FIRST_DAY else datetime.date.min
    last = LAST_DAY if largest <= LAST_DAY else datetime.date.max
    return _join_edges(str(first), [day for day in inner if str(first) < day < str(last)], str(last))


def _convert_to_date(days: int) -> datetime.date:
    """Converts days since 1970 to a date. A date out of range becomes the nearest date that exists."""
    ordinal = datetime.date(1970, 1, 1).toordinal() + days
    return datetime.date.fromordinal(min(max(ordinal, 1), datetime.date.max.toordinal()))


def _join_edges(first: str, inner: Sequence[str], last: str) -> tuple[str, ...]:
    """All edges, if there is more than one range."""
    return (first, *inner, last) if inner else ()


# ---------------------------------------------------------------------------------------------------------------------

MOST_ROWS = 200_000
"""The number of rows read for a guess."""
BATCH_ROWS = 1 << 16
MANY_NUMBERS = 20
"""Numbers and dates with more distinct values than this are better published in ranges."""

CODES = frozenset(
    {
        *(
            "id",
            "nbr",
            "nr",
            "no",
            "number",
            "key",
            "code",
            "zip",
            "zipcode",
            "postcode",
            "postal",
            "plz",
            "icd",
            "diag",
        ),
        *("diagnosis", "type", "class", "category", "status"),
    }
)
"""Words in the names of numeric columns that are not quantities."""
ROW_NUMBER = "numbers the rows, so it does not show whether a person has several"
CSV_FLOAT = ".0"
"""The end of a whole number in a CSV column of numbers with fractions."""


@dataclass(frozen=True)
class ColumnGuess:
    """The likely role of a column, and the reasons."""

    name: str
    role: Role
    remarks: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    """Round edges of ranges in which the column could be published."""
    has_repeats: bool = False
    """Whether a value has several rows."""
    is_ordered: bool = False
    """Whether this column can order the rows of a person.

    Such a column has dates, times or whole numbers that vary within persons.
    """
    is_time: bool = False
    may_be_sensitive: bool = False
    may_be_person: bool = False
    """Whether the column may identify the person of a row, perhaps beside other columns."""
    domain_size: int = 0
    """The number of different values, including the missing value. Private, so no draft shows the number."""
    untidy_kinds: tuple[Untidy, ...] = ()
    missing_numbers: tuple[str, ...] = ()
    """Isolated numbers that may mark a missing value."""
    discloses: str | None = None
    """The column, perhaps sensitive, whose values can be guessed from this one."""

    @property
    def is_ranged(self) -> bool:
        """Whether ranges are proposed by default, as for dates, because others may know a date from elsewhere."""
        return self.is_time and bool(self.edges)

    def add_remarks(self, *remarks: str) -> ColumnGuess:
        """The same guess with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))


@dataclass(frozen=True)
class TableGuess:
    """The likely roles of all columns, in the order of the table."""

    columns: tuple[ColumnGuess, ...]
    missing_markers: tuple[str, ...] = ()
    """Markers for missing values that occur."""
    doubtful_markers: tuple[str, ...] = ()
    """Strings that occur and may be such markers."""
    decimal: str = POINT
    """The decimal mark, which is a comma if strings are numbers with commas."""

    def mark_sensitive(self, names: Collection[str]) -> TableGuess:
        """Marks columns that may be sensitive."""
        marked = [replace(column, may_be_sensitive=True) if column.name in names else column for column in self.columns]
        return replace(self, columns=tuple(marked))

    def mark_predictive(self, predictive: Collection[str], sensitive: str, *, is_sure: bool) -> TableGuess:
        """Marks predictive columns, and drops each of them if the column that it discloses is certainly sensitive."""
        columns = []
        for column in self.columns:
            if column.name not in predictive or column.role is not Role.PUBLIC:
                columns.append(column)
                continue
            remark = f"discloses {sensitive!r}, even if that column is protected"
            remarked_column = column.add_remarks(
                remark if is_sure else f"{remark}: drop it if {sensitive!r} is sensitive"
            )
            role = Role.DROPPED if is_sure else column.role
            columns.append(replace(remarked_column, role=role, discloses=sensitive))
        return replace(self, columns=tuple(columns))

    @property
    def untidy_columns(self) -> dict[Untidy, list[str]]:
        """The columns with untidy values, by their kind."""
        return group_by_kind([(column.name, column.untidy_kinds) for column in self.columns])

    def select_roles(self, *roles: Role) -> tuple[ColumnGuess, ...]:
        """The columns whose likely role is one of `roles`."""
        return tuple(column for column in self.columns if column.role in roles)


def guess_table(table: str | Path, *, read: ReadOptions = DEFAULT_READ_OPTIONS) -> tuple[TableGuess, pa.Table]:
    """Guess the roles of the columns from the first rows of a table, which are returned too.

    Opening a CSV file reads all of it, so it is opened at most once more, when its format is known.
    """
    source = _open_table(table, read)
    rows = _read_first_rows(source)
    marks = {name: _find_marks(column) for name, column in zip(rows.column_names, rows.columns, strict=True)}
    present_marks = [
        text
        for text in (*MISSING_MARKERS, *DOUBTFUL_MARKERS)
        if any(text in column_marks for column_marks in marks.values())
    ]
    missing = tuple(text for text in present_marks if text in MISSING_MARKERS)
    has_commas = isinstance(source, CsvSource) and any(_has_commas(column, missing) for column in rows.columns)
    decimal = "," if has_commas else POINT
    if missing or has_commas:
        source = _open_table(table, replace(read, missing=missing, decimal=decimal))
        rows = _read_first_rows(source)
    # Looking up a column by name takes time in proportion to the number of columns.
    columns_by_name = dict(zip(rows.column_names, rows.columns, strict=True))
    guesses = [_guess(field.name, field.type, columns_by_name.get(field.name), marks) for field in source.schema]
    columns = _check_order_within_persons(_leave_out_rival_persons(guesses), rows)
    columns, missing_numbers = _choose_missing_numbers(columns, columns_by_name, is_csv=isinstance(source, CsvSource))
    doubtful = (*(text for text in present_marks if text not in MISSING_MARKERS), *missing_numbers)
    return TableGuess(columns, missing, doubtful, decimal), rows


def _choose_missing_numbers(
    guesses: Sequence[ColumnGuess], columns_by_name: Mapping[str, pa.ChunkedArray], *, is_csv: bool
) -> tuple[tuple[ColumnGuess, ...], tuple[str, ...]]:
    """The numbers that mark missing values, and are ordinary values in no published column.

    A marker applies to all columns.
    """
    all_numbers = {text for guess in guesses for text in guess.missing_numbers}
    ordinary_numbers = {
        text
        for text in all_numbers
        for guess in guesses
        if guess.name in columns_by_name
        and (guess.role in (Role.PUBLIC, Role.PERSON) or guess.may_be_sensitive)
        and text not in guess.missing_numbers
        and _has_value(columns_by_name[guess.name], text)
    }
    columns, markers = [], list[str]()
    for guess in guesses:
        remarks = []
        for text in guess.missing_numbers:
            is_value = text in ordinary_numbers
            ending = ", but is a value in another column: empty these cells" if is_value else ", see missing above"
            remarks.append(f"{text} may be a missing value{ending}")
            is_decimal = is_csv and is_fractional(columns_by_name[guess.name].type) and "." not in text
            markers += [] if is_value else [text, text + CSV_FLOAT] if is_decimal else [text]
        columns.append(guess.add_remarks(*remarks))
    return tuple(columns), tuple(dict.fromkeys(markers))


def _has_value(column: pa.ChunkedArray, text: str) -> bool:
    """Whether a number is a value of a column of numbers or of text."""
    if pa.types.is_string(column.type):
        value = pa.scalar(text)
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        value = pa.scalar(float(text))
        column = column.cast(pa.float64(), safe=False)
    else:
        return False
    return bool(pc.any(pc.equal(column, value)).as_py())


def _has_commas(column: pa.ChunkedArray, missing: Sequence[str]) -> bool:
    if not pa.types.is_string(column.type):
        return False
    values = column.unique()
    return has_decimal_commas(values.filter(pc.invert(pc.is_in(values, pa.array(missing, pa.string())))))


def _open_table(table: str | Path, read: ReadOptions) -> Source:
    if str(table) == STANDARD_INPUT:
        raise SourceError(
            "a request file must name its table, and standard input has no name; give a file.",
            code="table-without-name",
        )
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:  # the spooled copy is unlinked while it is open
        return open_source(table, Path(folder) / "spool", read=read)


def _read_first_rows(source: Source) -> pa.Table:
    """The first rows of the columns whose types can be published."""
    names = source.schema.names
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(
            f"the table has two columns named {repeated!r}; rename one of them.",
            code="repeated-column",
            fields={"column": repeated},
        )
    publishable_names = [name for name in names if _is_publishable(source.schema.field(name).type)]
    batches, rows = [], 0
    for batch in source.read_batches(publishable_names, BATCH_ROWS):
        batches.append(pa.RecordBatch.from_arrays(list(map(decode_dictionary, batch.columns)), names=publishable_names))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    if not rows:
        raise SchemaError("the table is empty: there is nothing to publish.", code="empty-table")
    return pa.Table.from_batches(batches).combine_chunks()


def _is_publishable(kind: pa.DataType) -> bool:
    return kind != OVERSIZED and find_field_type(kind) is not None


def _find_marks(column: pa.ChunkedArray) -> frozenset[str]:
    """The usual markers in a column of strings. Nothing else in the column is examined."""
    if not pa.types.is_string(column.type):
        return frozenset()
    usual = pa.array((*MISSING_MARKERS, *DOUBTFUL_MARKERS))
    return frozenset(usual.filter(pc.is_in(usual, column.unique())).to_pylist())


def _guess(
    name: str, kind: pa.DataType, column: pa.ChunkedArray | None, marks: Mapping[str, frozenset[str]]
) -> ColumnGuess:
    """The likely role of a column, with the known facts about its values."""
    if not name or column is None:
        is_empty = pa.types.is_null(kind)
        remark = "holds no value" if is_empty else "of a type that cannot be published" if name else "has no name"
        return ColumnGuess(name, Role.DROPPED, (remark,))
    profile = _profile(name, column)
    untidy_kinds = find_untidy_kinds(name, profile.values, profile.counts)
    numbers = find_missing_numbers(profile.values, profile.counts)
    mark_remarks = [
        f'"{mark}" {"is" if mark in MISSING_MARKERS else "may be"} a missing value'
        for mark in sorted(marks.get(name, ()))
    ]
    untidy_remarks = [kind.value.remark for kind in untidy_kinds if kind is not Untidy.MISSING_NUMBERS]
    guess = ColumnGuess(
        name,
        Role.PUBLIC,
        (*mark_remarks, *untidy_remarks),
        _propose_edges(profile, numbers),
        has_repeats=bool((profile.counts > 1).any()),
        is_ordered=pa.types.is_integer(kind) or pa.types.is_temporal(kind),
        is_time=pa.types.is_temporal(kind),
        may_be_sensitive=find_name_sign(name) is Sign.NAME or find_value_sign(profile.values) is not None,
        domain_size=len(profile.values) + bool(profile.missing),
        untidy_kinds=untidy_kinds,
        missing_numbers=tuple(f"{number:g}" for number in numbers),
    )
    return _propose_role(guess, profile, len(column))


def _propose_role(guess: ColumnGuess, profile: ColumnProfile, rows: int) -> ColumnGuess:
    """The first role that fits. Doubtful columns are dropped."""
    letters = get_letters(guess.name)
    is_discrete = len(profile.values) > 0 and (pa.types.is_string(profile.type) or pa.types.is_integer(profile.type))
    is_row_number = is_discrete and _numbers_rows(profile, rows)
    if is_discrete and PERSON_NAME.fullmatch(letters) and not (guess.may_be_sensitive or is_row_number):
        gap_remarks = ("rows without a value must be completed or removed",) if profile.missing else ()
        return replace(guess.add_remarks(*gap_remarks), role=Role.PERSON, edges=())
    if DIRECT_NAME.fullmatch(letters):
        return _mark_as_left_out(guess, "names people")
    if is_row_number or Untidy.FREE_TEXT in guess.untidy_kinds:
        return _mark_as_left_out(guess, *([ROW_NUMBER] if is_row_number else []))
    may_be_person = is_discrete and not guess.may_be_sensitive
    if is_discrete and not guess.has_repeats and not profile.missing and rows > 1:
        is_number = may_be_person and pa.types.is_integer(profile.type)
        return replace(_mark_as_left_out(guess, "no value occurs twice"), may_be_person=is_number)
    if reasons := _list_reasons(profile, rows, has_edges=bool(guess.edges)):
        may_be_person &= guess.has_repeats and not guess.edges and explain_uniqueness(profile, rows) is not None
        return replace(guess.add_remarks(*reasons), role=Role.DROPPED, may_be_person=may_be_person)
    how = "published in ranges" if guess.is_ranged else "many different values, better in ranges"
    return guess.add_remarks(f"{how}, see [ranges] below") if guess.edges else guess


def _numbers_rows(profile: ColumnProfile, rows: int) -> bool:
    """Whether the values of a column are the numbers 1 to n, or 0 to n - 1, in any order."""
    counts = PersonCounts(
        len(profile.values),
        0,
        int(profile.counts.max(initial=0)),
        profile.missing,
        extremes=find_extremes(profile.values),
    )
    return rows > 1 and counts.basis is PersonBasis.ROW_NUMBERS


def _mark_as_left_out(guess: ColumnGuess, *remarks: str) -> ColumnGuess:
    """The role of a column that may name a person. The column is an identifier, or is dropped if its values repeat.

    Repeated values of an identifier would be mistaken for persons with several rows.
    """
    return replace(guess.add_remarks(*remarks), role=Role.DROPPED if guess.has_repeats else Role.IDENTIFIER, edges=())


def _profile(name: str, column: pa.ChunkedArray) -> ColumnProfile:
    codes, values = encode_batch_values(column.combine_chunks())
    counts = np.bincount(codes, minlength=len(values) + 1)
    return ColumnProfile(name, values.type, values, counts[:-1], int(counts[-1]), False)


def _propose_edges(profile: ColumnProfile, missing_numbers: Sequence[float]) -> tuple[str, ...]:
    """Round edges for a quantity or a date with many values. Numbers that mark missing values do not count."""
    kind, name_words = profile.type, re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", profile.name).lower())
    if len(profile.values) <= MANY_NUMBERS or not CODES.isdisjoint(name_words):
        return ()
    if pa.types.is_integer(kind) or is_fractional(kind):
        numbers = pc.cast(profile.values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        is_value = ~np.isin(numbers, missing_numbers)
        values = np.repeat(numbers[is_value], profile.counts[is_value])
        return propose_number_edges(values, is_whole=pa.types.is_integer(kind))
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        days = pc.cast(profile.values, pa.date32(), safe=False).cast(pa.int32()).to_numpy(zero_copy_only=False)
        return propose_date_edges(np.repeat(days.astype(np.int64), profile.counts))
    return ()


def _list_reasons(profile: ColumnProfile, rows: int, *, has_edges: bool) -> list[str]:
    """The reasons to drop a column."""
    reasons = []
    if profile.missing == rows:
        reasons.append("holds no value")
    elif 2 * profile.missing > rows:
        reasons.append("mostly missing")
    if len(profile.values) and explain_uniqueness(profile, rows):
        reasons.append(
            "nearly unique, but could be published in ranges, see [ranges] below" if has_edges else "nearly unique"
        )
    if pa.types.is_string(profile.type) and len(profile.values):
        if pc.max(pc.utf8_length(profile.values)).as_py() > LONGEST_VALUE:
            reasons.append("long strings, which can name people")
        if pc.any(pc.match_substring_regex(profile.values, "[\r\n]")).as_py():
            reasons.append("strings with line breaks")
    return reasons


def _leave_out_rival_persons(guesses: Sequence[ColumnGuess]) -> tuple[ColumnGuess, ...]:
    """If several columns may identify the person of a row, drop all of them."""
    if sum(guess.role is Role.PERSON for guess in guesses) <= 1:
        return tuple(guesses)
    return tuple(
        replace(_mark_as_left_out(guess, "may identify the person of a row"), may_be_person=True)
        if guess.role is Role.PERSON
        else guess
        for guess in guesses
    )


def _check_order_within_persons(guesses: Sequence[ColumnGuess], rows: pa.Table) -> tuple[ColumnGuess, ...]:
    """Mark columns that do not vary within persons, such as a date of birth, as unsuitable for ordering rows."""
    person = next((guess.name for guess in guesses if guess.role is Role.PERSON), None)
    ordered = [guess.name for guess in guesses if guess.is_ordered and guess.name != person]
    if person is None or not ordered:
        return tuple(guesses)
    ends = rows.group_by(person).aggregate([(name, end) for name in ordered for end in ("min", "max")])
    varying_columns = {
        name for name in ordered if pc.any(pc.not_equal(ends[f"{name}_min"], ends[f"{name}_max"])).as_py()
    }
    return tuple(replace(guess, is_ordered=guess.is_ordered and guess.name in varying_columns) for guess in guesses)
