"""HTML pages: documents to file, and one that answers questions. Each is one printable, self-contained file."""

from sfumato._report.audit_report import make_audit_page
from sfumato._report.certificate import Certificate, make_certificate
from sfumato._report.comparison_page import make_comparison_page
from sfumato._report.html_page import Page, check_place, save
from sfumato._report.plan_page import make_plan_page
from sfumato._report.question_page import QuestionPage, make_question_page

__all__ = [
    "Certificate",
    "Page",
    "QuestionPage",
    "check_place",
    "make_audit_page",
    "make_certificate",
    "make_comparison_page",
    "make_plan_page",
    "make_question_page",
    "save",
]
