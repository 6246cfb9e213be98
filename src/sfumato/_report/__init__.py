"""Pages that people file, and one that answers: each is one HTML file that asks nobody for anything, and prints."""

from sfumato._report.audit_report import report_page
from sfumato._report.certificate import Certificate, certificate
from sfumato._report.comparison_page import compare_page
from sfumato._report.html_page import Page, check_place, save
from sfumato._report.plan_page import plan_page
from sfumato._report.question_page import AskPage, ask_page

__all__ = [
    "AskPage",
    "Certificate",
    "Page",
    "ask_page",
    "certificate",
    "check_place",
    "compare_page",
    "plan_page",
    "report_page",
    "save",
]
