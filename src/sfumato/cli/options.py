"""The options of commands, each declared once.

Options of the table and of the output are declared here; those of a request and of a mechanism stand
beside what they are for, and are read from there.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import typer

from sfumato._core.option_fields import Flag, list_flags
from sfumato._planning.bound_for_error import DEFAULT_COUNT, DEFAULT_ERROR
from sfumato._planning.mechanism_choice import AUTO
from sfumato._readers.read_options import POINT, ReadOptions
from sfumato._readers.reader_registry import describe_tables
from sfumato._request.accepted_risks import BREACH_LIMIT
from sfumato._request.guarantee import SELECTABLE_GUARANTEES, Guarantee
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import MOST_ROWS, Surplus
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS, make_requirement
from sfumato._request.requirements import PrivacySpec
from sfumato._request.schema import NullPolicy, Ranges, Schema, read_domain
from sfumato.cli.flags import format_flag, name_flags
from sfumato.cli.option_group import OptionGroup, make_command_parameter
from sfumato.errors import SchemaError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.mechanism import AnyMechanism

TABLE_PANEL = "The table"
PROMISE_PANEL = "What to promise"
OUTPUT_PANEL = "Output"
HIERARCHY_FORM, PUBLISH_AT_FORM = "--hierarchy COL=FILE", "--publish-at COL=LEVEL"
"""How options of columns are written."""

TABLES_HELP = describe_tables()
TablePath = Annotated[str, typer.Argument(metavar="TABLE", help=f"{TABLES_HELP}.")]
RequestPath = Annotated[
    str, typer.Argument(metavar="TABLE", help=f"{TABLES_HELP}; or a request file (.toml, see init).")
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release: a directory, a .zip, or s3://...")]
Encoding = Annotated[str, typer.Option("--encoding", help="The encoding of a CSV file.")]
Decimal = Annotated[
    str, typer.Option("--decimal", metavar="MARK", help="The decimal mark in a CSV file: a point, or a comma.")
]

PER_COLUMN_FLAGS = " or ".join(
    format_flag(flag.name) for kind in REQUIREMENT_KINDS if kind.IS_COLUMNWISE for flag in kind.FLAGS
)


# ----------------------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class TableOptions(OptionGroup):
    """What the columns of a table are for, and how the table is read."""

    PANEL: ClassVar = TABLE_PANEL

    sensitive: Annotated[
        list[str],
        typer.Option("--sensitive", metavar="COL", help=f"The column to protect. Repeatable with {PER_COLUMN_FLAGS}."),
    ] = field(default_factory=list)
    compound: Annotated[
        str | None,
        typer.Option("--compound", metavar="A,B", help="Protect several columns as one, instead of --sensitive."),
    ] = None
    identifier: Annotated[
        list[str], typer.Option("--identifier", metavar="COL", help="A column that names people: left out. Repeatable.")
    ] = field(default_factory=list)
    person: Annotated[
        list[str], typer.Option("--person", metavar="COL", help="Says whose row it is: checked, left out.")
    ] = field(default_factory=list)
    rows_per_person: Annotated[
        int,
        typer.Option(
            "--rows-per-person",
            metavar="K",
            help="Persons have up to K rows, which share the bound.",
            min=1,
            max=MOST_ROWS,
        ),
    ] = 1
    surplus: Annotated[
        Surplus, typer.Option("--surplus", help="Persons with more rows: refuse the table, or keep K rows by chance.")
    ] = Surplus.REFUSE
    one_row: Annotated[
        str | None,
        typer.Option(
            "--one-row", metavar="WHICH", help="Publish one row of each person: first:COL, last:COL or random."
        ),
    ] = None
    domain: Annotated[
        list[str],
        typer.Option("--domain", metavar="COL=FILE", help="The values a column may have, one a line. Recommended."),
    ] = field(default_factory=list)
    hierarchy: Annotated[
        list[str],
        typer.Option(
            "--hierarchy",
            metavar="COL=FILE",
            help="A domain with groups: a CSV of code,chapter,... for a value a line.",
        ),
    ] = field(default_factory=list)
    publish_at: Annotated[
        list[str],
        typer.Option("--publish-at", metavar="COL=LEVEL", help="Publish the groups of a level in the place of values."),
    ] = field(default_factory=list)
    ranges: Annotated[
        list[str],
        typer.Option(
            "--ranges", metavar="COL=0,20,40,60", help="Publish a number or date in ranges [a,b). Repeatable."
        ),
    ] = field(default_factory=list)
    drop: Annotated[list[str], typer.Option("--drop", metavar="COL", help="A column to leave out. Repeatable.")] = (
        field(default_factory=list)
    )
    keep: Annotated[
        list[str],
        typer.Option(
            "--keep", metavar="COL", help="Confirms a column that is nearly unique or holds line breaks. Repeatable."
        ),
    ] = field(default_factory=list)
    nulls: Annotated[
        NullPolicy,
        typer.Option("--nulls", help="Records without a sensitive value: a value of its own, an error, or dropped."),
    ] = NullPolicy.VALUE
    text: Annotated[
        list[str],
        typer.Option("--text", metavar="COL", help="Read a CSV column or a domain as text. Repeatable."),
    ] = field(default_factory=list)
    encoding: Encoding = "utf-8"
    decimal: Decimal = POINT
    missing: Annotated[
        list[str],
        typer.Option("--missing", metavar="TEXT", help="A text that stands for a missing value: ?, NA. Repeatable."),
    ] = field(default_factory=list)

    @property
    def read_options(self) -> ReadOptions:
        """How the table is read."""
        return ReadOptions(tuple(self.text), self.encoding, tuple(self.missing), self.decimal)

    def make_schema(self) -> Schema:
        """The roles, domains and ranges of the columns."""
        if not self.sensitive and self.compound is None:
            raise SchemaError("name the column to protect with --sensitive COL, or several as one with --compound A,B.")
        if self.sensitive and self.compound is not None:
            raise SchemaError(
                "--sensitive and --compound were both given; name all the columns to protect in --compound."
            )
        if len(self.person) > 1:  # the last one would win, and the other column would go out as it is
            raise SchemaError(f"--person was given {len(self.person)} times; name one column.")
        return Schema.of(
            self.sensitive,
            compound=() if self.compound is None else next(csv.reader([self.compound])),
            identifier=self.identifier,
            person=next(iter(self.person), None),
            drop=self.drop,
            keep=self.keep,
            domains={
                name: read_domain(Path(file)) for name, file in parse_assignments(self.domain, "--domain COL=FILE")
            },
            hierarchies={name: Path(file) for name, file in parse_assignments(self.hierarchy, HIERARCHY_FORM)},
            publish_at=dict(parse_assignments(self.publish_at, PUBLISH_AT_FORM)),
            ranges={
                name: Ranges.parse(edges)
                for name, edges in parse_assignments(self.ranges, "--ranges COL=0,20,40", at_last=True)
            },
            nulls=self.nulls,
            rows_per_person=self.rows_per_person,
            surplus=self.surplus,
            one_row=self.one_row,
        )


@dataclass(frozen=True)
class PlanTableOptions(TableOptions):
    """The table of a plan, for which its counts are enough."""

    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table or request file, as for publish; or use --counts.")
    ] = None
    counts: Annotated[
        Path | None, typer.Option("--counts", metavar="CSV", help="Plan from a CSV of value,count instead of a table.")
    ] = None

    def check(self) -> None:
        """Refuse both, and neither."""
        if (self.table is None) == (self.counts is None):
            raise SchemaError("name a table, or a file of counts with --counts; one of the two.")

    def group_counts(self, counts: Histogram) -> tuple[Histogram, str]:
        """Counts with the hierarchy that was named, at the level that was, and the column that they are said of."""
        files = {name: Path(file) for name, file in parse_assignments(self.hierarchy, HIERARCHY_FORM)}
        levels = dict(parse_assignments(self.publish_at, PUBLISH_AT_FORM))
        columns = dict.fromkeys((*files, *levels))
        schema = Schema.of(columns, hierarchies=files, publish_at=levels)
        for name, hierarchy in schema.hierarchies.items():
            counts = counts.align_with(hierarchy)
            if name in schema.publish_at:
                counts = counts.group_by_level(hierarchy.find_level(schema.publish_at[name]))
        return counts, next(iter(columns), "value")


@dataclass(frozen=True)
class TargetOptions(OptionGroup):
    """How exact counts must be: the inverse of what a plan tells."""

    PANEL: ClassVar = PROMISE_PANEL

    error: Annotated[
        str | None,
        typer.Option(
            "--error", metavar="R", help="Also tell which posterior gives this error: 1/20.", show_default=DEFAULT_ERROR
        ),
    ] = None
    at: Annotated[
        int | None,
        typer.Option(
            "--at", metavar="N", help="The count that shall have that error.", min=1, show_default=f"{DEFAULT_COUNT:,}"
        ),
    ] = None


def parse_assignments(options: Sequence[str], form: str, *, at_last: bool = False) -> list[tuple[str, str]]:
    """Names and what they are given; the name of a column may hold the sign itself, and edges do not."""
    if (wrong := next((option for option in options if "=" not in option), None)) is not None:
        raise SchemaError(f"{wrong!r} should be written as {form}.")
    pairs = [option.rpartition("=") if at_last else option.partition("=") for option in options]
    names = [name for name, _, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"{twice!r} was given twice ({form}); give it once.")
    return [(name, value) for name, _, value in pairs]


# ----------------------------------------------------------------------------------------------------- what to promise


@dataclass(frozen=True)
class PromiseOptions(OptionGroup):
    """What is asked for, and how it shall be met: the options of all requests and of all mechanisms."""

    PANEL: ClassVar = PROMISE_PANEL

    given: Mapping[str, Any]
    """What was given for each option, by its parameter; None where nothing was."""

    @classmethod
    def list_parameters(cls) -> Iterator[Parameter]:
        """Every option of a request, the choice of a mechanism, and a panel of options for each mechanism.

        An option that several mechanisms share stands in the panel of the first.
        """
        request_flags = [flag for kind in REQUIREMENT_KINDS for flag in kind.FLAGS]
        yield from (_make_flag_parameter(flag, PROMISE_PANEL) for flag in request_flags)
        names, guarantee_names = ", ".join((AUTO, *REGISTRY)), " or ".join(SELECTABLE_GUARANTEES)
        mechanism_option = typer.Option(
            "--mechanism",
            help=f"How to protect: {names}.",
            rich_help_panel=PROMISE_PANEL,
            autocompletion=lambda: [AUTO, *REGISTRY],
        )
        yield make_command_parameter("mechanism", str, mechanism_option, AUTO)
        help_text = f"Which prior knowledge is covered: {guarantee_names}."
        guarantee_option = typer.Option(
            "--guarantee",
            help=help_text,
            show_default=SELECTABLE_GUARANTEES[0],
            rich_help_panel=PROMISE_PANEL,
            autocompletion=lambda: [str(guarantee) for guarantee in SELECTABLE_GUARANTEES],
        )
        yield make_command_parameter("guarantee", str | None, guarantee_option, None)
        seen_names: set[str] = set()
        for mechanism in REGISTRY.values():
            for _, flag in list_flags(mechanism.options):
                if flag.name not in seen_names:
                    seen_names.add(flag.name)
                    yield _make_flag_parameter(flag, mechanism.name)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """The group, from what each of its parameters was given."""
        return cls(arguments)

    @property
    def mechanism(self) -> str:
        """The name of a mechanism, or `auto`."""
        return str(self.given["mechanism"])

    @property
    def guarantee(self) -> str | None:
        """The prior knowledge that must be covered, if that was said."""
        guarantee_name: str | None = self.given["guarantee"]
        return guarantee_name

    @cached_property
    def spec(self) -> PrivacySpec:
        """The request that was made."""
        return make_requirement(self.given)

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that were given, by the name of the mechanism that takes them.

        An option that several mechanisms share is for those that meet the request. One that is for none of them goes
        to the first that has it, which is refused where a plan is chosen.
        """
        holders: dict[str, list[tuple[AnyMechanism, str]]] = {}
        values: dict[str, Any] = {}
        for mechanism in REGISTRY.values():
            for name, flag in list_flags(mechanism.options):
                if self.given[flag.name] is not None:
                    holders.setdefault(flag.name, []).append((mechanism, name))
                    values[flag.name] = flag.read(self.given[flag.name])
        options_by_mechanism: dict[str, dict[str, Any]] = {}
        for parameter, owners in holders.items():
            meeting = [
                (mechanism, name) for mechanism, name in owners if isinstance(self.spec, mechanism.accepted_requests)
            ]
            for mechanism, name in meeting or owners[:1]:
                options_by_mechanism.setdefault(mechanism.name, {})[name] = values[parameter]
        return {name: REGISTRY[name].options(**own_options) for name, own_options in options_by_mechanism.items()}


