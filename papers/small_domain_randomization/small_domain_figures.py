"""Figures 2 to 5 of Chaytor and Wang, "Small domain randomization" (2010): errors of counts, and times.

Of the figures only the shapes can be read, so what is compared are the claims of the text. Beside the paper's three
stand what sfumato has at the same numbers: subset selection, which holds for every prior; cells merged by variance; and
Anatomy's own release with an estimator that inverts it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pyarrow as pa

from papers.baselines.suppression import select_remaining
from papers.coded_table import CodedTable
from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict, judge
from papers.experiment_tables import TableSample
from papers.measured_errors import Contestant, MeanError, MeasuredAnswers, measure, publish_once
from papers.query_pools import Band, Pool, draw_crossed_pool, make_lower_bands
from papers.scatter_chart import Cloud, draw_scatter
from papers.small_domain_randomization.small_domain_examples import PhasedPlan
from sfumato._figures.figure import Figure
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_lines, draw_panels
from sfumato._figures.number_format import format_quantity
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import Diversity
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._randomized_response import small_domain

SELECTIVITIES = ("0.1%", "0.5%", "1%")
PP, UP, ANATOMY = "PP", "UP", "Anatomy"
SUBSET, BY_VARIANCE, INVERTED = "subset", "PP by variance", "Anatomy, inverted"
THREE = (PP, UP, ANATOMY)
FIVE = (*THREE, SUBSET, INVERTED)
SIZES = (100_000, 200_000, 300_000, 400_000, 500_000)
EDUCATION_PRIOR = Fraction(1, 30)
"""Of section 6.3: nine of fourteen values are rarer, and protected."""
PERCENT_WORDS = "mean relative error in %"


def list_contestants(prior: Fraction, limit: int) -> Iterator[Contestant]:
    """The paper's three, and ours, with a posterior of one in so many."""
    bound = BreachBound(prior, Fraction(1, limit))
    paper = {"small-domain": small_domain.Options(small_domain.Merge.PAPER)}
    yield Contestant(PP, "small-domain", bound, paper, "closed")
    yield Contestant(UP, "uniform", bound, method="closed")
    yield Contestant(ANATOMY, "anatomy", Diversity(limit), method="uniform")
    yield Contestant(SUBSET, "subset", bound, method="closed")
    yield Contestant(BY_VARIANCE, "small-domain", bound, method="closed")
    yield Contestant(INVERTED, "anatomy", Diversity(limit), method="inverse")


@dataclass(frozen=True)
class QueriedSample:
    """A table with its pool and bands."""

    sample: TableSample
    pool: Pool
    bands: Sequence[Band]

    @classmethod
    def of(cls, conditions: Conditions, name: str, rows: int) -> QueriedSample:
        """The paper's pool: 200 conditions, each with every value; fewer in a quick run."""
        sample = conditions.tables.get_sample(name, rows, conditions.seed)
        pool = draw_crossed_pool(
            CodedTable.of(sample.table, sample.sensitive_column), conditions.seed, conditions=conditions.choose(40, 200)
        )
        bands = make_lower_bands(rows, *SELECTIVITIES)
        return cls(sample, pool.take(np.flatnonzero(bands[0].holds(pool.truths))), bands)

    @property
    def largest_share(self) -> Fraction:
        """The largest share of a value."""
        counts = self.sample.table[self.sample.sensitive_column].value_counts().field("counts").to_pylist()
        return Fraction(max(counts), self.sample.table.num_rows)


Line = tuple[float, str, list[MeanError]]
TrialRunner = Callable[[Conditions, QueriedSample, Contestant], MeasuredAnswers | None]


def _measure_if_feasible(
    conditions: Conditions, queried: QueriedSample, contestant: Contestant
) -> MeasuredAnswers | None:
    try:
        return measure(conditions, queried.sample, contestant, queried.pool)
    except InfeasibleError:
        return None


