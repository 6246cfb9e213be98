"""Matches the records of a release with the original by the key of the plan file, to attack the release itself.

Rows of a release have a keyed order. So without the key nobody can match people with equal public columns, or count
correct guesses. The key is only used to score guesses; attackers never use it. Without a key, the matching of such
people is drawn from the reference distribution of the release.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato._core.array_types import Codes, Floats, Mask, Places
from sfumato._core.cell_values import Value, split_value
from sfumato._core.radix_sort import find_sorted_positions
from sfumato._core.random_draws import Draws
from sfumato._perturb.perturbation import draw_order_keys
from sfumato._planning.plan_file import PlanFile
from sfumato._profile.equivalence_classes import number_combinations
from sfumato._profile.record_sample import MOST_RECORDS
from sfumato._query.counting.record_blocks import read_batches, read_record_schema
from sfumato._query.release import Release
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import AnyTable
from sfumato._records.tally import Holdings
from sfumato._release.manifest import Manifest
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.hierarchy import Hierarchy
from sfumato._risk.attackers.attack_setup import AttackSetup, make_draws, select_attacked_rows
from sfumato._risk.attackers.attack_target import LEAST_RECORDS, Target
from sfumato._risk.attackers.crowd_matching import match_crowds, select_recorded
from sfumato._risk.attackers.domain_places import find_domain_places
from sfumato._risk.attackers.published_crowds import OUTSIDE, PublishedCrowds
from sfumato._risk.attackers.record_linkage import encode_shared_values, list_public_columns
from sfumato._verify.against_original import OriginalRows, match_hierarchy_groups, open_original, prepare_rows
from sfumato.errors import ReleaseFormatError
from sfumato.mechanisms.capabilities import AttackModel

# Matching without a key: drawn from the reference distribution, among people with equal public columns. A person with
# unique public columns is found by these columns. In an equivalence class, an assignment of records to people is drawn
# with its probability given the published values. For a correctly made release, this equals the key's matching on
# average. So classes always agree with the reference distribution. Only unique people, and totals of a class, can show
# that a release was made incorrectly.
#
# Two records of a class are exchanged with the Metropolis (1953) probability, all people in
# pairs at once, until the likelihood of the records stops rising.

SWEEPS = 25
"""The number of rounds of exchanges before the likelihood is compared."""
LEAST_ROUNDS, MOST_ROUNDS = 4, 40
CONVERGED_GAIN = 1e-3
"""A smaller gain in log-likelihood ends the exchanges."""
SMALLEST = 1e-30
LIKELIHOOD_ROUNDS = 2
"""The number of times that the likelihood is computed.

