"""Modules are loaded beside other work, by a thread that nobody has to think of."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from sfumato.apply.threads import loading


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that takes a moment to load, and is forgotten after the test."""
    name = "takes_a_moment"
    (tmp_path / f"{name}.py").write_text("import time\ntime.sleep(0.2)\nis_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, name, sys)  # so that it is taken out again
    monkeypatch.delitem(sys.modules, name)
    return name


def test_module_is_whole_after_the_work(module: str) -> None:
    with loading([module]):
        is_beside = threading.active_count() > 1
    assert is_beside
    assert sys.modules[module].is_whole


def test_module_that_is_there_takes_no_thread() -> None:
    before = threading.active_count()
    with loading(["json"]):
        assert threading.active_count() == before


def test_module_that_is_missing_is_for_others_to_miss() -> None:
    with loading(["there_is_no_such_module"]):
        pass


def test_failed_work_waits_for_no_module(module: str) -> None:
    with pytest.raises(ValueError, match="bad"), loading([module]):
        raise ValueError("bad")
    assert not getattr(sys.modules.get(module), "is_whole", False)
    for thread in threading.enumerate():  # before the test forgets the module
        if thread.daemon and thread is not threading.current_thread():
            thread.join(5)
