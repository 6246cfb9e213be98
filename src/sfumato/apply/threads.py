"""Several things at once, and their results in order."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextmanager
def loading(modules: Iterable[str]) -> Iterator[None]:
    """Load modules on a thread while something else is done; they are there afterwards, unless that failed.

    Nobody else loads them then: two threads that begin with different parts of a package could meet half-made ones.
    """

    def load() -> None:
        with suppress(ImportError):  # whoever needs them says so
            for name in needed:
                import_module(name)

    needed = [name for name in modules if name not in sys.modules]
    loader = Thread(target=load, daemon=True) if needed else None
    if loader is not None:
        loader.start()
    yield
    if loader is not None:
        loader.join()


def read_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; a thread gets the next one while one is in use."""
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, items, None)
        while (ready := waiting.result()) is not None:
            waiting = reader.submit(next, items, None)
            yield ready


def ordered(
    pool: ThreadPoolExecutor, ahead: int, work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """Work on several items at once, and give the results in order; only so many wait in memory."""
    waiting: deque[Future[Result]] = deque()
    for item in items:
        waiting.append(pool.submit(work, item))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()
