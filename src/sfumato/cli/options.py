"""The options of commands, each declared once.

Options of the table and of the output are declared here. The options of a requirement or a mechanism are declared
beside it, and read from there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import typer

from sfumato._core.option_fields import Flag, OptionValues, list_flags
from sfumato._planning.bound_for_error import DEFAULT_COUNT, DEFAULT_ERROR
from sfumato._planning.mechanism_choice import AUTO
from sfumato._publish.request_settings import (
    HIERARCHY_FORM,
    PUBLISH_AT_FORM,
    list_bound_flags,
    make_options,
    parse_assignments,
)
from sfumato._readers.read_options import POINT
from sfumato._readers.reader_registry import describe_tables
from sfumato._request.accepted_risks import BREACH_LIMIT, UNIQUE_LIMIT
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.guarantee import SELECTABLE_GUARANTEES, Guarantee
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import MOST_ROWS, Surplus
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS, make_requirement
from sfumato._request.schema import NullPolicy, Schema
from sfumato.cli.flags import format_flag, name_flags
from sfumato.cli.option_group import OptionGroup, list_option, make_command_parameter
from sfumato.errors import SchemaError, TargetError
from sfumato.mechanisms import REGISTRY

TABLE_PANEL = "The table"
GUARANTEE_PANEL = "Guarantee and method"
OUTPUT_PANEL = "Output"
TABLES_HELP = describe_tables()
TablePath = Annotated[str, typer.Argument(metavar="TABLE", help=f"{TABLES_HELP}.")]
RequestPath = Annotated[
    str, typer.Argument(metavar="TABLE", help=f"{TABLES_HELP}; or a request file (.toml, see init).")
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="A release: a directory, a .zip, or s3://...")]
Describe = Annotated[
    Path | None,
    typer.Option(
        "--describe", metavar="FILE.toml", help="Title, publisher, licence, contact, and descriptions of columns."
    ),
]
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
    """The use of each column, and the way the table is read."""

    PANEL: ClassVar = TABLE_PANEL

    sensitive: Annotated[
        list[str],
        list_option("--sensitive", "COL", f"The column to protect; several only with {PER_COLUMN_FLAGS}."),
    ] = field(default_factory=list)
    compound: Annotated[
        list[str], list_option("--compound", "COL", "Protect several columns as one, instead of --sensitive.")
    ] = field(default_factory=list)
    identifier: Annotated[list[str], list_option("--identifier", "COL", "Columns that identify people; dropped.")] = (
        field(default_factory=list)
    )
    person: Annotated[
        list[str],
        typer.Option("--person", metavar="COL", help="The column that identifies the person of a row; dropped."),
    ] = field(default_factory=list)
    rows_per_person: Annotated[
        int,
        typer.Option(
            "--rows-per-person",
            metavar="K",
            help="Publish up to K rows per person, which share the bound.",
            min=1,
            max=MOST_ROWS,
        ),
    ] = 1
    surplus: Annotated[
        Surplus,
        typer.Option("--surplus", help="If a person has more than K rows: refuse the table, or keep K rows at random."),
    ] = Surplus.REFUSE
    one_row: Annotated[
        str | None,
        typer.Option(
            "--one-row",
            metavar="WHICH",
            help="Publish one row of each person: the lowest in COL (first:COL), the highest (last:COL), or random.",
        ),
    ] = None
    each_row_is_a_person: Annotated[
        bool,
        typer.Option(
            "--each-row-is-a-person",
            help="State, without a check, that no person has two rows. The release prints your statement.",
        ),
    ] = False
    records: Annotated[
        bool,
        typer.Option("--records", help="Publish one protected record for each person, and no counts of groups."),
    ] = False
    domain: Annotated[
        list[str],
        typer.Option("--domain", metavar="COL=FILE", help="All possible values of a column, a line each. Recommended."),
    ] = field(default_factory=list)
    hierarchy: Annotated[
        list[str],
        typer.Option(
            "--hierarchy",
            metavar="COL=FILE",
            help="A domain with groups: a CSV with one value per line (code,chapter,...).",
        ),
    ] = field(default_factory=list)
    publish_at: Annotated[
        list[str],
        typer.Option("--publish-at", metavar="COL=LEVEL", help="Publish the groups of a level instead of values."),
    ] = field(default_factory=list)
    ranges: Annotated[
        list[str],
        typer.Option(
            "--ranges", metavar="COL=0,20,40,60", help="Recode a number or date into ranges [a,b). Repeatable."
        ),
    ] = field(default_factory=list)
    public: Annotated[
        list[str], list_option("--public", "COL", "Columns to publish unchanged; DX* and * stand for several.")
    ] = field(default_factory=list)
    drop: Annotated[list[str], list_option("--drop", "COL", "Columns to drop; DX* stands for several.")] = field(
        default_factory=list
    )
    keep: Annotated[
        list[str],
        list_option("--keep", "COL", "Publish these columns although they are nearly unique or have line breaks."),
    ] = field(default_factory=list)
    nulls: Annotated[
        NullPolicy,
        typer.Option(
            "--nulls",
            help="A missing sensitive value: make it a value of its own, stop with an error, or drop its record.",
        ),
    ] = NullPolicy.VALUE
    text: Annotated[list[str], list_option("--text", "COL", "CSV columns or domains to read as text.")] = field(
        default_factory=list
    )
    encoding: Encoding = "utf-8"
    decimal: Decimal = POINT
    missing: Annotated[
        list[str], list_option("--missing", "TEXT", "Texts that mean a missing value, such as ? or NA.")
    ] = field(default_factory=list)


@dataclass(frozen=True)
class PlanTableOptions(TableOptions):
    """The table of a plan, or only the counts of its sensitive values."""

    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table or request file, as for publish; or use --counts.")
    ] = None
    counts: Annotated[
        Path | None, typer.Option("--counts", metavar="CSV", help="Plan from a CSV of value,count instead of a table.")
    ] = None

    def check(self, *, has_questions: bool = False) -> None:
        """Requires either a table or counts, and a table for questions."""
        if (self.table is None) == (self.counts is None):
            raise SchemaError("name either a table, or a file of counts (`counts=`).", code="no-single-table")
        if has_questions and self.table is None:
            raise SchemaError(
                "`questions=` needs a table, because counts alone cannot answer them.", code="questions-without-table"
            )

    def group_counts(self, counts: Histogram) -> tuple[Histogram, str]:
        """Groups counts by the requested hierarchy and level, and returns them with the name of the column."""
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
    """The required accuracy of counts, from which the plan computes a posterior."""

    PANEL: ClassVar = GUARANTEE_PANEL

    error: Annotated[
        str | None,
        typer.Option(
            "--error",
            metavar="R",
            help="Also show the posterior that gives this standard error: 1/20.",
            show_default=DEFAULT_ERROR,
        ),
    ] = None
    at: Annotated[
        int | None,
        typer.Option(
            "--at",
            metavar="N",
            help="The size of the counts with this error.",
            min=1,
            show_default=f"{DEFAULT_COUNT:,}",
        ),
    ] = None
    questions: Annotated[
        Path | None,
        typer.Option(
            "--questions",
            metavar="FILE",
            help="Also show the errors of your own questions: .sql with one per line, .csv or .jsonl.",
        ),
    ] = None


# ----------------------------------------------------------------------------------------------------- guarantee


@dataclass(frozen=True)
class GuaranteeOptions(OptionGroup):
    """The requirement and the way to meet it, from the options of all requirements and all mechanisms."""

    PANEL: ClassVar = GUARANTEE_PANEL

    given: OptionValues
    """The value of each option by its parameter. None if the option is missing."""

    @classmethod
    def list_parameters(cls) -> Iterator[Parameter]:
        """Every option of a request, the choice of a mechanism, and a panel of options for each mechanism.

        An option that several mechanisms share stands in the panel of the first of them.
        """
        yield from (_make_flag_parameter(flag, GUARANTEE_PANEL) for flag in list_bound_flags())
        names, guarantee_names = ", ".join((AUTO, *REGISTRY)), " or ".join(SELECTABLE_GUARANTEES)
        mechanism_option = typer.Option(
            "--mechanism",
            help=f"The method: {names}.",
            rich_help_panel=GUARANTEE_PANEL,
            autocompletion=lambda: [AUTO, *REGISTRY],
        )
        yield make_command_parameter("mechanism", str, mechanism_option, AUTO)
        help_text = f"The prior knowledge that the guarantee covers: {guarantee_names}."
        guarantee_option = typer.Option(
            "--guarantee",
            help=help_text,
            show_default=SELECTABLE_GUARANTEES[0],
            rich_help_panel=GUARANTEE_PANEL,
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
    def of(cls, arguments: OptionValues) -> Self:
        """Makes the group from the values of its parameters."""
        return cls(arguments)

    @property
    def mechanism(self) -> str:
        """The name of a mechanism, or `auto`."""
        return str(self.given["mechanism"])

    @property
    def guarantee(self) -> str | None:
        """The prior knowledge that must be covered, or None."""
        guarantee_name: str | None = self.given["guarantee"]
        return guarantee_name

    @cached_property
    def spec(self) -> PrivacySpec:
        """The requirement, made from the options."""
        return make_requirement(self.given)

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options that the user set, by the name of their mechanism."""
        return make_options(self.given, self.spec)


