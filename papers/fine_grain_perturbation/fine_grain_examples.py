"""Chaytor, Wang and Brantingham, "Fine-grain perturbation for privacy preserving data publishing" (2009): its examples.

Eight patients and four diseases, each with a bound of its own, in exact rationals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product

from papers.experiment import Conditions, Experiment
from papers.experiment_outcome import Outcome, is_within, judge
from sfumato._figures.number_format import format_percent
from sfumato._figures.success_by_known_others import KnownOthersCurve, draw_known_others
from sfumato._request.belief_bounds import BreachBound
from sfumato.mechanisms._randomized_response.fine_grain import Direction
from sfumato.mechanisms._randomized_response.fine_grain.retention_solver import compute_record_utility, solve

SARS, HIV, H1N1, CANCER = VALUES = ("SARS", "HIV", "H1N1", "cancer")
PLACES = range(len(VALUES))
SHARES = (Fraction(1, 4),) * 4
"""Figure 1(a): two records of each."""
BOUNDS = (
    BreachBound("1/10", "1/7"),
    BreachBound("1/10", "1/4"),
    BreachBound("1/9", "19/35"),
    BreachBound("1/8", "18/25"),
)
AMPLIFICATIONS = tuple(bound.amplification for bound in BOUNDS)

Operator = tuple[tuple[Fraction, ...], ...]
"""As printed: operator[j][i] is the probability that value i becomes value j."""


def make_operator(retentions: Sequence[Fraction]) -> Operator:
    """The matrix of some coins: a record that is not kept becomes each value alike."""
    swaps = [(1 - retention) / len(retentions) for retention in retentions]
    return tuple(tuple(swaps[i] + (retentions[i] if i == j else 0) for i in PLACES) for j in PLACES)


def compute_uniform_retentions() -> tuple[Fraction, ...]:
    """The retention that the strictest bound allows, for all values."""
    least = min(AMPLIFICATIONS)
    return ((least - 1) / (len(VALUES) - 1 + least),) * len(VALUES)


def compute_fine_retentions(direction: Direction = Direction.UPWARD) -> tuple[Fraction, ...]:
    """The retentions of the paper's programme; in both directions, of the corrected one."""
    return solve(SHARES, AMPLIFICATIONS, direction)


# ------------------------------------------------------------------------------------------------------------- figure 1

Likelihood = Callable[[str, str], Fraction]
"""How likely is what is seen, if the target has one disease and the other of the two patients another."""
PATIENTS = 8
DRAWN_RETENTIONS = (Fraction(1, 3),) * 4
"""The paper's p of 1/3 in Figure 1(d), as the chance of the coin."""


def _compute_belief(likelihood: Likelihood, neighbour: str | None) -> Fraction:
    """In the target's H1N1, from an even start; with the neighbour's disease, if it is known."""
    pairs = [pair for pair in product(VALUES, VALUES) if neighbour in (None, pair[1])]
    weights = {pair: likelihood(*pair) for pair in pairs}
    return Fraction(sum(weight for (own, _), weight in weights.items() if own == H1N1), sum(weights.values()))


def _make_group_likelihood(shown: tuple[str, str]) -> Likelihood:
    return lambda own, other: Fraction(sorted((own, other)) == sorted(shown))


def _make_sampled_likelihood(operator: Operator, shown: str) -> Likelihood:
    """One of the two records is drawn, and perturbed."""
    row = dict(zip(VALUES, operator[VALUES.index(shown)], strict=True))
    return lambda own, other: (row[own] + row[other]) / 2


def _make_perturbed_likelihood(operator: Operator, shown: tuple[str, str]) -> Likelihood:
    """Both records are there, each perturbed by itself."""
    first, second = (dict(zip(VALUES, operator[VALUES.index(shown_value)], strict=True)) for shown_value in shown)
    return lambda own, other: first[own] * second[other]


def _compute_success(publications: Sequence[Likelihood], known_chance: Fraction) -> Fraction:
    """How often the likeliest disease is the target's own, if the neighbour's is known with some chance.

    The publications are all that may be seen, each once.
    """
    joint_chances = [{pair: likelihood(*pair) for pair in product(VALUES, VALUES)} for likelihood in publications]
    alone = sum(max(sum(chances[own, other] for other in VALUES) for own in VALUES) for chances in joint_chances)
    beside = sum(max(chances[own, other] for own in VALUES) for chances in joint_chances for other in VALUES)
    return ((1 - known_chance) * alone + known_chance * beside) / sum(
        sum(chances.values()) for chances in joint_chances
    )


