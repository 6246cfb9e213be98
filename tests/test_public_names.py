"""The public names: what is listed here is promised, and a change of this list is a change of the promise."""

from __future__ import annotations

import inspect

import pytest

import sfumato
from sfumato.errors import SfumatoError

NAMES = [
    "Answer",
    "Attack",
    "Bins",
    "BreachBound",
    "BreachBoundPerValue",
    "Chosen",
    "Comparison",
    "CountQuery",
    "DecoyGroups",
    "Diversity",
    "EngineError",
    "ErrorAt",
    "Estimate",
    "Estimates",
    "Exported",
    "Finding",
    "Hierarchy",
    "Histogram",
    "InfeasibleError",
    "Inspection",
    "InternalError",
    "Interval",
    "LinearCap",
    "LocalEngine",
    "Measures",
    "MissingCapabilityError",
    "MissingExtraError",
    "Notice",
    "NoticeError",
    "NoticeWarning",
    "NullPolicy",
    "Outlook",
    "Publication",
    "QueryError",
    "Range",
    "ReadOptions",
    "Release",
    "ReleaseFormatError",
    "Request",
    "Role",
    "Schema",
    "SchemaError",
    "SfumatoError",
    "ShareCap",
    "SourceError",
    "SparkEngine",
    "SpecError",
    "TargetError",
    "Tolerance",
    "Verification",
    "bound_for_error",
    "choose",
    "compare",
    "export",
    "lint",
    "measure",
    "plan_table",
    "publish",
    "verify",
]


def test_public_names_are_these() -> None:
    assert sfumato.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_public_name_can_be_imported_and_is_documented(name: str) -> None:
    found = getattr(sfumato, name)
    assert inspect.getdoc(found)
    assert found.__module__.startswith("sfumato.")


def test_star_import_gives_the_public_names() -> None:
    scope: dict[str, object] = {}
    exec("from sfumato import *", scope)
    assert set(scope) - {"__builtins__"} == set(NAMES)


def test_every_error_is_public() -> None:
    def tree(kind: type[SfumatoError]) -> set[str]:
        return {kind.__name__}.union(*map(tree, kind.__subclasses__()))

    # `Blocked` knows values by their places only: planners turn it into an `InfeasibleError` that names them.
    assert tree(SfumatoError) - {"Blocked"} == {name for name in NAMES if name.endswith("Error")}


def test_package_tells_what_it_is_for() -> None:
    assert sfumato.__doc__
    assert "publish" in sfumato.__doc__
