"""Finds untidy values of a column, such as numbers that mark missing values, or several spellings of one value.

Every function looks only at the distinct values of a column with their counts, and never at rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Counts
from sfumato._profile.ranges import is_fractional
from sfumato._readers.type_inference import DATES, SpellingGuess, has_thousands_separators


@dataclass(frozen=True)
class UntidyText:
    """The texts about a kind of untidy values."""

    code: str
    """The code of its notice."""
    remark: str
    """The remark beside a column."""
    finding: str
    """The finding about several columns."""
    remedy: str


class Untidy(Enum):
    """A kind of untidy values, with its texts."""

    MISSING_NUMBERS = UntidyText(
        "missing-numbers",
        "isolated numbers may mark a missing value, see missing above",
        "isolated numbers, such as 99 or -9, which may mark a missing value",
        "declare them as missing values, or empty these cells",
    )
    OUTER_SPACES = UntidyText(
        "outer-spaces",
        "values have spaces at their ends: remove the spaces in the table",
        "values with spaces at their ends",
        "remove the spaces in the table",
    )
    SPELLINGS = UntidyText(
        "several-spellings",
        "one value has several spellings (capitals, spaces, accents): write each value in one way in the table",
        "several spellings of one value, which differ by capitals, spaces or accents",
        "write each value in one way in the table",
    )
    THOUSANDS = UntidyText(
        "thousands-separators",
        "numbers with separators of thousands are read as text: remove the separators in the table",
        "numbers with separators of thousands, which are read as text",
        "remove the separators in the table",
    )
    DATES = UntidyText(
        "dates-as-text",
        "dates in several formats, or with an unclear order of day and month, are read as text: write 2024-12-31 in "
        "the table",
        "dates that are read as text, because their formats differ, or day and month could be swapped",
        "write every date in the form 2024-12-31",
    )
    FREE_TEXT = UntidyText(
        "free-text",
        "free text, which can name people",
        "free text, which can name people",
        "drop it, or replace it by codes",
    )
    NAME_SPACES = UntidyText(
        "spaces-in-names",
        "the name has spaces at its ends: rename the column in the table",
        "names of columns with spaces at their ends",
        "rename the columns in the table",
    )


def find_untidy_kinds(name: str, values: pa.Array, counts: Counts) -> tuple[Untidy, ...]:
    """The kinds of untidiness of a column with these distinct values."""
    has_spaces = (Untidy.NAME_SPACES,) if name != name.strip() else ()
    return (*has_spaces, *(kind for kind, is_found in FINDERS.items() if len(values) and is_found(values, counts)))


# ------------------------------------------------------------------------------------------------------ missing numbers

MISSING_NUMBERS = (
    *(-1, -7, -8, -9, -77, -88, -98, -99, -777, -888, -998, -999, -9999, -99999, -99.9, -999.9),
    *(7, 8, 9, 77, 88, 98, 99, 777, 888, 998, 999, 7777, 8888, 9998, 9999, 77777, 88888, 99999, 999999, 99.9, 999.9),
)
"""Numbers that often mark a missing value."""
LARGEST_CODE = 9
"""Numbers up to this one may mark missing values only in a column of a few codes."""
MOST_CODES = 6
REPEATS = 2
MANY_VALUES = 5
"""A negative number marks a missing value if all others, and at least this many, are not negative."""
NEIGHBOURS = 3
"""A marker must be more frequent than each of this many nearest values."""


def find_missing_numbers(values: pa.Array, counts: Counts) -> tuple[float, ...]:
    """The numbers in a column that often mark a missing value, and are isolated from all other values."""
    if not (pa.types.is_integer(values.type) or is_fractional(values.type)):
        return ()
    numbers = pc.cast(values, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    is_number = np.isfinite(numbers)
    order = np.argsort(numbers[is_number])
    numbers, frequencies = numbers[is_number][order], np.asarray(counts)[is_number][order]
    high, numbers, frequencies = _split_upper_end(numbers, frequencies, is_low=False)
    # The lower end is the upper end of the negative numbers.
    low, _, _ = _split_upper_end(-numbers[::-1], frequencies[::-1], is_low=True)
    return tuple(sorted([*(-number for number in low), *high]))


def _split_upper_end(
    numbers: npt.NDArray[np.float64], frequencies: Counts, *, is_low: bool
) -> tuple[list[float], npt.NDArray[np.float64], Counts]:
    """Splits off the largest numbers that mark missing values. The other numbers keep their frequencies."""
    signed_markers = {-number if is_low else number for number in MISSING_NUMBERS}
    first = len(numbers)
    while first and numbers[first - 1] in signed_markers and frequencies[first - 1] >= REPEATS:
        first -= 1
    while first < len(numbers) and not _is_isolated(numbers, frequencies, first, is_low=is_low):
        first += 1
    return numbers[first:].tolist(), numbers[:first], frequencies[:first]


def _is_isolated(numbers: npt.NDArray[np.float64], frequencies: Counts, first: int, *, is_low: bool) -> bool:
    """Whether the numbers from a position onwards are far from the numbers before it."""
    if first < REPEATS:
        return False
    gap, spread = numbers[first] - numbers[first - 1], numbers[first - 1] - numbers[0]
    if is_low and numbers[first] > 0 and first >= MANY_VALUES and numbers[first - 1] <= 0:
        return True  # the only negative numbers
    if 0 < numbers[first] <= LARGEST_CODE and not is_low:
        return bool(first <= MOST_CODES and gap >= max(spread, REPEATS + 1))
    is_frequent = frequencies[first] > frequencies[max(first - NEIGHBOURS, 0) : first].max()
    return bool(gap >= max(spread, REPEATS) or (is_frequent and gap > REPEATS * spread / (first - 1)))


# ---------------------------------------------------------------------------------------------------------------- text

FEWEST_TEXTS = 20
TEXT_SHARE = 0.2
"""A column of several words is free text if at least this share of its values are different."""
SPACES_OF_A_SENTENCE = 3
DATE_PART = "(0?[1-9]|[12][0-9]|3[01])"
DATE = (
    rf"^((19|20|21)[0-9]{{2}}[./-]{DATE_PART}[./-]{DATE_PART}"
    rf"|{DATE_PART}[./-]{DATE_PART}[./-]((18|19|20|21)?[0-9]{{2}}))([ T].*)?$"
)
"""Anything that looks like a date."""
PROBE = 64
"""The number of values that are tried first, to decide whether all values are examined."""


def has_outer_spaces(values: pa.Array, counts: Counts) -> bool:
    """Whether a string begins or ends with a space."""
    return pa.types.is_string(values.type) and bool(
        pc.any(pc.not_equal(values, pc.utf8_trim_whitespace(values))).as_py()
    )


def has_several_spellings(values: pa.Array, counts: Counts) -> bool:
    """Whether two strings differ only by capitals, spaces, the width of letters, or the encoding of accents."""
    if not pa.types.is_string(values.type):
        return False
    plain = pc.utf8_lower(pc.utf8_normalize(values, form="NFKC"))
    plain = pc.utf8_trim_whitespace(pc.replace_substring_regex(plain, r"\s+", " "))
    return bool(pc.count_distinct(plain).as_py() < len(values))


def has_thousands(values: pa.Array, counts: Counts) -> bool:
    """Whether the strings are numbers with separators of thousands."""
    return pa.types.is_string(values.type) and has_thousands_separators(values)


def has_unread_dates(values: pa.Array, counts: Counts) -> bool:
    """Whether the strings are dates in several formats, or day and month could be swapped."""
    if not pa.types.is_string(values.type):
        return False
    return _all_match(values, DATE) and SpellingGuess.of(values, DATES).spelling is None


def is_free_text(values: pa.Array, counts: Counts) -> bool:
    """Whether most values are several words, and many of them differ."""
    if not pa.types.is_string(values.type) or len(values) < max(FEWEST_TEXTS, TEXT_SHARE * counts.sum()):
        return False
    is_sentence = pc.greater_equal(pc.count_substring(values, " "), SPACES_OF_A_SENTENCE)
    return bool(2 * pc.sum(is_sentence).as_py() > len(values))


def _all_match(values: pa.Array, pattern: str) -> bool:
    """Whether all strings match a pattern. A few strings are tried first."""
    return all(
        pc.all(pc.match_substring_regex(texts, pattern)).as_py()
        for texts in (values[:PROBE], values[PROBE:])
        if len(texts)
    )


FINDERS: Mapping[Untidy, Callable[[pa.Array, Counts], object]] = {
    Untidy.MISSING_NUMBERS: find_missing_numbers,
    Untidy.OUTER_SPACES: has_outer_spaces,
    Untidy.SPELLINGS: has_several_spellings,
    Untidy.THOUSANDS: has_thousands,
    Untidy.DATES: has_unread_dates,
    Untidy.FREE_TEXT: is_free_text,
}
"""The function that finds each kind among the values of a column."""


def group_by_kind(kinds_by_column: Sequence[tuple[str, Sequence[Untidy]]]) -> dict[Untidy, list[str]]:
    """The columns of each kind that occurs, in their order."""
    columns = {kind: list(dict.fromkeys(name for name, kinds in kinds_by_column if kind in kinds)) for kind in Untidy}
    return {kind: names for kind, names in columns.items() if names}
