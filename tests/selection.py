"""How much of the tests runs: `quick` after each edit, `test` for all that guards a promise, `full` for everything.

Nothing is chosen by name. A mark says what takes long, hypothesis takes fewer or more examples, and of a test that has
many cases some run, chosen by the values of its parameters. The hooks of pytest at the end are those of `conftest.py`.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import settings


class Extent(StrEnum):
    """How much runs."""

    QUICK = "quick"
    """Nothing that is marked as long, one case of each test, few examples."""
    TEST = "test"
    """All tests; of those marked `pairwise`, the cases in which every two values meet."""
    FULL = "full"
    """All cases of all tests, and many examples."""


LEFT_OUT: Mapping[Extent, frozenset[str]] = {
    Extent.QUICK: frozenset({"slow", "statistical", "full"}),
    Extent.TEST: frozenset({"full"}),
    Extent.FULL: frozenset(),
}
"""The marks of what does not run."""

EXAMPLES: Mapping[Extent, int] = {Extent.QUICK: 5, Extent.TEST: 50, Extent.FULL: 250}
"""How many examples a test takes that does not say how many."""


# ------------------------------------------------------------------------------------------------------------- examples


def examples(usual: int, *, most: int | None = None) -> int:
    """How many examples to take where `test` takes so many: as many times more or fewer as other tests take."""
    scaled = max(1, usual * settings.default.max_examples // EXAMPLES[Extent.TEST])
    return scaled if most is None else min(scaled, most)


def register_profiles() -> None:
    """A profile of hypothesis for each extent."""
    # A deadline measures the machine's other work, and would fail at random. In CI the examples are the same each time,
    # so that a change is judged by what it changed; everywhere else hypothesis goes on looking for new ones.
    for extent, most in EXAMPLES.items():
        settings.register_profile(extent, deadline=None, max_examples=most, derandomize=bool(os.environ.get("CI")))


# ------------------------------------------------------------------------------------------------------ cases of a test


def covering(rows: Sequence[Mapping[str, Hashable]], together: int) -> list[int]:
    """The numbers of few rows that have, for any so many parameters, every combination of values that a row has.

    Each row is a case of a test: a value for each parameter. Taken is the row with the most combinations that are not
    there yet, and of equals the first, so that the same rows come out each time and on every worker.
    """
    missing = [set(combinations(sorted(row.items(), key=_name), min(together, len(row)))) for row in rows]
    taken: list[int] = []
    while any(missing):
        best = max(range(len(rows)), key=lambda number: len(missing[number]))
        taken.append(best)
        found = missing[best].copy()
        for combination in missing:
            combination.difference_update(found)
    return sorted(taken)


def _name(pair: tuple[str, Hashable]) -> str:
    return pair[0]


def one(cases: int, name: str) -> int:
    """The number of one of so many cases, and another one for another test.

    Mechanisms and formats are parameters of many tests, so that each of them has its turn in several.
    """
    return zlib.crc32(name.encode()) % cases


def chosen(items: Sequence[pytest.Item], extent: Extent) -> list[pytest.Item]:
    """What runs, in the order it has."""
    runs = [item for item in items if not any(item.get_closest_marker(name) for name in LEFT_OUT[extent])]
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    # By name, so that the choice does not depend on whether another plugin has shuffled the tests before.
    for item in sorted(runs, key=lambda item: item.nodeid):
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {several[number] for name, several in cases.items() for number in _kept(name, several, extent)}
    return [item for item in runs if item in kept]


def _kept(name: str, cases: Sequence[pytest.Item], extent: Extent) -> Sequence[int]:
    """The numbers of the cases of a test that run."""
    marks = {mark.name for mark in cases[0].iter_markers()}
    if extent is Extent.QUICK and len(cases) > 1:
        return covering([_values(case) for case in cases], 1) if "light" in marks else [one(len(cases), name)]
    if extent is Extent.TEST and "pairwise" in marks:
        return covering([_values(case) for case in cases], 2)
    return range(len(cases))


def _values(item: pytest.Item) -> dict[str, Hashable]:
    """The value of each parameter of a case, or what stands for a value that cannot be in a set."""
    assert isinstance(item, pytest.Function)
    return {name: _hashable(value) for name, value in item.callspec.params.items()}


def _hashable(value: object) -> Hashable:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


MARK = re.compile(r"pytest\.mark\.(\w+)")


def is_left_out(text: str, extent: Extent) -> bool:
    """Whether nothing of a file runs: it says so itself, with a mark for all its tests in one line."""
    marked = next((line for line in text.splitlines() if line.startswith("pytestmark = ")), "")
    return not LEFT_OUT[extent].isdisjoint(MARK.findall(marked))


# ------------------------------------------------------------------------------------------------------ hooks of pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much is to run."""
    parser.addoption("--extent", type=Extent, choices=list(Extent), default=Extent.TEST, help="how much runs")


def pytest_configure(config: pytest.Config) -> None:
    """Take as many examples as go with it, unless a profile of hypothesis is asked for by name."""
    register_profiles()
    settings.load_profile(config.getoption("--hypothesis-profile") or config.getoption("--extent"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even load what does not run: that took as long as running a hundred tests."""
    if not collection_path.match("test_*.py"):
        return None
    return is_left_out(collection_path.read_text(encoding="utf-8"), config.getoption("--extent")) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not run, before the order is made random."""
    collected = list(items)
    items[:] = chosen(collected, config.getoption("--extent"))
    runs = set(items)
    config.hook.pytest_deselected(items=[item for item in collected if item not in runs])
