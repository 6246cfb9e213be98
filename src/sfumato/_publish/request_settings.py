"""Builds a request from user settings, which are options of a command or lines of a request file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import EnumMeta
from pathlib import Path
from typing import Any

from sfumato._core.column_assignments import split_assignment
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.option_fields import Flag, list_flags
from sfumato._planning.mechanism_choice import AUTO
from sfumato._publish.request import Request
from sfumato._readers.read_options import POINT, UTF_8, ReadOptions
from sfumato._request.accepted_risks import BREACH_LIMIT, UNIQUE_LIMIT
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.domain_files import read_domain
from sfumato._request.person_rows import Surplus
from sfumato._request.range_edges import Ranges
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS, make_requirement
from sfumato._request.schema import NullPolicy, Schema
from sfumato.errors import SchemaError, SpecError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.mechanism import AnyMechanism

RANGES_FORM, DOMAIN_FORM = "`ranges={'COL': [0, 20, 40]}`", "`domains={'COL': Path('FILE')}`"
ACCEPTED_FORM = "`accept_disclosing={'COL': 'REASON'}`"
HIERARCHY_FORM, PUBLISH_AT_FORM = "`hierarchies={'COL': Path('FILE')}`", "`publish_at={'COL': 'LEVEL'}`"
"""The syntax of settings for columns."""

DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("sensitive", "identifier", "person", "domain", "hierarchy", "publish_at", "ranges"), ()),
    **dict.fromkeys(("compound", "public", "drop", "keep", "text", "missing", "accept_disclosing"), ()),
    **dict.fromkeys(("one_row", "guarantee")),
    **dict.fromkeys(("accept_marginal_prior", "accept_exposure", "accept_unique", "accept_uncovered"), ""),
    "each_row_is_a_person": False,
    "records": False,
    "rows_per_person": 1,
    "surplus": Surplus.REFUSE.value,
    "nulls": NullPolicy.VALUE.value,
    "encoding": UTF_8,
    "decimal": POINT,
    "mechanism": AUTO,
    "breach_limit": str(BREACH_LIMIT),
    "unique_limit": str(UNIQUE_LIMIT),
}
"""The default settings. The settings of a bound and of mechanisms have the default None."""


def list_bound_flags() -> list[Flag]:
    """Lists the settings that state a bound."""
    return [flag for kind in REQUIREMENT_KINDS for flag in kind.FLAGS]


def list_mechanism_flags() -> list[tuple[AnyMechanism, str, Flag]]:
    """Lists the settings of each mechanism, with the matching fields of its options."""
    return [(mechanism, name, flag) for mechanism in REGISTRY.values() for name, flag in list_flags(mechanism.options)]


def convert_setting(flag: Flag, value: Any) -> Any:
    """Converts a value from a file to the type of the setting, and refuses values that are not allowed."""
    choices = flag.choices or (tuple(flag.kind) if isinstance(flag.kind, EnumMeta) else ())
    if choices and value not in choices:
        raise SpecError(
            f"{flag.name!r} is {value!r} and must be one of {', '.join(choices)}.",
            code="unknown-choice",
            fields={"argument": flag.name, "given": str(value)},
        )
    if flag.minimum is not None and value < flag.minimum:
        raise SpecError(
            f"{flag.name!r} is {value} and must be at least {flag.minimum}.",
            code="number-too-small",
            fields={"argument": flag.name, "given": value, "smallest": flag.minimum},
        )
    return flag.kind(value) if choices or flag.kind is Path else value


def make_request(table: Any, settings: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Request:
    """Builds the request for a table from settings by name. Missing settings have their defaults.

    Without `options`, the options of mechanisms are taken from the settings.
    """
    flags = (*list_bound_flags(), *(flag for _, _, flag in list_mechanism_flags()))
    settings = {**dict.fromkeys(flag.name for flag in flags), **DEFAULTS, **settings}
    spec = make_requirement(settings)
    return Request(
        table,
        schema=make_schema(settings),
        spec=spec,
        mechanism=settings["mechanism"],
        guarantee=settings["guarantee"],
        records=settings["records"],
        read=make_read_options(settings),
        options=make_options(settings, spec) if options is None else options,
        breach_limit=parse_exact(settings["breach_limit"], "the breach limit"),
        accept_marginal_prior=settings["accept_marginal_prior"],
        accept_disclosing=dict(parse_assignments(settings["accept_disclosing"], ACCEPTED_FORM)),
        accept_exposure=settings["accept_exposure"],
        unique_limit=parse_exact(settings["unique_limit"], "the limit on unique records"),
        accept_unique=settings["accept_unique"],
        accept_uncovered=settings["accept_uncovered"],
    )


def make_read_options(settings: Mapping[str, Any]) -> ReadOptions:
    """Builds the options for reading the table."""
    return ReadOptions(tuple(settings["text"]), settings["encoding"], tuple(settings["missing"]), settings["decimal"])


def make_schema(settings: Mapping[str, Any]) -> Schema:
    """Builds the roles, domains and ranges of the columns."""
    sensitive, compound, person = settings["sensitive"], settings["compound"], settings["person"]
    if not sensitive and not compound:
        raise SchemaError(
            "name the column to protect with `sensitive='COL'`, or several to protect as one with `compound=['A', "
            "'B']`.",
            code="no-sensitive-column",
        )
    if sensitive and compound:
        raise SchemaError(
            "`sensitive=` and `compound=` were both given; name all columns to protect in `compound=`.",
            code="sensitive-with-compound",
        )
    if len(person) > 1:  # without this check, the last name wins, and the other column is published unchanged
        raise SchemaError(
            f"`person=` was given {len(person)} times; name one column.",
            code="several-person-columns",
            fields={"columns": len(person)},
        )
    domains = {name: read_domain(Path(file)) for name, file in parse_assignments(settings["domain"], DOMAIN_FORM)}
    ranges = {
        name: Ranges.parse(edges) for name, edges in parse_assignments(settings["ranges"], RANGES_FORM, at_last=True)
    }
    return Schema.of(
        sensitive,
        compound=compound,
        public=settings["public"],
        identifier=settings["identifier"],
        person=next(iter(person), None),
        drop=settings["drop"],
        keep=settings["keep"],
        domains=domains,
        hierarchies={name: Path(file) for name, file in parse_assignments(settings["hierarchy"], HIERARCHY_FORM)},
        publish_at=dict(parse_assignments(settings["publish_at"], PUBLISH_AT_FORM)),
        ranges=ranges,
        nulls=settings["nulls"],
        rows_per_person=settings["rows_per_person"],
        surplus=settings["surplus"],
        one_row=settings["one_row"],
        each_row_is_a_person=settings["each_row_is_a_person"],
    )


def make_options(settings: Mapping[str, Any], spec: PrivacySpec) -> dict[str, Any]:
    """Builds the given options, by the name of the mechanism that they belong to.

    An option that several mechanisms share applies to those that meet the request. If none of the sharing mechanisms
    meets the request, the option applies to the first of them. Choosing a plan then refuses that mechanism.
    """
    owners_by_parameter: dict[str, list[tuple[AnyMechanism, str]]] = {}
    values: dict[str, Any] = {}
    for mechanism, name, flag in list_mechanism_flags():
        if settings[flag.name] is not None:
            owners_by_parameter.setdefault(flag.name, []).append((mechanism, name))
            values[flag.name] = flag.read(settings[flag.name])
    options_by_mechanism: dict[str, dict[str, Any]] = {}
    for parameter, owners in owners_by_parameter.items():
        meeting = [(mechanism, name) for mechanism, name in owners if isinstance(spec, mechanism.accepted_requests)]
        for mechanism, name in meeting or owners[:1]:
            options_by_mechanism.setdefault(mechanism.name, {})[name] = values[parameter]
    return {name: REGISTRY[name].options(**own_options) for name, own_options in options_by_mechanism.items()}


def parse_assignments(assignments: Sequence[str], form: str, *, at_last: bool = False) -> list[tuple[str, str]]:
    """Splits `NAME=VALUE` at the first equals sign, or with `at_last` at the last one."""
    if (wrong := next((assignment for assignment in assignments if "=" not in assignment), None)) is not None:
        raise SchemaError(f"{wrong!r} should be written as {form}.", code="wrong-assignment", fields={"form": form})
    pairs = [split_assignment(item, at_last=at_last) for item in assignments]
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(
            f"{twice!r} was given twice ({form}); give it once.",
            code="repeated-assignment",
            fields={"name": twice, "form": form},
        )
    return pairs
