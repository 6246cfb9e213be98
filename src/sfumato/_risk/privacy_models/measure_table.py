"""Measures a table by the usual privacy models. It gives numbers with their meaning, and no verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Floats
from sfumato._core.cell_values import Value, find_field_type, to_json
from sfumato._core.json_types import Json
from sfumato._document.document import Document
from sfumato._engines.engine import Progress
from sfumato._engines.local_engine import ignore_progress
from sfumato._profile.equivalence_classes import ClassSizeShares, compute_class_size_shares
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._risk.inspected_table import CodedValues, can_be_coded, open_containing_release, read_coded_columns
from sfumato._risk.privacy_models.table_groups import GroupValues, group_records
from sfumato.errors import SchemaError

# Computes the number of each privacy model from the counts of values in each group. Every number is the best number
# that satisfies the model's definition in all groups. If no number does, the result is infinite. If the model does not
# apply, the result is None.
#
# Notation: p = share of a value among all records, q = its share in a group, r_1 >= r_2 >= ... = its counts in a group.

ROUNDING = 1e-12
"""Shares that differ by less than this are equal, because they are quotients of whole numbers."""


def compute_largest_share(contents: GroupValues) -> float:
    """Alpha of (alpha, k)-anonymity (Wong et al. 2006): the largest share of one value in a group."""
    return float(contents.group_shares.max())


def count_distinct_values(contents: GroupValues) -> int:
    """Distinct diversity (Machanavajjhala et al. 2007): the smallest number of values in a group."""
    return int(np.bincount(contents.group_codes).min())


def compute_entropy_diversity(contents: GroupValues) -> float:
    """Entropy diversity (same source): e to the power of the smallest entropy of a group."""
    entropies = -np.add.reduceat(contents.group_shares * np.log(contents.group_shares), contents.starts)
    return float(np.exp(entropies.min()))


def compute_recursive_ratio(contents: GroupValues) -> float | None:
    """Recursive (c, l)-diversity (same source), where l is the smallest number of values in a group.

    Larger c satisfy it too.

    The most frequent value of a group is less than c times as frequent as the l-th and all rarer values together: r_1 <
    c (r_l + ... + r_m). The result is None if a group has only one value.
    """
    least = count_distinct_values(contents)
    if least == 1:
        return None
    order = np.lexsort((-contents.counts, contents.group_codes))
    falling, starts = contents.counts[order], contents.starts
    rank = np.arange(len(falling)) - np.repeat(starts, np.diff(starts, append=len(falling)))
    tails = np.add.reduceat(np.where(rank >= least - 1, falling, 0), starts)
    return float((falling[starts] / tails).max())


def compute_equal_distance(contents: GroupValues) -> float:
    """t-closeness (Li et al. 2007) with equal distances of all values: half the sum of |q - p|.

    This equals the sum of q - p over the values that are more frequent in the group than in the table.
    """
    excess_shares = np.maximum(contents.group_shares - contents.shares, 0)
    return float(np.add.reduceat(excess_shares, contents.starts).max())


def compute_ordered_distance(contents: GroupValues) -> float:
    """t-closeness (same source) with ordered values: the earth mover's distance over (number of values - 1).

    The distance is the sum of |Q - P| over all values, with cumulative shares Q and P. Q changes only at values in the
    group, and P rises. So between two such values the sign of Q - P changes at most once, and a search finds the place.
    """
    if len(contents.totals) == 1:
        return 0.0
    below = np.cumsum(contents.totals) / contents.totals.sum()
    areas = np.concatenate([[0.0], np.cumsum(below)])
    starts = contents.starts
    cumulative_counts: Floats = np.cumsum(contents.counts)
    before = np.repeat(
        cumulative_counts[starts] - contents.counts[starts], np.diff(starts, append=len(cumulative_counts))
    )
    level = (cumulative_counts - before) / contents.sizes[contents.group_codes]
    first, end = contents.value_codes, np.append(contents.value_codes[1:], 0)
    end[np.append(starts[1:], len(end)) - 1] = len(below)
    crossing = np.clip(np.searchsorted(below, level), first, end)
    above = level * (2 * crossing - first - end) - 2 * areas[crossing] + areas[first] + areas[end]
    group_distances = np.add.reduceat(above, starts) + areas[contents.value_codes[starts]]
    return float(max(group_distances.max(), 0.0) / (len(below) - 1))


def compute_basic_likeness(contents: GroupValues) -> float:
    """Basic beta-likeness (Cao and Karras 2012): the largest (q - p) / p."""
    return float((contents.group_shares / contents.shares).max() - 1)


def compute_enhanced_likeness(contents: GroupValues) -> float:
    """Enhanced beta-likeness (same source): (q - p) / p is at most beta, and also at most -ln p.

    The second condition does not depend on beta. If it fails, the definition holds for no beta.
    """
    gains = contents.group_shares / contents.shares - 1
    is_beyond = gains > -np.log(contents.shares) + ROUNDING
    return float("inf") if is_beyond[gains > ROUNDING].any() else compute_basic_likeness(contents)


def compute_disclosure(contents: GroupValues) -> float:
    """Delta-disclosure privacy (Brickell and Shmatikov 2008): the largest |ln (q / p)|, over all values.

    The number is infinite if a group lacks a value, because then q = 0.
    """
    is_complete = len(contents.counts) == len(contents.sizes) * len(contents.totals)
    return compute_present_disclosure(contents) if is_complete else float("inf")


def compute_present_disclosure(contents: GroupValues) -> float:
    """Delta-disclosure privacy over the values that a group has only.

    Some tools report this number under the same name.
    """
    return float(np.abs(np.log(contents.group_shares / contents.shares)).max())


def compute_cap_factor(contents: GroupValues) -> float:
    """F'-privacy (Wang 2014) with proportional caps: the smallest factor for which q is never above factor times p."""
    return float((contents.group_shares / contents.shares).max())


