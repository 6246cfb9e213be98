"""What every mechanism of the registry owes: the same list for all of them.

A new mechanism adds one entry to `CASES`; everything below then runs for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from enumeration import Law, transition_law
from sfumato.draws import Draws
from sfumato.histogram import Histogram
from sfumato.mechanisms import REGISTRY
from sfumato.spec import BreachBound
from sfumato.tally import Tally

DRAWS = Draws.unsafe_test_key("c0" * 32)
ROWS = 100


@dataclass(frozen=True)
class Case:
    """A request to plan for, on a table with the given counts."""

    mechanism: str
    spec: Any
    options: Any
    counts: tuple[int, ...]

    @property
    def histogram(self) -> Histogram:
        """The table: one text value for each count."""
        return Histogram(tuple(f"value {number}" for number in range(len(self.counts))), self.counts)

    def plan(self, counts: Sequence[int] | None = None) -> Any:
        """The mechanism's plan, for the same domain with other counts where they are given."""
        histogram = self.histogram if counts is None else Histogram.of(self.histogram.values, counts)
        return REGISTRY[self.mechanism].plan(histogram, self.spec, self.options, DRAWS)

    def design(self, counts: Sequence[int] | None = None) -> Any:
        """What is published of that plan."""
        return REGISTRY[self.mechanism].design(self.plan(counts))

    def law(self) -> Law:
        """The exact transition law, by running through every outcome of the draws."""
        return transition_law(REGISTRY[self.mechanism], self.plan(), len(self.counts))


CASES: Mapping[str, Sequence[Case]] = {
    "uniform": [
        Case("uniform", BreachBound("1/3", "2/3"), None, (5, 1)),
        Case("uniform", BreachBound("1/13", "1/6"), None, (4, 0, 2)),
        Case("uniform", BreachBound("1/10", "9/10"), None, (1, 0, 0, 0, 3, 8, 2)),
    ],
}

every_case = pytest.mark.parametrize(
    "case",
    [case for cases in CASES.values() for case in cases],
    ids=lambda case: f"{case.mechanism}-{case.spec.prior}-{case.spec.posterior}-{len(case.counts)} values",
)
every_mechanism = pytest.mark.parametrize("name", sorted(REGISTRY))


def test_every_mechanism_has_cases() -> None:
    assert set(REGISTRY) == set(CASES)
    assert all(case.mechanism == name for name, cases in CASES.items() for case in cases)


@every_mechanism
def test_the_registry_knows_a_mechanism_by_its_own_name(name: str) -> None:
    assert name == REGISTRY[name].NAME


def test_the_registry_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        REGISTRY["mine"] = REGISTRY["uniform"]  # type: ignore[index]


@every_mechanism
@pytest.mark.parametrize("heading", ["Claim:", "Source:", "Published:", "Notation:"])
def test_the_docstring_states(name: str, heading: str) -> None:
    lines = (REGISTRY[name].__doc__ or "").splitlines()
    assert any(line.startswith(heading) for line in lines)


@every_mechanism
@pytest.mark.parametrize("word", ["GUARANTEE", "METHOD", "ASSUMPTION"])
def test_the_mechanism_says_in_words(name: str, word: str) -> None:
    assert getattr(REGISTRY[name], word)


@every_case
def test_the_law_is_a_law(case: Case) -> None:
    assert all(sum(row) == 1 for row in case.law())


@every_case
def test_every_value_of_the_domain_can_be_published_for_every_original(case: Case) -> None:
    """The last value included: a sampler whose range ends one too early never publishes it."""
    assert all(probability > 0 for row in case.law() for probability in row)


def _belief_after(belief: Fraction, if_true: Fraction, if_false: Fraction) -> Fraction:
    return belief * if_true / (belief * if_true + (1 - belief) * if_false)


def _beliefs_after(law: Law, belief: Fraction) -> list[Fraction]:
    """What a belief in one value against another can become, over all pairs and all published values.

    No prior and no predicate does worse: for a predicate the worst prior sits on its likeliest value, and on the
    unlikeliest value outside it.
    """
    pairs = permutations(law, 2)
    return [
        _belief_after(belief, if_true, if_false)
        for true, false in pairs
        for if_true, if_false in zip(true, false, strict=True)
    ]


