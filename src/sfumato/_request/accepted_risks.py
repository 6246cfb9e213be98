"""The risks that a data steward accepted in spite of a warning; published even if there was nothing to warn about."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from sfumato._core.cell_values import format_values
from sfumato._core.json_types import Json, JsonView

BREACH_LIMIT = Fraction(1, 100)
"""The usual limit on the share of records that a public column may breach under the marginal prior."""


@dataclass(frozen=True, slots=True)
class AcceptedRisks:
    """The accepted risks."""

    disclosing_columns: tuple[str, ...] = ()
    """Public columns that may disclose the protected column."""
    has_exposure: bool = False
    """Whether it was accepted that public columns together with the release raise beliefs above the caps."""
    has_marginal_prior: bool = False
    """Whether it was accepted that public columns break a bound that holds for the marginal prior."""

    def list_sentences(self, sensitive: str) -> list[str]:
        """Lists what was accepted, in plain words."""
        sentences = []
        if self.disclosing_columns:
            sentences.append(
                f"The publisher accepted that public columns may tell {sensitive!r}, and did not have it stop the "
                f"publication: {format_values(self.disclosing_columns)}. What these columns tell of a person is not "
                "hidden."
            )
        if self.has_exposure:
            sentences.append(
                "The publisher accepted whatever public columns, together with this release, let one believe beyond "
                "what is promised for somebody who knows nothing else."
            )
        if self.has_marginal_prior:
            sentences.append(
                "The publisher accepted whatever public columns let one believe beyond the bound, which holds for "
                "somebody who knows the frequencies of the values and nothing else."
            )
        return sentences

    def to_json(self) -> Json:
        """Writes the accepted risks as a manifest has them."""
        return {
            "telling": list(self.disclosing_columns),
            "exposure": self.has_exposure,
            "marginal_prior": self.has_marginal_prior,
        }

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Reads the accepted risks from a manifest."""
        return cls(tuple(map(str, entries["telling"])), bool(entries["exposure"]), bool(entries["marginal_prior"]))


NO_ACCEPTED_RISKS = AcceptedRisks()
