"""The private plan file: the key of a release, so that publishing the same table again repeats it.

Two independent releases of one table compose: an attacker who sees both multiplies the amplification. A holder who may
have to publish again keeps this file, readable by nobody else, and destroys it when it is no longer needed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.draws import Draws
from sfumato.errors import ReleaseFormatError, SfumatoError, TargetError

FORMAT = 2
FIRST_MECHANISM = "uniform"
"""The mechanism of plan files that do not name one: there was no other."""


@dataclass(frozen=True)
class PlanFile:
    """A key, and what it was used for."""

    draws: Draws
    fingerprint: str
    request: dict[str, Any]
    mechanism: str
    """The mechanism that was chosen, so that a later version chooses no other one for the same key."""

    def write(self, path: Path) -> None:
        """Create the file for the owner's eyes only; an existing file is never overwritten."""
        written = {
            "sfumato_plan": FORMAT,
            "warning": "private: whoever has this file can undo the protection of the release",
            "key": self.draws.key.hex(),
            "is_test": self.draws.is_test,
            "fingerprint": self.fingerprint,
            "request": self.request,
            "mechanism": self.mechanism,
        }
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise TargetError(f"the plan file {str(path)!r} cannot be written: {error.strerror}.") from error
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump(written, file, indent=2)
                file.write("\n")
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            path.unlink()
            raise

    @classmethod
    def read(cls, path: Path) -> PlanFile:
        """Read a plan file."""
        try:
            written = json.loads(path.read_text(encoding="utf-8"))
            if written["sfumato_plan"] > FORMAT:
                raise ReleaseFormatError(f"the plan file {str(path)!r} is of a newer format: update sfumato.")
            draws = Draws(bytes.fromhex(written["key"]), bool(written["is_test"]))
            request = dict(written["request"])
            return cls(draws, str(written["fingerprint"]), request, str(written.get("mechanism", FIRST_MECHANISM)))
        except ReleaseFormatError:
            raise
        except (OSError, ValueError, KeyError, TypeError, SfumatoError) as error:
            raise ReleaseFormatError(f"{str(path)!r} is not a plan file; name another one.") from error

    def check(self, fingerprint: str, request: dict[str, Any]) -> None:
        """Refuse to use the key for anything but the same table and the same request."""
        if fingerprint != self.fingerprint:
            raise ReleaseFormatError(
                "the plan file belongs to another table (or the table has changed); a key is used for one table only, "
                "so name another plan file."
            )
        if request != self.request:
            raise ReleaseFormatError(
                "the plan file belongs to another request on this table; repeat the same options, or name another plan "
                "file."
            )