def _make_flag_parameter(flag: Flag, panel: str) -> Parameter:
    """An option whose value is None when missing, so that defaults can depend on the mechanism."""
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
    """The conditions that stop a publication."""

    PANEL: ClassVar = GUARANTEE_PANEL

    breach_limit: Annotated[
        str,
        typer.Option(
            "--breach-limit",
            metavar="R",
            help=f"{Guarantee.MARGINAL_PRIOR}: largest share of records for which a public column may break the bound.",
        ),
    ] = str(BREACH_LIMIT)
    accept_marginal_prior: Annotated[
        str,
        typer.Option(
            "--accept-marginal-prior",
            metavar="REASON",
            help=f"{Guarantee.MARGINAL_PRIOR}: publish although public columns breach the bound.",
        ),
    ] = ""
    unique_limit: Annotated[
        str,
        typer.Option(
            "--unique-limit",
            metavar="R",
            help="Largest share of records that may be unique on the public columns.",
        ),
    ] = str(UNIQUE_LIMIT)
    accept_unique: Annotated[
        str,
        typer.Option("--accept-unique", metavar="REASON", help="Publish although more records are unique."),
    ] = ""
    accept_disclosing: Annotated[
        list[str],
        typer.Option(
            "--accept-disclosing",
            metavar="COL=REASON",
            help="Publish this public column although it looks sensitive, or discloses the protected one. Repeatable.",
        ),
    ] = field(default_factory=list)
    accept_uncovered: Annotated[
        str,
        typer.Option("--accept-uncovered", metavar="REASON", help="Publish although every value exceeds the prior."),
    ] = ""
    accept_exposure: Annotated[
        str,
        typer.Option(
            "--accept-exposure",
            metavar="REASON",
            help="Buckets, decoys: publish although public columns raise attack success.",
        ),
    ] = ""


