"""Figures 4 and 5 of Chaytor, Wang and Brantingham, "Fine-grain perturbation" (2009), and what has been gained since.

The curves of the figures cannot be read, so what is compared are the claims of the text. Each value is bounded by its
exact share and a tolerance, as in the paper. Records are not drawn one by one: how many records of a value show each
other one is multinomial, by the operator that the mechanism itself tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import STANDARD_ERRORS, Outcome, Verdict, verdict_of, within
from sfumato._core.arrays import Floats
from sfumato._core.random_draws import Draws
from sfumato._figures.figure import Figure
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_lines, draw_panels
from sfumato._figures.number_format import format_percent, format_quantity
from sfumato._request.histogram import Histogram
from sfumato._request.requirements import BreachBound, BreachBoundPerValue
from sfumato.errors import InfeasibleError
from sfumato.mechanisms import mechanism_of
from sfumato.mechanisms._randomized_response import fine_grain
from sfumato.mechanisms.capabilities import AttackModel, ErrorPrediction
from sfumato.mechanisms.mechanism import AnyMechanism

UNIFORM, FINE, FOR_COUNTS, HARMONIC, SUBSET = "uniform", "fine-grain", "fine-grain, counts", "harmonic", "subset"
MECHANISMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    UNIFORM: ("uniform", {}),
    FINE: ("fine-grain", {}),
    FOR_COUNTS: ("fine-grain", {"objective": fine_grain.Objective.AGGREGATE}),
    HARMONIC: ("harmonic", {}),
    SUBSET: ("subset", {}),
}
"""The mechanism and its options; the first two are the paper's."""
OPERATORS = (UNIFORM, FINE, FOR_COUNTS, HARMONIC)
"""Those that show one value of a record."""
RECORDS, VALUES = 95_946, 40
ALL_RECORDS = 42_264
STEPS = 200
"""Of iterative Bayes; the paper does not say how many."""
ALMOST = 0.005
"""UtilitiesByTolerance that differ by less cannot be told apart in a figure."""
PRINTED_GAIN = (0.15, 0.055)
"""Between 10% and 20%, in whole per cents."""
TOLERANCE = Axis("tolerance, posterior over prior")
REFUSED = "sfumato refuses to publish it: counts could not be had, or with over ten times the error of uniform"


def zipf(records: int = RECORDS, values: int = VALUES) -> tuple[int, ...]:
    """How many records hold the most frequent value, half as many the second, and so on; the rounding spread."""
    weights = 1 / np.arange(1, values + 1)
    ends = np.rint(np.cumsum(weights) / weights.sum() * records).astype(np.int64)
    return tuple(np.diff(ends, prepend=0).tolist())


# ------------------------------------------------------------------------------------------------------------- figure 4


def figure4(conditions: Conditions) -> Outcome:
    """The shares of the reactions, and those of Zipf's law."""
    reactions = conditions.tables.counts("reactions", RECORDS, conditions.seed)
    found = {"reactions": np.array(reactions) / sum(reactions), "Zipf": np.array(zipf()) / RECORDS}
    rows = tuple((rank + 1, *(float(shares[rank]) for shares in found.values())) for rank in range(VALUES))
    # Skewed more is what has at least as much in every number of its most frequent values.
    sums = {name: np.cumsum(shares) for name, shares in found.items()}
    is_skewed = bool((sums["Zipf"] >= sums["reactions"] - 1e-12).all())
    ends = {name: (format_percent(shares[0]), format_percent(shares[-1])) for name, shares in found.items()}
    figure = draw_lines(
        "How frequent the values are",
        Axis("rank of the value"),
        Axis("share of the records", format_percent, is_logarithmic=True),
        [
            MeasuredLine(name, tuple(zip(range(1, VALUES + 1), shares.tolist(), strict=True)))
            for name, shares in found.items()
        ],
        reading=f"The most frequent value has {ends['reactions'][0]} among reactions, {ends['Zipf'][0]} by Zipf's law.",
    )
    sentence = (
        f"Zipf's law ({ends['Zipf'][0]} to {ends['Zipf'][1]}) is {'' if is_skewed else 'not '}more skewed than the "
        f"reactions ({ends['reactions'][0]} to {ends['reactions'][1]}) at every rank, as claimed of CADR; of CADR "
        "itself no share is printed."
    )
    return Outcome(("rank", *found), rows, verdict_of([is_skewed]), sentence, figure)


