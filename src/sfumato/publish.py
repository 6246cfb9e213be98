"""Publishing: two passes over a table, one release, whole or not at all."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.apply.checks import (
    check_lines,
    check_rows,
    check_types,
    frequent_notice,
    notices,
    sensitive_domain,
    table_columns,
    with_merged,
)
from sfumato.apply.csv import CsvSource
from sfumato.apply.engine import Engine
from sfumato.apply.local import LocalEngine, no_work, open_parquet
from sfumato.apply.profile import Association, Profile
from sfumato.apply.rewrite import Preparation, Rewrite, SideTable
from sfumato.apply.source import Source, open_source
from sfumato.audit.compound import check_parts
from sfumato.audit.exposure import BREACH_LIMIT, Exposure, check_exposure, exposures
from sfumato.audit.planned import check_cells
from sfumato.audit.verify import FIT, verify_folder
from sfumato.draws import Draws
from sfumato.errors import (
    InfeasibleError,
    InternalError,
    SchemaError,
    SfumatoError,
    SourceError,
    SpecError,
    TargetError,
    reason,
)
from sfumato.estimate.release import Release, pack
from sfumato.mechanisms import REGISTRY, buckets, decoys
from sfumato.plan.choose import ANY_PRIOR, AUTO, MARGINAL_PRIOR, NO_OPTIONS, Chosen, choose
from sfumato.plan.plan_file import PlanFile
from sfumato.release.manifest import BUCKETS, MANIFEST, README, VALUE_WEIGHTS, WEIGHTS, Field, Manifest
from sfumato.release.readme import release_readme
from sfumato.release.staging import check_plan_file, check_target, move_into_place, workshop
from sfumato.request.digest import json_digest
from sfumato.request.histogram import Histogram
from sfumato.request.schema import Schema
from sfumato.request.spec import (
    BreachBound,
    BreachBoundPerValue,
    DecoyGroups,
    Diversity,
    LinearCap,
    PrivacySpec,
    ShareCap,
    Tolerance,
)
from sfumato.request.values import Value, display, field_type, parts, to_json
from sfumato.shown.columns import Sensitive, TableColumn
from sfumato.shown.tally import Buckets, Counts, Members, margins


@dataclass(frozen=True)
class Request:
    """What the holder asks for: a table with its roles, a bound, and how to meet it."""

    table: Any
    schema: Schema
    spec: PrivacySpec
    mechanism: str = AUTO
    guarantee: str | None = None
    """`any-prior`, `marginal-prior`, or None: what the named mechanism gives, and any-prior if none is named."""
    text: tuple[str, ...] = ()
    encoding: str = "utf-8"
    options: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    """The options of a mechanism, by its name."""
    breach_limit: Fraction = BREACH_LIMIT
    """The largest share of records that a public column may breach under a marginal prior."""
    accept_marginal_prior: bool = False
    """Go on whatever public columns breach."""

    def __post_init__(self) -> None:
        if not isinstance(self.schema, Schema):
            raise SchemaError("say what the columns are for with a Schema, such as Schema.of('diagnosis').")
        if not isinstance(self.spec, PrivacySpec):
            raise SpecError("say what to protect with a BreachBound, such as BreachBound('1/10', '1/3').")
        if self.schema.is_independent and not isinstance(self.spec, DecoyGroups):
            raise SchemaError(
                f"name exactly one sensitive column; {len(self.schema.together)} were named. To protect several as "
                "one, make them a compound (--compound a,b); to protect each for itself, ask for decoys (--group-size)."
            )
        if not 0 <= self.breach_limit <= 1:
            raise SpecError(f"the breach limit is {self.breach_limit}, and must be a share between 0 and 1.")

    def to_json(self) -> dict[str, Any]:
        """What a plan file remembers of the request: enough to tell whether another one is the same."""
        schema = {
            "roles": {name: role.value for name, role in sorted(self.schema.roles.items())},
            "domains": {name: [to_json(value) for value in values] for name, values in self.schema.domains.items()},
            "bins": {name: list(bins.edges) for name, bins in self.schema.bins.items()},
            "nulls": self.schema.nulls.value,
            "text": sorted(self.text),
            "encoding": self.encoding,
            **({"compound": list(self.schema.compound)} if self.schema.compound else {}),
        }
        return {
            "mechanism": self.mechanism,
            "guarantee": self.guarantee or _given(self.mechanism),
            **_spec_json(self.spec),
            "schema": json_digest(schema),
            **({"options": {name: str(each) for name, each in self.options.items()}} if self.options else {}),
        }


def _given(mechanism: str) -> str:
    """The guarantee of a mechanism; an unknown one is refused when a plan is chosen."""
    return REGISTRY[mechanism].GUARANTEE if mechanism in REGISTRY else ANY_PRIOR


def _spec_json(spec: PrivacySpec) -> dict[str, Any]:
    if isinstance(spec, Tolerance):
        return {"tolerance": str(spec.factor)}
    if isinstance(spec, BreachBoundPerValue):
        return {
            "bounds": {display(value): f"{each.prior} {each.posterior}" for value, each in spec.bounds.items()},
        }
    if isinstance(spec, ShareCap):
        return {"caps": {display(value): str(cap) for value, cap in spec.caps.items()}}
    if isinstance(spec, LinearCap):
        return {"cap_factor": str(spec.factor), "cap_offset": str(spec.offset)}
    if isinstance(spec, Diversity | DecoyGroups):
        return {"diversity": spec.ell} if isinstance(spec, Diversity) else {"group_size": spec.group_size}
    return {"prior": str(spec.prior), "posterior": str(spec.posterior)}


@dataclass(frozen=True)
class Publication:
    """A release that was written, and what its holder should know. Notices and exposures are private."""

    release: Release
    notices: tuple[str, ...]
    exposures: tuple[Exposure, ...] = ()


@dataclass(frozen=True)
class Survey:
    """What the first pass found: secret."""

    preparation: Preparation
    columns: tuple[TableColumn, ...]
    sensitive: Sensitive
    histogram: Histogram
    groups: Mapping[str, Counts | None]
    """For each public column, how often each of its values (a row each) meets each value of the domain."""
    notices: tuple[str, ...]


@dataclass(frozen=True)
class Outlook:
    """What would be published, and what the holder should know before: secret."""

    chosen: Chosen
    exposures: tuple[Exposure, ...]
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
    columns = table_columns(profile, schema)
    sensitive = sensitive_domain(profile, schema, columns)
    places = _places(profile, sensitive)
    histogram = _histogram(profile, sensitive, places)
    groups = {each.column: _grouped(each, places, histogram.domain_size) for each in profile.associations}
    said = notices(request.spec, schema, profile.associations, dropped)
    return Survey(preparation, columns, sensitive, histogram, groups, tuple(said))


def surveyed(request: Request, source: Source, engine: Engine, folder: Path) -> tuple[Request, Survey]:
    """Read the table once; and once more with rare values merged, if that was asked for and there are any."""
    found = survey(request, source, engine, folder)
    options = request.options.get(decoys.NAME)
    if not isinstance(request.spec, DecoyGroups) or options is None or options.rare is decoys.Rare.KEEP:
        return request, found
    merged = decoys.merged_values(_columns_of(found), request.spec.group_size, options)
    if not merged:
        return request, found
    request = replace(request, schema=with_merged(request.schema, merged, found.columns))
    again = survey(request, source, engine, folder)
    said = [
        f"{len(each.values)} rare values of {name!r} are published as {display(each.label)!r}."
        for name, each in merged.items()
    ]
    return request, replace(again, notices=(*again.notices, *said))


def _columns_of(found: Survey) -> dict[str, tuple[tuple[Value, ...], tuple[int, ...]]]:
    """The values of each sensitive column, and how many records hold them."""
    histogram, sensitive = found.histogram, found.sensitive
    if not sensitive.is_independent:
        return {sensitive.name: (histogram.values, histogram.counts)}
    pairs = zip(sensitive.parts, margins(histogram.counts, sensitive.sizes), strict=True)
    return {part.name: (part.domain, tuple(counts.tolist())) for part, counts in pairs}


def _places(profile: Profile, sensitive: Sensitive) -> Counts:
    """The place in the domain of each value that the profile counted, and of the missing value after them."""
    counted = profile.columns[sensitive.name]
    if len(sensitive.parts) > 1:
        return np.append(sensitive.places_of_texts(counted.values.to_pylist()), 0)  # nothing of a compound is missing
    column = sensitive.parts[0]
    places = pc.index_in(counted.values, column.values).to_numpy(zero_copy_only=False)
    return np.append(places.astype(np.int64), len(column.values) if column.has_missing else 0)


def _histogram(profile: Profile, sensitive: Sensitive, places: Counts) -> Histogram:
    counted = profile.columns[sensitive.name]
    counts = np.zeros(len(sensitive.domain), dtype=np.int64)
    np.add.at(counts, places, np.append(counted.counts, counted.missing))
    return Histogram.of(sensitive.domain, counts.tolist())


def _grouped(association: Association, places: Counts, size: int) -> Counts | None:
    if association.pairs is None:
        return None
    grouped = np.zeros((len(association.pairs), size), dtype=np.int64)
    np.add.at(grouped.T, places, association.pairs.T)
    return grouped


def plan_table(request: Request, engine: Engine | None = None) -> Outlook:
    """What would be published, and what the holder should know; nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder = Path(name)
        request, found = surveyed(request, open_table(request, folder), engine or LocalEngine(), folder)
        seen = outlook(request, found, Draws.secret())
    try:
        _check_publishable(request, found, seen)
    except InfeasibleError as error:
        return replace(seen, notices=(*seen.notices, f"publishing would stop: {error}"))
    return seen


