"""What every mechanism of the registry owes: the same list for all of them.

A new mechanism adds its entries to `CASES` and `BROKEN`, and its law to `_published_law`; everything below then runs
for it. What a record shows decides which contracts there are: one that is drawn for each record (`drawn_case`), or the
bucket it was dealt to (`dealt_case`). Of the drawn ones, decoys (`decoy_case`) are counted with the help of the whole
release, and have contracts of their own (`weighted_case` are the others). The cases are small enough to run through
every outcome of the draws, so that what is asserted of a law is asserted in exact numbers.
"""

from __future__ import annotations

import json
import math
import pickle
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING as MISSING_DEFAULT
from dataclasses import FrozenInstanceError, dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enumeration import Law, Shown, replaced_by, shown_by, transition_law, whole_law
from refusals import refuses
from releases import people, published_by
from sfumato._core.array_types import RandomBits
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import Slots
from sfumato._planning.mechanism_choice import choose
from sfumato._query.counting.count_request import Condition, CountQuery, Range
from sfumato._records.bucket_records import BucketEncoding
from sfumato._records.crowd_lines import CrowdLines
from sfumato._records.crowd_records import CrowdEncoding
from sfumato._records.level_set_records import LevelSetEncoding
from sfumato._records.set_records import SetEncoding, convert_bits_to_arrow
from sfumato._records.tally import Holdings, Tally
from sfumato._records.value_records import ValueEncoding
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, ShareCap
from sfumato._request.guarantee import Guarantee
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato._verify.distributions import REFERENCE_DISTRIBUTIONS, find_distribution
from sfumato.errors import InternalError, MissingCapabilityError, ReleaseFormatError, SfumatoError, SpecError
from sfumato.mechanisms import REGISTRY, UNNAMED_OPTIONS, _decoys, find_mechanism, missing
from sfumato.mechanisms._bucketization import anatomy_mechanism as anatomy
from sfumato.mechanisms._bucketization import buckets
from sfumato.mechanisms._noisy_counts import noisy_counts_mechanism as noisy_counts
from sfumato.mechanisms._randomized_response import fine_grain, small_domain
from sfumato.mechanisms._randomized_response import harmonic_mechanism as harmonic
from sfumato.mechanisms._randomized_response import uniform_mechanism as uniform
from sfumato.mechanisms._subset_selection import levels
from sfumato.mechanisms._subset_selection import subset_mechanism as subset
from sfumato.mechanisms.capabilities import Capability, ErrorPrediction, EstimationWeights, GroupRisk
from sfumato.mechanisms.estimator import Method
from sfumato.mechanisms.mechanism import CAPABILITIES, ESTIMATOR_CAPABILITIES, AnyMechanism, Mechanism
from single import Single, check_lines, counted

pytestmark = pytest.mark.light

DRAWS = Draws.unsafe_test_key("c0" * 32)
FEW_VALUES = 7
TIMES = 10
"""Tables of this many times the records of a case have enough rows to be cut into batches."""


# ------------------------------------------------------------------------------------------------------------ the cases


class Cap(NamedTuple):
    """A bound on a belief, whatever it was before up to that bound."""

    prior: Fraction
    posterior: Fraction


@dataclass(frozen=True, eq=False)
class Case:
    """A request to plan for, on a table with the given counts."""

    words: str
    mechanism_name: str
    spec: Any
    options: Any
    counts: tuple[int, ...]
    groups: tuple[str, ...] = ()
    """The groups of the values at each level above them, a letter for each value; empty where there is no hierarchy."""

    def __str__(self) -> str:
        return f"{self.mechanism_name}: {self.words}"

    @property
    def mechanism(self) -> AnyMechanism:
        """The mechanism that the case is for."""
        return REGISTRY[self.mechanism_name]

    @property
    def size(self) -> int:
        """The number of values of the domain."""
        return len(self.counts)

    @property
    def histogram(self) -> Histogram:
        """The table: one text value for each count."""
        return self.histogram_of([f"value {number}" for number in range(self.size)])

    def histogram_of(self, values: Sequence[Any], times: int = 1) -> Histogram:
        """The same of other values, or of more records."""
        levels = ("value", *(f"level {number}" for number in range(1, len(self.groups) + 1)))
        paths = list(zip(values, *self.groups, strict=True))
        hierarchy = Hierarchy.of(levels, paths) if self.groups else None
        histogram = Histogram.of(values, [times * count for count in self.counts], (), hierarchy)
        return replace(histogram, is_declared=True)

    def plan_for(self, counts: Sequence[int]) -> Any:
        """The mechanism's plan for the same domain with these counts."""
        return self.mechanism.plan(replace(self.histogram, counts=tuple(counts)), self.spec, self.options, DRAWS)

    @cached_property
    def plan(self) -> Any:
        """The mechanism's plan."""
        return self.plan_for(self.counts)

    @property
    def design(self) -> Any:
        """What is published of that plan."""
        return self.mechanism.make_design(self.plan)

    @cached_property
    def law(self) -> Law:
        """The exact transition law, by running through every outcome of the draws."""
        return whole_law(self.mechanism, self.plan, self.counts)

    @property
    def caps(self) -> tuple[Fraction, ...]:
        """How much of a bucket each value may have, where there are buckets."""
        if isinstance(self.spec, Diversity):
            return (Fraction(1, self.spec.ell),) * self.size
        return tuple(self.spec.caps.get(value, Fraction(1)) for value in self.histogram.values)

    @property
    def bounds(self) -> tuple[BreachBound | Cap | None, ...]:
        """The bound of each value, as far as the mechanism promises one for it."""
        if self.is_dealt:
            return tuple(Cap(cap, cap) if cap < 1 else None for cap in self.caps)
        if isinstance(self.spec, DecoyGroups):
            return (None,) * self.size
        if isinstance(self.spec, BreachBoundPerValue):
            return self.spec.list_bounds(self.histogram.values)
        shares = self.histogram.shares
        covers_all = self.mechanism.guarantee.covers_all_statements
        return tuple(self.spec if covers_all or 0 < share <= self.spec.prior else None for share in shares)

    def estimated(self, tally: Tally, wanted: Sequence[Sequence[int]], method: str | None = None) -> list[Single]:
        """What a method (the default, if none is named) makes of a tally, for each set of wanted places."""
        return counted(self.mechanism.estimators[method or self.default_method], self.design, tally, *wanted)

    @property
    def default_method(self) -> str:
        """The method that a release is counted by unless another one is asked for."""
        return next(iter(self.mechanism.list_estimators(self.design)))

    @cached_property
    def is_dealt(self) -> bool:
        """Whether a record shows no more than the bucket it was dealt to."""
        return isinstance(self.mechanism.make_encoding(self.design), BucketEncoding)

    @cached_property
    def lines(self) -> dict[tuple[int, int], int]:
        """The table of buckets: how often each bucket holds each value."""
        return _lines(self.batches(self.plan, 3))

    def batches(self, plan: Any, rows: int) -> Iterator[tuple[Any, Any, Any]]:
        """The table of buckets of a plan, in batches."""
        contents = self.mechanism.bucket_table.list_contents(plan)
        return contents.iter_batches(rows)

    @property
    def holdings(self) -> Holdings:
        """The table of buckets, as an analyst reads it."""
        keys, counts = zip(*sorted(self.lines.items()), strict=True)
        numbers, places = zip(*keys, strict=True)
        return Holdings(*(np.array(each, dtype=np.int64) for each in (numbers, places, counts)), self.size)

    @property
    def is_told(self) -> bool:
        """Whether the buckets differ enough to tell the count of every value apart."""
        held = np.zeros((self.plan.bucket_count, self.size))
        for (number, place), count in self.lines.items():
            held[number, place] = count
        return int(np.linalg.matrix_rank(held)) == sum(count > 0 for count in self.counts)

    @property
    def slack(self) -> float:
        """What rounding may add to numbers that are certain: nothing, unless a matrix was inverted."""
        return 1e-9 if self.is_dealt else 0.0

    def tally(self, release: Mapping[Shown, int]) -> Tally:
        """What would be counted in a release that shows these things so often."""
        observation, rows = self.mechanism.make_encoding(self.design), sum(release.values())
        if isinstance(observation, LevelSetEncoding):
            if not release:
                return Tally.of_one(np.zeros(observation.width, dtype=np.int64), 0)
            replaced = replaced_by(list(release), self.size)
            names = pa.array([observation.levels[number] for number in np.asarray(replaced.cells)])
            counts = np.array(list(release.values())) @ observation.decode_records(
                names, convert_bits_to_arrow(replaced.values)
            )
            return Tally.of_one(counts, rows)
        if isinstance(observation, CrowdEncoding):
            members = [sum(count for shown, count in release.items() if place in shown) for place in range(self.size)]
            crowds = CrowdLines.of_none(1, self.size)
            return replace(Tally.of_one(np.array([*members, rows], dtype=np.int64), rows), crowds=crowds)
        if isinstance(observation, SetEncoding):
            members = [sum(count for shown, count in release.items() if place in shown) for place in range(self.size)]
            return Tally.of_one(np.array(members, dtype=np.int64), rows)
        if isinstance(observation, BucketEncoding):
            counts = [release.get(number, 0) for number in range(self.plan.bucket_count)]
            return Tally.of_one(np.array(counts, dtype=np.int64), rows).attach_context(None, self.holdings)
        counts = np.array([release.get(symbol, 0) for symbol in _symbols(observation)], dtype=np.int64)
        return Tally.of_one(counts, rows).attach_context(self.whole, None)

    @property
    def whole(self) -> Tally | None:
        """What all records of a release show, where that is needed to count: as many as hold each value, on average."""
        needs_whole = self.mechanism.estimators[self.default_method].needs_whole
        return Tally.of_symbols(np.array(self.counts, dtype=np.int64)) if needs_whole else None

    @property
    def runs(self) -> list[tuple[list[int], int]]:
        """The decoy groups: the values of equal ones, and how many there are."""
        groups = self.plan.columns[0].groups
        rows = zip(groups.members.tolist(), groups.sizes.tolist(), groups.lengths.tolist(), strict=True)
        return [(members[:size], length) for members, size, length in rows]

    @cached_property
    def wanted(self) -> list[tuple[int, ...]]:
        """Sets of values to count, the empty one and the whole domain among them; all sets, if these are not many."""
        sizes = range(self.size + 1) if self.size <= FEW_VALUES else (0, 1, 2, self.size - 1, self.size)
        return [places for number in sizes for places in combinations(range(self.size), number)]

    @cached_property
    def added(self) -> Mapping[Shown, Mapping[tuple[int, ...], float]]:
        """What a record adds to the count of each wanted set, by what it shows."""
        found = {}
        for shown in set().union(*self.law):
            moments = self.estimated(self.tally({shown: 1}), self.wanted)
            found[shown] = {places: each.value for places, each in zip(self.wanted, moments, strict=True)}
        return found


def _symbols(observation: ValueEncoding) -> list[Shown]:
    """Everything that a record can show, in the order in which it is counted."""
    places = observation.symbols.tolist()
    return places if observation.cells is None else list(zip(observation.cells.tolist(), places, strict=True))


def _lines(batches: Iterator[tuple[Any, Any, Any]]) -> dict[tuple[int, int], int]:
    """Bucket, value and count in batches as one mapping; no line comes twice."""
    found: dict[tuple[int, int], int] = {}
    for ids, places, counts in batches:
        lines = list(zip(zip(ids.tolist(), places.tolist(), strict=True), counts.tolist(), strict=True))
        assert not found.keys() & dict(lines).keys()
        assert len(dict(lines)) == len(lines)
        found.update(lines)
    return found


def _caps(*caps: str | None) -> ShareCap:
    """A cap for each value of a case, or none."""
    return ShareCap({f"value {number}": Fraction(cap) for number, cap in enumerate(caps) if cap is not None})


def _per_value(*bounds: tuple[str, str] | None) -> BreachBoundPerValue:
    """A bound for each value of a case, or none."""
    return BreachBoundPerValue(
        {f"value {number}": BreachBound(*bound) for number, bound in enumerate(bounds) if bound is not None}
    )


