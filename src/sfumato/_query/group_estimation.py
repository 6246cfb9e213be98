"""Estimates the numbers of a question. It prepares the conditions, counts once, and estimates each group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Floats, Mask, Places
from sfumato._core.cell_values import split_value
from sfumato._query.duckdb_session import Session
from sfumato._query.estimate import Estimate
from sfumato._query.formula_estimation import list_sums
from sfumato._query.parser.conditions import Domain, Signature, ValueFilter
from sfumato._query.parser.from_clause import VALUES, check_unique_records
from sfumato._query.parser.linear_terms import Combination, Term, combine_terms, list_products, make_weight
from sfumato._query.parser.query_size import MOST_WEIGHTS, explain_too_large
from sfumato._query.parser.sensitive_queries import Question
from sfumato._records.sql_quoting import TABLE, format_literal, quote_name
from sfumato._records.tally import COUNT, Key, Scan, SideContents, Tally, WeightTallies, make_group_key
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import AnyMethod, Moments, SumPiece

SUMS = "sum with a normal confidence interval"
UPPER_BOUND = "the standard error is an upper bound, because it is the sum of the errors of the parts"
ONLY_COUNTS = "sums, means, ratios and conditions that mix public and sensitive columns"


@dataclass(frozen=True)
class Cut:
    """The records of one public group and one signature."""

    bits: Mask
    tallies: WeightTallies


Factors = Mapping[Key, Mapping[int, Floats]]
"""The factors of sums in a number, keyed by public group, number of the sum, and index in the domain."""


@dataclass(frozen=True)
class GroupCell:
    """One row of an answer, with its groups, its domain values, and its estimated sums."""

    public_key: Key
    sensitive_key: Key
    mask: Mask
    estimates: dict[int, Estimate]


@dataclass(frozen=True)
class PublicGroup:
    """A public group's records that satisfy the condition for at least one value."""

    record_count: float
    """The number of these records. The number is exact, because public columns are published unchanged."""
    rest: Estimate | None
    """The count of records that no row contains; None if the rows cover all records."""


@dataclass(frozen=True)
class PreparedQuestion:
    """A question with its conditions evaluated on the domain."""

    where: ValueFilter
    tests: tuple[ValueFilter, ...]
    scores: tuple[Floats | None, ...]
    """For each sum, the score of each domain value."""
    weights: tuple[str, ...]
    """For each sum, the weight of its records."""
    groups: Mapping[Key, Mask]
    """The domain values of each sensitive group."""
    signature: Signature
    nonnegative_weights: frozenset[str]
    """The weights that are never negative."""


def prepare_question(session: Session, question: Question, value_mask: Mask | None) -> PreparedQuestion:
    """Evaluates the conditions of a question for each value of the domain, with DuckDB."""
    domain, signature = Domain(session, question.source), Signature()
    domain.check_joins()
    where = domain.make_filter(question.where, signature, is_where=True)
    if value_mask is not None:
        where = replace(where, value_mask=where.value_mask & value_mask)
    tests = tuple(domain.make_filter(total.condition, signature) for total in question.totals)
    scores = tuple(None if total.score is None else domain.compute_scores(total.score) for total in question.totals)
    weights = tuple(make_weight(total.factor) for total in question.totals)
    nonnegative_weights = _find_positive_weights(session, question, [weight for weight in weights if weight != COUNT])
    return PreparedQuestion(
        where, tests, scores, weights, _group_places(domain, question, where), signature, nonnegative_weights
    )


def _find_positive_weights(session: Session, question: Question, weights: Sequence[str]) -> frozenset[str]:
    """The weights that are never negative. DuckDB rejects weights that cannot be added up."""
    if not weights:
        return frozenset()
    clause = f" WHERE {question.where.public_sql}" if question.where.public_parts else ""
    for factor in [total.factor for total in question.totals if total.factor is not None]:
        session.describe_columns(f"SELECT SUM({factor}) FROM {question.source.records_sql}")
    least = ", ".join(f"MIN({weight}), BOOL_AND(ISFINITE({weight}))" for weight in weights)
    (row,) = session.fetch_rows(f"SELECT {least} FROM {question.source.records_sql}{clause}")
    if any(is_finite is False for is_finite in row[1::2]):
        raise QueryError(
            "a column to add up contains an infinite number or NaN; exclude it with WHERE.", code="infinite-number"
        )
    pairs = zip(weights, row[0::2], strict=True)
    return frozenset({weight for weight, lowest in pairs if lowest is None or lowest >= 0} | {COUNT})


