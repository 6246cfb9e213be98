"""The command line: a thin skin, in which every command is one library call and its rendering."""

from __future__ import annotations

import csv
import json
import logging
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.exceptions import TyperException

from sfumato.apply.checks import LONGEST_VALUE
from sfumato.audit.exposure import BREACH_LIMIT, Exposure
from sfumato.audit.original import verify as verify_release
from sfumato.cli import render
from sfumato.cli.demo import ROWS, demonstrate
from sfumato.draws import Draws
from sfumato.errors import QueryError, SchemaError, SfumatoError, SpecError, TargetError, reason
from sfumato.estimate.answer import Answer
from sfumato.estimate.attaching import parse_attachments
from sfumato.estimate.connection import DEFAULT_SECONDS
from sfumato.estimate.estimate import DEFAULT_LEVEL
from sfumato.estimate.many import read_batch
from sfumato.estimate.release import Release
from sfumato.mechanisms import REGISTRY, anatomy, buckets, decoys, fine_grain, small_domain, subset
from sfumato.plan.choose import AUTO, GUARANTEES, choose
from sfumato.publish import Request, plan_notices, plan_table
from sfumato.publish import publish as publish_table
from sfumato.request.histogram import Histogram
from sfumato.request.schema import Bins, NullPolicy, Schema, read_domain
from sfumato.request.spec import (
    BreachBound,
    BreachBoundPerValue,
    DecoyGroups,
    Diversity,
    LinearCap,
    PrivacySpec,
    ShareCap,
    Tolerance,
    exact,
)

BAD_INPUT = 2
STOPPED = 130

