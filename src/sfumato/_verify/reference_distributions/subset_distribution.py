"""The law of subset selection: sets of one size, which hold the true value more often than any other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato._core.arrays import Codes, Floats, Places
from sfumato._core.exact_numbers import parse_exact
from sfumato._records.member_columns import MemberColumns
from sfumato._records.set_records import Sets
from sfumato._records.sql_quoting import quote_name
from sfumato._verify.manifest_view import Written
from sfumato._verify.original_counts import (
    MOST_MATCHED,
    WHOLE,
    Connection,
    count_true_values,
    list_coarse_columns,
    register_domain,
)
from sfumato._verify.reference_distributions.any_prior import check_any_prior, check_bounded_posteriors
from sfumato._verify.reference_distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.reference_distributions.score_tests import (
    SMALLEST_VARIANCE,
    check_distribution,
    compute_expected_weights,
    find_largest_deviation,
)
from sfumato._verify.reference_distributions.weight_checks import are_close, are_values
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class SetLaw:
    """The law of a published set: all sets of one size that hold the true value share `hold`, the others the rest."""

    size: int
    subset_size: int
    hold: Fraction

    @property
    def other(self) -> Fraction:
        """The chance that a set holds one given value that is not the true one.

        Of the sets that hold the true value, a share of (d-1)/(m-1) holds the other one too; of the others, d/(m-1).
        """
        members = self.hold * (self.subset_size - 1) + (1 - self.hold) * self.subset_size
        return members / (self.size - 1)

    @property
    def amplification(self) -> Fraction:
        """How much likelier one set is from a value it holds than from one it does not."""
        inside = self.hold / math.comb(self.size - 1, self.subset_size - 1)
        outside = (1 - self.hold) / math.comb(self.size - 1, self.subset_size)
        return max(inside / outside, outside / inside)


def read_distribution(design: Mapping[str, Any]) -> SetLaw:
    """The law of a release that shows sets, from the rationals of its manifest."""
    law = SetLaw(len(design["domain"]), int(design["subset_size"]), parse_exact(design["hold_probability"]))
    if not 0 < law.subset_size < law.size or not 0 < law.hold < 1 or law.hold <= law.other:
        raise ReleaseFormatError("the design is no law of probability that protects anything.")
    return law


def make_encoding(design: Mapping[str, Any]) -> Sets:
    """A set for each record."""
    size, form = len(design["domain"]), design["form"]
    return MemberColumns(size, False, int(design["subset_size"])) if form == "columns" else Sets(size, form == "list")


def check_domain(folder: Path, written: Written) -> Check:
    """Every set has the size of the design, and holds nothing but values of the domain."""
    law, sets, domain = read_distribution(written.design), make_encoding(written.design), written.naming.part(0)

    def is_wrong(batch: pa.RecordBatch) -> bool:
        sizes, has_stray = sets.sizes(batch, domain)
        return has_stray or bool((sizes != law.subset_size).any())

    if any(written.worked(is_wrong, folder, written.shown_names)):
        return Check("domain", False, f"a published set does not hold {law.subset_size} values of the domain.")
    detail = f"every published set holds {law.subset_size} of the {law.size} values of the domain."
    return Check("domain", True, detail)


def check_promise(folder: Path, written: Written) -> Check:
    """Odds rise by the amplification of a set at most."""
    return check_any_prior(written.design, read_distribution(written.design).amplification)


def are_weights(written: Written, table: Mapping[str, list[Any]]) -> bool:
    """A record whose set holds a value, and one whose set does not."""
    law = read_distribution(written.design)
    expected = [(place, *compute_expected_weights(law.hold, law.other)) for place in range(law.size)]
    weight_rows = zip(table["place"], table["if_equal"], table["otherwise"], strict=True)
    beside = make_encoding(written.design).weight_columns(written.naming)
    return (
        are_close(weight_rows, expected)
        and are_values(written, table, {"value": range(law.size)})
        and all(table[name] == list(column) for name, column in beside.items())
    )


def check_draws(connection: Connection, written: Written) -> Check:
    """The members of the sets must be distributed as the design says, in the whole table and by each public column."""
    law, worst, column = read_distribution(written.design), 0.0, make_encoding(written.design).column(written.naming)
    same, other = float(law.hold), float(law.other)
    for group in (WHOLE, *list_coarse_columns(connection, written)):
        truth = count_true_values(connection, written, group)
        if truth is None:
            return written.outside("draws")
        members = count_published_members(connection, written, group, make_encoding(written.design), column)
        for key, true_counts in truth.items():
            rows, member_counts = true_counts.sum(), members.get(key, np.zeros(len(true_counts)))
            variance = true_counts * same * (1 - same) + (rows - true_counts) * other * (1 - other)
            worst = max(
                worst,
                find_largest_deviation(member_counts - true_counts * same - (rows - true_counts) * other, variance),
            )
    rows = agreed = 0
    for places, bits in match_sets(connection, written, make_encoding(written.design), column):
        agreed += int(bits[np.arange(len(places)), places].sum())
        rows += len(places)
    variance = rows * same * (1 - same)
    matched = rows if variance >= SMALLEST_VARIANCE else 0
    if matched:
        worst = max(worst, abs(agreed - rows * same) / math.sqrt(variance))
    return check_distribution(worst, matched)


def match_sets(connection: Connection, written: Written, sets: Sets, column: str) -> Iterator[tuple[Places, Codes]]:
    """The records that are alone with their public columns: the places of their true values, and what they hold.

    Each set holds its record's value by a coin of its own; counts alone would not tell whether the coins were thrown
    where values are equally frequent. `column` is SQL of what a record of the release shows.
    """
    register_domain(connection, written)
    public = written.public_columns
    key = f"SELECT {', '.join(public)} FROM original GROUP BY ALL HAVING COUNT(*) = 1 LIMIT {MOST_MATCHED}"
    same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM {{0}}.{name}" for name in public)
    true = " AND ".join(
        f"o.{quote_name(name)} IS NOT DISTINCT FROM d.v{number}" for number, name in enumerate(written.names)
    )
    records = f"(SELECT {', '.join(public)}, {column} AS shown FROM release)"
    sql = (
        f"SELECT d.place, r.shown FROM original AS o JOIN ({key}) AS k ON {same.format('k')} "
        f"JOIN {records} AS r ON {same.format('r')} JOIN domain AS d ON {true}"
    )
    for batch in connection.sql(sql).to_arrow_reader(BATCH_ROWS):
        yield batch.column(0).to_numpy(), sets.membership(batch.column(1), written.naming.part(0))


def count_published_members(
    connection: Connection, written: Written, group: str, sets: Sets, column: str
) -> dict[Any, Floats]:
    """For each value of a grouping, how many records of the release hold each of what sets may hold."""
    keys = [row[0] for row in connection.execute(f"SELECT DISTINCT {group} FROM release ORDER BY 1").fetchall()]
    numbered = f"SELECT DENSE_RANK() OVER (ORDER BY {group}) - 1, {column} FROM release"
    reader = connection.sql(numbered).to_arrow_reader(BATCH_ROWS)
    sums, _ = sets.summed(reader, (len(keys), 1), written.naming.part(0))
    return dict(zip(keys, sums[:, 0], strict=True))


def set_posteriors(counts: Sequence[int], law: SetLaw) -> list[Fraction]:
    """For each value, its largest posterior for whoever knows the counts: beside it stand the rarest others."""
    total, factor = sum(counts), law.amplification
    rarest = sorted(counts)[: law.subset_size]
    posteriors = []
    for count in counts:
        beside = sum(rarest) - (count if count <= rarest[-1] else rarest[-1])
        inside = count + beside
        posteriors.append(count * factor / (inside * factor + total - inside) if total else Fraction(0))
    return posteriors


def check_posteriors(connection: Connection, written: Written) -> Check:
    """Beside a value stand the rarest others: no value within the prior comes to be believed beyond the bound."""
    law = read_distribution(written.design)
    return check_bounded_posteriors(connection, written, lambda counts: set_posteriors(counts, law))


REFERENCE_DISTRIBUTION = ReferenceDistribution(
    guarantees=("any-prior",),
    shown=make_encoding,
    domain=check_domain,
    promise=check_promise,
    weights=are_weights,
    draws=check_draws,
    posteriors=check_posteriors,
)