def _measure_lines(  # noqa: PLR0913 - what is varied on which table, and who is tried how
    conditions: Conditions,
    name: str,
    settings: Sequence[tuple[float, int, int]],
    prior: Fraction | None,
    run: TrialRunner,
    *,
    quick_names: Sequence[str],
) -> list[Line]:
    """The errors of contestants for each setting: what is varied, the records, and the posterior's denominator.

    All contestants in a full run; in a quick one those that are told of.
    """
    lines = []
    for at, rows, limit in conditions.iter_steps(settings):
        queried = QueriedSample.of(conditions, name, rows)
        for contestant in list_contestants(prior or max(Fraction(1, 13), queried.largest_share), limit):
            is_wanted = contestant.name in quick_names or not conditions.is_quick
            measured = run(conditions, queried, contestant) if is_wanted else None
            if measured is not None:
                lines.append((at, contestant.name, [measured.compute_errors(band) for band in queried.bands]))
    return lines


def _make_outcome(lines: Sequence[Line], across: Axis, heading: str, verdict: Verdict, sentence: str) -> Outcome:
    rows = tuple(
        (at, name, *(number for each in errors for number in (each.percent, 100 * each.standard_error)))
        for at, name, errors in lines
    )
    names = list(dict.fromkeys(name for _, name, _ in lines))
    figure = _draw_figure(heading, across, names, lines)
    columns = [each for share in SELECTIVITIES for each in (f"error in %, from {share}", "standard error")]
    return Outcome((across.label, "method", *columns), rows, verdict, sentence, figure)


def _draw_figure(heading: str, across: Axis, names: Sequence[str], lines: Sequence[Line]) -> Figure:
    panels = [
        Panel(
            Axis(f"{PERCENT_WORDS}, counts from {share} of the records on", is_logarithmic=True),
            [
                MeasuredLine(name, tuple((at, errors[band].percent) for at, other, errors in lines if other == name))
                for name in names
            ],
        )
        for band, share in enumerate(SELECTIVITIES)
    ]
    last = {name: errors[0].percent for _, name, errors in lines}
    best = min(last, key=lambda each: last[each])
    reading = (
        f"At the last point, for counts from 0.1% of the records on, {best} has the least error: {last[best]:.0f}%."
    )
    return draw_panels(heading, across, panels, reading=reading)


def _get_error(lines: Sequence[Line], at: float, name: str, band: int = 0) -> MeanError:
    return next(errors[band] for place, other, errors in lines if (place, other) == (at, name))


def _describe_extent(conditions: Conditions, rows: int) -> str:
    return conditions.choose(f"In a quick run of {format_quantity(rows)} records ", "")


def _check_claims(lines: Sequence[Line], points: Sequence[float]) -> tuple[bool, bool, list[float]]:
    """Whether PP is below UP and below Anatomy in every band at every point; and where it is not below Anatomy."""
    above = {name: [at for at in points if _is_above(lines, at, name)] for name in (UP, ANATOMY)}
    return not above[UP], not above[ANATOMY], above[ANATOMY]


def _is_above(lines: Sequence[Line], at: float, name: str) -> bool:
    """Whether PP has in some band a larger error than another, by more than chance where that is known."""
    pairs = [(_get_error(lines, at, PP, band), _get_error(lines, at, name, band)) for band in range(len(SELECTIVITIES))]
    return any(other.is_below(own) if own.is_repeated else other.mean < own.mean for own, other in pairs)