def _make_flag_parameter(flag: Flag, panel: str) -> Parameter:
    """An option that is None where it is not given, so that what it is for can tell."""
    option_info = typer.Option(
        format_flag(flag.name),
        metavar=flag.metavar,
        min=flag.minimum,
        help=name_flags(flag.help),
        rich_help_panel=panel,
    )
    kind: Any = Literal.__getitem__(flag.choices) if flag.choices else flag.kind
    return make_command_parameter(flag.name, kind | None, option_info, None)


@dataclass(frozen=True)
class StopOptions(OptionGroup):
    """What must not go out."""

    PANEL: ClassVar = PROMISE_PANEL

    breach_limit: Annotated[
        str,
        typer.Option(
            "--breach-limit",
            metavar="R",
            help=f"{Guarantee.MARGINAL_PRIOR}: the share of records a public column may breach.",
        ),
    ] = str(BREACH_LIMIT)
    accept_marginal_prior: Annotated[
        bool,
        typer.Option(
            "--accept-marginal-prior", help=f"{Guarantee.MARGINAL_PRIOR}: go on whatever public columns breach."
        ),
    ] = False
    accept_disclosing: Annotated[
        list[str],
        typer.Option(
            "--accept-disclosing",
            metavar="COL",
            help="Go on though a public column tells the protected one. Repeatable.",
        ),
    ] = field(default_factory=list)
    accept_exposure: Annotated[
        bool,
        typer.Option("--accept-exposure", help="Buckets, decoys: go on whatever public columns add to the release."),
    ] = False


