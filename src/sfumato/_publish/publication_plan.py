"""Plans the publication of a request: the design, the remaining risks, and the reasons to refuse it."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from sfumato._core.cell_values import Value, display
from sfumato._core.random_draws import Draws
from sfumato._document.document import Document
from sfumato._engines.engine import Engine
from sfumato._engines.spark_engine import choose_engine
from sfumato._planning.grouping_gains import GroupingGain, compute_gains
from sfumato._planning.mechanism_choice import AUTO, NO_OPTIONS, choose
from sfumato._planning.predicted_error import ChosenMechanism, compute_even_error
from sfumato._profile.column_checks import merge_in_schema
from sfumato._profile.equivalence_classes import Uniqueness
from sfumato._profile.table_scan import TableScan, scan_table
from sfumato._profile.table_warnings import warn_of_frequent_values
from sfumato._publish.request import Request
from sfumato._readers.open_table import open_source
from sfumato._readers.sources import Source
from sfumato._request.belief_bounds import BreachBound, PrivacySpec
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram, compute_margins
from sfumato._request.schema import MergedValues, Role, check_named_columns
from sfumato._request.warnings import NOTICE_CODES, Notice, NoticeNumber
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_scenarios import KNOWN_SHARE, run_attack_scenarios
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, make_planned_setups
from sfumato._risk.attackers.attack_target import Target, make_targets
from sfumato._risk.attackers.planned_exposure import measure_predictions, run_planned_attacks
from sfumato._risk.attackers.predictive_columns import (
    ColumnPrediction,
    check_predictive_columns,
    count_disclosed_records,
)
from sfumato._risk.attackers.publication_gates import check_breaches, check_lifted_records, measure_breaches
from sfumato._verify.prepublication_checks import check_parts, check_sub_tables
from sfumato.errors import (
    InfeasibleError,
    MissingCapabilityError,
    SchemaError,
)
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.capabilities import AttackModel, ErrorPrediction, PlanExplanation

NOTABLE_UNIQUE_SHARE = 0.05
"""The share of unique records from which a notice is given."""
NOTABLE_DISCLOSED_SHARE = 0.001
"""A smaller share of disclosed records may occur by chance."""


@dataclass(frozen=True)
class PublicationPlan:
    """The planned publication, with advice for the data steward. Secret."""

    choice: ChosenMechanism
    exposures: tuple[Attack, ...]
    """An attacker's confidence from public columns, without the release and with it."""
    uniqueness: Uniqueness | None
    """The shares of unique records; None without a table."""
    notices: tuple[Notice, ...]
    column_predictions: tuple[ColumnPrediction, ...] = field(default=(), repr=False)
    """The success of guessing the sensitive columns from public columns."""
    gains: tuple[GroupingGain, ...] = ()
    """The gain of publishing at each level of the hierarchy, for a plan."""
    spec: PrivacySpec | None = None
    """The privacy requirement."""
    column: str = "value"
    """The name of the protected column."""

    def document(self) -> Document:
        """Makes the document of the plan. Private."""
        from sfumato._publish.plan_document import make_plan_document  # noqa: PLC0415 - a cycle

        return make_plan_document(self)


def open_table(request: Request, folder: Path, engine: Engine) -> Source:
    """Open the table of a request; a stream that can be read only once is written to the folder."""
    text = (*request.read.text, *request.schema.domains)  # their types do not depend on the values of a CSV file
    source = open_source(
        request.table,
        folder / "spool",
        read=replace(request.read, text=text),
        row_progress=lambda rows: engine.progress("reading", rows, None),
    )
    check_named_columns((("text", name) for name in request.read.text), source.schema.names)
    return source