def figure2_limit(conditions: Conditions) -> Outcome:
    """Error against L, 300,000 records of occupations."""
    limits = conditions.choose((6, 3), (6, 5, 4, 3))
    rows = conditions.choose(20_000, 300_000)
    lines = _measure_lines(
        conditions,
        "occupations",
        [(limit, rows, limit) for limit in limits],
        None,
        _measure_if_feasible,
        quick_names=FIVE,
    )
    below_up, below_anatomy, above = _check_claims(lines, limits)
    gain = _get_error(lines, limits[0], PP).mean / _get_error(lines, limits[0], INVERTED).mean
    subset = _get_error(lines, limits[0], SUBSET).mean / _get_error(lines, limits[0], PP).mean
    sentence = (
        f"{_describe_extent(conditions, rows)}PP has {'less' if below_up else 'not always less'} error than UP, and "
        + ("less than Anatomy everywhere" if below_anatomy else f"more than Anatomy at L = {_format_numbers(above)}")
        + f"; but Anatomy's own release, inverted, has {1 / gain:.2g} of PP's error at L = {limits[0]}, at a much "
        f"weaker promise, and subset selection, which holds for every prior, {subset:.2g} of it."
    )
    verdict = judge([below_up, below_anatomy])
    return _make_outcome(
        lines, Axis("L, one over the posterior"), "Error of counts by the posterior", verdict, sentence
    )


def figure2_size(conditions: Conditions) -> Outcome:
    """Error against the number of records, L = 6."""
    sizes = conditions.choose((5_000, 20_000), SIZES)
    lines = _measure_lines(
        conditions, "occupations", [(rows, rows, 6) for rows in sizes], None, _measure_if_feasible, quick_names=THREE
    )
    below_up, below_anatomy, above = _check_claims(lines, sizes)
    sentence = (
        (
            f"{_describe_extent(conditions, max(sizes))}PP has {'less' if below_up else 'not always less'} error than "
            "UP, and "
        )
        + (
            "less than Anatomy at every size, as claimed"
            if below_anatomy
            else f"not less than Anatomy in every band at {_format_numbers(above)} records"
        )
        + (
            f"; from {_format_numbers(sizes[:1])} to {_format_numbers(sizes[-1:])} records the error of counts from "
            "0.1% on goes from "
        )
        + " and ".join(f"{_format_change(lines, sizes, name)} ({name})" for name in (PP, ANATOMY))
        + ": the one is noise, the other mostly a bias of Anatomy's estimator."
    )
    verdict = judge([below_up, below_anatomy])
    across = Axis("records")
    return _make_outcome(lines, across, "Error of counts by the size of the table", verdict, sentence)


def _format_change(lines: Sequence[Line], points: Sequence[float], name: str) -> str:
    first, last = (_get_error(lines, at, name).percent for at in (points[0], points[-1]))
    return f"{first:.0f}% to {last:.0f}%"


def _format_numbers(numbers: Sequence[float]) -> str:
    return ", ".join(map(format_quantity, numbers))


def figure3(conditions: Conditions) -> Outcome:
    """Estimates against truths, L = 6, counts from 0.1% of the records on."""
    size = conditions.choose(20_000, 300_000)
    queried = QueriedSample.of(conditions, "occupations", size)
    clouds, rows = [], []
    entrants = [each for each in list_contestants(max(Fraction(1, 13), queried.largest_share), 6) if each.name in THREE]
    for contestant in conditions.iter_steps(entrants):
        for release, _ in publish_once(conditions, queried.sample, contestant):
            estimates = release.count_many(queried.pool.queries, method=contestant.method).value
            cloud = Cloud(contestant.name, tuple(zip(queried.pool.truths.tolist(), estimates.tolist(), strict=True)))
            root = float(np.sqrt(np.mean((estimates - queried.pool.truths) ** 2)))
            slope = float(estimates @ queried.pool.truths / (queried.pool.truths @ queried.pool.truths))
            clouds.append(cloud)
            rows.append((contestant.name, len(estimates), 100 * (cloud.median_deviation or 0.0), root, slope))
    typical, far = ({row[0]: row[place] for row in rows} for place in (2, 3))
    nearest, least = (min(each, key=lambda name: each[name]) for each in (typical, far))
    figure = draw_scatter(
        "Estimates against the truth, L = 6",
        Axis("true count"),
        Axis("estimated count"),
        sorted(clouds, key=lambda each: (ANATOMY, UP, PP).index(each.name)),
        reading=f"Points of {nearest} are typically {typical[nearest]:.0f}% of the count from the diagonal, the least.",
    )
    sentence = (
        f"{_describe_extent(conditions, size)}{nearest} lies nearest to the diagonal, typically "
        f"{typical[nearest]:.0f}% of the count away ("
        + ", ".join(f"{name} {typical[name]:.0f}%" for name in typical if name != nearest)
        + f"), {'as' if nearest == PP else 'not PP as'} claimed"
        + (
            "; so it does by the root of the mean square."
            if least == nearest
            else f"; by the root of the mean square, which large errors decide, {least} does."
        )
    )
    headings = ("method", "queries", "typical distance in %", "root of the mean square", "slope")
    return Outcome(headings, tuple(rows), judge([nearest == PP]), sentence, figure)


