"""Counts answered with differential privacy: Laplace noise of the scale 1/epsilon, drawn by OpenDP.

No table is published; each answer protects every record by itself, and k answers together by k times epsilon. The noise
comes from the operating system's randomness, by OpenDP alone, and no key can repeat it.

Source: Dwork, McSherry, Nissim and Smith 2006, as compared with in Fu, Wang, Wong, Wang and Jiang 2014, section
6.2.3.1. One record changes a count by at most one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato._comparison.comparison_baselines import SENSITIVITY, compute_laplace_scale
from sfumato.errors import InternalError, MissingExtraError


def answer_counts(counts: Sequence[int] | npt.NDArray[np.integer], epsilon: float) -> npt.NDArray[np.float64]:
    """Answer each count with noise of its own; each answer costs epsilon."""
    noise = compute_laplace_scale(epsilon)
    try:
        import opendp.prelude as dp  # noqa: PLC0415 - an extra, which only this function needs
    except ImportError as error:
        raise MissingExtraError(
            "Laplace answers are drawn by OpenDP, which is not installed; run pip install opendp.",
            code="missing-package",
            fields={"package": "opendp"},
        ) from error
    dp.enable_features("contrib")  # OpenDP's own switch, for measurements whose proofs are not fully vetted
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    measurement: Any = dp.m.make_laplace(*space, scale=noise)  # its methods have no types
    if measurement.map(SENSITIVITY) > epsilon:
        raise InternalError(f"OpenDP does not confirm that noise of the scale {noise} has an epsilon of {epsilon}.")
    return np.array(measurement([float(count) for count in counts]), dtype=np.float64)
