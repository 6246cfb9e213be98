"""A request, and what would become of it: the plan, what it leaves open, and where it must not go out."""

from __future__ import annotations

import math
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from sfumato._core.cell_values import Value, display, to_json
from sfumato._core.digests import compute_json_digest
from sfumato._core.option_fields import options_json
from sfumato._core.random_draws import Draws
from sfumato._engines.engine import Engine
from sfumato._engines.spark_engine import choose_engine
from sfumato._planning.grouping_gains import Gain, compute_gains
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS, add_shared_options, choose
from sfumato._planning.plan_file import RequestRecord, find_usual_guarantee
from sfumato._planning.predicted_error import Chosen, compute_even_error
from sfumato._profile.column_checks import merge_in_schema
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._profile.table_scan import Survey, survey
from sfumato._profile.table_warnings import warn_of_frequent_values
from sfumato._readers.open_table import open_source
from sfumato._readers.read_options import AS_USUAL, POINT, ReadOptions
from sfumato._readers.sources import Source
from sfumato._request.accepted_risks import BREACH_LIMIT, Accepted
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram, compute_margins
from sfumato._request.requirements import BreachBound, PrivacySpec
from sfumato._request.schema import Merged, Role, Schema, explain_missing_column
from sfumato._request.warnings import CODES, Figure, Notice
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import KNOWN_SHARE, run_attack_scenarios
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.planned_exposure import Target, make_targets, measure_predictions, run_planned_attacks
from sfumato._risk.attackers.predictive_columns import ColumnPrediction, check_telling, count_disclosed_records
from sfumato._risk.attackers.publication_gates import check_breaches, check_lifted, measure_breaches
from sfumato._verify.plan_checks import check_cells, check_parts
from sfumato.errors import (
    InfeasibleError,
    MissingCapabilityError,
    SchemaError,
    SpecError,
)
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.capabilities import AttackModel, ErrorPrediction, PlanExplanation

MANY_ALONE = 0.05
"""From this share on it is worth a notice that records are alone with their public columns."""
WORTH_SAYING = 0.001
"""Fewer records are told by single values of a column by chance."""


@dataclass(frozen=True)
class Request:
    """What the holder asks for: a table with its roles, a bound, and how to meet it."""

    table: Any = field(repr=False)
    """Not shown: a frame holds values, and an address may hold a password."""
    _: KW_ONLY
    schema: Schema
    spec: PrivacySpec
    """For a person with as many rows as the schema allows."""
    mechanism: str = AUTO
    guarantee: str | None = None
    """`any-prior`, `marginal-prior`, or None: what the named mechanism gives, and any-prior if none is named."""
    read: ReadOptions = AS_USUAL
    """How the table is read."""
    options: Mapping[str, Any] = field(default_factory=lambda: NO_OPTIONS)
    """The options of a mechanism, by its name; what several share holds for all that may be taken."""
    breach_limit: Fraction = BREACH_LIMIT
    """The largest share of records that a public column may breach under a marginal prior."""
    accept_marginal_prior: bool = False
    """Go on whatever public columns breach."""
    accept_telling: tuple[str, ...] = ()
    """Go on with these public columns, whatever they tell."""
    accept_exposure: bool = False
    """Go on whatever public columns add to a release whose promise holds without them."""

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
        object.__setattr__(self, "spec", self.spec.for_rows(self.schema.person_rows.most))
        options = add_shared_options(self.options, [REGISTRY[name] for name in self.family])
        object.__setattr__(self, "options", options)
        self.schema.check_missing(self.read.missing)
        if not 0 <= self.breach_limit <= 1:
            raise SpecError(f"the breach limit is {self.breach_limit}, and must be a share between 0 and 1.")

    @property
    def accepted(self) -> Accepted:
        """What the holder goes on with in spite of a warning."""
        return Accepted(self.accept_telling, self.accept_exposure, self.accept_marginal_prior)

    @property
    def family(self) -> list[str]:
        """The mechanisms that may be taken: the named one, or all that meet the request."""
        if self.mechanism != AUTO:
            return [self.mechanism] if self.mechanism in REGISTRY else []
        ours = (mechanism for name, mechanism in REGISTRY.items() if name not in REGISTRY.added)
        return [mechanism.name for mechanism in ours if isinstance(self.spec, mechanism.accepted_requests)]

    def remembered(self) -> RequestRecord:
        """What a plan file remembers of the request: enough to tell whether another one is the same."""
        hierarchies = self.schema.hierarchies
        schema = {
            "roles": {name: role.value for name, role in sorted(self.schema.roles.items())},
            "domains": {name: [to_json(value) for value in values] for name, values in self.schema.domains.items()},
            "bins": {name: list(bins.edges) for name, bins in self.schema.bins.items()},
            "nulls": self.schema.nulls.value,
            "text": sorted(self.read.text),
            "encoding": self.read.encoding,
            **(
                {"hierarchies": {name: hierarchy.to_json() for name, hierarchy in hierarchies.items()}}
                if hierarchies
                else {}
            ),
            **({"publish_at": dict(self.schema.publish_at)} if self.schema.publish_at else {}),
            **({"missing": sorted(self.read.missing)} if self.read.missing else {}),
            **({} if self.read.decimal == POINT else {"decimal": self.read.decimal}),
            **({"compound": list(self.schema.compound)} if self.schema.compound else {}),
            **({} if self.schema.person_rows.is_plain else {"person_rows": self.schema.person_rows.to_json()}),
            **({"accept_telling": sorted(self.accept_telling)} if self.accept_telling else {}),
            **({"accept_exposure": True} if self.accept_exposure else {}),
        }
        return RequestRecord(
            {
                "mechanism": self.mechanism,
                "guarantee": None if self.guarantee == find_usual_guarantee(self.mechanism) else self.guarantee,
                **self.spec.to_json(),
                "schema": compute_json_digest(schema),
            },
            {name: options_json(self.options.get(name) or REGISTRY[name].options()) for name in self.family},
        )


