"""What the holder of a table should know before publishing it: private advice, never written into a release."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import format_values
from sfumato._profile.table_profile import Profile
from sfumato._readers.read_options import MISSING_MARKERS
from sfumato._readers.type_inference import has_decimal_commas
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import PersonCheck
from sfumato._request.schema import Schema
from sfumato._request.warnings import Notice, NoticeNumber


def list_warnings(schema: Schema, dropped_records: int, persons: PersonCheck | None) -> list[Notice]:
    """What the holder should know: private advice, never written into a release."""
    warnings = [] if persons is None else _warn_of_chosen_rows(persons)
    if dropped_records:
        left_out = (
            f"{dropped_records} records without a {schema.sensitive_name!r} were left out; whoever misses a person's "
            "record in the release learns that the value was missing."
        )
        warnings.append(Notice("records-left-out", left_out, schema.sensitive_name, {"records": dropped_records}))
    if schema.person_column is None:
        unchecked = (
            "nothing says whose row is whose, so it was not checked that each person has one row, and the promise "
            "holds for each row alone; name the column that tells (`person=`)."
        )
        warnings.append(Notice("persons-unchecked", unchecked))
    if not schema.is_declared:
        what = "combinations" if schema.compound else "values"
        undeclared = next(name for name in schema.sensitive_columns if name not in (*schema.domains, *schema.ranges))
        observed = (
            f"the domain of {schema.sensitive_name!r} was taken from the table, so the release tells which {what} "
            f"occur; declare it to avoid that (`domains={{{undeclared!r}: Path('FILE')}}`)."
        )
        warnings.append(Notice("domain-observed", observed, undeclared))
    return warnings


def _warn_of_chosen_rows(persons: PersonCheck) -> list[Notice]:
    """That rows were chosen, and that another publication would choose others."""
    if not persons.is_selective:
        return []
    sentence = (
        f"{persons.dropped_rows:,} rows are left out, because their persons have others. Only the plan file "
        "(`plan_file=`) says which: without one, another publication may show other rows of the same persons, and this "
        "one can never be compared with the table."
    )
    return [Notice("rows-chosen", sentence, None, {"left_out": persons.dropped_rows})]


def warn_of_missing_markers(profile: Profile) -> list[Notice]:
    """Name the texts that usually stand for a missing value, and are published as values."""
    usual, marks, columns = pa.array(MISSING_MARKERS), set(), []
    for column in profile.columns.values():
        if pa.types.is_string(column.type):
            present_marks = usual.filter(pc.is_in(usual, value_set=column.values)).to_pylist()
            marks.update(present_marks)
            columns += [column.name] if present_marks else []
    if not marks:
        return []
    present_markers = [mark for mark in MISSING_MARKERS if mark in marks]
    sentence = (
        f"{format_values(columns)} {'has' if len(columns) == 1 else 'have'} a text that usually stands for a missing "
        f"value, and it is counted as a value; say so if it is none (`missing={present_markers!r}`)."
    )
    return [Notice("missing-marks", sentence, columns[0] if len(columns) == 1 else None, {"columns": len(columns)})]


def warn_of_decimal_commas(profile: Profile) -> list[Notice]:
    """Name the columns of texts that would be numbers if a comma were taken for the decimal mark."""
    texts = [column for column in profile.columns.values() if pa.types.is_string(column.type)]
    columns = [column.name for column in texts if has_decimal_commas(column.values)]
    if not columns:
        return []
    are = "looks like numbers" if len(columns) == 1 else "look like numbers"
    sentence = (
        f"{format_values(columns)} {are} with a decimal comma, and every number is published as a text; if they are "
        "numbers, say so (`decimal=','`), and then publish them in ranges (`ranges=`)."
    )
    return [Notice("decimal-commas", sentence, columns[0] if len(columns) == 1 else None, {"columns": len(columns)})]


def warn_of_frequent_values(histogram: Histogram, bound: BreachBound, column: str) -> list[Notice]:
    """Name the values that are too frequent for the bound to speak of them."""
    frequent = histogram.list_values_above(bound.prior)
    if not frequent:
        return []
    # Where the belief in the most frequent can rise to if its odds are multiplied by the whole amplification.
    share = max(histogram.shares)
    largest_belief = share * bound.person_amplification / (share * bound.person_amplification + 1 - share)
    coverage = "The other values are covered in full."
    if len(frequent) == histogram.domain_size:
        coverage = "No value is covered in full: raise the prior, or group the values otherwise."
    sentence = (
        f"more frequent in {column!r} than the prior {bound.prior}: {format_values(frequent)}. Whoever knows the "
        "frequencies believes such a value more than the bound speaks of, so for it only the odds are bounded (by a "
        f"factor of {bound.person_amplification}): the most frequent may come to be believed with "
        f"{float(largest_belief):.2f}. {coverage}"
    )
    numbers: dict[str, NoticeNumber] = {
        "values": len(frequent),
        "prior": str(bound.prior),
        "amplification": str(bound.person_amplification),
        "largest_belief": float(largest_belief),
    }
    return [Notice("frequent-values", sentence, column, numbers)]
