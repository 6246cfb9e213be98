"""The tables that experiments run on: the user's, or generated ones with the statistics that the works publish.

The works' own tables (CENSUS, CADR) are not public in the form they used. A directory of the user's may hold stand-ins
under the names below; what they differ in is said with each outcome by their digest. Without one, tables are generated:
shares of the sensitive values between the published largest and smallest, and public columns of the published sizes
that go with the sensitive value to a moderate degree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Floats
from sfumato.errors import SourceError

ASSOCIATION = 0.6
"""How unlike the public columns of two sensitive values are: the standard deviation of logarithms of chances."""
BISECTION_STEPS = 60
GENERATED = "generated"


@dataclass(frozen=True)
class TableDesign:
    """What is published about a table."""

    file: str
    """How a stand-in is called in the user's directory."""
    sensitive_column: str
    value_count: int
    largest_share: float
    smallest_share: float
    rows: int
    public_sizes: Mapping[str, int] = field(default_factory=dict)
    rare_count: int = 0
    """How many values are published to be rarer than `rare_below`; 0 if that is not published."""
    rare_below: float = 0.0

    def compute_shares(self) -> Floats:
        """Shares that fall from the largest to the smallest, bent so that they add up to 1.

        Where the number of rare values is published, the curve goes through `rare_below` between them and the others,
        and only the part above is bent.
        """
        frequent_count, ranks = self.value_count - self.rare_count, np.arange(self.value_count)
        knee, least = (
            (frequent_count - 0.5, self.rare_below) if self.rare_count else (frequent_count - 1, self.smallest_share)
        )
        rare = least * (self.smallest_share / least) ** (
            (ranks[frequent_count:] - knee) / (self.value_count - 1 - knee)
        )
        low, high = 0.01, 100.0
        for _ in range(BISECTION_STEPS):
            bend = (low * high) ** 0.5
            frequent = self.largest_share * (least / self.largest_share) ** ((ranks[:frequent_count] / knee) ** bend)
            shares = np.concatenate([frequent, rare])
            low, high = (bend, high) if shares.sum() < 1 else (low, bend)
        return np.asarray(shares / shares.sum())

    def compute_counts(self, rows: int | None = None) -> tuple[int, ...]:
        """How many of so many records hold each value, the rounding spread over the values."""
        ends = np.rint(np.cumsum(self.compute_shares()) * (rows or self.rows)).astype(np.int64)
        return tuple(np.diff(ends, prepend=0).tolist())


CENSUS = {"Age": 77, "Gender": 2, "Education": 14, "Marital": 6, "Race": 9, "WorkClass": 7, "Country": 70}
REPORTS = {"Age": 100, "Sex": 2, "State": 55, "Year": 17, "VaccineType": 57, "AdministeredBy": 5, "ErVisit": 2}

DESIGNS = {
    "occupations": TableDesign("census_occ.parquet", "Occupation", 50, 0.075, 0.0018, 300_000, CENSUS),
    "education": TableDesign(
        "census_all.parquet",
        "Education",
        14,
        0.273,
        0.0044,
        300_000,
        {name: size for name, size in CENSUS.items() if name != "Education"} | {"Occupation": 50},
        rare_count=9,
        rare_below=1 / 30,
    ),
    "reactions": TableDesign("vaers_adr40.parquet", "Reaction", 40, 0.13, 0.0099, 95_946, REPORTS),
    "all-reactions": TableDesign("vaers_adr_all.parquet", "Reaction", 1346, 0.105, 0.00002, 42_264, REPORTS),
}
"""CENSUS as in small domain randomization, section 6. Of education, section 6.3 publishes 14 values, a largest share of
27% and nine shares below 1/30; the thesis on buckets adds the least share and a digit of the largest.

Of CADR (fine-grain perturbation, section V, small sums, section 6) only the numbers of values and records are
published: columns and shares are near those of vaccine reports; the most frequent of all reactions is more frequent,
for the queries of small sums find up to 9% of the records."""


@dataclass(frozen=True)
class TableSample:
    """A table for an experiment, and where it comes from."""

    table: pa.Table
    sensitive_column: str
    origin: str
    """The digest of the user's file, or that it was generated."""