@dataclass(frozen=True)
class Outlook:
    """What would be published, and what the holder should know before: secret."""

    chosen: Chosen
    exposures: tuple[Attack, ...]
    """What somebody believes who knows public columns, without the release and with it."""
    uniqueness: Uniqueness | None
    """How many records are alone with their public columns; None where there is no table."""
    notices: tuple[Notice, ...]
    tellings: tuple[ColumnPrediction, ...] = field(default=(), repr=False)
    """How well what is protected is guessed from public columns."""
    gains: tuple[Gain, ...] = ()
    """What publishing at each level of the hierarchy would gain, for a plan."""


def open_table(request: Request, folder: Path, engine: Engine) -> Source:
    """Open the table of a request; a stream that can be read only once is spooled into the folder."""
    text = (*request.read.text, *request.schema.domains)  # whose types are not for the values of a CSV file to tell
    source = open_source(
        request.table,
        folder / "spool",
        read=replace(request.read, text=text),
        told=lambda rows: engine.progress("reading", rows, None),
    )
    if unknown := next((name for name in request.read.text if name not in source.schema.names), None):
        raise SchemaError(explain_missing_column(unknown, source.schema.names))
    return source


def survey_table(  # noqa: PLR0913 - what is asked, and where it is read
    request: Request, source: Source, engine: Engine, folder: Path, draws: Draws, *, keeps: bool = False
) -> tuple[Request, Survey]:
    """Read the table once; and once more with rare values merged, if a mechanism was asked to and there are any.

    If the rows will be needed again, what was read may be kept for that (`keeps`).
    """
    several = [REGISTRY[name].several_columns for name in request.family]
    most = max((merged_values.max_combinations for merged_values in several if merged_values is not None), default=0)
    read = partial(
        survey,
        source=source,
        engine=engine,
        folder=folder,
        draws=draws,
        text=request.read.text,
        most_combinations=most,
        keeps=keeps,
    )
    names = source.schema.names
    for name in request.accept_telling:  # what is not published leaves no trace, and could tell nothing either
        if name not in names:
            raise SchemaError(explain_missing_column(name, names))
        if request.schema.role(name) is not Role.PUBLIC:
            raise SchemaError(f"column {name!r} is not public, so there is nothing to accept; leave it out of that.")
    table_survey = read(request.schema)
    histogram, sensitive = table_survey.histogram, table_survey.sensitive
    columns: dict[str, tuple[tuple[Value, ...], tuple[int, ...]]] = {
        sensitive.name: (histogram.values, histogram.counts)
    }
    if sensitive.is_independent:
        pairs = zip(sensitive.parts, compute_margins(histogram.counts, sensitive.sizes), strict=True)
        columns = {part.name: (part.domain, tuple(counts.tolist())) for part, counts in pairs}
    merged: dict[str, Merged] = {}
    for name in request.family:
        mechanism, options = REGISTRY[name], request.options.get(name)
        spec = mechanism.adapt_request(request.spec)
        if options is not None and spec is not None and mechanism.coarsening is not None:
            merged |= mechanism.coarsening.merge_rare_values(columns, spec, options)
    if not merged:
        return request, table_survey
    request = replace(request, schema=merge_in_schema(request.schema, merged, table_survey.columns))
    again = read(request.schema)
    merge_notices = [
        Notice(
            "rare-values-merged",
            f"{len(merged_values.values)} rare values of {name!r} are published as {display(merged_values.label)!r}.",
            name,
            {"values": len(merged_values.values)},
        )
        for name, merged_values in merged.items()
    ]
    return request, replace(again, notices=(*again.notices, *merge_notices))


