"""Whose record is whose where no key tells it: drawn by the law of the release, among people who look alike.

Whoever is alone with the public columns is found by them. Among people who are alike every way to give the records away
is as likely as what the records show makes it, so one is drawn by that: on average the same as the key would say, for
a release that was made as it says. What it shows of a crowd is then as its law says, by construction; only people who
are alone, and numbers of a whole crowd, can tell that it is not.

Two records of people who are alike change places with the chance that the law gives (Metropolis 1953), all people in
pairs at once, until the records become no likelier by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato._core.arrays import Codes, Floats, Places
from sfumato._core.random_draws import Draws

SWEEPS = 25
"""So many times everybody meets somebody before it is looked whether that helped."""
LEAST_ROUNDS, MOST_ROUNDS = 4, 40
CONVERGED_GAIN = 1e-3
"""Records that become likelier by less (in logarithms) stay as they are."""
SMALLEST = 1e-30
LIKELIHOOD_ROUNDS = 2
"""How often the law is read: where it depends on who is in which cell, once more with what was drawn."""


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """Records in the order of their crowds: where each crowd starts, how large it is, and the place in it."""

    starts: Places
    sizes: Places
    class_numbers: Places

    @classmethod
    def of(cls, sizes: Places) -> EquivalenceClasses:
        """From how large each crowd is."""
        return cls(np.cumsum(sizes) - sizes, sizes, np.repeat(np.arange(len(sizes)), sizes))

    def choose_partners(self, random_bits: Codes) -> Places:
        """For each record one of the same crowd, or itself; the partner of a partner is the record itself."""
        turn = (random_bits % self.sizes.astype(np.uint64)).astype(np.int64)
        start, size = self.starts[self.class_numbers], self.sizes[self.class_numbers]
        rank = np.arange(len(self.class_numbers)) - start
        return np.asarray(start + (turn[self.class_numbers] - rank) % size)


def draw_likely_order(
    sizes: Places,
    true_codes: Codes,
    compute_likelihoods: Callable[[Places], Floats | None],
    draws: Draws,
    likelihood_rounds: int = LIKELIHOOD_ROUNDS,
) -> Places | None:
    """For each record, by crowds, the number of its person; people stand by crowds too, and `true_codes` is theirs.

    `likely` says how likely the records show what they do from each value, if people belong to them as given; None
    where that is not known.
    """
    person: Places = np.arange(len(true_codes))
    classes, stream, used_bits = EquivalenceClasses.of(sizes), draws.get_stream("whose"), 0
    previous_likelihoods: Floats | None = None
    for _ in range(likelihood_rounds):
        likelihoods = compute_likelihoods(person)
        if likelihoods is None:
            return None
        if previous_likelihoods is not None and np.array_equal(likelihoods, previous_likelihoods):
            break  # it does not depend on who is whose
        previous_likelihoods, previous_mean = likelihoods, -np.inf
        for round_number in range(MOST_ROUNDS):
            total = 0.0
            for _ in range(SWEEPS):
                turns = stream.draw_bits(used_bits, len(sizes) + len(true_codes))
                used_bits += len(turns)
                person = _exchange_partners(
                    likelihoods, true_codes, person, classes.choose_partners(turns[: len(sizes)]), turns[len(sizes) :]
                )
                total += float(
                    np.log(np.maximum(likelihoods[np.arange(len(true_codes)), true_codes[person]], SMALLEST)).mean()
                )
            if round_number >= LEAST_ROUNDS and total / SWEEPS - previous_mean < CONVERGED_GAIN:
                break
            previous_mean = total / SWEEPS
    return person


def _exchange_partners(
    likelihoods: Floats, true_codes: Codes, person: Places, partner: Places, random_bits: Codes
) -> Places:
    """Everybody and the partner change records, or do not."""
    one = np.flatnonzero(np.arange(len(person)) < partner)
    other = partner[one]
    mine, theirs = true_codes[person[one]], true_codes[person[other]]
    current_likelihoods = np.maximum(likelihoods[one, mine] * likelihoods[other, theirs], SMALLEST)
    exchanged_likelihoods = likelihoods[one, theirs] * likelihoods[other, mine]
    is_exchanged = random_bits[one] / 2.0**64 * current_likelihoods < exchanged_likelihoods
    next_person = person.copy()
    next_person[one[is_exchanged]], next_person[other[is_exchanged]] = (
        person[other[is_exchanged]],
        person[one[is_exchanged]],
    )
    return next_person