If the likelihood depends on the sub-tables, it is computed again from the drawn matching.
"""


@dataclass(frozen=True, eq=False)
class EquivalenceClasses:
    """Records sorted by equivalence class, with the start and the size of the class and the position in it."""

    starts: Places
    sizes: Places
    class_numbers: Places

    @classmethod
    def of(cls, sizes: Places) -> EquivalenceClasses:
        """Makes the classes from their sizes."""
        return cls(np.cumsum(sizes) - sizes, sizes, np.repeat(np.arange(len(sizes)), sizes))

    def choose_partners(self, random_bits: Codes) -> Places:
        """Chooses a partner of the same class for each record; some records are their own partner.

        Partners are mutual.
        """
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
    """Draws the person of each record, class by class. People are sorted by class too, with the values `true_codes`.

    `likely` gives the likelihood of the records' published values for each true value, under a given matching; None if
    unknown.
    """
    person: Places = np.arange(len(true_codes))
    classes, stream, used_bits = EquivalenceClasses.of(sizes), draws.get_stream("whose"), 0
    previous_likelihoods: Floats | None = None
    for _ in range(likelihood_rounds):
        likelihoods = compute_likelihoods(person)
        if likelihoods is None:
            return None
        if previous_likelihoods is not None and np.array_equal(likelihoods, previous_likelihoods):
            break  # the likelihood does not depend on the matching
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
    """Exchanges the records of partners, or keeps them in place."""
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


# ---------------------------------------------------------------------------------------------------------------------

MOST_DRAWN_CELLS = 1 << 22
"""The largest product of records and values for which a matching is drawn."""


@dataclass(frozen=True, eq=False)
class MatchedRelease:
    """A release whose records are matched with the original.

    People have the order of the original. The match is secret.
    """

    manifest: Manifest
    columns: Mapping[str, Codes] = field(repr=False)
    """The public columns."""
    true_codes: Codes = field(repr=False)
    """The true values, as places of the domain."""
    published_codes: Codes = field(repr=False)
    """The published values, as the release's reader reads them."""
    order: Places = field(repr=False)
    """The person of each record, in the order of the release."""
    holdings: Holdings | None = field(default=None, repr=False)
    """The contents of the table of group values, in its order, if there is one."""
    is_unique: Mask | None = field(default=None, repr=False)
    """The people matched by public columns alone, without a key; None with a key."""
    crowds: PublishedCrowds | None = field(default=None, repr=False)
    """The counts of people without a record, if there are any."""
    people: Places | None = field(default=None, repr=False)
    """The rows of the original that were matched, if they are not all."""

    def make_setups(self, spec: PrivacySpec | None = None, seed: int | None = None) -> list[AttackSetup]:
        """Makes a setup for each protected column. With a request, beliefs above its bound are counted.

        Of tables above 200,000 people, the first people in the release are used, whose order is random.
        """
        people = np.sort(self.order[:MOST_RECORDS])
        first = np.searchsorted(people, self.order[: len(people)])  # in the order of the release, which is random
        columns = {name: codes[people] for name, codes in self.columns.items()}
        draws, setups = make_draws(seed), []
        for number, (name, domain, column_codes) in enumerate(self._list_protected()):
            limits = (
                np.ones(len(domain)) if spec is None else np.array([float(limit) for limit in spec.list_limits(domain)])
            )
            target = Target(name, column_codes[people], limits, columns)
            groups = self.published_codes if self.holdings is not None and len(people) == len(column_codes) else None
            rows = select_attacked_rows(first, target, groups)
            compute_likelihoods = partial(self._compute_likelihoods, people, number)
            crowds = None if self.crowds is None else self.crowds.select(people)
            setups.append(
                AttackSetup(target, compute_likelihoods, rows, groups, draws.narrow_to_column(name), seed, crowds)
            )
        return setups

    def _list_protected(self) -> list[tuple[str, tuple[Value, ...], Codes]]:
        """The name, the domain and the true values of each protected column.

        Columns are listed one by one if they are protected separately.
        """
        return [(name, domain, codes[self.true_codes]) for name, domain, codes in list_protected_columns(self.manifest)]

    def _compute_likelihoods(self, people: Places, number: int, rows: Places) -> Floats:
        model = self.manifest.mechanism.require(AttackModel)
        return model.compute_published_likelihoods(
            self.manifest.design, self.published_codes, self.true_codes, people[rows]
        )[number]


def list_protected_columns(manifest: Manifest) -> list[tuple[str, tuple[Value, ...], Codes]]:
    """Lists the name, the domain and the place of the values in the domain for each separately protected column."""
    domain = manifest.domain
    if not manifest.is_independent:
        return [(manifest.sensitive_name, domain, np.arange(len(domain)))]
    column_entries: list[tuple[str, tuple[Value, ...], Codes]] = []
    for number, name in enumerate(manifest.sensitive_columns):
        values = [split_value(value)[number] for value in domain]
        places = {value: place for place, value in enumerate(dict.fromkeys(values))}
        column_entries.append((name, tuple(places), np.array([places[value] for value in values])))
    return column_entries


def read_original(
    release: Release,
    original: AnyTable,
    plan_file: str | Path | None = None,
    *,
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
    read: ReadOptions = DEFAULT_READ_OPTIONS,
) -> pa.Table:
    """Reads the published rows of a table, with ranges and groups as in the release, but with true values."""
    with open_original(release.folder, original, plan_file, read=read) as rows:
        return prepare_table(release, rows, hierarchies)


def prepare_table(
    release: Release, rows: OriginalRows, hierarchies: Mapping[str, Hierarchy | Path] | None = None
) -> pa.Table:
    """Prepares rows as published, except that the sensitive columns keep their true values."""
    groups = match_hierarchy_groups(rows.view, hierarchies or {})
    types, batches = prepare_rows(release.folder, rows.view, rows.source, groups)
    return pa.Table.from_batches(batches, schema=types).combine_chunks()


