"""Publishing: two passes over a table, one release, whole or not at all."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.apply.domains import with_merged
from sfumato.apply.engine import Engine
from sfumato.apply.local import LocalEngine, no_work, open_parquet
from sfumato.apply.notices import frequent_notice
from sfumato.apply.rewrite import Rewrite
from sfumato.apply.source import Source, open_source
from sfumato.apply.survey import Survey, survey
from sfumato.audit.exposure import BREACH_LIMIT, Exposure, check_exposure, exposures
from sfumato.audit.files import FIT, verify_folder
from sfumato.audit.proof import check_cells, check_parts
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
from sfumato.estimate.release import Release
from sfumato.mechanisms import REGISTRY
from sfumato.plan.choose import AUTO, NO_OPTIONS, choose
from sfumato.plan.plan_file import PlanFile, Remembered, claimed, usual_guarantee
from sfumato.plan.predict import Chosen
from sfumato.release.manifest import MANIFEST, README, VALUE_WEIGHTS, WEIGHTS, Manifest
from sfumato.release.readme import release_readme
from sfumato.release.staging import check_plan_file, check_target, is_at, move_into_place, remove_stale, workshop
from sfumato.release.store import pack
from sfumato.request.digest import json_digest
from sfumato.request.flags import options_json
from sfumato.request.guarantee import Guarantee
from sfumato.request.histogram import margins
from sfumato.request.notice import CODES, Notice, NoticeWarning, check_codes, check_notices
from sfumato.request.schema import Merged, Schema
from sfumato.request.spec import PrivacySpec
from sfumato.request.values import Value, display, field_type, parts, to_json
from sfumato.shown.columns import Field, Sensitive


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
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value, in every column."""
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
        if self.schema.is_independent and not self.spec.TAKES_COLUMNS:
            raise SchemaError(
                f"name exactly one sensitive column; {len(self.schema.together)} were named. To protect several as "
                "one, make them a compound (--compound a,b); to protect each for itself, ask for decoys (--group-size)."
            )
        self.schema.check_missing(self.missing)
        if not 0 <= self.breach_limit <= 1:
            raise SpecError(f"the breach limit is {self.breach_limit}, and must be a share between 0 and 1.")

    @property
    def family(self) -> list[str]:
        """The mechanisms that may be taken: the named one, or all that meet the request."""
        if self.mechanism != AUTO:
            return [self.mechanism] if self.mechanism in REGISTRY else []
        return [name for name, each in REGISTRY.items() if isinstance(self.spec, each.asked)]

    def remembered(self) -> Remembered:
        """What a plan file remembers of the request: enough to tell whether another one is the same."""
        schema = {
            "roles": {name: role.value for name, role in sorted(self.schema.roles.items())},
            "domains": {name: [to_json(value) for value in values] for name, values in self.schema.domains.items()},
            "bins": {name: list(bins.edges) for name, bins in self.schema.bins.items()},
            "nulls": self.schema.nulls.value,
            "text": sorted(self.text),
            "encoding": self.encoding,
            **({"missing": sorted(self.missing)} if self.missing else {}),
            **({"compound": list(self.schema.compound)} if self.schema.compound else {}),
        }
        return Remembered(
            {
                "mechanism": self.mechanism,
                "guarantee": None if self.guarantee == usual_guarantee(self.mechanism) else self.guarantee,
                **self.spec.to_json(),
                "schema": json_digest(schema),
            },
            {
                name: options_json(self.options.get(name) or each.options())
                for name, each in REGISTRY.items()
                if name in self.options or name in self.family
            },
        )


@dataclass(frozen=True)
class Publication:
    """A release that was written, and what its holder should know. Notices and exposures are private."""

    release: Release
    notices: tuple[Notice, ...]
    exposures: tuple[Exposure, ...] = ()


@dataclass(frozen=True)
class Outlook:
    """What would be published, and what the holder should know before: secret."""

    chosen: Chosen
    exposures: tuple[Exposure, ...]
    notices: tuple[Notice, ...]


def open_table(request: Request, folder: Path) -> Source:
    """Open the table of a request; a stream that can be read only once is spooled into the folder."""
    text = (*request.text, *request.schema.domains)  # whose types are not for the values of a CSV file to tell
    return open_source(request.table, folder / "spool", text=text, encoding=request.encoding, missing=request.missing)


