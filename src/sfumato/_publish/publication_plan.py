"""Plans the publication of a request: the design, the remaining risks, and the reasons to refuse the request."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato._core.cell_values import Value, display
from sfumato._core.option_fields import OptionValues
from sfumato._core.random_draws import Draws
from sfumato._document.document import Document
from sfumato._engines.engine import Engine
from sfumato._engines.spark_engine import choose_engine
from sfumato._planning.grouping_gains import GroupingGain, compute_gains
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS, choose
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.column_checks import merge_in_schema
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._profile.recoding_search import (
    LEAST_UNIQUE_SHARE,
    RecodingProposals,
    list_public_columns,
    search_recodings,
)
from sfumato._profile.table_scan import TableScan, scan_table
from sfumato._publish.coarse_tables import measure_coarse_tables
from sfumato._publish.plan_notices import list_column_notices, list_crowd_notices, list_plan_notices
from sfumato._publish.planned_columns import PlannedColumn, list_planned_columns
from sfumato._publish.planning_draws import choose_planning_draws
from sfumato._publish.publication_stops import (
    has_unique_records,
    list_mechanism_stops,
    list_table_stops,
    list_undecided_stops,
)
from sfumato._publish.request import Request
from sfumato._readers.open_table import open_source
from sfumato._readers.sources import Source
from sfumato._release.description import Description
from sfumato._request.accepted_risks import NO_ACCEPTED_RISKS, AcceptedRisks
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.histogram import Histogram, compute_margins
from sfumato._request.named_columns import check_named_columns, find_matches
from sfumato._request.schema import MergedValues, Role
from sfumato._request.stated_context import StatedContext
from sfumato._request.warnings import REFUSED_CODE, Grade, Notice
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import KNOWN_SHARE, run_attack_scenarios
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.attack_target import make_part_targets, make_targets
from sfumato._risk.attackers.planned_exposure import measure_predictions, run_planned_attacks
from sfumato._risk.attackers.predictive_columns import (
    ColumnPrediction,
)
from sfumato._verify.prepublication_checks import check_parts, check_sub_tables
from sfumato.errors import (
    DecisionError,
    InfeasibleError,
    MissingCapabilityError,
    SchemaError,
)
from sfumato.mechanisms import REGISTRY

if TYPE_CHECKING:  # it builds releases, which need plans
    from sfumato._publish.planned_answers import PlannedAnswer


@dataclass(frozen=True)
class PublicationPlan:
    """The planned publication, with advice for the data steward. Secret."""

    choice: ChosenMechanism
    exposures: tuple[Attack, ...]
    """An attacker's confidence from public columns, without and with the release."""
    uniqueness: Uniqueness | None
    """The shares of unique records. None without a table."""
    notices: tuple[Notice, ...]
    column_predictions: tuple[ColumnPrediction, ...] = field(default=(), repr=False)
    """The success of guessing the sensitive columns from public columns alone."""
    gains: tuple[GroupingGain, ...] = ()
    """The gain from publishing at each level of the hierarchy."""
    recodings: RecodingProposals | None = None
    """Changes to public columns that make fewer records unique. None if few records are unique, or without a search."""
    spec: PrivacySpec | None = None
    """The privacy requirement."""
    column: str = "value"
    """The name of the protected column."""
    answers: tuple[PlannedAnswer, ...] = ()
    """The data steward's questions, with their true numbers and the standard errors in a simulated release."""
    columns: tuple[PlannedColumn, ...] = ()
    """The columns of the table, with their treatment."""
    accepted_risks: AcceptedRisks = NO_ACCEPTED_RISKS
    """The stops that the request accepts."""
    request_digest: str = ""
    """The digest of the request. Empty without a table."""

    @property
    def stops(self) -> tuple[Notice, ...]:
        """The decisions that the data steward must make before the table can be published."""
        return tuple(notice for notice in self.notices if notice.grade is Grade.STOP and notice.code != REFUSED_CODE)

    def document(self) -> Document:
        """Makes the document of the plan. Private."""
        from sfumato._publish.plan_document import make_plan_document  # noqa: PLC0415 - a cycle

        return make_plan_document(self)

    def decision_sheet(
        self,
        context: str | Path | None = None,
        describe: Description | str | Path | None = None,
        decider: str | None = None,
    ) -> Document:
        """Makes one A4 page for the person who decides and signs. Private.

        `context` is a TOML file of statements that only a person can make. Missing statements are left blank.
        `describe` is the description of the release, or a TOML file.
        """
        from sfumato._publish.decision_sheet import make_decision_sheet  # noqa: PLC0415 - a cycle

        stated_context = None
        if context is not None:
            stated_context = StatedContext.read(Path(context), [column.name for column in self.columns])
        description = describe if isinstance(describe, Description) else Description.read_optional(describe)
        return make_decision_sheet(self, stated_context, description, decider)


