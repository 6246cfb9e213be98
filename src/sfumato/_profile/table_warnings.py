"""Warnings for the data steward before publication: private advice, never written into a release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import format_values
from sfumato._figures.number_format import format_exact_percent, format_upper_factor, format_upper_percent
from sfumato._profile.table_profile import Profile
from sfumato._profile.untidy_values import Untidy, find_untidy_kinds, group_by_kind
from sfumato._readers.read_options import MISSING_MARKERS
from sfumato._readers.type_inference import has_decimal_commas
from sfumato._request.belief_bounds import BreachBound
from sfumato._request.histogram import Histogram
from sfumato._request.person_rows import PersonBasis, PersonCheck
from sfumato._request.schema import Schema
from sfumato._request.warnings import Notice, NoticeNumber


def list_warnings(schema: Schema, dropped_records: int, persons: PersonCheck | None) -> list[Notice]:
    """Lists the warnings for the data steward: private advice, never written into a release."""
    warnings = [] if persons is None else _warn_of_chosen_rows(persons)
    if dropped_records:
        left_out = (
            f"{dropped_records} records without a {schema.sensitive_name!r} were dropped. An attacker who knows that "
            "a person is in the table, but finds no record of this person in the release, learns that the value was "
            "missing."
        )
        warnings.append(Notice("records-left-out", left_out, schema.sensitive_name, {"records": dropped_records}))
    if schema.person_column is None and not schema.each_row_is_a_person:
        unchecked = (
            "no person column was given, so repeated persons were not checked for, and the guarantee holds for "
            "each row separately; name the column (`person=`), or state that no person has two rows "
            "(`each_row_is_a_person=True`)."
        )
        warnings.append(Notice("persons-unchecked", unchecked))
    elif persons is not None and persons.basis is PersonBasis.ROW_NUMBERS:
        row_number = (
            f"the person column {schema.person_column!r} numbers the rows, so it does not show whether a person has "
            "several rows, and persons were not checked; name a column that identifies the person (`person=`), or "
            "state that "
            "no person has two rows (`each_row_is_a_person=True`)."
        )
        warnings.append(Notice("row-number-as-person", row_number, schema.person_column))
    if not schema.is_declared:
        undeclared = schema.list_undeclared()[0]
        observed = (
            f"the domain of {schema.sensitive_name!r} was taken from the table, so the release discloses which "
            f"values occur; declare the domain to avoid this (`domains={{{undeclared!r}: Path('FILE')}}`)."
        )
        warnings.append(Notice("domain-observed", observed, undeclared))
    return warnings


def _warn_of_chosen_rows(persons: PersonCheck) -> list[Notice]:
    """Warns that rows were chosen, and that another publication would choose other rows."""
    if not persons.is_selective:
        return []
    sentence = (
        f"{persons.dropped_rows:,} rows are dropped, because other rows of the same persons are published. Only the "
        "plan file "
        "(`plan_file=`) records which rows are published. Without the plan file, another publication may contain "
        "other rows of the same persons, and this release can never be compared with the table."
    )
    return [Notice("rows-chosen", sentence, None, {"left_out": persons.dropped_rows})]


def warn_of_missing_markers(profile: Profile) -> list[Notice]:
    """Warn about columns with strings that usually mark a missing value, but would be published as values."""
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
        f"{format_values(columns)} {'has' if len(columns) == 1 else 'have'} a string that usually marks a missing "
        "value, but is counted as a value. If the string marks a missing value, name it "
        f"(`missing={present_markers!r}`)."
    )
    return [Notice("missing-marks", sentence, columns[0] if len(columns) == 1 else None, {"columns": len(columns)})]


def warn_of_decimal_commas(profile: Profile) -> list[Notice]:
    """Warn about columns of strings that look like numbers with a decimal comma."""
    texts = [column for column in profile.columns.values() if pa.types.is_string(column.type)]
    columns = [column.name for column in texts if has_decimal_commas(column.values)]
    if not columns:
        return []
    are = "looks like numbers" if len(columns) == 1 else "look like numbers"
    sentence = (
        f"{format_values(columns)} {are} with a decimal comma, and every number is published as text. If the values "
        "are numbers, give the decimal mark (`decimal=','`) and publish them in ranges (`ranges=`)."
    )
    return [Notice("decimal-commas", sentence, columns[0] if len(columns) == 1 else None, {"columns": len(columns)})]


UNTIDY_NOTICES: Mapping[Untidy, Callable[..., Notice]] = {
    Untidy.MISSING_NUMBERS: lambda *parts: Notice("missing-numbers", *parts),
    Untidy.OUTER_SPACES: lambda *parts: Notice("outer-spaces", *parts),
    Untidy.SPELLINGS: lambda *parts: Notice("several-spellings", *parts),
    Untidy.THOUSANDS: lambda *parts: Notice("thousands-separators", *parts),
    Untidy.DATES: lambda *parts: Notice("dates-as-text", *parts),
    Untidy.FREE_TEXT: lambda *parts: Notice("free-text", *parts),
    Untidy.NAME_SPACES: lambda *parts: Notice("spaces-in-names", *parts),
}
"""The code of the notice for each kind of untidy values."""


def warn_of_untidy_values(profile: Profile, published_names: Collection[str]) -> list[Notice]:
    """Warn about published columns with untidy values. Numbers in ranges are examined before they are grouped."""
    columns = [column for name, column in profile.columns.items() if name in published_names]
    kinds = [
        (column.name, find_untidy_kinds(column.name, column.values, column.counts))
        for column in (*columns, *profile.raw_columns.values())
    ]
    notices = []
    for kind, names in group_by_kind(kinds).items():
        sentence = f"{format_values(names)}: {kind.value.finding}; {kind.value.remedy}."
        notices.append(UNTIDY_NOTICES[kind](sentence, names[0] if len(names) == 1 else None, {"columns": len(names)}))
    return notices


def warn_of_frequent_values(histogram: Histogram, bound: BreachBound, column: str) -> list[Notice]:
    """Warn about values that are too frequent for the bound, with the share of people who have these values."""
    frequent = histogram.list_values_above(bound.prior)
    if not frequent:
        return []
    # The confidence in the most frequent value, if its odds are multiplied by the whole amplification.
    share = max(histogram.shares)
    largest_belief = share * bound.person_amplification / (share * bound.person_amplification + 1 - share)
    covered_share = histogram.count_within(bound.prior) / max(histogram.total, 1)
    factor = format_upper_factor(bound.person_amplification)
    most_frequent = histogram.values[histogram.counts.index(max(histogram.counts))]
    sentence = (
        f"the limit of {bound.posterior} on an attacker's confidence covers {format_exact_percent(covered_share)} of "
        f"records. These values of {column!r} are not covered, because they are more frequent than the prior "
        f"{bound.prior}: {format_values(frequent)}. There is no fixed limit on the confidence in these values; only "
        f"the factor by which the odds can rise is limited ({factor}). Confidence in "
        f"{format_values([most_frequent])} can rise from {format_exact_percent(float(share))} to at most "
        f"{format_upper_percent(largest_belief)}."
    )
    numbers: dict[str, NoticeNumber] = {
        "values": len(frequent),
        "prior": str(bound.prior),
        "covered_share": covered_share,
        "amplification": str(bound.person_amplification),
        "largest_belief": float(largest_belief),
    }
    return [Notice("frequent-values", sentence, column, numbers)]
