"""Choosing a plan from a histogram, and predicting the error of its answers before anything is published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from sfumato.draws import Draws
from sfumato.errors import InfeasibleError, SpecError
from sfumato.mechanisms import REGISTRY, AnyMechanism
from sfumato.request.histogram import Histogram
from sfumato.request.spec import (
    BreachBound,
    BreachBoundPerValue,
    DecoyGroups,
    Diversity,
    LinearCap,
    PrivacySpec,
    ShareCap,
    Tolerance,
)
from sfumato.request.values import values_to_json

AUTO = "auto"
ANY_PRIOR = "any-prior"
MARGINAL_PRIOR = "marginal-prior"
GUARANTEES = (ANY_PRIOR, MARGINAL_PRIOR)
SELECTIVITIES = ("0.001", "0.005", "0.01")
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Chosen:
    """A plan, with the mechanism that made it and the histogram it was made from. Secret."""

    mechanism: AnyMechanism
    plan: Any
    histogram: Histogram
    reason: str = ""
    """Why this mechanism was chosen, in one line; empty if it was asked for."""
    others: tuple[Chosen, ...] = field(default=(), repr=False)
    """The other plans that meet the request, each under the guarantee it gives."""

    @cached_property
    def design(self) -> Any:
        """What would be published of the plan."""
        return self.mechanism.design(self.plan)

    @cached_property
    def predicted(self) -> Mapping[str, float | None]:
        """The expected relative error of a count, by the share of the table's records that the count finds."""
        return {text: self._relative_error(float(text)) for text in SELECTIVITIES}

    def _relative_error(self, selectivity: float) -> float | None:
        """Average the expected error over the records.

        A query about a value x finds count = selectivity * total records among count / share(x) rows, and its error is
        about normal, so the mean of |error| is sqrt(2/pi) standard errors. Values rarer than the selectivity cannot be
        found that often, and are left out; and no count finds less than one record.
        """
        total, held = self.histogram.total, np.array(self.histogram.counts, dtype=np.float64)
        count = selectivity * total
        is_found = (held >= count) & (count >= 1)
        if not is_found.any():
            return None
        rows = np.where(is_found, count * total / np.where(held > 0, held, 1), total)
        variances = self.mechanism.variances(self.plan, rows, np.full(len(held), count))[is_found]
        errors = np.sqrt(2 / math.pi * np.maximum(variances, 0.0)) / count
        found = float(held[is_found] @ errors / held[is_found].sum())
        return found if math.isfinite(found) else None

    @property
    def error(self) -> float:
        """One number to compare plans by: the geometric mean of the predicted errors; infinite where there are none."""
        known = [error for error in self.predicted.values() if error is not None]
        return math.exp(sum(map(math.log, known)) / len(known)) if known and min(known) > 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """The plan for its holder: it contains the counts."""
        histogram = self.histogram
        return {
            "mechanism": self.mechanism.NAME,
            "feasible": True,
            "guarantee": self.mechanism.GUARANTEE,
            "scope": self.mechanism.promise(self.design),
            **({"reason": self.reason} if self.reason else {}),
            "total": histogram.total,
            "domain_size": histogram.domain_size,
            "values": values_to_json(histogram.values),
            "counts": list(histogram.counts),
            **self.mechanism.explain(self.plan),
            "predicted": {"relative_error": dict(self.predicted)},
            "remarks": self.mechanism.remarks(self.plan),
            "alternatives": [other.to_json() for other in self.others],
        }


def choose(  # noqa: PLR0913 - a request has this many parts
    histogram: Histogram,
    spec: PrivacySpec,
    draws: Draws,
    mechanism: str = AUTO,
    *,
    guarantee: str | None = None,
    options: Mapping[str, Any] = NO_OPTIONS,
) -> Chosen:
    """Plan with the named mechanism, or with the best one that gives the guarantee."""
    _check_names(mechanism, guarantee, options)
    request = resolved(spec, histogram)
    family = [module for module in REGISTRY.values() if isinstance(request, module.SPEC)]
    if mechanism != AUTO:
        _check_family(mechanism, family, request)
    if stray := next((name for name in options if REGISTRY[name] not in family), None):
        raise SpecError(f"options of {stray!r} were given, which does not meet this kind of request; leave them out.")
    wanted = [module for module in family if mechanism in (AUTO, module.NAME)]
    wanted = [module for module in wanted if mechanism != AUTO or _gives(module, guarantee)]
    plans, refusal = _planned(wanted, histogram, request, draws, options)
    if not plans:
        raise refusal or InfeasibleError("no mechanism meets this request.")
    best = _best(plans)
    rest = [module for module in family if module not in wanted]
    others = [plan for plan in plans if plan is not best] + _planned(rest, histogram, request, draws, options)[0]
    reason = _reason(best, plans) if mechanism == AUTO else ""
    return replace(best, reason=reason, others=tuple(others))


