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

from papers.baselines.suppression import suppressed
from papers.coded_table import CodedTable
from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, Verdict
from papers.experiment_tables import TableSample
from papers.measured_errors import Contestant, Errors, Measured, measure, released
from papers.query_pools import Band, Pool, crossed, passing
from papers.small_domain_randomization.small_domain_examples import Planned
from sfumato._figures.figure import Figure
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_lines, draw_panels
from sfumato._figures.number_format import format_quantity
from sfumato._figures.scatter_chart import Cloud, draw_scatter
from sfumato._request.group_requirements import Diversity
from sfumato._request.requirements import BreachBound
from sfumato.errors import InfeasibleError
from sfumato.mechanisms._randomized_response import small_domain

SELECTIVITIES = ("0.1%", "0.5%", "1%")
PP, UP, ANATOMY = "PP", "UP", "Anatomy"
SUBSET, BY_VARIANCE, INVERTED = "subset", "PP by variance", "Anatomy, inverted"
THREE = (PP, UP, ANATOMY)
FIVE = (*THREE, SUBSET, INVERTED)
SIZES = (100_000, 200_000, 300_000, 400_000, 500_000)
SAME = 0.1
"""Errors that differ by less than this part are about the same."""
PERCENT_WORDS = "mean relative error in %"


def contestants(prior: Fraction, limit: int) -> Iterator[Contestant]:
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
class Asked:
    """A table with its pool and bands."""

    sample: TableSample
    pool: Pool
    bands: Sequence[Band]

    @classmethod
    def of(cls, conditions: Conditions, name: str, rows: int) -> Asked:
        """The paper's pool: 200 conditions, each with every value; fewer in a quick run."""
        sample = conditions.tables.get(name, rows, conditions.seed)
        pool = crossed(
            CodedTable.of(sample.table, sample.sensitive), conditions.seed, conditions=conditions.either(40, 200)
        )
        bands = passing(rows, *SELECTIVITIES)
        return cls(sample, pool.take(np.flatnonzero(bands[0].holds(pool.truths))), bands)

    @property
    def largest(self) -> Fraction:
        """The largest share of a value."""
        counts = self.sample.table[self.sample.sensitive].value_counts().field("counts").to_pylist()
        return Fraction(max(counts), self.sample.table.num_rows)


Line = tuple[float, str, list[Errors]]
Try = Callable[[Conditions, Asked, Contestant], Measured | None]


def _try(conditions: Conditions, asked: Asked, contestant: Contestant) -> Measured | None:
    try:
        return measure(conditions, asked.sample, contestant, asked.pool)
    except InfeasibleError:
        return None


def _lines(  # noqa: PLR0913 - what is varied on which table, and who is tried how
    conditions: Conditions,
    name: str,
    settings: Sequence[tuple[float, int, int]],
    prior: Fraction | None,
    run: Try,
    *,
    told: Sequence[str],
) -> list[Line]:
    """The errors of contestants for each setting: what is varied, the records, and the posterior's denominator.

    All contestants in a full run; in a quick one those that are told of.
    """
    found = []
    for at, rows, limit in conditions.steps(settings):
        asked = Asked.of(conditions, name, rows)
        for contestant in contestants(prior or max(Fraction(1, 13), asked.largest), limit):
            is_wanted = contestant.name in told or not conditions.is_quick
            measured = run(conditions, asked, contestant) if is_wanted else None
            if measured is not None:
                found.append((at, contestant.name, [measured.errors(band) for band in asked.bands]))
    return found


def _outcome(lines: Sequence[Line], across: Axis, heading: str, verdict: Verdict, sentence: str) -> Outcome:
    rows = tuple(
        (at, name, *(number for each in errors for number in (each.percent, 100 * each.standard_error)))
        for at, name, errors in lines
    )
    names = list(dict.fromkeys(name for _, name, _ in lines))
    figure = _figure(heading, across, names, lines)
    columns = [each for share in SELECTIVITIES for each in (f"error in %, from {share}", "standard error")]
    return Outcome((across.label, "method", *columns), rows, verdict, sentence, figure)


def _figure(heading: str, across: Axis, names: Sequence[str], lines: Sequence[Line]) -> Figure:
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


def _at(lines: Sequence[Line], at: float, name: str, band: int = 0) -> Errors:
    return next(errors[band] for place, other, errors in lines if (place, other) == (at, name))


def _verdict(holds: bool) -> Verdict:
    """What a figure shows of the paper's table is not refuted by another table: it differs there."""
    return Verdict.AGREES if holds else Verdict.DIFFERS


def _extent(conditions: Conditions, rows: int) -> str:
    return conditions.either(f"In a quick run of {format_quantity(rows)} records ", "")


