"""Predicts the errors of counts from the published design alone, before any question is asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._query.release import Release
from sfumato._records.tally import Scan


@dataclass(frozen=True, eq=False)
class PredictedErrors:
    """What a record contributes to the variance of a count.

    There is one number for records with the counted value, and one for other records.
    """

    own_variances: Floats
    """The variance of a record with the value, for each value that can be counted."""
    other_variances: Floats
    has_crowds: bool = False
    """Whether the variances are averages over groups of people with published counts."""

    def predict_error(self, count: float, share: float) -> float:
        """The standard error of a count, averaged over the values. A share of the rows has the counted value.

        The rows satisfy a condition that is unrelated to the value. They are a small part of all rows.
        """
        variances = count * self.own_variances + (count / share - count) * self.other_variances
        return float(np.sqrt(np.maximum(variances, 0.0)).mean()) / count

    @property
    def is_share_independent(self) -> bool:
        """Whether records without the counted value add no variance. The value's share then does not matter."""
        return not self.other_variances.any()


def predict_errors(release: Release) -> PredictedErrors | None:
    """Predicts the errors of a release from its design and the contents of its buckets. None if this is impossible."""
    manifest = release.manifest
    prediction = manifest.mechanism.release_error_prediction
    if prediction is None:
        return None
    with release.open_session() as session:
        holdings = manifest.encoding.read_holdings(session, Scan(), manifest.naming, release.folder)
    variances = prediction.predict_record_variances(manifest.design, holdings)
    if variances is None:
        return None
    is_counted = np.isfinite(variances[0]) & np.isfinite(variances[1])
    if not is_counted.any():
        return None
    crowds = manifest.encoding.read_crowds(manifest.naming, release.folder)
    has_crowds = crowds is not None and len(crowds) > 0
    return PredictedErrors(variances[0][is_counted], variances[1][is_counted], has_crowds)
