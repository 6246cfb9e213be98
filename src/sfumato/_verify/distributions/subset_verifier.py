"""The verifier of subset selection. Sets have one size and contain the true value more often than other values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes, Floats, Places
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import JsonView
from sfumato._records.member_columns import MemberColumnEncoding
from sfumato._records.set_records import SetEncoding
from sfumato._records.sql_quoting import quote_name
from sfumato._verify.check_results import Check
from sfumato._verify.distributions.any_prior_guarantee import check_any_prior, check_bounded_posteriors
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution, WeightTable
from sfumato._verify.distributions.score_tests import (
    SMALLEST_VARIANCE,
    check_distribution,
    compute_expected_weights,
    find_largest_deviation,
)
from sfumato._verify.distributions.weight_checks import are_close, are_values
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import (
    MOST_MATCHED,
    WHOLE,
    Connection,
    count_true_values,
    list_coarse_columns,
    register_domain,
)
from sfumato.errors import ReleaseFormatError

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class SetDistribution:
    """The distribution of a published set.

    All sets with the true value share the probability `hold`, and the other sets share the rest.
    """

    domain_size: int
    subset_size: int
    hold_chance: Fraction

    @property
    def other_chance(self) -> Fraction:
        """The probability that a set holds one given value that is not the true one.

        Of the sets with the true value, a share of (d-1)/(m-1) also contains the other value. Of the sets without it,
        the share is d/(m-1).
        """
        members = self.hold_chance * (self.subset_size - 1) + (1 - self.hold_chance) * self.subset_size
        return members / (self.domain_size - 1)

    @property
    def amplification(self) -> Fraction:
        """The likelihood of a set given a value in the set, divided by its likelihood given a value outside."""
        inside = self.hold_chance / math.comb(self.domain_size - 1, self.subset_size - 1)
        outside = (1 - self.hold_chance) / math.comb(self.domain_size - 1, self.subset_size)
        return max(inside / outside, outside / inside)


def read_distribution(design: JsonView) -> SetDistribution:
    """The distribution of a release of sets, from the rationals of its manifest."""
    distribution = SetDistribution(
        len(design["domain"]), int(design["subset_size"]), parse_exact(design["hold_probability"])
    )
    if (
        not 0 < distribution.subset_size < distribution.domain_size
        or not 0 < distribution.hold_chance < 1
        or distribution.hold_chance <= distribution.other_chance
    ):
        raise ReleaseFormatError(
            "the design is not a probability distribution that protects values.", code="invalid-distribution"
        )
    return distribution


def make_encoding(design: JsonView) -> SetEncoding:
    """Each record publishes a set."""
    size, form = len(design["domain"]), design["form"]
    return (
        MemberColumnEncoding(size, False, int(design["subset_size"]))
        if form == "columns"
        else SetEncoding(size, form == "list")
    )


def check_domain(folder: Path, view: ManifestView) -> Check:
    """Checks that every set has the size of the design and only values of the domain."""
    distribution, sets, domain = (
        read_distribution(view.design),
        make_encoding(view.design),
        view.naming.make_part_domain(0),
    )

    def is_wrong(batch: pa.RecordBatch) -> bool:
        sizes, has_stray = sets.count_members(batch, domain)
        return has_stray or bool((sizes != distribution.subset_size).any())

    if any(view.map_batches(is_wrong, folder, view.published_names)):
        return Check(
            "domain", False, f"a published set does not consist of {distribution.subset_size} values of the domain."
        )
    detail = (
        f"every published set consists of {distribution.subset_size} of the {distribution.domain_size} values of the "
        "domain."
    )
    return Check("domain", True, detail)


def check_guarantee(folder: Path, view: ManifestView) -> Check:
    """Checks that odds rise at most by the amplification of a set."""
    return check_any_prior(view.design, read_distribution(view.design).amplification)


def are_weights(view: ManifestView, table: WeightTable) -> bool:
    """Checks the contribution of a record whose set contains a value, and of a record whose set does not."""
    distribution = read_distribution(view.design)
    expected = [
        (place, *compute_expected_weights(distribution.hold_chance, distribution.other_chance))
        for place in range(distribution.domain_size)
    ]
    weight_rows = zip(table["place"], table["if_equal"], table["otherwise"], strict=True)
    beside = make_encoding(view.design).list_weight_columns(view.naming)
    return (
        are_close(weight_rows, expected)
        and are_values(view, table, {"value": range(distribution.domain_size)})
        and all(table[name] == list(column) for name, column in beside.items())
    )


def check_draws(connection: Connection, view: ManifestView) -> Check:
    """Checks that members of the sets are distributed as designed, in the whole table and by each public column."""
    distribution, worst, column = (
        read_distribution(view.design),
        0.0,
        make_encoding(view.design).write_column(view.naming),
    )
    same, other = float(distribution.hold_chance), float(distribution.other_chance)
    for group in (WHOLE, *list_coarse_columns(connection, view)):
        truth = count_true_values(connection, view, group)
        if truth is None:
            return view.fail_outside_domain("draws")
        members = count_published_members(connection, view, group, make_encoding(view.design), column)
        for key, true_counts in truth.items():
            rows, member_counts = true_counts.sum(), members.get(key, np.zeros(len(true_counts)))
            variance = true_counts * same * (1 - same) + (rows - true_counts) * other * (1 - other)
            worst = max(
                worst,
                find_largest_deviation(member_counts - true_counts * same - (rows - true_counts) * other, variance),
            )
    rows = agreements = 0
    for places, bits in match_sets(connection, view, make_encoding(view.design), column):
        agreements += int(bits[np.arange(len(places)), places].sum())
        rows += len(places)
    variance = rows * same * (1 - same)
    matched_rows = rows if variance >= SMALLEST_VARIANCE else 0
    if matched_rows:
        worst = max(worst, abs(agreements - rows * same) / math.sqrt(variance))
    return check_distribution(worst, matched_rows)


def match_sets(
    connection: Connection, view: ManifestView, sets: SetEncoding, column: str
) -> Iterator[tuple[Places, Codes]]:
    """The indices of the true values of the unique records, and the published sets of these records.

    An independent draw decides whether a set contains its record's value. If values are equally frequent, counts alone
    would not show whether sets were drawn in this way. `column` is SQL for the published value of a record.
    """
    register_domain(connection, view)
    public = view.quoted_public_names
    key = f"SELECT {', '.join(public)} FROM original GROUP BY ALL HAVING COUNT(*) = 1 LIMIT {MOST_MATCHED}"
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM {{0}}.{name}" for name in public)
    true = " AND ".join(
        f"o.{quote_name(name)} IS NOT DISTINCT FROM d.v{number}" for number, name in enumerate(view.sensitive_names)
    )
    records = f"(SELECT {', '.join(public)}, {column} AS shown FROM release)"
    sql = (
        f"SELECT d.place, r.shown FROM original AS o JOIN ({key}) AS k ON {same.format('k')} "
        f"JOIN {records} AS r ON {same.format('r')} JOIN domain AS d ON {true}"
    )
    for batch in connection.sql(sql).to_arrow_reader(BATCH_ROWS):
        yield batch.column(0).to_numpy(), sets.decode_column(batch.column(1), view.naming.make_part_domain(0))


def count_published_members(
    connection: Connection, view: ManifestView, group: str, sets: SetEncoding, column: str
) -> dict[object, Floats]:
    """For each value of a grouping, the number of records of the release whose set contains each member."""
    keys = [row[0] for row in connection.execute(f"SELECT DISTINCT {group} FROM release ORDER BY 1").fetchall()]
    numbered = f"SELECT DENSE_RANK() OVER (ORDER BY {group}) - 1, {column} FROM release"
    reader = connection.sql(numbered).to_arrow_reader(BATCH_ROWS)
    sums, _ = sets.sum_members(reader, (len(keys), 1), view.naming.make_part_domain(0))
    return dict(zip(keys, sums[:, 0], strict=True))


def compute_set_posteriors(counts: Sequence[int], distribution: SetDistribution) -> list[Fraction]:
    """For each value, the largest posterior of an attacker who knows the counts.

    It occurs if the other values in the set are the rarest.
    """
    total, factor = sum(counts), distribution.amplification
    rarest = sorted(counts)[: distribution.subset_size]
    posteriors = []
    for count in counts:
        beside = sum(rarest) - (count if count <= rarest[-1] else rarest[-1])
        inside = count + beside
        posteriors.append(count * factor / (inside * factor + total - inside) if total else Fraction(0))
    return posteriors


def check_posteriors(connection: Connection, view: ManifestView) -> Check:
    """Checks that no belief in a value exceeds the bound (for shares within the prior), even with rare other values."""
    distribution = read_distribution(view.design)
    return check_bounded_posteriors(connection, view, lambda counts: compute_set_posteriors(counts, distribution))


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior",),
    make_encoding=make_encoding,
    check_domain=check_domain,
    check_guarantee=check_guarantee,
    are_weights=are_weights,
    check_draws=check_draws,
    check_posteriors=check_posteriors,
)