# ------------------------------------------------------------------------------------------------------------- figure 5


@dataclass(frozen=True)
class Entrant:
    """A mechanism with its plan for one table and tolerance."""

    name: str
    tolerance: int
    mechanism: AnyMechanism
    plan: Any
    counts: tuple[int, ...]

    @property
    def records(self) -> int:
        """How many there are."""
        return sum(self.counts)

    @property
    def shares(self) -> Floats:
        """Of the values."""
        return np.array(self.counts) / self.records

    @property
    def is_refused(self) -> bool:
        """Whether counts could not be had from a release, so that none is published."""
        try:
            self.mechanism.plan_rules.check_countable(self.plan)
        except InfeasibleError:
            return True
        return False

    @cached_property
    def operator(self) -> Floats:
        """A row for each value that may be shown, a column for each that may be true, as the paper prints it."""
        places = np.arange(len(self.counts))
        model = self.mechanism.require(AttackModel)
        (found,) = model.compute_published_likelihoods(self.mechanism.design(self.plan), places, places, places)
        return found

    @property
    def record_utility(self) -> float:
        """The share of records that show what they hold."""
        return float(self.shares @ np.diag(self.operator))

    @property
    def error(self) -> float:
        """The mean error of a share by the exact variance of its unbiased estimate; infinite where there is none."""
        rows = np.full(len(self.counts), float(self.records))
        prediction = self.mechanism.require(ErrorPrediction)
        variances = prediction.predict_variances(self.plan, rows, np.array(self.counts, dtype=np.float64))
        return float(np.sqrt(2 / np.pi * np.maximum(variances, 0)).mean() / self.records)


def planned(conditions: Conditions, counts: Sequence[int], tolerance: int) -> dict[str, Entrant]:
    """Every mechanism at the bounds of a tolerance: from the share of a value to so many times that share."""
    histogram = Histogram.of([f"{place:05}" for place in range(len(counts))], counts)
    bounds = {
        value: BreachBound(share, tolerance * share)
        for value, share in zip(histogram.values, histogram.shares, strict=True)
        if tolerance * share < 1  # a value that may become certain has no bound
    }
    draws, found = Draws.unsafe_test_key(conditions.key()), {}
    for name, (kind, given) in MECHANISMS.items():
        mechanism = mechanism_of(kind)
        spec = mechanism.adapt_request(BreachBoundPerValue(bounds))
        plan = mechanism.plan(histogram, spec, mechanism.options(**given), draws)
        found[name] = Entrant(name, tolerance, mechanism, plan, tuple(counts))
    return found


@dataclass(frozen=True)
class MeasuredUtility:
    """The paper's two utilities of an operator; the aggregate one over some perturbed tables, by two estimators."""

    of: Entrant
    bayes: Floats
    """One for each table."""
    inverse: Floats | None
    """None where two values are never kept, so that there is no inverse."""

    @classmethod
    def measured(cls, conditions: Conditions, of: Entrant) -> MeasuredUtility:
        """Perturb the table ten times, or four times in a quick run."""
        generator = conditions.generator(5, of.tolerance)
        tables = conditions.either(4, 10)
        shown = sum(
            (generator.multinomial(count, of.operator[:, place], tables) for place, count in enumerate(of.counts)),
            start=np.zeros((tables, len(of.counts))),
        )
        inverse = None
        if np.isfinite(of.error):
            inverse = _utilities(of, np.linalg.solve(of.operator, shown.T).T / of.records)
        return cls(of, _utilities(of, iterated(of.operator, shown / of.records)), inverse)

    @property
    def row(self) -> tuple[Any, ...]:
        """As a row of the table."""
        by_inverse = (None, None) if self.inverse is None else _mean(self.inverse)
        refused = "refused" if self.of.is_refused else ""
        exact = self.of.error if np.isfinite(self.of.error) else None
        return (
            self.of.tolerance,
            self.of.name,
            self.of.record_utility,
            *_mean(self.bayes),
            *by_inverse,
            exact,
            refused,
        )


