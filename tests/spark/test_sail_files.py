"""Files that are packed here are read back by Sail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_files import check_files


def test_files_are_read_back(sail: Any, tmp_path: Path) -> None:
    """Sail takes unsigned numbers for signed ones, whoever wrote them."""
    check_files(sail, tmp_path, left_out=[pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()])
