"""A table that can be published, a release of it, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from command_line import people, publishing, succeed, write_csv
from needs import needs


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


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    program = needs("chromium", "chromium-browser", "google-chrome")
    with sync_playwright() as driver:
        started = driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
        )
        yield started
        started.close()