def iterated(operator: Floats, shown: Floats) -> Floats:
    """Iterative Bayes from an even start, for each line of shares that are shown."""
    found = np.full_like(shown, 1 / shown.shape[1])
    for _ in range(STEPS):
        found *= (shown / (found @ operator.T)) @ operator
    return found


def _utilities(of: Entrant, estimates: Floats) -> Floats:
    return np.asarray(1 - np.abs(estimates - of.shares).mean(axis=1))


def _mean(numbers: Floats) -> tuple[float, float]:
    return float(numbers.mean()), float(numbers.std(ddof=1) / len(numbers) ** 0.5)


@dataclass(frozen=True)
class UtilitiesByTolerance:
    """Of the four operators, by tolerance."""

    by_name: Mapping[str, list[MeasuredUtility]]

    @classmethod
    def measured(cls, conditions: Conditions, counts: Sequence[int], tolerances: Sequence[int]) -> UtilitiesByTolerance:
        """At each tolerance one after the other."""
        found: dict[str, list[MeasuredUtility]] = {name: [] for name in OPERATORS}
        for tolerance in conditions.steps(tolerances):
            plans = planned(conditions, counts, tolerance)
            for name, utilities in found.items():
                utilities.append(MeasuredUtility.measured(conditions, plans[name]))
        return cls(found)

    @property
    def pairs(self) -> list[tuple[MeasuredUtility, MeasuredUtility]]:
        """Fine-grain beside uniform perturbation."""
        return list(zip(self.by_name[FINE], self.by_name[UNIFORM], strict=True))

    @property
    def gains(self) -> list[float]:
        """By how much fine-grain keeps more records than uniform perturbation."""
        return [fine.of.record_utility / uniform.of.record_utility - 1 for fine, uniform in self.pairs]

    @property
    def is_kept_more_with_tolerance(self) -> bool:
        """Whether both keep more records, the higher the tolerance."""
        both = ([each.of.record_utility for each in self.by_name[name]] for name in (UNIFORM, FINE))
        return all(first < second for utilities in both for first, second in pairwise(utilities))

    @property
    def is_rising(self) -> bool:
        """Whether both utilities of both operators rise with the tolerance."""
        return self.is_kept_more_with_tolerance and not self.falls(FINE) and not self.falls(UNIFORM)

    def falls(self, name: str) -> list[int]:
        """The tolerances at which the aggregate utility is lower than at the one before, by more than chance."""
        found = []
        for first, second in pairwise(self.by_name[name]):
            (before, one), (after, other) = _mean(first.bayes), _mean(second.bayes)
            if before - after > STANDARD_ERRORS * (one**2 + other**2) ** 0.5:
                found.append(second.of.tolerance)
        return found

    @property
    def refused(self) -> list[int]:
        """The tolerances at which the fine-grain operator is not published."""
        return [each.of.tolerance for each in self.by_name[FINE] if each.of.is_refused]

    def outcome(self, heading: str, reading: str, verdict: Verdict, sentence: str) -> Outcome:
        """With the table and the figure."""
        headings = (
            "tolerance",
            "operator",
            "record utility",
            "aggregate utility, iterative Bayes",
            "standard error",
            "aggregate utility, inverse",
            "standard error",
            "mean error of a share, exact",
            "publish",
        )
        rows = tuple(each.row for utilities in self.by_name.values() for each in utilities)
        return Outcome(headings, rows, verdict, sentence, self._figure(heading, reading))

    def _figure(self, heading: str, reading: str) -> Figure:
        kept, off = [], []
        for name, utilities in self.by_name.items():
            refused = tuple(float(each.of.tolerance) for each in utilities if each.of.is_refused)
            by_record = tuple((float(each.of.tolerance), each.of.record_utility) for each in utilities)
            by_error = tuple((float(each.of.tolerance), 1 - _mean(each.bayes)[0]) for each in utilities)
            kept.append(MeasuredLine(name, by_record, singled_out=refused))
            off.append(MeasuredLine(name, by_error, singled_out=refused))
        upright = Axis("record utility: the share of records that show their true value", format_percent)
        error = Axis("mean error of a share by iterative Bayes, one less the aggregate utility", format_percent, True)
        return draw_panels(
            heading, TOLERANCE, [Panel(upright, kept, REFUSED), Panel(error, off, REFUSED)], reading=reading
        )


