"""Privacy requests: exact numbers, what is refused, and all that a request knows of itself."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass
from decimal import ROUND_DOWN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from selection import examples
from sfumato._core.exact_numbers import Exact, parse_exact, round_share_down
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, PrivacySpec, Tolerance, propose_bound
from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, LinearCap, ShareCap
from sfumato._request.count_accuracy_request import CountThresholds
from sfumato._request.histogram import Histogram
from sfumato._request.requirement_kinds import REQUIREMENT_KINDS, make_requirement
from sfumato.errors import InfeasibleError, SfumatoError, SpecError
from sfumato.mechanisms import REGISTRY
from strategies import breach_bounds, fine_breach_bounds, histograms, shares


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
    assert parse_exact(written) == read


@given(st.fractions())
def test_exact_reads_back_what_a_fraction_prints(number: Fraction) -> None:
    assert parse_exact(str(number)) == number


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=12))
def test_exact_agrees_on_a_decimal_and_its_digits(number: Decimal) -> None:
    assert parse_exact(number) == parse_exact(str(number))


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("10%", Fraction(1, 10)),
        ("0.5%", Fraction(1, 200)),
        ("12.5 %", Fraction(1, 8)),
        (" 2%\n", Fraction(1, 50)),
        ("150%", Fraction(3, 2)),
        ("0%", Fraction(0)),
        ("-1%", Fraction(-1, 100)),
        ("1e-1%", Fraction(1, 1000)),
    ],
)
def test_exact_reads_a_per_cent_sign(written: str, number: Fraction) -> None:
    assert parse_exact(written) == number


@given(st.integers(-(10**6), 10**6), st.integers(0, 6))
def test_per_cents_are_exact_hundredths(digits: int, behind: int) -> None:
    written = str(Decimal(digits).scaleb(-behind))
    assert parse_exact(f"{written}%") == parse_exact(written) / 100


def test_exact_refuses_a_float_and_gives_its_digits() -> None:
    with refuses(SpecError, "number-not-exact", subject="the prior", given="0.1"):
        parse_exact(0.1, "the prior")  # type: ignore[arg-type]


def test_exact_refuses_a_float_that_happens_to_be_whole() -> None:
    with refuses(SpecError, "number-not-exact", subject="a number", given="1.0"):
        parse_exact(1.0)  # type: ignore[arg-type]


def test_exact_refuses_a_numpy_float_and_gives_its_digits() -> None:
    with refuses(SpecError, "number-not-exact", subject="a number", given="0.1"):
        parse_exact(np.float64(0.1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "junk",
    [
        "",
        "a third",
        "1/",
        "/3",
        "1/2/3",
        "0,5",
        "%",
        "10%%",
        "%10",
        "1/3%",
        "nan%",
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
def test_exact_refuses_what_is_no_number(junk: Exact) -> None:
    with refuses(SpecError, "not-a-number", subject="the prior"):
        parse_exact(junk, "the prior")


def test_exact_refuses_a_zero_denominator() -> None:
    with refuses(SpecError, "not-a-number", subject="a number"):
        parse_exact("1/0")


@pytest.mark.parametrize("written", ["1e9999", "1E-9999", "1e+9_999", "1e٩٩٩٩"])
def test_exact_refuses_huge_exponents(written: str) -> None:
    """With five more digits such a number takes minutes and gigabytes, and a stranger's release may hold one."""
    with pytest.raises(SpecError):
        parse_exact(written)


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
    with refuses(SpecError, "belief-out-of-range", argument="prior", given=str(prior)):
        BreachBound(prior, "1/2")


@pytest.mark.parametrize("posterior", [1, "3/2"])
def test_breach_bound_refuses_a_posterior_of_certainty(posterior: Exact) -> None:
    with refuses(SpecError, "belief-out-of-range", argument="posterior", given=str(posterior)):
        BreachBound("1/2", posterior)