def plan(request: Request, engine: Engine | None = None) -> Outlook:
    """What would be published, and what the holder should know; nothing stays behind."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, draws = Path(name), Draws.secret()
        engine = engine or choose_engine(request.table)
        request, table_survey = survey_table(request, open_table(request, folder, engine), engine, folder, draws)
        plan_outlook = make_outlook(request, table_survey, draws, rivals=True)
    how, guarantee, options = request.mechanism, request.guarantee, request.options
    again = partial(choose, spec=request.spec, draws=draws, mechanism=how, guarantee=guarantee, options=options)
    plan_outlook = replace(plan_outlook, gains=compute_gains(plan_outlook.chosen, again))
    try:
        check_publishable(request, table_survey, plan_outlook)
    except (InfeasibleError, MissingCapabilityError) as error:
        return replace(
            plan_outlook, notices=(*plan_outlook.notices, Notice("would-be-refused", f"publishing would stop: {error}"))
        )
    return plan_outlook


def attack_plan(
    request: Request,
    engine: Engine | None = None,
    *,
    second: bool = False,
    known_share: float = KNOWN_SHARE,
    seed: int | None = None,
) -> tuple[Attack, ...]:
    """All attackers, on a release that could be of this request: for whoever compares requests. Nothing is published.

    What records show is drawn with a key that is thrown away, or by a seed, so that it can be repeated; with `second`,
    somebody also has a second release of the same people.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, draws = Path(name), make_draws(seed)
        engine = engine or choose_engine(request.table)
        request, table_survey = survey_table(request, open_table(request, folder, engine), engine, folder, draws)
    histogram, how, options = table_survey.histogram, request.mechanism, request.options
    chosen = choose(histogram, request.spec, draws, how, guarantee=request.guarantee, options=options)
    aims = make_targets(table_survey.sample, table_survey.sensitive, request.spec.resolved(table_survey.histogram))
    scenes = make_planned_setups(chosen, table_survey.sample, table_survey.sensitive, aims, seed)
    others: list[AttackSetup | None] = [None] * len(scenes)
    if second:
        others = [
            *make_planned_setups(
                chosen, table_survey.sample, table_survey.sensitive, aims, None if seed is None else seed + 1
            )
        ]
    pairs = zip(scenes, others, strict=True)
    return tuple(
        attack for scene, again in pairs for attack in run_attack_scenarios(scene, again, known_share=known_share)
    )


