"""The public description of a release: datapackage.json, written and read with suspicion.

A release is a Data Package. What sfumato adds stands under the key `sfumato`: the format, the mechanism, its design,
the bins and the treatment of missing values. What of it may follow counts of the original table is for each mechanism
to say.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.mechanisms import REGISTRY, AnyMechanism, decoys
from sfumato.mechanisms.coins.methods import Method
from sfumato.request.digest import file_digest, json_digest
from sfumato.request.schema import COMPOUND_MARK, Merged
from sfumato.request.values import Value, field_type, parts, plain_type, to_json, values_from_json
from sfumato.shown.tally import Buckets, Members, Observation, Symbols

FORMAT = 2
MANIFEST = "datapackage.json"
DATA = "data.parquet"
RECORDS = "qit.parquet"
BUCKETS = "st.parquet"
"""A release of buckets has two tables: which bucket each record is in, and which values each bucket holds."""
WEIGHTS = "weights.parquet"
README = "README.md"
FILES = (DATA, WEIGHTS, README)
BUCKET_FILES = (RECORDS, BUCKETS, README)
KNOWN_FILES = tuple(dict.fromkeys((*FILES, *BUCKET_FILES)))
"""Every file that some release has."""
LARGEST_MANIFEST = 64 << 20
ANY_TYPE = "any"
DATA_NAMES = ("data", "qit")
"""The resource of the records: in a release of values or sets, and in one of buckets."""
VALUE_WEIGHTS = ("value", "published")
"""The columns of weights.parquet that hold values of the domain."""
WEIGHT_TYPES = {
    "cell": "integer",
    "place": "integer",
    "if_equal": "number",
    "otherwise": "number",
    "weight": "number",
}
PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"


@dataclass(frozen=True)
class Field:
    """One column: its name, its Data Package type, and whether values may be missing."""

    name: str
    type: str
    has_missing: bool

    @classmethod
    def of(cls, name: str, kind: pa.DataType, has_missing: bool) -> Field:
        """The field of a published column; sets of values have no type of their own in a Data Package."""
        return cls(name, published_type(kind), has_missing)

    def to_json(self) -> dict[str, Any]:
        """A Table Schema field."""
        written = {"name": self.name, "type": self.type, "constraints": {"required": not self.has_missing}}
        # Readers that go through floating-point columns, as frictionless does, meet a missing integer as "nan".
        return {**written, "missingValues": ["nan"]} if self.has_missing and self.type == "integer" else written


def published_type(kind: pa.DataType) -> str:
    """The Data Package type of a published column."""
    return field_type(plain_type(kind)) or ANY_TYPE


@dataclass(frozen=True)
class Manifest:
    """What a release says about itself."""

    mechanism_name: str
    sensitive: tuple[str, ...]
    """The column that is protected, or those that are protected as one."""
    types: tuple[str, ...]
    """The Data Package type of each sensitive column's values."""
    fields: tuple[Field, ...]
    design: Any
    is_declared: bool
    """Whether the domain was declared; else it was taken from the table."""
    bins: Mapping[str, tuple[str, ...]]
    nulls: str
    software: str
    is_test: bool
    cell_column: str | None = None
    """The column that says in which cell a record is, where there are cells."""
    merged: Mapping[str, Merged] = dataclasses.field(default_factory=dict)
    """Rare values that are published as one, by column."""

    @property
    def mechanism(self) -> AnyMechanism:
        """The mechanism that made the release."""
        return REGISTRY[self.mechanism_name]

    @property
    def methods(self) -> Mapping[str, Method]:
        """The ways to estimate, the default one first."""
        default = self.mechanism.default_method(self.design)
        return {default: self.mechanism.METHODS[default], **self.mechanism.METHODS}

    @property
    def observation(self) -> Observation:
        """What a record of the release shows."""
        return self.mechanism.observe(self.design)

    @property
    def domain(self) -> tuple[Value, ...]:
        """The values that the sensitive column may have."""
        found: tuple[Value, ...] = self.design.domain
        return found

    @property
    def is_independent(self) -> bool:
        """Whether several sensitive columns are protected each for itself."""
        return len(self.sensitive) > 1 and self.mechanism_name == decoys.NAME

    @property
    def sensitive_name(self) -> str:
        """The name of what is protected."""
        return COMPOUND_MARK.join(self.sensitive)

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of the data that show something about what is protected."""
        names = (self.sensitive_name,) if isinstance(self.observation, Members) else self.sensitive
        if isinstance(self.observation, Buckets):
            names = ()
        return (*names, *([self.cell_column] if self.cell_column is not None else []))

    @property
    def public(self) -> tuple[str, ...]:
        """The names of the public columns."""
        return tuple(field.name for field in self.fields if field.name not in self.shown)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the release, beside the manifest."""
        if isinstance(self.observation, Buckets):
            return BUCKET_FILES
        return FILES if self.has_weights else (DATA, README)

    @property
    def data(self) -> str:
        """The file of the records."""
        return self.files[0]

    @property
    def has_weights(self) -> bool:
        """Whether the domain is small enough to write down what each record adds to a count."""
        return self.mechanism.weights(self.design) is not None

    @property
    def promise(self) -> str:
        """What is promised in plain words, with what this release tells besides."""
        said = [self.mechanism.promise(self.design)]
        if not self.is_declared:
            what = "combinations" if len(self.sensitive) > 1 and not self.is_independent else "values"
            said.append(
                f"The list of {what} of {self.sensitive_name!r} was taken from the table: that one is in it tells "
                "that at least one person has it, and this is not covered."
            )
        for name, merged in self.merged.items():
            label = "as missing" if merged.label is None else f"as {merged.label!r}"
            said.append(
                f"{len(merged.values)} values of {name!r} are published {label}, because they are rare in the table; "
                "which ones is published, and this is not covered."
            )
        if self.nulls == "drop":
            said.append(
                f"Records without a {self.sensitive_name!r} were left out: whoever knows that a person was in the "
                "table, and does not find the record, learns that the value was missing."
            )
        return " ".join(said)

    def field(self, name: str) -> Field:
        """The field of a column."""
        return next(field for field in self.fields if field.name == name)

    def to_json(self, folder: Path) -> dict[str, Any]:
        """The whole datapackage.json of the files in a folder, with their digests and its own."""
        written = {
            "$schema": PROFILE,
            "name": "sfumato-release",
            "resources": [self._resource(folder / name) for name in self.files],
            "sfumato": {
                "format": FORMAT,
                "software": self.software,
                "mechanism": self.mechanism_name,
                "guarantee": self.mechanism.GUARANTEE,
                "sensitive": list(self.sensitive),
                "types": list(self.types),
                **({"cell_column": self.cell_column} if self.cell_column is not None else {}),
                "design": self.design.to_json(),
                "domain_declared": self.is_declared,
                "bins": {name: list(edges) for name, edges in self.bins.items()},
                "nulls": self.nulls,
                **({"merged": {name: _merged_json(each) for name, each in self.merged.items()}} if self.merged else {}),
                "fit_to_publish": not self.is_test,
            },
        }
        written["sfumato"]["digest"] = manifest_digest(written)  # type: ignore[index]
        return written

    def _resource(self, path: Path) -> dict[str, Any]:
        resource: dict[str, Any] = {
            "name": path.stem.lower(),
            "path": path.name,
            "format": path.suffix[1:],
            "mediatype": "text/markdown" if path.name == README else "application/vnd.apache.parquet",
            "hash": f"sha256:{file_digest(path)}",
        }
        if path.name in (DATA, RECORDS):
            resource["type"] = "table"
            resource["schema"] = _table_schema(self.fields)
        if path.name == BUCKETS:
            resource["type"] = "table"
            resource["schema"] = _table_schema(self.bucket_fields())
        if path.name == WEIGHTS:
            resource["type"] = "table"
            resource["schema"] = _table_schema(self.weight_fields())
        return resource

    def weight_fields(self) -> tuple[Field, ...]:
        """The columns of weights.parquet."""
        columns = self.mechanism.weights(self.design) or {}
        fields: list[Field] = []
        for name in columns:
            fields += self._value_fields(name) if name in VALUE_WEIGHTS else [Field(name, WEIGHT_TYPES[name], False)]
        return tuple(fields)

    @property
    def count_column(self) -> str:
        """The column of the table of buckets that says how often a bucket holds a value."""
        taken = {name.lower() for name in (self.cell_column or "", *self.sensitive)}
        return next(name for name in (f"count{'_' * more}" for more in itertools.count()) if name not in taken)

    def bucket_fields(self) -> tuple[Field, ...]:
        """The columns of the table of buckets."""
        values = [
            Field(name, kind, any(parts(value)[number] is None for value in self.domain))
            for number, (name, kind) in enumerate(zip(self.sensitive, self.types, strict=True))
        ]
        return (Field(self.cell_column or "", "integer", False), *values, Field(self.count_column, "integer", False))

    def _value_fields(self, name: str) -> list[Field]:
        """A column for a value; for a compound one a column for each part."""
        names = [name] if len(self.sensitive) == 1 else [f"{name} {part}" for part in self.sensitive]
        return [
            Field(each, kind, any(parts(value)[number] is None for value in self.domain))
            for number, (each, kind) in enumerate(zip(names, self.types, strict=True))
        ]


