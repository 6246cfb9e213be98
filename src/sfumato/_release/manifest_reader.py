"""Reads datapackage.json as untrusted input.

Refuses files that do not belong to a release, are too new, were edited, or are invalid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfumato._core.json_types import Json, JsonView
from sfumato._records import list_record_files
from sfumato._records.column_codes import Field
from sfumato._records.encoding_registry import RECORD_FILES, TABLES
from sfumato._release.description import Description
from sfumato._release.manifest import (
    COPY_NAMES,
    FIRST_TEMPLATE,
    FORMAT,
    KNOWN_FILES,
    MANIFEST,
    NUMBERED_FORMAT,
    PART_NAME,
    README,
    README_TEMPLATE,
    REASONS_FORMAT,
    Manifest,
    compute_manifest_digest,
)
from sfumato._release.manifest_entries import read_hierarchies, read_merged, read_missing, read_published_levels
from sfumato._release.untrusted_files import GET_AGAIN
from sfumato._request.accepted_risks import NO_ACCEPTED_RISKS, OLD_KEYS, AcceptedRisks
from sfumato._request.person_rows import PersonCheck
from sfumato.errors import ReleaseFormatError, SfumatoError
from sfumato.mechanisms import REGISTRY

LARGEST_MANIFEST = 64 << 20
MAX_SHOWN_LETTERS = 80
"""The number of characters of an invalid path or key to show."""
TEMPLATE_KEY = "readme_template"
PACKAGE_KEYS = (
    *("id", "title", "description", "homepage", "version", "created", "keywords", "image"),
    *("licenses", "contributors", "sources"),
)
"""The top-level keys that any Data Package may have, whether or not sfumato writes them."""


def load_json(folder: Path) -> Json:
    """Reads datapackage.json as JSON. Refuses files that are not releases, too new, or edited."""
    path = folder / MANIFEST
    try:
        if path.stat().st_size > LARGEST_MANIFEST:
            raise ReleaseFormatError(
                f"{MANIFEST} is larger than {LARGEST_MANIFEST >> 20} MiB, which no release needs.",
                code="manifest-too-large",
                fields={"file": MANIFEST, "limit": LARGEST_MANIFEST},
            )
        package = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_refuse_repeated_keys)
        json.dumps(package, ensure_ascii=False).encode()  # fails at half a surrogate pair, which an escape may contain
        section = package["sfumato"]
        format_number, digest = int(section["format"]), str(section["digest"])
    except ReleaseFormatError:
        raise
    except OSError as error:
        raise ReleaseFormatError(
            f"{str(folder)!r} is not a readable release: it has no readable {MANIFEST}.",
            code="no-manifest",
            fields={"release": str(folder)},
        ) from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ReleaseFormatError(
            f"{MANIFEST} does not belong to a release; get the release again from its publisher.",
            code="not-a-release",
            fields={"file": MANIFEST},
        ) from error
    if format_number > FORMAT:
        raise ReleaseFormatError(
            f"the release has format {format_number}, but this version reads formats up to {FORMAT}; update sfumato "
            "(pip install --upgrade sfumato).",
            code="newer-format",
            fields={"format": format_number, "limit": FORMAT},
        )
    if digest != compute_manifest_digest(package):
        raise ReleaseFormatError(
            f"{MANIFEST} was changed after publishing; get the release again from its publisher.",
            code="changed-file",
            fields={"file": MANIFEST},
        )
    _check_paths(package)
    return dict(package)


def read_digest(folder: Path) -> str:
    """The digest of a release's description, which contains the digests of all its files."""
    return str(load_json(folder)["sfumato"]["digest"])


def _refuse_repeated_keys(pairs: list[tuple[str, object]]) -> Json:
    """Refuses an object with a repeated key. Readers differ in which of the two values they use."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated_key = next(key for number, key in enumerate(keys) if key in keys[:number])
        raise ReleaseFormatError(
            f"{MANIFEST} has the key {_format_key(repeated_key)} twice in one place; {GET_AGAIN}.",
            code="repeated-key",
            fields={"key": str(repeated_key)[:MAX_SHOWN_LETTERS], "file": MANIFEST},
        )
    return entries


def _format_key(key: str) -> str:
    return repr(key[:MAX_SHOWN_LETTERS])


def _check_paths(package: JsonView) -> None:
    """Refuses paths that are not names of release files. Other readers of Data Packages would follow such paths."""
    resources = package.get("resources")
    for resource in resources if isinstance(resources, list) else ():
        path = resource.get("path") if isinstance(resource, dict) else None
        if path not in KNOWN_FILES and not (isinstance(path, str) and PART_NAME.fullmatch(path)):
            raise ReleaseFormatError(
                f"{MANIFEST} names {str(path)[:MAX_SHOWN_LETTERS]!r}, which is not a file of a release; get the "
                "release again from its publisher.",
                code="foreign-file",
                fields={"file": str(path)[:MAX_SHOWN_LETTERS]},
            )


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a release directory."""
    return parse_manifest(load_json(folder))


