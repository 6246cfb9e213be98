"""Releases that were made wrongly: by code that does not do what its design says, or spoilt after it was done.

Each is a whole release of this house, with digests that fit.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accepted import ALL_ACCEPTED, REASON
from releases import SENSITIVE, WAYS, accepting
from sfumato._planning.plan_file import RequestRecord
from sfumato._publish.publication import publish
from sfumato._publish.request import Request
from sfumato._query.release import Release
from sfumato._records import PerturbedRecords
from sfumato._request.belief_bounds import PrivacySpec
from sfumato._request.schema import Schema
from sfumato._risk.attackers.release_matching import MatchedRelease, match_by_key, read_original
from sfumato.mechanisms import REGISTRY
from tampering import rewrite

RECORDS, VALUES = 3000, 5
SHARES = (0.3, 0.25, 0.2, 0.15, 0.1)


def patients() -> pa.Table:
    """People in the order of their values, most of whom are alone with the day of their birth."""
    chance = np.random.default_rng(11)
    held = np.sort(chance.choice(VALUES, RECORDS, p=SHARES))
    return pa.table(
        {
            "born": chance.integers(0, 20 * RECORDS, RECORDS),
            "sex": [("F", "M")[each] for each in chance.integers(0, 2, RECORDS)],
            SENSITIVE: [f"disease {each}" for each in held],
        }
    )


def released(
    mechanism: str, folder: Path, *, name: str = "release", spec: PrivacySpec | None = None, key: str | None = None
) -> Path:
    """Publish the patients with a secret key, or a known one; the plan file stands beside the release."""
    table = patients()
    schema = WAYS[mechanism].schema(Schema.of(SENSITIVE, keep=["born"], public="*"), table)
    asked: dict[str, Any] = {**WAYS[mechanism].request(mechanism), "accept_exposure": REASON}
    if spec is not None:
        asked["spec"] = spec
    request = Request(table, schema=schema, **asked, **accepting(table, schema), **ALL_ACCEPTED)
    out = folder / name
    publish(request, out, plan_file=plan_of(out), unsafe_test_key=key, on_notice=lambda notice: None)
    return out


def plan_of(release: Path) -> Path:
    """The plan file of a release."""
    return release.with_suffix(".plan")


def truth(release: Path) -> MatchedRelease:
    """A release matched with the patients."""
    opened = Release.open(release)
    return match_by_key(opened, read_original(opened, patients(), plan_of(release)), plan_of(release))


# -------------------------------------------------------------------------------------------- code that does wrong


def bind_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a key that is kept draws the same for every request and every table."""
    monkeypatch.setattr(RequestRecord, "bind", lambda self, draws, fingerprint: draws)


def kept_too_often(monkeypatch: pytest.MonkeyPatch, mechanism: str, share: float) -> None:
    """From now on a mechanism shows a share of the true values beside what it should show."""
    honest = REGISTRY[mechanism]

    def careless(plan: Any, codes: Any, slots: Any, draws: Any, first_row: int) -> PerturbedRecords:
        found = honest.perturb(plan, codes, slots, draws, first_row)
        spared = draws.get_stream("sabotage").draw_bits(first_row, len(codes)) / 2.0**64 < share
        return PerturbedRecords(np.where(spared, codes, found.values).astype(codes.dtype), found.cells)

    monkeypatch.setitem(REGISTRY, mechanism, replace(honest, perturb=careless))


# --------------------------------------------------------------------------------------------- spoilt after it was done


def in_order(release: Path, block: int | None = None) -> None:
    """The rows stand as the table has them; or with a block, are shuffled within so many rows only."""
    place = np.empty(RECORDS, dtype=np.int64)
    place[truth(release).order] = np.arange(RECORDS)
    if block is not None:
        chance = np.random.default_rng(1)
        parts = [
            chance.permutation(np.arange(first, min(first + block, RECORDS))) for first in range(0, RECORDS, block)
        ]
        place = place[np.concatenate(parts)]
    rewrite(release, Release.open(release).manifest.data_file, lambda table: table.take(place))


def beside_in_order(release: Path, share: float = 1.0) -> None:
    """In a share of the groups the table of values has them in the order of the records that hold them."""
    found = truth(release)
    groups, held = found.published_codes[found.order], found.true_codes[found.order]
    order = np.argsort(groups, kind="stable")
    spoilt = np.random.default_rng(2).random(int(groups.max()) + 1) < share
    values = pa.array([f"disease {each}" for each in held[order]])

    def change(lines: pa.Table) -> pa.Table:
        assert set(lines.column("count").to_pylist()) == {1}
        whole = lines.sort_by("bucket").to_pydict()
        own = [
            new if spoilt[group] else old
            for group, old, new in zip(whole["bucket"], whole[SENSITIVE], values.to_pylist(), strict=True)
        ]
        return pa.table({**whole, SENSITIVE: own}, schema=lines.schema)

    rewrite(release, "st.parquet", change)


def residue_alone(release: Path) -> None:
    """One record that was left over stands in a bucket of its own, with its value."""
    found = truth(release)
    groups, held = found.published_codes[found.order], found.true_codes[found.order]
    fresh, bucket = int(groups.max()) + 1, int(groups[0])
    value = f"disease {held[0]}"

    def moved(table: pa.Table) -> pa.Table:
        rows = table.to_pydict()
        rows["bucket"][0] = fresh
        return pa.table(rows, schema=table.schema)

    def listed(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        line = next(each for each in rows if each["bucket"] == bucket and each[SENSITIVE] == value)
        rows.remove(line)
        return pa.Table.from_pylist([*rows, {**line, "bucket": fresh}], schema=table.schema)

    rewrite(release, "qit.parquet", moved)
    rewrite(release, "st.parquet", listed)


def records_of(release: Path) -> pa.Table:
    """The records of a release."""
    return pq.read_table(release / Release.open(release).manifest.data_file)
