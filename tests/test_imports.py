"""What is loaded when: nothing that takes long before it is used, no extra, and no tool of the developers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from accepted import OPTIONS
from releases import people

SLOW = ["duckdb", "sqlglot", "scipy"]
EXTRAS = [
    *("pandas", "polars", "pyspark", "starlette", "uvicorn", "frictionless", "opendp"),
    *("python_calamine", "adbc_driver_postgresql", "pyreadstat"),
]
TOOLS = ["hypothesis", "pytest", "mypy", "ruff"]
EVERY_NAME = "import sfumato\nfor name in sfumato.__all__: getattr(sfumato, name)"


def loaded_by(statements: str) -> set[str]:
    """The packages that a fresh interpreter has loaded after some statements, which may end by leaving."""
    indented = statements.replace("\n", "\n    ")
    told = "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    code = f"import sys\ntry:\n    {indented}\nexcept SystemExit as leaving:\n    assert not leaving.code\n{told}"
    # Isolated: nothing of this project's tests, of the working directory or of the environment is on the path.
    ran = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    *_, told = ran.stderr.splitlines()  # after what a command says
    return set(told.split())


def running(*arguments: str) -> str:
    """The statements that run a command."""
    return f"from sfumato.cli import main\nmain({list(arguments)!r})"


def test_import_loads_nothing_that_takes_long() -> None:
    assert loaded_by("import sfumato").isdisjoint([*SLOW, "numpy", "pyarrow", "cryptography", "typer", "rich"])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["publish", "--help"]], ids=" ".join)
def test_help_and_version_load_nothing_that_takes_long(arguments: list[str]) -> None:
    loaded = loaded_by(running(*arguments))
    assert loaded >= {"sfumato", "typer", "rich", "numpy"}
    assert loaded.isdisjoint([*SLOW, *EXTRAS, *TOOLS])


@pytest.mark.slow
def test_library_loads_what_it_needs_when_it_is_used() -> None:
    loaded = loaded_by(EVERY_NAME)
    assert loaded >= {"sfumato", "numpy", "pyarrow", "cryptography", "duckdb", "sqlglot"}
    assert loaded.isdisjoint([*EXTRAS, *TOOLS, "scipy", "typer", "rich"])


@pytest.mark.slow
def test_sums_of_large_tables_load_scipy() -> None:
    assert "scipy" in loaded_by(
        "import numpy as np\n"
        "from sfumato._query.consistency.sum_constraints import Family, SumConstraints\n"
        "SumConstraints([Family(np.array([0, 0]), np.array([3.0]), 'all', str)], 2).matrix"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("mechanism", "request_"), [("buckets", "LinearCap(2, '1/4')"), ("anatomy", "Diversity(2)")])
def test_planning_of_buckets_loads_nothing_that_takes_long(mechanism: str, request_: str) -> None:
    """The solver is there in a hundredth of a second, and scipy, which brings it too, is not needed."""
    loaded = loaded_by(
        "from sfumato import Diversity, Histogram, LinearCap, choose\n"
        "from sfumato._core.random_draws import Draws\n"
        f"histogram, request = Histogram.of('abcde', [9, 8, 7, 5, 4]), {request_}\n"
        f"chosen = choose(histogram, request, Draws.from_fresh_key(), {mechanism!r})\n"
        "chosen.mechanism.explanation.list_remarks(chosen.plan)"
    )
    assert loaded.isdisjoint(SLOW)


def test_program_tells_its_version_before_it_loads_anything() -> None:
    loaded = loaded_by("sys.argv[1:] = ['--version']\nfrom sfumato.cli import program\nprogram()")
    assert loaded.isdisjoint({"numpy", "pyarrow", "typer", "rich", "cryptography"})


@pytest.mark.slow
def test_loaded_packages_are_seen() -> None:
    assert "pandas" in loaded_by("import pandas")


@pytest.mark.slow
def test_program_publishes_and_asks_without_pandas(tmp_path: Path) -> None:
    """pyarrow loads pandas by itself where it is installed, as it is here: see the next test."""
    pq.write_table(people(60), tmp_path / "people.parquet")
    asked = [
        "--sensitive",
        "disease",
        "--prior",
        "1/10",
        "--posterior",
        "1/2",
        "--accept-marginal-prior=made up",
        *OPTIONS,
    ]
    for arguments in (
        ["publish", str(tmp_path / "people.parquet"), *asked, "--out", str(tmp_path / "release")],
        ["query", str(tmp_path / "release"), "SELECT sex, COUNT(*) FROM release WHERE disease = 'flu' GROUP BY sex"],
        ["verify", str(tmp_path / "release")],
    ):
        started = f"sys.argv[1:] = {arguments!r}\nfrom sfumato.cli import program\nprogram()"
        assert loaded_by(started).isdisjoint({"pandas", "scipy"})
    assert (tmp_path / "release" / "data.parquet").exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weights.dta", "weights.sav"])
def test_program_exports_by_pandas(name: str, tmp_path: Path) -> None:
    pq.write_table(people(60), tmp_path / "people.parquet")
    asked = [
        "--sensitive",
        "disease",
        "--prior",
        "1/10",
        "--posterior",
        "1/2",
        "--accept-marginal-prior=made up",
        *OPTIONS,
    ]
    for arguments in (
        ["publish", str(tmp_path / "people.parquet"), *asked, "--out", str(tmp_path / "release")],
        ["export", str(tmp_path / "release"), "--values", "flu", "--out", str(tmp_path / name)],
    ):
        loaded_by(f"sys.argv[1:] = {arguments!r}\nfrom sfumato.cli import program\nprogram()")
    assert (tmp_path / name).stat().st_size > 0


@pytest.mark.slow
def test_conversions_of_the_library_load_pandas_where_it_is_installed() -> None:
    assert "pandas" in loaded_by("import pyarrow as pa; pa.array([1])")
