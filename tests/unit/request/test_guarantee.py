"""The kinds of promise: which covers which, which can be asked for, and what each mechanism gives."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from refusals import refuses
from releases import WAYS
from sfumato._core.random_draws import Draws
from sfumato._planning.mechanism_choice import choose
from sfumato._request.belief_bounds import BreachBoundPerValue, PrivacySpec, Tolerance
from sfumato._request.guarantee import SELECTABLE_GUARANTEES, Guarantee
from sfumato._request.hierarchy import Hierarchy
from sfumato._request.histogram import Histogram
from sfumato.errors import SpecError
from sfumato.mechanisms import REGISTRY

PATHS = (("asthma", "lasting"), ("cold", "passing"), ("flu", "passing"), ("HIV", "lasting"))
HISTOGRAM = replace(
    Histogram.of([value for value, _ in PATHS], (30, 30, 30, 10), (), Hierarchy.of(("own", "kind"), PATHS)),
    is_declared=True,
)
DRAWS = Draws.unsafe_test_key("00" * 32)


def chosen(mechanism: str = "auto", spec: PrivacySpec | None = None, **given: Any) -> str:
    """The guarantee of the plan that is chosen."""
    return choose(HISTOGRAM, spec or WAYS[mechanism].spec, DRAWS, mechanism, **given).mechanism.guarantee


def test_every_mechanism_gives_one_guarantee() -> None:
    assert {name: each.guarantee.value for name, each in REGISTRY.items()}.items() >= {
        "uniform": "any-prior",
        "subset": "any-prior",
        "small-domain": "marginal-prior",
        "fine-grain": "single-values",
        "buckets": "bucket-only",
        "anatomy": "bucket-only",
        "decoys": "decoys-only",
    }.items()


@pytest.mark.parametrize("guarantee", Guarantee)
def test_every_guarantee_has_a_sentence_of_its_own(guarantee: Guarantee) -> None:
    assert guarantee.sentence.endswith(".")
    assert [each for each in Guarantee if each.sentence == guarantee.sentence] == [guarantee]


def test_guarantee_covers_itself_and_any_prior_the_marginal_one() -> None:
    covered = {(one, other) for one, other in itertools.product(Guarantee, repeat=2) if one.covers(other)}
    same = {(each, each) for each in Guarantee}
    every_prior = (Guarantee.ANY_PRIOR, Guarantee.ANY_PRIOR_COUNTED)
    assert covered == same | set(itertools.product(every_prior, (*every_prior, Guarantee.MARGINAL_PRIOR)))


@pytest.mark.parametrize("mechanism", REGISTRY)
def test_mechanism_is_planned_without_a_word_about_guarantees(mechanism: str) -> None:
    assert chosen(mechanism) == REGISTRY[mechanism].guarantee


@pytest.mark.parametrize("mechanism", REGISTRY)
@pytest.mark.parametrize("guarantee", SELECTABLE_GUARANTEES)
def test_named_mechanism_is_refused_where_it_gives_less_than_is_asked_for(mechanism: str, guarantee: Guarantee) -> None:
    given = REGISTRY[mechanism].guarantee
    if given.covers(guarantee):
        assert chosen(mechanism, guarantee=guarantee.value) == given
        return
    with refuses(
        SpecError, "guarantee-not-given", mechanism=mechanism, guarantee=guarantee.value, own_guarantee=given.value
    ):
        chosen(mechanism, guarantee=guarantee.value)


def test_fine_grain_is_refused_to_whoever_insists_on_any_prior() -> None:
    """Its promise is about single values, and its design follows counts: it must not say more than is true."""
    bounds = BreachBoundPerValue.from_tolerance(HISTOGRAM, "3/2")
    for spec in (Tolerance("3/2"), bounds):
        assert chosen("fine-grain", spec) == chosen("harmonic", spec) == chosen("auto", spec) == "single-values"
        with refuses(SpecError, "guarantee-not-given", guarantee="any-prior", own_guarantee="single-values"):
            chosen("fine-grain", spec, guarantee="any-prior")
        assert chosen("auto", spec, guarantee="any-prior") == "any-prior"


def test_marginal_prior_is_chosen_only_if_it_was_asked_for() -> None:
    spec = WAYS["small-domain"].spec
    assert chosen("auto", spec) == "any-prior"
    taken = choose(HISTOGRAM, spec, DRAWS, guarantee="marginal-prior")
    assert {taken.mechanism.name, *(each.mechanism.name for each in taken.alternatives)} >= {
        "uniform",
        "subset",
        "small-domain",
    }


@pytest.mark.parametrize("guarantee", ["single-values", "bucket-only", "decoys-only", "certain", ""])
def test_other_guarantees_cannot_be_asked_for(guarantee: str) -> None:
    with refuses(SpecError, "unknown-guarantee", guarantee=guarantee):
        chosen("uniform", guarantee=guarantee)
