"""Compares all mechanisms under one criterion: plans and attacks each mechanism, and recommends one in words."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path

from sfumato._comparison.comparison_baselines import Baseline, estimate_laplace_table, redraw_values
from sfumato._comparison.comparison_outcome import Comparison, Contender
from sfumato._comparison.matching_criteria import Aim, SameError, SameGain, SamePosterior, list_bounds_around
from sfumato._comparison.mechanism_trial import ATTACKERS, Trial, TrialTable, plan_trial, run_attack, select_options
from sfumato._core.cell_values import find_field_type
from sfumato._core.exact_numbers import Exact, parse_exact
from sfumato._engines.engine import Engine
from sfumato._engines.spark_engine import choose_engine
from sfumato._parquet.parquet_writer import Encoder, FileWriter
from sfumato._perturb.record_writer import encode_row_group
from sfumato._planning.mechanism_choice import AUTO
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._profile.table_scan import TableScan
from sfumato._publish.planning_draws import choose_planning_draws
from sfumato._publish.publication_plan import PublicationPlan, check_publishable, open_table, survey_table
from sfumato._publish.publication_stops import list_mechanism_stops, list_table_stops
from sfumato._publish.request import Request
from sfumato._records import Naming
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.guarantee import Guarantee
from sfumato._request.histogram import Histogram
from sfumato._risk.attackers.attack_result import Attack
from sfumato._risk.attackers.attack_setup import make_draws
from sfumato._risk.attackers.attack_target import make_part_targets
from sfumato._risk.attackers.planned_exposure import measure_predictions
from sfumato._risk.attackers.planned_values import draw_published_values
from sfumato.errors import InfeasibleError, SpecError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.mechanism import AnyMechanism

# The size of the published values, which are the protected column of a release and its table of values.

BATCH = 1 << 16


def measure_record_bytes(chosen: ChosenMechanism, trial_table: TrialTable) -> float | None:
    """The bytes per record in a release's Parquet file; None if people are counted and have no record.

    Public columns are the same under every mechanism, and not counted.
    """
    if chosen.has_counts:
        return None
    mechanism, sensitive, sample = chosen.mechanism, trial_table.sensitive, trial_table.sample
    encoding = mechanism.make_encoding(chosen.design)
    cell = encoding.name_cell_column(sensitive.name)
    perturbed_records = draw_published_values(chosen, sensitive, sample.sensitive, make_draws(trial_table.seed))
    published_tables = [
        (
            encoding.make_columns(sensitive.parts, sensitive, cell),
            [encoding.make_rows(perturbed_records, sensitive.name, cell)],
        )
    ]
    contents = None if mechanism.bucket_table is None else mechanism.bucket_table.list_contents(chosen.plan)
    types = tuple(find_field_type(part.type) or "" for part in sensitive.parts)
    naming = Naming(tuple(part.name for part in sensitive.parts), sensitive.domain, types, cell)
    side = None if contents is None else encoding.make_side_table(sensitive, naming, contents)
    if side is not None:
        published_tables.append((side.columns, list(side.iter_batches(BATCH))))
    total = 0
    for columns, batches in published_tables:
        sink, encoder = BytesIO(), Encoder(columns)
        writer = FileWriter(sink, encoder.schema)
        for rows in batches:
            writer.add(encode_row_group(encoder, columns, rows))
        writer.finish()
        total += sink.tell()
    return total / sample.records


# ---------------------------------------------------------------------------------------------------------------------

USUAL_COUNT = 1000
CURVE_EXPONENTS = (0.5, 1.5)
"""A curve has a point for the bound itself, and for each of these powers of its odds factor."""
ALL_COLUMNS = "P"
"""The attacker whose gain is shown by default."""
Progress = Callable[[int, int], None]


def compare(  # noqa: PLR0913 - a request and a criterion
    request: Request,
    engine: Engine | None = None,
    *,
    at_gain: Exact | None = None,
    attacker: str = ALL_COLUMNS,
    error: Exact | None = None,
    at: int | None = None,
    seed: int | None = None,
    plan_file: str | Path | None = None,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Compares all mechanisms at one posterior, at one gain of an attacker, or at one error of counts.

    Nothing is published. Trial values are drawn from a seed, which is 0 by default, so that a comparison can be
    repeated. With `seed=None`, the compared rows are the rows that `plan` would choose, also with its plan file. By
    default, gains are for attacker P, who knows all public columns.
    """
    aim = _choose_aim(request, at_gain, error, at)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as name:
        folder, engine = Path(name), engine or choose_engine(request.table)
        source = open_table(request, folder, engine)
        # Without a seed, the same rows as in the plan.
        draws = choose_planning_draws(request, source, engine, plan_file)[0] if seed is None else make_draws(seed)
        request, survey = survey_table(request, source, engine, folder, draws)
    return compare_survey(request, survey, aim, attacker=attacker, at=at, seed=seed or 0, progress=progress)


