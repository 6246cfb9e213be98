"""The content of a manifest, read from its JSON. Checks use nothing else of the manifest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.cell_values import Value, values_from_json
from sfumato._core.json_types import JsonView
from sfumato._core.ordered_threads import map_in_order, read_ahead
from sfumato._records import Naming, RecordEncoding
from sfumato._records.sql_quoting import quote_name
from sfumato._release.manifest import KNOWN_FILES
from sfumato._release.manifest_reader import list_record_resources
from sfumato._request.person_rows import PersonCheck
from sfumato._verify.check_results import Check
from sfumato.errors import ReleaseFormatError

MOST_COMBINATIONS = 1 << 18
"""The largest number of combinations for columns that are each protected on their own."""
BATCH_ROWS = 1 << 18
THREADS = 2
"""The number of batches that are processed at the same time, while the next batch is read."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class ManifestView:
    """A manifest as JSON, and the record encoding of its release."""

    json: JsonView
    encoding: RecordEncoding
    hidden_columns: frozenset[str] = frozenset()
    """Columns of the records to ignore."""

    @property
    def sfumato_json(self) -> JsonView:
        """The entries that sfumato adds to a Data Package."""
        section: JsonView = self.json["sfumato"]
        return section

    @property
    def design(self) -> JsonView:
        """The design, with rational numbers as strings."""
        design_json: JsonView = self.sfumato_json["design"]
        return design_json

    @cached_property
    def sensitive_names(self) -> tuple[str, ...]:
        """The names of the sensitive columns. Format 1 had only one."""
        names_json = self.sfumato_json["sensitive"]
        return (names_json,) if isinstance(names_json, str) else tuple(names_json)

    @cached_property
    def persons(self) -> PersonCheck | None:
        """The check of persons. Formats 1 and 2 do not record it."""
        persons_json = self.sfumato_json.get("persons")
        return None if persons_json is None else PersonCheck.from_json(persons_json)

    @cached_property
    def column_types(self) -> Mapping[str, str]:
        """The types of the columns of the records, by name."""
        fields = self.find_resource(self.record_files[0])["schema"]["fields"]
        return {column["name"]: column["type"] for column in fields if column["name"] not in self.hidden_columns}

    @cached_property
    def domain(self) -> tuple[Value, ...]:
        """The domain of the sensitive columns."""
        types = self.sfumato_json.get("types") or [self.column_types[name] for name in self.sensitive_names]
        if "domains" not in self.design:
            return values_from_json(self.design["domain"], types)
        # The domain has all combinations if each column is protected on its own.
        pairs = zip(self.design["domains"], types, strict=True)
        domains = [values_from_json(domain, [kind]) for domain, kind in pairs]
        if math.prod(map(len, domains)) > MOST_COMBINATIONS:
            raise ReleaseFormatError(
                "the domain of the release is larger than any release needs.", code="domain-too-large"
            )
        return tuple(itertools.product(*domains))  # type: ignore[arg-type]

    @cached_property
    def naming(self) -> Naming:
        """The names of the columns with published values."""
        types = tuple(self.sfumato_json.get("types") or [self.column_types[name] for name in self.sensitive_names])
        return Naming(self.sensitive_names, self.domain, types, self.sfumato_json.get("cell_column"))

    @cached_property
    def published_names(self) -> tuple[str, ...]:
        """The columns of the records with published values."""
        return self.encoding.list_column_names(self.naming)

    @cached_property
    def public_names(self) -> list[str]:
        """The names of the public columns."""
        return [name for name in self.column_types if name not in self.published_names]

    @property
    def quoted_public_names(self) -> list[str]:
        """The public columns, quoted for SQL."""
        return [quote_name(name) for name in self.public_names]

    @cached_property
    def table_files(self) -> tuple[str, ...]:
        """The Parquet files of the release."""
        listed_files = {str(resource["path"]) for resource in self.json["resources"]}
        others = [name for name in KNOWN_FILES if name in listed_files and name.endswith(".parquet")]
        return tuple(dict.fromkeys((*self.record_files, *others)))

    @cached_property
    def record_files(self) -> tuple[str, ...]:
        """The files of the records, as the manifest lists them."""
        return tuple(str(resource["path"]) for resource in list_record_resources(self.json))

    def find_resource(self, name: str) -> JsonView:
        """The description of one file."""
        entry: JsonView = {resource["path"]: resource for resource in self.json["resources"]}[name]
        return entry

    def split_by_column(self) -> list[ManifestView]:
        """Splits the manifest into one manifest for each column that is protected on its own.

        In each of them, the other sensitive columns are hidden, because they are not public.
        """
        if "domains" not in self.design:
            return [self]
        column_entries = []
        for name, kind, domain in zip(
            self.sensitive_names, self.sfumato_json["types"], self.design["domains"], strict=True
        ):
            design = {key: value for key, value in self.design.items() if key != "domains"}
            column_json = {
                **self.sfumato_json,
                "sensitive": [name],
                "types": [kind],
                "design": {**design, "domain": domain},
            }
            column_entries.append(
                replace(
                    self,
                    json={**self.json, "sfumato": column_json},
                    hidden_columns=frozenset(self.sensitive_names) - frozenset({name}),
                )
            )
        return column_entries

    def read_batches(self, folder: Path, columns: Sequence[str], table: str | None = None) -> Iterator[pa.RecordBatch]:
        """Reads some columns of a table, batch by batch. Strings are dictionaries, which are counted fast.

        The next batches are read while others are processed.
        """
        return read_ahead(self._iter_batches(folder, columns, table))

    def _iter_batches(self, folder: Path, columns: Sequence[str], table: str | None) -> Iterator[pa.RecordBatch]:
        for path in [folder / name for name in (self.record_files if table is None else [table])]:
            with pq.ParquetFile(path) as file:
                strings = [name for name in columns if pa.types.is_string(file.schema_arrow.field(name).type)]
            with pq.ParquetFile(path, read_dictionary=strings) as file:
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns))

    def map_batches(
        self, work: Callable[[pa.RecordBatch], Result], folder: Path, columns: Sequence[str]
    ) -> Iterator[Result]:
        """Applies a function to each of these batches. Several batches are processed at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from map_in_order(pool, THREADS, work, self.read_batches(folder, columns))

    def fail_outside_domain(self, name: str) -> Check:
        """The failed check for an original with values outside the domain of the release."""
        return Check(
            name, False, f"the original has a value of {self.naming.joined_name!r} outside the domain of the release."
        )
