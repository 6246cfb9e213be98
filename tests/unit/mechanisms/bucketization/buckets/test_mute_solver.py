"""Whatever a solver prints from C, nothing of it comes between what a command prints."""

from __future__ import annotations

import ctypes
import os
from functools import partial
from pathlib import Path
from typing import Any

import highspy
import pytest
import scipy.optimize

from command_line import succeed
from sfumato.mechanisms._bucketization.buckets.relaxation import silence_output


def chat() -> None:
    """Print as C does: into its own buffer, and at once."""
    ctypes.CDLL(None).printf(b"a line of the solver\n")
    os.write(1, b"another line\n")


def test_what_c_prints_is_not_heard(capfd: pytest.CaptureFixture[str]) -> None:
    with silence_output():
        chat()
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_output_is_back_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError), silence_output():
        raise ZeroDivisionError
    os.write(1, b"heard")
    assert capfd.readouterr().out == "heard"


def test_solver_that_prints_is_not_heard(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []

    def chatty(name: str, solve: Any, *given: Any, **named: Any) -> Any:
        called.append(name)
        chat()
        return solve(*given, **named)

    monkeypatch.setattr(scipy.optimize, "milp", partial(chatty, "milp", scipy.optimize.milp))
    run = highspy.Highs.run
    monkeypatch.setattr(highspy.Highs, "run", lambda solver: chatty("run", run, solver))
    counts = tmp_path / "counts.csv"
    counts.write_text("value,count\n" + "".join(f"v{at},{1000 // (at + 1) + 7 * at % 30 + 1}\n" for at in range(60)))
    command = ["plan", "--counts", str(counts), "--cap-factor", "2", "--cap-offset", "1/20", "--sizes", "optimal"]
    assert succeed(*command, "--json").json["mechanism"] == "buckets"
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""
    assert set(called) == {"run", "milp"}
