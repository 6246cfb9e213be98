"""Finds public columns that look sensitive by their name, their codes, or values that the protected column has too."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from unicodedata import combining, normalize

import pyarrow as pa

from sfumato._records.column_codes import CodedColumn, TableColumn

SENSITIVE_PARTS = re.compile(
    "diag|disease|illness|disorder|syndrom|morbid|symptom|patholog|cancer|tumou?r|carcinom|leuk(a?em|o?s)|diabet|asthma"
    "|psych|suicid|dementia|epilep|hepatit|hypertens|arthrit|allerg|infect|covid|pregnan|abortion|contracep|sexual"
    "|addict|alcohol|medicat|medicin|medicament|medikament|antibioti|insulin|treatment|therap|prescri|vaccin|disabilit"
    "|disabled|handicap|genotyp|genetic|income|salar[iy]|religio|ethnic|politic|offen[cs]e|convict|depress"
    "|krankheit|erkrankung|befund|einkommen|gehalt|schwanger|maladie|revenu|enfermedad|embaraz|behandlung|obes"
)
"""Parts of words that are often sensitive, wherever they occur in the name of a column."""
SENSITIVE_WORDS = re.compile(
    "(icd|hiv|mental|kidney|heart(?!h)|stroke|smok|drug|criminal|earning).*"
    "|(ms|apr|ap)?drg.*|[a-z]*(?<!se)wages?|[a-z]*(results?|outcomes?|(?<!under)scores?|(?<!up)(?<!down)(?<!centi)grades?)"
    "|conditions?|aids|crimes?|rac(e|es|ial)|debts?|orientation|procedures?|proc[0-9]+|meds?|bmi|iq|stds|stis?|lohn"
    "|(dx|px|rx|dg|dgn|pdx|sdx|prdx|ops)[0-9]*"
)
"""Words of names that are often sensitive. The same letters inside another word are no sign."""
SENSITIVE_NAMES = ("std",)
"""Names that are often sensitive. The same word beside other words is no sign, as in std_error."""
USUAL_NAME = re.compile(
    "diag|dx|icd|disease|illness|krankheit|maladie|enfermedad|income|salar[iy]|wage|einkommen|gehalt"
)
"""Parts of the names of columns that data stewards mostly protect."""
PERSON_NAME = re.compile(
    "(patient|patienten|paciente|pat|pt|person|personen|subject|participant|respondent|member|insured|insurance|insuree"
    "|versicherten|client|customer|citizen|resident|employee|student|pupil|user|people|taxpayer|household)s?"
    "(id|nbr|nr|no|num|number|nummer|numero|key|code|identifier)|(id|no|num|numero)(patient|paciente)"
    "|hospital(nbr|nr|no|num|number|nummer)|nhs(no|number)|seqn|eid"
    "|patient|person|subject|mrn|ssn|usubjid|subjid|pid|kvnr|nationalid|socialsecurity(number|no|nbr)?"
)
"""Names of columns that identify the person of a row, without spaces and punctuation."""
DIRECT_NAME = re.compile(
    "(patient|person|subject|customer|client|employee|contact)?(name|firstname|lastname|surname|fullname|givenname"
    "|familyname|forename|maidenname|middlename|email|emailaddress|mail|phone|phonenumber|telephone|mobile|fax|address"
    "|street|streetaddress|passport|passportnumber|iban|licenseplate|ipaddress|url)"
)
"""Names of columns that directly name a person."""

ICD_10 = re.compile(r"[A-TV-Z]\d[0-9AB](\.?[0-9A-Z]{1,4})?[*+!]?")
ICD_9 = re.compile(r"(\d{3}|V\d\d|E\d{3})\.\d{1,2}")
ICD_9_WITH_LETTERS = re.compile(r"(\d{3}|V\d\d|E\d{3})(\.?\d{1,2})?")
"""Codes with or without a point. Numbers without a point may mean anything, so some codes must begin with V or E."""
ATC = re.compile(r"[A-V]\d{2}[A-Z]{2}\d{2}")
"""Codes of medicines."""
OPS = re.compile(r"\d-\d{2}[0-9A-Z](\.[0-9A-Z]{1,2})?")
"""German codes of procedures."""
SNOMED = re.compile(r"[1-9]\d{2,14}[01]0\d")
"""Numbers of concepts. The last digit is a check digit."""
FEWEST_CODES, MANY_CODES, CODE_SHARE = 3, 5, 0.8
"""A column of codes has at least the first number of different values.