def parse_manifest(package: JsonView) -> Manifest:
    """Reads the JSON of a manifest. Refuses invalid descriptions and additional content."""
    try:
        manifest = _parse(package)
        _check_keys(package, manifest)
        return manifest
    except (LookupError, TypeError, ValueError, StopIteration, AttributeError, ArithmeticError, SfumatoError) as error:
        if isinstance(error, ReleaseFormatError):
            raise
        raise ReleaseFormatError(
            f"{MANIFEST} is not a valid description of a release ({type(error).__name__}).",
            code="invalid-manifest",
            fields={"file": MANIFEST},
        ) from error


def _parse(package: JsonView) -> Manifest:
    section = package["sfumato"]
    mechanism = REGISTRY.get(str(section["mechanism"]))
    if mechanism is None:
        name = str(section["mechanism"])
        raise ReleaseFormatError(
            REGISTRY.find_reason(name)
            or f"the release was made by the mechanism {name!r}, which this version does not know; install its "
            "plug-in, or a newer version.",
            code="unknown-mechanism",
            fields={"mechanism": name},
        )
    records = list_record_resources(package)
    fields = _read_fields(records)
    sensitive, types = _read_sensitive_columns(section, fields)
    design = mechanism.read_design(section["design"], types)
    manifest = Manifest(
        mechanism_name=mechanism.name,
        sensitive_columns=sensitive,
        sensitive_types=types,
        fields=fields,
        design=design,
        is_declared=bool(section["domain_declared"]),
        ranges={str(name): tuple(map(str, edges)) for name, edges in section["bins"].items()},
        nulls=str(section["nulls"]),
        software=str(section["software"]),
        is_test=not section["fit_to_publish"],
        cell_column=str(section["cell_column"]) if "cell_column" in section else None,
        merged_values=read_merged(section),
        person_check=None if section.get("persons") is None else PersonCheck.from_json(section["persons"]),
        accepted_risks=AcceptedRisks.from_json(section["accepted"]) if "accepted" in section else NO_ACCEPTED_RISKS,
        missing_markers=read_missing(section),
        hierarchies=read_hierarchies(section, types, design.domain),
        published_levels=read_published_levels(section),
        file_rows=tuple(_read_file_rows(resource) for resource in records),
        description=Description.from_json(package),
        readme_template=_read_template_number(section),
        has_copies=any(resource["path"] in COPY_NAMES for resource in package["resources"]),
    )
    _check_together(manifest, package)
    return manifest


def _read_template_number(section: JsonView) -> int:
    """The template of the README. Formats before 4 do not name the template."""
    if int(section["format"]) < NUMBERED_FORMAT:
        if TEMPLATE_KEY in section:
            raise _make_unknown_key_error(TEMPLATE_KEY, "sfumato")
        return 1
    number = section[TEMPLATE_KEY]
    if type(number) is not int or number < FIRST_TEMPLATE:
        raise ReleaseFormatError(
            f"{MANIFEST} does not name the template of {README}; {GET_AGAIN}.",
            code="missing-readme-template",
            fields={"file": MANIFEST},
        )
    if number > README_TEMPLATE:
        raise ReleaseFormatError(
            f"{README} was written by template {number}, but this version knows templates up to {README_TEMPLATE}. "
            "Update "
            "sfumato (pip install --upgrade sfumato).",
            code="newer-readme-template",
            fields={"template": number, "limit": README_TEMPLATE},
        )
    return number


def _check_keys(package: JsonView, manifest: Manifest) -> None:
    """Refuses unknown keys.

    To find unknown keys, the parsed manifest is written again. The result contains every known key.
    """
    expected = manifest.to_json(Path(), known_digests=dict.fromkeys(manifest.files, ""))
    if int(package["sfumato"]["format"]) < REASONS_FORMAT:
        expected["sfumato"]["accepted"] = dict.fromkeys(OLD_KEYS)
    for key in package.keys() - expected.keys() - set(PACKAGE_KEYS):
        raise _make_unknown_key_error(key, "")
    _compare_keys(package["sfumato"], expected["sfumato"], "sfumato")
    by_path = {resource["path"]: resource for resource in expected["resources"]}
    for resource in package["resources"]:
        # `verify` reports an unexpected file. Its keys are those of any table.
        _compare_keys(resource, by_path.get(resource["path"], expected["resources"][0]), "resources")


