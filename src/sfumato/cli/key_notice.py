"""The notice that a key is not kept, in the words of the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato._request.warnings import Notice
from sfumato.cli.options import PrintOptions

if TYPE_CHECKING:
    from sfumato import Publication

KEY_NOTICE_CODE = "key-not-kept"
KEY_NOT_KEPT = (
    "The key of this release was not kept. Publishing the table again creates an independent second release; together "
    "the two reveal more than either guarantees. To repeat a release instead, name a file that only you can read "
    "(--plan-file FILE)."
)


def make_notice_handler(print_options: PrintOptions, show: Callable[[Notice], None]) -> Callable[[Notice], None]:
    """Show notices at once; that of the key stands with the result, where people read it."""

    def handle(notice: Notice) -> None:
        if not print_options.quiet and (notice.code != KEY_NOTICE_CODE or print_options.as_json):
            show(reword(notice))

    return handle


def reword(notice: Notice) -> Notice:
    """Name the option of the command in the notice of the key, and leave all others as they are."""
    return replace(notice, sentence=KEY_NOT_KEPT) if notice.code == KEY_NOTICE_CODE else notice


def reword_all(publication: Publication) -> Publication:
    """The same for all notices of a publication."""
    return replace(publication, notices=tuple(map(reword, publication.notices)))


def has_kept_key(publication: Publication) -> bool:
    """Whether the key was kept, or was known before."""
    return all(notice.code != KEY_NOTICE_CODE for notice in publication.notices)
