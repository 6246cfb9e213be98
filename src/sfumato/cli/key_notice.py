"""Shows the notice "no key was kept" below the result of the command."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sfumato._request.warnings import Notice
from sfumato.cli.options import PrintOptions

if TYPE_CHECKING:
    from sfumato import Publication

KEY_NOTICE_CODE = "key-not-kept"


def make_notice_handler(print_options: PrintOptions, show: Callable[[Notice], None]) -> Callable[[Notice], None]:
    """Makes a handler that shows notices at once, except the notice about the key, which follows the result."""

    def handle(notice: Notice) -> None:
        if not print_options.quiet and (notice.code != KEY_NOTICE_CODE or print_options.as_json):
            show(notice)

    return handle


def find_key_notice(publication: Publication) -> Notice | None:
    """The notice that no key was kept. None if a plan file keeps the key."""
    return next((notice for notice in publication.notices if notice.code == KEY_NOTICE_CODE), None)
