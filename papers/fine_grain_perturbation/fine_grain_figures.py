"""Figures 4 and 5 of Chaytor, Wang and Brantingham, "Fine-grain perturbation" (2009), and what has been gained since.

The curves of the figures cannot be read, so what is compared are the claims of the text. Each value is bounded by its
exact share and a tolerance, as in the paper. Records are not drawn one by one: how many records of a value show each
other one is multinomial, by the operator that the mechanism itself tells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any

import numpy as np

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import STANDARD_ERRORS, Outcome, Verdict, is_within, judge
from sfumato._core.array_types import Floats
from sfumato._core.random_draws import Draws
from sfumato._figures.figure import Figure
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_lines, draw_panels
from sfumato._figures.number_format import format_percent, format_quantity
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.histogram import Histogram
from sfumato.errors import InfeasibleError
from sfumato.mechanisms import find_mechanism
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
SAME_UTILITY = 0.005
"""UtilitiesByTolerance that differ by less cannot be told apart in a figure."""
PRINTED_GAIN = (0.15, 0.055)
"""Between 10% and 20%, in whole per cents."""
TOLERANCE = Axis("tolerance, posterior over prior")
REFUSED_NOTE = "sfumato refuses to publish it: counts could not be had, or with over ten times the error of uniform"


def make_zipf_counts(records: int = RECORDS, values: int = VALUES) -> tuple[int, ...]:
    """How many records hold the most frequent value, half as many the second, and so on; the rounding spread."""
    weights = 1 / np.arange(1, values + 1)
    ends = np.rint(np.cumsum(weights) / weights.sum() * records).astype(np.int64)
    return tuple(np.diff(ends, prepend=0).tolist())


# ------------------------------------------------------------------------------------------------------------- figure 4


def figure4(conditions: Conditions) -> Outcome:
    """The shares of the reactions, and those of Zipf's law."""
    reactions = conditions.tables.get_counts("reactions", RECORDS, conditions.seed)
    shares_by_table = {
        "reactions": np.array(reactions) / sum(reactions),
        "Zipf": np.array(make_zipf_counts()) / RECORDS,
    }
    rows = tuple((rank + 1, *(float(shares[rank]) for shares in shares_by_table.values())) for rank in range(VALUES))
    # Skewed more is what has at least as much in every number of its most frequent values.
    sums = {name: np.cumsum(shares) for name, shares in shares_by_table.items()}
    is_skewed = bool((sums["Zipf"] >= sums["reactions"] - 1e-12).all())
    ends = {name: (format_percent(shares[0]), format_percent(shares[-1])) for name, shares in shares_by_table.items()}
    figure = draw_lines(
        "How frequent the values are",
        Axis("rank of the value"),
        Axis("share of the records", format_percent, is_logarithmic=True),
        [
            MeasuredLine(name, tuple(zip(range(1, VALUES + 1), shares.tolist(), strict=True)))
            for name, shares in shares_by_table.items()
        ],
        reading=f"The most frequent value has {ends['reactions'][0]} among reactions, {ends['Zipf'][0]} by Zipf's law.",
    )
    sentence = (
        f"Zipf's law ({ends['Zipf'][0]} to {ends['Zipf'][1]}) is {'' if is_skewed else 'not '}more skewed than the "
        f"reactions ({ends['reactions'][0]} to {ends['reactions'][1]}) at every rank, as claimed of CADR; of CADR "
        "itself no share is printed."
    )
    return Outcome(("rank", *shares_by_table), rows, judge([is_skewed]), sentence, figure)


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
        (likelihoods,) = model.compute_published_likelihoods(
            self.mechanism.make_design(self.plan), places, places, places
        )
        return likelihoods

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


def plan_entrants(conditions: Conditions, counts: Sequence[int], tolerance: int) -> dict[str, Entrant]:
    """Every mechanism at the bounds of a tolerance: from the share of a value to so many times that share."""
    histogram = Histogram.of([f"{place:05}" for place in range(len(counts))], counts)
    bounds = {
        value: BreachBound(share, tolerance * share)
        for value, share in zip(histogram.values, histogram.shares, strict=True)
        if tolerance * share < 1  # a value that may become certain has no bound
    }
    draws, entrants = Draws.unsafe_test_key(conditions.make_key()), {}
    for name, (kind, option_values) in MECHANISMS.items():
        mechanism = find_mechanism(kind)
        spec = mechanism.adapt_request(BreachBoundPerValue(bounds))
        plan = mechanism.plan(histogram, spec, mechanism.options(**option_values), draws)
        entrants[name] = Entrant(name, tolerance, mechanism, plan, tuple(counts))
    return entrants


