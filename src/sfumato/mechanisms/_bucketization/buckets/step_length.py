"""How far to go along a row of settings until every condition holds: all of them are linear in the step."""

from __future__ import annotations

from sfumato.mechanisms._bucketization.buckets.share_caps import Integers


def find_first_step(surplus: Integers, gain: Integers, low: int = 0, high: int | None = None) -> int | None:
    """The first step from `low` to `high` at which nothing of have + step * gain is negative; None if there is none."""
    if (surplus[gain == 0] < 0).any():
        return None
    is_rising, is_falling = gain > 0, gain < 0
    low = int((-(surplus[is_rising] // gain[is_rising])).max(initial=low))
    high = int((surplus[is_falling] // -gain[is_falling]).min(initial=low if high is None else high))
    return low if low <= high else None
