"""What a holder files about a release: what was promised, what attackers find, how far answers are off. Private."""

from sfumato.evidence.context import Context
from sfumato.evidence.dossier import Dossier, audit_release

__all__ = ["Context", "Dossier", "audit_release"]