@dataclass(frozen=True)
class MeasuredUtility:
    """The paper's two utilities of an operator; the aggregate one over some perturbed tables, by two estimators."""

    entrant: Entrant
    bayes: Floats
    """One for each table."""
    inverse: Floats | None
    """None where two values are never kept, so that there is no inverse."""

    @classmethod
    def measure(cls, conditions: Conditions, entrant: Entrant) -> MeasuredUtility:
        """Perturb the table ten times, or four times in a quick run."""
        generator = conditions.make_generator(5, entrant.tolerance)
        tables = conditions.choose(4, 10)
        shown_counts = sum(
            (
                generator.multinomial(count, entrant.operator[:, place], tables)
                for place, count in enumerate(entrant.counts)
            ),
            start=np.zeros((tables, len(entrant.counts))),
        )
        inverse = None
        if np.isfinite(entrant.error):
            inverse = _compute_utilities(entrant, np.linalg.solve(entrant.operator, shown_counts.T).T / entrant.records)
        return cls(
            entrant,
            _compute_utilities(entrant, run_iterative_bayes(entrant.operator, shown_counts / entrant.records)),
            inverse,
        )

    @property
    def row(self) -> tuple[Any, ...]:
        """As a row of the table."""
        by_inverse = (None, None) if self.inverse is None else _compute_mean(self.inverse)
        refused = "refused" if self.entrant.is_refused else ""
        exact = self.entrant.error if np.isfinite(self.entrant.error) else None
        return (
            self.entrant.tolerance,
            self.entrant.name,
            self.entrant.record_utility,
            *_compute_mean(self.bayes),
            *by_inverse,
            exact,
            refused,
        )


def run_iterative_bayes(operator: Floats, shown_shares: Floats) -> Floats:
    """Iterative Bayes from an even start, for each line of shares that are shown."""
    estimates = np.full_like(shown_shares, 1 / shown_shares.shape[1])
    for _ in range(STEPS):
        estimates *= (shown_shares / (estimates @ operator.T)) @ operator
    return estimates


def _compute_utilities(entrant: Entrant, estimates: Floats) -> Floats:
    return np.asarray(1 - np.abs(estimates - entrant.shares).mean(axis=1))


def _compute_mean(numbers: Floats) -> tuple[float, float]:
    return float(numbers.mean()), float(numbers.std(ddof=1) / len(numbers) ** 0.5)


