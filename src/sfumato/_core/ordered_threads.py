"""Runs tasks in parallel and returns their results in order.

Most tables are small, with one batch of a few rows. Starting a thread then takes longer than the work itself, so small
work runs without threads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

FEWEST_VALUES = 1 << 14
"""Arrays with fewer values are processed without threads."""


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yields the items unchanged, while a thread fetches the next item. The first two items need no thread."""
    queue = deque(islice(items, 2))
    if len(queue) < 2:  # noqa: PLR2004 - there is nothing to read ahead
        yield from queue
        return
    yield queue.popleft()
    with ThreadPoolExecutor(1) as reader:
        future = reader.submit(next, items, None)
        yield queue.popleft()
        while (item := future.result()) is not None:
            future = reader.submit(next, items, None)
            yield item


def map_in_order(
    pool: ThreadPoolExecutor, ahead: int, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Works on several items in parallel, and yields the results in order. A single item needs no thread.

    Only a limited number of results waits in memory.
    """
    unread = iter(items)
    queue = deque(islice(unread, 2))
    if len(queue) < 2:  # noqa: PLR2004 - there is nothing to do in parallel
        yield from map(work, queue)
        return
    futures: deque[Future[Result]] = deque()
    while queue:
        futures.append(pool.submit(work, queue.popleft()))
        if len(futures) > ahead:
            yield futures.popleft().result()
        queue.extend(islice(unread, 0 if queue else 1))
    while futures:
        yield futures.popleft().result()


def map_arrays(work: Callable[[Item], Result], items: Iterable[Item], values: int) -> list[Result]:
    """Applies a function to each item, and returns the results in order. A call processes arrays of `values` values.

    With many values, numpy takes most of the time and holds no lock, so that threads help.
    """
    if values < FEWEST_VALUES:
        return list(map(work, items))
    with ThreadPoolExecutor() as pool:
        return list(pool.map(work, items))