def figure5a(conditions: Conditions) -> Outcome:
    """Record and aggregate utility by tolerance, on the reactions."""
    tolerances = range(2, 9)
    found = UtilitiesByTolerance.measured(
        conditions, conditions.tables.counts("reactions", RECORDS, conditions.seed), tolerances
    )
    low, high = min(found.gains), max(found.gains)
    apart = max(abs(float(fine.bayes.mean() - uniform.bayes.mean())) for fine, uniform in found.pairs)
    ratios = [fine.of.error / uniform.of.error for fine, uniform in found.pairs]
    is_better = max(ratios) < 1
    sentence = (
        f"Fine-grain keeps {format_percent(low)} to {format_percent(high)} more records than uniform at tolerances "
        f"from {tolerances[0]} to {tolerances[-1]}, in print about 10% to 20% (neither shares nor tolerances are "
        f"printed); aggregate utilities differ by {apart:.4f} at most, {'' if apart < ALMOST else 'not '}almost the "
        f"same as claimed, and both utilities {'rise' if found.is_rising else 'do not always rise'} with the "
        f"tolerance. That more records kept are better counts is {'so' if is_better else 'not always so'}: the exact "
        f"error of a share is {min(ratios):.2f} to {max(ratios):.2f} times that of uniform."
    )
    is_printed = within(low, *PRINTED_GAIN) and within(high, *PRINTED_GAIN)
    verdict = verdict_of([is_printed, apart < ALMOST, found.is_rising, is_better])
    reading = (
        f"At a tolerance of {tolerances[-1]} fine-grain keeps {format_percent(found.gains[-1])} more records than "
        f"uniform, and the exact error of a share is {ratios[-1]:.2f} times as large."
    )
    return found.outcome("Utility on the reactions, by tolerance", reading, verdict, sentence)


def figure5b(conditions: Conditions) -> Outcome:
    """Record and aggregate utility by tolerance, on values by Zipf's law."""
    found = UtilitiesByTolerance.measured(conditions, zipf(), range(2, 21))
    better = [fine.of.tolerance for fine, uniform in found.pairs if fine.bayes.mean() >= uniform.bayes.mean()]
    lowest = min((each for each in found.by_name[FINE] if each.inverse is not None), key=lambda each: -each.of.error)
    utility = 1 - lowest.of.error
    low, high = min(found.gains), max(found.gains)
    refused = ", ".join(map(str, found.refused))
    sentence = (
        f"Fine-grain keeps {format_percent(low)} to {format_percent(high)} more records than uniform and has less "
        "aggregate utility "
        + (f"(except at tolerances of {' and '.join(map(str, better))})" if better else "at every tolerance")
        + f", as found in print. That utilities rise with the tolerance is {'so' if found.is_rising else 'not so'}"
        + (f": at {refused} the best operator is nearly singular, and sfumato refuses it" if refused else "")
        + f". By the inverse, the aggregate utility goes down to {utility:.1f}: that a high record utility is "
        f"sufficient for a high aggregate one (section V.C) {'holds' if utility > 1 - ALMOST else 'does not hold'}."
    )
    holds = low > 0 and found.is_rising and utility > 1 - ALMOST
    reading = (
        f"Fine-grain keeps most records, and at tolerances of {refused} by an operator that is nearly singular."
        if refused
        else "Fine-grain keeps most records at every tolerance."
    )
    verdict = Verdict.AGREES if holds else Verdict.CONTRADICTS
    return found.outcome("Utility on values by Zipf's law, by tolerance", reading, verdict, sentence)


