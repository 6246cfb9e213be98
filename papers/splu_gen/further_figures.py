"""Figure 12 and section 6.5 of small sums (2014): two sensitive columns, and rounds; and what ours gains."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import STANDARD_ERRORS, Outcome, Verdict, judge
from papers.experiment_tables import TableSample
from papers.splu_gen.band_errors import (
    CENSUS_SHARES,
    HEADINGS,
    BandError,
    BandErrors,
    capitalize,
    describe_extent,
    describe_range,
    format_sizes,
    make_whole_band,
    measure,
)
from papers.splu_gen.query_trials import (
    BY_ORDER,
    DBR,
    OURS,
    PRINTED,
    SHRUNK,
    QueriedTable,
    count_ours,
    iterate,
)
from sfumato._core.array_types import Counts
from sfumato._figures.number_format import format_percent, format_quantity
from sfumato._query.estimate import Estimates
from sfumato._query.intervals import DEFAULT_LEVEL
from sfumato.errors import SourceError

# ---------------------------------------------------------------------------------------------- two sensitive columns

INTERVALS = 10
TWO_SHARES = ("0.1%", "0.7%")


def group_ages(sample: TableSample) -> TableSample:
    """Age in ten intervals of about as many records each, as the paper has it; "90 and more" is 90."""
    try:
        ages = sample.table["Age"].cast(pa.string()).combine_chunks().dictionary_encode()
        years = [int("".join(filter(str.isdigit, word))) for word in ages.dictionary.to_pylist()]
        numbers = np.array(years)[np.asarray(ages.indices)]
    except (KeyError, ValueError, TypeError, pa.ArrowInvalid) as error:
        raise SourceError(
            "the table of occupations needs a column Age of whole years, and none missing.",
            code="missing-column",
            fields={"column": "Age"},
        ) from error
    edges = np.unique(np.quantile(numbers, np.arange(1, INTERVALS) / INTERVALS))
    groups = pa.array([f"age group {number + 1:02}" for number in np.searchsorted(edges, numbers, side="left")])
    place = sample.table.column_names.index("Age")
    return replace(sample, table=sample.table.set_column(place, "Age", groups))


def figure12(conditions: Conditions) -> Outcome:
    """Two sensitive columns, age and occupation, against the group size."""
    rows = conditions.choose(10_000, 100_000)
    sample = group_ages(conditions.tables.get_sample("occupations", rows, conditions.seed))
    band, single = make_whole_band(TWO_SHARES, rows), make_whole_band(CENSUS_SHARES, rows)
    two = QueriedTable.from_two_columns(conditions, sample, "Age", band, conditions.choose(100, 1000))
    one = QueriedTable.of(conditions, sample, single, conditions.choose(100, 1000))
    sizes, two_column_errors = conditions.choose((2, 8), (2, 3, 5, 8)), []
    one_column_errors: dict[int, BandError] = {}
    for size in conditions.iter_steps(sizes):
        two_column_errors += measure(conditions, two, size, (PRINTED, OURS, DBR), [band])
        one_column_errors |= {
            band_error.group_size: band_error for band_error in measure(conditions, one, size, (PRINTED,), [single])
        }
    band_errors = BandErrors(
        [
            *two_column_errors,
            *(replace(band_error, name="printed, one column") for band_error in one_column_errors.values()),
        ]
    )
    pairs = {
        size: (band_errors.find_error(PRINTED, size), one_column_errors[size].errors.mean) for size in one_column_errors
    }
    matching_sizes = [size for size, (both, only) in pairs.items() if both <= 1.25 * only]
    last = sizes[-1]
    is_lost = band_errors.find_error(OURS, last) > band_errors.find_error(DBR, last)
    sentence = capitalize(
        f"{describe_extent(conditions, two)}the printed iteration has {format_percent(pairs[sizes[0]][0])} for two "
        f"columns and {format_percent(pairs[sizes[0]][1])} for one in groups of {sizes[0]}, "
        f"{format_percent(pairs[last][0])} and {format_percent(pairs[last][1])} in groups of {last}, and matches one "
        "column to a quarter "
        + (f"in groups of {format_sizes(matching_sizes)}" if matching_sizes else "at no group size")
        + "; values drawn afresh, each column for itself, have "
        f"{format_percent(band_errors.find_error(DBR, last))}, and "
        f"counted without bias the error is {format_percent(band_errors.find_error(OURS, sizes[0]))} and "
        f"{format_percent(band_errors.find_error(OURS, last))}"
        + (": groups that large tell less of how columns go together than is lost by noise." if is_lost else ".")
    )
    figure = band_errors.draw_by_group_size(
        "Error of counts of two sensitive values, 0.1% to 0.7% of the records", describe_range(band_errors, last)
    )
    return Outcome(HEADINGS, band_errors.rows, judge([len(matching_sizes) == len(sizes)]), sentence, figure)


# ---------------------------------------------------------------------------------------------- costs, and what is ours


PRINTED_MEDIAN, PRINTED_MEAN = 16, 325
"""The rounds of section 6.5, for a group size that it does not name."""


def covers_median(rounds: Counts) -> bool:
    """Whether the printed median is within three standard errors of ours, by the ranks of the rounds."""
    ranked, middle, spread = np.sort(rounds), (len(rounds) - 1) / 2, STANDARD_ERRORS * len(rounds) ** 0.5 / 2
    low, high = ranked[max(math.floor(middle - spread), 0)], ranked[min(math.ceil(middle + spread), len(rounds) - 1)]
    return bool(low <= PRINTED_MEDIAN <= high)


def covers_mean(rounds: Counts) -> bool:
    """Whether the printed mean is within three standard errors of ours."""
    error = float(rounds.std(ddof=1)) / len(rounds) ** 0.5
    return bool(abs(float(rounds.mean()) - PRINTED_MEAN) <= STANDARD_ERRORS * error)


def describe_match(rounds_by_size: Mapping[int, Counts]) -> tuple[bool, str]:
    """Whether one and the same group size has both printed numbers, and which sizes have which."""
    both = [size for size, rounds in rounds_by_size.items() if covers_median(rounds) and covers_mean(rounds)]
    if both:
        return True, f"groups of {format_sizes(both)} have both to three standard errors"
    texts = []
    for number, covers in ((PRINTED_MEDIAN, covers_median), (PRINTED_MEAN, covers_mean)):
        sizes = [size for size, rounds in rounds_by_size.items() if covers(rounds)]
        texts.append(f"{number} {f'in groups of {format_sizes(sizes)}' if sizes else 'at none'}")
    return False, f"no group size has both to three standard errors ({' and '.join(texts)})"


def section6_5(conditions: Conditions) -> Outcome:
    """How many rounds the iteration takes for two sensitive columns, and how long."""
    rows = conditions.choose(10_000, 100_000)
    sample = group_ages(conditions.tables.get_sample("occupations", rows, conditions.seed))
    trial = QueriedTable.from_two_columns(
        conditions, sample, "Age", make_whole_band(TWO_SHARES, rows), conditions.choose(100, 1000)
    )
    rounds_by_size: dict[int, Counts] = {}
    times: list[tuple[int, float, float, int, float, float]] = []
    for size in conditions.iter_steps(conditions.choose((2, 5), range(2, 9))):
        began = time.process_time()
        _, rounds = iterate(conditions, trial, size, 0)
        between_both = time.process_time()
        count_ours(conditions, trial, size, 0)
        ended = time.process_time()
        rounds_by_size[size] = rounds
        milliseconds_factor = 1000 / len(trial.pool)
        times.append(
            (
                size,
                float(np.median(rounds)),
                float(rounds.mean()),
                int(rounds.max()),
                milliseconds_factor * (between_both - began),
                milliseconds_factor * (ended - between_both),
            )
        )
    medians, means = [row[1] for row in times], [row[2] for row in times]
    holds, match = describe_match(rounds_by_size)
    sentence = capitalize(
        f"{describe_extent(conditions, trial)}the iteration stops after {format_quantity(min(medians))} to "
        f"{format_quantity(max(medians))} rounds in the median and {format_quantity(min(means))} to "
        f"{format_quantity(max(means))} on average, by the group size. In print it is {PRINTED_MEDIAN} and "
        f"{PRINTED_MEAN} for one that is not named: {match}. Where a count dies out the rule of 1% never holds, and "
        f"ours were cut at {format_quantity(max(row[3] for row in times))}."
    )
    headings = ("group size", "median rounds", "mean rounds", "most", "ms a query, printed", "ms a query, ours")
    return Outcome(headings, tuple(times), judge([holds]), sentence)


def beyond(conditions: Conditions) -> Outcome:
    """Large counts at the same group size, and so at the same promise: printed, and ours."""
    rows = conditions.choose(20_000, 100_000)
    sample = conditions.tables.get_sample("occupations", rows, conditions.seed)
    band = make_whole_band(CENSUS_SHARES, rows)
    trial = QueriedTable.of(conditions, sample, band, conditions.choose(40, 300))
    sizes, band_errors, coverages = conditions.choose((2, 10), (2, 3, 5, 8, 10)), [], []
    for size in conditions.iter_steps(sizes):
        band_errors += measure(conditions, trial, size, (PRINTED, BY_ORDER, OURS, SHRUNK), [band])
        low, high = Estimates(count_ours(conditions, trial, size, 0), "", "").interval(DEFAULT_LEVEL)
        coverages.append(float(((low <= trial.pool.truths) & (trial.pool.truths <= high)).mean()))
    all_errors = BandErrors(band_errors)
    gains = {
        name: [all_errors.find_error(name, size) / all_errors.find_error(PRINTED, size) for size in sizes]
        for name in (OURS, SHRUNK)
    }
    first, last = sizes[0], sizes[-1]
    sentence = capitalize(
        f"{describe_extent(conditions, trial)}at the same group size, and so at the same promise, ours has "
        f"{gains[OURS][0]:.2g} of the printed error in groups of {first} and {gains[OURS][-1]:.2g} in groups of "
        f"{last}, shrunk (biased, without an interval) {gains[SHRUNK][0]:.2g} and {gains[SHRUNK][-1]:.2g}; and "
        f"{format_percent(min(coverages))} to {format_percent(max(coverages))} of the 95% intervals hold the truth, "
        "where the paper has none."
    )
    figure = all_errors.draw_by_group_size(
        "Error of large counts at the same promise", describe_range(all_errors, last)
    )
    return Outcome(HEADINGS, all_errors.rows, Verdict.BEYOND, sentence, figure)


FURTHER = (
    Experiment("small-sums/fig12", "two sensitive columns", figure12, is_long=True),
    Experiment("small-sums/sec6-5", "rounds and time of a query", section6_5, ("the rule of 1%",), is_long=True),
    Experiment("small-sums/beyond", "what ours gains at the same promise", beyond, is_long=True),
)