def survey_table(  # noqa: PLR0913 - the request, and where it is read
    request: Request, source: Source, engine: Engine, folder: Path, draws: Draws, *, keeps: bool = False
) -> tuple[Request, TableScan]:
    """Read the table once; and once more with rare values merged, if a mechanism merges them and there are any.

    With `keeps`, the rows may be cached, because they will be needed again.
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
    names = source.schema.names
    for name in request.accept_disclosing:  # a column that is not published needs no acceptance
        check_named_columns([("accept_disclosing", name)], names)
        if request.schema.get_role(name) is not Role.PUBLIC:
            raise SchemaError(
                f"column {name!r} is not public, so there is nothing to accept; remove it from the accepted columns."
            )
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


def plan(request: Request, engine: Engine | None = None) -> PublicationPlan:
    """Plan a publication, with advice for the data steward; nothing is written."""
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, draws = Path(name), Draws.from_fresh_key()
        engine = engine or choose_engine(request.table)
        request, table_survey = survey_table(request, open_table(request, folder, engine), engine, folder, draws)
        publication_plan = make_publication_plan(request, table_survey, draws, rivals=True)
    mechanism_name, guarantee, options = request.mechanism, request.guarantee, request.options
    choose_again = partial(
        choose, spec=request.spec, draws=draws, mechanism=mechanism_name, guarantee=guarantee, options=options
    )
    publication_plan = replace(publication_plan, gains=compute_gains(publication_plan.choice, choose_again))
    try:
        check_publishable(request, table_survey, publication_plan)
    except (InfeasibleError, MissingCapabilityError) as error:
        return replace(
            publication_plan,
            notices=(*publication_plan.notices, Notice("would-be-refused", f"publishing would stop: {error}")),
        )
    return publication_plan


def attack_plan(
    request: Request,
    engine: Engine | None = None,
    *,
    second: bool = False,
    known_share: float = KNOWN_SHARE,
    seed: int | None = None,
) -> tuple[Attack, ...]:
    """Simulate a release of this request, and run all attacks on it, to compare requests. Nothing is published.

    Published values are drawn with a key that is discarded, or with a seed, to be repeatable. With `second`, the
    attacker also has a second release of the same people.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, draws = Path(name), make_draws(seed)
        engine = engine or choose_engine(request.table)
        request, table_survey = survey_table(request, open_table(request, folder, engine), engine, folder, draws)
    histogram, mechanism_name, options = table_survey.histogram, request.mechanism, request.options
    chosen = choose(histogram, request.spec, draws, mechanism_name, guarantee=request.guarantee, options=options)
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
    """Plan from counts alone; nothing else is known of the table."""
    choose_plan = partial(
        choose, spec=spec, draws=Draws.from_fresh_key(), mechanism=mechanism, guarantee=guarantee, options=options
    )
    chosen = choose_plan(histogram, rivals=True)
    notices = tuple(list_plan_notices(chosen, spec, column))
    gains = compute_gains(chosen, choose_plan)
    return PublicationPlan(chosen, (), None, notices, gains=gains, spec=spec, column=column)


def make_publication_plan(
    request: Request, table_survey: TableScan, draws: Draws, mechanism: str | None = None, *, rivals: bool = False
) -> PublicationPlan:
    """Choose a plan, and analyse its risks; use the given mechanism if a release is repeated."""
    options = request.options
    if mechanism is not None:  # options of other mechanisms have had no effect
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
    targets = make_targets(table_survey.sample, table_survey.sensitive, request.spec.resolve(table_survey.histogram))
    column_predictions = measure_predictions(targets, request.accept_disclosing)
    notices = [
        *list_column_notices(request, table_survey, targets, column_predictions),
        *list_plan_notices(chosen, request.spec, request.schema.sensitive_name),
    ]
    exposures = run_planned_attacks(chosen, table_survey.sample, table_survey.sensitive, targets)
    return PublicationPlan(
        chosen,
        exposures,
        table_survey.uniqueness,
        (*table_survey.notices, *notices),
        tuple(column_predictions),
        spec=request.spec,
        column=request.schema.sensitive_name,
    )


