"""What the holder of a table should know before publishing it: private advice, never written into a release."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sfumato.apply.profile import Association
from sfumato.arrays import Counts
from sfumato.request.histogram import Histogram
from sfumato.request.notice import Figure, Notice
from sfumato.request.persons import Persons
from sfumato.request.schema import Schema
from sfumato.request.spec import BreachBound, PrivacySpec
from sfumato.request.values import listed

SMALLEST_GROUP = 20
"""In smaller groups a value is above any share by chance too often to be worth a notice."""


def notices(
    spec: PrivacySpec, schema: Schema, associations: Iterable[Association], dropped: int, persons: Persons | None
) -> list[Notice]:
    """What the holder should know: private advice, never written into a release."""
    said = [] if persons is None else _chosen_rows(persons)
    if dropped:
        left_out = (
            f"{dropped} records without a {schema.sensitive!r} were left out; whoever misses a person's record in the "
            "release learns that the value was missing."
        )
        said.append(Notice("records-left-out", left_out, schema.sensitive, {"records": dropped}))
    if schema.person is None:
        unchecked = (
            "nothing says whose row is whose, so it was not checked that each person has one row, and the promise "
            "holds for each row alone; name the column that tells (--person COL)."
        )
        said.append(Notice("persons-unchecked", unchecked))
    if not schema.is_declared:
        what = "combinations" if schema.compound else "values"
        undeclared = next(name for name in schema.sensitive_columns if name not in (*schema.domains, *schema.bins))
        observed = (
            f"the domain of {schema.sensitive!r} was taken from the table, so the release tells which {what} occur; "
            f"declare it to avoid that (--domain {undeclared}=FILE)."
        )
        said.append(Notice("domain-observed", observed, undeclared))
    return [*said, *(notice for each in associations for notice in _telling(each, spec, schema))]


def _chosen_rows(persons: Persons) -> list[Notice]:
    """That rows were chosen, and that another publication would choose others."""
    if not persons.rows.chooses:
        return []
    sentence = (
        f"{persons.left_out:,} rows are left out, because their persons have others. Publishing again without the plan "
        "file shows other rows of the same persons, and two releases tell more than one; keep it (--plan-file), and "
        "verify the release with it."
    )
    return [Notice("rows-chosen", sentence, persons.column, {"left_out": persons.left_out})]


def frequent_notice(histogram: Histogram, bound: BreachBound, column: str) -> list[Notice]:
    """Name the values that are too frequent for the bound to speak of them."""
    frequent = histogram.above(bound.prior)
    if not frequent:
        return []
    # Where the belief in the most frequent can rise to if its odds are multiplied by the whole amplification.
    share = max(histogram.shares)
    reached = share * bound.whole / (share * bound.whole + 1 - share)
    covered = "The other values are covered in full."
    if len(frequent) == histogram.domain_size:
        covered = "No value is covered in full: raise the prior, or group the values otherwise."
    sentence = (
        f"more frequent in {column!r} than the prior {bound.prior}: {listed(frequent)}. Whoever knows the "
        "frequencies believes such a value more than the bound speaks of, so for it only the odds are bounded (by a "
        f"factor of {bound.whole}): the most frequent may come to be believed with "
        f"{float(reached):.2f}. {covered}"
    )
    numbers: dict[str, Figure] = {
        "values": len(frequent),
        "prior": str(bound.prior),
        "amplification": str(bound.whole),
        "largest_belief": float(reached),
    }
    return [Notice("frequent-values", sentence, column, numbers)]


def _telling(association: Association, spec: PrivacySpec, schema: Schema) -> list[Notice]:
    """Name a public column that nearly tells the sensitive value: no perturbation hides what another column says."""
    column, pairs = association.column, association.pairs
    if pairs is None:
        sentence = f"whether {column!r} tells {schema.sensitive!r} was not checked: there are too many pairs of values."
        return [Notice("telling-unchecked", sentence, column)]
    rows = int(pairs.sum())
    # One record less in each group: a record must not vouch for itself, or every small group would seem to tell.
    guessed = int(np.maximum(pairs.max(axis=1) - 1, 0).sum())
    blind = int(pairs.sum(axis=0).max())
    if 2 * guessed > blind + rows:
        sentence = (
            f"public column {column!r} nearly tells {schema.sensitive!r}: guessing from it alone is right for "
            f"{guessed / rows:.0%} of the records (blindly: {blind / rows:.0%}); drop or coarsen it, because no "
            "perturbation can hide what another column says."
        )
        return [Notice("telling-column", sentence, column, {"guessed": guessed / rows, "blindly": blind / rows})]
    if (bound := spec.bound) is not None and (told := _told(pairs, bound)):
        sentence = (
            f"public column {column!r} tells the {schema.sensitive!r} of {told:,} records ({told / rows:.1%}): among "
            f"those with the same {column!r}, a value that is rare in the table (at most {bound.prior}) has more than "
            f"{bound.posterior}; drop or coarsen the column."
        )
        return [Notice("telling-groups", sentence, column, {"records": told, "share": told / rows})]
    return []


def _told(pairs: Counts, bound: BreachBound) -> int:
    """The records whose value is within the prior in the table and above the posterior in their group."""
    totals, sizes = pairs.sum(axis=0), pairs.sum(axis=1, keepdims=True)
    is_rare = totals <= totals.sum() * float(bound.prior)
    is_told = pairs > sizes * float(bound.posterior)
    return int(pairs[is_rare & is_told & (sizes >= SMALLEST_GROUP)].sum())