def _claims(lines: Sequence[Line], points: Sequence[float]) -> tuple[bool, bool, list[float]]:
    """Whether PP is below UP and below Anatomy in every band at every point; and where it is not below Anatomy."""
    above = {name: [at for at in points if _is_above(lines, at, name)] for name in (UP, ANATOMY)}
    return not above[UP], not above[ANATOMY], above[ANATOMY]


def _is_above(lines: Sequence[Line], at: float, name: str) -> bool:
    """Whether PP has in some band a larger error than another, by more than chance where that is known."""
    pairs = [(_at(lines, at, PP, band), _at(lines, at, name, band)) for band in range(len(SELECTIVITIES))]
    return any(other.is_below(own) if own.is_repeated else other.mean < own.mean for own, other in pairs)


def figure2_limit(conditions: Conditions) -> Outcome:
    """Error against L, 300,000 records of occupations."""
    limits = conditions.either((6, 3), (6, 5, 4, 3))
    rows = conditions.either(20_000, 300_000)
    lines = _lines(conditions, "occupations", [(limit, rows, limit) for limit in limits], None, _try, told=FIVE)
    below_up, below_anatomy, above = _claims(lines, limits)
    gain = _at(lines, limits[0], PP).mean / _at(lines, limits[0], INVERTED).mean
    subset = _at(lines, limits[0], SUBSET).mean / _at(lines, limits[0], PP).mean
    sentence = (
        f"{_extent(conditions, rows)}PP has {'less' if below_up else 'not always less'} error than UP, and "
        + ("less than Anatomy everywhere" if below_anatomy else f"more than Anatomy at L = {_listed(above)}")
        + f"; but Anatomy's own release, inverted, has {1 / gain:.2g} of PP's error at L = {limits[0]}, at a much "
        f"weaker promise, and subset selection, which holds for every prior, {subset:.2g} of it."
    )
    verdict = _verdict(below_up and below_anatomy)
    return _outcome(lines, Axis("L, one over the posterior"), "Error of counts by the posterior", verdict, sentence)


def figure2_size(conditions: Conditions) -> Outcome:
    """Error against the number of records, L = 6."""
    sizes = conditions.either((5_000, 20_000), SIZES)
    lines = _lines(conditions, "occupations", [(rows, rows, 6) for rows in sizes], None, _try, told=THREE)
    below_up, below_anatomy, above = _claims(lines, sizes)
    sentence = (
        f"{_extent(conditions, max(sizes))}PP has {'less' if below_up else 'not always less'} error than UP, and "
        + (
            "less than Anatomy at every size, as claimed"
            if below_anatomy
            else f"not less than Anatomy in every band at {_listed(above)} records"
        )
        + f"; from {_listed(sizes[:1])} to {_listed(sizes[-1:])} records the error of counts from 0.1% on goes from "
        + " and ".join(f"{_change(lines, sizes, name)} ({name})" for name in (PP, ANATOMY))
        + ": the one is noise, the other mostly a bias of Anatomy's estimator."
    )
    verdict = _verdict(below_up and below_anatomy)
    across = Axis("records")
    return _outcome(lines, across, "Error of counts by the size of the table", verdict, sentence)


def _change(lines: Sequence[Line], points: Sequence[float], name: str) -> str:
    first, last = (_at(lines, at, name).percent for at in (points[0], points[-1]))
    return f"{first:.0f}% to {last:.0f}%"


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(map(format_quantity, numbers))


def figure3(conditions: Conditions) -> Outcome:
    """Estimates against truths, L = 6, counts from 0.1% of the records on."""
    size = conditions.either(20_000, 300_000)
    asked = Asked.of(conditions, "occupations", size)
    clouds, rows = [], []
    wanted = [each for each in contestants(max(Fraction(1, 13), asked.largest), 6) if each.name in THREE]
    for contestant in conditions.steps(wanted):
        for release, _ in released(conditions, asked.sample, contestant):
            found = release.count_many(asked.pool.queries, method=contestant.method).value
            cloud = Cloud(contestant.name, tuple(zip(asked.pool.truths.tolist(), found.tolist(), strict=True)))
            root = float(np.sqrt(np.mean((found - asked.pool.truths) ** 2)))
            slope = float(found @ asked.pool.truths / (asked.pool.truths @ asked.pool.truths))
            clouds.append(cloud)
            rows.append((contestant.name, len(found), 100 * (cloud.apart or 0.0), root, slope))
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
        f"{_extent(conditions, size)}{nearest} lies nearest to the diagonal, typically "
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
    return Outcome(headings, tuple(rows), _verdict(nearest == PP), sentence, figure)


def _try_education(conditions: Conditions, asked: Asked, contestant: Contestant) -> Measured | None:
    """Anatomy is made of what is left when records of frequent values are left out, and asked about all."""
    if contestant.mechanism != "anatomy" or not isinstance(contestant.spec, Diversity):
        return _try(conditions, asked, contestant)
    codes = CodedTable.of(asked.sample.table, asked.sample.sensitive).sensitive.codes
    stays = suppressed(codes, int(contestant.spec.ell), conditions.generator(4, int(contestant.spec.ell)))
    left = replace(asked.sample, table=asked.sample.table.filter(pa.array(stays)))
    return _try(conditions, replace(asked, sample=left), contestant)