@pytest.mark.parametrize(("prior", "posterior"), [("1/2", "1/3"), ("1/3", "1/3")])
def test_breach_bound_refuses_a_belief_that_may_not_rise(prior: str, posterior: str) -> None:
    with refuses(SpecError, "prior-not-below-posterior", prior=prior, posterior=posterior):
        BreachBound(prior, posterior)


@pytest.mark.parametrize(("prior", "posterior", "named"), [(0.1, "1/2", "the prior"), ("1/10", 0.5, "the posterior")])
def test_breach_bound_names_the_side_that_is_a_float(prior: Exact, posterior: Exact, named: str) -> None:
    with refuses(SpecError, "number-not-exact", subject=named):
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


# ----------------------------------------------------------------------------------- what every request knows of itself

BOUND = BreachBound("1/10", "1/2")
TIGHT, WIDE = BreachBound("1/5", "1/4"), BreachBound("1/100", "1/2")
PER_VALUE = BreachBoundPerValue({"HIV": WIDE, "flu": TIGHT, None: BOUND})
BUCKETS = (
    "caps and diversity of combinations do not protect the single columns. Make buckets for one "
    "column, or ask for one bound (`spec=BreachBound(...)`), which covers every statement."
)
DECOYS = (
    "decoys for combinations do not protect the single columns. Name each column with `sensitive=` "
    "instead; each is then protected on its own."
)


@dataclass(frozen=True)
class Known:
    """A request with what it should say of itself."""

    spec: PrivacySpec
    other: PrivacySpec
    """One that asks for something else."""
    given: Mapping[str, Any]
    """As on the command line."""
    json: Mapping[str, Any]
    sentence: str
    refusal: str | None = None
    """Why it says nothing about the parts of a compound."""


KNOWN = [
    Known(
        BOUND,
        BreachBound("1/10", "1/3"),
        {"prior": "0.1", "posterior": "1/2"},
        {"prior": "1/10", "posterior": "1/2"},
        "an attacker's confidence of at most 1/10 may not rise above 1/2.",
    ),
    Known(
        PER_VALUE,
        BreachBoundPerValue({"HIV": WIDE, "flu": TIGHT}),
        {"bounds": Path("bounds.csv")},
        {"bounds": {"HIV": "1/100 1/2", "flu": "1/5 1/4", "(missing)": "1/10 1/2"}},
        "an attacker's confidence in each of 3 values is limited by the value's own bound.",
        "bounds for combinations do not protect the single columns. Use a tolerance "
        "(`spec=Tolerance(...)`), or one bound (`spec=BreachBound(...)`), which covers every statement.",
    ),
    Known(
        Tolerance("3/2"),
        Tolerance(2),
        {"tolerance": "1.5"},
        {"tolerance": "3/2"},
        "an attacker's confidence in a value may rise from the value's share to at most 3/2 times the share.",
    ),
    Known(
        ShareCap({"HIV": Fraction(1, 3), None: Fraction(1)}),
        ShareCap({"HIV": Fraction(1, 4), None: Fraction(1)}),
        {"caps": Path("caps.csv")},
        {"caps": {"HIV": "1/3", "(missing)": "1"}},
        "in any bucket, the share of each of 2 values may be at most its own cap.",
        BUCKETS,
    ),
    Known(
        LinearCap("3/2", "0.02"),
        LinearCap("3/2"),
        {"cap_factor": "3/2", "cap_offset": "0.02"},
        {"cap_factor": "3/2", "cap_offset": "1/50"},
        "in any bucket, the share of a value may be at most 3/2 times its share of the table plus 1/50.",
        BUCKETS,
    ),
    Known(
        Diversity(3),
        Diversity(2),
        {"diversity": 3},
        {"diversity": 3},
        "every bucket holds at least 3 different values, each at most once.",
        BUCKETS,
    ),
    Known(
        DecoyGroups(4),
        DecoyGroups(3),
        {"group_size": 4},
        {"group_size": 4},
        "every record publishes a value drawn from 4 records with different values.",
        DECOYS,
    ),
    Known(
        CountThresholds("3/10", 5, "2/5", 500, "1/20"),
        CountThresholds("3/10", 5, "2/5"),
        {"off_by": "0.3", "small_count": 5, "small_chance": "2/5", "large_count": 500, "large_chance": "5%"},
        {"off_by": "3/10", "small_count": 5, "small_chance": "2/5", "large_count": 500, "large_chance": "1/20"},
        "published counts of up to 5 are off by more than 3/10 of the count with a chance of at "
        "least 2/5, and counts of 500 or more with a chance of at most 1/20.",
        DECOYS,
    ),
]
every_request = pytest.mark.parametrize("known", KNOWN, ids=lambda known: type(known.spec).__name__)


