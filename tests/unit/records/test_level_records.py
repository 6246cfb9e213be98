"""Levels and sets of whole groups, against plain Python; what no record of its level can hold is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refusals import refuses
from selection import examples
from sfumato._records import Naming
from sfumato._records.level_set_records import LevelSetEncoding
from sfumato._records.set_records import convert_bits_to_arrow
from sfumato.errors import ReleaseFormatError

GROUPS = ((0, 1, 2, 3, 4, 5, 6, 7, 8), (0, 1, 1, 2, 0, 2, 2, 3, 3), (0, 0, 0, 1, 0, 1, 1, 0, 0))
SHOWN = LevelSetEncoding(9, False, ("code", "block", "part"), GROUPS, (3, 2, 1))
NAMING = Naming(("disease",), tuple(f"v{place}" for place in range(9)), ("string",), "disease_level")
WIDTH = 10 + 5 + 3

Record = tuple[int, tuple[int, ...]]
"""The level of a record, and the groups that its set holds."""

records = st.lists(
    st.sampled_from(
        [
            (level, chosen)
            for level, members in enumerate(SHOWN.set_sizes)
            for chosen in combinations(range(max(GROUPS[level]) + 1), members)
        ]
    ),
    max_size=12,
)


def columns(given: Sequence[Record]) -> tuple[pa.Array, pa.Array]:
    held = [[GROUPS[level][place] in chosen for place in range(9)] for level, chosen in given]
    bits = np.packbits(np.array(held, dtype=np.bool_).reshape(len(given), 9), axis=1)
    return pa.array([SHOWN.levels[level] for level, _ in given], pa.string()), convert_bits_to_arrow(bits)


def expected(given: Sequence[Record]) -> list[list[int]]:
    """For each level in turn: its groups, and the level itself."""
    return [
        [
            int(level == mine and (group in chosen or group == size))
            for level, size in enumerate((9, 4, 2))
            for group in range(size + 1)
        ]
        for mine, chosen in given
    ]


@settings(max_examples=examples(25))
@given(records)
def test_records_are_read_as_the_groups_of_their_level(given: list[Record]) -> None:
    levels, held = columns(given)
    assert SHOWN.width == WIDTH
    assert SHOWN.decode_records(levels, held).tolist() == expected(given)
    batch = pa.RecordBatch.from_arrays([held, levels.dictionary_encode()], names=list(SHOWN.list_column_names(NAMING)))
    assert SHOWN.make_reader(NAMING)(batch).tolist() == expected(given)
    both = pa.StructArray.from_arrays([levels, held], names=["level", "held"])
    assert SHOWN.decode_column(both, NAMING.make_part_domain(0)).tolist() == expected(given)


@given(st.sets(st.integers(0, 8), min_size=1))
def test_what_is_needed_is_all_that_is_near_of_kin(places: set[int]) -> None:
    """All groups in the same groups of the last level, and which level a record is of."""
    top = {GROUPS[2][place] for place in places}
    kin = [place for place in range(9) if GROUPS[2][place] in top]
    starts = [0, 10, 15]
    wanted = {start + each[place] for start, each in zip(starts, GROUPS, strict=True) for place in kin}
    assert set(SHOWN.list_needed_members(sorted(places))) == wanted | {9, 14, 17}


def bits(*places: int) -> bytes:
    return np.packbits([place in places for place in range(9)]).tobytes()


@pytest.mark.parametrize(
    ("level", "held"),
    [
        ("code", bits(0, 1)),
        ("code", bits(0, 1, 2, 3)),
        ("code", bits()),
        ("block", bits(0, 1)),
        ("block", bits(0, 4)),
        ("block", bits(0, 4, 1, 2, 7, 8)),
        ("block", bits(0, 4, 1)),
        ("part", bits(*range(9))),
        ("part", bits(3, 5)),
        ("chapter", bits(0, 1, 2)),
        ("Code", bits(0, 1, 2)),
        ("", bits(0, 1, 2)),
        (None, bits(0, 1, 2)),
        ("code", None),
        ("code", b"\xe0"),
        (1, bits(0, 1, 2)),
    ],
)
def test_what_no_record_of_its_level_can_hold_is_refused(level: object, held: bytes | None) -> None:
    kind = pa.binary(1 if held is not None and len(held) == 1 else 2)
    with refuses(ReleaseFormatError, "set-outside-domain"):
        SHOWN.decode_records(pa.array([level]), pa.array([held], kind))


def test_the_column_of_levels_is_named_after_what_is_sensitive() -> None:
    assert SHOWN.name_cell_column("disease") == "disease_level"
    assert SHOWN.list_column_names(NAMING) == ("disease", "disease_level")
    assert "`disease_level`" in SHOWN.describe("The column is protected", NAMING)
