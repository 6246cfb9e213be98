"""Findings in the file itself, such as the footer of Parquet, and the first bytes and line ends of CSV."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato._core.cell_values import simplify_type
from sfumato._core.json_types import Json, JsonView
from sfumato._request.range_edges import is_list_of_rising_ranges
from sfumato._risk.inspected_table import CodedValues
from sfumato._risk.lint.findings import Finding
from sfumato.errors import SourceError, explain_os_error

PATH_PATTERN = re.compile(r"/(home|Users|root|mnt|media|srv|data|var|tmp|opt)/|[A-Za-z]:\\|\\\\\w|\w+@\w+")
"""Matches a path or an address in text that a program has written."""
STORED_SCHEMA = b"ARROW:schema"
PANDAS = b"pandas"
FIELD_KEYS = frozenset({b"PARQUET:field_id"})
MOST_BYTES = 64
"""Bounds longer than this may be truncated, because several programs truncate them."""
READ_BYTES = 1 << 20
BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


# -------------------------------------------------------------------------------------------------------------- Parquet


def inspect_parquet(
    path: Path, columns: Mapping[str, CodedValues], domains: Mapping[str, pa.Array] | None = None
) -> Iterator[Finding]:
    """Lists what the footer and the dictionaries of a Parquet file disclose in addition to the rows.

    A dictionary may list the domain of a column if the domain is public.
    """
    name = path.name
    try:
        with pq.ParquetFile(path) as file:
            yield from _inspect_metadata(file, name)
            yield from _inspect_statistics(file.metadata, columns, name)
        yield from _inspect_dictionaries(path, domains or {})
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise SourceError(
            f"{name!r} is not a complete Parquet file; check that it was copied completely.",
            code="damaged-file",
            fields={"file": name},
        ) from error


def _inspect_metadata(file: pq.ParquetFile, name: str) -> Iterator[Finding]:
    file_metadata = dict(file.metadata.metadata or {})
    by_field = {key: value for field in file.schema_arrow for key, value in (field.metadata or {}).items()}
    extra = {key: value for key, value in (by_field | file_metadata).items() if key not in {STORED_SCHEMA, *FIELD_KEYS}}
    pandas = _read_json(extra.pop(PANDAS, b"{}"))
    remedy = "rewrite the file without metadata (pyarrow: table.replace_schema_metadata(None))."
    if extra:
        keys = ", ".join(sorted(repr(key.decode("utf-8", "replace")) for key in extra))
        has_place = any(PATH_PATTERN.search(value.decode("utf-8", "replace")) for value in extra.values())
        path_hint = "; it seems to contain a path or an address" if has_place else ""
        yield Finding(
            "file-metadata",
            f"the footer of {name!r} has metadata that do not belong to the table (keys {keys}){path_hint}.",
            remedy,
            file=name,
            numbers={"keys": len(extra)},
        )
    if PATH_PATTERN.search(str(file.metadata.created_by or "")):
        yield Finding(
            "file-metadata",
            f"the footer of {name!r} names the program that wrote the file (created_by).",
            remedy,
            file=name,
        )
    if pandas:
        yield from _inspect_pandas_metadata(pandas, file.metadata.num_rows, name, remedy)


def _inspect_pandas_metadata(pandas: JsonView, rows: int, name: str, remedy: str) -> Iterator[Finding]:
    index = pandas.get("index_columns") or []
    ranges = [index_range for index_range in index if isinstance(index_range, dict)] if isinstance(index, list) else []
    if any(
        (index_range.get("start"), index_range.get("stop"), index_range.get("step")) != (0, rows, 1)
        for index_range in ranges
    ):
        yield Finding(
            "file-metadata",
            f"the footer of {name!r} has the index of the original data frame, which is not simply 0 to {rows:,}. "
            "The index may disclose which rows of the original these are.",
            f"reset the index first (frame.reset_index(drop=True)), or {remedy}",
            file=name,
        )
    else:
        yield Finding(
            "pandas-metadata",
            f"the footer of {name!r} describes the original pandas data frame (types, versions, the name of the "
            "index).",
            remedy,
            file=name,
        )


def _inspect_statistics(metadata: pq.FileMetaData, columns: Mapping[str, CodedValues], name: str) -> Iterator[Finding]:
    """Compares the smallest and largest values of a footer with those of the rows."""
    described_columns, stale_columns = set(), set()
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            if not chunk.is_stats_set or chunk.statistics is None or not chunk.statistics.has_min_max:
                continue
            described_columns.add(chunk.path_in_schema)
            column = columns.get(chunk.path_in_schema)
            if column is not None and _is_beyond(chunk.statistics, column.values):
                stale_columns.add(chunk.path_in_schema)
    remedy = "rewrite the file without statistics (pyarrow: write_statistics=False)."
    for column_name in sorted(stale_columns):
        yield Finding(
            "statistics-left-over",
            f"the statistics of column {column_name!r} in {name!r} have a smallest or largest value that no row has.",
            remedy,
            column_name,
            name,
        )
    if described_columns - stale_columns:
        yield Finding(
            "column-statistics",
            f"{name!r} has statistics of {len(described_columns)} columns (smallest and largest values, by parts of "
            "the file); they disclose nothing beyond the rows.",
            remedy,
            file=name,
            numbers={"columns": len(described_columns)},
        )


def _is_beyond(statistics: pq.Statistics, values: pa.Array) -> bool:
    if not len(values):
        return False
    try:
        low, high = statistics.min, statistics.max
        if isinstance(low, bytes) or (isinstance(high, str) and max(len(low), len(high)) >= MOST_BYTES):
            return False
        bounds = pa.array([low, high]).cast(values.type)
        beyond = pc.or_(pc.less(bounds, values[0]), pc.greater(bounds, values[-1]))
    except (pa.ArrowException, TypeError, OverflowError):
        return False  # types whose statistics cannot be compared
    return bool(pc.any(beyond).as_py())


def _inspect_dictionaries(path: Path, domains: Mapping[str, pa.Array]) -> Iterator[Finding]:
    """Finds dictionaries that are in the order of other rows, or have values that no row has.

    Any row group may have a dictionary.
    """
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
    texts = [field.name for field in schema if pa.types.is_string(simplify_type(field.type))]
    if not texts:
        return
    nothing = pa.array([], pa.string())
    unordered, lists, appearing_values = (
        set(),
        dict.fromkeys(texts, nothing),
        {name: domains.get(name, nothing) for name in texts},
    )
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        for group in range(file.num_row_groups):
            for name in texts:
                column = file.read_row_group(group, columns=[name]).column(0)
                if not column.num_chunks or not pa.types.is_dictionary(column.type):
                    continue
                listed_values = column.chunk(0).dictionary.cast(pa.string())
                group_values = pc.unique(column.cast(pa.string())).drop_null()
                used_values = listed_values.filter(pc.is_in(listed_values, group_values))
                group_order = group_values.filter(pc.is_in(group_values, listed_values))
                if not (
                    used_values.equals(group_order)
                    or _is_sorted(used_values)
                    or listed_values.equals(domains.get(name, nothing))
                ):
                    unordered.add(name)
                appearing_values[name] = pc.unique(pa.concat_arrays([appearing_values[name], group_values]))
                lists[name] = pc.unique(pa.concat_arrays([lists[name], listed_values]))
    # Ranges follow from their edges, so a range without records discloses nothing about dropped records.
    unused_counts = {
        name: 0
        if is_list_of_rising_ranges(lists[name].to_pylist())
        else int(pc.sum(pc.invert(pc.is_in(lists[name], appearing_values[name]))).as_py() or 0)
        for name in texts
    }
    remedy = "decode the column before writing (pyarrow: column.cast(pa.string()); pandas: astype(str))."
    for name in sorted(unordered):
        yield Finding(
            "dictionary-order",
            f"{path.name!r} lists the values of column {name!r} in an order that is neither sorted nor that of these "
            "rows. This may be their order in the original.",
            remedy,
            name,
            path.name,
        )
    for name in (column_name for column_name in texts if unused_counts[column_name]):
        yield Finding(
            "dictionary-left-over",
            f"{path.name!r} lists {unused_counts[name]:,} values of column {name!r} that no row has. These values "
            "may come from dropped records.",
            f"remove these values (pandas: cat.remove_unused_categories()), or {remedy}",
            name,
            path.name,
            {"values": unused_counts[name]},
        )


def _is_sorted(values: pa.Array) -> bool:
    """Whether strings are in the order of their text, or, if they are ranges, in the order of their edges."""
    return bool(values.equals(values.take(pc.sort_indices(values)))) or is_list_of_rising_ranges(values.to_pylist())


def _read_json(text: bytes) -> Json:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {"unreadable": True}
    return content if isinstance(content, dict) else {"unreadable": True}


# ------------------------------------------------------------------------------------------------------------------ CSV


def inspect_csv(path: Path, encoding: str) -> tuple[list[Finding], str]:
    """Inspects the bytes of a CSV file. Also returns the encoding, if it differs from the named encoding."""
    findings = []
    try:
        first, is_text, has_nul, ends = _scan_bytes(path)
    except OSError as error:
        raise SourceError(
            f"{path.name!r} cannot be read: {explain_os_error(error)}.",
            code="unreadable-file",
            fields={"file": path.name, "reason": explain_os_error(error)},
        ) from error
    mark = next((candidate for candidate in BYTE_ORDER_MARKS if first.startswith(candidate)), None)
    if mark is not None:
        findings.append(
            Finding(
                "byte-order-mark",
                f"{path.name!r} begins with a byte order mark, which some programs read as part of the first column "
                "name.",
                "save the file as UTF-8 without this mark.",
                file=path.name,
            )
        )
    if not is_text:
        findings.append(
            Finding(
                "not-utf-8",
                f"{path.name!r} is not UTF-8, so other programs may misread its letters.",
                "save it as UTF-8.",
                file=path.name,
            )
        )
    if (has_nul and BYTE_ORDER_MARKS.get(mark or b"") != "utf-16") or len(ends) > 1:
        what = "zero bytes" if has_nul else "line ends of several kinds"
        findings.append(
            Finding(
                "odd-bytes",
                f"{path.name!r} contains {what}; it may have been joined from several files.",
                "rewrite the file with one program.",
                file=path.name,
            )
        )
    if encoding.lower() not in {"utf-8", "utf8"}:
        return findings, encoding
    return findings, BYTE_ORDER_MARKS.get(mark or b"", "utf-8" if is_text else "latin-1").removesuffix("-sig")


def _scan_bytes(path: Path) -> tuple[bytes, bool, bool, set[bytes]]:
    """Scans the bytes of a file: the first bytes, valid UTF-8, zero bytes, and the kinds of line ends."""
    decoder, is_text, has_nul, ends = codecs.getincrementaldecoder("utf-8")(), True, False, set()
    with path.open("rb") as file:
        first = block = file.read(READ_BYTES)
        while block:
            try:
                decoder.decode(block)
            except UnicodeDecodeError:
                is_text = False
                decoder.reset()
            has_nul |= b"\0" in block
            returns, breaks = block.count(b"\r\n"), block.count(b"\n")
            ends |= ({b"\r\n"} if returns else set()) | ({b"\n"} if breaks > returns + (block[:1] == b"\n") else set())
            block = file.read(READ_BYTES)
    return first[:4], is_text, has_nul, ends