def open_table(request: Request, folder: Path, engine: Engine) -> Source:
    """Open the table of a request. A stream that can be read only once is written to the folder."""
    request.check_single_columns()
    text = (*request.read.text, *request.schema.domains)  # their types do not depend on the values of a CSV file
    source = open_source(
        request.table,
        folder / "spool",
        read=replace(request.read, text=text),
        row_progress=lambda rows: engine.progress("reading", rows, None),
    )
    check_named_columns((("text", name) for name in request.read.text), source.schema.names)
    return source


def decide_columns(request: Request, names: Sequence[str]) -> Request:
    """The request with a role for every column that a name with `*` matches. The accepted columns are checked."""
    request = replace(request, schema=request.schema.resolve_patterns(names))
    for accepted in request.accept_disclosing:  # a column that is not published needs no acceptance
        matches = find_matches(accepted, names)
        if not matches:
            check_named_columns([("accept_disclosing", accepted)], names)
        if not any(request.schema.get_role(name) in (Role.PUBLIC, Role.UNDECIDED) for name in matches):
            raise SchemaError(
                f"column {accepted!r} is not public, so there is nothing to accept; take it out of "
                "`accept_disclosing=`.",
                code="accepted-column-not-public",
                fields={"column": accepted},
            )
    return request


def survey_table(  # noqa: PLR0913 - the request and its source
    request: Request, source: Source, engine: Engine, folder: Path, draws: Draws, *, keeps: bool = False
) -> tuple[Request, TableScan]:
    """Read the table once.

    If a mechanism merges rare values and the table has rare values, read the table again with merged values. With
    `keeps`, the rows may be cached for the next reading.
    """
    several_columns = [REGISTRY[name].several_columns for name in request.mechanism_names]
    max_combinations = max(
        (merged_values.max_combinations for merged_values in several_columns if merged_values is not None), default=0
    )
    run_survey = partial(
        scan_table,
        source=source,
        engine=engine,
        folder=folder,
        draws=draws,
        text=request.read.text,
        most_combinations=max_combinations,
        is_cached=keeps,
    )
    request = decide_columns(request, source.schema.names)
    table_survey = run_survey(request.schema)
    histogram, sensitive = table_survey.histogram, table_survey.sensitive
    columns: dict[str, tuple[tuple[Value, ...], tuple[int, ...]]] = {
        sensitive.name: (histogram.values, histogram.counts)
    }
    if sensitive.is_independent:
        pairs = zip(sensitive.parts, compute_margins(histogram.counts, sensitive.sizes), strict=True)
        columns = {part.name: (part.domain, tuple(counts.tolist())) for part, counts in pairs}
    merged_by_column: dict[str, MergedValues] = {}
    for name in request.mechanism_names:
        mechanism, options = REGISTRY[name], request.options.get(name)
        spec = mechanism.adapt_request(request.spec)
        if options is not None and spec is not None and mechanism.coarsening is not None:
            merged_by_column |= mechanism.coarsening.merge_rare_values(columns, spec, options)
    if not merged_by_column:
        return request, table_survey
    request = replace(request, schema=merge_in_schema(request.schema, merged_by_column, table_survey.columns))
    merged_survey = run_survey(request.schema)
    merge_notices = [
        Notice(
            "rare-values-merged",
            f"{len(merged_values.values)} rare values of {name!r} are published as {display(merged_values.label)!r}.",
            name,
            {"values": len(merged_values.values)},
        )
        for name, merged_values in merged_by_column.items()
    ]
    return request, replace(merged_survey, notices=(*merged_survey.notices, *merge_notices))


