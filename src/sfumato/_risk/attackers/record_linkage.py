"""K: an attacker who links records by public columns. Equal records and equal people of a population are counted.

The attacker finds a person's record and ignores published values, because perturbed columns do not identify anyone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes
from sfumato._core.cell_values import simplify_type
from sfumato._core.json_types import Json
from sfumato._profile.equivalence_classes import (
    CLASS_SIZES,
    ClassSizeShares,
    compute_class_size_shares,
    number_combinations,
)
from sfumato._profile.ranges import assign_bins
from sfumato._query.release import Release
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._records.column_codes import decode_dictionary, encode_batch_values
from sfumato._request.range_edges import Ranges
from sfumato.errors import SpecError

BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class LinkageRisk:
    """How many records public columns identify, and with which certainty."""

    columns: tuple[str, ...]
    """The columns used for linkage."""
    records: int
    in_release: ClassSizeShares
    """The shares of records that are unique in the release, in classes below 5, and below 11."""
    in_population: ClassSizeShares | None = None
    """The shares of records that match one person of a population, fewer than 5, and fewer than 11."""
    absent_share: float = 0.0
    """The share of records that match nobody in the population, because their people are not in it."""

    def to_json(self) -> Json:
        """The risk as JSON."""
        return {
            "columns": list(self.columns),
            "records": self.records,
            "in_release": self.in_release.to_json(),
            "in_population": None if self.in_population is None else self.in_population.to_json(),
            "absent": self.absent_share,
        }


def link_records(
    release: str | Path, population: AnyTable = None, *, read: ReadOptions = DEFAULT_READ_OPTIONS
) -> LinkageRisk:
    """Counts the records of a release with equal public columns, and the matching people of a population.

    Only columns of the population are used. Its values are recoded into the ranges of the release.
    """
    opened = Release.open(release)
    names = list_public_columns(opened)
    records = read_public_rows(opened, names)
    if not names:  # all records are equal
        return LinkageRisk((), opened.rows, compute_class_size_shares(np.array([opened.rows]), opened.rows))
    if population is None:
        return count_links(names, encode_shared_values(names, [records])[0])
    text_columns = [
        pieces.name for pieces in opened.manifest.fields if pieces.type == "string" and pieces.name in names
    ]
    bins = {name: Ranges(tuple(edges)) for name, edges in opened.manifest.ranges.items() if name in names}
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        text = [name for name in text_columns if name not in bins]
        source = open_source(population, Path(folder) / "spool", read=replace(read, text=(*read.text, *text)))
        names = [name for name in names if name in source.schema.names]
        if not names:
            raise SpecError(
                "the population and the release have no public column in common, so no record can be linked.",
                code="no-shared-column",
            )
        arrays: dict[str, list[pa.Array]] = {name: [] for name in names}
        for batch in source.read_batches(tuple(names), BATCH_ROWS):
            for name in names:
                column = batch.column(name)
                arrays[name].append(
                    decode_dictionary(assign_bins(column, bins[name], name) if name in bins else column)
                )
        people = pa.table({name: pa.chunked_array(pieces) for name, pieces in arrays.items()})
    return count_links(names, *encode_shared_values(names, [records, people]))


def read_public_rows(release: Release, names: Sequence[str]) -> pa.Table:
    """The public columns of all people of a release: those of its records, and those of people who are counted."""
    manifest = release.manifest
    records = pq.read_table(list(manifest.list_data_paths(release.folder)), columns=list(names))
    crowds = manifest.encoding.read_crowds(manifest.naming, release.folder)
    if crowds is None or not names:
        return records
    counted = crowds.public.select(names).take(pa.array(np.repeat(np.arange(len(crowds)), crowds.people)))
    arrays = {
        name: pa.chunked_array(
            [
                decode_dictionary(chunk)
                for column in (records.column(name), counted.column(name))
                for chunk in column.chunks
            ],
            simplify_type(records.schema.field(name).type),
        )
        for name in names
    }
    return pa.table(arrays)


def list_public_columns(release: Release) -> list[str]:
    """The public columns of a release."""
    return [column.name for column in release.manifest.fields if column.name not in release.manifest.protected_columns]


def encode_shared_values(names: Sequence[str], tables: Sequence[pa.Table]) -> list[list[Codes]]:
    """Columns of several tables as numbers of common values, with a list of columns for each table."""
    codes_by_table: list[list[Codes]] = [[] for _ in tables]
    ends = np.cumsum([part.num_rows for part in tables])[:-1]
    for name in names:
        kind = simplify_type(tables[0].column(name).type)
        try:
            arrays = [decode_dictionary(part).cast(kind) for table in tables for part in table.column(name).chunks]
        except pa.ArrowException as error:
            raise SpecError(
                f"column {name!r} has different types in the tables; convert it to one type.",
                code="columns-of-different-types",
                fields={"column": name},
            ) from error
        for columns, codes in zip(
            codes_by_table, np.split(encode_batch_values(pa.concat_arrays(arrays))[0], ends), strict=True
        ):
            columns.append(codes)
    return codes_by_table


def count_links(names: Sequence[str], records: Sequence[Codes], people: Sequence[Codes] | None = None) -> LinkageRisk:
    """Counts matching people. The columns are numbers of common values in both tables."""
    number = len(records[0])
    if people is None:
        counts = np.bincount(number_combinations(records))
        return LinkageRisk(tuple(names), number, compute_class_size_shares(counts, number))
    combined_numbers = number_combinations([np.concatenate(pair) for pair in zip(records, people, strict=True)])
    size = int(combined_numbers.max(initial=0)) + 1
    record_counts, person_counts = (
        np.bincount(class_numbers, minlength=size)
        for class_numbers in (combined_numbers[:number], combined_numbers[number:])
    )
    is_shared = (record_counts > 0) & (person_counts > 0)
    # The number of people that match each record.
    candidate_counts = np.repeat(person_counts[is_shared], record_counts[is_shared])
    unique_share, below_5, below_11 = (float((candidate_counts <= few).sum()) / max(number, 1) for few in CLASS_SIZES)
    absent = float(record_counts[person_counts == 0].sum()) / max(number, 1)
    return LinkageRisk(
        tuple(names),
        number,
        compute_class_size_shares(record_counts, number),
        ClassSizeShares(unique_share, below_5, below_11),
        absent,
    )
