"""The public description of a release, written as datapackage.json. `manifest_reader` reads this file.

A release is a Data Package. sfumato adds the key `sfumato`, with the format, the mechanism, its design, the ranges and
the treatment of missing values. Each mechanism states which of these entries may depend on counts of the original
table.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sfumato._core.cell_values import Value
from sfumato._core.digests import FileMapper, compute_file_digest, compute_json_digest
from sfumato._core.json_types import Json, JsonView
from sfumato._records import Naming, RecordEncoding, list_record_files
from sfumato._records.column_codes import ANY_TYPE, Field
from sfumato._records.encoding_registry import RECORD_FILES, TABLES
from sfumato._release.description import NO_DESCRIPTION, Description
from sfumato._request.accepted_risks import NO_ACCEPTED_RISKS, AcceptedRisks
from sfumato._request.guarantee import GuaranteeStatement
from sfumato._request.hierarchy import Hierarchy, format_level_name
from sfumato._request.person_rows import UNCHECKED_SENTENCE, PersonCheck, Population
from sfumato._request.schema import COMPOUND_MARK, MergedValues
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.capabilities import WeightColumns
from sfumato.mechanisms.estimator import AnyMethod
from sfumato.mechanisms.mechanism import AnyMechanism, Design

FORMAT = 5
NUMBERED_FORMAT = 4
"""The first format whose manifest has the number of the README template."""
REASONS_FORMAT = 5
"""The first format in which accepted risks have reasons."""
README_TEMPLATE, FIRST_TEMPLATE = 3, 2
"""The current template of the README, and the first template that a manifest names.

