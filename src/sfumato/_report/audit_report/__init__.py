"""The audit report about a release: ten sections for a data protection officer's file. Private."""

from sfumato._report.audit_report.audit_page import make_audit_page
from sfumato._report.audit_report.summary_section import list_five_numbers

__all__ = ["list_five_numbers", "make_audit_page"]
