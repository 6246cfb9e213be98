"""The report about a release: ten sections that an officer files. Private."""

from sfumato.pages.report.page import report_page
from sfumato.pages.report.summary import five_numbers

__all__ = ["five_numbers", "report_page"]
