"""Collects evidence about a release: the private audit with attacks and errors, and the public certificate."""

from sfumato._evidence.audit_dossier import Dossier, audit_release
from sfumato._request.stated_context import StatedContext

__all__ = ["Dossier", "StatedContext", "audit_release"]
