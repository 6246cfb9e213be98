"""The page about Spark is run as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from sfumato import NoticeWarning
from spark_tables import content

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "publish-on-spark.md"


def test_how_to_runs(address: str, sail: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fresh = {name: value for name, value in os.environ.items() if "SPARK" not in name}
    found = {**fresh, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SPARK_REMOTE": address}
    monkeypatch.setenv("SPARK_REMOTE", address)
    scope: dict[str, Any] = {}
    subprocess.run(
        "sfumato demo --rows 2000 --out tour -q", shell=True, check=True, env=found, stdout=subprocess.DEVNULL
    )
    for language, block in re.findall(r"```(console|python)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        if language == "python":
            with warnings.catch_warnings(action="ignore", category=NoticeWarning):
                exec(block, scope)
        else:
            for line in block.splitlines():
                subprocess.run(line.removeprefix("$ "), shell=True, check=True, env=found, stdout=subprocess.DEVNULL)
    assert set(content(tmp_path / "by-spark")) == set(content(tmp_path / "from-files"))
    assert content(tmp_path / "adults").keys() == content(tmp_path / "by-name").keys()
