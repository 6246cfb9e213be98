"""What the columns of a table may be for, guessed from their names and from a first look at their values.

A guess is written into a file that others may see. So it holds no value and no count of the table: names of columns,
remarks that are fixed sentences, round edges of ranges, and those of the usual marks for missing values that occur.
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
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import find_field_type
from sfumato._core.small_text_files import LONGEST_VALUE
from sfumato._profile.column_checks import explain_uniqueness
from sfumato._profile.ranges import is_fractional
from sfumato._profile.table_profile import ColumnProfile
from sfumato._readers.csv_files import CsvSource
from sfumato._readers.open_table import STANDARD_INPUT, open_source
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, DOUBTFUL_MARKERS, MISSING_MARKERS, POINT, ReadOptions
from sfumato._readers.sources import Source
from sfumato._readers.type_inference import OVERSIZED, has_decimal_commas
from sfumato._records.column_codes import decode_dictionary, encode_batch_values
from sfumato._request.schema import Role
from sfumato.errors import SchemaError, SourceError

# Edges of ranges to propose for a column of numbers or dates: round ones, so that they tell nothing of single values.
#
# The first and the last edge do not come from the table. Those between them are multiples of a round step, and lie
# between the values of ordinary records: the smallest and the largest value are never among them.

RANGES = 6
"""About how many ranges are proposed."""
ORDINARY_SHARES = (0.02, 0.98)
"""Between these shares of the records lie the values that the ranges are made for; the others go to the outer ones."""
STEPS = (1, 2, 5, 10)
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
FIRST_DAY, LAST_DAY = datetime.date(1900, 1, 1), datetime.date(2100, 1, 1)


def propose_number_edges(numbers: npt.NDArray[np.float64], *, is_whole: bool) -> tuple[str, ...]:
    """Edges for numbers: from 0, or from below everything, to above everything; empty where there is nothing to cut."""
    finite = numbers[np.isfinite(numbers)]
    low, high = map(float, np.quantile(finite, ORDINARY_SHARES, method="nearest")) if len(finite) else (0.0, 0.0)
    width = (high - low) / RANGES
    if not 0 < width < math.inf:
        return ()
    power = max(math.floor(math.log10(width)), 0 if is_whole else -300)
    step = next(step for step in STEPS if step * 10.0**power >= width or step == STEPS[-1])
    unit = Decimal(step).scaleb(power)
    # By their digits: 0.6 / 0.2 is below 3 in floating-point numbers, and 0.6 would be an edge.
    first, last = math.floor(Decimal(repr(low)) / unit) + 1, math.ceil(Decimal(repr(high)) / unit) - 1
    inner = [format(unit * number, "f") for number in range(first, last + 1)]
    return _join_edges("0" if numbers.min() >= 0 else "-inf", inner, "inf")


def propose_date_edges(days: npt.NDArray[np.int64]) -> tuple[str, ...]:
    """Edges for dates, given in days since 1970: firsts of months, between the turns of two centuries."""
    low, high = (_convert_to_date(int(day)) for day in np.quantile(days, ORDINARY_SHARES, method="nearest"))
    months = [12 * day.year + day.month - 1 for day in (low, high)]
    step = next((step for step in MONTHS if step * RANGES >= months[1] - months[0]), MONTHS[-1])
    starts = range(months[0] // step * step + step, months[1] + 1, step)
    inner = [f"{month // 12:04d}-{month % 12 + 1:02d}-01" for month in starts]
    smallest, largest = (_convert_to_date(int(day)) for day in (days.min(), days.max()))
    inner = [day for day in inner if day not in (str(smallest), str(largest))]
    first = FIRST_DAY if smallest >= FIRST_DAY else datetime.date.min
    last = LAST_DAY if largest <= LAST_DAY else datetime.date.max
    return _join_edges(str(first), [day for day in inner if str(first) < day < str(last)], str(last))


def _convert_to_date(days: int) -> datetime.date:
    """A date from days since 1970; the nearest there is for those of other ages."""
    ordinal = datetime.date(1970, 1, 1).toordinal() + days
    return datetime.date.fromordinal(min(max(ordinal, 1), datetime.date.max.toordinal()))


def _join_edges(first: str, inner: Sequence[str], last: str) -> tuple[str, ...]:
    """All edges, if there is more than one range."""
    return (first, *inner, last) if inner else ()


# ---------------------------------------------------------------------------------------------------------------------

MOST_ROWS = 200_000
"""So many rows are looked at: enough for a guess."""
BATCH_ROWS = 1 << 16
MANY_NUMBERS = 20
"""Numbers and dates of more different values than this are better published in ranges."""

PERSON = re.compile(
    "(patient|patienten|paciente|pat|pt|person|personen|subject|participant|respondent|member|insured|insurance|insuree"
    "|versicherten|client|customer|citizen|resident|employee|student|pupil|user|people|taxpayer|household)s?"
    "(id|nbr|nr|no|num|number|nummer|numero|key|code|identifier)|(id|no|num|numero)(patient|paciente)"
    "|patient|person|subject|mrn|ssn|usubjid|subjid|pid|kvnr|nationalid|socialsecurity(number|no|nbr)?"
)
"""Names, without what is between their letters, of columns that say whose row it is."""
NAME_COLUMNS = re.compile(
    "(patient|person|subject|customer|client|employee|contact)?(name|firstname|lastname|surname|fullname|givenname"
    "|familyname|forename|maidenname|middlename|email|emailaddress|mail|phone|phonenumber|telephone|mobile|fax|address"
    "|street|streetaddress|passport|passportnumber|iban|licenseplate|ipaddress|url)"
)
"""Names of columns that name a person outright."""
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
"""Words in the names of numbers that are no quantities."""
SENSITIVE = re.compile(
    "diag|disease|icd|illness|condition|hiv|cancer|drug|medication|treatment|therap|income|salary|wage|debt|religio"
    "|ethnic|orientation|politic|offen[cs]e|crime|result|outcome|score|grade"
    "|krankheit|erkrankung|befund|einkommen|gehalt|maladie|revenu|enfermedad"
)
"""What is in the names of columns that are often sensitive."""


@dataclass(frozen=True)
class ColumnGuess:
    """What a column may be for, and why."""

    name: str
    role: Role
    remarks: tuple[str, ...] = ()
    edges: tuple[str, ...] = ()
    """Round edges of ranges in which it could be published."""
    has_repeats: bool = False
    """Whether a value has several rows."""
    is_ordered: bool = False
    """Whether the rows of a person can be put in order by it: dates, times and whole numbers in which they differ."""
    is_time: bool = False
    may_be_sensitive: bool = False
    may_be_person: bool = False
    """Whether it may say whose row it is, though another column may as well."""

    @property
    def is_ranged(self) -> bool:
        """Whether ranges are proposed that hold unless somebody decides otherwise: days can be looked up elsewhere."""
        return self.is_time and bool(self.edges)

    def add_remarks(self, *remarks: str) -> ColumnGuess:
        """The same guess with further remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))


