"""Writes the journal of publications, under a lock and only at the end of the file.

A line is on the disk before its release.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sfumato._core.json_types import JsonView
from sfumato._core.small_text_files import read_small
from sfumato._core.software_version import read_software_version
from sfumato._planning.plan_file import OTHERS_RIGHTS
from sfumato._publish.journal import ENDED, Journal, JournalEntry, JournalOutcome, parse_journal
from sfumato._publish.request import Request
from sfumato._release.staging import sync
from sfumato._terminal_safe import hide_passwords
from sfumato.errors import ReleaseFormatError, SfumatoError, TargetError, explain_os_error


@dataclass
class JournalClaim:
    """The lock of a run on its journal. Only this run may add lines. Without a journal, nothing is recorded."""

    journal: Journal | None = None
    descriptor: int = -1

    @property
    def head(self) -> str | None:
        """The digest of the last line. None without a journal."""
        return None if self.journal is None else self.journal.head

    @contextmanager
    def record(self, entry: JournalEntry, is_published: Callable[[], bool]) -> Iterator[None]:
        """Records the facts of a publication before its release appears, and afterwards whether it appeared."""
        if self.journal is None:
            yield
            return
        self._append({**entry.facts, "publication": len(self.journal.entries) + 1})
        try:
            yield
        except BaseException:
            with suppress(OSError, SfumatoError):  # the outcome then stays unknown, and the first error is reported
                self._end(JournalOutcome.PUBLISHED if is_published() else JournalOutcome.NOT_PUBLISHED)
            raise
        try:
            self._end(JournalOutcome.PUBLISHED)
        except TargetError as error:
            raise TargetError(f"the release was written to {entry.target!r}, but not its outcome: {error}") from error

    def _end(self, outcome: JournalOutcome) -> None:
        if self.journal is not None:
            self._append({"publication": len(self.journal.entries), "event": ENDED, "time": _now(), "outcome": outcome})

    def _append(self, facts: JsonView) -> None:
        """Adds a line, and waits until it is on the disk. A line that was written only in part is removed again."""
        if self.journal is None:
            return
        line, journal = self.journal.add_line(facts)
        size = os.fstat(self.descriptor).st_size
        try:
            if os.write(self.descriptor, line + b"\n") <= len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # only a part was written
            os.fsync(self.descriptor)
            sync(journal.path.absolute().parent)  # for the name of a new file
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self.descriptor, size)
            raise _make_error(journal.path, f"cannot be written: {explain_os_error(error)}.") from error
        self.journal = journal


def make_entry(request: Request, target: str | Path, release_digest: str, mechanism: str) -> JournalEntry:
    """The facts of a publication. The facts contain no value of the table, and not the key."""
    return JournalEntry(
        number=0,  # the journal numbers its publications
        time=_now(),
        user=_find_user_name(),
        software=read_software_version(),
        request=request.digest,
        release=release_digest,
        target=hide_passwords(str(target)),
        mechanism=mechanism,
        bound=request.spec.sentence,
        accepted=request.accepted_risks.to_json(),
    )


@contextmanager
def claim_journal(path: Path | None) -> Iterator[JournalClaim]:
    """Locks a journal until the release is written. Refuses a damaged journal before anything is read or drawn.

    A new journal is created empty, readable only by its owner. If nothing was recorded, it is removed again. A killed
    run leaves the file empty, and the next run uses it.
    """
    if path is None:
        yield JournalClaim()
        return
    descriptor = _open_journal(path)
    try:
        yield JournalClaim(_read_whole(path, descriptor), descriptor)
    finally:
        with suppress(OSError):
            status = os.fstat(descriptor)
            is_blank = stat.S_ISREG(status.st_mode) and status.st_size == 0
            if is_blank and os.path.samestat(status, path.lstat()):
                path.unlink()
        os.close(descriptor)


def _open_journal(path: Path) -> int:
    """A locked descriptor of the journal. The file is created if necessary."""
    while True:
        try:
            descriptor = os.open(
                path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, stat.S_IRUSR | stat.S_IWUSR
            )
        except OSError as error:
            raise _make_error(path, f"cannot be opened: {explain_os_error(error)}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BlockingIOError as error:
            os.close(descriptor)
            raise _make_error(path, "is in use by another run; publish again when that run has ended.") from error
        except OSError as error:
            os.close(descriptor)
            raise _make_error(path, f"cannot be locked: {explain_os_error(error)}.") from error
        os.close(descriptor)  # another run removed it before this run had the lock


def _read_whole(path: Path, descriptor: int) -> Journal:
    """The journal, if it is a private file and its chain is intact."""
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        raise _make_error(path, "is not a file; name a new one.")
    if mode & OTHERS_RIGHTS:
        raise _make_error(
            path, f"can be read or written by other users; make it private with `chmod 600 {shlex.quote(str(path))}`."
        )
    journal = parse_journal(path, read_small(path, f"the journal {str(path)!r}", ReleaseFormatError))
    if not journal.is_intact:
        raise ReleaseFormatError(
            f"{journal.problem} Nothing was published; restore the journal from a copy, or name a new one.",
            code="journal-damaged",
            fields={"line": journal.bad_line},
        )
    return journal


def _make_error(path: Path, problem: str) -> TargetError:
    return TargetError(f"the journal {str(path)!r} {problem}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _find_user_name() -> str:
    """The user name of the operating system, or the number of a user without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
