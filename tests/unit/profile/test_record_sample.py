"""Records that stand for the table: those with the smallest keyed words, however the rows were cut into batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._core.random_draws import Draws
from sfumato._profile import record_sample
from sfumato._profile.record_sample import SAMPLE_PURPOSE, Sampler, encode_sample
from sfumato._records.column_codes import CodedColumn, RawColumn, SensitiveColumns
from strategies import batch_splits

DRAWS = Draws.unsafe_test_key("5a" * 32)


def numbered(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"row": list(range(rows)), "text": [f"t{row % 7}" for row in range(rows)]})


def sampler_of(schema: pa.Schema, most: int, expected: int | None = None) -> Sampler:
    """One that keeps so many records at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record_sample, "MOST_RECORDS", most)
        return Sampler(schema, expected)


def sampled(
    table: pa.RecordBatch, cuts: Sequence[range], most: int, draws: Draws = DRAWS, expected: int | None = None
) -> pa.Table:
    """What samplers of each cut find together."""
    whole = sampler_of(table.schema, most, expected)
    for cut in cuts:
        sampler = sampler_of(table.schema, most, expected)
        sampler.add(table.slice(cut.start, len(cut)), draws.get_stream(SAMPLE_PURPOSE).draw_bits(cut.start, len(cut)))
        whole.merge(sampler)
    return whole.to_table()


@given(st.data(), st.integers(0, 120), st.integers(1, 40))
def test_sample_holds_the_smallest_words_however_rows_were_cut(data: st.DataObject, rows: int, most: int) -> None:
    words = DRAWS.get_stream(SAMPLE_PURPOSE).draw_bits(0, rows)
    found = sampled(numbered(rows), data.draw(batch_splits(rows)), most)
    assert found.column("row").to_pylist() == np.argsort(words, kind="stable")[:most].tolist()
    assert found.column("text").to_pylist() == [f"t{row % 7}" for row in found.column("row").to_pylist()]


@given(st.data(), st.integers(100, 1000))
def test_number_of_records_that_are_expected_changes_no_sample(data: st.DataObject, rows: int) -> None:
    """With eight standard deviations to spare, fewer are taken than would be kept in one of 1e15 tables."""
    cuts = data.draw(batch_splits(rows))
    assert sampled(numbered(rows), cuts, 30, expected=rows).equals(sampled(numbered(rows), cuts, 30))


def test_of_many_expected_records_few_are_taken() -> None:
    for rows, least, most in ((10_000, 100, 100 + 8 * 10 + 8 * 14), (200, 199, 201)):
        sampler = sampler_of(numbered(1).schema, 100, expected=rows)
        sampler.add(numbered(rows), DRAWS.get_stream(SAMPLE_PURPOSE).draw_bits(0, rows))
        ((taken, words),) = sampler.batches
        assert least < taken.num_rows == len(words) < most


@given(st.data(), st.integers(1, 60))
def test_sample_of_few_records_is_all_of_them(data: st.DataObject, rows: int) -> None:
    found = sampled(numbered(rows), data.draw(batch_splits(rows)), rows)
    assert sorted(found.column("row").to_pylist()) == list(range(rows))


def test_no_more_than_twice_the_sample_is_held() -> None:
    table, sampler = numbered(1000), sampler_of(numbered(1).schema, 10)
    for first in range(0, 1000, 10):
        sampler.add(table.slice(first, 10), DRAWS.get_stream(SAMPLE_PURPOSE).draw_bits(first, 10))
        assert sum(len(words) for _, words in sampler.batches) <= 20


def test_table_without_records_has_the_columns_of_its_schema() -> None:
    assert sampler_of(numbered(1).schema, 5).to_table().equals(numbered(1).schema.empty_table())


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_texts_of_every_kind_are_sampled(kind: pa.DataType) -> None:
    plain = numbered(50)
    texts = plain.column("text").dictionary_encode() if pa.types.is_dictionary(kind) else plain.column("text")
    table = pa.RecordBatch.from_arrays([plain.column("row"), texts.cast(kind)], names=["row", "text"])
    cuts = [range(0, 20), range(20, 50)]
    assert sampled(table, cuts, 8).to_pylist() == sampled(plain, cuts, 8).to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_batches_with_dictionaries_of_their_own_are_read_together(kind: pa.DataType) -> None:
    some = [([0, 1], ["a", "b"]), ([0, 1, None], ["c", "b"]), ([0], ["b"]), ([0, 1], ["d", None])]
    widths = [pa.int8(), pa.uint8(), pa.uint16(), pa.int32()]  # as wide as each batch needs
    batches = [
        pa.DictionaryArray.from_arrays(pa.array(codes, width), pa.array(texts, kind))
        for width, (codes, texts) in zip(widths, some, strict=True)
    ]
    sampler, first = sampler_of(pa.schema([("text", pa.string())]), 10), 0
    for column in batches:
        batch = pa.RecordBatch.from_arrays([column], names=["text"])
        sampler.add(batch, DRAWS.get_stream(SAMPLE_PURPOSE).draw_bits(first, len(column)))
        first += len(column)
    assert Counter(sampler.to_table().column("text").to_pylist()) == Counter(["a", "b", "c", "b", None, "b", "d", None])


def test_another_key_gives_another_sample() -> None:
    keys = [Draws.unsafe_test_key(f"{key:064x}") for key in range(3)]
    rows = [sampled(numbered(200), [range(200)], 20, key).column("row").to_pylist() for key in keys]
    assert len({tuple(each) for each in rows}) == 3


# ---------------------------------------------------------------------------------------------------------------- codes


def test_records_become_codes_by_their_columns_and_a_raw_column_is_numbered_here() -> None:
    """A column of too many values to be numbered in the table has few in the sample."""
    records = pa.table(
        {
            "sex": pa.chunked_array([["F", "M"], ["M", None]]),
            "seen": [1.5, 2.5, 1.5, None],
            "disease": pa.chunked_array([["flu"], ["HIV", "flu", "flu"]]),
        }
    )
    disease = CodedColumn("disease", pa.array(["HIV", "flu"]), False)
    columns = [CodedColumn("sex", pa.array(["F", "M"]), True), RawColumn("seen", pa.float64(), True), disease]
    found = encode_sample(records, columns, SensitiveColumns.of_column(disease), 10)
    assert {name: codes.tolist() for name, codes in found.columns.items()} == {
        "sex": [0, 1, 1, 2],
        "seen": [0, 1, 0, 2],
    }
    assert found.sensitive.tolist() == [1, 0, 1, 1]
    assert (found.records, found.total, found.is_whole) == (4, 10, False)


def test_parts_of_what_is_sensitive_are_no_public_columns() -> None:
    parts = tuple(CodedColumn(name, pa.array(["x", "y"]), False) for name in ("a", "b"))
    records = pa.table({"a": ["x", "y", "y"], "b": ["y", "x", "y"], "public": ["p", "p", "q"]})
    columns = [*parts, CodedColumn("public", pa.array(["p", "q"]), False)]
    found = encode_sample(records, columns, SensitiveColumns("a, b", parts), 3)
    assert list(found.columns) == ["public"]
    assert found.sensitive.tolist() == [1, 2, 3]
    assert found.is_whole


def test_sample_of_no_records_has_codes_of_nobody() -> None:
    column = CodedColumn("disease", pa.array(["x"]), False)
    schema = pa.schema([("public", pa.float64()), ("disease", pa.string())])
    found = encode_sample(
        schema.empty_table(), [RawColumn("public", pa.float64(), False), column], SensitiveColumns.of_column(column), 0
    )
    assert (found.records, found.is_whole) == (0, True)