@dataclass(frozen=True)
class UtilitiesByTolerance:
    """Of the four operators, by tolerance."""

    by_name: Mapping[str, list[MeasuredUtility]]

    @classmethod
    def measure(cls, conditions: Conditions, counts: Sequence[int], tolerances: Sequence[int]) -> UtilitiesByTolerance:
        """At each tolerance one after the other."""
        utilities_by_name: dict[str, list[MeasuredUtility]] = {name: [] for name in OPERATORS}
        for tolerance in conditions.iter_steps(tolerances):
            plans = plan_entrants(conditions, counts, tolerance)
            for name, utilities in utilities_by_name.items():
                utilities.append(MeasuredUtility.measure(conditions, plans[name]))
        return cls(utilities_by_name)

    @property
    def pairs(self) -> list[tuple[MeasuredUtility, MeasuredUtility]]:
        """Fine-grain beside uniform perturbation."""
        return list(zip(self.by_name[FINE], self.by_name[UNIFORM], strict=True))

    @property
    def gains(self) -> list[float]:
        """By how much fine-grain keeps more records than uniform perturbation."""
        return [fine.entrant.record_utility / uniform.entrant.record_utility - 1 for fine, uniform in self.pairs]

    @property
    def is_retention_rising(self) -> bool:
        """Whether both keep more records, the higher the tolerance."""
        both = ([utility.entrant.record_utility for utility in self.by_name[name]] for name in (UNIFORM, FINE))
        return all(first < second for utilities in both for first, second in pairwise(utilities))

    @property
    def is_rising(self) -> bool:
        """Whether both utilities of both operators rise with the tolerance."""
        return self.is_retention_rising and not self.list_falls(FINE) and not self.list_falls(UNIFORM)

    def list_falls(self, name: str) -> list[int]:
        """The tolerances at which the aggregate utility is lower than at the one before, by more than chance."""
        tolerances = []
        for first, second in pairwise(self.by_name[name]):
            (before, one), (after, other) = _compute_mean(first.bayes), _compute_mean(second.bayes)
            if before - after > STANDARD_ERRORS * (one**2 + other**2) ** 0.5:
                tolerances.append(second.entrant.tolerance)
        return tolerances

    @property
    def refused_tolerances(self) -> list[int]:
        """The tolerances at which the fine-grain operator is not published."""
        return [each.entrant.tolerance for each in self.by_name[FINE] if each.entrant.is_refused]

    def make_outcome(self, heading: str, reading: str, verdict: Verdict, sentence: str) -> Outcome:
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
        return Outcome(headings, rows, verdict, sentence, self._draw_figure(heading, reading))

    def _draw_figure(self, heading: str, reading: str) -> Figure:
        record_lines, error_lines = [], []
        for name, utilities in self.by_name.items():
            refused = tuple(float(each.entrant.tolerance) for each in utilities if each.entrant.is_refused)
            by_record = tuple((float(each.entrant.tolerance), each.entrant.record_utility) for each in utilities)
            by_error = tuple((float(each.entrant.tolerance), 1 - _compute_mean(each.bayes)[0]) for each in utilities)
            record_lines.append(MeasuredLine(name, by_record, hollow_points=refused))
            error_lines.append(MeasuredLine(name, by_error, hollow_points=refused))
        upright = Axis("record utility: the share of records that show their true value", format_percent)
        error = Axis("mean error of a share by iterative Bayes, one less the aggregate utility", format_percent, True)
        return draw_panels(
            heading,
            TOLERANCE,
            [Panel(upright, record_lines, REFUSED_NOTE), Panel(error, error_lines, REFUSED_NOTE)],
            reading=reading,
        )


def figure5a(conditions: Conditions) -> Outcome:
    """Record and aggregate utility by tolerance, on the reactions."""
    tolerances = range(2, 9)
    utilities = UtilitiesByTolerance.measure(
        conditions, conditions.tables.get_counts("reactions", RECORDS, conditions.seed), tolerances
    )
    low, high = min(utilities.gains), max(utilities.gains)
    largest_difference = max(abs(float(fine.bayes.mean() - uniform.bayes.mean())) for fine, uniform in utilities.pairs)
    ratios = [fine.entrant.error / uniform.entrant.error for fine, uniform in utilities.pairs]
    is_better = max(ratios) < 1
    sentence = (
        f"Fine-grain keeps {format_percent(low)} to {format_percent(high)} more records than uniform at tolerances "
        f"from {tolerances[0]} to {tolerances[-1]}, in print about 10% to 20% (neither shares nor tolerances are "
        f"printed); aggregate utilities differ by {largest_difference:.4f} at most, "
        f"{'' if largest_difference < SAME_UTILITY else 'not '}almost the same as claimed, and both utilities "
        f"{'rise' if utilities.is_rising else 'do not always rise'} with the tolerance. That more records kept are "
        f"better counts is {'so' if is_better else 'not always so'}: the exact error of a share is {min(ratios):.2f} "
        f"to {max(ratios):.2f} times that of uniform."
    )
    is_printed = is_within(low, *PRINTED_GAIN) and is_within(high, *PRINTED_GAIN)
    verdict = judge([is_printed, largest_difference < SAME_UTILITY, utilities.is_rising, is_better])
    reading = (
        f"At a tolerance of {tolerances[-1]} fine-grain keeps {format_percent(utilities.gains[-1])} more records than "
        f"uniform, and the exact error of a share is {ratios[-1]:.2f} times as large."
    )
    return utilities.make_outcome("Utility on the reactions, by tolerance", reading, verdict, sentence)