def _merged_json(merged: Merged) -> dict[str, Any]:
    return {"values": sorted((to_json(value) for value in merged.values), key=str), "label": merged.label}


def read_merged(ours: Mapping[str, Any]) -> dict[str, Merged]:
    """The merged values that a manifest speaks of."""
    kinds = dict(zip(ours["sensitive"], ours.get("types", ()), strict=False))
    return {
        str(name): Merged(frozenset(values_from_json(each["values"], [kinds[name]])), each["label"])
        for name, each in ours.get("merged", {}).items()
    }


def _table_schema(fields: Sequence[Field]) -> dict[str, Any]:
    """A Table Schema. Parquet has missing values of its own, so that an empty text is a value like any other."""
    return {"fields": [field.to_json() for field in fields], "missingValues": []}


def manifest_digest(written: Mapping[str, Any]) -> str:
    """The digest of a manifest without its own digest: it finds accidents, not malice."""
    ours = {key: value for key, value in written["sfumato"].items() if key != "digest"}
    return json_digest({**written, "sfumato": ours})


def load_json(folder: Path) -> dict[str, Any]:
    """Read datapackage.json as JSON and refuse what is no release, too new, or edited."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise ReleaseFormatError(f"{MANIFEST} is larger than {LARGEST_MANIFEST >> 20} MiB, which no release needs.")
        written = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(written, ensure_ascii=False).encode()  # fails at half a character, which an escape can smuggle in
        ours = written["sfumato"]
        newest, digest = int(ours["format"]), str(ours["digest"])
    except ReleaseFormatError:
        raise
    except OSError as error:
        raise ReleaseFormatError(
            f"{str(folder)!r} is not a release that can be read: it has no readable {MANIFEST}."
        ) from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ReleaseFormatError(
            f"{MANIFEST} is not that of a release; get the release again from its publisher."
        ) from error
    if newest > FORMAT:
        raise ReleaseFormatError(
            f"the release has format {newest}, and this version reads up to {FORMAT}: update sfumato "
            "(pip install --upgrade sfumato)."
        )
    if digest != manifest_digest(written):
        raise ReleaseFormatError(f"{MANIFEST} was changed after publishing; get the release again from its publisher.")
    return dict(written)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a release directory."""
    written = load_json(folder)
    try:
        return _parse(written)
    except (LookupError, TypeError, ValueError, StopIteration, AttributeError, ArithmeticError, SfumatoError) as error:
        if isinstance(error, ReleaseFormatError):
            raise
        raise ReleaseFormatError(
            f"{MANIFEST} does not describe a release as it should ({type(error).__name__})."
        ) from error


