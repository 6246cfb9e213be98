"""Publishing: two passes over a table, one release, whole or not at all."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.apply import Preparation, Rewrite
from sfumato.audit.verify import FIT, verify_folder
from sfumato.checks import check_lines, check_rows, check_types, notices, published_columns
from sfumato.columns import CodedColumn, PublishedColumn
from sfumato.csv_source import CsvSource
from sfumato.digest import json_digest
from sfumato.draws import Draws
from sfumato.engines import Engine
from sfumato.engines.local import LocalEngine, open_parquet
from sfumato.errors import InternalError, SchemaError, SfumatoError, SourceError, SpecError, TargetError, reason
from sfumato.histogram import Histogram
from sfumato.manifest import DATA, MANIFEST, README, WEIGHTS, Field, Manifest
from sfumato.plan import AUTO, GUARANTEES, Chosen, choose
from sfumato.plan_file import PlanFile
from sfumato.profile import Profile
from sfumato.readme import release_readme
from sfumato.release import Release, pack
from sfumato.schema import Schema
from sfumato.source import Source, open_source
from sfumato.spec import BreachBound
from sfumato.values import field_type, to_json
from sfumato.workshop import check_plan_file, check_target, move_into_place, workshop


@dataclass(frozen=True)
class Request:
    """What the holder asks for: a table with its roles, a bound, and how to meet it."""

    table: Any
    schema: Schema
    spec: BreachBound
    mechanism: str = AUTO
    guarantee: str = GUARANTEES[0]
    text: tuple[str, ...] = ()
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise SchemaError("say what the columns are for with a Schema, such as Schema.of('diagnosis').")
        if not isinstance(self.spec, BreachBound):
            raise SpecError("say what to protect with a BreachBound, such as BreachBound('1/10', '1/3').")

    def to_json(self) -> dict[str, Any]:
        """What a plan file remembers of the request: enough to tell whether another one is the same."""
        schema = {
            "roles": {name: role.value for name, role in sorted(self.schema.roles.items())},
            "domains": {name: [to_json(value) for value in values] for name, values in self.schema.domains.items()},
            "bins": {name: list(bins.edges) for name, bins in self.schema.bins.items()},
            "nulls": self.schema.nulls.value,
            "text": sorted(self.text),
            "encoding": self.encoding,
        }
        return {
            "mechanism": self.mechanism,
            "guarantee": self.guarantee,
            "prior": str(self.spec.prior),
            "posterior": str(self.spec.posterior),
            "schema": json_digest(schema),
        }


@dataclass(frozen=True)
class Publication:
    """A release that was written, and what its holder should know. The notices are private."""

    release: Release
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Survey:
    """What the first pass found: secret."""

    preparation: Preparation
    columns: tuple[PublishedColumn, ...]
    histogram: Histogram
    notices: tuple[str, ...]


def open_table(request: Request, folder: Path) -> Source:
    """Open the table of a request; a stream that can be read only once is spooled into the folder."""
    return open_source(request.table, folder / "spool", text=request.text, encoding=request.encoding)


def survey(request: Request, source: Source, engine: Engine, folder: Path) -> Survey:
    """Read the table once: check it, and count its sensitive column."""
    schema = request.schema
    schema.check_columns(source.schema.names)
    if unknown := next((name for name in request.text if name not in source.schema.names), None):
        raise SchemaError(f"the table has no column {unknown!r} to read as text.")
    names = schema.published(source.schema.names)
    check_types(source.schema, names)
    if schema.person is not None:
        engine.check_persons(source, schema.person, folder)
    preparation = Preparation(schema, names)
    profile, dropped = engine.profile(source, preparation)
    check_rows(profile)
    if isinstance(source, CsvSource):
        check_lines(profile, schema)
    columns = published_columns(profile, schema)
    histogram = _histogram(profile, next(column for column in columns if column.name == schema.sensitive))
    said = notices(histogram, request.spec, schema, profile.associations, dropped)
    return Survey(preparation, columns, histogram, tuple(said))


def _histogram(profile: Profile, column: PublishedColumn) -> Histogram:
    if not isinstance(column, CodedColumn):
        raise SchemaError(
            f"the sensitive column {column.name!r} has too many values to be protected; group them first."
        )
    counted = profile.columns[column.name]
    places = pc.index_in(column.values, counted.values).to_pylist()
    counts = [0 if place is None else counted.counts[place] for place in places]
    return Histogram.of(column.domain, [*counts, *([counted.missing] if column.has_missing else [])])


def plan_table(request: Request, engine: Engine | None = None) -> tuple[Chosen, tuple[str, ...]]:
    """What would be published, and what the holder should know; nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder = Path(name)
        found = survey(request, open_table(request, folder), engine or LocalEngine(), folder)
        chosen = choose(found.histogram, request.spec, Draws.secret(), request.mechanism, request.guarantee)
    return chosen, found.notices


