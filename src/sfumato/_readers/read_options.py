"""Holds how a table is read: the encoding, the decimal mark, markers of missing values, and columns of text."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import SchemaError, SourceError

# What people write where a value is missing.

MISSING_MARKERS = ("?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "NaN", "nan", ".", "k.A.", "k. A.", "k.a.")
"""What stands for a missing value wherever it is found."""
DOUBTFUL_MARKERS = (
    *("None", "none", "-", "--", "unknown", "Unknown", "UNKNOWN", "Unknown/Invalid", "missing", "Missing"),
    *("not available", "Not Available", "not recorded", "Not recorded"),
    *("keine Angabe", "unbekannt", "Unbekannt", "inconnu", "desconocido"),
)
"""What stands for a missing value in some tables, and is a value of its own in others."""


# ---------------------------------------------------------------------------------------------------------------------

POINT = "."
DECIMALS = (POINT, ",")
"""The decimal marks that a table may use."""
UTF_8 = "utf-8"


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read. The defaults fit a CSV file in UTF-8 with decimal points and empty missing values."""

    text: tuple[str, ...] = ()
    """Columns that stay text, whatever their values look like."""
    encoding: str = UTF_8
    """The encoding of CSV files and JSON lines. Files of statistics packages name theirs; another one overrides it."""
    missing: tuple[str, ...] = ()
    """Texts that stand for a missing value, in every column."""
    decimal: str = POINT
    """The decimal mark of CSV files: a point or a comma."""

    def __post_init__(self) -> None:
        for name, meaning in (("text", "columns to read as text"), ("missing", "texts that stand for a missing value")):
            option_value = getattr(self, name)
            if isinstance(option_value, str):
                raise SchemaError(f"give a list of the {meaning}, such as [{option_value!r}].")
            object.__setattr__(self, name, tuple(option_value))
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError) as error:
            raise SourceError(f"the encoding {self.encoding!r} is unknown; try utf-8, latin-1 or cp1252.") from error
        if self.decimal not in DECIMALS:
            raise SourceError(
                f"the decimal mark {self.decimal!r} is unknown; numbers are written with a point or a comma."
            )


DEFAULT_READ_OPTIONS = ReadOptions()
"""What holds where nothing is said."""
