"""Releases that were made wrongly are found out, by a named attacker or by `verify`; their honest twins are not.

Every check of an honest release fails by chance once in a million times, so all of those here together less than once
in ten thousand runs. What is wrong is chosen so large that it is missed with a chance below one in a thousand: the
power is stated beside each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from releases import known_key
from sabotage import (
    RECORDS,
    beside_in_order,
    bind_no_key,
    in_order,
    kept_too_often,
    patients,
    plan_of,
    released,
    residue_alone,
)
from sfumato._request.belief_bounds import BreachBound
from sfumato._risk.attackers.release_attacks import audit
from sfumato._risk.attackers.row_order_attack import LARGEST_SCORE, detect_reused_key
from sfumato.mechanisms import REGISTRY
from tampering import failed

pytestmark = [pytest.mark.statistical, pytest.mark.slow]


def found_out(release: Path) -> list[str]:
    """The checks of the attackers that a release fails."""
    return [each.name for each in audit(release, patients(), plan_of(release), seed=1).checks if not each.has_passed]


@pytest.mark.parametrize("mechanism", list(REGISTRY))
def test_honest_release_is_not_found_out(tmp_path: Path, mechanism: str) -> None:
    """Four or five checks of each, of which each fails once in a million times."""
    release = released(mechanism, tmp_path)
    assert found_out(release) == []
    assert failed(release, patients()) == []


@pytest.mark.parametrize("mechanism", ["uniform", "decoys"])
def test_values_that_are_kept_too_often_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """Shares of 0.3 and 0.2 are shown besides, so that published values fit true ones by 0.083 and 0.063 better.

    That is 11.5 and 9.9 standard deviations (3,000 people), and the limit is 4.9: it is missed with a chance below
    1e-6. `verify` notices both.
    """
    kept_too_often(monkeypatch, mechanism, 0.3 if mechanism == "uniform" else 0.2)
    release = released(mechanism, tmp_path)
    assert found_out(release) == ["law"]
    assert "draws" in failed(release, patients())


def test_decoys_of_one_value_are_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups in which all have the same value show it: everybody is right, where half should be."""
    kept_too_often(monkeypatch, "decoys", 1.0)
    release = released("decoys", tmp_path)
    assert found_out(release) == ["law"]
    assert "draws" in failed(release, patients())


def test_rows_in_the_order_of_the_table_are_found_out(tmp_path: Path) -> None:
    """Everybody stands where the table has him, which chance would do for hardly anybody."""
    release = released("uniform", tmp_path)
    in_order(release)
    looks = audit(release, patients(), plan_of(release)).order_tests
    assert [each.is_significant for each in looks] == [True, True, True]
    assert "order" in failed(release, patients())


@pytest.mark.parametrize("block", [300, 1000])
def test_rows_that_are_shuffled_in_blocks_are_found_out(tmp_path: Path, block: int) -> None:
    """The attacker finds the rank correlation, 0.9 and more, and `verify` which part of the table records come from.

    Of 2,900 people who are alone it has a standard deviation of 0.019: it is never missed.
    """
    release = released("uniform", tmp_path)
    in_order(release, block)
    looks = audit(release, patients(), plan_of(release)).order_tests
    assert looks[1].is_significant
    assert looks[1].records > 0.9 * RECORDS
    assert failed(release, patients()) == ["order"]


def test_key_that_is_used_twice_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases of one key have everybody in the same row, other ones nobody but by chance."""
    bind_no_key(monkeypatch)
    specs = [BreachBound("1/10", "1/2"), BreachBound("1/10", "1/3")]
    one, same = (
        released("uniform", tmp_path, name=f"same {number}", spec=spec, key=known_key(5))
        for number, spec in enumerate(specs)
    )
    other = released("uniform", tmp_path, name="other", spec=specs[1], key=known_key(6))
    assert detect_reused_key(one, same).score > 1000
    assert abs(detect_reused_key(one, other).score) < LARGEST_SCORE
    found = audit(one, patients(), plan_of(one), second=(same, plan_of(same)), seed=1)
    assert [each.has_passed for each in found.checks if "two releases" in each.detail] == [False]
    twins = audit(one, patients(), plan_of(one), second=(other, plan_of(other)), seed=1)
    assert all(each.has_passed for each in twins.checks)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_table_beside_the_records_that_is_not_shuffled_is_found_out(tmp_path: Path, share: float) -> None:
    """In pairs each look is right for both or for neither: of 1,500 pairs it is so for half of them, with 0.013.

    A share of 0.3 in order makes that 0.65, 11 standard deviations: missed with a chance below 1e-9.
    """
    release = released("anatomy", tmp_path)
    beside_in_order(release, share)
    assert found_out(release) == ["order"]


def test_residue_that_is_not_merged_is_found_out(tmp_path: Path) -> None:
    """By exact arithmetic, from the files alone: a bucket of one value passes every cap."""
    release = released("anatomy", tmp_path)
    assert failed(release) == []
    residue_alone(release)
    assert failed(release) == ["domain"]


def test_patients_are_alone_and_in_order() -> None:
    """What the tests above rest on."""
    table = patients()
    assert table.column("disease").to_pylist() == sorted(table.column("disease").to_pylist())
    assert len(np.unique(table.column("born").to_numpy())) > 0.95 * RECORDS
