"""A table that can be published, and a release of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import people, publishing, succeed, write_csv


@pytest.fixture
def table(desk: Path) -> Path:
    """A table that can be published."""
    return write_csv(desk / "people.csv", people())


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release that nobody changes."""
    folder = tmp_path_factory.mktemp("published")
    write_csv(folder / "people.csv", people())
    succeed(*publishing(folder / "people.csv", out=folder / "release"))
    return folder / "release"


@pytest.fixture
def release(desk: Path, published: Path) -> Path:
    """A release of one's own."""
    return Path(shutil.copytree(published, desk / "release"))