def _group_places(domain: Domain, question: Question, where: ValueFilter) -> dict[Key, Mask]:
    """Groups the wanted domain values by the sensitive groups."""
    columns = [domain.compute_values(sql) for sql in question.sensitive_groups]
    masks: dict[Key, Mask] = {} if columns else {(): np.zeros(domain.size, dtype=np.bool_)}
    for place in np.flatnonzero(where.value_mask).tolist():
        key = make_group_key([column[place] for column in columns])
        masks.setdefault(key, np.zeros(domain.size, dtype=np.bool_))[place] = True
    return masks


class GroupEstimator:
    """Estimates the numbers of a question, group by group."""

    def __init__(
        self,
        session: Session,
        question: Question,
        method: AnyMethod,
        value_mask: Mask | None = None,
        formula_groups: Sequence[Iterable[int]] | None = None,
    ) -> None:
        self.session, self.question, self.method = session, question, method
        self.formula_groups = formula_groups
        """Groups of formulas that are combined in one number. By default all formulas may be combined."""
        self.design = session.manifest.design
        self.value_mask = value_mask
        self.prepared_question = prepare_question(session, question, value_mask)
        self.has_records = False
        check_unique_records(question.source, session, question.where.public_sql)

    def count_cells(self) -> Iterator[GroupCell]:
        """Makes the rows of the answer. At this point only simple counts are estimated."""
        for public, cuts in self._cuts.items():
            counts = self._count_at_once(cuts)
            for (sensitive, mask), group_counts in zip(self.prepared_question.groups.items(), counts, strict=True):
                if not self.question.groups or self._is_possible(cuts, mask):
                    self.session.clock.check()
                    yield GroupCell(public, sensitive, mask, group_counts)

    def count_public_groups(self) -> dict[Key, PublicGroup]:
        """The public groups of the rows, each with its total."""
        groups = {}
        for public, cuts in self._cuts.items():
            rest_pairs = [(cut.tallies, ~self.prepared_question.where.select_values(cut.bits)) for cut in cuts]
            terms = [Term(measured, {COUNT: mask.astype(np.float64)}) for measured, mask in rest_pairs]
            has_rest = any(mask.any() for _, mask in rest_pairs)
            rest = (
                self._count_or_sum(combine_terms(terms, self.prepared_question.nonnegative_weights))
                if has_rest
                else None
            )
            groups[public] = PublicGroup(sum(cut.tallies[COUNT].rows.item() for cut in cuts), rest)
        return groups

    @cached_property
    def _cuts(self) -> dict[Key, list[Cut]]:
        """Counts the records of each public group and signature."""
        question, prepared = self.question, self.prepared_question
        needed: dict[str, None] = {}
        for formulas in [range(len(question.formulas))] if self.formula_groups is None else self.formula_groups:
            numbers = {number for formula in formulas for number in list_sums(question.formulas[formula])}
            needed.update(dict.fromkeys(list_products({prepared.weights[number] for number in numbers})))
        if len(needed) > MOST_WEIGHTS:
            raise explain_too_large(MOST_WEIGHTS, "sums of columns and of their products")
        scan = Scan(
            question.source.records_sql,
            question.where.public_sql,
            (*question.public_groups, *prepared.signature.columns),
            tuple(needed),
            len(prepared.groups) * len(question.formulas),
        )
        width = len(question.public_groups)
        cuts_by_key: dict[Key, list[Cut]] = {} if width else {(): []}
        for key, measured in self._count_by_group(scan).items():
            self.has_records |= bool(measured[COUNT].rows[0])
            bits = prepared.signature.unpack_bits([int(part) for part in key[width:]])  # type: ignore[arg-type]
            if prepared.where.select_values(bits).any():
                beside = {
                    weight: tally.attach_context(self.whole_tally, self.holdings) for weight, tally in measured.items()
                }
                cuts_by_key.setdefault(key[:width], []).append(Cut(bits, beside))
        return cuts_by_key

    def _count_by_group(self, scan: Scan) -> dict[Key, WeightTallies]:
        """Counts the published values of each group. For a single count it uses a faster way if possible."""
        manifest = self.session.manifest
        condition = self._write_hit_condition()
        if condition is not None:
            wanted_mask = self.prepared_question.where.value_mask & self.prepared_question.tests[0].value_mask
            hits = manifest.encoding.tally_hits(self.session, scan, manifest.naming, condition, wanted_mask)
            if hits is not None:
                return hits
        return manifest.encoding.tally_groups(self.session, scan, manifest.naming)

    def _write_hit_condition(self) -> str | None:
        """The SQL condition that makes a published value a hit. None if the number of hits is not enough.

        If records are kept or redrawn evenly within their sub-tables, the number of hits is enough for an unbiased
        count. DuckDB then need not distinguish values, and the query costs little more than counting the published
        values.
        """
        question, manifest = self.question, self.session.manifest
        needs_hits_only = self.method.needs_hits_only
        if needs_hits_only is None or not needs_hits_only(self.design):
            return None
        if len(question.totals) != 1 or not question.totals[0].is_count or question.sensitive_groups:
            return None
        inner = question.totals[0].condition
        if question.where.has_levels or inner.has_levels:
            return None
        if question.where.mixed_parts or inner.mixed_parts or inner.public_parts or question.source.value_joins:
            return None
        conditions = [*question.where.sensitive_parts, *inner.sensitive_parts]
        if self.value_mask is not None:
            value = split_value(manifest.domain[int(self.value_mask.argmax())])
            kinds = self.session.describe_columns(
                f"SELECT {', '.join(map(quote_name, manifest.sensitive_columns))} FROM {VALUES}"
            )
            conditions += [
                f"{quote_name(TABLE)}.{quote_name(name)} IS NOT DISTINCT FROM {format_literal(part, kinds[name])}"
                for name, part in zip(manifest.sensitive_columns, value, strict=True)
            ]
        return " AND ".join(conditions) or None

    @property
    def holdings(self) -> SideContents | None:
        """The contents of the buckets or crowds. They are read once for all questions."""
        cache, manifest = self.session.cache, self.session.manifest
        if "holdings" not in cache:
            cache["holdings"] = manifest.encoding.read_holdings(
                self.session, Scan(), manifest.naming, self.session.folder
            )
        cached_holdings: SideContents | None = cache["holdings"]
        return cached_holdings

    @property
    def whole_tally(self) -> Tally | None:
        """The tally of all records, if the method needs it. It is counted once for all questions."""
        cache, manifest = self.session.cache, self.session.manifest
        if self.method.needs_whole and "whole" not in cache:
            ((_, measured),) = manifest.encoding.tally_groups(self.session, Scan(), manifest.naming).items()
            cache["whole"] = measured[COUNT]
        whole_tally: Tally | None = cache["whole"] if self.method.needs_whole else None
        return whole_tally

    def _is_possible(self, cuts: Sequence[Cut], mask: Mask) -> bool:
        """Whether a record could be in a sensitive group. Always true if no condition mixes columns."""
        return not self.prepared_question.where.class_bits or any(
            (self.prepared_question.where.select_values(cut.bits) & mask).any() for cut in cuts
        )

    # -------------------------------------------------------------------------------------------------- one row of many

    def _count_at_once(self, cuts: Sequence[Cut]) -> list[dict[int, Estimate]]:
        """The counts of each sensitive group, by the number of the group, as far as shared tallies suffice.

        All groups share the work on the records. Estimating the groups one by one would take many times as long.
        """
        masks = list(self.prepared_question.groups.values())
        counts_by_group: list[dict[int, Estimate]] = [{} for _ in masks]
        counts = [number for number, total in enumerate(self.question.totals) if total.is_count]
        for number in counts if len(masks) > 1 else []:
            by_cuts: dict[tuple[int, ...], dict[int, Places]] = {}
            wanted_masks = [
                self.prepared_question.where.select_values(cut.bits)
                & self.prepared_question.tests[number].select_values(cut.bits)
                for cut in cuts
            ]
            for group, mask in enumerate(masks):
                cuts_by_mask: dict[bytes, list[int]] = {}
                for place, cut_mask in enumerate(wanted_masks):
                    if (cut_mask & mask).any():
                        cuts_by_mask.setdefault((cut_mask & mask).tobytes(), []).append(place)
                if len(cuts_by_mask) == 1 and not mask.all():
                    ((first, *others),) = cuts_by_mask.values()
                    by_cuts.setdefault((first, *others), {})[group] = np.flatnonzero(wanted_masks[first] & mask)
            for cut_numbers, places in by_cuts.items():
                tally = Tally.combine([(cuts[place].tallies[COUNT], 1) for place in cut_numbers])
                self.session.clock.check()
                moments = self.method.count(self.design, tally, [*places.values()])
                for group, group_moments in zip(places, moments, strict=True):
                    counts_by_group[group][number] = self._make_count(group_moments)
        return counts_by_group

    def estimate_total(self, number: int, cell: GroupCell) -> Estimate:
        """Estimates one sum of one row. A count gets an interval of its own."""
        if number not in cell.estimates:
            cell.estimates[number] = self._compute_total(number, cell)
        return cell.estimates[number]

    def _compute_total(self, number: int, cell: GroupCell) -> Estimate:
        cuts, mask = self._cuts[cell.public_key], cell.mask.astype(np.float64)
        has_records = any(cut.tallies[COUNT].rows[0] and self._compute_theta(number, cut, mask).any() for cut in cuts)
        if not self.question.totals[number].is_count and not has_records:
            return Estimate.missing("no record satisfies the condition")
        return self.estimate_combination({cell.public_key: {number: mask}})

    def estimate_sum(self, factors: Factors) -> Estimate:
        """Estimates a linear combination of sums of one row."""
        return self._estimate_layers(self._combine_sums(factors))

    def estimate_combination(self, factors: Factors) -> Estimate:
        """Estimates a linear combination of sums over several rows. A single count is estimated as a count."""
        return self._count_or_sum(self._combine_sums(factors))

    def _compute_theta(self, number: int, cut: Cut, factors: Floats) -> Floats:
        """The contribution of a record of the cut to a sum, for each value of the domain."""
        is_wanted = self.prepared_question.where.select_values(cut.bits) & self.prepared_question.tests[
            number
        ].select_values(cut.bits)
        scores = self.prepared_question.scores[number]
        if scores is None:
            return np.where(is_wanted, factors, 0.0)
        return np.where(is_wanted & ~np.isnan(scores), factors * scores, 0.0)

    def _combine_sums(self, factors: Factors) -> Combination:
        terms = []
        for public, by_number in factors.items():
            for cut in self._cuts[public]:
                scores: dict[str, Floats] = {}
                for number, place_factors in by_number.items():
                    weight, theta = (
                        self.prepared_question.weights[number],
                        self._compute_theta(number, cut, place_factors),
                    )
                    scores[weight] = scores[weight] + theta if weight in scores else theta
                terms.append(Term(cut.tallies, scores))
        return combine_terms(terms, self.prepared_question.nonnegative_weights)

    def compute_crossing_errors(
        self, number: int, steps: Sequence[Sequence[GroupCell]], share: float
    ) -> list[float | None]:
        """For each step, the error of the cumulative count minus a share of the total count.

        Records with equal contributions are merged first. There are many steps, and each error involves all records.
        """
        parts: dict[bytes, tuple[Floats, list[list[Tally]]]] = {}
        for step, cells in enumerate(steps):
            for cell in cells:
                for cut in self._cuts[cell.public_key]:
                    theta = self._compute_theta(number, cut, cell.mask.astype(np.float64))
                    tallies = parts.setdefault(theta.tobytes(), (theta, [[] for _ in steps]))[1]
                    tallies[step].append(cut.tallies[COUNT])
        errors_by_step: list[float | None] = []
        for last in range(len(steps)):
            self.session.clock.check()
            terms = []
            for theta, tallies in parts.values():
                for factor, step_tallies in ((1 - share, tallies[: last + 1]), (-share, tallies[last + 1 :])):
                    weighted_tallies = [(tally, 1.0) for step in step_tallies for tally in step]
                    if weighted_tallies and factor:
                        terms.append(Term({COUNT: Tally.combine(weighted_tallies)}, {COUNT: factor * theta}))
            errors_by_step.append(
                self._estimate_layers(combine_terms(terms, self.prepared_question.nonnegative_weights)).standard_error
                if terms
                else 0.0
            )
        return errors_by_step

    def compute_ratio_bounds(self, upper: Factors, lower: Factors) -> tuple[float, float]:
        """Bounds on a ratio.

        If every record counts in the denominator, the ratio is a mean of ratios of single records.

        A share lies between 0 and 1. The mean of a score lies between the smallest and the largest score.
        """
        least, most = math.inf, -math.inf
        for public in dict.fromkeys((*upper, *lower)):
            parts = upper.get(public, {}), lower.get(public, {})
            if any(self.prepared_question.weights[number] != COUNT for part in parts for number in part):
                return -math.inf, math.inf
            for cut in self._cuts[public]:
                zeros = np.zeros(len(self.session.manifest.domain))
                above, below = (
                    sum(
                        (self._compute_theta(number, cut, place_factors) for number, place_factors in part.items()),
                        zeros,
                    )
                    for part in parts
                )
                if (below < 0).any() or above[below == 0].any():
                    return -math.inf, math.inf
                ratios = above[below > 0] / below[below > 0]
                least, most = min(least, ratios.min(initial=math.inf)), max(most, ratios.max(initial=-math.inf))
        return (least, most) if least <= most else (-math.inf, math.inf)

    def _count_or_sum(self, combination: Combination) -> Estimate:
        if _is_one_count(combination):
            ((piece,),) = combination.layers
            (moments,) = self.method.count(self.design, piece.tally, [np.flatnonzero(piece.theta)])
            return self._make_count(_shift_moments(moments, combination.constant))
        return self._estimate_layers(combination)

    def _make_count(self, moments: Moments) -> Estimate:
        note = self.method.note or moments.note
        if moments.is_certain[0]:
            return Estimate.exact(float(moments.value[0]))
        return Estimate.of(moments, self.method.label, self.method.assumption, note)

    def _estimate_layers(self, combination: Combination) -> Estimate:
        """Estimates the uncertain part. The error is the sum of the layers' errors."""
        if not combination.layers:
            return Estimate.exact(combination.constant)
        moments = [self._compute_moments(layer) for layer in combination.layers]
        first = _shift_moments(moments[0], combination.constant)
        note = self.method.note or moments[0].note
        if len(moments) > 1:
            error = sum(math.sqrt(float(moment.base[0])) for moment in moments)
            ends = [
                sum(getattr(moment, end)[0] for moment in moments) + combination.constant
                for end in ("value", "most", "least")
            ]
            first, note = Moments.of(ends[0], error**2, 0.0, ends[1], ends[2]), UPPER_BOUND
        return Estimate.of(first, self.method.label, self.method.assumption, note, SUMS)

    def _compute_moments(self, layer: Sequence[SumPiece]) -> Moments:
        if self.method.total is None:
            if self.method is next(iter(self.session.manifest.methods.values())):
                raise QueryError(
                    f"this release supports only counts, and not {ONLY_COUNTS}.",
                    code="only-counts",
                    fields={"by": "release"},
                )
            raise QueryError(
                f"this method only counts; use the default method for {ONLY_COUNTS}.",
                code="only-counts",
                fields={"by": "method"},
            )
        return self.method.total(self.design, layer)


def _is_one_count(combination: Combination) -> bool:
    """Whether the uncertain part is a single count."""
    if len(combination.layers) != 1 or len(combination.layers[0]) != 1:
        return False
    ((piece,),) = combination.layers
    return piece.tally is piece.squared_tally and bool(np.isin(piece.theta, (0.0, 1.0)).all())


def _shift_moments(moments: Moments, shift: float) -> Moments:
    """The moments of a number plus a known number."""
    if not shift:
        return moments
    return replace(
        moments,
        value=moments.value + shift,
        unbiased_value=None if moments.unbiased_value is None else moments.unbiased_value + shift,
        base=moments.base - moments.slope * shift,
        most=moments.most + shift,
        least=moments.least + shift,
        known=None,
    )
