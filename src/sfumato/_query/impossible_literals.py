"""Explains errors about values that the release cannot contain.

Without such an error, a typo would look like a zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato._core.cell_values import Value, display, split_value
from sfumato._core.suggestions import explain_missing_name, find_nearest
from sfumato._release.manifest import Manifest
from sfumato._request.range_edges import Ranges
from sfumato.errors import QueryError

NAMED_VALUES = 20
"""The largest number of existing values that a message lists."""
_KINDS = {
    "string": "strings", "integer": "whole numbers", "number": "numbers", "boolean": "booleans", "date": "dates",
    "datetime": "times",
}  # fmt: skip


@dataclass(frozen=True)
class AbsentValue:
    """A value in a question that does not exist in the release. The question can still be answered."""

    column: str
    text: str
    existing_values: Sequence[str]
    """All existing values, or some of them."""
    is_protected: bool

    @property
    def nearest_value(self) -> str | None:
        """The most similar existing value. The search takes a moment."""
        return find_nearest(self.text, self.existing_values)

    @property
    def sentence(self) -> str:
        """The sentence in the answer about this value."""
        if self.is_protected:
            return explain_missing_name(
                self.text, self.existing_values, f"{self.column!r} has no value", most=NAMED_VALUES
            )
        nearest = self.nearest_value
        suggestion = "." if nearest is None else f"; did you mean {nearest!r}?"
        return f"no record has {self.text!r} in {self.column!r}{suggestion}"


def explain_missing_value(value: Value, manifest: Manifest) -> QueryError:
    """Makes the error for a value outside the domain of the protected columns."""
    name, domain = manifest.sensitive_name, manifest.domain
    if len(manifest.sensitive_columns) > 1 and len(split_value(value)) != len(manifest.sensitive_columns):
        return QueryError(
            f"a value of {name!r} needs a part for each of its columns, such as {domain[0]!r}.",
            code="missing-parts",
            fields={"column": name},
        )
    lookalikes = [candidate for candidate in domain if display(candidate) == display(value)]
    if lookalikes and len(manifest.sensitive_types) == 1:
        kind = _KINDS[manifest.sensitive_types[0]]
        hint = "and None stands for a missing value" if lookalikes[0] is None else f"such as {lookalikes[0]!r}"
        return QueryError(
            f"{name!r} has no value {value!r}. Its values are {kind}, {hint}.",
            code="value-of-other-type",
            fields={"column": name},
        )
    return QueryError(
        describe_missing_value(display(value), name, domain), code="unknown-value", fields={"column": name}
    )


def describe_missing_value(text: str, column: str, values: Sequence[Value], what: str = "value") -> str:
    """The sentence about a value or a group that a column does not have."""
    existing_labels = [display(value) for value in dict.fromkeys(values)]
    return explain_missing_name(text, existing_labels, f"{column!r} has no {what}", most=NAMED_VALUES)


def explain_missing_range(text: str, column: str, bins: Ranges) -> QueryError:
    """Makes the error for a string that is not a range of a column published in ranges."""
    return QueryError(
        explain_missing_name(text, bins.labels, f"{column!r} has no range"),
        code="unknown-range",
        fields={"column": column, "nearest": find_nearest(text, bins.labels)},
    )
