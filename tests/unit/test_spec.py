from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import SfumatoError, SpecError
from sfumato.request.spec import BreachBound, Exact, exact
from strategies import breach_bounds, fine_breach_bounds, shares


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1/13", Fraction(1, 13)),
        (" 2/6 ", Fraction(1, 3)),
        ("0.02", Fraction(1, 50)),
        ("1e-3", Fraction(1, 1000)),
        ("3", Fraction(3)),
        (3, Fraction(3)),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("0.1"), Fraction(1, 10)),
        (np.int64(3), Fraction(3)),
    ],
    ids=repr,
)
def test_exact_reads_every_exact_way_to_write_a_number(written: Exact, read: Fraction) -> None:
    assert exact(written) == read


@given(st.fractions())
def test_exact_reads_back_what_a_fraction_prints(number: Fraction) -> None:
    assert exact(str(number)) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=12))
def test_exact_agrees_on_a_decimal_and_its_digits(number: Decimal) -> None:
    assert exact(number) == exact(str(number))


def test_exact_refuses_a_float_and_says_what_to_write() -> None:
    with pytest.raises(SpecError, match=r"^the prior must be exact, and the float 0\.1 is not: write .* '0\.1'\.$"):
        exact(0.1, "the prior")  # type: ignore[arg-type]


def test_exact_refuses_a_float_that_happens_to_be_whole() -> None:
    with pytest.raises(SpecError, match="must be exact"):
        exact(1.0)  # type: ignore[arg-type]


def test_exact_refuses_a_numpy_float_and_says_what_to_write() -> None:
    with pytest.raises(SpecError, match=r"write it as a string, '0\.1'\.$"):
        exact(np.float64(0.1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "a third",
        "1/",
        "/3",
        "1/2/3",
        "0,5",
        "50%",
        "nan",
        "inf",
        Decimal("NaN"),
        Decimal("Infinity"),
        None,
        [1],
        1j,
    ],
    ids=repr,
)
def test_exact_refuses_what_is_no_number_and_shows_how_numbers_look(junk: Exact) -> None:
    with pytest.raises(SpecError, match=r"^the prior is .*: write a number such as 1/13, 0\.02 or 3\.$"):
        exact(junk, "the prior")


def test_exact_refuses_a_zero_denominator() -> None:
    with pytest.raises(SpecError, match=r"^a number is '1/0': write a number"):
        exact("1/0")


@pytest.mark.parametrize("written", ["1e9999", "1E-9999", "1e+9_999", "1e٩٩٩٩"])
def test_exact_refuses_huge_exponents(written: str) -> None:
    """With five more digits such a number takes minutes and gigabytes, and a stranger's release may hold one."""
    with pytest.raises(SpecError):
        exact(written)


def test_spec_errors_are_value_errors_and_ours() -> None:
    assert issubclass(SpecError, ValueError)
    assert issubclass(SpecError, SfumatoError)


@pytest.mark.parametrize(
    ("prior", "posterior", "amplification"),
    [
        ("1/13", "1/6", "12/5"),
        ("1/13", "1/5", "3"),
        ("1/13", "1/4", "4"),
        ("1/13", "1/3", "6"),
        ("3/40", "1/6", "37/15"),
        ("1/30", "1/10", "29/9"),
        ("1/3", "2/3", "4"),
        ("1/6", "2/3", "10"),
        ("1/10", "5/14", "5"),
    ],
)
def test_amplification_is_the_ratio_of_the_odds(prior: str, posterior: str, amplification: str) -> None:
    """Worked by hand from posterior(1 - prior) / (prior(1 - posterior)), the definition of Evfimievski et al. 2003."""
    assert BreachBound(prior, posterior).amplification == Fraction(amplification)


def test_breach_bound_keeps_exact_rationals_whatever_they_were_written_as() -> None:
    assert BreachBound("0.1", Decimal("0.5")) == BreachBound(Fraction(1, 10), "1/2")
    assert isinstance(BreachBound("0.1", "0.5").prior, Fraction)


@pytest.mark.parametrize("prior", [0, "-1/10"])
def test_breach_bound_refuses_a_prior_of_nothing(prior: Exact) -> None:
    sentence = rf"^the prior is {prior}, and must be above 0: it is the belief to protect, such as 1/10\.$"
    with pytest.raises(SpecError, match=sentence):
        BreachBound(prior, "1/2")


@pytest.mark.parametrize("posterior", [1, "3/2"])
def test_breach_bound_refuses_a_posterior_of_certainty(posterior: Exact) -> None:
    sentence = rf"^the posterior is {posterior}, and must be below 1: .* so nothing would be protected\.$"
    with pytest.raises(SpecError, match=sentence):
        BreachBound("1/2", posterior)


@pytest.mark.parametrize(("prior", "posterior"), [("1/2", "1/3"), ("1/3", "1/3")])
def test_breach_bound_refuses_a_belief_that_may_not_rise(prior: str, posterior: str) -> None:
    sentence = rf"^the prior {prior} must be below the posterior {posterior}: .* may not rise at all\.$"
    with pytest.raises(SpecError, match=sentence):
        BreachBound(prior, posterior)


@pytest.mark.parametrize(("prior", "posterior", "named"), [(0.1, "1/2", "the prior"), ("1/10", 0.5, "the posterior")])
def test_breach_bound_names_the_side_that_is_a_float(prior: Exact, posterior: Exact, named: str) -> None:
    with pytest.raises(SpecError, match=f"^{named} must be exact"):
        BreachBound(prior, posterior)


def test_breach_bound_cannot_be_changed() -> None:
    bound = BreachBound("1/3", "2/3")
    with pytest.raises(FrozenInstanceError):
        bound.prior = Fraction(1, 2)  # type: ignore[misc]


def test_breach_bound_survives_pickling() -> None:
    bound = BreachBound("1/13", "1/6")
    assert pickle.loads(pickle.dumps(bound)) == bound


@given(breach_bounds() | fine_breach_bounds())
def test_amplification_is_above_one(bound: BreachBound) -> None:
    assert bound.amplification > 1


@given(breach_bounds() | fine_breach_bounds())
def test_amplification_lifts_a_belief_of_the_prior_exactly_to_the_posterior(bound: BreachBound) -> None:
    """The worst case of the definition: a belief that sits on two values, one of them with chance `prior`."""
    odds = bound.amplification * bound.prior / (1 - bound.prior)
    assert odds / (1 + odds) == bound.posterior


@given(breach_bounds(), shares())
def test_amplification_keeps_every_smaller_belief_below_the_posterior(bound: BreachBound, belief: Fraction) -> None:
    smaller = belief * bound.prior
    odds = bound.amplification * smaller / (1 - smaller)
    assert odds / (1 + odds) < bound.posterior