def outlook(request: Request, found: Survey, draws: Draws, mechanism: str | None = None) -> Outlook:
    """Choose a plan, and look at what it leaves open."""
    histogram, options = found.histogram, request.options
    if mechanism is not None:  # repeated: options that were given for other mechanisms have had no effect
        options = {name: each for name, each in options.items() if name == mechanism}
    asked, spec = mechanism or request.mechanism, request.spec
    if isinstance(spec, DecoyGroups) and found.sensitive.is_independent:
        spec = replace(spec, sizes=found.sensitive.sizes)
    chosen = choose(histogram, spec, draws, asked, guarantee=request.guarantee, options=options)
    said = plan_notices(chosen, request.spec, request.schema.sensitive)
    return Outlook(chosen, exposures(chosen, found.groups), (*found.notices, *said))


def plan_notices(chosen: Chosen, spec: PrivacySpec, column: str) -> list[str]:
    """What the holder should know of the chosen plan."""
    said = [chosen.reason] if chosen.reason and chosen.others else []
    if isinstance(spec, BreachBound) and chosen.mechanism.GUARANTEE == ANY_PRIOR:
        said += frequent_notice(chosen.histogram, spec, column)
    return [*said, *chosen.mechanism.remarks(chosen.plan)]


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
            repeated = _repeated(request, fingerprint, kept)
            draws = _draws(repeated, unsafe_test_key)
            request, found = surveyed(request, source, engine, folder)
            seen = outlook(request, found, draws, repeated.mechanism if repeated else None)
            chosen = seen.chosen
            for notice in seen.notices:
                on_notice(notice)
            _check_publishable(request, found, seen)
            rewrite = _rewrite(found, chosen, draws)
            built = folder / "release"
            built.mkdir()
            manifest = _manifest(request, found, rewrite)
            beside = _side_work(engine, manifest, found, chosen, built)
            with _unchanged(source, fingerprint):
                engine.rewrite(source, found.preparation, rewrite, found.histogram.total, built / manifest.data, beside)
            if manifest.domain != found.histogram.values:
                raise InternalError("the design is not the one that was asked for. Please report this.")
            _describe(built, manifest, found)
            ready = _packed(built) if target.suffix == ".zip" else built
            with _written(kept, PlanFile(draws, fingerprint, request.to_json(), chosen.mechanism.NAME), ready):
                move_into_place(ready, target, folder)
    except OSError as error:
        raise TargetError(f"the release cannot be written to {str(target)!r}: {reason(error)}.") from error
    return Publication(Release.open(target), seen.notices, seen.exposures)