def publish(  # noqa: PLR0913 - one argument for each thing a holder may decide
    request: Request,
    out: str | Path,
    *,
    force: bool = False,
    plan_file: str | Path | None = None,
    unsafe_test_key: str | None = None,
    engine: Engine | None = None,
    on_notice: Callable[[str], None] = lambda notice: None,
) -> Publication:
    """Publish a table: the release appears at `out` whole, or nothing does.

    Notices are handed to `on_notice` as soon as the table has been read once, before anything of it is published.
    """
    target, engine = Path(out), engine or LocalEngine()
    check_target(target, force=force)
    kept = Path(plan_file) if plan_file is not None else None
    check_plan_file(kept, target)
    try:
        with workshop(target) as folder:
            source = open_table(request, folder)
            fingerprint = source.fingerprint()
            draws = _draws(request, fingerprint, kept, unsafe_test_key)
            found = survey(request, source, engine, folder)
            chosen = choose(found.histogram, request.spec, draws, request.mechanism, request.guarantee)
            for notice in found.notices:
                on_notice(notice)
            rewrite = Rewrite(found.columns, request.schema.sensitive, chosen.mechanism, chosen.plan, draws)
            built = folder / "release"
            built.mkdir()
            with _unchanged(source, fingerprint):
                engine.rewrite(source, found.preparation, rewrite, found.histogram.total, built / DATA)
            manifest = _manifest(request, found, chosen, draws)
            if (manifest.design.bound, manifest.design.domain) != (request.spec, found.histogram.values):
                raise InternalError("the design is not the one that was asked for. Please report this.")
            _describe(built, manifest, found)
            ready = _packed(built) if target.suffix == ".zip" else built
            with _written(kept, PlanFile(draws, fingerprint, request.to_json()), ready):
                move_into_place(ready, target, folder)
    except OSError as error:
        raise TargetError(f"the release cannot be written to {str(target)!r}: {reason(error)}.") from error
    return Publication(Release.open(target), found.notices)


def _draws(request: Request, fingerprint: str, plan_file: Path | None, test_key: str | None) -> Draws:
    """The key of the plan file if there is one, else a test key if one was given, else a fresh secret."""
    given = Draws.unsafe_test_key(test_key) if test_key is not None else None
    if plan_file is None or not plan_file.exists():
        return given or Draws.secret()
    plan = PlanFile.read(plan_file)
    plan.check(fingerprint, request.to_json())
    if given is not None and given != plan.draws:
        raise SpecError("the plan file holds another key than the test key; give one of the two.")
    return plan.draws


@contextmanager
def _unchanged(source: Source, fingerprint: str) -> Iterator[None]:
    """Refuse a table that is another one at the second reading, whatever that broke in between."""
    changed = SourceError("the table changed while it was read; publish it again when nobody writes to it.")
    try:
        yield
    except SfumatoError:
        raise
    except Exception as error:
        if _has_changed(source, fingerprint):
            raise changed from error
        raise
    if _has_changed(source, fingerprint):
        raise changed


def _has_changed(source: Source, fingerprint: str) -> bool:
    try:
        return source.fingerprint() != fingerprint
    except OSError:
        return True  # it is not even there any more


@contextmanager
def _written(path: Path | None, plan: PlanFile, ready: Path) -> Iterator[None]:
    """Write a new plan file before the release appears, so that no release is out whose key is lost.

    It is taken back only if the release is still where it was built.
    """
    if path is None or path.exists():
        yield
        return
    plan.write(path)
    try:
        yield
    except BaseException:
        if ready.exists():
            path.unlink()
        raise


def _describe(built: Path, manifest: Manifest, found: Survey) -> None:
    """Write everything beside the data, and verify the whole release before anybody sees it."""
    write_weights(manifest, found.columns, built / WEIGHTS)
    (built / README).write_text(release_readme(manifest, found.histogram.total), encoding="utf-8")
    written = json.dumps(manifest.to_json(built), indent=2, ensure_ascii=False, allow_nan=False)
    (built / MANIFEST).write_text(written + "\n", encoding="utf-8")
    for check in verify_folder(built).checks:
        if not check.passed and check.name != FIT:
            raise InternalError(f"the release failed its own check of {check.name}: {check.detail} Please report this.")


def _packed(built: Path) -> Path:
    packed = built.with_suffix(".zip")
    pack(built, packed)
    return packed


def _manifest(request: Request, found: Survey, chosen: Chosen, draws: Draws) -> Manifest:
    fields = [Field(column.name, field_type(column.type) or "", column.has_missing) for column in found.columns]
    return Manifest(
        mechanism_name=chosen.mechanism.NAME,
        sensitive=request.schema.sensitive,
        fields=tuple(fields),
        design=chosen.design,
        is_declared=request.schema.is_declared,
        bins={name: bins.edges for name, bins in request.schema.bins.items() if name in found.preparation.columns},
        nulls=request.schema.nulls.value,
        software=version("sfumato"),
        is_test=draws.is_test,
    )


def write_weights(manifest: Manifest, columns: Sequence[PublishedColumn], path: Path) -> None:
    """Write what each record adds to the unbiased count of each value: one row for each value."""
    column = next(column for column in columns if column.name == manifest.sensitive)
    domain = pa.array(manifest.design.domain, type=column.type)
    if_equal, otherwise = manifest.mechanism.weights(manifest.design)
    size = len(domain)
    schema = pa.schema(
        [
            pa.field("cell", pa.int32(), nullable=False),
            pa.field("value", column.type, nullable=column.has_missing),
            pa.field("if_equal", pa.float64(), nullable=False),
            pa.field("otherwise", pa.float64(), nullable=False),
        ]
    )
    arrays = [np.zeros(size, dtype=np.int32), domain, np.full(size, if_equal), np.full(size, otherwise)]
    with open_parquet(path, schema) as writer:
        writer.write_table(pa.Table.from_arrays([pa.array(array) for array in arrays], schema=schema))