def _measure_education(
    conditions: Conditions, queried: QueriedSample, contestant: Contestant
) -> MeasuredAnswers | None:
    """Anatomy is made of what is left when records of frequent values are left out, and asked about all."""
    if contestant.mechanism != "anatomy" or not isinstance(contestant.spec, Diversity):
        return _measure_if_feasible(conditions, queried, contestant)
    codes = CodedTable.of(queried.sample.table, queried.sample.sensitive_column).sensitive.codes
    is_kept = select_remaining(codes, int(contestant.spec.ell), conditions.make_generator(4, int(contestant.spec.ell)))
    kept_sample = replace(queried.sample, table=queried.sample.table.filter(pa.array(is_kept)))
    return _measure_if_feasible(conditions, replace(queried, sample=kept_sample), contestant)


def _plan_education(conditions: Conditions, rows: int, limit: int) -> PhasedPlan:
    """The paper's sub-tables of the skewed table."""
    counts = conditions.tables.get_counts("education", rows, conditions.seed)
    return PhasedPlan.of(counts, EDUCATION_PRIOR, Fraction(1, limit))


def figure4(conditions: Conditions) -> Outcome:
    """Error against L on the skewed table of education, where nine of fourteen values are protected."""
    limits = conditions.choose((10, 4), (10, 8, 6, 4))
    rows = conditions.choose(20_000, 300_000)
    lines = _measure_lines(
        conditions,
        "education",
        [(limit, rows, limit) for limit in limits],
        EDUCATION_PRIOR,
        _measure_education,
        quick_names=(*THREE, BY_VARIANCE),
    )
    plans = {limit: _plan_education(conditions, rows, limit) for limit in limits}
    value_count = plans[limits[0]].whole_cell.domain_size
    divided_limits = [limit for limit in limits if len(plans[limit].cells) > 1]
    gain = min(_get_error(lines, at, PP).mean / _get_error(lines, at, UP).mean for at in divided_limits or limits)
    anatomy = min(_get_error(lines, at, ANATOMY).mean / _get_error(lines, at, PP).mean for at in limits)
    by_variance = _get_error(lines, limits[0], BY_VARIANCE).mean / _get_error(lines, limits[0], PP).mean
    protected = f"{len(plans[limits[0]].protected)} of {value_count} values protected, in print 9 of 14"
    sentence = (
        f"{_describe_extent(conditions, rows)}Anatomy after suppression has {anatomy:.2g} times the error of PP or "
        f"more, {'' if anatomy > 1 else 'not '}as claimed; PP "
        + (
            f"divides this table ({protected}) at L = {_format_numbers(divided_limits)}, where its error is down to "
            f"{gain:.2g} of UP's; in print it divides nothing and is UP"
            if divided_limits
            else f"divides nothing ({protected}), and is UP but for its prior, as claimed"
        )
        + f"; merged by variance, PP has {by_variance:.2g} of its error at L = {limits[0]}."
    )
    verdict = judge([anatomy > 1, not divided_limits])
    across = Axis("L, one over the posterior")
    return _make_outcome(lines, across, "Error of counts on a skewed table", verdict, sentence)


