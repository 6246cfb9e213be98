"""What is said of small sums follows from the numbers."""

from __future__ import annotations

import numpy as np
import pytest

from papers.measured_errors import MeanError
from papers.query_pools import make_small_band
from papers.splu_gen import splu_figures
from papers.splu_gen.band_errors import BandError, BandErrors, describe_range, format_sizes
from papers.splu_gen.query_trials import ANATOMY, DBR, LAPLACE, PRINTED


def errors(printed: dict[int, float], others: float = 1.0) -> BandErrors:
    """The printed iteration by group size, beside others that all have the same error."""
    found = [(size, PRINTED, error) for size, error in printed.items()]
    found += [(size, name, others) for size in printed for name in (ANATOMY, DBR, *LAPLACE)]
    return BandErrors(
        [BandError(size, make_small_band(), name, MeanError(error, 0.0, 10)) for size, name, error in found]
    )


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({2: 0.5, 5: 1.5, 10: 2.0}, "the highest of all from groups of 5 on"),
        ({2: 1.5, 5: 0.5, 10: 2.0}, "the highest of all from groups of 10 on"),
        ({2: 1.5, 5: 1.5, 10: 1.0}, "never the highest of all"),
        ({2: 1.5, 5: 1.5, 10: np.nan}, "never the highest of all"),
    ],
)
def test_the_highest_is_so_at_every_larger_size_too(printed: dict[int, float], expected: str) -> None:
    first = splu_figures._find_highest_start(errors(printed), list(printed))
    assert splu_figures._describe_highest(first) == expected


def test_the_least_and_the_largest_error_are_read() -> None:
    assert describe_range(errors({5: 2.0}), 5) == "In groups of 5 the errors go from 100% (Anatomy) to 200% (printed)."


def test_neighbouring_sizes_are_a_range() -> None:
    assert [format_sizes(each) for each in ([2, 3], [4, 5, 6], [2, 4, 5])] == ["2, 3", "4 to 6", "2, 4, 5"]
