"""Finds the places of an original table's true values in the domain of its release."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato._core.array_types import Codes
from sfumato._records import Naming
from sfumato._records.column_codes import decode_dictionary, encode_values
from sfumato.errors import ReleaseFormatError


def find_domain_places(naming: Naming, table: pa.Table) -> Codes:
    """The places of true values in the domain. A combination is found by all its parts."""
    keys, domain_keys = np.zeros(table.num_rows, dtype=np.int64), np.zeros(len(naming.domain), dtype=np.int64)
    for number, name in enumerate(naming.sensitive):
        values = naming.make_part_domain(number)
        distinct_values = values.drop_null().unique()
        size = len(distinct_values) + 2  # the missing value, and values outside the domain
        keys = keys * size + encode_values(decode_dictionary(table.column(name).combine_chunks()), distinct_values)
        domain_keys = domain_keys * size + encode_values(values, distinct_values)
    order = np.argsort(domain_keys)
    places = order[np.minimum(np.searchsorted(domain_keys, keys, sorter=order), len(domain_keys) - 1)]
    if not np.array_equal(domain_keys[places], keys):
        raise ReleaseFormatError(
            "the table is not the original of this release, because it has values outside the domain.",
            code="not-the-original",
        )
    return places
