"""Reads CSV files as text first. A column becomes numbers or dates only if no information is lost.

A column has integers if every value is written in the usual form of an integer (so `007` stays text). It has numbers if
every value is a number with a decimal point, or with a decimal comma on request. It has dates or times if all values
have the same spelling (`type_inference`). Empty fields and the data steward's markers are missing values; they are
replaced before numbers are read. A column with a declared domain is read as text, because its type is that of the
domain.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TextIO

import pyarrow as pa
import pyarrow.csv as pa_csv

from sfumato._core.digests import FileMapper, compute_files_digest
from sfumato._core.object_store import File
from sfumato._readers.column_names import LOOK_AHEAD, check_names_differ, find_name_row, is_title
from sfumato._readers.compressed_files import find_ending, make_unreadable_error, open_content, open_text
from sfumato._readers.read_options import DEFAULT_READ_OPTIONS, ReadOptions
from sfumato._readers.reader import Opening, TableReader
from sfumato._readers.type_inference import DATES, Spelling, SpellingGuess, list_number_spellings
from sfumato.errors import SourceError

BLOCK_BYTES = 1 << 23
DELIMITERS = ",;\t|"
LONGEST_LINE = 1 << 17
TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class CsvSource:
    """One or several CSV files with the same header."""

    paths: tuple[File, ...]
    schema: pa.Schema
    delimiter: str
    encoding: str
    file_rows: tuple[int, ...] = ()
    """The number of rows of each file."""
    missing: tuple[str, ...] = ()
    """The strings that mark a missing value, in addition to the empty string."""
    spellings: Mapping[str, Spelling] = field(default_factory=dict)
    """The spellings of the columns that are not text."""

    @classmethod
    def open(cls, paths: Sequence[File], options: ReadOptions = DEFAULT_READ_OPTIONS) -> CsvSource:
        """Read the files once to find the types of their columns."""
        encoding = options.encoding
        header, delimiter = _read_header(paths[0], encoding)
        for path in paths[1:]:
            if _read_header(path, encoding) != (header, delimiter):
                raise SourceError(
                    f"{path.name!r} has another header than {paths[0].name!r}; make the headers the same.",
                    code="other-columns",
                    fields={"file": path.name, "first_file": paths[0].name},
                )
        check_names_differ(header)
        texts = pa.schema([(name, pa.string()) for name in header])
        untyped = cls(tuple(paths), texts, delimiter, encoding, missing=options.missing)
        guesses = {
            name: SpellingGuess((*list_number_spellings(options.decimal), *DATES))
            for name in header
            if name not in options.text
        }
        file_rows = []
        for path in paths:
            rows = 0
            for batch in replace(untyped, paths=(path,)).read_batches(header, 0):
                rows += batch.num_rows
                for name, guess in guesses.items():
                    guess.add(batch.column(name).dictionary)
            file_rows.append(rows)
        spellings = {name: spelling for name, guess in guesses.items() if (spelling := guess.spelling)}
        types = {name: spelling.kind for name, spelling in spellings.items()}
        schema = pa.schema([(name, types.get(name, pa.string())) for name in header])
        return replace(untyped, schema=schema, file_rows=tuple(file_rows), spellings=spellings)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.file_rows)

    def read_batches(self, columns: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Stream the files in blocks. If `batch_rows` is 0, the original blocks are kept."""
        for path in self.paths:
            for block in self._read_blocks(path, columns):
                typed_batch = self._convert_types(block)
                for first in range(0, typed_batch.num_rows, batch_rows or typed_batch.num_rows or 1):
                    yield typed_batch.slice(first, batch_rows or typed_batch.num_rows)

    def iter_pieces(self, rows: int) -> Iterator[CsvSource]:
        """One piece for each file, because the start of a row is found only by reading from the beginning."""
        for path, size in zip(self.paths, self.file_rows, strict=True):
            yield replace(self, paths=(path,), file_rows=(size,))

    def compute_fingerprint(self, map_files: FileMapper = map, *, is_content: bool = True) -> str:
        """The digest of the files."""
        return compute_files_digest(self.paths, map_files, is_content=is_content)

    def _read_blocks(self, path: File, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        try:
            with pa_csv.open_csv(
                open_content(path),
                read_options=pa_csv.ReadOptions(block_size=BLOCK_BYTES, encoding=self.encoding),
                parse_options=pa_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=pa_csv.ConvertOptions(
                    column_types={name: TEXT for name in self.schema.names},
                    include_columns=list(columns),
                    strings_can_be_null=True,
                    null_values=["", *self.missing],
                    auto_dict_encode=False,
                ),
            ) as reader:
                yield from reader
        except (pa.ArrowException, UnicodeError):
            raise self._explain_failure(path) from None  # Arrow's message would repeat the row
        except OSError as error:
            raise make_unreadable_error(path, error) from error

    def _explain_failure(self, path: File) -> SourceError:
        """Find out why Arrow refused a file, and explain it without repeating the content."""
        try:
            with open_text(path, self.encoding) as file:
                for row in (reader := csv.reader(_read_short_lines(file), delimiter=self.delimiter)):
                    if len(row) not in (0, len(self.schema)):
                        return SourceError(
                            f"line {reader.line_num} of {path.name!r} has {len(row)} fields, but the header has "
                            f"{len(self.schema)}; correct this line (a field that contains the separator needs "
                            "quotes).",
                            code="wrong-number-of-fields",
                            fields={
                                "file": path.name,
                                "line": reader.line_num,
                                "fields": len(row),
                                "columns": len(self.schema),
                            },
                        )
        except UnicodeError:
            return _make_encoding_error(path, self.encoding)
        except csv.Error:
            pass
        except pa.ArrowException as error:
            return make_unreadable_error(path, error)
        return SourceError(
            f"{path.name!r} cannot be read as a CSV file, because its quotes or separators are inconsistent.",
            code="damaged-file",
            fields={"file": path.name},
        )

    def _convert_types(self, block: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for name, column in zip(block.schema.names, block.columns, strict=True):
            try:
                spelling = self.spellings.get(name)
                values = spelling.read(column.dictionary) if spelling else column.dictionary
            except pa.ArrowInvalid:
                raise SourceError(
                    f"the table changed while it was read: {name!r} has values that it did not have before.",
                    code="table-changed",
                    fields={"column": name},
                ) from None  # Arrow's message would repeat the value
            columns.append(pa.DictionaryArray.from_arrays(column.indices, values))
        return pa.RecordBatch.from_arrays(columns, names=block.schema.names)


def open_csv(opening: Opening) -> CsvSource:
    """Open CSV files with the same header."""
    return CsvSource.open(opening.files, opening.read_options)


def _read_header(path: File, encoding: str) -> tuple[list[str], str]:
    """Finds the column names and the separator.

    The separator is the candidate that occurs most often in the first line.
    """
    try:
        with open_text(path, encoding) as file:
            line = file.readline(LONGEST_LINE).lstrip("\ufeff")
            if len(line) == LONGEST_LINE:
                raise csv.Error
            if re.fullmatch('"?sep=.?"?', line.strip(), re.IGNORECASE):
                raise SourceError(
                    f"the first line of {path.name!r} is an instruction for Excel and does not name the columns; "
                    "remove this line.",
                    code="note-for-excel",
                    fields={"file": path.name},
                )
            # A separator inside quotes belongs to a name. In a .tsv file the separator is the tab.
            candidates = "\t" if find_ending(path) == ".tsv" else DELIMITERS
            delimiter = max(candidates, key=re.sub('"[^"]*"?', "", line).count)
            header = next(csv.reader(itertools.chain([line], file), delimiter=delimiter), [])
            if is_title(header):
                _check_title(path, header, delimiter, [line, *(file.readline(LONGEST_LINE) for _ in range(LOOK_AHEAD))])
    except csv.Error as error:
        raise SourceError(
            f"the column names in the first line of {path.name!r} cannot be read.",
            code="invalid-header",
            fields={"file": path.name},
        ) from error
    except UnicodeError as error:
        raise _make_encoding_error(path, encoding) from error
    except (OSError, pa.ArrowException) as error:
        raise make_unreadable_error(path, error) from error
    if not line.strip():
        raise SourceError(
            f"{path.name!r} is empty, but the first line must name the columns.",
            code="empty-file",
            fields={"file": path.name},
        )
    return header, delimiter


def _make_encoding_error(path: File, encoding: str) -> SourceError:
    return SourceError(
        f"{path.name!r} is not {encoding} text; name its encoding, such as `encoding='latin-1'`.",
        code="other-encoding",
        fields={"file": path.name, "encoding": encoding},
    )


def _check_title(path: File, header: Sequence[str], delimiter: str, lines: Sequence[str]) -> None:
    """Refuse a title above the names of the columns."""
    for candidate in dict.fromkeys((delimiter, *DELIMITERS)):
        try:
            rows = list(csv.reader(lines, delimiter=candidate))
        except csv.Error:
            continue  # this may be an unclosed quote, which is explained when the table is read
        place = find_name_row(rows)
        # The texts of a single column may have separators, unless an empty line ends a title.
        is_ended = len(header) > 1 or candidate == "," or [] in rows[1:place]
        if place is not None and is_ended and len(rows) == len(lines):
            raise SourceError(
                f"the first line of {path.name!r} does not name the columns, but line {place + 1} seems to; remove "
                "the lines above it.",
                code="title-above-header",
                fields={"file": path.name, "line": place + 1},
            )


def _read_short_lines(file: TextIO) -> Iterator[str]:
    """The lines of a file. Stops at a line that is longer than a block, because Arrow cannot read it either."""
    while line := file.readline(BLOCK_BYTES):
        if len(line) == BLOCK_BYTES:
            raise csv.Error
        yield line


READER = TableReader(
    name="CSV",
    example="people.csv",
    open=open_csv,
    endings=(".csv", ".tsv", ".txt"),
    explicit_endings=(".txt",),
    takes_several=True,
    reads_stores=True,
    reads_compressed=True,
    beginnings=(b"",),
    marks_missing=True,
)
