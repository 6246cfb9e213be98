"""Weights of records, for statistics packages with weighted counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato._core.cell_values import Value
from sfumato._query.counting.record_blocks import read_batches, read_record_schema
from sfumato._query.impossible_literals import explain_missing_value
from sfumato._query.query_runner import find_method
from sfumato._release.manifest import Manifest
from sfumato.errors import QueryError


def compute_record_weights(manifest: Manifest, folder: Path, value: Value, method: str | None = None) -> pa.Array:
    """Computes a weight for each record, in the order of the data files."""
    compute_weights = find_method(manifest, method).compute_weights
    if compute_weights is None:
        raise QueryError(
            "this release has no weights for single records; query counts instead.", code="no-record-weights"
        )
    if value not in manifest.domain:
        raise explain_missing_value(value, manifest)
    theta = (np.arange(len(manifest.domain)) == manifest.domain.index(value)).astype(np.float64)
    weights, read_codes = compute_weights(manifest.design, theta), manifest.encoding.make_reader(manifest.naming)
    paths = manifest.list_data_paths(folder)
    weights_by_batch = [
        manifest.encoding.sum_weights(read_codes(batch), weights.entry_weights) + float(weights.constant)
        for batch in read_batches(paths, read_record_schema(paths, manifest), manifest.protected_columns)
    ]
    return pa.array(np.concatenate(weights_by_batch) if weights_by_batch else np.zeros(0))
