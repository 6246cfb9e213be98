"""Pages that people file, and one that answers: each is one HTML file that asks nobody for anything, and prints."""

from sfumato.pages.ask import AskPage, ask_page
from sfumato.pages.certificate import Certificate, certificate
from sfumato.pages.compare import compare_page
from sfumato.pages.page import Page, check_place, save
from sfumato.pages.plan import plan_page
from sfumato.pages.report import report_page

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
