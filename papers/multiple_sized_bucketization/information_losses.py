"""Figures 7.2 and 7.3 of the thesis on buckets: the diversity that its caps would need, and information losses.

The pictures cannot be read, so what is compared are the numbers that follow from the published shares, and the claims
of the text. Losses follow from counts alone: a quick run is a full one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, judge
from papers.multiple_sized_bucketization.census_problems import (
    CENSUSES,
    FACTOR_AXIS,
    FACTORS,
    Census,
    compute_diversity,
    make_anatomy_setting,
    pose_problem,
)
from sfumato._figures.line_chart import Axis, MeasuredLine, Panel, draw_panels
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError, Problem
from sfumato.mechanisms._bucketization.buckets.bucket_setting import Setting
from sfumato.mechanisms._bucketization.buckets.least_loss import find_optimal_setting
from sfumato.mechanisms._bucketization.buckets.size_methods import HEURISTICS

ROWS = 300_000
SLIGHTLY = 1.1
"""Up to so many times as much is "only slightly higher"."""
ANATOMY, OPTIMAL = "Anatomy", "optimal"
NAMES = {"one": "one size", "two": "two sizes", "multi": "several, top-down"}


def _format_numbers(numbers: Sequence[object]) -> str:
    return ", ".join(map(str, numbers))


def figure7_2(conditions: Conditions) -> Outcome:
    """The diversity that keeps all caps, and whether the table allows it."""
    rows, panels, agreeing, refusals = [], [], [], []
    for census in CENSUSES:
        counts = census.get_counts(conditions, ROWS)
        smallest, most = Fraction(min(counts), sum(counts)), sum(counts) // max(counts)
        ours = [compute_diversity(smallest, factor) for factor in FACTORS]
        printed = [compute_diversity(census.smallest_share, factor) for factor in FACTORS]
        rows += [
            (census.name, factor, *diversities, most, "yes" if diversities[0] <= most else "no")
            for factor, *diversities in zip(FACTORS, ours, printed, strict=True)
        ]
        agreeing += [ours == printed, most == int(1 / census.largest_share)]
        refusals.append(
            f"{census.name} at θ = {_format_numbers([f for f, ell in zip(FACTORS, ours, strict=True) if ell > most])}"
        )
        lines = [
            MeasuredLine("needed, ours", tuple(zip(FACTORS, ours, strict=True))),
            MeasuredLine("by published shares", tuple(zip(FACTORS, printed, strict=True)), is_published=True),
            MeasuredLine("the table allows", ((FACTORS[0], most), (FACTORS[-1], most))),
        ]
        panels.append(Panel(Axis(f"{census.name}: diversity l"), lines))
    allowed = [next(row[4] for row in rows if row[0] == census.name) for census in CENSUSES]
    reading = f"Anatomy cannot be made of {' and of '.join(refusals)}."
    figure = draw_panels("The diversity that caps would need", FACTOR_AXIS, panels, reading=reading)
    needed, published = (
        " and ".join(
            f"{_format_numbers([row[place] for row in rows if row[0] == census.name])} ({census.name})"
            for census in CENSUSES
        )
        for place in (2, 3)
    )
    sentence = (
        f"At θ = {_format_numbers(FACTORS)} the caps need an l of {needed}, "
        + (
            f"as follows from the published shares: large but for θ = {FACTORS[-1]}, as the text says. "
            if all(agreeing[::2])
            else f"where the published shares give {published}. "
        )
        + f"The tables allow {_format_numbers(allowed)}, in print 13, 3. {reading}"
    )
    headings = ("table", "θ", "l", "l by the published share", "the table allows", "possible")
    return Outcome(headings, tuple(rows), judge(agreeing), sentence, figure)


def _find_settings(problem: Problem) -> Mapping[str, Setting | None]:
    """The best setting of each kind; None where there is none."""

    def find_setting(kind: str) -> Setting | None:
        try:
            return HEURISTICS[kind](problem)
        except NoBucketingError:
            return None

    return {
        **{name: find_setting(kind) for kind, name in NAMES.items()},
        OPTIMAL: find_optimal_setting(problem).setting,
    }


Losses = Mapping[tuple[str, int], Mapping[str, Setting | None]]


def figure7_3(conditions: Conditions) -> Outcome:
    """Information loss of all kinds of buckets."""
    losses: dict[tuple[str, int], Mapping[str, Setting | None]] = {}
    for census in conditions.iter_steps(CENSUSES):
        counts = census.get_counts(conditions, ROWS)
        for factor in FACTORS:
            ell = compute_diversity(Fraction(min(counts), sum(counts)), factor)
            losses[census.name, factor] = {
                **_find_settings(pose_problem(counts, factor)),
                ANATOMY: make_anatomy_setting(sum(counts), ell),
            }
    rows = tuple(
        (
            *place,
            kind,
            None if setting is None else setting.loss,
            None if setting is None else setting.information_loss,
            _compute_ratio(settings, kind),
        )
        for place, settings in losses.items()
        for kind, setting in settings.items()
    )
    anatomy, two, multi = (
        [ratio for settings in losses.values() if (ratio := _compute_ratio(settings, kind)) is not None]
        for kind in (ANATOMY, NAMES["two"], NAMES["multi"])
    )
    worst = [_compute_ratio(settings, ANATOMY, NAMES["two"]) for settings in losses.values()]
    is_worst = all(worst_ratio is not None and worst_ratio > 1 for worst_ratio in worst)
    is_near = max(two) <= SLIGHTLY
    sentence = (
        f"Anatomy's sizes have {min(anatomy):.1f} to {max(anatomy):.1f} times the information loss of the optimum, "
        f"{'more' if is_worst else 'not always more'} than two sizes, as claimed; two sizes are "
        f"{'' if is_near else 'not '}only slightly above the optimum, but by {_format_percents(two)}, and top-down by "
        f"{_format_percents(multi)}. Of the thesis' shares only a few are known, so its own table may show less."
    )
    headings = ("table", "θ", "buckets", "loss", "information loss", "times the optimum")
    verdict = judge([is_worst, is_near])
    panels = [_make_panel(losses, census) for census in CENSUSES]
    reading = (
        f"Two sizes lose up to {max(two):.2f} times as much as the optimum, top-down up to {max(multi):.2f} times."
    )
    figure = draw_panels("Information loss by the caps", FACTOR_AXIS, panels, reading=reading)
    return Outcome(headings, rows, verdict, sentence, figure)


def _compute_ratio(settings: Mapping[str, Setting | None], kind: str, than: str = OPTIMAL) -> float | None:
    ours, theirs = settings[kind], settings[than]
    return None if ours is None or theirs is None else ours.information_loss / theirs.information_loss


def _format_percents(ratios: Sequence[float]) -> str:
    return f"{100 * min(ratios) - 100:.1f} to {100 * max(ratios) - 100:.0f}%"


def _make_panel(losses: Losses, census: Census) -> Panel:
    lines = [
        MeasuredLine(
            kind,
            tuple(
                (factor, setting.information_loss)
                for factor in FACTORS
                if (setting := losses[census.name, factor][kind]) is not None
            ),
        )
        for kind in (ANATOMY, *NAMES.values(), OPTIMAL)
    ]
    return Panel(Axis(f"{census.name}: information loss", is_logarithmic=True), lines)


LOSSES = (
    Experiment("buckets/fig7-2", "the diversity that caps would need", figure7_2),
    Experiment("buckets/fig7-3", "information loss by the caps", figure7_3),
)
