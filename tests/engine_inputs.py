"""Tables that every engine publishes alike: of every type, in every order, with and without gaps."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from releases import list_domains, people
from sfumato._request.schema import Schema

ROWS = 101


def cycled(rows: int, **columns: list[Any]) -> pa.Table:
    return pa.table({name: [values[row % len(values)] for row in range(rows)] for name, values in columns.items()})


def every_type() -> pa.Table:
    days = [datetime.date(1970 + year, 2, 28) for year in range(5)]
    return cycled(
        ROWS,
        age=[*range(20, 43)],
        sex=["F", "M"],
        town=["Virum", "Aix", "Lich"],
        weight=[50.5, 61.25, 72.0, 80.125],
        smoker=[True, False, False],
        admitted=days,
        seen=[datetime.datetime(2024, 1, 1, 12, minute) for minute in range(8)],
        disease=["flu", "HIV", "cold", "flu", "asthma", "cold", "flu"],
    )


def with_gaps() -> pa.Table:
    return cycled(
        ROWS,
        age=[None, *range(20, 40)],
        sex=["F", "M", None],
        weight=[50.5, None, float("nan"), 72.0],
        disease=["flu", None, "cold", "flu", "asthma", None, "cold"],
    )


def wide() -> pa.Table:
    """Columns of more values than are counted, which pass through as they are: texts and numbers, some missing."""
    names = [None if row % 10 == 0 else f"name {row * 37 % 89}" for row in range(ROWS)]
    return pa.table(
        {
            "name": names,
            "code": [row * 53 % 97 for row in range(ROWS)],
            "disease": ["flu", "cold", "HIV"] * 33 + ["flu"] * 2,
        }
    )


def encoded() -> pa.Table:
    """Texts as dictionaries whose order differs from chunk to chunk, and as long texts."""
    table = every_type().select(["sex", "town", "disease"])
    chunks = [
        pa.table({name: part.column(name).combine_chunks().dictionary_encode() for name in part.column_names})
        for part in (table.slice(0, 30), table.slice(30, 41), table.slice(71))
    ]
    joined = pa.concat_tables(chunks)
    return joined.set_column(1, "town", table.column("town").cast(pa.large_string()))


@dataclass(frozen=True)
class Input:
    """A table, and how it is to be published."""

    table: pa.Table
    schema: Schema = field(default_factory=lambda: Schema.of("disease", public="*"))
    most_values: int | None = None


PAIR = ("smoker", "disease")

INPUTS: Mapping[str, Input] = {
    "every type": Input(every_type()),
    "sorted": Input(every_type().sort_by("disease")),
    "reversed": Input(every_type().sort_by([("disease", "descending"), ("age", "descending")])),
    "with gaps": Input(with_gaps()),
    "gaps dropped": Input(with_gaps(), Schema.of("disease", nulls="drop", public="*")),
    "sensitive numbers": Input(every_type(), Schema.of("weight", public="*")),
    "wide": Input(wide(), Schema.of("disease", keep=["name", "code"], public="*"), most_values=20),
    "encoded": Input(encoded()),
    "compound": Input(every_type(), Schema.of(compound=PAIR, domains=list_domains(every_type(), PAIR), public="*")),
    "two rows": Input(
        people(2, disease=["flu", "cold"]), Schema.of("disease", keep=["age", "sex", "disease"], public="*")
    ),
}
