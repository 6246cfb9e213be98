"""Runs the demonstration: publishes an invented table, verifies the release, and checks answers against the truth."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sfumato import BreachBound, Estimate, Publication, Request, Schema, Verification, publish, verify
from sfumato._core.cell_values import Value
from sfumato._engines.engine import Engine
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato.errors import TargetError, explain_os_error

# A raw table for practice, of invented hospital stays that are as hard to publish as real ones. Patients have several
# stays, stays have numbers, postcodes are nearly unique, '?' marks missing values, and a code discloses the diagnosis.
# No real person is in the table.

SEED = 20_260
STAYS_PER_PATIENT = 1.4
CODES_PER_DIAGNOSIS = 4
"""The number of codes for each diagnosis."""
WARDS = ("A1", "A2", "B1", "C3", "ICU")
DISCHARGE_PLACES = ("home", "home care", "rehabilitation", "other hospital")


def make_stays(rows: int, seed: int = SEED) -> pa.Table:
    """Invent stays. An ordinary generator of random numbers suffices, because these numbers protect nobody."""
    generator = np.random.default_rng(seed)
    names = np.array(list(DIAGNOSES))
    weights = np.array([weight for weight, *_ in DIAGNOSES.values()])
    patients = max(2, int(rows / STAYS_PER_PATIENT))
    patient_numbers = np.append(np.arange(patients), generator.integers(0, patients, max(rows - patients, 0)))[:rows]
    generator.shuffle(patient_numbers)
    # The attributes of a patient are the same at every stay, but diagnoses may differ.
    sex, age = generator.choice(["F", "M"], patients), generator.integers(18, 95, patients)
    postcodes = generator.integers(10_000, 100_000, patients)
    diagnosis_numbers = generator.choice(len(names), rows, p=weights / weights.sum())
    codes = np.array(
        [[f"{chr(65 + place)}{10 + number}" for number in range(CODES_PER_DIAGNOSIS)] for place in range(len(names))]
    )
    day = np.datetime64("2023-01-01") + generator.integers(0, 730, rows)
    is_known = generator.random(rows) >= 0.01  # noqa: PLR2004
    weight = np.where(generator.random(rows) < 0.04, generator.integers(45, 120, rows).astype(str), "?")  # noqa: PLR2004
    return pa.table(
        {
            "stay_id": 3_000_000 + 7 * generator.permutation(rows),
            "patient_nbr": 800_000 + 13 * patient_numbers,
            "sex": np.where(generator.random(rows) < 0.01, "?", sex[patient_numbers]),  # noqa: PLR2004
            "age": age[patient_numbers],
            "postcode": postcodes[patient_numbers],
            "weight": weight,
            "admitted": day.astype(str),
            "days": 1 + generator.geometric(0.2, rows),
            "ward": generator.choice(WARDS, rows),
            "left_for": generator.choice(DISCHARGE_PLACES, rows, p=[0.7, 0.15, 0.1, 0.05]),
            "icd": np.where(is_known, codes[diagnosis_numbers, generator.integers(0, CODES_PER_DIAGNOSIS, rows)], "?"),
            "diagnosis": np.where(is_known, names[diagnosis_numbers], "?"),
        }
    )


def write_stays(path: Path, rows: int) -> None:
    """Write invented stays as a new CSV file."""
    try:
        with path.open("xb") as file:
            pa.csv.write_csv(make_stays(rows), file)
    except OSError as error:
        raise TargetError(
            f"the table cannot be written to {str(path)!r}: {explain_os_error(error)}.",
            code="unwritable-file",
            fields={"file": str(path), "reason": explain_os_error(error)},
        ) from error


# ---------------------------------------------------------------------------------------------------------------------

ROWS = 50_000
SENSITIVE = "diagnosis"
BOUND = BreachBound("1/10", "1/3")
AGE_RANGES = (0, 20, 40, 60, 80, 100)

DIAGNOSES = {
    # name: (weight, typical age, spread of age, weight of women to men)
    "hypertension": (22, 62, 14, 1.0),
    "type 2 diabetes": (14, 60, 13, 0.8),
    "back pain": (13, 48, 15, 1.0),
    "depression": (10, 42, 15, 1.7),
    "asthma": (8, 30, 18, 1.2),
    "COPD": (6, 67, 10, 0.8),
    "heart failure": (6, 74, 9, 0.8),
    "migraine": (5, 37, 12, 2.6),
    "pneumonia": (4, 58, 24, 0.8),
    "breast cancer": (3, 61, 12, 60.0),
    "prostate cancer": (3, 70, 8, 0.0),
    "epilepsy": (2, 34, 20, 0.9),
    "multiple sclerosis": (1.5, 41, 11, 2.4),
    "HIV": (1, 42, 11, 0.3),
    "hepatitis C": (0.8, 50, 12, 0.6),
    "tuberculosis": (0.4, 45, 18, 0.6),
}
CHAPTERS = {
    "circulation": ("hypertension", "heart failure"),
    "hormones": ("type 2 diabetes",),
    "bones": ("back pain",),
    "mind": ("depression",),
    "lungs": ("asthma", "COPD", "pneumonia"),
    "nerves": ("migraine", "epilepsy", "multiple sclerosis"),
    "tumours": ("breast cancer", "prostate cancer"),
    "infections": ("HIV", "hepatitis C", "tuberculosis"),
}
REGIONS = ("North", "East", "South", "West")
QUESTIONS = (
    ("women with HIV", "SELECT COUNT(*) FROM release WHERE sex = 'F' AND diagnosis = 'HIV'"),
    (
        "aged 60 to 79 with COPD or heart failure",
        "SELECT COUNT(*) FROM release WHERE age >= 60 AND age < 80 AND diagnosis IN ('COPD', 'heart failure')",
    ),
    (
        "depression by region",
        "SELECT region, COUNT(*) FROM release WHERE diagnosis = 'depression' GROUP BY region",
    ),
)


@dataclass(frozen=True)
class CheckedAnswer:
    """An answer, with the true number."""

    question: str
    truth: int
    estimate: Estimate

    @property
    def is_covered(self) -> bool:
        """Whether the interval contains the true number."""
        low, high = self.estimate.interval(DEFAULT_LEVEL)
        return low <= self.truth <= high


@dataclass(frozen=True)
class Demonstration:
    """The files and results of the demonstration."""

    table: Path
    publication: Publication
    verification: Verification
    answers: tuple[CheckedAnswer, ...]


def make_hospital_table(rows: int, seed: int = SEED) -> pa.Table:
    """Invent patients. Some diagnoses are much more frequent, and diagnoses depend on age and sex. No person is real.

    An ordinary generator of random numbers suffices, because these numbers protect nobody.
    """
    generator = np.random.default_rng(seed)
    weights = np.array([weight for weight, *_ in DIAGNOSES.values()])
    diagnosis_numbers = generator.choice(len(weights), size=rows, p=weights / weights.sum())
    _, middle, spread, women = (np.array(column)[diagnosis_numbers] for column in zip(*DIAGNOSES.values(), strict=True))
    age = np.clip(np.rint(generator.normal(middle, spread)), 0, 99).astype(np.int16)
    sex = np.where(generator.random(rows) < women / (1 + women), "F", "M")
    region = generator.choice(REGIONS, size=rows, p=[0.35, 0.15, 0.3, 0.2])
    return pa.table(
        {
            "patient": [f"P{number:07d}" for number in generator.permutation(rows)],
            "age": age,
            "sex": sex,
            "region": region,
            "admission": np.where(generator.random(rows) < 0.2 + age / 250, "emergency", "planned"),
            SENSITIVE: np.array(list(DIAGNOSES))[diagnosis_numbers],
        }
    )


def demo(folder: str | Path, rows: int = ROWS, engine: Engine | None = None) -> Demonstration:
    """Write the table and its release into a folder, verify the release, and ask the release three questions.

    The folder also gets a code book with the possible diagnoses and their chapters.
    """
    folder = Path(folder)
    table = folder / "hospital.parquet"
    pq.write_table(make_hospital_table(rows), table)
    (folder / "diagnoses.txt").write_text("".join(f"{name}\n" for name in DIAGNOSES))
    lines = [f"{name},{chapter}\n" for chapter, names in CHAPTERS.items() for name in names]
    (folder / "chapters.csv").write_text("".join([f"{SENSITIVE},chapter\n", *lines]))
    public = ("age", "sex", "region", "admission")
    schema = Schema.of(
        SENSITIVE, person="patient", public=public, domains={SENSITIVE: tuple(DIAGNOSES)}, ranges={"age": AGE_RANGES}
    )
    # Notices are ignored, because the table is invented.
    request = Request(table, schema=schema, spec=BOUND)
    journal = folder / "journal.jsonl"
    publication = publish(request, folder / "release", engine=engine, on_notice=lambda notice: None, journal=journal)
    verification = verify(folder / "release", table)
    answers = [line for title, sql in QUESTIONS for line in _ask(publication, table, title, sql)]
    return Demonstration(table, publication, verification, tuple(answers))


def _ask(publication: Publication, table: Path, title: str, sql: str) -> list[CheckedAnswer]:
    with duckdb.connect() as connection:
        connection.read_parquet(str(table)).create_view("release")
        truths: dict[tuple[Value, ...], int] = {
            tuple(groups): count for *groups, count in connection.execute(sql).fetchall()
        }
    answers = []
    answer = publication.release.sql(sql)
    for row in answer.rows:
        key = tuple(value for name, value in row.items() if name not in answer.numbers)
        (estimate,) = (row[name] for name in answer.numbers)
        answers.append(CheckedAnswer(": ".join([title, *map(str, key)]), truths.get(key, 0), estimate))
    return answers