If its codes begin with only one or two different letters, it has at least the second number. The share is that of the
values that must have the form of a code list.
"""
DISEASE_OR_MEDICINE = re.compile(
    "diabet|asthma|hypertens|cancer|carcinom|tumou?r|leuk(a?em|o?s)|depressi|epilep|schizo|dementia|hiv|copd|migrain"
    "|pneumon|infarct|stroke|sclero|syndrom|disease|disorder|infect|fractur|pregnan|krankheit|erkrankung"
    r"|(itis|emia|aemia|opathy|statin|pril|olol|sartan|mab|cillin|formin|conazole|zepam|xetine|dipine)\b"
)
WORD_SHARE = 0.3
"""A column of diseases has at least `FEWEST_CODES` different values of which this share has such a word."""
MOST_EXAMINED = 5000
"""The number of different values that are examined. They are spread evenly over all different values."""
SHORTEST_STEM = 2
"""Two names such as DX1 and DX2 belong to one family if they share at least this many letters."""
SHORTEST_PART = 5
"""The fewest letters of a name that counts as part of another name, such as diagnosis in secondary_diagnosis."""
FEWEST_SHARED, SHARED_SHARE, SHARED_NUMBERS = 3, 0.75, 0.9
"""A column shares the values of the protected column if at least this number of its values occur there, and at least
this share. Columns of numbers must share more. Two values, such as yes and no, show nothing.
"""
NO_VALUE = frozenset(
    ("", "-", "none", "no", "nil", "na", "n/a", "null", "unknown", "other", "keine", "aucun", "ninguno")
)
"""Values that a list of diagnoses may have besides diagnoses."""


class Sign(StrEnum):
    """A sign that a column is sensitive. Its value completes a sentence such as `the column has ...`."""

    FAMILY = "a name like the protected column"
    NAME = "a name that is often sensitive"
    PERSON = "a name that identifies people"
    CODES = "codes of diseases, procedures or medicines"
    WORDS = "names of diseases or medicines"
    VALUES = "the values of the protected column"


def find_sensitive_signs(
    columns: Sequence[TableColumn], protected: Sequence[CodedColumn], ranges: Collection[str] = ()
) -> dict[str, Sign]:
    """Finds the columns that look sensitive, each with its first sign. Columns in ranges are judged by name only."""
    protected_names = [part.name for part in protected]
    protected_texts = [_list_texts(part.values) for part in protected]
    signs = {}
    for column in columns:
        if column.name in protected_names:
            continue
        sign = find_name_sign(column.name, protected_names)
        if sign is None and isinstance(column, CodedColumn) and column.name not in ranges:
            sign = find_value_sign(column.values)
            if sign is None and any(_has_shared_values(column.values, texts) for texts in protected_texts):
                sign = Sign.VALUES
        if sign is not None:
            signs[column.name] = sign
    return signs


def find_name_sign(name: str, protected: Sequence[str] = ()) -> Sign | None:
    """Judges a column by its name."""
    letters, words = get_letters(name), _list_words(name)
    if any(_is_family(letters, get_letters(other)) for other in protected):
        return Sign.FAMILY
    if letters in SENSITIVE_NAMES or any(
        SENSITIVE_PARTS.search(word) or SENSITIVE_WORDS.fullmatch(word) for word in words
    ):
        return Sign.NAME
    return Sign.PERSON if is_named_for_persons(name) else None


def find_value_sign(values: pa.Array) -> Sign | None:
    """Judges a column by its different values."""
    texts = _list_texts(values.take(pa.array(range(0, len(values), 1 + len(values) // MOST_EXAMINED), pa.int64())))
    codes = [text.upper() for text in texts]
    if len(codes) < FEWEST_CODES:
        return None
    if _are_snomed(codes):
        return Sign.CODES
    if not pa.types.is_string(values.type):
        return None
    if _are_icd_10(codes) or _are_icd_9(codes) or any(_have_form(codes, form) for form in (ATC, OPS)):
        return Sign.CODES
    named = sum(DISEASE_OR_MEDICINE.search(_remove_accents(text)) is not None for text in texts)
    return Sign.WORDS if named >= max(FEWEST_CODES, WORD_SHARE * len(texts)) else None


def is_named_for_persons(name: str) -> bool:
    """Whether the name of a column says that it identifies people."""
    letters = get_letters(name)
    return bool(PERSON_NAME.fullmatch(letters) or DIRECT_NAME.fullmatch(letters))


def is_usually_protected(name: str) -> bool:
    """Whether a column that looks sensitive is likely to be the one to protect, such as a diagnosis or an income."""
    return USUAL_NAME.search(get_letters(name)) is not None


def get_letters(name: str) -> str:
    """The letters of a name in any script, without accents and capitals."""
    return "".join(filter(str.isalpha, _remove_accents(name))).lower()


def _are_icd_10(codes: Collection[str]) -> bool:
    """Whether cells have the form of ICD-10. A cell may have several codes, or a code with its name.

    Wards, rooms and numbers of people may have the same form. But these have few letters, no point, or numbers that
    start at one.
    """
    firsts = {re.split(r"[\s,;|/]", code, maxsplit=1)[0] for code in codes}
    if not _have_form(firsts, ICD_10):
        return False
    codes = [code for code in firsts if ICD_10.fullmatch(code)]
    if len({code[0] for code in codes}) >= FEWEST_CODES or any("." in code for code in codes):
        return len(codes) >= FEWEST_CODES
    numbers = sorted(int(code[1:]) for code in codes if len(code) == 3 and code[1:].isdecimal())  # noqa: PLR2004 - C61
    is_numbered = numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    return len(codes) >= MANY_CODES and len(numbers) >= CODE_SHARE * len(codes) and not is_numbered


def _are_icd_9(codes: Collection[str]) -> bool:
    """Whether codes have the form of ICD-9."""
    if len(codes) >= MANY_CODES and _have_form(codes, ICD_9):
        return True
    return any(code[0] in "VE" for code in codes) and _have_form(codes, ICD_9_WITH_LETTERS)


def _are_snomed(codes: Collection[str]) -> bool:
    """Whether numbers have the form of SNOMED CT. Round numbers have this form too, but all of them end with 0."""
    last_digits = {code[-1] for code in codes}
    return len(codes) >= MANY_CODES and len(last_digits) >= FEWEST_CODES and _have_form(codes, SNOMED)


def _have_form(codes: Collection[str], form: re.Pattern[str]) -> bool:
    return sum(form.fullmatch(code) is not None for code in codes) >= CODE_SHARE * len(codes)


def _list_texts(values: pa.Array) -> frozenset[str]:
    """The different texts and numbers of a column, in small letters and without outer spaces.

    Texts for no value are left out.
    """
    if not (pa.types.is_string(values.type) or pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        return frozenset()
    return frozenset(_to_texts(values.to_pylist())) - NO_VALUE


def _to_texts(values: Iterable[str | float | None]) -> Iterable[str]:
    for value in values:
        if value is not None:
            is_whole = isinstance(value, float) and value.is_integer()
            yield str(int(value) if is_whole else value).strip().casefold()


def _has_shared_values(values: pa.Array, protected_texts: frozenset[str]) -> bool:
    """Whether a column has the values of the protected one."""
    if SHARED_SHARE * len(values) > len(protected_texts) + len(NO_VALUE):
        return False
    texts = _list_texts(values)
    shared = len(texts & protected_texts)
    if shared < FEWEST_SHARED:
        return False
    if pa.types.is_string(values.type):
        return shared >= SHARED_SHARE * len(texts)
    return shared >= SHARED_NUMBERS * max(len(texts), len(protected_texts))


def _is_family(stem: str, other: str) -> bool:
    if stem == other:
        return len(stem) >= SHORTEST_STEM
    shorter, longer = sorted((stem, other), key=len)
    return len(shorter) >= SHORTEST_PART and shorter in longer


def _list_words(name: str) -> list[str]:
    """The words of a name in small letters. A capital after a small letter begins a word."""
    separated = re.sub("(?<=[a-z])(?=[A-Z])", " ", _remove_accents(name))
    return re.findall("[a-z]+[0-9]*", separated.lower())


def _remove_accents(name: str) -> str:
    return "".join(character for character in normalize("NFKD", name) if not combining(character))
