"""The verifier of decoys, derived from first principles. It checks a release alone, and against the original table."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._core.json_types import JsonView
from sfumato._records.column_codes import encode_batch_values
from sfumato._records.value_records import ValueEncoding
from sfumato._release.manifest import WEIGHTS
from sfumato._verify.check_results import Check
from sfumato._verify.distributions import single_value_checks as value_distribution
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.distributions.score_tests import (
    LARGEST_TRANSITION,
    MOST_DEVIATION,
    SMALLEST_VARIANCE,
    describe_matched,
    find_largest_deviation,
    measure_agreement,
)
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import WHOLE, Connection, count_published_values, count_true_values, match_values

CHANCE = 1e-9


def make_encoding(design: JsonView) -> ValueEncoding:
    """Each record publishes a value of each sensitive column, in any combination."""
    domains = design.get("domains") or [design["domain"]]
    return ValueEncoding(np.arange(math.prod(map(len, domains))))


def explain_missing_weights(view: ManifestView) -> str | None:
    """Returns the reason for missing weights: a record's contribution depends on all published values."""
    if WEIGHTS in view.table_files:
        return None
    return "the contribution of a record follows from the published counts, so there are no weights."


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that groups of this size are possible: there are enough values, and none is published far too often.

    The mean of a value's published count is the true count, and its variance is smaller. No value may have more than
    its share of the records.
    """
    size, design = int(view.design["group_size"]), view.design
    domains = design.get("domains") or [design["domain"]]
    if size < 2 or any(len(domain) < size for domain in domains):  # noqa: PLR2004
        return Check("guarantee", False, f"no group of {size} records with different values can be made.")
    for name, counts in _count_published_values(folder, view).items():
        largest_count, total = max(counts), sum(counts)
        if largest_count > total / size + MOST_DEVIATION * math.sqrt(max(total / size, SMALLEST_VARIANCE)):
            detail = (
                f"a value of {name!r} is published by {largest_count:,} of {total:,} records, which is too often for "
                f"groups of {size}."
            )
            return Check("guarantee", False, detail)
    detail = (
        "an attacker who knows only the shares of the values gives a published value a probability of at most "
        f"1/{size} of being true."
    )
    return Check("guarantee", True, detail)


def _count_published_values(folder: Path, view: ManifestView) -> dict[str, list[int]]:
    """The published counts of each value of each sensitive column."""
    counts: dict[str, Counter[object]] = {name: Counter() for name in view.sensitive_names}
    for batch in view.read_batches(folder, view.sensitive_names):
        for name in view.sensitive_names:
            codes, values = encode_batch_values(batch.column(name))
            code_counts = np.bincount(codes, minlength=len(values) + 1).tolist()
            counts[name].update(dict(zip([*values.to_pylist(), None], code_counts, strict=True)))
    return {name: list(value_counts.values()) for name, value_counts in counts.items()}


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks the published count of each value, and how often a record publishes its own value (1/group size).

    Conditions on public columns are not checked, because leaks under them depend on the groups.
    """
    size, worst, matched_rows = int(view.design["group_size"]), 0.0, 0
    for column_view in view.split_by_column():
        truth = count_true_values(connection, column_view, WHOLE)
        if truth is None:
            return view.fail_outside_domain("draws")
        true_counts = truth.get(None, np.zeros(len(column_view.domain)))
        published_counts = (
            count_published_values(connection, column_view, WHOLE).get(None, {}).get(0, np.zeros(len(true_counts)))
        )
        if (published_counts[true_counts == 0] > 0).any():
            return Check("draws", False, "a value is published that no record of the original has.")
        if _is_too_close(true_counts, published_counts, size):
            return Check("draws", False, "the published counts are closer to those of the original than decoys allow.")
        worst = max(worst, find_largest_deviation(published_counts - true_counts, true_counts * (1 - 1 / size)))
        rows, agreement = _measure_agreement(connection, column_view, len(true_counts), size)
        matched_rows, worst = max(matched_rows, rows), max(worst, agreement)
    if worst > MOST_DEVIATION:
        detail = f"the published values deviate from decoys by {worst:.1f} standard deviations."
        return Check("draws", False, detail)
    return Check(
        "draws",
        True,
        f"the published values are distributed as decoys (largest deviation: {worst:.1f} standard deviations; "
        f"{describe_matched(matched_rows)}).",
    )


def _is_too_close(true_counts: Floats, published_counts: Floats, size: int) -> bool:
    """Whether all counts agree too well to be random, as if the true values were published.

    The sum of squared deviations has about a chi-square distribution. Chernoff's bound is used for its lower tail, with
    half a record of rounding for each count.
    """
    variance = true_counts * (1 - 1 / size)
    is_large_enough = variance >= SMALLEST_VARIANCE
    freedom = int(is_large_enough.sum()) - 1
    if freedom < 1:
        return False
    ratio = (
        float(((np.abs(published_counts - true_counts)[is_large_enough] + 0.5) ** 2 / variance[is_large_enough]).sum())
        / freedom
    )
    return ratio < 1 and freedom / 2 * (math.log(ratio) + 1 - ratio) < math.log(CHANCE)


def _measure_agreement(connection: Connection, column_view: ManifestView, values: int, size: int) -> tuple[int, float]:
    """The deviation of the number of unique records that publish their own value, in standard deviations."""
    if values > LARGEST_TRANSITION:
        return 0, 0.0
    return measure_agreement(*match_values(connection, column_view, np.eye(values) / size, largest=1))


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks that no value of the original is too frequent, because a group would have such a value twice."""
    size = int(view.design["group_size"])
    for column_view in view.split_by_column():
        truth = count_true_values(connection, column_view, WHOLE)
        if truth is None:
            return view.fail_outside_domain("posteriors")
        counts = truth.get(None, np.zeros(1))
        if size * int(counts.max()) > int(counts.sum()):
            name = column_view.sensitive_names[0]
            return Check("posteriors", False, f"a value of {name!r} is too frequent for groups of {size}.")
    return Check(
        "posteriors",
        True,
        f"an attacker who knows only the shares gives no published value a probability above 1/{size}.",
    )


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("decoys-only",),
    make_encoding=make_encoding,
    check_domain=value_distribution.check_domain,
    check_guarantee=check_guarantee,
    explain_missing_weights=explain_missing_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
)