def compute_caps(contents: GroupValues) -> Floats:
    """F'-privacy (same source): the smallest cap of each value, which is its largest share in a group."""
    largest_shares = np.zeros(len(contents.totals))
    np.maximum.at(largest_shares, contents.value_codes, contents.group_shares)
    return largest_shares


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PrivacyModel:
    """A privacy model, with the meaning of its number and its limitation."""

    key: str
    name: str
    meaning: str
    limitation: str
    compute: Callable[[GroupValues], float | None]
    is_ordinal: bool = False


MODELS = (
    PrivacyModel(
        "k_anonymity",
        "k-anonymity: k",
        "Every record has the same public columns as at least k - 1 others.",
        "All records of a class may have the same sensitive value.",
        lambda contents: int(contents.sizes.min()),
    ),
    PrivacyModel(
        "largest_share",
        "(alpha, k): alpha",
        "The largest share of a value in a class.",
        "A value that is rare in the table may reach this share in a class, which discloses much.",
        compute_largest_share,
    ),
    PrivacyModel(
        "distinct_diversity",
        "distinct l-diversity: l",
        "Every class has at least l different values.",
        "Almost all records of a class may have the same value.",
        count_distinct_values,
    ),
    PrivacyModel(
        "entropy_diversity",
        "entropy l-diversity: l",
        "The values of every class are as uncertain as l equally frequent values.",
        "The meaning of the values is ignored: all may be illnesses of one kind.",
        compute_entropy_diversity,
    ),
    PrivacyModel(
        "recursive_ratio",
        "recursive (c, l): c above",
        "The largest ratio of the most frequent value in a class to the l-th and all rarer values together, with "
        "the l of distinct l-diversity.",
        "Values that are frequent in all classes are allowed, and the similarity of values is ignored.",
        compute_recursive_ratio,
    ),
    PrivacyModel(
        "equal_distance",
        "t-closeness: t, equal distances",
        "The largest distance between a class and the table: the share of the class's records that would have to "
        "change value.",
        "Even with a small t, a rare value may be many times as likely in a class as in the table.",
        compute_equal_distance,
    ),
    PrivacyModel(
        "ordered_distance",
        "t-closeness: t, ordered values",
        "The same distance, but a change to a near number counts less. The missing value comes after the largest "
        "value.",
        "Exact values may be disclosed: all records of a class may have the same number if it is near the middle.",
        compute_ordered_distance,
        is_ordinal=True,
    ),
    PrivacyModel(
        "basic_likeness",
        "basic beta-likeness: beta",
        "The largest relative increase of a value's share from the table to a class.",
        "Values that a class lacks are allowed, and attackers who know more than the class are not covered.",
        compute_basic_likeness,
    ),
    PrivacyModel(
        "enhanced_likeness",
        "enhanced beta-likeness: beta",
        "The same increase, if frequent values also stay below their own limit -ln(share); otherwise infinite.",
        "Values that a class lacks are allowed, and attackers who know more than the class are not covered.",
        compute_enhanced_likeness,
    ),
    PrivacyModel(
        "disclosure",
        "delta-disclosure: delta",
        "The largest change of the logarithm of a share, up or down; infinite if a class lacks a value.",
        "Attackers who know more than the public columns may distinguish the records of a class.",
        compute_disclosure,
    ),
    PrivacyModel(
        "disclosure_of_present",
        "  of values that a class has",
        "The same change, but values that a class lacks are ignored.",
        "The model ignores that nobody in a class has some value.",
        compute_present_disclosure,
    ),
    PrivacyModel(
        "cap_factor",
        "F'-privacy: factor of the caps",
        "The largest ratio of a value's share in a class to its share in the table. The JSON lists the cap of each "
        "value.",
        "From all classes together, an attacker can learn how public columns predict values.",
        compute_cap_factor,
    ),
)

