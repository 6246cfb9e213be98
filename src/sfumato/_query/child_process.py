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
from sfumato._query.attached_tables import read_attached_table
from sfumato._query.batch_queries import Outcome, Progress, stream_answers
from sfumato._query.connection import OpenRelease
from sfumato._query.consistent_answers import make_adjusting
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
            {name: read_attached_table(name, path) for name, path in self.attach.items()},
            self.limits,
            self.method,
            self.simultaneous,
            make_adjusting(consistent=self.consistent, totals=self.totals),
        )


def ask_apart(asking: Asking, progress: Progress = lambda done, total: None) -> list[Outcome]:
    """Answer every question, in their order; one that is not answered in time gives its error.

    A question that does not stop when its time is over is ended with its process, and another one goes on.
    """
    outcomes: dict[int, Outcome] = {}
    progress(0, len(asking.questions))
    while len(outcomes) < len(asking.questions):
        waiting = [number for number in range(len(asking.questions)) if number not in outcomes]
        for at, answer in _receive_answers(asking, [asking.questions[number] for number in waiting]):
            outcomes[waiting[at]] = answer
            progress(len(outcomes), len(asking.questions))
    return [outcomes[number] for number in range(len(asking.questions))]


def _receive_answers(asking: Asking, questions: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
    """Answers as they come from one child; the last is an error, where a question ends the child."""
    context: Any = multiprocessing.get_context(START)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_ask, args=(asking, questions, theirs), daemon=True)
    try:
        with _defer_interrupts(), warnings.catch_warnings():
            # Python warns of threads that are not copied. Those of numpy and Arrow are made anew in a copy, by their
            # own care, and a command has no others yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
        theirs.close()
        yield from _read_answers(ours, asking, len(questions))
    finally:
        if child.pid is not None:
            child.kill()
            child.join()
        ours.close()


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Let interrupts come afterwards: Python runs hooks while it copies a process, and what they raise is lost."""
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        yield
        return
    came: list[int] = []
    handlers = {
        signal_number: signal.signal(signal_number, lambda number, _: came.append(number))
        for signal_number in INTERRUPTS
    }
    try:
        yield
    finally:
        for signal_number, handler in handlers.items():
            signal.signal(signal_number, handler)
        for number in came:
            signal.raise_signal(number)


def _read_answers(child: Connection, asking: Asking, missing: int) -> Iterator[tuple[int, Outcome]]:
    """Answers as a child tells them, until none is missing or a question has ended it."""
    current_question, ends = None, math.inf
    while missing:
        while not child.poll(min(max(ends - time.monotonic(), 0.0), LONG)):
            if time.monotonic() >= ends and current_question is not None:
                yield current_question, asking.limits.too_long
                return
        try:
            word, number, content = child.recv()
        except EOFError:
            lost = QueryError("the question was ended from outside, perhaps because memory is full; ask for less.")
            if current_question is None:
                raise lost from None
            yield current_question, lost
            return
        if word == FAILED:
            raise content
        if word == BEGUN:
            current_question, ends = number, time.monotonic() + asking.timeout + GRACE
        elif word == ENDED:
            ends = math.inf  # what is left is to hand over the answer
        else:
            current_question, missing = None, missing - 1
            yield number, content


def _ask(asking: Asking, questions: Sequence[str], parent: Connection) -> None:
    """Ask, in the child, and tell the parent."""
    gc.freeze()  # what the parent holds is not ours to put away: its threads are not here
    for signal_number in (signal.SIGINT, signal.SIGHUP):  # the parent hears of them too, and ends its child
        signal.signal(signal_number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def begins(number: int) -> None:
        parent.send((BEGUN, number, None))

    try:
        asker = asking.asker()
        for number, answer in (
            stream_answers(asker, questions, begins) if asking.is_batch else _answer_single(asker, questions, begins)
        ):
            parent.send((ENDED, number, None))
            parent.send((ANSWERED, number, answer))
    except Exception as error:
        parent.send((FAILED, None, error))


def _answer_single(
    asker: Asker, questions: Sequence[str], begins: Callable[[int], None]
) -> Iterator[tuple[int, Outcome]]:
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
