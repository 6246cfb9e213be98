"""The rows of one column in one group: pages one after the other, and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sfumato._parquet.footer import AboutFields, get_field_value
from sfumato._parquet.thrift_compact import Struct, make_long_number


@dataclass(frozen=True)
class Chunk:
    """Pages, and what is said about them; places are counted from some beginning."""

    data: bytes
    about: Struct

    @property
    def plain_size(self) -> int:
        """How many bytes the pages would have if they were not compressed."""
        return int(get_field_value(self.about, AboutFields.PLAIN_SIZE))

    def moved(self, by: int) -> Self:
        """The same chunk, with places that are counted from elsewhere."""
        places = [place for place in (AboutFields.FIRST_PAGE, AboutFields.DICTIONARY) if place in self.about]
        moved: Struct = {place: make_long_number(get_field_value(self.about, place) + by) for place in places}
        return type(self)(self.data, {**self.about, **moved})
