"""Signs of sensitive columns: by names and values that are, and beside names and values that only resemble them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sfumato._profile.sensitive_column_signs import Sign, find_name_sign, find_sensitive_signs, find_value_sign
from sfumato._records.column_codes import CodedColumn

SENSITIVE = (
    *("DX1", "dx_2", "PX1", "rx", "DRG", "ms_drg", "Diagnose2", "Nebendiagnose", "hauptdiag", "Diagnóstico", "icd10"),
    *(
        "icd9_code",
        "hiv",
        "HIVStatus",
        "aids",
        "race",
        "racial_group",
        "ethnicity",
        "income",
        "monthlyWage",
        "hourlywage",
    ),
    *("heart_disease", "smoker", "smoke100", "drugs", "medication_list", "meds", "grade", "test_result", "GradeGPA"),
    *("credit_score", "health_condition", "treatment", "std", "stds", "sti", "bmi", "IQ", "mental_health", "crime"),
    *(
        "procedure",
        "PROC3",
        "earnings",
        "kidney",
        "depressed",
        "had_stroke",
        "Krankheit",
        "Gehalt",
        "political_party",
        "Behandlung",
    ),
)
ORDINARY = (
    *("age", "sex", "gender", "region", "ward", "admitted", "admission_type", "weight", "height", "marital_status"),
    *("education", "occupation", "country", "native_country", "year", "discharge_disposition", "discharge_date", "los"),
    *(
        "hearth",
        "centigrade",
        "downgraded",
        "underscore",
        "brace",
        "terrace",
        "trace",
        "grace_period",
        "upgrade",
        "archive",
        "clinic_date",
        "basic_duration",
    ),
    *(
        "sewage",
        "learning_hours",
        "environmental",
        "experimental_arm",
        "department",
        "std_error",
        "age_std",
        "keystrokes",
    ),
    *("unconditional", "airconditioned", "resulting", "underscored", "crimea", "medical_ward", "hospital", "payer"),
    *("embrace", "household_size", "urban", "hours", "insurance_type", "wager", "stationary", "sequence", "quarter"),
    *("nationality", "housing", "tenure", "children", "transport", "shift", "season", "source", "language", "status"),
)


@pytest.mark.parametrize("name", SENSITIVE)
def test_sensitive_name_is_found(name: str) -> None:
    assert find_name_sign(name) is Sign.NAME


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_name_is_no_sign(name: str) -> None:
    assert find_name_sign(name) is None


@pytest.mark.parametrize("name", ["patient_id", "Patienten-Nr", "last_name", "e-mail", "SSN", "phone", "name"])
def test_name_of_a_person_is_found(name: str) -> None:
    assert find_name_sign(name) is Sign.PERSON


@pytest.mark.parametrize(
    ("name", "protected", "is_family"),
    [
        ("DX2", "DX1", True),
        ("zz7", "zz", True),
        ("диагноз 2", "диагноз", True),
        ("診断2", "診断1", True),
        ("secondary_finding", "finding", True),
        ("x2", "x1", False),
        ("town", "finding", False),
    ],
)
def test_family_of_the_protected_column_is_found(name: str, protected: str, is_family: bool) -> None:
    assert (find_name_sign(name, [protected]) is Sign.FAMILY) is is_family


@pytest.mark.parametrize(
    "values",
    [
        ["E11.9", "I10", "J44"],
        ["A10", "B20", "C30", "unknown", "D40", "E50"],
        ["c50", "c61 ", " c34", "c18", "c90"],
        ["E119", "I10", "J449", "none"],
        ["I10; E11.9", "J44", "K21.0, I10"],
        ["I10 Hypertension", "J44 COPD", "E11 Diabetes"],
        ["250.83", "V57", "276"],
        ["25000", "4019", "V5789", "E8859", "41401"],
        ["250.00", "401.9", "414.01", "428.0", "786.50"],
        ["A10BA02", "C09AA05", "N02BE01", "B01AC06", "C10AA05"],
        ["5-820.00", "5-470.1", "8-800", "1-632.0", "5-511.11"],
        [38341003, 73211009, 195967001, 44054006, 22298006],
        ["38341003", "73211009", "195967001", "44054006", "22298006"],
    ],
)
def test_codes_are_found(values: list[Any]) -> None:
    assert find_value_sign(pa.array(values)) is Sign.CODES


@pytest.mark.parametrize(
    "values",
    [
        ["hypertension", "asthma", "HIV", "none"],
        ["metformin; insulin", "atorvastatin", "ramipril", "bisoprolol"],
        ["Hepatitis C", "Migräne", "Diabète de type 2", "Leukämie", "Krebserkrankung"],
    ],
)
def test_names_of_diseases_and_medicines_are_found(values: list[str]) -> None:
    assert find_value_sign(pa.array(values)) is Sign.WORDS


@pytest.mark.parametrize(
    "values",
    [
        ["P1001", "P1002", "P1003", "P1004", "P1005", "P1006"],
        ["W01", "W02", "W03", "W04", "W05", "W06"],
        ["276", "250", "10115", "80331", "20095"],
        [276, 250, 10115, 80331, 20095],
        [250.25, 401.9, 414.01, 428.0, 786.5],
        [100000, 250000, 120000, 300000, 800000],
        [101001, 202101, 303001, 404101, 505001],
        ["north", "south", "east", "west"],
        ["January", "April", "July", "October"],
        ["Cardiology", "Oncology", "Surgery", "Psychiatry", "Infectious diseases"],
        ["yes", "no", "refused"],
        ["2024-01-31", "2024-02-28", "2024-03-31"],
        ["[0,20)", "[20,40)", "[40,60]"],
        ["HS-grad", "Some-college", "11th", "Masters"],
        [True, False],
        [],
    ],
)
def test_ordinary_values_are_no_sign(values: list[Any]) -> None:
    assert find_value_sign(pa.array(values)) is None


DISEASES = ["alpha", "beta", "gamma", "delta"]


@pytest.mark.parametrize(
    ("protected", "values", "is_shared"),
    [
        (DISEASES, ["alpha", "beta", "gamma"], True),
        (DISEASES, ["Alpha ", "BETA", "gamma", "none"], True),
        (DISEASES, ["alpha", "beta"], False),
        (DISEASES, ["alpha", "beta", "gamma", "v", "w", "x", "y"], False),
        (["yes", "no"], ["yes", "no"], False),
        ([0, 1], [0, 1], False),
        ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5], True),
        (["1", "2", "3", "4", "5"], [1, 2, 3, 4, 5], True),
        ([1, 2, 3, 4, 5], [1.0, 2.0, 3.0, 4.0, 5.0], True),
        ([1, 2, 3, 4, 5], [1, 2, 3], False),
        (list(range(30)), list(range(28)), True),
    ],
)
def test_values_of_the_protected_column_are_found(protected: list[Any], values: list[Any], is_shared: bool) -> None:
    one, other = (CodedColumn(name, pa.array(array), False) for name, array in (("one", protected), ("q", values)))
    assert find_sensitive_signs([one, other], [one]) == ({"q": Sign.VALUES} if is_shared else {})
    assert find_sensitive_signs([one, other], [one], ranges=["q"]) == {}


def test_large_column_is_judged_by_some_of_its_values() -> None:
    codes = [f"{letter}{number:02d}.{rest}" for letter in "ABCDEFGH" for number in range(100) for rest in range(10)]
    assert find_value_sign(pa.array(codes)) is Sign.CODES
