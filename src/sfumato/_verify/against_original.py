"""Checks a release against its original table, privately for the data steward."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.cell_values import find_field_type, simplify_type
from sfumato._core.json_types import JsonView
from sfumato._engines.local_engine import LocalEngine
from sfumato._planning.plan_file import PlanFile
from sfumato._profile.batch_preparation import Preparation
from sfumato._profile.declared_domains import list_groups, make_typed_domain
from sfumato._profile.persons import PersonGrouping
from sfumato._query.release import Release
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._readers.sources import Source
from sfumato._records.column_codes import decode_dictionary
from sfumato._release.manifest_entries import read_merged, read_missing, read_published_levels
from sfumato._release.manifest_reader import load_json
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.person_rows import PersonBasis, PersonCheck
from sfumato._request.range_edges import Ranges
from sfumato._request.schema import NullPolicy, Role, Schema
from sfumato._verify.check_results import Check, Verification
from sfumato._verify.crowd_tables import CROWDS, leave_out_crowds, list_count_tables
from sfumato._verify.distributions import read_reference
from sfumato._verify.distributions.reference_distribution import ReferenceDistribution
from sfumato._verify.file_checks import PERSONS, verify_folder
from sfumato._verify.manifest_view import ManifestView
from sfumato._verify.original_counts import Connection
from sfumato._verify.row_order import check_order
from sfumato.errors import ReleaseFormatError, SfumatoError, SpecError

MEMORY_LIMIT = "512MB"
BATCH_ROWS = 1 << 17
BASIS_FORMAT = 5
"""The first format of a release that records whether the person column has a different value in every row."""


def verify(
    release: str | Path,
    original: AnyTable = None,
    *,
    read: ReadOptions = DEFAULT_READ_OPTIONS,
    plan_file: str | Path | None = None,
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
) -> Verification:
    """Checks a release. With the original table, also checks the public columns and the exact posterior of every value.

    `read` gives the options for reading the table. Its markers of missing values come from the release. If rows of
    persons were left out, the plan file identifies the published rows. If groups were published instead of values, the
    hierarchy gives the group of each value. A plan file or a hierarchy of another release is refused.
    """
    if plan_file is not None and original is None:
        raise SpecError(
            "a plan file is useful only together with the table; name the table too (`original=`).",
            code="missing-original",
            fields={"argument": "plan_file"},
        )
    if hierarchies and original is None:
        raise SpecError(
            "a hierarchy is useful only together with the table; name the table too (`original=`).",
            code="missing-original",
            fields={"argument": "hierarchies"},
        )
    opened = Release.open(release)  # an unpacked .zip exists as long as this object
    folder = opened.folder
    file_verification = verify_folder(folder)
    is_intact = file_verification.checks[0].has_passed  # damaged files cannot be compared
    if original is None or not is_intact:
        return file_verification
    with open_original(folder, original, plan_file, read=read) as rows:
        groups = match_hierarchy_groups(rows.view, hierarchies or {})
        original_verification = verify_original(folder, rows, groups)
        return Verification((*file_verification.checks, *rows.checks, *original_verification.checks))


@dataclass(frozen=True)
class OriginalRows:
    """The published rows of a table, with their original values."""

    reference: ReferenceDistribution
    view: ManifestView
    """The content of the manifest."""
    source: Source
    checks: tuple[Check, ...]
    """The checks of persons, if the plan file allows them."""
    table_rows: int | None
    """The number of rows of the table, if it is known without reading the table."""
    private_folder: Path
    """A folder for data that does not fit into memory."""


@contextmanager
def open_original(
    folder: Path, original: AnyTable, plan_file: str | Path | None, *, read: ReadOptions = DEFAULT_READ_OPTIONS
) -> Iterator[OriginalRows]:
    """Opens the original table of a release for the duration of a check."""
    reference, view = read_reference(load_json(folder))
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        private_folder = Path(name)
        text, missing = (*read.text, *list_text_columns(view)), read_missing(view.sfumato_json)
        table = open_source(original, private_folder / "spool", read=replace(read, text=text, missing=missing))
        source, checks = _select_published_rows(view, table, private_folder, plan_file)
        yield OriginalRows(reference, view, source, tuple(checks), table.rows, private_folder)


def _select_published_rows(
    view: ManifestView, source: Source, private_folder: Path, plan_file: str | Path | None
) -> tuple[Source, list[Check]]:
    """The published rows of the original, with a check of the persons if the plan file allows one."""
    persons, plan = view.persons, None if plan_file is None else PlanFile.read(Path(plan_file))
    if plan is not None and plan.fingerprint != source.compute_fingerprint():
        raise ReleaseFormatError(
            "the plan file belongs to another table, or the table has changed since. Name the table that was "
            "published, and its plan file.",
            code="plan-file-of-another-table",
        )
    if persons is None or persons.basis is PersonBasis.STATED:
        return source, []
    if plan is None and not persons.is_selective:
        return source, []  # the person column is not published; it was checked when the release was made
    if plan is None:
        raise SpecError(
            "the key of the release decided which rows of each person were published. Give the plan file "
            "(`plan_file=`), so that the same rows are compared.",
            code="missing-plan-file",
        )
    if plan.person_settings is None:
        return source, [
            Check(
                PERSONS,
                False,
                "the plan file has no person column, but the release states a number of rows for each person.",
            )
        ]
    column, rows = plan.person_settings
    selection = PersonGrouping(LocalEngine(), source, column, private_folder).select_rows(rows, plan.table_draws)
    left_out = selection.dropped_rows
    # Releases of older formats do not say whether the column numbers the rows.
    basis = selection.basis if int(view.sfumato_json["format"]) >= BASIS_FORMAT else persons.basis
    is_same = PersonCheck.of(rows, left_out, view.public_names, basis) == persons
    sentence = f"in the original, the rows of each {column!r} were counted again: {left_out:,} rows are not published"
    verdict = (
        "as the release says."
        if is_same
        else "but the release has another number. Check that the plan file belongs to this release."
    )
    return selection.source, [Check(PERSONS, is_same, f"{sentence}, {verdict}")]


Groups = Mapping[str, tuple[pa.Array, pa.Array]]
"""The values of the original and their groups, for a column that was published at a level."""


def match_hierarchy_groups(view: ManifestView, hierarchies: Mapping[str, Hierarchy | Path]) -> Groups:
    """The group of each original value, from hierarchies that match the release. Their lines may have any order.

    If the release publishes values instead of groups, hierarchies are compared but have no effect.
    """
    levels, published = read_published_levels(view.sfumato_json), view.sfumato_json.get("hierarchies", {})
    if missing_column := next((name for name in levels if name not in hierarchies), None):
        raise SpecError(
            f"the release has groups instead of the values of {missing_column!r}. Give the hierarchy with the group "
            f"of each value (`hierarchies={{{missing_column!r}: Path('FILE')}}`).",
            code="no-hierarchy",
            fields={"column": missing_column},
        )
    groups_by_column = {}
    for name, hierarchy_source in hierarchies.items():
        if name not in levels and name not in published:
            raise SpecError(
                f"the release has no hierarchy of {name!r}; leave `hierarchies={{{name!r}: Path('FILE')}}` out.",
                code="unknown-hierarchy",
                fields={"column": name},
            )
        hierarchy = (
            hierarchy_source if isinstance(hierarchy_source, Hierarchy) else Hierarchy.read(hierarchy_source)
        ).canonical_hierarchy
        domain = make_typed_domain(
            name, hierarchy.domain, is_text=name not in levels and view.naming.types == ("string",)
        )
        number = hierarchy.find_level(levels[name]) if name in levels else 0
        typed_hierarchy = hierarchy.replace_values([*domain.to_pylist(), None][: len(hierarchy.paths)])
        if set(typed_hierarchy.list_groups(number)) - {None} != set(view.domain) - {None}:
            group_label = f"groups at the level {levels[name]!r}" if name in levels else f"values of {name!r}"
            raise SpecError(
                f"the hierarchy and the release have different {group_label}; give the hierarchy of the release.",
                code="other-hierarchy",
            )
        above = typed_hierarchy.start_at(number)
        if _parse_hierarchy(None if above is None else above.to_json()) != _parse_hierarchy(published.get(name)):
            raise SpecError(
                f"the hierarchy and the release have different levels or groups of {name!r}; give the hierarchy of "
                "the release.",
                code="other-hierarchy",
                fields={"column": name},
            )
        if name in levels:
            groups_by_column[name] = (domain, list_groups(hierarchy, levels[name]))
    return groups_by_column


def _parse_hierarchy(hierarchy: JsonView | None) -> tuple[list[str], set[tuple[object, ...]]]:
    """The levels of a hierarchy in JSON, and the groups of each value. Both are empty for None."""
    return ([], set()) if hierarchy is None else (hierarchy["levels"], set(map(tuple, hierarchy["paths"])))


def verify_original(folder: Path, rows: OriginalRows, groups: Groups) -> Verification:
    """Checks a release against its original table, with a private folder for data that does not fit into memory."""
    reference, view = rows.reference, rows.view
    try:
        with duckdb.connect(
            config={"memory_limit": MEMORY_LIMIT, "temp_directory": str(rows.private_folder)}
        ) as connection:
            _load_tables(connection, folder, view, rows.source, groups)
            public_check = _check_public(connection, view)
            with leave_out_crowds(connection, view):
                order_check = check_order(connection, folder, view)
            checks = (
                public_check,
                order_check,
                reference.check_draws(connection, view),
                reference.check_posteriors(connection, view),
            )
    except (KeyError, TypeError, ValueError, duckdb.Error) as error:
        if isinstance(error, SfumatoError):
            raise
        raise ReleaseFormatError(
            "the release cannot be compared with this table, because their columns do not match.",
            code="columns-do-not-match",
        ) from error
    return Verification(checks)


def make_original_schema(view: ManifestView, columns: Sequence[str]) -> Schema:
    """The schema with which the original was published, as far as the manifest records it."""
    sfumato_json, sensitive = view.sfumato_json, view.sensitive_names
    published = [*view.public_names, *sensitive]
    if missing_columns := sorted(set(published) - set(columns)):
        raise ReleaseFormatError(
            f"the table is not the original of this release, because it has no column {missing_columns[0]!r}.",
            code="not-the-original",
            fields={"column": missing_columns[0]},
        )
    roles = {name: Role.DROPPED for name in columns if name not in published}
    roles |= dict.fromkeys(sensitive, Role.SENSITIVE)
    bins = {name: Ranges(tuple(edges)) for name, edges in sfumato_json["bins"].items()}
    compound = sensitive if len(sensitive) > 1 and "domains" not in sfumato_json["design"] else ()
    nulls = NullPolicy(sfumato_json["nulls"])
    return Schema(roles, ranges=bins, nulls=nulls, compound=compound, merged_values=read_merged(sfumato_json))


def list_text_columns(view: ManifestView) -> list[str]:
    """The columns of a CSV original to read as strings.

    Sensitive columns are included, because the domain gives their type.
    """
    texts = [name for name, kind in view.column_types.items() if kind == "string"]
    return [name for name in (*texts, *view.sensitive_names) if name not in view.sfumato_json["bins"]]


def find_released_types(folder: Path, view: ManifestView, source: pa.Schema) -> dict[str, pa.Array]:
    """The types of the sensitive columns in the release, and of public columns whose type differs."""
    column_types = {}
    for number, name in enumerate(view.sensitive_names):
        if name not in view.sfumato_json["bins"]:
            column_types[name] = view.naming.make_part_domain(number).drop_null().unique()
    published = pq.read_schema(folder / view.record_files[0])
    for name in view.public_names:
        kind = simplify_type(published.field(name).type)
        if name not in view.sfumato_json["bins"] and find_field_type(kind) != find_field_type(source.field(name).type):
            column_types[name] = pa.array([], type=kind)
    return {name: domain for name, domain in column_types.items() if not pa.types.is_null(domain.type)}


def prepare_rows(
    folder: Path, view: ManifestView, source: Source, groups: Groups
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The rows of the original in the form of the release, but with the true sensitive values (types and batches)."""
    schema = make_original_schema(view, source.schema.names)
    names = (*view.public_names, *view.sensitive_names)
    domains = {
        **find_released_types(folder, view, source.schema),
        **{name: group_pair[0] for name, group_pair in groups.items()},
    }
    preparation = Preparation(schema, names, domains, {name: group_pair[1] for name, group_pair in groups.items()})
    prepared = preparation.derive_types(source.schema)
    types = pa.schema([prepared.field(name) for name in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in source.read_batches(names, BATCH_ROWS):
            columns = [decode_dictionary(column) for column in preparation(batch).columns]
            yield pa.RecordBatch.from_arrays(columns, schema=types)

    return types, batches()


def _load_tables(connection: Connection, folder: Path, written: ManifestView, source: Source, groups: Groups) -> None:
    """Loads the prepared original into DuckDB, which uses the disk if it is large."""
    connection.register("stream", pa.RecordBatchReader.from_batches(*prepare_rows(folder, written, source, groups)))
    connection.execute("CREATE TEMP TABLE original AS SELECT * FROM stream")
    beside = () if list_count_tables(written) else written.encoding.FILES[1:]
    for view_name, files in zip(("release", "beside"), (written.record_files, beside), strict=True):
        if files:
            connection.read_parquet([str(folder / file) for file in files]).create_view(view_name)
    for table in list_count_tables(written):
        table.register(connection, written, folder)


def _check_public(connection: Connection, view: ManifestView) -> Check:
    """Checks that the release has as many people with each combination of public columns as the original."""
    columns = "".join(f"{name} AS c{number}, " for number, name in enumerate(view.quoted_public_names))
    published = f"SELECT {columns}COUNT(*) AS people FROM release GROUP BY ALL"
    if list_count_tables(view):
        published += f" UNION ALL SELECT * EXCLUDE (crowd) FROM {CROWDS}"
    original = f"SELECT {columns}COUNT(*) FROM original GROUP BY ALL"
    sql = (
        "SELECT (SELECT COUNT(*) FROM original), (SELECT COALESCE(SUM(people), 0)::BIGINT FROM published), "
        f"(SELECT COUNT(*) FROM ({original} EXCEPT SELECT * FROM published))"
    )
    ((rows, published_rows, differing),) = connection.execute(f"WITH published AS ({published}) {sql}").fetchall()
    if rows != published_rows or differing:
        return Check("public columns", False, "the public columns of the release differ from those of the original.")
    return Check("public columns", True, f"the public columns of all {rows:,} records match the original.")