def figure4(conditions: Conditions) -> Outcome:
    """Error against L on the skewed table of education, where nine of fourteen values are protected."""
    limits = conditions.either((10, 4), (10, 8, 6, 4))
    rows = conditions.either(20_000, 300_000)
    prior = Fraction(1, 30)
    lines = _lines(
        conditions,
        "education",
        [(limit, rows, limit) for limit in limits],
        prior,
        _try_education,
        told=(*THREE, BY_VARIANCE),
    )
    counts = conditions.tables.counts("education", rows, conditions.seed)
    plans = {limit: Planned.of(counts, prior, Fraction(1, limit)) for limit in limits}
    divided = [limit for limit in limits if len(plans[limit].cells) > 1]
    gain = min(_at(lines, at, PP).mean / _at(lines, at, UP).mean for at in divided or limits)
    anatomy = min(_at(lines, at, ANATOMY).mean / _at(lines, at, PP).mean for at in limits)
    by_variance = _at(lines, limits[0], BY_VARIANCE).mean / _at(lines, limits[0], PP).mean
    protected = f"{len(plans[limits[0]].protected)} of {len(counts)} values protected, in print 9 of 14"
    sentence = (
        f"{_extent(conditions, rows)}Anatomy after suppression has {anatomy:.2g} times the error of PP or more, "
        f"{'' if anatomy > 1 else 'not '}as claimed; PP "
        + (
            f"divides this table ({protected}) at L = {_listed(divided)}, where its error is down to {gain:.2g} of "
            "UP's; in print it divides nothing and is UP"
            if divided
            else "divides nothing, and is UP but for its prior, as claimed"
        )
        + f"; merged by variance, PP has {by_variance:.2g} of its error at L = {limits[0]}."
    )
    verdict = Verdict.DIFFERS if anatomy > 1 and divided else _verdict(anatomy > 1)
    across = Axis("L, one over the posterior")
    return _outcome(lines, across, "Error of counts on a skewed table", verdict, sentence)


def figure4_size(conditions: Conditions) -> Outcome:
    """Error against the number of records on the skewed table, L = 10."""
    sizes = conditions.either((5_000, 20_000), SIZES)
    settings = [(size, size, 10) for size in sizes]
    lines = _lines(conditions, "education", settings, Fraction(1, 30), _try_education, told=THREE)
    beside = {name: [_at(lines, at, name).mean / _at(lines, at, PP).mean for at in sizes] for name in (UP, ANATOMY)}
    least, (low, high) = min(beside[ANATOMY]), (min(beside[UP]), max(beside[UP]))
    is_up = low > 1 - SAME and high < 1 + SAME
    sentence = (
        f"{_extent(conditions, max(sizes))}Anatomy after suppression has {least:.2g} to {max(beside[ANATOMY]):.2g} "
        f"times the error of PP, {'as claimed' if least > 1 else 'where more is claimed'}; its error goes from "
        f"{_change(lines, sizes, ANATOMY)} and that of PP from {_change(lines, sizes, PP)}, and UP has {low:.2g} to "
        f"{high:.2g} times the error of PP (in print PP is UP)."
    )
    verdict = _verdict(least > 1 and is_up)
    return _outcome(lines, Axis("records"), "Error of counts on a skewed table by its size", verdict, sentence)


def figure5(conditions: Conditions) -> Outcome:
    """How the time grows with the number of records."""
    sizes = conditions.either((10_000, 20_000), (100_000, 300_000, 500_000))
    rows = []
    for size in conditions.steps(sizes):
        sample = conditions.tables.get("occupations", size, conditions.seed)
        asked = Asked(sample, Pool((), np.zeros(0, dtype=np.int64)), ())
        for contestant in contestants(max(Fraction(1, 13), asked.largest), 6):
            if contestant.name in THREE:
                measured = _try(conditions, asked, contestant)
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
    verdict = Verdict.AGREES if is_linear else Verdict.DIFFERS
    return Outcome(("records", "method", "seconds"), tuple(rows), verdict, sentence, figure)


FIGURES = (
    Experiment("small-domain/fig2-limit", "error of counts by the posterior", figure2_limit),
    Experiment("small-domain/fig2-size", "error of counts by the size of the table", figure2_size),
    Experiment("small-domain/fig3", "estimates against the truth", figure3),
    Experiment("small-domain/fig4", "error of counts on a skewed table", figure4, is_long=True),
    Experiment("small-domain/fig4-size", "error of counts on a skewed table by its size", figure4_size, is_long=True),
    Experiment("small-domain/fig5", "time by the size of the table", figure5, is_timed=True, is_long=True),
)
