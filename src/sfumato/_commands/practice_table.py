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
CODES_EACH = 4
"""So many codes stand for each diagnosis."""
WARDS = ("A1", "A2", "B1", "C3", "ICU")
LEFT_FOR = ("home", "home care", "rehabilitation", "other hospital")


def make_stays(rows: int, seed: int = SEED) -> pa.Table:
    """Invent stays; the generator is an ordinary one, because these numbers protect nobody."""
    chance = np.random.default_rng(seed)
    names = np.array(list(DIAGNOSES))
    weights = np.array([weight for weight, *_ in DIAGNOSES.values()])
    patients = max(2, int(rows / STAYS_PER_PATIENT))
    whose = np.append(np.arange(patients), chance.integers(0, patients, max(rows - patients, 0)))[:rows]
    chance.shuffle(whose)
    # What a patient is stays the same from stay to stay; what is found may change.
    sex, age = chance.choice(["F", "M"], patients), chance.integers(18, 95, patients)
    home = chance.integers(10_000, 100_000, patients)
    diagnosis_numbers = chance.choice(len(names), rows, p=weights / weights.sum())
    codes = np.array(
        [[f"{chr(65 + place)}{10 + number}" for number in range(CODES_EACH)] for place in range(len(names))]
    )
    day = np.datetime64("2023-01-01") + chance.integers(0, 730, rows)
    is_known = chance.random(rows) >= 0.01  # noqa: PLR2004
    weight = np.where(chance.random(rows) < 0.04, chance.integers(45, 120, rows).astype(str), "?")  # noqa: PLR2004
    return pa.table(
        {
            "stay_id": 3_000_000 + 7 * chance.permutation(rows),
            "patient_nbr": 800_000 + 13 * whose,
            "sex": np.where(chance.random(rows) < 0.01, "?", sex[whose]),  # noqa: PLR2004
            "age": age[whose],
            "postcode": home[whose],
            "weight": weight,
            "admitted": day.astype(str),
            "days": 1 + chance.geometric(0.2, rows),
            "ward": chance.choice(WARDS, rows),
            "left_for": chance.choice(LEFT_FOR, rows, p=[0.7, 0.15, 0.1, 0.05]),
            "icd": np.where(is_known, codes[diagnosis_numbers, chance.integers(0, CODES_EACH, rows)], "?"),
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