app = typer.Typer(
    name="sfumato",
    pretty_exceptions_enable=False,
    help="Publish a table about people so that analysts count accurately and nobody can point at a person.",
    epilog="Start with: sfumato demo",
)
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)

Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="A CSV or Parquet file, a quoted glob, or a directory of Parquet files.")
]
ReleasePath = Annotated[Path, typer.Argument(metavar="RELEASE", help="The directory or .zip of a release.")]
Sensitive = Annotated[
    list[str], typer.Option("--sensitive", metavar="COL", help="The column to protect. Repeatable with decoys.")
]
Identifier = Annotated[
    list[str], typer.Option("--identifier", metavar="COL", help="A column that names people: left out. Repeatable.")
]
Person = Annotated[
    list[str], typer.Option("--person", metavar="COL", help="Says whose row it is: must not repeat, left out.")
]
Drop = Annotated[list[str], typer.Option("--drop", metavar="COL", help="A column to leave out. Repeatable.")]
Keep = Annotated[
    list[str],
    typer.Option(
        "--keep", metavar="COL", help="Confirms a column that is nearly unique or holds line breaks. Repeatable."
    ),
]
BinsOption = Annotated[
    list[str],
    typer.Option("--bins", metavar="COL=0,20,40,60", help="Publish a number or date in ranges [a,b). Repeatable."),
]
DomainOption = Annotated[
    list[str],
    typer.Option("--domain", metavar="COL=FILE", help="The values a column may have, one a line. Recommended."),
]
Nulls = Annotated[
    NullPolicy,
    typer.Option("--nulls", help="Records without a sensitive value: a value of its own, an error, or dropped."),
]
Text = Annotated[
    list[str],
    typer.Option("--text", metavar="COL", help="Read a CSV column as text, whatever it looks like. Repeatable."),
]
Encoding = Annotated[str, typer.Option("--encoding", help="The encoding of a CSV file.")]
Prior = Annotated[
    str | None, typer.Option("--prior", metavar="R", help="Beliefs up to this are protected: 1/10, 0.02.")
]
Posterior = Annotated[
    str | None, typer.Option("--posterior", metavar="R", help="No such belief rises above this: 1/3, 0.5.")
]
Bounds = Annotated[
    Path | None,
    typer.Option("--bounds", metavar="CSV", help="A bound for each value instead: a CSV of value,prior,posterior."),
]
ToleranceOption = Annotated[
    str | None,
    typer.Option(
        "--tolerance", metavar="R", help="Bounds from shares: belief in a value may rise to R times its share."
    ),
]
Caps = Annotated[
    Path | None, typer.Option("--caps", metavar="CSV", help="Caps on shares in buckets: a CSV of value,cap.")
]
CapFactor = Annotated[
    str | None,
    typer.Option(
        "--cap-factor", metavar="R", help="Caps from shares: R times the share, plus --cap-offset, at most 1."
    ),
]
CapOffset = Annotated[str | None, typer.Option("--cap-offset", metavar="R", help="See --cap-factor; 0 if not given.")]
DiversityOption = Annotated[
    int | None, typer.Option("--diversity", metavar="N", help="Buckets of at least N records, all of different values.")
]
GroupSize = Annotated[
    int | None,
    typer.Option("--group-size", metavar="N", help="decoys: publish a value drawn from N records' different values."),
]
GroupsOption = Annotated[
    decoys.Creation | None, typer.Option("--groups", help="decoys: how groups are made; mixed counts best.")
]
RatioLimit = Annotated[
    str | None,
    typer.Option("--ratio-limit", metavar="R", help="decoys: values whose likelihood ratio is above R are rare."),
]
RareOption = Annotated[
    decoys.Rare | None, typer.Option("--rare", help="decoys: keep rare values, merge them, or leave them blank.")
]
SizesOption = Annotated[
    buckets.Sizes | None, typer.Option("--sizes", help="buckets: one size, two, several, or the exact optimum.")
]
MinBucket = Annotated[
    int | None, typer.Option("--min-bucket", min=1, metavar="N", help="buckets: the fewest records of a bucket (2).")
]
MaxBucket = Annotated[
    int | None, typer.Option("--max-bucket", min=1, metavar="N", help="buckets: the most records of a bucket (50).")
]
DealingOption = Annotated[
    buckets.Deal | None, typer.Option("--dealing", help="buckets, anatomy: vary what buckets hold, or deal in turn.")
]
Compound = Annotated[
    str | None,
    typer.Option("--compound", metavar="A,B", help="Protect several columns as one, instead of --sensitive."),
]
MechanismOption = Annotated[str, typer.Option("--mechanism", help=f"How to protect: {', '.join((AUTO, *REGISTRY))}.")]
Guarantee = Annotated[
    str | None,
    typer.Option(
        "--guarantee", help=f"Which prior knowledge is covered: {' or '.join(GUARANTEES)}.", show_default=GUARANTEES[0]
    ),
]
MergeOption = Annotated[
    small_domain.Merge | None,
    typer.Option("--merge", help="small-domain: merge cells for the least variance, or as the paper does."),
]
MinCell = Annotated[
    int | None,
    typer.Option("--min-cell", min=0, metavar="N", help="small-domain: the fewest records of a cell (1000; paper: 0)."),
]
PublishShares = Annotated[
    bool, typer.Option("--publish-shares", help="small-domain: publish the counts of the cells, for gls and em.")
]
DirectionOption = Annotated[
    fine_grain.Direction | None,
    typer.Option("--direction", help="fine-grain: keep beliefs from rising (upward), or from falling too (both)."),
]
ObjectiveOption = Annotated[
    fine_grain.Objective | None,
    typer.Option("--objective", help="fine-grain: keep the most records, or make counts (aggregate) best."),
]
SubsetForm = Annotated[
    subset.Form | None, typer.Option("--subset-form", help="subset: write the sets as bits or as lists of values.")
]
BreachLimit = Annotated[
    str,
    typer.Option("--breach-limit", metavar="R", help="small-domain: the share of records a public column may breach."),
]
AcceptMarginal = Annotated[
    bool, typer.Option("--accept-marginal-prior", help="small-domain: go on whatever public columns breach.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Level = Annotated[float, typer.Option("--level", help="The level of the intervals.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sfumato {version('sfumato')}")
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command()
def demo(
    keep_in: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the table and the release in a new directory.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1000, max=100_000_000, help="How many patients to invent.")] = ROWS,
    as_json: Json = False,
) -> None:
    """Invent a hospital table, publish it, verify it, and ask it three questions."""
    place = tempfile.TemporaryDirectory(prefix="sfumato-demo-") if keep_in is None else _new_directory(keep_in)
    with place as folder:
        with render.progress_engine(err, quiet=as_json) as engine:
            shown = demonstrate(Path(folder), rows, engine)
        if as_json:
            _print_json(render.demonstration_json(shown))
        else:
            render.show_demonstration(out, shown, kept=keep_in is not None)


