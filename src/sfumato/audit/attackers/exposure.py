"""What a release would add to what public columns tell: for its holder, before anything is published.

What records would show is drawn with a key that is thrown away, so that the look at it costs the release nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np

from sfumato.apply.sample import Sample
from sfumato.arrays import Codes, Floats, Numbers, Places
from sfumato.audit.attackers.attack import Attack, BeliefSum
from sfumato.audit.attackers.knowledge import Evidence, Knowledge, smoothed_shares
from sfumato.audit.attackers.telling import MOST_TOGETHER, Telling, blind_guess, guesses
from sfumato.draws import Draws
from sfumato.plan.predict import Chosen
from sfumato.request.histogram import margins
from sfumato.request.spec import PrivacySpec
from sfumato.request.values import Value
from sfumato.shown import Replaced
from sfumato.shown.columns import Sensitive

MOST_BELIEFS, LEAST_RECORDS = 1 << 19, 3000
"""Records times values of an attack, and the fewest records: of more, those are taken that come first by chance."""
CHUNK_BELIEFS = 1 << 18
SMALLEST = np.finfo(np.float64).tiny
ONE_COLUMN, ALL_COLUMNS = "one column", "all columns"


@dataclass(frozen=True)
class Target:
    """One protected column: its name, what the records hold of it, and how far each value may be believed."""

    name: str
    held: Codes
    limits: Floats
    columns: Mapping[str, Codes] = field(repr=False)
    """The public columns of the same records."""

    @property
    def size(self) -> int:
        """How many values it has."""
        return len(self.limits)

    @property
    def looked_at(self) -> int:
        """How many records are looked at."""
        return min(len(self.held), max(LEAST_RECORDS, MOST_BELIEFS // self.size))

    @cached_property
    def shares(self) -> Floats:
        """The shares of its values."""
        return smoothed_shares(self.held, self.size)

    @cached_property
    def evidence(self) -> dict[str, Evidence]:
        """What each public column says of it."""
        return {name: Evidence.of(codes, self.held, self.shares) for name, codes in self.columns.items()}

    def known(self, told: Sequence[str]) -> Knowledge:
        """What somebody believes of it who knows some public columns."""
        return Knowledge.of([self.evidence[name] for name in told], self.held, self.shares)


def targets(sample: Sample, sensitive: Sensitive, spec: PrivacySpec) -> list[Target]:
    """What is protected, column by column where each is protected for itself."""
    named: list[tuple[str, Sequence[Value]]] = [(sensitive.name, sensitive.domain)]
    if sensitive.is_independent:
        named = [(part.name, part.domain) for part in sensitive.parts]
    return [
        Target(name, held, np.array([float(each) for each in spec.limits(domain)]), sample.columns)
        for (name, domain), held in zip(named, sensitive.ranked(sample.sensitive), strict=True)
    ]


def attacks(chosen: Chosen, sample: Sample, sensitive: Sensitive, found: Sequence[Target]) -> tuple[Attack, ...]:
    """Somebody who knows one public column of a person, each in its turn, and somebody who knows all of them."""
    records = max(target.looked_at for target in found)
    replaced = shown(chosen, sensitive, sample.sensitive[:records], Draws.secret())
    told: list[tuple[str, tuple[str, ...]]] = [(ONE_COLUMN, (name,)) for name in sample.columns]
    told += [(ALL_COLUMNS, tuple(sample.columns))] if len(sample.columns) > 1 else []
    return tuple(
        attack(who, names, target, partial(_likely, chosen, replaced, number))
        for number, target in enumerate(found)
        for who, names in told
    )


def attack(who: str, told: tuple[str, ...], target: Target, likely: Callable[[Places], Floats | None]) -> Attack:
    """What is believed of the first records, by the columns alone and with how likely they would show what they do."""
    records, knowledge = target.looked_at, target.known(told)
    alone, together = BeliefSum(target.limits), BeliefSum(target.limits)
    for rows in chunks(records, target.size):
        beliefs, held = knowledge.beliefs(rows), target.held[rows]
        alone.add(beliefs, held)
        shown_of = likely(rows)
        if shown_of is not None:
            weighed = beliefs * shown_of
            together.add(weighed / np.maximum(weighed.sum(axis=1, keepdims=True), SMALLEST), held)
    return Attack(who, told, target.name, records, alone.result(), together.result() if together.records else None)


def _likely(chosen: Chosen, replaced: Replaced, number: int, rows: Places) -> Floats | None:
    """How likely some records would show what they do from each value of one protected column, if that is known."""
    part = Replaced(*(None if each is None else each[rows] for each in (replaced.values, replaced.cells)))
    found = chosen.mechanism.likelihoods(chosen.plan, part)
    return None if found is None else found[number]


def learned(target: Target, columns: Sequence[str], single: Sequence[Telling]) -> Telling:
    """How well a protected column is guessed from several columns together, by what is learned of each."""
    order = sorted(columns, key=lambda name: -max(each.right for each in single if each.columns == (name,)))
    found = attack(ALL_COLUMNS, tuple(order), target, lambda rows: None)
    return Telling(tuple(order), target.name, found.without.right, blind_guess(target.held), found.records)


def chunks(records: int, size: int) -> Iterator[Places]:
    """Some rows after the other, as many as have few enough beliefs to be held at once."""
    step = max(1, CHUNK_BELIEFS // size)
    for first in range(0, records, step):
        yield np.arange(first, min(first + step, records))


def shown(chosen: Chosen, sensitive: Sensitive, codes: Codes, draws: Draws) -> Replaced:
    """What records would show; those of one value are spread over its slots as all of them would be."""
    slots = None
    if chosen.mechanism.uses_slots:
        counts = [np.array(chosen.histogram.counts)]
        if sensitive.is_independent:
            counts = margins(chosen.histogram.counts, sensitive.sizes)
        pairs = zip(sensitive.ranked(codes), counts, strict=True)
        found = [_spread(held, each, draws.for_column(str(number))) for number, (held, each) in enumerate(pairs)]
        slots = np.stack(found) if sensitive.is_independent else found[0]
    return chosen.mechanism.replace(chosen.plan, codes, slots, draws, 0)


def _spread(codes: Codes, counts: Numbers, draws: Draws) -> Numbers:
    """A slot for each record, below the count of its value: in random order, and all of them where all are here."""
    order = np.lexsort((draws.stream("order").words(0, len(codes)), codes))
    held = np.bincount(codes, minlength=len(counts))
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(held) - held, held)
    within = draws.stream("place").words(0, len(codes)) / 2.0**64
    slots = np.empty(len(codes), dtype=np.int64)
    spread = (ranks + within) * np.repeat(counts / np.maximum(held, 1), held)
    slots[order] = np.minimum(spread.astype(np.int64), np.repeat(counts, held) - 1)
    return slots


def tellings(found: Sequence[Target], accepted: Sequence[str]) -> list[Telling]:
    """How well each protected column is guessed from single columns, from two, and from all of them.

    What was accepted is guessed from alone: that it tells is known, and together with others it would always tell.
    """
    told = []
    for target in found:
        single = guesses(target.columns, target.held, target.size, target.name, together=1)
        quiet = [each.columns[0] for each in single if not each.is_telling and each.columns[0] not in accepted]
        columns = {name: target.columns[name] for name in quiet}
        told += [*single, *guesses(columns, target.held, target.size, target.name, together=MOST_TOGETHER)]
        if len(quiet) > MOST_TOGETHER:
            told.append(learned(target, quiet, single))
    return told
