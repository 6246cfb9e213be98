"""The document of an audit: ten sections to file. Private."""

from sfumato._evidence.audit_document.audit_sections import make_audit_document

__all__ = ["make_audit_document"]