@app.command()
def plan(
    table: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table, as for publish; or use --counts.")
    ] = None,
    counts: Annotated[
        Path | None, typer.Option("--counts", metavar="CSV", help="Plan from a CSV of value,count instead of a table.")
    ] = None,
    sensitive: Sensitive = [],  # noqa: B006 - typer reads the default and never changes it
    compound: Compound = None,
    prior: Prior = None,
    posterior: Posterior = None,
    bounds: Bounds = None,
    tolerance: ToleranceOption = None,
    caps: Caps = None,
    cap_factor: CapFactor = None,
    cap_offset: CapOffset = None,
    diversity: DiversityOption = None,
    group_size: GroupSize = None,
    mechanism: MechanismOption = AUTO,
    guarantee: Guarantee = None,
    merge: MergeOption = None,
    min_cell: MinCell = None,
    publish_shares: PublishShares = False,
    direction: DirectionOption = None,
    objective: ObjectiveOption = None,
    subset_form: SubsetForm = None,
    sizes: SizesOption = None,
    min_bucket: MinBucket = None,
    max_bucket: MaxBucket = None,
    dealing: DealingOption = None,
    groups: GroupsOption = None,
    ratio_limit: RatioLimit = None,
    rare: RareOption = None,
    identifier: Identifier = [],  # noqa: B006
    person: Person = [],  # noqa: B006
    drop: Drop = [],  # noqa: B006
    keep: Keep = [],  # noqa: B006
    bins: BinsOption = [],  # noqa: B006
    domain: DomainOption = [],  # noqa: B006
    nulls: Nulls = NullPolicy.VALUE,
    text: Text = [],  # noqa: B006
    encoding: Encoding = "utf-8",
    as_json: Json = False,
) -> None:
    """Show what would be published, and at which error, without publishing anything. Private: it shows counts."""
    spec = _spec(prior, posterior, bounds, tolerance, caps, cap_factor, cap_offset, diversity, group_size)
    options = _options_of(
        merge,
        min_cell,
        publish_shares,
        direction,
        objective,
        subset_form,
        sizes,
        min_bucket,
        max_bucket,
        dealing,
        diversity,
        groups,
        ratio_limit,
        rare,
    )
    if (table is None) == (counts is None):
        raise SchemaError("name a table, or a file of counts with --counts; one of the two.")
    exposed: tuple[Exposure, ...] = ()
    if counts is not None:
        histogram = _read_counts(counts)
        chosen = choose(histogram, spec, Draws.secret(), mechanism, guarantee=guarantee, options=options)
        notices = tuple(plan_notices(chosen, spec, "value"))
    else:
        schema = _schema(sensitive, compound, identifier, person, drop, keep, bins, domain, nulls)
        request = Request(table, schema, spec, mechanism, guarantee, tuple(text), encoding, options)
        with render.progress_engine(err, quiet=as_json) as engine:
            found = plan_table(request, engine)
        chosen, notices, exposed = found.chosen, found.notices, found.exposures
    for notice in notices:
        render.show_notice(err, notice)
    if as_json:
        _print_json({**chosen.to_json(), "exposures": [each.to_json() for each in exposed]})
    else:
        render.show_plan(out, chosen)
        render.show_exposures(out, exposed)