BOTH = fine_grain.Options(fine_grain.Direction.BOTH)
CELLS = small_domain.Options(min_cell=0)
SHARES = small_domain.Options(min_cell=0, publish_shares=True)
PAPER = small_domain.Options(small_domain.Merge.PAPER)
LIST = subset.Options(subset.Form.LIST)
COLUMNS = subset.Options(subset.Form.COLUMNS)
SHARED = levels.Options("value=1/3,level 1=2/3")
THREE = levels.Options("value=1/2,level 1=1/4,level 2=1/4")
CLEAR = buckets.Options(buckets.Sizes.MULTI, min_bucket=1)
TWO_SIZES = buckets.Options(buckets.Sizes.TWO, dealing=buckets.DealingMethod.ROUND_ROBIN)
ONE_SIZE = buckets.Options(buckets.Sizes.ONE)
RANDOM_TIES, TIES_BY_PLACE = _decoys.GroupCreation.ANATOMY_RANDOM, _decoys.GroupCreation.ANATOMY

CASES: Mapping[str, Sequence[Case]] = {
    name: [Case(words, name, *rest) for words, *rest in entries]
    for name, entries in {
        "uniform": [
            ("two values", BreachBound("1/3", "2/3"), uniform.NoOptions(), (5, 1)),
            ("nobody has one of three", BreachBound("1/13", "1/6"), uniform.NoOptions(), (4, 0, 2)),
            ("seven values", BreachBound("1/10", "9/10"), uniform.NoOptions(), (1, 0, 0, 0, 3, 8, 2)),
        ],
        "subset": [
            ("one of two values", BreachBound("1/3", "2/3"), subset.Options(), (5, 1)),
            ("two of four values", BreachBound("1/10", "1/8"), subset.Options(), (4, 0, 2, 1)),
            ("two of six values as a list", BreachBound("1/3", "1/2"), LIST, (3, 1, 0, 0, 2, 5)),
            ("two of five values as columns", BreachBound("1/3", "1/2"), COLUMNS, (3, 1, 0, 2, 5)),
            ("three of nine values, in two bytes", BreachBound("1/3", "1/2"), subset.Options(), (*range(8), 2)),
        ],
        "levels": [
            ("two pairs", BreachBound("1/3", "1/2"), levels.Options(), (4, 0, 2, 1), ("AABB",)),
            ("uneven groups", BreachBound("1/3", "2/3"), SHARED, (3, 1, 0, 2, 5), ("BAACA",)),
            ("two levels of groups", BreachBound("1/3", "2/3"), THREE, (3, 1, 0, 2, 5), ("AABCC", "PPPQQ")),
        ],
        "noisy-counts": [
            ("one of two values", BreachBound("1/3", "2/3"), noisy_counts.Options(), (5, 1)),
            ("two of four values", BreachBound("1/10", "1/8"), noisy_counts.Options(), (4, 0, 2, 1)),
        ],
        "small-domain": [
            ("three cells of three values", BreachBound("1/2", "3/4"), CELLS, (4, 3, 3, 2)),
            ("a value is not protected", BreachBound("1/3", "1/2"), CELLS, (6, 2, 2, 1, 1)),
            ("nobody has one of six", BreachBound("1/3", "2/3"), SHARES, (6, 0, 2, 2, 1, 1)),
            ("cells of four values", BreachBound("1/4", "1/2"), CELLS, (4, 4, 3, 2, 2, 1)),
            ("one cell, merged as in the paper", BreachBound("1/4", "1/2"), PAPER, (4, 4, 3, 2, 2, 1)),
        ],
        "harmonic": [
            (
                "three values",
                _per_value(("1/4", "1/2"), ("1/3", "2/3"), ("1/5", "1/2")),
                harmonic.Options(),
                (4, 3, 2),
            ),
            ("one is never drawn", _per_value(("1/4", "1/2"), ("1/3", "1/2"), None), harmonic.Options(), (6, 2, 1)),
            ("two values, one free", _per_value(("1/3", "2/3"), None), harmonic.Options(), (2, 5)),
            (
                "nobody has one of four",
                _per_value(("1/4", "1/2"), ("1/3", "1/2"), ("1/5", "1/2"), ("1/3", "2/3")),
                harmonic.Options(),
                (5, 3, 0, 2),
            ),
        ],
        "fine-grain": [
            (
                "three coins",
                _per_value(("1/4", "1/2"), ("1/3", "2/3"), ("1/5", "1/2")),
                fine_grain.Options(),
                (4, 3, 2),
            ),
            ("one is never kept", _per_value(("1/4", "1/2"), ("1/3", "1/2"), None), fine_grain.Options(), (6, 2, 1)),
            ("both directions", _per_value(("1/4", "1/2"), ("1/3", "1/2"), None), BOTH, (6, 2, 1)),
            (
                "nobody has one of four",
                _per_value(("1/4", "1/2"), None, ("1/5", "1/2"), ("1/3", "2/3")),
                fine_grain.Options(),
                (5, 3, 0, 2),
            ),
        ],
        "buckets": [
            ("two values", _caps("3/4", "1/2"), buckets.Options(), (5, 3)),
            ("half of a bucket at most", _caps(*["1/2"] * 5), buckets.Options(), (3, 3, 2, 2, 1)),
            ("two are not protected", _caps(None, None, "1/3", "1/3", "1/4"), CLEAR, (6, 0, 2, 2, 1)),
            ("two sizes, dealt round and round", _caps("3/5", "1/2", "1/3", "1/4"), TWO_SIZES, (6, 5, 3, 2)),
            ("one size", _caps("1/2", "1/2", "1/3", "1/3"), ONE_SIZE, (4, 4, 2, 2)),
        ],
        "anatomy": [
            ("pairs", Diversity(2), anatomy.Options(), (3, 3, 2, 2, 1)),
            (
                "triples dealt round and round",
                Diversity(3),
                anatomy.Options(buckets.DealingMethod.ROUND_ROBIN),
                (5, 4, 0, 4, 3),
            ),
            ("many left over", Diversity(4), anatomy.Options(), (2, 2, 2, 2, 2, 1)),
        ],
        "decoys": [
            ("pairs", DecoyGroups(2), _decoys.Options(), (3, 3, 2, 2)),
            ("triples, one record left over", DecoyGroups(3), _decoys.Options(), (3, 2, 2, 2, 1)),
            ("nobody has one, several tranches", DecoyGroups(2), _decoys.Options(), (12, 9, 0, 7, 5, 2)),
            ("a value in every group", DecoyGroups(3), _decoys.Options(), (4, 0, 3, 3, 1, 1)),
            ("fullest first", DecoyGroups(3), _decoys.Options(RANDOM_TIES), (5, 4, 0, 4, 3, 1)),
            ("fullest first, ties by place", DecoyGroups(2), _decoys.Options(TIES_BY_PLACE), (5, 4, 3, 1)),
        ],
    }.items()
}

ALL = [case for cases in CASES.values() for case in cases]