@dataclass(frozen=True)
class TableSource:
    """Where tables come from."""

    directory: Path | None = None
    origins: list[str] = field(default_factory=list, compare=False)
    """Where the tables came from that were asked for."""

    @property
    def digests(self) -> dict[str, str]:
        """The files of the user that there are, by which a run is known again; a directory without any is a mistake."""
        files = {design.file: self._read_file(design) for design in DESIGNS.values()}
        digests = {file: file_entry[1] for file, file_entry in files.items() if file_entry is not None}
        if self.directory is not None and not digests:
            raise SourceError(
                f"{str(self.directory)!r} has none of the tables {', '.join(files)}; put at least one there, or leave "
                "--data out for generated ones.",
                code="missing-file",
                fields={"file": str(self.directory)},
            )
        return digests

    def get_sample(self, name: str, rows: int | None = None, seed: int = 1) -> TableSample:
        """So many records of a table; more than there are, and records are drawn again, as the works did."""
        design = DESIGNS[name]
        file_entry = self._read_file(design)
        if file_entry is None:
            generated_table = _generate_table(name, rows or design.rows, seed)
            return self._note_sample(
                TableSample(
                    generated_table, design.sensitive_column, f"{GENERATED}, {generated_table.num_rows:,} records"
                )
            )
        table, digest = file_entry
        if rows is not None:
            generator = np.random.default_rng([seed, rows])
            has_replacement = rows > table.num_rows
            table = table.take(np.sort(generator.choice(table.num_rows, rows, replace=has_replacement)))
            digest += f", {rows:,} records drawn {'with' if has_replacement else 'without'} replacement"
        return self._note_sample(TableSample(table, design.sensitive_column, digest))

    def get_counts(self, name: str, rows: int, seed: int = 1) -> tuple[int, ...]:
        """How many of so many records hold each value, from the most frequent on; no record need be made for that."""
        design = DESIGNS[name]
        if self._read_file(design) is None:
            self._note_origin(f"{GENERATED} counts, {rows:,} records")
            return design.compute_counts(rows)
        sample = self.get_sample(name, rows, seed)
        value_counts = sample.table[sample.sensitive_column].value_counts().field("counts").to_pylist()
        return tuple(sorted(value_counts, reverse=True))

    def _note_sample(self, sample: TableSample) -> TableSample:
        self._note_origin(sample.origin)
        return sample

    def _note_origin(self, origin: str) -> None:
        if origin not in self.origins:
            self.origins.append(origin)

    def _read_file(self, design: TableDesign) -> tuple[pa.Table, str] | None:
        if self.directory is None:
            return None
        if not self.directory.is_dir():
            raise SourceError(
                f"{str(self.directory)!r} is no directory; name one with the tables, or none.",
                code="missing-directory",
                fields={"file": str(self.directory)},
            )
        path = self.directory / design.file
        if not path.is_file():
            return None
        table, digest = _read_parquet(path)
        if design.sensitive_column not in table.column_names:
            raise SourceError(
                f"{str(path)!r} has no column {design.sensitive_column!r}, which experiments take as sensitive.",
                code="missing-column",
                fields={"file": str(path), "column": design.sensitive_column},
            )
        return table, digest


@cache
def _read_parquet(path: Path) -> tuple[pa.Table, str]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    try:
        return pq.read_table(path), f"{path.name}, sha256 {digest[:16]}"
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(
            f"{str(path)!r} cannot be read as a Parquet file.", code="damaged-file", fields={"file": str(path)}
        ) from error


@cache
def _generate_table(name: str, rows: int, seed: int) -> pa.Table:
    """Each public column is drawn given the sensitive value, and columns do not depend on each other beside that."""
    design, generator = DESIGNS[name], np.random.default_rng([seed, rows, len(name)])
    codes = generator.permutation(np.repeat(np.arange(design.value_count), design.compute_counts(rows)))
    columns = {}
    for column, size in design.public_sizes.items():
        base = generator.dirichlet(np.full(size, 2.0))
        tilted = base * np.exp(generator.normal(0, ASSOCIATION, (design.value_count, size)))
        edges = np.cumsum(tilted / tilted.sum(axis=1, keepdims=True), axis=1)
        uniforms = generator.random(len(codes))
        value_codes = np.empty(len(codes), dtype=np.int32)
        for value in range(design.value_count):
            has_value = codes == value
            value_codes[has_value] = np.searchsorted(edges[value], uniforms[has_value], side="right").clip(max=size - 1)
        columns[column] = _make_labels(column, value_codes, size)
    columns[design.sensitive_column] = _make_labels(design.sensitive_column, codes.astype(np.int32), design.value_count)
    return pa.table(columns)


def _make_labels(column: str, codes: np.ndarray[tuple[int], np.dtype[np.int32]], size: int) -> pa.Array:
    width = len(str(size))
    return pa.DictionaryArray.from_arrays(codes, [f"{column} {number + 1:0{width}}" for number in range(size)])