@app.command()
def publish(
    table: Table,
    target: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the release goes: a new directory, or a .zip.")
    ],
    sensitive: Sensitive = [],  # noqa: B006
    compound: Compound = None,
    prior: Prior = None,
    posterior: Posterior = None,
    bounds: Bounds = None,
    tolerance: ToleranceOption = None,
    caps: Caps = None,
    cap_factor: CapFactor = None,
    cap_offset: CapOffset = None,
    diversity: DiversityOption = None,
    group_size: GroupSize = None,
    mechanism: MechanismOption = AUTO,
    guarantee: Guarantee = None,
    merge: MergeOption = None,
    min_cell: MinCell = None,
    publish_shares: PublishShares = False,
    direction: DirectionOption = None,
    objective: ObjectiveOption = None,
    subset_form: SubsetForm = None,
    sizes: SizesOption = None,
    min_bucket: MinBucket = None,
    max_bucket: MaxBucket = None,
    dealing: DealingOption = None,
    groups: GroupsOption = None,
    ratio_limit: RatioLimit = None,
    rare: RareOption = None,
    breach_limit: BreachLimit = str(BREACH_LIMIT),
    accept_marginal_prior: AcceptMarginal = False,
    identifier: Identifier = [],  # noqa: B006
    person: Person = [],  # noqa: B006
    drop: Drop = [],  # noqa: B006
    keep: Keep = [],  # noqa: B006
    bins: BinsOption = [],  # noqa: B006
    domain: DomainOption = [],  # noqa: B006
    nulls: Nulls = NullPolicy.VALUE,
    text: Text = [],  # noqa: B006
    encoding: Encoding = "utf-8",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing release.")] = False,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan-file", metavar="FILE", help="Keep the key in this private file; repeat the release if it exists."
        ),
    ] = None,
    unsafe_test_key: Annotated[
        str | None,
        typer.Option(
            "--unsafe-test-key", metavar="HEX", help="For tests: a known key. The release is unfit to publish."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Publish a table with its sensitive column protected."""
    request = Request(
        table,
        _schema(sensitive, compound, identifier, person, drop, keep, bins, domain, nulls),
        _spec(prior, posterior, bounds, tolerance, caps, cap_factor, cap_offset, diversity, group_size),
        mechanism,
        guarantee,
        tuple(text),
        encoding,
        _options_of(
            merge,
            min_cell,
            publish_shares,
            direction,
            objective,
            subset_form,
            sizes,
            min_bucket,
            max_bucket,
            dealing,
            diversity,
            groups,
            ratio_limit,
            rare,
        ),
        exact(breach_limit, "the breach limit"),
        accept_marginal_prior,
    )
    with render.progress_engine(err, quiet=as_json) as engine:
        publication = publish_table(
            request,
            target,
            force=force,
            plan_file=plan_file,
            unsafe_test_key=unsafe_test_key,
            engine=engine,
            on_notice=partial(render.show_notice, err),
        )
    if as_json:
        exposed = [each.to_json() for each in publication.exposures]
        found = {"path": str(target), **render.info_json(publication.release), "notices": list(publication.notices)}
        _print_json({**found, "exposures": exposed})
    else:
        render.show_info(out, publication.release)
        render.show_exposures(out, publication.exposures)
        out.print(f"written to {target}", soft_wrap=True, highlight=False)


@app.command()
def info(release: ReleasePath, as_json: Json = False) -> None:
    """Show what a release is and what it promises."""
    opened = Release.open(release)
    if as_json:
        _print_json(render.info_json(opened))
    else:
        render.show_info(out, opened)


@app.command()
def query(
    release: ReleasePath,
    sql: Annotated[
        str | None, typer.Argument(metavar="[SQL]", help="SELECT COUNT(*) FROM release WHERE ... GROUP BY ...")
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(
            "--batch", metavar="FILE", help="Many questions: .csv with a column sql, or .jsonl with a key sql."
        ),
    ] = None,
    attach: Annotated[
        list[str],
        typer.Option("--attach", metavar="NAME=FILE", help="A CSV or Parquet file to join with. Repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    level: Level = DEFAULT_LEVEL,
    method: Annotated[
        str | None,
        typer.Option("--method", help="The estimator: one of those that info lists, the first by default."),
    ] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Widen the intervals so that all of them hold together.")
    ] = False,
    consistent: Annotated[
        bool, typer.Option("--consistent", help="Also give counts that are not negative and add up.")
    ] = False,
    totals: Annotated[
        list[Path],
        typer.Option("--totals", metavar="FILE", help="A CSV of known totals that counts shall add up to. Repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Stop a question that takes longer.")
    ] = DEFAULT_SECONDS,
    as_json: Json = False,
) -> None:
    """Ask a release a question in SQL; every number comes with a standard error and an interval."""
    if (sql is None) == (batch is None):
        raise QueryError(
            "ask one question in SQL, or many with --batch FILE, one of the two; see sfumato query --help."
        )
    if batch is not None and (consistent or totals):
        raise QueryError("--consistent and --totals are for one question; ask it alone, without --batch.")
    tables, opened = parse_attachments(attach), Release.open(release)
    if batch is not None:
        with render.progress_of(err, quiet=as_json) as progress:
            answers = opened.ask_many(
                read_batch(batch),
                method=method,
                attach=tables,
                simultaneous=simultaneous,
                timeout=timeout,
                progress=progress,
            )
        _print_batch(answers, level, as_json=as_json)
        return
    answer = opened.sql(
        str(sql),
        method=method,
        attach=tables,
        simultaneous=simultaneous,
        consistent=consistent,
        totals=totals,
        timeout=timeout,
    )
    if as_json:
        _print_json(render.answer_json(answer, level))
    else:
        render.show_answer(out, answer, level)


def _print_batch(answers: Sequence[Answer | SfumatoError], level: float, *, as_json: bool) -> None:
    """Print all answers; what could not be answered makes the command fail, after the rest."""
    failed = [number for number, answer in enumerate(answers, 1) if isinstance(answer, SfumatoError)]
    if as_json:
        results = [
            {"error": str(answer)} if isinstance(answer, SfumatoError) else render.answer_json(answer, level)
            for answer in answers
        ]
        _print_json({"results": results})
    else:
        for number, answer in enumerate(answers, 1):
            out.print(f"question {number}", style="bold")
            if isinstance(answer, SfumatoError):
                out.print(f"not answered: {answer}", soft_wrap=True, highlight=False, markup=False)
            else:
                render.show_answer(out, answer, level)
    if failed:
        _complain(f"{len(failed)} of {len(answers)} questions were not answered; the first is number {failed[0]}.")
        raise typer.Exit(BAD_INPUT)


@app.command()
def verify(
    release: ReleasePath,
    original: Annotated[
        str | None,
        typer.Option(
            "--original", metavar="TABLE", help="The table it was made from: checks public columns and posteriors."
        ),
    ] = None,
    encoding: Encoding = "utf-8",
    as_json: Json = False,
) -> None:
    """Check a release: files, columns, domain and the exact promise; with --original, also against the table."""
    found = verify_release(release, original, encoding=encoding)
    if as_json:
        _print_json(render.verification_json(found))
    else:
        render.show_verification(out, found)
    if not found.passed:
        failed = next(check for check in found.checks if not check.passed)
        _complain(f"the release does not pass the check of {failed.name}: {failed.detail}")
        raise typer.Exit(BAD_INPUT)


def _spec(
    prior: str | None,
    posterior: str | None,
    bounds: Path | None,
    tolerance: str | None,
    caps: Path | None,
    cap_factor: str | None,
    cap_offset: str | None,
    diversity: int | None,
    group_size: int | None,
) -> PrivacySpec:
    """What is asked for: one bound, a bound or a cap for each value, a diversity, or a group size."""
    kinds = {
        "--prior with --posterior": prior is not None or posterior is not None,
        "--bounds": bounds is not None,
        "--tolerance": tolerance is not None,
        "--caps": caps is not None,
        "--cap-factor and --cap-offset": cap_factor is not None or cap_offset is not None,
        "--diversity": diversity is not None,
        "--group-size": group_size is not None,
    }
    if len(given := [name for name, is_given in kinds.items() if is_given]) > 1:
        raise SpecError(f"two kinds of request were made, by {given[0]} and by {given[1]}; make one of them.")
    if bounds is not None:
        return BreachBoundPerValue.read(bounds)
    if tolerance is not None:
        return Tolerance(tolerance)
    if caps is not None or cap_factor is not None or cap_offset is not None:
        return LinearCap(cap_factor or "0", cap_offset or "0") if caps is None else ShareCap.read(caps)
    if diversity is not None:
        return Diversity(diversity)
    return _bound(prior, posterior) if group_size is None else DecoyGroups(group_size)


def _bound(prior: str | None, posterior: str | None) -> BreachBound:
    if prior is None or posterior is None:
        lacking = " and ".join(
            name for name, value in (("--prior", prior), ("--posterior", posterior)) if value is None
        )
        raise SpecError(f"say what to protect: give {lacking}, for example --prior 1/10 --posterior 1/3.")
    return BreachBound(prior, posterior)


def _options_of(
    merge: small_domain.Merge | None,
    min_cell: int | None,
    publish_shares: bool,
    direction: fine_grain.Direction | None,
    objective: fine_grain.Objective | None,
    subset_form: subset.Form | None,
    sizes: buckets.Sizes | None,
    min_bucket: int | None,
    max_bucket: int | None,
    dealing: buckets.Deal | None,
    diversity: int | None,
    groups: decoys.Creation | None,
    ratio_limit: str | None,
    rare: decoys.Rare | None,
) -> dict[str, Any]:
    """The options that were given, by mechanism."""
    options: dict[str, Any] = {}
    if merge is not None or min_cell is not None or publish_shares:
        merge = merge or small_domain.Merge.VARIANCE
        options[small_domain.NAME] = small_domain.Options(merge, min_cell, publish_shares)
    if direction is not None or objective is not None:
        options[fine_grain.NAME] = fine_grain.Options(
            direction or fine_grain.Direction.UPWARD, objective or fine_grain.Objective.RECORD
        )
    if subset_form is not None:
        options[subset.NAME] = subset.Options(subset_form)
    usual = buckets.Options()
    if sizes is not None or min_bucket is not None or max_bucket is not None:
        smallest = usual.min_bucket if min_bucket is None else min_bucket
        largest = usual.max_bucket if max_bucket is None else max_bucket
        options[buckets.NAME] = buckets.Options(sizes or usual.sizes, smallest, largest, dealing or usual.dealing)
    elif dealing is not None:
        options[buckets.NAME] = buckets.Options(dealing=dealing)
    if diversity is not None and dealing is not None:
        options = {name: each for name, each in options.items() if name != buckets.NAME or sizes is not None}
        options[anatomy.NAME] = anatomy.Options(dealing)
    if groups is not None or ratio_limit is not None or rare is not None:
        options[decoys.NAME] = decoys.Options(groups or decoys.Creation.MIXED, ratio_limit, rare or decoys.Rare.KEEP)
    return options


def _schema(
    sensitive: Sequence[str],
    compound: str | None,
    identifier: Sequence[str],
    person: Sequence[str],
    drop: Sequence[str],
    keep: Sequence[str],
    bins: Sequence[str],
    domain: Sequence[str],
    nulls: NullPolicy,
) -> Schema:
    if not sensitive and compound is None:
        raise SchemaError("name the column to protect with --sensitive COL, or several as one with --compound A,B.")
    if sensitive and compound is not None:
        raise SchemaError("--sensitive and --compound were both given; name all the columns to protect in --compound.")
    return Schema.of(
        sensitive,
        compound=() if compound is None else next(csv.reader([compound])),
        identifier=identifier,
        person=next(iter(_once(person, "--person")), None),
        drop=drop,
        keep=keep,
        domains={name: read_domain(Path(file)) for name, file in _assignments(domain, "--domain COL=FILE")},
        bins={name: Bins.parse(edges) for name, edges in _assignments(bins, "--bins COL=0,20,40")},
        nulls=nulls,
    )


def _once(names: Sequence[str], option: str) -> Sequence[str]:
    """Refuse an option given twice: the last one would win, and the other column would go out as it is."""
    if len(names) > 1:
        raise SchemaError(f"{option} was given {len(names)} times; name one column.")
    return names


def _assignments(options: Sequence[str], form: str) -> list[tuple[str, str]]:
    pairs = [option.partition("=") for option in options]
    if wrong := next((name for name, equals, _ in pairs if not equals), None):
        raise SchemaError(f"{wrong!r} should be written as {form}.")
    names = [name for name, _, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise SchemaError(f"{twice!r} was given twice ({form}); give it once.")
    return [(name, value) for name, _, value in pairs]


def _read_counts(path: Path) -> Histogram:
    """Read a CSV with the columns value and count; an empty value is the missing one."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [(row["value"] or None, int(row["count"])) for row in csv.DictReader(file)]
        if any(len(value or "") > LONGEST_VALUE for value, _ in rows):
            raise ValueError
    except OSError as error:
        raise SchemaError(f"{str(path)!r} cannot be read: {error.strerror}.") from error
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise SchemaError(
            f"{str(path)!r} must have the columns value and count, with whole numbers as counts."
        ) from error
    return Histogram.of([value for value, _ in rows], [count for _, count in rows])


@contextmanager
def _new_directory(path: Path) -> Iterator[str]:
    """A new directory that stays, unless something fails."""
    try:
        path.mkdir()
    except OSError as error:
        raise TargetError(f"the directory {str(path)!r} cannot be made: {error.strerror}.") from error
    try:
        yield str(path)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _print_json(written: Any) -> None:
    typer.echo(json.dumps(written, ensure_ascii=False, indent=2, allow_nan=False, default=str))


def _complain(sentence: str) -> None:
    line = " ".join(sentence.splitlines())
    stop = "" if line.endswith(".") else "."
    err.print(f"error: {line}{stop}", markup=False, highlight=False, soft_wrap=True)


def _usage(error: TyperException) -> str:
    """A mistake in the command line, and where help is."""
    context = getattr(error, "ctx", None)
    message = error.format_message().strip().rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; see {context.command_path if context else app.info.name} --help."


def _interrupt(number: int, frame: object) -> None:
    """A request to end is an interrupt, so that everything is cleaned up on the way out."""
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a mistake of the user is one sentence and exit code 2, never a traceback."""
    signal.signal(signal.SIGTERM, _interrupt)
    logging.getLogger("sqlglot").setLevel(logging.ERROR)  # a mistake in SQL gets one sentence, and it is ours
    try:
        code = app(args=arguments, prog_name=app.info.name, standalone_mode=False)
    except SfumatoError as error:
        _complain(str(error))
        code = BAD_INPUT
    except TyperException as error:
        _complain(_usage(error))
        code = BAD_INPUT
    except OSError as error:
        _complain(f"a file cannot be read or written: {reason(error)}.")
        code = BAD_INPUT
    except (typer.Abort, KeyboardInterrupt):
        code = STOPPED
    if code == STOPPED:  # typer answers an interrupt by this code, without a word
        _complain("stopped; nothing was left behind.")
    sys.exit(code if isinstance(code, int) else 0)
