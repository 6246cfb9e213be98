"""Buckets of several sizes: publishes the bucket of each record and the contents of each bucket.

Claim: in every bucket, the share of each value is at most its cap. Consider an attacker who knows the bucket of a
record, and nothing that distinguishes the records in this bucket. This attacker gives no value of the record a
probability above its cap. The claim does not cover what the public columns disclose about the value. Anyone can
estimate this from the release with the inverse that makes counts unbiased (de Finetti's attack).
Source: Wang 2014, multiple-sized bucketization under F'-privacy. The exact optimum, the mixed dealing and the inverse
are our own.
Published: the domain, the caps, and two tables with the bucket of each record and the values of each bucket. The tables
disclose the exact count of every value.
Notation: f'_i = cap of value i, S = bucket size, b_S = buckets of that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_in
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Floats, Indices, UInts
from sfumato._core.cell_values import (
    Value,
    display,
    format_relative_error,
    make_labels,
    values_from_json,
    values_to_json,
)
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._core.option_fields import option
from sfumato._core.random_draws import Draws, Permutation
from sfumato._records import CellContents, PerturbedRecords
from sfumato._records.bucket_records import BucketEncoding
from sfumato._records.tally import Holdings, SideContents
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.bucket_and_decoy_requirements import ShareCap
from sfumato._request.guarantee import Guarantee, GuaranteeStatement
from sfumato._request.histogram import Histogram
from sfumato._request.warnings import Notice
from sfumato.errors import InfeasibleError, InternalError, ReleaseFormatError, SpecError
from sfumato.mechanisms._bucketization.buckets import bucket_estimation
from sfumato.mechanisms._bucketization.buckets.bucket_problem import NoBucketingError
from sfumato.mechanisms._bucketization.buckets.error_prediction import CountErrors
from sfumato.mechanisms._bucketization.buckets.record_assignment import Dealing, DealingMethod, deal_out
from sfumato.mechanisms._bucketization.buckets.size_comparison import (
    RankedChoice,
    make_tables,
    predict_errors,
    rank_choices,
)
from sfumato.mechanisms._bucketization.buckets.size_methods import Choice, choose, list_choices
from sfumato.mechanisms._randomized_response.guarantee_sentences import format_percent, format_ratio
from sfumato.mechanisms.capabilities import (
    AttackModel,
    BucketTable,
    Comparability,
    ErrorPrediction,
    PlanExplanation,
    ReleaseErrorPrediction,
    ValueColumn,
)
from sfumato.mechanisms.error_at_count import ErrorAtCount
from sfumato.mechanisms.mechanism import Mechanism, OptionsT, PlanRules, SpecT, make_design_error

NAME = "buckets"

LARGEST_TABLE = 1 << 25
"""With more buckets than this, ids are computed instead of kept in a table."""

WORTH_SAYING = 0.7
"""A note names an alternative if its predicted error divided by that of the chosen method is below this number."""


class Sizes(StrEnum):
    """The method that finds the bucket sizes."""

    AUTO = "auto"
    ONE = "one"
    TWO = "two"
    MULTI = "multi"
    OPTIMAL = "optimal"


OFFERED_SIZES = (Sizes.AUTO.value, Sizes.OPTIMAL.value)
"""The methods that a data steward may choose. Reproductions of papers also use the heuristics of the literature."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options for the sizes of buckets, and for filling them."""

    sizes: Sizes = option(
        Sizes.AUTO,
        "sizes",
        "Choose sizes with the smallest error of counts (auto), or with the smallest information loss (optimal).",
        choices=OFFERED_SIZES,
    )
    min_bucket: int = option(2, "min_bucket", "The smallest number of records in a bucket (2).", metavar="N", minimum=1)
    max_bucket: int = option(
        50, "max_bucket", "The largest number of records in a bucket (50).", metavar="N", minimum=1
    )
    dealing: DealingMethod = DealingMethod.MIXED
    """Only reproductions set another method."""

    def __post_init__(self) -> None:
        if not 1 <= self.min_bucket <= self.max_bucket:
            raise SpecError(
                f"buckets of {self.min_bucket} to {self.max_bucket} records cannot be made; the smallest size must be "
                "at least 1 and at most the largest.",
                code="bucket-size-out-of-range",
                fields={"smallest": self.min_bucket, "largest": self.max_bucket},
            )