@every_case
def test_a_belief_of_the_prior_rises_exactly_to_the_posterior_at_worst(case: Case) -> None:
    assert max(_beliefs_after(case.law(), case.spec.prior)) == case.spec.posterior


@every_case
def test_a_belief_of_the_posterior_falls_exactly_to_the_prior_at_worst(case: Case) -> None:
    assert min(_beliefs_after(case.law(), case.spec.posterior)) == case.spec.prior


@every_case
def test_the_design_is_the_same_for_other_counts_of_the_same_domain(case: Case) -> None:
    others = [case.counts[::-1], tuple(1000 + count for count in case.counts), (*[0] * (len(case.counts) - 1), 1)]
    assert all(case.design(counts) == case.design() for counts in others)
    assert all(case.design(counts).to_json() == case.design().to_json() for counts in others)


@every_case
def test_the_design_comes_back_from_json(case: Case) -> None:
    design = case.design()
    written = json.dumps(design.to_json(), allow_nan=False)
    assert REGISTRY[case.mechanism].read_design(json.loads(written), "string") == design


@every_case
def test_the_design_holds_no_key(case: Case) -> None:
    assert DRAWS.key.hex() not in json.dumps(case.design().to_json())
    assert repr(DRAWS.key) not in repr(case.design())


def _expected_tally(law: Law, counts: Sequence[int]) -> tuple[Tally, int]:
    """The expected counts of the published values, and the factor that makes all of them whole."""
    factor = math.lcm(*(probability.denominator for row in law for probability in row))
    columns = zip(*law, strict=True)
    expected = [sum(count * each for count, each in zip(counts, column, strict=True)) * factor for column in columns]
    return Tally(np.array([int(each) for each in expected], dtype=np.int64)), factor


@every_case
def test_reconstructing_the_expected_release_gives_the_truth(case: Case) -> None:
    tally, factor = _expected_tally(case.law(), case.counts)
    for value, count in enumerate(case.counts):
        wanted = np.arange(len(case.counts)) == value
        moments = REGISTRY[case.mechanism].reconstruct(case.design(), tally, wanted)
        assert moments.value == pytest.approx(count * factor, rel=1e-9, abs=1e-9 * factor)


@every_case
def test_weights_summed_over_a_release_give_the_reconstruction(case: Case) -> None:
    mechanism, design = REGISTRY[case.mechanism], case.design()
    tally = Tally(np.arange(3, 3 + len(case.counts), dtype=np.int64))
    if_equal, otherwise = mechanism.weights(design)
    for value, hits in enumerate(tally.counts.tolist()):
        moments = mechanism.reconstruct(design, tally, np.arange(len(case.counts)) == value)
        assert moments.value == pytest.approx(hits * if_equal + (tally.rows - hits) * otherwise)


@every_case
@pytest.mark.parametrize("batch", [1, 7, 64, ROWS])
def test_the_release_does_not_depend_on_the_batch(case: Case, batch: int) -> None:
    mechanism, plan = REGISTRY[case.mechanism], case.plan()
    codes = np.arange(ROWS, dtype=np.int32) % len(case.counts)
    parts = [mechanism.replace(plan, codes[row : row + batch], None, DRAWS, row) for row in range(0, ROWS, batch)]
    assert np.array_equal(np.concatenate(parts), mechanism.replace(plan, codes, None, DRAWS, 0))


@every_case
def test_an_empty_batch_stays_empty(case: Case) -> None:
    codes = np.array([], dtype=np.int32)
    assert len(REGISTRY[case.mechanism].replace(case.plan(), codes, None, DRAWS, 5)) == 0


@every_case
def test_the_promise_is_in_words_with_the_numbers_of_the_request(case: Case) -> None:
    promise = REGISTRY[case.mechanism].promise(case.design())
    assert str(case.spec.prior) in promise
    assert str(case.spec.posterior) in promise
    assert promise.endswith(".")