def figure5b(conditions: Conditions) -> Outcome:
    """Record and aggregate utility by tolerance, on values by Zipf's law; the paper prints no tolerances."""
    tolerances = range(2, 21)
    utilities = UtilitiesByTolerance.measure(conditions, make_zipf_counts(), tolerances)
    better = [fine.entrant.tolerance for fine, uniform in utilities.pairs if fine.bayes.mean() >= uniform.bayes.mean()]
    by_bayes = math.floor(1000 * min(float(each.bayes.min()) for each in utilities.by_name[FINE])) / 1000
    by_inverse = 1 - max(each.entrant.error for each in utilities.by_name[FINE] if each.inverse is not None)
    low, high = min(utilities.gains), max(utilities.gains)
    falls, refused = (", ".join(map(str, each)) for each in (utilities.list_falls(FINE), utilities.refused_tolerances))
    sentence = (
        f"Fine-grain keeps {format_percent(low)} to {format_percent(high)} more records than uniform and has less "
        "aggregate utility "
        + (f"(except at tolerances of {' and '.join(map(str, better))})" if better else "at every tolerance")
        + f", as found in print. On our tolerances, {tolerances[0]} to {tolerances[-1]}, its utilities "
        + (f"do not always rise: the aggregate one falls at {falls}" if falls else "rise")
        + " (the paper prints none of its own). By iterative Bayes, the paper's estimator, it is never below "
        f"{by_bayes:.3f}; of {VALUES} values no estimate by shares can have less than {1 - 2 / VALUES:.2f}. By the "
        f"inverse it goes down to {by_inverse:.1f}"
        + (f", and sfumato refuses the operators at {refused}." if refused else ".")
    )
    reading = (
        f"Fine-grain keeps most records, and at tolerances of {refused} by an operator that is nearly singular."
        if refused
        else "Fine-grain keeps most records at every tolerance."
    )
    verdict = judge([low > 0, utilities.is_rising])
    return utilities.make_outcome("Utility on values by Zipf's law, by tolerance", reading, verdict, sentence)


# --------------------------------------------------------------------------------------------------------------- beyond


def beyond(conditions: Conditions) -> Outcome:
    """The exact error of a share by that of uniform perturbation, at the same bounds, on few values and on many."""
    all_counts = conditions.tables.get_counts("all-reactions", ALL_RECORDS, conditions.seed)
    many = tuple(count for count in all_counts if count)
    tables = {f"{VALUES} values by Zipf's law": make_zipf_counts(), f"{format_quantity(len(many))} reactions": many}
    tolerances = (2, 3, 4, 6, 8, 10, 12, 16, 20)
    rows: list[tuple[str, int, str, float | None]] = []
    for (table, counts), tolerance in conditions.iter_steps(product(tables.items(), tolerances)):
        plans = plan_entrants(conditions, counts, tolerance)
        for name, entrant in plans.items():
            rows.append((table, tolerance, name, None if entrant.is_refused else entrant.error / plans[UNIFORM].error))
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

    def format_ratios(name: str, table: str) -> str:
        ratios = [ratio for of, _, other, ratio in rows if (of, other) == (table, name) and ratio is not None]
        return f"{min(ratios):.2g} to {max(ratios):.2g}" if ratios else "none"

    few, large = tables
    refused = sum(ratio is None for *_, ratio in rows)
    sentence = (
        f"By that of uniform perturbation at the same bounds, the error of a share is on {few} "
        f"{format_ratios(FINE, few)} for fine-grain as published (refused at {refused} of {2 * len(tolerances)} "
        f"settings), {format_ratios(FOR_COUNTS, few)} with counts as its objective, {format_ratios(HARMONIC, few)} "
        f"for the harmonic operator and {format_ratios(SUBSET, few)} for subset selection; on {large} "
        f"{format_ratios(HARMONIC, large)} for harmonic and {format_ratios(SUBSET, large)} for subset. Subset and "
        "uniform promise more (every statement, both directions, by the strictest bound); the others promise single "
        "values, upward."
    )
    reading = (
        f"By the error of uniform, subset has {format_ratios(SUBSET, few)} on {few} and "
        f"{format_ratios(SUBSET, large)} on {large}, harmonic {format_ratios(HARMONIC, few)} and "
        f"{format_ratios(HARMONIC, large)}."
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
    ),
    Experiment("fine-grain/beyond", "what other mechanisms gain at the same bounds", beyond),
)
