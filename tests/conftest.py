"""Settings that hold for every test."""

from __future__ import annotations

import gc
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# A deadline measures the machine's other work, and would fail at random. In CI the examples are the same each time, so
# that a change is judged by what it changed; everywhere else hypothesis goes on looking for new ones.
settings.register_profile("sfumato", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "sfumato")


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
