"""All attackers at once, on a release and the table it was made from: private, for the holder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.apply.csv import POINT
from sfumato.audit.attackers.attack import Attack
from sfumato.audit.attackers.exposure import FREQUENCIES
from sfumato.audit.attackers.ladder import KNOWN_SHARE, ladder
from sfumato.audit.attackers.linking import Linked, linked
from sfumato.audit.attackers.order import LARGEST_SCORE, Trail, beside, reused_key, trails
from sfumato.audit.attackers.released import matched, original_of
from sfumato.audit.result import Check
from sfumato.errors import ReleaseFormatError
from sfumato.estimate.release import Release
from sfumato.request.hierarchy import Hierarchy
from sfumato.request.spec import PrivacySpec


@dataclass(frozen=True)
class Audit:
    """What attackers find in a release. Nothing here is a verdict: whether it is enough is for a person to decide."""

    mechanism: str
    attacks: tuple[Attack, ...]
    """Those who know least first, for each protected column; none where the order gives the records away."""
    trails: tuple[Trail, ...]
    """What the order of the rows gives away."""
    linked: Linked
    """How many records are found by their public columns."""

    @property
    def checks(self) -> tuple[Check, ...]:
        """What must not be so in a release that was made as it says; each fails by chance once in a million times.

        Whoever knows the frequencies must be right as often as the law of the release says, neither more nor less.
        """
        found = [each.check for each in self.trails]
        for each in self.attacks:
            if each.who == FREQUENCIES and each.with_release is not None:
                seen = each.with_release
                words = (
                    f"whoever knows how frequent the values of {each.about!r} are is right for {seen.right:.1%} of "
                    f"{each.records:,} people, and by the law of the release for {seen.expected:.1%} "
                    f"({seen.surprise:.1f} standard deviations)."
                )
                found.append(Check("law", abs(seen.surprise) <= LARGEST_SCORE, words))
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            "mechanism": self.mechanism,
            "attacks": [each.to_json() for each in self.attacks],
            "order": [{"name": each.name, "score": each.score, "records": each.records} for each in self.trails],
            "linked": self.linked.to_json(),
        }


def audit(  # noqa: PLR0913 - a release, a table, and what else attackers may have
    release: str | Path,
    original: Any,
    plan_file: str | Path,
    *,
    second: tuple[str | Path, str | Path] | None = None,
    population: Any = None,
    spec: PrivacySpec | None = None,
    known_share: float = KNOWN_SHARE,
    seed: int | None = None,
    hierarchies: Mapping[str, Hierarchy | Path] | None = None,
    encoding: str = "utf-8",
    decimal: str = POINT,
) -> Audit:
    """Let all attackers at a release; `second` is another release of the same table, with its plan file.

    With a request (`spec`) it is also counted who is believed beyond it; with a population, who is alone in it. A seed
    makes it possible to repeat what is drawn.
    """
    opened, links = Release.open(release), linked(release, population, encoding=encoding, decimal=decimal)
    table = original_of(opened, original, plan_file, hierarchies=hierarchies, encoding=encoding, decimal=decimal)
    looks = trails(opened, table)
    try:
        found, again = matched(opened, table, plan_file), None
    except ReleaseFormatError:
        if any(each.is_found for each in looks):  # nobody needs a key, and the key does not fit
            return Audit(opened.manifest.mechanism_name, (), tuple(looks), links)
        raise
    looks += beside(found)
    if second is not None:
        other = Release.open(second[0])
        same = original_of(other, original, second[1], hierarchies=hierarchies, encoding=encoding, decimal=decimal)
        again = matched(other, same, second[1]).scenes(spec, seed)
        looks.append(reused_key(release, second[0]))
    attacks = [
        each
        for number, scene in enumerate(found.scenes(spec, seed))
        for each in ladder(scene, None if again is None else again[number], known_share=known_share)
    ]
    return Audit(opened.manifest.mechanism_name, tuple(attacks), tuple(looks), links)
