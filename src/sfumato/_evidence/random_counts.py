"""Random counts of a release, compared with the truth: how large the errors are, and how often intervals cover.

Questions about the same records have related errors. So the coverage is known less exactly than the number of questions
suggests. The error of the coverage is computed from the number of independent questions that would vary as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Floats, Mask
from sfumato._core.json_types import Json
from sfumato._figures import EstimateWithTruth
from sfumato._query.counting.count_request import CountQuery
from sfumato._query.release import Release
from sfumato._risk.attackers.attack_result import compute_wilson_interval
from sfumato._risk.attackers.domain_places import find_domain_places
from sfumato._risk.attackers.record_linkage import encode_shared_values
from sfumato.errors import SfumatoError

CONDITIONS, MOST_COLUMNS, MOST_VALUES = 60, 3, 80
"""The number of random conditions, the most public columns in each, and the most values counted in each."""
MOST_DRAWS = 20 * CONDITIONS
"""The most conditions drawn to find different ones; a table of few columns has fewer."""
TYPICAL_COUNT, NEAR_FACTOR = 1000, 2.0
"""The count for the typical error, and the factor by which included counts may differ."""
EXPECTED_COVERAGE = 0.95
CHUNK_ROWS = 1 << 16


@dataclass(frozen=True)
class Coverage:
    """The share of 95% confidence intervals that cover the truth, with its own error."""

    share: float
    questions: int
    independent_questions: float
    """The number of independent questions whose coverage would vary as much."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of the coverage of all such questions: Wilson's, corrected for continuity.

        Without the correction, two misses among ten independent questions would count as a fault; they are not rare.
        """
        half_step, questions = 0.5 / self.independent_questions, self.independent_questions
        low, _ = compute_wilson_interval(max(self.share - half_step, 0.0), questions)
        _, high = compute_wilson_interval(min(self.share + half_step, 1.0), questions)
        return low, high

    @property
    def is_below_expected(self) -> bool:
        """Whether the share is below 95% by more than its error. A share above 95% only means wide intervals."""
        return self.interval[1] < EXPECTED_COVERAGE

    def to_json(self) -> Json:
        """The coverage as JSON."""
        low, high = self.interval
        return {
            "coverage": self.share,
            "coverage_low": low,
            "coverage_high": high,
            "independent_questions": self.independent_questions,
            "is_coverage_below_expected": self.is_below_expected,
        }


@dataclass(frozen=True)
class Utility:
    """Random counts, compared with the truth."""

    answers: tuple[EstimateWithTruth, ...]
    failure_reason: str = ""
    """The reason why there are no counts, if there are none."""
    independent_questions: float = 0.0
    """The number of independent questions whose coverage would vary as much as that of the counts with an interval."""

    @property
    def known_answers(self) -> list[EstimateWithTruth]:
        """The counts with an interval."""
        return [answer for answer in self.answers if answer.is_complete]

    @property
    def coverage(self) -> Coverage | None:
        """The share of 95% confidence intervals that cover the truth."""
        known_answers = self.known_answers
        if not known_answers:
            return None
        share = sum(answer.is_covered for answer in known_answers) / len(known_answers)
        return Coverage(share, len(known_answers), self.independent_questions)

    @property
    def typical_error(self) -> float | None:
        """The median relative standard error of counts of about a thousand."""
        near_errors = [
            answer.standard_error / answer.truth
            for answer in self.known_answers
            if TYPICAL_COUNT / NEAR_FACTOR <= answer.truth <= TYPICAL_COUNT * NEAR_FACTOR
        ]
        return median(near_errors) if near_errors else None

    def to_json(self) -> Json:
        """The utility as JSON."""
        coverage = self.coverage
        return {
            "questions": len(self.known_answers),
            **({"coverage": None} if coverage is None else coverage.to_json()),
            "relative_error_at_1000": self.typical_error,
            "answers": [
                {
                    "truth": answer.truth,
                    "estimate": answer.estimate,
                    "standard_error": answer.standard_error,
                    "low": keep_finite(answer.low),
                    "high": keep_finite(answer.high),
                }
                for answer in self.known_answers
            ],
            "why_not": self.failure_reason or None,
        }


Condition = Mapping[int, int]
"""The code of some columns."""


def measure_random_counts(release: Release, table: pa.Table, names: Sequence[str], seed: int | None) -> Utility:
    """Draws conditions from records, counts all values in each, and compares the counts with the truth."""
    manifest, rows = release.manifest, table.num_rows
    places, generator = find_domain_places(manifest.naming, table), np.random.default_rng(seed)
    (columns,) = encode_shared_values(names, [table]) if names else ([],)
    conditions = _draw_conditions(columns, rows, generator)
    queries, truths, numbers, values = list[CountQuery](), list[int](), list[int](), list[int]()
    for number, (condition, row) in enumerate(conditions):
        where = {names[place]: table.column(names[place])[row].as_py() for place in condition}
        is_selected = _select_rows(columns, condition, slice(0, rows))
        counts = np.bincount(places[is_selected], minlength=len(manifest.domain))
        for value in _sample_values(counts, generator):
            queries.append(CountQuery(where, [manifest.domain[value]]))
            truths.append(int(counts[value]))
            numbers.append(number)
            values.append(value)
    try:
        estimates = release.count_many(queries)
    except SfumatoError as error:
        return Utility((), str(error))
    answers = tuple(
        EstimateWithTruth.of(float(truth), estimate) for truth, estimate in zip(truths, estimates, strict=True)
    )
    overlaps = measure_overlaps(columns, [condition for condition, _ in conditions], rows)
    is_known = np.array([answer.is_complete for answer in answers], dtype=np.bool_)
    return Utility(
        answers,
        independent_questions=count_independent_questions(
            overlaps, np.array(numbers)[is_known], np.array(values)[is_known], len(manifest.domain)
        ),
    )


def _draw_conditions(
    columns: Sequence[Codes], rows: int, generator: np.random.Generator
) -> list[tuple[Condition, int]]:
    """Draws different conditions, each with a record that meets it."""
    conditions: dict[tuple[tuple[int, int], ...], int] = {}
    for _ in range(MOST_DRAWS if columns and rows else 1):
        number = int(generator.integers(0, min(MOST_COLUMNS, len(columns)) + 1))
        chosen_columns = sorted(generator.choice(len(columns), size=number, replace=False).tolist()) if columns else []
        row = int(generator.integers(rows))
        conditions.setdefault(tuple((place, int(columns[place][row])) for place in chosen_columns), row)
        if len(conditions) == CONDITIONS:
            break
    return [(dict(condition), row) for condition, row in conditions.items()]


def _select_rows(columns: Sequence[Codes], condition: Condition, rows: slice) -> Mask:
    """The records of a part of the table that meet a condition."""
    is_selected = np.ones(rows.stop - rows.start, dtype=np.bool_)
    for place, code in condition.items():
        is_selected &= columns[place][rows] == code
    return is_selected


def measure_overlaps(columns: Sequence[Codes], conditions: Sequence[Condition], rows: int) -> Floats:
    """For each pair of conditions, the number of shared records over the geometric mean of both numbers (0 to 1)."""
    shared_counts = np.zeros((len(conditions), len(conditions)))
    for start in range(0, rows, CHUNK_ROWS):
        part = slice(start, min(start + CHUNK_ROWS, rows))
        is_selected = np.array([_select_rows(columns, condition, part) for condition in conditions], dtype=np.float32)
        shared_counts += is_selected @ is_selected.T
    sizes = np.maximum(shared_counts.diagonal(), 1)
    return np.asarray(shared_counts / np.sqrt(np.outer(sizes, sizes)))


def count_independent_questions(overlaps: Floats, conditions: Codes, values: Codes, domain_size: int) -> float:
    """Counts the independent questions whose coverage varies as much as that of these questions.

    The errors of two counts of one value correlate by the share of records that their conditions share. Counts of
    different values add up to a known number, so their errors correlate by -1/(k - 1) on average, for k values. If
    errors are normal, the coverage of two intervals correlates by at most the square of this correlation.
    """
    if not len(conditions):
        return 0.0
    between_values = 1 / max(domain_size - 1, 1) ** 2
    condition_counts = np.bincount(conditions, minlength=len(overlaps)).astype(np.float64)
    total = between_values * float(condition_counts @ overlaps**2 @ condition_counts)
    for value in np.unique(values):
        same_value = conditions[values == value]
        total += (1 - between_values) * float((overlaps[np.ix_(same_value, same_value)] ** 2).sum())
    return len(conditions) ** 2 / total


def _sample_values(counts: Codes, generator: np.random.Generator) -> list[int]:
    """All values. If there are many values, some that occur and a few random ones."""
    if len(counts) <= MOST_VALUES:
        return list(range(len(counts)))
    occurring = np.flatnonzero(counts)
    most = generator.permutation(occurring)[: 3 * MOST_VALUES // 4]
    rest = generator.permutation(len(counts))[: MOST_VALUES - len(most)]
    return sorted({*most.tolist(), *rest.tolist()})


def keep_finite(number: float | None) -> float | None:
    """A number that JSON can write, or None."""
    return number if number is not None and math.isfinite(number) else None