def list_column_notices(
    request: Request, table_survey: TableScan, targets: Sequence[Target], column_predictions: Sequence[ColumnPrediction]
) -> list[Notice]:
    """Notices about public columns that disclose something, but do not stop the publication."""
    notices, sample, bound = [], table_survey.sample, request.spec.bound
    if (unique_share := table_survey.uniqueness.after_bins.unique_share) >= NOTABLE_UNIQUE_SHARE:
        sentence = (
            f"{unique_share:.1%} of the records are unique on the public columns, so anyone who knows these "
            "columns can re-identify the person; use wider ranges (`ranges=`), or drop columns (`drop=`)."
        )
        notices.append(Notice("records-alone", sentence, None, {"share": unique_share}))
    if not sample.is_whole:
        sentence = (
            f"the risk of public columns was estimated on {sample.records:,} of {sample.total:,} records, a random "
            "sample."
        )
        notices.append(Notice("records-sampled", sentence, None, {"records": sample.records, "total": sample.total}))
    for predictor in column_predictions:
        if predictor.is_predictive and predictor.columns[0] in request.accept_disclosing:
            numbers: dict[str, NoticeNumber] = {"guessed": predictor.success, "blindly": predictor.blind_success}
            notices.append(
                Notice("telling-column", f"{predictor.sentence}; this was accepted.", predictor.columns[0], numbers)
            )
        elif (
            predictor.is_coarser
            and not predictor.is_predictive
            and predictor.columns[0] not in request.accept_disclosing
        ):
            sentence = (
                f"public column {predictor.columns[0]!r} is a coarser form of {predictor.protected_column!r}, so "
                "it discloses the group of every person's value with certainty; drop it "
                f"(`drop={[predictor.columns[0]]!r}`)."
            )
            notices.append(Notice("coarser-column", sentence, predictor.columns[0]))
    if bound is None:
        return notices
    for target in targets:
        for name, codes in sample.columns.items():
            disclosed_records = count_disclosed_records(
                codes, target.true_codes, target.size, float(bound.prior), float(bound.posterior)
            )
            share = disclosed_records / sample.records
            if share >= NOTABLE_DISCLOSED_SHARE and name not in request.accept_disclosing:
                sentence = (
                    f"public column {name!r} discloses the {target.name!r} of {share:.1%} of the records: among "
                    f"those with the same {name!r}, a value that is rare in the table (at most {bound.prior}) has "
                    f"a share above {bound.posterior}; drop or coarsen the column."
                )
                notices.append(Notice("telling-groups", sentence, name, {"records": disclosed_records, "share": share}))
    return notices


def list_plan_notices(chosen: ChosenMechanism, spec: PrivacySpec, column: str) -> list[Notice]:
    """Notices about the chosen plan; a mechanism does not know the name of the column."""
    notices = [Notice("mechanism-chosen", chosen.reason)] if chosen.reason and chosen.alternatives else []
    if spec.bound is not None and chosen.mechanism.guarantee is Guarantee.ANY_PRIOR:
        notices += warn_of_frequent_values(chosen.histogram, spec.bound, column)
        notices += [] if spec.rows == 1 else [_make_shared_bound_notice(chosen, spec.bound)]
    for capability in (ErrorPrediction, PlanExplanation, AttackModel):
        try:
            chosen.mechanism.require(capability)
        except MissingCapabilityError as error:
            notices.append(Notice("capability-missing", str(error), None, {"capability": error.capability}))
    return [*notices, *(replace(remark, column=column) for remark in chosen.remarks)]


def _make_shared_bound_notice(chosen: ChosenMechanism, bound: BreachBound) -> Notice:
    """The cost of sharing the bound among the rows of a person."""
    even_errors = [
        compute_even_error(
            chosen.mechanism, row_bound, chosen.mechanism.options(), Draws.from_fresh_key(), chosen.histogram
        )
        for row_bound in (bound, bound.share_among_rows(1))
    ]
    factor = (even_errors[0] or math.inf) / (even_errors[1] or math.inf)
    sentence = (
        f"up to {bound.rows} rows of a person share the bound: each row multiplies odds by at most "
        f"{float(bound.amplification):.3f} instead of {float(bound.person_amplification):.3f}. The error of a "
        f"count is {factor:.1f} times the error with one row per person. The risk of public columns is shown for "
        "each row separately; an attacker who combines the rows of a person learns more, at most what the bound "
        "for persons allows."
    )
    return Notice("shared-bound", sentence, None, {"rows": bound.rows, "error_factor": factor})


def list_notice_codes() -> tuple[str, ...]:
    """Lists the codes of all notices; those of the mechanisms' remarks come last."""
    explanations = [item.explanation for item in REGISTRY.values() if item.explanation is not None]
    return tuple(dict.fromkeys((*NOTICE_CODES, *(code for item in explanations for code in item.remark_codes))))


def check_publishable(request: Request, table_survey: TableScan, publication_plan: PublicationPlan) -> None:
    """Refuse plans in which no useful count is possible, and plans that protect less than they seem to."""
    chosen = publication_plan.choice
    chosen.mechanism.plan_rules.check_countable(chosen.plan)
    check_sub_tables(chosen, request.spec)
    if request.schema.compound and not chosen.mechanism.covers_predicates:
        check_parts(chosen, request.spec, request.schema.compound)
    check_predictive_columns(
        [
            predictor
            for predictor in publication_plan.column_predictions
            if predictor.columns[0] not in request.accept_disclosing
        ]
    )
    if not request.accept_exposure:
        check_lifted_records(publication_plan.exposures, chosen.mechanism)
    if chosen.mechanism.guarantee is Guarantee.MARGINAL_PRIOR and not request.accept_marginal_prior:
        check_breaches(measure_breaches(chosen, table_survey.sample), request.breach_limit)