`verify` compares a README byte by byte with the result of the current template. It does not compare the README of an
older template. Change the number when you change a sentence.
"""
MANIFEST = "datapackage.json"
WEIGHTS = "weights.parquet"
README = "README.md"
PARQUET, CSV = ".parquet", ".csv"
COPY_NAMES = tuple(name.removesuffix(PARQUET) + CSV for name in (*TABLES, WEIGHTS))
"""The names of the CSV copies of tables."""
KNOWN_FILES = tuple(dict.fromkeys((TABLES[0], WEIGHTS, README, *TABLES, *COPY_NAMES)))
"""The files that a release may contain, besides the manifest."""
PART_NAME = re.compile(
    rf"({'|'.join(name.removesuffix('.parquet') for name in RECORD_FILES)})/part-[0-9]{{5}}\.parquet"
)
"""The name of one part of the records, if they are in several files."""
VALUE_WEIGHTS = ("value", "published")
"""The columns of weights.parquet that hold values of the domain."""
WEIGHT_TYPES = {
    "cell": "integer",
    "column": "string",
    "level": "string",
    "place": "integer",
    "if_equal": "number",
    "otherwise": "number",
    "per_sibling": "number",
    "siblings": ANY_TYPE,
    "weight": "number",
}
MEDIA_TYPES = {"md": "text/markdown", "parquet": "application/vnd.apache.parquet", "csv": "text/csv"}
PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"


@dataclass(frozen=True)
class Manifest:
    """The description of a release."""

    mechanism_name: str
    sensitive_columns: tuple[str, ...]
    """The protected column, or the columns that are protected as one."""
    sensitive_types: tuple[str, ...]
    """The Data Package type of each sensitive column's values."""
    fields: tuple[Field, ...]
    design: Design
    is_declared: bool
    """Whether the domain was declared. If not, it was taken from the table."""
    ranges: Mapping[str, tuple[str, ...]]
    nulls: str
    software: str
    is_test: bool
    cell_column: str | None = None
    """The column with the sub-table of each record, if there are sub-tables."""
    merged_values: Mapping[str, MergedValues] = dataclasses.field(default_factory=dict)
    """Rare values that are published as one value, by column."""
    person_check: PersonCheck | None = None
    """The check that no person has more rows than the guarantee allows. None without a person column."""
    accepted_risks: AcceptedRisks = NO_ACCEPTED_RISKS
    """The risks that the publisher accepted in spite of a warning."""
    missing_markers: tuple[str, ...] = ()
    """Strings of the original table that mark a missing value."""
    hierarchies: Mapping[str, Hierarchy] = dataclasses.field(default_factory=dict)
    """Groups of the values of a sensitive column, by column name. The finest level is the domain."""
    published_levels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The level of a hierarchy whose groups are published instead of a sensitive column's original values."""
    file_rows: tuple[int, ...] = (0,)
    """The number of records of each file. 0 for a single file, because its own metadata has the number."""
    has_copies: bool = False
    """Whether each table also has a CSV copy."""
    description: Description = NO_DESCRIPTION
    """The publisher's description of the release."""
    readme_template: int = README_TEMPLATE
    """The number of the README template. 1 if the manifest is too old to name a template."""

    @property
    def mechanism(self) -> AnyMechanism:
        """The mechanism that made the release."""
        return REGISTRY[self.mechanism_name]

    @cached_property
    def methods(self) -> Mapping[str, AnyMethod]:
        """The estimation methods. The default method comes first."""
        return self.mechanism.list_estimators(self.design)

    @cached_property
    def proposal(self) -> str | None:
        """Another estimation method that may help if errors are large. Also its disadvantage."""
        return self.mechanism.estimation_rules.propose_estimator(self.design)

    @cached_property
    def encoding(self) -> RecordEncoding:
        """The record encoding of the release."""
        return self.mechanism.make_encoding(self.design)

    @cached_property
    def domain(self) -> tuple[Value, ...]:
        """The values that the sensitive column may have."""
        values: tuple[Value, ...] = self.design.domain
        return values

    @cached_property
    def levels(self) -> dict[str, tuple[Value, ...]]:
        """The group of each value of the domain at each level, such as `diagnosis.chapter`."""
        return {
            format_level_name(name, level): tuple(path[number] for path in hierarchy.paths)
            for name, hierarchy in self.hierarchies.items()
            for number, level in enumerate(hierarchy.levels)
        }

    @property
    def upper_levels(self) -> dict[str, tuple[Value, ...]]:
        """The levels above the values themselves."""
        finest = {format_level_name(name, hierarchy.levels[0]) for name, hierarchy in self.hierarchies.items()}
        return {level: level_groups for level, level_groups in self.levels.items() if level not in finest}

    @cached_property
    def naming(self) -> Naming:
        """The names of the published columns."""
        return Naming(self.sensitive_columns, self.domain, self.sensitive_types, self.cell_column)

    @property
    def is_independent(self) -> bool:
        """Whether several sensitive columns are protected separately."""
        return len(self.sensitive_columns) > 1 and self.mechanism.several_columns is not None

    @property
    def sensitive_name(self) -> str:
        """The name of the protected column or columns."""
        return COMPOUND_MARK.join(self.sensitive_columns)

    @cached_property
    def protected_columns(self) -> tuple[str, ...]:
        """The columns of the records with published values."""
        return self.encoding.list_column_names(self.naming)

    @cached_property
    def public_columns(self) -> tuple[str, ...]:
        """The names of the public columns."""
        return tuple(field.name for field in self.fields if field.name not in self.protected_columns)

    @cached_property
    def weights(self) -> WeightColumns | None:
        """The estimation weights of each published value. None if there are no weights or too many."""
        weights = self.mechanism.estimation_weights
        value_weights = None if weights is None else weights.make_weights(self.design)
        return None if value_weights is None else {**self.encoding.list_weight_columns(self.naming), **value_weights}

    @cached_property
    def tables(self) -> Mapping[str, Sequence[Field]]:
        """The columns of each table of the release."""
        tables = self.encoding.list_tables(self.naming, self.fields)
        records = dict.fromkeys(self.data_files, tables.pop(self.data_file))
        return {**records, **tables, **({} if self.weights is None else {WEIGHTS: self.weight_fields})}

    @cached_property
    def copies(self) -> Mapping[str, tuple[str, ...]]:
        """The CSV files, with the tables that each file copies. All record files have one common copy."""
        if not self.has_copies:
            return {}
        record_copies: dict[str, tuple[str, ...]] = {make_copy_name(self.data_file): self.data_files}
        return record_copies | {make_copy_name(name): (name,) for name in self.tables if name not in self.data_files}

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the release, except the manifest."""
        return (*self.tables, *self.copies, README)

    @property
    def data_file(self) -> str:
        """The file of the records, if there is only one. If there are several, the base name of their folder."""
        return self.encoding.FILES[0]

    @property
    def data_files(self) -> tuple[str, ...]:
        """The files of the records."""
        return list_record_files(self.data_file, len(self.file_rows))

    def list_data_paths(self, folder: Path) -> tuple[Path, ...]:
        """The paths of the record files."""
        return tuple(folder / name for name in self.data_files)

    @property
    def guarantee(self) -> GuaranteeStatement:
        """The guarantee in words, and what this release discloses beyond the guarantee."""
        sentences = []
        if not self.is_declared:
            domain_noun = "combinations" if len(self.sensitive_columns) > 1 and not self.is_independent else "values"
            sentences.append(
                f"The list of {domain_noun} of {self.sensitive_name!r} was taken from the table, so it shows which "
                f"{domain_noun} occur at least once. The guarantee does not cover this fact."
            )
        for name, merged in self.merged_values.items():
            label = "as missing" if merged.label is None else f"as {merged.label!r}"
            sentences.append(
                f"{len(merged.values)} values of {name!r} are published {label}, because they are rare in the table. "
                "The release lists these values. The guarantee does not cover the fact that they are rare."
            )
        if self.nulls == "drop":
            sentences.append(
                f"Records without a {self.sensitive_name!r} were dropped. An attacker who knows that a person was in "
                "the table and does not find the record learns that the value was missing."
            )
        accepted = self.accepted_risks.list_sentences(self.sensitive_name)
        return self.mechanism.state_guarantee(self.design).add_details([*sentences, self.person_sentence, *accepted])

    @property
    def person_sentence(self) -> str:
        """A sentence that says how repeated people were checked for, or that this was not checked."""
        return UNCHECKED_SENTENCE if self.person_check is None else self.person_check.sentence

    @property
    def population(self) -> Population:
        """The people or rows that the numbers of the release describe."""
        return Population.of(self.person_check, self.sensitive_name if self.nulls == "drop" else None)

    @property
    def count_unit(self) -> str:
        """The unit of a count: people or rows.

        The unit is rows if a person may have several rows, or if people were not checked.
        """
        return self.population.unit

    def get_field(self, name: str) -> Field:
        """The field of a column."""
        return next(field for field in self.fields if field.name == name)

    def to_json(self, folder: Path, each: FileMapper = map, known_digests: Mapping[str, str] | None = None) -> Json:
        """The complete datapackage.json for the files in a folder, with their digests and its own.

        Every file is a resource. Every part of the records is also a resource, because some readers only read the first
        file of a list. Digests that were computed while files were written are not computed again.
        """
        digests = dict(known_digests or {})
        missing_digests = [name for name in self.files if name not in digests]
        digests.update(
            zip(missing_digests, each(compute_file_digest, [folder / name for name in missing_digests]), strict=True)
        )
        hierarchies = self.hierarchies
        package = {
            "$schema": PROFILE,
            "name": "sfumato-release",
            **self.description.to_json(),
            "resources": [self._make_resource(name, digests[name]) for name in self.files],
            "sfumato": {
                "format": FORMAT,
                "software": self.software,
                "readme_template": self.readme_template,
                "mechanism": self.mechanism_name,
                "guarantee": self.mechanism.guarantee.value,
                "sensitive": list(self.sensitive_columns),
                "types": list(self.sensitive_types),
                **({"cell_column": self.cell_column} if self.cell_column is not None else {}),
                "design": self.design.to_json(),
                "domain_declared": self.is_declared,
                "bins": {name: list(edges) for name, edges in self.ranges.items()},
                "nulls": self.nulls,
                "persons": None if self.person_check is None else self.person_check.to_json(),
                "accepted": self.accepted_risks.to_json(),
                **({"missing": list(self.missing_markers)} if self.missing_markers else {}),
                **(
                    {"merged": {name: each.to_json() for name, each in self.merged_values.items()}}
                    if self.merged_values
                    else {}
                ),
                **({"published_at": dict(self.published_levels)} if self.published_levels else {}),
                **(
                    {"hierarchies": {name: each.to_json() for name, each in hierarchies.items()}} if hierarchies else {}
                ),
                "fit_to_publish": not self.is_test,
            },
        }
        package["sfumato"]["digest"] = compute_manifest_digest(package)
        return package

    def _make_resource(self, name: str, digest: str) -> Json:
        stem, _, ending = name.rpartition(".")
        resource: Json = {
            "name": stem.lower().replace("/", "-") + ("-csv" if name in self.copies else ""),
            "path": name,
            "format": ending,
            "mediatype": MEDIA_TYPES[ending],
            "hash": f"sha256:{digest}",
        }
        if name in self.copies:
            fields = self._list_fields(self.copies[name][0])
            kind = "array" if self.copies[name] == self.data_files else "string"  # sets of records, and bits of weights
            typed_fields = [{**field, "type": kind} if field["type"] == ANY_TYPE else field for field in fields]
            return {**resource, "type": "table", "schema": {"fields": typed_fields, "missingValues": [""]}}
        if name not in self.tables:
            return resource
        if len(self.data_files) > 1 and name in self.data_files:
            resource["rows"] = self.file_rows[self.data_files.index(name)]
        fields = self._list_fields(name)
        # Parquet has its own missing values, so an empty string is an ordinary value.
        return {**resource, "type": "table", "schema": {"fields": fields, "missingValues": []}}

    def _list_fields(self, table: str) -> list[Json]:
        """The columns of a table with their descriptions.

        Columns of weights have no descriptions, because their names are enough.
        """
        fields = [field.to_json() for field in self.tables[table]]
        return [
            {**field_entry, "description": description}
            if (description := self._describe_column(table, field_entry["name"]))
            else field_entry
            for field_entry in fields
        ]

    def _describe_column(self, table: str, name: str) -> str | None:
        """The description of a column. Columns that together encode one original column share its description."""
        if table == WEIGHTS:
            return None
        is_protected = name in self.protected_columns and name != self.cell_column
        return self.description.columns.get(name) or (
            self.description.columns.get(self.sensitive_name) if is_protected else None
        )

    @property
    def column_descriptions(self) -> dict[str, str]:
        """The description of each column. If several columns share one description, it appears once."""
        members = [
            name for name in self.protected_columns if name != self.cell_column and name not in self.sensitive_columns
        ]
        texts = {self.description.columns.get(name) for name in members}
        if len(members) == 0 or len(texts) > 1 or None in texts:
            return dict(self.description.columns)
        others = {name: text for name, text in self.description.columns.items() if name not in members}
        return {**others, self.sensitive_name: self.description.columns[members[0]]}

    @cached_property
    def weight_fields(self) -> Sequence[Field]:
        """The columns of weights.parquet. Each part of a compound value has one column."""
        fields: list[Field] = []
        for name in self.weights or {}:
            if name not in VALUE_WEIGHTS:
                fields.append(Field(name, WEIGHT_TYPES[name.rstrip("_0123456789")], False))
                continue
            names = (
                [name] if len(self.sensitive_columns) == 1 else [f"{name} {part}" for part in self.sensitive_columns]
            )
            fields += self.naming.make_value_fields(names)
        return fields


def make_copy_name(table: str) -> str:
    """The name of the CSV copy of a table."""
    return table.removesuffix(PARQUET) + CSV


def compute_manifest_digest(package: JsonView) -> str:
    """The digest of a manifest, computed without the digest itself. It detects accidental changes, not attacks."""
    section = {key: value for key, value in package["sfumato"].items() if key != "digest"}
    return compute_json_digest({**package, "sfumato": section})