def surveyed(request: Request, source: Source, engine: Engine, folder: Path) -> tuple[Request, Survey]:
    """Read the table once; and once more with rare values merged, if a mechanism was asked to and there are any."""
    most = max((REGISTRY[name].most_combinations for name in request.family), default=0)
    read = partial(survey, source=source, engine=engine, folder=folder, text=request.text, most_combinations=most)
    found = read(request.schema, request.spec)
    histogram, sensitive = found.histogram, found.sensitive
    columns: dict[str, tuple[tuple[Value, ...], tuple[int, ...]]] = {
        sensitive.name: (histogram.values, histogram.counts)
    }
    if sensitive.is_independent:
        pairs = zip(sensitive.parts, margins(histogram.counts, sensitive.sizes), strict=True)
        columns = {part.name: (part.domain, tuple(counts.tolist())) for part, counts in pairs}
    merged: dict[str, Merged] = {}
    for name in request.family:
        mechanism, options = REGISTRY[name], request.options.get(name)
        spec = mechanism.lent(request.spec)
        if options is not None and spec is not None:
            merged |= mechanism.coarsened(columns, spec, options)
    if not merged:
        return request, found
    request = replace(request, schema=with_merged(request.schema, merged, found.columns))
    again = read(request.schema, request.spec)
    said = [
        Notice(
            "rare-values-merged",
            f"{len(each.values)} rare values of {name!r} are published as {display(each.label)!r}.",
            name,
            {"values": len(each.values)},
        )
        for name, each in merged.items()
    ]
    return request, replace(again, notices=(*again.notices, *said))


def plan_table(request: Request, engine: Engine | None = None) -> Outlook:
    """What would be published, and what the holder should know; nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder = Path(name)
        request, found = surveyed(request, open_table(request, folder), engine or LocalEngine(), folder)
        seen = outlook(request, found, Draws.secret(), rivals=True)
    try:
        _check_publishable(request, found, seen)
    except InfeasibleError as error:
        return replace(seen, notices=(*seen.notices, Notice("would-be-refused", f"publishing would stop: {error}")))
    return seen


def outlook(
    request: Request, found: Survey, draws: Draws, mechanism: str | None = None, *, rivals: bool = False
) -> Outlook:
    """Choose a plan, and look at what it leaves open; with a mechanism that was chosen before, if that is repeated."""
    options = request.options
    if mechanism is not None:  # options that were given for other mechanisms have had no effect
        options = {name: each for name, each in options.items() if name == mechanism}
    chosen = choose(
        found.histogram,
        request.spec,
        draws,
        mechanism or request.mechanism,
        guarantee=request.guarantee,
        options=options,
        rivals=rivals,
    )
    said = plan_notices(chosen, request.spec, request.schema.sensitive)
    return Outlook(chosen, exposures(chosen, found.groups), (*found.notices, *said))


def plan_notices(chosen: Chosen, spec: PrivacySpec, column: str) -> list[Notice]:
    """What the holder should know of the chosen plan; a mechanism does not know the name of the column."""
    said = [Notice("mechanism-chosen", chosen.reason)] if chosen.reason and chosen.others else []
    if spec.bound is not None and chosen.mechanism.guarantee is Guarantee.ANY_PRIOR:
        said += frequent_notice(chosen.histogram, spec.bound, column)
    return [*said, *(replace(remark, column=column) for remark in chosen.mechanism.remarks(chosen.plan))]


def notice_codes() -> tuple[str, ...]:
    """The code of every notice that there can be, those of the mechanisms' remarks after the others."""
    return tuple(dict.fromkeys((*CODES, *(code for each in REGISTRY.values() for code in each.remark_codes))))


def _warn(notice: Notice) -> None:
    warnings.warn(NoticeWarning(notice), stacklevel=3)  # said of the line that publishes


