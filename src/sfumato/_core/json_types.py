"""Types of JSON documents. Their values have no static type, so they are checked when they are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
"""A JSON object to write."""

JsonView = Mapping[str, Any]
"""A JSON object that was read."""