def _repeated(request: Request, fingerprint: str, plan_file: Path | None) -> PlanFile | None:
    """The plan file if there is one, for this table and this request."""
    if plan_file is None or not plan_file.exists():
        return None
    plan = PlanFile.read(plan_file)
    plan.check(fingerprint, request.to_json())
    return plan


def _draws(repeated: PlanFile | None, test_key: str | None) -> Draws:
    """The key of the plan file if there is one, else a test key if one was given, else a fresh secret."""
    given = Draws.unsafe_test_key(test_key) if test_key is not None else None
    if repeated is None:
        return given or Draws.secret()
    if given is not None and given != repeated.draws:
        raise SpecError("the plan file holds another key than the test key; give one of the two.")
    return repeated.draws


def _check_publishable(request: Request, found: Survey, seen: Outlook) -> None:
    """Refuse what nobody could count in, and what would protect less than it seems to."""
    chosen = seen.chosen
    chosen.mechanism.check_countable(chosen.plan)
    check_cells(chosen, request.spec)
    if request.schema.compound and not chosen.mechanism.COVERS_PREDICATES:
        check_parts(chosen, request.spec, request.schema.compound)
    if chosen.mechanism.GUARANTEE == MARGINAL_PRIOR and not request.accept_marginal_prior:
        check_exposure(seen.exposures, request.breach_limit)