def compare_survey(  # noqa: PLR0913 - the same
    request: Request,
    survey: TableScan,
    aim: Aim | None = None,
    *,
    seed: int,
    attacker: str = ALL_COLUMNS,
    at: int | None = None,
    progress: Progress = lambda done, total: None,
) -> Comparison:
    """Compares mechanisms for a table that was read before. The default criterion is the posterior of the request."""
    bound = request.spec.resolve(survey.histogram).find_common_bound(survey.histogram)
    if bound is None:
        raise SpecError(
            "mechanisms are compared at one posterior, but this request has none, because each value has its own "
            "limit. Request one bound instead (`spec=BreachBound(...)`).",
            code="no-single-bound",
        )
    trial_table = TrialTable.of(survey, bound, seed)
    letter = attacker.strip().upper()
    if letter not in ATTACKERS:
        raise SpecError(
            f"the attacker {attacker!r} is unknown; name one of {', '.join(ATTACKERS)}.",
            code="unknown-attacker",
            fields={"attacker": attacker},
        )
    size = choose_usual_count(survey.histogram) if at is None else at
    trials = TrialCache(request, trial_table, letter, size, {})
    accepted = [column.name for column in survey.columns if request.accepted_risks.accepts_column(column.name)]
    targets = [*trial_table.targets, *make_part_targets(survey.sample, survey.sensitive)]
    stops = list_table_stops(request, survey, targets, measure_predictions(targets, accepted))
    total, contenders = len(REGISTRY), []
    for done, mechanism in enumerate(REGISTRY.values()):
        progress(done, total)
        contenders.append(_evaluate_mechanism(mechanism, bound, aim or SamePosterior(bound.posterior), trials, survey))
    progress(total, total)
    comparison = Comparison(
        column=request.schema.sensitive_name,
        request_sentence=request.spec.sentence,
        bound=bound,
        guarantee=find_required_guarantee(request, survey.histogram),
        named_mechanism=None if request.mechanism == AUTO else request.mechanism,
        aim=aim or SamePosterior(bound.posterior),
        attacker=letter,
        count_size=size,
        records=trial_table.sample.records,
        total=survey.histogram.total,
        contenders=tuple(contenders),
        stops=tuple(stops),
    )
    return replace(comparison, baselines=_list_baselines(comparison, trial_table))


def _choose_aim(request: Request, at_gain: Exact | None, error: Exact | None, at: int | None) -> Aim | None:
    """Chooses the common criterion; None means the posterior of the request."""
    if at_gain is not None and error is not None:
        raise SpecError(
            "both a gain and an error were given; give one of them as the criterion of the comparison.",
            code="two-criteria",
        )
    if at is not None and at < 1:
        raise SpecError(
            f"the count is {at} and must be at least 1. Give the size of the counts with this error.",
            code="count-out-of-range",
            fields={"given": at},
        )
    if at_gain is not None:
        gain = parse_exact(at_gain, "the gain")
        if not 0 < gain < 1:
            raise SpecError(
                f"the gain is {gain} and must be between 0 and 1. A gain is a share of additional correct guesses, "
                "such as 10%.",
                code="gain-out-of-range",
                fields={"given": str(gain)},
            )
        return SameGain(float(gain))
    if error is not None:
        limit = parse_exact(error, "the error")
        if limit <= 0:
            raise SpecError(
                f"the error is {limit} and must be above 0. The error is a relative standard error, such as 10%.",
                code="error-out-of-range",
                fields={"given": str(limit)},
            )
        return SameError(limit, at or USUAL_COUNT)
    return None