@dataclass(frozen=True)
class Plan:
    """The slots of each bucket. A keyed permutation turns bucket numbers into ids."""

    histogram: Histogram
    caps: tuple[Fraction, ...]
    choice: Choice
    dealing_method: DealingMethod
    dealing: Dealing
    ids: Permutation
    name: str = NAME
    ranked_choices: tuple[RankedChoice, ...] = ()
    """The compared choices, the best first. Empty if the data steward chose the sizes."""

    @property
    def bucket_count(self) -> int:
        """The number of buckets."""
        return int(self.dealing.buckets.sum())

    def find_ids(self, numbers: UInts) -> UInts:
        """Returns the ids of buckets, given their numbers. A table has the ids unless there are too many buckets."""
        return self.ids(numbers).astype(np.int64) if self.bucket_count > LARGEST_TABLE else self._id_table.take(numbers)

    @cached_property
    def _id_table(self) -> UInts:
        return self.ids(np.arange(self.bucket_count)).astype(np.int32)

    @cached_property
    def count_errors(self) -> CountErrors:
        """The expected errors of counts."""
        return CountErrors(self.dealing, np.array(self.histogram.counts, dtype=np.int64))


@dataclass(frozen=True)
class Design:
    """The published part of a plan besides the two tables: the domain and the caps."""

    domain: tuple[Value, ...]
    caps: tuple[Fraction, ...]

    def to_json(self) -> Json:
        """Writes the design as JSON, with rational numbers as strings."""
        return {"domain": values_to_json(self.domain), "caps": [str(cap) for cap in self.caps]}


# ------------------------------------------------------------------------------------------------------------- planning


def plan(histogram: Histogram, spec: ShareCap, options: Options, draws: Draws, /) -> Plan:
    """Chooses the sizes of the buckets, and deals the records."""
    caps = spec.list_caps(histogram.values)
    if all(cap == 1 for cap, count in zip(caps, histogram.counts, strict=True) if count):
        raise InfeasibleError(
            "every value that occurs has the cap 1, so nothing would be protected; lower a cap.",
            code="nothing-protected",
        )
    sizes = {"smallest": options.min_bucket, "largest": options.max_bucket}
    try:
        if options.sizes is not Sizes.AUTO:
            choice = choose(histogram.counts, caps, options.sizes, **sizes)
            return deal_records(histogram, caps, choice, options.dealing, draws, NAME)
        candidates = list_choices(histogram.counts, caps, **sizes)
    except NoBucketingError as blocked:
        raise blocked.name_values([repr(display(value)) for value in histogram.values]) from None
    ranked_choices = rank_choices(histogram.counts, candidates, options.dealing)
    choice = candidates[ranked_choices[0].method, ranked_choices[0].smallest]
    return replace_in(
        deal_records(histogram, caps, choice, options.dealing, draws, NAME), ranked_choices=ranked_choices
    )


def deal_records(  # noqa: PLR0913, PLR0917 - the choice, and the parameters of dealing
    histogram: Histogram,
    caps: tuple[Fraction, ...],
    choice: Choice,
    dealing_method: DealingMethod,
    draws: Draws,
    name: str,
) -> Plan:
    """Deals the records for a choice of sizes.

    The key determines the orders of the tranches and the ids of the buckets.
    """
    dealing = deal_out(choice.assignment, choice.floors, dealing_method, draws, name)
    (ids,) = draws.make_permutations(f"{name}/ids", [int(dealing.buckets.sum())])
    return Plan(histogram, caps, choice, dealing_method, dealing, ids, name)


def perturb(plan: Plan, codes: Codes, slots: UInts | None, draws: Draws, first_row: int, /) -> PerturbedRecords:
    """Finds the bucket of each record by its value and slot."""
    if slots is None:
        raise InternalError("bucketization needs the slots of the records.", code="no-slots")
    return PerturbedRecords(None, plan.find_ids(plan.dealing.find_buckets(codes, slots)))


