"""A raw table to practise on: invented hospital stays, with all that makes a real one hard to publish.

Patients come again, stays have numbers of their own, postcodes point at people, '?' stands for what is missing, and a
code tells the diagnosis. No real person is in it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sfumato._commands.demo import DIAGNOSES, SEED
from sfumato.errors import TargetError, explain_os_error

STAYS_PER_PATIENT = 1.4
CODES_PER_DIAGNOSIS = 4
"""So many codes stand for each diagnosis."""
WARDS = ("A1", "A2", "B1", "C3", "ICU")
DISCHARGE_PLACES = ("home", "home care", "rehabilitation", "other hospital")


def make_stays(rows: int, seed: int = SEED) -> pa.Table:
    """Invent stays; the generator is an ordinary one, because these numbers protect nobody."""
    generator = np.random.default_rng(seed)
    names = np.array(list(DIAGNOSES))
    weights = np.array([weight for weight, *_ in DIAGNOSES.values()])
    patients = max(2, int(rows / STAYS_PER_PATIENT))
    patient_numbers = np.append(np.arange(patients), generator.integers(0, patients, max(rows - patients, 0)))[:rows]
    generator.shuffle(patient_numbers)
    # What a patient is stays the same from stay to stay; what is found may change.
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
    """Write invented stays as a CSV file that is not there yet."""
    try:
        with path.open("xb") as file:
            pa.csv.write_csv(make_stays(rows), file)
    except OSError as error:
        raise TargetError(f"the table cannot be written to {str(path)!r}: {explain_os_error(error)}.") from error
