"""What a holder files about a release: what was promised, what attackers find, how far answers are off. Private."""

from sfumato._evidence.audit_dossier import Dossier, audit_release
from sfumato._evidence.stated_context import StatedContext

__all__ = ["Dossier", "StatedContext", "audit_release"]
