from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sfumato._core.ordered_threads import FEWEST_VALUES, map_arrays, map_in_order, read_ahead

pytestmark = pytest.mark.light

LENGTHS = (0, 1, 2, 3, 7)
THREADS = 2


class ReadError(Exception):
    """A source that breaks off."""


def count_to(length: int, *, breaks: bool = False) -> Iterator[int]:
    yield from range(length)
    if breaks:
        raise ReadError


@pytest.mark.parametrize("length", LENGTHS)
def test_items_that_are_read_ahead_are_the_items(length: int) -> None:
    assert list(read_ahead(count_to(length))) == list(range(length))


@pytest.mark.parametrize("length", LENGTHS)
def test_results_come_in_the_order_of_the_items(length: int) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(map_in_order(pool, THREADS, str, count_to(length))) == [str(number) for number in range(length)]


@pytest.mark.parametrize("length", LENGTHS)
def test_error_of_a_reader_is_raised_unchanged(length: int) -> None:
    with pytest.raises(ReadError):
        list(read_ahead(count_to(length, breaks=True)))
    with ThreadPoolExecutor(THREADS) as pool, pytest.raises(ReadError):
        list(map_in_order(pool, THREADS, str, count_to(length, breaks=True)))


@pytest.mark.parametrize("length", LENGTHS)
def test_at_most_the_items_of_the_threads_wait_for_a_reader(length: int) -> None:
    taken = []

    def count() -> Iterator[int]:
        for number in range(length):
            taken.append(number)
            yield number

    with ThreadPoolExecutor(THREADS) as pool:
        for done, _ in enumerate(map_in_order(pool, THREADS, str, count()), 1):
            assert len(taken) <= done + THREADS


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("values", [FEWEST_VALUES - 1, FEWEST_VALUES])
def test_only_large_arrays_are_processed_by_threads(length: int, values: int) -> None:
    threads = map_arrays(lambda _: threading.current_thread(), range(length), values)
    assert len(threads) == length
    assert all((thread is threading.main_thread()) == (values < FEWEST_VALUES) for thread in threads)
