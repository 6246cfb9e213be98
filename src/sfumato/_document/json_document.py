"""Renders a document as JSON. Each block has its kind, its texts and its numbers. A figure is replaced by its data."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from sfumato._document.document import Document, Picture


def render_json(document: Document) -> dict[str, Any]:
    """Renders the whole document. A layout in columns becomes a list of sections."""
    return {
        "title": document.title,
        "subtitle": document.subtitle,
        "private": document.is_private,
        "sections": [
            {"heading": section.heading, "blocks": [_render_value(block) for block in section.blocks]}
            for section in document.flat_sections
        ],
        "ending": document.ending,
    }


def _render_value(value: Any) -> Any:
    if isinstance(value, Picture):
        return _render_picture(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_render_value(part) for part in value]
    if is_dataclass(value) and not isinstance(value, type):
        entries = {field.name: _render_value(getattr(value, field.name)) for field in fields(value)}
        return {"kind": _name_kind(value), **entries}
    return value


def _render_picture(picture: Picture) -> dict[str, Any]:
    figure = picture.draw(picture.widest)
    return {
        "kind": _name_kind(picture),
        "reading": figure.reading,
        "headings": [column.heading for column in figure.table.columns],
        "rows": [list(row) for row in figure.table.formatted_rows],
    }


def _name_kind(value: object) -> str:
    """The kind of a block, such as `data-table` for `DataTable`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", type(value).__name__).lower()