def match_by_key(release: Release, table: pa.Table, plan_file: str | Path) -> MatchedRelease:
    """Matches the records of a release with its original, from `read_original`, by the key of the plan.

    People in crowds have no record. They are matched by their public columns, and keep their place in the order of the
    key.
    """
    manifest, paths = release.manifest, release.manifest.list_data_paths(release.folder)
    names, key = list_public_columns(release), PlanFile.read(Path(plan_file)).table_draws
    crowds = match_crowds(release, table)
    public = pq.read_table(list(paths), columns=names)
    order = find_sorted_positions(draw_order_keys(key, 0, table.num_rows)).astype(np.int64)
    recorded = order if crowds is None else order[crowds.numbers[order] == OUTSIDE]
    release_codes, table_codes = encode_shared_values(names, [public, table])
    is_same = public.num_rows == len(recorded)
    if not is_same or not all(
        np.array_equal(one, other[recorded]) for one, other in zip(release_codes, table_codes, strict=True)
    ):
        raise ReleaseFormatError(
            "the key of the plan file gives this table another order than that of the release; name the table and "
            "the plan file of this release.",
            code="order-not-of-plan-file",
        )
    by_person = _arrange_by_person(read_published_codes(release), recorded, table.num_rows)
    holdings = manifest.encoding.read_side_table(manifest.naming, release.folder)
    columns, true_codes = dict(zip(names, table_codes, strict=True)), find_domain_places(manifest.naming, table)
    return MatchedRelease(manifest, columns, true_codes, by_person, order, holdings, crowds=crowds)


def _arrange_by_person(published_codes: Codes, person: Places, people: int) -> Codes:
    """The published value of each person. People without a record have an empty one, which is never used."""
    by_person = np.zeros((people, *published_codes.shape[1:]), dtype=published_codes.dtype)
    by_person[person] = published_codes
    return by_person


def match_by_likelihood(release: Release, table: pa.Table, draws: Draws) -> MatchedRelease | None:
    """Matches without a key, by public columns and, within a class, by the reference distribution.

    Large tables are sampled by whole classes. The result is None if the reference distribution is unknown, or if the
    values of groups are published, because then records cannot be exchanged one by one.
    """
    crowds = match_crowds(release, table)
    if crowds is None:
        return _match_records_by_likelihood(release, table, draws)
    places = np.flatnonzero(crowds.numbers == OUTSIDE)
    matched = _match_records_by_likelihood(release, select_recorded(table, crowds), draws) if len(places) else None
    if len(places) and matched is None:
        return None
    if matched is not None and len(places) == table.num_rows:
        return matched
    return _add_people_of_crowds(release, table, crowds, places, matched, draws)


def _add_people_of_crowds(  # noqa: PLR0913, PLR0917 - a release, its original, and both kinds of matches
    release: Release,
    table: pa.Table,
    crowds: PublishedCrowds,
    places: Places,
    matched: MatchedRelease | None,
    draws: Draws,
) -> MatchedRelease:
    """Adds the people of crowds to matched records. If records were sampled, the same share of the people is added.

    `places` has the rows of people with a record. The people get a random order, because no key gives one.
    """
    names, share = list_public_columns(release), 1.0
    recorded, published_codes = places[:0], read_published_codes(release)[:0]
    if matched is not None and matched.people is not None:
        recorded, published_codes = places[matched.people], matched.published_codes
        share = len(recorded) / len(places)
    stream = draws.get_stream("people of crowds")
    is_sampled = stream.draw_bits(0, table.num_rows) / 2.0**64 < share
    people = np.union1d(recorded, np.flatnonzero(is_sampled & (crowds.numbers != OUTSIDE)))
    (table_codes,) = encode_shared_values(names, [table]) if names else ([],)
    positions = np.searchsorted(people, recorded)
    is_unique = np.zeros(len(people), dtype=np.bool_)
    if matched is not None and matched.is_unique is not None:
        is_unique[positions] = matched.is_unique
    return MatchedRelease(
        release.manifest,
        {name: codes[people] for name, codes in zip(names, table_codes, strict=True)},
        find_domain_places(release.manifest.naming, table)[people],
        _arrange_by_person(published_codes, positions, len(people)),
        np.argsort(draws.get_stream("order of people").draw_bits(0, len(people)), kind="stable"),
        is_unique=is_unique,
        crowds=crowds.select(people),
    )


