"""The notice that a key is not kept, in the words of the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato._request.warnings import Notice
from sfumato.cli.options import PrintOptions

if TYPE_CHECKING:
    from sfumato import Publication

CODE = "key-not-kept"
KEY_NOT_KEPT = (
    "The key of this release was not kept. Publishing the table again creates an independent second release; together "
    "the two reveal more than either guarantees. To repeat a release instead, name a file that only you can read "
    "(--plan-file FILE)."
)


def take_notices(printed: PrintOptions, show: Callable[[Notice], None]) -> Callable[[Notice], None]:
    """Show notices at once; that of the key stands with the result, where people read it."""

    def take(notice: Notice) -> None:
        if not printed.quiet and (notice.code != CODE or printed.as_json):
            show(reword(notice))

    return take


def reword(notice: Notice) -> Notice:
    """Name the option of the command in the notice of the key, and leave all others as they are."""
    return replace(notice, sentence=KEY_NOT_KEPT) if notice.code == CODE else notice


def reword_all(publication: Publication) -> Publication:
    """The same for all notices of a publication."""
    return replace(publication, notices=tuple(map(reword, publication.notices)))


def is_kept(publication: Publication) -> bool:
    """Whether the key was kept, or was known before."""
    return all(notice.code != CODE for notice in publication.notices)
