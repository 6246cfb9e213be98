"""Errors of mechanisms on a pool of queries: publish, ask, compare with the truth, several times.

Releases are thrown away: their keys follow from the seed, so that a run can be repeated, and no release of a holder is
ever made so.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from papers.accuracy import compute_relative_errors
from papers.experiment import Conditions
from papers.experiment_outcome import STANDARD_ERRORS
from papers.experiment_tables import TableSample
from papers.query_pools import Band, Pool
from sfumato._core.array_types import Floats
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.estimate import Estimates
from sfumato._query.release import Release
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.schema import Schema

REASON = "the release is measured and thrown away"
REPEATS = 3
"""Releases of a full run: enough for a standard error."""


@dataclass(frozen=True)
class Contestant:
    """A mechanism with what is asked of it, and how its releases are asked."""

    name: str
    mechanism: str
    spec: PrivacySpec
    options: Mapping[str, Any] = field(default_factory=dict)
    method: str | None = None
    """The estimator; the release's own if none is named."""


@dataclass(frozen=True)
class MeanError:
    """The mean relative error of a band over some releases, and how far that mean may be off."""

    mean: float
    standard_error: float
    query_count: int

    @property
    def percent(self) -> float:
        """In per cent, as the works print it."""
        return 100 * self.mean

    @property
    def is_repeated(self) -> bool:
        """Whether there were several releases, so that chance is known."""
        return math.isfinite(self.standard_error)

    def is_below(self, other: MeanError) -> bool:
        """Whether it is smaller by more than chance."""
        noise = (self.standard_error**2 + other.standard_error**2) ** 0.5
        return bool(other.mean - self.mean > STANDARD_ERRORS * noise)


@dataclass(frozen=True)
class MeasuredAnswers:
    """The answers of several releases to a pool, and the processor seconds that publishing took at least."""

    pool: Pool
    answers: tuple[Estimates, ...]
    seconds: float

    def compute_errors(self, band: Band, at_least: float = 1) -> MeanError:
        """Of the queries of a band: one mean for each release, of which the mean and its standard error."""
        return compute_mean_error(self.pool, [answer.value for answer in self.answers], band, at_least)


def compute_mean_error(pool: Pool, answers: Sequence[Floats], band: Band, at_least: float = 1) -> MeanError:
    """The same for answers of any origin: an array for each repeat, a number for each query of the pool."""
    is_in_band = band.holds(pool.truths)
    truths = pool.truths[is_in_band]
    if not len(truths):
        return MeanError(np.nan, np.nan, 0)
    repeat_means: Floats = np.array(
        [compute_relative_errors(answer[is_in_band], truths, at_least).mean() for answer in answers]
    )
    spread = float(repeat_means.std(ddof=1) / len(repeat_means) ** 0.5) if len(repeat_means) > 1 else np.nan
    return MeanError(float(repeat_means.mean()), spread, len(truths))


def measure(conditions: Conditions, sample: TableSample, contestant: Contestant, pool: Pool) -> MeasuredAnswers:
    """Publish a table three times, or once in a quick run, and ask each release the whole pool."""
    answers, seconds = [], []
    for number in range(conditions.choose(1, REPEATS)):
        for release, release_seconds in publish_once(conditions, sample, contestant, number):
            answers.append(release.count_many(pool.queries, method=contestant.method))
            seconds.append(release_seconds)
    return MeasuredAnswers(pool, tuple(answers), min(seconds))


def publish_once(
    conditions: Conditions, sample: TableSample, contestant: Contestant, number: int = 0, schema: Schema | None = None
) -> Iterator[tuple[Release, float]]:
    """One release, for as long as it is looked at, and the processor seconds that it took.

    Other work on the machine does not change processor seconds.
    """
    request = make_request(sample.table, schema or Schema.of(sample.sensitive_column, public="*"), contestant)
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        publication = publish(
            request,
            Path(folder) / "release",
            unsafe_test_key=conditions.make_key(number),
            on_notice=lambda notice: None,
        )
        yield publication.release, time.process_time() - began


def make_request(table: pa.Table, schema: Schema, contestant: Contestant) -> Request:
    """What is published: whatever a holder would be warned of is accepted."""
    return Request(
        table,
        schema=schema,
        spec=contestant.spec,
        mechanism=contestant.mechanism,
        options=contestant.options,
        accept_marginal_prior=REASON,
        accept_exposure=REASON,
        accept_unique=REASON,
        accept_uncovered=REASON,
        accept_disclosing=dict.fromkeys(
            (name for name in table.column_names if name not in schema.sensitive_columns), REASON
        ),
    )
