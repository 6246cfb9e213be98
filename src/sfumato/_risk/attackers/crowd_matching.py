"""Matches the people of an original table with the crowds of a release, by their public columns.

The people of a crowd are certain, because all people with its public columns are in it. Nobody in a crowd has a record.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato._profile.equivalence_classes import number_classes
from sfumato._query.release import Release
from sfumato._risk.attackers.domain_places import find_domain_places
from sfumato._risk.attackers.published_crowds import OUTSIDE, PublishedCrowds, count_values
from sfumato._risk.attackers.record_linkage import encode_shared_values
from sfumato.errors import ReleaseFormatError


def match_crowds(release: Release, table: pa.Table) -> PublishedCrowds | None:
    """Finds the crowd of each person of the original by the public columns; None if the release publishes no counts."""
    manifest = release.manifest
    published = manifest.encoding.read_crowds(manifest.naming, release.folder)
    if published is None:
        return None
    true_codes = find_domain_places(manifest.naming, table)
    names, crowds, size = published.public.column_names, len(published), len(manifest.domain)
    crowd_codes, table_codes = encode_shared_values(names, [published.public, table]) if names else ([], [])
    pairs = zip(names, crowd_codes, table_codes, strict=True)
    classes = number_classes(
        {name: np.concatenate([one, other]) for name, one, other in pairs}, crowds + table.num_rows
    )
    crowd_of_class = np.full(int(classes.max(initial=0)) + 1, OUTSIDE)
    crowd_of_class[classes[:crowds]] = np.arange(crowds)
    numbers = crowd_of_class[classes[crowds:]]
    true_counts = count_values(numbers, true_codes, crowds, size)
    if not np.array_equal(true_counts.sum(axis=1), published.people):
        raise ReleaseFormatError(
            "the public columns of the table differ from those of the release; name the original table in the state "
            "in which it was published.",
            code="public-columns-differ",
        )
    return PublishedCrowds.of(manifest.mechanism, manifest.design, numbers, published.noisy, true_counts)


def select_recorded(table: pa.Table, crowds: PublishedCrowds | None) -> pa.Table:
    """The rows of the original whose people have a record of their own."""
    return table if crowds is None else table.take(pa.array(np.flatnonzero(crowds.numbers == OUTSIDE)))