@dataclass(frozen=True)
class TableGuess:
    """What all columns may be for, in the order of the table."""

    columns: tuple[ColumnGuess, ...]
    missing_markers: tuple[str, ...] = ()
    """Marks for missing values that occur."""
    doubtful_markers: tuple[str, ...] = ()
    """Texts that occur, and may be such marks."""
    decimal: str = POINT
    """A comma where texts are numbers with it."""

    def mark_predictive(self, predictive: Collection[str], sensitive: str, *, is_sure: bool) -> TableGuess:
        """The same, where some columns tell another: they are left out if that one is surely sensitive."""
        columns = []
        for column in self.columns:
            if column.name not in predictive or column.role is not Role.PUBLIC:
                columns.append(column)
                continue
            remark = f"tells {sensitive!r}, which no protection of that column hides"
            remarked_column = column.add_remarks(
                remark if is_sure else f"{remark}: leave it out if that one is sensitive"
            )
            columns.append(replace(remarked_column, role=Role.DROPPED) if is_sure else remarked_column)
        return replace(self, columns=tuple(columns))

    def select_roles(self, *roles: Role) -> tuple[ColumnGuess, ...]:
        """The columns that may have one of some roles."""
        return tuple(column for column in self.columns if column.role in roles)


def guess_table(table: str | Path, *, read: ReadOptions = DEFAULT_READ_OPTIONS) -> tuple[TableGuess, pa.Table]:
    """Guess what the columns of a table are for, from its first rows, which are given back too.

    To open a CSV file is to read all of it, so it is opened once more at most: when it is known how it is to be read.
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
    # Looked up by name, a table takes its width each time.
    columns_by_name = dict(zip(rows.column_names, rows.columns, strict=True))
    guesses = [_guess(field.name, field.type, columns_by_name.get(field.name), marks) for field in source.schema]
    columns = _check_order_within_persons(_leave_out_rival_persons(guesses), rows)
    doubtful = tuple(text for text in present_marks if text not in MISSING_MARKERS)
    return TableGuess(columns, missing, doubtful, decimal), rows


def _has_commas(column: pa.ChunkedArray, missing: Sequence[str]) -> bool:
    if not pa.types.is_string(column.type):
        return False
    values = column.unique()
    return has_decimal_commas(values.filter(pc.invert(pc.is_in(values, pa.array(missing, pa.string())))))


def _open_table(table: str | Path, read: ReadOptions) -> Source:
    if str(table) == STANDARD_INPUT:
        raise SourceError("a request file names its table, and standard input has no name; give a file.")
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:  # what is spooled there has no name any more
        return open_source(table, Path(folder) / "spool", read=read)


def _read_first_rows(source: Source) -> pa.Table:
    """The first rows of the columns whose types can be published."""
    names = source.schema.names
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"the table has two columns named {repeated!r}; rename one of them.")
    publishable_names = [name for name in names if _is_publishable(source.schema.field(name).type)]
    batches, rows = [], 0
    for batch in source.read_batches(publishable_names, BATCH_ROWS):
        batches.append(pa.RecordBatch.from_arrays(list(map(decode_dictionary, batch.columns)), names=publishable_names))
        rows += batch.num_rows
        if rows >= MOST_ROWS:
            break
    if not rows:
        raise SchemaError("the table is empty: there is nothing to publish.")
    return pa.Table.from_batches(batches).combine_chunks()


def _is_publishable(kind: pa.DataType) -> bool:
    return kind != OVERSIZED and find_field_type(kind) is not None


def _find_marks(column: pa.ChunkedArray) -> frozenset[str]:
    """The usual marks that a column of texts holds; nothing else of it is looked at."""
    if not pa.types.is_string(column.type):
        return frozenset()
    usual = pa.array((*MISSING_MARKERS, *DOUBTFUL_MARKERS))
    return frozenset(usual.filter(pc.is_in(usual, column.unique())).to_pylist())


def _guess(
    name: str, kind: pa.DataType, column: pa.ChunkedArray | None, marks: Mapping[str, frozenset[str]]
) -> ColumnGuess:
    """The first of these that fits; what is in doubt is left out."""
    if not name or column is None:
        is_empty = pa.types.is_null(kind)
        remark = (
            "holds no value at all" if is_empty else "of a type that cannot be published" if name else "has no name"
        )
        return ColumnGuess(name, Role.DROPPED, (remark,))
    profile, rows = _profile(name, column), len(column)
    letters = re.sub("[^a-z]", "", normalize("NFKD", name.lower()))  # without accents
    is_discrete = pa.types.is_string(kind) or pa.types.is_integer(kind)
    guess = ColumnGuess(
        name,
        Role.PUBLIC,
        tuple(
            f'"{mark}" {"is" if mark in MISSING_MARKERS else "may be"} a missing value'
            for mark in sorted(marks.get(name, ()))
        ),
        _propose_edges(profile),
        has_repeats=bool((profile.counts > 1).any()),
        is_ordered=pa.types.is_integer(kind) or pa.types.is_temporal(kind),
        is_time=pa.types.is_temporal(kind),
        may_be_sensitive=bool(SENSITIVE.search(name.lower())),
    )
    if is_discrete and len(profile.values) and PERSON.fullmatch(letters):
        gap_remarks = ("some rows have none, which have to be completed or removed",) if profile.missing else ()
        return replace(guess.add_remarks(*gap_remarks), role=Role.PERSON, edges=())
    if NAME_COLUMNS.fullmatch(letters):
        return _mark_as_left_out(guess, "names people")
    if is_discrete and not guess.has_repeats and not profile.missing and rows > 1:
        return _mark_as_left_out(guess, "no value occurs twice")
    if reasons := _list_reasons(profile, rows, has_edges=bool(guess.edges)):
        is_person = (
            is_discrete and guess.has_repeats and not guess.edges and explain_uniqueness(profile, rows) is not None
        )
        return replace(guess.add_remarks(*reasons), role=Role.DROPPED, may_be_person=is_person)
    how = "published in ranges" if guess.is_ranged else "many different values: better in ranges"
    return guess.add_remarks(f"{how}, see [ranges] below") if guess.edges else guess


def _mark_as_left_out(guess: ColumnGuess, remark: str) -> ColumnGuess:
    """A column that names somebody: an identifier, unless its values repeat, which would be told of persons."""
    return replace(guess.add_remarks(remark), role=Role.DROPPED if guess.has_repeats else Role.IDENTIFIER, edges=())


def _profile(name: str, column: pa.ChunkedArray) -> ColumnProfile:
    codes, values = encode_batch_values(column.combine_chunks())
    counts = np.bincount(codes, minlength=len(values) + 1)
    return ColumnProfile(name, values.type, values, counts[:-1], int(counts[-1]), False)


def _propose_edges(profile: ColumnProfile) -> tuple[str, ...]:
    """Round edges for a quantity or a date of many values."""
    kind, name_words = profile.type, re.findall("[a-z]+", re.sub("([a-z])([A-Z])", r"\1 \2", profile.name).lower())
    if len(profile.values) <= MANY_NUMBERS or not CODES.isdisjoint(name_words):
        return ()
    if pa.types.is_integer(kind) or is_fractional(kind):
        numbers = pc.cast(profile.values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return propose_number_edges(np.repeat(numbers, profile.counts), is_whole=pa.types.is_integer(kind))
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        days = pc.cast(profile.values, pa.date32(), safe=False).cast(pa.int32()).to_numpy(zero_copy_only=False)
        return propose_date_edges(np.repeat(days.astype(np.int64), profile.counts))
    return ()


def _list_reasons(profile: ColumnProfile, rows: int, *, has_edges: bool) -> list[str]:
    """Why a column is better left out."""
    reasons = []
    if profile.missing == rows:
        reasons.append("holds no value at all")
    elif 2 * profile.missing > rows:
        reasons.append("mostly missing")
    if len(profile.values) and explain_uniqueness(profile, rows):
        reasons.append(
            "nearly unique as it is: could be published in ranges, see [ranges] below" if has_edges else "nearly unique"
        )
    if pa.types.is_string(profile.type) and len(profile.values):
        if pc.max(pc.utf8_length(profile.values)).as_py() > LONGEST_VALUE:
            reasons.append("long texts, which can name people")
        if pc.any(pc.match_substring_regex(profile.values, "[\r\n]")).as_py():
            reasons.append("texts with line breaks")
    return reasons


def _leave_out_rival_persons(guesses: Sequence[ColumnGuess]) -> tuple[ColumnGuess, ...]:
    """Where several columns may say whose row it is, all of them are left out, and none is named."""
    if sum(guess.role is Role.PERSON for guess in guesses) <= 1:
        return tuple(guesses)
    return tuple(
        replace(_mark_as_left_out(guess, "may say whose row it is"), may_be_person=True)
        if guess.role is Role.PERSON
        else guess
        for guess in guesses
    )


def _check_order_within_persons(guesses: Sequence[ColumnGuess], rows: pa.Table) -> tuple[ColumnGuess, ...]:
    """Nobody's rows stand in an order by what is the same in all of them, as a date of birth is."""
    person = next((guess.name for guess in guesses if guess.role is Role.PERSON), None)
    ordered = [guess.name for guess in guesses if guess.is_ordered and guess.name != person]
    if person is None or not ordered:
        return tuple(guesses)
    ends = rows.group_by(person).aggregate([(name, end) for name in ordered for end in ("min", "max")])
    varying_columns = {
        name for name in ordered if pc.any(pc.not_equal(ends[f"{name}_min"], ends[f"{name}_max"])).as_py()
    }
    return tuple(replace(guess, is_ordered=guess.is_ordered and guess.name in varying_columns) for guess in guesses)
