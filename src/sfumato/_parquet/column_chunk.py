"""The pages of one column in one row group, with their metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sfumato._parquet.footer import MetadataFields, get_field_value
from sfumato._parquet.thrift_compact import Struct, make_long_number


@dataclass(frozen=True)
class Chunk:
    """Pages with their metadata. Positions are relative to the chunk's start."""

    data: bytes
    metadata: Struct

    @property
    def plain_size(self) -> int:
        """The size of the pages in bytes without compression."""
        return int(get_field_value(self.metadata, MetadataFields.PLAIN_SIZE))

    def shift(self, offset: int) -> Self:
        """The same chunk, with positions shifted by an offset."""
        places = [place for place in (MetadataFields.FIRST_PAGE, MetadataFields.DICTIONARY) if place in self.metadata]
        shifted_fields: Struct = {
            place: make_long_number(get_field_value(self.metadata, place) + offset) for place in places
        }
        return type(self)(self.data, {**self.metadata, **shifted_fields})
