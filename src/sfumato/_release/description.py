"""The publisher's description of a release: title, description, publisher, licence, contact, and a sentence a column.

It is read from a small TOML file and written into the Data Package. Analysts cannot trust these strings, so their
length is limited and they are shown as plain text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sfumato._core.json_types import Json, JsonView
from sfumato._core.small_text_files import read_toml
from sfumato._request.named_columns import explain_missing_column
from sfumato._terminal_safe import UNPRINTABLE
from sfumato.errors import ReleaseFormatError, SchemaError, SfumatoError, SpecError

LONGEST_TITLE, LONGEST_TEXT = 200, 2000
KEYS = ("title", "description", "publisher", "licence", "contact", "columns")
SHORT_KEYS = ("title", "publisher", "licence", "contact")
T = TypeVar("T")
LICENCE = re.compile(r"[A-Za-z0-9._-]+")
ADDRESS = re.compile(r"https?://[^\s<>\"']+")
CONTACT = re.compile(r"(?P<name>[^<>@]*?)\s*(?:<(?P<email>[^<>@\s]+@[^<>@\s]+)>)?")
PUBLISHER, CONTACT_ROLE = "publisher", "contact"
EMAIL = re.compile(r"[^<>@\s]+@[^<>@\s]+")


@dataclass(frozen=True)
class Description:
    """The description of a release. Every part is optional."""

    title: str = ""
    description: str = ""
    licence: str = ""
    """A short name, such as CC-BY-4.0, or the address of the licence."""
    contact: str = ""
    """A name, a name with an address in angle brackets, or an e-mail address."""
    columns: Mapping[str, str] = field(default_factory=dict)
    publisher: str = ""
    """The organisation that issues the release."""

    def __post_init__(self) -> None:
        check_texts(self)
        if self.licence and not LICENCE.fullmatch(self.licence) and not ADDRESS.fullmatch(self.licence):
            raise SpecError(
                "the licence should be a short name, such as CC-BY-4.0, or an address (https://...).",
                code="invalid-licence",
            )
        if self.contact and not EMAIL.fullmatch(self.contact) and not CONTACT.fullmatch(self.contact):
            raise SpecError("the contact should be a name, or Name <name@place.example>.", code="invalid-contact")

    @classmethod
    def read(cls, path: Path) -> Description:
        """Reads a TOML file. Refuses invalid content."""
        entries = read_toml(path, f"the description {str(path)!r}")
        if "license" in entries and "licence" not in entries:
            entries["licence"] = entries.pop("license")
        if unknown := next((key for key in entries if key not in KEYS), None):
            (nearest,) = difflib.get_close_matches(unknown, KEYS, 1, 0)
            raise SpecError(
                f"the key {unknown!r} in {str(path)!r} is unknown; the nearest known one is {nearest!r}.",
                code="unknown-key",
                fields={"key": unknown, "file": str(path)},
            )
        columns = entries.pop("columns", {})
        if not isinstance(columns, dict):
            raise SpecError(
                f"'columns' in {str(path)!r} should be a section [columns] with one line for each column.",
                code="invalid-section",
                fields={"section": "columns", "file": str(path)},
            )
        for name, text in (*entries.items(), *columns.items()):
            if not isinstance(text, str):
                raise SpecError(
                    f"{name!r} in {str(path)!r} should be a string in quotes.",
                    code="wrong-type",
                    fields={"key": name, "file": str(path)},
                )
        return cls(**_join_lines(entries), columns=_join_lines(columns))

    @classmethod
    def read_optional(cls, path: str | Path | None) -> Description:
        """Reads the description from a file. Without a file, the description is empty."""
        return NO_DESCRIPTION if path is None else cls.read(Path(path))

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse descriptions of columns that are not published.

        Such descriptions are useless and may disclose something.
        """
        published_names = list(dict.fromkeys(names))
        for name in self.columns:
            if name not in published_names:
                raise SchemaError(
                    explain_missing_column(
                        name, published_names, "the description names a column that is not published,"
                    ),
                    code="missing-column",
                    fields={"column": name},
                )

    def add(self, other: Description) -> Description:
        """Adds the parts that this description lacks. Refuses a part that this description states differently."""
        for key in KEYS[:-1]:
            own, further = getattr(self, key), getattr(other, key)
            if own and further and own != further:
                raise SpecError(
                    f"the release was published with another {key}; leave {key!r} out of the description, because the "
                    "published one still applies."
                )
        for name in self.columns.keys() & other.columns.keys():
            if self.columns[name] != other.columns[name]:
                raise SpecError(
                    f"the release was published with another description of the column {name!r}; leave this column out "
                    "of the description, because the published one still applies."
                )
        texts = {key: getattr(self, key) or getattr(other, key) for key in KEYS[:-1]}
        return Description(**texts, columns={**other.columns, **self.columns})

    def list_facts(self) -> list[tuple[str, str]]:
        """Lists what is stated about the release, with the names for people."""
        facts = [
            ("title", self.title),
            ("description", self.description),
            ("issued by", self.publisher),
            ("contact", self.contact),
            ("licence", self.licence),
        ]
        return [(name, text) for name, text in facts if text]

    # ------------------------------------------------------------------------------------------------ as a Data Package

    def to_json(self) -> Json:
        """The top-level entries of a Data Package."""
        return {
            **({"title": self.title} if self.title else {}),
            **({"description": self.description} if self.description else {}),
            **({"licenses": [self._make_licence()]} if self.licence else {}),
            **({"contributors": contributors} if (contributors := self._list_contributors()) else {}),
        }

    def _make_licence(self) -> dict[str, str]:
        return {"path" if ADDRESS.fullmatch(self.licence) else "name": self.licence}

    def _list_contributors(self) -> list[Json]:
        publisher = [{"title": self.publisher, "roles": [PUBLISHER]}] if self.publisher else []
        return [*publisher, *([self._make_contributor()] if self.contact else [])]

    def _make_contributor(self) -> Json:
        if EMAIL.fullmatch(self.contact):
            return {"title": self.contact, "email": self.contact, "roles": [CONTACT_ROLE]}
        match = CONTACT.fullmatch(self.contact)
        name, email = (match["name"], match["email"]) if match else (self.contact, None)
        return {"title": name or email, **({"email": email} if email else {}), "roles": [CONTACT_ROLE]}

    @classmethod
    def from_json(cls, package: JsonView) -> Description:
        """Reads an untrusted Data Package. Refuses a description in another form than `to_json` writes."""
        try:
            licence = "".join(dict(_take_only_item(package.get("licenses", [{}]))).values())
            contributors = package.get("contributors", [])
            by_role = {_take_only_item(item["roles"]): item for item in contributors}
            if len(by_role) < len(contributors) or by_role.keys() - {PUBLISHER, CONTACT_ROLE}:
                raise SpecError("the contributors are a publisher and a contact.")
            contributor = by_role.get(CONTACT_ROLE, {})
            name, email = contributor.get("title", ""), contributor.get("email", "")
            columns = {
                field_entry["name"]: field_entry["description"]
                for resource in package["resources"]
                for field_entry in resource.get("schema", {}).get("fields", ())
                if "description" in field_entry
            }
            contact = f"{name} <{email}>" if email and email != name else name
            publisher = by_role.get(PUBLISHER, {}).get("title", "")
            return cls(package.get("title", ""), package.get("description", ""), licence, contact, columns, publisher)
        except (LookupError, TypeError, ValueError, AttributeError, SfumatoError) as error:
            raise ReleaseFormatError(
                "the description of the release has an invalid form.", code="invalid-description"
            ) from error

    def list_lines(self) -> Iterator[str]:
        """Publisher, licence and contact for people."""
        if self.publisher:
            yield f"Publisher: {self.publisher}"
        if self.licence:
            yield f"Licence: {self.licence}"
        if self.contact:
            yield f"Contact: {self.contact}"


def check_texts(description: Description) -> None:
    """Refuse values that are not strings, are too long, or contain control or invisible characters."""
    texts = {
        "title": description.title,
        "description": description.description,
        "publisher": description.publisher,
        "licence": description.licence,
        "contact": description.contact,
    }
    named_texts: Iterable[tuple[str, object]] = (*texts.items(), *description.columns.items())
    for name, text in named_texts:
        longest = LONGEST_TITLE if name in SHORT_KEYS else LONGEST_TEXT
        if not isinstance(text, str) or len(text) > longest:
            raise SpecError(
                f"{name!r} of the description is longer than {longest:,} characters, or not a string; shorten it.",
                code="description-too-long",
                fields={"key": name, "limit": longest},
            )
        if UNPRINTABLE.search(text):
            raise SpecError(
                f"{name!r} of the description has invisible characters; remove them.",
                code="invisible-characters",
                fields={"key": name},
            )


def _join_lines(texts: Mapping[str, str]) -> dict[str, str]:
    """Joins the lines of each string into one."""
    return {name: " ".join(text.split()) for name, text in texts.items()}


def _take_only_item(items: Iterable[T]) -> T:
    (item,) = items
    return item


NO_DESCRIPTION = Description()
