"""Adds the noise of a mechanism to the true counts of crowds, and of coarse tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from sfumato._core.array_types import Counts, Floats
from sfumato._core.random_draws import Draws
from sfumato._perturb.crowd_counts import Crowds
from sfumato._perturb.perturbation import Rewrite
from sfumato._records import CrowdBatch, CrowdContents, SideTable
from sfumato.mechanisms.capabilities import CrowdCounts


def make_count_tables(crowds: Crowds, rewrite: Rewrite) -> list[SideTable]:
    """The tables of noisy counts, with the counts that are estimated from them. The noise looks at no record."""
    rules, plan, draws = rewrite.mechanism.require(CrowdCounts), rewrite.plan, rewrite.column_draws
    tables = [_make_contents(crowds, draws, partial(rules.draw_noise, plan), partial(rules.estimate, plan))]
    for groups, table in zip(crowds.coarse, rules.list_coarse_counts(plan), strict=True):
        tables.append(_make_contents(groups, draws, table.draw_noise, table.estimate))
    return rewrite.encoding.make_count_tables(rewrite.sensitive, tables)


def _make_contents(
    crowds: Crowds,
    draws: Draws,
    draw_noise: Callable[[int, int, Draws], Counts],
    estimate: Callable[[Counts, Counts], Floats],
) -> CrowdContents:
    """The published counts of some groups."""

    def iter_batches(step: int) -> Iterator[CrowdBatch]:
        for first in range(0, len(crowds.keys), step):
            part = slice(first, first + step)
            people = crowds.people[part]
            noisy = crowds.counts[part] + draw_noise(first, len(people), draws)
            yield CrowdBatch(crowds.group_keys.split_keys(crowds.keys[part]), people, noisy, estimate(people, noisy))

    return CrowdContents(crowds.group_keys.columns, len(crowds.keys), iter_batches)
