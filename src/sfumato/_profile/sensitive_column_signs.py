"""Finds public columns that look sensitive by their name, their codes, or values that the protected column has too."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from unicodedata import normalize

import pyarrow as pa
import pyarrow.compute as pc

from sfumato._records.column_codes import CodedColumn, TableColumn

SENSITIVE_NAME = re.compile(
    "diag|disease|illness|condition|comorbid|symptom|icd|drg|hiv|aids|cancer|tumou?r|carcinom|diabet|asthma|stroke|depress"
    "|mental|psych|suicid|dementia|epilep|hepatit|kidney|heart|hypertens|pregnan|abortion|contracep|sexual|addict|alcohol"
    "|smok|drug|medic|treatment|therap|prescri|vaccin|disab|handicap|genotype|genetic|income|salary|wage|earning|debt"
    "|religio|ethnic|race|orientation|politic|offen[cs]e|crime|convict|result|outcome|score|grade"
    "|krankheit|erkrankung|befund|einkommen|gehalt|schwanger|maladie|revenu|enfermedad|salario"
)
"""Parts of the names of columns that are often sensitive."""
SENSITIVE_WORDS = re.compile(r"dx\d*|px\d*|rx\d*|bmi|std|iq")
"""Whole words in names of columns that are often sensitive. The same letters within a longer word do not count."""
CODE_LISTS = (
    re.compile(r"[A-TV-Z]\d[0-9AB](\.?[0-9A-Z]{1,4})?"),  # ICD-10
    re.compile(r"(\d{3}|V\d\d|E\d{3})\.\d{1,2}"),  # ICD-9
    re.compile(r"[A-V]\d{2}[A-Z]{2}\d{2}"),  # ATC: medicines
)
FEWEST_CODES, CODE_SHARE = 5, 0.8
"""A column of codes has at least this many different values.

At least this share of the values looks like codes of a list.
"""
SHORTEST_STEM = 2
"""Two names such as DX1 and DX2 belong to one family if they share at least this many letters."""
SHORTEST_PART = 5
"""The fewest letters of a name that is sought in other names, such as diagnosis in secondary_diagnosis."""
SHARED_SHARE = 0.9
"""A column shares the values of the protected column if at least this share of its different values occur there."""


class Sign(StrEnum):
    """The sign by which a column looks sensitive. The text of a sign completes a sentence about the column."""

    FAMILY = "has a name like the protected column"
    NAME = "has a name that is often sensitive"
    CODES = "contains codes of diseases or medicines"
    VALUES = "has the values of the protected column"


def find_sensitive_signs(
    columns: Sequence[TableColumn], protected: Sequence[CodedColumn], ranges: Collection[str] = ()
) -> dict[str, Sign]:
    """Finds the columns that look sensitive, with the first sign of each.

    Columns in ranges are judged only by their name.
    """
    names = {column.name for column in protected}
    signs = {}
    for column in columns:
        if column.name in names:
            continue
        sign = find_name_sign(column.name, [part.name for part in protected])
        if sign is None and isinstance(column, CodedColumn) and column.name not in ranges:
            sign = _find_value_sign(column.values, protected)
        if sign is not None:
            signs[column.name] = sign
    return signs


def find_name_sign(name: str, protected: Sequence[str] = ()) -> Sign | None:
    """Judges a column by its name."""
    if any(_is_family(_get_letters(name), _get_letters(other)) for other in protected):
        return Sign.FAMILY
    words = re.findall("[a-z]+[0-9]*", _split_capitals(name))
    is_often_sensitive = SENSITIVE_NAME.search(_get_letters(name)) or any(map(SENSITIVE_WORDS.fullmatch, words))
    return Sign.NAME if is_often_sensitive else None


def looks_like_codes(values: pa.Array) -> bool:
    """Whether the different values of a column have the form of codes of diseases or medicines."""
    if not pa.types.is_string(values.type) or len(values) < FEWEST_CODES:
        return False
    texts = [value.strip() for value in values.to_pylist() if value is not None]
    most = max(sum(pattern.fullmatch(text) is not None for text in texts) for pattern in CODE_LISTS)
    return most >= CODE_SHARE * len(texts)


def _find_value_sign(values: pa.Array, protected: Sequence[CodedColumn]) -> Sign | None:
    if looks_like_codes(values):
        return Sign.CODES
    return Sign.VALUES if any(_has_shared_values(values, part.values) for part in protected) else None


def _has_shared_values(values: pa.Array, protected_values: pa.Array) -> bool:
    """Whether a column has the values of the protected column.

    All numbers must agree, because many columns have 0 and 1.
    """
    if len(values) <= 1 or values.type != protected_values.type:
        return False
    shared = pc.sum(pc.is_in(values, protected_values)).as_py() or 0
    if pa.types.is_string(values.type):
        return shared >= SHARED_SHARE * len(values)
    return shared == len(values) == len(protected_values)


def _get_letters(name: str) -> str:
    """The letters of a name without accents and capitals."""
    return re.sub("[^a-z]", "", normalize("NFKD", name).lower())


def _is_family(stem: str, other: str) -> bool:
    if stem == other:
        return len(stem) >= SHORTEST_STEM
    shorter, longer = sorted((stem, other), key=len)
    return len(shorter) >= SHORTEST_PART and shorter in longer


def _split_capitals(name: str) -> str:
    """A name in small letters, with a blank before each capital that follows a small letter."""
    return re.sub("(?<=[a-z])(?=[A-Z])", " ", normalize("NFKD", name)).lower()
