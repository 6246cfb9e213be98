"""Names the types of JSON documents: their values have no static type, and are checked where they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""A JSON object that is written."""

JsonView = Mapping[str, Any]
"""A JSON object that is read."""