def figure4_size(conditions: Conditions) -> Outcome:
    """Error against the number of records on the skewed table, L = 10."""
    sizes = conditions.choose((5_000, 20_000), SIZES)
    settings = [(size, size, 10) for size in sizes]
    lines = _measure_lines(conditions, "education", settings, EDUCATION_PRIOR, _measure_education, quick_names=THREE)
    ratios = {
        name: [_get_error(lines, at, name).mean / _get_error(lines, at, PP).mean for at in sizes]
        for name in (UP, ANATOMY)
    }
    least, (low, high) = min(ratios[ANATOMY]), (min(ratios[UP]), max(ratios[UP]))
    divided_sizes = [size for size in sizes if len(_plan_education(conditions, size, 10).cells) > 1]
    sentence = (
        f"{_describe_extent(conditions, max(sizes))}Anatomy after suppression has {least:.2g} to "
        f"{max(ratios[ANATOMY]):.2g} times the error of PP, {'as claimed' if least > 1 else 'where more is claimed'}; "
        f"its error goes from {_format_change(lines, sizes, ANATOMY)} and that of PP from "
        f"{_format_change(lines, sizes, PP)}; PP "
        + (
            f"divides the table at {_format_numbers(divided_sizes)} records, where in print it divides nothing"
            if divided_sizes
            else "divides nothing, and is UP but for its prior, as claimed"
        )
        + f" (UP has {low:.2g} to {high:.2g} times its error)."
    )
    verdict = judge([least > 1, not divided_sizes])
    return _make_outcome(lines, Axis("records"), "Error of counts on a skewed table by its size", verdict, sentence)


def figure5(conditions: Conditions) -> Outcome:
    """How the time grows with the number of records."""
    sizes = conditions.choose((10_000, 20_000), (100_000, 300_000, 500_000))
    rows = []
    for size in conditions.iter_steps(sizes):
        sample = conditions.tables.get_sample("occupations", size, conditions.seed)
        queried = QueriedSample(sample, Pool((), np.zeros(0, dtype=np.int64)), ())
        for contestant in list_contestants(max(Fraction(1, 13), queried.largest_share), 6):
            if contestant.name in THREE:
                measured = _measure_if_feasible(conditions, queried, contestant)
                if measured is not None:
                    rows.append((size, contestant.name, measured.seconds))
    slowest = {size: max(took for at, _, took in rows if at == size) for size in sizes}
    growth = slowest[sizes[-1]] / slowest[sizes[0]]
    figure = draw_lines(
        "How long publishing takes",
        Axis("records"),
        Axis("processor seconds, checks and files included"),
        [MeasuredLine(name, tuple((at, took) for at, other, took in rows if other == name)) for name in THREE],
        reading=f"{sizes[-1] / sizes[0]:.0f} times the records take {growth:.1f} times as long.",
    )
    times, most = sizes[-1] / sizes[0], {name: took for at, name, took in rows if at == sizes[-1]}
    is_linear = growth <= 1.5 * times
    others = " and ".join(f"{most[PP] / most[name]:.1f} times that of {name}" for name in (UP, ANATOMY) if name in most)
    sentence = (
        f"{'Linear or less, as' if is_linear else 'More than linear, not as'} claimed: {times:.0f} times the records "
        f"take {growth:.1f} times as long; PP takes {others}. The seconds are of another machine and include all "
        "checks and files, so they are not compared."
    )
    verdict = judge([is_linear])
    return Outcome(("records", "method", "seconds"), tuple(rows), verdict, sentence, figure)


FIGURES = (
    Experiment("small-domain/fig2-limit", "error of counts by the posterior", figure2_limit, is_long=True),
    Experiment("small-domain/fig2-size", "error of counts by the size of the table", figure2_size, is_long=True),
    Experiment("small-domain/fig3", "estimates against the truth", figure3),
    Experiment("small-domain/fig4", "error of counts on a skewed table", figure4, is_long=True),
    Experiment("small-domain/fig4-size", "error of counts on a skewed table by its size", figure4_size, is_long=True),
    Experiment("small-domain/fig5", "time by the size of the table", figure5, is_timed=True, is_long=True),
)