def _match_records_by_likelihood(release: Release, table: pa.Table, draws: Draws) -> MatchedRelease | None:
    """Matches the records of a release with the people who have one."""
    manifest, names = release.manifest, list_public_columns(release)
    if manifest.encoding.read_side_table(manifest.naming, release.folder) is not None:
        return None
    public = pq.read_table(list(manifest.list_data_paths(release.folder)), columns=names)
    release_codes, table_codes = encode_shared_values(names, [public, table])
    rows, people = public.num_rows, table.num_rows
    class_numbers = number_combinations([np.concatenate(pair) for pair in zip(release_codes, table_codes, strict=True)])
    class_numbers = class_numbers if names else np.zeros(rows + people, dtype=np.int64)
    sizes, person_sizes = (
        np.bincount(table_classes, minlength=int(class_numbers.max(initial=0)) + 1)
        for table_classes in (class_numbers[:rows], class_numbers[rows:])
    )
    if not np.array_equal(sizes, person_sizes):
        raise ReleaseFormatError(
            "the public columns of the table differ from those of the release; name the original table in the state "
            "in which it was published.",
            code="public-columns-differ",
        )
    true_codes, published_codes = find_domain_places(manifest.naming, table), read_published_codes(release)
    is_selected = _draw_classes(sizes, len(manifest.domain), draws)
    records, persons = (
        selected_rows[np.argsort(table_classes[selected_rows], kind="stable")]
        for table_classes in (class_numbers[:rows], class_numbers[rows:])
        for selected_rows in [np.flatnonzero(is_selected[table_classes])]
    )
    record_codes, own_true_codes = published_codes[records], true_codes[persons]

    model = manifest.mechanism.require(AttackModel)

    def compute_likelihoods(person: Places) -> Floats:
        likelihoods = model.compute_published_likelihoods(
            manifest.design, record_codes, own_true_codes[person], np.arange(len(record_codes))
        )
        codes = [part[2] for part in list_protected_columns(manifest)]
        return np.asarray(np.prod([part[:, places] for part, places in zip(likelihoods, codes, strict=True)], axis=0))

    person = draw_likely_order(sizes[is_selected], own_true_codes, compute_likelihoods, draws)
    if person is None:
        return None
    matched_people = np.sort(persons)
    order = np.searchsorted(matched_people, persons[person])[np.argsort(records)]
    by_person = np.empty_like(published_codes[: len(matched_people)])
    by_person[order] = published_codes[np.sort(records)]
    columns = {name: codes[matched_people] for name, codes in zip(names, table_codes, strict=True)}
    return MatchedRelease(
        manifest,
        columns,
        true_codes[matched_people],
        by_person,
        order,
        is_unique=sizes[class_numbers[rows:][matched_people]] == 1,
        people=matched_people,
    )


def _draw_classes(sizes: Places, values: int, draws: Draws) -> Mask:
    """Chooses all classes, or a random sample for large tables. The last class of a sample may exceed the limit."""
    random_order = np.argsort(draws.get_stream("crowds").draw_bits(0, len(sizes)))
    record_limit = min(MOST_RECORDS, max(MOST_DRAWN_CELLS // values, LEAST_RECORDS))
    first = max(int(np.searchsorted(np.cumsum(sizes[random_order]), record_limit, side="right")), 1)
    is_selected: Mask = np.zeros(len(sizes), dtype=np.bool_)
    is_selected[random_order[:first]] = True
    return is_selected


def read_published_codes(release: Release) -> Codes:
    """The published values in their order, as the release's reader reads them."""
    manifest, paths = release.manifest, release.manifest.list_data_paths(release.folder)
    read_codes = manifest.encoding.make_reader(manifest.naming)
    schema, names = read_record_schema(paths, manifest), manifest.protected_columns
    empty = pa.RecordBatch.from_pylist([], pa.schema([schema.field(name) for name in names]))  # there may be no record
    return np.concatenate([read_codes(batch) for batch in (empty, *read_batches(paths, schema, names))])
