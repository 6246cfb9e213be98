"""The private document of the measures: class sizes, and the number of each model with its limitation."""

from __future__ import annotations

import math

from sfumato._document.document import DataTable, Document, Facts, Section, Text, Tone, make_section
from sfumato._figures.number_format import format_count, format_exact_percent
from sfumato._risk.privacy_models.measure_table import MODELS, SCOPE, Measures, PrivacyModel

DIGITS = 4


def make_measures_document(measures: Measures) -> Document:
    """Makes the document, first with the numbers and then with their meanings."""
    shares = measures.class_size_shares
    pairs = (
        ("records", f"{measures.rows:,} in {measures.group_count:,} equivalence classes"),
        ("classes by", ", ".join(measures.public_columns) or "no column"),
        ("smallest class", f"{format_count(measures.smallest_group, 'record')} (k of k-anonymity)"),
        ("unique records", f"{format_exact_percent(shares.unique_share)} of records"),
        ("in classes below 5", f"{format_exact_percent(shares.below_5)} of records"),
        ("in classes below 11", f"{format_exact_percent(shares.below_11)} of records"),
    )
    models = MODELS if measures.columns else MODELS[:1]
    sections = (
        make_section("Equivalence classes", Facts("", pairs)),
        make_section("Sensitive columns", *_make_table(measures)) if measures.columns else None,
        *map(_explain_model, models),
        make_section("", Text(SCOPE)),
    )
    present = tuple(section for section in sections if section is not None)
    return Document("Measures of a table", "", present, is_private=True)


def _make_table(measures: Measures) -> tuple[DataTable, Text]:
    names = tuple(column.column for column in measures.columns)
    rows = tuple(
        (model.name, *(_format_number(column.numbers[model.key]) for column in measures.columns)) for model in MODELS
    )
    note = "The classes also use the other sensitive columns." if measures.others_known else ""
    return DataTable("", ("measure", *names), rows, tuple(range(1, 1 + len(names)))), Text(note)


def _explain_model(model: PrivacyModel) -> Section:
    return make_section(
        "", Text(model.name.strip(), Tone.STRONG), Text(model.meaning), Text(f"Limitation: {model.limitation}")
    )


def _format_number(value: float | None) -> str:
    if value is None:
        return "-"
    if math.isinf(value):
        return "infinite"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{DIGITS}g}"
