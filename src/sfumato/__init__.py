"""Publish a table about people so that analysts count accurately and nobody can point at a person.

The holder of a table:

    request = Request("patients.parquet", Schema.of("disease", identifier=["name"]), BreachBound("1/10", "1/3"))
    publication = publish(request, "release")

The analyst:

    release = Release.open("release")
    release.count("HIV", where="sex = 'F'").interval()
"""

from __future__ import annotations

from sfumato.apply.local import LocalEngine
from sfumato.audit.exposure import Exposure
from sfumato.audit.original import verify
from sfumato.audit.written import Verification
from sfumato.errors import (
    InfeasibleError,
    InternalError,
    MissingExtraError,
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
from sfumato.estimate.estimate import Estimate, Interval
from sfumato.estimate.estimates import Estimates
from sfumato.estimate.release import Release
from sfumato.plan.choose import Chosen, choose
from sfumato.publish import Outlook, Publication, Request, plan_table, publish
from sfumato.request.histogram import Histogram
from sfumato.request.schema import Bins, NullPolicy, Role, Schema
from sfumato.request.spec import (
    BreachBound,
    BreachBoundPerValue,
    DecoyGroups,
    Diversity,
    LinearCap,
    ShareCap,
    Tolerance,
)

__all__ = [
    "Answer",
    "Bins",
    "BreachBound",
    "BreachBoundPerValue",
    "Chosen",
    "CountQuery",
    "DecoyGroups",
    "Diversity",
    "Estimate",
    "Estimates",
    "Exposure",
    "Histogram",
    "InfeasibleError",
    "InternalError",
    "Interval",
    "LinearCap",
    "LocalEngine",
    "MissingExtraError",
    "NullPolicy",
    "Outlook",
    "Publication",
    "QueryError",
    "Range",
    "Release",
    "ReleaseFormatError",
    "Request",
    "Role",
    "Schema",
    "SchemaError",
    "SfumatoError",
    "ShareCap",
    "SourceError",
    "SpecError",
    "TargetError",
    "Tolerance",
    "Verification",
    "choose",
    "plan_table",
    "publish",
    "verify",
]
