"""Publish a table about people so that analysts count accurately and nobody can point at a person.

The holder of a table:

    schema = Schema.of("disease", identifier=["name"])
    request = Request("patients.parquet", schema=schema, spec=BreachBound("1/10", "1/3"))
    publication = publish(request, "release")

The analyst:

    release = Release.open("release")
    release.count("HIV", where="sex = 'F'").interval()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.apply.formats.read_options import ReadOptions
    from sfumato.apply.local import LocalEngine
    from sfumato.apply.spark import SparkEngine
    from sfumato.audit.attackers.attack import Attack
    from sfumato.audit.lint.finding import Finding, Inspection
    from sfumato.audit.lint.linting import lint
    from sfumato.audit.measures.measure import Measures, measure
    from sfumato.audit.original import verify
    from sfumato.audit.result import Verification
    from sfumato.comparison.compare import compare
    from sfumato.comparison.outcome import Comparison
    from sfumato.errors import (
        EngineError,
        InfeasibleError,
        InternalError,
        MissingCapabilityError,
        MissingExtraError,
        NoticeError,
        QueryError,
        ReleaseFormatError,
        SchemaError,
        SfumatoError,
        SourceError,
        SpecError,
        TargetError,
    )
    from sfumato.estimate.answer import Answer
    from sfumato.estimate.count.queries import CountQuery, Range
    from sfumato.estimate.estimate import Estimate, Estimates, Interval
    from sfumato.estimate.exporting import Exported, export
    from sfumato.estimate.release import Release
    from sfumato.mechanisms.curve import ErrorAt
    from sfumato.outlook import Outlook, Request, plan_table
    from sfumato.plan.choose import choose
    from sfumato.plan.predict import Chosen
    from sfumato.plan.target import bound_for_error
    from sfumato.publication import Publication, publish
    from sfumato.request.group_spec import DecoyGroups, Diversity, LinearCap, ShareCap
    from sfumato.request.hierarchy import Hierarchy
    from sfumato.request.histogram import Histogram
    from sfumato.request.notice import Notice, NoticeWarning
    from sfumato.request.schema import Bins, NullPolicy, Role, Schema
    from sfumato.request.spec import BreachBound, BreachBoundPerValue, Tolerance

__all__ = [
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

_HOMES = {
    "Answer": "sfumato.estimate.answer",
    "Attack": "sfumato.audit.attackers.attack",
    "Bins": "sfumato.request.schema",
    "BreachBound": "sfumato.request.spec",
    "BreachBoundPerValue": "sfumato.request.spec",
    "Chosen": "sfumato.plan.predict",
    "Comparison": "sfumato.comparison.outcome",
    "CountQuery": "sfumato.estimate.count.queries",
    "DecoyGroups": "sfumato.request.group_spec",
    "Diversity": "sfumato.request.group_spec",
    "EngineError": "sfumato.errors",
    "ErrorAt": "sfumato.mechanisms.curve",
    "Estimate": "sfumato.estimate.estimate",
    "Estimates": "sfumato.estimate.estimate",
    "Exported": "sfumato.estimate.exporting",
    "Finding": "sfumato.audit.lint.finding",
    "Hierarchy": "sfumato.request.hierarchy",
    "Histogram": "sfumato.request.histogram",
    "InfeasibleError": "sfumato.errors",
    "Inspection": "sfumato.audit.lint.finding",
    "InternalError": "sfumato.errors",
    "Interval": "sfumato.estimate.estimate",
    "LinearCap": "sfumato.request.group_spec",
    "LocalEngine": "sfumato.apply.local",
    "Measures": "sfumato.audit.measures.measure",
    "MissingCapabilityError": "sfumato.errors",
    "MissingExtraError": "sfumato.errors",
    "Notice": "sfumato.request.notice",
    "NoticeError": "sfumato.errors",
    "NoticeWarning": "sfumato.request.notice",
    "NullPolicy": "sfumato.request.schema",
    "Outlook": "sfumato.outlook",
    "Publication": "sfumato.publication",
    "QueryError": "sfumato.errors",
    "Range": "sfumato.estimate.count.queries",
    "ReadOptions": "sfumato.apply.formats.read_options",
    "Release": "sfumato.estimate.release",
    "ReleaseFormatError": "sfumato.errors",
    "Request": "sfumato.outlook",
    "Role": "sfumato.request.schema",
    "Schema": "sfumato.request.schema",
    "SchemaError": "sfumato.errors",
    "SfumatoError": "sfumato.errors",
    "ShareCap": "sfumato.request.group_spec",
    "SourceError": "sfumato.errors",
    "SparkEngine": "sfumato.apply.spark",
    "SpecError": "sfumato.errors",
    "TargetError": "sfumato.errors",
    "Tolerance": "sfumato.request.spec",
    "Verification": "sfumato.audit.result",
    "bound_for_error": "sfumato.plan.target",
    "choose": "sfumato.plan.choose",
    "compare": "sfumato.comparison.compare",
    "export": "sfumato.estimate.exporting",
    "lint": "sfumato.audit.lint.linting",
    "measure": "sfumato.audit.measures.measure",
    "plan_table": "sfumato.outlook",
    "publish": "sfumato.publication",
    "verify": "sfumato.audit.original",
}
"""Where each name lives: a module is loaded when one of its names is first used, because some take long to load."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(home), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