# -------------------------------------------------------------------------------------------------------------- output


@dataclass(frozen=True)
class NoticeOptions(OptionGroup):
    """The notices that stop the command."""

    PANEL: ClassVar = OUTPUT_PANEL

    fail_on: Annotated[list[str], list_option("--fail-on", "CODE", "Stop with exit code 1 on these notices.")] = field(
        default_factory=list
    )

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the notices that stop the command."""
        return tuple(code.strip() for code in self.fail_on if code.strip())


class ReleaseFormat(StrEnum):
    """The file format of a release's tables."""

    PARQUET = "parquet"
    CSV = "csv"


@dataclass(frozen=True)
class ReleaseOptions(OptionGroup):
    """The place of a release, and the file for its key."""

    PANEL: ClassVar = OUTPUT_PANEL

    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="The release: a new directory, a .zip, or s3://... Required."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace an existing release.")] = False
    format: Annotated[ReleaseFormat, typer.Option("--format", help="csv: also write each table as CSV.")] = (
        ReleaseFormat.PARQUET
    )
    describe: Describe = None
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan-file",
            metavar="FILE",
            help="Save the key in this private file. An existing file repeats its release.",
        ),
    ] = None
    journal: Annotated[
        Path | None,
        typer.Option("--journal", metavar="FILE", help="Record the publication in this private file."),
    ] = None
    unsafe_test_key: Annotated[
        str | None,
        typer.Option(
            "--unsafe-test-key", metavar="HEX", help="For tests only: a known key. Such a release protects no one."
        ),
    ] = None

    def find_target(self) -> Path:
        """The place of the release.

        The place is checked after the names in the request, because users should correct wrong names first.
        """
        if self.target is None:
            raise TargetError("name a place for the release (`out='release'`).", code="no-target")
        return self.target


@dataclass(frozen=True)
class PrintOptions(OptionGroup):
    """The form of the output."""

    PANEL: ClassVar = OUTPUT_PANEL

    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the result and errors: no progress, notices or advice.")
    ] = False
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Print the source of each setting, and running times, to standard error."),
    ] = False

    @property
    def is_silent(self) -> bool:
        """Whether progress is hidden."""
        return self.quiet or self.as_json
