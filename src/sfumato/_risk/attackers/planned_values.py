"""Draws published values before publishing, and computes their likelihoods, from a plan."""

from __future__ import annotations

import numpy as np

from sfumato._core.array_types import Codes, Floats, Numbers, Places
from sfumato._core.random_draws import Draws
from sfumato._planning.predicted_error import ChosenMechanism
from sfumato._records import PerturbedRecords
from sfumato._records.column_codes import SensitiveColumns
from sfumato._request.histogram import compute_margins


def compute_value_likelihoods(
    chosen: ChosenMechanism, perturbed_records: PerturbedRecords, number: int, rows: Places
) -> Floats | None:
    """The likelihood of some records' published values for each value of a protected column, if known.

    It is unknown if the mechanism also publishes counts whose distribution is unknown.
    """
    model, mechanism = chosen.mechanism.attack_model, chosen.mechanism
    if model is None or (mechanism.crowd_counts is not None and mechanism.crowd_attack_model is None):
        return None
    part = PerturbedRecords(
        *(None if array is None else array[rows] for array in (perturbed_records.values, perturbed_records.cells))
    )
    return model.compute_likelihoods(chosen.plan, part)[number]


def draw_published_values(
    chosen: ChosenMechanism, sensitive: SensitiveColumns, codes: Codes, draws: Draws
) -> PerturbedRecords:
    """Draws published values. The records of one value are distributed over its slots as in the full table."""
    slots = None
    if chosen.mechanism.uses_slots:
        counts = [np.array(chosen.histogram.counts)]
        if sensitive.is_independent:
            counts = compute_margins(chosen.histogram.counts, sensitive.sizes)
        pairs = zip(sensitive.list_rank_codes(codes), counts, strict=True)
        slot_lists = [
            _spread_over_slots(column_codes, column_counts, draws.narrow_to_column(str(number)))
            for number, (column_codes, column_counts) in enumerate(pairs)
        ]
        slots = np.stack(slot_lists) if sensitive.is_independent else slot_lists[0]
    return chosen.mechanism.perturb(chosen.plan, codes, slots, draws, 0)


def _spread_over_slots(codes: Codes, counts: Numbers, draws: Draws) -> Numbers:
    """Gives each record a random slot below the count of its value.

    If all records are here, all slots are used.
    """
    order = np.lexsort((draws.get_stream("order").draw_bits(0, len(codes)), codes))
    sample_counts = np.bincount(codes, minlength=len(counts))
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(sample_counts) - sample_counts, sample_counts)
    random_shares = draws.get_stream("place").draw_bits(0, len(codes)) / 2.0**64
    slots = np.empty(len(codes), dtype=np.int64)
    slot_positions = (ranks + random_shares) * np.repeat(counts / np.maximum(sample_counts, 1), sample_counts)
    slots[order] = np.minimum(slot_positions.astype(np.int64), np.repeat(counts, sample_counts) - 1)
    return slots
