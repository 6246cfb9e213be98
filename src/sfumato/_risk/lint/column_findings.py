"""Findings about single columns: identities, row numbers, and unnecessary digits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.array_types import Floats
from sfumato._profile.column_checks import explain_uniqueness
from sfumato._profile.role_guessing import MANY_NUMBERS
from sfumato._profile.sensitive_column_signs import is_named_for_persons
from sfumato._profile.table_profile import ColumnProfile
from sfumato._risk.inspected_table import CodedValues
from sfumato._risk.lint.findings import Finding

INDEX_NAME = re.compile(r"Unnamed: \d+(_level_\d+)?|__index_level_\d+__|level_\d+|")
"""The names that pandas gives an index and R gives row names."""
EMAIL = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
TIME = r"[0-9]:[0-5][0-9]:[0-5][0-9]"
WHOLE_MINUTE = r"[0-9]:[0-5][0-9]:00(\.0*)?($|[^0-9.])"
FOUR_WORDS = r"\S+\s+\S+\s+\S+\s+\S+"
LONG_TEXT = 200
MOST_ROWS_EACH = 10
"""A column with a heading such as "name" counts as a column of names if its values have fewer rows than this on
average.
"""
DIGITS = 3
"""Numbers with more decimals than this are more precise than necessary."""
DOUBLE, SINGLE = 1e-9, 1e-5
"""The relative difference allowed between a number of a type and its decimal form."""


def inspect_column(column: CodedValues, rows: int) -> Iterator[Finding]:
    """Lists what a column discloses by its name and its values."""
    profile = column.profile
    if INDEX_NAME.fullmatch(column.name) or _is_row_number(profile, rows):
        yield Finding(
            "index-column",
            f"column {column.name!r} numbers the rows like an index. It may disclose the row of the original, or the "
            "order of the rows.",
            "drop it (pandas: to_csv(index=False), to_parquet(index=False); R: row.names=FALSE).",
            column.name,
        )
        return
    if finding := _find_free_text(profile, rows) or _find_identifier(profile, rows):
        yield finding
    if precision_finding := _find_needless_precision(profile):
        yield precision_finding


def _is_row_number(profile: ColumnProfile, rows: int) -> bool:
    """Whether a column holds consecutive whole numbers, each once, in any order."""
    is_whole = pa.types.is_integer(profile.type) and len(profile.values) == rows > MANY_NUMBERS
    return is_whole and int(profile.values[-1].as_py()) - int(profile.values[0].as_py()) == rows - 1


def _find_identifier(profile: ColumnProfile, rows: int) -> Finding | None:
    reason = explain_uniqueness(profile, rows) if len(profile.values) else None
    if reason is None and _measure_share(profile, EMAIL) > 1 / 2:
        reason = "contains email addresses"
    if reason is None and is_named_for_persons(profile.name) and len(profile.values) * MOST_ROWS_EACH > rows > 1:
        reason = "has a name that suggests an identifier"
    if reason is None:
        return None
    return Finding(
        "identifier",
        f"column {profile.name!r} {reason}, so people can be re-identified through other data.",
        "drop this column, or coarsen it (ranges, groups, fewer digits).",
        profile.name,
        numbers={"values": len(profile.values), "alone": profile.count_unique(), "records": rows},
    )


def _find_free_text(profile: ColumnProfile, rows: int) -> Finding | None:
    if not pa.types.is_string(profile.type) or not len(profile.values):
        return None
    longest = int(pc.max(pc.utf8_length(profile.values)).as_py())
    has_lines = bool(pc.any(pc.match_substring_regex(profile.values, "[\r\n]")).as_py())
    is_prose = _measure_share(profile, FOUR_WORDS) > 1 / 2 and explain_uniqueness(profile, rows) is not None
    if not (longest > LONG_TEXT or has_lines or is_prose):
        return None
    return Finding(
        "free-text",
        f"column {profile.name!r} contains free text (up to {longest:,} "
        f"characters{', with line breaks' * has_lines}), which may name people and places.",
        "drop this column, or replace its text by categories.",
        profile.name,
        numbers={"longest": longest, "values": len(profile.values)},
    )


def _find_needless_precision(profile: ColumnProfile) -> Finding | None:
    if len(profile.values) <= MANY_NUMBERS:
        return None
    kind = profile.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers: Floats = profile.values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        rounding = SINGLE if pa.types.is_float32(kind) else DOUBLE
        with np.errstate(invalid="ignore", over="ignore"):
            is_finer = np.abs(numbers - np.round(numbers, DIGITS)) > rounding * np.maximum(np.abs(numbers), 1)
        share, what = (
            profile.counts[is_finer].sum() / profile.counts.sum(),
            f"more than {DIGITS} digits after the point",
        )
        remedy = "round the column as far as your questions allow, or recode it into ranges."
    elif pa.types.is_timestamp(kind):
        is_minute = pc.equal(pc.floor_temporal(profile.values, unit="minute"), profile.values)
        share = profile.counts[~is_minute.to_numpy(zero_copy_only=False)].sum() / profile.counts.sum()
        what, remedy = "times to the second", "publish days, months or ranges."
    else:
        share = _measure_share(profile, TIME) - _measure_share(profile, WHOLE_MINUTE)
        what, remedy = "times to the second", "publish days, months or ranges."
    if share <= 1 / 2:
        return None
    return Finding(
        "needless-precision",
        f"column {profile.name!r} has {what} in {share:.0%} of its records. Such values almost identify a person for "
        "anyone who has the same values from other data.",
        remedy,
        profile.name,
        numbers={"share": float(share)},
    )


def _measure_share(profile: ColumnProfile, pattern: str) -> float:
    """The share of records whose text matches a pattern."""
    if not pa.types.is_string(profile.type) or not len(profile.values):
        return 0.0
    is_like = pc.match_substring_regex(profile.values, pattern).to_numpy(zero_copy_only=False)
    return float(profile.counts[is_like].sum() / profile.counts.sum())
