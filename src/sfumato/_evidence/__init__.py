"""Evidence about a release for the data steward's file: guarantee, attack success and errors of answers. Private."""

from sfumato._evidence.audit_dossier import Dossier, audit_release
from sfumato._evidence.stated_context import StatedContext

__all__ = ["Dossier", "StatedContext", "audit_release"]
