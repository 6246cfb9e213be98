"""Chooses a plan, with the named mechanism or with the best mechanism that gives the guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sfumato._core.cell_values import Value
from sfumato._core.option_fields import OptionValues, list_flags
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism, compute_even_error
from sfumato._request.belief_bounds import SEVERAL_ROWS_REASON, PrivacySpec
from sfumato._request.guarantee import SELECTABLE_GUARANTEES, Guarantee
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError, SpecError
from sfumato.mechanisms import REGISTRY
from sfumato.mechanisms.mechanism import AnyMechanism

AUTO = "auto"
NO_OPTIONS: OptionValues = MappingProxyType({})
SAME_FACTOR = 1.005
"""Errors whose ratio is below this factor count as equal."""
NOTABLE_ERROR_SHARE = 0.8
COUNTS_ERROR_SHARE = 0.7
"""Counts of people with equal public columns are preferred only if they have at most this share of the error."""
"""A mechanism without readable values is preferred only if it has at most this share of the error."""


def choose(  # noqa: PLR0913 - a request has this many parts
    histogram: Histogram | Mapping[Value, int],
    spec: PrivacySpec,
    draws: Draws | None = None,
    mechanism: str = AUTO,
    *,
    guarantee: str | None = None,
    options: OptionValues = NO_OPTIONS,
    rivals: bool = False,
    records: bool = False,
) -> ChosenMechanism:
    """Plan with the named mechanism, or with the best mechanism that gives the guarantee.

    The best mechanism has the smallest predicted error. But a mechanism that publishes a readable value per record is
    preferred, unless another mechanism has at most `NOTABLE_ERROR_SHARE` of its error. The choice depends on the domain
    size, the request and the options. The choice depends on the counts only if the request is about shares of the
    table.

    Counts of people with equal public columns are chosen if they have at most `COUNTS_ERROR_SHARE` of the error of the
    mechanism that would be chosen otherwise. With `records`, they are never chosen, and each person gets a record.

    With `rivals`, every other mechanism that meets the request is planned too, under its own guarantee. Without
    `draws`, a new key is used; give draws to repeat a release.
    """
    histogram = histogram if isinstance(histogram, Histogram) else Histogram.of([*histogram], [*histogram.values()])
    draws = draws or Draws.from_fresh_key()
    guarantee_kind = _check_choice(mechanism, guarantee, options)
    request = spec.resolve(histogram)
    capable_mechanisms = _select_capable(mechanism, request, options)
    if records:
        capable_mechanisms = _select_with_records(capable_mechanisms, mechanism)
    eligible_mechanisms = [
        candidate
        for candidate in capable_mechanisms
        if (_is_eligible(candidate, guarantee_kind) if mechanism == AUTO else candidate.name == mechanism)
    ]
    options = add_shared_options(options, capable_mechanisms)
    implied_mechanisms = [
        candidate
        for candidate in eligible_mechanisms
        if candidate.name in options and candidate.plan_rules.is_implied_by(options[candidate.name])
    ]
    plans, refusal = _make_plans(implied_mechanisms or eligible_mechanisms, histogram, request, draws, options)
    if not plans:
        raise refusal or InfeasibleError("no mechanism meets this request.", code="no-mechanism")
    errors = {}
    if len(plans) > 1:  # one plan needs no comparison
        for candidate in (plan.mechanism for plan in plans):
            candidate_options = options.get(candidate.name) or candidate.options()
            errors[candidate.name] = compute_even_error(
                candidate, candidate.adapt_request(request), candidate_options, draws, histogram
            )
    best = _prefer_counts(_select_best([plan for plan in plans if not plan.has_counts] or plans, errors), plans, errors)
    others = [plan for plan in plans if plan is not best]
    if rivals:
        other_mechanisms = [
            candidate
            for candidate in capable_mechanisms
            if candidate not in (implied_mechanisms or eligible_mechanisms)
        ]
        others += _make_plans(other_mechanisms, histogram, request, draws, options)[0]
    reason = _explain_choice(best, errors) if mechanism == AUTO else ""
    if reason and implied_mechanisms:
        reason = f"{best.mechanism.name} is chosen, because its options were given."
    return replace(best, reason=reason, alternatives=tuple(others))


def _select_with_records(mechanisms: Sequence[AnyMechanism], name: str) -> list[AnyMechanism]:
    """The mechanisms that publish a record for each person. Refuses a named mechanism that does not."""
    if name != AUTO and REGISTRY[name].crowd_counts is not None:
        raise SpecError(
            f"the mechanism {name!r} publishes counts, but a record for each person was requested; name another "
            "mechanism, or remove `records=`.",
            code="records-not-published",
            fields={"mechanism": name},
        )
    return [mechanism for mechanism in mechanisms if mechanism.crowd_counts is None]


def _prefer_counts(
    best: ChosenMechanism, plans: Sequence[ChosenMechanism], errors: Mapping[str, float | None]
) -> ChosenMechanism:
    """The plan that publishes counts, if its error is small enough."""
    counted = next((plan for plan in plans if plan.has_counts), None)
    if counted is None or counted is best:
        return best
    own_error, other_error = (_rank(errors.get(plan.mechanism.name)) for plan in (counted, best))
    return counted if own_error <= COUNTS_ERROR_SHARE * other_error else best


def add_shared_options(options: OptionValues, mechanisms: Sequence[AnyMechanism]) -> OptionValues:
    """The given options, which are also given to other mechanisms with the same flags.

    A flag that several mechanisms share applies to each of them that may be chosen.
    """
    flag_values = {
        flag.name: getattr(options[mechanism.name], field)
        for mechanism in mechanisms
        if mechanism.name in options
        for field, flag in list_flags(mechanism.options)
    }
    all_options = dict(options)
    for mechanism in mechanisms:
        shared = {
            field: flag_values[flag.name] for field, flag in list_flags(mechanism.options) if flag.name in flag_values
        }
        if shared and mechanism.name not in options:
            all_options[mechanism.name] = mechanism.options(**shared)
    return all_options


def _select_capable(mechanism: str, request: PrivacySpec, options: OptionValues) -> list[AnyMechanism]:
    """The mechanisms that can meet the request.

    Refuses a named mechanism that cannot meet it, and options of such a mechanism.
    """
    capable_mechanisms = [candidate for candidate in REGISTRY.values() if candidate.adapt_request(request) is not None]
    # Several rows of a person multiply the odds, so a bound for only some statements would no longer hold.
    if request.rows > 1:
        if (
            mechanism != AUTO
            and REGISTRY[mechanism] in capable_mechanisms
            and not REGISTRY[mechanism].covers_predicates
        ):
            raise SpecError(
                f"the mechanism {mechanism!r} cannot be used: {SEVERAL_ROWS_REASON}",
                code="several-rows-not-covered",
                fields={"mechanism": mechanism, "rows": request.rows},
            )
        capable_mechanisms = [candidate for candidate in capable_mechanisms if candidate.covers_predicates]
    if mechanism != AUTO and REGISTRY[mechanism] not in capable_mechanisms:
        raise SpecError(
            f"the mechanism {mechanism!r} needs {REGISTRY[mechanism].request.REQUIREMENT_TEXT}, and the request is "
            "of another kind.",
            code="another-requirement",
            fields={"mechanism": mechanism},
        )
    if stray := next((name for name in options if REGISTRY[name] not in capable_mechanisms), None):
        raise SpecError(
            f"options of {stray!r} were given, but this mechanism does not support this kind of request; remove "
            "these options.",
            code="options-of-another-mechanism",
            fields={"mechanism": stray},
        )
    if mechanism == AUTO and (plugin_name := next((name for name in options if name in REGISTRY.added_names), None)):
        raise SpecError(
            f"options of {plugin_name!r} were given, but a plug-in is never chosen automatically; name it with "
            "`mechanism=`.",
            code="mechanism-not-chosen-automatically",
            fields={"mechanism": plugin_name},
        )
    return capable_mechanisms


def _check_choice(mechanism: str, guarantee: str | None, options: OptionValues) -> Guarantee | None:
    """The requested guarantee, if mechanism, guarantee and options are known and compatible."""
    if guarantee is not None and guarantee not in SELECTABLE_GUARANTEES:
        raise SpecError(
            f"the guarantee {guarantee!r} is unknown; ask for {' or '.join(SELECTABLE_GUARANTEES)}.",
            code="unknown-guarantee",
            fields={"guarantee": guarantee},
        )
    guarantee_kind = None if guarantee is None else Guarantee(guarantee)
    for name, known_names in (
        (mechanism, (AUTO, *REGISTRY)),
        *((option_name, tuple(REGISTRY)) for option_name in options),
    ):
        if name not in known_names:
            reason = REGISTRY.find_reason(name)
            raise SpecError(
                reason or f"the mechanism {name!r} is unknown; the known mechanisms are {', '.join(known_names)}.",
                code="unknown-mechanism",
                fields={"mechanism": name},
            )
    if mechanism == AUTO:
        return guarantee_kind
    own_guarantee = REGISTRY[mechanism].guarantee
    if guarantee_kind is not None and not own_guarantee.covers(guarantee_kind):
        raise SpecError(
            f"the mechanism {mechanism!r} gives only {own_guarantee}, and {guarantee} was requested; choose "
            "another mechanism, or remove `guarantee=`.",
            code="guarantee-not-given",
            fields={"mechanism": mechanism, "guarantee": guarantee, "own_guarantee": own_guarantee},
        )
    if options and mechanism not in options:
        stray = next(iter(options))
        raise SpecError(
            f"options of {stray!r} were given, but the mechanism is {mechanism!r}; remove the options, or name the "
            "other mechanism.",
            code="options-of-another-mechanism",
            fields={"mechanism": stray, "chosen": mechanism},
        )
    return guarantee_kind


def _is_eligible(mechanism: AnyMechanism, guarantee: Guarantee | None) -> bool:
    """Whether `auto` may choose a mechanism for a guarantee. Plug-ins must be named.

    The marginal prior must be requested explicitly.
    """
    if mechanism.name in REGISTRY.added_names:
        return False
    if guarantee is None:
        return mechanism.guarantee is not Guarantee.MARGINAL_PRIOR
    return mechanism.guarantee.covers(guarantee)


def _make_plans(
    mechanisms: Sequence[AnyMechanism],
    histogram: Histogram,
    request: PrivacySpec,
    draws: Draws,
    options: OptionValues,
) -> tuple[list[ChosenMechanism], InfeasibleError | None]:
    """The feasible plans, and the reason why the first infeasible mechanism failed."""
    plans: list[ChosenMechanism] = []
    refusal: InfeasibleError | None = None
    for mechanism in mechanisms:
        try:
            plan = mechanism.plan(
                histogram, mechanism.adapt_request(request), options.get(mechanism.name) or mechanism.options(), draws
            )
            plans.append(ChosenMechanism(mechanism, plan, histogram))
        except InfeasibleError as error:
            refusal = refusal or error
    return plans, refusal


def _rank(error: float | None) -> float:
    """The sort key of a plan; the smallest key is best. Equal plans keep the order of the registry, simplest first.

    A mechanism may meet the request for this table, but not for equally frequent values. Then it makes use of
    differences between frequencies, and its guarantee must have been requested. Such a mechanism comes first.
    """
    return -1.0 if error is None else float(f"{error:.8e}")


def _select_best(plans: Sequence[ChosenMechanism], errors: Mapping[str, float | None]) -> ChosenMechanism:
    """The plan with the smallest error, or a plan with a readable value per record and an error that is little larger.

    The readable plan gives at least the same guarantee. Errors are those of a table of equally frequent values, so no
    count decides.
    """

    def rank(plan: ChosenMechanism) -> float:
        return _rank(errors.get(plan.mechanism.name))

    most_accurate = min(plans, key=rank)
    if most_accurate.has_readable_values:
        return most_accurate
    readable = [
        plan
        for plan in plans
        if plan.has_readable_values and plan.mechanism.guarantee.covers(most_accurate.mechanism.guarantee)
    ]
    best_readable = min(readable, key=rank, default=most_accurate)
    return most_accurate if rank(most_accurate) <= NOTABLE_ERROR_SHARE * rank(best_readable) else best_readable


def _explain_choice(best: ChosenMechanism, errors: Mapping[str, float | None]) -> str:
    """The reason for a choice, in one line, from the errors of all compared mechanisms."""
    name = best.mechanism.name
    if not errors:
        return f"{name} is the only mechanism that meets this request."
    own_error = errors[name]
    if own_error is None:
        return f"{name} is chosen whenever it meets the request. It does so here, because the frequencies differ."
    if not math.isfinite(own_error) or not own_error:
        return f"{name} is the simplest mechanism that meets this request."
    factors = {rival: (error or math.inf) / own_error for rival, error in errors.items() if rival != name}
    compared = ", ".join(f"{rival} {_describe_factor(factor)}" for rival, factor in factors.items())
    average = f"predicted for the count of a rare value, averaged over all {best.histogram.domain_size:,} values"
    if min(factors.values()) * SAME_FACTOR < 1:
        return (
            f"{name} publishes one readable value per record. No other mechanism with this guarantee reduces the error "
            f"by {1 - NOTABLE_ERROR_SHARE:.0%} or more. The error is {average}. Compared with {name}: {compared}."
        )
    return (
        f"{name} has the smallest error of the mechanisms with this guarantee. The error is {average}. Compared with "
        f"{name}: {compared}."
    )


def _describe_factor(factor: float) -> str:
    """The error of another mechanism, compared with that of the chosen one."""
    if not math.isfinite(factor):
        return "predicts no error"
    is_same = 1 / SAME_FACTOR < factor < SAME_FACTOR
    return "has the same error" if is_same else f"has {factor:.2f} times the error"
