"""Pages that people file: each is one HTML file that asks nobody for anything, and prints on paper."""

from sfumato.pages.certificate import Certificate, certificate
from sfumato.pages.compare import compare_page
from sfumato.pages.page import Page, check_place, save
from sfumato.pages.plan import plan_page
from sfumato.pages.report import report_page

__all__ = ["Certificate", "Page", "certificate", "check_place", "compare_page", "plan_page", "report_page", "save"]
