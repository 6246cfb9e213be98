"""Makes the document of an audit, with ten sections to be filed. Private."""

from sfumato._evidence.audit_document.audit_sections import make_audit_document

__all__ = ["make_audit_document"]
