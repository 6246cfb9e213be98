"""Files that are packed here are read back by Sail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_files import check_files


def test_files_are_read_back(sail: Any, tmp_path: Path) -> None:
    check_files(sail, tmp_path)
