"""The compact protocol: what pyarrow writes is read and written again alike, and what cannot be is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato._parquet import thrift_compact
from sfumato._parquet.footer import TAIL, parse_footer
from sfumato._parquet.thrift_compact import (
    BINARY,
    BYTE,
    DOUBLE,
    FALSE,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Struct,
    ThriftError,
    TypedList,
    TypedValue,
    encode_struct,
    encode_varint,
    make_list,
    make_long_number,
    make_number,
    read_struct,
)

WHOLE = st.integers(-(2**63), 2**63 - 1)
SIMPLE = {
    TRUE: st.just(True),
    FALSE: st.just(False),
    BYTE: st.integers(0, 255),
    I16: st.integers(-(2**15), 2**15 - 1),
    I32: st.integers(-(2**31), 2**31 - 1),
    I64: WHOLE,
    DOUBLE: st.binary(min_size=8, max_size=8),
    BINARY: st.binary(max_size=300),
}


def fields(values: st.SearchStrategy[TypedValue]) -> st.SearchStrategy[Struct]:
    return st.dictionaries(st.integers(1, 2**15 - 1) | st.integers(1, 30), values, max_size=6)


def items(kind: int) -> st.SearchStrategy[TypedValue]:
    return st.lists(SIMPLE[kind], max_size=20).map(lambda values: make_list(kind, values))


LEAVES = st.one_of([values.map(lambda value, kind=kind: TypedValue(kind, value)) for kind, values in SIMPLE.items()])
LISTS = st.one_of([items(kind) for kind in SIMPLE if kind not in (TRUE, FALSE)])
STRUCTS = st.recursive(
    fields(LEAVES | LISTS),
    lambda inner: fields(
        inner.map(lambda each: TypedValue(STRUCT, each))
        | st.lists(inner, max_size=17).map(lambda each: make_list(STRUCT, each))
    ),
    max_leaves=4,
)


@given(STRUCTS)
def test_what_is_written_is_read(struct: Struct) -> None:
    data = encode_struct(struct)
    assert read_struct(data) == (struct, len(data))
    assert read_struct(b"before" + data + b"after", 6) == (struct, 6 + len(data))


def test_example_of_the_protocol() -> None:
    """Typed 1 is 5; field 2 a text; field 20, too far for the short form, a list of two numbers."""
    struct = {1: make_number(5), 2: TypedValue(BINARY, b"ab"), 20: make_list(I64, [1, -1])}
    assert encode_struct(struct) == bytes([0x15, 10, 0x18, 2, *b"ab", 0x09, 40, 0x26, 2, 1, 0])
    assert [encode_varint(each) for each in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\x01", b"\xac\x02"]


def test_footer_of_pyarrow_is_written_again_alike() -> None:
    table = pa.table({"x": ["a", None, "b"], "y": [[1.5], [], None], "z": [True, False, None]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1, compression="zstd", write_page_index=True)
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-TAIL:-4], "little")
    assert encode_struct(parse_footer(data)) == data[-TAIL - length : -TAIL]


@given(STRUCTS, st.data())
def test_what_is_cut_off_is_refused(struct: Struct, data: st.DataObject) -> None:
    whole = encode_struct(struct)
    with pytest.raises(ThriftError):
        read_struct(whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=200))
def test_anything_else_is_read_or_refused(data: bytes) -> None:
    try:
        struct, end = read_struct(data)
    except ThriftError:
        return
    assert end <= len(data)
    assert isinstance(struct, dict)


DEEP = b"\x1c" * 1000
LONG = [
    pytest.param(bytes([0x19, 0xF5, *encode_varint(10**12)]), id="list"),
    pytest.param(bytes([0x18, *encode_varint(10**12)]), id="text"),
    pytest.param(bytes([0x15, *[0xFF] * 11, 0]), id="number"),
    pytest.param(DEEP, id="structs in structs"),
    pytest.param(bytes([0x19]) + b"\x19" * 1000, id="lists in lists"),
    pytest.param(bytes([0x1B, 0, 0]), id="map"),
    pytest.param(bytes([0x15, 2, 0x05, 2, 2, 0]), id="field twice"),
    pytest.param(b"", id="nothing"),
]


@pytest.mark.parametrize("data", LONG)
def test_what_cannot_be_is_refused_at_once(data: bytes) -> None:
    with pytest.raises(ThriftError):
        read_struct(data)


def test_footer_that_says_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thrift_compact, "MOST_VALUES", 100)
    kept = read_struct(encode_struct({1: make_list(I64, range(99))}))[0]
    assert kept[1].value.values == tuple(range(99))
    with pytest.raises(ThriftError, match="it has too many values"):
        read_struct(encode_struct({1: make_list(I64, range(100))}))


def test_lists_keep_their_kind() -> None:
    assert read_struct(encode_struct({3: TypedValue(LIST, TypedList(I32, ()))}))[0] == {
        3: TypedValue(LIST, TypedList(I32, ()))
    }
    assert make_long_number(1) != make_number(1)
