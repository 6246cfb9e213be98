"""The target of attacks: the true values of one protected column, and what public columns reveal about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato._core.array_types import Codes, Floats, Mask, Places
from sfumato._core.cell_values import Value
from sfumato._core.ordered_threads import map_arrays
from sfumato._profile.equivalence_classes import hash_numbers, number_classes
from sfumato._profile.record_sample import Sample
from sfumato._records.column_codes import SensitiveColumns
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._risk.attackers.known_column_beliefs import ColumnEvidence, Knowledge, compute_smoothed_shares

MOST_BELIEFS, LEAST_RECORDS = 1 << 19, 3000
"""The largest product of records and values of an attack, and the smallest number of records.

Larger tables are sampled at random.
"""


@dataclass(frozen=True)
class Target:
    """One protected column with its name, the true values of the records, and the belief limit of each value."""

    name: str
    true_codes: Codes
    limits: Floats
    columns: Mapping[str, Codes] = field(repr=False)
    """The public columns of the same records."""
    column_sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The numbers of possible values of the columns, if not all values occur here."""

    @property
    def size(self) -> int:
        """The number of values."""
        return len(self.limits)

    @property
    def attacked_count(self) -> int:
        """The number of attacked records."""
        return min(len(self.true_codes), max(LEAST_RECORDS, MOST_BELIEFS // self.size))

    @cached_property
    def shares(self) -> Floats:
        """The shares of the values."""
        return compute_smoothed_shares(self.true_codes, self.size)

    @cached_property
    def evidence(self) -> dict[str, ColumnEvidence]:
        """The evidence of each public column."""
        shares = self.shares

        def count_evidence(name: str) -> ColumnEvidence:
            return ColumnEvidence.of(self.columns[name], self.true_codes, shares, self.column_sizes.get(name, 0))

        column_evidence = map_arrays(count_evidence, self.columns, len(self.true_codes))
        return dict(zip(self.columns, column_evidence, strict=True))

    @cached_property
    def halves(self) -> tuple[Target, Target]:
        """The records of each half, independent of their order in a table."""
        heights = {name: int(codes.max(initial=0)) + 1 for name, codes in self.columns.items()}
        half_targets = []
        for rows in (np.flatnonzero(self.is_first), np.flatnonzero(~self.is_first)):
            columns = {name: codes[rows] for name, codes in self.columns.items()}
            half_targets.append(Target(self.name, self.true_codes[rows], self.limits, columns, heights))
        return half_targets[0], half_targets[1]

    @cached_property
    def belief_cache(self) -> dict[bytes, Callable[[Places], Floats]]:
        """The cached beliefs about some records, for attacks on several releases of the same people."""
        return {}

    @cached_property
    def classes(self) -> Places:
        """The equivalence class of each record. Without public columns, all records are in one class."""
        return number_classes(self.columns, len(self.true_codes))

    @cached_property
    def is_first(self) -> Mask:
        """The records of the first half, by a hash of their numbers."""
        return np.asarray(hash_numbers(np.arange(len(self.true_codes)), np.uint64(0)) & np.uint64(1), dtype=np.bool_)

    def learn_across_halves(self, known_columns: Sequence[str]) -> Callable[[Places], Floats]:
        """The beliefs of an attacker who learns about the people of each half from the other half.

        Suppose that only the record itself were left out of its evidence. Of two equally likely values, the true value
        would then always seem less likely. This effect alone would make guesses wrong.
        """
        if not known_columns:
            return self.learn(()).compute_beliefs
        first, second = (half.learn(known_columns) for half in self.halves)

        def compute_beliefs(rows: Places) -> Floats:
            chances = np.empty((len(rows), self.size))
            for is_in_half, knowledge in ((self.is_first[rows], second), (~self.is_first[rows], first)):
                half_rows = rows[is_in_half]
                chances[is_in_half] = knowledge.predict_others(
                    [self.columns[name][half_rows] for name in known_columns], len(half_rows)
                )
            return chances

        return compute_beliefs

    def learn(self, known_columns: Sequence[str]) -> Knowledge:
        """The beliefs of an attacker who knows some public columns."""
        return Knowledge.of([self.evidence[name] for name in known_columns], self.true_codes, self.shares)


def make_targets(sample: Sample, sensitive: SensitiveColumns, spec: PrivacySpec) -> list[Target]:
    """The protected columns. They are listed one by one if they are protected separately."""
    column_domains: list[tuple[str, Sequence[Value]]] = [(sensitive.name, sensitive.domain)]
    if sensitive.is_independent:
        column_domains = [(part.name, part.domain) for part in sensitive.parts]
    return [
        Target(name, true_codes, np.array([float(limit) for limit in spec.list_limits(domain)]), sample.columns)
        for (name, domain), true_codes in zip(column_domains, sensitive.list_rank_codes(sample.sensitive), strict=True)
    ]


def make_part_targets(sample: Sample, sensitive: SensitiveColumns) -> list[Target]:
    """The single columns of a compound. An attacker who knows one of them knows a part of the protected combination."""
    if len(sensitive.parts) == 1 or sensitive.is_independent:
        return []
    part_codes = np.unravel_index(sample.sensitive, sensitive.sizes)
    return [
        Target(part.name, codes, np.ones(len(part.domain)), sample.columns)
        for part, codes in zip(sensitive.parts, part_codes, strict=True)
    ]