def plan(
    request: Request,
    engine: Engine | None = None,
    *,
    plan_file: str | Path | None = None,
    questions: Sequence[str] | str | Path = (),
) -> PublicationPlan:
    """Plan a publication, with advice for the data steward. Nothing is written.

    With the plan file of an earlier publication, its key is used, and the plan shows the repeated release. If there is
    no plan file yet, random choices use a fixed key for planning only, so the same request gives the same plan.
    `questions` are SQL questions, or the name of a file of questions. Each is answered from the table, with the
    standard error from one simulated release.
    """
    from sfumato._publish.planned_answers import answer_before_publishing, list_questions  # noqa: PLC0415 - a cycle

    numbered_questions = list_questions(questions)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, engine = Path(name), engine or choose_engine(request.table)
        source, keeps = open_table(request, folder, engine), bool(numbered_questions)
        draws, repeated_plan = choose_planning_draws(request, source, engine, plan_file)
        digest, columns = request.digest, list_planned_columns(request.schema, source.schema.names)
        request, table_survey = survey_table(request, source, engine, folder, draws, keeps=keeps)
        repeated_mechanism = None if repeated_plan is None else repeated_plan.mechanism
        publication_plan = make_publication_plan(request, table_survey, draws, repeated_mechanism, rivals=True)
        answers = answer_before_publishing(
            numbered_questions,
            request,
            table_survey,
            publication_plan.choice,
            draws=Draws.for_planning(),
            engine=engine,
            folder=folder,
        )
    if repeated_plan is not None:
        repeated_plan.check_plan(publication_plan.choice.digest)
    choose_again = partial(
        choose,
        spec=request.spec,
        draws=draws,
        mechanism=repeated_mechanism or request.mechanism,
        guarantee=request.guarantee,
        options=_select_options(request, repeated_mechanism),
        records=request.records,
    )
    gains = compute_gains(publication_plan.choice, choose_again)
    publication_plan = replace(
        publication_plan,
        gains=gains,
        answers=answers,
        columns=columns,
        accepted_risks=request.accepted_risks,
        request_digest=digest,
    )
    try:
        check_publishable(request, publication_plan)
    except DecisionError:
        return publication_plan  # its notices have the stops
    except (InfeasibleError, MissingCapabilityError) as error:
        return replace(
            publication_plan,
            notices=(*publication_plan.notices, Notice("would-be-refused", f"publishing would stop: {error}")),
        )
    return publication_plan


def propose_recodings(request: Request, table_survey: TableScan) -> RecodingProposals | None:
    """Search changes to public columns, if many records are unique on them."""
    if table_survey.uniqueness.after_bins.unique_share <= LEAST_UNIQUE_SHARE:
        return None
    public_columns = list_public_columns(table_survey.columns, table_survey.sample.columns, request.schema)
    return search_recodings(public_columns, request.schema.person_rows.max_rows)