def resolved(spec: PrivacySpec, histogram: Histogram) -> PrivacySpec:
    """The request itself, where it is given by the shares of the table."""
    if isinstance(spec, Tolerance):
        return BreachBoundPerValue.from_tolerance(histogram, spec.factor)
    return ShareCap.linear(histogram, spec.factor, spec.offset) if isinstance(spec, LinearCap) else spec


def _check_names(mechanism: str, guarantee: str | None, options: Mapping[str, Any]) -> None:
    if guarantee not in (None, *GUARANTEES):
        raise SpecError(f"the guarantee {guarantee!r} is unknown; ask for {' or '.join(GUARANTEES)}.")
    if mechanism not in (AUTO, *REGISTRY):
        raise SpecError(f"the mechanism {mechanism!r} is unknown; there are {', '.join((AUTO, *REGISTRY))}.")
    if mechanism != AUTO and not _gives(REGISTRY[mechanism], guarantee or REGISTRY[mechanism].GUARANTEE):
        raise SpecError(
            f"the mechanism {mechanism!r} gives {REGISTRY[mechanism].GUARANTEE} only, and {guarantee} was asked for; "
            "choose another mechanism, or leave --guarantee out."
        )
    if options and mechanism != AUTO and mechanism not in options:
        stray = next(iter(options))
        raise SpecError(f"options of {stray!r} were given, and the mechanism is {mechanism!r}; leave one of them out.")


def _check_family(mechanism: str, family: Sequence[AnyMechanism], request: PrivacySpec) -> None:
    if REGISTRY[mechanism] in family:
        return
    raise SpecError(
        f"the mechanism {mechanism!r} needs {_WANTS[REGISTRY[mechanism].SPEC]}, and another kind of request was made."
    )


_WANTS = {
    BreachBound: "one bound (--prior and --posterior)",
    BreachBoundPerValue: "a bound for each value (--bounds or --tolerance)",
    ShareCap: "caps (--caps, or --cap-factor and --cap-offset)",
    Diversity: "a diversity (--diversity)",
    DecoyGroups: "a group size (--group-size)",
}


def _gives(module: AnyMechanism, guarantee: str | None) -> bool:
    """Whether a mechanism gives a guarantee: one for any prior covers the marginal prior too.

    Without a word about it, everything but the marginal prior is meant: that one must be asked for.
    """
    if guarantee is None:
        return module.GUARANTEE != MARGINAL_PRIOR
    return module.GUARANTEE in (ANY_PRIOR, guarantee)


def _planned(
    modules: Sequence[AnyMechanism],
    histogram: Histogram,
    spec: PrivacySpec,
    draws: Draws,
    options: Mapping[str, Any],
) -> tuple[list[Chosen], InfeasibleError | None]:
    """The plans that exist, and why the first that does not exist does not."""
    plans: list[Chosen] = []
    refusal: InfeasibleError | None = None
    for module in modules:
        try:
            plan = module.plan(histogram, spec, options.get(module.NAME) or module.Options(), draws)
            plans.append(Chosen(module, plan, histogram))
        except InfeasibleError as error:
            refusal = refusal or error
    return plans, refusal


def _best(plans: Sequence[Chosen]) -> Chosen:
    """The plan of least predicted error; of equal ones the first of the registry, which is the simplest."""
    if len(plans) == 1:
        return plans[0]  # without a prediction, which may take long
    return min(plans, key=lambda plan: round(plan.error, 9) if math.isfinite(plan.error) else math.inf)


def _reason(best: Chosen, plans: Sequence[Chosen]) -> str:
    """Why a plan was chosen, in one line."""
    name = best.mechanism.NAME
    rivals = [plan for plan in plans if plan is not best]
    if not rivals:
        return f"{name} is the mechanism that meets this request."
    if not math.isfinite(best.error):
        return f"{name}: the table is too small to predict the error of its counts, and this is the simplest mechanism."
    compared = ", ".join(f"{plan.mechanism.NAME} {_times(plan.error / best.error)}" for plan in rivals)
    return f"{name} has the smallest predicted error of the mechanisms that give this guarantee ({compared})."


def _times(factor: float) -> str:
    return "has the same" if factor < 1.005 else f"has {factor:.2f} times as much"  # noqa: PLR2004 - rounds to 1.00