def plan_counts(
    histogram: Histogram,
    spec: PrivacySpec,
    mechanism: str = AUTO,
    *,
    guarantee: str | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Outlook:
    """The same from counts alone, of which nothing is known but what a plan looks at."""
    planned = partial(
        choose, spec=spec, draws=Draws.secret(), mechanism=mechanism, guarantee=guarantee, options=options
    )
    chosen = planned(histogram, rivals=True)
    notices = tuple(plan_notices(chosen, spec, "value"))
    return Outlook(chosen, (), None, notices, gains=compute_gains(chosen, planned))


def make_outlook(
    request: Request, table_survey: Survey, draws: Draws, mechanism: str | None = None, *, rivals: bool = False
) -> Outlook:
    """Choose a plan, and look at what it leaves open; with a mechanism that was chosen before, if that is repeated."""
    options = request.options
    if mechanism is not None:  # options that were given for other mechanisms have had no effect
        options = {name: option_values for name, option_values in options.items() if name == mechanism}
    chosen = choose(
        table_survey.histogram,
        request.spec,
        draws,
        mechanism or request.mechanism,
        guarantee=request.guarantee,
        options=options,
        rivals=rivals,
    )
    aims = make_targets(table_survey.sample, table_survey.sensitive, request.spec.resolved(table_survey.histogram))
    predictors = measure_predictions(aims, request.accept_telling)
    notices = [
        *list_column_notices(request, table_survey, aims, predictors),
        *plan_notices(chosen, request.spec, request.schema.sensitive),
    ]
    exposures = run_planned_attacks(chosen, table_survey.sample, table_survey.sensitive, aims)
    return Outlook(chosen, exposures, table_survey.uniqueness, (*table_survey.notices, *notices), tuple(predictors))


def list_column_notices(
    request: Request, table_survey: Survey, aims: Sequence[Target], told: Sequence[ColumnPrediction]
) -> list[Notice]:
    """What the holder should know of public columns that tell something, and do not stop the publication."""
    notices, sample, bound = [], table_survey.sample, request.spec.bound
    if (alone := table_survey.uniqueness.after.alone) >= MANY_ALONE:
        sentence = (
            f"{alone:.1%} of the records are alone with their public columns, so whoever knows these finds the person; "
            "put columns into wider ranges (--bins), or leave some out (--drop)."
        )
        notices.append(Notice("records-alone", sentence, None, {"share": alone}))
    if not sample.is_whole:
        sentence = (
            f"what public columns tell was looked at for {sample.records:,} of {sample.total:,} records, drawn by key."
        )
        notices.append(Notice("records-sampled", sentence, None, {"records": sample.records, "total": sample.total}))
    for predictor in told:
        if predictor.is_telling and predictor.columns[0] in request.accept_telling:
            numbers: dict[str, Figure] = {"guessed": predictor.right, "blindly": predictor.blindly}
            notices.append(
                Notice("telling-column", f"{predictor.words}; this was accepted.", predictor.columns[0], numbers)
            )
        elif predictor.is_coarser and not predictor.is_telling and predictor.columns[0] not in request.accept_telling:
            sentence = (
                f"public column {predictor.columns[0]!r} is a coarser form of {predictor.about!r}, and tells that "
                f"much of everybody's value for certain; leave it out (--drop {shlex.quote(predictor.columns[0])})."
            )
            notices.append(Notice("coarser-column", sentence, predictor.columns[0]))
    if bound is None:
        return notices
    for target in aims:
        for name, codes in sample.columns.items():
            lifted = count_disclosed_records(
                codes, target.held, target.size, float(bound.prior), float(bound.posterior)
            )
            share = lifted / sample.records
            if share >= WORTH_SAYING and name not in request.accept_telling:
                sentence = (
                    f"public column {name!r} tells the {target.name!r} of {share:.1%} of the records: among those with "
                    f"the same {name!r}, a value that is rare in the table (at most {bound.prior}) has more than "
                    f"{bound.posterior}; drop or coarsen the column."
                )
                notices.append(Notice("telling-groups", sentence, name, {"records": lifted, "share": share}))
    return notices


def plan_notices(chosen: Chosen, spec: PrivacySpec, column: str) -> list[Notice]:
    """What the holder should know of the chosen plan; a mechanism does not know the name of the column."""
    notices = [Notice("mechanism-chosen", chosen.reason)] if chosen.reason and chosen.others else []
    if spec.bound is not None and chosen.mechanism.guarantee is Guarantee.ANY_PRIOR:
        notices += warn_of_frequent_values(chosen.histogram, spec.bound, column)
        notices += [] if spec.rows == 1 else [_make_shared_bound_notice(chosen, spec.bound)]
    for capability in (ErrorPrediction, PlanExplanation, AttackModel):
        try:
            chosen.mechanism.require(capability)
        except MissingCapabilityError as error:
            notices.append(Notice("capability-missing", str(error), None, {"capability": error.capability}))
    return [*notices, *(replace(remark, column=column) for remark in chosen.remarks)]


def _make_shared_bound_notice(chosen: Chosen, bound: BreachBound) -> Notice:
    """What it costs that the rows of a person share the bound."""
    even = [
        compute_even_error(chosen.mechanism, row_bound, chosen.mechanism.options(), Draws.secret(), chosen.histogram)
        for row_bound in (bound, bound.for_rows(1))
    ]
    factor = (even[0] or math.inf) / (even[1] or math.inf)
    sentence = (
        f"up to {bound.rows} rows of a person share the bound: a row multiplies odds by at most "
        f"{float(bound.amplification):.3f} instead of {float(bound.whole):.3f}, and the error of a count is "
        f"{factor:.1f} times that of one row a person. What public columns tell is shown for each row alone; whoever "
        "puts the rows of a person together learns more, up to the whole."
    )
    return Notice("shared-bound", sentence, None, {"rows": bound.rows, "error_factor": factor})


def notice_codes() -> tuple[str, ...]:
    """The code of every notice that there can be, those of the mechanisms' remarks after the others."""
    explanations = [item.explanation for item in REGISTRY.values() if item.explanation is not None]
    return tuple(dict.fromkeys((*CODES, *(code for item in explanations for code in item.remark_codes))))


def check_publishable(request: Request, table_survey: Survey, seen: Outlook) -> None:
    """Refuse what nobody could count in, and what would protect less than it seems to."""
    chosen = seen.chosen
    chosen.mechanism.plan_rules.check_countable(chosen.plan)
    check_cells(chosen, request.spec)
    if request.schema.compound and not chosen.mechanism.covers_predicates:
        check_parts(chosen, request.spec, request.schema.compound)
    check_telling([predictor for predictor in seen.tellings if predictor.columns[0] not in request.accept_telling])
    if not request.accept_exposure:
        check_lifted(seen.exposures, chosen.mechanism)
    if chosen.mechanism.guarantee is Guarantee.MARGINAL_PRIOR and not request.accept_marginal_prior:
        check_breaches(measure_breaches(chosen, table_survey.sample), request.breach_limit)
