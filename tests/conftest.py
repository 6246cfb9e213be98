"""Settings that hold for every test."""

from __future__ import annotations

import atexit
import gc
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import pytest_sessionfinish
from selection import pytest_addoption, pytest_collection_modifyitems, pytest_configure, pytest_ignore_collect

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_ignore_collect",
    "pytest_sessionfinish",
]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[object]:
    """Collect without looking for garbage, and never again in what was collected: that took a tenth of a short run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.set_threshold(20_000)  # tests leave little garbage, and much that stays
        gc.freeze()
        atexit.register(gc.unfreeze)  # what was collected holds connections, and they are to be put away


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory, with a place for temporary files that must be empty again afterwards."""
    folder, temporary = tmp_path / "desk", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(folder)
    yield folder
    if any(temporary.iterdir()):
        gc.collect()  # a release that was unpacked goes with its last reference
    assert list(temporary.iterdir()) == []


@pytest.fixture
def plain_signals() -> Iterator[None]:
    """Signals as a terminal has them: under `nohup` some are ignored, and a child would inherit that."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
