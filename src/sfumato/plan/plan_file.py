"""The private plan file: the key of a release, so that publishing the same table again repeats it.

Two independent releases of one table compose: an attacker who sees both multiplies the amplification. A holder who may
have to publish again keeps this file, readable by nobody else, and destroys it when it is no longer needed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sfumato.draws import VERSION, Draws
from sfumato.errors import ReleaseFormatError, SfumatoError, TargetError
from sfumato.mechanisms import REGISTRY, UNNAMED
from sfumato.request.guarantee import Guarantee

FORMAT = 3

_OLD_OPTION = re.compile(r"(\w+)=(?:<[\w.]+: '([^']*)'>|Fraction\((\d+), (\d+)\)|(\w+))")
"""An option as files of format 2 write it: `merge=<Merge.PAPER: 'paper'>`, `min_cell=5`, `limit=Fraction(9, 2)`."""

_OLD_WORDS: Mapping[str, Any] = {"None": None, "True": True, "False": False}


@dataclass(frozen=True)
class Remembered:
    """A request: what was asked, and the options of every mechanism that could be taken, by name with their values."""

    request: Mapping[str, Any]
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def is_same(self, other: Remembered) -> bool:
        """Whether another request is this one; a mechanism that only one of them knows has had no say."""
        shared = set(self.options) & set(other.options)
        return self.request == other.request and all(self.options[name] == other.options[name] for name in shared)


@dataclass(frozen=True)
class PlanFile:
    """A key, and what it was used for."""

    draws: Draws
    fingerprint: str
    remembered: Remembered
    mechanism: str
    """The mechanism that was chosen, so that a later version chooses no other one for the same key."""
    plan: str | None = None
    """The digest of the plan; files of older formats have none."""
    software: str = field(default_factory=lambda: version("sfumato"))
    draws_version: int = VERSION

    def write(self, path: Path) -> None:
        """Create the file for the owner's eyes only; an existing file is never overwritten."""
        written = {
            "sfumato_plan": FORMAT,
            "warning": "private: whoever has this file can undo the protection of the release",
            "key": self.draws.key.hex(),
            "is_test": self.draws.is_test,
            "fingerprint": self.fingerprint,
            "request": dict(self.remembered.request),
            "options": {name: dict(each) for name, each in self.remembered.options.items()},
            "mechanism": self.mechanism,
            "plan": self.plan,
            "software": self.software,
            "draws": self.draws_version,
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
            return cls(
                Draws(bytes.fromhex(written["key"]), bool(written["is_test"])),
                str(written["fingerprint"]),
                _remembered(written),
                str(written.get("mechanism", next(iter(REGISTRY)))),  # the first format knew one mechanism
                written.get("plan"),
                str(written.get("software", "0.1")),
                int(written.get("draws", 1)),
            )
        except ReleaseFormatError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, SfumatoError) as error:
            raise ReleaseFormatError(f"{str(path)!r} is not a plan file; name another one.") from error

    def check(self, fingerprint: str, remembered: Remembered) -> None:
        """Refuse to use the key for anything but the same table, the same request and the same draws."""
        if fingerprint != self.fingerprint:
            raise ReleaseFormatError(
                "the plan file belongs to another table (or the table has changed); a key is used for one table only, "
                "so name another plan file."
            )
        if not self.remembered.is_same(remembered):
            raise ReleaseFormatError(
                "the plan file belongs to another request on this table; repeat the same options, or name another plan "
                "file."
            )
        if self.mechanism not in REGISTRY:
            raise ReleaseFormatError(
                f"the plan file was made with the mechanism {self.mechanism!r}, unknown to this version; name another."
            )
        if self.draws_version != VERSION:
            raise self._other_release()

    def check_plan(self, plan: str) -> None:
        """Refuse to go on with a plan that is not the one of the file."""
        if self.plan is not None and self.plan != plan:
            raise self._other_release()

    def _other_release(self) -> ReleaseFormatError:
        return ReleaseFormatError(
            f"the release of this plan file would come out differently, because it was made by sfumato {self.software} "
            "or with other versions of what that needs; repeat it with those, because two different releases of one "
            "table tell more than one."
        )


def _remembered(written: Mapping[str, Any]) -> Remembered:
    """The request of a plan file; what an older one does not name has the value that was the default then."""
    request = dict(written["request"])
    if written["sfumato_plan"] >= FORMAT:
        given = written["options"]
    else:
        given = {name: _old_options(text) for name, text in request.pop("options", {}).items()}
        request["guarantee"] = _old_guarantee(request)
    names = {*UNNAMED, *given}
    return Remembered(request, {name: {**UNNAMED.get(name, {}), **given.get(name, {})} for name in sorted(names)})


def _old_options(text: str) -> dict[str, Any]:
    """The options of a file of format 2, which has them as Python printed them."""
    found: dict[str, Any] = {}
    for name, choice, above, below, word in _OLD_OPTION.findall(text):
        plain = _OLD_WORDS[word] if word in _OLD_WORDS else int(word or 0)
        found[name] = choice or (str(Fraction(int(above), int(below))) if above else plain)
    return found


def _old_guarantee(request: Mapping[str, Any]) -> str | None:
    """What was asked of the guarantee: files of format 2 have what the mechanism gave where nothing was."""
    return None if request["guarantee"] == usual_guarantee(str(request["mechanism"])) else str(request["guarantee"])


def usual_guarantee(mechanism: str) -> str:
    """The guarantee that is meant where none is asked for; of files of format 2 too."""
    known = REGISTRY.get(mechanism)
    return Guarantee.ANY_PRIOR if known is None or known.guarantee is Guarantee.SINGLE_VALUES else known.guarantee