@pytest.fixture
def files(desk: Path) -> None:
    """The files that the requests on the command line name."""
    (desk / "bounds.csv").write_text("value,prior,posterior\nHIV,0.01,1/2\nflu,1/5, 1/4 \n,1/10,0.5\n")
    (desk / "caps.csv").write_text("value,cap\nHIV,1/3\n,1\n")


def test_every_kind_of_request_is_listed_and_known_here() -> None:
    assert [type(known.spec) for known in KNOWN] == list(REQUIREMENT_KINDS)
    # By their names: a class with slots stands there twice.
    ours = {each.__name__ for each in PrivacySpec.__subclasses__() if each.__module__.startswith("sfumato.")}
    assert ours == {kind.__name__ for kind in REQUIREMENT_KINDS}


def test_every_request_is_met_by_a_mechanism_and_every_mechanism_meets_one() -> None:
    assert {kind for each in REGISTRY.values() for kind in each.accepted_requests} == set(REQUIREMENT_KINDS)
    assert all(each.accepted_requests for each in REGISTRY.values())


@every_request
def test_request_says_what_it_asks_in_a_sentence(known: Known) -> None:
    assert known.spec.sentence == known.sentence


@every_request
def test_request_is_remembered_by_its_numbers(known: Known) -> None:
    assert known.spec.to_json() == known.json
    assert json.loads(json.dumps(known.spec.to_json())) == known.json
    assert known.other.to_json() != known.json


def test_no_two_kinds_of_request_are_remembered_alike() -> None:
    keys = [frozenset(known.json) for known in KNOWN]
    assert len(set(keys)) == len(keys)


@every_request
def test_only_one_bound_for_all_values_is_a_bound(known: Known) -> None:
    assert known.spec.bound == (BOUND if isinstance(known.spec, BreachBound) else None)


@every_request
def test_only_decoys_take_several_columns_each_for_itself(known: Known) -> None:
    assert isinstance(known.spec, DecoyGroups) == known.spec.IS_COLUMNWISE


@every_request
def test_request_survives_pickling(known: Known) -> None:
    assert pickle.loads(pickle.dumps(known.spec)) == known.spec


# -------------------------------------------------------------------------------------------------- on the command line


@every_request
@pytest.mark.usefixtures("files")
def test_request_is_made_by_its_flags(known: Known) -> None:
    assert {flag.name for flag in known.spec.FLAGS} == set(known.given)
    assert type(known.spec).from_flags(known.given) == known.spec


@every_request
@pytest.mark.usefixtures("files")
def test_request_is_the_one_whose_flags_were_given(known: Known) -> None:
    """What was not given is None, or is not there at all."""
    nothing = {flag.name: None for kind in REQUIREMENT_KINDS for flag in kind.FLAGS}
    assert (
        make_requirement(known.given)
        == make_requirement({**nothing, **known.given, "sensitive": ["disease"]})
        == known.spec
    )


@every_request
def test_flags_belong_to_one_request_and_stand_in_its_words(known: Known) -> None:
    for flag in known.spec.FLAGS:
        assert flag.name.isidentifier()
        assert flag.help.endswith(".")
        assert f"`{flag.name}=`" in known.spec.FLAGS_TEXT
        assert [kind for kind in REQUIREMENT_KINDS if flag.name in {each.name for each in kind.FLAGS}] == [
            type(known.spec)
        ]
    resolved_kind = known.spec.RESOLVED_KIND or type(known.spec)
    assert f"`spec={resolved_kind.__name__}(...)`" in known.spec.REQUIREMENT_TEXT


