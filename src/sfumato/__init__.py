"""Publishes a table about people so that analysts count accurately and no one learns much about any single person.

The data steward writes:

    schema = Schema.of("disease", identifier=["name"])
    request = Request("patients.parquet", schema=schema, spec=BreachBound("1/10", "1/3"))
    publication = publish(request, "release")

The analyst writes:

    release = Release.open("release")
    release.count("HIV", where="sex = 'F'").interval()
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str

    from sfumato._commands.demo import Demonstration, demo
    from sfumato._commands.init import RequestDraft, init
    from sfumato._commands.release_commands import audit, certificate, info, page, query
    from sfumato._comparison.compare_mechanisms import compare
    from sfumato._comparison.comparison_outcome import Comparison
    from sfumato._document.document import Document
    from sfumato._engines.engine import Engine
    from sfumato._engines.local_engine import LocalEngine
    from sfumato._engines.spark_engine import SparkEngine
    from sfumato._evidence.audit_dossier import Dossier
    from sfumato._evidence.certificate import Certificate
    from sfumato._planning.bound_for_error import bound_for_error
    from sfumato._planning.mechanism_choice import choose
    from sfumato._planning.predicted_error import ChosenMechanism
    from sfumato._publish.journal import Journal, JournalEntry, JournalOutcome, read_journal
    from sfumato._publish.publication import Publication, publish
    from sfumato._publish.publication_plan import PublicationPlan, plan
    from sfumato._publish.request import Request
    from sfumato._query.answer import Answer
    from sfumato._query.counting.count_request import CountQuery, Range
    from sfumato._query.estimate import Estimate, Estimates, Interval
    from sfumato._query.export import ExportedFiles, export
    from sfumato._query.release import Release
    from sfumato._readers.read_options import ReadOptions
    from sfumato._release.description import Description
    from sfumato._report.question_page.page_file import QuestionPage
    from sfumato._request.belief_bounds import BreachBound, BreachBoundPerValue, PrivacySpec, Tolerance
    from sfumato._request.bucket_and_decoy_requirements import DecoyGroups, Diversity, LinearCap, ShareCap
    from sfumato._request.hierarchy import Hierarchy
    from sfumato._request.histogram import Histogram
    from sfumato._request.range_edges import Ranges
    from sfumato._request.schema import NullPolicy, Role, Schema
    from sfumato._request.warnings import Grade, Notice, NoticeWarning
    from sfumato._risk.attackers.attack_result import Attack
    from sfumato._risk.lint.findings import Finding, LintReport
    from sfumato._risk.lint.lint_table import lint
    from sfumato._risk.privacy_models.measure_table import Measures, measure
    from sfumato._verify.against_original import verify
    from sfumato._verify.check_results import Verification
    from sfumato.errors import (
        DecisionError,
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
    from sfumato.mechanisms.error_at_count import ErrorAtCount

__all__ = [
    "Answer",
    "Attack",
    "BreachBound",
    "BreachBoundPerValue",
    "Certificate",
    "ChosenMechanism",
    "Comparison",
    "CountQuery",
    "DecisionError",
    "DecoyGroups",
    "Demonstration",
    "Description",
    "Diversity",
    "Document",
    "Dossier",
    "Engine",
    "EngineError",
    "ErrorAtCount",
    "Estimate",
    "Estimates",
    "ExportedFiles",
    "Finding",
    "Grade",
    "Hierarchy",
    "Histogram",
    "InfeasibleError",
    "InternalError",
    "Interval",
    "Journal",
    "JournalEntry",
    "JournalOutcome",
    "LinearCap",
    "LintReport",
    "LocalEngine",
    "Measures",
    "MissingCapabilityError",
    "MissingExtraError",
    "Notice",
    "NoticeError",
    "NoticeWarning",
    "NullPolicy",
    "PrivacySpec",
    "Publication",
    "PublicationPlan",
    "QueryError",
    "QuestionPage",
    "Range",
    "Ranges",
    "ReadOptions",
    "Release",
    "ReleaseFormatError",
    "Request",
    "RequestDraft",
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
    "__version__",
    "audit",
    "bound_for_error",
    "certificate",
    "choose",
    "compare",
    "demo",
    "export",
    "info",
    "init",
    "lint",
    "measure",
    "page",
    "plan",
    "publish",
    "query",
    "read_journal",
    "verify",
]

_MODULES = {
    "Answer": "sfumato._query.answer",
    "QuestionPage": "sfumato._report.question_page.page_file",
    "Attack": "sfumato._risk.attackers.attack_result",
    "Ranges": "sfumato._request.range_edges",
    "BreachBound": "sfumato._request.belief_bounds",
    "BreachBoundPerValue": "sfumato._request.belief_bounds",
    "Certificate": "sfumato._evidence.certificate",
    "ChosenMechanism": "sfumato._planning.predicted_error",
    "Comparison": "sfumato._comparison.comparison_outcome",
    "CountQuery": "sfumato._query.counting.count_request",
    "DecoyGroups": "sfumato._request.bucket_and_decoy_requirements",
    "Demonstration": "sfumato._commands.demo",
    "Description": "sfumato._release.description",
    "Diversity": "sfumato._request.bucket_and_decoy_requirements",
    "Document": "sfumato._document.document",
    "Dossier": "sfumato._evidence.audit_dossier",
    "Engine": "sfumato._engines.engine",
    "DecisionError": "sfumato.errors",
    "EngineError": "sfumato.errors",
    "ErrorAtCount": "sfumato.mechanisms.error_at_count",
    "Estimate": "sfumato._query.estimate",
    "Estimates": "sfumato._query.estimate",
    "ExportedFiles": "sfumato._query.export",
    "Finding": "sfumato._risk.lint.findings",
    "Grade": "sfumato._request.warnings",
    "Hierarchy": "sfumato._request.hierarchy",
    "Histogram": "sfumato._request.histogram",
    "InfeasibleError": "sfumato.errors",
    "LintReport": "sfumato._risk.lint.findings",
    "InternalError": "sfumato.errors",
    "Interval": "sfumato._query.estimate",
    "LinearCap": "sfumato._request.bucket_and_decoy_requirements",
    "Journal": "sfumato._publish.journal",
    "JournalEntry": "sfumato._publish.journal",
    "JournalOutcome": "sfumato._publish.journal",
    "LocalEngine": "sfumato._engines.local_engine",
    "Measures": "sfumato._risk.privacy_models.measure_table",
    "MissingCapabilityError": "sfumato.errors",
    "MissingExtraError": "sfumato.errors",
    "Notice": "sfumato._request.warnings",
    "NoticeError": "sfumato.errors",
    "NoticeWarning": "sfumato._request.warnings",
    "NullPolicy": "sfumato._request.schema",
    "PublicationPlan": "sfumato._publish.publication_plan",
    "PrivacySpec": "sfumato._request.belief_bounds",
    "Publication": "sfumato._publish.publication",
    "QueryError": "sfumato.errors",
    "Range": "sfumato._query.counting.count_request",
    "ReadOptions": "sfumato._readers.read_options",
    "Release": "sfumato._query.release",
    "ReleaseFormatError": "sfumato.errors",
    "Request": "sfumato._publish.request",
    "RequestDraft": "sfumato._commands.init",
    "Role": "sfumato._request.schema",
    "Schema": "sfumato._request.schema",
    "SchemaError": "sfumato.errors",
    "SfumatoError": "sfumato.errors",
    "ShareCap": "sfumato._request.bucket_and_decoy_requirements",
    "SourceError": "sfumato.errors",
    "SparkEngine": "sfumato._engines.spark_engine",
    "SpecError": "sfumato.errors",
    "TargetError": "sfumato.errors",
    "Tolerance": "sfumato._request.belief_bounds",
    "Verification": "sfumato._verify.check_results",
    "audit": "sfumato._commands.release_commands",
    "bound_for_error": "sfumato._planning.bound_for_error",
    "certificate": "sfumato._commands.release_commands",
    "choose": "sfumato._planning.mechanism_choice",
    "compare": "sfumato._comparison.compare_mechanisms",
    "demo": "sfumato._commands.demo",
    "export": "sfumato._query.export",
    "info": "sfumato._commands.release_commands",
    "init": "sfumato._commands.init",
    "lint": "sfumato._risk.lint.lint_table",
    "measure": "sfumato._risk.privacy_models.measure_table",
    "page": "sfumato._commands.release_commands",
    "plan": "sfumato._publish.publication_plan",
    "publish": "sfumato._publish.publication",
    "query": "sfumato._commands.release_commands",
    "read_journal": "sfumato._publish.journal",
    "verify": "sfumato._verify.against_original",
}
"""The module of each public name. A module is loaded when one of its names is first used, because some load slowly."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("sfumato")
    module_name = _MODULES.get(name)
    if module_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    member = globals()[name] = getattr(import_module(module_name), name)
    return member


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