def list_contents(plan: Plan, /) -> CellContents:
    """The table of buckets: bucket id, value index and count, in the order of the ids."""

    def generate_batches(rows: int) -> Iterator[tuple[UInts, UInts, UInts]]:
        step = max(1, rows * plan.bucket_count // plan.histogram.total)
        for first in range(0, plan.bucket_count, step):
            ids = np.arange(first, min(first + step, plan.bucket_count), dtype=np.int32)
            lines, places, counts = plan.dealing.list_contents(plan.ids.invert(ids))
            yield np.repeat(ids, lines), places, counts.astype(np.int32)

    return CellContents(plan.dealing.pair_count, generate_batches)


def make_design(plan: Plan, /) -> Design:
    """The part of the plan that is published beside the tables."""
    return Design(plan.histogram.values, plan.caps)


def read_design(design_json: JsonView, types: Sequence[str], /) -> Design:
    """Reads a design back, given the Data Package types of its columns."""
    parsed_design = Design(
        values_from_json(design_json["domain"], types), tuple(parse_exact(cap, "a cap") for cap in design_json["caps"])
    )
    if not len(set(parsed_design.domain)) == len(parsed_design.domain) == len(parsed_design.caps):
        raise make_design_error("the design's domain and caps do not fit together.", "caps")
    if not all(0 < cap <= 1 for cap in parsed_design.caps):
        raise make_design_error("a cap of the design is out of range.", "caps")
    if all(cap == 1 for cap in parsed_design.caps):
        raise ReleaseFormatError("the design protects no value.", code="design-without-protection")
    return parsed_design


# ------------------------------------------------------------------------------------------------------------- counting


def make_encoding(design: Design, /) -> BucketEncoding:
    """Each record publishes its bucket."""
    return BucketEncoding()


def predict_record_variances(design: Design, contents: SideContents | None, /) -> tuple[Floats, Floats] | None:
    """The variance that one record adds to a count if a condition selects few records.

    It follows from the buckets that values share.
    """
    if not isinstance(contents, Holdings):
        return None
    meeting = contents.derive(bucket_estimation.MeetingMatrix)
    own = np.full(contents.domain_size, np.inf)
    own[meeting.present_places] = bucket_estimation.compute_growth(*meeting.spectrum)
    return own, np.zeros(contents.domain_size)


def predict_variances(plan: Plan, rows: Floats, counts: Floats, /) -> Floats:
    """The variance of the inverse estimate if a condition selects a share rows/total of the records of every value."""
    return plan.count_errors.predict_variances(rows)


def predict_set_variances(plan: Plan, share: float, sets: Sequence[Indices], /) -> Floats:
    """The variance of the inverse estimate of each set of values, if a condition selects a share of every value."""
    return plan.count_errors.predict_set_variances(share, sets)


# ----------------------------------------------------------------------------------------------------------- explaining


def explain(plan: Plan, /) -> Json:
    """Explains the sizes of the buckets, their loss, and how far this loss is from the optimum."""
    choice, values = plan.choice, plan.histogram.values
    records = choice.assignment.records
    setting = list(choice.assignment.setting)
    return {
        "buckets": [
            {
                "size": size,
                "count": count,
                "values": {
                    display(values[place]): int(records[place, column]) for place in np.flatnonzero(records[:, column])
                },
            }
            for column, (size, count) in enumerate(setting)
        ],
        "loss": choice.loss,
        "lower_bound": choice.bound,
        "information_loss": choice.assignment.setting.information_loss,
        "caps": dict(zip(make_labels(values), map(format_ratio, plan.caps), strict=True)),
        **({"ways": [ranked_choice.to_json() for ranked_choice in plan.ranked_choices]} if plan.ranked_choices else {}),
    }


def summarize(plan: Plan, /) -> str:
    """Describes the buckets and their loss in one line."""
    setting, loss, bound = list(plan.choice.assignment.setting), plan.choice.loss, plan.choice.bound
    sizes, total = ", ".join(str(size) for size, _ in setting), sum(count for _, count in setting)
    proof = "the smallest possible" if loss == bound else f"the smallest possible loss is at least {bound:,}"
    if plan.ranked_choices:
        proof += "; chosen to reduce the errors of counts"
    return f"{total:,} buckets of {sizes} records; loss {loss:,} ({proof})"


def fingerprint_plan(plan: Plan, /) -> list[list[int]]:
    """The number of records of each value in each bucket size.

    These numbers distinguish several equally good solutions.
    """
    records: list[list[int]] = plan.choice.assignment.records.tolist()
    return records


def list_remarks(plan: Plan, /) -> list[Notice]:
    """Notes which values are published in the clear, and how good the sizes are."""
    notices = []
    if clear_records := plan.dealing.clear_records:
        clear_sentence = (
            f"{clear_records:,} records are in buckets with only one value, so THEIR VALUES ARE PUBLISHED IN THE "
            "CLEAR. The cap of these values is 1. Lower the cap to protect them (`min_bucket=` alone is not enough)."
        )
        notices.append(Notice("in-the-clear", clear_sentence, numbers={"records": clear_records}))
    uncapped_values = [
        value
        for value, cap, count in zip(plan.histogram.values, plan.caps, plan.histogram.counts, strict=True)
        if cap == 1 and count
    ]
    if uncapped_values:
        value_names = ", ".join(repr(display(value)) for value in uncapped_values[:5])
        uncapped_sentence = (
            f"these values have a cap of 1 and are not protected: {value_names}"
            f"{' and more' if len(uncapped_values) > 5 else ''}."  # noqa: PLR2004
        )
        notices.append(Notice("values-unprotected", uncapped_sentence, numbers={"values": len(uncapped_values)}))
    if not (plan.choice.is_proven or plan.ranked_choices):
        gap = (plan.choice.loss - plan.choice.bound) / plan.choice.loss
        gap_sentence = f"the loss {plan.choice.loss:,} is within {gap:.3%} of the best possible."
        notices.append(
            Notice("best-not-proved", gap_sentence, numbers={"loss": int(plan.choice.loss), "gap": float(gap)})
        )
    expected = predict_errors(plan.histogram.counts, plan.choice, plan.dealing_method)
    if gain := _find_first_gain(expected.inverse_errors, expected.shrunk_errors):
        count, usual, smaller = gain
        shrunk_sentence = (
            f"counts of {count:,.0f} records have a typical error of {format_relative_error(smaller)} with "
            f"`method='shrunk'`, and of {format_relative_error(usual)} with the default method. These errors assume "
            "that a condition selects different shares of the values, which vary by about half of their mean. The "
            "method 'shrunk' is biased and gives no interval."
        )
        notices.append(Notice("shrunk-is-closer", shrunk_sentence, numbers={"default": usual, "shrunk": smaller}))
    return [*notices, *_warn_even_dealing(plan, expected)]


def _warn_even_dealing(plan: Plan, expected: CountErrors) -> list[Notice]:
    """Warns that dealing in turn makes buckets similar and counts less accurate."""
    if plan.dealing_method is DealingMethod.MIXED:
        return []
    mixed = predict_errors(plan.histogram.counts, plan.choice, DealingMethod.MIXED)
    gain = _find_first_gain(expected.inverse_errors, mixed.inverse_errors)
    if gain is None:
        return []
    count, usual, smaller = gain
    sentence = (
        f"dealing in turn makes buckets similar, so counts of {count:,.0f} records have a typical error of "
        f"{format_relative_error(usual)}. With mixed buckets and the same caps the error would be "
        f"{format_relative_error(smaller)}."
    )
    return [Notice("dealt-alike", sentence, numbers={"in_turn": usual, "mixed": smaller})]


def _find_first_gain(usual: Sequence[ErrorAtCount], other: Sequence[ErrorAtCount]) -> tuple[float, float, float] | None:
    """Finds the first count for which the alternative has a clearly smaller error, with both errors."""
    for one, another in zip(usual, other, strict=True):
        first, second = one.by_records, another.by_records
        if first is not None and second is not None and second < WORTH_SAYING * first:
            return one.count, first, second
    return None


def compute_likelihoods(plan: Plan, records: PerturbedRecords, /) -> tuple[Floats]:
    """The likelihood of each record: the share of each value's records in its bucket."""
    numbers = plan.ids.invert(np.asarray(records.cells))
    lines, places, counts = plan.dealing.list_contents(numbers)
    value_counts = np.array(plan.histogram.counts, dtype=np.float64)
    likelihoods = np.zeros((len(numbers), len(value_counts)))
    likelihoods[np.repeat(np.arange(len(numbers)), lines), places] = counts / value_counts.take(places)
    return (likelihoods,)


def compute_published_likelihoods(
    design: Design, release_codes: Codes, true_codes: Codes, rows: Indices, /
) -> tuple[Floats]:
    """The likelihood of each record, from the published contents of the buckets."""
    size = len(design.domain)
    buckets, numbers = np.unique(release_codes[rows], return_inverse=True)
    places = np.searchsorted(buckets, release_codes)
    matching_rows = np.flatnonzero(buckets.take(np.minimum(places, len(buckets) - 1)) == release_codes)
    counts = np.bincount(
        places[matching_rows] * size + true_codes[matching_rows], minlength=len(buckets) * size
    ).reshape(-1, size)
    return ((counts / np.maximum(np.bincount(true_codes, minlength=size), 1))[numbers],)


def _describe_caps(caps: Sequence[Fraction]) -> str:
    return f"{min(caps)} for all values" if min(caps) == max(caps) else f"{min(caps)} to {max(caps)}"


def state_guarantee(design: Design, /) -> GuaranteeStatement:
    """States the guarantee in plain words, with the numbers of this design."""
    caps_below_one = [cap for cap in design.caps if cap < 1]
    uncapped_count = len(design.caps) - len(caps_below_one)
    caps = _describe_caps(design.caps)
    return GuaranteeStatement(
        "An attacker who knows only a person's bucket gives each value of that person a probability of at most the "
        f"value's cap ({caps}). Attackers who also use the public columns can become more confident.",
        "Every record is in a bucket. The release lists the values that the records of a bucket have, but not which "
        "record has which. Each value has a cap: the largest share of a bucket's records that may have the value. "
        f"The caps are {caps}. An attacker who knows a person's bucket, but nothing that distinguishes the people in "
        "this bucket, gives no value of that person a probability above its cap.",
        (
            "No other knowledge is covered. The release itself shows how public columns and values are related. An "
            "attacker who uses this relation can become more confident.",
            "The release also shows the exact number of people with each value.",
            *(
                [
                    f"{uncapped_count} values have the cap 1. These values are not protected: a bucket may contain "
                    "nothing else."
                ]
                if uncapped_count
                else []
            ),
        ),
    )


def make_bucket_mechanism(
    name: str,
    spec: type[SpecT],
    options: type[OptionsT],
    plan: Callable[[Histogram, SpecT, OptionsT, Draws], Plan],
    match_posterior: Callable[[BreachBound, Sequence[Value]], SpecT],
) -> Mechanism[SpecT, OptionsT, Plan, Design]:
    """Makes a mechanism that deals records to buckets.

    The plan of the mechanism decides the number of buckets of each size.
    """
    return Mechanism(
        name=name,
        guarantee=Guarantee.BUCKET_ONLY,
        request=spec,
        options=options,
        plan=plan,
        perturb=perturb,
        make_design=make_design,
        read_design=read_design,
        make_encoding=make_encoding,
        estimators=bucket_estimation.METHODS,
        state_guarantee=state_guarantee,
        uses_slots=True,
        plan_rules=PlanRules(fingerprint=fingerprint_plan),
        error_prediction=ErrorPrediction(
            predict_variances=predict_variances, predict_set_variances=predict_set_variances
        ),
        release_error_prediction=ReleaseErrorPrediction(predict_record_variances=predict_record_variances),
        explanation=PlanExplanation(
            explain=explain,
            summarize=summarize,
            list_remarks=list_remarks,
            remark_codes=("in-the-clear", "values-unprotected", "best-not-proved", "shrunk-is-closer", "dealt-alike"),
            list_tables=lambda plan: make_tables(plan.ranked_choices),
            value_columns=(ValueColumn("caps", "largest share of a bucket", format_percent),),
        ),
        attack_model=AttackModel(
            compute_likelihoods=compute_likelihoods, compute_published_likelihoods=compute_published_likelihoods
        ),
        comparability=Comparability(
            match_posterior=match_posterior,
            read_request=lambda design: ShareCap(dict(zip(design.domain, design.caps, strict=True))),
        ),
        bucket_table=BucketTable(list_contents=list_contents),
    )


MECHANISM = make_bucket_mechanism(NAME, ShareCap, Options, plan, ShareCap.from_posterior)