# --------------------------------------------------------------------------------------------------------------- beyond


def beyond(conditions: Conditions) -> Outcome:
    """The exact error of a share by that of uniform perturbation, at the same bounds, on few values and on many."""
    drawn = conditions.tables.counts("all-reactions", ALL_RECORDS, conditions.seed)
    many = tuple(count for count in drawn if count)
    tables = {f"{VALUES} values by Zipf's law": zipf(), f"{format_quantity(len(many))} reactions": many}
    tolerances = (2, 3, 4, 6, 8, 10, 12, 16, 20)
    rows: list[tuple[str, int, str, float | None]] = []
    for (table, counts), tolerance in conditions.steps(product(tables.items(), tolerances)):
        plans = planned(conditions, counts, tolerance)
        for name, each in plans.items():
            rows.append((table, tolerance, name, None if each.is_refused else each.error / plans[UNIFORM].error))
    panels = [
        Panel(
            Axis(
                f"mean error of a share by that of uniform, {table}; a gap where sfumato refuses", is_logarithmic=True
            ),
            [
                MeasuredLine(
                    name, tuple((float(at), ratio) for of, at, other, ratio in rows if (of, other) == (table, name))
                )
                for name in MECHANISMS
            ],
        )
        for table in tables
    ]

    def between(name: str, table: str) -> str:
        ratios = [ratio for of, _, other, ratio in rows if (of, other) == (table, name) and ratio is not None]
        return f"{min(ratios):.2g} to {max(ratios):.2g}" if ratios else "none"

    few, large = tables
    refused = sum(ratio is None for *_, ratio in rows)
    sentence = (
        f"By that of uniform perturbation at the same bounds, the error of a share is on {few} {between(FINE, few)} "
        f"for fine-grain as published (refused at {refused} of {2 * len(tolerances)} settings), "
        f"{between(FOR_COUNTS, few)} with counts as its objective, {between(HARMONIC, few)} for the harmonic operator "
        f"and {between(SUBSET, few)} for subset selection; on {large} {between(HARMONIC, large)} for harmonic and "
        f"{between(SUBSET, large)} for subset. Subset and uniform promise more (every statement, both directions, by "
        "the strictest bound); the others promise single values, upward."
    )
    reading = (
        f"By the error of uniform, subset has {between(SUBSET, few)} on {few} and {between(SUBSET, large)} on {large}, "
        f"harmonic {between(HARMONIC, few)} and {between(HARMONIC, large)}."
    )
    figure = draw_panels("What is gained at the same bounds", TOLERANCE, panels, reading=reading)
    headings = ("table", "tolerance", "mechanism", "error by that of uniform")
    return Outcome(headings, tuple(rows), Verdict.BEYOND, sentence, figure)


FIGURES = (
    Experiment("fine-grain/fig4", "how frequent the values are", figure4),
    Experiment(
        "fine-grain/fig5a",
        "utility by tolerance, on adverse reactions",
        figure5a,
    ),
    Experiment(
        "fine-grain/fig5b",
        "utility by tolerance, on values by Zipf's law",
        figure5b,
        ("a high record utility is not sufficient for a high aggregate utility",),
    ),
    Experiment("fine-grain/beyond", "what other mechanisms gain at the same bounds", beyond),
)
