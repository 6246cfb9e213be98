"""What a manifest says, read from its JSON: for the checks, which trust nothing else."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.cell_values import Value, values_from_json
from sfumato._core.ordered_threads import map_in_order, read_ahead
from sfumato._records import Naming, RecordEncoding
from sfumato._records.sql_quoting import quote_name
from sfumato._release.manifest import KNOWN_FILES
from sfumato._release.manifest_reader import record_resources
from sfumato._request.person_rows import Persons
from sfumato._verify.verification import Check
from sfumato.errors import ReleaseFormatError

MOST_COMBINATIONS = 1 << 18
"""Of the values of columns that are protected each for itself."""
BATCH_ROWS = 1 << 18
THREADS = 2
"""So many batches are looked at beside each other, while a third one is read."""

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Written:
    """A manifest as JSON, and what a record of its release shows."""

    json: Mapping[str, Any]
    shown: RecordEncoding
    hidden: frozenset[str] = frozenset()
    """Columns of the records that are left out of account."""

    @property
    def ours(self) -> Mapping[str, Any]:
        """What sfumato adds to a Data Package."""
        section: Mapping[str, Any] = self.json["sfumato"]
        return section

    @property
    def design(self) -> Mapping[str, Any]:
        """The design, with rationals as they are written."""
        design_json: Mapping[str, Any] = self.ours["design"]
        return design_json

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the sensitive columns; format 1 had one."""
        sensitive_names = self.ours["sensitive"]
        return (sensitive_names,) if isinstance(sensitive_names, str) else tuple(sensitive_names)

    @cached_property
    def persons(self) -> Persons | None:
        """How persons were checked; formats 1 and 2 do not say."""
        persons_json = self.ours.get("persons")
        return None if persons_json is None else Persons.from_json(persons_json)

    @cached_property
    def fields(self) -> Mapping[str, str]:
        """The types of the columns of the records, by their names."""
        fields = self.resource(self.records[0])["schema"]["fields"]
        return {column["name"]: column["type"] for column in fields if column["name"] not in self.hidden}

    @cached_property
    def domain(self) -> tuple[Value, ...]:
        """The domain of what is sensitive."""
        types = self.ours.get("types") or [self.fields[name] for name in self.names]
        if "domains" not in self.design:
            return values_from_json(self.design["domain"], types)
        # Columns that are protected each for itself: all their combinations.
        pairs = zip(self.design["domains"], types, strict=True)
        domains = [values_from_json(domain, [kind]) for domain, kind in pairs]
        if math.prod(map(len, domains)) > MOST_COMBINATIONS:
            raise ReleaseFormatError("the domain of the release is larger than any release needs.")
        return tuple(itertools.product(*domains))  # type: ignore[arg-type]

    @cached_property
    def naming(self) -> Naming:
        """What the columns that show something are called."""
        types = tuple(self.ours.get("types") or [self.fields[name] for name in self.names])
        return Naming(self.names, self.domain, types, self.ours.get("cell_column"))

    @cached_property
    def shown_names(self) -> tuple[str, ...]:
        """The columns of the records that show something about what is sensitive."""
        return self.shown.names(self.naming)

    @cached_property
    def public(self) -> list[str]:
        """The names of the public columns."""
        return [name for name in self.fields if name not in self.shown_names]

    @property
    def public_columns(self) -> list[str]:
        """The public columns, quoted for SQL."""
        return [quote_name(name) for name in self.public]

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The Parquet files of the release."""
        listed = {str(resource["path"]) for resource in self.json["resources"]}
        others = [name for name in KNOWN_FILES if name in listed and name.endswith(".parquet")]
        return tuple(dict.fromkeys((*self.records, *others)))

    @cached_property
    def records(self) -> tuple[str, ...]:
        """The files of the records: as many as are listed."""
        return tuple(str(resource["path"]) for resource in record_resources(self.json))

    def resource(self, name: str) -> Mapping[str, Any]:
        """The description of one file."""
        entry: Mapping[str, Any] = {resource["path"]: resource for resource in self.json["resources"]}[name]
        return entry

    def by_column(self) -> list[Written]:
        """Columns that are protected each for itself, as one manifest for each of them.

        The other sensitive columns are left out of each: they are not public.
        """
        if "domains" not in self.design:
            return [self]
        column_entries = []
        for name, kind, domain in zip(self.names, self.ours["types"], self.design["domains"], strict=True):
            design = {key: value for key, value in self.design.items() if key != "domains"}
            alone = {**self.ours, "sensitive": [name], "types": [kind], "design": {**design, "domain": domain}}
            column_entries.append(
                replace(self, json={**self.json, "sfumato": alone}, hidden=frozenset(self.names) - frozenset({name}))
            )
        return column_entries

    def batches(self, folder: Path, columns: Sequence[str], table: str | None = None) -> Iterator[pa.RecordBatch]:
        """Some columns of the records, or of another table, group by group; texts by dictionaries, quick to count.

        The next ones are read while some are looked at.
        """
        return read_ahead(self._batches(folder, columns, table))

    def _batches(self, folder: Path, columns: Sequence[str], table: str | None) -> Iterator[pa.RecordBatch]:
        for path in [folder / name for name in (self.records if table is None else [table])]:
            with pq.ParquetFile(path) as file:
                strings = [name for name in columns if pa.types.is_string(file.schema_arrow.field(name).type)]
            with pq.ParquetFile(path, read_dictionary=strings) as file:
                for group in range(file.num_row_groups):
                    yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=list(columns))

    def worked(
        self, work: Callable[[pa.RecordBatch], Result], folder: Path, columns: Sequence[str]
    ) -> Iterator[Result]:
        """What becomes of each of these batches; several are worked on at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            yield from map_in_order(pool, THREADS, work, self.batches(folder, columns))

    def outside(self, name: str) -> Check:
        """A check fails because the original holds what the release cannot have been made from."""
        return Check(name, False, f"the original holds a {self.naming.together!r} outside the domain of the release.")