def _rewrite(found: Survey, chosen: Chosen, draws: Draws) -> Rewrite:
    rewrite = Rewrite(found.columns, found.sensitive, chosen.mechanism, chosen.plan, chosen.histogram.counts, draws)
    shown = rewrite.observation
    if isinstance(shown, Members) and shown.as_list and len(found.sensitive.parts) > 1:
        raise SpecError("sets of a compound are written as bits; leave --subset-form list out.")
    return rewrite


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
    if manifest.has_weights:
        write_weights(manifest, found.sensitive, built / WEIGHTS)
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


def _side_work(engine: Engine, manifest: Manifest, found: Survey, chosen: Chosen, built: Path) -> Callable[[], None]:
    """What is to be written beside the records: the table that says what each bucket holds, if there are buckets."""
    if not isinstance(manifest.observation, Buckets):
        return no_work
    rows = partial(buckets.side_rows, chosen.plan)
    side = SideTable(found.sensitive, manifest.cell_column or "", manifest.count_column, rows)
    return partial(engine.write_side, side, chosen.plan.dealing.size, built / BUCKETS)


def _manifest(request: Request, found: Survey, rewrite: Rewrite) -> Manifest:
    published = rewrite.published
    has_cells = any(column.source == rewrite.cell_name for column in published)
    return Manifest(
        mechanism_name=rewrite.mechanism.NAME,
        sensitive=request.schema.sensitive_columns,
        types=tuple(field_type(part.type) or "" for part in found.sensitive.parts),
        fields=tuple(Field.of(column.name, column.written_type, column.has_missing) for column in published),
        design=rewrite.mechanism.design(rewrite.plan),
        is_declared=request.schema.is_declared,
        bins={name: bins.edges for name, bins in request.schema.bins.items() if name in found.preparation.columns},
        merged=request.schema.merged,
        nulls=request.schema.nulls.value,
        software=version("sfumato"),
        is_test=rewrite.draws.is_test,
        cell_column=rewrite.cell_name if has_cells else None,
    )


def write_weights(manifest: Manifest, sensitive: Sensitive, path: Path) -> None:
    """Write what each record adds to the unbiased count of each value."""
    arrays: list[pa.Array] = []
    for name, column in (manifest.mechanism.weights(manifest.design) or {}).items():
        arrays += _values(sensitive, column) if name in VALUE_WEIGHTS else [pa.array(column)]
    fields = [
        pa.field(each.name, array.type, nullable=each.has_missing)
        for each, array in zip(manifest.weight_fields(), arrays, strict=True)
    ]
    schema = pa.schema(fields)
    with open_parquet(path, schema) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _values(sensitive: Sensitive, places: Counts) -> list[pa.Array]:
    """The values at these places of the domain: one column for each part."""
    domain = [parts(value) for value in sensitive.domain]
    return [
        pa.array([value[number] for value in domain], type=part.type).take(pa.array(places))
        for number, part in enumerate(sensitive.parts)
    ]
