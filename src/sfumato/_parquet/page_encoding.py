"""Encodes chunks as pages of a fixed number of rows.

Except for the compressed size, the length of a page does not depend on the order of rows: numbers are packed in one
run, and repeated numbers are not run-length encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato._core.array_types import Codes, Mask, RandomBits
from sfumato._parquet.column_chunk import Chunk
from sfumato._parquet.footer import MetadataFields, PageFields, get_field_value
from sfumato._parquet.thrift_compact import (
    I32,
    STRUCT,
    Struct,
    TypedValue,
    encode_struct,
    encode_varint,
    make_list,
    make_long_number,
    make_number,
    read_struct,
)

# Packs small numbers into as few bits as necessary. The lowest bit comes first, and eight numbers fill whole bytes.

Bytes = npt.NDArray[np.uint8]

GROUP = 8
"""The number of numbers that are packed together."""
BYTE, WIDEST, WORD_BITS = 8, 16, 64
"""Sizes in bits; numbers have at most `WIDEST` bits."""


def pack_codes(codes: Codes, width: int) -> Bytes:
    """Packs numbers below 2^width into `width` bits each. Zeros fill the last group of eight.

    A machine word holds several numbers. Neighbouring numbers are shifted together, then neighbouring pairs, until
    there are no gaps between the bits of a word.
    """
    gap = BYTE if width <= BYTE else WIDEST  # from the start of one number to the start of the next
    padded = np.ascontiguousarray(codes, dtype=f"u{gap // BYTE}")
    if len(codes) % GROUP:
        padded = np.append(padded, np.zeros(-len(codes) % GROUP, dtype=padded.dtype))
    if width == gap:
        return padded.view(np.uint8)
    if width == 1:
        return np.packbits(padded, bitorder="little")
    packed_words: RandomBits = padded.view(np.uint64)
    size = width
    while gap < WORD_BITS:
        packed_words = _join_neighbours(packed_words, size, gap)
        gap, size = 2 * gap, 2 * size
    if width > BYTE:  # a word has four numbers, and two of them have more bits than a word
        low, high = packed_words[0::2], packed_words[1::2]
        packed_words = np.stack([low | (high << np.uint64(size)), high >> np.uint64(WORD_BITS - size)], axis=1)
    groups = packed_words.reshape(len(padded) // GROUP, -(-width // BYTE)).view(np.uint8)
    group_bytes = np.empty((len(groups), width), dtype=np.uint8)
    for place in range(width):  # byte by byte: twice as fast as group by group, because a group has few bytes
        group_bytes[:, place] = groups[:, place]
    return group_bytes.reshape(-1)


def _join_neighbours(packed_words: RandomBits, size: int, gap: int) -> RandomBits:
    """Shifts every second number to the number before it. Numbers have `size` bits and begin every `gap` bits."""
    mask = sum(((1 << size) - 1) << place for place in range(0, WORD_BITS, 2 * gap))
    joined_words = packed_words >> np.uint64(gap - size)
    joined_words &= np.uint64(mask << size)
    joined_words |= packed_words & np.uint64(mask)
    return joined_words


# ---------------------------------------------------------------------------------------------------------------------

PAGE_ROWS = 1 << 17
PAGE_BYTES = 1 << 20
"""The size of a page in bytes. Pages of wide rows have fewer rows."""

DATA_PAGE, DICTIONARY_PAGE = 0, 2


class Encoding(IntEnum):
    """The encodings of values."""

    PLAIN = 0
    RUNS = 3
    DICTIONARY = 8
    """Codes of the values that the first page of the chunk lists."""


def make_dictionary_chunk(
    codes: Codes, dictionary: bytes, values: int, *, has_missing: bool, metadata: Struct
) -> Chunk:
    """A chunk of codes for the values that its first page lists.

    The code after the last value stands for a missing value.
    """
    width = count_code_bits(values)

    def iter_pages() -> Iterator[tuple[int, bytes]]:
        # If pages begin with whole bytes, all pages are encoded at once: in few long steps threads do not wait for each
        # other.
        bits = pack_codes(codes[:0] if has_missing else codes, width)
        for start in range(0, len(codes), PAGE_ROWS):
            page, levels = codes[start : start + PAGE_ROWS], b""
            first, after = (place * width // GROUP for place in (start, start + PAGE_ROWS))
            page_bits = bits[first:after]
            if has_missing:
                is_present = page != values
                levels, page_bits = _encode_levels(is_present), pack_codes(page[is_present], width)
            yield len(page), b"".join([levels, bytes([width]), *_make_run(page_bits, width)])

    return _make_chunk(iter_pages(), Encoding.DICTIONARY, metadata, dictionary)


def make_plain_chunk(column: pa.Array, *, has_missing: bool, metadata: Struct) -> Chunk:
    """A chunk of unencoded values of a fixed width: booleans, numbers or bytes."""
    rows = min(PAGE_ROWS, max(PAGE_BYTES * 8 // column.type.bit_width // GROUP, 1) * GROUP)

    def iter_pages() -> Iterator[tuple[int, bytes]]:
        for start in range(0, len(column), rows):
            page = column.slice(start, rows)
            levels = _encode_levels(page.is_valid().to_numpy(zero_copy_only=False)) if has_missing else b""
            yield len(page), levels + _convert_to_bytes(page.drop_null() if has_missing else page)

    return _make_chunk(iter_pages(), Encoding.PLAIN, metadata)


def count_code_bits(values: int) -> int:
    """The number of bits for the codes of `values` values."""
    return max((values - 1).bit_length(), 1)


def _convert_to_bytes(column: pa.Array) -> bytes:
    """The bytes of values, none of them missing."""
    if pa.types.is_boolean(column.type):
        return _pack_truth_values(column)
    size = column.type.bit_width // 8
    data: bytes = column.buffers()[1].slice(column.offset * size, len(column) * size).to_pybytes()
    return data


def _pack_truth_values(column: pa.BooleanArray) -> bytes:
    """Booleans, eight in a byte. Unused bits are zero, because what Arrow stores there may vary."""
    first, after = column.offset // GROUP, len(column) % GROUP
    if column.offset % GROUP or not len(column):
        return np.packbits(column.to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    data = bytearray(column.buffers()[1].slice(first, -(-len(column) // GROUP)))
    if after:
        data[-1] &= (1 << after) - 1
    return bytes(data)


def _encode_levels(is_present: Mask) -> bytes:
    """The definition levels of a page, which mark the values that are not missing."""
    run = b"".join(_make_run(np.packbits(is_present, bitorder="little"), 1))
    return len(run).to_bytes(4, "little") + run


def _make_run(bits: Bytes, width: int) -> tuple[bytes | memoryview, ...]:
    """Packed numbers, preceded by their number of groups. Empty if there are no numbers."""
    return (encode_varint(len(bits) // width << 1 | 1), bits.data) if len(bits) else ()


def _make_chunk(
    pages: Iterable[tuple[int, bytes]], encoding: Encoding, metadata: Struct, dictionary: bytes = b""
) -> Chunk:
    """Compress pages, given with their numbers of rows, and build their metadata."""
    page_parts, values, plain_size = [dictionary], 0, _read_plain_size(dictionary) if dictionary else 0
    codec = pa.Codec("zstd")
    for rows, page in pages:
        data = codec.compress(page, asbytes=True)
        page_fields = {
            1: make_number(rows),
            2: make_number(encoding),
            3: make_number(Encoding.RUNS),
            4: make_number(Encoding.RUNS),
        }
        head = encode_struct(
            {
                PageFields.TYPE: make_number(DATA_PAGE),
                PageFields.PLAIN_SIZE: make_number(len(page)),
                PageFields.SIZE: make_number(len(data)),
                PageFields.DATA: TypedValue(STRUCT, page_fields),
            }
        )
        page_parts += [head, data]
        values += rows
        plain_size += len(head) + len(page)
    kinds = [(DICTIONARY_PAGE, Encoding.PLAIN, 1)] if dictionary else []
    kinds.append((DATA_PAGE, encoding, len(page_parts) // 2))
    data = b"".join(page_parts)
    page_metadata: Struct = {
        MetadataFields.ENCODINGS: make_list(
            I32, sorted({Encoding.RUNS, *(kind_encoding for _, kind_encoding, _ in kinds)})
        ),
        MetadataFields.VALUES: make_long_number(values),
        MetadataFields.PLAIN_SIZE: make_long_number(plain_size),
        MetadataFields.SIZE: make_long_number(len(data)),
        MetadataFields.FIRST_PAGE: make_long_number(len(dictionary)),
        MetadataFields.PAGES: make_list(STRUCT, [dict(enumerate(map(make_number, kind), 1)) for kind in kinds]),
    }
    if dictionary:
        page_metadata[MetadataFields.DICTIONARY] = make_long_number(0)
    return Chunk(data, {**metadata, **page_metadata})


def _read_plain_size(page: bytes) -> int:
    """The size of a page in bytes without compression."""
    head, start = read_struct(page)
    return start + int(get_field_value(head, PageFields.PLAIN_SIZE))