def attack_plan(
    request: Request,
    engine: Engine | None = None,
    *,
    second: bool = False,
    known_share: float = KNOWN_SHARE,
    seed: int | None = None,
) -> tuple[Attack, ...]:
    """Simulate a release of this request, and run all attacks on the simulated release. Nothing is published.

    Published values are drawn with a discarded key, or with a seed if the attacks must be repeatable. With `second`,
    the attacker also has a second release of the same people.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, draws = Path(name), make_draws(seed)
        engine = engine or choose_engine(request.table)
        request, table_survey = survey_table(request, open_table(request, folder, engine), engine, folder, draws)
    mechanism_name, options = request.mechanism, request.options
    histogram = measure_coarse_tables(request, table_survey)
    chosen = choose(
        histogram,
        request.spec,
        draws,
        mechanism_name,
        guarantee=request.guarantee,
        options=options,
        records=request.records,
    )
    targets = make_targets(table_survey.sample, table_survey.sensitive, request.spec.resolve(table_survey.histogram))
    setups = make_planned_setups(chosen, table_survey.sample, table_survey.sensitive, targets, seed)
    second_setups: list[AttackSetup | None] = [None] * len(setups)
    if second:
        second_setups = [
            *make_planned_setups(
                chosen, table_survey.sample, table_survey.sensitive, targets, None if seed is None else seed + 1
            )
        ]
    pairs = zip(setups, second_setups, strict=True)
    return tuple(
        attack
        for setup, second_setup in pairs
        for attack in run_attack_scenarios(setup, second_setup, known_share=known_share)
    )


def plan_counts(  # noqa: PLR0913 - a request has this many parts
    histogram: Histogram,
    spec: PrivacySpec,
    mechanism: str = AUTO,
    *,
    column: str = "value",
    guarantee: str | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> PublicationPlan:
    """Plan from counts alone, without the table."""
    draws = Draws.for_planning()
    choose_plan = partial(choose, spec=spec, draws=draws, mechanism=mechanism, guarantee=guarantee, options=options)
    chosen = choose_plan(histogram, rivals=True)
    notices = tuple(list_plan_notices(chosen, spec, column))
    gains = compute_gains(chosen, choose_plan)
    return PublicationPlan(chosen, (), None, notices, gains=gains, spec=spec, column=column)


def make_publication_plan(
    request: Request, table_survey: TableScan, draws: Draws, mechanism: str | None = None, *, rivals: bool = False
) -> PublicationPlan:
    """Choose a plan, and analyse its risks. If a release is repeated, its mechanism is used."""
    chosen = choose(
        measure_coarse_tables(request, table_survey),
        request.spec,
        draws,
        mechanism or request.mechanism,
        guarantee=request.guarantee,
        options=_select_options(request, mechanism),
        rivals=rivals,
        records=request.records,
    )
    targets = make_targets(table_survey.sample, table_survey.sensitive, request.spec.resolve(table_survey.histogram))
    accepted = [column.name for column in table_survey.columns if request.accepted_risks.accepts_column(column.name)]
    disclosed_targets = [*targets, *make_part_targets(table_survey.sample, table_survey.sensitive)]
    column_predictions = measure_predictions(disclosed_targets, accepted)
    exposures = run_planned_attacks(chosen, table_survey.sample, table_survey.sensitive, targets, draws)
    needs_recodings = rivals or has_unique_records(request, table_survey)
    recodings = propose_recodings(request, table_survey) if needs_recodings else None
    notices = [
        *(stops := list_table_stops(request, table_survey, disclosed_targets, column_predictions, recodings)),
        *list_mechanism_stops(request, table_survey, chosen, exposures),
        *list_column_notices(request, table_survey, targets, column_predictions, stops),
        *list_plan_notices(chosen, request.spec, request.schema.sensitive_name),
        *list_crowd_notices(chosen, table_survey, request.schema.sensitive_name),
    ]
    return PublicationPlan(
        chosen,
        exposures,
        table_survey.uniqueness,
        (*table_survey.notices, *notices),
        tuple(column_predictions),
        recodings=recodings,
        spec=request.spec,
        column=request.schema.sensitive_name,
    )


def _select_options(request: Request, repeated_mechanism: str | None) -> OptionValues:
    """The options of the request. If a release is repeated, only the options of its mechanism are used."""
    if repeated_mechanism is None:
        return request.options
    return {name: values for name, values in request.options.items() if name == repeated_mechanism}


def check_decided(request: Request, names: Sequence[str]) -> None:
    """Refuse columns without a role, before the table is read."""
    if stops := list_undecided_stops(decide_columns(request, names), names):
        raise DecisionError(stops)


def check_publishable(request: Request, publication_plan: PublicationPlan) -> None:
    """Refuse plans that allow no useful count, and plans that protect less than they seem to."""
    chosen = publication_plan.choice
    chosen.mechanism.plan_rules.check_countable(chosen.plan)
    check_sub_tables(chosen, request.spec)
    if request.schema.compound and not chosen.mechanism.covers_predicates:
        check_parts(chosen, request.spec, request.schema.compound)
    if stops := publication_plan.stops:
        raise DecisionError(stops)