SCOPE = (
    "All numbers describe an attacker who knows only the public columns of a person. They describe the values in "
    "this table. For a perturbed, swapped or synthetic column, they say nothing about the true values. No single "
    "number means that a table may be published."
)


@dataclass(frozen=True)
class ColumnMeasures:
    """The number of each privacy model (k-anonymity, l-diversity and so on) for one sensitive column."""

    column: str
    numbers: Mapping[str, float | None]
    """The numbers by the key of the model.

    A number is infinite if the definition cannot be satisfied, and None if the model does not apply.
    """
    caps: Mapping[Value, tuple[float, float]]
    """The share of each value in the table, and its largest share in a class."""

    def to_json(self) -> Json:
        """The measures as JSON."""
        numbers_json = {key: None if number is None else to_json(number) for key, number in self.numbers.items()}
        caps = [
            {"value": to_json(value), "share": share, "cap": largest} for value, (share, largest) in self.caps.items()
        ]
        return {"column": self.column, **numbers_json, "caps": caps}


@dataclass(frozen=True)
class Measures:
    """The number of each privacy model for a table."""

    rows: int
    public_columns: tuple[str, ...]
    group_count: int
    smallest_group: int
    """The size of the smallest equivalence class, which is the k of k-anonymity."""
    class_size_shares: ClassSizeShares
    others_known: bool
    columns: tuple[ColumnMeasures, ...]

    def __getitem__(self, column: str) -> ColumnMeasures:
        """The measures of a sensitive column."""
        return next(measures for measures in self.columns if measures.column == column)

    def document(self) -> Document:
        """Makes the document of the measures. It is private."""
        from sfumato._risk.privacy_models.measures_document import make_measures_document  # noqa: PLC0415 - a cycle

        return make_measures_document(self)

    def to_json(self) -> Json:
        """The measures as JSON, with the meaning of each number."""
        meanings = [{"key": item.key, "says": item.meaning, "leaves_open": item.limitation} for item in MODELS]
        return {
            "rows": self.rows,
            "public": list(self.public_columns),
            "groups": self.group_count,
            "k_anonymity": self.smallest_group,
            **self.class_size_shares.to_json(),
            "others_known": self.others_known,
            "sensitive": [item.to_json() for item in self.columns],
            "meanings": meanings,
            "scope": SCOPE,
        }