def _compare_keys(entry: object, expected: object, location: str) -> None:
    """Refuses keys that are not in `expected`.

    If a list has more items than expected, the additional items are compared with the last expected item.
    """
    if isinstance(entry, Mapping) and isinstance(expected, Mapping):
        for key, value in entry.items():
            if key not in expected:
                raise _make_unknown_key_error(key, location)
            _compare_keys(value, expected[key], location)
    elif isinstance(entry, list) and isinstance(expected, list) and expected:
        for number, value in enumerate(entry):
            _compare_keys(value, expected[number if number < len(expected) else 0], location)


def _make_unknown_key_error(key: str, location: str) -> ReleaseFormatError:
    place = f" under {location!r}" if location else ""
    return ReleaseFormatError(
        f"{MANIFEST} has the unknown key {_format_key(key)}{place}; {GET_AGAIN}.",
        code="unknown-key",
        fields={"key": str(key)[:MAX_SHOWN_LETTERS], "file": MANIFEST},
    )


def _read_fields(records: Sequence[JsonView]) -> tuple[Field, ...]:
    """The columns common to all record files."""
    if any(resource["schema"] != records[0]["schema"] for resource in records):
        raise ReleaseFormatError("the files of the records do not have the same columns.", code="other-columns")
    fields = tuple(
        Field(str(field["name"]), str(field["type"]), not field["constraints"]["required"])
        for field in records[0]["schema"]["fields"]
    )
    if len({field.name.lower() for field in fields}) != len(fields):
        raise ReleaseFormatError("two columns of the release have the same name.", code="repeated-column")
    return fields


def _read_sensitive_columns(section: JsonView, fields: Sequence[Field]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The sensitive columns and their types. Format 1 had one sensitive column, with the type of its field."""
    names = section["sensitive"]
    sensitive = (names,) if isinstance(names, str) else tuple(map(str, names))
    by_name = {field.name: field.type for field in fields}
    types = tuple(map(str, section["types"])) if "types" in section else (by_name[sensitive[0]],)
    if not sensitive or len(types) != len(sensitive) or len({name.lower() for name in sensitive}) != len(sensitive):
        raise ReleaseFormatError(
            "the sensitive columns of the release and their types do not match.", code="invalid-sensitive-columns"
        )
    return sensitive, types


def _check_together(manifest: Manifest, package: JsonView) -> None:
    """Refuse inconsistent columns, levels, files and designs."""
    names = {field.name for field in manifest.fields}
    if not {name.lower() for name in names}.isdisjoint(level.lower() for level in manifest.levels):
        raise ReleaseFormatError(
            "a column of the release has the name of a level of its hierarchy.", code="column-named-as-level"
        )
    tables = {str(resource["path"]).partition("/")[0].removesuffix(".parquet") for resource in package["resources"]}
    if any((Path(name).stem in tables) != (name in manifest.encoding.files) for name in TABLES):
        raise ReleaseFormatError(
            "the release does not have the files that its design requires.", code="inconsistent-files"
        )
    if manifest.encoding.has_cells != (manifest.cell_column is not None) or not set(manifest.protected_columns) <= set(
        names
    ):
        raise ReleaseFormatError("the release lacks a column that its design requires.", code="missing-column")


def list_record_resources(package: JsonView) -> list[JsonView]:
    """The manifest entries of the record files, in order. A single file has one entry, and each part has its own."""
    resources = [resource for resource in package["resources"] if isinstance(resource["path"], str)]
    records = [
        resource for resource in resources if resource["path"] in RECORD_FILES or PART_NAME.fullmatch(resource["path"])
    ]
    paths = [resource["path"] for resource in records]
    if paths not in [list(list_record_files(data, max(len(paths), 1))) for data in RECORD_FILES]:
        raise ReleaseFormatError(
            f"{MANIFEST} does not list every file of the records once and in order; get the release again from its "
            "publisher.",
            code="unlisted-files",
            fields={"file": MANIFEST},
        )
    return records


def _read_file_rows(resource: JsonView) -> int:
    """The number of records of one of several files. For a single file, the metadata of the file has this number."""
    rows = resource["rows"] if PART_NAME.fullmatch(resource["path"]) else 0
    if type(rows) is not int or rows < 0:
        raise ReleaseFormatError(
            f"{MANIFEST} does not say how many records {resource['path']} has.",
            code="missing-row-count",
            fields={"file": str(resource["path"])},
        )
    return rows
