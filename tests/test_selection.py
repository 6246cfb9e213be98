"""What `quick` and `test` leave out, and that what they keep stands for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selection import EXAMPLES, Extent, covering, examples, is_left_out, one

ROWS = st.lists(
    st.fixed_dictionaries({"one": st.integers(0, 3), "two": st.integers(0, 3), "three": st.integers(0, 3)}), max_size=40
)


def met(rows: Sequence[Mapping[str, int]], together: int) -> set[tuple[tuple[str, int], ...]]:
    """The combinations of values that any row has."""
    return {each for row in rows for each in combinations(sorted(row.items()), together)}


@given(ROWS, st.integers(1, 3))
def test_rows_that_are_taken_have_every_combination(rows: list[dict[str, int]], together: int) -> None:
    taken = covering(rows, together)
    assert taken == sorted(set(taken))
    assert met([rows[number] for number in taken], together) == met(rows, together)


def test_pairs_need_few_rows() -> None:
    """Four, three and three values: 36 rows, and at least twelve are needed for the pairs of the first two."""
    rows = [dict(zip("abc", each, strict=True)) for each in product(range(4), range(3), range(3))]
    assert [len(covering(rows, together)) for together in (1, 2, 3)] == [4, 12, 36]


def test_another_test_takes_another_case() -> None:
    assert {one(7, f"tests/test_{number}.py::test_that_holds") for number in range(40)} == set(range(7))


@pytest.mark.parametrize("extent", Extent)
def test_number_of_examples_goes_with_the_extent(extent: Extent) -> None:
    before = settings.get_current_profile_name()
    settings.load_profile(extent)
    try:
        assert [examples(50), examples(50, most=60)] == [EXAMPLES[extent], min(EXAMPLES[extent], 60)]
        assert examples(1) >= 1
    finally:
        settings.load_profile(before)


@pytest.mark.parametrize(
    ("line", "extents"),
    [
        ("pytestmark = pytest.mark.slow  # by a clock", [Extent.QUICK]),
        ("pytestmark = [pytest.mark.light, pytest.mark.statistical]", [Extent.QUICK]),
        ("pytestmark = pytest.mark.full", [Extent.QUICK, Extent.TEST]),
        ("pytestmark = pytest.mark.light", []),
        ("pytestmark = pytest.mark.slowly", []),
        ("@pytest.mark.slow", []),
        ("    pytestmark = pytest.mark.slow", []),
    ],
)
def test_file_whose_tests_are_all_left_out_is_not_loaded(line: str, extents: list[Extent]) -> None:
    text = f"import pytest\n\n{line}\n\n\ndef test_that_runs(): ...\n"
    assert [extent for extent in Extent if is_left_out(text, extent)] == extents


TESTS = """
import pytest
product = [pytest.mark.parametrize(name, range(3)) for name in ("one", "two", "three")]

@product[0] @product[1] @product[2]
def test_plain(one, two, three): ...

@pytest.mark.light @product[0] @product[1] @product[2]
def test_light(one, two, three): ...

@pytest.mark.pairwise @product[0] @product[1] @product[2]
def test_pairs(one, two, three): ...

@pytest.mark.slow
def test_slow(): ...

@pytest.mark.statistical
def test_statistical(): ...

@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.full)])
def test_seeds(seed): ...
""".replace(" @", "\n@")

OTHERS = """
import pytest
pytestmark = pytest.mark.statistical

def test_statistical(): ...
"""

RUNS = {
    Extent.QUICK: {"test_plain": 1, "test_light": 3, "test_pairs": 1, "test_seeds": 1},
    Extent.TEST: {
        # Nine cases would do for all pairs; taking the best next one comes near.
        **{"test_plain": 27, "test_light": 27, "test_pairs": 10, "test_seeds": 1},
        **{"test_slow": 1, "test_statistical": 2},
    },
    Extent.FULL: {
        **{"test_plain": 27, "test_light": 27, "test_pairs": 27, "test_seeds": 2},
        **{"test_slow": 1, "test_statistical": 2},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("extent", Extent)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_extent_says_what_runs(extent: Extent, seed: int, tmp_path: Path) -> None:
    """Whatever the order in which the tests arrive: here they are shuffled before the choice, as by a seed."""
    (tmp_path / "test_these.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "test_others.py").write_text(OTHERS, encoding="utf-8")
    options = ["-c", os.devnull, "-W", "ignore", "-p", "selection", "--extent", extent, "--collect-only", "-q"]
    options += [f"--randomly-seed={seed}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Counter(re.findall(r"::(test_\w+)", ran.stdout)) == RUNS[extent]
