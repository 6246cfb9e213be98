"""Fixtures that several unit tests share."""

from __future__ import annotations

import pytest

from hospitals import Published, hospital_in


@pytest.fixture(scope="session")
def hospital_release(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """A release of the hospital table, by `uniform`."""
    return hospital_in(tmp_path_factory.mktemp("hospital") / "release")