def test_cap_offset_or_factor_may_be_left_out() -> None:
    assert make_requirement({"cap_factor": "2"}) == LinearCap(2)
    assert make_requirement({"cap_offset": "1/3"}) == LinearCap(0, "1/3")


@pytest.mark.parametrize(
    ("given_", "lacking"),
    [({}, "`prior=` and `posterior=`"), ({"prior": "1/10"}, "`posterior=`"), ({"posterior": "1/2"}, "`prior=`")],
    ids=["nothing", "no posterior", "no prior"],
)
def test_what_a_bound_lacks_is_named(given_: dict[str, str], lacking: str) -> None:
    with refuses(SpecError, "no-protection", lacking=lacking):
        make_requirement(given_)


@pytest.mark.parametrize("one", KNOWN, ids=lambda known: type(known.spec).__name__)
@pytest.mark.parametrize("other", KNOWN, ids=lambda known: type(known.spec).__name__)
def test_two_kinds_of_request_at_once_are_refused(one: Known, other: Known) -> None:
    if one is other or {type(one.spec), type(other.spec)} == {ShareCap, LinearCap}:  # these go together
        return
    first, second = sorted((type(one.spec), type(other.spec)), key=REQUIREMENT_KINDS.index)
    with refuses(SpecError, "two-requirements", first=first.__name__, second=second.__name__):
        make_requirement({**one.given, **other.given})


def test_caps_of_a_file_go_together_with_caps_from_shares(tmp_path: Path) -> None:
    (tmp_path / "caps.csv").write_text("value,cap\nHIV,1/10\n3,1/4\n")
    found = make_requirement({"caps": tmp_path / "caps.csv", "cap_factor": "2", "cap_offset": "1/50"})
    assert found == LinearCap(2, "1/50", ShareCap({"HIV": Fraction(1, 10), "3": Fraction(1, 4)}))
    assert found != LinearCap(2, "1/50")
    assert found.to_json() == {"cap_factor": "2", "cap_offset": "1/50", "caps": {"HIV": "1/10", "3": "1/4"}}
    assert found.sentence == (
        "in any bucket, the share of a value may be at most 2 times its share of the table plus 1/50, but for each of "
        "2 values at most its own cap."
    )
    histogram = Histogram.of(("HIV", 3, "flu"), (10, 20, 70))
    assert found.resolve(histogram).list_caps(histogram.values) == (Fraction(1, 10), Fraction(1, 4), Fraction(1))
    with refuses(SpecError, "value-outside-domain", what="cap", values=1):
        found.resolve(Histogram.of(("HIV", "flu"), (10, 90)))
    with refuses(SpecError, "two-requirements", first="LinearCap", second="Diversity"):
        make_requirement({"caps": tmp_path / "caps.csv", "cap_factor": "2", "diversity": 3})


# -------------------------------------------------------------------------------------------------- for a certain table


@every_request
@given(histogram=histograms())
def test_request_that_does_not_follow_shares_is_itself_for_every_table(known: Known, histogram: Histogram) -> None:
    if isinstance(known.spec, BreachBoundPerValue):
        histogram = Histogram.of([*known.spec.bounds, "none"], range(1, len(known.spec.bounds) + 2))
    if known.spec.RESOLVED_KIND is None:
        assert known.spec.resolve(histogram) is known.spec
    else:
        assert type(known.spec.resolve(histogram)) is known.spec.RESOLVED_KIND
        assert known.spec.RESOLVED_KIND.RESOLVED_KIND is None


