"""Shrinks the selected share of each value towards that of all records, as far as buckets cannot separate values.

The model: the shares of the values scatter around the overall share. The amount of scatter is estimated by maximum
likelihood from all values of the same condition. Given this amount, the share of a value is its best linear prediction
from all buckets. If the shares scatter no more than at random, a count is the plain estimate of the papers. If the
shares scatter far more, the count is that of the inverse. Between these extremes, each direction in which buckets
differ is used in proportion to its information. No matrix is inverted, so nearly equal buckets cause no problem.

Source: ours; the guess is the best linear prediction of a mixed model (Robinson 1991), with an empirical prior.
Notation: o_y = all records with value y, W_xy as in `bucket_estimation`, e = what the selected records tell, p = the
overall share, s² = the variance of z over all records, r g_y s² = the variance of the share of value y around p, with
g_y = o_y^(-1/2) up to a factor. Then e - o p has the covariance s² (W + r W G W).
"""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Floats, Indices

SMALLEST = 1e-9
"""The smallest eigenvalue that is used, as a share of the largest. Smaller eigenvalues have no information."""

RATIOS = np.append(0.0, np.geomspace(1e-2, 1e8, 81))
"""The tried ratios of the scatter of values to noise, in the direction with the most information."""


class Smoothing:
    """The information in the buckets about each direction, on the scale on which shares scatter."""

    def __init__(self, meeting: Floats, counts: Floats) -> None:
        self.counts, self.record_count = counts, float(counts.sum())
        # The shares of frequent values scatter less than those of rare values, but the difference is smaller than in
        # random samples. For values with o records, scales between 1 and 1 / o were tried. The root of 1 / o was best
        # or second best on every table.
        self.scatter = np.sqrt(counts.mean() / np.maximum(counts, 1)) if len(counts) else counts
        self.roots = np.sqrt(self.scatter)
        eigenvalues, self.directions = np.linalg.eigh(meeting * np.outer(self.roots, self.roots))
        self.eigenvalues = np.maximum(eigenvalues, 0.0)
        most = self.eigenvalues.max(initial=0.0)
        self.is_informative = self.eigenvalues > SMALLEST * most
        self.ratios = RATIOS / most if most else RATIOS

    def estimate_ratios(self, expected_counts: Floats, means: Floats, variances: Floats) -> Floats:
        """For each line, the r with the largest likelihood, given the selected records and the p and s² of the line."""
        eigenvalues = self.eigenvalues[self.is_informative]
        squares = self._project(expected_counts, means)[:, self.is_informative] ** 2 / eigenvalues
        noise = np.where(variances > 0, variances, np.inf)
        larger = 1 + np.outer(eigenvalues, self.ratios)
        deviances = (squares / noise[:, np.newaxis]) @ (1 / larger) + np.log(larger).sum(axis=0)
        return np.asarray(self.ratios[np.argmin(deviances, axis=1)])

    def estimate_shares(self, expected_counts: Floats, means: Floats, ratios: Floats) -> Floats:
        """The predicted share of each value, a line for each condition: p + (r G + 1/O) (1 + r W G)^-1 (e - o p)."""
        along = self._project(expected_counts, means) / (1 + np.outer(ratios, self.eigenvalues))
        solved = along @ self.directions.T / self.roots
        pull = np.outer(ratios, self.scatter) + 1 / self.counts
        return np.asarray(means[:, np.newaxis] + pull * solved)

    def predict_variances(self, ratios: Floats, values: Indices) -> Floats:
        """The expected squared error of each predicted share at its own r, for an s² of 1."""
        precisions = self.directions[values] ** 2 / self.roots[values, np.newaxis] ** 2
        reduction = (precisions * (self.eigenvalues / (1 + np.outer(ratios, self.eigenvalues)))).sum(axis=1)
        prior_variances = ratios * self.scatter[values] + 1 / self.counts[values]
        return np.asarray(np.maximum(prior_variances - prior_variances**2 * reduction, 0.0))

    def _project(self, expected_counts: Floats, means: Floats) -> Floats:
        """The information beyond the overall share, in each direction."""
        return np.asarray(((expected_counts - np.outer(means, self.counts)) * self.roots) @ self.directions)