def _list_publications() -> Iterator[tuple[str, list[Likelihood]]]:
    """Every publication of two patients, with all that may be seen of it."""
    pairs = list(product(VALUES, VALUES))
    yield "groups of two", [_make_group_likelihood(pair) for pair in combinations(VALUES, 2)]
    yield (
        "one of two drawn, perturbed",
        [_make_sampled_likelihood(make_operator(DRAWN_RETENTIONS), shown) for shown in VALUES],
    )
    yield (
        "uniform perturbation",
        [_make_perturbed_likelihood(make_operator(compute_uniform_retentions()), pair) for pair in pairs],
    )
    yield (
        "fine-grain perturbation",
        [_make_perturbed_likelihood(make_operator(compute_fine_retentions()), pair) for pair in pairs],
    )


def _list_printed_beliefs() -> list[tuple[str, str, Likelihood, Fraction | None, Fraction | None]]:
    """Lists the publications of figure 1 with what each shows, and the beliefs printed before and after."""
    drawn_operator = make_operator(DRAWN_RETENTIONS)
    return [
        (
            "groups of two, Fig. 1(c)",
            "H1N1, cancer",
            _make_group_likelihood((H1N1, CANCER)),
            Fraction(1, 2),
            Fraction(1),
        ),
        (
            "one of two drawn, perturbed, Fig. 1(d)",
            SARS,
            _make_sampled_likelihood(drawn_operator, SARS),
            None,
            Fraction(1, 6),
        ),
        ("the same", H1N1, _make_sampled_likelihood(drawn_operator, H1N1), None, Fraction(1, 6)),
        (
            "uniform, Fig. 2(a)",
            H1N1,
            _make_perturbed_likelihood(make_operator(compute_uniform_retentions()), (H1N1, CANCER)),
            None,
            None,
        ),
        (
            "fine-grain, Fig. 2(b)",
            H1N1,
            _make_perturbed_likelihood(make_operator(compute_fine_retentions()), (H1N1, CANCER)),
            None,
            None,
        ),
    ]


def figure1(_: Conditions) -> Outcome:
    """What is believed of Eva, who has H1N1, before and after Fiona's cancer is known."""
    rows, agreeing = [], []
    for name, shown, likelihood, printed_before, printed_after in _list_printed_beliefs():
        before, after = _compute_belief(likelihood, None), _compute_belief(likelihood, CANCER)
        rows.append((name, shown, before, printed_before, after, printed_after))
        agreeing += [
            ours == printed
            for ours, printed in ((before, printed_before), (after, printed_after))
            if printed is not None
        ]
    group, drawn_belief, drawn_true_belief, whole, own = (row[4] for row in rows)
    is_unmoved = all(row[2] == row[4] for row in rows[3:])
    is_claimed = is_unmoved and all(agreeing[:2])
    steps = [Fraction(known, PATIENTS - 1) for known in range(PATIENTS)]
    figure = draw_known_others(
        [
            KnownOthersCurve(name, tuple((float(known), float(_compute_success(likelihood, known))) for known in steps))
            for name, likelihood in _list_publications()
        ],
        at_share=1.0,
    )
    sentence = (
        f"Groups of two raise the belief in Eva's disease from {rows[0][2]} to {group} once Fiona's is known, and "
        f"perturbing each record {'leaves it where it was' if is_unmoved else 'changes it too'} ({whole} uniform, "
        f"{own} fine-grain, from an even start), {'' if is_claimed else 'not '}as claimed; for perturbed groups of "
        f"which one record is drawn 1/6 is printed, a product of two chances, where the belief is {drawn_belief} if "
        f"SARS is seen and {drawn_true_belief} if H1N1 is. Whoever knows all counts of the table and all others needs "
        "no release, and nothing keeps from that."
    )
    headings = ("publication", "seen", "Fiona unknown", "as printed", "Fiona known", "as printed")
    return Outcome(headings, tuple(rows), judge(agreeing), sentence, figure)


# ------------------------------------------------------------------------------------------------------------- figure 2


def figure2(_: Conditions) -> Outcome:
    """The operators of uniform and of fine-grain perturbation."""
    printed_uniform = ((Fraction(1, 3),) * 4,) * 4
    sixth, quarter, half = Fraction(1, 6), Fraction(1, 4), Fraction(1, 2)
    printed_fine = tuple(
        tuple(quarter if not true else half if true == shown else sixth for true in PLACES) for shown in PLACES
    )
    whole, own, both = (
        make_operator(compute_uniform_retentions()),
        make_operator(compute_fine_retentions()),
        make_operator(compute_fine_retentions(Direction.BOTH)),
    )
    cells = [(shown, true) for shown in PLACES for true in PLACES]
    rows = tuple(
        (
            VALUES[true],
            VALUES[shown],
            whole[shown][true],
            printed_uniform[shown][true],
            own[shown][true],
            printed_fine[shown][true],
            both[shown][true],
        )
        for shown, true in cells
    )
    other_uniform = sum(row[2] != row[3] for row in rows)
    other_fine = sum(row[4] != row[5] for row in rows)
    kept_as_printed = all(row[2] == row[3] for row in rows if row[0] == row[1])
    sentence = (
        f"The fine-grain operator is {'as printed' if not other_fine else f'another in {other_fine} entries'}, and so "
        f"{'is' if kept_as_printed else 'is not'} the diagonal of the uniform one. Off the diagonal {whole[0][1]} is "
        f"right; our scan shows 1/3 at {other_uniform} places, which would add up to 4/3, and may be at fault."
    )
    headings = ("true", "shown", "uniform", "in our scan", "fine-grain", "as printed", "fine-grain, both directions")
    return Outcome(headings, rows, judge([kept_as_printed, not other_fine]), sentence)