def _each(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", [case for case in ALL if case.mechanism_name in (names or CASES)], ids=str)


every_case = _each()
drawn_case = _each(*(name for name, cases in CASES.items() if not cases[0].is_dealt))
dealt_case = _each(*(name for name, cases in CASES.items() if cases[0].is_dealt))
decoy_case = _each("decoys")
weighted_case = _each(*(name for name, cases in CASES.items() if not cases[0].is_dealt and name != "decoys"))
any_prior_case = _each(*(name for name in CASES if REGISTRY[name].guarantee.covers_all_statements))


def _having(capability: type[Capability], *without: str) -> pytest.MarkDecorator:
    """The cases of the mechanisms that have a capability."""
    has = (name for name in CASES if capability.__name__ not in missing(name))
    return _each(*(name for name in has if name not in without))


told_case = pytest.mark.parametrize("case", [case for case in ALL if case.is_dealt and case.is_told], ids=str)
every_mechanism = pytest.mark.parametrize("name", sorted(REGISTRY))


def test_every_mechanism_has_cases() -> None:
    assert set(REGISTRY) == set(CASES)


def test_every_mechanism_says_which_designs_are_broken() -> None:
    assert set(REGISTRY) == set(BROKEN)


@every_mechanism
def test_the_registry_knows_a_mechanism_by_its_own_name(name: str) -> None:
    assert name == REGISTRY[name].name
    assert find_mechanism(name) is REGISTRY[name]


@every_mechanism
def test_a_mechanism_cannot_be_changed(name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        REGISTRY[name].name = "mine"  # type: ignore[misc]


CROWDS = ("CrowdCounts", "CrowdAttackModel")
RARE = ("GroupRisk", "BucketTable", "Coarsening", "SeveralColumns", *CROWDS)
MISSING = {
    "uniform": RARE,
    "subset": RARE,
    "levels": RARE,
    "noisy-counts": RARE[: -len(CROWDS)],
    "small-domain": ("ReleaseErrorPrediction", "BucketTable", "Coarsening", "SeveralColumns", *CROWDS),
    "fine-grain": RARE,
    "harmonic": RARE,
    "buckets": ("GroupRisk", "EstimationWeights", "Coarsening", "SeveralColumns", *CROWDS),
    "anatomy": ("GroupRisk", "EstimationWeights", "Coarsening", "SeveralColumns", *CROWDS),
    "decoys": ("GroupRisk", "EstimationWeights", "BucketTable", *CROWDS),
}
"""What each mechanism cannot do: a capability that comes or goes changes a line here."""


@every_mechanism
def test_capabilities_that_are_missing_are_listed(name: str) -> None:
    print(f"{name} has no {', '.join(missing(name))}")
    assert missing(name) == MISSING[name]


@every_mechanism
def test_capability_is_given_or_its_lack_is_said(name: str) -> None:
    for capability, field in CAPABILITIES.items():
        if capability.__name__ in MISSING[name]:
            with pytest.raises(MissingCapabilityError) as raised:
                REGISTRY[name].require(capability)
            assert (raised.value.mechanism, raised.value.capability) == (name, capability.__name__)
        else:
            assert REGISTRY[name].require(capability) is getattr(REGISTRY[name], field)


def test_every_field_of_a_mechanism_is_of_the_core_a_rule_or_a_capability() -> None:
    required = {each.name for each in fields(Mechanism) if each.default is each.default_factory is MISSING_DEFAULT}
    optional = {each.name for each in fields(Mechanism) if each.default is None}
    assert len(required) == 11
    assert optional == set(CAPABILITIES.values())
    assert set(ESTIMATOR_CAPABILITIES.values()) <= {each.name for each in fields(Method)}


def test_missing_capabilities_of_an_unknown_mechanism_are_refused() -> None:
    with refuses(SpecError, "unknown-mechanism", mechanism="mine"):
        missing("mine")


def test_a_name_that_no_mechanism_has_is_a_mistake_of_ours() -> None:
    with refuses(InternalError, "unknown-mechanism", mechanism="mine"):
        find_mechanism("mine")


@every_mechanism
def test_every_option_has_the_value_that_plan_files_without_it_mean(name: str) -> None:
    assert set(UNNAMED_OPTIONS.get(name, {})) == {each.name for each in fields(REGISTRY[name].options)}


@every_mechanism
@pytest.mark.parametrize("heading", ["Claim:", "Source:", "Published:", "Notation:"])
def test_the_docstring_states(name: str, heading: str) -> None:
    lines = (sys.modules[REGISTRY[name].plan.__module__].__doc__ or "").splitlines()
    assert any(line.startswith(heading) for line in lines)


@every_mechanism
def test_the_guarantee_is_a_known_one(name: str) -> None:
    guarantee = REGISTRY[name].guarantee
    assert isinstance(guarantee, Guarantee)
    assert guarantee.sentence.endswith(".")
    assert CASES[name][0].is_dealt == (guarantee is Guarantee.BUCKET_ONLY)
    # Releases of fine-grain said once that they hold for every prior; these can still be verified.
    before = [Guarantee.ANY_PRIOR] if name == "fine-grain" else []
    assert list(find_distribution(name).guarantees) == [guarantee, *before]


def test_every_mechanism_has_a_law_and_every_law_a_mechanism() -> None:
    assert set(REFERENCE_DISTRIBUTIONS) == set(REGISTRY)


@every_mechanism
def test_the_options_have_defaults(name: str) -> None:
    assert REGISTRY[name].options() == REGISTRY[name].options()


@every_mechanism
def test_the_unbiased_count_is_the_default_method(name: str) -> None:
    for case in CASES[name]:
        methods = REGISTRY[name].list_estimators(case.design)
        assert methods == REGISTRY[name].estimators
        default = next(iter(methods))
        assert REGISTRY[name].estimators[default].assumption.startswith("none, because ") or name == "decoys"


@every_mechanism
def test_every_method_says_in_words_what_it_does_and_assumes(name: str) -> None:
    assert all(method.label and method.assumption for method in REGISTRY[name].estimators.values())


# -------------------------------------------------------------------------------------------------------------- the law


def _cells(case: Case) -> Iterator[tuple[int | None, Mapping[int, Fraction], Mapping[int, Fraction]]]:
    """The cells of a design by number: the share of each value's records that is in it, and the coin that keeps it."""
    written, everywhere = case.design.to_json(), dict.fromkeys(range(case.size), Fraction(1))
    if case.mechanism_name == "uniform":
        yield None, everywhere, dict.fromkeys(range(case.size), Fraction(written["retention"]))
    elif case.mechanism_name == "fine-grain":
        yield None, everywhere, dict(enumerate(map(Fraction, written["retentions"])))
    else:
        explained = case.mechanism.explanation.explain(case.plan)["cells"]
        for number, (cell, private) in enumerate(zip(written["cells"], explained, strict=True)):
            held = zip(cell["places"], private["counts"], strict=True)
            shares = {place: Fraction(count, case.counts[place]) for place, count in held}
            yield number, shares, dict.fromkeys(cell["places"], Fraction(cell["retention"]))


def _published_law(case: Case) -> Law:
    """The law that the published rationals say, by the definition of each mechanism."""
    if case.mechanism_name in PUBLISHED:
        return PUBLISHED[case.mechanism_name](case)
    if case.is_dealt:
        return [
            {number: Fraction(held, count) for (number, place), held in case.lines.items() if place == original}
            for original, count in enumerate(case.counts)
        ]
    rows: Law = []
    for original in range(case.size):
        row: dict[Shown, Fraction] = {}
        for number, shares, coins in _cells(case):
            if original not in shares:
                continue
            swap = (1 - coins[original]) / len(coins)
            for place in coins:
                chance = shares[original] * (swap + coins[original] * (place == original))
                if chance:
                    row[place if number is None else (number, place)] = chance
        rows.append(row)
    return rows


def _published_sets(case: Case) -> Law:
    written = case.design.to_json()
    members, hold = written["subset_size"], Fraction(written["hold_probability"])
    inside = hold / math.comb(case.size - 1, members - 1)
    outside = (1 - hold) / math.comb(case.size - 1, members)
    sets = [frozenset(each) for each in combinations(range(case.size), members)]
    return [{each: inside if original in each else outside for each in sets} for original in range(case.size)]


def _published_levels(case: Case) -> Law:
    """A coin for the level, and a set of its groups as a set of their values."""
    rows: list[dict[Shown, Fraction]] = [{} for _ in case.counts]
    for number, level in enumerate(case.design.to_json()["levels"]):
        groups = level.get("groups", list(range(case.size)))
        size, members, hold = max(groups) + 1, level["subset_size"], Fraction(level["hold_probability"])
        for chosen in combinations(range(size), members):
            shown = (number, frozenset(value for value, group in enumerate(groups) if group in chosen))
            for row, group in zip(rows, groups, strict=True):
                inside = hold / math.comb(size - 1, members - 1)
                outside = (1 - hold) / math.comb(size - 1, members)
                row[shown] = Fraction(level["share"]) * (inside if group in chosen else outside)
    return [dict(row) for row in rows]


def _group_law(case: Case) -> Law:
    """A record is in each of its value's groups with the same chance, and shows each value of its group so."""
    rows: list[dict[Shown, Fraction]] = [defaultdict(Fraction) for _ in case.counts]
    for members, length in case.runs:
        for original, shown in product(members, members):
            rows[original][shown] += Fraction(length, len(members) * case.counts[original])
    return [dict(row) for row in rows]


def _published_draws(case: Case) -> Law:
    """A coin for all values, or else a draw that does not look at the original."""
    written = case.design.to_json()
    drawn, kept = {place: Fraction(each) for place, each in enumerate(written["swaps"])}, Fraction(written["retention"])
    rows = [{place: swap + kept * (place == original) for place, swap in drawn.items()} for original in drawn]
    return [{place: chance for place, chance in row.items() if chance} for row in rows]


PUBLISHED: Mapping[str, Callable[[Case], Law]] = {
    "subset": _published_sets,
    "noisy-counts": _published_sets,
    "harmonic": _published_draws,
    "levels": _published_levels,
    "decoys": _group_law,
}
"""The law of each mechanism whose records are not kept or redrawn in cells, and not dealt."""


@pytest.mark.slow
@every_case
def test_the_law_is_the_one_of_records_that_are_replaced_alone(case: Case) -> None:
    """All outcomes at once, against each in a batch of its own."""
    assert case.law == transition_law(case.mechanism, case.plan, case.counts)


@every_case
def test_the_law_is_a_law(case: Case) -> None:
    has_records = [count > 0 or not case.mechanism.uses_slots for count in case.counts]
    assert [sum(row.values()) for row in case.law] == [int(each) for each in has_records]


@every_case
def test_the_sampler_has_exactly_the_published_law(case: Case) -> None:
    """What should be reachable is reached, the last value included, and nothing else is."""
    assert case.law == _published_law(case)


@any_prior_case
def test_whatever_is_shown_can_come_from_every_original(case: Case) -> None:
    assert all(row.keys() == case.law[0].keys() for row in case.law)


@_each("uniform", "fine-grain")
def test_every_value_of_the_domain_can_be_shown_for_every_original(case: Case) -> None:
    """The last value included: a sampler whose range ends one too early never publishes it."""
    assert all(row.keys() == set(range(case.size)) for row in case.law)


@_each("small-domain")
def test_a_record_shows_a_cell_of_its_value_and_any_value_of_that_cell(case: Case) -> None:
    places = {number: set(cell.places) for number, cell in enumerate(case.design.cells)}
    for original, row in enumerate(case.law):
        cells = {cell for cell, _ in row}
        assert row.keys() == {(cell, place) for cell in cells for place in places[cell]}
        assert all(original in places[cell] for cell in cells)


@every_case
def test_everything_that_is_shown_can_be_counted(case: Case) -> None:
    shown = set().union(*case.law)
    observation = case.mechanism.make_encoding(case.design)
    if isinstance(observation, LevelSetEncoding):
        assert {level for level, _ in shown} == set(range(len(observation.levels)))
    elif isinstance(observation, SetEncoding):
        assert all(each <= set(range(observation.size)) for each in shown)
    elif isinstance(observation, BucketEncoding):
        assert shown == set(range(case.plan.bucket_count)) == {number for number, _ in case.lines}
    elif case.mechanism_name == "decoys":
        assert shown == {place for place in _symbols(observation) if case.counts[place]}
    else:
        assert shown == set(_symbols(observation))


@every_case
def test_the_audit_reads_from_the_design_what_the_mechanism_shows(case: Case) -> None:
    """By code of its own: the law knows the published JSON and nothing else."""
    ours, theirs = (
        case.mechanism.make_encoding(case.design),
        find_distribution(case.mechanism_name).make_encoding(case.design.to_json()),
    )
    assert type(ours) is type(theirs)
    if isinstance(ours, ValueEncoding) and isinstance(theirs, ValueEncoding):
        assert _symbols(ours) == _symbols(theirs)
        assert ours.has_cells == theirs.has_cells
    else:
        assert ours == theirs


# ------------------------------------------------------------------------------------------------------------ the claim


def _beliefs_after(case: Case, belief: Fraction, places: Sequence[int]) -> list[Fraction]:
    """What a belief in one of some values against another value can become, over all pairs and all that can be shown.

    No prior does worse, because the odds of a value rise most against the value that is shown so most rarely. Nor does
    a predicate: its worst prior sits on its likeliest value, and on the unlikeliest value outside it.
    """
    found = []
    for one, other in permutations(range(case.size), 2):
        if one in places:
            true, false = case.law[one], case.law[other]
            chances = [(true.get(shown, Fraction(0)), false.get(shown, Fraction(0))) for shown in {*true, *false}]
            found += [belief * if_true / (belief * if_true + (1 - belief) * if_false) for if_true, if_false in chances]
    return found


@any_prior_case
def test_no_belief_of_the_prior_rises_above_the_posterior(case: Case) -> None:
    assert max(_beliefs_after(case, case.spec.prior, range(case.size))) <= case.spec.posterior


@pytest.mark.slow
@any_prior_case
def test_no_belief_of_the_posterior_falls_below_the_prior(case: Case) -> None:
    assert min(_beliefs_after(case, case.spec.posterior, range(case.size))) >= case.spec.prior


@every_mechanism
def test_some_belief_reaches_a_bound_for_every_prior(name: str) -> None:
    """Otherwise more than needed is lost; not every case can reach it."""
    if REGISTRY[name].guarantee.covers_all_statements:
        found = [(max(_beliefs_after(each, each.spec.prior, range(each.size))), each.spec) for each in CASES[name]]
        assert any(reached == spec.posterior for reached, spec in found)


@_each("uniform", "subset")
def test_bound_is_reached_exactly_upward_downward_and_by_the_odds(case: Case) -> None:
    """These two lose nothing: every case of theirs reaches its bound."""
    assert max(_beliefs_after(case, case.spec.prior, range(case.size))) == case.spec.posterior
    assert min(_beliefs_after(case, case.spec.posterior, range(case.size))) == case.spec.prior
    ratios = [one[shown] / other[shown] for one, other in permutations(case.law, 2) for shown in one]
    assert max(ratios) == case.spec.amplification


@pytest.mark.slow
@any_prior_case
def test_odds_are_multiplied_by_the_amplification_at_worst(case: Case) -> None:
    ratios = [one[shown] / other[shown] for one, other in permutations(case.law, 2) for shown in one]
    assert max(ratios) <= case.spec.amplification


@_each("harmonic", "fine-grain")
def test_no_belief_in_a_bounded_value_rises_above_its_posterior(case: Case) -> None:
    worst = {
        place: max(_beliefs_after(case, bound.prior, [place]))
        for place, bound in enumerate(case.bounds)
        if bound is not None
    }
    assert worst
    assert all(reached <= case.bounds[place].posterior for place, reached in worst.items())
    # The best retentions could not be larger: some belief reaches its bound.
    assert any(reached == case.bounds[place].posterior for place, reached in worst.items())


@_each("fine-grain")
def test_no_belief_in_a_bounded_value_falls_below_its_prior_if_that_was_asked_for(case: Case) -> None:
    lowest = {
        place: min(_beliefs_after(case, bound.posterior, [place]))
        for place, bound in enumerate(case.bounds)
        if bound is not None
    }
    kept = all(reached >= case.bounds[place].prior for place, reached in lowest.items())
    assert kept or case.options.direction is fine_grain.Direction.UPWARD


def test_a_belief_falls_below_its_prior_where_that_was_not_asked_for() -> None:
    """The twin of the test before: with the upward direction alone, this case breaks the downward bound."""
    case = next(each for each in CASES["fine-grain"] if each.words == "one is never kept")
    assert min(_beliefs_after(case, case.bounds[0].posterior, [0])) < case.bounds[0].prior


def _posteriors(case: Case, counts: Sequence[int]) -> dict[tuple[int, Shown], Fraction]:
    """By Bayes' rule, the chance of each value for each thing that is shown, for whoever knows these counts."""
    joint = {
        (place, shown): counts[place] * chance for place, row in enumerate(case.law) for shown, chance in row.items()
    }
    seen: dict[Shown, Fraction] = defaultdict(Fraction)
    for (_, shown), weight in joint.items():
        seen[shown] += weight
    return {key: weight / seen[key[1]] for key, weight in joint.items() if weight}


@_each("small-domain")
def test_no_protected_value_is_believed_beyond_the_posterior_by_those_who_know_the_counts(case: Case) -> None:
    found = _posteriors(case, case.counts)
    assert all(chance <= case.spec.posterior for (place, _), chance in found.items() if case.bounds[place])


@_each("small-domain")
def test_the_most_frequent_protected_value_of_each_cell_is_believed_exactly_with_the_posterior(case: Case) -> None:
    worst: dict[int, Fraction] = defaultdict(Fraction)
    for (place, shown), chance in _posteriors(case, case.counts).items():
        if case.bounds[place]:
            worst[shown[0]] = max(worst[shown[0]], chance)
    assert worst == dict.fromkeys(range(len(case.design.cells)), case.spec.posterior)


@_each("small-domain")
def test_a_value_is_protected_in_every_cell_if_it_is_rare_in_the_table(case: Case) -> None:
    """The prior of a cell is the largest share that such a value has in it, among the records of that cell."""
    for cell, private in zip(case.design.cells, case.mechanism.explanation.explain(case.plan)["cells"], strict=True):
        counts = dict(zip(cell.places, private["counts"], strict=True))
        rare = [count for place, count in counts.items() if case.bounds[place]]
        assert cell.prior == Fraction(max(rare), sum(counts.values()))


def _groups(case: Case) -> np.ndarray:
    """The counts of the values in a few groups, which have nothing to do with each other or with the table."""
    random = np.random.default_rng(case.size)
    rare = [1, *[9] * (case.size - 1)]
    groups = np.vstack([case.counts, rare, random.integers(0, 9, (6, case.size)), random.integers(1, 3, case.size)])
    return groups * (np.array(case.counts) > 0) if case.mechanism.uses_slots else groups


def _risk(case: Case, groups: Sequence[Sequence[int]]) -> tuple[Fraction, Fraction]:
    """The worst belief in a value that is within its prior in its group, and the share of records it breaches."""
    worst, breached = Fraction(0), Fraction(0)
    for group in groups:
        above: set[Shown] = set()
        for (place, shown), chance in _posteriors(case, group).items():
            bound = case.bounds[place]
            if bound is not None and group[place] <= bound.prior * sum(group):
                worst = max(worst, chance)
                above |= {shown} if chance > bound.posterior else set()
        for count, row in zip(group, case.law, strict=True):
            breached += sum(count * row.get(shown, Fraction(0)) for shown in above)
    return worst, breached / sum(map(sum, groups))


@_having(GroupRisk)
def test_the_risk_is_that_of_bayes_rule_over_the_law(case: Case) -> None:
    together = _groups(case)
    for groups in (together, *(group[np.newaxis] for group in together)):
        worst, breached = _risk(case, groups.tolist())
        risk = case.mechanism.group_risk.measure(case.plan, groups)
        assert (risk.worst_posterior, risk.breached_share) == pytest.approx((float(worst), float(breached)), abs=1e-12)


@_having(GroupRisk)
def test_the_risk_of_the_table_itself_is_no_breach(case: Case) -> None:
    """Whoever knows the counts of the table and no more is covered by every guarantee."""
    assert case.mechanism.group_risk.measure(case.plan, np.array([case.counts])).breached_share == 0


@every_mechanism
def test_the_risk_is_told_where_the_promise_is_for_the_marginal_prior(name: str) -> None:
    """Where it is for every prior there is none to tell, and where it is for the release alone nobody asks."""
    is_told = "GroupRisk" not in missing(name)
    assert is_told == (REGISTRY[name].guarantee is Guarantee.MARGINAL_PRIOR)


def test_a_group_can_breach_a_promise_for_the_marginal_prior() -> None:
    """Where there are several cells, not every prior is covered."""
    case = CASES["small-domain"][0]
    assert case.mechanism.group_risk.measure(case.plan, _groups(case)).breached_share > 0


# ------------------------------------------------------------------------------------ how likely is what a record shows


def _likelihoods(case: Case) -> tuple[list[Shown], np.ndarray]:
    """Everything that a record can show, and how likely each (row) would be from each value (column)."""
    shown = list(dict.fromkeys(each for row in case.law for each in row))
    (found,) = case.mechanism.attack_model.compute_likelihoods(
        case.plan, replaced_by(shown, case.size, is_dealt=case.is_dealt)
    )
    return shown, found


@every_case
def test_likelihoods_have_a_row_for_each_record_and_a_column_for_each_value(case: Case) -> None:
    shown, found = _likelihoods(case)
    assert found.shape == (len(shown), case.size)
    assert (found >= 0).all()
    assert (found.sum(axis=1) > 0).all()


@_each(*(name for name in CASES if name != "decoys"))
def test_likelihoods_are_those_of_the_law_up_to_a_factor_of_the_record(case: Case) -> None:
    shown, found = _likelihoods(case)
    expected = np.array([[float(row.get(each, 0)) for row in case.law] for each in shown])
    scale = expected.max(axis=1, keepdims=True) / found.max(axis=1, keepdims=True)
    assert found * scale == pytest.approx(expected, abs=1e-12)
    assert ((found == 0) == (expected == 0)).all()


def test_likelihoods_of_groups_that_anybody_can_make_again_are_those_of_the_law() -> None:
    case = next(each for each in CASES["decoys"] if each.options.groups is TIES_BY_PLACE)
    shown, found = _likelihoods(case)
    assert found == pytest.approx(np.array([[float(row.get(each, 0)) for row in case.law] for each in shown]))


@decoy_case
def test_likelihoods_of_decoys_are_those_of_the_law_on_average_over_the_other_records(case: Case) -> None:
    """Where groups are no larger than asked for; in a larger one a value is shown more rarely by who holds it.

    And where they are mixed: others are made again by who attacks, and tell which values go together.
    """
    shown, found = _likelihoods(case)
    if case.options.groups is not _decoys.GroupCreation.MIXED:
        assert max(len({round(each, 12) for each in likely}) for likely in found.tolist()) > 2
        return
    enlarged = {place for members, _ in case.runs if len(members) > case.spec.group_size for place in members}
    for likely, place in zip(found.tolist(), shown, strict=True):
        others = [
            (count, row) for each, (count, row) in enumerate(zip(case.counts, case.law, strict=True)) if each != place
        ]
        leaked = sum(count * row.get(place, Fraction(0)) for count, row in others) / sum(count for count, _ in others)
        own = case.law[place][place]
        assert likely[place] == pytest.approx(1 / case.spec.group_size)
        assert len({each for number, each in enumerate(likely) if number != place}) == 1
        if place not in enlarged:
            assert likely[place] == pytest.approx(float(own))
            assert likely[place - 1] == pytest.approx(float(leaked))
        else:
            assert likely[place] > own
            assert likely[place - 1] < leaked


def _read(case: Case, shown: Shown) -> Any:
    """One thing that a record can show, as the reader of a release reads it."""
    if isinstance(shown, frozenset):
        return [place in shown for place in range(case.size)]
    if isinstance(shown, tuple) and isinstance(shown[1], frozenset):
        read: list[bool] = []  # for each level its groups, and whether it is the record's
        for number, (_, places, first) in enumerate(case.mechanism.make_encoding(case.design).layout):
            own = [number == shown[0] and int(place) in shown[1] for place in first]
            read += [own[group] for group in places[first]] + [number == shown[0]]
        return read
    if isinstance(shown, tuple):
        operator = case.design.operator
        return int(np.flatnonzero((operator.cells == shown[0]) & (operator.places == shown[1]))[0])
    return shown


def _cell(case: Case, shown: Shown) -> int:
    """The cell of a record that shows something; all of them are in one, where there are none."""
    if isinstance(shown, tuple):  # a level is none: which one a record shows has nothing to do with its value
        return 0 if isinstance(shown[1], frozenset) else shown[0]
    return cast("int", shown) if case.is_dealt else 0


@every_case
def test_release_reveals_what_the_plan_says_to_who_knows_what_each_cell_holds(case: Case) -> None:
    """Each thing that can be shown is shown by one record of a table in which every cell holds what it should."""
    shown, expected = _likelihoods(case)
    places, cells = [], []
    for place, (count, row) in enumerate(zip(case.counts, case.law, strict=True)):
        held: dict[int, Fraction] = defaultdict(Fraction)
        for each, chance in row.items():
            held[_cell(case, each)] += count * chance
        for cell, number in held.items():
            assert number.denominator == 1
            places += [place] * int(number)
            cells += [cell] * int(number)
    any_of = {_cell(case, each): _read(case, each) for each in shown}
    for each, likely in zip(shown, expected, strict=True):
        read, row = [any_of[cell] for cell in cells], cells.index(_cell(case, each))
        read[row] = _read(case, each)
        (found,) = case.mechanism.attack_model.compute_published_likelihoods(
            case.design, np.array(read, dtype=np.int64), np.array(places), np.array([row])
        )
        assert found[0] * likely.max() == pytest.approx(likely * found[0].max())


def _weights(case: Case) -> st.SearchStrategy[list[int]]:
    """Any belief before the release as parts of a whole: even, on few values, and nearly certain."""
    part = st.integers(0, 4) | st.integers(0, 1000) | st.sampled_from([10**6, 10**12])
    return st.lists(part, min_size=case.size, max_size=case.size).filter(any)


def _after(before: np.ndarray, likely: np.ndarray) -> np.ndarray:
    """Bayes' rule: what is believed of each value (column) after each thing that can be shown (row)."""
    joint = before * likely
    return joint / np.maximum(joint.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)


@any_prior_case
@given(data=st.data())
def test_no_statement_within_the_prior_passes_the_posterior_whatever_was_believed_before(
    case: Case, data: st.DataObject
) -> None:
    weights = data.draw(_weights(case))
    statement = data.draw(st.sets(st.integers(0, case.size - 1), min_size=1))
    if sum(weights[place] for place in statement) > case.spec.prior * sum(weights):
        return
    after = _after(np.array(weights) / sum(weights), _likelihoods(case)[1])
    assert after[:, list(statement)].sum(axis=1).max() <= float(case.spec.posterior) * (1 + 1e-9)


@any_prior_case
def test_some_prior_vector_reaches_the_posterior(case: Case) -> None:
    """The twin: likelihoods that are ten per cent further apart would be noticed."""
    _, likely = _likelihoods(case)
    prior, reached = float(case.spec.prior), {}
    for power in (1.0, 1.1):
        beliefs = []
        for one, other in permutations(range(case.size), 2):
            before = np.zeros(case.size)
            before[[one, other]] = prior, 1 - prior
            beliefs.append(_after(before, likely**power)[:, one].max())
        reached[power] = max(beliefs)
    assert reached[1.0] == pytest.approx(float(case.spec.posterior))
    assert reached[1.1] > float(case.spec.posterior) * (1 + 1e-3)


@_each(*(name for name in CASES if REGISTRY[name].guarantee is Guarantee.SINGLE_VALUES))
@given(data=st.data())
def test_no_value_within_its_prior_passes_its_posterior_whatever_was_believed_before(
    case: Case, data: st.DataObject
) -> None:
    weights = data.draw(_weights(case))
    after = _after(np.array(weights) / sum(weights), _likelihoods(case)[1])
    for place, bound in enumerate(case.bounds):
        if bound is not None and weights[place] <= bound.prior * sum(weights):
            assert after[:, place].max() <= float(bound.posterior) * (1 + 1e-9)


@_each(*(name for name in CASES if REGISTRY[name].guarantee in {Guarantee.MARGINAL_PRIOR, Guarantee.BUCKET_ONLY}))
def test_who_knows_the_counts_of_the_table_believes_nothing_beyond_its_bound(case: Case) -> None:
    after = _after(np.array(case.counts) / sum(case.counts), _likelihoods(case)[1])
    for place, bound in enumerate(case.bounds):
        if bound is not None:
            assert after[:, place].max() <= float(bound.posterior) * (1 + 1e-9)


@decoy_case
def test_who_knows_the_counts_of_the_table_believes_no_published_value_beyond_one_over_the_group_size(
    case: Case,
) -> None:
    shown, likely = _likelihoods(case)
    after = _after(np.array(case.counts) / sum(case.counts), likely)
    believed = [after[row, place] for row, place in enumerate(shown)]
    assert max(believed) <= 1 / case.spec.group_size * (1 + 1e-9)
    if case.options.groups is _decoys.GroupCreation.MIXED:
        assert believed == pytest.approx([1 / case.spec.group_size] * len(shown))


# ----------------------------------------------------------------------------------------------------------- the decoys


@decoy_case
def test_every_record_is_in_a_group_that_is_large_enough_and_holds_no_value_twice(case: Case) -> None:
    held: dict[int, int] = defaultdict(int)
    for members, length in case.runs:
        assert len(members) == len(set(members)) >= case.spec.group_size
        for place in members:
            held[place] += length
    assert [held[place] for place in range(case.size)] == list(case.counts)


@decoy_case
def test_nothing_is_believed_beyond_one_over_the_group_size_by_those_who_know_the_counts(case: Case) -> None:
    """Neither the published value nor any other; and where groups are no larger, the published one exactly so."""
    found, limit = _posteriors(case, case.counts), Fraction(1, case.spec.group_size)
    assert max(found.values()) <= limit
    enlarged = {place for members, _ in case.runs if len(members) > case.spec.group_size for place in members}
    for place in range(case.size):
        if case.counts[place]:
            assert (found[place, place] == limit) == (place not in enlarged)


@decoy_case
def test_every_value_is_published_as_often_as_it_is_held_on_average(case: Case) -> None:
    release, factor = _expected_release(case)
    assert factor == 1
    assert [release.get(place, 0) for place in range(case.size)] == list(case.counts)


@decoy_case
def test_what_is_shown_tells_as_much_of_a_value_as_the_other_way_round(case: Case) -> None:
    """Decoys are reversible: as many records of one value show another as of the other show the one."""
    for one, other in combinations(range(case.size), 2):
        there = case.counts[one] * case.law[one].get(other, 0)
        assert there == case.counts[other] * case.law[other].get(one, 0)


@decoy_case
@pytest.mark.parametrize("share", [0, 0.25, 1])
def test_the_predicted_variance_is_that_of_the_closed_form(case: Case, share: float) -> None:
    """Of the whole table f (1 - 1/gamma), where groups have no more records; of nobody nothing.

    Of some people nothing is predicted where the same values always meet.
    """
    size, held = case.spec.group_size, np.array(case.counts, dtype=np.float64)
    total = held.sum()
    leaks = held * (size - 1) / (size * (total - held))
    noise = share * (held * (size - 1) / size**2 + (total - held) * leaks * (1 - leaks))
    is_told = (held * size < total) & (share == 1 or case.options.groups is not _decoys.GroupCreation.ANATOMY)
    gains = np.where(is_told, 1 / size - leaks, np.nan)
    expected = (1 - share) * noise / gains**2 + share**2 * held * (1 - 1 / size)
    found = case.mechanism.error_prediction.predict_variances(
        case.plan, np.full(case.size, share * total), share * held
    )
    assert found[is_told] == pytest.approx(expected[is_told], rel=1e-9, abs=1e-9)
    assert np.isnan(found[~is_told]).all()


@decoy_case
def test_the_predicted_variance_of_the_whole_table_is_exact_where_groups_are_alike(case: Case) -> None:
    """A larger group makes it a little more: a seat of 1/(gamma + 1) instead of 1/gamma."""
    size = case.spec.group_size
    exact = np.zeros(case.size)
    for members, length in case.runs:
        exact[members] += length * (1 - 1 / len(members))
    held = np.array(case.counts, dtype=np.float64)
    found = case.mechanism.error_prediction.predict_variances(case.plan, np.full(case.size, held.sum()), held)
    told = ~np.isnan(found)
    largest = max(len(members) for members, _ in case.runs)
    if largest == size:
        assert found[told] == pytest.approx(exact[told])
    assert (found[told] <= exact[told] + 1e-9).all()
    assert (exact <= held * (1 - 1 / largest) + 1e-9).all()


@decoy_case
def test_there_are_no_weights_where_what_a_record_adds_depends_on_the_whole_release(case: Case) -> None:
    assert case.mechanism.estimation_weights is None


@decoy_case
def test_the_promise_of_decoys_tells_the_belief_and_the_count_from_which_on_counts_are_accurate(case: Case) -> None:
    promise, size = case.mechanism.state_guarantee(case.design).text, case.spec.group_size
    assert f"at most 1/{size} " in promise
    assert f"at least {case.mechanism.explanation.explain(case.plan)['accurate_count']:,} people have" in promise
    assert "Other knowledge is not covered" in promise


@decoy_case
def test_the_holder_is_told_the_ratio_and_the_amplification_of_every_value_that_occurs(case: Case) -> None:
    explained, size, total = case.mechanism.explanation.explain(case.plan), case.spec.group_size, sum(case.counts)
    assert explained["group_size"] == size
    assert explained["groups"] == total // size
    for value, count in zip(case.histogram.values, case.counts, strict=True):
        assert (value in explained["likelihood_ratio"]) == (value in explained["amplification"]) == (count > 0)
        if count:
            assert explained["likelihood_ratio"][value] == pytest.approx((total - count) / ((size - 1) * count))
            spare = total - size * count
            expected = pytest.approx(size * (total - count) / spare) if spare else None
            assert explained["amplification"][value] == expected


# ---------------------------------------------------------------------------------------------------------- the buckets


@dealt_case
def test_no_value_is_above_its_cap_in_any_bucket(case: Case) -> None:
    """Exactly, in what the records themselves show: whoever knows the bucket believes nothing beyond the cap."""
    found = _posteriors(case, case.counts)
    assert all(chance <= case.caps[place] for (place, _), chance in found.items())
    for (place, number), chance in found.items():
        size = sum(held for (each, _), held in case.lines.items() if each == number)
        assert chance == Fraction(case.lines[number, place], size)


@dealt_case
def test_one_record_more_of_some_value_would_be_above_its_cap(case: Case) -> None:
    """The twin of the test before: the caps are not far above what the buckets hold."""
    sizes = case.holdings.sizes.tolist()
    assert any(held + 1 > case.caps[place] * sizes[number] for (number, place), held in case.lines.items())


@dealt_case
def test_every_record_is_in_one_bucket_and_the_buckets_have_the_sizes_that_are_told(case: Case) -> None:
    sizes = [
        sum(held for (each, _), held in case.lines.items() if each == number)
        for number in range(case.plan.bucket_count)
    ]
    told = case.mechanism.explanation.explain(case.plan)["buckets"]
    assert sorted(sizes) == sorted(each["size"] for each in told for _ in range(each["count"]))
    assert sum(sizes) == sum(case.counts)
    assert case.mechanism.explanation.explain(case.plan)["loss"] == sum((size - 1) ** 2 for size in sizes)
    for place, count in enumerate(case.counts):
        assert sum(held for (_, each), held in case.lines.items() if each == place) == count
        assert sum(each["values"].get(case.histogram.values[place], 0) for each in told) == count


@dealt_case
def test_buckets_are_as_large_as_was_asked_for(case: Case) -> None:
    sizes = set(case.holdings.sizes.tolist())
    if isinstance(case.spec, Diversity):
        assert min(sizes) >= case.spec.ell
        assert set(case.lines.values()) == {1}
    else:
        assert case.options.min_bucket <= min(sizes) <= max(sizes) <= case.options.max_bucket
        assert len(sizes) <= {"one": 1, "two": 2}.get(case.options.sizes, len(sizes))


@dealt_case
def test_the_table_of_buckets_does_not_depend_on_the_batch(case: Case) -> None:
    plan = case.plan_for([TIMES * count for count in case.counts])
    whole = _lines(case.batches(plan, 10**6))
    assert len(whole) == plan.dealing.pair_count
    assert list(whole) == sorted(whole)  # by bucket id, and then by value
    assert all(_lines(case.batches(plan, most)) == whole for most in (1, 7, 64))


@dealt_case
def test_the_table_of_buckets_is_what_the_records_of_a_larger_table_show(case: Case) -> None:
    plan = case.plan_for([TIMES * count for count in case.counts])
    shown = zip(_released(case, range(9, len(_table(case)), 9)), _table(case).tolist(), strict=True)
    counted: dict[tuple[int, int], int] = defaultdict(int)
    for number, place in shown:
        counted[number, place] += 1
    assert counted == _lines(case.batches(plan, 5))
    sizes = defaultdict(int)
    for (number, _), held in counted.items():
        sizes[number] += held
    assert all(held <= case.caps[place] * sizes[number] for (number, place), held in counted.items())
    assert sorted(sizes) == list(range(plan.bucket_count))


@pytest.mark.slow
@dealt_case
def test_ids_of_buckets_are_a_permutation_that_another_key_changes(case: Case) -> None:
    larger = case.histogram_of(case.histogram.values, TIMES)
    keys = [DRAWS, Draws.unsafe_test_key("c1" * 32), DRAWS.narrow_to_column("disease")]
    plans = [case.mechanism.plan(larger, case.spec, case.options, key) for key in keys]
    ids = [tuple(plan.ids(np.arange(plan.bucket_count, dtype=np.uint64)).tolist()) for plan in plans]
    assert all(sorted(each) == list(range(len(each))) for each in ids)
    assert len(set(ids)) == len(keys)
    assert all(each != tuple(range(len(each))) for each in ids)
    # The sizes are a matter of the counts, not of the key.
    assert len({tuple(sorted(plan.dealing.bucket_sizes.tolist())) for plan in plans}) == 1


def _selections(case: Case) -> Iterator[tuple[int, ...]]:
    """How many records of each value satisfy a condition: nearly all, half of some, and of one value alone."""
    yield tuple(max(count - 1, 0) for count in case.counts)
    yield tuple(count // 2 if place % 2 else count for place, count in enumerate(case.counts))
    yield tuple(min(count, 2) if place == 0 else 0 for place, count in enumerate(case.counts))


def _outcomes(case: Case, selected: Sequence[int]) -> np.ndarray:
    """The selected records of each bucket (column) for every way (row) in which the slots may fall to the records.

    All ways are equally likely: which slots of its value the selected records have is a choice without order.
    """
    numbers = [
        case.mechanism.perturb(
            case.plan, np.full(count, place, dtype=np.uint8), np.arange(count, dtype=np.uint64), DRAWS, 0
        ).cells
        for place, count in enumerate(case.counts)
    ]
    falls = [
        [
            np.bincount(each[list(slots)], minlength=case.plan.bucket_count)
            for slots in combinations(range(len(each)), some)
        ]
        for each, some in zip(numbers, selected, strict=True)
    ]
    return np.array([sum(ways) for ways in product(*falls)])


def test_there_are_buckets_that_tell_every_count() -> None:
    for name in CASES:
        cases = [case for case in CASES[name] if case.is_dealt]
        assert not cases or any(case.is_told for case in cases)


@told_case
def test_the_mean_estimate_over_all_deals_is_the_truth(case: Case) -> None:
    """The exact twin of a simulation: every way to deal slots to the records, whatever the condition selects."""
    wanted = [(place,) for place in range(case.size)] + [(0, case.size - 1)]
    adds = np.array([[case.added[number][places] for number in range(case.plan.bucket_count)] for places in wanted])
    for selected in _selections(case):
        outcomes = _outcomes(case, selected)
        estimates = outcomes @ adds.T
        truth = [sum(selected[place] for place in places) for places in wanted]
        assert estimates.mean(axis=0) == pytest.approx(truth, abs=1e-9 * len(outcomes))
        # What is added up here is what the method answers, and the truth is within its certain bounds.
        for outcome, expected in list(zip(outcomes, estimates, strict=True))[:20]:
            moments = case.estimated(case.tally(dict(enumerate(outcome.tolist()))), wanted)
            assert [each.value for each in moments] == pytest.approx(expected.tolist(), abs=1e-9)
            assert all(each.least <= true <= each.most for each, true in zip(moments, truth, strict=True))


@dealt_case
def test_the_variance_over_all_deals_is_the_formula_of_the_estimate(case: Case) -> None:
    """Of value y with o records, m of them selected, the deal is hypergeometric."""
    adds = np.array(
        [[case.added[number][place,] for number in range(case.plan.bucket_count)] for place in range(case.size)]
    )
    for selected in _selections(case):
        expected = np.zeros(case.size)
        for place, (count, some) in enumerate(zip(case.counts, selected, strict=True)):
            held = np.array([case.lines.get((number, place), 0) for number in range(case.plan.bucket_count)])
            spread = some * (count - some) / (count * max(count - 1, 1)) if count else 0.0
            expected += spread * ((adds**2) @ held - (adds @ held) ** 2 / max(count, 1))
        assert (_outcomes(case, selected) @ adds.T).var(axis=0) == pytest.approx(expected, abs=1e-8)


@told_case
@pytest.mark.parametrize("share", [0, 0.25, 0.5, 1])
def test_the_predicted_variance_is_that_of_a_coin_for_each_record(case: Case, share: float) -> None:
    sizes = case.holdings.sizes
    adds = np.array(
        [[case.added[number][place,] for number in range(case.plan.bucket_count)] for place in range(case.size)]
    )
    expected = share * (1 - share) * ((adds**2) @ sizes - np.array(case.counts))
    rows = np.full(case.size, share * sum(case.counts))
    found = case.mechanism.error_prediction.predict_variances(case.plan, rows, share * np.array(case.counts))
    assert found == pytest.approx(expected, abs=1e-8)


@dealt_case
@pytest.mark.parametrize("method", ["inverse", "uniform"])
def test_everything_and_nothing_are_certain_by_every_method_whatever_is_selected(case: Case, method: str) -> None:
    for selected in _selections(case):
        outcome = _outcomes(case, selected)[0].tolist()
        rows, tally = sum(outcome), case.tally(dict(enumerate(outcome)))
        every, none = case.estimated(tally, [range(case.size), ()], method)
        assert (every.value, every.least, every.most) == pytest.approx((rows, rows, rows))
        assert every.variance_at(rows) == pytest.approx(0, abs=1e-9)
        assert (none.value, none.least, none.most, none.variance_at(0)) == (0, 0, 0, 0)


@dealt_case
def test_the_sum_over_buckets_is_by_hand(case: Case) -> None:
    """q s / n, of each bucket; and its error if all pairings in a bucket are equally likely."""
    outcome = _outcomes(case, next(_selections(case)))[0].tolist()
    singles = [(place,) for place in range(case.size)]
    found = case.estimated(case.tally(dict(enumerate(outcome))), singles, "uniform")
    sizes = case.holdings.sizes.tolist()
    for place, moments in enumerate(found):
        parts = [(some, case.lines.get((number, place), 0), sizes[number]) for number, some in enumerate(outcome)]
        assert moments.value == pytest.approx(sum(some * held / size for some, held, size in parts))
        spread = [
            some * held * (size - held) * (size - some) / (size**2 * (size - 1)) if size > 1 else 0.0
            for some, held, size in parts
        ]
        assert moments.variance_at(0) == pytest.approx(sum(spread))
        assert moments.note is not None
        assert "tau" in moments.note


@dealt_case
def test_there_are_no_weights_where_what_a_record_adds_depends_on_its_bucket(case: Case) -> None:
    assert case.mechanism.estimation_weights is None


@dealt_case
def test_the_promise_tells_the_range_of_the_caps_and_what_is_not_protected(case: Case) -> None:
    promise, free = case.mechanism.state_guarantee(case.design).text, sum(cap == 1 for cap in case.caps)
    low, high = min(case.caps), max(case.caps)
    assert (f"The caps are {low} for all values." if low == high else f"The caps are {low} to {high}.") in promise
    assert (f"{free} values have the cap 1" in promise) == (free > 0)


@dealt_case
def test_records_in_the_clear_are_counted_in_the_remarks(case: Case) -> None:
    alone = defaultdict(list)
    for (number, _), held in case.lines.items():
        alone[number].append(held)
    clear = sum(held[0] for held in alone.values() if len(held) == 1)
    remarks = [
        remark for remark in map(str, case.mechanism.explanation.list_remarks(case.plan)) if "IN THE CLEAR" in remark
    ]
    assert [remark.split()[0] for remark in remarks] == ([str(clear)] if clear else [])
    free = [
        value
        for value, cap, count in zip(case.histogram.values, case.caps, case.counts, strict=True)
        if cap == 1 and count
    ]
    named = [
        remark for remark in map(str, case.mechanism.explanation.list_remarks(case.plan)) if "not protected" in remark
    ]
    assert bool(named) == bool(free)
    assert all(repr(value) in named[0] for value in free)


@dealt_case
def test_the_loss_is_told_beside_a_bound_of_the_best(case: Case) -> None:
    explained = case.mechanism.explanation.explain(case.plan)
    assert explained["lower_bound"] <= explained["loss"]
    is_said = any("is within" in remark for remark in map(str, case.mechanism.explanation.list_remarks(case.plan)))
    is_for_counts = "ways" in explained  # then less loss was possible, and not wanted
    assert is_said == (explained["lower_bound"] < explained["loss"] and not is_for_counts)
    assert list(explained["caps"]) == list(case.histogram.values)


# ----------------------------------------------------------------------------------------------------------- the design


@any_prior_case
def test_the_design_is_the_same_for_other_counts_of_the_same_domain(case: Case) -> None:
    others = [case.counts[::-1], tuple(1000 + count for count in case.counts), (*[0] * (case.size - 1), 1)]
    designs = [case.mechanism.make_design(case.plan_for(counts)) for counts in others]
    assert all(design == case.design for design in designs)
    assert all(design.to_json() == case.design.to_json() for design in designs)


@every_case
def test_the_design_tells_nothing_of_the_size_of_the_table(case: Case) -> None:
    """Unless the holder wants the counts of the cells to be public."""
    larger = case.mechanism.make_design(case.plan_for([TIMES * count for count in case.counts])).to_json()
    assert (larger == case.design.to_json()) == (case.options != SHARES)


@_each("small-domain")
def test_cells_are_published_with_their_counts_only_if_that_was_asked_for(case: Case) -> None:
    is_asked = case.options.publish_shares
    for cell, private in zip(
        case.design.to_json()["cells"], case.mechanism.explanation.explain(case.plan)["cells"], strict=True
    ):
        assert cell.get("counts") == (private["counts"] if is_asked else None)


@every_case
def test_the_design_comes_back_from_json(case: Case) -> None:
    written = json.dumps(case.design.to_json(), allow_nan=False)
    assert case.mechanism.read_design(json.loads(written), ["string"]) == case.design


@_each(*(name for name in CASES if REGISTRY[name].crowd_counts is None))
def test_the_design_of_a_compound_comes_back_from_json(case: Case) -> None:
    """The same request for pairs of a text and a number."""
    values = [(name, number) for number, name in enumerate(case.histogram.values)]
    spec = case.spec
    if isinstance(spec, BreachBoundPerValue):
        bounds = zip(values, spec.list_bounds(case.histogram.values), strict=True)
        spec = BreachBoundPerValue({value: bound for value, bound in bounds if bound is not None})
    if isinstance(spec, ShareCap):
        spec = ShareCap(dict(zip(values, case.caps, strict=True)))
    plan = case.mechanism.plan(case.histogram_of(values), spec, case.options, DRAWS)
    design = case.mechanism.make_design(plan)
    written = json.dumps(design.to_json(), allow_nan=False)
    assert case.mechanism.read_design(json.loads(written), ["string", "integer"]) == design


@every_case
def test_the_design_holds_no_key(case: Case) -> None:
    assert DRAWS.key.hex() not in json.dumps(case.design.to_json())
    assert repr(DRAWS.key) not in repr(case.design)


Damage = Callable[[dict[str, Any]], Any]


def _more(number: str) -> str:
    """A little more than a rational."""
    return str(Fraction(number) + Fraction(1, 10**12))


def _all_more(numbers: list[str]) -> list[str]:
    return [_more(number) for number in numbers]


CAPS_BROKEN: Mapping[str, Damage] = {
    "too few caps": lambda made: made["caps"].pop(),
    "too many caps": lambda made: made["caps"].append("1/2"),
    "no caps": lambda made: made.update(caps=[]),
    "no caps of no values": lambda made: made.update(caps=[], domain=[]),
    "a cap of nothing": lambda made: made["caps"].__setitem__(0, "0"),
    "a negative cap": lambda made: made["caps"].__setitem__(0, "-1/2"),
    "a cap above one": lambda made: made["caps"].__setitem__(0, "1000001/1000000"),
    "nothing protected": lambda made: made.update(caps=["1"] * len(made["caps"])),
}

BROKEN: Mapping[str, Mapping[str, Damage]] = {
    "uniform": {
        "a retention above the bound": lambda made: made.update(retention=_more(made["retention"])),
        "a bound below the retention": lambda made: made.update(
            posterior=str(Fraction(made["posterior"]) - Fraction(1, 10**9))
        ),
        "nothing kept": lambda made: made.update(retention="0"),
        "nothing redrawn": lambda made: made.update(retention="1"),
        "a negative retention": lambda made: made.update(retention="-1/9"),
    },
    "subset": {
        "a chance above the bound": lambda made: made.update(hold_probability=_more(made["hold_probability"])),
        "a chance no better than that of others": lambda made: made.update(
            hold_probability=str(Fraction(made["subset_size"], len(made["domain"])))
        ),
        "a set that never holds its value": lambda made: made.update(hold_probability="0"),
        "a set that always holds its value": lambda made: made.update(hold_probability="1"),
        "empty sets": lambda made: made.update(subset_size=0),
        "sets of everything": lambda made: made.update(subset_size=len(made["domain"])),
    },
    "noisy-counts": {
        "less noise than the bound allows": lambda made: made.update(ratio=str(Fraction(made["ratio"]) / 2)),
        "no noise": lambda made: made.update(ratio="0"),
        "noise without an end": lambda made: made.update(ratio="1"),
        "crowds of one": lambda made: made.update(smallest_crowd=1),
        "crowds of a part of a person": lambda made: made.update(smallest_crowd=2.5),
        "crowds of truth": lambda made: made.update(smallest_crowd=True),
        "sets of everything": lambda made: made.update(subset_size=len(made["domain"])),
    },
    "levels": {
        "no levels": lambda made: made.update(levels=[]),
        "a chance above the bound": lambda made: made["levels"][1].update(
            hold_probability=_more(made["levels"][1]["hold_probability"])
        ),
        "sets of everything": lambda made: made["levels"][1].update(subset_size=max(made["levels"][1]["groups"]) + 1),
        "shares of more than everything": lambda made: made["levels"][0].update(share="1"),
        "a level without records": lambda made: (
            made["levels"][0].update(share="1"),
            made["levels"][1].update(share="0"),
        ),
        "two levels of a name": lambda made: made["levels"][1].update(name=made["levels"][0]["name"]),
        "too few groups": lambda made: made["levels"][1]["groups"].pop(),
        "a group that no value has": lambda made: made["levels"][1].update(
            groups=[2 * group for group in made["levels"][1]["groups"]]
        ),
        "says of more than everything": lambda made: made["levels"][1].update(says=["1", "1"]),
        "a level that has less than nothing to say": lambda made: made["levels"][1].update(says=["2", "-1"]),
        "too few says": lambda made: made["levels"][1].update(says=["1"]),
        "a level above that divides one below": lambda made: made["levels"].append(
            {**made["levels"][1], "name": "more", "groups": made["levels"][1]["groups"][::-1]}
        ),
    },
    "small-domain": {
        "no cells": lambda made: made.update(cells=[]),
        "a retention above the bound": lambda made: made["cells"][-1].update(
            retention=_more(made["cells"][-1]["retention"])
        ),
        "a cell's prior above that of its retention": lambda made: made["cells"][-1].update(
            prior=_more(made["cells"][-1]["prior"])
        ),
        "nothing kept": lambda made: made["cells"][0].update(retention="0"),
        "nothing redrawn": lambda made: made["cells"][0].update(retention="1"),
        "a cell without a prior": lambda made: made["cells"][0].update(prior="0"),
        "a cell's prior of the posterior": lambda made: made["cells"][0].update(prior=made["posterior"]),
        "a place beyond the domain": lambda made: made["cells"][0]["places"].append(len(made["domain"])),
        "a place before the domain": lambda made: made["cells"][0]["places"].append(-1),
        "a place twice": lambda made: made["cells"][0]["places"].append(made["cells"][0]["places"][0]),
        "a cell of one value": lambda made: made["cells"][0].update(places=[0]),
        "too few counts": lambda made: made["cells"][0].update(counts=[1]),
        "a count of nobody": lambda made: made["cells"][0].update(counts=[0] * len(made["cells"][0]["places"])),
    },
    "harmonic": {
        "a retention above the bounds": lambda made: made.update(retention=_more(made["retention"])),
        "a value drawn too rarely": lambda made: made["swaps"].__setitem__(
            slice(2), [_more(made["swaps"][0]), str(Fraction(made["swaps"][1]) * 2 - Fraction(_more(made["swaps"][1])))]
        ),
        "more than everything": lambda made: made["swaps"].__setitem__(0, _more(made["swaps"][0])),
        "a negative chance": lambda made: made["swaps"].__setitem__(0, "-1/9"),
        "nothing kept": lambda made: made.update(retention="0"),
        "too few chances": lambda made: made["swaps"].pop(),
        "too few bounds": lambda made: (made["priors"].pop(), made["posteriors"].pop()),
        "no bound at all": lambda made: made.update(
            priors=[None] * len(made["priors"]), posteriors=[None] * len(made["posteriors"])
        ),
        "bounds beyond the tolerance": lambda made: made.update(tolerance="3/2"),
    },
    "fine-grain": {
        "retentions above the bounds": lambda made: made.update(retentions=_all_more(made["retentions"])),
        "a retention above one": lambda made: made["retentions"].__setitem__(0, "3/2"),
        "a negative retention": lambda made: made["retentions"].__setitem__(0, "-1/9"),
        "two values that are never kept": lambda made: made.update(retentions=["0"] * len(made["retentions"])),
        "too few retentions": lambda made: made["retentions"].pop(),
        "too few bounds": lambda made: (made["priors"].pop(), made["posteriors"].pop()),
        "no bound at all": lambda made: made.update(
            priors=[None] * len(made["priors"]), posteriors=[None] * len(made["posteriors"])
        ),
    },
    "buckets": CAPS_BROKEN,
    "anatomy": CAPS_BROKEN,
    "decoys": {
        "groups of one": lambda made: made.update(group_size=1),
        "groups of nobody": lambda made: made.update(group_size=0),
        "groups of less than nobody": lambda made: made.update(group_size=-2),
        "groups of more than all values": lambda made: made.update(group_size=len(made["domain"]) + 1),
    },
}

EVERYWHERE: Mapping[str, Damage] = {
    "a value twice": lambda made: made["domain"].__setitem__(0, made["domain"][1]),
    "a value of another type": lambda made: made["domain"].__setitem__(0, 3),
    "one value": lambda made: made.update(domain=made["domain"][:1]),
    "no value": lambda made: made.update(domain=[]),
    "a domain that is no list": lambda made: made.update(domain="value 0"),
}


def _damages() -> Iterator[Any]:
    for name, cases in CASES.items():
        for words, damage in {**EVERYWHERE, **BROKEN.get(name, {})}.items():
            yield pytest.param(cases[0], damage, id=f"{name}: {words}")


@pytest.mark.parametrize(("case", "damage"), list(_damages()))
def test_a_design_that_no_plan_could_have_made_is_refused(case: Case, damage: Damage) -> None:
    written = json.loads(json.dumps(case.design.to_json()))
    assert case.mechanism.read_design(written, ["string"]) == case.design
    damage(written)
    with pytest.raises(ReleaseFormatError):
        case.mechanism.read_design(written, ["string"])


def test_a_design_that_lets_beliefs_fall_is_refused_where_they_must_not() -> None:
    upward, both = (each for each in CASES["fine-grain"] if each.spec.list_bounds(each.histogram.values)[2] is None)
    assert (upward.options.direction, both.options) == (fine_grain.Direction.UPWARD, BOTH)
    with refuses(ReleaseFormatError, "design-breaks-bound"):
        upward.mechanism.read_design({**upward.design.to_json(), "direction": "both"}, ["string"])


def _parts() -> Iterator[Any]:
    for name, cases in CASES.items():
        for part in cases[0].design.to_json():
            yield pytest.param(cases[0], part, id=f"{name}: {part}")


@pytest.mark.parametrize(("case", "part"), list(_parts()))
def test_a_design_needs_every_part(case: Case, part: str) -> None:
    written = case.design.to_json()
    del written[part]
    with pytest.raises((SfumatoError, KeyError)):
        case.mechanism.read_design(written, ["string"])


# ----------------------------------------------------------------------------------------------------------- the counts


def _expected_release(case: Case) -> tuple[dict[Shown, int], int]:
    """How often everything is expected to be shown, and the factor that makes all of these numbers whole."""
    expected: dict[Shown, Fraction] = defaultdict(Fraction)
    for count, row in zip(case.counts, case.law, strict=True):
        for shown, chance in row.items():
            expected[shown] += count * chance
    factor = math.lcm(*(each.denominator for each in expected.values()))
    return {shown: int(each * factor) for shown, each in expected.items()}, factor


def _truth(case: Case, places: Sequence[int]) -> int:
    return sum(case.counts[place] for place in places)


@every_case
def test_the_expected_estimate_of_every_set_of_values_is_the_truth(case: Case) -> None:
    release, factor = _expected_release(case)
    found = [moments.value for moments in case.estimated(case.tally(release), case.wanted)]
    scale = factor * sum(case.counts)
    assert found == pytest.approx([factor * _truth(case, places) for places in case.wanted], abs=1e-9 * scale)


def _other_methods() -> Iterator[Any]:
    for case in ALL:
        for method in case.mechanism.estimators:
            if method not in (case.default_method, "paper"):  # the iteration of a paper is as wrong as it is there
                yield pytest.param(case, method, id=f"{method}-{case}")


@pytest.mark.slow
@pytest.mark.parametrize(("case", "method"), list(_other_methods()))
def test_other_methods_too_find_the_truth_in_what_is_expected(case: Case, method: str) -> None:
    """Of a table so large that what is shown is what is expected; iteration creeps up to a count of nobody."""
    release, factor = _expected_release(case)
    tally = case.tally(release)
    singles = [(place,) for place in range(case.size)]
    found = [
        each.value / factor
        for each in case.estimated(replace(tally, release_tally=case.whole or tally), singles, method)
    ]
    assert found == pytest.approx(case.counts, abs=1e-3 * sum(case.counts))


@pytest.mark.slow
@every_case
def test_an_estimate_is_the_sum_of_what_every_record_adds(case: Case) -> None:
    release = {shown: number % 4 for number, shown in enumerate(sorted(set().union(*case.law), key=repr), 1)}
    found = [moments.value for moments in case.estimated(case.tally(release), case.wanted)]
    sums = [sum(count * case.added[shown][places] for shown, count in release.items()) for places in case.wanted]
    assert found == pytest.approx(sums, abs=1e-9)


def _exact_variance(case: Case, places: tuple[int, ...]) -> float:
    """The variance of the estimate over every release that could be published.

    Each record adds a number of its own, by a draw of its own. In which cell it is, is no matter of chance here: in a
    whole table every slot is taken.
    """
    total = 0.0
    for count, row in zip(case.counts, case.law, strict=True):
        by_cell: dict[Any, dict[Shown, Fraction]] = defaultdict(dict)
        for shown, chance in row.items():
            by_cell[shown[0] if case.mechanism.uses_slots else None][shown] = chance  # type: ignore[index]
        for part in by_cell.values():
            mass = sum(part.values())
            mean = sum(float(chance / mass) * case.added[shown][places] for shown, chance in part.items())
            second = sum(float(chance / mass) * case.added[shown][places] ** 2 for shown, chance in part.items())
            total += float(count * mass) * (second - mean**2)
    return total


@_having(ErrorPrediction, *(name for name, cases in CASES.items() if cases[0].is_dealt), "decoys")
def test_the_variances_are_those_of_every_release_that_could_be_published(case: Case) -> None:
    rows, counts = (np.array(each, dtype=np.float64) for each in ([sum(case.counts)] * case.size, case.counts))
    expected = [_exact_variance(case, (place,)) for place in range(case.size)]
    assert case.mechanism.error_prediction.predict_variances(case.plan, rows, counts) == pytest.approx(
        expected, rel=1e-9, abs=1e-9
    )


@pytest.mark.slow
@_having(ErrorPrediction, *(name for name, cases in CASES.items() if cases[0].is_dealt), "decoys")
def test_the_variances_of_sets_are_those_of_every_release_that_could_be_published(case: Case) -> None:
    sets = case.wanted
    expected = np.array([_exact_variance(case, places) for places in sets])
    found = case.mechanism.error_prediction.predict_set_variances(
        case.plan, 1.0, [np.array(places, dtype=np.int64) for places in sets]
    )
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@_having(ErrorPrediction, "decoys")
def test_the_variance_of_a_set_of_one_value_is_that_of_the_value(case: Case) -> None:
    share, held = 0.25, np.array(case.counts, dtype=np.float64)
    single = case.mechanism.error_prediction.predict_set_variances(
        case.plan, share, [np.array([place]) for place in range(case.size)]
    )
    rows = np.full(case.size, share * held.sum())
    assert single == pytest.approx(
        case.mechanism.error_prediction.predict_variances(case.plan, rows, share * held), rel=1e-9, abs=1e-9
    )


@pytest.mark.slow
@_each("uniform", "subset", "harmonic")
def test_an_estimate_carries_the_exact_variance_for_the_true_count(case: Case) -> None:
    rows = sum(case.counts)
    some = next(iter(case.law[0]))
    for places, moments in zip(case.wanted, case.estimated(case.tally({some: rows}), case.wanted), strict=True):
        assert moments.variance_at(_truth(case, places)) == pytest.approx(_exact_variance(case, places), abs=1e-9)


@_each("levels")
def test_an_estimate_carries_the_exact_variance_of_what_is_expected(case: Case) -> None:
    """It depends on how many are near of kin to the wanted values, which is estimated without bias."""
    release, factor = _expected_release(case)
    for places, moments in zip(case.wanted, case.estimated(case.tally(release), case.wanted), strict=True):
        variance = moments.variance_at(factor * _truth(case, places))
        assert variance == pytest.approx(factor * _exact_variance(case, places), rel=1e-9, abs=1e-9)


@_each("fine-grain")
def test_an_estimate_carries_the_variance_for_the_composition_that_the_release_shows(case: Case) -> None:
    """Of a release that shows what is expected, the composition is found by iteration, and nearly so."""
    release, factor = _expected_release(case)
    for places, moments in zip(case.wanted, case.estimated(case.tally(release), case.wanted), strict=True):
        variance = moments.variance_at(factor * _truth(case, places))
        assert variance == pytest.approx(factor * _exact_variance(case, places), rel=0.02, abs=1e-9)


@every_case
def test_a_count_lies_between_the_least_and_the_most_that_an_estimate_allows(case: Case) -> None:
    release, factor = _expected_release(case)
    for places, moments in zip(case.wanted, case.estimated(case.tally(release), case.wanted), strict=True):
        assert moments.least <= factor * _truth(case, places) <= moments.most


@every_case
def test_all_values_together_are_the_rows_and_certain(case: Case) -> None:
    release, _ = _expected_release(case)
    rows = sum(release.values())
    (moments,) = case.estimated(case.tally(release), [range(case.size)])
    found = (moments.value, moments.least, moments.most, moments.variance_at(rows))
    assert found == pytest.approx((rows, rows, rows, 0), rel=0, abs=case.slack)


@every_case
def test_no_value_is_nobody_and_certain(case: Case) -> None:
    release, _ = _expected_release(case)
    (moments,) = case.estimated(case.tally(release), [()])
    assert (moments.value, moments.least, moments.most, moments.variance_at(0)) == (0, 0, 0, 0)


@every_case
def test_no_rows_are_nobody_and_certain(case: Case) -> None:
    for moments in case.estimated(case.tally({}), case.wanted):
        assert (moments.value, moments.least, moments.most, moments.variance_at(0)) == (0, 0, 0, 0)


def _every_method() -> Iterator[Any]:
    for case in ALL:
        for method in case.mechanism.estimators:
            yield pytest.param(case, method, id=f"{method}-{case}")


def _conditions(case: Case, larger: Case) -> Tally:
    """What the records of several conditions show: of all, of none, of one record, and of some by chance."""
    shown, random = _released(case, ()), np.random.default_rng(7)
    masks = [np.arange(len(shown)) < rows for rows in (len(shown), 0, 1)]
    masks += [random.random(len(shown)) < share for share in (0.1, 0.5, 0.9)]
    lines = [larger.tally(Counter(each for each, mine in zip(shown, mask, strict=True) if mine)) for mask in masks]
    counts, rows = (np.concatenate([getattr(line, name) for line in lines]) for name in ("counts", "rows"))
    return Tally(counts, rows).attach_context(lines[0].attach_context(None, lines[0].holdings), lines[0].holdings)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "method"), list(_every_method()))
def test_many_conditions_are_counted_as_each_alone(case: Case, method: str) -> None:
    """One formula serves both: a tally of several lines gives what each of its lines gives."""
    larger = replace(case, counts=tuple(TIMES * count for count in case.counts))
    some = [(0,), (case.size - 1,), (0, case.size - 1), (), range(case.size)]
    sets = [np.array(places, dtype=np.int64) for places in some]
    counting = case.mechanism.estimators[method].count
    check_lines(lambda tally: counting(larger.design, tally, sets), _conditions(case, larger))


@pytest.mark.parametrize(("case", "method"), list(_every_method()))
def test_what_a_record_adds_by_the_weights_of_a_method_is_what_it_counts(case: Case, method: str) -> None:
    chosen = case.mechanism.estimators[method]
    if chosen.compute_weights is None:
        return
    for place in range(case.size):
        weights = chosen.compute_weights(case.design, np.eye(case.size)[place])
        for shown, added in case.added.items():
            tally = case.tally({shown: 1})
            members = replace(tally, counts=tally.counts[:, : len(weights.entry_weights)])  # not the number of records
            assert weights.sum_tally(members) == pytest.approx(added[place,], abs=1e-9)


@pytest.mark.slow
@every_mechanism
def test_counts_of_a_release_are_the_same_one_by_one_and_all_at_once(name: str, tmp_path: Path) -> None:
    release = published_by(name, people(), tmp_path / "release")
    conditions: list[dict[str, Condition]] = [{}, {"age": 30}, {"sex": "F", "age": Range(at_least=50)}, {"age": 99}]
    values = [*((value,) for value in release.manifest.design.domain), None]
    queries = [CountQuery(where, value) for value in values for where in conditions]
    for method in (None, *REGISTRY[name].estimators):
        together = release.count_many(queries, method=method)
        assert len(together) == len(queries)
        for query, many in zip(queries, together, strict=True):
            one = release.count(*(query.values or [...]), where=query.sql, method=method)
            assert many.value == pytest.approx(one.value, rel=1e-9, abs=1e-9)
            assert many.bounds == pytest.approx(one.bounds, rel=1e-9, abs=1e-9)
            assert (many.standard_error is None) == (one.standard_error is None)
            if one.standard_error is not None and many.standard_error is not None:
                assert many.standard_error**2 == pytest.approx(one.standard_error**2, rel=1e-9, abs=1e-9)
                assert many.interval() == pytest.approx(one.interval(), rel=1e-9, abs=1e-6)
            words = (one.method, one.assumption, one.note, one.is_exact)
            assert (many.method, many.assumption, many.note, many.is_exact) == words


def _weight(case: Case, shown: Shown, place: int) -> float:
    """What the published weights say that a record adds to the count of a value."""
    columns = {
        name: pa.array(column).to_pylist()
        for name, column in case.mechanism.estimation_weights.make_weights(case.design).items()
    }
    lines = [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]
    mine = [line for line in lines if line["value"] == place]
    if "weight" in columns:
        (line,) = (each for each in mine if each["published"] == shown)
        return float(line["weight"])
    if "level" in columns:
        level, held = shown
        (line,) = (each for each in mine if each["level"] == case.design.levels[level].name)
        bits = np.packbits([place in held for place in range(case.size)])
        siblings = {name: line[name] for name in line if name.startswith("siblings")}
        more = [
            line[name.replace("siblings", "per_sibling")]
            * np.bitwise_count(bits & np.frombuffer(marks, np.uint8)).sum()
            for name, marks in siblings.items()
        ]
        return float((line["if_equal"] if line["place"] in held else line["otherwise"]) + sum(more))
    if "place" in columns:
        (line,) = mine
        return float(line["if_equal"] if line["place"] in shown else line["otherwise"])
    cell, value = shown if isinstance(shown, tuple) else (0, shown)
    found = [line["if_equal"] if value == place else line["otherwise"] for line in mine if line["cell"] == cell]
    return float(sum(found))


@_having(EstimationWeights)
def test_the_published_weights_are_what_a_record_adds(case: Case) -> None:
    for shown, added in case.added.items():
        for place in range(case.size):
            assert _weight(case, shown, place) == pytest.approx(added[place,], abs=1e-9)


@pytest.mark.slow
@every_case
def test_the_plan_can_be_counted_with(case: Case) -> None:
    case.mechanism.plan_rules.check_countable(case.plan)
    assert all(math.isfinite(each) for added in case.added.values() for each in added.values())


# --------------------------------------------------------------------------------------------------- the pure functions


def _table(case: Case) -> np.ndarray:
    """The codes of a table with the counts of a case, ten times over, in no order."""
    codes = np.repeat(np.arange(case.size, dtype=np.uint8), [TIMES * count for count in case.counts])
    return np.random.default_rng(1).permutation(codes)


def _released(case: Case, cuts: Sequence[int]) -> list[Shown]:
    """What every record of that table shows, if it is read in batches that end at these rows."""
    counts, codes = [TIMES * count for count in case.counts], _table(case)
    plan, slots = case.plan_for(counts), Slots(DRAWS, case.mechanism_name, counts)
    before, first, shown = np.zeros(case.size, dtype=np.int64), 0, []
    for last in (*cuts, len(codes)):
        batch = codes[first:last]
        mine: RandomBits | None = slots(batch, before) if case.mechanism.uses_slots else None
        shown += shown_by(case.mechanism.perturb(plan, batch, mine, DRAWS, first), case.size)
        before, first = before + np.bincount(batch, minlength=case.size), last
    return shown


@every_case
@pytest.mark.parametrize("batch", [1, 7, 64])
def test_the_release_does_not_depend_on_the_batch(case: Case, batch: int) -> None:
    assert _released(case, range(batch, len(_table(case)), batch)) == _released(case, ())


@pytest.mark.slow
@every_case
def test_planning_and_replacing_twice_is_the_same(case: Case) -> None:
    assert case.mechanism.make_design(case.plan_for(case.counts)) == case.design
    assert _released(case, ()) == _released(case, ())


@every_mechanism
def test_a_mechanism_travels_by_its_name(name: str) -> None:
    assert pickle.loads(pickle.dumps(REGISTRY[name])) is REGISTRY[name]
    assert REGISTRY[name].plan.__module__.encode() not in pickle.dumps(REGISTRY[name])


@every_case
def test_a_plan_that_has_travelled_replaces_as_before(case: Case) -> None:
    """Both as it is, and as it is chosen: with its mechanism, and with the plans it was compared with."""
    histogram, options = case.histogram_of(case.histogram.values, TIMES), case.options
    chosen = choose(histogram, case.spec, DRAWS, case.mechanism_name, options={case.mechanism_name: options})
    travelled = pickle.loads(pickle.dumps(chosen))
    assert travelled.mechanism is case.mechanism
    assert case.mechanism.make_design(travelled.plan) == case.mechanism.make_design(chosen.plan)
    codes = _table(case)
    slots = Slots(DRAWS, case.mechanism_name, histogram.counts)(codes, np.zeros(case.size, dtype=np.int64))
    plans = [chosen.plan, travelled.plan, pickle.loads(pickle.dumps(case.plan_for(histogram.counts)))]
    shown = [shown_by(case.mechanism.perturb(plan, codes, slots, DRAWS, 3), case.size) for plan in plans]
    assert shown[1] == shown[0]
    assert shown[2] == shown[0]
    if case.is_dealt:
        assert _lines(case.batches(travelled.plan, 5)) == _lines(case.batches(chosen.plan, 5))


@drawn_case
def test_another_key_gives_another_release_of_the_same_plan(case: Case) -> None:
    codes = np.full(64, max(range(case.size), key=case.counts.__getitem__), dtype=np.uint8)
    slots = np.arange(64, dtype=np.uint64) % max(case.counts) if case.mechanism.uses_slots else None
    keys = [DRAWS, Draws.unsafe_test_key("c1" * 32), DRAWS.narrow_to_column("disease")]
    shown = [tuple(shown_by(case.mechanism.perturb(case.plan, codes, slots, key, 0), case.size)) for key in keys]
    assert len(set(shown)) == len(keys)


@every_case
def test_replacing_leaves_its_input_alone(case: Case) -> None:
    codes = _table(case)
    slots = Slots(DRAWS, case.mechanism_name, [TIMES * count for count in case.counts])
    mine = slots(codes, np.zeros(case.size, dtype=np.int64))
    before = codes.copy(), mine.copy()
    case.mechanism.perturb(case.plan_for([TIMES * count for count in case.counts]), codes, mine, DRAWS, 0)
    assert np.array_equal(codes, before[0])
    assert np.array_equal(mine, before[1])


@every_case
def test_an_empty_batch_stays_empty(case: Case) -> None:
    codes, slots = np.array([], dtype=np.uint8), np.array([], dtype=np.uint64)
    replaced = case.mechanism.perturb(case.plan, codes, slots if case.mechanism.uses_slots else None, DRAWS, 5)
    assert shown_by(replaced, case.size) == []


@every_case
def test_slots_are_asked_for_where_they_are_needed_and_nowhere_else(case: Case) -> None:
    codes, slots = np.zeros(4, dtype=np.uint8), np.zeros(4, dtype=np.uint64)
    with_slots = shown_by(case.mechanism.perturb(case.plan, codes, slots, DRAWS, 0), case.size)
    if case.mechanism.uses_slots:
        with pytest.raises(InternalError):
            case.mechanism.perturb(case.plan, codes, None, DRAWS, 0)
    else:
        assert shown_by(case.mechanism.perturb(case.plan, codes, None, DRAWS, 0), case.size) == with_slots


# ------------------------------------------------------------------------------------------------------------- in words


@drawn_case
def test_the_promise_is_in_words_with_the_numbers_of_the_request(case: Case) -> None:
    promise = case.mechanism.state_guarantee(case.design).text
    for bound in filter(None, case.bounds):
        assert str(bound.prior) in promise
        assert str(bound.posterior) in promise
    assert promise.endswith(".")


@every_case
def test_the_holder_is_told_in_json_and_in_sentences(case: Case) -> None:
    explained = case.mechanism.explanation.explain(case.plan)
    assert json.loads(json.dumps(explained, allow_nan=False)) == explained
    for each in case.mechanism.explanation.value_columns:
        assert set(explained[each.entry]) <= set(case.histogram.values)
        assert each.heading
        assert all(each.format_number(number) for number in explained[each.entry].values() if number is not None)
    for remark in case.mechanism.explanation.list_remarks(case.plan):
        assert str(remark).endswith(".")
        assert remark.code in case.mechanism.explanation.remark_codes
        assert json.loads(json.dumps(remark.to_json(), allow_nan=False)) == remark.to_json()
