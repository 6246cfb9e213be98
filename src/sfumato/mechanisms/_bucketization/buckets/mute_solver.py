"""A solver that keeps to itself: what its C code prints must not come between what a command prints."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from threading import Lock

STANDARD_OUTPUT = 1
_ONE_AT_A_TIME = Lock()


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """Send to nowhere what is written to the standard output of the process, by whatever language.

    HiGHS has an option to be silent, and some of its lines do not ask for it. What another thread prints in these
    moments is lost too, so nothing but a call of the solver belongs in here.
    """
    with _ONE_AT_A_TIME:
        try:
            saved_output = os.dup(STANDARD_OUTPUT)
        except OSError:  # there is none
            yield
            return
        _flush()
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STANDARD_OUTPUT)
        os.close(nowhere)
        try:
            yield
        finally:
            _flush()  # else the buffer of C would be written later, when the output is back
            os.dup2(saved_output, STANDARD_OUTPUT)
            os.close(saved_output)


def _flush() -> None:
    """Write out what C has in its buffers, where its library can be asked to."""
    with contextlib.suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).fflush(None)