def test_tolerance_becomes_bounds_from_coarse_shares() -> None:
    """Of 1000 records, 0.335 becomes 33/100, and 0.004, which is below ten records, has odds of 3/2."""
    histogram = Histogram.of(("a", "b", "c", None), (335, 4, 500, 161))
    found = Tolerance("3/2").resolve(histogram)
    assert found == BreachBoundPerValue.from_tolerance(histogram, "3/2")
    assert found.bounds == {
        "a": BreachBound("33/100", "99/200"),
        "b": BreachBound.from_odds(Fraction(3, 2)),
        "c": BreachBound("1/2", "3/4"),
        None: BreachBound("4/25", "6/25"),
    }
    assert set(Tolerance(2).resolve(histogram).bounds) == {"a", "b", None}  # twice a half may be certain
    with refuses(SpecError, "nothing-protected", tolerance="100"):
        Tolerance(100).resolve(Histogram.of(("a", "c"), (335, 500)))


def _rounded(count: int, total: int) -> Fraction:
    """Two digits by way of the decimal expansion; or tens of records, if a unit of the second digit is less."""
    digits = Context(prec=2, rounding=ROUND_DOWN).divide(Decimal(count), Decimal(total))
    unit = Fraction(10) ** (digits.adjusted() - 1)
    return Fraction(digits) if count and unit * total >= 10 else Fraction(count // 10 * 10, total)


@settings(max_examples=examples(200))
@given(st.integers(1, 10**7), st.data())
def test_shares_are_rounded_down_to_two_digits_and_to_ten_records_at_least(total: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(0, total) | st.integers(0, min(total, 2000)))
    found = round_share_down(count, total)
    assert found in (_rounded(count, total), _rounded(max(count - 10, 0), total))
    assert 0 <= found <= Fraction(count, total)
    assert bool(found) == (count >= 10)
    near = range(max(count - 9, 0), min(count + 10, total + 1))
    alike = [each for each in near if round_share_down(each, total) == found]
    assert len(alike) >= 10 or alike[-1] in (total - 1, total)  # the table ends there


@pytest.mark.parametrize(
    ("count", "total", "share"),
    [
        (9, 1000, "0"),
        (10, 1000, "1/100"),
        (1999, 10**6, "19/10000"),
        (1234, 10**4, "3/25"),
        (37, 150, "1/5"),
        (7, 7, "0"),
        (153, 1550, "140/1550"),  # 150 to 154 would be five counts, because 155 are a tenth
        (155, 1550, "1/10"),
    ],
)
def test_shares_of_small_and_large_tables(count: int, total: int, share: str) -> None:
    assert round_share_down(count, total) == Fraction(share)


def test_a_value_of_fewer_than_ten_records_is_not_weakened_to_the_bound_of_ten() -> None:
    """At a tolerance of 50 and 1,000 records, one record may rise to odds of 53, and ten may to 99."""
    histogram = Histogram.of(("a", "b", "c"), (1, 10, 989))
    bounds = Tolerance(50).resolve(histogram).bounds
    assert (bounds["a"].amplification, bounds["b"].amplification) == (50, 99)
    assert BreachBound("1/1000", "50/1000").amplification == Fraction(999, 19)


@given(histograms(), st.integers(2, 30).map(lambda number: Fraction(number, 2) + 1))
def test_no_bound_of_a_tolerance_lets_odds_rise_further_than_the_exact_share_would(
    histogram: Histogram, factor: Fraction
) -> None:
    exactly = dict(zip(histogram.values, histogram.shares, strict=True))
    try:
        found = Tolerance(factor).resolve(histogram)
    except SpecError:
        return
    assert found.tolerance == factor
    for value, bound in found.bounds.items():
        share = exactly[value]
        assert factor <= bound.amplification
        assert factor * share >= 1 or bound.amplification <= factor * (1 - share) / (1 - factor * share)
    # As one bound for all it is the tolerance itself, and tells nothing of the shares.
    lent = found.adapt_to(BreachBound)
    assert lent is not None
    assert (lent.amplification, lent.is_odds_only) == (factor, True)


def test_a_bound_for_a_value_that_nobody_could_have_is_refused_for_every_mechanism() -> None:
    with refuses(SpecError, "value-outside-domain", what="bound", values=1):
        PER_VALUE.resolve(Histogram.of(("flu", None), (1, 2)))


def test_linear_cap_becomes_caps_from_shares() -> None:
    histogram = Histogram.of(("a", "b", "c"), (60, 40, 0))
    assert LinearCap("3/2", "1/20").resolve(histogram).caps == {
        "a": Fraction(19, 20),
        "b": Fraction(13, 20),
        "c": Fraction(1, 20),
    }
    caps = LinearCap(2).resolve(histogram).caps
    assert (caps["a"], caps["b"]) == (1, Fraction(4, 5))
    assert 0 < caps["c"] < Fraction(1, 10**6)  # nobody has it, and still it must be a cap


# ----------------------------------------------------------------------------------------------------------------- lent


@every_request
@pytest.mark.parametrize("kind", REQUIREMENT_KINDS)
def test_request_is_lent_as_itself_and_bounds_as_one_bound(known: Known, kind: type[PrivacySpec]) -> None:
    if isinstance(known.spec, kind):
        assert known.spec.adapt_to(kind) is known.spec
    elif isinstance(known.spec, BreachBoundPerValue) and kind is BreachBound:
        assert known.spec.adapt_to(kind) == TIGHT
    else:
        assert known.spec.adapt_to(kind) is None


@given(st.dictionaries(st.sampled_from("abcdef"), breach_bounds() | fine_breach_bounds(), min_size=1))
def test_one_bound_for_bounds_is_one_of_them_that_lets_no_odds_rise_further(bounds: dict[Any, BreachBound]) -> None:
    lent = BreachBoundPerValue(bounds).adapt_to(BreachBound)
    assert lent in bounds.values()
    assert lent is not None
    assert all(lent.amplification <= each.amplification for each in bounds.values())


@every_request
@pytest.mark.parametrize("mechanism", REGISTRY)
def test_mechanism_is_lent_what_it_lists(known: Known, mechanism: str) -> None:
    taken = REGISTRY[mechanism]
    resolved = known.spec.resolve(Histogram.of(("HIV", "flu", None), (1, 2, 3)))
    lent = taken.adapt_request(resolved)
    assert (lent is not None) == isinstance(known.spec, taken.accepted_requests)
    assert lent is None or isinstance(lent, taken.request)


# ------------------------------------------------------------------------------------------------ columns of a compound


@every_request
def test_request_about_combinations_may_say_nothing_about_their_columns(known: Known) -> None:
    if known.refusal is None:
        known.spec.find_part_limit(Fraction(1, 20))
        return
    with pytest.raises(InfeasibleError) as caught:
        known.spec.find_part_limit(Fraction(1, 20))
    assert str(caught.value) == known.refusal


@pytest.mark.parametrize(
    ("spec", "share", "limit"),
    [
        (BOUND, "0", "1/2"),
        (BOUND, "1/10", "1/2"),
        (BOUND, "10000001/100000000", None),
        (Tolerance("3/2"), "0", "0"),
        (Tolerance("3/2"), "1/3", "1/2"),
        (Tolerance("3/2"), "66/100", "99/100"),
        (Tolerance("3/2"), "2/3", None),
        (Tolerance("3/2"), "1", None),
    ],
    ids=str,
)
def test_value_of_one_column_may_be_believed_as_far_as_its_share_lets_it(
    spec: PrivacySpec, share: str, limit: str | None
) -> None:
    assert spec.find_part_limit(Fraction(share)) == (None if limit is None else Fraction(limit))


def test_proposed_bound_covers_equally_frequent_values_and_leaves_counts_possible() -> None:
    proposals = {size: propose_bound(size) for size in range(2, 200)}
    assert [str(proposals[size].prior) for size in (2, 3, 4, 5, 9, 10)] == ["1/2", "1/3", "1/4", "1/5", "1/5", "1/10"]
    assert [str(proposals[size].posterior) for size in (2, 3, 4, 5, 9, 10)] == [
        "4/5",
        "2/3",
        "3/5",
        "1/2",
        "1/2",
        "1/3",
    ]
    assert all(bound.prior >= Fraction(1, size) for size, bound in proposals.items())
    assert propose_bound() == propose_bound(0) == proposals[199]