# -------------------------------------------------------------------------------------------------------------- output


@dataclass(frozen=True)
class NoticeOptions(OptionGroup):
    """Which notices are more than advice."""

    PANEL: ClassVar = OUTPUT_PANEL

    fail_on: Annotated[
        str | None,
        typer.Option("--fail-on", metavar="CODE,...", help="Stop with exit code 1 where such a notice comes up."),
    ] = None

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the notices that stop everything."""
        return tuple(code.strip() for code in (self.fail_on or "").split(",") if code.strip())


class ReleaseFormat(StrEnum):
    """In what the tables of a release are written."""

    PARQUET = "parquet"
    CSV = "csv"


@dataclass(frozen=True)
class ReleaseOptions(OptionGroup):
    """Where a release goes, and with which key it is drawn."""

    PANEL: ClassVar = OUTPUT_PANEL

    target: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the release goes: a new directory, a .zip, or s3://...")
    ]
    force: Annotated[bool, typer.Option("--force", help="Replace an existing release.")] = False
    format: Annotated[
        ReleaseFormat, typer.Option("--format", help="csv: write each table as CSV too, beside its Parquet file.")
    ] = ReleaseFormat.PARQUET
    describe: Annotated[
        Path | None,
        typer.Option("--describe", metavar="FILE.toml", help="Title, licence, contact, and words for columns."),
    ] = None
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan-file", metavar="FILE", help="Keep the key in this private file; repeat the release if it exists."
        ),
    ] = None
    unsafe_test_key: Annotated[
        str | None,
        typer.Option(
            "--unsafe-test-key", metavar="HEX", help="For tests: a known key. The release is unfit to publish."
        ),
    ] = None


@dataclass(frozen=True)
class PrintOptions(OptionGroup):
    """How the outcome is told."""

    PANEL: ClassVar = OUTPUT_PANEL

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the result and errors alone: no progress, notices or advice.")
    ] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Say on standard error where settings come from, and what took how long."),
    ] = False

    @property
    def is_silent(self) -> bool:
        """Whether nobody wants to see how far it is."""
        return self.quiet or self.as_json
