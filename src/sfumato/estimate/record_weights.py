"""What each record adds to a count, for statistics packages that can weigh records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from sfumato.errors import QueryError
from sfumato.estimate.ask import method_of
from sfumato.estimate.count.blocks import batches, schema_of
from sfumato.estimate.misspelt import no_value
from sfumato.release.manifest import Manifest
from sfumato.request.values import Value


def record_weights(manifest: Manifest, folder: Path, value: Value, method: str | None = None) -> pa.Array:
    """A weight for each record, in the order of the data files."""
    weights_of = method_of(manifest, method).weights
    if weights_of is None:
        raise QueryError("this release has no weights by record; ask for counts instead.")
    if value not in manifest.domain:
        raise no_value(value, manifest)
    theta = (np.arange(len(manifest.domain)) == manifest.domain.index(value)).astype(np.float64)
    weights, read = weights_of(manifest.design, theta), manifest.shown.reader(manifest.naming)
    paths = manifest.paths(folder)
    found = [
        manifest.shown.weighed(read(batch), weights.shown) + float(weights.always)
        for batch in batches(paths, schema_of(paths, manifest), manifest.shown_names)
    ]
    return pa.array(np.concatenate(found) if found else np.zeros(0))
