"""Checks the columns of coarse tables that a request names, and counts their groups for the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato._core.array_types import Indices
from sfumato._profile.table_scan import TableScan
from sfumato._publish.request import Request
from sfumato._request.histogram import ClassSizes, Histogram
from sfumato._request.named_columns import explain_missing_column
from sfumato.errors import SchemaError
from sfumato.mechanisms import REGISTRY


def measure_coarse_tables(request: Request, table_survey: TableScan) -> Histogram:
    """The histogram with the sizes of the groups of each coarse table. Refuses columns that are not public."""
    histogram = table_survey.histogram
    for name in request.mechanism_names:
        rules, options = REGISTRY[name].crowd_counts, request.options.get(name)
        tables = [] if rules is None or options is None else rules.list_coarse_columns(options)
        if tables:
            for columns in tables:
                _check_columns(columns, table_survey)
            return replace(histogram, coarse_sizes=tuple(_measure_sizes(columns, table_survey) for columns in tables))
    return histogram


def _check_columns(columns: Sequence[str], table_survey: TableScan) -> None:
    """Refuses columns that are not published unchanged, and a table by all public columns."""
    protected = {part.name for part in table_survey.sensitive.parts}
    public = [column.name for column in table_survey.columns if column.name not in protected]
    for name in columns:
        if name in protected:
            raise SchemaError(
                f"column {name!r} is sensitive, so a coarse table cannot count by it; take it out of `also_by=`.",
                code="coarse-table-by-sensitive-column",
                fields={"column": name},
            )
        if name not in public:
            raise SchemaError(
                f"{explain_missing_column(name, public, 'there is no public column')} Correct `also_by=`.",
                code="coarse-table-without-column",
                fields={"column": name},
            )
    if set(columns) == set(public):
        raise SchemaError(
            "a coarse table by all public columns has the same groups as the counts; leave out a column of `also_by=`.",
            code="coarse-table-by-all-columns",
        )


def _measure_sizes(columns: Sequence[str], table_survey: TableScan) -> ClassSizes:
    """The sizes of groups, each with the number of such groups. Sizes in a sample are scaled to the whole table."""
    sample = table_survey.sample
    numbers: Indices = np.zeros(sample.records, dtype=np.int64)
    for name in columns:
        codes = sample.columns[name]
        numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    scaled = np.rint(np.bincount(numbers) * (sample.total / max(sample.records, 1))).astype(np.int64)
    sizes, groups = np.unique(np.maximum(scaled, 1), return_counts=True)
    return tuple(zip(sizes.tolist(), groups.tolist(), strict=True))
