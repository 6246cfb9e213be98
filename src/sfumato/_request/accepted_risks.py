"""The risks that a data steward accepted, each with a reason.

Accepted risks are published even if no warning was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from sfumato._core.cell_values import format_values
from sfumato._core.exact_numbers import parse_exact
from sfumato._core.json_types import Json, JsonView
from sfumato._figures.number_format import format_exact_percent
from sfumato._request.named_columns import ANY_CHARACTERS, find_matches
from sfumato.errors import SpecError

BREACH_LIMIT = Fraction(1, 100)
"""The usual limit on the share of records for which a public column breaks a bound of the marginal prior."""
UNIQUE_LIMIT = Fraction(1, 20)
"""The usual limit on the share of records that are unique on the public columns."""
FEWEST_WORDS = 2
"""A single word is rarely a reason that a reader of the release understands."""
LONGEST_REASON = 300
"""A reason is printed on the certificate, which is one page."""
OLD_KEYS = ("telling", "exposure", "marginal_prior")
"""The keys of accepted risks in releases that are older than reasons."""
PLACEHOLDER = "REASON"
"""Stands for the words of the data steward in a way out."""
NO_REASON = "no reason was recorded"
"""The text in place of a reason, for releases of versions that did not record reasons."""


@dataclass(frozen=True, slots=True)
class AcceptedRisks:
    """The accepted risks with their reasons; the reason of a risk that was not accepted is empty."""

    disclosing_columns: tuple[tuple[str, str], ...] = ()
    """Public columns that may be sensitive or disclose the protected column, as the steward named them, and why."""
    unique_records: str = ""
    """The reason to publish although many records are unique on the public columns."""
    uncovered_values: str = ""
    """The reason to publish although every value is more frequent than the prior."""
    exposure: str = ""
    """The reason to publish although an attacker's confidence, from public columns and the release, may exceed the
    caps.
    """
    marginal_prior: str = ""
    """The reason to publish although public columns break a bound that holds for the marginal prior."""
    unique_limit: Fraction = UNIQUE_LIMIT
    breach_limit: Fraction = BREACH_LIMIT
    public_patterns: tuple[str, ...] = ()
    """Patterns with `*` that made columns public, instead of names for single columns."""

    def accepts_column(self, name: str) -> bool:
        """Whether the risk of a public column was accepted."""
        return any(find_matches(accepted, [name]) for accepted, _ in self.disclosing_columns)

    def list_sentences(self, sensitive: str) -> list[str]:
        """Lists what was accepted, in plain words."""
        risks = [
            *(
                (
                    "accept_disclosing",
                    f"{_name_public_columns(names)} may be sensitive, or disclose {sensitive!r}",
                    reason,
                )
                for reason, names in self._group_columns().items()
            ),
            ("accept_unique", "many records may be unique on the public columns", self.unique_records),
            (
                "accept_uncovered",
                "every value may be more frequent than the prior, so that the confidence in no value has a fixed limit",
                self.uncovered_values,
            ),
            ("accept_exposure", "public columns together with this release may exceed the bound", self.exposure),
            (
                "accept_marginal_prior",
                "the bound may fail against attackers who know public columns, because it covers only attackers who "
                "know nothing but the frequencies of the values",
                self.marginal_prior,
            ),
        ]
        return [*(_write_sentence(*risk) for risk in risks if risk[2]), *self._list_settings()]

    def _group_columns(self) -> dict[str, list[str]]:
        """The accepted columns by their reason."""
        columns: dict[str, list[str]] = {}
        for name, reason in self.disclosing_columns:
            columns.setdefault(reason, []).append(name)
        return columns

    def _list_settings(self) -> list[str]:
        limits = [
            ("unique-limit", "records that are unique on the public columns", self.unique_limit, UNIQUE_LIMIT),
            ("breach-limit", "records for which a public column may break the bound", self.breach_limit, BREACH_LIMIT),
        ]
        sentences = [
            f"The publisher set the limit on {what} to {format_exact_percent(float(limit))} (option {argument}); "
            f"the usual limit is {format_exact_percent(float(usual))}."
            for argument, what, limit, usual in limits
            if limit != usual
        ]
        if self.public_patterns:
            names = ", ".join(map(repr, self.public_patterns))
            sentences.append(
                f"The publisher made columns public by {names} (option public), and did not name them one by one."
            )
        return sentences

    def to_json(self) -> Json:
        """Writes the accepted risks in the form of a manifest."""
        reasons = {
            "unique": self.unique_records,
            "uncovered": self.uncovered_values,
            "exposure": self.exposure,
            "marginal_prior": self.marginal_prior,
        }
        limits = {"unique_limit": (self.unique_limit, UNIQUE_LIMIT), "breach_limit": (self.breach_limit, BREACH_LIMIT)}
        return {
            "disclosing": [{"column": name, "reason": reason} for name, reason in self.disclosing_columns],
            **{name: reason for name, reason in reasons.items() if reason},
            **{name: str(limit) for name, (limit, usual) in limits.items() if limit != usual},
            **({"public_patterns": list(self.public_patterns)} if self.public_patterns else {}),
        }

    @classmethod
    def from_json(cls, entries: JsonView) -> Self:
        """Reads the accepted risks from a manifest. Older manifests have no reasons."""
        if "telling" in entries:
            columns = tuple((str(name), NO_REASON) for name in entries["telling"])
            has_reason = {True: NO_REASON, False: ""}
            return cls(
                columns,
                exposure=has_reason[bool(entries["exposure"])],
                marginal_prior=has_reason[bool(entries["marginal_prior"])],
            )
        return cls(
            tuple((str(entry["column"]), str(entry["reason"])) for entry in entries["disclosing"]),
            unique_records=str(entries.get("unique", "")),
            uncovered_values=str(entries.get("uncovered", "")),
            exposure=str(entries.get("exposure", "")),
            marginal_prior=str(entries.get("marginal_prior", "")),
            unique_limit=parse_exact(str(entries.get("unique_limit", UNIQUE_LIMIT)), "the limit on unique records"),
            breach_limit=parse_exact(str(entries.get("breach_limit", BREACH_LIMIT)), "the breach limit"),
            public_patterns=tuple(map(str, entries.get("public_patterns", ()))),
        )


NO_ACCEPTED_RISKS = AcceptedRisks()


def read_reason(argument: str, reason: object) -> str:
    """The reason of an accepted risk on one line; None and an empty text mean that the risk is not accepted."""
    if reason is None or reason == "":
        return ""
    if not isinstance(reason, str) or len(words := reason.split()) < FEWEST_WORDS:
        raise SpecError(
            f"`{argument}=` needs the reason in at least {FEWEST_WORDS} words, because the release prints it.",
            code="reason-missing",
            fields={"argument": argument},
        )
    if words == [PLACEHOLDER]:
        raise SpecError(
            f"`{argument}=` has the placeholder {PLACEHOLDER}; write your reason in its place, because the release "
            "prints it.",
            code="reason-missing",
            fields={"argument": argument},
        )
    if len(text := " ".join(words)) > LONGEST_REASON:
        raise SpecError(
            f"the reason in `{argument}=` has {len(text)} characters; write at most {LONGEST_REASON}.",
            code="reason-too-long",
            fields={"argument": argument},
        )
    return text


def read_column_reasons(argument: str, reasons: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The accepted columns with their reasons; every column needs a reason."""
    if not isinstance(reasons, Mapping):
        raise SpecError(
            f"`{argument}=` needs a reason for each column, such as {{'ward': 'is on the door of the room'}}.",
            code="reason-missing",
            fields={"argument": argument},
        )
    if any(not name.strip(ANY_CHARACTERS) for name in reasons):
        raise SpecError(
            f"`{argument}=` accepts columns by name, or several with a name such as 'DX*'; '*' alone would accept "
            "columns that nobody has looked at.",
            code="accepts-every-column",
            fields={"argument": argument},
        )
    read_reasons = tuple((name, read_reason(argument, reason)) for name, reason in reasons.items())
    if without := next((name for name, reason in read_reasons if not reason), None):
        raise SpecError(
            f"`{argument}=` has no reason for column {without!r}; write it in words, because the release prints it.",
            code="reason-missing",
            fields={"argument": argument, "column": without},
        )
    return read_reasons


def _name_public_columns(names: Sequence[str]) -> str:
    noun = "the public column" if len(names) == 1 else "the public columns"
    return f"{noun} {format_values(names, len(names))}"


def _write_sentence(argument: str, risk: str, reason: str) -> str:
    end = "" if reason.endswith((".", "!", "?")) else "."
    return f"The publisher accepted that {risk} (option {argument.replace('_', '-')}). Reason: {reason}{end}"
