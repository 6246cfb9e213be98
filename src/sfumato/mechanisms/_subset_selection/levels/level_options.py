"""The options for the levels of a hierarchy: their shares of the records, or their importance."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sfumato._core.exact_numbers import parse_exact
from sfumato._core.option_fields import option
from sfumato._request.hierarchy import Hierarchy
from sfumato.errors import SchemaError, SpecError

USUAL_SHARE = Fraction(4, 5)
"""The default share of the records drawn at the level of the values.

With it, the error of a value's count grows by an eighth, and the levels above have most of their possible gain.
"""


@dataclass(frozen=True, slots=True)
class Options:
    """Divides the records among the levels: by shares, or optimally for the importance of each level."""

    levels: str | None = option(
        None, "levels", "The share of the records drawn at each level of the hierarchy.", metavar="CODE=0.8,GROUP=0.2"
    )
    importance: str | None = option(
        None,
        "importance",
        "The weights of the levels' errors for computing the best shares.",
        metavar="CODE=1,GROUP=3",
    )

    def __post_init__(self) -> None:
        if self.levels is not None and sum(_parse_numbers(self.levels, "levels").values()) != 1:
            raise SpecError(
                f"the shares of the levels must add up to 1, but {self.levels!r} do not.", code="shares-not-one"
            )
        if self.importance is not None and not any(_parse_numbers(self.importance, "importance").values()):
            raise SpecError(
                "every level has the importance 0; give at least one level a number above 0.", code="no-importance"
            )

    @property
    def has_level_settings(self) -> bool:
        """Whether any option about levels is set."""
        return self.levels is not None or self.importance is not None

    def list_shares(self, hierarchy: Hierarchy) -> dict[int, Fraction] | None:
        """The shares by the number of the level; None if the shares follow from the importance."""
        if self.levels is not None and self.importance is not None:
            raise SpecError(
                "`levels=` sets the shares and `importance=` computes them; give only one of `levels=`, `importance=`.",
                code="levels-with-importance",
            )
        if self.importance is not None:
            return None
        if self.levels is None:
            informative_levels = _find_informative_levels(hierarchy)
            above = {number: (1 - USUAL_SHARE) / len(informative_levels) for number in informative_levels}
            return {0: USUAL_SHARE, **above}
        requested_shares = _parse_by_number(hierarchy, self.levels, "levels")
        if 0 not in requested_shares:
            raise SpecError(
                f"the level {hierarchy.levels[0]!r} has no records, so its values cannot be counted; give this level "
                "a share.",
                code="value-level-without-share",
                fields={"level": hierarchy.levels[0]},
            )
        return requested_shares

    def list_importance(self, hierarchy: Hierarchy) -> dict[int, Fraction]:
        """The importance of levels, by the number of the level. The level of the values always has records."""
        return {0: Fraction(0), **_parse_by_number(hierarchy, self.importance or "", "importance")}


def _find_informative_levels(hierarchy: Hierarchy) -> list[int]:
    """The levels above the first that have several groups, and not the same groups as the level below."""
    counts = [len(hierarchy.list_groups(number)) for number in range(len(hierarchy.levels))]
    return [number for number in range(1, len(counts)) if 1 < counts[number] < counts[number - 1]]


def _parse_by_number(hierarchy: Hierarchy, text: str, argument: str) -> dict[int, Fraction]:
    """The numbers above 0, by the number of their level (the finest first)."""
    try:
        numbers = {hierarchy.find_level(name): number for name, number in _parse_numbers(text, argument).items()}
    except SchemaError as error:
        raise SpecError(
            f"`{argument}=`: {error}", code=error.code, fields={"argument": argument, **error.fields}
        ) from error
    return {level: numbers[level] for level in sorted(numbers) if numbers[level]}


def _parse_numbers(text: str, argument: str) -> dict[str, Fraction]:
    """Reads a number for each named level, as in code=0.8,chapter=0.2."""
    numbers: dict[str, Fraction] = {}
    for part in text.split(","):
        name, mark, number = part.rpartition("=")
        name = name.strip().lower()
        if not mark or not name or name in numbers:
            raise SpecError(
                f"{part!r} is not a level with a number; write, for example, `{argument}='code=4/5,chapter=1/5'`.",
                code="wrong-level-number",
                fields={"argument": argument},
            )
        numbers[name] = parse_exact(number.strip(), f"the number of the level {name!r}")
        if numbers[name] < 0:
            raise SpecError(
                f"the number of the level {name!r} is below 0; give 0 or more.",
                code="negative-level-number",
                fields={"argument": argument, "level": name},
            )
    return numbers