def choose_usual_count(histogram: Histogram) -> int:
    """The default size of counts for errors: a thousand, or less if even the most frequent value is rarer."""
    largest_count = max(histogram.counts)
    digit = int(10 ** (len(str(largest_count)) - 1))
    return min(USUAL_COUNT, largest_count // digit * digit)


def find_required_guarantee(request: Request, histogram: Histogram) -> Guarantee:
    """The required guarantee: as requested, or as the named mechanism gives it, or the weakest possible one."""
    if request.guarantee is not None:
        return Guarantee(request.guarantee)
    if request.mechanism != AUTO:
        return REGISTRY[request.mechanism].guarantee
    spec = request.spec.resolve(histogram)
    guarantees = [
        item.guarantee
        for name, item in REGISTRY.items()
        if name not in REGISTRY.added_names and item.adapt_request(spec)
    ]
    # The marginal prior counts only if the steward requests it.
    default_guarantees = [item for item in guarantees if item is not Guarantee.MARGINAL_PRIOR]
    return next(
        item for item in default_guarantees if not any(other.is_weaker_than(item) for other in default_guarantees)
    )


@dataclass(frozen=True, eq=False)
class TrialCache:
    """Keeps the results of every trial, so that no trial runs twice."""

    request: Request
    trial_table: TrialTable
    letter: str
    count_size: int
    trials_by_key: dict[tuple[str, str, bool], Trial]

    def plan(self, mechanism: AnyMechanism, bound: BreachBound) -> Trial:
        """Plans a mechanism at a bound, without attackers."""
        return self._look_up_or_make(
            mechanism, bound, False, lambda: plan_trial(mechanism, bound, *self._plan_arguments)
        )

    def attack(self, mechanism: AnyMechanism, bound: BreachBound) -> Trial:
        """Plans a mechanism at a bound and runs the chosen attacker."""
        return self._look_up_or_make(mechanism, bound, True, lambda: self._attack_trial(self.plan(mechanism, bound)))

    def run_all_attackers(self, trial: Trial) -> tuple[dict[str, Attack], float | None]:
        """Runs all attackers, by their letters, and measures the bytes of a record."""
        try:
            chosen = self.trial_table.make_plan(trial, select_options(trial.mechanism, self.request))
        except InfeasibleError:
            return {}, None
        setups = self.trial_table.make_setups(chosen)
        attacks = {
            letter: trial.attack if letter == self.letter and trial.attack else run_attack(setups, letter)
            for letter in ATTACKERS
        }
        return attacks, measure_record_bytes(chosen, self.trial_table)

    @property
    def _plan_arguments(self) -> tuple[Request, TrialTable, int]:
        return self.request, self.trial_table, self.count_size

    def _attack_trial(self, trial: Trial) -> Trial:
        if trial.chosen_plan is None:
            return trial
        try:
            chosen = self.trial_table.make_plan(trial, select_options(trial.mechanism, self.request))
        except InfeasibleError:  # no estimate for fewer records
            return trial
        return replace(trial, attack=run_attack(self.trial_table.make_setups(chosen), self.letter))

    def _look_up_or_make(
        self, mechanism: AnyMechanism, bound: BreachBound, with_attack: bool, make: Callable[[], Trial]
    ) -> Trial:
        """Looks up the trial of a request, or runs it. Several posteriors may lead to the same request."""
        comparability = mechanism.comparability
        spec = (
            None if comparability is None else comparability.match_posterior(bound, self.trial_table.histogram.values)
        )
        key = (mechanism.name, f"{bound.posterior}" if spec is None else spec.summary, with_attack)
        if key not in self.trials_by_key:
            self.trials_by_key[key] = make()
        return replace(self.trials_by_key[key], bound=bound)


def _evaluate_mechanism(
    mechanism: AnyMechanism,
    bound: BreachBound,
    aim: Aim,
    trials: TrialCache,
    survey: TableScan,
) -> Contender:
    """Evaluates one mechanism: its trial at the criterion, its curve around this trial, and all attackers."""
    plan_at, attack_at = partial(trials.plan, mechanism), partial(trials.attack, mechanism)
    matched_trial = aim.find_trial(bound, plan_at, attack_at)
    if matched_trial.chosen_plan is None or matched_trial.spec is None:
        return Contender(mechanism, matched_trial)
    for item in list_bounds_around(matched_trial.bound, CURVE_EXPONENTS):
        attack_at(item)
    curve = [
        item for (name, _, is_attacked), item in trials.trials_by_key.items() if name == mechanism.name and is_attacked
    ]
    attacks, size = trials.run_all_attackers(matched_trial)
    request = replace(trials.request, spec=matched_trial.spec, mechanism=mechanism.name)
    exposures, stop_reason = tuple(attacks.values()), ""
    stops = list_mechanism_stops(request, survey, matched_trial.chosen_plan, exposures)
    try:
        check_publishable(request, PublicationPlan(matched_trial.chosen_plan, exposures, None, tuple(stops)))
    except InfeasibleError as error:
        stop_reason = str(error)
    ordered = sorted((item for item in curve if item.chosen_plan is not None), key=lambda item: item.bound.posterior)
    return Contender(mechanism, matched_trial, tuple(ordered), attacks, stop_reason, size)


def _list_baselines(comparison: Comparison, trial_table: TrialTable) -> tuple[Baseline, ...]:
    """Lists the baselines that apply."""
    best = comparison.recommended_contender
    bound = comparison.bound if best is None else best.trial.bound
    redrawn = redraw_values(trial_table.sample, trial_table.histogram, comparison.count_size)
    laplace_table = estimate_laplace_table(bound, trial_table.histogram, comparison.count_size)
    return tuple(baseline for baseline in (redrawn, laplace_table) if baseline is not None)
