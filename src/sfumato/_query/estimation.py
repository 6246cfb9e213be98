"""From a question to estimates: prepare its conditions, count once, and estimate every number of every group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sfumato._core.arrays import Floats, Mask, Places
from sfumato._core.cell_values import split_value
from sfumato._query.connection import Session
from sfumato._query.estimate import Estimate
from sfumato._query.parser.conditions import Domain, Signature, Test
from sfumato._query.parser.formulas import list_sums
from sfumato._query.parser.from_clause import VALUES, check_single
from sfumato._query.parser.linear_terms import Combination, Term, combine_terms, list_products, make_weight
from sfumato._query.parser.query_size import MOST_WEIGHTS, explain_too_large
from sfumato._query.parser.sensitive_queries import Question
from sfumato._records.sql_quoting import TABLE, format_literal, quote_name
from sfumato._records.tally import COUNT, Holdings, Key, Measured, Scan, Tally, make_group_key
from sfumato.errors import QueryError
from sfumato.mechanisms.estimator import Method, Moments, Piece

SUMS = "sums with a normal interval"
UPPER_BOUND = "the standard error is an upper bound: parts are taken to err together"
ONLY_COUNTS = "sums, means, ratios and conditions that mix public and sensitive columns"


@dataclass(frozen=True)
class Cut:
    """Records of one public group and one signature."""

    bits: Mask
    measured: Measured


Factors = Mapping[Key, Mapping[int, Floats]]
"""How much sums add to a number: by the public group, the number of the sum, and the place of the domain."""


@dataclass(frozen=True)
class GroupCell:
    """One row of an answer: its groups, the places of the domain in it, and the sums that were estimated."""

    public: Key
    sensitive: Key
    mask: Mask
    known: dict[int, Estimate]


@dataclass(frozen=True)
class PublicGroup:
    """All records of a public group for which some value would satisfy the condition."""

    records: float
    """How many they are: exact, because public columns are untouched."""
    rest: Estimate | None
    """The count of those that no line counts; None where the lines count all of them."""


@dataclass(frozen=True)
class Prepared:
    """A question with its conditions ready to be used."""

    where: Test
    tests: tuple[Test, ...]
    scores: tuple[Floats | None, ...]
    """For each sum, the score of each place."""
    weights: tuple[str, ...]
    """For each sum, the weight of its records."""
    groups: Mapping[Key, Mask]
    """The places of each sensitive group."""
    signature: Signature
    positive: frozenset[str]
    """The weights that are never negative."""


def prepare(session: Session, question: Question, only: Mask | None) -> Prepared:
    """Ask DuckDB what the conditions say about the values of the domain."""
    domain, signature = Domain(session, question.source), Signature()
    domain.check_joins()
    where = domain.test(question.where, signature, is_where=True)
    if only is not None:
        where = replace(where, wanted=where.wanted & only)
    tests = tuple(domain.test(total.condition, signature) for total in question.totals)
    scores = tuple(None if total.score is None else domain.scores(total.score) for total in question.totals)
    weights = tuple(make_weight(total.factor) for total in question.totals)
    positive = _find_positive_weights(session, question, [weight for weight in weights if weight != COUNT])
    return Prepared(where, tests, scores, weights, _group_places(domain, question, where), signature, positive)


def _find_positive_weights(session: Session, question: Question, weights: Sequence[str]) -> frozenset[str]:
    """The weights that are never negative; what cannot be added up is refused by DuckDB."""
    if not weights:
        return frozenset()
    clause = f" WHERE {question.where.public_sql}" if question.where.public else ""
    for factor in [total.factor for total in question.totals if total.factor is not None]:
        session.columns(f"SELECT SUM({factor}) FROM {question.source.records}")
    least = ", ".join(f"MIN({weight}), BOOL_AND(ISFINITE({weight}))" for weight in weights)
    (row,) = session.rows(f"SELECT {least} FROM {question.source.records}{clause}")
    if any(is_finite is False for is_finite in row[1::2]):
        raise QueryError("a column to add up holds a number that is infinite or no number; leave it out by WHERE.")
    pairs = zip(weights, row[0::2], strict=True)
    return frozenset({weight for weight, lowest in pairs if lowest is None or lowest >= 0} | {COUNT})


def _group_places(domain: Domain, question: Question, where: Test) -> dict[Key, Mask]:
    """The wanted places of the domain, by the values of the sensitive groups."""
    columns = [domain.values(sql) for sql in question.sensitive_groups]
    masks: dict[Key, Mask] = {} if columns else {(): np.zeros(domain.size, dtype=np.bool_)}
    for place in np.flatnonzero(where.wanted).tolist():
        key = make_group_key([column[place] for column in columns])
        masks.setdefault(key, np.zeros(domain.size, dtype=np.bool_))[place] = True
    return masks


class Estimator:
    """Estimates the numbers of a question, group by group."""

    def __init__(
        self,
        session: Session,
        question: Question,
        method: Method[Any],
        only: Mask | None = None,
        formula_groups: Sequence[Iterable[int]] | None = None,
    ) -> None:
        self.session, self.question, self.method = session, question, method
        self.formula_groups = formula_groups
        """The formulas that meet in one number, by their numbers; all of them may where none are given."""
        self.design = session.manifest.design
        self.only = only
        self.prepared = prepare(session, question, only)
        self.has_records = False
        check_single(question.source, session, question.where.public_sql)

    def cells(self) -> Iterator[GroupCell]:
        """Count: the rows of the answer, before anything is estimated but simple counts."""
        for public, cuts in self._cuts.items():
            counts = self._counted_at_once(cuts)
            for (sensitive, mask), group_counts in zip(self.prepared.groups.items(), counts, strict=True):
                if not self.question.groups or self._is_possible(cuts, mask):
                    self.session.clock.check()
                    yield GroupCell(public, sensitive, mask, group_counts)

    def public_groups(self) -> dict[Key, PublicGroup]:
        """The public groups of the lines, each as a whole."""
        groups = {}
        for public, cuts in self._cuts.items():
            left_out = [(cut.measured, ~self.prepared.where.mask(cut.bits)) for cut in cuts]
            terms = [Term(measured, {COUNT: mask.astype(np.float64)}) for measured, mask in left_out]
            has_rest = any(mask.any() for _, mask in left_out)
            rest = self._count_or_sum(combine_terms(terms, self.prepared.positive)) if has_rest else None
            groups[public] = PublicGroup(sum(cut.measured[COUNT].rows.item() for cut in cuts), rest)
        return groups

    @cached_property
    def _cuts(self) -> dict[Key, list[Cut]]:
        """Count the records of each public group and signature."""
        question, prepared = self.question, self.prepared
        needed: dict[str, None] = {}
        for formulas in [range(len(question.formulas))] if self.formula_groups is None else self.formula_groups:
            numbers = {number for formula in formulas for number in list_sums(question.formulas[formula])}
            needed.update(dict.fromkeys(list_products({prepared.weights[number] for number in numbers})))
        if len(needed) > MOST_WEIGHTS:
            raise explain_too_large(f"{MOST_WEIGHTS:,} sums of columns and of their products")
        scan = Scan(
            question.source.records,
            question.where.public_sql,
            (*question.public_groups, *prepared.signature.columns),
            tuple(needed),
            len(prepared.groups) * len(question.formulas),
        )
        width = len(question.public_groups)
        cuts_by_key: dict[Key, list[Cut]] = {} if width else {(): []}
        for key, measured in self._counted_by_group(scan).items():
            self.has_records |= bool(measured[COUNT].rows[0])
            bits = prepared.signature.bits([int(part) for part in key[width:]])  # type: ignore[arg-type]
            if prepared.where.mask(bits).any():
                beside = {weight: tally.beside(self.whole, self.holdings) for weight, tally in measured.items()}
                cuts_by_key.setdefault(key[:width], []).append(Cut(bits, beside))
        return cuts_by_key

    def _counted_by_group(self, scan: Scan) -> dict[Key, Measured]:
        """Count what the records of each group show; of one count by the quick way, where there is one."""
        manifest = self.session.manifest
        condition = self._hit_condition()
        if condition is not None:
            wanted = self.prepared.where.wanted & self.prepared.tests[0].wanted
            hits = manifest.shown.hits(self.session, scan, manifest.naming, condition, wanted)
            if hits is not None:
                return hits
        return manifest.shown.scanned(self.session, scan, manifest.naming)

    def _hit_condition(self) -> str | None:
        """The condition that a shown value must satisfy to be wanted; None where more must be known than hits.

        Where records are kept or redrawn evenly within their cells, an unbiased count needs to know no more of what
        they show than whether it is wanted. So DuckDB need not tell values apart, and one count costs little more than
        a count of the shown values would.
        """
        question, manifest = self.question, self.session.manifest
        needs_hits_only = self.method.needs_hits_only
        if needs_hits_only is None or not needs_hits_only(self.design):
            return None
        if len(question.totals) != 1 or not question.totals[0].is_count or question.sensitive_groups:
            return None
        inner = question.totals[0].condition
        if question.where.by_level or inner.by_level:
            return None
        if question.where.mixed or inner.mixed or inner.public or question.source.value_joins:
            return None
        wanted = [*question.where.sensitive, *inner.sensitive]
        if self.only is not None:
            value = split_value(manifest.domain[int(self.only.argmax())])
            kinds = self.session.columns(f"SELECT {', '.join(map(quote_name, manifest.sensitive))} FROM {VALUES}")
            wanted += [
                f"{quote_name(TABLE)}.{quote_name(name)} IS NOT DISTINCT FROM {format_literal(part, kinds[name])}"
                for name, part in zip(manifest.sensitive, value, strict=True)
            ]
        return " AND ".join(wanted) or None

    @property
    def holdings(self) -> Holdings | None:
        """What the buckets hold; read once for all questions."""
        cache, manifest = self.session.kept, self.session.manifest
        if "holdings" not in cache:
            cache["holdings"] = manifest.shown.holdings(self.session, Scan(), manifest.naming, self.session.folder)
        cached_holdings: Holdings | None = cache["holdings"]
        return cached_holdings

    @property
    def whole(self) -> Tally | None:
        """The tally of all records, where the method looks at it; counted once for all questions."""
        cache, manifest = self.session.kept, self.session.manifest
        if self.method.needs_whole and "whole" not in cache:
            ((_, measured),) = manifest.shown.scanned(self.session, Scan(), manifest.naming).items()
            cache["whole"] = measured[COUNT]
        whole_tally: Tally | None = cache["whole"] if self.method.needs_whole else None
        return whole_tally

    def _is_possible(self, cuts: Sequence[Cut], mask: Mask) -> bool:
        """Whether a record could be in a sensitive group; each is shown where no condition mixes columns."""
        return not self.prepared.where.classes or any((self.prepared.where.mask(cut.bits) & mask).any() for cut in cuts)

    # -------------------------------------------------------------------------------------------------- one row of many

    def _counted_at_once(self, cuts: Sequence[Cut]) -> list[dict[int, Estimate]]:
        """For each sensitive group its counts, by their numbers, as far as they can be told from shared tallies.

        One by one they would take many times as long: what is learnt of the records is the same for all groups.
        """
        masks = list(self.prepared.groups.values())
        counts_by_group: list[dict[int, Estimate]] = [{} for _ in masks]
        counts = [number for number, total in enumerate(self.question.totals) if total.is_count]
        for number in counts if len(masks) > 1 else []:
            by_cuts: dict[tuple[int, ...], dict[int, Places]] = {}
            wanted = [self.prepared.where.mask(cut.bits) & self.prepared.tests[number].mask(cut.bits) for cut in cuts]
            for group, mask in enumerate(masks):
                several: dict[bytes, list[int]] = {}
                for place, group_number in enumerate(wanted):
                    if (group_number & mask).any():
                        several.setdefault((group_number & mask).tobytes(), []).append(place)
                if len(several) == 1 and not mask.all():
                    ((first, *others),) = several.values()
                    by_cuts.setdefault((first, *others), {})[group] = np.flatnonzero(wanted[first] & mask)
            for mine, places in by_cuts.items():
                tally = Tally.sum_of([(cuts[place].measured[COUNT], 1) for place in mine])
                self.session.clock.check()
                moments = self.method.count(self.design, tally, [*places.values()])
                for group, one in zip(places, moments, strict=True):
                    counts_by_group[group][number] = self._counted(one)
        return counts_by_group

    def total(self, number: int, cell: GroupCell) -> Estimate:
        """One sum of one row: a count has an interval of its own."""
        if number not in cell.known:
            cell.known[number] = self._total(number, cell)
        return cell.known[number]

    def _total(self, number: int, cell: GroupCell) -> Estimate:
        cuts, mask = self._cuts[cell.public], cell.mask.astype(np.float64)
        has_records = any(cut.measured[COUNT].rows[0] and self._theta(number, cut, mask).any() for cut in cuts)
        if not self.question.totals[number].is_count and not has_records:
            return Estimate.missing("no record satisfies the condition")
        return self.combined({cell.public: {number: mask}})

    def estimate_sum(self, factors: Factors) -> Estimate:
        """A linear combination of sums of one row."""
        return self._estimated(self._gathered(factors))

    def combined(self, factors: Factors) -> Estimate:
        """A linear combination of sums of many rows; a count where it is one."""
        return self._count_or_sum(self._gathered(factors))

    def _theta(self, number: int, cut: Cut, factors: Floats) -> Floats:
        """What a record of the cut adds to a sum, for each place that its value may have."""
        wanted = self.prepared.where.mask(cut.bits) & self.prepared.tests[number].mask(cut.bits)
        scores = self.prepared.scores[number]
        if scores is None:
            return np.where(wanted, factors, 0.0)
        return np.where(wanted & ~np.isnan(scores), factors * scores, 0.0)

    def _gathered(self, factors: Factors) -> Combination:
        terms = []
        for public, by_number in factors.items():
            for cut in self._cuts[public]:
                scores: dict[str, Floats] = {}
                for number, by in by_number.items():
                    weight, theta = self.prepared.weights[number], self._theta(number, cut, by)
                    scores[weight] = scores[weight] + theta if weight in scores else theta
                terms.append(Term(cut.measured, scores))
        return combine_terms(terms, self.prepared.positive)

    def crossing_errors(self, number: int, steps: Sequence[Sequence[GroupCell]], share: float) -> list[float | None]:
        """For each step, the error of how many more than a share of what is counted in all steps is counted up to it.

        Records of which the same is asked are added up first: there are many steps, and all of them enter each error.
        """
        parts: dict[bytes, tuple[Floats, list[list[Tally]]]] = {}
        for step, cells in enumerate(steps):
            for cell in cells:
                for cut in self._cuts[cell.public]:
                    theta = self._theta(number, cut, cell.mask.astype(np.float64))
                    tallies = parts.setdefault(theta.tobytes(), (theta, [[] for _ in steps]))[1]
                    tallies[step].append(cut.measured[COUNT])
        errors_by_step: list[float | None] = []
        for last in range(len(steps)):
            self.session.clock.check()
            terms = []
            for theta, tallies in parts.values():
                for by, some in ((1 - share, tallies[: last + 1]), (-share, tallies[last + 1 :])):
                    listed = [(tally, 1.0) for step in some for tally in step]
                    if listed and by:
                        terms.append(Term({COUNT: Tally.sum_of(listed)}, {COUNT: by * theta}))
            errors_by_step.append(
                self._estimated(combine_terms(terms, self.prepared.positive)).standard_error if terms else 0.0
            )
        return errors_by_step

    def ratio_bounds(self, upper: Factors, lower: Factors) -> tuple[float, float]:
        """Between what a ratio lies for certain: it is a mean of what single records would give, if all count below.

        A share lies between 0 and 1, and the mean of a score between the least and the largest score.
        """
        least, most = math.inf, -math.inf
        for public in dict.fromkeys((*upper, *lower)):
            parts = upper.get(public, {}), lower.get(public, {})
            if any(self.prepared.weights[number] != COUNT for part in parts for number in part):
                return -math.inf, math.inf
            for cut in self._cuts[public]:
                nothing = np.zeros(len(self.session.manifest.domain))
                above, below = (
                    sum((self._theta(number, cut, by) for number, by in part.items()), nothing) for part in parts
                )
                if (below < 0).any() or above[below == 0].any():
                    return -math.inf, math.inf
                ratios = above[below > 0] / below[below > 0]
                least, most = min(least, ratios.min(initial=math.inf)), max(most, ratios.max(initial=-math.inf))
        return (least, most) if least <= most else (-math.inf, math.inf)

    def _count_or_sum(self, found: Combination) -> Estimate:
        if _is_one_count(found):
            ((piece,),) = found.layers
            (moments,) = self.method.count(self.design, piece.first, [np.flatnonzero(piece.theta)])
            return self._counted(_shift_moments(moments, found.known))
        return self._estimated(found)

    def _counted(self, moments: Moments) -> Estimate:
        note = self.method.note or moments.note
        if moments.is_certain[0]:
            return Estimate.exact(float(moments.value[0]))
        return Estimate.of(moments, self.method.words, self.method.assumption, note)

    def _estimated(self, found: Combination) -> Estimate:
        """Estimate what is not known; the layers of a combination are taken to err together."""
        if not found.layers:
            return Estimate.exact(found.known)
        moments = [self._moments(layer) for layer in found.layers]
        first = _shift_moments(moments[0], found.known)
        note = self.method.note or moments[0].note
        if len(moments) > 1:
            error = sum(math.sqrt(float(moment.base[0])) for moment in moments)
            ends = [
                sum(getattr(moment, end)[0] for moment in moments) + found.known for end in ("value", "most", "least")
            ]
            first, note = Moments.of(ends[0], error**2, 0.0, ends[1], ends[2]), UPPER_BOUND
        return Estimate.of(first, self.method.words, self.method.assumption, note, SUMS)

    def _moments(self, layer: Sequence[Piece]) -> Moments:
        if self.method.total is None:
            if self.method is next(iter(self.session.manifest.methods.values())):
                raise QueryError(f"this release can only be counted in: it answers no {ONLY_COUNTS}.")
            raise QueryError(f"this method only counts; use the default one for {ONLY_COUNTS}.")
        return self.method.total(self.design, layer)


def _is_one_count(combination: Combination) -> bool:
    """Whether all that is not known is one count."""
    if len(combination.layers) != 1 or len(combination.layers[0]) != 1:
        return False
    ((piece,),) = combination.layers
    return piece.first is piece.second and bool(np.isin(piece.theta, (0.0, 1.0)).all())


def _shift_moments(moments: Moments, shift: float) -> Moments:
    """Moments of a number that is larger by what is known."""
    if not shift:
        return moments
    return replace(
        moments,
        value=moments.value + shift,
        unbiased=None if moments.unbiased is None else moments.unbiased + shift,
        base=moments.base - moments.slope * shift,
        most=moments.most + shift,
        least=moments.least + shift,
    )