def measure(  # noqa: PLR0913 - a table, its columns, and how it is read
    table: AnyTable,
    public: Sequence[str],
    sensitive: Sequence[str] = (),
    *,
    others_known: bool = False,
    read: ReadOptions = DEFAULT_READ_OPTIONS,
    progress: Progress = ignore_progress,
) -> Measures:
    """Measures a table by privacy models. The table may be any table, or the public columns of a release.

    A missing value counts as a value. Each sensitive column is measured separately. With `others_known`, the attacker
    also knows the other sensitive columns.
    """
    with open_containing_release(table) as release, tempfile.TemporaryDirectory(prefix="sfumato-") as spool:
        if release is not None:
            folder, manifest = release
            if protected_name := next(
                (name for name in (*public, *sensitive) if name not in manifest.public_columns), None
            ):
                raise SchemaError(
                    f"{protected_name!r} is not a public column of this release. A protected column is random, so "
                    "these numbers would say nothing about the true values. Measure the original instead.",
                    code="protected-column-measured",
                    fields={"column": protected_name},
                )
            first, *others = manifest.list_data_paths(folder)
            table = first.parent if others else first
        rows = Path(spool) / "rows"
        source = open_source(table, rows, read=read)
        _check_columns(source.schema, public, sensitive)
        columns = read_coded_columns(source, list(dict.fromkeys((*public, *sensitive))), progress)
        return _measure_columns(columns, public, sensitive, others_known, progress)


def _check_columns(schema: pa.Schema, public: Sequence[str], sensitive: Sequence[str]) -> None:
    for name in (*public, *sensitive):
        if schema.names.count(name) != 1:
            column_names = ", ".join(map(repr, schema.names[:20]))
            raise SchemaError(
                f"the table does not have exactly one column named {name!r}; its columns are {column_names}.",
                code="missing-column",
                fields={"column": name},
            )
        if not can_be_coded(kind := schema.field(name).type):
            raise SchemaError(
                f"column {name!r} has the type {kind}, whose values cannot be counted; leave out this column.",
                code="uncountable-type",
                fields={"column": name, "type": str(kind)},
            )
        if (*public, *sensitive).count(name) > 1:
            raise SchemaError(
                f"column {name!r} is named twice; name the column once, as public or as sensitive.",
                code="two-roles",
                fields={"column": name},
            )
    if not (public or sensitive):
        raise SchemaError(
            "name the public columns (`public=`) and the columns to protect (`sensitive=`).", code="no-columns"
        )


def _measure_columns(
    columns: Mapping[str, CodedValues],
    public: Sequence[str],
    sensitive: Sequence[str],
    others_known: bool,
    progress: Progress,
) -> Measures:
    rows = len(next(iter(columns.values())).codes)
    if not rows:
        raise SchemaError("the table is empty.", code="empty-table")
    groups, sizes = group_records([columns[name] for name in public], rows)
    column_measures = []
    for number, name in enumerate(sensitive):
        column_groups = groups, sizes
        if others_known and len(sensitive) > 1:
            known_columns = [*public, *(other for other in sensitive if other != name)]
            column_groups = group_records([columns[known_name] for known_name in known_columns], rows)
        column_measures.append(_measure_column(GroupValues.of(*column_groups, columns[name]), columns[name]))
        progress("measuring", rows * (number + 1) // len(sensitive), rows)
    return Measures(
        rows,
        tuple(public),
        len(sizes),
        int(sizes.min()),
        compute_class_size_shares(sizes, rows),
        others_known,
        tuple(column_measures),
    )


def _measure_column(contents: GroupValues, column: CodedValues) -> ColumnMeasures:
    kind = column.values.type
    is_ordered = find_field_type(kind) in {"integer", "number", "date", "datetime"}
    model_values = {
        model.key: None if model.is_ordinal and not is_ordered else model.compute(contents) for model in MODELS
    }
    values = [*column.values.to_pylist(), None][: column.size]
    shares = contents.totals / contents.totals.sum()
    pairs = zip(shares.tolist(), compute_caps(contents).tolist(), strict=True)
    return ColumnMeasures(column.name, model_values, dict(zip(values, pairs, strict=True)))