def _parse(written: Mapping[str, Any]) -> Manifest:
    ours = written["sfumato"]
    resources = {resource["name"]: resource for resource in written["resources"]}
    paths = [resource["path"] for resource in written["resources"]]
    fields = tuple(
        Field(str(field["name"]), str(field["type"]), not field["constraints"]["required"])
        for field in resources[DATA_NAMES[RECORDS in paths]]["schema"]["fields"]
    )
    mechanism = REGISTRY.get(str(ours["mechanism"]))
    if mechanism is None:
        raise ReleaseFormatError(
            f"the release was made by the mechanism {ours['mechanism']!r}, unknown to this version."
        )
    names = {field.name: field.type for field in fields}
    if len({name.lower() for name in names}) != len(fields):
        raise ReleaseFormatError("two columns of the release have the same name.")
    # Format 1 knew one sensitive column, of the type of its field.
    sensitive = (ours["sensitive"],) if isinstance(ours["sensitive"], str) else tuple(map(str, ours["sensitive"]))
    types = tuple(map(str, ours["types"])) if "types" in ours else (names[sensitive[0]],)
    if not sensitive or len(types) != len(sensitive) or len({name.lower() for name in sensitive}) != len(sensitive):
        raise ReleaseFormatError("the sensitive columns of the release and their types do not fit together.")
    read = Manifest(
        mechanism_name=mechanism.NAME,
        sensitive=sensitive,
        types=types,
        fields=fields,
        design=mechanism.read_design(ours["design"], types),
        is_declared=bool(ours["domain_declared"]),
        bins={str(name): tuple(map(str, edges)) for name, edges in ours["bins"].items()},
        nulls=str(ours["nulls"]),
        software=str(ours["software"]),
        is_test=not ours["fit_to_publish"],
        cell_column=str(ours["cell_column"]) if "cell_column" in ours else None,
        merged=read_merged(ours),
    )
    shown = read.observation
    has_cells = isinstance(shown, Buckets) or (isinstance(shown, Symbols) and shown.cells is not None)
    if isinstance(shown, Buckets) != (RECORDS in paths):
        raise ReleaseFormatError("the release does not have the files that its design speaks of.")
    if has_cells != (read.cell_column is not None) or not set(read.shown) <= set(names):
        raise ReleaseFormatError("the release lacks a column that its design speaks of.")
    return read
