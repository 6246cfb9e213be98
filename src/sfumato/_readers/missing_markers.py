"""What people write where a value is missing."""

from __future__ import annotations

MISSING_MARKERS = ("?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "NaN", "nan", ".", "k.A.", "k. A.", "k.a.")
"""What stands for a missing value wherever it is found."""
DOUBTFUL_MARKERS = (
    *("None", "none", "-", "--", "unknown", "Unknown", "UNKNOWN", "Unknown/Invalid", "missing", "Missing"),
    *("not available", "Not Available", "not recorded", "Not recorded"),
    *("keine Angabe", "unbekannt", "Unbekannt", "inconnu", "desconocido"),
)
"""What stands for a missing value in some tables, and is a value of its own in others."""
