"""Runs tasks in parallel and returns their results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Yields the items unchanged, while a thread already fetches the next one."""
    with ThreadPoolExecutor(1) as reader:
        future = reader.submit(next, items, None)
        while (item := future.result()) is not None:
            future = reader.submit(next, items, None)
            yield item


def map_in_order(
    pool: ThreadPoolExecutor, ahead: int, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Works on several items in parallel, and yields the results in order.

    Only a limited number of results waits in memory.
    """
    futures: deque[Future[Result]] = deque()
    for item in items:
        futures.append(pool.submit(work, item))
        if len(futures) > ahead:
            yield futures.popleft().result()
    while futures:
        yield futures.popleft().result()
