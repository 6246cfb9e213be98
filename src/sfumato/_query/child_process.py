"""Questions asked in a process of their own, which is ended when time is over, whatever it is doing.

Inside one process, a question is only stopped where somebody looks at the clock. A command can do better: it leaves the
question to a child, and the child cannot refuse to be ended.
"""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from sfumato._query.answering import Asker
from sfumato._query.attached_tables import attached
from sfumato._query.batch_queries import Found, Progress, answered
from sfumato._query.connection import OpenRelease
from sfumato._query.consistent_answers import adjusting
from sfumato._query.query_limits import DEFAULT_SECONDS, Limits
from sfumato._query.release import Release
from sfumato.errors import QueryError

GRACE = 1.0
"""How many seconds a question has to stop by itself."""
LONG = 60.0
"""How many seconds to wait at once."""
START = "fork" if sys.platform == "linux" else "spawn"
"""A copy of this process is there at once; where that is not safe, a new one loads everything again."""

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)

BEGUN, ENDED, ANSWERED, FAILED = "begun", "ended", "answered", "failed"
"""What a child says: that a question begins, that it ends, its answer, or why it asks no more questions."""


@dataclass(frozen=True)
class Asking:
    """Everything that is asked of a release, as it can be given to another process."""

    release: Release
    questions: tuple[str, ...]
    is_batch: bool
    method: str | None = None
    attach: Mapping[str, Path] = field(default_factory=dict)
    simultaneous: bool = False
    consistent: bool = False
    totals: Sequence[Any] = ()
    timeout: float = DEFAULT_SECONDS
    folder: Path = field(init=False)
    """Where the files are: of a release in a store, fetched before a child is made, which has no threads to do it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.release.folder)

    @property
    def limits(self) -> Limits:
        """What each question may take."""
        return Limits(self.timeout)

    def asker(self) -> Asker:
        """Who asks, with the attached tables read."""
        return Asker(
            OpenRelease(self.release.manifest, self.folder),
            {name: attached(name, path) for name, path in self.attach.items()},
            self.limits,
            self.method,
            self.simultaneous,
            adjusting(consistent=self.consistent, totals=self.totals),
        )


def ask_apart(asking: Asking, progress: Progress = lambda done, total: None) -> list[Found]:
    """Answer every question, in their order; one that is not answered in time gives its error.

    A question that does not stop when its time is over is ended with its process, and another one goes on.
    """
    found: dict[int, Found] = {}
    progress(0, len(asking.questions))
    while len(found) < len(asking.questions):
        waiting = [number for number in range(len(asking.questions)) if number not in found]
        for at, answer in _answers(asking, [asking.questions[number] for number in waiting]):
            found[waiting[at]] = answer
            progress(len(found), len(asking.questions))
    return [found[number] for number in range(len(asking.questions))]


def _answers(asking: Asking, questions: Sequence[str]) -> Iterator[tuple[int, Found]]:
    """Answers as they come from one child; the last is an error, where a question ends the child."""
    context: Any = multiprocessing.get_context(START)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_ask, args=(asking, questions, theirs), daemon=True)
    try:
        with _interrupts_wait(), warnings.catch_warnings():
            # Python warns of threads that are not copied. Those of numpy and Arrow are made anew in a copy, by their
            # own care, and a command has no others yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
        theirs.close()
        yield from _heard(ours, asking, len(questions))
    finally:
        if child.pid is not None:
            child.kill()
            child.join()
        ours.close()


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Let interrupts come afterwards: Python runs hooks while it copies a process, and what they raise is lost."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    came: list[int] = []
    handlers = {each: signal.signal(each, lambda number, _: came.append(number)) for each in INTERRUPTS}
    try:
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        for number in came:
            signal.raise_signal(number)


def _heard(child: Connection, asking: Asking, missing: int) -> Iterator[tuple[int, Found]]:
    """Answers as a child tells them, until none is missing or a question has ended it."""
    asked, ends = None, math.inf
    while missing:
        while not child.poll(min(max(ends - time.monotonic(), 0.0), LONG)):
            if time.monotonic() >= ends and asked is not None:
                yield asked, asking.limits.too_long
                return
        try:
            word, number, said = child.recv()
        except EOFError:
            lost = QueryError("the question was ended from outside, perhaps because memory is full; ask for less.")
            if asked is None:
                raise lost from None
            yield asked, lost
            return
        if word == FAILED:
            raise said
        if word == BEGUN:
            asked, ends = number, time.monotonic() + asking.timeout + GRACE
        elif word == ENDED:
            ends = math.inf  # what is left is to hand over the answer
        else:
            asked, missing = None, missing - 1
            yield number, said


def _ask(asking: Asking, questions: Sequence[str], parent: Connection) -> None:
    """Ask, in the child, and tell the parent."""
    gc.freeze()  # what the parent holds is not ours to put away: its threads are not here
    for each in (signal.SIGINT, signal.SIGHUP):  # the parent hears of them too, and ends its child
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def begins(number: int) -> None:
        parent.send((BEGUN, number, None))

    try:
        asker = asking.asker()
        for number, answer in (
            answered(asker, questions, begins) if asking.is_batch else _alone(asker, questions, begins)
        ):
            parent.send((ENDED, number, None))
            parent.send((ANSWERED, number, answer))
    except Exception as error:
        parent.send((FAILED, None, error))


def _alone(asker: Asker, questions: Sequence[str], begins: Callable[[int], None]) -> Iterator[tuple[int, Found]]:
    """The answer of a question that is no batch: its error is the error of the whole."""
    for number, sql in enumerate(questions):
        begins(number)
        yield number, asker.ask(sql)


def _end_with_parent() -> None:
    """End this process when its parent is gone, so that no question outlives who asked it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
