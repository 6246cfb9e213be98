"""Options for reading a table: the encoding, the decimal mark, markers of missing values, and columns of text."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.errors import SchemaError, SourceError

# Common spellings of missing values.

MISSING_MARKERS = ("?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "NaN", "nan", ".", "k.A.", "k. A.", "k.a.")
"""The markers that mean a missing value in every table."""
DOUBTFUL_MARKERS = (
    *("None", "none", "-", "--", "unknown", "Unknown", "UNKNOWN", "Unknown/Invalid", "missing", "Missing"),
    *("not available", "Not Available", "not recorded", "Not recorded"),
    *("keine Angabe", "unbekannt", "Unbekannt", "inconnu", "desconocido"),
)
"""Markers that mean a missing value in some tables, but are values in others."""


# ---------------------------------------------------------------------------------------------------------------------

POINT = "."
DECIMALS = (POINT, ",")
"""The decimal marks that a table may use."""
UTF_8 = "utf-8"


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a table. The defaults are for CSV in UTF-8 with decimal points and empty missing values."""

    text: tuple[str, ...] = ()
    """Columns that stay text, even if their values look like numbers or dates."""
    encoding: str = UTF_8
    """The encoding of CSV files and JSON lines.

    A file of a statistics package declares its own encoding. Any other value than the default overrides that encoding.
    """
    missing: tuple[str, ...] = ()
    """Strings that mark a missing value, in every column."""
    decimal: str = POINT
    """The decimal mark of CSV files: a point or a comma."""

    def __post_init__(self) -> None:
        for name, meaning in (("text", "columns to read as text"), ("missing", "strings that mark a missing value")):
            option_value = getattr(self, name)
            if isinstance(option_value, str):
                raise SchemaError(
                    f"the {meaning} must be a list, such as [{option_value!r}].",
                    code="not-a-list",
                    fields={"argument": name},
                )
            object.__setattr__(self, name, tuple(option_value))
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError) as error:
            raise SourceError(
                f"the encoding {self.encoding!r} is unknown; try utf-8, latin-1 or cp1252.",
                code="unknown-encoding",
                fields={"encoding": self.encoding},
            ) from error
        if self.decimal not in DECIMALS:
            raise SourceError(
                f"the decimal mark {self.decimal!r} is unknown; use a point or a comma.",
                code="unknown-decimal-mark",
                fields={"decimal": self.decimal},
            )


DEFAULT_READ_OPTIONS = ReadOptions()
"""The options that are used if none are given."""
