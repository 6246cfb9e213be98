"""Whatever a solver prints from C, nothing of it comes between what a command prints."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pytest
import scipy.optimize

from command_line import succeed
from sfumato.mechanisms.buckets.silence import silenced


def chat() -> None:
    """Print as C does: into its own buffer, and at once."""
    ctypes.CDLL(None).printf(b"a line of the solver\n")
    os.write(1, b"another line\n")


def test_what_c_prints_is_not_heard(capfd: pytest.CaptureFixture[str]) -> None:
    with silenced():
        chat()
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_output_is_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), silenced():
        raise ZeroDivisionError
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_solver_that_prints_is_not_heard(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = set()
    for name in ("linprog", "milp"):

        def chatty(*given: Any, name: str = name, solve: Any = getattr(scipy.optimize, name), **named: Any) -> Any:
            called.add(name)
            chat()
            return solve(*given, **named)

        monkeypatch.setattr(scipy.optimize, name, chatty)
    counts = tmp_path / "counts.csv"
    counts.write_text("value,count\n" + "".join(f"v{at},{200 - 3 * at}\n" for at in range(40)))
    command = ["plan", "--counts", str(counts), "--cap-factor", "3", "--cap-offset", "1/50", "--sizes", "optimal"]
    assert succeed(*command, "--json").json["mechanism"] == "buckets"
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""
    assert called == {"linprog", "milp"}
