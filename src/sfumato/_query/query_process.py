"""Runs questions in a separate process. The process is killed if the time is over.

Within one process, a question stops only where the code checks the clock. So a command can give the question to a child
process, which can be killed at any point.
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

from sfumato._query.attached_tables import read_attached_table
from sfumato._query.batch_queries import Outcome, Progress, stream_answers
from sfumato._query.consistent_answers import make_adjuster
from sfumato._query.duckdb_session import OpenRelease
from sfumato._query.query_limits import DEFAULT_SECONDS, Limits
from sfumato._query.query_runner import QueryRunner
from sfumato._query.release import Release
from sfumato._readers.reader import AnyTable
from sfumato.errors import QueryError

GRACE = 1.0
"""How many seconds a question gets to stop by itself."""
MAX_WAIT = 60.0
"""The longest time in seconds of a single wait."""
START_METHOD = "fork" if sys.platform == "linux" else "spawn"
"""The way to start a process. A fork starts at once. If forking is not safe, a new process loads everything again."""

INTERRUPTS = (signal.SIGINT, signal.SIGTERM)

BEGUN, ENDED, ANSWERED, FAILED = "begun", "ended", "answered", "failed"
"""The messages from a child: a question begins, a question ends, an answer, or the reason why the child stops."""


@dataclass(frozen=True)
class QueryJob:
    """A release and its questions, in a form that can be sent to another process."""

    release: Release
    questions: tuple[str, ...]
    is_batch: bool
    method: str | None = None
    attached_paths: Mapping[str, Path] = field(default_factory=dict)
    is_simultaneous: bool = False
    is_consistent: bool = False
    totals: Sequence[AnyTable] = ()
    timeout: float = DEFAULT_SECONDS
    folder: Path = field(init=False)
    """The folder of the files.

    Files in a store are fetched before the fork, because a child has no threads for this.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", self.release.folder)

    @property
    def limits(self) -> Limits:
        """The limits of each question."""
        return Limits(self.timeout)

    def make_runner(self) -> QueryRunner:
        """Builds a query runner, with the attached tables read."""
        return QueryRunner(
            OpenRelease(self.release.manifest, self.folder),
            {name: read_attached_table(name, path) for name, path in self.attached_paths.items()},
            self.limits,
            self.method,
            self.is_simultaneous,
            make_adjuster(consistent=self.is_consistent, totals=self.totals),
        )


def ask_in_child(job: QueryJob, progress: Progress = lambda done, total: None) -> list[Outcome]:
    """Answers every question in order. A question that takes too long yields its error.

    If a question does not stop in time, its process is killed, and another process continues with the next question.
    """
    outcomes: dict[int, Outcome] = {}
    progress(0, len(job.questions))
    while len(outcomes) < len(job.questions):
        open_numbers = [number for number in range(len(job.questions)) if number not in outcomes]
        for position, answer in _receive_answers(job, [job.questions[number] for number in open_numbers]):
            outcomes[open_numbers[position]] = answer
            progress(len(outcomes), len(job.questions))
    return [outcomes[number] for number in range(len(job.questions))]


def _receive_answers(job: QueryJob, questions: Sequence[str]) -> Iterator[tuple[int, Outcome]]:
    """Yields the answers of one child as they arrive. If a question ends the child, the last answer is an error."""
    context: Any = multiprocessing.get_context(START_METHOD)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_ask, args=(job, questions, theirs), daemon=True)
    try:
        with _defer_interrupts(), warnings.catch_warnings():
            # Python warns about threads that a fork does not copy. numpy and Arrow recreate their threads after a fork,
            # and a command has no other threads yet.
            warnings.simplefilter("ignore", DeprecationWarning)
            child.start()
        theirs.close()
        yield from _read_answers(ours, job, len(questions))
    finally:
        if child.pid is not None:
            child.kill()
            child.join()
        ours.close()


@contextmanager
def _defer_interrupts() -> Iterator[None]:
    """Defers interrupts during a fork.

    Python runs hooks during a fork, and an exception in a hook would be lost.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    pending_signals: list[int] = []
    handlers = {
        signal_number: signal.signal(signal_number, lambda number, _: pending_signals.append(number))
        for signal_number in INTERRUPTS
    }
    try:
        yield
    finally:
        for signal_number, handler in handlers.items():
            signal.signal(signal_number, handler)
        for number in pending_signals:
            signal.raise_signal(number)


def _read_answers(child: Connection, job: QueryJob, missing_count: int) -> Iterator[tuple[int, Outcome]]:
    """Yields the answers that a child sends. Ends after the last answer, or after a question has ended the child."""
    current_question, deadline = None, math.inf
    while missing_count:
        while not child.poll(min(max(deadline - time.monotonic(), 0.0), MAX_WAIT)):
            if time.monotonic() >= deadline and current_question is not None:
                yield current_question, job.limits.timeout_error
                return
        try:
            event, number, content = child.recv()
        except EOFError:
            lost_error = QueryError(
                "the question was stopped from outside, perhaps because the memory is full; select fewer rows, "
                "columns or groups.",
                code="process-ended",
            )
            if current_question is None:
                raise lost_error from None
            yield current_question, lost_error
            return
        if event == FAILED:
            raise content
        if event == BEGUN:
            current_question, deadline = number, time.monotonic() + job.timeout + GRACE
        elif event == ENDED:
            deadline = math.inf  # only the answer is left to send
        else:
            current_question, missing_count = None, missing_count - 1
            yield number, content


def _ask(job: QueryJob, questions: Sequence[str], parent: Connection) -> None:
    """Runs in the child: asks the questions and sends the answers to the parent."""
    gc.freeze()  # objects of the parent must not be collected here, because their threads do not exist
    for signal_number in (signal.SIGINT, signal.SIGHUP):  # the parent receives the interrupt too, and ends its child
        signal.signal(signal_number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def report_begin(number: int) -> None:
        parent.send((BEGUN, number, None))

    try:
        runner = job.make_runner()
        for number, answer in (
            stream_answers(runner, questions, report_begin)
            if job.is_batch
            else _answer_single(runner, questions, report_begin)
        ):
            parent.send((ENDED, number, None))
            parent.send((ANSWERED, number, answer))
    except Exception as error:
        parent.send((FAILED, None, error))


def _answer_single(
    runner: QueryRunner, questions: Sequence[str], on_begin: Callable[[int], None]
) -> Iterator[tuple[int, Outcome]]:
    """Yields the answer to a single question. An error of the question becomes an error of the command."""
    for number, sql in enumerate(questions):
        on_begin(number)
        yield number, runner.ask(sql)


def _end_with_parent() -> None:
    """Ends this process if its parent no longer exists. No question then runs longer than the command."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
