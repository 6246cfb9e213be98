"""Importing sfumato loads what it needs, and no extra and no tool of its developers."""

from __future__ import annotations

import subprocess
import sys

import pytest

EXTRAS = ["pandas", "polars", "pyspark", "starlette", "uvicorn", "frictionless", "opendp"]
TOOLS = ["hypothesis", "pytest", "scipy", "mypy", "ruff"]


def loaded_by(statement: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    # Isolated: nothing of this project's tests, of the working directory or of the environment is on the path.
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
    return set(ran.stdout.split())


@pytest.fixture(scope="module", params=["import sfumato", "import sfumato.cli"])
def loaded(request: pytest.FixtureRequest) -> set[str]:
    return loaded_by(request.param)


def test_import_loads_what_the_library_needs(loaded: set[str]) -> None:
    assert {"sfumato", "pyarrow", "duckdb", "cryptography", "sqlglot"} <= loaded


@pytest.mark.parametrize("package", [*EXTRAS, *TOOLS])
def test_import_does_not_load(loaded: set[str], package: str) -> None:
    assert package not in loaded


def test_loaded_packages_are_seen() -> None:
    assert "pandas" in loaded_by("import pandas")


def test_library_does_not_load_the_command_line() -> None:
    assert {"typer", "rich"}.isdisjoint(loaded_by("import sfumato"))
