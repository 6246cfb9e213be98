"""The rows of one column in one group: pages one after the other, and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sfumato._parquet.footer import MetadataFields, get_field_value
from sfumato._parquet.thrift_compact import Struct, make_long_number


@dataclass(frozen=True)
class Chunk:
    """Pages, and what is said about them; places are counted from some beginning."""

    data: bytes
    metadata: Struct

    @property
    def plain_size(self) -> int:
        """How many bytes the pages would have if they were not compressed."""
        return int(get_field_value(self.metadata, MetadataFields.PLAIN_SIZE))

    def shift(self, offset: int) -> Self:
        """The same chunk, with places that are counted from elsewhere."""
        places = [place for place in (MetadataFields.FIRST_PAGE, MetadataFields.DICTIONARY) if place in self.metadata]
        shifted_fields: Struct = {
            place: make_long_number(get_field_value(self.metadata, place) + offset) for place in places
        }
        return type(self)(self.data, {**self.metadata, **shifted_fields})
