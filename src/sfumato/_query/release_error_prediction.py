"""How far off counts will be, from what is published alone: for whoever has not asked a question yet."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato._core.array_types import Floats
from sfumato._query.release import Release
from sfumato._records.tally import Scan


@dataclass(frozen=True, eq=False)
class PredictedErrors:
    """What each record adds to the variance of a count: one that holds the counted value, and another one."""

    own_variances: Floats
    """For each value that can be counted."""
    other_variances: Floats

    def predict_error(self, count: float, share: float) -> float:
        """The standard error of a count by the count, averaged over the values, if such a share of the rows is found.

        The rows are those of a condition that has nothing to do with the value, and are few of all.
        """
        variances = count * self.own_variances + (count / share - count) * self.other_variances
        return float(np.sqrt(np.maximum(variances, 0.0)).mean()) / count

    @property
    def is_share_independent(self) -> bool:
        """Whether records without the counted value do not matter, so that its share does not either."""
        return not self.other_variances.any()


def predict_errors(release: Release) -> PredictedErrors | None:
    """What the design of a release tells of errors, and what its buckets hold if there are any; None if it does not."""
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
    return PredictedErrors(variances[0][is_counted], variances[1][is_counted]) if is_counted.any() else None
