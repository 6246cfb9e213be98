"""Types and spellings of the values of declared domains, and columns converted to that type.

Types and spellings follow from the declaration alone. If they followed from the table, they would disclose which values
occur. Take the codes `042 250 401`: a table with `042` would hold text, and a table without `042` whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato._core.cell_values import (
    Value,
    build_domain_array,
    find_field_type,
    format_value_count,
    format_values,
    simplify_type,
)
from sfumato._readers.type_inference import INTEGER, ISO_DAY, ISO_TIMES, NUMBER, Spelling, make_number_spelling
from sfumato._records.column_codes import encode_batch_values
from sfumato._request.hierarchy import Hierarchy
from sfumato.errors import SchemaError

TRUTH = r"^(true|false)$"
ANY_TRUTH = r"^([Tt]rue|TRUE|[Ff]alse|FALSE)$"

SPELLINGS = (Spelling(pa.int64(), INTEGER), make_number_spelling(), ISO_DAY, Spelling(pa.bool_(), TRUTH), *ISO_TIMES)
"""The types of a domain of strings, in order.

The domain has the first type in which all its values can be written, otherwise text.
"""


def make_typed_domain(name: str, declared: Sequence[Value], *, is_text: bool = False) -> pa.Array:
    """The declared values without the missing value, in the type in which they are published."""
    present_values = [value for value in declared if value is not None]
    try:
        domain = _infer_typed_values(present_values, is_text)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"the domain of {name!r} holds values of different types; give it one type.",
            code="domain-of-several-types",
            fields={"column": name},
        ) from error
    if find_field_type(domain.type) is None:
        raise SchemaError(
            f"the domain of {name!r} is of type {domain.type}, which cannot be published.",
            code="unpublishable-type",
            fields={"column": name, "type": str(domain.type)},
        )
    if pa.types.is_floating(domain.type) and not pc.all(pc.is_finite(domain)).as_py():
        raise SchemaError(
            f"the domain of {name!r} holds a number that is not finite; remove that number.",
            code="domain-not-finite",
            fields={"column": name},
        )
    if len(domain.unique()) != len(declared) - (None in declared):
        raise SchemaError(
            f"the domain of {name!r} names a value twice; name each value once.",
            code="repeated-value",
            fields={"column": name},
        )
    return domain


def _infer_typed_values(present_values: Sequence[Value], is_text: bool) -> pa.Array:
    if all(isinstance(value, str) for value in present_values):
        texts = pa.array(present_values, type=pa.string())
        if is_text or not present_values:
            return texts
        return texts.cast(next((candidate.kind for candidate in SPELLINGS if candidate.fits(texts)), pa.string()))
    values = build_domain_array(present_values)
    if is_text:
        return values.cast(pa.string())
    if pa.types.is_floating(values.type):
        return pc.add(values.cast(pa.float64()), 0.0)  # zero has no sign
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz))
    return values.cast(simplify_type(values.type))


def list_groups(hierarchy: Hierarchy, level: str, *, with_missing: bool = True) -> pa.Array:
    """The group of each value at a level of a hierarchy. The last group is that of the missing value, or None.

    The values are in the order of `make_typed_domain`.
    """
    groups = {path[0]: path[hierarchy.find_level(level)] for path in hierarchy.paths}
    last = groups.pop(None, None)
    return pa.array([*groups.values(), last if with_missing else None], type=pa.string())


def replace_by_groups(column: pa.Array, domain: pa.Array, groups: pa.Array, name: str) -> pa.Array:
    """Replaces each value of a column by its group. Values outside the domain are refused."""
    codes, values = encode_batch_values(column)
    places = pc.index_in(values, domain)
    is_present = pa.array(np.bincount(codes, minlength=len(values) + 1)[:-1] > 0)
    if len(outside := values.filter(pc.and_(pc.is_null(places), is_present))):
        raise make_outside_domain_error(name, outside, "hierarchy")
    missing = len(domain)
    group_places = np.append(places.fill_null(missing).to_numpy(zero_copy_only=False), missing)
    return groups.take(pa.array(group_places.take(codes)))


def make_outside_domain_error(name: str, outside: pa.Array, declared_by: str) -> SchemaError:
    """The error for values that are not in the declared domain of a column, or not in its hierarchy."""
    subject, remedy = f"column {name!r} holds", f"correct the table or add them to the {declared_by}."
    return SchemaError(
        f"{subject} {format_value_count(outside)} outside its declared domain; {remedy}",
        sentence_with_values=(
            f"{subject} values outside its declared domain: {format_values(outside.to_pylist())}; {remedy}"
        ),
        code="value-outside-domain",
        fields={"column": name, "values": len(outside), "declared_by": declared_by},
    )


def cast_column_to_domain(column: pa.Array, domain: pa.Array, name: str) -> pa.Array:
    """Converts a column to the type of its domain. Values that cannot have that type are refused."""
    if simplify_type(column.type) == domain.type:
        return column
    codes, values = encode_batch_values(column)
    cast_values = cast_to_domain(values, domain)
    is_unfit = pc.and_(pc.is_valid(values), pc.is_null(cast_values)).to_numpy(zero_copy_only=False)
    # A dictionary may list values that no row has.
    if unfit := int((is_unfit & (np.bincount(codes, minlength=len(values) + 1)[:-1] > 0)).sum()):
        raise SchemaError(
            f"column {name!r} holds values that cannot be read as {find_field_type(domain.type)}, the type of its "
            f"domain ({unfit:,} different such values in the first batch that has any); correct the table or the "
            "domain.",
            code="values-of-another-type",
            fields={"column": name, "type": find_field_type(domain.type), "values": unfit},
        )
    indices = pa.array(codes.astype(np.int32), mask=codes == len(values))
    return pa.DictionaryArray.from_arrays(indices, cast_values)


def cast_to_domain(values: pa.Array, domain: pa.Array) -> pa.Array:
    """Converts values to the type of a domain. A value becomes missing if that type has no equal value."""
    value_type, kind = values.type, domain.type
    if pa.types.is_string(value_type) and value_type != kind:
        return _parse_texts(values, kind)
    if value_type == kind or pa.types.is_string(kind):
        cast_values = _cast(values, kind)
        # Times and booleans have several spellings, and the domain uses one of these.
        is_spelled = pa.types.is_boolean(value_type) or pa.types.is_timestamp(value_type)
        return _match_domain_spelling(values, domain, cast_values) if is_spelled and value_type != kind else cast_values
    if pa.types.is_null(value_type) or _is_zoned(value_type) != _is_zoned(kind):
        return pa.nulls(len(values), kind)
    cast_values = _cast(values, kind)
    if pa.types.is_floating(value_type) and pa.types.is_floating(kind):
        return _match_domain_spelling(values, domain, cast_values)  # 0.1 is not the same number in 32 bits
    # Casting removes the time from dates, and makes every number except zero true.
    return pc.if_else(pc.equal(_cast(cast_values, value_type), values), cast_values, pa.scalar(None, kind))


def _match_domain_spelling(values: pa.Array, domain: pa.Array, cast_values: pa.Array) -> pa.Array:
    """The values of the domain that equal the given values in their type. If no value is equal, the cast values."""
    narrow = _cast(domain, values.type)
    if len(narrow.drop_null().unique()) != len(narrow.drop_null()):
        return cast_values
    return pc.coalesce(domain.take(pc.index_in(values, narrow, skip_nulls=True)), cast_values)


def _is_zoned(kind: pa.DataType) -> bool:
    """Whether a type holds times with an offset, which never equal a time without an offset."""
    return pa.types.is_timestamp(kind) and kind.tz is not None


def _parse_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """The strings that are written like values of a type. A whole number may have a fraction of zero."""
    pattern = next((candidate.pattern for candidate in SPELLINGS if _is_same_type(candidate.kind, kind)), NUMBER)
    pattern = ANY_TRUTH if pa.types.is_boolean(kind) else pattern
    parsed_values = _cast(_select_matching_texts(texts, pattern), kind)
    if not pa.types.is_integer(kind):
        return parsed_values
    return pc.coalesce(parsed_values, _cast(_cast(_select_matching_texts(texts, NUMBER), pa.float64()), kind))


def _is_same_type(kind: pa.DataType, other: pa.DataType) -> bool:
    return find_field_type(kind) == find_field_type(other) and _is_zoned(kind) == _is_zoned(other)


def _select_matching_texts(texts: pa.Array, spelling: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, spelling), texts, pa.scalar(None, pa.string()))


def _cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Converts values to another type. A value becomes missing if that type has no equal value."""
    try:
        return values.cast(kind)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(values), kind)
    except pa.ArrowInvalid:
        if len(values) == 1:
            return pa.nulls(1, kind)
    # Cast the two halves separately, because few values fail, if any.
    middle = len(values) // 2
    return pa.concat_arrays([_cast(values[:middle], kind), _cast(values[middle:], kind)])
