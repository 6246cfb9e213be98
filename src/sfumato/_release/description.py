"""What the publisher says of a release in words: title, description, licence, contact, and a sentence for each column.

Read from a small TOML file, and written where a Data Package has a place for each. The texts are the publisher's; to
everybody else they are a stranger's, so they are of one kind and a bounded length, and shown as text only.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sfumato._core.json_types import Json, JsonView
from sfumato._core.small_text_files import read_toml
from sfumato._request.schema import explain_missing_column
from sfumato._terminal_safe import UNPRINTABLE
from sfumato.errors import ReleaseFormatError, SchemaError, SfumatoError, SpecError

LONGEST_TITLE, LONGEST_TEXT = 200, 2000
KEYS = ("title", "description", "licence", "contact", "columns")
LICENCE = re.compile(r"[A-Za-z0-9._-]+")
ADDRESS = re.compile(r"https?://[^\s<>\"']+")
CONTACT = re.compile(r"(?P<name>[^<>@]*?)\s*(?:<(?P<email>[^<>@\s]+@[^<>@\s]+)>)?")
EMAIL = re.compile(r"[^<>@\s]+@[^<>@\s]+")


@dataclass(frozen=True)
class Description:
    """What is said of a release; nothing need be."""

    title: str = ""
    description: str = ""
    licence: str = ""
    """A short name, such as CC-BY-4.0, or the address of a text."""
    contact: str = ""
    """A name, a name with an address in angle brackets, or an e-mail address alone."""
    columns: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_texts(self)
        if self.licence and not LICENCE.fullmatch(self.licence) and not ADDRESS.fullmatch(self.licence):
            raise SpecError("the licence should be a short name, such as CC-BY-4.0, or an address (https://...).")
        if self.contact and not EMAIL.fullmatch(self.contact) and not CONTACT.fullmatch(self.contact):
            raise SpecError("the contact should be a name, or Name <name@place.example>.")

    @classmethod
    def read(cls, path: Path) -> Description:
        """Read a TOML file, and refuse in one sentence what it should not have."""
        entries = read_toml(path, f"the description {str(path)!r}")
        if "license" in entries and "licence" not in entries:
            entries["licence"] = entries.pop("license")
        if unknown := next((key for key in entries if key not in KEYS), None):
            (nearest,) = difflib.get_close_matches(unknown, KEYS, 1, 0)
            raise SpecError(f"the key {unknown!r} in {str(path)!r} is unknown; the nearest known one is {nearest!r}.")
        columns = entries.pop("columns", {})
        if not isinstance(columns, dict):
            raise SpecError(f"'columns' in {str(path)!r} should be a section [columns] with a line for each column.")
        for name, text in (*entries.items(), *columns.items()):
            if not isinstance(text, str):
                raise SpecError(f"{name!r} in {str(path)!r} should be a text in quotes.")
        return cls(**_join_lines(entries), columns=_join_lines(columns))

    @classmethod
    def read_optional(cls, path: str | Path | None) -> Description:
        """Read a file if one is named."""
        return NO_DESCRIPTION if path is None else cls.read(Path(path))

    def check_columns(self, names: Iterable[str]) -> None:
        """Refuse words about columns that are not published: nobody would find them, and they may tell something."""
        published_names = list(dict.fromkeys(names))
        for name in self.columns:
            if name not in published_names:
                raise SchemaError(
                    explain_missing_column(
                        name, published_names, "the description speaks of a column that is not published,"
                    )
                )

    # ------------------------------------------------------------------------------------------------ as a Data Package

    def to_json(self) -> Json:
        """What stands at the top of a Data Package."""
        return {
            **({"title": self.title} if self.title else {}),
            **({"description": self.description} if self.description else {}),
            **({"licenses": [self._make_licence()]} if self.licence else {}),
            **({"contributors": [self._make_contributor()]} if self.contact else {}),
        }

    def _make_licence(self) -> dict[str, str]:
        return {"path" if ADDRESS.fullmatch(self.licence) else "name": self.licence}

    def _make_contributor(self) -> Json:
        if EMAIL.fullmatch(self.contact):
            return {"title": self.contact, "email": self.contact, "roles": ["contact"]}
        match = CONTACT.fullmatch(self.contact)
        name, email = (match["name"], match["email"]) if match else (self.contact, None)
        return {"title": name or email, **({"email": email} if email else {}), "roles": ["contact"]}

    @classmethod
    def from_json(cls, package: JsonView) -> Description:
        """Read a Data Package of a stranger: what does not look as it was written is refused."""
        try:
            licence = "".join(_take_only_item(package.get("licenses", [{}])).values())
            contributor = _take_only_item(package.get("contributors", [{}]))
            name, email = contributor.get("title", ""), contributor.get("email", "")
            columns = {
                field_entry["name"]: field_entry["description"]
                for resource in package["resources"]
                for field_entry in resource.get("schema", {}).get("fields", ())
                if "description" in field_entry
            }
            contact = f"{name} <{email}>" if email and email != name else name
            return cls(package.get("title", ""), package.get("description", ""), licence, contact, columns)
        except (LookupError, TypeError, ValueError, AttributeError, SfumatoError) as error:
            raise ReleaseFormatError("what the release says of itself in words is not as it should be.") from error

    def list_lines(self) -> Iterator[str]:
        """Licence and contact for people."""
        if self.licence:
            yield f"Licence: {self.licence}"
        if self.contact:
            yield f"Contact: {self.contact}"


def check_texts(description: Description) -> None:
    """Refuse what is no text, is long, or would steer a terminal or hide in a line."""
    texts = {
        "title": description.title,
        "description": description.description,
        "licence": description.licence,
        "contact": description.contact,
    }
    named_texts: Iterable[tuple[str, object]] = (*texts.items(), *description.columns.items())
    for name, text in named_texts:
        longest = LONGEST_TITLE if name in ("title", "licence", "contact") else LONGEST_TEXT
        if not isinstance(text, str) or len(text) > longest:
            raise SpecError(f"{name!r} of the description is longer than {longest:,} letters, or no text; shorten it.")
        if UNPRINTABLE.search(text):
            raise SpecError(f"{name!r} of the description has characters that cannot be seen; leave them out.")


def _join_lines(texts: Mapping[str, str]) -> dict[str, str]:
    """Texts of one line each, however they are broken in the file."""
    return {name: " ".join(text.split()) for name, text in texts.items()}


def _take_only_item(items: Iterable[JsonView]) -> Json:
    (item,) = items
    return dict(item)


NO_DESCRIPTION = Description()
