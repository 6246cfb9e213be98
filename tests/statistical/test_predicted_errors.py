"""The error that a plan predicts for a question is how much its answer scatters over many publications."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from sfumato._planning.mechanism_choice import choose
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._records.tally import Tally
from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, PrivacySpec
from sfumato._request.histogram import Histogram
from statistical.support import ALPHA, keyed_draws

pytestmark = pytest.mark.statistical

COUNTS = (540, 240, 100, 70, 40, 10)
"""Of a thousand people; a tenth of them that has nothing to do with the value holds a tenth of each."""
SIZE, TOTAL = len(COUNTS), sum(COUNTS)
REQUESTS: dict[str, PrivacySpec] = {
    "uniform": BreachBound("1/5", "2/5"),
    "subset": BreachBound("1/5", "3/11"),
    "fine-grain": BreachBoundPerValue({4: BreachBound("1/10", "3/5"), 5: BreachBound("1/10", "1/2")}),
}
"""One coin for all values, sets of two, and coins that differ."""
PUBLICATIONS = 8000


@cache
def planned(mechanism: str) -> ChosenMechanism:
    histogram = Histogram.of(range(SIZE), COUNTS)
    return choose(histogram, REQUESTS[mechanism], keyed_draws(0), mechanism)


@cache
def shown(mechanism: str, part: float) -> npt.NDArray[np.int64]:
    """How many records of each publication show each value, alone or in their set; rows are drawn independently."""
    chosen = planned(mechanism)
    codes = np.tile(np.repeat(np.arange(SIZE), [round(count * part) for count in COUNTS]), PUBLICATIONS)
    values = chosen.mechanism.perturb(chosen.plan, codes.astype(np.uint8), None, keyed_draws(1), 0).values
    assert values is not None
    if values.ndim == 1:
        is_shown = values[:, np.newaxis] == np.arange(SIZE)
    else:
        is_shown = np.unpackbits(values, axis=1, count=SIZE).astype(np.bool_)
    found: npt.NDArray[np.int64] = is_shown.reshape(PUBLICATIONS, -1, SIZE).sum(axis=1)
    return found


@cache
def answers(mechanism: str, part: float, value: int) -> npt.NDArray[np.float64]:
    """What each publication answers."""
    chosen, counts = planned(mechanism), shown(mechanism, part)
    method = next(iter(chosen.mechanism.list_estimators(chosen.design).values()))
    tally = Tally(counts, np.full(PUBLICATIONS, round(TOTAL * part)))
    (moments,) = method.count(chosen.design, tally, [np.array([value])])
    return moments.value


def variance_p_value(sample: npt.NDArray[np.float64], deviation: float) -> float:
    """Two-sided, by the chi-square law of the sample variance; a sum of a hundred coins is nearly normal."""
    freedom = len(sample) - 1
    statistic = freedom * np.var(sample, ddof=1) / deviation**2
    return 2 * min(float(stats.chi2.cdf(statistic, freedom)), float(stats.chi2.sf(statistic, freedom)))


every_question = pytest.mark.parametrize("question", [0, 1, 3, 4], ids=["10%", "1%", "10% of some", "1% of some"])
every_mechanism = pytest.mark.parametrize("mechanism", REQUESTS)


@every_mechanism
@every_question
def test_answers_scatter_as_much_as_was_predicted(mechanism: str, question: int) -> None:
    """Fails with probability ALPHA if the prediction is right."""
    asked = planned(mechanism).question_predictions[question]
    assert asked.count is not None
    assert asked.relative_error is not None
    assert isinstance(asked.value, int)
    assert (asked.value, asked.count) == (({0: 2, 1: 5}[question % 3]), COUNTS[asked.value] * float(asked.among_share))
    found = answers(mechanism, float(asked.among_share), asked.value)
    deviation = asked.relative_error * asked.count
    assert abs(found.mean() - asked.count) < 6.2 * deviation / math.sqrt(PUBLICATIONS)
    assert variance_p_value(found, deviation) >= ALPHA


@every_mechanism
@every_question
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_prediction_a_tenth_off_would_be_noticed(mechanism: str, question: int, factor: float) -> None:
    asked = planned(mechanism).question_predictions[question]
    assert asked.count is not None
    assert asked.relative_error is not None
    assert isinstance(asked.value, int)
    found = answers(mechanism, float(asked.among_share), asked.value)
    assert variance_p_value(found, factor * asked.relative_error * asked.count) < ALPHA