def publish(  # noqa: PLR0913 - one argument for each thing a holder may decide
    request: Request,
    out: str | Path,
    *,
    force: bool = False,
    plan_file: str | Path | None = None,
    unsafe_test_key: str | None = None,
    engine: Engine | None = None,
    on_notice: Callable[[Notice], None] = _warn,
    fail_on: Collection[str] = (),
) -> Publication:
    """Publish a table: the release appears at `out` whole, or nothing does.

    Notices are handed to `on_notice` as soon as the table has been read once, before anything of it is published; they
    are warnings if nobody takes them. One whose code is in `fail_on` stops everything.
    """
    check_codes(fail_on, notice_codes())
    target, engine = Path(out), engine or LocalEngine()
    remove_stale(target.parent)  # first, because an old release may come back by it
    check_target(target, force=force)
    kept = Path(plan_file) if plan_file is not None else None
    check_plan_file(kept, target)
    try:
        with claimed(kept) as claim, workshop(target) as folder:
            source = open_table(request, folder)
            fingerprint, repeated = source.fingerprint(), claim.repeated
            if repeated is not None:
                repeated.check(fingerprint, request.remembered())
            draws = _draws(repeated, unsafe_test_key)
            asked = request  # as it was made, before rare values were merged
            request, found = surveyed(request, source, engine, folder)
            seen = outlook(request, found, draws, repeated.mechanism if repeated else None)
            chosen = seen.chosen
            if repeated is not None:
                repeated.check_plan(chosen.digest)
            for notice in seen.notices:
                on_notice(notice)
            check_notices(seen.notices, fail_on)
            _check_publishable(request, found, seen)
            rewrite = Rewrite(
                found.columns, found.sensitive, chosen.mechanism, chosen.plan, chosen.histogram.counts, draws
            )
            rewrite.shown.check(found.sensitive)
            built = folder / "release"
            built.mkdir()
            manifest = _manifest(request, found, rewrite)
            contents = chosen.mechanism.contents(chosen.plan)
            side = None if contents is None else rewrite.shown.side(found.sensitive, manifest.naming, contents)
            beside = no_work if side is None else partial(engine.write_side, side, built)
            with _unchanged(source, fingerprint):
                engine.rewrite(source, found.preparation, rewrite, found.histogram.total, built / manifest.data, beside)
            if manifest.domain != found.histogram.values:
                raise InternalError("the design is not the one that was asked for. Please report this.")
            _describe(built, manifest, found)
            ready = built
            if target.suffix == ".zip":
                ready = built.with_suffix(".zip")
                pack(built, ready)
            kept_plan = PlanFile(draws, fingerprint, asked.remembered(), chosen.mechanism.name, chosen.digest)
            claim.write(kept_plan, partial(is_at, target, ready.stat()))
            move_into_place(ready, target, folder, force=force)
    except OSError as error:
        raise TargetError(f"the release cannot be written to {str(target)!r}: {reason(error)}.") from error
    return Publication(Release.open(target), seen.notices, seen.exposures)


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
    if request.schema.compound and not chosen.mechanism.covers_predicates:
        check_parts(chosen, request.spec, request.schema.compound)
    if chosen.mechanism.guarantee is Guarantee.MARGINAL_PRIOR and not request.accept_marginal_prior:
        check_exposure(seen.exposures, request.breach_limit)


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


def _describe(built: Path, manifest: Manifest, found: Survey) -> None:
    """Write everything beside the data, and verify the whole release before anybody sees it."""
    if manifest.weights is not None:
        write_weights(manifest, found.sensitive, built / WEIGHTS)
    (built / README).write_text(release_readme(manifest, found.histogram.total), encoding="utf-8")
    written = json.dumps(manifest.to_json(built), indent=2, ensure_ascii=False, allow_nan=False)
    (built / MANIFEST).write_text(written + "\n", encoding="utf-8")
    for check in verify_folder(built).checks:
        if not check.passed and check.name != FIT:
            raise InternalError(f"the release failed its own check of {check.name}: {check.detail} Please report this.")


def _manifest(request: Request, found: Survey, rewrite: Rewrite) -> Manifest:
    return Manifest(
        mechanism_name=rewrite.mechanism.name,
        sensitive=request.schema.sensitive_columns,
        types=tuple(field_type(part.type) or "" for part in found.sensitive.parts),
        fields=tuple(map(Field.of, rewrite.published)),
        design=rewrite.mechanism.design(rewrite.plan),
        is_declared=request.schema.is_declared,
        bins={name: bins.edges for name, bins in request.schema.bins.items() if name in found.preparation.columns},
        merged=request.schema.merged,
        missing=request.missing,
        nulls=request.schema.nulls.value,
        software=version("sfumato"),
        is_test=rewrite.draws.is_test,
        cell_column=rewrite.cell_name if rewrite.shown.has_cells else None,
    )


def write_weights(manifest: Manifest, sensitive: Sensitive, path: Path) -> None:
    """Write what each record adds to the unbiased count of each value."""
    domain = [parts(value) for value in sensitive.domain]
    values = [
        pa.array([value[number] for value in domain], type=part.type) for number, part in enumerate(sensitive.parts)
    ]
    arrays: list[pa.Array] = []
    for name, column in (manifest.weights or {}).items():
        places = pa.array(column)
        arrays += [each.take(places) for each in values] if name in VALUE_WEIGHTS else [places]
    fields = [
        pa.field(each.name, array.type, nullable=each.has_missing)
        for each, array in zip(manifest.weight_fields, arrays, strict=True)
    ]
    schema = pa.schema(fields)
    with open_parquet(path, schema) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