# ------------------------------------------------------------------------------------------------------------ example 2


def example2(_: Conditions) -> Outcome:
    """Amplifications, record utilities, and what fine-grain gains."""
    whole, own = (
        compute_record_utility(SHARES, compute_uniform_retentions()),
        compute_record_utility(SHARES, compute_fine_retentions()),
    )
    both = compute_record_utility(SHARES, compute_fine_retentions(Direction.BOTH))
    gain = own / whole - 1
    printed = (Fraction(3, 2), Fraction(3), Fraction(19, 2), Fraction(18))
    rows = (
        *((f"amplification of {value}", *pair) for value, *pair in zip(VALUES, AMPLIFICATIONS, printed, strict=True)),
        ("record utility, uniform", whole, Fraction(1, 3)),
        ("record utility, fine-grain", own, Fraction(7, 16)),
        ("increase in %", float(100 * gain), 24),
        ("difference over the new utility in %", float(100 * (1 - whole / own)), None),
        ("record utility, fine-grain, both directions", both, None),
    )
    agreeing = [ours == printed_number for _, ours, printed_number in rows[:6]] + [is_within(float(gain), 0.24, 0.005)]
    sentence = (
        f"Amplifications and record utilities are {'as printed' if all(agreeing[:6]) else 'not all as printed'}; from "
        f"{whole} to {own} is an increase of {format_percent(float(gain))}, in print about 24%, which is the "
        f"difference over the new value ({format_percent(float(1 - whole / own))}). If beliefs shall not fall either, "
        f"{both} is left, {format_percent(float((both - whole) / (own - whole)))} of the gain."
    )
    return Outcome(("", "ours", "as printed"), rows, judge(agreeing), sentence)


# ------------------------------------------------------------------------------------------------------------ theorem 1


def list_posteriors(operator: Operator, value: int, prior: Fraction) -> list[Fraction]:
    """What may be believed of a value afterwards, if it was `prior` before, and all the rest one other value.

    Over all beliefs with this prior, those in one other value only make the posterior largest and smallest.
    """
    beliefs = []
    for other, shown_place in product(PLACES, PLACES):
        if other != value:
            own, beside = prior * operator[shown_place][value], (1 - prior) * operator[shown_place][other]
            beliefs.append(own / (own + beside))
    return beliefs


def theorem1(_: Conditions) -> Outcome:
    """How far beliefs in each value rise and fall under the operator of Figure 2(b), and under the corrected one."""
    rows = []
    for name, direction in (("as printed", Direction.UPWARD), ("corrected", Direction.BOTH)):
        operator = make_operator(compute_fine_retentions(direction))
        for place, (value, bound) in enumerate(zip(VALUES, BOUNDS, strict=True)):
            highest = max(list_posteriors(operator, place, bound.prior))
            lowest = min(list_posteriors(operator, place, bound.posterior))
            rows.append((name, value, bound.prior, highest, bound.posterior, lowest))
    risen_rows = [row for row in rows if row[3] > row[4]]
    printed, corrected = (
        [row for row in rows if row[0] == name and row[5] < row[2]] for name in ("as printed", "corrected")
    )
    upward = "No belief rises above its bound, as claimed" if not risen_rows else "Beliefs rise above their bounds"
    downward = "and none falls below, as claimed."
    if printed:
        worst = printed[0]
        downward = (
            f"but a belief of {worst[4]} in {worst[1]} falls to {worst[5]}, below {worst[2]}, so that the theorem is "
            f"true upward only; with the smaller amplification of each pair {len(corrected) or 'none'} of the "
            f"{len(VALUES)} values can fall below."
        )
    headings = ("programme", "value", "prior", "rises at most to", "posterior", "falls at most to")
    verdict = judge([], refuted=bool(risen_rows or printed))
    return Outcome(headings, tuple(rows), verdict, f"{upward}; {downward}")


EXPERIMENTS = (
    Experiment(
        "fine-grain/fig1",
        "a corruption attack, before and after",
        figure1,
        ("the chance of 17% for Eva is no posterior",),
    ),
    Experiment("fine-grain/fig2", "two operators", figure2, scan_faults=("Figure 2(a) has 1/3 everywhere",)),
    Experiment("fine-grain/ex2", "what fine-grain gains over uniform", example2, ("24% is 31.25%",)),
    Experiment(
        "fine-grain/theorem1",
        "how far beliefs rise and fall",
        theorem1,
        ("Theorem 1 is false downward",),
    ),
)
